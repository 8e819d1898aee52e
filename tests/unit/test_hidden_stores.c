/* SPDX-License-Identifier: MIT */
/* links: fm_node fm_store */
/* test_hidden_stores - stores of services take no place of those that a configuration has; what is
 * under way in one that was replaced. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "tests/fm_test.h"

static void keep(struct fm_store *s)
{
	(void)s;	/* the test's */
}

static void free_store(struct fm_store *s)
{
	free(s);
}

static const struct fm_store_ops ops = {.free = keep};
static const struct fm_store_ops heap_ops = {.free = free_store};
static struct fm_store stores[FM_STORES_MAX + 2];
static struct fm_engine *engine;

static int set_store(unsigned n, bool is_hidden)
{
	struct fm_err err;

	stores[n] = (struct fm_store){
		.ops = &ops, .is_hidden = is_hidden, .way = {.device = 7, .inode = n + 1}};
	(void)snprintf(stores[n].name, sizeof(stores[n].name), "%s%u",
		       is_hidden ? FM_STORE_INTERNAL_PREFIX : "s", n);
	return fm_engine_set_store(engine, &stores[n], &err);
}

static void test_places(void)
{
	uint64_t changes;

	engine = calloc(1, sizeof(*engine));
	CU_ASSERT_PTR_NOT_NULL_FATAL(engine);
	fm_list_init(&engine->stores);
	fm_list_init(&engine->former_stores);
	for (unsigned n = 1; n < FM_STORES_MAX; n++)
		CU_ASSERT_EQUAL(set_store(n, false), 0);
	changes = engine->store_changes;
	CU_ASSERT_EQUAL(set_store(0, true), 0);
	CU_ASSERT_EQUAL(engine->store_changes, changes);	/* nobody has to look at rules */
	CU_ASSERT_EQUAL(set_store(FM_STORES_MAX, false), 0);
	CU_ASSERT_EQUAL(set_store(FM_STORES_MAX + 1, false), -ENOSPC);
	CU_ASSERT_EQUAL(set_store(FM_STORES_MAX + 1, true), 0);
	fm_engine_remove_store(engine, stores[0].name);
	fm_engine_remove_store(engine, stores[FM_STORES_MAX + 1].name);
	CU_ASSERT_EQUAL(engine->store_changes, changes + 1);
	CU_ASSERT_EQUAL(set_store(FM_STORES_MAX + 1, false), -ENOSPC);
	fm_engine_remove_store(engine, stores[1].name);
	CU_ASSERT_EQUAL(set_store(FM_STORES_MAX + 1, false), 0);
	for (unsigned n = 0; n < FM_STORES_MAX + 2; n++)
		fm_engine_remove_store(engine, stores[n].name);
	free(engine);
}

/* What a reload has replaced, since the store has other rules, goes to the same directory. */
static void test_left(void)
{
	struct fm_store_ref *refs[3], *other, *later;

	engine = calloc(1, sizeof(*engine));
	CU_ASSERT_PTR_NOT_NULL_FATAL(engine);
	fm_list_init(&engine->stores);
	fm_list_init(&engine->former_stores);
	CU_ASSERT_EQUAL_FATAL(set_store(2, false), 0);
	other = fm_engine_store_get(engine, "s2", 2);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL_FATAL(set_store(1, false), 0);
		refs[i] = fm_engine_store_get(engine, "s1", 2);
		CU_ASSERT_PTR_NOT_NULL_FATAL(refs[i]);
	}
	fm_engine_store_put(refs[1]);
	fm_engine_leave_store_but(engine, "s1", NULL);
	CU_ASSERT_TRUE(refs[0]->is_left);
	CU_ASSERT_TRUE(refs[2]->is_left);
	CU_ASSERT_FALSE(other->is_left);
	CU_ASSERT_EQUAL_FATAL(set_store(1, false), 0);
	later = fm_engine_store_get(engine, "s1", 2);
	CU_ASSERT_FALSE(later->is_left);
	fm_engine_remove_store(engine, "s1");
	fm_engine_leave_store_but(engine, "s1", NULL);
	CU_ASSERT_TRUE(later->is_left);
	fm_engine_store_put(later);
	fm_engine_store_put(refs[0]);
	fm_engine_store_put(refs[2]);
	CU_ASSERT_TRUE(fm_list_is_empty(&engine->former_stores));
	fm_engine_store_put(other);
	fm_engine_remove_store(engine, "s2");
	free(engine);
}

static struct fm_store_ref *store_at(dev_t device, ino_t inode)
{
	struct fm_err err;
	struct fm_store *s = calloc(1, sizeof(*s));

	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	*s = (struct fm_store){
		.ops = &heap_ops, .name = "s", .way = {.device = device, .inode = inode}};
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_store(engine, s, &err), 0);
	return fm_engine_store_get(engine, "s", 1);
}

/* Goal: what began in another directory is found behind a store that knows of none, or is gone. */
static void test_left_but(void)
{
	const struct fm_dirway here = {.device = 7, .inode = 2, .mount = 9};
	struct fm_store_ref *refs[4];

	engine = calloc(1, sizeof(*engine));
	CU_ASSERT_PTR_NOT_NULL_FATAL(engine);
	fm_list_init(&engine->stores);
	fm_list_init(&engine->former_stores);
	refs[0] = store_at(7, 1);
	refs[1] = store_at(7, 2);
	refs[2] = store_at(8, 2);
	refs[3] = store_at(0, 0);
	fm_engine_leave_store_but(engine, "t", NULL);
	fm_engine_leave_store_but(engine, "s", &here);
	CU_ASSERT_TRUE(refs[0]->is_left);
	CU_ASSERT_FALSE(refs[1]->is_left);
	CU_ASSERT_TRUE(refs[2]->is_left);
	CU_ASSERT_FALSE(refs[3]->is_left);
	fm_engine_remove_store(engine, "s");
	fm_engine_leave_store_but(engine, "s", NULL);
	CU_ASSERT_TRUE(refs[1]->is_left);
	CU_ASSERT_FALSE(refs[3]->is_left);
	for (unsigned i = 0; i < 4; i++)
		fm_engine_store_put(refs[i]);
	CU_ASSERT_TRUE(fm_list_is_empty(&engine->former_stores));
	free(engine);
}

static const struct fm_test tests[] = {
	{"what began in another directory than that of now is left", test_left_but},
	{"what began in a store of before is left with the one that is there", test_left},
	{"a configuration has all its places, whatever stores services have", test_places},
};
FM_TEST_MAIN("hidden_stores", tests)
