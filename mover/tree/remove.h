/* SPDX-License-Identifier: MIT */
/*
 * remove - a whole directory goes, however deep it is.
 */
#ifndef FM_TREE_REMOVE_H
#define FM_TREE_REMOVE_H

#include <stdint.h>

/* Told of the bytes of each regular file that went, as a negative number; NULL: nobody asks. */
struct fm_tree_freed {
	void (*used)(void *ctx, int64_t bytes);
	void *ctx;
};

/*
 * Remove what is under that name, all of it. No link is followed, no recursion, three descriptors
 * whatever the depth: a directory that is met in another one is first moved up to the top.
 * Directories that forbid it to their owner are allowed it first. What is mounted on a directory of
 * it stays: -EXDEV, or -EBUSY further down. 0 too if nothing is there. Several may remove the same
 * at once. After an error, what is left is still under that name; a later call goes on. Waits for
 * the disk; freed may be NULL.
 */
int fm_tree_remove(int dir, const char *name, const struct fm_tree_freed *freed);

/* The same of a directory with that inode. -ESTALE: something else has the name, and nothing is
 * removed. */
int fm_tree_remove_known(int dir, const char *name, uint64_t ino,
			 const struct fm_tree_freed *freed);

#endif
