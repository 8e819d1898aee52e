/* SPDX-License-Identifier: MIT */
/* slow_rail - see slow_rail.h. */
#include "client/bench/slow_rail.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/show.h"
#include "mover/facts/facts.h"

#define MUCH_LESS 0.9 /* of the next one's slowest repeat; less of a difference is of no use */

struct alone {
	const struct fm_bench_path *path;
	double share; /* of the speed that its port says; bytes a second, if it says none */
	double least, most;
};

/* What one device, or one rail, did alone. Connections of any are no wire. */
static bool is_alone(const struct fm_bench_path *p, const struct fm_bench_path *wire,
		     bool is_device)
{
	return p->kind == wire->kind && p->op == FM_BENCH_SEND &&
	       strcmp(p->where, wire->where) == 0 && p->only.connections == 0 &&
	       (is_device ? p->only.device[0] && !p->only.local[0] : p->only.local[0]) &&
	       !(p->invalid & ~(unsigned)FM_BENCH_NOISY);
}

static const char *name_of(const struct fm_bench_path *p)
{
	return p->only.local[0] ? p->only.local : p->only.device;
}

/* 0: its port says none. */
static double speed_of(const struct fm_bench *b, const struct fm_bench_path *p)
{
	for (size_t i = 0; b->facts && i < b->facts->rails_count; i++) {
		const struct fm_facts_rail *r = &b->facts->rails[i];

		if (r->speed_mbps.is_known &&
		    fm_fact_is(p->only.local[0] ? &r->local : &r->device, name_of(p)))
			return (double)r->speed_mbps.n;
	}
	return 0;
}

/* Speeds count only if each has one. */
static bool have_speeds(const struct fm_bench *b, const struct fm_bench_path *wire, bool is_device)
{
	for (unsigned i = 0; i < b->path_count; i++)
		if (is_alone(&b->paths[i], wire, is_device) && speed_of(b, &b->paths[i]) <= 0)
			return false;
	return true;
}

/* The slowest, and the next one; a path of NULL: there is none. */
static void slowest(const struct fm_bench *b, const struct fm_bench_path *wire, bool is_device,
		    struct alone out[static 2])
{
	bool by_speed = have_speeds(b, wire, is_device);

	out[0].path = out[1].path = NULL;
	for (unsigned i = 0; i < b->path_count; i++) {
		const struct fm_bench_path *p = &b->paths[i];
		double speed = by_speed ? speed_of(b, p) : 1;
		struct alone a = {p, p->rates.median / speed, p->rates.min / speed,
				  p->rates.max / speed};

		if (!is_alone(p, wire, is_device))
			continue;
		if (!out[0].path || a.share < out[0].share) {
			out[1] = out[0];
			out[0] = a;
		} else if (!out[1].path || a.share < out[1].share) {
			out[1] = a;
		}
	}
}

static bool is_slow(const struct alone a[static 2])
{
	return a[1].path && a[0].share > 0 && a[0].most < MUCH_LESS * a[1].least;
}

/*
 * Whether all together carry less than they would if the slow one did its part. They are measured
 * one after the other: what was slow at its turn only, and not beside the others, is no limit.
 */
static bool is_slow_beside(const struct fm_bench *b, const struct fm_bench_path *wire,
			   bool is_device, const struct alone a[static 2])
{
	double would = 0;

	if (!fm_bench_is_any(&wire->only))
		return true;
	for (unsigned i = 0; i < b->path_count; i++) {
		const struct fm_bench_path *p = &b->paths[i];

		if (is_alone(p, wire, is_device))
			would += p == a[0].path ? p->rates.median * a[1].share / a[0].share
						: p->rates.median;
	}
	return wire->rates.median < MUCH_LESS * would;
}

static bool finds(const struct fm_bench *b, const struct fm_bench_path *wire, bool is_device,
		  struct alone a[static 2])
{
	slowest(b, wire, is_device, a);
	return is_slow(a) && is_slow_beside(b, wire, is_device, a);
}

bool fm_bench_slow_rail(const struct fm_bench *b, const struct fm_bench_path *wire,
			char out[static FM_BENCH_TEXT_MAX])
{
	char is[FM_SHOW_MAX], of[FM_SHOW_MAX];
	struct alone a[2];

	if (!finds(b, wire, true, a) && !finds(b, wire, false, a))
		return false;
	(void)snprintf(out, FM_BENCH_TEXT_MAX,
		       "%.60s, which carries %s alone where %.60s carries %s", name_of(a[0].path),
		       fm_show_rate(a[0].path->rates.median, is), name_of(a[1].path),
		       fm_show_rate(a[1].path->rates.median, of));
	return true;
}
