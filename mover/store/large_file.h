/* SPDX-License-Identifier: MIT */
/*
 * large_file - a large file of a tree on its way into it: written as any sink, but made, logged and
 * sealed by the tree.
 *
 * Neither publish() nor discard() gives it a name or takes it away: both are the tree's business.
 */
#ifndef FM_STORE_LARGE_FILE_H
#define FM_STORE_LARGE_FILE_H

#include "mover/tree/tree.h"

struct fm_err;
struct fm_file;
struct fm_have;

/*
 * Worker. Have the tree make it: what is there of it from an earlier try goes to *have (zeroed
 * before; the caller's to free). The tree must outlive the file. how is copied.
 */
int fm_large_file_new(struct fm_tree *tree, const struct fm_tree_large *how, struct fm_file **out,
		      struct fm_have *have, struct fm_err *err);

#endif
