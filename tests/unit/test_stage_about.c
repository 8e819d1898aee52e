/* SPDX-License-Identifier: MIT */
/*
 * What a staging run is known by: nodes that mean different datasets, or have another list of the
 * nodes, never meet in one.
 * links: fm_staging_service
 */
#include "staging/service/about.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "staging/cache.h"
#include "staging/service/hub.h"
#include "staging/sha256.h"
#include "tests/fm_test.h"

static const struct fm_stage_about plain = {
	.listing = { 1, 2, 3 },
	.entries = 5,
	.bytes = 70000000,
	.extents = 2,
	.uid = 1000,
	.gid = 1000,
	.wanted = 3,
	.may_read = UINT64_MAX,
	.count = 2,
	.job = "abcd2345",
	.store = "s",
	.path = "set",
	.name = "set",
	.node = { "n1", "n2" },
};

static bool is_same_run(const struct fm_stage_about *a, const struct fm_stage_about *b)
{
	uint8_t run[2][FM_WIRE_STAGE_RUN_LEN];
	struct fm_cache_key key;

	CU_ASSERT_EQUAL(fm_stage_about_key(a, &key, run[0]), 0);
	CU_ASSERT_EQUAL(fm_stage_about_key(b, &key, run[1]), 0);
	return memcmp(run[0], run[1], sizeof(run[0])) == 0;
}

static void test_other_dataset(void)
{
	struct fm_stage_about other[7];

	for (unsigned i = 0; i < 7; i++)
		other[i] = plain;
	other[0].listing[31] = 1;
	other[1].entries++;
	other[2].bytes++;
	other[3].extents++;
	(void)strcpy(other[4].path, "sea");
	(void)strcpy(other[5].node[1], "n3");
	other[6].count = 1;
	for (unsigned i = 0; i < 7; i++)
		CU_ASSERT_FALSE(is_same_run(&plain, &other[i]));
}

static void test_same_dataset(void)
{
	struct fm_stage_about other = plain;

	other.uid = other.gid = 0;
	other.wanted = 1;
	other.may_read = 1;
	other.is_in = true;
	(void)strcpy(other.job, "zzzz7777");
	CU_ASSERT_TRUE(is_same_run(&plain, &other));
}

/* As fmove-cache(5) says: what caches have by now is found. */
static void test_key(void)
{
	static const uint8_t last[] = { 1 };
	struct fm_stage_about a = plain;
	struct fm_cache_key key, want;
	uint8_t run[FM_WIRE_STAGE_RUN_LEN];

	for (size_t file = 0; file < 2; file++) {
		struct fm_sha256 *s = fm_sha256_new();

		CU_ASSERT_PTR_NOT_NULL_FATAL(s);
		a.is_file = file;
		fm_sha256_add(s, "n1:s/set", sizeof("n1:s/set"));
		fm_sha256_add(s, a.listing, sizeof(a.listing));
		fm_sha256_add(s, last, file);
		fm_sha256_end(s, want.bytes);
		fm_sha256_free(s);
		CU_ASSERT_EQUAL(fm_stage_about_key(&a, &key, run), 0);
		CU_ASSERT_EQUAL(memcmp(key.bytes, want.bytes, sizeof(key.bytes)), 0);
	}
}

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static int decoded(const struct fm_stage_about *a, struct fm_stage_about *out)
{
	static uint8_t buf[FM_WIRE_STAGE_MAX];

	return fm_stage_about_decode(buf, fm_stage_about_encode(a, buf), out);
}

/* A commit of a hub's repository is another dataset than the same path of a plain store. */
static void test_hub(void)
{
	struct fm_stage_about a = plain, other, out;
	char source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_hub_source of;

	(void)strcpy(a.path, "models--org--name@" COMMIT);
	other = a;
	a.is_hub = true;
	CU_ASSERT_FALSE(is_same_run(&a, &other));
	CU_ASSERT_EQUAL(decoded(&a, &out), 0);
	CU_ASSERT_TRUE(out.is_hub && !out.is_in);
	a.is_in = true;
	CU_ASSERT_EQUAL(decoded(&a, &out), 0);
	CU_ASSERT_TRUE(out.is_hub && out.is_in && is_same_run(&a, &out));
	fm_stage_about_source(&a, source);
	CU_ASSERT_STRING_EQUAL(source, "hf://n1:s/models--org--name@" COMMIT);
	CU_ASSERT_EQUAL_FATAL(fm_hub_source_parse(source, &of), 0);
	CU_ASSERT_STRING_EQUAL(of.node, "n1");
	CU_ASSERT_STRING_EQUAL(of.store, "s");
	CU_ASSERT_STRING_EQUAL(of.name.dir, "models--org--name");
	CU_ASSERT_STRING_EQUAL(of.name.revision, COMMIT);
}

/* Nothing but a commit of one repository: no branch, no way out of the hub, no shared store. */
static void test_bad_hub(void)
{
	static const char *const bad[] = {
		"set", "models--org--name", "models--org--name@main", "models--org--name@../x",
		"models--../x@" COMMIT, "models--org--name/x@" COMMIT, "users--org--name@" COMMIT,
		"models--org--name@" COMMIT "0", "models--org--name@" COMMIT "/x",
	};
	struct fm_stage_about a = plain, out;

	a.is_hub = true;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)strcpy(a.path, bad[i]);
		CU_ASSERT_EQUAL(decoded(&a, &out), -EBADMSG);
	}
	(void)strcpy(a.path, "models--org--name@" COMMIT);
	CU_ASSERT_EQUAL(decoded(&a, &out), 0);
	(void)strcpy(a.shared, "nfs1");
	CU_ASSERT_EQUAL(decoded(&a, &out), -EBADMSG);
}

/* A dataset of one file has one entry, and is none of a hub. */
static void test_file(void)
{
	struct fm_stage_about a = plain, out;

	a.is_file = true;
	CU_ASSERT_EQUAL(decoded(&a, &out), -EBADMSG);
	a.entries = 1;
	CU_ASSERT_EQUAL(decoded(&a, &out), 0);
	CU_ASSERT_TRUE(out.is_file && !out.is_hub && !out.is_in);
	CU_ASSERT_TRUE(is_same_run(&a, &out));
	out.is_file = false;		/* a directory that holds just that file */
	CU_ASSERT_FALSE(is_same_run(&a, &out));
	(void)strcpy(a.path, "models--org--name@" COMMIT);
	CU_ASSERT_EQUAL(decoded(&a, &out), 0);
	a.is_hub = true;
	CU_ASSERT_EQUAL(decoded(&a, &out), -EBADMSG);
}

/* The id by which nodes log it is one of a job, as fmove logs takes it. */
static void test_job(void)
{
	static const char *const bad[] = { "", "abcd234", "abcd2341", "ABCD2345", "abcd\n345" };
	struct fm_stage_about a = plain, out;

	CU_ASSERT_EQUAL(decoded(&a, &out), 0);
	CU_ASSERT_STRING_EQUAL(out.job, "abcd2345");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)snprintf(a.job, sizeof(a.job), "%s", bad[i]);
		CU_ASSERT_EQUAL(decoded(&a, &out), -EBADMSG);
	}
}

static void test_hub_sources(void)
{
	static const char *const bad[] = {
		"", "hf://", "n1:s/models--org--name@" COMMIT, "hf://s/models--org--name@" COMMIT,
		"hf://:s/models--org--name@" COMMIT, "hf://n1:/models--org--name@" COMMIT,
		"hf://n1:s", "hf://n1:s/models--org--name@main", "hf://n1:s/x@" COMMIT,
		"hf://n1:s/a/models--org--name@" COMMIT,
	};
	struct fm_hub_source of;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(fm_hub_source_parse(bad[i], &of), -EINVAL);
}

#define NAME64 "012345678901234567890123456789012345678901234567890123456789abcd"

/* What names a source is taken apart as it was put together. */
static void test_sources(void)
{
	static const struct {
		const char *source;
		enum fm_stage_source_kind kind;
		const char *node, *store, *path;
	} good[] = {
		{ "n1:s/a/b:c", FM_STAGE_PLAIN, "n1", "s", "a/b:c" },
		{ "n1:s/", FM_STAGE_PLAIN, "n1", "s", "" },
		{ NAME64 ":" NAME64 "/x", FM_STAGE_PLAIN, NAME64, NAME64, "x" },
		{ "shared nfs1/a:b/c", FM_STAGE_SHARED_STORE, "", "nfs1", "a:b/c" },
		{ "hf://n1:s/models--o--n@1", FM_STAGE_HUB, "n1", "s", "models--o--n@1" },
		{ "hf://~1000/models--o--n@1", FM_STAGE_OWN_HUB, "", "", "models--o--n@1" },
	};
	static const char *const bad[] = {
		"", "n1", "n1:", "n1:s", "n1:/a", ":s/a", "n1/s:a/b", "shared ", "shared nfs1",
		"shared /a", "hf://", "hf://n1/a", "hf://~/a", "hf://~1x/a", "hf://~1",
		NAME64 "e:s/x", "n1:" NAME64 "e/x", "shared " NAME64 "e/x",
	};
	struct fm_stage_source_parts p;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(fm_stage_source_parse(good[i].source, &p), 0);
		CU_ASSERT_EQUAL(p.kind, good[i].kind);
		CU_ASSERT_STRING_EQUAL(p.node, good[i].node);
		CU_ASSERT_STRING_EQUAL(p.store, good[i].store);
		CU_ASSERT_STRING_EQUAL(p.path, good[i].path);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(fm_stage_source_parse(bad[i], &p), -EINVAL);
}

static const struct fm_test tests[] = {
	{ "another listing, other totals, other nodes: another run", test_other_dataset },
	{ "whoever asks, and for whom: the same run", test_same_dataset },
	{ "what the cache knows it by: of a directory as ever, of a file otherwise", test_key },
	{ "a commit of a hub is said to be one", test_hub },
	{ "nothing else of a hub is believed", test_bad_hub },
	{ "one file is said to be one", test_file },
	{ "the id by which it is logged", test_job },
	{ "what is the source of a hub's dataset", test_hub_sources },
	{ "the name of any source is taken apart", test_sources },
};

FM_TEST_MAIN("stage_about", tests)
