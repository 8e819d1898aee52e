/* SPDX-License-Identifier: MIT */
/*
 * sim - a whole cluster in one thread: real engines over a simulated network, simulated disks, one
 * clock and one seed.
 *
 * The world (sim.c) has nodes, virtual time and a heap of events. It steps one loop at a time,
 * chosen by the seed among those that have something to do; when none has, time jumps to the next
 * event or timer. Nothing depends on the real clock, on addresses or on the order of threads, so a
 * seed always does the same.
 *
 * An event with a loop runs inside a pass of that loop, as everything of the real transport and the
 * real disks does. One without runs between passes: it is the hardware's. Objects of the network
 * and the disks live until sim_free(), so that what is late finds them; use after close is asserted
 * instead.
 */
#ifndef FM_TESTS_SIM_H
#define FM_TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/env.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/node/engine.h"
#include "mover/services/request.h"
#include "mover/services/transfer/transfer.h"
#include "mover/services/verification.h"
#include "mover/store/store.h"
#include "mover/transport/transport.h"

#define SIM_NODES_MAX 4
#define SIM_LANES_MAX 4
#define SIM_RAILS_MAX 3
#define SIM_US UINT64_C(1000)
#define SIM_MS UINT64_C(1000000)
#define SIM_S UINT64_C(1000000000)

struct sim;
struct sim_event;
struct sim_node;
struct sim_entry;
struct sim_dir;
struct sim_stage;
struct sim_partial;
struct sim_group;
struct sim_tree;

/* What can go wrong: one in so many (0: never), asked for each operation. */
struct sim_faults {
	unsigned conn_cut;		/* data connection breaks; per message */
	unsigned conn_flip;		/* a bit of a payload is flipped on the way; per payload */
	unsigned conn_flip_msg;		/* a bit of a message; per message */
	unsigned conn_stall;		/* a data connection pauses for up to 3 s; per message */
	unsigned dial_refused;		/* data dial fails, one way or another */
	unsigned ctl_cut;		/* control connection breaks; per message */
	/* control connection swallows everything from now on; per message */
	unsigned ctl_stuck;
	unsigned read_eio;
	unsigned write_eio;
	unsigned create_fails;		/* open_source, create */
	unsigned publish_fails;
	unsigned source_changes;	/* per file opened as a source */
	/* what an earlier try left is damaged while nobody has it open; per piece */
	unsigned kept_flips;
	/* a tree's disk hangs for up to 150 s; per pack, a few in all */
	unsigned tree_hangs;
	unsigned loop_stall;		/* a thread does not get to run for up to 20 ms; per pass */
	/* a sink that grows beyond it is out of space; 0: endless */
	uint64_t space_bytes;
};

/* Faults that did happen: a failure without a cause is a bug. */
enum sim_fired {
	SIM_FIRED_NET = 1,		/* cut, stuck, refused, stalled */
	SIM_FIRED_FLIP = 2,
	SIM_FIRED_IO = 4,
	SIM_FIRED_SPACE = 8,
	SIM_FIRED_CHANGE = 16,
	SIM_FIRED_HANG = 32,
	SIM_FIRED_CRASH = 64,
	SIM_FIRED_ROT = 128,		/* in what earlier tries left: no cause of a failure */
};

/*
 * How a node ends without a word. Killed (SIGKILL): its kernel stays, so what was written is there
 * and its connections are reset. Power cut: silence; what was not synced is there, or not, or torn.
 */
enum sim_death { SIM_ALIVE, SIM_KILLED, SIM_POWER_CUT };

/* What becomes of what happens (sim_trace()). Making the lines takes longer than much of what they
 * tell of. */
enum sim_tracing {
	SIM_TRACE_NOT,
	SIM_TRACE_HASH,			/* sim_trace_hash() tells two runs apart */
	SIM_TRACE_PRINT,		/* that, and it is printed */
};

struct sim_opts {
	uint64_t seed;
	unsigned nodes;			/* 2 .. SIM_NODES_MAX */
	unsigned lanes;			/* of each node */
	unsigned rails;			/* subnets that every node has an address in */
	unsigned rdma_rails;		/* the first so many are RDMA devices as well */
	bool is_crossed;		/* subnets reach each other */
	bool is_tcp_off;		/* nobody takes TCP data connections */
	uint64_t net_ns;		/* longest latency of the network */
	uint64_t disk_ns;
	uint64_t ns_per_kib;		/* of a data connection */
	size_t arena_len[SIM_NODES_MAX];
	enum sim_tracing tracing;
};

/* ---- the world: sim.c ---- */

struct sim *sim_new(const struct sim_opts *opts);

/* Engines are freed. Checks that nothing of network and disks is left open. */
void sim_free(struct sim *sim);

const struct sim_opts *sim_opts(const struct sim *sim);

/* Everything goes right until this is called; may be called at any time. */
void sim_set_faults(struct sim *sim, const struct sim_faults *faults);
const struct sim_faults *sim_faults(const struct sim *sim);
void sim_fired(struct sim *sim, enum sim_fired what);
unsigned sim_what_fired(const struct sim *sim);

uint64_t sim_now(const struct sim *sim);
uint64_t sim_random(struct sim *sim);
uint64_t sim_seed(const struct sim *sim);
uint64_t sim_below(struct sim *sim, uint64_t n);		/* 0 .. n - 1; n 0: 0 */
bool sim_one_in(struct sim *sim, unsigned n);			/* n 0: never */
uint64_t sim_latency(struct sim *sim, uint64_t max_ns);		/* mostly short, sometimes max_ns */

/* run(ctx) after delay_ns, in a pass of loop (NULL: between passes). Events for the same time run
 * in the order made. */
struct sim_event *sim_after(struct sim *sim, struct fm_loop *loop, uint64_t delay_ns,
			    void (*run)(void *ctx), void *ctx);
struct sim_event *sim_at(struct sim *sim, struct fm_loop *loop, uint64_t at_ns,
			 void (*run)(void *ctx), void *ctx);

/* What somebody does at that node, in a pass of its control loop: a crash of the node does not keep
 * him from it. */
void sim_user_after(struct sim_node *node, uint64_t delay_ns, void (*run)(void *ctx), void *ctx);

/* It will not run. Not after it ran. */
void sim_cancel(struct sim_event *event);

/* One pass of a loop, or one event, or a jump in time. False: nothing will ever happen any more. */
bool sim_step(struct sim *sim);

/* How many there were, and places inside of them where a disk has done a part of a call:
 * sim_crash_point(). */
uint64_t sim_steps(const struct sim *sim);

/* Step until is_over(ctx), at most until limit_ns of virtual time from now. Returns whether it was
 * over. NULL: never over. */
bool sim_run(struct sim *sim, bool (*is_over)(void *ctx), void *ctx, uint64_t limit_ns);

/* Whose pass it is: a loop, or NULL between passes. */
const struct fm_loop *sim_running(const struct sim *sim);

/* Into the hash that tells whether two runs were the same, and printed; as sim_opts.tracing
 * says. */
void sim_trace(struct sim *sim, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
uint64_t sim_trace_hash(const struct sim *sim);

/* Print seed and reason and end the program: an invariant does not hold. */
void sim_fail(struct sim *sim, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* Memory that lives until sim_free(), zeroed. */
void *sim_alloc(struct sim *sim, size_t len);

/* ---- nodes: sim.c ---- */

struct sim_node {
	struct sim *sim;
	unsigned index;
	char name[16];			/* "n1" */
	uint8_t key[FM_KEY_LEN];
	struct fm_loop *control;
	struct fm_loop *lanes[SIM_LANES_MAX];
	struct fm_worker *worker;
	void *arena;
	size_t arena_len;
	struct fm_net *net;
	struct fm_engine *engine;	/* the user's to make and free; a crash frees it */
	enum sim_death death;
	struct sim_entry *entries;	/* what its disk holds */
	struct sim_dir *dirs;		/* the same, directories as a whole: sim_tree.c */
	struct sim_stage *stages;	/* unfinished ones: sim_tree_sink.c */
	struct sim_partial *partials;	/* unfinished files: sim_store.c */
	struct sim_group *groups;	/* those that were ever begun: sim_group.c */
	struct fm_list open_files;	/* struct sim_file: sim_store.c */
	struct fm_list open_sinks;	/* struct sink of a tree: sim_tree_sink.c */
	uint64_t hung_until_ns;		/* its trees' disk hangs: sim_tree_hang.c */
	/* it changes what it was lent over RDMA behind every step: sim_conn_rewrite() */
	bool is_rewriting;
};

struct sim_node *sim_node(struct sim *sim, unsigned index);

/* Fill what an engine needs to live on this node. */
void sim_node_env(struct sim_node *node, struct fm_engine_env *env);

/* ---- crashes: sim_crash.c ---- */

struct sim_crash {
	uint64_t step;			/* of sim_steps() */
	struct sim_node *node;
	enum sim_death death;
	/* between passes; its engine is gone */
	void (*crashed)(void *ctx, struct sim_node *node);
	void *ctx;
};

/* Nothing, if it has no engine then. One at a time: the last one counts. */
void sim_crash_at(struct sim *sim, const struct sim_crash *crash);

/* It lives again, without an engine, and finds what is on its disk. */
void sim_node_boot(struct sim_node *node);

/* ---- network: sim_net.c (control connections, dialling), sim_conn.c (data connections) ---- */

struct fm_net *sim_net_new(struct sim_node *node);

/* Nobody can reach this node, or it anybody, and what exists is stuck. */
void sim_net_isolate(struct sim_node *node, bool is_isolated);

/*
 * One of its cables: it loses everything without a word, or is pulled, which the node notices at
 * once, since its address goes with the carrier; or it is whole again. What went over it stays
 * stuck.
 */
enum sim_cable { SIM_CABLE_WHOLE, SIM_CABLE_LOSES, SIM_CABLE_PULLED };

void sim_net_cut_cable(struct sim_node *node, unsigned rail, enum sim_cable what);

/*
 * A byte here and there of the memory that peers lend over RDMA to a hostile node, in use or not:
 * its hardware asks nobody. Behind each step if it is_rewriting; and whenever a pack is applied.
 * Numbers of its own, so that seeds stay what they are.
 */
void sim_conn_rewrite(struct sim *sim);
void sim_conn_set_hostile(struct sim_node *node);

/* Break one of each kind at random, if there is one. */
void sim_net_cut_conn(struct sim *sim);
void sim_net_cut_ctl(struct sim *sim);

/* Of everything that exists, in all nodes. */
struct sim_net_counts {
	unsigned ctls;			/* not closed by their owner */
	unsigned conns;			/* not gone */
	unsigned regions;		/* lent */
	unsigned sends;			/* not done */
	unsigned domains;
	unsigned flips;			/* payloads that were damaged and delivered, ever */
	/* writes outside of lent memory, ever: each broke its connection */
	unsigned overruns;
};

void sim_net_counts(struct sim *sim, struct sim_net_counts *out);

/* ---- disks: sim_store.c ---- */

struct sim_blob {
	uint8_t *bytes;			/* holes are zeros */
	uint64_t size;
	uint64_t cap;
	bool *is_data;			/* per block of 4096; NULL: all */
	struct fm_attr attr;
	uint32_t crc;			/* CRC32C of the whole, bit by bit */
	/* nobody waited for its sync, and then there was a power cut */
	bool is_torn;
};

/* Content that depends on `tag` and differs in every block. holes: one block in so many is data (0:
 * no holes). */
struct sim_blob *sim_blob_new(struct sim *sim, uint64_t tag, uint64_t size, unsigned holes);
bool sim_blob_is_same(const struct sim_blob *a, const struct sim_blob *b);

/* The node's disk as a store. Any number of them show the same names. */
struct fm_store *sim_store_new(struct sim_node *node, const char *name);
void sim_disk_add(struct sim_node *node, const char *path, struct sim_blob *blob);

/* What is under that name now, or NULL. */
struct sim_blob *sim_disk_find(struct sim_node *node, const char *path);

/* Whether a power cut took or tore what was last under that name, a file or a tree, since nobody
 * had waited for its sync. */
bool sim_disk_has_lost(const struct sim_node *node, const char *path, bool is_callers);

/* Every name there is. */
void sim_disk_each(struct sim_node *node,
		   void (*visit)(void *ctx, const char *path, struct sim_blob *blob), void *ctx);

struct sim_caller_opts {
	bool is_stream;
	bool may_stand;			/* as of FUSE; a stream's always */
	/* stream: the last read, or the write at stops_at, waits until it is cancelled; file: every
	 * read, those writes */
	bool never_ends;
	uint64_t stops_at;		/* sink: it takes no byte behind that */
	bool is_synced;			/* sink: so is what is written down for the next try */
	/* sink: what is there is kept under this name for the next try; NULL: it is not */
	const char *partial_path;
	uint64_t room;			/* sink: not 0: it is memory of so many bytes */
};

/* A file that a local caller handed over. */
struct fm_file *sim_caller_source(struct sim_node *node, struct sim_blob *blob,
				  const struct sim_caller_opts *opts);

/* *result is what was published, or NULL as long as nothing was. */
struct fm_file *sim_caller_sink(struct sim_node *node, const struct sim_caller_opts *opts,
				struct sim_blob **result);

/* He was told that his get ended: from now on nothing may come to his memory. */
void sim_caller_told(struct fm_file *file);

/* ---- publication groups: sim_group.c ---- */

/* A member of a group that is not published, by the name that it will get; NULL: there is none. */
struct sim_blob *sim_group_member(struct sim_node *node, const char *path);
struct sim_tree *sim_group_tree(struct sim_node *node, const char *path);

/* The name that what is there under this one has, or will get. */
const char *sim_group_name(const char *path);

struct sim_disk_counts {
	unsigned files;			/* not closed */
	unsigned ios;			/* under way */
	/* writes begun while one of the same bytes was under way, ever */
	unsigned overlaps;
	unsigned stores;		/* not freed */
	uint64_t resumed;		/* bytes that a try found there from one before, ever */
	/* bytes that were logged and then discarded by an engine, ever */
	uint64_t dropped;
};

/* How often the disk of a tree may hang, as the faults say, from now on. */
void sim_disk_hangs(struct sim *sim, unsigned count);

/* How long they hung, all together, and until when the last one does. */
uint64_t sim_disk_hung(struct sim *sim, uint64_t *until_ns);

void sim_disk_counts(struct sim *sim, struct sim_disk_counts *out);

/* What a node's disk has of unfinished transfers; at the end of the world. */
void sim_store_free(struct sim_node *node);

#endif
