/* SPDX-License-Identifier: MIT */
/*
 * fuzz_bench - any bytes as a measurement that somebody sent.
 *
 * What was accepted is the same when written and read again, and can be judged. links: fm_cli
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/measure.h"
#include "client/bench/validity.h"
#include "client/bench/verdict.h"
#include "mover/base/err.h"

#define WRITTEN_MAX (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_written(const struct fm_bench *b)
{
	static char first[WRITTEN_MAX], second[WRITTEN_MAX];
	struct fm_bench *again;
	struct fm_err err;
	int len = fm_bench_write(b, 3, first, sizeof(first));

	check(len > 0 && (size_t)len == strlen(first));
	check(fm_bench_parse(first, (size_t)len, &again, &err) == 0);
	check(again->path_count == b->path_count);
	len = fm_bench_write(again, 3, second, sizeof(second));
	check(len > 0 && strcmp(first, second) == 0);
	fm_bench_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_bench *b = NULL;
	struct fm_err err = { 0 };
	int ret = fm_bench_parse((const char *)data, size, &b, &err), status;

	check(ret == 0 || ret == -EINVAL || ret == -EOPNOTSUPP || ret == -E2BIG);
	check((ret == 0) == (err.text[0] == '\0'));
	if (ret < 0) {
		check(!b);
		return 0;
	}
	check(b->path_count <= FM_BENCH_PATHS_MAX);
	status = fm_bench_judge(b);
	check(status == 0 || status == 3);
	fm_bench_conclude(b, 0);
	fm_bench_conclude(b, 1e9);
	check_written(b);
	fm_bench_free(b);
	return 0;
}
