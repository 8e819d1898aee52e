/* SPDX-License-Identifier: MIT */
/* tuning - see tuning.h. */
#include "mover/node/tuning.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mover/node/engine_opts.h"
#include "mover/data/flow.h"

#define MIB (UINT64_C(1) << 20)

#define LANES_MIN 2u
#define TCP_CONNS_MIN 2u
#define LINK_CONNS_MIN 4u
#define SLABS_MIN 4u			/* for either direction, or chunks are smaller */
#define TCP_CONNS_MAX 16u
#define RDMA_CONNS_MIN 2u
#define RDMA_CONNS_MAX 8u
#define RDMA_RAIL_BYTES (32 * MIB)	/* of slabs */
#define RDMA_CONNS_PER_LANE 2u
/* of a connection beside its slabs: struct fm_flow, and five times as much for TLS */
#define CONN_BYTES (UINT64_C(384) << 10)
#define BUDGET_SHARE 8u			/* of the budget for the connections to all peers */
/* a quarter of it costs half as much processor time again */
#define CHUNK_MAX MIB
#define SLAB_MAX (8 * MIB)
/* for whose connections there are slabs without taking any back */
#define PEERS_AT_ONCE 2u
/* one is sent, one read, one checked, one on its way back */
#define SLAB_CHUNKS_MIN 4u
#define MBPS_PER_CONN 5000u		/* with TLS, which halves what a connection carries */

_Static_assert(sizeof(struct fm_flow) <= CONN_BYTES / 6,
	       "a connection takes what is reckoned with");

static const char set[] = "set";

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static unsigned clamp(uint64_t v, unsigned min, unsigned max)
{
	return v < min ? min : v > max ? max : (unsigned)v;
}

/* The largest power of two that is not larger than the number. */
static uint64_t power_below(uint64_t v)
{
	uint64_t power = 1;

	assert(v > 0);
	while (power <= v / 2)
		power *= 2;
	return power;
}

static unsigned rails_of(const struct fm_machine *m)
{
	return m->rails ? m->rails : 1;
}

static void choose_lanes(const struct fm_machine *m, struct fm_tuning *t, struct fm_tuning_why *why)
{
	why->lanes = set;
	if (t->lanes)
		return;
	t->lanes = clamp(m->cores.usable, LANES_MIN, FM_LANES_MAX);
	why->lanes = NULL;
}

/*
 * The chunk for a configured slab. A slab has 1 to 64 chunks, and some power of two divides it that
 * often.
 */
static uint32_t chunk_of_slab(uint64_t slab)
{
	uint64_t chunk = power_below(min64(slab / SLAB_CHUNKS_MIN, CHUNK_MAX));

	while (slab % chunk != 0)
		chunk /= 2;
	while (slab / chunk > FM_FLOW_SLOTS_MAX)
		chunk *= 2;
	return (uint32_t)chunk;
}

static void choose_chunk(const struct fm_machine *m, struct fm_tuning *t, struct fm_tuning_why *why)
{
	uint64_t share = m->arena_bytes / 2 / (SLABS_MIN * SLAB_CHUNKS_MIN);

	why->chunk = set;
	if (t->chunk_bytes)
		return;
	if (t->slab_bytes)
		t->chunk_bytes = chunk_of_slab(t->slab_bytes);
	else
		t->chunk_bytes = (uint32_t)power_below(min64(share, CHUNK_MAX));
	why->chunk = t->chunk_bytes == CHUNK_MAX ? "the most"
		     : t->slab_bytes		 ? "to fit the slab"
						 : "to fit the arena";
}

static unsigned conns_of_lanes(const struct fm_machine *m, const struct fm_tuning *t,
			       const char **why)
{
	unsigned each = (t->lanes + rails_of(m) - 1) / rails_of(m);
	uint64_t room = m->budget_bytes / BUDGET_SHARE / CONN_BYTES / rails_of(m) /
			(m->peers ? m->peers : 1);

	*why = each <= TCP_CONNS_MIN ? "the least"
	       : rails_of(m) > 1     ? "the lanes, divided by the rails"
				     : "one a lane";
	if (room < each && each > TCP_CONNS_MIN)
		*why = "to fit memory.total";
	return clamp(min64(each, room), TCP_CONNS_MIN, TCP_CONNS_MAX);
}

static void choose_slab(const struct fm_machine *m, struct fm_tuning *t, struct fm_tuning_why *why)
{
	uint64_t half = m->arena_bytes / 2, chunk = t->chunk_bytes;
	uint64_t least = min64(SLAB_CHUNKS_MIN * chunk, power_below(half));
	uint64_t most = min64(SLAB_MAX, FM_FLOW_SLOTS_MAX * chunk);
	uint64_t fit = half / ((uint64_t)PEERS_AT_ONCE * t->tcp_conns * rails_of(m));

	why->slab = set;
	if (t->slab_bytes)
		return;
	fit = fit ? power_below(fit) : 1;
	if (least >= min64(most, fit)) {
		t->slab_bytes = (uint32_t)least;
		why->slab = "four chunks";
	} else {
		t->slab_bytes = (uint32_t)min64(most, fit);
		why->slab = most <= fit ? "the most" : "one for each connection to two peers";
	}
}

/* How many connections of a rail to one peer can have a slab. */
static unsigned slabs_a_rail(const struct fm_machine *m, const struct fm_tuning *t)
{
	return (unsigned)min64(m->arena_bytes / 2 / t->slab_bytes / rails_of(m), UINT32_MAX);
}

static void choose_rdma_conns(const struct fm_machine *m, struct fm_tuning *t,
			      struct fm_tuning_why *why)
{
	uint64_t wanted = RDMA_RAIL_BYTES / t->slab_bytes, fit = slabs_a_rail(m, t),
		 lanes = RDMA_CONNS_PER_LANE * t->lanes;
	uint64_t conns = min64(min64(wanted, fit), lanes);

	why->rdma_conns = set;
	if (t->rdma_conns)
		return;
	t->rdma_conns = clamp(conns, RDMA_CONNS_MIN, RDMA_CONNS_MAX);
	if (conns <= RDMA_CONNS_MIN)
		why->rdma_conns = "the least";
	else if (conns == wanted || conns > RDMA_CONNS_MAX)
		why->rdma_conns = "32MiB of slabs";
	else
		why->rdma_conns = conns == lanes ? "two a lane" : "to fit the arena";
}

void fm_tuning_choose(const struct fm_machine *m, struct fm_tuning *t, struct fm_tuning_why *why)
{
	bool is_tcp_set = t->tcp_conns != 0;

	choose_lanes(m, t, why);
	choose_chunk(m, t, why);
	why->tcp_conns = set;
	if (!is_tcp_set)
		t->tcp_conns = conns_of_lanes(m, t, &why->tcp_conns);
	choose_slab(m, t, why);
	if (!is_tcp_set && slabs_a_rail(m, t) < t->tcp_conns && t->tcp_conns > TCP_CONNS_MIN) {
		t->tcp_conns = clamp(slabs_a_rail(m, t), TCP_CONNS_MIN, TCP_CONNS_MAX);
		why->tcp_conns = "to fit the arena";
	}
	choose_rdma_conns(m, t, why);
}

unsigned fm_tuning_link_conns(unsigned most, uint32_t link_mbps)
{
	unsigned wanted = clamp(link_mbps / MBPS_PER_CONN, LINK_CONNS_MIN, TCP_CONNS_MAX);

	return link_mbps && wanted < most ? wanted : most;
}

static bool is_first_of_port(const struct fm_addr *addr, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (strcmp(addr[j].name, addr[i].name) == 0)
			return false;
	return true;
}

unsigned fm_tuning_rails(const struct fm_addr *addr, size_t count)
{
	uint32_t fastest = 0;
	unsigned rails = 0;

	for (size_t i = 0; i < count; i++)
		fastest = addr[i].speed_mbps > fastest ? addr[i].speed_mbps : fastest;
	for (size_t i = 0; i < count; i++)
		rails += fastest > 0 && addr[i].speed_mbps >= fastest / FM_SLOWEST_SHARE &&
			 is_first_of_port(addr, i);
	return rails ? rails : 1;
}

/* ---- for people ---- */

static void print_size(uint64_t bytes, char out[static 24])
{
	if (bytes % MIB == 0)
		snprintf(out, 24, "%lluMiB", (unsigned long long)(bytes / MIB));
	else
		snprintf(out, 24, "%lluKiB", (unsigned long long)(bytes / 1024));
}

static void print_cores(const struct fm_cores *c, char out[static 64])
{
	static const char *const limits[] = { "", "affinity", "control group" };

	if (c->limit == FM_CORES_ALL)
		snprintf(out, 64, "%u processor%s", c->usable, c->usable == 1 ? "" : "s");
	else
		snprintf(out, 64, "%u of %u processors, by %s", c->usable, c->online,
			 limits[c->limit]);
}

void fm_tuning_print(const struct fm_machine *m, const struct fm_tuning *t,
		     const struct fm_tuning_why *why, char text[static FM_TUNING_TEXT_MAX])
{
	char cores[64], slab[24], chunk[24];

	print_cores(&m->cores, cores);
	print_size(t->slab_bytes, slab);
	print_size(t->chunk_bytes, chunk);
	snprintf(text, FM_TUNING_TEXT_MAX,
		 "%u lane%s (%s); a rail at most %u TCP connection%s (%s) and %u queue pair%s "
		 "(%s); slabs of %s (%s), chunks of %s (%s)",
		 t->lanes, t->lanes == 1 ? "" : "s", why->lanes ? why->lanes : cores, t->tcp_conns,
		 t->tcp_conns == 1 ? "" : "s", why->tcp_conns, t->rdma_conns,
		 t->rdma_conns == 1 ? "" : "s", why->rdma_conns, slab, why->slab, chunk,
		 why->chunk);
}
