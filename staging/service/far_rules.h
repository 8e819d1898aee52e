/* SPDX-License-Identifier: MIT */
/*
 * far_rules - whom the rules of other nodes' stores let read, for the copies that are here of what
 * is in them.
 *
 * A node of staging.peers is asked whom the rules of its store name: at each request for what is in
 * it, when it connects, and once a minute as long as such a copy is here. It tells a node that is
 * in its own staging.peers and may read the store; another one hears why not, and then nobody is
 * named here. The names are looked up on this node; who is not known here is left out. While
 * nothing is heard, or names cannot be looked up, the lists stay as they are.
 *
 * Its rules let this node read, and so whoever asks here. Users and groups that they name read the
 * copy also if they may not use this node's socket; everybody means those who may. What has one ID
 * at several nodes (shared) is named by the rules of this node's store only.
 */
#ifndef FM_STAGE_FAR_RULES_H
#define FM_STAGE_FAR_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "staging/service/rights.h"

struct fm_cache;
struct fm_engine;
struct fm_err;
struct fm_far_rules;
struct fm_loop;
struct fm_peer;
struct fm_session;
struct fm_togethers;
struct fm_wire_stage;
struct fm_worker;

#define FM_FAR_RULES_MAX 256u		/* stores; the copies of more are for who staged them */

struct fm_far_rules_opts {
	struct fm_engine *engine;
	struct fm_loop *loop;
	struct fm_worker *worker;
	struct fm_cache *cache;
	struct fm_togethers *togethers;
	const char *node;		/* our name; outlives it */
	struct fm_stage_everybody everybody;
};

/* Control thread, as all but fm_far_rules_name(). */
int fm_far_rules_new(const struct fm_far_rules_opts *opts, struct fm_far_rules **out,
		     struct fm_err *err);
/*
 * Its work is over; NULL is allowed. The engine does not wait for that, since a look-up of names
 * may never end: the worker ends before the engine is freed, or with the process.
 */
void fm_far_rules_free(struct fm_far_rules *f);

/* Somebody wants what is in that store of that node. */
void fm_far_rules_ask(struct fm_far_rules *f, const char *node, const char *store);

/* To be called every few seconds. */
void fm_far_rules_look(struct fm_far_rules *f);

/* To the list of a READY dataset of that source, if its store's rules are known. Worker. */
void fm_far_rules_name(struct fm_far_rules *f, uint64_t id, const char *source);

/* The service's. f NULL: this node stages nothing. */
void fm_far_rules_message(struct fm_far_rules *f, struct fm_session *session,
			  const struct fm_wire_stage *m);
void fm_far_rules_peer_up(struct fm_far_rules *f, const struct fm_peer *peer);
void fm_far_rules_session_lost(struct fm_far_rules *f, const struct fm_session *session);

#endif
