/* SPDX-License-Identifier: MIT */
/*
 * names - which names of a tree a transfer adds, replaces and removes, in pages.
 *
 * A page is names one behind the other, each: 1 byte change (enum fm_tree_change), 2 bytes length
 * (little-endian), and the path below the root of the tree: 1 .. FM_TREE_PATH_MAX bytes, none of
 * them NUL; "." is the root. A page that comes from outside is hostile: fm_tree_names_next() looks
 * at each name before it gives it out.
 */
#ifndef FM_TREE_NAMES_H
#define FM_TREE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define FM_TREE_NAMES_LEN 16384u	/* bytes of a page */
#define FM_TREE_NAME_HEAD 3u

enum fm_tree_change { FM_TREE_ADDED = 1, FM_TREE_REPLACED = 2, FM_TREE_REMOVED = 3 };

struct fm_tree_names {
	size_t len;			/* 0: there are no more */
	uint8_t at[FM_TREE_NAMES_LEN];
};

struct fm_tree_name {
	enum fm_tree_change change;
	const char *path;		/* in the page; not terminated */
	size_t len;
};

/* The name at *pos, which moves behind it. 1; 0: there was none; -EBADMSG. */
int fm_tree_names_next(const uint8_t *at, size_t len, size_t *pos, struct fm_tree_name *out);

#endif
