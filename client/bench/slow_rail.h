/* SPDX-License-Identifier: MIT */
/*
 * slow_rail - which of the rails to a peer is slower than the others, as each was measured alone. A
 * pure function.
 */
#ifndef FM_BENCH_SLOW_RAIL_H
#define FM_BENCH_SLOW_RAIL_H

#include "client/bench/measure.h"

/*
 * Whether one device of `wire`, which all of them carried, or one rail, carried less alone than
 * each other one, beyond the noise of both, and all together carried less for it; then out is "w1,
 * which carries 0.48 MB/s alone where w0 carries 1.92 MB/s". Devices whose ports say different
 * speeds are compared by the share of these that they reach.
 */
bool fm_bench_slow_rail(const struct fm_bench *bench, const struct fm_bench_path *wire,
			char out[static FM_BENCH_TEXT_MAX]);

#endif
