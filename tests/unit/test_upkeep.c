/* SPDX-License-Identifier: MIT */
/* links: fm_services fm_store */
/*
 * test_upkeep - sweeps of stores, some of which never end: an engine that has nothing but stores,
 * whose sweeps wait as the test says.
 */
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "mover/node/service.h"
#include "mover/services/upkeep.h"
#include "tests/fm_test.h"

#define HOUR_NS (3600 * FM_NS_PER_S)
#define MANY 16u

struct swept {
	struct fm_store store;
	bool hangs;			/* each sweep of it, until the test lets it go */
	bool is_long;			/* until it is told to end */
	atomic_uint begun;
	sem_t let_go;
};

static const struct fm_service *const services[] = {&fm_upkeep_service, NULL};
static sem_t begun;			/* posted by each sweep */
static struct fm_engine *engine;
static struct swept stores[MANY];
static uint64_t now_ns;

static void sweep(struct fm_store *s, const atomic_bool *is_over)
{
	struct swept *swept = fm_container_of(s, struct swept, store);

	atomic_fetch_add(&swept->begun, 1);
	sem_post(&begun);
	while (swept->hangs && sem_wait(&swept->let_go) < 0)
		;	/* interrupted */
	while (swept->is_long && !atomic_load(is_over))
		usleep(1000);
}

static void keep(struct fm_store *s)
{
	(void)s;	/* the test's */
}

static const struct fm_store_ops ops = {.sweep = sweep, .free = keep};

/* So many stores, each on a device of its own. */
static void set_up(unsigned count)
{
	now_ns = 1;
	engine = calloc(1, sizeof(*engine));
	CU_ASSERT_PTR_NOT_NULL_FATAL(engine);
	engine->env.services = services;
	fm_list_init(&engine->stores);
	fm_list_init(&engine->former_stores);
	CU_ASSERT_EQUAL_FATAL(fm_services_init(engine, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&(struct fm_loop_opts){0}, &engine->env.loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(16, &engine->env.worker, NULL), 0);
	fm_worker_share(engine->env.worker, 2);
	CU_ASSERT_EQUAL(sem_init(&begun, 0, 0), 0);
	for (unsigned i = 0; i < count; i++) {
		struct swept *s = &stores[i];

		*s = (struct swept){.store = {.ops = &ops, .device = i + 1}};
		(void)snprintf(s->store.name, sizeof(s->store.name), "s%u", i);
		CU_ASSERT_EQUAL(sem_init(&s->let_go, 0, 0), 0);
		CU_ASSERT_EQUAL(fm_engine_set_store(engine, &s->store, NULL), 0);
	}
}

static void set_hanging(struct swept *s)
{
	s->store.may_stand = true;
	s->hangs = true;
}

static void tear_down(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		sem_post(&stores[i].let_go);
	while (!fm_upkeep_service.is_idle(engine))
		fm_loop_step(engine->env.loop, FM_NEVER);
	for (unsigned i = 0; i < count; i++) {
		fm_engine_remove_store(engine, stores[i].store.name);
		sem_destroy(&stores[i].let_go);
	}
	sem_destroy(&begun);
	fm_worker_free(engine->env.worker);
	fm_loop_free(engine->env.loop);
	fm_services_free(engine);
	free(engine);
}

/* Ticks until so many more sweeps have begun. */
static void await_sweeps(unsigned count)
{
	for (; count > 0; count--) {
		do {
			fm_loop_step(engine->env.loop, 1);
			fm_upkeep_service.tick(engine, now_ns);
		} while (sem_trywait(&begun) < 0);
	}
}

/* Goal: a sweep that never ends holds up no other store's, and does not begin again. */
static void test_one_hangs(void)
{
	set_up(3);
	set_hanging(&stores[0]);
	await_sweeps(3);
	for (unsigned hour = 1; hour <= 3; hour++) {
		now_ns += HOUR_NS;
		await_sweeps(2);
		CU_ASSERT_EQUAL(stores[0].begun, 1);
		CU_ASSERT_EQUAL(stores[1].begun, hour + 1);
		CU_ASSERT_EQUAL(stores[2].begun, hour + 1);
	}
	tear_down(3);
}

/* Goal: once it ends after all, its next one is when it is due. */
static void test_comes_back(void)
{
	set_up(2);
	set_hanging(&stores[0]);
	await_sweeps(2);
	now_ns += HOUR_NS;
	await_sweeps(1);
	sem_post(&stores[0].let_go);
	await_sweeps(1);
	CU_ASSERT_EQUAL(stores[0].begun, 2);
	CU_ASSERT_EQUAL(stores[1].begun, 2);
	tear_down(2);
}

/* Goal: two stores on one device are not swept at once. */
static void test_one_device(void)
{
	set_up(3);
	stores[1].store.device = stores[0].store.device;
	set_hanging(&stores[0]);
	await_sweeps(2);
	CU_ASSERT_EQUAL(stores[1].begun, 0);
	stores[0].hangs = false;
	sem_post(&stores[0].let_go);
	await_sweeps(1);
	CU_ASSERT_EQUAL(stores[1].begun, 1);
	tear_down(3);
}

/* Goal: of stores that may hang four are swept at once, the others come when those end; and beside
 * them the stores that do not. */
static void test_many_hang(void)
{
	set_up(MANY);
	for (unsigned i = 0; i < MANY - 1; i++)
		set_hanging(&stores[i]);
	await_sweeps(5);
	CU_ASSERT_EQUAL(stores[MANY - 1].begun, 1);
	for (unsigned i = 0; i < MANY - 1; i++)
		sem_post(&stores[i].let_go);
	await_sweeps(MANY - 5);
	for (unsigned i = 0; i < MANY - 1; i++)
		CU_ASSERT_EQUAL(stores[i].begun, 1);
	tear_down(MANY);
}

/* Goal: the sweep of a store that is removed, or replaced, ends; that of another one does not. */
static void test_gone(void)
{
	struct swept next = {.store = {.ops = &ops, .name = "s1", .device = 1}};

	set_up(3);
	for (unsigned i = 0; i < 3; i++)
		stores[i].is_long = true;
	await_sweeps(3);
	fm_engine_remove_store(engine, "s0");
	CU_ASSERT_EQUAL(fm_engine_set_store(engine, &next.store, NULL), 0);
	await_sweeps(1);	/* of the next one: the first, on its device, is over */
	CU_ASSERT_TRUE(next.begun == 1 && !fm_upkeep_service.is_idle(engine));
	stores[2].is_long = false;
	tear_down(3);
}

static const struct fm_test tests[] = {
	{"a sweep that hangs holds up no other store", test_one_hangs},
	{"a sweep that hung and ended is followed by the next", test_comes_back},
	{"stores on one device are swept one after another", test_one_device},
	{"one of a store that is gone ends", test_gone},
	{"four that hang are swept at once, and those that do not beside them", test_many_hang},
};
FM_TEST_MAIN("upkeep", tests)
