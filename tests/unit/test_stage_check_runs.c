/* SPDX-License-Identifier: MIT */
/*
 * Checks of datasets that are under way: of one dataset one after the other, and none waits that is
 * stopped. links: fm_staging_service
 */
#include "tests/fm_test.h"

#include "mover/base/loop.h"
#include "mover/node/node.h"
#include "staging/service/check_runs.h"

#define COUNT 4u

static struct fm_engine engine;
static struct fm_stage_check_runs runs;
static struct fm_stage_check_run run[COUNT];
static unsigned turns[COUNT];

static void turn(struct fm_stage_check_run *r)
{
	turns[r - run]++;
}

static void begin(void)
{
	memset(turns, 0, sizeof(turns));
	fm_stage_check_runs_init(&runs, &engine);
	runs.is_stopping = false;
	for (unsigned i = 0; i < COUNT; i++)
		fm_stage_check_run_begin(&runs, &run[i], 1000 + i);
}

static void enter(unsigned i, uint64_t id)
{
	fm_stage_check_run_enter(&run[i], id, turn);
}

static bool are(unsigned a, unsigned b, unsigned c, unsigned d)
{
	return turns[0] == a && turns[1] == b && turns[2] == c && turns[3] == d;
}

static void end_all(void)
{
	while (!fm_list_is_empty(&runs.all))
		fm_stage_check_run_end(
			fm_container_of(runs.all.next, struct fm_stage_check_run, at));
}

static void test_one_after_the_other(void)
{
	begin();
	enter(1, 7);
	enter(0, 7);
	enter(2, 8);	/* another dataset */
	enter(3, 7);
	CU_ASSERT_TRUE(are(0, 1, 1, 0));
	fm_stage_check_run_end(&run[2]);
	CU_ASSERT_TRUE(are(0, 1, 1, 0));
	fm_stage_check_run_end(&run[1]);
	CU_ASSERT_TRUE(are(1, 1, 1, 0));
	fm_stage_check_run_end(&run[0]);
	CU_ASSERT_TRUE(are(1, 1, 1, 1));
	fm_stage_check_run_end(&run[3]);
	CU_ASSERT_TRUE(fm_list_is_empty(&runs.all));
}

/* Its client went: it ends at once, and another one still waits for the first. */
static void test_stopped(void)
{
	begin();
	enter(0, 7);
	enter(1, 7);
	enter(2, 7);
	fm_stage_check_run_stop(&run[1]);
	CU_ASSERT_TRUE(are(1, 1, 0, 0));
	CU_ASSERT_TRUE(atomic_load(&run[1].is_stopped) && !atomic_load(&run[0].is_stopped));
	fm_stage_check_run_end(&run[1]);
	CU_ASSERT_TRUE(are(1, 1, 0, 0));
	fm_stage_check_run_stop(&run[0]);	/* which the worker sees */
	CU_ASSERT_TRUE(are(1, 1, 0, 0));
	fm_stage_check_run_end(&run[0]);
	CU_ASSERT_TRUE(are(1, 1, 1, 0));
	fm_stage_check_run_end(&run[3]);	/* its dataset was not found */
	end_all();
	CU_ASSERT_TRUE(are(1, 1, 1, 0));
}

static void count_halt(void *ctx)
{
	++*(unsigned *)ctx;
}

/* What is under way is told, once for each stop; what has ended or only waits is not. */
static void test_halts(void)
{
	unsigned halts = 0;

	begin();
	enter(0, 7);
	enter(1, 7);
	for (unsigned i = 0; i < 2; i++) {
		run[i].halt = count_halt;
		run[i].halt_ctx = &halts;
	}
	fm_stage_check_run_stop(&run[1]);
	CU_ASSERT_EQUAL(halts, 0);
	fm_stage_check_run_stop(&run[0]);
	CU_ASSERT_EQUAL(halts, 1);
	run[0].halt = NULL;
	fm_stage_check_run_stop(&run[0]);
	CU_ASSERT_EQUAL(halts, 1);
	end_all();
}

static void test_node_stops(void)
{
	begin();
	enter(0, 7);
	enter(1, 7);
	fm_stage_check_runs_stop(&runs);
	CU_ASSERT_TRUE(are(1, 1, 0, 0));
	enter(2, 7);
	CU_ASSERT_TRUE(are(1, 1, 1, 0));
	end_all();
	CU_ASSERT_TRUE(are(1, 1, 1, 0));
}

/* How many lines of two who ask count: the rest is left out. */
static unsigned said_of(uid_t uid)
{
	return fm_log_of_user(&runs.lines, uid, fm_engine_now(&engine))->count;
}

/* Who checks without end leaves out no lines of another one. */
static void test_lines(void)
{
	const struct fm_loop_opts opts = { 0 };
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &engine.env.loop, &err), 0);
	begin();
	runs.lines.most = 2;
	for (unsigned i = 0; i < 5; i++)
		fm_stage_check_run_log(&run[0], "aaaaaaaa", "line %u of one", i);
	CU_ASSERT_EQUAL(said_of(1000), 5);
	CU_ASSERT_EQUAL(said_of(1001), 0);
	fm_stage_check_run_log(&run[1], "bbbbbbbb", "a line of the other one");
	CU_ASSERT_EQUAL(said_of(1001), 1);
	end_all();
	fm_loop_free(engine.env.loop);
	engine.env.loop = NULL;
}

static const struct fm_test tests[] = {
	{ "checks of one dataset come one after the other", test_one_after_the_other },
	{ "one that is stopped waits for nobody", test_stopped },
	{ "what is under way is told of a stop", test_halts },
	{ "none waits when the node stops", test_node_stops },
	{ "who checks without end leaves out no lines of others", test_lines },
};

FM_TEST_MAIN("stage_check_runs", tests)
