/* SPDX-License-Identifier: MIT */
/*
 * elsewhere - what the nodes that this one stages with have of the datasets that are here.
 *
 * A question goes to all of them at once. It ends when each has answered, or has lost its session,
 * and at the latest after FM_ELSEWHERE_NS: who has said nothing by then is silent. Asked by others,
 * this node tells who is in its staging.peers, of datasets that they know by their keys (there.h),
 * so that nobody learns names from it. Loop thread.
 */
#ifndef FM_STAGE_ELSEWHERE_H
#define FM_STAGE_ELSEWHERE_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/env.h"
#include "mover/base/list.h"
#include "mover/base/share.h"

struct fm_cache;
struct fm_cache_key;
struct fm_elsewhere_ask;
struct fm_engine;
struct fm_err;
struct fm_loop;
struct fm_session;
struct fm_togethers;
struct fm_wire_msg;

#define FM_ELSEWHERE_NS (2 * FM_NS_PER_S)
#define FM_ELSEWHERE_NODES_MAX 63u	/* that are asked */
/* Questions under way, each with up to 270 KiB for the answers; one user may have a half of what is
 * left. */
#define FM_ELSEWHERE_ASKS_MAX 64u

struct fm_elsewhere {
	struct fm_engine *engine;
	struct fm_loop *loop;
	struct fm_cache *cache;
	struct fm_togethers *togethers;
	/* whether it is fetched now */
	bool (*is_coming)(void *ctx, const struct fm_cache_key *listing);
	void *ctx;
	struct fm_list asks;
	struct fm_share places;
	uint64_t last_id;
};

struct fm_elsewhere_question {
	struct fm_share_id who;		/* asks */
	/* "all" that are in staging.peers, or names between commas, of which this node's is passed
	 * over */
	const char *nodes;
	const struct fm_cache_key *keys;	/* copied */
	unsigned count;			/* 1 .. FM_STAGE_THERE_MAX */
	/* called once, later, unless it is forgotten first; the question goes behind it */
	void (*done)(void *ctx, const struct fm_elsewhere_ask *a);
	void *ctx;
};

/* Behind the fields for what is used. */
void fm_elsewhere_init(struct fm_elsewhere *e);
/* All end now, as if nobody had answered. */
void fm_elsewhere_stop(struct fm_elsewhere *e);

/* The service's. e NULL: this node stages nothing. */
void fm_elsewhere_message(struct fm_elsewhere *e, struct fm_session *session,
			  const struct fm_wire_msg *m);
void fm_elsewhere_session_lost(struct fm_elsewhere *e, const struct fm_session *session);

/* -ENOENT names what is no node. -EBUSY: too many questions are under way. */
int fm_elsewhere_ask(struct fm_elsewhere *e, const struct fm_elsewhere_question *q,
		     struct fm_elsewhere_ask **out, struct fm_err *err);
void fm_elsewhere_forget(struct fm_elsewhere_ask *a);

/* Whether a list, as above, has that peer. */
bool fm_elsewhere_means(const struct fm_elsewhere *e, const char *nodes, const char *peer);

struct fm_elsewhere_node {
	const char *name;
	/* "ready", "fetching", "partial", "absent", "refused", "silent"; "unknown": of no key */
	const char *state;
	uint64_t bytes;		/* of the dataset, there */
};

/* Which of the question's keys it is; their count: none of them. */
unsigned fm_elsewhere_key(const struct fm_elsewhere_ask *a, const struct fm_cache_key *key);
unsigned fm_elsewhere_nodes(const struct fm_elsewhere_ask *a);
void fm_elsewhere_look(const struct fm_elsewhere_ask *a, unsigned node, unsigned key,
		       struct fm_elsewhere_node *out);

#endif
