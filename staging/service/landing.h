/* SPDX-License-Identifier: MIT */
/*
 * landing - how the bytes of an extent go from node to node: as a put of a file that is memory at
 * both ends, into a store that each node which stages has for it, and nobody lists.
 *
 * Who awaits an extent makes a place for it, which the name of the file says. A put is taken only
 * from the node that the place is for, once, and of the size that it says. So the bytes have all
 * that the data plane has: rails, slots, CRCs, limits of rate.
 *
 * The memory is from the budget (mover/base/budget.h), taken when the put begins: what it has no
 * room for fails there, and is asked for again later.
 */
#ifndef FM_STAGE_LANDING_H
#define FM_STAGE_LANDING_H

#include <stddef.h>
#include <stdint.h>

#include "mover/store/store.h"
#include "mover/wire/wire.h"

struct fm_engine;

/* No name of a configuration begins so. */
#define FM_LANDING_STORE FM_STORE_INTERNAL_PREFIX
#define FM_LANDING_PATH_MAX (2 * FM_WIRE_STAGE_RUN_LEN + 32)

/* ---- memory ---- */

struct fm_landed {
	atomic_uint refs;
	size_t len;
	uint8_t *at;
};

/* NULL: over the budget. Any thread, all of them. */
struct fm_landed *fm_landed_new(size_t len);
/* Of bytes that were taken from the budget; given back after an error. NULL: no memory. */
struct fm_landed *fm_landed_of_taken(size_t len);
struct fm_landed *fm_landed_get(struct fm_landed *b);
void fm_landed_put(struct fm_landed *b);	/* NULL is allowed */

/* A source of those bytes, with its own reference. */
int fm_landed_source(struct fm_landed *b, struct fm_file **out, struct fm_attr *attr,
		     struct fm_err *err);

/* ---- places ---- */

struct fm_landing;
struct fm_landing_place;

struct fm_landing_opts {
	const uint8_t *run;		/* FM_WIRE_STAGE_RUN_LEN */
	unsigned slot;
	uint32_t extent;
	const char *from;		/* the peer */
	uint64_t bytes;			/* that it has; 0: not known here */
	uint64_t bytes_max;
	/*
	 * Once, on the loop, unless it was dropped: code 0 and the bytes, which the place holds, or
	 * why they did not come.
	 */
	void (*ended)(void *ctx, struct fm_landed *b, uint32_t crc, int code);
	void *ctx;
};

/* The engine has it as a store from then on, and frees it. */
int fm_landing_new(struct fm_engine *engine, struct fm_landing **out, struct fm_err *err);

/* NULL: no memory. */
struct fm_landing_place *fm_landing_expect(struct fm_landing *l, const struct fm_landing_opts *o);

/* Bytes of it, so far; more than it has where a line broke and some came twice. */
uint64_t fm_landing_came(const struct fm_landing_place *p);

/* Nobody waits for this place any more; a put into it fails. */
void fm_landing_drop(struct fm_landing_place *p);

/* Places that are left, with those that were dropped and still written to. */
unsigned fm_landing_count(const struct fm_landing *l);

/* What a place is called. */
void fm_landing_path(const uint8_t *run, unsigned slot, uint32_t extent,
		     char out[static FM_LANDING_PATH_MAX]);

#endif
