/* SPDX-License-Identifier: MIT */
/*
 * node_facts - what was read of a node (fmove-facts(5)), asked of peers and read for peers. One
 * FACTS_ASK, then FACTS until one has no MORE.
 *
 * To the engine a document is bytes: who reads it looks at it. A worker makes ours, one at a time;
 * whoever asks while it is made, or within two seconds, gets the same one. So peers that ask cost
 * no more than one that does, every two seconds. A reading that hangs costs one worker, is said in
 * the log, and is what peers hear until it comes back.
 */
#ifndef FM_NODE_FACTS_H
#define FM_NODE_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/node/engine.h"
#include "mover/node/service.h"

extern const struct fm_service fm_node_facts_service;

#define FM_NODE_FACTS_BYTES_MAX (512u << 10) /* of one node's document, between nodes */
#define FM_NODE_FACTS_ASKS_MAX	16u	     /* of all users */
#define FM_NODE_FACTS_ASKS_ROOT 4u
#define FM_NODE_FACTS_PEERS_MAX 64u /* answers to peers under way */

/* How ours are read; outlives the engine. */
struct fm_node_facts_here {
	/* On the loop: whether peers may have them, and what the worker needs to know of the engine
	 * (free()d). -errno. */
	int (*begin)(void *ctx, char **status, struct fm_err *err);
	/* On a worker: the document, malloc()ed, of FM_NODE_FACTS_BYTES_MAX at most; its length, or
	 * -errno. */
	int (*read)(void *ctx, const char *status, char **out, struct fm_err *err);
	void *ctx;
};

/* Else peers hear that there is nobody who reads them. */
void fm_node_facts_set_here(struct fm_engine *engine, const struct fm_node_facts_here *here);

struct fm_node_facts_answer {
	const char *node;
	const struct fm_err *err; /* why there are none, or no more; NULL: there are */
	const char *piece;	  /* valid during the call */
	size_t len;
	bool is_more; /* another piece of this node follows, or why there is none */
};

struct fm_node_facts_events {
	void (*answer)(void *ctx, const struct fm_node_facts_answer *answer);
	void (*done)(void *ctx); /* once, last: every peer was heard, or will not be; after 20 s at
				    the latest */
};

/*
 * Of every peer, or of that one. Those that are not connected are not waited for. uid: who asks.
 * -ENOENT: there is no such peer; -EBUSY: no place is left, or none for that user; -ENOMEM.
 */
int fm_node_facts_ask(struct fm_engine *engine, uid_t uid, const char *node,
		      const struct fm_node_facts_events *events, void *ctx, struct fm_err *err);

#endif
