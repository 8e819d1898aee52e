/* SPDX-License-Identifier: MIT */
/*
 * member - what a node does in a run, whoever coordinates it.
 *
 * The happy path of an extent: LEASE, read, held, offered to those below, written, HAVE; or OFFER,
 * GET, received, held, offered further, written, HAVE; or FETCH, GET, and so on. When all are
 * there: COMMIT, published, END. What may fail: a read (READ_FAILED, the coordinator asks another
 * node, or this one later), what comes (the coordinator sends it elsewhere), a write (this node
 * drops out), an order that is missing (a new report), publishing (it drops out).
 */
#include "staging/run/run_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/crc32c.h"

/* How often the wait for a peer whose offers are bad is doubled. */
#define GIVER_DOUBLED 4
#define LATE_MAX 4

/* Notes what is on the disk. have NULL: all of it. */
static void note_there(struct fm_run *run, const uint64_t *have, const uint32_t *crc)
{
	struct member *m = &run->member;

	for (uint32_t e = 0; e < run->extent_count; e++) {
		if ((have && !(have[e / 64] >> (e % 64) & 1)) || !fm_run_is_right(run, e, crc[e]))
			continue;
		m->have[e / 64] |= UINT64_C(1) << (e % 64);
		m->crc[e] = crc[e];
		m->have_count++;
	}
}

int fm_run_member_init(struct fm_run *run, const struct fm_run_params *p)
{
	struct member *m = &run->member;

	m->join = p->join;
	m->place = p->place;
	m->can_read = p->can_read;
	m->have = calloc((p->extent_count + 63) / 64, sizeof(*m->have));
	m->crc = calloc(p->extent_count, sizeof(*m->crc));
	m->giver_of = malloc(p->extent_count);
	if (!m->have || !m->crc || !m->giver_of)
		return -ENOMEM;
	memset(m->giver_of, FM_RUN_NOBODY, p->extent_count);
	if (p->place == FM_RUN_READY)
		note_there(run, NULL, p->crc);
	else if (p->place == FM_RUN_SINK && p->have)
		note_there(run, p->have, p->crc);
	return 0;
}

void fm_run_member_free(struct fm_run *run)
{
	free(run->member.have);
	free(run->member.crc);
	free(run->member.giver_of);
}

bool fm_run_has(const struct fm_run *run, uint32_t extent)
{
	return run->member.have[extent / 64] >> (extent % 64) & 1;
}

static void set_have(struct fm_run *run, const struct slot *s)
{
	struct member *m = &run->member;

	m->have_count += !fm_run_has(run, s->extent);
	m->have[s->extent / 64] |= UINT64_C(1) << (s->extent % 64);
	m->crc[s->extent] = s->crc;
	m->giver_of[s->extent] = s->giver;
}

static void clear_have(struct fm_run *run, uint32_t extent)
{
	run->member.have_count -= fm_run_has(run, extent);
	run->member.have[extent / 64] &= ~(UINT64_C(1) << (extent % 64));
}

/* ---- what the coordinator hears ---- */

static bool is_late(const struct fm_run *run, unsigned peer)
{
	const struct giver *g = &run->member.giver[peer];

	return g->late > 0 || g->failed >= GIVER_BAD;
}

/* Of what one offers of whom others did not come nobody is to think that it comes. */
static bool is_from_late(const struct fm_run *run, const struct slot *s)
{
	return s->giver != FM_RUN_NOBODY && is_late(run, s->giver);
}

static void fill_state(const struct fm_run *run, struct fm_run_state *st)
{
	const struct member *m = &run->member;

	*st = (struct fm_run_state){.place = (uint8_t)m->place,
				    .can_read = m->can_read,
				    .uploads = (uint8_t)run->uploads_max,
				    .code = m->code,
				    .order = m->order,
				    .have_count = m->have_count,
				    .up = run->up,
				    .wanted = m->wanted};
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		if (m->lease[i].is_used)
			st->lease[st->lease_count++] =
				(struct fm_run_held){m->lease[i].extent, m->lease[i].is_revoked};
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++) {
		const struct slot *s = &m->slot[i];

		if ((s->use == SLOT_RECEIVING && !is_from_late(run, s)) ||
		    fm_run_is_being_written(run, s))
			st->coming[st->coming_count++] = (struct fm_run_coming){
				s->extent,
				s->use == SLOT_RECEIVING && s->is_fetch ? s->from : FM_RUN_NOBODY};
	}
}

static void send_state(struct fm_run *run, enum fm_run_msg_type type)
{
	struct fm_run_msg msg = {.type = (uint8_t)type, .join = run->member.join};

	fill_state(run, &msg.state);
	fm_run_send(run, run->root, &msg);
	run->member.unanswered += type == FM_RUN_PULSE;
	run->member.pulse_ns = run->now_ns + run->times->pulse;
}

/* Pages on which there is nothing are left out, but for the last. */
static void send_page(struct fm_run *run, uint32_t first)
{
	struct fm_run_msg msg = {
		.type = FM_RUN_PAGE_OF, .join = run->member.join, .page.first = first};
	bool has_any = false;

	msg.page.is_last = first + FM_RUN_PAGE >= run->extent_count;
	for (uint32_t i = 0; i < FM_RUN_PAGE && first + i < run->extent_count; i++) {
		if (!fm_run_has(run, first + i))
			continue;
		msg.page.bits[i / 8] |= (uint8_t)(1U << (i % 8));
		msg.page.crc[i] = run->member.crc[first + i];
		has_any = true;
	}
	if (has_any || msg.page.is_last)
		fm_run_send(run, run->root, &msg);
}

/* A whole report, to whom it takes for the coordinator. */
void fm_run_join(struct fm_run *run)
{
	uint32_t last = (run->extent_count - 1) / FM_RUN_PAGE * FM_RUN_PAGE;
	uint32_t first = run->member.have_count > 0 ? 0 : last;

	run->member.join++;
	run->member.unanswered = run->member.unheard = 0;
	run->member.order = 0;
	run->member.heard_ns = run->now_ns;
	send_state(run, FM_RUN_JOIN);
	for (; first < run->extent_count; first += FM_RUN_PAGE)
		send_page(run, first);
}

void fm_run_member_tell(struct fm_run *run, enum fm_run_msg_type type, uint32_t extent, int code)
{
	struct fm_run_msg msg = {
		.type = (uint8_t)type, .join = run->member.join, .extent = extent, .code = code};

	if (type == FM_RUN_HAVE)
		msg.crc = run->member.crc[extent];
	fm_run_send(run, run->root, &msg);
}

/* SENT: one other node has what this one read or carried, and keeps nothing of. */
void fm_run_sent_first(struct fm_run *run, const struct slot *s)
{
	struct fm_run_msg msg = {.type = FM_RUN_SENT,
				 .join = run->member.join,
				 .extent = s->extent,
				 .crc = s->crc};

	fm_run_send(run, run->root, &msg);
}

static void tell_fetch_failed(struct fm_run *run, uint32_t extent, unsigned server, uint32_t crc,
			      int code)
{
	struct fm_run_msg msg = {.type = FM_RUN_FETCH_FAILED,
				 .join = run->member.join,
				 .extent = extent,
				 .crc = crc,
				 .code = code,
				 .node = (uint8_t)server};

	fm_run_send(run, run->root, &msg);
}

/* ---- extents that come ---- */

/* Into the slot, from a peer that says it has it. */
static void get(struct fm_run *run, const struct fm_run_msg *msg, unsigned from, int slot)
{
	struct fm_run_msg ask = {.type = FM_RUN_GET, .extent = msg->extent, .slot = (uint8_t)slot};
	bool is_fetch = msg->type == FM_RUN_FETCH;

	run->member.slot[slot] = (struct slot){.use = SLOT_RECEIVING,
					       .extent = msg->extent,
					       .from = (uint8_t)from,
					       .is_fetch = is_fetch,
					       .giver = is_fetch ? FM_RUN_NOBODY : (uint8_t)from,
					       .crc = msg->crc,
					       .root = is_fetch ? (uint8_t)from : msg->node,
					       .shape = msg->shape,
					       .wants = is_fetch ? 0 : msg->nodes,
					       .since_ns = run->now_ns};
	fm_run_send(run, from, &ask);
}

static bool is_coming(struct fm_run *run, uint32_t extent)
{
	struct slot *reading = fm_run_slot_find(run, SLOT_READING, extent);
	struct lease *l =
		reading ? fm_run_lease_of(run, (int)fm_run_slot_number(run, reading)) : NULL;

	return fm_run_slot_find(run, SLOT_RECEIVING, extent) ||
	       fm_run_slot_find(run, SLOT_HELD, extent) || (l && !l->is_revoked);
}

static void wait_at_least(const struct fm_run *run, struct giver *g, uint64_t ns)
{
	if (g->after_ns < run->now_ns + ns)
		g->after_ns = run->now_ns + ns;
}

/* One more of its offers was bad. From GIVER_BAD on it has to wait, longer each time. */
static void count_bad(const struct fm_run *run, struct giver *g, uint8_t *count)
{
	*count = (uint8_t)(*count + (*count < GIVER_BAD + GIVER_DOUBLED));
	if (*count >= GIVER_BAD)
		wait_at_least(run, g, run->times->retry << (*count - GIVER_BAD));
}

/* The peer offered something, and other bytes came than it said, or than are right. */
static void note_wrong(struct fm_run *run, unsigned peer)
{
	struct giver *g = &run->member.giver[peer];

	count_bad(run, g, &g->wrong);
}

static void note_late(const struct fm_run *run, struct giver *g, const struct slot *s)
{
	if (s->since_ns >= g->late_ns)
		g->late = (uint8_t)(g->late + (g->late < UINT8_MAX));
	g->late_ns = run->now_ns;
	wait_at_least(run, g, run->times->fetch);
}

/*
 * How often the time for an extent is to be doubled, so that one which takes as long as this one
 * comes with a third to spare. Without it every second extent on a wire that is slower than it
 * would be cancelled, since one that comes ends the doubling after a time-out. One that comes
 * sooner takes a doubling back. Nobody is waited for as long as a run is that stands still.
 */
static uint8_t pace_of(const struct fm_run *run, const struct slot *s, uint8_t before)
{
	uint64_t needs = (run->now_ns - s->since_ns) / 2 * 3;
	uint8_t pace = 0;

	while (run->times->fetch << pace < needs &&
	       run->times->fetch << (pace + 1) < run->times->stall / 2)
		pace++;
	return pace < before ? (uint8_t)(before - 1) : pace;
}

/* An extent came, which may teach how long the next ones from there take. */
static void note_pace(struct fm_run *run, const struct slot *s)
{
	struct giver *g = &run->member.giver[s->from];

	if (s->giver == FM_RUN_NOBODY)
		g->fetch_pace = pace_of(run, s, g->fetch_pace);
	else
		g->pace = pace_of(run, s, g->pace);
}

/* What came of an offer. One that refuses what it offered, or loses its session again and again,
 * has the slots as well as one of whom nothing comes in time. */
static void note_giver(struct fm_run *run, const struct slot *s, int code)
{
	struct giver *g;

	if (s->giver == FM_RUN_NOBODY)
		return;
	g = &run->member.giver[s->giver];
	if (code == 0) {
		g->late = g->failed = 0;
		return;
	}
	if (g->failed == 0 || s->since_ns > g->failed_ns) {
		g->failed_ns = run->now_ns;
		count_bad(run, g, &g->failed);
	}
	if (code == -EBADMSG)
		note_wrong(run, s->giver);
	else if (code == -ETIMEDOUT)
		note_late(run, g, s);
}

/* Waits no more for an extent that does not count as one that comes. */
static void drop_late(struct fm_run *run, uint32_t extent)
{
	struct slot *s = fm_run_slot_find(run, SLOT_RECEIVING, extent);

	if (!s || !is_from_late(run, s))
		return;
	run->world->cancel_receive(run->ctx, fm_run_slot_number(run, s));
	fm_run_slot_free(run, s);
}

/* What comes from one who is late gives way to what one offers who is not. */
static bool may_take(struct fm_run *run, const struct fm_run_msg *offer)
{
	if (run->member.place != FM_RUN_SINK || run->member.is_publishing ||
	    fm_run_has(run, offer->extent) || !fm_run_may_offer(run, offer->from))
		return false;
	if (!is_late(run, offer->from))
		drop_late(run, offer->extent);
	return !is_coming(run, offer->extent);
}

static void on_offer(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct fm_run_msg pass = {.type = FM_RUN_PASS, .extent = msg->extent};
	int slot = -1;

	if (!(run->up & bit(msg->from)))
		return;
	if (may_take(run, msg))
		slot = fm_run_slot_take(run, false);
	if (slot < 0)
		fm_run_send(run, msg->from, &pass);
	else
		get(run, msg, msg->from, slot);
}

static void on_pass(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct slot *s = fm_run_slot_find(run, SLOT_HELD, msg->extent);

	if (!s)
		return;
	s->offered &= ~bit(msg->from);
	fm_run_slot_settle(run, s);
}

static void on_fetch(struct fm_run *run, const struct fm_run_msg *msg)
{
	int slot = -1;

	if (run->member.place != FM_RUN_SINK)
		return;
	if (run->member.is_publishing) { /* what it lost meanwhile is not written any more */
		tell_fetch_failed(run, msg->extent, msg->node, msg->crc, -EAGAIN);
		return;
	}
	drop_late(run, msg->extent);
	if (is_coming(run, msg->extent))
		return;
	if (fm_run_has(run, msg->extent)) {
		fm_run_member_tell(run, FM_RUN_HAVE, msg->extent, 0);
		return;
	}
	if (msg->node < run->node_count && run->up & bit(msg->node))
		slot = fm_run_slot_take(run, false);
	if (slot < 0)
		tell_fetch_failed(run, msg->extent, msg->node, msg->crc, -EAGAIN);
	else
		get(run, msg, msg->node, slot);
}

/* Of one that has other bytes than it said, or lets wait, the coordinator is to know. */
static void tell_carry_failed(struct fm_run *run, const struct lease *l, int code)
{
	struct fm_run_msg msg = {.type = FM_RUN_READ_FAILED,
				 .join = run->member.join,
				 .extent = l->extent,
				 .crc = l->crc,
				 .code = code == -EBADMSG || code == -ETIMEDOUT ? code : -EBUSY};

	fm_run_send(run, run->root, &msg);
}

/* Of fetches that began together, and of which nothing comes, one counts: else four would make the
 * next one wait for as long as a run lives. */
static void note_late_fetch(struct fm_run *run, const struct slot *s)
{
	struct member *m = &run->member;
	unsigned pace = m->giver[s->from].fetch_pace;

	if (m->fetches_failed > 0 && s->since_ns < m->fetches_failed_ns)
		return;
	if (m->fetches_failed < pace)
		m->fetches_failed = pace;
	m->fetches_failed++;
	m->fetches_failed_ns = run->now_ns;
}

/* An extent did not come completely: throws away what came of it. */
void fm_run_coming_failed(struct fm_run *run, struct slot *s, int code)
{
	struct lease *l = fm_run_lease_of(run, (int)fm_run_slot_number(run, s));

	if (code == -ETIMEDOUT && s->giver == FM_RUN_NOBODY)
		note_late_fetch(run, s);
	note_giver(run, s, code);
	if (l) {
		tell_carry_failed(run, l, code);
		fm_run_lease_over(l);
	} else if (s->is_fetch) {
		tell_fetch_failed(run, s->extent, s->from, s->crc, code);
	}
	fm_run_slot_free(run, s);
}

/* Who cannot send says so at once. One that lets others wait before has let it time out. */
static void on_none(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct slot *s = &run->member.slot[msg->slot];
	bool is_at_once = run->now_ns <= s->since_ns + run->times->send;

	if (s->use == SLOT_RECEIVING && s->extent == msg->extent && s->from == msg->from)
		fm_run_coming_failed(run, s, is_at_once ? -EBUSY : -ETIMEDOUT);
}

/* A sink writes what it holds, once. */
static void write_held(struct fm_run *run, struct slot *s)
{
	const struct member *m = &run->member;

	if (m->place != FM_RUN_SINK || m->is_publishing || fm_run_has(run, s->extent))
		return;
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++)
		if (m->slot[i].is_writing && m->slot[i].extent == s->extent)
			return;
	s->is_writing = true;
	s->write_ns = run->now_ns;
	run->world->write(run->ctx, fm_run_slot_number(run, s), s->extent);
}

/* The bytes are in the slot, and right: to the disk, and on to those below. */
static void hold(struct fm_run *run, struct slot *s, uint32_t crc, bool is_offered)
{
	s->use = SLOT_HELD;
	s->crc = crc;
	s->since_ns = run->now_ns;
	write_held(run, s);
	s->is_in_line = is_offered && s->root == run->self && run->member.place != FM_RUN_SINK;
	if (is_offered && !s->is_in_line)
		fm_run_slot_offer(run, s);
	fm_run_slots_offer(run);
	fm_run_slot_settle(run, s);
}

/* Whether these are the bytes that were promised, if any were. */
static bool is_as_said(struct fm_run *run, const struct slot *s, uint32_t crc)
{
	const struct lease *l = fm_run_lease_of(run, (int)fm_run_slot_number(run, s));

	if (l)
		return !l->has_crc || l->crc == crc;
	return s->crc == crc;
}

void fm_run_received(struct fm_run *run, unsigned slot, uint32_t crc, int code)
{
	struct slot *s = &run->member.slot[slot];

	if (run->is_over || s->use != SLOT_RECEIVING)
		return;
	if (code == 0 && (!fm_run_is_right(run, s->extent, crc) || !is_as_said(run, s, crc)))
		code = -EBADMSG;
	if (code != 0) {
		fm_run_coming_failed(run, s, code);
	} else {
		run->member.fetches_failed = 0;
		note_pace(run, s);
		note_giver(run, s, 0);
		hold(run, s, crc, true);
	}
	fm_run_tick(run, run->clock_ns);
}

/* ---- leases ---- */

struct lease *fm_run_lease_of(struct fm_run *run, int slot)
{
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		if (run->member.lease[i].is_used && run->member.lease[i].slot == slot)
			return &run->member.lease[i];
	return NULL;
}

void fm_run_lease_over(struct lease *l)
{
	l->is_used = false;
}

static void on_lease(struct fm_run *run, const struct fm_run_msg *msg)
{
	if (msg->type == FM_RUN_LEASE && !run->member.can_read) {
		fm_run_member_tell(run, FM_RUN_READ_FAILED, msg->extent, -EOPNOTSUPP);
		return;
	}
	for (unsigned i = 0; i < FM_RUN_LEASES; i++) {
		struct lease *l = &run->member.lease[i];

		if (l->is_used)
			continue;
		if (fm_run_has(run, msg->extent))
			fm_run_member_tell(run, FM_RUN_HAVE, msg->extent, 0);
		else
			*l = (struct lease){.is_used = true,
					    .extent = msg->extent,
					    .slot = -1,
					    .has_crc = msg->number == 1,
					    .crc = msg->crc,
					    .nodes = msg->nodes,
					    .shape = msg->shape,
					    .from = msg->type == FM_RUN_CARRY ? msg->node
									      : FM_RUN_NOBODY};
		return;
	}
	fm_run_member_tell(run, FM_RUN_READ_FAILED, msg->extent, -EBUSY);
}

/* A read cannot be taken back, and keeps its lease; what is carried can. */
static void on_revoke(struct fm_run *run, const struct fm_run_msg *msg)
{
	for (unsigned i = 0; i < FM_RUN_LEASES; i++) {
		struct lease *l = &run->member.lease[i];
		struct slot *s = l->slot >= 0 ? &run->member.slot[l->slot] : NULL;

		if (!l->is_used || l->extent != msg->extent)
			continue;
		l->is_revoked = true;
		if (s && s->use == SLOT_READING)
			continue;
		fm_run_lease_over(l);
		if (s && s->use == SLOT_RECEIVING) {
			run->world->cancel_receive(run->ctx, (unsigned)l->slot);
			fm_run_slot_free(run, s);
		} else if (s) {
			fm_run_slot_settle(run, s);
		}
	}
}

/* From the source, or from the node that it is carried from. */
static void lease_start(struct fm_run *run, struct lease *l)
{
	struct slot *s = &run->member.slot[l->slot];
	struct fm_run_msg ask = {.type = FM_RUN_GET, .extent = l->extent, .slot = (uint8_t)l->slot};

	*s = (struct slot){.use = SLOT_READING,
			   .extent = l->extent,
			   .giver = FM_RUN_NOBODY,
			   .root = (uint8_t)run->self,
			   .wants = l->nodes,
			   .shape = l->shape,
			   .since_ns = run->now_ns};
	if (l->from == FM_RUN_NOBODY) {
		run->world->read(run->ctx, (unsigned)l->slot, l->extent);
		return;
	}
	s->use = SLOT_RECEIVING;
	s->from = l->from;
	if (l->from < run->node_count && run->up & bit(l->from))
		fm_run_send(run, l->from, &ask);
	else
		fm_run_coming_failed(run, s, -ENOTCONN);
}

/* Starts the leases that wait for a slot. */
void fm_run_leases_start(struct fm_run *run)
{
	for (unsigned i = 0; i < FM_RUN_LEASES; i++) {
		struct lease *l = &run->member.lease[i];

		if (!l->is_used || l->slot >= 0)
			continue;
		l->slot = fm_run_slot_take(run, true);
		if (l->slot < 0)
			return;
		lease_start(run, l);
	}
}

bool fm_run_wants_read(struct fm_run *run, unsigned slot)
{
	const struct lease *l = fm_run_lease_of(run, (int)slot);

	return !run->is_over && l && !l->is_revoked;
}

void fm_run_read_done(struct fm_run *run, unsigned slot, uint32_t crc, int code)
{
	struct slot *s = &run->member.slot[slot];
	struct lease *l = fm_run_lease_of(run, (int)slot);
	bool is_revoked = l && l->is_revoked;

	if (run->is_over || s->use != SLOT_READING || !l)
		return;
	if (code == 0 && !fm_run_is_right(run, s->extent, crc))
		code = -EBADMSG;
	if (code != 0)
		fm_run_member_tell(run, FM_RUN_READ_FAILED, s->extent, code);
	if (code != 0 || is_revoked)
		fm_run_lease_over(l);
	if (code != 0) {
		s->use = SLOT_HELD;
		fm_run_slot_free(run, s);
	} else {
		hold(run, s, crc, !is_revoked);
	}
	fm_run_tick(run, run->clock_ns);
}

/* ---- the disk ---- */

static void drop_out(struct fm_run *run, int code)
{
	struct member *m = &run->member;

	m->place = FM_RUN_OUT;
	m->code = code;
	m->have_count = 0;
	memset(m->have, 0, (run->extent_count + 63) / 64 * sizeof(*m->have));
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++) {
		struct slot *s = &m->slot[i];

		if (s->use == SLOT_RECEIVING) {
			run->world->cancel_receive(run->ctx, i);
			fm_run_coming_failed(run, s, -EBUSY);
		}
	}
	send_state(run, FM_RUN_PULSE);
}

void fm_run_written(struct fm_run *run, unsigned slot, int code)
{
	struct slot *s = &run->member.slot[slot];
	struct lease *l = fm_run_lease_of(run, (int)slot);

	if (run->is_over || s->use != SLOT_HELD || !s->is_writing)
		return;
	s->is_writing = false;
	if (run->member.place == FM_RUN_SINK && code != 0)
		drop_out(run, code);
	if (run->member.place == FM_RUN_SINK) {
		set_have(run, s);
		fm_run_member_tell(run, FM_RUN_HAVE, s->extent, 0);
		if (l)
			fm_run_lease_over(l);
	}
	fm_run_slot_settle(run, s);
	fm_run_tick(run, run->clock_ns);
}

static void lose(struct fm_run *run, uint32_t extent)
{
	clear_have(run, extent);
	fm_run_member_tell(run, FM_RUN_LOST, extent, 0);
}

void fm_run_disk_bad(struct fm_run *run, uint32_t extent)
{
	if (run->is_over || extent >= run->extent_count)
		return;
	for (unsigned i = 0; i < run->uploads_max; i++)
		if (run->member.upload[i].extent == extent)
			run->member.upload[i].is_used = false;
	if (fm_run_has(run, extent))
		lose(run, extent);
	fm_run_tick(run, run->clock_ns);
}

/* The coordinator has counted it as gone when it sent this. */
static void on_discard(struct fm_run *run, const struct fm_run_msg *msg)
{
	if (run->member.place != FM_RUN_SINK || run->member.is_publishing ||
	    !fm_run_has(run, msg->extent) || run->member.crc[msg->extent] == msg->crc)
		return;
	clear_have(run, msg->extent);
	if (run->member.giver_of[msg->extent] != FM_RUN_NOBODY)
		note_wrong(run, run->member.giver_of[msg->extent]);
	run->world->forget(run->ctx, msg->extent);
}

/* ---- the end ---- */

/*
 * COMMIT. This member publishes if it has every extent and the same CRC of all CRCs as the
 * coordinator. Otherwise it reports again, at intervals.
 */
static void on_commit(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct member *m = &run->member;

	if (m->place != FM_RUN_SINK || m->is_publishing)
		return;
	if (m->have_count != run->extent_count ||
	    msg->crc != fm_crc32c(0, m->crc, run->extent_count * sizeof(*m->crc))) {
		if (run->now_ns < m->rejoin_ns)
			return;
		m->rejoin_ns = run->now_ns + run->times->silent;
		fm_run_join(run);
		return;
	}
	m->is_publishing = true;
	run->world->publish(run->ctx);
}

void fm_run_published(struct fm_run *run, int code)
{
	if (run->is_over || !run->member.is_publishing)
		return;
	run->member.is_publishing = false;
	if (code != 0) {
		drop_out(run, code);
	} else {
		run->member.place = FM_RUN_READY;
		send_state(run, FM_RUN_PULSE);
	}
	fm_run_tick(run, run->clock_ns);
}

/* What it reads and holds for others stays: it may be on its way to them. */
void fm_run_want(struct fm_run *run, const uint64_t *have, const uint32_t *crc)
{
	if (run->is_over || run->member.place != FM_RUN_PASSIVE)
		return;
	run->member.place = FM_RUN_SINK;
	if (have)
		note_there(run, have, crc);
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++) /* what it read for others */
		if (run->member.slot[i].use == SLOT_HELD)
			write_held(run, &run->member.slot[i]);
	if (run->member.have_count > 0)
		fm_run_join(run);
	else
		send_state(run, FM_RUN_PULSE);
	fm_run_request(run, 0);
}

void fm_run_refuse(struct fm_run *run, int code)
{
	if (run->is_over || run->member.place != FM_RUN_PASSIVE)
		return;
	drop_out(run, code);
}

static void tell_checked(struct fm_run *run, uint32_t number, int code)
{
	struct fm_run_msg msg = {
		.type = FM_RUN_CHECKED, .join = run->member.join, .number = number, .code = code};

	fm_run_send(run, run->root, &msg);
}

/*
 * CHECK: lists the source again. One check runs at a time; of the orders that come meanwhile, the
 * last one counts.
 */
static void on_check(struct fm_run *run, const struct fm_run_msg *msg)
{
	struct member *m = &run->member;

	if (!m->can_read) {
		tell_checked(run, msg->number, -EOPNOTSUPP);
	} else if (m->is_checking) {
		m->is_to_check = true;
		m->next_check = msg->number;
	} else {
		m->is_checking = true;
		run->world->check_source(run->ctx, msg->number);
	}
}

void fm_run_checked(struct fm_run *run, uint32_t number, int code)
{
	struct member *m = &run->member;

	if (run->is_over)
		return;
	m->is_checking = m->is_to_check && m->next_check != number;
	m->is_to_check = false;
	tell_checked(run, number, code);
	if (m->is_checking)
		run->world->check_source(run->ctx, m->next_check);
	fm_run_tick(run, run->clock_ns);
}

/* ---- what comes ---- */

static void take_order(struct fm_run *run, const struct fm_run_msg *msg)
{
	if (!fm_run_is_next_order(run, msg)) {
		if (msg->from == run->root && msg->join == run->member.join &&
		    msg->order > run->member.order)
			fm_run_join_again(run, false);
		return;
	}
	run->member.order = msg->order;
	run->member.heard_ns = run->now_ns;
	if (msg->type == FM_RUN_LEASE || msg->type == FM_RUN_CARRY)
		on_lease(run, msg);
	else if (msg->type == FM_RUN_REVOKE)
		on_revoke(run, msg);
	else if (msg->type == FM_RUN_FETCH)
		on_fetch(run, msg);
	else if (msg->type == FM_RUN_DISCARD)
		on_discard(run, msg);
	else if (msg->type == FM_RUN_CHECK)
		on_check(run, msg);
	else if (msg->type == FM_RUN_INVITE && run->member.place == FM_RUN_PASSIVE)
		run->world->invited(run->ctx);
	else if (msg->type == FM_RUN_COMMIT)
		on_commit(run, msg);
}

/*
 * The last order that was given did not come: no other one tells of it. Twice the same, since an
 * order may be later than the answer to a pulse that went another way.
 */
static bool is_order_lost(struct member *m, uint32_t given)
{
	bool is_again = m->noted_order == given && m->noted_had == m->order;

	m->noted_order = given;
	m->noted_had = m->order;
	return given != m->order && is_again;
}

static void take_answer(struct fm_run *run, const struct fm_run_msg *msg)
{
	if (msg->from != run->root || msg->join != run->member.join)
		return;
	run->member.heard_ns = run->now_ns;
	if (msg->type == FM_RUN_RESYNC || is_order_lost(&run->member, msg->order)) {
		fm_run_join_again(run, false);
		return;
	}
	run->member.unanswered -= run->member.unanswered > 0;
	run->member.unheard -= run->member.unheard > 0;
}

void fm_run_member_take(struct fm_run *run, const struct fm_run_msg *msg)
{
	switch (msg->type) {
	case FM_RUN_RESYNC:
	case FM_RUN_NOTED:
		take_answer(run, msg);
		break;
	case FM_RUN_OFFER:
		on_offer(run, msg);
		break;
	case FM_RUN_PASS:
		on_pass(run, msg);
		break;
	case FM_RUN_GET:
		fm_run_get(run, msg);
		break;
	case FM_RUN_NONE:
		on_none(run, msg);
		break;
	default:
		take_order(run, msg);
	}
}

/* How long an extent may take to come: longer, where the last ones took too long. */
static uint64_t time_for(const struct fm_run *run, const struct slot *s)
{
	const struct member *m = &run->member;
	bool is_fetch = s->giver == FM_RUN_NOBODY;
	unsigned late = is_fetch ? m->fetches_failed : m->giver[s->giver].late;
	unsigned pace = is_fetch ? m->giver[s->from].fetch_pace : m->giver[s->giver].pace;

	late = late < LATE_MAX ? late : LATE_MAX;
	return run->times->fetch << (late > pace ? late : pace);
}

/* The slots whose extents take too long: all of them are found before the first is counted. */
static uint64_t late_slots(const struct fm_run *run)
{
	uint64_t late = 0;

	for (unsigned i = 0; i < FM_RUN_SLOTS; i++) {
		const struct slot *s = &run->member.slot[i];

		if (s->use == SLOT_RECEIVING && run->now_ns > s->since_ns + time_for(run, s))
			late |= bit(i);
	}
	return late;
}

void fm_run_member_tick(struct fm_run *run)
{
	struct member *m = &run->member;
	uint64_t late = late_slots(run);

	for (unsigned i = 0; i < FM_RUN_SLOTS; i++) {
		struct slot *s = &m->slot[i];

		if (s->use == SLOT_HELD) {
			fm_run_slot_settle(run, s);
		} else if (late & bit(i)) {
			run->world->cancel_receive(run->ctx, i);
			fm_run_coming_failed(run, s, -ETIMEDOUT);
		}
	}
	fm_run_slots_offer(run);
	if (run->now_ns >= m->pulse_ns)
		send_state(run, FM_RUN_PULSE);
}
