/* SPDX-License-Identifier: MIT */
/*
 * stage_sim - 2 to 64 nodes with the real core of a staging run (staging/run/run.h) over
 * simulated sessions, disks, memory and storage,
 * from one seed. One world at a time, `sim`; a step is one event; time jumps from event to
 * event. One thread. See README.md.
 */
#ifndef FM_TESTS_STAGE_SIM_H
#define FM_TESTS_STAGE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/env.h"
#include "staging/run/run.h"

#define S FM_NS_PER_S
#define MS FM_NS_PER_MS
#define BEGIN_NS (1000000 * S)		/* of the world: clocks are set back from there */
#define NODES_MAX FM_RUN_NODES_MAX
/* extents that a decision looks at, in a third of the seeds */
#define SCAN_SHORT 3
#define EXTENTS_MAX 300			/* more than one page of a report */
#define FAULTS_MAX 24

enum fault {
	/* a daemon or its node; back with its disk, without it, or never */
	FAULT_CRASH,
	FAULT_LOSS,			/* a session ends, and comes back */
	/* two halves of the nodes, or one node and the others, do not reach each other */
	FAULT_CUT,
	FAULT_SLOW,			/* a node's disk, network or way to the storage */
	FAULT_STORAGE,			/* away: reads fail, or hang */
	FAULT_ROT,			/* an extent on a disk is no more what was written */
	FAULT_CLOCK,			/* a node's clock is set back, or forward */
	FAULT_STALL,			/* a node does not run for a while */
	FAULTS,
};

/* What a node does when it is asked for an extent that it said it has. */
enum lie {
	LIE_NONE,			/* it is none that lies */
	LIE_OTHER_BYTES,
	LIE_REFUSES,
	LIE_SILENT,
	LIE_CHANGES,			/* of one extent it says another CRC each time */
	LIE_OFFERS,			/* what it does not have, and other bytes come */
	LIE_OFFERS_NOTHING,		/* the same, and nothing comes */
	LIE_OFFERS_REFUSED,		/* the same, and it says so shortly before that is late */
	LIES,
};

enum event_kind {
	EVENT_TICK,
	EVENT_MESSAGE,
	EVENT_DATA,			/* all of an extent is there, or not */
	EVENT_READ,
	EVENT_WRITTEN,
	EVENT_CHECKED,
	EVENT_PUBLISHED,
	EVENT_INVITED,
	EVENT_DISK_BAD,
	EVENT_DOWN,			/* a node hears that a session is lost */
	EVENT_UP,			/* a session is there, for both */
	EVENT_START,			/* a node that crashed */
	EVENT_REQUEST,
	EVENT_FAULT,
	EVENT_HEAL,
};

struct event {
	uint64_t at_ns, number;
	enum event_kind kind;
	unsigned node, other;
	uint32_t boot, epoch;		/* of the node; of the session */
	unsigned slot, to_slot;
	bool is_memory, is_cancelled;
	uint32_t serial, extent, crc, content;
	int code;
	uint64_t nodes;
	struct fm_run_msg *msg;
};

struct session {
	bool is_up[2];			/* as the lower, the higher node knows */
	bool is_alive, is_cut;
	uint32_t epoch;
	/* arrival of the last message of the lower, the higher node */
	uint64_t last_ns[2];
};

struct memory {
	uint32_t serial;		/* another one for each use */
	uint32_t extent, content;
	unsigned from;
	bool is_receiving;
};

struct node {
	struct fm_run *run;		/* NULL: it has none */
	bool is_over;			/* the run is to be freed */
	bool is_running;
	bool is_gone;			/* for good */
	uint32_t boot;
	uint32_t runs;			/* that it had */
	bool can_read, does_hang;	/* does_hang: its reads never end */
	bool does_disk_hang;		/* its writes never end; it reads and sends as others */
	bool is_slow;			/* from the beginning, and others must not wait for it */
	enum lie lie;
	bool lies_ready;		/* it says that it is READY, else a sink */
	struct fm_run_msg lie_join;	/* its last report; type FM_RUN_LINKS: none */
	bool is_asked;			/* a sink, as requests say */
	uint64_t request;		/* made here; 0: none */
	bool is_ready;			/* on disk */
	uint64_t asked_ns, ready_ns;	/* asked_ns: by the first request that names it */
	bool has_ended;
	bool was_torn;			/* a run of it ended with -EBADMSG: two contents */
	int code;
	unsigned disk_room;		/* extents */
	double slow_disk, slow_net, slow_read;
	int64_t clock_ns;		/* less the world's */
	uint64_t stalled_ns;
	struct memory memory[FM_RUN_SLOTS];
	bool is_durable[EXTENTS_MAX];
	uint32_t journal[EXTENTS_MAX], disk[EXTENTS_MAX];
	bool is_rotten[EXTENTS_MAX];
	uint64_t sent;			/* extents */
};

struct sim {
	uint64_t seed, random, now_ns, steps, hash;
	unsigned node_count;
	uint32_t extent_count;
	uint8_t rank[NODES_MAX];
	struct node node[NODES_MAX];
	bool is_peer[NODES_MAX][NODES_MAX];
	struct session session[NODES_MAX][NODES_MAX];	/* [lower][higher] */
	uint32_t truth[EXTENTS_MAX];
	bool has_expected;		/* a manifest is known */
	bool is_faulty;			/* anything at all goes wrong in this seed */
	bool has_slow;			/* and that is only that some are slow */
	bool has_hung;			/* or that disks hang from the beginning */
	bool has_liar;			/* or that one node lies of what it has */
	bool has_late;			/* one is asked when others may be through */
	bool has[FAULTS];
	bool is_wire_bad, is_storage_bad, is_storage_ever_bad, are_disks_full, is_even;
	double loss_of_bytes;
	uint64_t change_ns;		/* the source changes; FM_NEVER: it does not */
	uint64_t storage_ns;		/* away until then */
	bool does_storage_hang, is_storage_gone;
	uint64_t heal_ns;
	bool is_healed;
	uint64_t reads;
	uint64_t read_before;		/* the last node was asked for */
	uint64_t asked;			/* sinks */
	double size;			/* seconds that an extent takes over a link */
	struct event *heap[1 << 16];
	unsigned heap_count;
	char violation[400];
};

extern struct sim sim;
extern bool sim_is_tracing;

/* main.c */
uint64_t sim_random(uint64_t below);
bool sim_chance(double p);
void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_violate(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* world.c */
extern const struct fm_run_world sim_world;
struct event *sim_event(uint64_t delay_ns, enum event_kind kind, unsigned node);
void sim_step(void);
void sim_free_events(void);
void sim_session_lose(unsigned a, unsigned b, bool is_cut);
void sim_session_up(unsigned a, unsigned b, uint64_t delay_ns);
void sim_start(unsigned node, uint64_t request);
void sim_reap(struct node *n);
struct session *sim_session(unsigned a, unsigned b);
uint64_t sim_bit(unsigned node);
bool sim_has_equal_uploads(void);	/* all nodes send as many from their disks at once */

/* scenario.c */
void sim_run(uint64_t seed);
void sim_fault(void);
void sim_heal(void);

/* audit.c */
void check_audit(unsigned node);

/* check.c */
void check_publish(unsigned node);
void check_end(unsigned node, int code);
void check_last(void);
bool check_is_over(void);

/* mutants.c */
enum mutant {
	MUTANT_NONE,
	MUTANT_UNEXPECTED,		/* bytes that a known manifest does not name are taken */
	MUTANT_WIRE_UNCHECKED,		/* what came is taken for what was sent */
	MUTANT_JOURNAL_FIRST,		/* an extent is in the journal before it is on the disk */
	MUTANT_UNSEALED,		/* published without a look at the source */
	MUTANT_CONFLICT,		/* two contents of one extent */
	MUTANT_LEASE_FOREVER,		/* a read that hangs keeps its lease */
	MUTANT_NEVER_SILENT,		/* a dead member keeps what it has */
	MUTANT_READ_TWICE,		/* a lease does not keep others from reading */
	MUTANT_STORAGE_FIRST,		/* what peers have is read from the storage */
	MUTANT_NO_FETCH,		/* who fell behind stays there */
	MUTANT_NO_MERGE,		/* everybody who can read coordinates */
	MUTANT_NO_RELAY,		/* only peers speak to each other */
	MUTANT_CLOCK,			/* the clock is believed */
	MUTANT_ALL_FROM_ONE,		/* who reads sends to all */
	MUTANT_SLOT_KEPT,		/* a slot stays until it is needed */
	MUTANT_FULL_STAYS,		/* a node with a full disk says it wrote */
	MUTANT_WRITE_FOREVER,		/* a write that hangs is waited for */
	MUTANT_LATE_AGAIN,		/* whose lease took too long is asked again first */
	MUTANT_BELIEVED,		/* who does not have what it said is still believed */
	MUTANTS,
};

extern enum mutant sim_mutant;
bool mutant_choose(const char *name);
void mutant_show_all(void);

#endif
