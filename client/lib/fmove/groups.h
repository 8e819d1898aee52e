/* SPDX-License-Identifier: MIT */
/* fmove/groups.h - what many put gets its place in one step. See <fmove.h>. */
#ifndef FMOVE_GROUPS_H
#define FMOVE_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "files.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Who begins a group for a path draws an ID, a secret that he gives to those who put its members:
 * files and trees below that path, with that ID in their options. Nothing of them is seen before
 * the commit. Several destinations have a group each, of one ID.
 */

#define FMOVE_GROUP_ID_LEN 32		/* hexadecimal digits */

/* Zero-initialise but for struct_size; what is zero is not said. */
struct fmove_group_options {
	size_t struct_size;
	bool may_replace;		/* a directory that has the path */
	/* What is expected. A commit says it, or relies on what was said when it was begun. */
	uint32_t members;		/* names directly below the path */
	const char *expect;		/* paths below it, one a line */
	uint64_t expires_ms;		/* begin: it ends then; 0: as the store says (group_keep) */
};

/* Draw an ID. */
void fmove_group_id(char id[FMOVE_GROUP_ID_LEN + 1]);

/*
 * -EEXIST: another group was begun for the path, or it is there and may not be replaced. -EDQUOT:
 * the user has as many open in the store as it allows (stores.group_limit); those that were open
 * before the node's daemon started count when it has looked through the store.
 */
int fmove_group_begin(struct fmove *c, const struct fmove_name *name, const char *id,
		      const struct fmove_group_options *opts, struct fmove_error *err);

/* Members: how many, and what they are called. Stays as it is. */
struct fmove_group_members {
	uint32_t count;
	/* the first of them, below the path, one a line; none that has a line break */
	char names[513];
};

/*
 * Publish the members by one rename, which is on the disk when the call returns (if the store is
 * durable). -ENODATA: some are missing, or others came; -EBUSY: some still come; err names them.
 * -ENOENT: no group of it goes on. A group that was committed is committed again with 0. check:
 * whether a commit would do it now, and nothing else. opts may be NULL. missing may be NULL; else
 * it says which are missing; of a number that was expected it has no names.
 */
int fmove_group_check(struct fmove *c, const struct fmove_name *name, const char *id,
		      const struct fmove_group_options *opts, struct fmove_group_members *missing,
		      struct fmove_error *err);
int fmove_group_commit(struct fmove *c, const struct fmove_name *name, const char *id,
		       const struct fmove_group_options *opts, struct fmove_group_members *missing,
		       struct fmove_error *err);

/* End it, with all that came. */
int fmove_group_discard(struct fmove *c, const struct fmove_name *name, const char *id,
			struct fmove_error *err);

/* An open group; nobody but who begins it is told its ID. */
struct fmove_group {
	size_t struct_size;
	char path[FMOVE_PATH_MAX + 1];	/* below the store */
	char peer[65];			/* whose user began it; "": of the store's node */
	uint32_t uid;
	int64_t begun_ns;		/* since 1970 */
	int64_t expires_ns;
	bool may_replace;
	uint32_t members;		/* names that are expected; 0: not said */
	/* missing: of those that were said to be expected when it was begun */
	struct fmove_group_members there, coming, missing;
};

/*
 * The open groups of a store that the caller may read, in the order of their paths; name->path is
 * not looked at. The node looks through the whole store. each() returns false to end it. A node
 * that tells of more than FMOVE_GROUPS_MAX: -EPROTO, behind those.
 */
#define FMOVE_GROUPS_MAX 16384		/* many times what is open in a store */
int fmove_groups(struct fmove *c, const struct fmove_name *name,
		 bool (*each)(void *ctx, const struct fmove_group *group), void *ctx,
		 struct fmove_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
