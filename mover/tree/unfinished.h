/* SPDX-License-Identifier: MIT */
/*
 * unfinished - what transfers that did not come to their end left in a directory: a caller's, or
 * one of a store.
 *
 * The partial file of a file, the staging directory of a tree, and a version of which something
 * is nowhere else (.kept): journal/partial.h, tree/staging.h. The next transfer of the same goes on
 * with the first two. In a caller's directory no daemon looks after them.
 *
 * Who else may write to that directory can give anything one of these names. So nothing goes but
 * what a journal of ours names by its inode, or is our file beside one of ours in which nothing is
 * yet, or has a lock file of ours; and nothing that somebody works on.
 */
#ifndef FM_TREE_UNFINISHED_H
#define FM_TREE_UNFINISHED_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/tree/staging.h"

struct fm_err;
struct fm_tree_freed;

struct fm_unfinished {
	char found[FM_STAGING_NAME_LEN + 1];	/* .fmove.HASH.part, .tree, .new or .kept */
	char name[FM_STAGING_FINAL_MAX + 1];	/* that it would get, or had; "": not known */
	int64_t changed_ns;			/* since 1970 */
	uint64_t bytes;				/* on the disk */
};

/*
 * 1: that name is an unfinished tree, or has the name of one. 0: it is none. A .new belongs to its
 * .tree.
 */
int fm_unfinished_look(int parent, const char *name, bool is_dir, struct fm_unfinished *u);

/* Each of them, until it says false. An error: not all could be looked at. */
int fm_unfinished_each(int parent,
		       bool (*each)(void *ctx, int parent, const struct fm_unfinished *u),
		       void *ctx, struct fm_err *err);

/*
 * It goes, so that the next transfer begins anew. is_dry: only whether it could. freed: as for
 * fm_tree_remove(). -EBUSY: a transfer
 * works on it. -ESTALE: a version that it replaced lies beside it. -EPERM: nothing of ours says
 * that it is what its name says, or it is a .kept: its owner looks himself.
 */
int fm_unfinished_remove(int parent, const struct fm_unfinished *u, bool is_dry,
			 const struct fm_tree_freed *freed, struct fm_err *err);

#endif
