/* SPDX-License-Identifier: MIT */
/*
 * scenario_priv - what the files of the scenario share: sim_put_get.c (its course), plan.c (what a
 * seed decides), disturb.c (what goes wrong), check.c (what must hold).
 */
#ifndef FM_TESTS_SIM_SCENARIO_PRIV_H
#define FM_TESTS_SIM_SCENARIO_PRIV_H

#include "tests/sim/scenario.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_tree.h"

#define JOBS_MAX 32
#define REQUESTS_MAX 8
#define SHARED_NAME "shared"

struct hostile;
struct scenario;

/* A publication group: its members are the jobs that say so, its path is GROUP_NAME. */
#define GROUP_NAME "group"
struct group {
	struct sim_node *at;		/* whose store it is in */
	uint8_t id[FM_GROUP_ID_LEN];
	char expect[JOBS_MAX * 8];	/* its members, one a line */
	bool is_dropped;		/* it is to be discarded, and never committed */
	bool is_asked_for;		/* a commit was asked for */
	/* Somebody was told so: */
	bool is_begun, is_committed, is_discarded;
	unsigned asking;		/* who have not heard yet what they want to */
};

struct job {
	struct scenario *sc;
	unsigned index;
	bool is_put;
	struct sim_node *from;		/* who starts it */
	struct sim_node *to;		/* whose store it is about */
	char path[32];
	struct sim_blob *source;	/* NULL: get of whatever is there */
	struct sim_blob *sunk;		/* get */
	struct sim_caller_opts caller;
	bool is_tree;
	struct sim_tree *tree;		/* what is sent of the source, patterns applied */
	struct sim_tree *tree_source;
	struct sim_tree *tree_old;	/* put: what was there before */
	const char *excludes[2];
	struct fm_job_opts opts;
	unsigned tries;			/* how often it is begun again after it failed */
	bool was_taken;			/* its name was, at one of them */
	/* how many tries are cancelled in the middle, so that the next one goes on */
	unsigned breaks;
	bool is_cancel_kept;
	bool is_committed;		/* a held put: it may get its name in this try */
	uint64_t decided_ns;		/* ... so long after it was prepared; 0: within a second */
	struct fm_job *job;
	uint64_t start_ns;		/* planned, from the beginning; then of the clock */
	uint64_t cancel_ns;		/* of the clock; 0: not cancelled */
	uint64_t done_ns;
	bool is_unsafe;			/* with the hostile node */
	bool is_missing;		/* get of a name that does not exist */
	bool is_doomed;			/* asks for what cannot be */
	bool is_member;			/* of the group */
	unsigned done;
	unsigned failed;		/* tries that failed and were begun again */
	unsigned died;			/* of them those whose node crashed */
	uint64_t peer_died_ns;		/* when the other end of this try crashed; 0: it did not */
	struct fm_job_result result;
};

struct request {
	struct scenario *sc;
	struct sim_node *from, *to;
	enum fm_verb verb;
	unsigned done;
};

struct scenario {
	struct sim *sim;
	struct sim_opts opts;
	struct fm_engine_opts engine_opts[SIM_NODES_MAX];
	/* nodes with an engine: the first so many; the others are hostile */
	unsigned honest;
	uint32_t chunk_bytes;		/* the smallest of all nodes */
	struct job jobs[JOBS_MAX];
	unsigned job_count;
	struct request requests[REQUESTS_MAX];
	unsigned request_count;
	struct group *group;		/* NULL: there is none */
	bool is_hostile;
	struct hostile *hostile;
	bool is_calm;			/* nothing goes wrong */
	bool is_reloaded;		/* a limit was set meanwhile */
	bool is_only_flips;		/* nothing but damaged payloads */
	/* nothing but data connections that break: no transfer fails for that */
	bool is_only_cuts;
	/* of these, each for the cable that it goes over, and another one is whole */
	bool is_only_cables;
	/* peers removed, engines restarted: anything may be cancelled or unreachable */
	bool is_disturbed;
	bool is_out_of_memory;		/* a fault point fired */
	unsigned crashes;
	unsigned stopping;		/* engines */
	struct fm_node_status status;
};

/* What an event about one node gets. */
struct scenario_node {
	struct scenario *sc;
	struct sim_node *node;
};

/* sim_put_get.c */
bool scenario_are_jobs_done(const struct scenario *sc);
void scenario_wait_for_all(struct scenario *sc);
/* all jobs are done; frees sc */
void scenario_end(struct scenario *sc, struct scenario_totals *totals);
int scenario_node_start(struct scenario *sc, struct sim_node *node);
int scenario_add_peer(struct sim_node *node, const struct sim_node *peer, bool dials);
void scenario_job_start(void *job);
void scenario_job_cancel(void *job);
void scenario_request_start(void *request);

/* plan.c: before and after sc->sim exists. */
void scenario_plan_opts(struct scenario *sc, uint64_t seed);
void scenario_plan_work(struct scenario *sc);
void scenario_plan_unsafe_work(struct scenario *sc);
/* instead of scenario_plan_work(): so few that every step can be tried */
void scenario_plan_few(struct scenario *sc);

/* a put that becomes a member of the group, some time */
void scenario_plan_member(struct scenario *sc, struct job *job);

/* group.c: what must hold of the group at any time, and when all is over; whether nobody goes on
 * with a member that failed so. */
void scenario_check_group(struct scenario *sc);
void scenario_check_group_end(struct scenario *sc);
bool scenario_is_group_over(const struct job *job, int code);

/* crash.c */
void scenario_plan_crashes(struct scenario *sc);
/* once, at that step from now */
void scenario_plan_crash(struct scenario *sc, uint64_t step);
/* its node did, and with it what its user was told */
void scenario_job_died(struct job *job);
/* of a try, at a node that lives */
void scenario_check_end(const struct job *job, const struct fm_job_result *result);

/* disturb.c */
void scenario_plan_faults(struct scenario *sc);
/* those of network, disks and loops that whoever goes on trying outlives; for a minute */
void scenario_plan_passing_faults(struct scenario *sc);

/* sim_hostile.c: a node without an engine, see there. */
void scenario_hostile_start(struct scenario *sc, struct sim_node *node);
void scenario_hostile_stop(struct scenario *sc);	/* every honest node is stopped */
size_t scenario_hostile_arena_len(void);

/* check.c: of those that are done; when all jobs are done; when nothing is going on any more; what
 * the engine must refuse at once. */
void scenario_check_done(struct scenario *sc);
void scenario_check_jobs(struct scenario *sc);
void scenario_check_quiet(struct scenario *sc);
void scenario_check_refusals(struct scenario *sc, struct sim_node *node);

#endif
