/* SPDX-License-Identifier: MIT */
/*
 * verdict - which stage of the way limits, in one sentence. Pure functions.
 *
 * A limit is named only beyond the noise: end to end is within a tenth of what the slowest stage
 * does alone, neither less nor more, and the slowest repeat of the next stage is faster than the
 * fastest of both. A path that is not valid says nothing, but for two causes that noise does not
 * hide: processors that have nothing left, and segments that are lost.
 *
 * Processors limit an end if it wanted them all the time. Who waits for the wire or a disk sleeps,
 * so such an end was held up by nothing else:
 *  - its process used all that it may use; or
 *  - those were busy all the time, whatever with, by the kernel's count or by what the process
 *    alone had of them, and its threads, running or waiting to run, would have filled them: what
 *    else runs took the rest; or
 *  - one thread of it ran, or waited to run, all the time; or
 *  - one core did nothing but softirqs.
 * Processors that are full of what else runs, while the end slept a part of the time, may be the
 * cause or not, and are told as that.
 *
 * A segment is lost if it was sent again and the other end does not say that it had it already. An
 * end whose processors are full loses some and is late with others; so it is named first.
 */
#ifndef FM_BENCH_VERDICT_H
#define FM_BENCH_VERDICT_H

#include "client/bench/measure.h"

#define FM_BENCH_STAGES_MAX 8u
#define FM_BENCH_NEAR	    0.9	 /* of a ceiling: it is reached */
#define FM_BENCH_CORE_BUSY  0.95 /* a core that is this busy has nothing left */
#define FM_BENCH_ALL_BUSY   0.9	 /* all that a process may use: looking takes a part of the time */
#define FM_BENCH_WANTED	    0.9	 /* of what it may use; measured: 1.1 to 1.4, beside load 0.8 */
#define FM_BENCH_WAITED	    0.25 /* threads that waited for a processor, in the mean: it cost */
#define FM_BENCH_LOSS	    0.005 /* of the segments were lost: more than a full wire does */

struct fm_bench_stage {
	char name[FM_BENCH_TEXT_MAX];
	struct fm_bench_rates rates; /* alone */
	double hardware;	     /* bytes a second that its hardware allows; 0: not known */
};

/*
 * The stages of one way and what they do together. Which of them is the limit, -1: none can be
 * named. What it says goes into out.
 */
int fm_bench_verdict(const struct fm_bench_stage *stages, size_t count,
		     const struct fm_bench_rates *end_to_end, char out[static FM_BENCH_TEXT_MAX]);

/*
 * The sentence for a whole run, into bench->verdict: of the first put from a file, else of the
 * fastest path to a peer, else of the disks. hardware: what ports allow, bytes a second; 0: not
 * known.
 */
void fm_bench_conclude(struct fm_bench *bench, double hardware);

#endif
