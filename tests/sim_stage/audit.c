/* SPDX-License-Identifier: MIT */
/*
 * audit - no lease and no slot is lost, whatever goes wrong: behind each event, each that is in use
 * has a reason, so that something will end it. What is in use without one stays so for ever.
 */
#include "staging/run/run_priv.h"
#include "tests/sim_stage/stage_sim.h"

static unsigned leases_on(const struct member *m, unsigned slot)
{
	unsigned count = 0;

	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		count += m->lease[i].is_used && m->lease[i].slot == (int)slot &&
			 m->lease[i].extent == m->slot[slot].extent;
	return count;
}

/* What it waits for: a read, a peer, the disk, those who are sent it or asked, its lease. */
static bool has_reason(const struct fm_run *run, unsigned slot)
{
	const struct slot *s = &run->member.slot[slot];

	if (s->use == SLOT_READING)
		return leases_on(&run->member, slot) == 1;
	if (s->use == SLOT_RECEIVING)
		return run->up & bit(s->from);
	if (s->use == SLOT_HELD)
		return s->is_writing || (s->sending | s->offered) & run->up ||
		       leases_on(&run->member, slot) == 1;
	return true;
}

static void audit_member(unsigned node, const struct fm_run *run)
{
	const struct member *m = &run->member;

	for (unsigned i = 0; i < FM_RUN_SLOTS; i++) {
		if (!has_reason(run, i))
			sim_violate("n%u's slot %u is lost: use %u, extent %u", node, i,
				    m->slot[i].use, m->slot[i].extent);
		if ((m->slot[i].sending | m->slot[i].offered) & ~run->up)
			sim_violate("n%u's slot %u waits for one who is away", node, i);
	}
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		if (m->lease[i].is_used && m->lease[i].slot >= 0 &&
		    leases_on(m, (unsigned)m->lease[i].slot) != 1)
			sim_violate("n%u's lease of extent %u is lost", node, m->lease[i].extent);
	for (unsigned i = 0; i < FM_RUN_UPLOADS_MAX; i++)
		if (m->upload[i].is_used && !(run->up & bit(m->upload[i].to)))
			sim_violate("n%u's upload of extent %u is lost", node, m->upload[i].extent);
}

/* Of each node, as many fetches are counted as are. */
static void audit_uploads(unsigned node, const struct coordinator *co)
{
	unsigned uploads[NODES_MAX] = {0};

	for (unsigned n = 0; n < sim.node_count; n++)
		for (unsigned i = 0; i < co->seat[n].coming_count; i++)
			if (co->seat[n].coming[i].from < NODES_MAX)
				uploads[co->seat[n].coming[i].from]++;
	for (unsigned n = 0; n < sim.node_count; n++)
		if (uploads[n] != co->uploads[n])
			sim_violate("n%u counts %u fetches from n%u, and %u are", node,
				    co->uploads[n], n, uploads[n]);
}

/* Of each extent, as many are counted to be busy with it as are. */
static void audit_coordinator(unsigned node, const struct coordinator *co)
{
	static unsigned busy[EXTENTS_MAX];

	for (uint32_t e = 0; e < sim.extent_count; e++)
		busy[e] = 0;
	for (unsigned n = 0; n < sim.node_count; n++) {
		const struct seat *seat = &co->seat[n];

		for (unsigned i = 0; i < FM_RUN_LEASES; i++)
			busy[seat->lease[i].extent] += seat->lease[i].is_used &&
						       !seat->lease[i].is_revoked;
		for (unsigned i = 0; i < seat->coming_count; i++)
			busy[seat->coming[i].extent]++;
	}
	for (uint32_t e = 0; e < sim.extent_count; e++)
		if (busy[e] != co->busy[e])
			sim_violate("n%u counts %u busy with extent %u, and %u are", node,
				    co->busy[e], e, busy[e]);
}

void check_audit(unsigned node)
{
	const struct fm_run *run = sim.node[node].run;

	if (!run || sim.node[node].is_over)
		return;
	audit_member(node, run);
	if (run->coordinator.is_on && sim.steps % 32 == 0) {
		audit_coordinator(node, &run->coordinator);
		audit_uploads(node, &run->coordinator);
	}
}
