/* SPDX-License-Identifier: MIT */
/* compare - see compare.h. */
#include "client/bench/compare.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "mover/base/err.h"

static bool is_same_only(const struct fm_bench_only *a, const struct fm_bench_only *b)
{
	return a->connections == b->connections && strcmp(a->device, b->device) == 0 &&
	       strcmp(a->local, b->local) == 0 && strcmp(a->remote, b->remote) == 0;
}

static bool is_same(const struct fm_bench_path *a, const struct fm_bench_path *b)
{
	return a->kind == b->kind && a->op == b->op && a->depth == b->depth &&
	       a->block_bytes == b->block_bytes && strcmp(a->where, b->where) == 0 &&
	       strcmp(a->from, b->from) == 0 && is_same_only(&a->only, &b->only);
}

const struct fm_bench_path *fm_compare_find(const struct fm_bench *in,
					    const struct fm_bench_path *of)
{
	for (unsigned i = 0; i < in->path_count; i++)
		if (is_same(&in->paths[i], of))
			return &in->paths[i];
	return NULL;
}

int fm_compare_rates(const struct fm_bench_path *a, const struct fm_bench_path *b)
{
	double noise = fmax(a->rates.cv, b->rates.cv), difference;

	if (a->invalid || b->invalid || a->rates.median <= 0)
		return 0;
	difference = b->rates.median / a->rates.median - 1;
	if (fabs(difference) <= noise)
		return 0;
	if (b->rates.max < a->rates.min)
		return -1;
	return b->rates.min > a->rates.max;
}

int fm_compare_check(const struct fm_bench *a, const struct fm_bench *b, struct fm_err *err)
{
	if (a->is_thorough != b->is_thorough)
		return fm_err_set(err, -EINVAL, "one run is quick and the other thorough");
	if (fabs(a->wanted_s - b->wanted_s) > 1e-3)
		return fm_err_set(err, -EINVAL, "repeats of %.3g s and of %.3g s", a->wanted_s,
				  b->wanted_s);
	for (unsigned i = 0; i < a->path_count; i++)
		if (fm_compare_find(b, &a->paths[i]))
			return 0;
	return fm_err_set(err, -EINVAL, "no path was measured in both");
}
