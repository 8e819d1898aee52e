/* SPDX-License-Identifier: MIT */
/*
 * sim_priv - what the files of the simulator share beyond sim.h: the lists of all that exists.
 */
#ifndef FM_TESTS_SIM_PRIV_H
#define FM_TESTS_SIM_PRIV_H

#include <limits.h>

#include "tests/sim/sim.h"

struct sim_net;
struct sim_conn;

struct sim_net_world {
	struct sim_net *nets[SIM_NODES_MAX];
	struct fm_list ctls;		/* struct fm_ctl, all there ever were */
	struct fm_list conns;		/* struct sim_conn, likewise */
	unsigned domains;
	unsigned flips;
	unsigned overruns;
	uint32_t rkey;			/* the last given out */
	uint64_t remote;		/* where the next region will be, as peers see it */
	/* it writes to what it is lent when it likes; NULL: nobody does */
	const struct sim_node *hostile;
	uint64_t rewrites;		/* bytes that it changed so, ever */
};

struct sim_disk_world {
	unsigned files;
	unsigned ios;
	unsigned overlaps;
	unsigned stores;
	unsigned hangs_left;		/* that a tree's disk may still have; then it is well */
	uint64_t hung_ns;		/* all of them together */
	uint64_t hung_until_ns;		/* the last one */
	uint64_t resumed;		/* bytes that a try found there from one before */
	uint64_t dropped;		/* bytes that were logged and then discarded by an engine */
};

/* Names under which a hostile node may have written: what it spoils there is its own. */
bool sim_is_suspect(const char *path);

/* sim_bytes.c. The CRC is its own, so that what is tested is not compared with itself; the content
 * follows from the tag. */
uint32_t sim_crc32c(const uint8_t *at, uint64_t len);
void sim_fill(uint8_t *at, uint64_t len, uint64_t tag);

struct sim_net_world *sim_net_world(struct sim *sim);
struct sim_disk_world *sim_disk_world(struct sim *sim);

/* One node's network. */
struct sim_net {
	struct fm_net net;
	struct sim_node *node;
	const struct fm_net_events *events;	/* NULL: not listening */
	void *ctx;
	bool is_isolated;
	/* a bit for each cable of its over which nothing goes; ... */
	unsigned dead_rails;
	unsigned gone_rails;		/* ... of these, the ones whose address is gone, too */
	struct fm_list half_made;	/* data connections between token() and arrived() */
	struct fm_list dials;		/* data dials that are not done */
};

struct fm_domain {
	struct sim_net *net;
	unsigned conns;			/* not gone */
	bool is_freed;
};

/* sim_conn.c: both ends of a new data connection. */
struct sim_conn_pair_opts {
	enum fm_kind kind;
	struct sim_net *net[2];
	struct fm_domain *domain[2];
	struct fm_addr addr[2];
	unsigned rail[2];
};

void sim_conn_pair(const struct sim_conn_pair_opts *opts, struct sim_conn *ends[2]);
struct fm_conn *sim_conn_base(struct sim_conn *conn);

/* Both ends learn it, each in its own time. Nothing happens if it is broken already. */
void sim_conn_break(struct sim_conn *conn, const char *why);

/* What this node has over these cables is broken: it hears nothing for a while, then that it
 * failed. */
#define SIM_ALL_RAILS UINT_MAX
void sim_conn_isolate(struct sim_net *net, unsigned rails);

/*
 * A crash, in each of the files that has something of a node: from here on nothing that its engine
 * does has an effect on the world.
 * *_left: what is there still once the engine is freed, which should be nothing.
 */
void sim_net_die(struct sim_node *node);
void sim_conn_die(struct sim_net *net);
void sim_store_die(struct sim_node *node);
void sim_tree_sinks_die(struct sim_node *node);
void sim_trees_die(struct sim_node *node);
unsigned sim_net_left(const struct sim_node *node);
unsigned sim_conn_left(const struct sim_net *net);

/* The peers' connections that a power cut left hanging may be reset now. */
void sim_net_boot(struct sim_node *node);

/* sim.c: everything on the loops of a node that crashed happens now, but for what its users do;
 * time stands still. */
void sim_drain(struct sim_node *node);
bool sim_is_idle(const struct sim_node *node);
struct sim_crash *sim_planned_crash(struct sim *sim);
void sim_count_step(struct sim *sim);

/* sim_crash.c: after a step. */
void sim_crash_if_due(struct sim *sim);

/* Inside of a call, a part of which is done. True: the node has died here, and the rest of the call
 * must do nothing. */
bool sim_crash_point(struct sim_node *node);

void sim_conn_counts(struct sim *sim, struct sim_net_counts *out);

#endif
