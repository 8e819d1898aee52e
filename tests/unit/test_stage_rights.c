/* SPDX-License-Identifier: MIT */
/*
 * Who may still read what is staged, asked of all copies at once: each is asked about once, when
 * its store can be asked. links: fm_staging_service
 */
#include "tests/unit/cache_scene.h"

#include <sys/xattr.h>

#include "mover/base/bytes.h"
#include "mover/base/fault.h"
#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "mover/store/store.h"
#include "staging/service/rights.h"

#define READER 4000u			/* whom the rules of a store name */

static const struct fm_stage_everybody everybody;
static struct scene s;
static struct fm_engine *engine;
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
	return 0;
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
}

static void end(void)
{
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

/* Whether the list of a dataset's directory has the user, as one whom rules name. */
static bool names_reader(uint64_t id)
{
	char path[PATH_MAX];
	uint8_t acl[4096];
	struct fm_reader r;
	ssize_t len;

	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, id, path, sizeof(path)), 0);
	*strrchr(path, '/') = '\0';
	len = getxattr(path, "system.posix_acl_access", acl, sizeof(acl));
	r = (struct fm_reader){.at = acl, .end = acl + (len > 0 ? len : 0)};
	(void)fm_get_le32(&r);
	while (fm_reader_left(&r) >= 8) {
		unsigned tag = fm_get_le16(&r), may = fm_get_le16(&r);

		if (fm_get_le32(&r) == READER && tag == 2 && may == 7)
			return true;
	}
	return false;
}

static struct fm_stage_rights *all(bool is_again)
{
	struct fm_stage_rights *r =
		fm_stage_rights_new(s.c, engine, "n1", &everybody, is_again);

	CU_ASSERT_PTR_NOT_NULL_FATAL(r);
	return r;
}

/* One round; whether all were asked. */
static bool ask(struct fm_stage_rights *r)
{
	fm_stage_rights_look(r);
	fm_stage_rights_run(r);
	fm_stage_rights_asked(r);
	return fm_stage_rights_are_over(r);
}

/* Whichever stands before the one that waits. */
static void test_one_waits(void)
{
	struct fm_stage_rights *r;
	uint64_t ids[3];

	begin();
	ids[0] = stage(1, "n1:s/a");
	ids[1] = stage(2, "n1:away/b");
	ids[2] = stage(3, "n1:t/c");
	r = all(false);
	for (unsigned round = 0; round < 3; round++) {
		CU_ASSERT_FALSE(ask(r));
		CU_ASSERT_EQUAL(refs_of("s"), 1);
		CU_ASSERT_EQUAL(refs_of("t"), 1);
	}
	CU_ASSERT_EQUAL(freed, 0);
	CU_ASSERT_EQUAL(asked, 2);
	CU_ASSERT_TRUE(names_reader(ids[0]) && names_reader(ids[2]));
	CU_ASSERT_FALSE(names_reader(ids[1]));
	set_store(2, "away");
	CU_ASSERT_TRUE(ask(r));
	CU_ASSERT_TRUE(names_reader(ids[1]));
	CU_ASSERT_EQUAL(asked, 3);
	fm_stage_rights_free(r);
	end();
	CU_ASSERT_EQUAL(freed, 3);
}

static const struct fm_test tests[] = {
	{"a store that is not open is waited for, and others are asked once", test_one_waits},
};
FM_TEST_MAIN("stage_rights", tests)
