/* SPDX-License-Identifier: MIT */
/*
 * log_file - a log that is a file is written by a process of its own.
 *
 * The disk of a file may hang, and a write there is waited for, also by who ends: a thread that has
 * a line would stand still, and what a process has open stays open as long as one of its threads
 * does. So standard error becomes a socket, of which a child copies what comes to the file. A line
 * for which there is no room is lost and counted (log.h).
 */
#ifndef FM_BASE_LOG_FILE_H
#define FM_BASE_LOG_FILE_H

/*
 * Before there is a thread. Where standard error is no file, and where it cannot be done, it stays
 * as it is. The child goes when nobody is left who could write to standard error.
 */
void fm_log_file_begin(void);

/* Before the process ends: waits until all is in the file, for two seconds at most. */
void fm_log_file_end(void);

#endif
