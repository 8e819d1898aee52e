/* SPDX-License-Identifier: MIT */
/* links: fm_staging_service */
/*
 * test_keeper - whom a node lets read its copy, when another node says that he staged it on
 * several: only rules refuse him. What would be done by a worker is looked at, and not done.
 */
#include "mover/base/worker.h"
#include "tests/fm_test.h"

static const struct fm_work *submitted;

static void submit_work(struct fm_worker *worker, struct fm_work *work, struct fm_loop *loop)
{
	(void)worker, (void)loop;
	submitted = work;
}

#define fm_worker_submit submit_work
#include "staging/service/keeper.c"

static const struct fm_service *const services[] = { &fm_request_service, NULL };
static struct fm_engine *engine;
static struct fm_keeper keeper;
static struct order order;

/* Every store of this node is on one that is away. */
static const char *volume_of(void *ctx, const char *store, size_t len)
{
	(void)ctx, (void)store, (void)len;
	return "data";
}

static void begin(void)
{
	engine = calloc(1, sizeof(*engine));
	CU_ASSERT_PTR_NOT_NULL_FATAL(engine);
	(void)snprintf(engine->name, sizeof(engine->name), "n1");
	engine->env.services = services;
	fm_list_init(&engine->peers);
	fm_list_init(&engine->sessions);
	fm_list_init(&engine->stores);
	CU_ASSERT_EQUAL_FATAL(fm_services_init(engine, NULL), 0);
	fm_engine_set_volumes(engine, volume_of, NULL, NULL);
	keeper = (struct fm_keeper){ .o = { .engine = engine, .node = "n1" } };
	order = (struct order){ .keeper = &keeper, .keep = { .verb = FM_STAGE_LET }, .peer = "n2" };
	submitted = NULL;
}

static void end_of_test(void)
{
	fm_services_free(engine);
	free(engine);
}

static bool is_let_in(void)
{
	return submitted == &order.work && order.work.run == act_run && order.err.code == 0;
}

static void say(int code, bool is_rule)
{
	struct fm_request_result r = { .code = code };

	if (code < 0)
		(void)fm_err_set(&r.err, code, "n3: said so");
	r.err.is_rule = is_rule;
	source_said(&order, &r);
}

static void test_no_rule(void)
{
	const int codes[] = { 0, -EACCES, -EPERM, -EAGAIN, -ENOENT, -EHOSTUNREACH, -EBUSY };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		begin();
		say(codes[i], false);
		CU_ASSERT_TRUE(is_let_in());
		end_of_test();
	}
}

static void test_rule(void)
{
	begin();
	say(-EACCES, true);
	CU_ASSERT_TRUE(submitted == &order.work && order.work.run == refused_run);
	CU_ASSERT_STRING_EQUAL(order.err.text, "n3: said so");
	end_of_test();
}

static void test_not_asked(void)
{
	begin();
	ask_source(&order, "n3:s/set");
	CU_ASSERT_TRUE(is_let_in());
	end_of_test();
}

static void test_volume_away(void)
{
	struct fm_err err = { 0 };

	begin();
	CU_ASSERT_EQUAL(may_act(&order, "n1:s/set", &err), 0);
	CU_ASSERT_EQUAL(err.code, 0);
	ask_source(&order, "n1:s/set");
	CU_ASSERT_TRUE(is_let_in());
	order.keep.verb = FM_STAGE_PIN;
	CU_ASSERT_EQUAL(may_act(&order, "n1:s/set", &err), -EAGAIN);
	end_of_test();
}

static const struct fm_test tests[] = {
	{ "what is no word of the source's rules refuses nobody", test_no_rule },
	{ "its rules do, in their words", test_rule },
	{ "a source that cannot be asked refuses nobody", test_not_asked },
	{ "nor does a volume of this node that is away, but for pins", test_volume_away },
};
FM_TEST_MAIN("keeper", tests)
