/* SPDX-License-Identifier: MIT */
/*
 * engine - a node: its stores, its peers and the sessions with them. What it does with them is in
 * services, which it is handed (service.h). The daemon, the API and the simulator drive it through
 * this header.
 *
 * It sees the world through struct fm_engine_env only. Everything here is called on the control
 * loop and calls back there, in a later pass. Strings handed in are copied unless said otherwise.
 */
#ifndef FM_ENGINE_H
#define FM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/err.h"
#include "mover/node/engine_opts.h"
#include "mover/node/port_sum.h"
#include "mover/store/store.h"
#include "mover/transport/transport.h"

struct fm_engine;

/* env is copied; what it points to must outlive the engine. */
int fm_engine_new(const struct fm_engine_opts *opts, const struct fm_engine_env *env,
		  struct fm_engine **out, struct fm_err *err);

/* Listen, dial the peers. */
int fm_engine_start(struct fm_engine *engine, struct fm_err *err);

/* Abort every job, close every session; then stopped(ctx). */
void fm_engine_stop(struct fm_engine *engine, void (*stopped)(void *ctx), void *ctx);

/* Whether something is under way that others wait for and a stop would end: a transfer, a
 * verification, a request, staging. */
bool fm_engine_is_working(const struct fm_engine *engine);

/* Stopping: whether nothing is left but transfers that have ended and wait for a local caller's
 * file, which may be for ever. */
bool fm_engine_awaits_callers(const struct fm_engine *engine);

/* The worker is about to be freed, before the engine: from now on buffers give it nothing to do.
 * Stopping, or never started. NULL is allowed. */
void fm_engine_worker_ends(struct fm_engine *engine);

/* Stopped, or never started. Closes the stores. NULL is allowed. */
void fm_engine_free(struct fm_engine *engine);

/*
 * Add or change; -EEXIST if another peer has that key, -EINVAL if this node has, -ENOSPC. A change
 * of key or address ends the session there is.
 */
int fm_engine_set_peer(struct fm_engine *engine, const struct fm_peer_opts *peer,
		       struct fm_err *err);

/* Revoked: its session ends now. */
void fm_engine_remove_peer(struct fm_engine *engine, const char *name);

/* The same for the peer of that name, unless this is its key still. */
void fm_engine_revoke_peer_key(struct fm_engine *engine, const char *name,
			       const uint8_t still[FM_KEY_LEN]);

/* Taken over. Replaces one of the same name (jobs under way keep the old one until they end).
 * -ENOSPC. */
int fm_engine_set_store(struct fm_engine *engine, struct fm_store *store, struct fm_err *err);
void fm_engine_remove_store(struct fm_engine *engine, const char *name);

/*
 * The path of that store leads to the directory `now`; NULL: to another one than ever. What goes to
 * a former one and is not done ends with -EAGAIN instead, as does what changed names there just
 * then, which is said. The stores that have the name, or had it until they were replaced or
 * removed, may be in several, one after the other: each is left that is known to be in another one
 * than now. One that is not known, as of a silent store, is not. Before the store is replaced, or
 * removed.
 */
void fm_engine_leave_store_but(struct fm_engine *engine, const char *name,
			       const struct fm_dirway *now);

/*
 * Stores that come and go with volumes. volume_of() names the one that a store follows; NULL: it
 * follows none. is_away(): one that follows a volume, and may be shared by that ID, is not there.
 * On the control loop; ctx outlives the engine's requests.
 */
void fm_engine_set_volumes(struct fm_engine *engine,
			   const char *(*volume_of)(void *ctx, const char *store, size_t len),
			   bool (*is_away)(void *ctx, const char *id), void *ctx);

void fm_engine_set_rate(struct fm_engine *engine, uint64_t rate_bytes);

/* For status: the configuration in force was read at that Unix time; then, that one read later was
 * not taken, and why, but for the peers that it removed ("": none), until one is. Copied. */
void fm_engine_config_taken(struct fm_engine *engine, int64_t read_ms);
void fm_engine_config_refused(struct fm_engine *engine, const char *why, const char *removed);
/* For status: the keys (copied) that a restart would change; "": none. */
void fm_engine_config_waits(struct fm_engine *engine, const char *keys);

/* The networks that are private have changed: peers are told, and TCP connections that exist are
 * made anew. */
void fm_engine_networks_changed(struct fm_engine *engine);

/* ---- status: a snapshot, by visiting ---- */

struct fm_rail_status {
	const struct fm_conn_info *info;
	unsigned lane;
	uint64_t bytes_sent;
	uint64_t bytes_received;
	bool is_up;
	/* NULL: one of its connections; else it was up and has none any more, for this reason
	 * ... */
	const char *why;
	uint64_t down_ns;		/* ... for so long */
};

struct fm_peer_status {
	const char *name;
	const char *address;		/* "" if it dials us */
	bool is_connected;
	const char *last_error;		/* "" */
	uint64_t since_ns;		/* how long it is in this state */
	unsigned conns;
	/* over all connections since it is a peer, those that are gone included */
	uint64_t bytes_sent, bytes_received;
	struct fm_port_sums ports;	/* the same, of each port of ours */
	struct fm_session_way session;
	/* of a PING over the session, both loops included; 0: not known yet */
	uint64_t round_trip_ns;
	const char *rdma_why;		/* connected without RDMA: why; else "" */
};

struct fm_node_status {
	const char *node;
	unsigned lanes;
	const char *io[FM_LANES_MAX];	/* fm_ring_kind() of each lane */
	unsigned tcp_conns;		/* on one rail at most */
	unsigned rdma_conns;
	uint64_t chunk_bytes;
	uint64_t slab_bytes;
	const char *chosen;		/* "": not said */
	int64_t config_read_ms;		/* Unix time of what is in force; 0: not said */
	const char *config_mistake;	/* of what was read since; "": none */
	/* the peers that this removed, as text; "": none */
	const char *config_removed;
	const char *config_waits;	/* keys that a restart would change; "": none */
	uint64_t arena_bytes;
	uint64_t slabs;
	uint64_t slabs_free;
	uint16_t rdma_port;		/* 0: none, rdma_why says why */
	const char *rdma_why;
	uint16_t tcp_port;
	const char *tcp_why;
	uint64_t uptime_ns;
};

struct fm_status_visitor {
	void (*node)(void *ctx, const struct fm_node_status *s);
	void (*store)(void *ctx, const struct fm_store *s);
	void (*peer)(void *ctx, const struct fm_peer_status *s);
	/* of the peer visited last */
	void (*rail)(void *ctx, const struct fm_rail_status *s);
};

/* Calls the visitor for everything, in the order above. */
void fm_engine_status(struct fm_engine *engine, const struct fm_status_visitor *visitor, void *ctx);

#endif
