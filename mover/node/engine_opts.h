/* SPDX-License-Identifier: MIT */
/* engine_opts - what an engine (engine.h) is handed, and what of it is seen. */
#ifndef FM_ENGINE_OPTS_H
#define FM_ENGINE_OPTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/transport/transport.h"

struct fm_clock;
struct fm_loop;
struct fm_net;
struct fm_random;
struct fm_ring;
struct fm_service;
struct fm_worker;

#define FM_PEERS_MAX 256
#define FM_STORES_MAX 64	/* with those that are hidden there may be a few more */
#define FM_LANES_MAX 16
#define FM_SERVICES_MAX 16
/* at which one peer is dialled: that the configuration names, and that it said itself */
#define FM_PEER_ADDRS_MAX 16

/* A node's name or address, and its port. */
struct fm_endpoint {
	char host[256];
	uint16_t port;
};

/* Who keeps what a peer says of its addresses for the next start. Must not block. */
struct fm_peer_keeper {
	void (*told)(void *ctx, const char *peer, const uint8_t key[FM_KEY_LEN],
		     const struct fm_endpoint *learned, unsigned count);
	void *ctx;
};

/* Who wants to know that there is a session with a peer (again). Must not call the engine. */
struct fm_peer_watcher {
	void (*up)(void *ctx, const char *peer);
	void *ctx;
};

struct fm_engine_env {
	const struct fm_clock *clock;
	const struct fm_random *random;
	struct fm_loop *loop;			/* the control loop */
	struct fm_loop *lane_loops[FM_LANES_MAX];
	struct fm_ring *lane_rings[FM_LANES_MAX];	/* NULL in the simulator */
	struct fm_net *net;
	struct fm_worker *worker;
	void *arena;				/* slabs are cut from it; page-aligned */
	size_t arena_len;
	/* NULL-terminated (service.h); NULL: none */
	const struct fm_service *const *services;
	const struct fm_peer_keeper *keeper;	/* NULL: nobody does */
	struct fm_peer_watcher watcher;		/* up NULL: nobody does */
};

struct fm_engine_opts {
	const char *node;			/* our name */
	/* our public key: of two nodes the lower one dials first */
	uint8_t key[FM_KEY_LEN];
	unsigned lanes;				/* 1 .. FM_LANES_MAX */
	/* power of two, 4 KiB .. 64 MiB; also the size of a slot */
	uint32_t chunk_bytes;
	uint32_t slab_bytes;			/* multiple of chunk_bytes, at most 64 chunks */
	/* queue pairs per rail, 1 .. 8; if the peer has fewer, so many */
	unsigned rdma_conns;
	unsigned tcp_conns;			/* connections per rail, 1 .. 16; the same */
	/* fewer TCP connections over a slow link (mover/node/tuning.h) */
	bool is_link_counted;
	/* for status: how all of these came about, one line; outlives the engine; NULL: nothing is
	 * said */
	const char *chosen;
	/* a second, over all transfers this node sends; 0: no limit */
	uint64_t rate_bytes;
	/* a peer silent for this long is lost; default 10 s */
	uint64_t stall_ns;
	/* of buffers that are registered with RDMA devices (data/registered.h); 0: none is */
	uint64_t registered_bytes;
	/* measuring only: no CRC is computed or checked, no journal kept */
	bool is_unchecked;
};

struct fm_peer_opts {
	const char *name;
	const char *host;			/* NULL: it dials us */
	uint16_t port;
	uint8_t key[FM_KEY_LEN];
	/* further addresses of it, FM_PEER_ADDRS_MAX - 1 at most; tried in turn */
	const struct fm_endpoint *more;
	unsigned more_count;
	/* what told() of struct fm_peer_keeper was told last */
	const struct fm_endpoint *learned;
	unsigned learned_count;
};

/* Which way a session goes just now: our port, our address and the peer's, as numbers. All "":
 * there is no connection for it. */
struct fm_session_way {
	char device[FM_RAIL_NAME_MAX];
	char local[INET6_ADDRSTRLEN + 16];
	char remote[INET6_ADDRSTRLEN + 16];
};

#endif
