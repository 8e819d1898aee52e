/* SPDX-License-Identifier: MIT */
/*
 * node - what the engine's control-side modules share: the node itself, its peers and its stores.
 * Control thread only, private to mover/.
 */
#ifndef FM_NODE_H
#define FM_NODE_H

#include "mover/base/err.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/node/engine_opts.h"
#include "mover/data/lane.h"
#include "mover/data/link.h"
#include "mover/data/rate.h"
#include "mover/node/reach.h"
#include "mover/node/port_sum.h"
#include "mover/wire/wire.h"

struct fm_session;

/* A store in use. Freed when the last user is gone. */
struct fm_store_ref {
	struct fm_list at;
	struct fm_store *store;
	unsigned refs;
	/* its path leads to another directory by now: what ends in this one is not where its name
	 * leads, and not done */
	bool is_left;
	uint64_t swept_ns;		/* when the last sweep of it began; 0: never */
	unsigned room_asked;		/* questions about its room that have no answer yet ... */
	uint64_t room_asked_ns;		/* ... since the first came, or another one was answered */
	bool is_room_late;		/* and a tick found that this was too long ago */
};

struct fm_peer {
	struct fm_list at;
	struct fm_engine *engine;
	char name[FM_WIRE_NAME_MAX + 1];
	struct fm_reach reach;		/* empty: it dials us */
	uint8_t key[FM_KEY_LEN];
	struct fm_session *session;	/* the one in use, HELLO done; or NULL */
	struct fm_session *dialling;	/* the one being dialled; or NULL */
	struct fm_timer dial_timer;
	uint64_t backoff_ns;
	/* when it is, or was, dialled because our network had changed; 0: never */
	uint64_t woken_ns;
	uint64_t since_ns;
	struct fm_err round_err;	/* of the dials of this round */
	char last_error[FM_ERR_TEXT_MAX];
	struct fm_log_limit lines;	/* that it causes */
	struct fm_log_limit job_lines;	/* of its jobs: beginnings and ends */
	uint64_t bytes_sent, bytes_received;	/* over connections that are gone */
	struct fm_port_sums ports;		/* the same of each port */
};

/* a minute: more than it takes to say that all of its connections broke and are back */
#define FM_PEER_LINES 200
/* ... a beginning and an end of each of so many transfers */
#define FM_PEER_JOB_LINES 600

struct fm_engine {
	struct fm_engine_opts o;
	struct fm_engine_env env;
	char name[FM_WIRE_NAME_MAX + 1];
	uint8_t key[FM_KEY_LEN];
	uint8_t boot_id[16];
	uint64_t started_ns;
	int64_t config_read_ms;
	char config_mistake[FM_ERR_TEXT_MAX];
	char config_removed[FM_ERR_TEXT_MAX];
	char config_waits[FM_ERR_TEXT_MAX];
	uint64_t next_session;		/* its number, where we dial it */
	struct fm_lane lanes[FM_LANES_MAX];
	unsigned next_lane;
	struct fm_slabs *slabs;
	struct fm_registered *registered;	/* NULL: nothing is */
	struct fm_rate rate;
	struct fm_shared_rate shared_rate;
	/* bytes of messages that peers have not said they had: line.h */
	struct fm_share kept;
	struct fm_share conns;		/* bytes of memory for the data connections of peers */
	struct fm_list peers;
	unsigned peer_count;
	struct fm_list sessions;
	struct fm_list stores;
	struct fm_list former_stores;	/* replaced or removed, and still used */
	const char *(*volume_of)(void *ctx, const char *store, size_t len);	/* may be NULL */
	bool (*is_away)(void *ctx, const char *id);		/* likewise */
	void *volume_ctx;
	unsigned store_count;
	/* stores of the configuration that came or went, so far: rules may be others */
	uint64_t store_changes;
	unsigned service_count;
	void *service_state[FM_SERVICES_MAX];	/* of each of env.services */
	struct fm_timer tick;
	uint64_t left_out_until_ns;	/* the services, since a tick came late ... */
	unsigned stills;		/* ... so often since they looked */
	bool is_started;
	bool is_stopping;
	bool is_stopped;
	void (*stopped)(void *ctx);
	void *stopped_ctx;
	struct fm_task stopped_task;
	struct fm_log_limit lines;	/* of peers that were removed meanwhile */
	uint8_t buf[FM_WIRE_MSG_MAX];	/* one message being encoded */
	struct fm_wire_msg in;		/* one message being decoded */
};

/* engine.c */
struct fm_peer *fm_engine_peer(struct fm_engine *e, const char *name);
/* What its lines about jobs count on; of a peer that was removed, on all such. */
struct fm_log_limit *fm_engine_job_lines(struct fm_engine *e, const char *peer);
struct fm_peer *fm_engine_peer_by_key(struct fm_engine *e, const uint8_t key[FM_KEY_LEN]);
/* Those that are open. */
struct fm_store_ref *fm_engine_store_get(struct fm_engine *e, const char *name, size_t len);
/* Also one that is silent, which has its rules and nothing else; with a reference. */
struct fm_store_ref *fm_engine_store_rules(struct fm_engine *e, const char *name, size_t len);
/* One that is not: its file system does not answer, or fails. Without a reference; NULL: none. */
const struct fm_store_ref *fm_engine_store_silent(struct fm_engine *e, const char *name,
						  size_t len);
/* Of a store that is not there now: the volume that it follows; NULL: there is no such store. */
const char *fm_engine_volume_of(struct fm_engine *e, const char *name, size_t len);
/* The one that is shared by that ID, with a reference; NULL: none. */
struct fm_store_ref *fm_engine_store_shared(struct fm_engine *e, const char *id);
/* The same; if none is open, a silent one. */
struct fm_store_ref *fm_engine_store_shared_rules(struct fm_engine *e, const char *id);
/* Whether a store that may be shared by that ID follows a volume, and is not there now. */
bool fm_engine_is_volume_away(struct fm_engine *e, const char *id);
void fm_engine_store_put(struct fm_store_ref *ref);
/* One more reference to it, to be given back, too. Returns it. */
struct fm_store_ref *fm_engine_store_again(struct fm_store_ref *ref);
void fm_engine_check_stopped(struct fm_engine *e);
static inline uint64_t fm_engine_now(const struct fm_engine *e)
{
	return fm_loop_now(e->env.loop);
}

/* A line of what a peer causes as often as it likes: by messages, by coming and going. p may be
 * NULL. */
#define fm_peer_log(e, p, level, ...)                                                              \
	fm_log_some((p) ? &(p)->lines : &(e)->lines, fm_engine_now(e), level, __VA_ARGS__)

/* peer.c */
int fm_peer_new(struct fm_engine *e, const struct fm_peer_opts *opts, struct fm_peer **out,
		struct fm_err *err);
void fm_peer_free(struct fm_peer *p);		/* no session */
void fm_peer_start(struct fm_peer *p);
void fm_peer_need(struct fm_peer *p);		/* somebody waits: dial now, if that can help */
void fm_peer_network_changed(struct fm_peer *p);	/* a cable may be back */
void fm_peer_drop(struct fm_peer *p, const char *why);	/* end its sessions */
/* A session said HELLO: make it the session of its peer, or retire it or the one there is. */
void fm_peer_offer(struct fm_peer *p, struct fm_session *s);
/* What it says of its addresses. */
void fm_peer_learn(struct fm_peer *p, const struct fm_wire_addrs *said);
void fm_peer_lost(struct fm_peer *p, struct fm_session *s, const struct fm_err *err);

#endif
