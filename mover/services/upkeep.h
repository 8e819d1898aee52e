/* SPDX-License-Identifier: MIT */
/*
 * upkeep - what a node does for its stores by itself: when a store was opened, and every hour, what interrupted
 * transfers left in it for too long is swept. One store at a time, on a worker. Control thread.
 */
#ifndef FM_UPKEEP_H
#define FM_UPKEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/base/worker.h"

struct fm_engine;
struct fm_store_ref;

struct fm_upkeep {
	struct fm_work work;
	struct fm_engine *engine;
	struct fm_store_ref *ref;	/* being swept; NULL: none */
	atomic_bool is_over;
};

/* Twice a second. */
void fm_upkeep_tick(struct fm_engine *e, uint64_t now_ns);

/* A sweep that runs ends soon; fm_engine_check_stopped() is called then. */
void fm_upkeep_stop(struct fm_engine *e);

#endif
