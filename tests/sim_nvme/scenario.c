/* SPDX-License-Identifier: MIT */
/* What the seed decides, and in which order things happen. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim_nvme/nvme_sim.h"

#define STEPS_MAX 200000		/* a seed takes a few thousand */
#define CALM_NS (400 * S)		/* patience, deadlines and holds are over by then */
#define HELPS_MAX 3
#define HANDS_NS (90 * S)
#define WALL_MS INT64_C(1750000000000)

struct sim sim;
bool sim_is_tracing;
struct crash sim_crash;

/* ---- chance and words ---- */

uint64_t sim_chance(void)
{
	sim.random ^= sim.random << 13;
	sim.random ^= sim.random >> 7;
	sim.random ^= sim.random << 17;
	return sim.random;
}

uint64_t sim_below(uint64_t bound)
{
	return bound ? (sim_chance() >> 16) % bound : 0;
}

bool sim_is_one_in(unsigned percent)
{
	return sim_below(100) < percent;
}

/* Short times as likely as long ones. */
static uint64_t some_time(uint64_t most_ns)
{
	uint64_t ns = MS + sim_below(most_ns);

	return ns >> sim_below(8);
}

void sim_trace(const char *fmt, ...)
{
	va_list args;

	if (!sim_is_tracing)
		return;
	(void)printf("%9.3f %5llu ", (double)sim.now_ns / (double)S, (unsigned long long)sim.steps);
	va_start(args, fmt);
	(void)vprintf(fmt, args);
	va_end(args);
	(void)printf("\n");
	(void)fflush(stdout);
}

void sim_violate(const char *fmt, ...)
{
	va_list args;

	if (sim.violation[0])
		return;
	va_start(args, fmt);
	(void)vsnprintf(sim.violation, sizeof(sim.violation), fmt, args);
	va_end(args);
	sim_trace("VIOLATION: %s", sim.violation);
}

/* ---- the beginning ---- */

static void choose_troubles(void)
{
	unsigned share = 15 + (unsigned)sim_below(60);

	for (unsigned t = 0; t < TROUBLES; t++)
		sim.has[t] = sim_is_one_in(share);
}

/* Every node, or some of them, with the first one, which may be the only ones that are asked. */
static void choose_users(unsigned volume)
{
	bool are_all = sim_is_one_in(60);

	for (unsigned i = 0; i < sim.node_count; i++)
		sim.is_user[volume][i] = i == 0 || are_all || sim_is_one_in(60);
	sim.has_nodes[volume] = sim_is_one_in(30);
}

static unsigned some_user(unsigned volume)
{
	unsigned node;

	do
		node = (unsigned)sim_below(sim.node_count);
	while (!sim.is_user[volume][node]);
	return node;
}

/* ---- plots: what chance alone hardly ever comes to ---- */

enum act {
	ACT_NONE,
	ACT_NAME,
	ACT_ISOLATE,
	ACT_LOSE,
	ACT_LOSE_BEGUN,
	ACT_OFF,
	ACT_ON,
	ACT_FORGET,
	ACT_SEAL,
	ACT_UNSEAL,
	ACT_DOWN,
	ACT_UP,
	ACT_FORCE,
	ACT_BLIND,
	ACT_UNMOUNT,
	ACT_STALL,
	ACT_TARGET			/* it restarts, and has forgotten who had reserved it */
};

/* 'a': the writer in the beginning; 'b': another node that has the volume; 'o': all but 'a'; '*':
 * all nodes. */
struct act_of {
	enum act act;
	char who;
	char whom;			/* ACT_NAME: the writer from here on; ACT_FORGET: who is */
	bool is_soon;			/* before anybody is sure to have heard of the one before */
};

#define ACTS_MAX 10

static const struct plot {
	enum fm_volume_mode mode;
	bool has_mmp;			/* else chance says whether */
	struct act_of act[ACTS_MAX];
} plots[] = {
	/* The writer is changed, and back at one node, which does not hear of the other one. */
	{FM_VOLUME_EXCLUSIVE,
	 false,
	 {{ACT_NAME, '*', 'b', false}, {ACT_ISOLATE, 'a', 0, true}, {ACT_NAME, 'a', 'a', false}}},
	/* Also after it has lost what it heard. */
	{FM_VOLUME_EXCLUSIVE,
	 false,
	 {{ACT_NAME, '*', 'b', false},
	  {ACT_ISOLATE, 'a', 0, false},
	  {ACT_LOSE, 'a', 0, false},
	  {ACT_NAME, 'a', 'a', false}}},
	/* A reader that has nothing mounted does not hear that it is unsealed, and mounts before
	 * the writer does. */
	{FM_VOLUME_SHARED_READ,
	 false,
	 {{ACT_SEAL, 'a', 0, false},
	  {ACT_DOWN, 'b', 0, false},
	  {ACT_DOWN, 'a', 0, false},
	  {ACT_UNSEAL, 'a', 0, false},
	  {ACT_ISOLATE, 'b', 0, true},
	  {ACT_UP, 'b', 0, false},
	  {ACT_UP, 'a', 0, false}}},
	/* A reader that is forgotten comes back with what it remembers, and mounts before the
	 * writer does. */
	{FM_VOLUME_SHARED_READ,
	 false,
	 {{ACT_SEAL, 'a', 0, false},
	  {ACT_DOWN, 'b', 0, false},
	  {ACT_OFF, 'b', 0, false},
	  {ACT_DOWN, 'a', 0, false},
	  {ACT_UNSEAL, 'a', 0, false},
	  {ACT_FORGET, 'a', 'b', false},
	  {ACT_ISOLATE, 'b', 0, false},
	  {ACT_ON, 'b', 0, false},
	  {ACT_UP, 'b', 0, false},
	  {ACT_UP, 'a', 0, false}}},
	/* A writer that is forgotten comes back with what it sealed, hears nobody, and another one
	 * writes. */
	{FM_VOLUME_SHARED_READ,
	 false,
	 {{ACT_SEAL, 'a', 0, false},
	  {ACT_OFF, 'a', 0, false},
	  {ACT_FORGET, 'o', 'a', false},
	  {ACT_NAME, 'o', 'b', false},
	  {ACT_FORGET, 'o', 'a', false},
	  {ACT_ISOLATE, 'a', 0, false},
	  {ACT_ON, 'a', 0, false}}},
	/* The same, and what the other one writes is clean at the moment when it comes back. */
	{FM_VOLUME_SHARED_READ,
	 false,
	 {{ACT_SEAL, 'a', 0, false},
	  {ACT_OFF, 'a', 0, false},
	  {ACT_FORGET, 'o', 'a', false},
	  {ACT_NAME, 'o', 'b', false},
	  {ACT_FORGET, 'o', 'a', false},
	  {ACT_DOWN, 'b', 0, false},
	  {ACT_ISOLATE, 'a', 0, false},
	  {ACT_ON, 'a', 0, false},
	  {ACT_UP, 'b', 0, false}}},
	/* The same, and it was named as no writer for a while, when nobody could hear it. */
	{FM_VOLUME_SHARED_READ,
	 false,
	 {{ACT_SEAL, 'a', 0, false},
	  {ACT_OFF, 'a', 0, false},
	  {ACT_NAME, '*', 'b', false},
	  {ACT_ON, 'a', 0, false},
	  {ACT_OFF, 'a', 0, false},
	  {ACT_ISOLATE, 'a', 0, false},
	  {ACT_NAME, 'a', 'a', false},
	  {ACT_ON, 'a', 0, false}}},
	/* Whose readers have it boots without state and without peers. */
	{FM_VOLUME_SHARED_READ,
	 false,
	 {{ACT_SEAL, 'a', 0, false},
	  {ACT_OFF, 'a', 0, false},
	  {ACT_LOSE, 'a', 0, false},
	  {ACT_ISOLATE, 'a', 0, false},
	  {ACT_ON, 'a', 0, false}}},
	/* A mount hangs, its daemon is killed, and the next one finds no note of it. */
	{FM_VOLUME_EXCLUSIVE, false, {{ACT_DOWN, 'a', 0, false}, {ACT_LOSE_BEGUN, 'a', 0, false}}},
	/* A writer that is forgotten comes back, and mmp alone lets it write; what it seals then,
	 * another one writes the next moment. */
	{FM_VOLUME_SHARED_READ,
	 true,
	 {{ACT_OFF, 'a', 0, false},
	  {ACT_NAME, 'o', 'b', false},
	  {ACT_FORGET, 'o', 'a', false},
	  {ACT_DOWN, 'b', 0, false},
	  {ACT_ISOLATE, 'a', 0, false},
	  {ACT_ON, 'a', 0, false},
	  {ACT_SEAL, 'a', 0, false},
	  {ACT_UP, 'b', 0, false}}},
	/* What is mounted is forced, and cannot be seen until it is unmounted by hand; later
	 * another one writes. */
	{FM_VOLUME_EXCLUSIVE,
	 false,
	 {{ACT_NAME, 'b', 'b', false},
	  {ACT_BLIND, 'a', 0, false},
	  {ACT_FORCE, 'a', 0, true},
	  {ACT_UNMOUNT, 'a', 0, true},
	  {ACT_ISOLATE, 'a', 0, false}}},
	/* Who has never heard of the writer reserves what it has mounted, writes, and leaves,
	 * before the writer looks again. */
	{FM_VOLUME_EXCLUSIVE,
	 false,
	 {{ACT_ISOLATE, 'b', 0, false},
	  {ACT_LOSE, 'b', 0, false},
	  {ACT_STALL, 'a', 0, false},
	  {ACT_TARGET, 'a', 0, true},
	  {ACT_NAME, 'b', 'b', true},
	  {ACT_DOWN, 'b', 0, false}}},
};

/* Hardly anything else goes wrong then. */
static void choose_plot(void)
{
	unsigned plot = (unsigned)sim_below(5 * sizeof(plots) / sizeof(plots[0]));

	/* Of two nodes that are one host each must be sure that it writes. */
	if (sim.is_cloned && plot % 2 == 0 && plot >= sizeof(plots) / sizeof(plots[0]))
		plot = 0;
	if (plot >= sizeof(plots) / sizeof(plots[0]))
		return;
	sim.plot = &plots[plot];
	/* Of what is forced a reservation would keep the second one away. */
	for (unsigned i = 0; i < ACTS_MAX; i++)
		sim.has_reservations = sim.has_reservations && sim.plot->act[i].act != ACT_FORCE;
	sim.mode[0] = sim.plot->mode;
	sim.disk[0].is_xfs = sim.disk[0].is_xfs && !sim.plot->has_mmp;
	for (unsigned i = 0; i < sim.node_count; i++)
		sim.is_user[0][i] = true;
	for (unsigned t = 0; t < TROUBLES; t++)
		sim.has[t] = sim.has[t] && sim_is_one_in(20);
}

static void begin(uint64_t seed)
{
	struct fm_loop *loop[NODES_MAX];

	for (unsigned i = 0; i < NODES_MAX; i++)
		loop[i] = sim.node[i].loop;
	memset(&sim, 0, sizeof(sim));
	for (unsigned i = 0; i < NODES_MAX; i++)
		sim.node[i].loop = loop[i];
	sim.seed = seed;
	sim.random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
	for (unsigned i = 0; i < 8; i++)
		(void)sim_chance();
	sim.now_ns = 1000 * S;
	sim.node_count = 2 + (unsigned)sim_below(NODES_MAX - 1);
	sim.volume_count = sim_is_one_in(20) ? 2 : 1;
	for (unsigned v = 0; v < sim.volume_count; v++) {
		sim.disk[v] = (struct disk){ .content = 1, .is_xfs = sim_is_one_in(75) };
		sim.mode[v] = sim_is_one_in(70) ? FM_VOLUME_SHARED_READ : FM_VOLUME_EXCLUSIVE;
		choose_users(v);
	}
	sim.has_hands = seed % 8 == 4;
	sim.has_reservations = seed % 8 == 2 || seed % 8 == 6;
	sim.is_cloned = seed % 16 == 6;
	choose_troubles();
	choose_plot();
	for (unsigned i = 0; i < sim.node_count; i++) {
		struct node *n = &sim.node[i];

		node_init(n, i);
		n->wall_ms = WALL_MS;
		n->start_ns = sim.now_ns + some_time(10 * S);
		if (sim.has[TROUBLE_LATE])
			n->late_ns = n->start_ns + some_time(15 * S);
		for (unsigned v = 0; v < sim.volume_count; v++)
			n->writer[v] = sim.has[TROUBLE_CONFIG] ? some_user(v) : 0;
	}
	sim_trace("seed %llu: %u nodes, %s%s, plot %d", (unsigned long long)seed, sim.node_count,
		  sim.mode[0] == FM_VOLUME_EXCLUSIVE ? "exclusive" : "shared",
		  sim.disk[0].is_xfs ? ", xfs" : ", ext4",
		  sim.plot ? (int)(sim.plot - plots) + 1 : 0);
}

/* ---- what goes wrong ---- */

static struct node *some_node(void)
{
	return &sim.node[sim_below(sim.node_count)];
}

void sim_power_on(struct node *n)
{
	if (n->has_power)
		return;
	sim_trace("%s boots", n->name);
	n->has_power = true;
	n->booted_ns = sim.now_ns;
	(void)snprintf(n->boot, sizeof(n->boot), "boot-%u-%llu", n->number,
		       (unsigned long long)++sim.next_id);
	n->start_ns = sim.now_ns + some_time(10 * S);
	n->deaf_ns = 0;
	n->late_ns = sim.has[TROUBLE_LATE] ? n->start_ns + some_time(15 * S) : 0;
}

static void toggle_power(struct node *n)
{
	if (n->has_power)
		node_cut_power(n);
	else
		sim_power_on(n);
}

static void set_link(unsigned a, unsigned b, bool is_cut)
{
	sim_trace("n%u and n%u%s reach each other", a + 1, b + 1, is_cut ? " do not" : "");
	sim.is_cut[a][b] = sim.is_cut[b][a] = is_cut;
}

static void isolate(unsigned a, bool is_cut)
{
	for (unsigned i = 0; i < sim.node_count; i++)
		if (i != a)
			set_link(a, i, is_cut);
}

static void toggle_link(void)
{
	unsigned a = (unsigned)sim_below(sim.node_count),
		 b = (a + 1 + (unsigned)sim_below(sim.node_count - 1)) % sim.node_count;
	bool is_cut = !sim.is_cut[a][b];

	if (sim_is_one_in(50))
		isolate(a, is_cut);
	else
		set_link(a, b, is_cut);
}

/* Now, or by the start of its daemon. */
static void reconfigure(struct node *n)
{
	if (!n->sup)
		return;
	node_enter(n);
	node_configure(n);
	node_leave(n);
}

static void configure(struct node *n, unsigned volume, unsigned writer)
{
	if (n->writer[volume] == writer)
		return;
	sim_trace("%s: its configuration names n%u as the writer of %s", n->name, writer + 1,
		  sim_volumes[volume]);
	n->writer[volume] = writer;
	reconfigure(n);
}

static void take_out(struct node *n, unsigned volume, bool is_out)
{
	if (n->is_out[volume] == is_out)
		return;
	sim_trace("%s: its configuration has %s %s", n->name, is_out ? "no" : "again",
		  sim_volumes[volume]);
	n->is_out[volume] = is_out;
	reconfigure(n);
}

/* Also while its daemon does not run. */
static void take_out_some_time(struct node *n, unsigned volume)
{
	if (sim_is_one_in(50))
		node_kill(n);
	take_out(n, volume, !n->is_out[volume]);
}

static void lose_state(struct node *n, bool is_damaged)
{
	node_kill(n);
	node_lose_files(n, is_damaged);
}

void sim_seal(struct node *n, unsigned volume, bool is_sealed)
{
	bool was_sealed = n->sup && fm_supervisor_is_sealed(n->sup, sim_volumes[volume]);
	struct fm_err err = { 0 };
	int ret;

	if (!n->sup)
		return;
	node_enter(n);
	ret = fm_supervisor_seal(n->sup, sim_volumes[volume], is_sealed, false, &err);
	sim_trace("%s: %s %s: %s", n->name, is_sealed ? "seal" : "unseal", sim_volumes[volume],
		  ret < 0 ? err.text : "done");
	if (ret == 0 && was_sealed && !is_sealed)
		mutant_unsealed(n->sup, sim_volumes[volume]);
	node_leave(n);
}

static bool step(uint64_t until_ns);

/* Until that node is at that call for the volume ("": asks its peers), or a while is over. */
static void await_call(struct node *n, unsigned volume, const char *call)
{
	uint64_t until_ns = sim.now_ns + 60 * S, steps = sim.steps + 400;

	while (!sim.violation[0] && sim.steps < steps &&
	       !(call[0] ? kernel_is_at(n, volume, call) : n->is_asking) && step(until_ns))
		;
	sim_trace("%s: at %s of %s, or not:", n->name, call[0] ? call : "a question",
		  sim_volumes[volume]);
}

/* Force comes in each of its states. */
static void await_moment(struct node *n, unsigned volume)
{
	static const char *const calls[] = {"connect", "probe",	  "xfs_state",	"prepare", "mount",
					    "restore", "unmount", "disconnect", ""};

	await_call(n, volume, calls[sim_below(sizeof(calls) / sizeof(calls[0]))]);
}

/* What it has mounted to write, and keeps, no force is for: nor for a mount after it. */
static bool is_nothing_to_force(const struct node *n, unsigned volume)
{
	const struct mounted *m = &n->device[volume].mount;

	return m->is_there && !m->is_read_only && !kernel_is_unmounting(n, volume) &&
	       !fm_supervisor_is_sealed(n->sup, sim_volumes[volume]);
}

static void run_loop(struct node *n);

/* Who does not write gains nothing by it, and nobody loses. */
static void force(struct node *n, unsigned volume)
{
	bool is_unseal = sim_is_one_in(30);
	struct fm_err err;

	if (!n->sup || !sim.is_user[volume][n->number])
		return;
	n->is_nothing_forced = volume == 0 && is_nothing_to_force(n, volume);
	sim.is_forced[volume] = sim.is_forced[volume] ||
				(n->writer[volume] == n->number && !is_nothing_to_force(n, volume));
	sim_trace("%s: %s --force %s", n->name, is_unseal ? "unseal" : "up", sim_volumes[volume]);
	node_enter(n);
	if (is_unseal)
		(void)fm_supervisor_seal(n->sup, sim_volumes[volume], false, true, &err);
	else
		(void)fm_supervisor_wish(n->sup, sim_volumes[volume], FM_WANT_UP, true, &err);
	node_leave(n);
	if (n->sup)	/* it looks before anything else comes */
		run_loop(n);
}

/* As a person may: only what is off, and what has not forgotten this one, which would come back and
 * mount. */
static void forget(struct node *n, unsigned other)
{
	struct fm_err err;
	int ret;

	if (!n->sup || sim.node[other].has_power || node_has_forgotten(&sim.node[other], n))
		return;
	node_enter(n);
	ret = fm_supervisor_forget(n->sup, sim.node[other].name, &err);
	sim.node[other].was_forgotten = sim.node[other].was_forgotten || ret == 0;
	sim_trace("%s: forget %s: %s", n->name, sim.node[other].name, ret < 0 ? err.text : "done");
	node_leave(n);
}

/* If none is off, another node is switched off, for a later time. */
static void forget_all_off(struct node *n)
{
	bool is_any_off = false;

	for (unsigned i = 0; i < sim.node_count; i++) {
		is_any_off = is_any_off || !sim.node[i].has_power;
		forget(n, i);
	}
	if (!is_any_off)
		node_cut_power(&sim.node[(n->number + 1 + (unsigned)sim_below(sim.node_count - 1)) %
					 sim.node_count]);
}

static void wish(struct node *n, const char *volume, enum fm_plan_want want)
{
	bool is_forced = want != FM_WANT_UP && sim.has[TROUBLE_FORCE] && sim_is_one_in(50);
	struct fm_err err;

	if (!n->sup)
		return;
	sim_trace("%s: %s is to be %s%s", n->name, volume,
		  want == FM_WANT_UP	 ? "up"
		  : want == FM_WANT_DOWN ? "down"
					 : "connected",
		  is_forced ? ", by force" : "");
	node_enter(n);
	(void)fm_supervisor_wish(n->sup, volume, want, is_forced, &err);
	node_leave(n);
}

static void move_clock(struct node *n)
{
	static const int64_t moves[] = { -3600000, 3600000, -86400000, 86400000, -WALL_MS + 5000 };

	n->wall_ms = WALL_MS + moves[sim_below(sizeof(moves) / sizeof(moves[0]))];
	sim_trace("%s: its clock is set to %lld", n->name, (long long)n->wall_ms);
}

/* Of what goes wrong from now on: none, now and then. */
static unsigned some_percent(void)
{
	return sim_is_one_in(30) ? 0 : (unsigned)sim_below(60);
}

static void force_some_time(struct node *n, unsigned volume)
{
	if (sim_is_one_in(70))
		await_moment(n, volume);
	force(n, volume);
}

static void blind(struct node *n, uint64_t ns)
{
	n->blind_ns = sim.now_ns + ns;
	sim_trace("%s: what is mounted cannot be read until %.3f", n->name,
		  (double)n->blind_ns / (double)S);
}

static void happen(enum trouble t, struct node *n)
{
	unsigned volume = (unsigned)sim_below(sim.volume_count);

	switch (t) {
	case TROUBLE_RESTART:
		node_kill(n);
		break;
	case TROUBLE_CRASH:
		n->saves_left = n->sup ? 1 + (unsigned)sim_below(4) : 0;
		break;
	case TROUBLE_POWER:
		toggle_power(n);
		break;
	case TROUBLE_CONFIG:
		configure(n, volume, some_user(volume));
		break;
	case TROUBLE_CUT:
		toggle_link();
		break;
	case TROUBLE_LOSS:
		sim.loss_percent = some_percent();
		break;
	case TROUBLE_DEAF:
		n->deaf_ns = sim.now_ns + some_time(60 * S);
		sim_trace("%s: its fmoved does not answer until %.3f", n->name,
			  (double)n->deaf_ns / (double)S);
		break;
	case TROUBLE_LATE:
		n->late_ns = sim.now_ns + some_time(15 * S);
		sim_trace("%s: its fmoved starts again, and has no connections until %.3f", n->name,
			  (double)n->late_ns / (double)S);
		break;
	case TROUBLE_LOSE:
	case TROUBLE_DAMAGE:
		lose_state(n, t == TROUBLE_DAMAGE);
		break;
	case TROUBLE_SAVE:
		n->is_save_broken = !n->is_save_broken;
		sim_trace("%s: its state can%s be written", n->name,
			  n->is_save_broken ? "not" : "");
		break;
	case TROUBLE_HANG:
		sim.hang_percent = some_percent();
		break;
	case TROUBLE_FAIL:
		sim.fail_percent = some_percent();
		break;
	case TROUBLE_SEAL:
		/* A person knows where to say it. */
		sim_seal(sim_is_one_in(80) ? &sim.node[n->writer[volume]] : n, volume,
			 sim_is_one_in(50));
		break;
	case TROUBLE_WISH:
		wish(n, sim_volumes[volume], (enum fm_plan_want)sim_below(3));
		break;
	case TROUBLE_UNMOUNT:
		kernel_unmount(n, volume);
		break;
	case TROUBLE_FORCE:
		force_some_time(n, volume);
		break;
	case TROUBLE_FORGET:
		forget_all_off(n);
		break;
	case TROUBLE_CLOCK:
		move_clock(n);
		break;
	case TROUBLE_STALL:
		n->stalled_ns = sim.now_ns + some_time(20 * S);
		break;
	case TROUBLE_BLIND:
		blind(n, some_time(60 * S));
		break;
	case TROUBLE_REMOVE:
		take_out_some_time(n, volume);
		break;
	case TROUBLES:
		break;
	}
}

static bool is_meant(char who, unsigned i, unsigned a, unsigned b)
{
	return who == '*' || (who == 'o' && i != a) || (who == 'a' && i == a) ||
	       (who == 'b' && i == b);
}

static void lose_begun(struct node *n)
{
	wish(n, sim_volumes[0], FM_WANT_UP);
	await_call(n, 0, "mount");
	kernel_hang(n, 0, "mount");
	node_kill(n);
	node_lose_file(n, FM_SUPERVISOR_BEGUN, sim_is_one_in(50));
}

static void act(const struct act_of *of, unsigned a, unsigned b)
{
	unsigned whom = of->whom == 'a' ? a : b;

	for (unsigned i = 0; i < sim.node_count; i++) {
		struct node *n = &sim.node[i];

		if (!is_meant(of->who, i, a, b))
			continue;
		switch (of->act) {
		case ACT_NAME:
			configure(n, 0, whom);
			break;
		case ACT_ISOLATE:
			isolate(i, true);
			break;
		case ACT_LOSE:
			lose_state(n, false);
			break;
		case ACT_LOSE_BEGUN:
			lose_begun(n);
			break;
		case ACT_OFF:
			node_cut_power(n);
			break;
		case ACT_ON:
			sim_power_on(n);
			break;
		case ACT_FORGET:
			forget(n, whom);
			break;
		case ACT_SEAL:
		case ACT_UNSEAL:
			sim_seal(n, 0, of->act == ACT_SEAL);
			break;
		case ACT_DOWN:
		case ACT_UP:
			wish(n, sim_volumes[0], of->act == ACT_UP ? FM_WANT_UP : FM_WANT_DOWN);
			break;
		case ACT_FORCE:
			force(n, 0);
			break;
		case ACT_BLIND:
			blind(n, 20 * S);
			break;
		case ACT_UNMOUNT:
			kernel_unmount(n, 0);
			break;
		case ACT_STALL:
			n->stalled_ns = sim.now_ns + 100 * S;
			break;
		case ACT_TARGET:
			kernel_restart_target(0);
			break;
		case ACT_NONE:
			break;
		}
	}
}

/* A person mounts it to write, whoever its writer is, or unmounts. */
static void use_hands(struct node *n, unsigned volume)
{
	if (n->device[volume].mount.is_there && sim_is_one_in(50))
		kernel_unmount(n, volume);
	else
		kernel_mount_by_hand(n, volume);
}

static void something_happens(void)
{
	enum trouble t;

	if (sim.has_hands && sim_is_one_in(40)) {
		use_hands(some_node(), (unsigned)sim_below(sim.volume_count));
		return;
	}
	if (sim.has_reservations && sim_is_one_in(15)) {
		kernel_restart_target((unsigned)sim_below(sim.volume_count));
		return;
	}
	do
		/* one more: nothing, so that it ends */
		t = (enum trouble)sim_below(TROUBLES + 1);
	while (t < TROUBLES && !sim.has[t]);
	happen(t, some_node());
}

/* ---- what is next ---- */

struct next {
	uint64_t at_ns;
	unsigned count;			/* things that are due then */
	struct node *node;
	struct call *call;		/* or */
	int peer;			/* a question is read there, or */
	/* this volume has been left by what was unmounted; 0: none, else its number and one more;
	 * or */
	int left;
	bool is_answer, is_loop, is_start;
};

/* Of several at the same moment each has the same chance. */
static void offer(struct next *next, const struct next *one)
{
	uint64_t at = one->at_ns < sim.now_ns ? sim.now_ns : one->at_ns;
	unsigned count;

	if (one->at_ns == FM_NEVER || at > next->at_ns)
		return;
	count = at < next->at_ns ? 1 : next->count + 1;
	if (count == 1 || sim_below(count) == 0) {
		*next = *one;
		next->at_ns = at;
	}
	next->count = count;
}

/* A loop's time is its node's. */
static uint64_t loop_next(const struct node *n)
{
	uint64_t at = n->sup ? fm_loop_next_ns(n->loop) : FM_NEVER;

	if (at != FM_NEVER && at != 0)
		at = at + n->booted_ns - S;
	return at < n->stalled_ns ? n->stalled_ns : at;
}

static void offer_node(struct next *next, struct node *n)
{
	uint64_t answer_ns = n->answer_ns > n->stalled_ns ? n->answer_ns : n->stalled_ns;

	if (n->has_power && !n->sup)
		offer(next, &(struct next){
				    .at_ns = n->start_ns, .node = n, .peer = -1, .is_start = true});
	offer(next, &(struct next){.at_ns = loop_next(n), .node = n, .peer = -1, .is_loop = true});
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (n->call[i].request)
			offer(next, &(struct next){.at_ns = kernel_next(n, &n->call[i]),
						   .node = n,
						   .call = &n->call[i],
						   .peer = -1});
	for (unsigned v = 0; v < sim.volume_count; v++)
		if (n->device[v].left.is_there)
			offer(next, &(struct next){.at_ns = n->device[v].left_ns,
						   .node = n,
						   .peer = -1,
						   .left = (int)v + 1});
	if (!n->is_asking)
		return;
	offer(next, &(struct next){ .at_ns = answer_ns, .node = n, .peer = -1, .is_answer = true });
	for (unsigned p = 0; p < sim.node_count; p++)
		if (n->question[p].at_ns < answer_ns)
			offer(next, &(struct next){.at_ns = n->question[p].at_ns,
						   .node = n,
						   .peer = (int)p});
}

static void run_loop(struct node *n)
{
	(void)fm_loop_step(n->loop, 0);
	node_leave(n);
}

/* False: nothing is due until then. */
static bool step(uint64_t until_ns)
{
	struct next next = { .at_ns = until_ns };

	for (unsigned i = 0; i < sim.node_count; i++)
		offer_node(&next, &sim.node[i]);
	if (next.count == 0) {
		sim.now_ns = until_ns;
		return false;
	}
	sim.now_ns = next.at_ns;
	sim.steps++;
	if (next.is_start)
		node_start(next.node);
	else if (next.is_loop)
		run_loop(next.node);
	else if (next.is_answer)
		exchange_answer(next.node);
	else if (next.left > 0)
		kernel_leave(next.node, (unsigned)next.left - 1);
	else if (next.call)
		kernel_step(next.node, next.call);
	else
		exchange_read(next.node, (unsigned)next.peer);
	check_step();
	sim.hash = (sim.hash ^ sim.now_ns ^
		    (next.node->number + 7 * next.is_loop + 13 * next.is_answer)) *
		   UINT64_C(0x100000001b3);
	if (sim.steps >= STEPS_MAX)
		sim_violate("it does not come to an end");
	return true;
}

/* Until the next misfortune: after so many steps, or so much time. */
static void run_a_while(void)
{
	uint64_t longest = sim.has[TROUBLE_HANG] && sim_is_one_in(20) ? 300 * S : 30 * S;
	uint64_t until_ns = sim.now_ns + (sim_is_one_in(50) ? longest : some_time(longest));
	uint64_t steps = sim.steps + (sim_is_one_in(50) ? STEPS_MAX : sim_below(40));

	while (!sim.violation[0] && sim.steps < steps && step(until_ns))
		;
}

static void run_plot(void)
{
	unsigned a = sim.node[0].writer[0],
		 b = (a + 1 + (unsigned)sim_below(sim.node_count - 1)) % sim.node_count;

	for (unsigned i = 0; i <= ACTS_MAX && !sim.violation[0]; i++) {
		const struct act_of *of = i < ACTS_MAX ? &sim.plot->act[i] : NULL;
		uint64_t until_ns = sim.now_ns + (of && of->is_soon ? sim_below(6 * S)
								    : 15 * S + sim_below(15 * S));

		while (!sim.violation[0] && step(until_ns))
			;
		if (of && !sim.violation[0])
			act(of, a, b);
		check_step();
	}
	if (sim.hang_percent == 0 && sim.fail_percent == 0)
		check_stale();
}

/* ---- the end ---- */

/* Also of a daemon that starts later. */
static void heal(struct node *n)
{
	n->blind_ns = n->deaf_ns = n->late_ns = n->stalled_ns = 0;
	n->is_save_broken = false;
	n->saves_left = 0;
	for (unsigned i = 0; i < CALLS_MAX; i++)
		kernel_release(&n->call[i]);
	for (unsigned v = 0; v < sim.volume_count; v++)
		if (n->device[v].left_ns != FM_NEVER)
			n->device[v].left_ns = sim.now_ns;
	sim_power_on(n);
}

static void become_calm(void)
{
	bool may_change = sim.has[TROUBLE_CONFIG];

	sim_trace("nothing fails from here on");
	sim.is_calm = true;
	sim.loss_percent = sim.hang_percent = sim.fail_percent = 0;
	memset(sim.is_cut, 0, sizeof(sim.is_cut));
	memset(sim.has, 0, sizeof(sim.has));
	for (unsigned i = 0; i < sim.node_count; i++)
		heal(&sim.node[i]);
	for (unsigned v = 0; v < sim.volume_count; v++) {
		unsigned writer = may_change ? some_user(v) : 0;

		for (unsigned i = 0; i < sim.node_count; i++) {
			take_out(&sim.node[i], v, false);
			configure(&sim.node[i], v, writer);
			wish(&sim.node[i], sim_volumes[v], FM_WANT_UP);
		}
	}
}

/* Whether all is mounted by then. */
static bool run_until_calm(uint64_t end_ns)
{
	while (!sim.violation[0] && step(end_ns))
		if (check_is_calm(false))
			return true;
	return false;
}

/* What is mounted by hand stays until everybody has heard of it, and is unmounted then. */
static void end_hands(void)
{
	uint64_t end_ns = sim.now_ns + HANDS_NS;

	for (unsigned i = 0; i < sim.node_count; i++)
		for (unsigned v = 0; v < sim.volume_count; v++)
			if (sim_is_one_in(30))
				kernel_mount_by_hand(&sim.node[i], v);
	while (!sim.violation[0] && step(end_ns))
		;
	check_hands();
	for (unsigned i = 0; i < sim.node_count; i++)
		for (unsigned v = 0; v < sim.volume_count; v++)
			if (sim.node[i].device[v].mount.is_by_hand)
				kernel_unmount(&sim.node[i], v);
}

/* A person looks more than once: between two tries no refusal is to be seen, and what he does may
 * bring the next one. */
static void run_calm(void)
{
	become_calm();
	if (sim.has_hands)
		end_hands();
	for (unsigned looks = 0; looks < HELPS_MAX && !sim.violation[0]; looks++) {
		if (run_until_calm(sim.now_ns + CALM_NS))
			return;
		check_help();
	}
	if (!run_until_calm(sim.now_ns + CALM_NS) && !sim.violation[0])
		(void)check_is_calm(true);
}

void sim_run(uint64_t seed)
{
	unsigned left;

	begin(seed);
	if (sim.plot)
		run_plot();
	left = 3 + (unsigned)sim_below(20);
	while (left-- > 0 && !sim.violation[0]) {
		run_a_while();
		if (!sim.violation[0])
			something_happens();
		check_step();
	}
	if (!sim.violation[0])
		run_calm();
	for (unsigned i = 0; i < sim.node_count; i++)
		node_clear(&sim.node[i]);
	mutant_forget();
}
