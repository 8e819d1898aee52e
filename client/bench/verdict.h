/* SPDX-License-Identifier: MIT */
/*
 * verdict - which stage of the way limits, in one sentence. Pure functions.
 *
 * A limit is named only beyond the noise: end to end is within a tenth of what the slowest stage
 * does alone, and the slowest repeat of the next stage is faster than the fastest of both. A path
 * that is not valid says nothing, but for two causes that noise does not hide: segments that are
 * lost, and processors that have nothing left.
 *
 * Processors limit an end if
 *  - its process used all that it may use; or
 *  - those were busy all the time, whatever with, and its threads waited for them: what else runs
 *    took the rest; or
 *  - one core was busy all the time and the end did as much as fills one: a single thread of it.
 */
#ifndef FM_BENCH_VERDICT_H
#define FM_BENCH_VERDICT_H

#include "client/bench/measure.h"

#define FM_BENCH_STAGES_MAX 8u
#define FM_BENCH_NEAR	    0.9	 /* of a ceiling: it is reached */
#define FM_BENCH_CORE_BUSY  0.95 /* a core that is this busy has nothing left */
#define FM_BENCH_ALL_BUSY   0.9	 /* all that a process may use: looking takes a part of the time */
#define FM_BENCH_WAITED	    0.25 /* threads that waited for a processor, in the mean */
#define FM_BENCH_LOSS	    0.005 /* of the segments were sent again: more than a full wire does */

struct fm_bench_stage {
	char name[FM_BENCH_TEXT_MAX];
	struct fm_bench_rates rates; /* alone */
	double hardware;	     /* bytes a second that its hardware allows; 0: not known */
};

/*
 * The stages of one way and what they do together. Which of them is the limit, -1: none can be
 * named. What it says goes into out. processors: "one processor, 98 % busy", those of an end that
 * had nothing left; "": no end's.
 */
int fm_bench_verdict(const struct fm_bench_stage *stages, size_t count,
		     const struct fm_bench_rates *end_to_end,
		     const char *processors, char out[static FM_BENCH_TEXT_MAX]);

/*
 * The sentence for a whole run, into bench->verdict: of the first put from a file, else of the
 * fastest path to a peer, else of the disks. hardware: what ports allow, bytes a second; 0: not
 * known.
 */
void fm_bench_conclude(struct fm_bench *bench, double hardware);

#endif
