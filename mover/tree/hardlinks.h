/* SPDX-License-Identifier: MIT */
/*
 * hardlinks - files of several names, by inode, with the name under which each was met first.
 *
 * At most FM_TREE_HARDLINKS_MAX are remembered, with FM_TREE_HARDLINK_PATHS_MAX bytes of names. Not
 * thread-safe.
 */
#ifndef FM_TREE_HARDLINKS_H
#define FM_TREE_HARDLINKS_H

#include <stddef.h>
#include <stdint.h>

struct fm_hardlink;

struct fm_hardlinks {
	struct fm_hardlink **buckets;	/* NULL until the first */
	size_t count;
	size_t paths_len;		/* of their names */
};

/*
 * Path is a name of the inode. NULL and *ret 0: the first one, now remembered (or asked again for
 * it). Else the first one, of *first_len bytes, terminated, until free(). NULL and -ENOSPC: not
 * remembered, there are too many. NULL and -ENOMEM.
 */
const char *fm_hardlinks_meet(struct fm_hardlinks *h, uint64_t dev, uint64_t ino, const char *path,
			      size_t *first_len, int *ret);

void fm_hardlinks_free(struct fm_hardlinks *h);

#endif
