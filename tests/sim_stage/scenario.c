/* SPDX-License-Identifier: MIT */
/*
 * scenario - what a seed decides: nodes, who is whose peer, who reads, what is asked for when, what
 * goes wrong. Then all is well again, the same is asked for once more where it is not there yet,
 * and it must come.
 */
#include <stdio.h>
#include <string.h>

#include "staging/run/rank.h"
#include "tests/sim_stage/stage_sim.h"

#define END_NS (4000 * S)  /* after the last fault: longer than a run without progress lives ... */
#define EXTENT_NS (60 * S) /* ... and longer than the slowest reader takes, for each extent */

#define LIES_NS (400 * S) /* how long one who lies is there */

static unsigned fault_count;

static unsigned random_node(void)
{
	return (unsigned)sim_random(sim.node_count);
}

static uint64_t all_nodes(void)
{
	return sim.node_count == 64 ? UINT64_MAX : sim_bit(sim.node_count) - 1;
}

/* All are peers of all; or nodes 0 and 1 are, and others only now and then of each other. */
static void plan_network(void)
{
	bool is_mesh = sim.node_count < 3 || sim_random(4) != 0;

	for (unsigned a = 0; a < sim.node_count; a++) {
		for (unsigned b = a + 1; b < sim.node_count; b++) {
			bool is_peer = is_mesh || a < 2 || sim_chance(0.3);

			sim.is_peer[a][b] = sim.is_peer[b][a] = is_peer;
			sim.session[a][b].is_alive = is_peer;
			sim.session[a][b].is_up[0] = sim.session[a][b].is_up[1] = is_peer;
		}
	}
	sim.is_even = is_mesh;
}

/* All nodes read the source; or some; or one. */
static uint64_t plan_readers(void)
{
	unsigned kind = (unsigned)sim_random(3), one = random_node();
	uint64_t readers = 0;

	for (unsigned n = 0; n < sim.node_count; n++)
		if (kind == 0 || (kind == 1 && sim_chance(0.4)) || n == one)
			readers |= sim_bit(n);
	for (unsigned n = 0; n < sim.node_count; n++)
		sim.node[n].can_read = readers >> n & 1;
	return readers;
}

static void plan_nodes(void)
{
	static char names[NODES_MAX][16];
	const char *name[NODES_MAX];
	uint8_t digest[FM_RUN_DIGEST];

	for (unsigned i = 0; i < FM_RUN_DIGEST; i++)
		digest[i] = (uint8_t)sim_random(256);
	for (unsigned n = 0; n < sim.node_count; n++) {
		struct node *node = &sim.node[n];

		snprintf(names[n], sizeof(names[n]), "n%u", n + 1);
		name[n] = names[n];
		node->is_running = true;
		node->boot = 1;
		node->disk_room = EXTENTS_MAX + 1;
		node->slow_disk = node->slow_net = node->slow_read = 1;
		sim_event(sim_random(250 * MS), EVENT_TICK, n)->boot = 0;
	}
	fm_run_rank(digest, name, sim.node_count, plan_readers(), sim.rank);
}

/* One request for many nodes, or each for itself, within a second; now and then one comes late. */
static void plan_requests(void)
{
	uint64_t left = sim_random(3) == 0
				? all_nodes() & (sim_random(UINT64_MAX) | sim_bit(random_node()))
				: all_nodes();
	unsigned kind = (unsigned)sim_random(3);

	sim.asked = left;
	for (unsigned n = 0; n < sim.node_count; n++) {
		bool is_late = sim_random(8) == 0;

		sim.node[n].is_asked = left >> n & 1;
		sim.has_late = sim.has_late || (kind == 2 && sim.node[n].is_asked && is_late);
		if (kind > 0 && sim.node[n].is_asked)
			sim_event(sim_random(S) + (is_late ? sim_random(20 * S) : 0), EVENT_REQUEST,
				  n)
				->nodes = sim_bit(n);
	}
	if (kind < 2)
		sim_event(sim_random(S), EVENT_REQUEST, random_node())->nodes = left;
	if (kind == 0)
		sim_event(sim_random(S), EVENT_REQUEST, random_node())->nodes = left;
}

/* Some are slow from the beginning, none of them a reader that others need. */
static void plan_slow(void)
{
	sim.has_slow = sim.is_even;
	for (unsigned n = 0; n < sim.node_count && sim.is_even; n++) {
		struct node *node = &sim.node[n];

		node->is_slow = !node->can_read && sim_chance(0.6);
		node->slow_net = node->is_slow ? 100 : 1;
	}
}

/* Disks that never answer, also of nodes that read; one that reads has a disk that does. */
static void plan_hung(void)
{
	unsigned left = random_node();

	if (!sim.is_even)
		return;
	while (!sim.node[left].can_read)
		left = (left + 1) % sim.node_count;
	sim.has_hung = sim.is_faulty = true;
	for (unsigned n = 0; n < sim.node_count; n++)
		sim.node[n].does_disk_hang = n != left && sim_chance(0.4);
}

/* One that does not read says that it has everything. It is not one that others wait for. */
static void plan_liar(void)
{
	unsigned liar = random_node(), others = 0;
	struct node *n = &sim.node[liar];

	for (unsigned i = 0; i < sim.node_count; i++)
		others += i != liar && sim.node[i].can_read;
	if (!sim.is_even || others == 0)
		return;
	sim.has_liar = sim.is_faulty = true;
	n->lie = (enum lie)(1 + sim_random(LIES - 1));
	n->lies_ready = sim_random(3) == 0;
	n->can_read = n->is_asked = false;
	sim.heal_ns = LIES_NS;
	sim_event(sim.heal_ns, EVENT_HEAL, 0)->boot = 0;
}

/* Clocks that are set are nothing that goes wrong. */
static void plan_clocks(void)
{
	sim.has[FAULT_CLOCK] = true;
	for (unsigned i = 0; i < FAULTS_MAX; i++)
		sim_event((i + 1) * 300 * MS, EVENT_FAULT, 0)->boot = 0;
}

static void plan_faults(void)
{
	unsigned kinds = (unsigned)sim_random(4) + 1;

	sim.is_faulty = sim_random(4) != 0;
	if (!sim.is_faulty && sim.seed % 4 == 0)
		plan_clocks();
	else if (!sim.is_faulty && sim.seed % 4 == 1)
		plan_hung();
	else if (!sim.is_faulty && sim.seed % 4 == 2)
		plan_liar();
	if (!sim.is_faulty || sim.has_hung || sim.has_liar)
		return;
	if (sim_random(8) == 0) {
		plan_slow();
		return;
	}
	for (unsigned i = 0; i < kinds; i++)
		sim.has[sim_random(FAULTS)] = true;
	sim.has_expected = sim_random(2) == 0;
	sim.is_storage_bad = sim_random(sim.has_expected ? 4 : 8) == 0;
	sim.is_storage_ever_bad = sim.is_storage_bad;
	sim.is_wire_bad = sim_random(4) == 0;
	sim.are_disks_full = sim_random(6) == 0;
	if (sim_random(6) == 0)
		sim.change_ns = sim_random(20 * S);
	sim.is_storage_gone = sim_random(12) == 0;
	sim.heal_ns = 10 * S + sim_random(60 * S);
	for (unsigned n = 0; n < sim.node_count && sim.are_disks_full; n++)
		if (sim_random(4) == 0)
			sim.node[n].disk_room = (unsigned)sim_random(sim.extent_count);
	fault_count = 1 + (unsigned)sim_random(FAULTS_MAX);
	for (unsigned i = 0; i < fault_count; i++)
		sim_event(sim_random(sim.heal_ns), EVENT_FAULT, 0)->boot = 0;
	sim_event(sim.heal_ns, EVENT_HEAL, 0)->boot = 0;
}

/* ---- what goes wrong ---- */

static void stop(unsigned node)
{
	struct node *n = &sim.node[node];

	fm_run_free(n->run);
	n->run = NULL;
	n->boot++;
	n->is_running = false;
	for (unsigned k = 0; k < sim.node_count; k++) {
		struct session *s = sim_session(node, k);

		if (k == node)
			continue;
		sim_session_lose(node, k, false);
		s->is_up[node > k] = false;
	}
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++)
		n->memory[i].is_receiving = false;
}

static void crash(void)
{
	unsigned node = random_node(), what = (unsigned)sim_random(8);
	struct node *n = &sim.node[node];

	if (!n->is_running)
		return;
	sim_trace("n%u crashes (%u)", node, what);
	stop(node);
	if (what < 2) { /* its disk is another one */
		memset(n->is_durable, 0, sizeof(n->is_durable));
		memset(n->is_rotten, 0, sizeof(n->is_rotten));
		n->is_ready = false;
	}
	n->is_gone = what == 2 && node >= 2;
	if (!n->is_gone)
		sim_event(200 * MS + sim_random(20 * S), EVENT_START, node);
}

static void cut(void)
{
	uint64_t side = sim_random(2) ? sim_bit(random_node()) : sim_random(UINT64_MAX);

	for (unsigned a = 0; a < sim.node_count; a++)
		for (unsigned b = a + 1; b < sim.node_count; b++)
			if (sim.is_peer[a][b] && (side >> a & 1) != (side >> b & 1))
				sim_session_lose(a, b, true);
}

static void slow(void)
{
	struct node *n = &sim.node[random_node()];
	double factor = 2 + (double)sim_random(40);

	n->does_hang = n->does_hang || sim_random(4) == 0;

	n->slow_disk = sim_random(2) ? factor : n->slow_disk;
	n->slow_net = sim_random(2) ? factor / 2 : n->slow_net;
	n->slow_read = sim_random(2) ? factor * 4 : n->slow_read;
}

static void rot(void)
{
	struct node *n = &sim.node[random_node()];
	uint32_t extent = (uint32_t)sim_random(sim.extent_count);

	if (!n->is_durable[extent] || n->is_ready)
		return;
	n->disk[extent] ^= 0x2000000;
	n->is_rotten[extent] = true;
}

static void lose_session(void)
{
	unsigned a = random_node(), b = random_node();

	if (a != b)
		sim_session_lose(a, b, false);
}

void sim_fault(void)
{
	enum fault fault = (enum fault)sim_random(FAULTS);
	unsigned node = random_node();

	if (sim.is_healed || !sim.has[fault])
		return;
	sim_trace("fault %u", fault);
	if (fault == FAULT_CRASH)
		crash();
	else if (fault == FAULT_LOSS)
		lose_session();
	else if (fault == FAULT_CUT)
		cut();
	else if (fault == FAULT_SLOW)
		slow();
	else if (fault == FAULT_STORAGE) {
		sim.storage_ns = sim.now_ns + sim_random(40 * S);
		sim.does_storage_hang = sim_random(2);
	} else if (fault == FAULT_ROT)
		rot();
	else if (fault == FAULT_CLOCK)
		sim.node[node].clock_ns += (int64_t)sim_random(25200 * S) - (int64_t)(21600 * S);
	else
		sim.node[node].stalled_ns = sim.now_ns + sim_random(20 * S);
}

static void leave(unsigned node)
{
	stop(node);
	sim.node[node].is_gone = true;
}

/* Only what is gone for good stays away; what is slow stays slow, and full what is full. */
void sim_heal(void)
{
	sim.is_healed = true;
	for (unsigned n = 0; n < sim.node_count; n++)
		if (sim.node[n].lie != LIE_NONE)
			leave(n);
	sim.is_storage_bad = sim.is_wire_bad = false;
	if (sim.is_storage_gone)
		sim.storage_ns = FM_NEVER;
	else if (sim.storage_ns > sim.now_ns)
		sim.storage_ns = sim.now_ns;
	for (unsigned a = 0; a < sim.node_count; a++) {
		for (unsigned b = a + 1; b < sim.node_count; b++) {
			sim.session[a][b].is_cut = false;
			if (sim.is_peer[a][b])
				sim_session_up(a, b, 4 * S + sim_random(S));
		}
	}
	for (unsigned n = 0; n < sim.node_count; n++)
		if (sim.node[n].is_asked && !sim.node[n].is_gone)
			sim_event(25 * S + sim_random(S), EVENT_REQUEST, n)->nodes = sim_bit(n);
}

/* ---- a seed ---- */

/* What the seed is, at the head of its trace. */
static void trace_plan(void)
{
	sim_trace("%u nodes, %u extents of %.2f s%s%s%s%s%s%s%s%s", sim.node_count,
		  sim.extent_count, sim.size, sim.is_even ? ", all peers" : "",
		  sim.has_expected ? ", a manifest" : "",
		  sim.is_storage_bad ? ", storage lies" : "",
		  sim.is_wire_bad ? ", the wire damages" : "",
		  sim.are_disks_full ? ", disks are full" : "",
		  sim.change_ns != FM_NEVER ? ", the source changes" : "",
		  sim.is_storage_gone ? ", storage goes" : "", sim.is_faulty ? "" : ", well");
	for (unsigned n = 0; n < sim.node_count; n++)
		sim_trace("n%u:%s%s%s%s, lie %u", n, sim.node[n].can_read ? " reads" : "",
			  sim.node[n].is_asked ? " wants it" : "",
			  sim.node[n].is_slow ? " is slow" : "",
			  sim.node[n].does_disk_hang ? " has a disk that hangs" : "",
			  sim.node[n].lie);
}

static void begin(uint64_t seed)
{
	memset(&sim, 0, sizeof(sim));
	sim.seed = seed;
	sim.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	sim.now_ns = BEGIN_NS;
	sim.change_ns = FM_NEVER;
	sim.node_count =
		sim_random(10) == 0 ? 2 + (unsigned)sim_random(63) : 2 + (unsigned)sim_random(6);
	sim.extent_count = sim_random(20) == 0
				   ? EXTENTS_MAX
				   : 1 + (uint32_t)sim_random(sim.node_count > 16 ? 20 : 40);
	sim.size = 0.02 + (double)sim_random(30) / 100;
	for (uint32_t e = 0; e < sim.extent_count; e++)
		sim.truth[e] = (uint32_t)sim_random(UINT32_MAX) | 1;
	plan_network();
	plan_nodes();
	plan_requests();
	plan_faults();
	if (sim.change_ns != FM_NEVER)
		sim.change_ns += sim.now_ns;
	trace_plan();
}

static void end(void)
{
	sim_free_events();
	for (unsigned n = 0; n < sim.node_count; n++)
		fm_run_free(sim.node[n].run);
}

/* The first second has no run yet; after END_NS everything is over, or will never be. */
void sim_run(uint64_t seed)
{
	uint64_t last_ns;

	begin(seed);
	last_ns = sim.now_ns + sim.heal_ns + END_NS + sim.extent_count * EXTENT_NS;
	while (!sim.violation[0] && sim.now_ns < last_ns) {
		sim_step();
		if (sim.steps % 64 == 0 && sim.now_ns > BEGIN_NS + sim.heal_ns + 30 * S &&
		    check_is_over())
			break;
	}
	if (!sim.violation[0])
		check_last();
	end();
}
