/* SPDX-License-Identifier: MIT */
/*
 * run - measures what was asked for, path after path, into one measurement.
 *
 * A path that fails is one line on standard error and a path without numbers; the others are
 * measured all the same. One thread but for both directions at once.
 */
#ifndef FM_BENCH_RUN_H
#define FM_BENCH_RUN_H

#include "client/bench/measure.h"
#include "client/bench/rails.h"
#include "client/lib/fmove.h"

struct fm_err;

#define FM_RUN_PEERS_MAX 32u
#define FM_RUN_DIRS_MAX	 64u
#define FM_RUN_VERB	 "bench"

struct fm_run {
	/* What is asked for. */
	bool wants[FM_BENCH_KINDS];
	const char *peers[FM_RUN_PEERS_MAX];
	size_t peer_count;
	char *dirs[FM_RUN_DIRS_MAX]; /* for disk, and what a put is read from */
	size_t dir_count;
	char *device; /* of a volume, to be read; NULL */
	enum fmove_transport transport;
	unsigned repeats;
	double seconds;
	uint64_t file_bytes;
	struct fm_rails_wanted only; /* of rdma, tcp: this alone, and what is sent alone */
	bool is_thorough, is_quiet;
	/* one depth, no latencies of puts and no part of a wire alone, so that all of it takes a
	 * minute */
	bool is_brief;
	/* What is there. */
	struct fmove *conn; /* NULL: no daemon is needed */
	struct fm_bench *bench;
	int first_error; /* of the first path that failed; 0 */
};

/* Only no memory, or a signal (-ECANCELED), ends it early. */
int fm_run_all(struct fm_run *run, struct fm_err *err);

#endif
