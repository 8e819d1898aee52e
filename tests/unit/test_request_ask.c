/* SPDX-License-Identifier: MIT */
/* links: fm_services */
/* test_request_ask - in whose name a request is made, and who has its place. */
#include "mover/services/request_ask.c"

#include <stdlib.h>

#include "mover/node/node.h"
#include "tests/fm_test.h"

static struct fm_requests all;

static void setup(void)
{
	const struct fm_share_limits limits = { .what = "places", .total = 8, .times = 1 };

	fm_share_init(&all.places, &limits);
	fm_share_init(&all.peer_places, &limits);
}

/* A peer says a user's number, which may be that of a user here: neither rights nor places. */
static void test_for_peer(void)
{
	const struct fm_request_opts o = { .store = "s", .who = { "b", 1000, 1000 } };
	struct fm_share_held place = { 0 };
	struct fm_request r = { .code = 0 };
	struct fm_err err;

	setup();
	CU_ASSERT_EQUAL_FATAL(take_place(&all, &o.who, &place, &err), 0);
	CU_ASSERT_EQUAL(fm_share_of(&all.places, fm_share_user(1000)), 0);
	CU_ASSERT_EQUAL(fm_share_of(&all.peer_places, fm_share_name("b")), 1);
	fm_share_give_all(&place);
	take_opts(&r, &o);
	CU_ASSERT_TRUE_FATAL(r.who.peer == r.who_peer);
	CU_ASSERT_STRING_EQUAL(r.who.peer, "b");
}

static void test_for_user(void)
{
	const struct fm_request_opts o = { .store = "s", .who = { NULL, 1000, 1000 } };
	struct fm_share_held place = { 0 };
	struct fm_request r = { .code = 0 };
	struct fm_err err;

	setup();
	CU_ASSERT_EQUAL_FATAL(take_place(&all, &o.who, &place, &err), 0);
	CU_ASSERT_EQUAL(fm_share_of(&all.places, fm_share_user(1000)), 1);
	fm_share_give_all(&place);
	take_opts(&r, &o);
	CU_ASSERT_PTR_NULL(r.who.peer);
}

/* ---- what another node said ---- */

static const struct fm_service *const services[] = { &fm_request_service, NULL };

static void take_result(void *ctx, const struct fm_request_result *result)
{
	*(struct fm_err *)ctx = result->err;
}

/* Asks a node, which then says no, or is lost for the same code. */
static struct fm_err ask(bool is_answered)
{
	static struct fm_wire_msg m;
	struct fm_engine *e = calloc(1, sizeof(*e));
	struct fm_session *s = calloc(1, sizeof(*s));
	struct fm_err got = { 0 }, err = { 0 };
	struct fm_request *r;

	CU_ASSERT_FATAL(e && s);
	e->env.services = services;
	CU_ASSERT_EQUAL_FATAL(fm_services_init(e, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&(struct fm_loop_opts){ 0 }, &e->env.loop, NULL), 0);
	s->engine = e;
	(void)snprintf(s->name, sizeof(s->name), "b");
	r = fm_request_new(e, "x", 1, NULL, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r);
	r->is_ours = true;
	r->session = s;
	r->id = 7;
	r->verb = FM_VERB_STAT;
	r->done = take_result;
	r->ctx = &got;
	m.type = FM_WIRE_REPLY;
	m.reply = (struct fm_wire_reply){ .id = 7, .code = EACCES, .text = fm_wire_str("no") };
	if (is_answered) {
		fm_request_on_reply(s, &m);
	} else {
		(void)fm_err_set(&err, -EACCES, "b: this node's key is not known there");
		fm_request_service.session_lost(s, &err);
	}
	while (!fm_request_service.is_idle(e))
		fm_loop_step(e->env.loop, FM_NEVER);
	fm_loop_free(e->env.loop);
	fm_services_free(e);
	free(s);
	free(e);
	return got;
}

/* Who has its word that he may not read takes it for his right elsewhere, too. */
static void test_said_no(void)
{
	struct fm_err err = ask(true);

	CU_ASSERT_EQUAL(err.code, -EACCES);
	CU_ASSERT_TRUE(err.is_rule);
	CU_ASSERT_STRING_EQUAL(err.text, "b: no");
	err = ask(false);
	CU_ASSERT_EQUAL(err.code, -EACCES);
	CU_ASSERT_FALSE(err.is_rule);
}

static const struct fm_test tests[] = {
	{ "what a service asks for a peer is asked in the peer's name", test_for_peer },
	{ "what a user asks is asked in the user's name", test_for_user },
	{ "a node that says no is told from one that does not talk", test_said_no },
};
FM_TEST_MAIN("request_ask", tests)
