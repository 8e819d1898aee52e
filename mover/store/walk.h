/* SPDX-License-Identifier: MIT */
/*
 * walk - every name in a directory tree, without recursion and without following links.
 *
 * A directory is met twice: before its entries and, with is_leaving, behind them (so that it may be
 * removed then). Entries may be removed while the walk is at them. Worker threads.
 *
 * However deep and however long the paths are: what no path can name is met, too, by way of links
 * and renames any depth can be made. 1024 directories are open at most. Of the ones between the
 * outermost 512 and the innermost 512 some 50 bytes remember where to read on; a walk finds them
 * again by their "..", or, if something was moved meanwhile, leaves what is in them.
 */
#ifndef FM_STORE_WALK_H
#define FM_STORE_WALK_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FM_WALK_DEPTH_MAX (1u << 18)	/* directories in one another: 12 MiB of memory */

struct fm_walk_level {
	DIR *dir;			/* NULL: shelved, and this is where to read on: */
	long cookie;
	dev_t dev;
	ino_t ino;
	/* of the directory itself, in its parent; the root's is NULL */
	char *name;
	int mode;			/* that it gets back if it stays; -1: it was not changed */
};

struct fm_walk {
	struct fm_walk_level *levels;
	unsigned depth, cap;		/* levels open or shelved; allocated */
	struct fm_walk_level left;	/* what is_leaving lent out; all 0: nothing */
	/* Does not enter what is mounted: -EXDEV from fm_walk_next(), which has named it. False at
	 * first. */
	bool stays;
	/* What it may not enter it opens up: the tree goes. See fm_walk_start_removal(). */
	bool opens;
	/* A directory that it had closed for now was not found again: what was left in it was not
	 * met. */
	bool is_cut;
};

struct fm_walk_at {
	int dir;			/* where name is; valid until the next call */
	const char *name;		/* the same */
	bool is_dir;
	bool is_leaving;
};

/* Start in a directory; its descriptor is taken over, also on error. The directory itself is not
 * met. One that could not be started need not be ended. */
int fm_walk_start(struct fm_walk *walk, int dir);

/*
 * Start in the directory of that name in parent, which goes with all that is in it: what the walk
 * may not read or enter is opened to its owner, if this process is that. (In a store with owners
 * the service could change the modes of others, who lose by it.) It does not enter what is mounted,
 * and the directory itself may not be: -EXDEV. fm_walk_end() gives what has not gone by then its
 * mode back.
 */
int fm_walk_start_removal(struct fm_walk *walk, int parent, const char *name);

/*
 * 1 and the next entry, 0 at the end, -EOVERFLOW if it is too deep, or the error of reading. After
 * an error *out names the directory that was not entered, or that could not be read on, or found
 * again (-ESTALE and others), and was left (as no directory, so fm_walk_path() tells its path); the
 * next call goes on behind it.
 */
int fm_walk_next(struct fm_walk *walk, struct fm_walk_at *out);

/* Whether an error of fm_walk_next() is of one directory below the top, and says nothing of what is
 * behind it. */
bool fm_walk_goes_on(const struct fm_walk *walk, int ret);

/* Whether what was not entered is the directory that an ext4 has at its top for what fsck finds,
 * closed to all but root: it is nobody's. The walk has begun at the top of a store. */
bool fm_walk_is_lost_found(const struct fm_walk *walk, const struct fm_walk_at *at);

/* Whether an error says nothing of what was walked: this process or the machine lacks memory or
 * descriptors, for now. */
bool fm_walk_is_lack(int ret);

/* The directory that was met last, before its entries: pass over them. It is not met again. */
void fm_walk_skip(struct fm_walk *walk);

/* The path of what was met last, not left, below where the walk started; before fm_walk_skip().
 * -ENAMETOOLONG. */
int fm_walk_path(const struct fm_walk *walk, const struct fm_walk_at *at, char *out, size_t cap);

void fm_walk_end(struct fm_walk *walk);

/* Opens the directory in which something was met, or left, to its owner, in a removal: 0, or why
 * not. */
int fm_walk_open_up(struct fm_walk *walk);

#endif
