/* SPDX-License-Identifier: MIT */
/*
 * lanes - the threads that move data: each with its loop and its ring, made on that thread, which
 * is where they are used.
 */
#ifndef FM_DAEMON_LANES_H
#define FM_DAEMON_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/daemon/arena.h"
#include "mover/node/engine.h"

struct fm_err;
struct fm_lanes;
struct fm_loop;
struct fm_ring;

struct fm_lanes_opts {
	unsigned count;			/* 1 .. FM_LANES_MAX */
	const struct fm_arena *arena;
	bool is_threads_only;		/* no io_uring */
	bool is_uring_only;		/* refused: an error, not threads instead */
	uint64_t spin_ns;
};

/* All of them run when it returns. */
int fm_lanes_new(const struct fm_lanes_opts *opts, struct fm_lanes **out, struct fm_err *err);

/* End the threads; loops and rings stay, and are the caller's thread's now. Nothing may be in
 * flight on a ring. */
void fm_lanes_stop(struct fm_lanes *lanes);

/* Stops them first if need be. NULL is allowed. */
void fm_lanes_free(struct fm_lanes *lanes);

struct fm_loop *fm_lanes_loop(const struct fm_lanes *lanes, unsigned i);
struct fm_ring *fm_lanes_ring(const struct fm_lanes *lanes, unsigned i);

/*
 * For the watchdog: whether every lane has come round since the last call; asks them to come round
 * again. The first call is always true.
 */
bool fm_lanes_are_alive(struct fm_lanes *lanes);

#endif
