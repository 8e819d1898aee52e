/* SPDX-License-Identifier: MIT */
/*
 * lies - a peer that takes part in staging runs by a script: it tells one kind of lie, again and
 * again, and nothing else that is wrong. See peer.h.
 *
 * What it says is well formed, unless that is the lie; it fits what the daemon said of the run.
 */
#include <stdio.h>
#include <string.h>

#include "staging/cache.h"
#include "staging/run/encode.h"
#include "staging/service/keep.h"
#include "tests/hostile/peer.h"

#define JOIN_EVERY 20u		/* ticks: it begins its report anew so often, too */
#define PUTS 4u			/* at a time */
#define CARRY_TICKS 200u	/* that an extent may take to come */

struct lie {
	const char *name;
	void (*tell)(struct talk *t, struct stage_run *r, unsigned tick);
};

/* ---- what is said ---- */

static void say(struct talk *t, const uint8_t *run, enum fm_wire_stage_kind kind,
		const uint8_t *body, size_t len)
{
	static struct fm_wire_msg m;

	if (len == 0)
		return;
	m = (struct fm_wire_msg){.type = FM_WIRE_STAGE,
				 .stage = {.kind = (uint8_t)kind, .body = body, .len = len}};
	memcpy(m.stage.run, run, sizeof(m.stage.run));
	talk_say(t, &m);
}

static void say_about(struct talk *t, const struct stage_run *r, const struct fm_stage_about *is)
{
	static uint8_t body[FM_WIRE_STAGE_MAX];
	struct fm_stage_about a = *is;

	a.is_in = true;
	a.may_read = UINT64_MAX;
	(void)snprintf(a.job, sizeof(a.job), "%s", t->peer->job ? t->peer->job : "aaaaaaaa");
	say(t, r->run, FM_WIRE_STAGE_ABOUT, body, fm_stage_about_encode(&a, body));
}

static void say_is(struct talk *t, const uint8_t *run, const struct fm_stage_is *is)
{
	static uint8_t body[FM_WIRE_STAGE_MAX];

	say(t, run, FM_WIRE_STAGE_IS, body, fm_stage_is_encode(is, body));
}

static void say_run(struct talk *t, struct stage_run *r, struct fm_run_msg *m)
{
	static uint8_t body[FM_WIRE_STAGE_MAX];

	m->from = m->hops ? m->from : (uint8_t)r->self;
	m->to = (uint8_t)r->daemon;
	say(t, r->run, FM_WIRE_STAGE_RUN, body, fm_run_encode(m, body));
}

static void take_part(struct talk *t, struct stage_run *r)
{
	say_about(t, r, &r->about);
}

/* A report of itself: all extents, with CRCs that are made up, or none. */
static void join(struct talk *t, struct stage_run *r, const struct fm_run_state *state, bool has)
{
	struct fm_run_msg m = {.type = FM_RUN_JOIN, .join = ++r->join, .state = *state};

	r->heard_order = 0;
	say_run(t, r, &m);
	for (uint32_t first = 0; first < r->about.extents; first += FM_RUN_PAGE) {
		m = (struct fm_run_msg){
			.type = FM_RUN_PAGE_OF,
			.join = r->join,
			.page = {.first = first,
				 .is_last = first + FM_RUN_PAGE >= r->about.extents}};
		memset(m.page.bits, has ? 0xff : 0, sizeof(m.page.bits));
		say_run(t, r, &m);
	}
}

static void pulse(struct talk *t, struct stage_run *r, const struct fm_run_state *state)
{
	struct fm_run_msg m = {.type = FM_RUN_PULSE, .join = r->join, .state = *state};

	m.state.order = r->heard_order;
	say_run(t, r, &m);
}

static void report(struct talk *t, struct stage_run *r, const struct fm_run_state *state, bool has,
		   unsigned tick)
{
	take_part(t, r);
	if (tick % JOIN_EVERY == 0)
		join(t, r, state, has);
	pulse(t, r, state);
}

static struct fm_run_state state_of(const struct stage_run *r, enum fm_run_place place, bool has)
{
	return (struct fm_run_state){.place = (uint8_t)place,
				     .uploads = 4,
				     .have_count = has ? r->about.extents : 0,
				     .up = UINT64_C(1) << r->daemon | 0xf};
}

/* ---- the lies ---- */

/* It is in the run, and never says anything again. */
static void silent(struct talk *t, struct stage_run *r, unsigned tick)
{
	(void)tick;
	take_part(t, r);
}

/* It is READY, and what is asked for never comes. */
static void keep(struct talk *t, struct stage_run *r, unsigned tick)
{
	const struct fm_run_state s = state_of(r, FM_RUN_READY, true);

	report(t, r, &s, true, tick);
}

/* The same, and other bytes come than it said. */
static void forge(struct talk *t, struct stage_run *r, unsigned tick)
{
	const struct fm_run_state s = state_of(r, FM_RUN_SINK, true);
	static struct fm_wire_msg m;

	report(t, r, &s, true, tick);
	for (uint32_t e = 0; e < r->about.extents && e < FM_RUN_PAGE; e++) {
		struct fm_run_msg offer = {.type = FM_RUN_OFFER,
					   .extent = e,
					   .crc = (uint32_t)odds_next(&t->peer->odds),
					   .node = (uint8_t)r->self,
					   .nodes = UINT64_MAX};

		say_run(t, r, &offer);
	}
	for (unsigned i = 0; i < PUTS && t->peer->has_landing; i++)
		if (word_deed(t, &m))
			talk_say(t, &m);
}

/* It takes what it is to read, and never gives it back. */
static void hoard(struct talk *t, struct stage_run *r, unsigned tick)
{
	struct fm_run_state s = state_of(r, FM_RUN_PASSIVE, false);

	s.can_read = true;
	s.lease_count = FM_RUN_LEASES;
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		s.lease[i].extent = (tick + i) % r->about.extents;
	report(t, r, &s, false, tick);
}

/* Counts that do not fit each other, extents beyond the last. */
static void miscount(struct talk *t, struct stage_run *r, unsigned tick)
{
	struct fm_run_state s = state_of(r, FM_RUN_SINK, false);
	struct fm_run_msg m = {.type = FM_RUN_HAVE, .join = r->join};

	s.have_count = tick % 2 ? UINT32_MAX : r->about.extents - 1;
	s.lease_count = FM_RUN_LEASES;
	s.coming_count = FM_RUN_SLOTS;
	for (unsigned i = 0; i < FM_RUN_SLOTS; i++)
		s.coming[i] = (struct fm_run_coming){tick % 3 ? 0 : r->about.extents + i,
						     (uint8_t)(tick % 5 ? r->daemon : 63)};
	for (unsigned i = 0; i < FM_RUN_LEASES; i++)
		s.lease[i].extent = tick % 3 ? 0 : UINT32_MAX - i;
	r->heard_order += tick % 7 == 0;
	report(t, r, &s, tick % 2, tick);
	for (m.extent = r->about.extents - 1; m.extent < r->about.extents + 3; m.extent++)
		say_run(t, r, &m);
}

/* It gives orders, its own and such as another one seems to give. */
static void order(struct talk *t, struct stage_run *r, unsigned tick)
{
	const struct fm_run_state s = state_of(r, FM_RUN_SINK, false);

	report(t, r, &s, false, tick);
	for (uint8_t type = FM_RUN_LEASE; type < FM_RUN_MSG_TYPES; type++) {
		struct fm_run_msg m = {.type = type,
				       .hops = tick % 2,
				       .from = (uint8_t)(tick / 2 % r->about.count),
				       .node = (uint8_t)(tick % 3 ? r->self : 200),
				       .slot = tick % FM_RUN_SLOTS,
				       .shape = (uint8_t)tick,
				       .code = tick % 2 ? -5 : INT32_MIN,
				       .join = r->heard_join,
				       .order = ++r->order,
				       .extent = tick % 5 ? 0 : r->about.extents,
				       .nodes = UINT64_MAX};

		say_run(t, r, &m);
	}
}

static void carry_order(struct talk *t, struct stage_run *r, enum fm_run_msg_type type)
{
	struct fm_run_msg m = {.type = (uint8_t)type,
			       .join = r->joined,
			       .order = ++r->orders,
			       .node = (uint8_t)r->self,
			       .nodes = UINT64_C(1) << r->daemon};

	say_run(t, r, &m);
	r->since = 0;
}

/* The extent that is awaited, much too small. */
static bool carry_put(struct talk *t, struct stage_run *r)
{
	static struct fm_wire_msg m;

	t->peer->is_exact = true;
	if (!t->peer->has_landing || !word_deed(t, &m))
		return false;
	r->put = m.put.xfer;
	t->peer->done = 0;	/* each talk counts its transfers from the first */
	talk_say(t, &m);
	t->peer->has_landing = false;
	return true;
}

static void carry_step(struct talk *t, struct stage_run *r)
{
	if (r->step == 0) {
		t->peer->has_landing = false;
		carry_order(t, r, FM_RUN_CARRY);
		r->step = 1;
	} else if (r->step == 1 && carry_put(t, r)) {
		r->step = 2;
	} else if (r->step == 2 && t->peer->done == r->put) {
		carry_order(t, r, FM_RUN_INVITE);
		(void)fprintf(stderr, "%s: carried\n", r->about.path);
		r->step = 3;
	} else if (r->step < 3 && ++r->since > CARRY_TICKS) {	/* what it sent over has broken */
		carry_order(t, r, FM_RUN_REVOKE);
		r->step = 0;
	}
}

/*
 * It coordinates, and keeps nothing. It has the daemon pass on an extent, of which too little comes
 * while the daemon does not know how large it is, and then has it want the dataset: by then it
 * knows, and writes what it holds.
 */
static void carry(struct talk *t, struct stage_run *r, unsigned tick)
{
	const struct fm_run_state s = state_of(r, FM_RUN_PASSIVE, false);
	struct fm_stage_about a = r->about;

	a.wanted = UINT64_C(1) << r->daemon;
	say_about(t, r, &a);
	report(t, r, &s, false, tick);
	if (!r->is_joined)
		return;
	if (r->carried != r->joined) {
		r->carried = r->joined;
		r->step = r->orders = 0;
	}
	carry_step(t, r);
}

/* It has it, has lost it, has read it, has found it changed; it comes and goes. */
static void waver(struct talk *t, struct stage_run *r, unsigned tick)
{
	static const uint8_t reports[] = {FM_RUN_HAVE,	      FM_RUN_LOST,    FM_RUN_SENT,
					  FM_RUN_READ_FAILED, FM_RUN_CHECKED, FM_RUN_FETCH_FAILED};
	struct fm_stage_is is = {.place = (uint8_t)(tick % FM_RUN_PLACES),
				 .code = tick % 4 == 3 ? -4095 : 0,
				 .done = UINT64_MAX,
				 .read = UINT64_MAX,
				 .is_over = tick % 5 == 4};
	const struct fm_run_state s = state_of(r, (enum fm_run_place)is.place, tick % 2);

	(void)snprintf(is.path, sizeof(is.path), "/../../etc/hstl\033[2J");
	(void)snprintf(is.text, sizeof(is.text), "hstl\r\n\033[7m");
	report(t, r, &s, tick % 2, tick);
	for (unsigned i = 0; i < sizeof(reports); i++) {
		struct fm_run_msg m = {.type = reports[i],
				       .join = r->join,
				       .code = tick % 3 ? -5 : 0,
				       .number = tick,
				       .node = (uint8_t)r->daemon};

		say_run(t, r, &m);
	}
	say_is(t, r->run, &is);
}

/* Replaces what is there each time that it is there; both have the same length. */
static void swap(uint8_t *body, size_t len, const char *what, const char *by, size_t size)
{
	uint8_t *at = body;

	while ((at = memmem(at, (size_t)(body + len - at), what, size))) {
		memcpy(at, by, size);
		at += size;
	}
}

/* Names that lead elsewhere, or are none: the path, the name and the store of the source have two
 * letters. */
static void misname(struct talk *t, struct stage_run *r, unsigned tick)
{
	static const char names[][2] = {
		{'.', '.'}, {'/', 'x'}, {'\0', 'x'}, {'x', '\0'}, {'/', '/'}};
	static uint8_t body[FM_WIRE_STAGE_MAX];
	size_t len = fm_stage_about_encode(&r->about, body);

	take_part(t, r);
	if (len == 0)
		return;
	swap(body, len, r->about.path, names[tick % 5], 2);
	say(t, r->run, FM_WIRE_STAGE_ABOUT, body, len);
	len = fm_stage_about_encode(&r->about, body);
	body[77 + tick % 3] = 0xff;	/* source, count */
	say(t, r->run, FM_WIRE_STAGE_ABOUT, body, len);
	memset(body, tick % 2 ? 0xff : 'A', sizeof(body));
	say(t, r->run, FM_WIRE_STAGE_ABOUT, body, sizeof(body));
	say(t, r->run, FM_WIRE_STAGE_IS, body, sizeof(body));
}

/* The same run is of other sizes, from before it begins, until after it has ended. */
static void change(struct talk *t, struct stage_run *r, unsigned tick)
{
	struct fm_stage_about a = r->about;

	a.extents = tick % 2 ? a.extents + 1 + tick % 700 : 1;
	a.bytes = tick % 3 ? a.bytes / 2 : FM_STAGE_BYTES_MAX;
	a.entries = tick;
	say_about(t, r, &a);
}

/* Ever new runs, of which nobody wants anything. */
static void flood(struct talk *t, struct stage_run *r, unsigned tick)
{
	struct fm_stage_about a = r->about;
	struct stage_run other = *r;
	struct fm_cache_key key;

	(void)tick;
	take_part(t, r);
	for (unsigned i = 0; i < 64; i++) {
		a.listing[i % FM_SHA256_LEN] ^= (uint8_t)odds_next(&t->peer->odds);
		a.extents = one_in(&t->peer->odds, 4) ? FM_RUN_EXTENTS_MAX : 1;
		a.wanted = UINT64_MAX;
		if (fm_stage_about_key(&a, &key, other.run) == 0)
			say_about(t, &other, &a);
	}
}

/* Answers to what nobody asked, of runs that nobody has; puts of extents that nobody awaits. */
static void answer(struct talk *t, struct stage_run *r, unsigned tick)
{
	struct fm_stage_is is = {.place = FM_RUN_READY, .done = 1};
	struct fm_run_msg m = {.type = FM_RUN_GET, .slot = tick % FM_RUN_SLOTS, .join = tick};
	static struct fm_wire_msg put;
	struct stage_run other = *r;

	take_part(t, r);
	for (unsigned i = 0; i < 8; i++) {
		other.run[i] ^= (uint8_t)odds_next(&t->peer->odds);
		say_is(t, other.run, &is);
		say_run(t, &other, &m);
		m.type = i % 2 ? FM_RUN_NONE : FM_RUN_PASS;
		say_run(t, r, &m);
	}
	fm_landing_path(r->run, tick % 9, tick % 3 ? 0 : r->about.extents + tick, t->peer->landing);
	t->peer->has_landing = true;
	if (word_deed(t, &put))
		talk_say(t, &put);
}

/*
 * The names of another commit, and of none, for one of a hub: as if it knew better than the source
 * what they are. The last one it does know, so that it shows that it is heard.
 */
static void show(struct talk *t, struct stage_run *r, unsigned tick)
{
	static const char *const revisions[] = {"main", "made-up", "made/up", "known"};
	static uint8_t body[FM_WIRE_STAGE_MAX];
	struct fm_stage_keep k = {.id = tick + 1, .verb = FM_STAGE_SHOW};
	uint8_t run[FM_WIRE_STAGE_RUN_LEN];

	(void)snprintf(k.name, sizeof(k.name), "%s", revisions[tick % 4]);
	if (!r->about.is_hub || fm_stage_about_key(&r->about, &k.key, run) < 0)
		return;
	memset(run, 0, sizeof(run));
	say(t, run, FM_WIRE_STAGE_KEEP, body, fm_stage_keep_encode(&k, body));
}

static const struct lie lies[] = {
	{"silent", silent},   {"keep", keep},	  {"forge", forge}, {"hoard", hoard},
	{"miscount", miscount}, {"order", order},   {"waver", waver}, {"misname", misname},
	{"change", change},   {"flood", flood},	  {"answer", answer}, {"show", show},
	{"carry", carry}};

const struct lie *lie_find(const char *name)
{
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		if (strcmp(lies[i].name, name) == 0)
			return &lies[i];
	return NULL;
}

void lie_tell(struct talk *t)
{
	struct peer *p = t->peer;
	unsigned tick;

	if (p->counts.runs == 0)
		return;
	tick = p->ticks++;
	if (tick == 0)
		p->until_ns = after(p, p->run_ns);
	for (unsigned i = 0; i < STAGES_MAX; i++)
		if (p->stages[i].is_used)
			p->lie->tell(t, &p->stages[i], tick);
}
