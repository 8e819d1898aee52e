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

/* Compute what follows from the repeats of each path: its rates and why they are not valid. The
 * exit status of the run: 0, or 3: a path is not valid. */
int fm_bench_judge(struct fm_bench *bench);

#endif
