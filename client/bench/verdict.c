/* SPDX-License-Identifier: MIT */
/* verdict - see verdict.h. */
#include "client/bench/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/bench/slow_rail.h"
#include "client/cli/show.h"

static int slowest(const struct fm_bench_stage *s, size_t count, int but)
{
	int found = -1;

	for (size_t i = 0; i < count; i++)
		if ((int)i != but && s[i].rates.median > 0 &&
		    (found < 0 || s[i].rates.median < s[found].rates.median))
			found = (int)i;
	return found;
}

/* "; the wire is 9 % used" for each of the others. */
static void say_others(const struct fm_bench_stage *s, size_t count, int limit, double rate,
		       char out[static FM_BENCH_TEXT_MAX])
{
	size_t len = strlen(out);

	for (size_t i = 0; i < count; i++) {
		double most = s[i].rates.median > s[i].hardware ? s[i].rates.median : s[i].hardware;

		if ((int)i == limit || most <= 0 || len >= FM_BENCH_TEXT_MAX)
			continue;
		len += (size_t)snprintf(out + len, FM_BENCH_TEXT_MAX - len,
					"; %.120s is %.0f %% used", s[i].name, 100 * rate / most);
	}
}

static void say_none(const char *why, const struct fm_bench_rates *e, double least,
		     char out[static FM_BENCH_TEXT_MAX])
{
	char is[FM_SHOW_MAX], of[FM_SHOW_MAX];

	(void)snprintf(out, FM_BENCH_TEXT_MAX,
		       "no limit can be named: %s (%s end to end, %s in the slowest stage)", why,
		       fm_show_rate(e->median, is), fm_show_rate(least, of));
}

int fm_bench_verdict(const struct fm_bench_stage *s, size_t count, const struct fm_bench_rates *e,
		     char out[static FM_BENCH_TEXT_MAX])
{
	int limit = slowest(s, count, -1), next = limit < 0 ? -1 : slowest(s, count, limit);
	char is[FM_SHOW_MAX], of[FM_SHOW_MAX];
	double least;

	out[0] = '\0';
	if (limit < 0 || e->median <= 0)
		return -1;
	least = s[limit].rates.median;
	if (e->median < FM_BENCH_NEAR * least) {
		say_none("all together is slower than each stage alone", e, least, out);
		return -1;
	}
	if (FM_BENCH_NEAR * e->median > s[limit].rates.max) {
		say_none("all together is faster than the slowest stage was alone, so that one was "
			 "disturbed",
			 e, least, out);
		return -1;
	}
	if (next >= 0 && s[next].rates.min <= fmax(s[limit].rates.max, e->max)) {
		say_none("the two slowest stages are alike within the noise", e, least, out);
		return -1;
	}
	(void)snprintf(out, FM_BENCH_TEXT_MAX, "limited by %.150s: %s of %s", s[limit].name,
		       fm_show_rate(e->median, is), fm_show_rate(least, of));
	say_others(s, count, limit, e->median, out);
	return limit;
}

/* ---- of a run ---- */

/*
 * A part of it is no stage: production uses all of its connections. Neither are transfers one after
 * the other, whose time is looked at and not their rate.
 */
static bool is_wire(const struct fm_bench_path *p)
{
	return fm_bench_is_any(&p->only) && p->latency.count == 0 &&
	       (p->kind == FM_BENCH_RDMA || p->kind == FM_BENCH_TCP ||
		(p->kind == FM_BENCH_PUT && !p->from[0]));
}

static bool is_disk(const struct fm_bench_path *p)
{
	return p->kind == FM_BENCH_DISK || p->kind == FM_BENCH_NVME_TCP;
}

/* The fastest that has nothing against it but what is allowed. where: NULL: anywhere. */
static const struct fm_bench_path *best(const struct fm_bench *b,
					bool (*is_kind)(const struct fm_bench_path *p),
					enum fm_bench_op op, const char *where, unsigned allowed)
{
	const struct fm_bench_path *found = NULL;

	for (unsigned i = 0; i < b->path_count; i++) {
		const struct fm_bench_path *p = &b->paths[i];

		if (!is_kind(p) || p->op != op || p->invalid & ~allowed ||
		    (where && strcmp(p->where, where) != 0))
			continue;
		if (!found || p->rates.median > found->rates.median)
			found = p;
	}
	return found;
}

/* How busy all that an end may use was, if that left it nothing; else 0. */
static double all_busy(const struct fm_bench_cpu *cpu)
{
	double all = cpu->allowed * cpu->watched_s, busy;

	if (all <= 0)
		return 0;
	if (cpu->process_s >= FM_BENCH_CORE_BUSY * all)
		return fmin(cpu->process_s / all, 1);
	/* A virtual machine that is kept waiting loses ticks, by which the kernel counts how busy
	 * processors are; what the process itself had of them is counted by a clock. */
	busy = fmax(cpu->allowed_busy_s / cpu->watched_s, cpu->process_s / all);
	return busy >= FM_BENCH_ALL_BUSY && cpu->process_s + cpu->wait_s >= FM_BENCH_WANTED * all
		       ? fmin(busy, 1)
		       : 0;
}

/* "one processor, 98 % busy", "" of an end that had some left. */
static bool processors_of(const struct fm_bench_cpu *cpu, const char *whose,
			  char out[static FM_BENCH_TEXT_MAX])
{
	double busy = all_busy(cpu), enough = FM_BENCH_CORE_BUSY * cpu->watched_s;

	out[0] = '\0';
	if (!cpu->is_known || cpu->watched_s <= 0)
		return false;
	if (busy > 0 && cpu->allowed > 1)
		(void)snprintf(out, FM_BENCH_TEXT_MAX,
			       "the %u processors that %.100s may use, %.0f %% busy", cpu->allowed,
			       whose, 100 * busy);
	else if (busy > 0)
		(void)snprintf(out, FM_BENCH_TEXT_MAX, "one processor, %.0f %% busy", 100 * busy);
	else if (cpu->thread_s >= enough)
		(void)snprintf(out, FM_BENCH_TEXT_MAX,
			       "one processor: a thread of %.100s wants one %.0f %% of the time",
			       whose, 100 * cpu->thread_s / cpu->watched_s);
	else if (cpu->core_softirq_s >= enough)
		(void)snprintf(out, FM_BENCH_TEXT_MAX,
			       "one processor: one of %.100s is %.0f %% busy with interrupts of "
			       "the network",
			       whose, 100 * cpu->core_softirq_s / cpu->watched_s);
	return out[0] != '\0';
}

/* Of either end; out is what processors_of() says. */
static bool has_none_left(const struct fm_bench *b, const struct fm_bench_path *p,
			  char out[static FM_BENCH_TEXT_MAX])
{
	return processors_of(&p->here, b->node, out) || processors_of(&p->there, p->where, out);
}

/* Full, and the end waited for them, but slept as well: nothing that can be named. */
static bool may_be_held_up(const struct fm_bench_cpu *cpu)
{
	return cpu->is_known && cpu->watched_s > 0 &&
	       cpu->allowed_busy_s >= FM_BENCH_ALL_BUSY * cpu->watched_s &&
	       cpu->wait_s >= FM_BENCH_WAITED * cpu->watched_s;
}

static const char *held_up_text(const struct fm_bench_path *p)
{
	return may_be_held_up(&p->here) || may_be_held_up(&p->there)
		       ? "; processors are full, and what else runs there may be the cause"
		       : "";
}

static double lost(const struct fm_bench_path *p)
{
	uint64_t needless = p->segments_needless;

	return p->tcp_bytes == 0 || p->segments_sent == 0 || p->segments_again <= needless
		       ? 0
		       : (double)(p->segments_again - needless) / (double)p->segments_sent;
}

static bool is_lossy(const struct fm_bench_path *p)
{
	return lost(p) >= FM_BENCH_LOSS;
}

static void say_lost(struct fm_bench *b, const struct fm_bench_path *p)
{
	char is[FM_SHOW_MAX];

	(void)snprintf(b->verdict, sizeof(b->verdict),
		       "limited by loss on the wire to %.200s: %.1f %% of the segments were lost: "
		       "%s",
		       p->where, 100 * lost(p), fm_show_rate(p->rates.median, is));
}

static void say_processors(struct fm_bench *b, const struct fm_bench_path *p,
			   const char *processors)
{
	char name[FM_BENCH_TEXT_MAX], is[FM_SHOW_MAX];
	int len = snprintf(b->verdict, sizeof(b->verdict), "%.200s: limited by %.180s: %s",
			   fm_bench_path_name(p, name), processors,
			   fm_show_rate(p->rates.median, is));

	if (is_lossy(p))
		(void)snprintf(b->verdict + len, sizeof(b->verdict) - (size_t)len,
			       "; %.1f %% of the segments were lost, too", 100 * lost(p));
}

static void add_stage(struct fm_bench_stage *s, size_t *count, const struct fm_bench_path *p,
		      const char *name, double hardware)
{
	if (!p)
		return;
	(void)snprintf(s[*count].name, sizeof(s[*count].name), "%s", name);
	s[*count].rates = p->rates;
	s[*count].hardware = hardware;
	++*count;
}

static bool is_port(const struct fm_bench_path *wire, double hardware)
{
	return hardware > 0 && wire->rates.median >= FM_BENCH_NEAR * hardware;
}

static void add_rail(struct fm_bench *b, const struct fm_bench_path *wire)
{
	char rail[FM_BENCH_TEXT_MAX];
	size_t len = strlen(b->verdict);

	if (fm_bench_slow_rail(b, wire, rail))
		(void)snprintf(b->verdict + len, sizeof(b->verdict) - len, "; slow is %.200s",
			       rail);
}

/*
 * From a file here to a peer: the disk, the wire, both together. A noisy stage may be one. Where it
 * is neither the disk nor the port, what the wire waits for is named, if that is known.
 */
static void conclude_put(struct fm_bench *b, const struct fm_bench_path *p, double hardware)
{
	const struct fm_bench_path *wire =
		best(b, is_wire, FM_BENCH_SEND, p->where, FM_BENCH_NOISY);
	struct fm_bench_stage stages[FM_BENCH_STAGES_MAX];
	char name[FM_BENCH_TEXT_MAX], processors[FM_BENCH_TEXT_MAX];
	size_t count = 0;
	int limit = -1;

	(void)snprintf(name, sizeof(name), "%.200s's disk read at %.200s", b->node, p->from);
	add_stage(stages, &count, best(b, is_disk, FM_BENCH_READ, p->from, FM_BENCH_NOISY), name,
		  0);
	(void)snprintf(name, sizeof(name), "the wire to %.200s", p->where);
	add_stage(stages, &count, wire, name, hardware);
	if (count == 2)
		limit = fm_bench_verdict(stages, count, &p->rates, b->verdict);
	if (count == 2 && (limit == 0 || is_port(wire, hardware)))
		return;
	if (has_none_left(b, p, processors) || (limit == 1 && has_none_left(b, wire, processors)))
		say_processors(b, p, processors);
	else if (is_lossy(p))
		say_lost(b, p);
	else if (count < 2)
		(void)snprintf(
			b->verdict, sizeof(b->verdict),
			"no limit can be named: not each stage was measured alone, and is valid");
	else if (limit == 1)
		add_rail(b, wire);
}

/* One stage alone: against its hardware, and the processors. */
static void conclude_wire(struct fm_bench *b, const struct fm_bench_path *p, double hardware)
{
	char name[FM_BENCH_TEXT_MAX], processors[FM_BENCH_TEXT_MAX];
	char rail[FM_BENCH_TEXT_MAX], is[FM_SHOW_MAX], of[FM_SHOW_MAX];

	(void)fm_bench_path_name(p, name);
	(void)fm_show_rate(p->rates.median, is);
	(void)fm_show_rate(hardware, of);
	if (is_port(p, hardware))
		(void)snprintf(b->verdict, sizeof(b->verdict),
			       "%.200s: limited by the port: %s of %s", name, is, of);
	else if (has_none_left(b, p, processors))
		say_processors(b, p, processors);
	else if (is_lossy(p))
		say_lost(b, p);
	else if (fm_bench_slow_rail(b, p, rail))
		(void)snprintf(b->verdict, sizeof(b->verdict), "%.140s: limited by %.300s: %s",
			       name, rail, is);
	else if (hardware > 0)
		(void)snprintf(b->verdict, sizeof(b->verdict),
			       "%.200s: %s, %.0f %% of what the ports allow; no limit shows%s",
			       name, is, 100 * p->rates.median / hardware, held_up_text(p));
	else
		(void)snprintf(b->verdict, sizeof(b->verdict),
			       "%.200s: %s; what its hardware allows is not known%s", name, is,
			       held_up_text(p));
}

static void conclude_disk(struct fm_bench *b, const struct fm_bench_path *r,
			  const struct fm_bench_path *w)
{
	char is[FM_SHOW_MAX], of[FM_SHOW_MAX];

	if (r && w)
		(void)snprintf(b->verdict, sizeof(b->verdict), "%.200s reads %s and writes %s",
			       r->where, fm_show_rate(r->rates.median, is),
			       fm_show_rate(w->rates.median, of));
	else
		(void)snprintf(b->verdict, sizeof(b->verdict), "%.200s %s %s", (r ? r : w)->where,
			       r ? "reads" : "writes", fm_show_rate((r ? r : w)->rates.median, is));
}

/* What is noisy has no rate to be named, but may have a cause. */
static const struct fm_bench_path *noisy_with_cause(const struct fm_bench *b)
{
	char unused[FM_BENCH_TEXT_MAX];

	for (unsigned i = 0; i < b->path_count; i++) {
		const struct fm_bench_path *p = &b->paths[i];

		if (p->op == FM_BENCH_SEND && p->invalid == FM_BENCH_NOISY && is_wire(p) &&
		    (is_lossy(p) || has_none_left(b, p, unused) ||
		     fm_bench_slow_rail(b, p, unused)))
			return p;
	}
	return NULL;
}

static bool has_part(const struct fm_bench *b)
{
	for (unsigned i = 0; i < b->path_count; i++)
		if (!fm_bench_is_any(&b->paths[i].only))
			return true;
	return false;
}

void fm_bench_conclude(struct fm_bench *b, double hardware)
{
	const struct fm_bench_path *wire = best(b, is_wire, FM_BENCH_SEND, NULL, 0), *read, *write;
	const struct fm_bench_path *noisy = noisy_with_cause(b);

	b->verdict[0] = '\0';
	for (unsigned i = 0; i < b->path_count; i++)
		if (b->paths[i].kind == FM_BENCH_PUT && b->paths[i].from[0] &&
		    !(b->paths[i].invalid & ~(unsigned)FM_BENCH_NOISY)) {
			conclude_put(b, &b->paths[i], hardware);
			return;
		}
	read = best(b, is_disk, FM_BENCH_READ, NULL, 0);
	write = best(b, is_disk, FM_BENCH_WRITE, read ? read->where : NULL, 0);
	if (wire || noisy)
		conclude_wire(b, wire ? wire : noisy, hardware);
	else if (read || write)
		conclude_disk(b, read, write);
	else
		(void)snprintf(b->verdict, sizeof(b->verdict), "%s",
			       has_part(b) ? "no limit can be named: of the connections to a peer "
					     "only a part was measured, or nothing is valid"
					   : "nothing that is valid was measured");
}
