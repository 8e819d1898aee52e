/* SPDX-License-Identifier: MIT */
/*
 * main - run seeds. Every seed is printed before it runs, so that a crash names it; one that finds
 * something runs again with all its steps printed.
 *
 *   nvme-sim --from A --count N		many
 *   nvme-sim --seed S [--seed-trace]		one; all that happens in it
 *   nvme-sim --twice S				whether it does the same twice
 *   nvme-sim --crashes ...			each seed once more for each of its writes of state,
 *						with a crash before, within and after it
 *   nvme-sim --seed S --before|--within|--after N	one of those
 *   --first ends with the first that finds something, --quiet does not run it again
 *   nvme-sim --mutant NAME ...			with a mistake in the code
 *   nvme-sim --show mutants			their names
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/log.h"
#include "tests/sim_nvme/nvme_sim.h"

#define TRACED_MAX 1		/* of those that find something in one run */

static const char *const hows[CRASH_HOWS] = {
	[CRASH_BEFORE] = "before", [CRASH_TORN] = "within", [CRASH_AFTER] = "after"
};

static unsigned violations, traced;
static bool is_quiet, is_first_enough, is_crashing;

/* How often it crashed at each file of state. */
static struct {
	const char *file;
	unsigned crashes;
} tally[FILES_MAX];

static void count_crash(void)
{
	unsigned i = 0;

	while (tally[i].file && strcmp(tally[i].file, sim.crashed_at) != 0)
		i++;
	tally[i].file = sim.crashed_at;
	tally[i].crashes++;
}

static void run(uint64_t seed)
{
	bool was_tracing = sim_is_tracing;

	printf("seed %llu", (unsigned long long)seed);
	if (sim_crash.write > 0)
		printf(" --%s %llu", hows[sim_crash.how], (unsigned long long)sim_crash.write);
	printf(":");
	printf(sim_is_tracing ? "\n" : "");
	fflush(stdout);
	sim_run(seed);
	printf(" %u nodes, %llu steps, %.0f s\n", sim.node_count, (unsigned long long)sim.steps,
	       (double)sim.now_ns / (double)S - 1000);
	if (!sim.violation[0])
		return;
	violations++;
	printf("seed %llu: VIOLATION: %s\n", (unsigned long long)seed, sim.violation);
	if (was_tracing || is_quiet || traced++ >= TRACED_MAX)
		return;
	sim_is_tracing = true;
	fm_log_set_level(FM_LOG_INFO);
	sim_run(seed);
	sim_is_tracing = false;
	fm_log_set_level(FM_LOG_ERROR);
}

static bool is_enough(void)
{
	return is_first_enough && violations > 0;
}

/* Until the crash a run is the one that counted the writes, so it comes there. */
static void run_crash(uint64_t seed)
{
	run(seed);
	if (sim.crashed_at) {
		count_crash();
		return;
	}
	printf("VIOLATION: there was no write %llu\n", (unsigned long long)sim_crash.write);
	violations++;
}

static void run_crashes(uint64_t seed)
{
	uint64_t writes;

	run(seed);
	writes = sim.writes;
	for (uint64_t w = 1; w <= writes; w++) {
		for (unsigned how = 0; how < CRASH_HOWS && !is_enough(); how++) {
			sim_crash = (struct crash){ w, (enum crash_how)how };
			run_crash(seed);
		}
	}
	sim_crash.write = 0;
}

static int run_twice(uint64_t seed)
{
	uint64_t hash;

	run(seed);
	hash = sim.hash;
	run(seed);
	if (hash == sim.hash)
		return 0;
	fprintf(stderr, "seed %llu did not do the same twice\n", (unsigned long long)seed);
	return 1;
}

static int usage(void)
{
	fprintf(stderr, "usage: nvme-sim [--mutant NAME] [--quiet] [--first] [--seed-trace]\n"
			"                [--crashes | --before N | --within N | --after N]\n"
			"                --seed S | --from A --count N | --twice S | --show "
			"mutants\n");
	return 2;
}

static int show(const char *what)
{
	if (strcmp(what, "mutants") == 0)
		mutant_show_all();
	else
		return usage();
	return 0;
}

/* --before, --within, --after */
static bool take_crash(const char *arg, const char *value)
{
	for (unsigned how = 0; how < CRASH_HOWS; how++) {
		if (strncmp(arg, "--", 2) != 0 || strcmp(arg + 2, hows[how]) != 0)
			continue;
		sim_crash = (struct crash){ strtoull(value, NULL, 10), (enum crash_how)how };
		return true;
	}
	return false;
}

/* -1: there is more to do. */
static int take_argument(const char *arg, const char *value, uint64_t *from, uint64_t *count)
{
	if (strcmp(arg, "--seed") == 0) {
		*from = strtoull(value, NULL, 10);
		*count = 1;
	} else if (strcmp(arg, "--from") == 0)
		*from = strtoull(value, NULL, 10);
	else if (strcmp(arg, "--count") == 0)
		*count = strtoull(value, NULL, 10);
	else if (strcmp(arg, "--mutant") == 0)
		return mutant_choose(value) ? -1 : usage();
	else if (strcmp(arg, "--twice") == 0)
		return run_twice(strtoull(value, NULL, 10));
	else if (strcmp(arg, "--show") == 0)
		return show(value);
	else if (!take_crash(arg, value))
		return usage();
	return -1;
}

static bool take_flag(const char *arg)
{
	if (strcmp(arg, "--seed-trace") == 0) {
		sim_is_tracing = true;
		fm_log_set_level(FM_LOG_INFO);
	} else if (strcmp(arg, "--quiet") == 0)
		is_quiet = true;
	else if (strcmp(arg, "--first") == 0)
		is_first_enough = true;
	else if (strcmp(arg, "--crashes") == 0)
		is_crashing = true;
	else
		return false;
	return true;
}

static void sum_up(uint64_t from, uint64_t count)
{
	for (unsigned i = 0; i < FILES_MAX && tally[i].file; i++)
		printf("%u crashes at %s\n", tally[i].crashes, tally[i].file);
	if (count > 1)
		printf("%llu seeds from %llu, %u violations\n", (unsigned long long)count,
		       (unsigned long long)from, violations);
}

int main(int argc, char **argv)
{
	uint64_t from = 1, count = 0;
	int ret = -1;

	fm_log_set_level(FM_LOG_ERROR);
	for (int i = 1; i < argc && ret == -1; i++) {
		if (take_flag(argv[i]))
			continue;
		if (i + 1 < argc) {
			ret = take_argument(argv[i], argv[i + 1], &from, &count);
			i++;
		} else
			ret = usage();
	}
	for (uint64_t seed = from; seed < from + count && ret == -1 && !is_enough(); seed++)
		is_crashing ? run_crashes(seed) : run(seed);
	sum_up(from, count);
	return ret > 0 ? ret : violations > 0;
}
