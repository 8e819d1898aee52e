/* SPDX-License-Identifier: MIT */
/*
 * rules - the questions that decisions are made of, each in one place. They change nothing.
 * tests/sim_stage answers most of them wrongly, one at a time, and must find out; unit.stage_run
 * has the others.
 */
#include "staging/run/run_priv.h"

#include <limits.h>

#include "mover/base/env.h"

#define GIVER_LATE 2 /* offers that a peer may let time out in a row */
#define STEP_MAX FM_NS_PER_S /* a node that stood still has not waited */

/* The first in rank that this node knows to be there: itself, a peer in the run, whom such a peer
 * reaches. */
unsigned fm_run_first(const struct fm_run *run)
{
	uint64_t there = bit(run->self) | run->up;
	unsigned first = run->self;

	for (unsigned n = 0; n < run->node_count; n++)
		if (run->up & run->known & bit(n))
			there |= run->links[n];
	for (unsigned n = 0; n < run->node_count; n++)
		if (there & bit(n) && run->rank[n] < run->rank[first])
			first = n;
	return first;
}

/* The peer that a message to this node goes to next; -1: there is none. */
int fm_run_hop(const struct fm_run *run, unsigned to)
{
	if (run->up & bit(to))
		return (int)to;
	for (unsigned n = 0; n < run->node_count; n++)
		if (run->up & bit(n) && run->links[n] & bit(to))
			return (int)n;
	return -1;
}

/* How much time went by. A clock that is set back says nothing; one that jumps, or a node that
 * stood still, says little. */
uint64_t fm_run_elapsed(uint64_t last_ns, uint64_t now_ns)
{
	if (now_ns < last_ns)
		return 0;
	return now_ns - last_ns < STEP_MAX ? now_ns - last_ns : STEP_MAX;
}

bool fm_run_may_release(const struct fm_run *run, const struct slot *s, bool is_needed)
{
	if (s->use != SLOT_HELD || s->is_writing)
		return false;
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		if (run->member.lease[i].is_used &&
		    run->member.lease[i].slot == (int)fm_run_slot_number(run, s))
			return false;
	if (s->sending)
		return is_needed && run->now_ns >= s->since_ns + run->times->send;
	return !s->offered || is_needed || run->now_ns >= s->since_ns + run->times->offer;
}

/*
 * Whether the extent is about to be on this node's disk. Of a disk that does not answer nobody is
 * to think so: who lacks the extent would wait for it.
 */
bool fm_run_is_being_written(const struct fm_run *run, const struct slot *s)
{
	return s->use == SLOT_HELD && s->is_writing &&
	       run->now_ns <= s->write_ns + run->times->write;
}

/*
 * Whether to take what a peer offers. One of whom several did not come gives one at a time until
 * one of them comes, else it would have all slots for as long as it likes. One that gave wrong
 * bytes, or nothing, several times has to wait, longer each time.
 */
bool fm_run_may_offer(const struct fm_run *run, unsigned peer)
{
	const struct member *m = &run->member;
	const struct giver *g = &m->giver[peer];
	bool is_bad = g->late >= GIVER_LATE || g->failed >= GIVER_BAD;

	if (run->now_ns < g->after_ns)
		return false;
	for (unsigned i = 0; i < FM_RUN_SLOTS && is_bad; i++)
		if (m->slot[i].use == SLOT_RECEIVING && m->slot[i].from == peer &&
		    !m->slot[i].is_fetch)
			return false;
	return true;
}

/* Whether the CRC is that of the manifest. True if no manifest is known. */
bool fm_run_is_right(const struct fm_run *run, uint32_t extent, uint32_t crc)
{
	return !run->expected || run->expected[extent] == crc;
}

/*
 * Whether this is the next order of the coordinator. A gap means that orders were lost; the member
 * joins anew then.
 */
bool fm_run_is_next_order(const struct fm_run *run, const struct fm_run_msg *msg)
{
	return msg->from == run->root && msg->join == run->member.join &&
	       msg->order == run->member.order + 1;
}

bool fm_run_is_conflict(const struct coordinator *co, uint32_t extent, uint32_t crc)
{
	return (co->holders[extent] || co->was_read[extent]) && co->crc[extent] != crc;
}

bool fm_run_is_silent(const struct fm_run *run, const struct seat *seat)
{
	return run->now_ns > seat->heard_ns + run->times->silent;
}

/*
 * Whether to wait for a node that was asked for and is no member (any more). A node with a session
 * is slow, not away: if it has ended or hangs, its session will be lost.
 */
bool fm_run_is_awaited(const struct fm_run *run, unsigned node)
{
	const struct coordinator *co = &run->coordinator;
	const struct fm_run_times *t = run->times;

	if (run->refused & bit(node))
		return false;
	if (run->called & bit(node) || fm_run_hop(run, node) >= 0)
		return run->now_ns < co->progress_ns + t->stall;
	if (co->seen & bit(node))
		return run->now_ns < co->seat[node].heard_ns + t->away;
	return run->now_ns < co->began_ns + t->settle + t->silent;
}

bool fm_run_is_overdue(const struct fm_run *run, const struct seat_lease *l)
{
	unsigned doubled =
		run->coordinator.tries[l->extent] < 4 ? run->coordinator.tries[l->extent] : 4;

	return l->is_used && !l->is_revoked &&
	       run->now_ns > l->since_ns + (run->times->lease << doubled);
}

/* Whether others are to read as long as there are any. */
bool fm_run_is_late(const struct seat *seat)
{
	return seat->is_late;
}

/*
 * Who has the extent and is believed. Of the others it is fetched only if nobody can read it.
 */
uint64_t fm_run_trusted(const struct coordinator *co, uint32_t extent)
{
	return co->holders[extent] & ~co->doubted[extent] & ~co->distrusted;
}

bool fm_run_is_held(const struct coordinator *co, uint32_t extent, uint64_t near)
{
	return fm_run_trusted(co, extent) & near;
}

bool fm_run_is_under_way(const struct coordinator *co, uint32_t extent, uint64_t near)
{
	if (co->busy[extent] == 0)
		return false;
	for (unsigned n = 0; n < FM_RUN_NODES_MAX; n++) {
		const struct seat *seat = &co->seat[n];

		if (!seat->is_here || !(near & bit(n)))
			continue;
		for (unsigned i = 0; i < FM_RUN_LEASES; i++)
			if (seat->lease[i].is_used && !seat->lease[i].is_revoked &&
			    seat->lease[i].extent == extent)
				return true;
		for (unsigned i = 0; i < seat->coming_count; i++)
			if (seat->coming[i].extent == extent)
				return true;
	}
	return false;
}

bool fm_run_may_serve(const struct coordinator *co, unsigned node)
{
	return co->uploads[node] < co->seat[node].state.uploads;
}

/*
 * Of the peers that have it one from which fetches came, else the one that sends least: who is slow
 * is idle, since nothing comes from there. -1: none has room.
 */
int fm_run_server(const struct fm_run *run, unsigned node, uint32_t extent)
{
	const struct coordinator *co = &run->coordinator;
	const struct seat *seat = &co->seat[node];
	uint64_t may = co->holders[extent] & seat->state.up & ~bit(node);
	uint64_t good = may & fm_run_trusted(co, extent);
	unsigned least = UINT_MAX, cost;
	int best = -1;

	if (good)
		may = good;
	if (run->now_ns < seat->avoid_until_ns)
		may &= ~seat->avoid;
	for (unsigned i = 0; i < run->node_count && may; i++) {
		unsigned n = (extent + node + i) % run->node_count;

		if (!(may & bit(n)) || !fm_run_may_serve(co, n))
			continue;
		cost = co->failed_of[n] * (unsigned)FM_RUN_UPLOADS_MAX + co->uploads[n];
		if (cost >= least)
			continue;
		least = cost;
		best = (int)n;
	}
	return best;
}

/*
 * Whether a new coordinator knows who has what: those that it reaches, or that may take part yet,
 * have reported or refused, and those that are asked for have looked what they have; or they have
 * had the time for it.
 */
bool fm_run_is_settled(const struct fm_run *run)
{
	const struct coordinator *co = &run->coordinator;
	uint64_t there = run->up | run->called | bit(run->self);
	uint64_t wanted = fm_run_wanted(co);

	if (run->now_ns >= co->began_ns + run->times->settle)
		return true;
	for (unsigned n = 0; n < run->node_count; n++)
		if (run->up & bit(n))
			there |= run->links[n];
	there &= ~run->refused;
	for (unsigned n = 0; n < run->node_count; n++) {
		const struct seat *seat = &co->seat[n];
		bool is_to_look = wanted & bit(n) && seat->state.place == FM_RUN_PASSIVE;

		if (there & bit(n) && (!seat->is_here || !seat->is_whole || is_to_look))
			return false;
	}
	return true;
}

bool fm_run_is_sealed(const struct coordinator *co)
{
	return co->is_sealed;
}
