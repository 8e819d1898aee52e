/* SPDX-License-Identifier: MIT */
/*
 * reach - at which addresses a peer is dialled, one after the other.
 *
 * First those that the configuration names, then those that the peer itself said when it was
 * connected. They are tried in a ring, in rounds: a round begins behind the address that was
 * dialled last, which worked until it did not. What the peer said is dialled only where one of our
 * own addresses shares its subnet: it must not make us knock at strangers' doors. Plain data, no
 * I/O.
 */
#ifndef FM_REACH_H
#define FM_REACH_H

#include <stdbool.h>
#include <stddef.h>

#include "mover/node/engine_opts.h"
#include "mover/wire/wire.h"

struct fm_way {
	struct fm_endpoint to;
	bool is_learned;
};

struct fm_reach {
	struct fm_way way[2 * FM_PEER_ADDRS_MAX];
	unsigned count;
	unsigned at;			/* the way that is dialled next: the one behind ... */
	/* ... this, which was dialled last, wherever the list has it */
	struct fm_endpoint last;
	unsigned tried;			/* of this round */
	unsigned rounds;
};

/* Where to dial, and our address to dial from; local.sa.ss_family is 0 where the kernel chooses. */
struct fm_reach_dial {
	const struct fm_endpoint *to;
	struct fm_addr local;
};

/* -EINVAL: an address is too long; -E2BIG: too many of them. */
int fm_reach_init(struct fm_reach *r, const struct fm_peer_opts *o, struct fm_err *err);

/* What the configuration names is what it was. */
bool fm_reach_is_same(const struct fm_reach *r, const struct fm_peer_opts *o);

/* The next one of this round. false: there is none, and the next call begins another round. own:
 * our addresses, as they are now. */
bool fm_reach_next(struct fm_reach *r, const struct fm_addr *own, size_t own_count,
		   struct fm_reach_dial *out);

/* Another round begins, behind the address that was dialled last. */
void fm_reach_begin(struct fm_reach *r);

/* What the peer says of its addresses takes the place of what it said before. true: it is something
 * else. */
bool fm_reach_learn(struct fm_reach *r, const struct fm_wire_addrs *said);

#endif
