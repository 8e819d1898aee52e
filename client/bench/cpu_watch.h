/* SPDX-License-Identifier: MIT */
/*
 * cpu_watch - what a repeat costs at both ends: looks before and after it.
 *
 * Here /proc is read; a peer is asked for the file "cpu" of its store for measuring. One thread.
 */
#ifndef FM_BENCH_CPU_WATCH_H
#define FM_BENCH_CPU_WATCH_H

#include <sys/types.h>

#include "client/bench/measure.h"
#include "client/lib/fmove.h"
#include "mover/base/cpu_time.h"
#include "mover/base/err.h"

#define FM_CPU_ASK_MS 30000u /* how long a peer may take to answer */

struct fm_cpu_watch {
	pid_t pid;	    /* whose process counts here, with its children */
	struct fmove *conn; /* to ask the peer; NULL: there is none */
	const char *peer;
	/* fm_cpu_watch's own: */
	struct fm_cpu_time here, there;
	struct fm_err why_here, why_there;
	uint64_t asked_bytes;
};

/* Who listens at the local API's socket; 0: nobody, or he does not say. */
pid_t fm_cpu_daemon(void);

/* What a peer's processors did, by its own word, and in how many bytes. -errno and *err. */
int fm_cpu_ask(struct fmove *conn, const char *peer, struct fm_cpu_time *out, uint64_t *bytes,
	       struct fm_err *err);

void fm_cpu_watch_begin(struct fm_cpu_watch *watch);
/* Added to what the path has already. */
void fm_cpu_watch_end(struct fm_cpu_watch *watch, struct fm_bench_path *path);

#endif
