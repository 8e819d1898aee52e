/* SPDX-License-Identifier: MIT */
/* group_commit - the members of a group get their place (group.h), if all have come. Workers. */
#ifndef FM_STORE_GROUP_COMMIT_H
#define FM_STORE_GROUP_COMMIT_H

#include "mover/store/group_dir.h"

/* FM_GROUP_CHECK and FM_GROUP_COMMIT, of a group that the caller has alone. */
int fm_group_commit(struct fm_store_dir *sd, const char *path, const struct fm_path_parent *parent,
		    struct fm_group_dir *g, const struct fm_group_ask *ask, struct fm_err *err);

/* The name that the group got is on the disk, in a store that is durable. */
int fm_group_sync_place(struct fm_store_dir *sd, const char *path,
			const struct fm_path_parent *parent, const struct fm_group_dir *g,
			struct fm_err *err);

/* Whether all have come that are expected: -ENODATA, and err names the others. */
int fm_group_check_members(const struct fm_group_dir *g, const struct fm_group_ask *ask,
			   struct fm_err *err);

/* Which members are there, and which are missing of what was expected when it was begun. */
int fm_group_look_members(const struct fm_group_dir *g, struct fm_group_view *out,
			  struct fm_err *err);

/* Whether something has the group's name that the group must not replace. */
int fm_group_check_target(const struct fm_path_parent *parent, const char *path, bool may_replace,
			  struct fm_err *err);

#endif
