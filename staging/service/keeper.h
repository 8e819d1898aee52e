/* SPDX-License-Identifier: MIT */
/*
 * keeper - what this node keeps for users of other nodes: the side of keep.h that is asked.
 *
 * A node of staging.peers may ask for what the rules of the dataset's store let it read, if that is
 * a store of this node; the rules of others are not known here. That its user may have the dataset
 * kept it is believed, if it knows the key; a name is for who staged the dataset on this node. Its
 * root is a user like any other: he ends his own pins only, and has a quota.
 *
 * Whoever stages it on several nodes is to read the copy here, also if it was here before he asked,
 * or came for another user. So after each such request this node lets him in (LET), as if he had
 * staged it here: unless he has an entry in the copy's list, its source is asked first. That is
 * this node's own rules for users, or what another node lets this one read. If he is refused, the
 * node that asked says so to him.
 *
 * What a dataset of a hub is shown as (SHOW) is not believed either: the repository and the commit
 * are those that the dataset was fetched and verified as, the node of its source says itself that
 * the revision is that commit, and a repository of another source stays as it is (hub.h).
 *
 * Bounded: orders under way by peer, holds by the cache. A session that does not read is not
 * answered. Loop thread.
 */
#ifndef FM_STAGE_KEEPER_H
#define FM_STAGE_KEEPER_H

#include <stdbool.h>

struct fm_cache;
struct fm_engine;
struct fm_err;
struct fm_hub;
struct fm_keeper;
struct fm_loop;
struct fm_session;
struct fm_togethers;
struct fm_wire_stage;
struct fm_worker;

#define FM_KEEPER_ORDERS_MAX 64u	/* under way; one peer may have a half of what is left */

struct fm_keeper_opts {
	struct fm_engine *engine;
	struct fm_loop *loop;
	struct fm_worker *worker;
	struct fm_cache *cache;
	struct fm_hub *hub;
	const char *node;		/* our name */
	const struct fm_togethers *togethers;
};

/* What the opts point to outlives it. */
int fm_keeper_new(const struct fm_keeper_opts *opts, struct fm_keeper **out, struct fm_err *err);
bool fm_keeper_is_idle(const struct fm_keeper *k);
/* Whether what is left only waits for the user database, which may be for ever. */
bool fm_keeper_awaits_users(const struct fm_keeper *k);
void fm_keeper_free(struct fm_keeper *k);	/* idle; NULL is allowed */

/* KEEP. k NULL: this node stages nothing. */
void fm_keeper_message(struct fm_keeper *k, struct fm_session *s, const struct fm_wire_stage *m);

/*
 * To be called every few seconds: after a reload, holds end for nodes that the rules of the
 * dataset's store let read no more. So they do when such a node asks for longer.
 */
void fm_keeper_look(struct fm_keeper *k);

#endif
