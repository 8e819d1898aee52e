/* SPDX-License-Identifier: MIT */
/*
 * run - see run.h. Here: whom a node takes for the coordinator, how messages reach those that are
 * no peers, the order of things within one event.
 *
 * The happy path: the first event begins a report to the coordinator, orders come, extents come and
 * go (member.c), END comes. What may fail: the coordinator is lost or a better one is found, then
 * the member reports to another one; a message is lost on its way over a third node, then numbers
 * do not fit (member.c, coordinator.c) and the member reports again.
 */
#include "staging/run/run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "staging/run/run_priv.h"

const struct fm_run_times fm_run_times_default = {
	.pulse = FM_NS_PER_S,
	.silent = 5 * FM_NS_PER_S,
	.settle = FM_NS_PER_S,
	.lease = 20 * FM_NS_PER_S,
	.offer = FM_NS_PER_S,
	.send = 5 * FM_NS_PER_S,
	.fetch = 20 * FM_NS_PER_S,
	.write = 60 * FM_NS_PER_S,
	.quiet = 2 * FM_NS_PER_S,
	.retry = FM_NS_PER_S,
	.check = 60 * FM_NS_PER_S,
	.stall = 300 * FM_NS_PER_S,
	.away = 30 * FM_NS_PER_S,
};

#define TURNS 16 /* of the coordinator, at once */

/* ---- who and over whom ---- */

/* To the coordinator here the member speaks at once, to the member here the coordinator when the
 * event is over. */
void fm_run_send(struct fm_run *run, unsigned to, struct fm_run_msg *msg)
{
	int hop;

	msg->from = (uint8_t)run->self;
	msg->to = (uint8_t)to;
	if (to != run->self) {
		hop = fm_run_hop(run, to);
		if (hop >= 0)
			run->world->send(run->ctx, (unsigned)hop, msg);
	} else if (msg->type < FM_RUN_LEASE) {
		fm_run_coordinator_take(run, msg);
	} else if (run->order_count < ORDERS_MAX) { /* else it is lost, like any other message */
		run->order[(run->order_first + run->order_count++) % ORDERS_MAX] = *msg;
	}
}

static bool is_active(const struct fm_run *run)
{
	return run->member.place == FM_RUN_SINK || run->member.wanted;
}

static void send_links(struct fm_run *run, uint64_t peers)
{
	for (unsigned n = 0; n < run->node_count; n++) {
		struct fm_run_msg msg = {
			.type = FM_RUN_LINKS, .nodes = run->up, .code = run->is_woken};

		if (peers & run->up & bit(n))
			fm_run_send(run, n, &msg);
	}
}

/*
 * Sends LINKS. A node that wants the dataset sends them to all its peers, which do the same; any
 * other node only to the nodes of the run.
 */
static void tell_links(struct fm_run *run)
{
	run->is_woken = run->is_woken || is_active(run);
	send_links(run, run->is_woken ? run->up : run->known);
}

/* Answers a peer that has wrong LINKS of this node. */
static void answer_links(struct fm_run *run, unsigned peer)
{
	send_links(run, bit(peer));
}

/*
 * Takes another one for the coordinator. What a peer says of whom it reaches may change that as
 * often as it likes, and each time all that was known is forgotten and reported: after some at once
 * the next ones have to wait.
 */
static void choose_root(struct fm_run *run)
{
	uint64_t quiet = run->times->quiet;
	unsigned root = fm_run_first(run);

	run->is_to_turn = root != run->root && run->turn_ns > run->now_ns + (TURNS - 1) * quiet;
	if (root == run->root || run->is_to_turn)
		return;
	run->turn_ns = (run->turn_ns > run->now_ns ? run->turn_ns : run->now_ns) + quiet;
	run->root = root;
	run->coordinator.is_on = false;
	if (root == run->self)
		fm_run_coordinator_begin(run);
	fm_run_join(run);
}

static void join_if_due(struct fm_run *run)
{
	struct member *m = &run->member;

	if (!m->is_to_join || run->now_ns < m->again_ns)
		return;
	m->again_ns = run->now_ns + run->times->quiet;
	if (m->is_to_call)
		tell_links(run);
	m->is_to_join = m->is_to_call = false;
	fm_run_join(run);
}

/*
 * A whole report, since the coordinator lacks one, or an order did not come. It may say so as often
 * as it likes: one report in each `quiet`. is_calling: its peers are to hear of the run again.
 */
void fm_run_join_again(struct fm_run *run, bool is_calling)
{
	run->member.is_to_join = true;
	run->member.is_to_call = run->member.is_to_call || is_calling;
	join_if_due(run);
}

/* ---- one event ---- */

static void end(struct fm_run *run, int code, uint64_t missing)
{
	if (run->is_over)
		return;
	run->is_over = true;
	run->world->end(run->ctx, code, missing);
}

/* ready: those that have it when the coordinator ends the run. What they have need not come again,
 * whether the coordinator heard that it was asked for or not. */
static bool is_still_wanted(const struct fm_run *run, uint64_t ready)
{
	bool has_all = run->member.place == FM_RUN_READY && !(run->member.wanted & ~ready);

	return run->member.place == FM_RUN_SINK || (run->member.unheard > 0 && !has_all) ||
	       (run->member.place == FM_RUN_PASSIVE && run->member.wanted & bit(run->self));
}

/*
 * Takes an order of the coordinator. A node that is asked for only after the coordinator ended the
 * run joins the next one, and calls its peers to it: their runs ended as well.
 */
static void take_order(struct fm_run *run, const struct fm_run_msg *msg)
{
	bool is_end = msg->type == FM_RUN_END && fm_run_is_next_order(run, msg);
	bool is_unheard = is_still_wanted(run, fm_run_msg_ready(msg));

	if (is_end && msg->code == 0 && is_unheard) {
		fm_run_join_again(run, true);
	} else if (is_end) {
		end(run, run->member.place == FM_RUN_OUT ? run->member.code : msg->code,
		    msg->nodes);
	} else {
		fm_run_member_take(run, msg);
	}
}

/*
 * After each event: lets the coordinator of this node decide, and its own member carry out the
 * orders. Each may cause work for the other. After ORDERS_MAX rounds the rest waits for the next
 * event.
 */
static void settle(struct fm_run *run)
{
	for (unsigned i = 0; i <= ORDERS_MAX && !run->is_over; i++) {
		struct fm_run_msg msg;

		fm_run_leases_start(run);
		if (run->coordinator.is_on)
			fm_run_plan(run);
		if (run->order_count == 0)
			return;
		msg = run->order[run->order_first];
		run->order_first = (run->order_first + 1) % ORDERS_MAX;
		run->order_count--;
		take_order(run, &msg);
	}
}

void fm_run_tick(struct fm_run *run, uint64_t now_ns)
{
	if (run->is_over)
		return;
	run->now_ns += run->has_clock ? fm_run_elapsed(run->clock_ns, now_ns) : 0;
	run->clock_ns = now_ns;
	run->has_clock = true;
	if (run->is_to_turn)
		choose_root(run);
	fm_run_member_tick(run);
	join_if_due(run);
	if (run->now_ns > run->member.heard_ns + run->times->stall + run->times->stall / 2)
		end(run, run->member.place == FM_RUN_OUT ? run->member.code : -ETIMEDOUT,
		    run->member.wanted);
	settle(run);
}

static void on_links(struct fm_run *run, const struct fm_run_msg *msg)
{
	bool was_known = run->known & bit(msg->from);

	run->known |= bit(msg->from);
	run->links[msg->from] = msg->nodes;
	if (msg->code == 1 && !run->is_woken) {
		run->is_woken = true;
		tell_links(run);
	} else if (!was_known && !run->is_woken) {
		send_links(run, bit(msg->from));
	}
	choose_root(run);
}

/* These are between two peers. Nobody passes them on, or it could speak for another one. */
static bool is_of_peers(const struct fm_run_msg *msg)
{
	return msg->type == FM_RUN_LINKS || msg->type >= FM_RUN_OFFER;
}

/* A peer speaks for itself, or says that it passes on what another one said. */
static bool is_sound(const struct fm_run *run, unsigned via, const struct fm_run_msg *msg)
{
	return via < run->node_count && (msg->hops == 0) == (msg->from == via) &&
	       msg->type < FM_RUN_MSG_TYPES && msg->from < run->node_count &&
	       msg->from != run->self && msg->to < run->node_count && msg->hops <= 1 &&
	       msg->node < FM_RUN_NODES_MAX && msg->slot < FM_RUN_SLOTS &&
	       msg->extent < run->extent_count &&
	       (!is_of_peers(msg) || (msg->hops == 0 && msg->to == run->self));
}

static void pass_on(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct fm_run_msg copy = *msg;

	if (msg->hops != 0 || !(run->up & bit(msg->to)))
		return;
	copy.hops = 1;
	run->world->send(run->ctx, msg->to, &copy);
}

void fm_run_message(struct fm_run *run, unsigned via, const struct fm_run_msg *msg)
{
	if (run->is_over || !is_sound(run, via, msg))
		return;
	run->heard |= bit(via);
	if (via != msg->from)
		run->links[via] |= bit(msg->from); /* so the answer finds its way back */
	if (msg->to != run->self)
		pass_on(run, msg);
	else if (msg->type == FM_RUN_LINKS)
		on_links(run, msg);
	else if (msg->type >= FM_RUN_LEASE)
		take_order(run, msg);
	else if (run->coordinator.is_on)
		fm_run_coordinator_take(run, msg);
	else if (msg->type == FM_RUN_PULSE)
		answer_links(run, via);
	settle(run);
}

void fm_run_peer_up(struct fm_run *run, unsigned peer)
{
	if (run->is_over || peer >= run->node_count || peer == run->self)
		return;
	run->up |= bit(peer);
	tell_links(run);
	choose_root(run);
	settle(run);
}

void fm_run_peer_lost(struct fm_run *run, unsigned peer)
{
	if (run->is_over || peer >= run->node_count)
		return;
	run->up &= ~bit(peer);
	run->known &= ~bit(peer);
	run->heard &= ~bit(peer);
	run->links[peer] = 0;
	fm_run_slots_peer_lost(run, peer);
	tell_links(run);
	choose_root(run);
	settle(run);
}

void fm_run_called(struct fm_run *run, uint64_t peers, uint64_t refused)
{
	run->called = peers;
	run->refused = refused;
}

void fm_run_request(struct fm_run *run, uint64_t nodes)
{
	if (run->is_over)
		return;
	run->member.wanted |= nodes;
	run->member.unheard = run->member.unanswered + 1; /* those pulses did not have it */
	run->member.pulse_ns = 0;
	tell_links(run);
}

/* ---- beginning and end ---- */

static bool is_valid(const struct fm_run_params *p)
{
	return p->node_count > 0 && p->node_count <= FM_RUN_NODES_MAX && p->self < p->node_count &&
	       p->extent_count > 0 && p->extent_count <= FM_RUN_EXTENTS_MAX && p->uploads > 0 &&
	       p->uploads <= FM_RUN_UPLOADS_MAX && p->place < FM_RUN_OUT &&
	       (p->place != FM_RUN_READY || p->crc) && (!p->have || p->crc);
}

static int expect(struct fm_run *run, const uint32_t *expected)
{
	if (!expected)
		return 0;
	run->expected = malloc(run->extent_count * sizeof(*expected));
	if (!run->expected)
		return -ENOMEM;
	memcpy(run->expected, expected, run->extent_count * sizeof(*expected));
	return 0;
}

int fm_run_new(const struct fm_run_params *params, const struct fm_run_world *world, void *ctx,
	       struct fm_run **out)
{
	struct fm_run *run;

	if (!is_valid(params))
		return -EINVAL;
	run = calloc(1, sizeof(*run));
	if (!run)
		return -ENOMEM;
	run->self = run->root = params->self;
	run->node_count = params->node_count;
	run->extent_count = params->extent_count;
	run->uploads_max = params->uploads;
	run->scan_max = params->scan ? params->scan : FM_RUN_SCAN;
	run->times = params->times ? params->times : &fm_run_times_default;
	run->world = world;
	run->ctx = ctx;
	run->up = params->up & ~bit(params->self);
	memcpy(run->rank, params->rank, params->node_count);
	if (expect(run, params->expected) != 0 || fm_run_member_init(run, params) != 0 ||
	    fm_run_coordinator_init(run) != 0) {
		fm_run_free(run);
		return -ENOMEM;
	}
	tell_links(run);
	run->root = fm_run_first(run);
	if (run->root == run->self)
		fm_run_coordinator_begin(run);
	fm_run_join(run);
	*out = run;
	return 0;
}

void fm_run_free(struct fm_run *run)
{
	if (!run)
		return;
	fm_run_member_free(run);
	fm_run_coordinator_free(run);
	free(run->expected);
	free(run);
}

void fm_run_show(const struct fm_run *run, struct fm_run_show *show)
{
	const struct coordinator *co = &run->coordinator;

	memset(show, 0, sizeof(*show));
	show->place = run->member.place;
	show->is_coordinator = co->is_on;
	show->coordinator = run->root;
	show->have_count = run->member.have_count;
	show->uploads = fm_run_uploads(run);
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++)
		show->slots_used += run->member.slot[i].use != SLOT_FREE;
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		show->leases += run->member.lease[i].is_used;
	for (unsigned n = 0; n < run->node_count; n++)
		for (unsigned i = 0; i < FM_RUN_LEASES && co->is_on; i++)
			show->leases_given += co->seat[n].is_here && co->seat[n].lease[i].is_used;
	show->revoked = co->revoked;
	show->forgotten = co->forgotten;
	show->resynced = co->resynced;
	show->failed = co->failed;
}
