/* SPDX-License-Identifier: MIT */
/*
 * exclude - which names of a tree are left out.
 *
 * Patterns are those of fnmatch(3). One without '/' is compared with the last component at any
 * depth; one with '/' with the whole path below the root, where '*' and '?' match no '/'. A leading
 * '/' only says that it begins at the root. A trailing '/' makes it match directories only. What is
 * below an excluded directory is never asked for: it is not entered.
 *
 * Any thread may ask; the patterns do not change.
 */
#ifndef FM_TREE_EXCLUDE_H
#define FM_TREE_EXCLUDE_H

#include <stdbool.h>
#include <stddef.h>

#include "mover/tree/tree.h"

struct fm_err;

struct fm_exclude {
	struct fm_exclude_pattern {
		char *text;		/* without the slashes at its ends */
		bool is_path;
		bool is_for_dirs;
	} at[FM_TREE_EXCLUDES_MAX];
	size_t count;
	bool has_paths;			/* some pattern wants the path */
};

/* patterns: NULL-terminated, copied; or NULL. -EINVAL: an empty one; -E2BIG: too many, or too
 * long. */
int fm_exclude_init(struct fm_exclude *x, const char *const *patterns, struct fm_err *err);
void fm_exclude_free(struct fm_exclude *x);

/* path: below the root, name is its last component. path is looked at only if x->has_paths. */
bool fm_exclude_matches(const struct fm_exclude *x, const char *path, const char *name,
			bool is_dir);

#endif
