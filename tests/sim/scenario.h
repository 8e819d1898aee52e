/* SPDX-License-Identifier: MIT */
/*
 * scenario - what one seed does: a cluster, jobs, faults, and the checks behind it. See
 * sim_put_get.c.
 */
#ifndef FM_TESTS_SIM_SCENARIO_H
#define FM_TESTS_SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/sim.h"

/* What was seen over all seeds of a run: that the faults did bite. */
struct scenario_totals {
	unsigned seeds;
	unsigned jobs;
	unsigned jobs_done;		/* succeeded */
	unsigned codes[4096];		/* how often a job ended with that errno */
	unsigned flips;
	unsigned resent;		/* jobs that sent something again and succeeded */
	unsigned overlaps;
	unsigned trees;			/* of the jobs */
	unsigned trees_done;
	unsigned again;			/* tries that failed and were begun again */
	unsigned resumed;		/* seeds in which one went on with what another one left */
	unsigned requests;
	unsigned crashes;
	uint64_t trace_hash;		/* of the last seed */
};

/* Aborts if an invariant does not hold. */
void scenario_run(uint64_t seed, enum sim_tracing tracing, struct scenario_totals *totals);

/* Two honest nodes that move files, while a third one with a good key does its worst. */
void scenario_run_hostile(uint64_t seed, enum sim_tracing tracing, struct scenario_totals *totals);

/*
 * Few jobs, nothing goes wrong but that a node crashes at this step (0: none does) and comes back.
 * Returns how many steps it took until all was done.
 */
uint64_t scenario_run_crash(uint64_t seed, uint64_t step, enum sim_tracing tracing,
			    struct scenario_totals *totals);

/* A publication group: many put its members, somebody begins and commits it, or drops it. */
void scenario_run_group(uint64_t seed, enum sim_tracing tracing, struct scenario_totals *totals);

/* One where nothing goes wrong but a crash, as scenario_run_crash(). */
uint64_t scenario_run_group_crash(uint64_t seed, uint64_t step, enum sim_tracing tracing,
				  struct scenario_totals *totals);

/* Puts and gets that rightly take hours: held for long, or with the least limit. Nothing goes
 * wrong. */
void scenario_run_patient(uint64_t seed, enum sim_tracing tracing, struct scenario_totals *totals);

/* Two nodes, a put and a get, nothing goes wrong but the n-th fault point. Returns whether it was
 * reached. */
bool scenario_run_with_fault(unsigned n, enum sim_tracing tracing);

#endif
