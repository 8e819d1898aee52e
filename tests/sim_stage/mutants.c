/* SPDX-License-Identifier: MIT */
/*
 * Mistakes that the code does not have, one at a time: a simulator that does not find them finds
 * nothing. The linker puts these functions before those of staging/run/rules.c (--wrap); the
 * simulated machine has the others (MUTANT_ in world.c).
 */
#include <stdio.h>
#include <string.h>

#include "staging/run/run_priv.h"
#include "staging/run/tree.h"
#include "tests/sim_stage/stage_sim.h"

enum mutant sim_mutant;

static const char *const names[MUTANTS] = {
	[MUTANT_NONE] = "none",
	[MUTANT_UNEXPECTED] = "unexpected",
	[MUTANT_WIRE_UNCHECKED] = "wire_unchecked",
	[MUTANT_JOURNAL_FIRST] = "journal_first",
	[MUTANT_UNSEALED] = "unsealed",
	[MUTANT_CONFLICT] = "conflict",
	[MUTANT_LEASE_FOREVER] = "lease_forever",
	[MUTANT_NEVER_SILENT] = "never_silent",
	[MUTANT_READ_TWICE] = "read_twice",
	[MUTANT_STORAGE_FIRST] = "storage_first",
	[MUTANT_NO_FETCH] = "no_fetch",
	[MUTANT_NO_MERGE] = "no_merge",
	[MUTANT_NO_RELAY] = "no_relay",
	[MUTANT_CLOCK] = "clock",
	[MUTANT_ALL_FROM_ONE] = "all_from_one",
	[MUTANT_SLOT_KEPT] = "slot_kept",
	[MUTANT_FULL_STAYS] = "full_stays",
	[MUTANT_WRITE_FOREVER] = "write_forever",
	[MUTANT_LATE_AGAIN] = "late_again",
	[MUTANT_BELIEVED] = "believed",
};

bool mutant_choose(const char *name)
{
	for (unsigned i = 0; i < MUTANTS; i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		sim_mutant = (enum mutant)i;
		return true;
	}
	return false;
}

void mutant_show_all(void)
{
	for (unsigned i = 1; i < MUTANTS; i++)
		printf("%s\n", names[i]);
}

/* The rule, the name that --wrap wants, and what it says when it is the mistake. */
/* clang-format off */
#define WRAP(type, name, args, call, mutant, wrong)                                                \
	type __real_##name args;                                                                   \
	type __wrap_##name args;                                                                   \
	type __wrap_##name args                                                                    \
	{                                                                                          \
		return sim_mutant == (mutant) ? (wrong) : __real_##name call;                      \
	}

WRAP(bool, fm_run_is_right, (const struct fm_run *run, uint32_t extent, uint32_t crc),
     (run, extent, crc), MUTANT_UNEXPECTED, true)
WRAP(bool, fm_run_is_conflict, (const struct coordinator *co, uint32_t extent, uint32_t crc),
     (co, extent, crc), MUTANT_CONFLICT, false)
WRAP(bool, fm_run_is_sealed, (const struct coordinator *co), (co), MUTANT_UNSEALED, true)
WRAP(bool, fm_run_is_overdue, (const struct fm_run *run, const struct seat_lease *l), (run, l),
     MUTANT_LEASE_FOREVER, false)
WRAP(bool, fm_run_is_being_written, (const struct fm_run *run, const struct slot *s), (run, s),
     MUTANT_WRITE_FOREVER, s->use == SLOT_HELD && s->is_writing)
WRAP(bool, fm_run_is_late, (const struct seat *seat), (seat), MUTANT_LATE_AGAIN, false)
WRAP(bool, fm_run_is_silent, (const struct fm_run *run, const struct seat *seat), (run, seat),
     MUTANT_NEVER_SILENT, false)
WRAP(bool, fm_run_may_release, (const struct fm_run *run, const struct slot *s, bool is_needed),
     (run, s, is_needed), MUTANT_SLOT_KEPT,
     is_needed &&__real_fm_run_may_release(run, s, is_needed))
WRAP(bool, fm_run_is_under_way, (const struct coordinator *co, uint32_t extent, uint64_t near),
     (co, extent, near), MUTANT_READ_TWICE, false)
WRAP(uint64_t, fm_run_trusted, (const struct coordinator *co, uint32_t extent), (co, extent),
     MUTANT_BELIEVED, co->holders[extent])
WRAP(bool, fm_run_is_held, (const struct coordinator *co, uint32_t extent, uint64_t near),
     (co, extent, near), MUTANT_STORAGE_FIRST, false)
WRAP(int, fm_run_server, (const struct fm_run *run, unsigned node, uint32_t extent),
     (run, node, extent), MUTANT_NO_FETCH, -1)
WRAP(unsigned, fm_run_first, (const struct fm_run *run), (run), MUTANT_NO_MERGE, run->self)
WRAP(int, fm_run_hop, (const struct fm_run *run, unsigned to), (run, to), MUTANT_NO_RELAY,
     run->up &bit(to) ? (int)to : -1)
WRAP(uint64_t, fm_run_elapsed, (uint64_t last_ns, uint64_t now_ns), (last_ns, now_ns), MUTANT_CLOCK,
     now_ns - last_ns)
WRAP(uint64_t, fm_run_tree_below,
     (unsigned me, unsigned root, uint64_t wants, uint32_t extent, uint8_t shape),
     (me, root, wants, extent, shape), MUTANT_ALL_FROM_ONE, me == root ? wants & ~bit(root) : 0)
