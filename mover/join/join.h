/* SPDX-License-Identifier: MIT */
/*
 * join - the inviting node's side of `fmove join`: a node that nobody knows asks to become a peer,
 * with a one-time token.
 *
 * Everything that touches files (the tokens, peers.d) happens behind `admit`, on a worker's thread,
 * one candidate after the other; this file speaks the protocol (join_msg.h) and tells the engine.
 * It listens while fm_join_open() says that somebody is invited. Connections are few, each with a
 * deadline and one message, and when all are taken the one who has most of them makes room, so that
 * nobody keeps the places. Wrong tokens cost nobody else anything: 128 bits are not guessed in the
 * minutes that a token is good, and a pause for everybody could be kept up by anybody. Control loop
 * only.
 */
#ifndef FM_JOIN_H
#define FM_JOIN_H

#include <stdint.h>

#include "mover/join/find_link.h"
#include "mover/join/join_msg.h"
#include "mover/transport/transport.h"

struct fm_engine;
struct fm_err;
struct fm_join;
struct fm_loop;
struct fm_net;
struct fm_worker;

#define FM_JOIN_CONNS_MAX 32
#define FM_JOIN_DEADLINE_MS 10000	/* for the message, and again for the answer to be taken */

/* Who asks, as admit sees it. */
struct fm_join_candidate {
	/* its address is set, or empty: it cannot be dialled; further: that can be used */
	struct fm_join_request request;
	uint8_t key[FM_KEY_LEN];		/* proved */
};

struct fm_join_opts {
	struct fm_loop *loop;
	struct fm_worker *worker;
	struct fm_net *net;
	struct fm_engine *engine;
	const char *node;			/* our name; copied */
	const char *address;			/* where we are dialled, or ""; copied */
	/* where we listen at each of our addresses; 0: at one of them only */
	uint16_t port;
	/* where those who look for a node to join find us, while joins are taken */
	enum fm_find_where find;

	/*
	 * Worker. Check the token, then the name, address and key; use the token up; write the peer
	 * down. 1: it was a peer already, and its entry is a new one. -ENOENT: a wrong token. What
	 * it refuses for another reason leaves the token as it was.
	 */
	int (*admit)(void *ctx, const struct fm_join_candidate *who, struct fm_err *err);

	/* Worker. The engine would not have it, which was none before: undo what admit wrote. */
	void (*retract)(void *ctx, const struct fm_join_candidate *who);
	void *ctx;
};

/* No joins are taken yet. */
int fm_join_new(const struct fm_join_opts *opts, struct fm_join **out, struct fm_err *err);

/* Joins are taken until that time of the loop's clock; 0: no more of them. Connections that are
 * there go on. */
void fm_join_open(struct fm_join *join, uint64_t until_ns);

/* How many were admitted, ever: what was read before one more was may not have it. */
unsigned fm_join_count(const struct fm_join *join);

/* After a reload. */
void fm_join_set_address(struct fm_join *join, const char *address);

/* No more joins, connections closed; call before the engine stops. Work on a worker's thread ends
 * by itself. */
void fm_join_stop(struct fm_join *join);

/* Stopped, and what the worker posted has run. NULL is allowed. */
void fm_join_free(struct fm_join *join);

#endif
