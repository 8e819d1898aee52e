/* SPDX-License-Identifier: MIT */
/*
 * link_tree - a tree of real directories with symbolic links to what is staged, for programs that
 * write beside their data.
 *
 * It is made by us, with the caller's rights, below a directory that did not exist, or was empty
 * and is ours. While it is made there is FM_LINK_MARK in it, a link to the copy: a later call goes
 * on with what an interrupted one left. Where the tree is whole already, with whatever else is
 * beside the links, nothing is changed. All else is refused; nothing that is there is ever removed
 * or replaced. Two calls for one directory wait for each other.
 */
#ifndef FM_CLIENT_LINK_TREE_H
#define FM_CLIENT_LINK_TREE_H

#include <stddef.h>
#include <stdint.h>

struct fm_err;

#define FM_LINK_MARK ".fmove.linking"

/* What can be refused before anything is staged. */
int fm_link_tree_check(const char *dir, struct fm_err *err);

/*
 * staged: absolute; a directory, or a file, whose link then has its name in dir. out: dir, or that
 * link, as an absolute path. -ECANCELED: fm_is_interrupted(). Files are counted in *links.
 */
int fm_link_tree(const char *staged, const char *dir, char *out, size_t cap, uint64_t *links,
		 struct fm_err *err);

#endif
