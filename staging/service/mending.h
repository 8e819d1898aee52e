/* SPDX-License-Identifier: MIT */
/*
 * mending - damaged chunks of a dataset come again from its source.
 *
 * A file of a store of this node is read where it is. One of another node is fetched whole, into a
 * file without a name in the cache's directory, with the rights of who asks; what is not as the
 * manifest says is not taken. Control thread; what waits for a disk goes to the worker.
 */
#ifndef FM_STAGE_MENDING_H
#define FM_STAGE_MENDING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "mover/store/store.h"
#include "staging/mend.h"

struct fm_err;
struct fm_stager;

struct fm_mending_chunk {
	const char *path;	/* of its file, below the dataset */
	uint64_t file_size;	/* at least */
	struct fm_stage_bad bad;
	bool is_mended;		/* said at the end */
};

struct fm_mending_opts {
	struct fm_stager *stager;
	const char *source;	/* of the dataset: NODE:STORE/PATH */
	bool is_file;		/* the dataset is that file */
	int root;		/* the dataset's directory */
	struct fm_who who;
	struct fm_mending_chunk *chunks;	/* those of a file one behind the other */
	unsigned count;
	const atomic_bool *is_stopped;
};

/* All that opts points to stays until done(), which comes later. why: the first that could not be
 * mended; code 0: all were. */
int fm_mending_start(const struct fm_mending_opts *opts,
		     void (*done)(void *ctx, const struct fm_err *why), void *ctx,
		     struct fm_err *err);

#endif
