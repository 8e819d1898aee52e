/* SPDX-License-Identifier: MIT */
/*
 * descent - every name below a directory, however deep it is and however long its paths are.
 *
 * It goes by descriptors, without paths: 16 directories are open at most, and of each one further
 * up 40 bytes remember where to read on. So what no path can name is looked through, too. Links
 * are not followed, nothing is changed; what is mounted in it is not entered.
 *
 * A directory that its owner, who asks, may not enter has another mode while it is looked through.
 * Nobody else may more for that.
 */
#ifndef FM_TREE_DESCENT_H
#define FM_TREE_DESCENT_H

#include <stdbool.h>

#define FM_DESCENT_DEPTH_MAX (1u << 18)	/* directories in one another: 10 MiB of memory */

struct fm_descent;

struct fm_descent_at {
	int dir;		/* where name is; both are valid until the next call */
	const char *name;
	bool is_dir;
};

/* Below the directory of that name in parent. -ENOENT, -ENOTDIR, -ELOOP: there is no directory. */
int fm_descent_begin(int parent, const char *name, struct fm_descent **out);

/*
 * 1 and the next name; 0: there are no more. After an error the rest is unknown: -ESTALE if a
 * directory changed while one below it was looked through.
 */
int fm_descent_next(struct fm_descent *d, struct fm_descent_at *out);

/* Into the directory that was met last: its names come next. 0 too if it is none any more. */
int fm_descent_enter(struct fm_descent *d, const struct fm_descent_at *at);

/* Each directory has the mode that it had. NULL is ignored. */
void fm_descent_end(struct fm_descent *d);

#endif
