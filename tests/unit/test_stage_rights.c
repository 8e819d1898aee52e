/* SPDX-License-Identifier: MIT */
/*
 * Who may still read what is staged, asked of all copies at once: each is asked about until that
 * went well, when its store can be asked. links: fm_staging_service
 */
#include "tests/unit/cache_scene.h"

#include "mover/base/fault.h"
#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "mover/store/store.h"
#include "staging/service/rights.h"

#define READER 4000u			/* whom the rules of a store name */

static const struct fm_stage_everybody everybody;
static struct scene s;
static struct fm_engine *engine;
static struct fm_stage_rights rights;
static struct fm_store stores[3];
static unsigned freed, asked;
static bool is_away;

static int stat_for(struct fm_store *store, const char *path, const struct fm_who *who,
		    struct fm_attr *attr, struct fm_err *err)
{
	(void)store;
	(void)path;
	(void)who;
	(void)attr;
	(void)err;
	CU_FAIL("the file system of a store is asked, which may never answer");
	return -EIO;
}

static void readers_of(struct fm_store *store, fm_access_user *on, void *ctx)
{
	(void)store;
	asked++;
	on(ctx, FM_ACCESS_USER, READER, "reader");
}

static void count_free(struct fm_store *store)
{
	(void)store;
	freed++;
}

static const struct fm_store_ops ops = {
	.stat = stat_for, .readers = readers_of, .free = count_free,
};

/* Store "away" follows a volume; it may be mounted. */
static const char *volume_of(void *ctx, const char *store, size_t len)
{
	(void)ctx;
	return is_away && len == 4 && memcmp(store, "away", len) == 0 ? "volume" : NULL;
}

static void set_store(unsigned n, const char *name)
{
	stores[n] = (struct fm_store){.ops = &ops};
	(void)snprintf(stores[n].name, sizeof(stores[n].name), "%s", name);
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_store(engine, &stores[n], &s.err), 0);
}

static unsigned refs_of(const char *name)
{
	struct fm_store_ref *ref = fm_engine_store_get(engine, name, strlen(name));
	unsigned refs = ref ? ref->refs - 1 : 0;

	if (ref)
		fm_engine_store_put(ref);
	return refs;
}

static void begin(void)
{
	scene_new(&s, "/var/tmp");
	scene_open(&s);
	freed = asked = 0;
	is_away = true;
	engine = calloc(1, sizeof(*engine));
	CU_ASSERT_PTR_NOT_NULL_FATAL(engine);
	fm_list_init(&engine->stores);
	fm_engine_set_volumes(engine, volume_of, NULL, NULL);
	set_store(0, "s");
	set_store(1, "t");
	rights = (struct fm_stage_rights){
		.cache = s.c, .engine = engine, .node = "n1", .everybody = &everybody};
}

static void end(void)
{
	fm_stage_rights_free(&rights);
	fm_engine_remove_store(engine, "s");
	fm_engine_remove_store(engine, "t");
	fm_engine_remove_store(engine, "away");
	free(engine);
	scene_end(&s);
}

static uint64_t stage(unsigned n, const char *source)
{
	struct fm_cache_plan plan = scene_plan(n, 2 * FILE_LEN);
	struct fm_cache_fetch *f;
	uint64_t id;

	plan.source = source;
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	scene_fill(f, plan.name);
	fm_cache_fetch_wrote(f, plan.bytes, plan.files);
	CU_ASSERT_EQUAL(scene_finish(&s, f, n), 0);
	id = fm_cache_fetch_id(f);
	fm_cache_fetch_close(f);
	return id;
}

static bool names_reader(uint64_t id)
{
	return scene_listed(&s, id, READER) == SCENE_BY_RULE;
}

/* One round; whether all were asked. */
static bool ask(void)
{
	fm_stage_rights_look(&rights);
	fm_stage_rights_run(&rights);
	fm_stage_rights_asked(&rights);
	return rights.has_agreed && !rights.first && !rights.again;
}

/* Whichever stands before the one that waits. */
static void test_one_waits(void)
{
	uint64_t ids[3];

	begin();
	ids[0] = stage(1, "n1:s/a");
	ids[1] = stage(2, "n1:away/b");
	ids[2] = stage(3, "n1:t/c");
	for (unsigned round = 0; round < 3; round++) {
		CU_ASSERT_FALSE(ask());
		CU_ASSERT_EQUAL(refs_of("s"), 1);
		CU_ASSERT_EQUAL(refs_of("t"), 1);
	}
	CU_ASSERT_EQUAL(freed, 0);
	CU_ASSERT_EQUAL(asked, 2);
	CU_ASSERT_TRUE(names_reader(ids[0]) && names_reader(ids[2]));
	CU_ASSERT_FALSE(names_reader(ids[1]));
	set_store(2, "away");
	CU_ASSERT_TRUE(ask());
	CU_ASSERT_TRUE(names_reader(ids[1]));
	end();
	CU_ASSERT_EQUAL(freed, 3);
}

/* The rules of a store that a reload took away let nobody read; those of one that is away stay. */
static void test_removed(void)
{
	uint64_t ids[4];

	begin();
	set_store(2, "away");
	ids[0] = stage(1, "n1:s/a");
	ids[1] = stage(2, "n1:away/b");
	ids[2] = stage(3, "n1:t/c");
	ids[3] = stage(4, "hf://n1:s/d");
	CU_ASSERT_TRUE(ask());
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_TRUE(names_reader(ids[i]));
	fm_engine_remove_store(engine, "s");
	fm_engine_remove_store(engine, "away");
	CU_ASSERT_TRUE(ask());
	CU_ASSERT_FALSE(names_reader(ids[0]) || names_reader(ids[3]));
	CU_ASSERT_TRUE(names_reader(ids[1]) && names_reader(ids[2]));
	end();
}

/* Who staged what is in it keeps that, and what is in a store of another node is left alone. */
static void test_removed_only_rules(void)
{
	struct fm_cache_readers far = {.user_count = 1, .users = {READER}};
	uint64_t ids[2];

	begin();
	ids[0] = stage(1, "n1:s/a");
	ids[1] = stage(2, "n2:s/a");
	CU_ASSERT_TRUE(ask());
	CU_ASSERT_EQUAL(fm_cache_allow_readers(s.c, ids[1], &far, NULL, &s.err), 0);
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, ids[i], 1000, false, &s.err), 0);
	fm_engine_remove_store(engine, "s");
	CU_ASSERT_TRUE(ask());
	CU_ASSERT_FALSE(names_reader(ids[0]));
	CU_ASSERT_TRUE(names_reader(ids[1]));
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(fm_cache_is_user(s.c, ids[i], 1000, &s.err), 1);
	end();
}

/* What a reload changed is not lost where there was no memory, or a list could not be read. */
static void test_again(void)
{
	uint64_t id;

	if (fm_test_lacks_faults())
		return;
	begin();
	id = stage(1, "n1:s/a");
	fm_fault_arm("stage.alloc", 1);
	CU_ASSERT_FALSE(ask());
	CU_ASSERT_TRUE(ask());
	CU_ASSERT_TRUE(names_reader(id));
	fm_engine_remove_store(engine, "s");
	fm_fault_arm("stage.alloc", 1);
	(void)ask();
	CU_ASSERT_TRUE(fm_fault_fired() && names_reader(id));
	fm_fault_arm("cache.xattr", 1);
	CU_ASSERT_FALSE(ask());
	CU_ASSERT_TRUE(fm_fault_fired() && names_reader(id));
	CU_ASSERT_TRUE(ask());
	CU_ASSERT_FALSE(names_reader(id));
	/* The first of the two that are asked, its users; and then its rules. */
	for (unsigned n = 1; n <= 2; n++) {
		set_store(0, "s");
		fm_fault_arm("cache.xattr", n);
		CU_ASSERT_FALSE(ask());
		CU_ASSERT_TRUE(ask() && names_reader(id));
		fm_engine_remove_store(engine, "s");
		CU_ASSERT_TRUE(ask() && !names_reader(id));
	}
	fm_fault_arm(NULL, 0);
	end();
}

struct eviction {
	uint64_t id;
	bool is_looked;			/* before it is being evicted */
	unsigned renames;
};

/* It is away, and is asked about; then somebody wants it, and it comes back. */
static void reached(void *ctx, const char *name)
{
	struct eviction *e = ctx;

	e->renames += strcmp(name, "cache.rename") == 0;
	if (strcmp(name, "cache.lease") != 0 || e->renames != 1)
		return;
	e->renames++;
	if (!e->is_looked)
		fm_stage_rights_look(&rights);
	fm_stage_rights_run(&rights);
	fm_stage_rights_asked(&rights);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, e->id, &s.err), -EAGAIN);
}

static void test_evicting(void)
{
	struct eviction e = {0};

	if (fm_test_lacks_faults())
		return;
	for (unsigned round = 0; round < 2; round++) {
		begin();
		e = (struct eviction){.id = stage(1, "n1:s/a"), .is_looked = round == 1};
		CU_ASSERT_TRUE(ask() && names_reader(e.id));
		fm_engine_remove_store(engine, "s");
		if (e.is_looked)
			fm_stage_rights_look(&rights);
		fm_fault_watch(reached, &e);
		CU_ASSERT_EQUAL(fm_cache_discard(s.c, e.id, &s.err), -EAGAIN);
		fm_fault_watch(NULL, NULL);
		CU_ASSERT_TRUE(e.renames >= 2 && names_reader(e.id));
		CU_ASSERT_TRUE(ask());
		CU_ASSERT_FALSE(names_reader(e.id));
		end();
	}
}

static const struct fm_test tests[] = {
	{"a store that is not open is waited for, and others are asked once", test_one_waits},
	{"whom the rules of a store named loses that when the store is removed", test_removed},
	{"who staged it keeps it then, and copies of other nodes stay", test_removed_only_rules},
	{"what failed is asked about again", test_again},
	{"one that is being evicted is asked about when it is back", test_evicting},
};
FM_TEST_MAIN("stage_rights", tests)
