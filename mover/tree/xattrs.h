/* SPDX-License-Identifier: MIT */
/*
 * xattrs - the extended attributes of a file that is read, in the form in which a pack carries
 * them.
 */
#ifndef FM_TREE_XATTRS_H
#define FM_TREE_XATTRS_H

#include <stddef.h>
#include <stdint.h>

#include "mover/tree/tree.h"

/* Memory for reading extended attributes; large, so it is kept for the next file. */
struct fm_xattrs {
	uint8_t packed[FM_TREE_XATTRS_MAX];
	size_t len;
	char names[64 << 10];		/* as many as the kernel lists */
};

/*
 * Reads the attributes of fd that may be sent into x->packed, x->len. 0 also where the file system
 * has none. -E2BIG: more than FM_TREE_XATTRS_MAX bytes; or another -errno.
 */
int fm_xattrs_read(struct fm_xattrs *x, int fd);

#endif
