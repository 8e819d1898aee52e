/* SPDX-License-Identifier: MIT */
/*
 * refusals - runs of several nodes that ended here at once, because the node of the source refused
 * them, and why.
 *
 * Without that a refused run has no end: each node that heard of it tells all others before it is
 * refused itself, and one whose run is over by then begins another, which the others hear of. What
 * is kept here answers them in its place, for a while.
 *
 * There is a fixed number of them. When all are taken the oldest goes of the peer whose messages
 * brought the most, so one that brings many takes no other's. One thread.
 */
#ifndef FM_STAGE_REFUSALS_H
#define FM_STAGE_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/wire/wire.h"

#define FM_REFUSALS_MAX 64u
/* More than a node takes to look at its disk, and then to tell the others. */
#define FM_REFUSALS_KEPT_NS (30 * FM_NS_PER_S)

struct fm_refusal {
	uint8_t run[FM_WIRE_STAGE_RUN_LEN];
	char by[FM_WIRE_NAME_MAX + 1];	/* which peer's message began it; "": a caller here */
	uint64_t at_ns;			/* 0: free */
	struct fm_err why;
};

/* All zero: none. */
struct fm_refusals {
	struct fm_refusal one[FM_REFUSALS_MAX];
};

/* It takes the place of an earlier one of that run. now_ns > 0, and never before an earlier one. */
void fm_refusals_note(struct fm_refusals *r, const uint8_t run[static FM_WIRE_STAGE_RUN_LEN],
		      const char *by, uint64_t now_ns, const struct fm_err *why);

/* 0: none is known. Else why, and its code. */
int fm_refusals_find(const struct fm_refusals *r, const uint8_t run[static FM_WIRE_STAGE_RUN_LEN],
		     uint64_t now_ns, struct fm_err *why);

void fm_refusals_forget(struct fm_refusals *r, const uint8_t run[static FM_WIRE_STAGE_RUN_LEN]);

#endif
