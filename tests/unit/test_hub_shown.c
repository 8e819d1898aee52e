/* SPDX-License-Identifier: MIT */
/* links: fm_staging_service */
/*
 * test_hub_shown - what a node's hub says of the datasets in its cache, and what another node that
 * brings datasets can make it say.
 *
 * The cache is a table here; its datasets are made as they lie on the disk.
 */
#define fm_cache_look	      table_look
#define fm_cache_find_version table_find
#include "staging/service/hub.c"

#include <sys/xattr.h>

#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define REPOSITORY "models--org--m"
#define X "1111111111111111111111111111111111111111"
#define Y "2222222222222222222222222222222222222222"
#define Z "3333333333333333333333333333333333333333"
#define BLOB "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER_BLOB "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

enum { TABLE = 8 };
static struct fm_cache_info table[TABLE];	/* an id is the place and one */
static char directory[] = "/tmp/fm-hub.XXXXXX";
static struct fm_hub *hub;

bool table_look(struct fm_cache *cache, uint64_t id, struct fm_cache_info *out)
{
	(void)cache;
	if (id == 0 || id > TABLE || table[id - 1].state != FM_CACHE_READY)
		return false;
	*out = table[id - 1];
	return true;
}

uint64_t table_find(struct fm_cache *cache, const struct fm_cache_key *version)
{
	(void)cache;
	for (uint64_t i = 0; i < TABLE; i++)
		if (table[i].state == FM_CACHE_READY &&
		    memcmp(&table[i].version, version, sizeof(*version)) == 0)
			return i + 1;
	return 0;
}

static void setup(void)
{
	struct fm_err err;

	strcpy(directory + sizeof(directory) - sizeof("XXXXXX"), "XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
	memset(table, 0, sizeof(table));
	CU_ASSERT_EQUAL_FATAL(fm_hub_new(NULL, directory, &hub, &err), 0);
}

static void teardown(void)
{
	fm_hub_free(hub);
	remove_all(directory);
}

/* Makes a file or a link (with a target) of the cache, and the directories to it. */
static void make(const char *path, const char *target)
{
	char part[FM_PATH_LEN_MAX + 1];
	int fd;

	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		(void)mkdirat(hub->root, part, 0755);
	}
	if (target) {
		CU_ASSERT_EQUAL_FATAL(symlinkat(target, hub->root, path), 0);
		return;
	}
	fd = openat(hub->root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	close(fd);
}

/* A READY dataset: a store's copy of that commit, whose one file is that blob. */
static uint64_t bring(const char *node, const char *commit, const char *blob)
{
	char version[FM_SHA256_HEX + 1], path[FM_PATH_LEN_MAX + 1], target[64];
	struct fm_cache_info *info = table;
	uint64_t id = 1;

	while (info->state == FM_CACHE_READY) {
		info++;
		id++;
	}
	*info = (struct fm_cache_info){ .id = id, .state = FM_CACHE_READY, .name = "m" };
	memset(info->version.bytes, (int)id, sizeof(info->version.bytes));
	fm_sha256_hex(info->version.bytes, version);
	(void)snprintf(path, sizeof(path), REPOSITORY "@%s", commit);
	fm_hub_source(node, "s", path, info->source, sizeof(info->source));
	(void)snprintf(path, sizeof(path), "ready/%s/m/" REPOSITORY "/blobs/%s", version, blob);
	make(path, NULL);
	(void)snprintf(path, sizeof(path), "ready/%s/m/" REPOSITORY "/trees/%s.json", version,
		       commit);
	make(path, NULL);
	(void)snprintf(path, sizeof(path), "ready/%s/m/" REPOSITORY "/snapshots/%s/file", version,
		       commit);
	(void)snprintf(target, sizeof(target), "../../blobs/%s", blob);
	make(path, target);
	return id;
}

/* It is gone, as the next sweep sees. */
static void evict(uint64_t id)
{
	table[id - 1].state = FM_CACHE_ABSENT;
	fm_hub_sweep(hub);
}

static int show_here(uint64_t id, const char *revision)
{
	char path[FM_PATH_LEN_MAX + 1];
	struct fm_err err;

	return fm_hub_show(hub, id, revision, false, path, sizeof(path), &err);
}

static int show_for_another(uint64_t id, const char *revision)
{
	char path[FM_PATH_LEN_MAX + 1];
	struct fm_err err;

	return fm_hub_show(hub, id, revision, true, path, sizeof(path), &err);
}

/* Whether the ref leads to that commit; NULL: whether there is none. */
static bool is_ref(const char *revision, const char *commit)
{
	char path[FM_PATH_LEN_MAX + 1], now[FM_HUB_COMMIT_LEN + 1];
	int ret;

	(void)snprintf(path, sizeof(path), HOME "/" HUB "/" REPOSITORY "/refs/%s", revision);
	ret = fm_hub_ref_read(hub->root, path, now);
	return commit ? ret == 0 && strcmp(now, commit) == 0 : ret < 0;
}

/* Whose dataset a name of the repository in the hub leads to; 0: to none. */
static uint64_t leads_to(const char *name)
{
	char path[FM_PATH_LEN_MAX + 1];
	struct fm_cache_key version;
	struct stat st;

	(void)snprintf(path, sizeof(path), HOME "/" HUB "/" REPOSITORY "/%s", name);
	return fstatat(hub->root, path, &st, 0) == 0 && version_of(hub->root, path, &version)
		       ? table_find(NULL, &version)
		       : 0;
}

/* Where the file system keeps no attributes, another node moves nothing. */
static bool keeps_sources(void)
{
	return fsetxattr(hub->root, "user.fmove.test", "", 0, 0) == 0;
}

static void test_other_commit(void)
{
	uint64_t ours, theirs;

	setup();
	ours = bring("t", X, BLOB);
	theirs = bring("b", Y, OTHER_BLOB);
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	CU_ASSERT_EQUAL(show_for_another(theirs, X), -EINVAL);
	CU_ASSERT_EQUAL(show_here(theirs, X), -EINVAL);
	CU_ASSERT_TRUE(is_ref(X, NULL));
	CU_ASSERT_EQUAL(show_for_another(theirs, Y), 0);
	CU_ASSERT_TRUE(is_ref(Y, NULL));	/* what is called so is the snapshot */
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), ours);
	CU_ASSERT_EQUAL(leads_to("snapshots/" Y), theirs);
	teardown();
}

/* Which copy is led to goes by who needs one, before the other one goes. */
static void test_copy_needed(void)
{
	uint64_t ours, same;

	setup();
	ours = bring("t", X, BLOB);
	same = bring("b", X, BLOB);
	table[ours - 1].holds = 1;
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	CU_ASSERT_EQUAL(show_for_another(same, "main"), 0);
	table[same - 1].holds = 1;
	fm_hub_sweep(hub);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), ours);
	table[ours - 1].holds = 0;
	fm_hub_sweep(hub);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), same);
	CU_ASSERT_EQUAL(leads_to("trees/" X ".json"), same);
	table[same - 1].holds = 0;
	table[ours - 1].pins = 1;
	fm_hub_sweep(hub);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), ours);
	table[ours - 1].pins = 0;
	fm_hub_sweep(hub);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), ours);
	CU_ASSERT_TRUE(is_ref("main", X));
	teardown();
}

/* The blobs were named for the copy that goes, which the snapshot does not lead to. */
static void test_blobs_of_copy(void)
{
	uint64_t ours, same;

	setup();
	ours = bring("t", X, BLOB);
	same = bring("b", X, BLOB);
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	fm_hub_sweep(hub);
	CU_ASSERT_EQUAL(show_here(same, "main"), 0);
	CU_ASSERT_EQUAL(leads_to("blobs/" BLOB), ours);
	evict(ours);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), same);
	CU_ASSERT_EQUAL(leads_to("blobs/" BLOB), same);
	teardown();
}

/* Two steps by which a peer would have its own bytes under the names that users here work with. */
static void test_same_then_other(void)
{
	uint64_t ours, same, other;

	setup();
	ours = bring("t", X, BLOB);
	same = bring("b", X, BLOB);
	other = bring("b", Z, OTHER_BLOB);
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	CU_ASSERT_EQUAL(show_for_another(same, X), 0);
	CU_ASSERT_EQUAL(show_for_another(same, "main"), 0);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), ours);
	CU_ASSERT_EQUAL(leads_to("trees/" X ".json"), ours);
	CU_ASSERT_EQUAL(show_for_another(other, "main"), -EEXIST);
	CU_ASSERT_TRUE(is_ref("main", X));
	CU_ASSERT_EQUAL(show_for_another(other, "theirs"), 0);
	CU_ASSERT_TRUE(is_ref("theirs", Z));
	teardown();
}

static void test_copy_goes(void)
{
	uint64_t ours, same;

	setup();
	ours = bring("t", X, BLOB);
	same = bring("b", X, BLOB);
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	CU_ASSERT_EQUAL(show_for_another(same, "main"), 0);
	evict(same);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), ours);
	CU_ASSERT_TRUE(is_ref("main", X));
	evict(ours);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), 0);
	CU_ASSERT_TRUE(is_ref("main", NULL));
	CU_ASSERT_EQUAL(faccessat(hub->root, HOME "/" HUB "/" REPOSITORY, F_OK, 0), -1);
	teardown();
}

static void test_copy_stays(void)
{
	uint64_t ours, same, wrong, other;

	setup();
	ours = bring("t", X, BLOB);
	same = bring("b", X, BLOB);
	wrong = bring("b", X, OTHER_BLOB);
	other = bring("b", Z, OTHER_BLOB);
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	CU_ASSERT_EQUAL(show_for_another(same, X), 0);
	evict(ours);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), same);
	CU_ASSERT_EQUAL(leads_to("trees/" X ".json"), same);
	CU_ASSERT_EQUAL(leads_to("blobs/" BLOB), same);
	CU_ASSERT_TRUE(is_ref("main", X));
	CU_ASSERT_EQUAL(show_for_another(other, "main"), -EEXIST);
	CU_ASSERT_EQUAL(show_for_another(wrong, X), -EEXIST);	/* main leads there */
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), same);
	evict(same);
	CU_ASSERT_TRUE(is_ref("main", NULL));
	CU_ASSERT_EQUAL(show_for_another(wrong, X), 0);		/* nothing does */
	teardown();
}

/* Whose a branch is does not depend on what its commit leads to. */
static void test_replaced_here(void)
{
	uint64_t ours, same, wrong, other;

	setup();
	ours = bring("t", X, BLOB);
	same = bring("b", X, BLOB);
	wrong = bring("b", X, OTHER_BLOB);
	other = bring("b", Z, OTHER_BLOB);
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	CU_ASSERT_EQUAL(show_here(same, "v2"), 0);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), same);
	CU_ASSERT_EQUAL(show_for_another(other, "main"), -EEXIST);
	CU_ASSERT_EQUAL(show_for_another(wrong, X), -EEXIST);
	evict(same);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), ours);
	CU_ASSERT_TRUE(is_ref("main", X));
	teardown();
}

/* What was not the same does not take the place of what was shown. */
static void test_other_bytes(void)
{
	uint64_t ours, wrong;

	setup();
	wrong = bring("b", X, OTHER_BLOB);
	CU_ASSERT_EQUAL(show_for_another(wrong, "main"), 0);
	ours = bring("t", X, BLOB);
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), ours);
	CU_ASSERT_EQUAL(show_for_another(wrong, "main"), -EEXIST);
	CU_ASSERT_EQUAL(show_for_another(wrong, "v2"), -EEXIST);
	evict(ours);
	CU_ASSERT_TRUE(is_ref("main", NULL));
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), 0);
	teardown();
}

/* A source moves its own branches, but not one that somebody made here of another source. */
static void test_own_branch(void)
{
	uint64_t old, more, new, ours;

	setup();
	old = bring("b", X, BLOB);
	new = bring("b", Y, OTHER_BLOB);
	CU_ASSERT_EQUAL(show_for_another(old, "main"), 0);
	more = bring("b", X, OTHER_BLOB);	/* downloaded further, say */
	CU_ASSERT_EQUAL(show_for_another(more, "main"), keeps_sources() ? 0 : -EEXIST);
	CU_ASSERT_EQUAL(leads_to("snapshots/" X), keeps_sources() ? more : old);
	CU_ASSERT_EQUAL(show_for_another(new, "main"), keeps_sources() ? 0 : -EEXIST);
	CU_ASSERT_TRUE(is_ref("main", keeps_sources() ? Y : X));
	ours = bring("t", Y, OTHER_BLOB);
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	CU_ASSERT_EQUAL(show_for_another(old, "main"), -EEXIST);
	CU_ASSERT_TRUE(is_ref("main", Y));
	teardown();
}

/* Another node's names stand in the way of none, and those of a user here of none for long. */
static void test_in_the_way(void)
{
	uint64_t ours, theirs;

	setup();
	ours = bring("t", X, BLOB);
	theirs = bring("b", Y, OTHER_BLOB);
	CU_ASSERT_EQUAL(show_for_another(theirs, "main/x"), -EEXIST);
	CU_ASSERT_EQUAL(show_for_another(theirs, "pr"), -EEXIST);
	CU_ASSERT_EQUAL(show_for_another(theirs, "v1/x"), 0);
	CU_ASSERT_EQUAL(show_for_another(theirs, "v1"), -EEXIST);
	CU_ASSERT_EQUAL(show_for_another(theirs, "v2"), 0);
	CU_ASSERT_EQUAL(show_for_another(theirs, "v2/x/y"), -EEXIST);
	CU_ASSERT_EQUAL(show_for_another(theirs, "pr/1"), 0);
	CU_ASSERT_TRUE(is_ref("v1/x", Y) && is_ref("v2", Y) && is_ref("pr/1", Y));
	CU_ASSERT_EQUAL(show_here(ours, "main"), 0);
	CU_ASSERT_EQUAL(show_here(ours, "v1"), 0);
	CU_ASSERT_EQUAL(show_here(ours, "v2/x/y"), 0);
	CU_ASSERT_TRUE(is_ref("main", X) && is_ref("v1", X) && is_ref("v2/x/y", X));
	teardown();
}

static void test_bounded(void)
{
	char revision[32];
	uint64_t ours, theirs;

	setup();
	ours = bring("t", X, BLOB);
	theirs = bring("b", Y, OTHER_BLOB);
	CU_ASSERT_EQUAL(show_for_another(theirs, "1/2/3/4/5/6/7/8"), 0);
	CU_ASSERT_EQUAL(show_for_another(theirs, "1/2/3/4/5/6/7/9/9"), -ENAMETOOLONG);
	for (unsigned i = 1; i < FM_HUB_REFS_MAX; i++) {
		(void)snprintf(revision, sizeof(revision), "a%u", i);
		CU_ASSERT_EQUAL(show_for_another(theirs, revision), 0);
	}
	CU_ASSERT_EQUAL(show_for_another(theirs, "more"), -EDQUOT);
	CU_ASSERT_TRUE(is_ref("more", NULL));
	CU_ASSERT_EQUAL(show_for_another(theirs, "a1"), 0);	/* it is there */
	CU_ASSERT_EQUAL(show_here(theirs, "more"), 0);
	CU_ASSERT_EQUAL(show_here(ours, "1/2/3/4/5/6/7/8/9/10"), 0);
	evict(theirs);
	CU_ASSERT_TRUE(is_ref("a1", NULL) && is_ref("more", NULL));
	CU_ASSERT_TRUE(is_ref("1/2/3/4/5/6/7/8/9/10", X));
	teardown();
}

static const struct fm_test tests[] = {
	{ "no ref is called like a commit", test_other_commit },
	{ "another node that has the same commit replaces nothing, and moves no ref by it",
	  test_same_then_other },
	{ "what goes with another copy of a commit is that copy alone", test_copy_goes },
	{ "a commit whose dataset goes leads to another copy", test_copy_stays },
	{ "a commit leads to the copy that somebody needs", test_copy_needed },
	{ "names of blobs outlive the copy that they led to", test_blobs_of_copy },
	{ "whose a ref is does not depend on which copy its commit leads to", test_replaced_here },
	{ "a commit never leads to other bytes than it was led to here", test_other_bytes },
	{ "a source moves its own branches, and no other one's", test_own_branch },
	{ "another node's refs stand in the way of nobody's", test_in_the_way },
	{ "refs that are made for other nodes are bounded", test_bounded },
};
FM_TEST_MAIN("hub_shown", tests)
