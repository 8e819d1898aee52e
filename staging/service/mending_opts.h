/* SPDX-License-Identifier: MIT */
/*
 * mending_opts - what of a dataset is to be mended, for those who try one after the other (mending,
 * borrow), and a file for what comes.
 */
#ifndef FM_STAGE_MENDING_OPTS_H
#define FM_STAGE_MENDING_OPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/store/store.h"
#include "staging/cache.h"
#include "staging/mend.h"

struct fm_err;
struct fm_stage_check_run;
struct fm_stager;

struct fm_mending_chunk {
	const char *path;	/* of its file, below the dataset */
	struct fm_stage_bad bad;
	bool is_mended;		/* said at the end, with the node that its bytes came from */
	char from[FM_CACHE_NODE_MAX + 1];
};

struct fm_mending_opts {
	struct fm_stager *stager;
	const char *job;	/* what comes, and is held for it, is logged under; NULL: none */
	const char *name;	/* of the dataset; */
	const char *source;	/* ... staging/key.h has its forms */
	struct fm_cache_key listing;	/* of the dataset */
	bool is_file;		/* the dataset is that file */
	int root;		/* the dataset's directory */
	struct fm_who who;
	struct fm_mending_chunk *chunks;	/* those of a file one behind the other */
	unsigned count;
	struct fm_stage_check_run *run;		/* that it is for, and ends with */
};

/* A file without a name in the cache's directory, for so many bytes, for which room is made.
 * Worker. Negative: there is none. */
int fm_mending_file(struct fm_stager *stager, uint64_t size, struct fm_err *err);

#endif
