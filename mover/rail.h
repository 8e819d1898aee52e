/* SPDX-License-Identifier: MIT */
/*
 * rail - which data connections a session has: found by trying each of our addresses against each of the peer's,
 * source bound.
 *
 * The dialler of the control connection makes them. A pair that works becomes a rail and gets its full number of
 * connections; a port that is part of a working rail is not tried with another. What fails is tried again with
 * growing pauses; what breaks is made again.
 */
#ifndef FM_RAIL_H
#define FM_RAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/transport/transport.h"
#include "mover/wire/wire.h"

struct fm_session;

#define FM_RAILS_MAX 128		/* pairs of addresses that are tried */
#define FM_RAIL_DIALS_MAX 16		/* connections being made at once, in one session */

struct fm_rail {
	struct fm_addr local;
	struct fm_addr remote;
	enum fm_kind kind;
	unsigned up;
	unsigned dialling;
	uint64_t retry_ns;
	uint64_t backoff_ns;
	bool has_worked;
};

struct fm_rails {
	struct fm_wire_addrs remote;	/* what the peer said */
	bool is_known;			/* it did */
	struct fm_rail rail[FM_RAILS_MAX];
	unsigned count;
	unsigned dialling;
	uint8_t tokens[FM_WIRE_TOKENS_MAX][FM_TOKEN_LEN];
	unsigned token_count;
	bool is_asking;			/* TOKENS_WANT is out */
	char last_error[FM_KIND_COUNT][FM_ERR_TEXT_MAX];
};

/* Tell the peer our addresses. */
void fm_rail_send_addrs(struct fm_session *s);

void fm_rail_addrs(struct fm_session *s, const struct fm_wire_addrs *m);
void fm_rail_tokens_want(struct fm_session *s, unsigned count);
void fm_rail_tokens(struct fm_session *s, const struct fm_wire_tokens *m);

/* Make what is missing. */
void fm_rail_step(struct fm_session *s);

/* A flow of that rail ended. */
void fm_rail_down(struct fm_session *s, int rail);

/* Whether RDMA may still come up soon, so that a job should wait for it. */
bool fm_rail_may_come(const struct fm_session *s, enum fm_kind kind);

/* Why there is no connection of that kind, in words; never empty. */
void fm_rail_why_not(const struct fm_session *s, enum fm_kind kind, char *out, size_t len);

#endif
