/* SPDX-License-Identifier: MIT */
/*
 * sim - the world: time, events, loops, nodes. See sim.h.
 */
#include "tests/sim/sim.h"

#include <assert.h>
#include <sanitizer/asan_interface.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "tests/sim/sim_tree_priv.h"

/* So many steps without time going on: something runs in circles. */
#define STEPS_AT_ONCE_MAX 2000000

struct sim_event {
	uint64_t at_ns;
	uint64_t seq;
	struct fm_loop *loop;
	void (*run)(void *ctx);		/* NULL: cancelled */
	void *ctx;
	bool is_users;
	struct fm_task task;
};

struct sim_loop {
	struct fm_loop *loop;
	uint64_t stalled_until_ns;
	const char *name;
};

struct sim_block {
	struct sim_block *next;
	_Alignas(16) char memory[];
};

#define LOOPS_MAX (SIM_NODES_MAX * (SIM_LANES_MAX + 1))

struct sim {
	struct sim_opts opts;
	struct sim_faults faults;
	unsigned fired;
	uint64_t random_state;
	uint64_t now_ns;
	uint64_t trace_hash;
	uint64_t steps;
	uint64_t steps_at_once;
	struct fm_clock clock;
	struct fm_random random;

	struct sim_event **heap;	/* heap[1] is the next */
	size_t heap_len, heap_cap;
	uint64_t event_seq;

	struct sim_loop loops[LOOPS_MAX];
	unsigned loop_count;
	const struct fm_loop *running;

	struct sim_node nodes[SIM_NODES_MAX];
	struct sim_block *blocks;
	struct sim_net_world net;
	struct sim_disk_world disk;
	struct sim_crash crash;		/* step 0: none is planned */
};

/* ---- odds and ends ---- */

const struct sim_opts *sim_opts(const struct sim *s)
{
	return &s->opts;
}

void sim_set_faults(struct sim *s, const struct sim_faults *faults)
{
	s->faults = *faults;
}

const struct sim_faults *sim_faults(const struct sim *s)
{
	return &s->faults;
}

void sim_fired(struct sim *s, enum sim_fired what)
{
	s->fired |= (unsigned)what;
}

unsigned sim_what_fired(const struct sim *s)
{
	return s->fired;
}

uint64_t sim_now(const struct sim *s)
{
	return s->now_ns;
}

const struct fm_loop *sim_running(const struct sim *s)
{
	return s->running;
}

struct sim_crash *sim_planned_crash(struct sim *s)
{
	return &s->crash;
}

uint64_t sim_steps(const struct sim *s)
{
	return s->steps;
}

void sim_count_step(struct sim *s)
{
	s->steps++;
}

struct sim_net_world *sim_net_world(struct sim *s)
{
	return &s->net;
}

struct sim_disk_world *sim_disk_world(struct sim *s)
{
	return &s->disk;
}

struct sim_node *sim_node(struct sim *s, unsigned index)
{
	assert(index < s->opts.nodes);
	return &s->nodes[index];
}

void *sim_alloc(struct sim *s, size_t len)
{
	struct sim_block *b = calloc(1, sizeof(*b) + len);

	if (!b)
		abort();
	b->next = s->blocks;
	s->blocks = b;
	return b->memory;
}

/* splitmix64 */
uint64_t sim_seed(const struct sim *s)
{
	return s->opts.seed;
}

uint64_t sim_random(struct sim *s)
{
	uint64_t z = s->random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t sim_below(struct sim *s, uint64_t n)
{
	return n ? sim_random(s) % n : 0;
}

bool sim_one_in(struct sim *s, unsigned n)
{
	return n != 0 && sim_below(s, n) == 0;
}

uint64_t sim_latency(struct sim *s, uint64_t max_ns)
{
	return sim_below(s, sim_one_in(s, 16) ? max_ns : max_ns / 8) + 1;
}

void sim_trace(struct sim *s, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	if (s->opts.tracing == SIM_TRACE_NOT)
		return;
	va_start(ap, fmt);
	/* a cut line is still the same line in both runs */
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	s->trace_hash = (s->trace_hash ^ s->now_ns) * UINT64_C(0x100000001b3);
	for (const char *c = line; *c; c++)
		s->trace_hash = (s->trace_hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
	if (s->opts.tracing == SIM_TRACE_PRINT)
		fprintf(stderr, "%10.6f %s\n", (double)s->now_ns / 1e9, line);
}

uint64_t sim_trace_hash(const struct sim *s)
{
	return s->trace_hash;
}

void sim_fail(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "\nseed %llu: at %.6f s: ", (unsigned long long)s->opts.seed,
		(double)s->now_ns / 1e9);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

/* ---- events ---- */

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->seq < b->seq);
}

static void heap_push(struct sim *s, struct sim_event *e)
{
	size_t at = ++s->heap_len;

	if (at >= s->heap_cap) {
		s->heap_cap = s->heap_cap ? 2 * s->heap_cap : 1024;
		s->heap = realloc(s->heap, s->heap_cap * sizeof(struct sim_event *));
		if (!s->heap)
			abort();
	}
	for (; at > 1 && is_before(e, s->heap[at / 2]); at /= 2)
		s->heap[at] = s->heap[at / 2];
	s->heap[at] = e;
}

static struct sim_event *heap_pop(struct sim *s)
{
	struct sim_event *top = s->heap[1], *last = s->heap[s->heap_len--];
	size_t at = 1, child;

	while ((child = 2 * at) <= s->heap_len) {
		if (child < s->heap_len && is_before(s->heap[child + 1], s->heap[child]))
			child++;
		if (!is_before(s->heap[child], last))
			break;
		s->heap[at] = s->heap[child];
		at = child;
	}
	s->heap[at] = last;
	return top;
}

static void event_run(struct sim_event *e)
{
	void (*run)(void *ctx) = e->run;
	void *ctx = e->ctx;

	free(e);
	if (run)
		run(ctx);
}

static void event_task(struct fm_task *task)
{
	event_run(fm_container_of(task, struct sim_event, task));
}

struct sim_event *sim_at(struct sim *s, struct fm_loop *loop, uint64_t at_ns,
			 void (*run)(void *ctx), void *ctx)
{
	struct sim_event *e = calloc(1, sizeof(*e));

	if (!e)
		abort();
	e->at_ns = at_ns > s->now_ns ? at_ns : s->now_ns;
	e->seq = s->event_seq++;
	e->loop = loop;
	e->run = run;
	e->ctx = ctx;
	e->task.run = event_task;
	heap_push(s, e);
	return e;
}

struct sim_event *sim_after(struct sim *s, struct fm_loop *loop, uint64_t delay_ns,
			    void (*run)(void *ctx), void *ctx)
{
	return sim_at(s, loop, s->now_ns + delay_ns, run, ctx);
}

void sim_user_after(struct sim_node *n, uint64_t delay_ns, void (*run)(void *ctx), void *ctx)
{
	sim_after(n->sim, n->control, delay_ns, run, ctx)->is_users = true;
}

void sim_cancel(struct sim_event *e)
{
	e->run = NULL;
}

/* ---- steps ---- */

static bool is_runnable(struct sim *s, struct sim_loop *l)
{
	return l->stalled_until_ns <= s->now_ns && fm_loop_next_ns(l->loop) <= s->now_ns;
}

static bool step_loop(struct sim *s)
{
	struct sim_loop *ready[LOOPS_MAX], *l;
	unsigned count = 0;

	for (unsigned i = 0; i < s->loop_count; i++)
		if (is_runnable(s, &s->loops[i]))
			ready[count++] = &s->loops[i];
	if (count == 0)
		return false;
	l = ready[sim_below(s, count)];
	s->running = l->loop;
	(void)fm_loop_step(l->loop, 0);
	s->running = NULL;
	if (sim_one_in(s, s->faults.loop_stall)) {
		l->stalled_until_ns = s->now_ns + sim_below(s, 20 * SIM_MS);
		sim_trace(s, "%s stalls", l->name);
	}
	return true;
}

static bool step_event(struct sim *s)
{
	struct sim_event *e;

	if (s->heap_len == 0 || s->heap[1]->at_ns > s->now_ns)
		return false;
	e = heap_pop(s);
	if (e->loop && e->run)
		fm_loop_post(e->loop, &e->task);
	else
		event_run(e);
	return true;
}

static uint64_t next_ns(struct sim *s)
{
	uint64_t next = s->heap_len > 0 ? s->heap[1]->at_ns : FM_NEVER;

	for (unsigned i = 0; i < s->loop_count; i++) {
		struct sim_loop *l = &s->loops[i];
		uint64_t at = fm_loop_next_ns(l->loop);

		if (at != FM_NEVER && at < l->stalled_until_ns)
			at = l->stalled_until_ns;
		if (at < next)
			next = at;
	}
	return next;
}

/* Events first: all that are due are posted before a loop is chosen, or the order of loops would
 * not be the seed's. */
bool sim_step(struct sim *s)
{
	uint64_t next;

	if (step_event(s) || step_loop(s)) {
		if (++s->steps_at_once > STEPS_AT_ONCE_MAX)
			sim_fail(s, "%d steps and time stands still", STEPS_AT_ONCE_MAX);
		sim_count_step(s);
		sim_crash_if_due(s);
		if (s->net.hostile && s->net.hostile->is_rewriting)
			sim_conn_rewrite(s);
		return true;
	}
	next = next_ns(s);
	if (next == FM_NEVER)
		return false;
	assert(next > s->now_ns);
	s->now_ns = next;
	s->steps_at_once = 0;
	return true;
}

bool sim_run(struct sim *s, bool (*is_over)(void *ctx), void *ctx, uint64_t limit_ns)
{
	uint64_t end_ns = s->now_ns + limit_ns;

	while (s->now_ns < end_ns) {
		if (is_over && is_over(ctx))
			return true;
		if (!sim_step(s))
			break;
	}
	return is_over && is_over(ctx);
}

/* ---- one node alone ---- */

static bool is_loop_of(const struct sim_node *n, const struct fm_loop *loop)
{
	bool is = loop == n->control;

	for (unsigned i = 0; i < n->sim->opts.lanes; i++)
		is |= loop == n->lanes[i];
	return is;
}

static bool step_loop_of(const struct sim_node *n)
{
	struct sim *s = n->sim;

	for (unsigned i = 0; i < s->loop_count; i++) {
		struct sim_loop *l = &s->loops[i];

		if (!is_loop_of(n, l->loop) || fm_loop_next_ns(l->loop) > s->now_ns)
			continue;
		s->running = l->loop;
		(void)fm_loop_step(l->loop, 0);
		s->running = NULL;
		return true;
	}
	return false;
}

static struct sim_event *next_event_of(const struct sim_node *n)
{
	struct sim_event *next = NULL;

	for (size_t i = 1; i <= n->sim->heap_len; i++) {
		struct sim_event *e = n->sim->heap[i];

		if (e->run && e->loop && !e->is_users && is_loop_of(n, e->loop) &&
		    (!next || is_before(e, next)))
			next = e;
	}
	return next;
}

void sim_drain(struct sim_node *n)
{
	struct sim_event *e, *now;

	for (;;) {
		while (step_loop_of(n))
			;
		e = next_event_of(n);
		if (!e)
			return;
		now = malloc(sizeof(*now));
		if (!now)
			abort();
		*now = *e;
		e->run = NULL;		/* stays in the heap until its time has come */
		fm_loop_post(now->loop, &now->task);
	}
}

bool sim_is_idle(const struct sim_node *n)
{
	for (unsigned i = 0; i < n->sim->loop_count; i++)
		if (is_loop_of(n, n->sim->loops[i].loop) &&
		    fm_loop_next_ns(n->sim->loops[i].loop) != FM_NEVER)
			return false;
	return !next_event_of(n);
}

/* ---- nodes ---- */

static uint64_t clock_now(void *ctx)
{
	const struct sim *s = ctx;

	return s->now_ns;
}

static void random_fill(void *ctx, void *buf, size_t len)
{
	uint8_t *at = buf;

	while (len-- > 0)
		*at++ = (uint8_t)sim_random(ctx);
}

static struct fm_loop *loop_new(struct sim *s, const struct sim_node *n, const char *what)
{
	const struct fm_loop_opts opts = { .clock = &s->clock, .is_simulated = true };
	struct sim_loop *l = &s->loops[s->loop_count++];
	char *name = sim_alloc(s, 32);

	(void)snprintf(name, 32, "%s %s", n->name, what);	/* cannot be cut: both are short */
	l->name = name;
	if (fm_loop_new(&opts, &l->loop, NULL) < 0)
		abort();
	return l->loop;
}

/*
 * A node's arena is the one that the same node of the seed before had, if that is long enough:
 * fresh pages cost more than what is done with them. What it is longer by nobody may touch.
 */
static void *arena_get(unsigned index, size_t len)
{
	static struct {
		char *at;
		size_t len;
	} arenas[SIM_NODES_MAX];
	char **at = &arenas[index].at;

	if (arenas[index].len < len) {
		ASAN_UNPOISON_MEMORY_REGION(*at, arenas[index].len);
		free(*at);
		arenas[index].len = len;
		*at = aligned_alloc(4096, len);
		if (!*at)
			abort();
	}
	ASAN_UNPOISON_MEMORY_REGION(*at, len);
	ASAN_POISON_MEMORY_REGION(*at + len, arenas[index].len - len);
	return memset(*at, 0xdb, len);
}

static void node_init(struct sim *s, unsigned index)
{
	struct sim_node *n = &s->nodes[index];

	n->sim = s;
	n->index = index;
	(void)snprintf(n->name, sizeof(n->name), "n%u", index + 1);
	memset(n->key, (int)index + 1, sizeof(n->key));
	n->control = loop_new(s, n, "control");
	for (unsigned i = 0; i < s->opts.lanes; i++) {
		char what[16];

		(void)snprintf(what, sizeof(what), "lane %u", i);
		n->lanes[i] = loop_new(s, n, what);
	}
	n->arena_len = s->opts.arena_len[index];
	n->arena = arena_get(index, n->arena_len);
	if (fm_worker_new(0, &n->worker, NULL) < 0)
		abort();
	fm_list_init(&n->open_files);
	fm_list_init(&n->open_sinks);
	n->net = sim_net_new(n);
}

void sim_node_env(struct sim_node *n, struct fm_engine_env *env)
{
	*env = (struct fm_engine_env){
		.clock = &n->sim->clock,
		.random = &n->sim->random,
		.loop = n->control,
		.net = n->net,
		.worker = n->worker,
		.arena = n->arena,
		.arena_len = n->arena_len,
	};
	for (unsigned i = 0; i < n->sim->opts.lanes; i++)
		env->lane_loops[i] = n->lanes[i];
}

struct sim *sim_new(const struct sim_opts *opts)
{
	struct sim *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	assert(opts->nodes <= SIM_NODES_MAX && opts->lanes <= SIM_LANES_MAX &&
	       opts->rails <= SIM_RAILS_MAX);
	s->opts = *opts;
	s->random_state = opts->seed;
	s->now_ns = SIM_S;	/* 0 is no time of a clock */
	s->clock = (struct fm_clock){ clock_now, s };
	s->random = (struct fm_random){ random_fill, s };
	fm_list_init(&s->net.ctls);
	fm_list_init(&s->net.conns);
	for (unsigned i = 0; i < opts->nodes; i++)
		node_init(s, i);
	return s;
}

static void check_counts(struct sim *s)
{
	struct sim_net_counts net;
	struct sim_disk_counts disk;

	sim_net_counts(s, &net);
	sim_disk_counts(s, &disk);
	if (net.ctls || net.conns || net.regions || net.sends || net.domains)
		sim_fail(s,
			 "left: %u control connections, %u data connections, %u regions lent, %u "
			 "sends, %u domains",
			 net.ctls, net.conns, net.regions, net.sends, net.domains);
	if (disk.files || disk.ios || disk.stores)
		sim_fail(s, "left: %u files, %u reads and writes, %u stores", disk.files, disk.ios,
			 disk.stores);
}

static void node_free(struct sim_node *n)
{
	fm_worker_free(n->worker);
	sim_store_free(n);
	sim_trees_free(n);
	/* nobody has it until arena_get() gives it to the next */
	ASAN_POISON_MEMORY_REGION(n->arena, n->arena_len);
}

void sim_free(struct sim *s)
{
	struct sim_block *b;

	check_counts(s);
	for (unsigned i = 0; i < s->loop_count; i++)
		s->loops[i].stalled_until_ns = 0;
	while (step_loop(s) || step_event(s))
		;	/* what was posted runs; what was to come later never does */
	for (unsigned i = 0; i < s->opts.nodes; i++)
		node_free(&s->nodes[i]);
	for (unsigned i = 0; i < s->loop_count; i++)
		fm_loop_free(s->loops[i].loop);
	while (s->heap_len > 0)
		free(heap_pop(s));
	free(s->heap);
	while ((b = s->blocks)) {
		s->blocks = b->next;
		free(b);
	}
	free(s);
}
