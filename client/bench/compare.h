/* SPDX-License-Identifier: MIT */
/*
 * compare - several measurements side by side: what differs by more than noise. Pure functions.
 *
 * Each is compared with the first. A path is the same if kind, operation, place, depth and size
 * are. It differs if the ranges of both are apart, and the medians by more than both scatter.
 */
#ifndef FM_BENCH_COMPARE_H
#define FM_BENCH_COMPARE_H

#include "client/bench/measure.h"

struct fm_err;

/* The same path of another measurement, or NULL. */
const struct fm_bench_path *fm_compare_find(const struct fm_bench *in,
					    const struct fm_bench_path *of);

/* -1: b is slower by more than noise, 1: faster, 0: neither; also if one of them is not valid. */
int fm_compare_rates(const struct fm_bench_path *a, const struct fm_bench_path *b);

/* -EINVAL: they cannot be compared: one is quick and one thorough, repeats of other lengths, no
 * path in common. */
int fm_compare_check(const struct fm_bench *a, const struct fm_bench *b, struct fm_err *err);

#endif
