/* SPDX-License-Identifier: MIT */
/*
 * verify - what is stored is read again, from the disk, and compared with what was kept when it
 * came: the digests of files (mover/tree/digest.h), and the manifests of trees
 * (mover/tree/manifest.h).
 *
 * One thread verifies; any other may look, take findings, stop it.
 */
#ifndef FM_STORE_VERIFY_H
#define FM_STORE_VERIFY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/base/list.h"

struct fm_err;

#define FM_VERIFY_FINDINGS_MAX 256	/* that wait to be taken; the verifying thread waits then */

enum fm_finding_kind {
	/* size and time are those it came with, the content is not */
	FM_FINDING_CORRUPT = 1,
	FM_FINDING_UNREADABLE = 2,
	/* neither are: somebody wrote to it, cut it off, or does so now */
	FM_FINDING_CHANGED = 3,
	FM_FINDING_MISSING = 4,		/* a name of its tree's manifest that is not there */
	/* a whole file, but another one than the manifest has under that name */
	FM_FINDING_SWAPPED = 5,
};

/* A file that is not what it was, or cannot be read. */
struct fm_finding {
	struct fm_list at;
	enum fm_finding_kind kind;
	/* of the first block that differs (digest.h), or byte that cannot be read */
	uint64_t offset;
	/* the blocks that differ there, what cannot be read, what is missing; 0: not known */
	uint64_t length;
	char path[];			/* below the store, terminated */
};

struct fm_verify_count {
	/* looked at: all of the following, and those that are well */
	uint64_t files;
	uint64_t bytes;			/* read */
	uint64_t corrupt;
	uint64_t unreadable;
	uint64_t changed;
	uint64_t missing;
	uint64_t swapped;
	uint64_t without;		/* no digest was kept */
	/* in a directory that was asked for, and no manifest names it: nobody knows what was
	 * beside it */
	uint64_t unlisted;
};

struct fm_verify {
	pthread_mutex_t lock;
	pthread_cond_t taken;
	struct fm_list findings;
	unsigned waiting;
	struct fm_verify_count count;
	bool is_stopped;
};

void fm_verify_init(struct fm_verify *v);

/* Findings that were not taken are freed. */
void fm_verify_destroy(struct fm_verify *v);

/* The verifying call returns -ECANCELED soon. */
void fm_verify_stop(struct fm_verify *v);

void fm_verify_look(struct fm_verify *v, struct fm_verify_count *out);

/* The oldest finding, the caller's to free(); NULL: none now. */
struct fm_finding *fm_verify_take(struct fm_verify *v);

/*
 * Verify the file or directory with that (checked) path below root, a store's. 0 also when
 * something was found; an error is one of looking at all: it is not there and nothing says that it
 * should be, memory, -ECANCELED.
 */
int fm_verify_run(struct fm_verify *v, int root, const char *path, struct fm_err *err);

#endif
