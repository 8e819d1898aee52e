/* SPDX-License-Identifier: MIT */
/*
 * slots - a member's memory: which extents lie there, to whom they go from there, when they make
 * room.
 *
 * A slot is read or received into, then held: written to this node's disk, if it keeps the dataset,
 * and offered to others meanwhile. It is free when it was written, nobody is sent it, and those it
 * was offered to have answered or had their time. If it is needed earlier, only the write is waited
 * for, and sending for a while: who does not get it takes it from a disk. Who keeps nothing waits
 * until one other node has it, else it would have to be read again.
 */
#include "staging/run/run_priv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "staging/run/tree.h"

#define OFFERS_IN_TURN 2 /* then all are asked */

unsigned fm_run_slot_number(const struct fm_run *run, const struct slot *s)
{
	return (unsigned)(s - run->member.slot);
}

struct slot *fm_run_slot_find(struct fm_run *run, enum slot_use use, uint32_t extent)
{
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++)
		if (run->member.slot[i].use == use && run->member.slot[i].extent == extent)
			return &run->member.slot[i];
	return NULL;
}

void fm_run_slot_free(struct fm_run *run, struct slot *s)
{
	unsigned number = fm_run_slot_number(run, s);

	assert(s->use != SLOT_FREE && s->use != SLOT_READING);
	for (unsigned n = 0; n < run->node_count; n++)
		if (s->sending & bit(n))
			run->world->cancel_upload(run->ctx, n, s->extent, (int)number);
	memset(s, 0, sizeof(*s));
	run->world->release(run->ctx, number);
}

/* Leases have their slots, whatever else comes. */
static unsigned reserved(const struct fm_run *run)
{
	unsigned count = FM_RUN_LEASES;

	for (unsigned i = 0; i < FM_RUN_LEASES && count > 0; i++)
		count -= run->member.lease[i].is_used && run->member.lease[i].slot >= 0;
	return count;
}

/* A free one, or one that makes room; -1: there is none. */
int fm_run_slot_take(struct fm_run *run, bool is_lease)
{
	struct member *m = &run->member;
	unsigned needed = 1 + (is_lease ? 0 : reserved(run));
	int found = -1;

	for (unsigned i = FM_RUN_SLOTS; i-- > 0;) {
		if (m->slot[i].use != SLOT_FREE)
			continue;
		found = (int)i;
		needed -= needed > 0;
	}
	for (unsigned i = 0; i < FM_RUN_SLOTS && needed > 0; i++) {
		if (!fm_run_may_release(run, &m->slot[i], true))
			continue;
		fm_run_slot_free(run, &m->slot[i]);
		found = (int)i;
		needed--;
	}
	return needed == 0 ? found : -1;
}

/*
 * The nodes below this one in the tree that are its peers. A node that reads for others and finds
 * the first of them away asks the next one.
 */
static uint64_t below_of(const struct fm_run *run, struct slot *s)
{
	uint64_t below = 0;

	for (unsigned i = 0; i < run->node_count && below == 0; i++) {
		below = fm_run_tree_below(run->self, s->root, s->wants, s->extent, s->shape) &
			run->up & ~s->sending;
		if (below == 0 && (s->root != run->self || s->shape & FM_RUN_TREE_DIRECT))
			break;
		if (below == 0)
			s->shape = (uint8_t)(s->shape + FM_RUN_TREE_TURN);
	}
	return below;
}

/*
 * Offers the extent of a slot to the nodes below. A node that reads for others offers it to all
 * peers in two cases: it is a peer of none of those below, or nobody took it after the next in turn
 * was asked too. Those may be slow, full, or have it by now, and another node may have become a
 * sink since the lease.
 */
void fm_run_slot_offer(struct fm_run *run, struct slot *s)
{
	bool is_for_others = s->root == run->self && (run->member.place != FM_RUN_SINK ||
						      !(s->shape & FM_RUN_TREE_DIRECT));
	uint64_t below = s->offers < OFFERS_IN_TURN ? below_of(run, s) : 0;

	if (run->now_ns >= s->since_ns + run->times->offer)
		run->member.slow |= s->offered | s->sending;
	if (below == 0 && is_for_others)
		below = run->up & run->heard & ~s->sending;
	s->offers = (uint8_t)(s->offers + (s->offers <= OFFERS_IN_TURN));
	s->offered |= below;
	s->since_ns = run->now_ns;
	for (unsigned n = 0; n < run->node_count; n++) {
		struct fm_run_msg msg = {.type = FM_RUN_OFFER,
					 .extent = s->extent,
					 .crc = s->crc,
					 .node = s->root,
					 .nodes = s->wants,
					 .shape = s->shape};

		if (below & bit(n))
			fm_run_send(run, n, &msg);
	}
}

/*
 * Whether an extent that nobody else has is being sent, or was just offered, to a node from which
 * it is gone soon.
 */
static bool is_first_send(struct fm_run *run, const struct slot *s)
{
	if (s->use != SLOT_HELD || s->root != run->self || s->is_in_line || s->was_sent)
		return false;
	if (run->now_ns >= s->since_ns + run->times->offer)
		run->member.slow |= s->sending;
	return (s->sending | s->offered) & ~run->member.slow;
}

/*
 * Offers what waits in line. A node that reads for others sends one extent after the other: two at
 * once would be there at the same time, and nothing would be on the wire while the next two are
 * read. A node that takes long keeps nobody, until it has taken one quickly.
 */
void fm_run_slots_offer(struct fm_run *run)
{
	struct member *m = &run->member;

	for (;;) {
		struct slot *first = NULL;

		for (unsigned i = 0; i < FM_RUN_SLOTS; i++) {
			struct slot *s = &m->slot[i];

			if (is_first_send(run, s))
				return;
			if (s->use == SLOT_HELD && s->is_in_line &&
			    (!first || s->since_ns < first->since_ns))
				first = s;
		}
		if (!first)
			return;
		first->is_in_line = false;
		fm_run_slot_offer(run, first);
	}
}

/*
 * Ends the lease of a node that does not write the extent: its part is done when one other node has
 * the bytes.
 */
static void lease_settle(struct fm_run *run, struct slot *s)
{
	struct lease *l = fm_run_lease_of(run, (int)fm_run_slot_number(run, s));

	if (!l || s->use != SLOT_HELD || s->is_writing ||
	    (!s->was_sent && !fm_run_has(run, s->extent)))
		return;
	fm_run_sent_first(run, s);
	fm_run_lease_over(l);
}

/*
 * Whether to offer it again: to others if none of those who were asked takes it and a lease waits
 * for that; and if who is to pass it on is slow to take it, until all were asked. Others get it
 * from the disk when it is written, so that is waited for, but not for a disk that takes longer
 * than they would.
 */
static bool is_to_offer(struct fm_run *run, const struct slot *s)
{
	bool is_leased = fm_run_lease_of(run, (int)fm_run_slot_number(run, s)) != NULL;
	bool is_soon_on_disk = s->is_writing && run->now_ns < s->write_ns + run->times->send;
	uint64_t wait = s->sending ? run->times->send : run->times->offer;

	return s->use == SLOT_HELD && !is_soon_on_disk && s->root == run->self &&
	       (is_leased || (s->sending && s->offers <= OFFERS_IN_TURN)) &&
	       run->now_ns >= s->since_ns + wait;
}

/* Frees it if nothing keeps it. */
void fm_run_slot_settle(struct fm_run *run, struct slot *s)
{
	lease_settle(run, s);
	if (s->is_in_line && fm_run_lease_of(run, (int)fm_run_slot_number(run, s)))
		return;
	s->is_in_line = false;
	if (fm_run_may_release(run, s, false)) {
		fm_run_slot_free(run, s);
	} else if (is_to_offer(run, s)) {
		s->shape = (uint8_t)(s->shape + FM_RUN_TREE_TURN);
		fm_run_slot_offer(run, s);
	}
}

/* ---- sending ---- */

unsigned fm_run_uploads(const struct fm_run *run)
{
	unsigned count = 0;

	for (unsigned i = 0; i < run->uploads_max; i++)
		count += run->member.upload[i].is_used;
	return count;
}

static bool upload(struct fm_run *run, unsigned to, uint32_t extent, unsigned to_slot)
{
	if (!fm_run_has(run, extent))
		return false;
	for (unsigned i = 0; i < run->uploads_max; i++) {
		struct upload *u = &run->member.upload[i];

		if (u->is_used)
			continue;
		*u = (struct upload){.is_used = true, .to = (uint8_t)to, .extent = extent};
		run->world->upload(run->ctx, to, extent, -1, to_slot);
		return true;
	}
	return false;
}

void fm_run_get(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct slot *s = fm_run_slot_find(run, SLOT_HELD, msg->extent);
	struct fm_run_msg none = {.type = FM_RUN_NONE, .extent = msg->extent, .slot = msg->slot};

	if (!(run->up & bit(msg->from)))
		return;
	if (s && !(s->sending & bit(msg->from)) &&
	    __builtin_popcountll(s->sending) < FM_RUN_FANOUT + FM_RUN_FETCHES) {
		s->offered &= ~bit(msg->from);
		s->sending |= bit(msg->from);
		run->world->upload(run->ctx, msg->from, msg->extent,
				   (int)fm_run_slot_number(run, s), msg->slot);
	} else if (!upload(run, msg->from, msg->extent, msg->slot)) {
		fm_run_send(run, msg->from, &none);
	}
}

void fm_run_sent(struct fm_run *run, unsigned to, uint32_t extent, int code)
{
	struct slot *s = fm_run_slot_find(run, SLOT_HELD, extent);

	if (run->is_over || to >= run->node_count)
		return;
	if (s && s->sending & bit(to)) {
		s->sending &= ~bit(to);
		s->was_sent = s->was_sent || code == 0;
		if (code == 0 && run->now_ns < s->since_ns + run->times->offer)
			run->member.slow &= ~bit(to);
		fm_run_slot_settle(run, s);
	} else {
		for (unsigned i = 0; i < run->uploads_max; i++) {
			struct upload *u = &run->member.upload[i];

			if (u->is_used && u->to == to && u->extent == extent)
				u->is_used = false;
		}
	}
	fm_run_slots_offer(run);
	fm_run_tick(run, run->clock_ns);
}

void fm_run_slots_peer_lost(struct fm_run *run, unsigned peer)
{
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++) {
		struct slot *s = &run->member.slot[i];

		s->offered &= ~bit(peer);
		s->sending &= ~bit(peer);
		if (s->use == SLOT_RECEIVING && s->from == peer)
			fm_run_coming_failed(run, s, -ECONNRESET);
		else if (s->use == SLOT_HELD)
			fm_run_slot_settle(run, s);
	}
	for (unsigned i = 0; i < run->uploads_max; i++)
		if (run->member.upload[i].to == peer)
			run->member.upload[i].is_used = false;
}
