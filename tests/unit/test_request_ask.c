/* SPDX-License-Identifier: MIT */
/* links: fm_services */
/* test_request_ask - in whose name a request is made, and who has its place. */
#include "mover/services/request_ask.c"

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

static const struct fm_test tests[] = {
	{ "what a service asks for a peer is asked in the peer's name", test_for_peer },
	{ "what a user asks is asked in the user's name", test_for_user },
};
FM_TEST_MAIN("request_ask", tests)
