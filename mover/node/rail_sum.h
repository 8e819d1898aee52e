/* SPDX-License-Identifier: MIT */
/*
 * rail_sum - the connections of one peer as a person sees them: those of one rail that are
 * encrypted alike are one. For who visits the engine's status.
 */
#ifndef FM_RAIL_SUM_H
#define FM_RAIL_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/node/engine.h"

#define FM_RAIL_SUMS_MAX 64		/* of one peer */

struct fm_rail_sum {
	struct fm_conn_info info;
	unsigned conns;
	unsigned conns_up;
	uint64_t bytes_sent;
	uint64_t bytes_received;
	char error[FM_ERR_TEXT_MAX];	/* "": it is up */
	uint64_t down_ns;
};

struct fm_rail_sums {
	struct fm_rail_sum rail[FM_RAIL_SUMS_MAX];
	unsigned count;			/* 0: begin with the next peer */
};

/* false: there is no room. */
bool fm_rail_sums_add(struct fm_rail_sums *sums, const struct fm_rail_status *rail);

#endif
