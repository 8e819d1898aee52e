/* SPDX-License-Identifier: MIT */
/* leads_out - symbolic links that point to something outside of the tree they are in. */
#ifndef FM_TREE_LEADS_OUT_H
#define FM_TREE_LEADS_OUT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a link at that path below a tree's root leads out of the tree: an absolute target does,
 * and one with more ".." than there are directories around it. By the names alone: no link on the
 * way is followed.
 */
bool fm_leads_out(const char *path, size_t path_len, const char *target, size_t target_len);

#endif
