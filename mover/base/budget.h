/* SPDX-License-Identifier: MIT */
/*
 * budget - one limit on all memory that grows with what peers and callers ask for.
 *
 * What there may be many of, or is large, is taken from it: sessions, connections, transfers,
 * listings, what is queued for a peer, what walks and journals remember. What it refuses is memory
 * that there is none of: the one who asked hears that, and the rest goes on. A process that sets no
 * limit (a client) has none. Any thread.
 */
#ifndef FM_BASE_BUDGET_H
#define FM_BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/list.h"
#include "mover/base/share.h"

/* Before other threads. */
void fm_budget_set(uint64_t bytes);
uint64_t fm_budget_used(void);

/*
 * For what is allocated elsewhere. The last eighth is left to what sessions live on
 * (fm_budget_alloc_link()): whoever takes the rest must not end the sessions of others.
 */
bool fm_budget_take(uint64_t bytes);
/* The same, if so much is left afterwards: for what can wait, or go on with less. */
bool fm_budget_take_leaving(uint64_t bytes, uint64_t left);
void fm_budget_give(uint64_t bytes);
/* How much fm_budget_take() has if nobody else has any. */
uint64_t fm_budget_most(void);

/*
 * Who waits until somebody gives some back. freed() is called once for each await, by any thread
 * and under a lock: it only posts a task. What was given back before calls nobody, so who begins to
 * wait tries once more.
 */
struct fm_budget_waiter {
	struct fm_list at;
	void (*freed)(struct fm_budget_waiter *w);
};

void fm_budget_await(struct fm_budget_waiter *w);
/* Whether it was not called yet; it will not be. */
bool fm_budget_await_no_more(struct fm_budget_waiter *w);

/*
 * Half of it at most for what is held as long as somebody is waited for: trees, the next chunk of
 * a pipe, small files that come. Of that half each user and each peer has a share. *held has so
 * much more, and all of it is of the same one.
 */
bool fm_budget_take_waiting(struct fm_share_id who, uint64_t bytes, struct fm_share_held *held);
/* Whether so much could be had now; whether if nobody had any: then it may be later. */
bool fm_budget_may_waiting(struct fm_share_id who, uint64_t bytes);
bool fm_budget_could_waiting(struct fm_share_id who, uint64_t bytes);
void fm_budget_give_waiting(uint64_t bytes, struct fm_share_held *held);

/* Zeroed. NULL: over the budget, or no memory. */
void *fm_budget_alloc(size_t len);
/* As realloc(3) of what came from here, or of NULL; what is new is not zeroed. NULL: *at is as it
 * was. */
void *fm_budget_realloc(void *at, size_t len);
/* The same for sessions, connections and their messages, to the last byte. So many are theirs
 * alone. */
uint64_t fm_budget_of_links(void);
void *fm_budget_alloc_link(size_t len);
void *fm_budget_realloc_link(void *at, size_t len);
void fm_budget_free(void *at);

#endif
