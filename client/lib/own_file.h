/* SPDX-License-Identifier: MIT */
/*
 * own_file - another description of a file that a caller puts: the daemon moves the position of the
 * one that it is passed, to look for holes, and sets its flags, which belong to a description,
 * while the caller's may be in use, by another put, too, which takes a file that is not at its
 * start for the rest of it.
 *
 * Whoever closes any descriptor of a file gives up the locks (fcntl, lockf) that his process has of
 * it. So a file that has a lock gets none; and if one was taken meanwhile, by another thread or a
 * function that the call called, the description stays open until a later put finds the file
 * without one, and is forgotten if the caller has closed it. A lock that another thread takes
 * in the moment between that look and the close goes: no call closes only what has none.
 */
#ifndef FM_CLIENT_OWN_FILE_H
#define FM_CLIENT_OWN_FILE_H

/*
 * Of the file that fd has at its start, opened with the rights of this process; for
 * fm_own_file_close(). -1: it gets none, fd is something else, or somebody has a lock of the file.
 */
int fm_own_file_open(int fd);

/* -1 is allowed. Any thread, also of a child that was forked. */
void fm_own_file_close(int own);

#endif
