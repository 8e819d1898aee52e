/* SPDX-License-Identifier: MIT */
/*
 * deferred - entries of a tree that are done at its end: hard links, directories' modes and times,
 * attributes of large files. They are kept in a file, so that memory does not grow with the tree.
 *
 * The file is packs (pack.h) one behind the other. Nothing of it outlives the transfer.
 */
#ifndef FM_TREE_DEFERRED_H
#define FM_TREE_DEFERRED_H

#include <pthread.h>
#include <stdint.h>

#include "mover/tree/pack.h"

/* of the file: some 10 million directories */
#define FM_DEFERRED_BYTES_MAX (UINT64_C(1) << 30)

struct fm_deferred {
	pthread_mutex_t lock;
	int fd;
	void *buf;			/* what is not in the file yet */
	struct fm_pack_writer writer;
	uint64_t bytes;			/* in the file */
	uint64_t added[FM_PACK_ATTR + 1];	/* entries of each type */
};

/* Takes fd over, an empty file open for reading and writing; also on error. */
int fm_deferred_open(struct fm_deferred *d, int fd);
void fm_deferred_close(struct fm_deferred *d);

/* Any thread. DIR, HARD or ATTR. -EFBIG: too many. */
int fm_deferred_add(struct fm_deferred *d, const struct fm_pack_entry *e);

/* visit() for each, in the order in which they came, until it returns an error. One thread, and
 * nobody adds. */
int fm_deferred_each(struct fm_deferred *d, int (*visit)(void *ctx, const struct fm_pack_entry *e),
		     void *ctx);

#endif
