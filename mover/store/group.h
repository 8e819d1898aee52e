/* SPDX-License-Identifier: MIT */
/*
 * group - a publication group: files and trees that come from many callers, and get their place in
 * one step.
 *
 *   .fmove.<16 hex>.group/   beside the name that the group gets; the digits are a hash of it, so
 *                            that there is one group for a name
 *     .fmove.record          group_record.h
 *     members/               what the group gets its name with
 *
 * Happy path: begin makes the directory under another name and renames it; each member is put into
 * members/ as any file or tree is; commit finds all that is expected, and renames members/. What
 * stays of the directory tells a second commit that it was done, until the group's time is over.
 * An existing target is exchanged with members/, and goes aside as a replaced tree does.
 * A crash at any moment: the inode of members/ is in the record, so whoever looks next knows
 * whether the rename was made, and puts a replaced tree aside.
 * Failure modes: the name is another group's: -EEXIST; the same group begun again is no failure,
 * since the first answer may have been lost. The ID, or the user, is another: -EPERM. No group, one
 * that is over or was committed: -ENOENT (to discard the latter: -EEXIST). Members still come:
 * -EBUSY. Some are missing: -ENODATA. Members came without a sync, and that of the commit failed:
 * -EIO, for ever (group_watch.h). The same where the machine was started anew since they came.
 *
 * Worker threads. The paths are checked, and the caller may write to the store.
 */
#ifndef FM_STORE_GROUP_H
#define FM_STORE_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/store/store.h"

struct fm_err;
struct fm_group_use;
struct fm_path_parent;
struct fm_store_dir;

/* What is asked of the group that has, or is to get, that path. */
int fm_group_do(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
		const struct fm_group_ask *ask, struct fm_err *err);

/* A member that comes. Lent for the call. */
struct fm_group_member {
	const char *path;
	const struct fm_who *who;
	const uint8_t *id;		/* FM_GROUP_ID_LEN bytes */
	/* it gets its name only when it is on the disk; else that is written down of the group */
	bool is_synced;
};

/*
 * A member comes: where it goes, below the store. *out keeps the group from being committed, until
 * fm_group_let_go().
 */
int fm_group_enter(struct fm_store_dir *dir, const struct fm_group_member *member,
		   char place[static FM_PATH_LEN_MAX + 1], struct fm_group_use **out,
		   struct fm_err *err);

/*
 * In what failed, names the member, and what is below it, as it was named, and not by the place
 * where it is until the commit. NULL: it is no member.
 */
void fm_group_name_as_asked(const struct fm_group_use *use, struct fm_err *err);

/*
 * What comes is of no group. -EBUSY: it would make the directory that an open group gets its place
 * under, which could not be committed any more.
 */
int fm_group_stay_out(struct fm_store_dir *dir, const char *path, struct fm_err *err);

/*
 * What a group was published as has been removed: nobody commits it again, and what is kept for
 * that goes as well. A group that goes on stays, and one that was published there meanwhile. Best
 * effort: the sweep does it later.
 */
void fm_group_forget(struct fm_store_dir *dir, const struct fm_path_parent *parent,
		     const char *path);

/*
 * For a store's sweep: ends a group whose time is over, and counts one that goes on. 1: it is gone.
 * 0: it stays, or was none. An error: what it is cannot be known just now.
 */
int fm_group_sweep(struct fm_store_dir *dir, int parent, const char *name, const char *path);

#endif
