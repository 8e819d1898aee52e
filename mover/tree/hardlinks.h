/* SPDX-License-Identifier: MIT */
/*
 * hardlinks - files of several names, with the name under which each was met first.
 *
 * At most FM_TREE_HARDLINKS_MAX are remembered, with FM_TREE_HARDLINK_PATHS_MAX bytes of names. Not
 * thread-safe.
 */
#ifndef FM_TREE_HARDLINKS_H
#define FM_TREE_HARDLINKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct fm_hardlink;

/*
 * Which file a name leads to. The inode alone does not tell: when the last name of a file goes
 * while a tree is read, the next file may get its inode; and what was written to a file since its
 * first name was read came with no name.
 */
struct fm_hardlink_id {
	uint64_t dev, ino, size;
	int64_t mtime_ns;
	int64_t born_ns;		/* 0: the file system does not say */
};

struct fm_hardlinks {
	struct fm_hardlink **buckets;	/* NULL until the first */
	size_t count;
	size_t paths_len;		/* of their names */
};

/*
 * Of the file that has that stat. dir, name and flags are as for statx(2), which is asked when it
 * was made; whoever does not want to know that passes a dir of -1.
 */
void fm_hardlinks_id(const struct stat *st, int dir, const char *name, int flags,
		     struct fm_hardlink_id *out);

/*
 * Path is a name of that file. NULL and *ret 0: the first one, now remembered (or asked again for
 * it). Else the first one, of *first_len bytes, terminated, until free(). NULL and -ENOSPC: not
 * remembered, there are too many. NULL and -ENOMEM.
 */
const char *fm_hardlinks_meet(struct fm_hardlinks *h, const struct fm_hardlink_id *id,
			      const char *path, size_t *first_len, int *ret);

void fm_hardlinks_free(struct fm_hardlinks *h);

#endif
