/* SPDX-License-Identifier: MIT */
/*
 * hub_dir - the directories of a hub, and how a name appears in them: what gets it is made beside
 * it first, and a crash leaves that behind at most. See hub.h.
 *
 * Worker, one at a time for a hub; waits for the disk. Errors are negative errnos.
 */
#ifndef FM_STAGE_HUB_DIR_H
#define FM_STAGE_HUB_DIR_H

#include <sys/types.h>

#define FM_HUB_NEW ".new"	/* in a repository's directory: what gets its name next */

/* A descriptor, the caller's; no link is followed. */
int fm_hub_dir_open(int parent, const char *name);

/* The same of one that is made if it does not exist; everybody may look into it. */
int fm_hub_dir_make(int parent, const char *name);

/* The same; parent is closed, whatever happens. */
int fm_hub_dir_enter(int parent, const char *name);

/* Removes what a crash may have left at FM_HUB_NEW. */
void fm_hub_dir_clear(int repository);

/*
 * Makes a file FM_HUB_NEW of that text, in the place of such a one, and syncs it. uid: for whom it
 * is, which stands beside the text where the file system has extended attributes; FM_HUB_NOBODY.
 */
#define FM_HUB_NOBODY ((uid_t)-1)
int fm_hub_dir_write(int repository, const char *text, mode_t mode, uid_t uid);

/* For whom the file is; FM_HUB_NOBODY: it does not say. */
uid_t fm_hub_dir_uid(int dir, const char *name);

/* Gives FM_HUB_NEW of the repository a name in dir, in the place of what is there, and syncs it. */
int fm_hub_dir_name(int repository, int dir, const char *name);

/* Calls fn for each entry of a directory, if it is there. fn may remove the entry. */
void fm_hub_dir_each(int parent, const char *name,
		     void (*fn)(int dir, const char *name, void *ctx), void *ctx);

#endif
