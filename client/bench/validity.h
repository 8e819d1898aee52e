/* SPDX-License-Identifier: MIT */
/*
 * validity - whether the numbers of a path are to be believed. Pure functions.
 */
#ifndef FM_BENCH_VALIDITY_H
#define FM_BENCH_VALIDITY_H

#include "client/bench/measure.h"

#define FM_BENCH_CV_MAX	   0.05 /* more is noise; of three and more repeats */
#define FM_BENCH_S_MIN	   1.0	/* seconds: less is too short, whatever was wanted ... */
#define FM_BENCH_SHARE_MIN 0.5	/* ... and less than this part of it */

/* Compute what follows from the repeats of a path: its rates and why they are not valid. */
void fm_bench_judge_path(struct fm_bench_path *path, double wanted_s);

/* The same of all paths; the exit status of the run: 0, or 3: a path is not valid. */
int fm_bench_judge(struct fm_bench *bench);

#endif
