/* SPDX-License-Identifier: MIT */
/*
 * main - run scenarios by seed. Every seed is printed before it runs, so that a crash names it.
 *
 *   sim --seed S [--verbose]       one
 *   sim --from A --count N         many
 *   sim --seeds FILE               those of a file: a number, then a word on what it was, per line
 *   sim --faults                   a put and a get with the n-th fault point failing, n = 1, 2, ...
 *                                  until none is left
 *   sim --hostile ...              as the others, with a hostile node: for --seed, --from and
 *                                  --twice behind it
 *   sim --groups ...               a publication group: for --seed, --from, --twice and --crashes
 *                                  behind it
 *   sim --patient ...              transfers that rightly take hours: for --seed, --from and
 *                                  --twice behind it
 *   sim --crashes [--every K] ...  few jobs, and a node crashes at step 1, 1 + K, ... of them, one
 * step a run: for --seed and --from behind it sim --crashes --step N ...     at that step only sim
 * --twice S                  the same seed twice: whether it does the same
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "tests/sim/scenario.h"

#define FAULTS_MAX 100000
#define CODES_NAMED 134		/* the errnos that Linux has */

static enum sim_tracing tracing = SIM_TRACE_NOT;
static bool is_hostile, is_patient, is_crashing, is_of_groups;
static uint64_t crash_every = 1, crash_step;	/* step 0: all */

static uint64_t (*run_few)(uint64_t seed, uint64_t step, enum sim_tracing tracing,
			   struct scenario_totals *t) = scenario_run_crash;

static void run_step(uint64_t seed, uint64_t step, struct scenario_totals *t)
{
	printf("seed %llu, crash at step %llu\n", (unsigned long long)seed,
	       (unsigned long long)step);
	fflush(stdout);
	(void)run_few(seed, step, tracing, t);
}

static void run_crashes(uint64_t seed, struct scenario_totals *t)
{
	uint64_t steps;

	if (crash_step > 0) {
		run_step(seed, crash_step, t);
		return;
	}
	printf("seed %llu, no crash\n", (unsigned long long)seed);
	fflush(stdout);
	steps = run_few(seed, 0, tracing, t);
	for (uint64_t step = 1 + seed % crash_every; step <= steps; step += crash_every)
		run_step(seed, step, t);
}

static void run(uint64_t seed, struct scenario_totals *t)
{
	unsigned jobs = t->jobs, done = t->jobs_done;

	if (is_crashing) {
		run_crashes(seed, t);
		return;
	}
	printf("seed %llu:", (unsigned long long)seed);
	fflush(stdout);
	if (is_of_groups)
		scenario_run_group(seed, tracing, t);
	else if (is_patient)
		scenario_run_patient(seed, tracing, t);
	else if (is_hostile)
		scenario_run_hostile(seed, tracing, t);
	else
		scenario_run(seed, tracing, t);
	printf(" %u jobs, %u succeeded\n", t->jobs - jobs, t->jobs_done - done);
}

static int run_file(const char *path, struct scenario_totals *t)
{
	FILE *file = fopen(path, "r");
	char line[512];

	if (!file) {
		fprintf(stderr, "sim: cannot read %s\n", path);
		return 1;
	}
	while (fgets(line, sizeof(line), file))
		if (line[0] >= '0' && line[0] <= '9')
			run(strtoull(line, NULL, 10), t);
	fclose(file);
	return 0;
}

static int run_faults(void)
{
	unsigned n = 1;

	while (n < FAULTS_MAX) {
		printf("fault point %u\n", n);
		fflush(stdout);
		if (!scenario_run_with_fault(n, tracing))
			break;
		n++;
	}
	if (n < 20) {
		printf("SKIP: this build has no fault points\n");
		return n == 1 ? 77 : 1;
	}
	return n == FAULTS_MAX;
}

static int run_twice(uint64_t seed, struct scenario_totals *t)
{
	enum sim_tracing before = tracing;
	uint64_t hash;

	if (tracing == SIM_TRACE_NOT)
		tracing = SIM_TRACE_HASH;
	run(seed, t);
	hash = t->trace_hash;
	run(seed, t);
	tracing = before;
	if (hash == t->trace_hash)
		return 0;
	fprintf(stderr, "seed %llu did not do the same twice\n", (unsigned long long)seed);
	return 1;
}

static void print_totals(const struct scenario_totals *t)
{
	unsigned others = 0;

	if (t->seeds == 0)
		return;
	printf("%u seeds, %u jobs, %u requests, %u payloads damaged, %u jobs sent something "
	       "again\n",
	       t->seeds, t->jobs, t->requests, t->flips, t->resent);
	for (int code = 0; code < 4096; code++) {
		if (t->codes[code] && code < CODES_NAMED)
			printf("%7u %s\n", t->codes[code], code ? fm_err_name(code) : "succeeded");
		else
			others += t->codes[code];
	}
	if (others)
		printf("%7u with numbers that a hostile node made up\n", others);
	printf("%u trees, %u succeeded; %u tries again, in %u seeds with what was there\n",
	       t->trees, t->trees_done, t->again, t->resumed);
	if (t->crashes)
		printf("%u crashes\n", t->crashes);
	if (t->overlaps)
		printf("%u writes began while one of the same bytes was under way\n", t->overlaps);
}

static int usage(void)
{
	fprintf(stderr, "usage: sim [--verbose] [--hostile | --patient | [--groups] [--crashes "
			"[--every K | --step N]]] --seed S | --from A --count N | "
			"--seeds FILE | --faults | --twice S\n");
	return 2;
}

/* Wherever it stands: the first seed runs before the last argument is looked at. */
static void look_for_verbose(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--verbose") == 0)
			tracing = SIM_TRACE_PRINT;
	fm_log_set_level(tracing == SIM_TRACE_PRINT ? FM_LOG_DEBUG : FM_LOG_ERROR);
}

int main(int argc, char **argv)
{
	static struct scenario_totals totals;
	uint64_t from = 1, count = 0;
	int ret = 0;

	look_for_verbose(argc, argv);
	for (int i = 1; i < argc && ret == 0; i++) {
		const char *arg = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(arg, "--verbose") == 0)
			continue;
		if (strcmp(arg, "--hostile") == 0) {
			is_hostile = true;
			continue;
		}
		if (strcmp(arg, "--patient") == 0) {
			is_patient = true;
			continue;
		}
		if (strcmp(arg, "--groups") == 0) {
			is_of_groups = true;
			run_few = scenario_run_group_crash;
			continue;
		}
		if (strcmp(arg, "--crashes") == 0) {
			is_crashing = true;
			continue;
		}
		if (strcmp(arg, "--faults") == 0) {
			ret = run_faults();
			continue;
		}
		if (!value)
			return usage();
		i++;
		if (strcmp(arg, "--seed") == 0)
			run(strtoull(value, NULL, 10), &totals);
		else if (strcmp(arg, "--from") == 0)
			from = strtoull(value, NULL, 10);
		else if (strcmp(arg, "--count") == 0)
			count = strtoull(value, NULL, 10);
		else if (strcmp(arg, "--every") == 0 && strtoull(value, NULL, 10) > 0)
			crash_every = strtoull(value, NULL, 10);
		else if (strcmp(arg, "--step") == 0)
			crash_step = strtoull(value, NULL, 10);
		else if (strcmp(arg, "--seeds") == 0)
			ret = run_file(value, &totals);
		else if (strcmp(arg, "--twice") == 0)
			ret = run_twice(strtoull(value, NULL, 10), &totals);
		else
			return usage();
	}
	for (uint64_t seed = from; seed < from + count; seed++)
		run(seed, &totals);
	print_totals(&totals);
	return ret;
}
