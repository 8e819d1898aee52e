/* SPDX-License-Identifier: MIT */
/* links: fm_services fm_store */
/*
 * test_request_users - requests at a store on a disk whose rules name groups: an engine with that
 * store and the service alone.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "mover/node/service.h"
#include "mover/services/request.h"
#include "tests/fm_test.h"

#define REMOVALS 12u

static const struct fm_service *const services[] = {&fm_request_service, NULL};
static struct fm_engine *engine;
static struct fm_store store;
static unsigned dones;
static int code;		/* that all get */
static bool is_hanging;		/* the user database */
static sem_t begun, let_go;	/* of removals, and look-ups that hang */

static bool asks_users(struct fm_store *s)
{
	(void)s;
	return true;
}

static void wait_to_go(void)
{
	sem_post(&begun);
	while (sem_wait(&let_go) < 0)
		;	/* interrupted */
}

static void rights(struct fm_store *s, const struct fm_who *who, bool *may_read, bool *may_write)
{
	(void)s, (void)who;
	*may_read = *may_write = true;
	if (is_hanging)
		wait_to_go();
}

static int remove_slowly(struct fm_store *s, const char *path, const struct fm_who *who,
			 bool is_recursive, struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)is_recursive, (void)err;
	wait_to_go();
	return 0;
}

static int stat_at_once(struct fm_store *s, const char *path, const struct fm_who *who,
			struct fm_attr *out, struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)err;
	*out = (struct fm_attr){.size = 1};
	return 0;
}

static void keep(struct fm_store *s)
{
	(void)s;	/* the test's */
}

static const struct fm_store_ops ops = {
	.asks_users = asks_users, .rights = rights, .remove = remove_slowly, .stat = stat_at_once,
	.free = keep};

static void set_up(void)
{
	dones = 0;
	code = 0;
	is_hanging = false;
	engine = calloc(1, sizeof(*engine));
	CU_ASSERT_PTR_NOT_NULL_FATAL(engine);
	engine->env.services = services;
	fm_list_init(&engine->stores);
	CU_ASSERT_EQUAL_FATAL(fm_services_init(engine, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&(struct fm_loop_opts){0}, &engine->env.loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(16, &engine->env.worker, NULL), 0);
	fm_worker_share(engine->env.worker, 2);
	CU_ASSERT_EQUAL(sem_init(&begun, 0, 0) + sem_init(&let_go, 0, 0), 0);
	store = (struct fm_store){.ops = &ops, .device = 1, .name = "s"};
	CU_ASSERT_EQUAL(fm_engine_set_store(engine, &store, NULL), 0);
}

static void tear_down(void)
{
	fm_engine_remove_store(engine, "s");
	sem_destroy(&begun);
	sem_destroy(&let_go);
	fm_worker_free(engine->env.worker);
	fm_loop_free(engine->env.loop);
	fm_services_free(engine);
	free(engine);
}

static void done(void *ctx, const struct fm_request_result *result)
{
	(void)ctx;
	CU_ASSERT_EQUAL(result->code, code);
	dones++;
}

static void ask(enum fm_verb verb, uid_t uid)
{
	const struct fm_request_opts o = {
		.verb = verb, .store = "s", .path = "x", .path_len = 1, .who = {NULL, uid, uid}};
	struct fm_err err = {0};

	CU_ASSERT_EQUAL(fm_request_start(engine, &o, done, NULL, &err), 0);
}

static void await_dones(unsigned count)
{
	while (dones < count)
		fm_loop_step(engine->env.loop, FM_NEVER);
}

static void await_idle(void)
{
	while (!fm_request_service.is_idle(engine))
		fm_loop_step(engine->env.loop, FM_NEVER);
}

/*
 * Goal: who removes large trees there keeps none of the threads of the user database. Method: more
 * removals than that has threads have begun, by several users, when others ask.
 */
static void test_looks_up_apart(void)
{
	unsigned running = 0;

	set_up();
	for (unsigned i = 0; i < REMOVALS; i++)
		ask(FM_VERB_REMOVE, 1000 + i / 2);
	while (running < 6) {
		fm_loop_step(engine->env.loop, 1);
		running += sem_trywait(&begun) == 0;
	}
	ask(FM_VERB_STAT, 2000);
	ask(FM_VERB_STAT, 0);
	await_dones(2);
	for (unsigned i = 0; i < REMOVALS; i++)
		sem_post(&let_go);
	await_dones(2 + REMOVALS);
	await_idle();
	tear_down();
}

static void await_begun(void)
{
	while (sem_wait(&begun) < 0)
		;	/* interrupted */
}

/*
 * Goal: a request that only waits for the user database holds up no stop, but one that is at work
 * does, also beside it.
 */
static void test_stop(void)
{
	set_up();
	ask(FM_VERB_REMOVE, 1000);
	while (sem_trywait(&begun) < 0)
		fm_loop_step(engine->env.loop, 1);
	is_hanging = true;
	ask(FM_VERB_STAT, 1000);
	await_begun();
	CU_ASSERT_FALSE(fm_request_service.awaits_callers(engine));
	code = -EHOSTDOWN;
	fm_request_service.stop(engine);
	await_dones(2);
	CU_ASSERT_FALSE(fm_request_service.awaits_callers(engine));
	sem_post(&let_go);
	sem_post(&let_go);
	await_idle();

	code = 0;
	ask(FM_VERB_STAT, 1000);
	await_begun();
	CU_ASSERT_FALSE(fm_request_service.awaits_callers(engine));
	code = -EHOSTDOWN;
	fm_request_service.stop(engine);
	await_dones(3);
	CU_ASSERT_TRUE(fm_request_service.awaits_callers(engine));
	CU_ASSERT_FALSE(fm_request_service.is_idle(engine));
	sem_post(&let_go);
	await_idle();
	tear_down();
}

static const struct fm_test tests[] = {
	{"a request keeps no thread of the user database for what it does", test_looks_up_apart},
	{"a request that waits for the user database holds up no stop", test_stop},
};
FM_TEST_MAIN("request_users", tests)
