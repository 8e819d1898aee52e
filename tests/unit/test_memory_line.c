/* SPDX-License-Identifier: MIT */
/*
 * memory_line: whose extent has the memory that becomes free.
 *
 * The clock of these loops stands still: what is served by and by, after a time, is not served.
 *
 * links: fm_staging_service
 */
#include <pthread.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/node/node.h"
#include "staging/chunk.h"
#include "staging/service/memory_line.h"
#include "tests/fm_test.h"

#define MOST 7000u		/* and what is left, and an eighth for sessions */
#define ASKS 8

static uint64_t stands_still(void *ctx)
{
	(void)ctx;
	return 1000;
}

static const struct fm_clock clock_of_test = { stands_still, NULL };
static struct fm_engine engine;
static struct fm_memory_line line;
static struct fm_memory_turn turn[2];
static struct fm_memory_ask asked[ASKS];
static char order[ASKS + 1];

static void given(struct fm_memory_ask *ask)
{
	order[strlen(order)] = (char)('a' + (ask - asked));
}

static void begin(void)
{
	const struct fm_loop_opts opts = { .clock = &clock_of_test, .is_simulated = true };
	const uint64_t most = MOST + FM_STAGE_LEFT;
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &engine.env.loop, &err), 0);
	fm_budget_set(most / 7 * 8 + most % 7);
	CU_ASSERT_EQUAL(fm_budget_most(), most);
	fm_memory_line_init(&line, &engine);
	fm_memory_turn_init(&turn[0]);
	fm_memory_turn_init(&turn[1]);
	memset(order, 0, sizeof(order));
}

static void ask(unsigned number, unsigned run, size_t bytes)
{
	asked[number] = (struct fm_memory_ask){ .bytes = bytes, .given = given };
	fm_memory_ask(&line, &turn[run], &asked[number]);
}

/* As long as something is to be done now. */
static void step(void)
{
	while (fm_loop_next_ns(engine.env.loop) == 0)
		(void)fm_loop_step(engine.env.loop, 0);
}

static void *give(void *bytes)
{
	fm_budget_give(*(size_t *)bytes);
	return NULL;
}

/* Workers give memory back, not the loop. */
static void give_elsewhere(size_t bytes)
{
	pthread_t thread;

	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, give, &bytes), 0);
	(void)pthread_join(thread, NULL);
	step();
}

static void end(uint64_t taken)
{
	CU_ASSERT_EQUAL(fm_budget_used(), taken);
	if (!fm_memory_line_stop(&line))
		step();
	CU_ASSERT_TRUE(fm_memory_line_stop(&line));
	fm_budget_give(taken);		/* calls nobody any more */
	CU_ASSERT_EQUAL(fm_loop_next_ns(engine.env.loop), FM_NEVER);
	fm_loop_free(engine.env.loop);
	fm_budget_set(UINT64_MAX);
}

/* Goal: who finds none goes on when there is some, not after a time, and not before. */
static void test_event(void)
{
	begin();
	ask(0, 0, 5000);
	CU_ASSERT_STRING_EQUAL(order, "a");
	ask(1, 0, 4000);
	step();
	CU_ASSERT_STRING_EQUAL(order, "a");
	CU_ASSERT_EQUAL(fm_loop_next_ns(engine.env.loop), FM_NEVER);	/* no timer either */
	give_elsewhere(1000);
	CU_ASSERT_STRING_EQUAL(order, "a");	/* 3000 are there */
	give_elsewhere(1000);
	CU_ASSERT_STRING_EQUAL(order, "ab");
	end(7000);
}

/* Goal: what an extent needs to be written is there, however much waits. */
static void test_left(void)
{
	begin();
	ask(0, 0, MOST);
	CU_ASSERT_STRING_EQUAL(order, "a");
	ask(1, 0, 1);
	CU_ASSERT_TRUE(fm_budget_take(FM_STAGE_LEFT));
	give_elsewhere(FM_STAGE_LEFT);
	CU_ASSERT_STRING_EQUAL(order, "a");
	give_elsewhere(1);
	CU_ASSERT_STRING_EQUAL(order, "ab");
	end(MOST);
}

/* Goal: a run that asks for much has one turn, as another one has. */
static void test_turns(void)
{
	begin();
	ask(0, 0, 7000);
	for (unsigned i = 1; i < 5; i++)
		ask(i, 0, 1000);
	ask(5, 1, 1000);
	ask(6, 1, 1000);
	give_elsewhere(1000);
	give_elsewhere(1000);
	CU_ASSERT_STRING_EQUAL(order, "abf");
	give_elsewhere(5000);
	CU_ASSERT_STRING_EQUAL(order, "abfcgde");
	end(6000);
}

/* Goal: a large extent is not overtaken for ever, nor by one that comes when there is some. */
static void test_large(void)
{
	begin();
	ask(0, 0, 6000);
	ask(1, 0, 5000);
	ask(2, 1, 500);
	step();
	CU_ASSERT_STRING_EQUAL(order, "a");
	give_elsewhere(4000);
	CU_ASSERT_STRING_EQUAL(order, "ab");
	give_elsewhere(500);
	CU_ASSERT_STRING_EQUAL(order, "abc");
	end(7000);
}

/* Goal: if the first goes away, what is behind it is served; nobody else gives anything. */
static void test_withdrawn(void)
{
	begin();
	ask(0, 0, 6000);
	ask(1, 0, 5000);
	ask(2, 1, 500);
	fm_memory_withdraw(&line, &turn[0], &asked[1]);
	CU_ASSERT_STRING_EQUAL(order, "a");	/* not within this call */
	step();
	CU_ASSERT_STRING_EQUAL(order, "ac");
	ask(3, 0, 5000);
	fm_memory_withdraw(&line, &turn[0], &asked[3]);
	end(6500);
}

static void ask_for(unsigned number, unsigned run, size_t bytes, const char *peer)
{
	asked[number] = (struct fm_memory_ask){ .bytes = bytes, .peer = peer, .given = given };
	fm_memory_ask(&line, &turn[run], &asked[number]);
}

static void let_go(unsigned number)
{
	fm_budget_give(asked[number].bytes);
	fm_memory_let_go(&line, &asked[number]);
}

/*
 * Goal: a peer that takes nothing has half at most, of which nobody else notices anything: neither
 * another peer in the same run, nor what is read here. It goes on when some of that is taken.
 */
static void test_peer(void)
{
	begin();
	for (unsigned i = 0; i < 4; i++)
		ask_for(i, 0, 1500, "m");
	step();
	CU_ASSERT_STRING_EQUAL(order, "ab");
	ask_for(4, 0, 1500, "n");
	ask(5, 1, 1000);
	CU_ASSERT_STRING_EQUAL(order, "abef");
	let_go(0);
	CU_ASSERT_STRING_EQUAL(order, "abef");	/* not within this call */
	step();
	CU_ASSERT_STRING_EQUAL(order, "abef");	/* what is left is less than a half by now */
	let_go(4);
	step();
	CU_ASSERT_STRING_EQUAL(order, "abefc");
	let_go(1);
	fm_memory_withdraw(&line, &turn[0], &asked[3]);
	fm_memory_let_go(&line, &asked[3]);	/* it has nothing */
	let_go(2);
	end(1000);
}

/* Goal: one that has nothing may have any one extent. */
static void test_one_at_least(void)
{
	begin();
	ask_for(0, 0, 4000, "m");
	ask_for(1, 1, 3000, "n");
	CU_ASSERT_STRING_EQUAL(order, "ab");
	ask_for(2, 0, 7000, "n");
	let_go(0);
	let_go(1);
	step();
	CU_ASSERT_STRING_EQUAL(order, "abc");
	let_go(2);
	end(0);
}

static const struct fm_test tests[] = {
	{ "when memory is given back", test_event },
	{ "some is left for writing", test_left },
	{ "runs take turns", test_turns },
	{ "a large one is not overtaken", test_large },
	{ "the first goes away", test_withdrawn },
	{ "a peer has a share", test_peer },
	{ "of one extent at least", test_one_at_least },
};
FM_TEST_MAIN("memory_line", tests)
