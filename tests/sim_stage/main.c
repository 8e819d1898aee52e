/* SPDX-License-Identifier: MIT */
/*
 * main - run seeds. Every seed is printed before it runs, so that a crash names it.
 *
 *   stage-sim --from A --count N		many
 *   stage-sim --seed S [--seed-trace]		one; all that happens in it
 *   stage-sim --twice S --count N		whether they do the same twice
 *   --first ends with the first that finds something, --quiet prints only those
 *   stage-sim --mutant NAME ...		with a mistake in the code
 *   stage-sim --show mutants			their names
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim_stage/stage_sim.h"

struct sim sim;
bool sim_is_tracing;

static bool is_quiet, is_first_enough, is_twice;
static unsigned violations;

/* xorshift64*; below > 0. */
uint64_t sim_random(uint64_t below)
{
	sim.random ^= sim.random >> 12;
	sim.random ^= sim.random << 25;
	sim.random ^= sim.random >> 27;
	return sim.random * UINT64_C(0x2545f4914f6cdd1d) % below;
}

bool sim_chance(double p)
{
	return (double)sim_random(1000000) < p * 1000000;
}

void sim_trace(const char *fmt, ...)
{
	va_list args;

	if (!sim_is_tracing)
		return;
	printf("%10.4f ", (double)(sim.now_ns - BEGIN_NS) / (double)S);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
}

/* The first counts. */
void sim_violate(const char *fmt, ...)
{
	va_list args;

	if (sim.violation[0])
		return;
	va_start(args, fmt);
	vsnprintf(sim.violation, sizeof(sim.violation), fmt, args);
	va_end(args);
	sim_trace("VIOLATION: %s", sim.violation);
}

static void run(uint64_t seed)
{
	if (!is_quiet) {
		printf("seed %llu:", (unsigned long long)seed);
		fflush(stdout);
	}
	sim_run(seed);
	if (!is_quiet)
		printf(" %u nodes, %u extents, %llu reads, %llu steps, %.0f s\n", sim.node_count,
		       sim.extent_count, (unsigned long long)sim.reads,
		       (unsigned long long)sim.steps, (double)(sim.now_ns - BEGIN_NS) / (double)S);
	if (!sim.violation[0])
		return;
	violations++;
	printf("seed %llu: VIOLATION: %s\n", (unsigned long long)seed, sim.violation);
}

static void run_twice(uint64_t seed)
{
	uint64_t hash;

	run(seed);
	hash = sim.hash;
	run(seed);
	if (hash == sim.hash)
		return;
	printf("seed %llu did not do the same twice\n", (unsigned long long)seed);
	violations++;
}

static int usage(void)
{
	fprintf(stderr, "usage: stage-sim [--mutant NAME] [--quiet] [--first] [--seed-trace]\n"
			"                 --seed S | --from A --count N | --twice S --count N | "
			"--show mutants\n");
	return 2;
}

/* false: it is none. */
static bool take_argument(const char *arg, const char *value, uint64_t *from, uint64_t *count)
{
	if (strcmp(arg, "--mutant") == 0)
		return mutant_choose(value);
	if (strcmp(arg, "--count") == 0) {
		*count = strtoull(value, NULL, 10);
		return true;
	}
	if (strcmp(arg, "--seed") != 0 && strcmp(arg, "--from") != 0 && strcmp(arg, "--twice") != 0)
		return false;
	*from = strtoull(value, NULL, 10);
	is_twice = strcmp(arg, "--twice") == 0;
	return true;
}

int main(int argc, char **argv)
{
	uint64_t from = 1, count = 1;

	if (argc == 3 && strcmp(argv[1], "--show") == 0 && strcmp(argv[2], "mutants") == 0) {
		mutant_show_all();
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seed-trace") == 0)
			sim_is_tracing = true;
		else if (strcmp(argv[i], "--quiet") == 0)
			is_quiet = true;
		else if (strcmp(argv[i], "--first") == 0)
			is_first_enough = true;
		else if (i + 1 >= argc || !take_argument(argv[i], argv[i + 1], &from, &count))
			return usage();
		else
			i++;
	}
	for (uint64_t seed = from; seed < from + count && !(is_first_enough && violations);
	     seed++) {
		if (is_twice)
			run_twice(seed);
		else
			run(seed);
	}
	printf("%llu seeds from %llu, %u violations\n", (unsigned long long)count,
	       (unsigned long long)from, violations);
	return violations > 0;
}
