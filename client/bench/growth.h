/* SPDX-License-Identifier: MIT */
/*
 * growth - by how much what a machine counts grew between two looks at it: errors of ports and
 * interfaces, and attempts to connect NVMe controllers anew. A pure function.
 */
#ifndef FM_BENCH_GROWTH_H
#define FM_BENCH_GROWTH_H

#include "client/bench/measure.h"
#include "mover/facts/facts.h"

/*
 * Into the counters of b, behind what is there; those that find no room are left out. What is not
 * known at either look, or was set back between them, is no counter.
 */
void fm_bench_growth(struct fm_bench *b, const struct fm_facts *before,
		     const struct fm_facts *after);

#endif
