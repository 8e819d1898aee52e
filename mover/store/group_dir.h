/* SPDX-License-Identifier: MIT */
/* group_dir - the directory of a group (group.h): found, looked at, made and removed. For group.c
 * and group_commit.c. */
#ifndef FM_STORE_GROUP_DIR_H
#define FM_STORE_GROUP_DIR_H

#include <stdbool.h>

#include "mover/store/group_record.h"
#include "mover/store/group_use.h"
#include "mover/store/path.h"

#define FM_GROUP_NAME_LEN 29		/* ".fmove.<16 hex>.group", without the NUL */
#define FM_GROUP_MEMBERS "members"
#define FM_GROUP_LOST ".fmove.lost"	/* a sync of the members failed */
#define FM_GROUP_UNSYNCED ".fmove.unsynced"	/* some came without one, since that boot */

struct fm_group_dir {
	int fd;
	char name[FM_GROUP_NAME_LEN + 1];
	struct fm_group_key key;
	struct fm_group_record record;
	bool is_open;			/* the members have not got their place yet ... */
	bool is_lost;			/* ... and never will: see fm_group_dir_lose() */
	bool is_stale;			/* the same: see fm_group_dir_note_unsynced() */
	bool is_synced;			/* each member that came was, before it got its name */
};

struct fm_err;
struct fm_store_dir;

/* Whether a directory may be of a group, by its name. */
bool fm_group_is_name(const char *name);

/* The name for the group of a final name. */
void fm_group_dir_name(const char *final, char out[static FM_GROUP_NAME_LEN + 1]);

/*
 * Opens the directory of that name. -ENOENT: there is none. -EPERM: it is not ours, or somebody
 * gave it that name. Its record is not read yet.
 */
int fm_group_dir_open(int parent, const char *name, struct fm_group_dir *out);

/* Reads the record. -EBADMSG: it has none that counts. */
int fm_group_dir_read(struct fm_group_dir *g, struct fm_err *err);

/*
 * Whether what has that name is the directory that had the group's members. 0: another one, which
 * may have its inode's number by now. -ENOENT: nothing has the name. The record was read.
 */
int fm_group_dir_is_at(const struct fm_group_dir *g, int parent, const char *name);

void fm_group_dir_close(struct fm_group_dir *g);

/*
 * A sync of its members failed, with `why`. The kernel takes what could not be written for clean
 * afterwards, so the next sync says nothing of it: nobody commits the group any more, also after a
 * crash if the disk takes the note of that.
 */
void fm_group_dir_lose(struct fm_group_dir *g, const char *path, int why);

/*
 * A member comes that gets its name before it is on the disk. Once the machine has been started
 * anew its name may be there, and its bytes are not: nobody commits the group then. In a durable
 * store waits for the disk, once for each group: until the disk has taken the note each member
 * writes it anew, since what another one has written may never come there.
 */
int fm_group_dir_note_unsynced(struct fm_store_dir *sd, const struct fm_group_dir *g,
			       struct fm_err *err);

/*
 * Its members have their place. Where the commit has synced nothing it is watched on, since a link
 * may be led there (lead.h).
 */
void fm_group_dir_published(struct fm_store_dir *sd, const struct fm_group_dir *g);

/* 0, or -EIO, and err says what to do. */
int fm_group_dir_check_lost(const struct fm_group_dir *g, const char *path, struct fm_err *err);

bool fm_group_dir_is_over(const struct fm_group_dir *g);

/* "uid 1000 of n1, 300 s ago" */
struct fm_group_begun {
	char text[160];
};
void fm_group_dir_begun(const struct fm_group_dir *g, struct fm_group_begun *out);

/*
 * Puts aside what a commit replaced, if it is still in the directory. path: of the group's name,
 * below the store; it tells where what is put aside is.
 */
int fm_group_dir_settle(struct fm_store_dir *sd, int parent, const char *path,
			const struct fm_group_dir *g);

/* Removes the directory with all that came. The caller has the group alone. */
int fm_group_dir_remove(struct fm_store_dir *sd, int parent, const struct fm_group_dir *g);

#endif
