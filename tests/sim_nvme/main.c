/* SPDX-License-Identifier: MIT */
/*
 * main - run seeds. Every seed is printed before it runs, so that a crash names it; one that finds
 * something runs again with all its steps printed.
 *
 *   nvme-sim --from A --count N		many
 *   nvme-sim --seed S [--seed-trace]		one; all that happens in it
 *   nvme-sim --twice S				whether it does the same twice
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

static unsigned violations, traced;
static bool is_quiet, is_first_enough;

static void run(uint64_t seed)
{
	bool was_tracing = sim_is_tracing;

	printf("seed %llu:", (unsigned long long)seed);
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
	else
		return usage();
	return -1;
}

int main(int argc, char **argv)
{
	uint64_t from = 1, count = 0;
	int ret = -1;

	fm_log_set_level(FM_LOG_ERROR);
	for (int i = 1; i < argc && ret == -1; i++) {
		if (strcmp(argv[i], "--seed-trace") == 0) {
			sim_is_tracing = true;
			fm_log_set_level(FM_LOG_INFO);
		} else if (strcmp(argv[i], "--quiet") == 0)
			is_quiet = true;
		else if (strcmp(argv[i], "--first") == 0)
			is_first_enough = true;
		else if (i + 1 < argc) {
			ret = take_argument(argv[i], argv[i + 1], &from, &count);
			i++;
		} else
			ret = usage();
	}
	for (uint64_t seed = from;
	     seed < from + count && ret == -1 && !(is_first_enough && violations); seed++)
		run(seed);
	if (count > 1)
		printf("%llu seeds from %llu, %u violations\n", (unsigned long long)count,
		       (unsigned long long)from, violations);
	return ret > 0 ? ret : violations > 0;
}
