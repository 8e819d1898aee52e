/* SPDX-License-Identifier: MIT */
/* validity - see validity.h. */
#include "client/bench/validity.h"

#include "mover/base/exit_code.h"

static bool is_too_short(const struct fm_bench_path *p, double wanted_s)
{
	for (unsigned i = 0; i < p->repeat_count; i++)
		if (p->repeats[i].seconds < FM_BENCH_S_MIN ||
		    p->repeats[i].seconds < FM_BENCH_SHARE_MIN * wanted_s ||
		    p->repeats[i].bytes == 0)
			return true;
	return false;
}

static void judge_path(struct fm_bench_path *p, double wanted_s)
{
	fm_bench_rates(p->repeats, p->repeat_count, &p->rates);
	p->invalid &= FM_BENCH_FAILED;
	if (p->repeat_count == 0)
		p->invalid |= FM_BENCH_FAILED;
	if (is_too_short(p, wanted_s))
		p->invalid |= FM_BENCH_TOO_SHORT;
	if (p->is_cached)
		p->invalid |= FM_BENCH_CACHED;
	if (p->is_throttled)
		p->invalid |= FM_BENCH_THROTTLED;
	if (p->rates.cv > FM_BENCH_CV_MAX)
		p->invalid |= FM_BENCH_NOISY;
}

int fm_bench_judge(struct fm_bench *bench)
{
	int status = FM_EXIT_DONE;

	for (unsigned i = 0; i < bench->path_count; i++) {
		judge_path(&bench->paths[i], bench->wanted_s);
		if (bench->paths[i].invalid)
			status = FM_EXIT_PARTLY;
	}
	return status;
}
