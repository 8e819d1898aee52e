/* SPDX-License-Identifier: MIT */
/*
 * null_net - a network without a wire, for measuring the engine alone: two nodes in one thread,
 * messages are handed over, payloads are not moved at all (a receiver finds in its slot what was
 * there before).
 */
#ifndef FM_BENCH_NULL_NET_H
#define FM_BENCH_NULL_NET_H

#include "mover/transport/transport.h"

struct fm_loop;

/*
 * Two nets that know each other only; node 0 has key {1}, node 1 {2}. loops are the control loops.
 * Live as long as the process.
 */
void null_net_pair(struct fm_loop *const loops[2], struct fm_net *out[2]);

#endif
