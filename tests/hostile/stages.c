/* SPDX-License-Identifier: MIT */
/*
 * stages - what the hostile peer says of staging runs: of such as the daemon told it of, and of its
 * own. See peer.h.
 *
 * It takes part well enough to be asked for extents and sent some, and in between orders, reports
 * and claims anything.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "staging/cache.h"
#include "staging/run/encode.h"
#include "staging/service/keep.h"
#include "staging/service/named.h"
#include "staging/service/landing.h"
#include "staging/service/there.h"
#include "tests/hostile/peer.h"

/* ---- which runs ---- */

static struct stage_run *find_run(struct peer *p, const uint8_t *run)
{
	for (unsigned i = 0; i < STAGES_MAX; i++)
		if (p->stages[i].is_used &&
		    memcmp(p->stages[i].run, run, FM_WIRE_STAGE_RUN_LEN) == 0)
			return &p->stages[i];
	return NULL;
}

static unsigned find_node(const struct fm_stage_about *a, const char *name)
{
	unsigned n = 0;

	while (n < a->count && strcmp(a->node[n], name) != 0)
		n++;
	return n < a->count ? n : 0;
}

/* Instead of one that was known, perhaps. */
static struct stage_run *add_run(struct peer *p, const struct fm_stage_about *a)
{
	struct stage_run *r = &p->stages[below(&p->odds, STAGES_MAX)];
	struct fm_cache_key key;

	*r = (struct stage_run){
		.is_used = true, .about = *a, .join = (uint32_t)any_number(&p->odds)};
	if (fm_stage_about_key(a, &key, r->run) < 0)
		r->is_used = false;
	r->self = find_node(a, p->name);
	r->daemon = find_node(a, "n1");
	return r;
}

/* An earlier one in the order of letters is taken over by who has another. */
static void make_up_job(struct fm_stage_about *a, struct odds *o)
{
	(void)snprintf(a->job, sizeof(a->job), "%c%chostil", 'a' + (char)below(o, 26),
		       'a' + (char)below(o, 26));
}

static void make_up(struct peer *p, struct fm_stage_about *a)
{
	static const char *const names[] = {"h1", "h2", "n1", "n2"};
	static const char *const stores[] = {"s", "read", "own", "ours", "nowhere"};
	static const char *const paths[] = {"kept-set", "kept-set/d", "hstl-t1", "nowhere"};
	struct odds *o = &p->odds;

	*a = (struct fm_stage_about){.entries = below(o, 9),
				     .bytes = one_in(o, 4) ? any_number(o) % FM_STAGE_BYTES_MAX
							   : below(o, 1u << 20),
				     .extents = 1 + (uint32_t)below(o, 4)};
	if (one_in(o, 8))
		a->extents = FM_RUN_EXTENTS_MAX;
	a->listing[0] = (uint8_t)below(o, 8);
	for (unsigned i = 0; i < 4; i++)
		if (strcmp(names[i], p->name) == 0 || strcmp(names[i], "n1") == 0 || one_in(o, 2))
			(void)snprintf(a->node[a->count++], sizeof(a->node[0]), "%s", names[i]);
	a->source = (unsigned)below(o, a->count);
	make_up_job(a, o);
	(void)snprintf(a->store, sizeof(a->store), "%s", stores[below(o, 5)]);
	(void)snprintf(a->path, sizeof(a->path), "%s", paths[below(o, 4)]);
	(void)snprintf(a->name, sizeof(a->name), "%s", one_in(o, 4) ? "hstl\033[7m" : "hstl-set");
	(void)snprintf(a->shared, sizeof(a->shared), "%s", one_in(o, 3) ? "nfs1" : "");
	a->is_hub = one_in(o, 6);
	if (!a->is_hub)
		return;
	a->shared[0] = '\0';
	(void)snprintf(a->path, sizeof(a->path), "models--hstl--m@%040llx",
		       (unsigned long long)below(o, 4));
}

static struct stage_run *any_run(struct peer *p)
{
	struct stage_run *r = &p->stages[below(&p->odds, STAGES_MAX)];
	struct fm_stage_about a;

	if (r->is_used && !one_in(&p->odds, 200))
		return r;
	make_up(p, &a);
	return add_run(p, &a);
}

/* ---- what is said of them ---- */

static uint64_t any_nodes(struct odds *o)
{
	return one_in(o, 4) ? odds_next(o) : below(o, 16);
}

static void any_state(struct stage_run *r, struct odds *o, struct fm_run_state *st)
{
	*st = (struct fm_run_state){
		.place = one_in(o, 2) ? FM_RUN_SINK : (uint8_t)below(o, FM_RUN_PLACES),
		.can_read = one_in(o, 3),
		.uploads = (uint8_t)(1 + below(o, FM_RUN_UPLOADS_MAX)),
		.code = one_in(o, 4) ? -(int32_t)below(o, 200) : 0,
		.order = one_in(o, 4) ? (uint32_t)any_number(o) : r->heard_order,
		.have_count = (uint32_t)below(o, r->about.extents + 1),
		.up = any_nodes(o) | 0xf,
		.wanted = one_in(o, 4) ? any_nodes(o) : 0,
		.lease_count = (uint8_t)below(o, FM_RUN_LEASES + 1),
		.coming_count = (uint8_t)below(o, FM_RUN_SLOTS + 1)};
	for (unsigned i = 0; i < st->lease_count; i++)
		st->lease[i] = (struct fm_run_held){(uint32_t)below(o, r->about.extents + 1),
						    one_in(o, 2)};
	for (unsigned i = 0; i < st->coming_count; i++)
		st->coming[i] = (struct fm_run_coming){(uint32_t)below(o, r->about.extents + 1),
						       (uint8_t)any_number(o)};
}

static void any_page(struct stage_run *r, struct odds *o, struct fm_run_page *page)
{
	*page = (struct fm_run_page){
		.first = (uint32_t)below(o, r->about.extents / FM_RUN_PAGE + 2) * FM_RUN_PAGE,
		.is_last = one_in(o, 2)};
	for (unsigned i = 0; i < FM_RUN_PAGE; i++) {
		page->bits[i / 8] |= (uint8_t)(one_in(o, 2) << (i % 8));
		page->crc[i] = (uint32_t)below(o, 3);
	}
}

/* What a member, or the coordinator, says of itself mostly fits what was heard. */
static void any_numbers(struct stage_run *r, struct odds *o, struct fm_run_msg *m)
{
	bool is_order = m->type >= FM_RUN_LEASE;

	m->join = is_order ? r->heard_join : r->join;
	m->order = is_order ? ++r->order : 0;
	if (m->type == FM_RUN_JOIN)
		r->join = m->join = one_in(o, 4) ? r->join + 1 : r->join;
	if (one_in(o, 16))
		m->join = (uint32_t)any_number(o);
	if (one_in(o, 16))
		m->order = (uint32_t)any_number(o);
	if (m->type == FM_RUN_NOTED || m->type == FM_RUN_RESYNC)
		r->order--;
}

static int32_t any_code(struct odds *o)
{
	static const int32_t codes[] = {0, 0, 0, 1, -EBUSY, -EIO, -ESTALE, -EBADMSG, INT32_MIN};

	return codes[one_in(o, 20) ? below(o, 9) : below(o, 6)];
}

static void make_run_msg(struct stage_run *r, struct odds *o, struct fm_run_msg *m)
{
	static const uint8_t often[] = {FM_RUN_LINKS, FM_RUN_JOIN, FM_RUN_PAGE_OF, FM_RUN_PULSE,
					FM_RUN_GET,   FM_RUN_GET,  FM_RUN_OFFER,   FM_RUN_LEASE};
	bool is_passed_on = one_in(o, 8);

	*m = (struct fm_run_msg){
		.type = one_in(o, 3) ? (uint8_t)below(o, FM_RUN_MSG_TYPES) : often[below(o, 8)],
		.from = (uint8_t)(is_passed_on ? below(o, FM_RUN_NODES_MAX) : r->self),
		.to = (uint8_t)(one_in(o, 8) ? below(o, FM_RUN_NODES_MAX) : r->daemon),
		.hops = is_passed_on,
		.node = (uint8_t)(one_in(o, 8) ? any_number(o) : below(o, 5)),
		.slot = (uint8_t)below(o, FM_RUN_SLOTS),
		.shape = (uint8_t)below(o, 8),
		.code = any_code(o),
		.extent = (uint32_t)(one_in(o, 16) ? any_number(o) : below(o, r->about.extents)),
		.crc = (uint32_t)below(o, 3),
		.number = (uint32_t)any_number(o),
		.nodes = any_nodes(o)};
	if (m->type == FM_RUN_END && !one_in(o, 8))
		m->type = FM_RUN_NOTED;
	any_numbers(r, o, m);
	if (m->type == FM_RUN_JOIN || m->type == FM_RUN_PULSE)
		any_state(r, o, &m->state);
	else if (m->type == FM_RUN_PAGE_OF)
		any_page(r, o, &m->page);
}

static size_t make_about(struct stage_run *r, struct odds *o, uint8_t *body)
{
	struct fm_stage_about a = r->about;

	if (one_in(o, 2))
		make_up_job(&a, o);
	a.uid = one_in(o, 2) ? 0 : 1000;
	a.gid = a.uid;
	a.wanted = one_in(o, 2) ? any_nodes(o) : 0;
	a.may_read = one_in(o, 2) ? UINT64_MAX : any_nodes(o);
	a.is_in = !one_in(o, 8);
	return fm_stage_about_encode(&a, body);
}

static size_t make_is(struct odds *o, uint8_t *body)
{
	struct fm_stage_is is = {.place = (uint8_t)below(o, FM_RUN_PLACES),
				 .code = one_in(o, 30) ? -(int)below(o, 4096) : 0,
				 .done = any_number(o),
				 .read = any_number(o)};

	(void)snprintf(is.path, sizeof(is.path), "%s", one_in(o, 2) ? "/\033[2J" : "");
	(void)snprintf(is.text, sizeof(is.text), "%s", one_in(o, 2) ? "hstl\r\nx" : "");
	return fm_stage_is_encode(&is, body);
}

static size_t make_run(struct stage_run *r, struct odds *o, uint8_t *body)
{
	struct fm_run_msg m;

	make_run_msg(r, o, &m);
	return fm_run_encode(&m, body);
}

/* A question about datasets, or an answer to one that the daemon may have asked. */
static size_t make_there(struct odds *o, uint8_t kind, uint8_t *body)
{
	struct fm_stage_question q = {.id = below(o, 8), .count = 1 + (unsigned)below(o, 3)};
	struct fm_stage_answer a = {.id = below(o, 8), .count = (unsigned)below(o, 3)};

	for (unsigned i = 0; i < a.count; i++)
		a.at[i].state = (uint8_t)below(o, FM_STAGE_THERE_STATES);
	return kind == FM_WIRE_STAGE_ASK ? fm_stage_question_encode(&q, body)
					 : fm_stage_answer_encode(&a, body);
}

/* Something to be kept, of a run that both know, or an answer that nobody awaits. */
static size_t make_keep(struct stage_run *r, struct odds *o, uint8_t kind, uint8_t *body)
{
	struct fm_stage_kept kept = {.id = below(o, 8), .code = -(int)below(o, 3), .text = "\033"};
	struct fm_stage_keep k = {.id = below(o, 8),
				  .verb = 1 + (unsigned)below(o, FM_STAGE_VERB_LAST),
				  .uid = one_in(o, 2) ? 0 : 1000};
	static const char *const revisions[] = {"main", "pr/1", "refs/x", "v1.0"};
	bool is_of_hold = k.verb == FM_STAGE_HOLD || k.verb == FM_STAGE_RELEASE;
	uint8_t run[FM_WIRE_STAGE_RUN_LEN];

	if (kind == FM_WIRE_STAGE_KEPT)
		return fm_stage_kept_encode(&kept, body);
	if (is_of_hold)
		k.hold = 1 + below(o, 1000);
	if (k.verb != FM_STAGE_RELEASE && one_in(o, 2))
		(void)snprintf(k.job, sizeof(k.job), "%s", "hostile2");
	if (k.verb == FM_STAGE_SHOW)
		(void)snprintf(k.name, sizeof(k.name), "%s", revisions[below(o, 4)]);
	if (k.verb == FM_STAGE_HOLD || k.verb == FM_STAGE_SHOW || k.verb == FM_STAGE_LET ||
	    (k.verb == FM_STAGE_PIN && one_in(o, 2)))
		(void)fm_stage_about_key(&r->about, &k.key, run);
	else if (!is_of_hold)
		(void)snprintf(k.name, sizeof(k.name), "%.200s", r->about.name);
	return fm_stage_keep_encode(&k, body);
}

/* Who may read a store, or names that the daemon may have asked for. */
static size_t make_named(const struct stage_run *r, struct odds *o, uint8_t kind, uint8_t *body)
{
	static const char *const names[] = {"root", "nobody", "no such one", "\033[2J"};
	static struct fm_stage_named n;

	n.code = one_in(o, 4) ? -(int)below(o, 200) : 0;
	n.count = 0;
	(void)snprintf(n.store, sizeof(n.store), "%s", r->about.store);
	for (unsigned i = n.code == 0 ? (unsigned)below(o, FM_STAGE_NAMED_MAX + 1) : 0; i > 0; i--)
		fm_stage_named_add(&n, (enum fm_access_kind)(1 + below(o, 2)), 0,
				   names[below(o, 4)]);
	return kind == FM_WIRE_STAGE_WHO ? fm_stage_who_encode(r->about.store, body)
					 : fm_stage_named_encode(&n, body);
}

void stage_word(struct talk *t, struct fm_wire_stage *m)
{
	static uint8_t body[FM_WIRE_STAGE_MAX];
	struct odds *o = &t->peer->odds;
	struct stage_run *r = any_run(t->peer);
	size_t len;

	*m = (struct fm_wire_stage){.kind = FM_WIRE_STAGE_RUN, .body = body};
	memcpy(m->run, r->run, sizeof(m->run));
	if (one_in(o, 16)) {
		m->kind = FM_WIRE_STAGE_ABOUT;
		len = make_about(r, o, body);
	} else if (one_in(o, 16)) {
		m->kind = FM_WIRE_STAGE_IS;
		len = make_is(o, body);
	} else if (one_in(o, 16)) {
		m->kind = one_in(o, 2) ? FM_WIRE_STAGE_ASK : FM_WIRE_STAGE_SAYS;
		len = make_there(o, m->kind, body);
	} else if (one_in(o, 16)) {
		m->kind = one_in(o, 8) ? FM_WIRE_STAGE_KEPT : FM_WIRE_STAGE_KEEP;
		len = make_keep(r, o, m->kind, body);
	} else if (one_in(o, 16)) {
		m->kind = one_in(o, 2) ? FM_WIRE_STAGE_WHO : FM_WIRE_STAGE_NAMED;
		len = make_named(r, o, m->kind, body);
	} else {
		len = make_run(r, o, body);
	}
	if (len > 0 && one_in(o, 20 * t->manners))
		body[below(o, len)] ^= (uint8_t)(1u << below(o, 8));
	m->len = len > 0 ? len : 1;
}

/* ---- what is heard ---- */

/* An extent that is awaited of us is one that we may send; one that is offered, we ask for. */
static void hear_run(struct peer *p, struct stage_run *r, const struct fm_wire_stage *in)
{
	struct fm_run_msg m;

	if (fm_run_decode(in->body, in->len, &m) < 0) {
		(void)fprintf(stderr, "the daemon sent a word of a run that is none\n");
		exit(1);
	}
	if (m.type <= FM_RUN_CHECKED && m.type != FM_RUN_LINKS) {
		r->order = m.join == r->heard_join ? r->order : 0;
		r->heard_join = m.join;
		if (m.from == r->daemon) {
			r->is_joined = true;
			r->joined = m.join;
		}
	} else if (m.type >= FM_RUN_LEASE && m.type <= FM_RUN_END) {
		r->heard_order = m.order;
	}
	if (m.type != FM_RUN_GET)
		return;
	p->has_landing = true;
	fm_landing_path(r->run, m.slot, m.extent, p->landing);
}

void stage_hear(struct talk *t, const struct fm_wire_stage *in)
{
	struct peer *p = t->peer;
	struct stage_run *r = find_run(p, in->run);
	struct fm_stage_about a;

	if (in->kind == FM_WIRE_STAGE_RUN && r)
		hear_run(p, r, in);
	if (in->kind != FM_WIRE_STAGE_ABOUT || r ||
	    fm_stage_about_decode(in->body, in->len, &a) < 0 ||
	    (p->of && strcmp(a.path, p->of) != 0))
		return;
	(void)add_run(p, &a);
	p->counts.runs++;
}
