/* SPDX-License-Identifier: MIT */
/*
 * test_hub_find - the nodes that are asked who has a repository are peers, and may answer anything.
 *
 * The requests are answered here, by a peer that names one store behind the other.
 */
#define fm_request_start answer_later
#include "staging/service/hub_find.c"

#include "tests/fm_test.h"

static struct {
	struct fm_request_opts o;
	void (*done)(void *ctx, const struct fm_request_result *r);
	void *ctx;
	bool is_waiting;
} asked;
static unsigned requests;

int answer_later(struct fm_engine *engine, const struct fm_request_opts *o,
		 void (*done)(void *ctx, const struct fm_request_result *r), void *ctx,
		 struct fm_err *err)
{
	(void)engine;
	(void)err;
	CU_ASSERT_FALSE(asked.is_waiting);
	asked.o = *o;
	asked.done = done;
	asked.ctx = ctx;
	asked.is_waiting = true;
	return 0;
}

/* Names a store behind the last one, which may be read and has nothing. */
static void answer(void)
{
	struct fm_space_page page = { .space.may_read = true };
	struct fm_request_result r = { .code = 0, .page = &page };
	char name[32];

	requests++;
	(void)snprintf(name, sizeof(name), "s%09u", requests);
	asked.is_waiting = false;
	if (asked.o.verb == FM_VERB_LIST)
		r.code = -ENOENT;
	else
		r.store = name;
	asked.done(asked.ctx, &r);
}

static void found_none(void *ctx, const struct fm_hub_found *found)
{
	*(int *)ctx = found->err.code;
}

static void test_endless_stores(void)
{
	const struct fm_hub_name name = { .dir = "models--org--name", .revision = "main" };
	const struct fm_who who = { .uid = 1 };
	struct fm_engine engine = { .name = "n1" };
	struct fm_err err;
	int code = 0;

	fm_list_init(&engine.peers);
	CU_ASSERT_EQUAL_FATAL(fm_hub_find(&engine, &name, &who, found_none, &code, &err), 0);
	while (asked.is_waiting && requests < 4 * FM_STORES_MAX)
		answer();
	CU_ASSERT_EQUAL(code, -ENOENT);
	CU_ASSERT_FALSE(asked.is_waiting);
	CU_ASSERT_EQUAL(requests, 2 * FM_STORES_MAX + 1);
}

static const struct fm_test tests[] = {
	{ "a node that names stores without end is asked no more", test_endless_stores },
};

int main(void)
{
	return fm_test_main("hub_find", tests, sizeof(tests) / sizeof(tests[0]));
}
