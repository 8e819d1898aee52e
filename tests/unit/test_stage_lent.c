/* SPDX-License-Identifier: MIT */
/*
 * What is staged, as other nodes read it: files of datasets that are READY and that they hold, and
 * nothing else. links: fm_staging_service
 */
#include "tests/unit/cache_scene.h"

#include "mover/base/fault.h"
#include "mover/store/store.h"
#include "staging/service/lent.h"

static struct scene s;
static struct fm_store *store;
static char key[FM_LENT_KEY_LEN + 1];
static bool is_in_peers;

static bool may(void *ctx, const char *peer)
{
	CU_ASSERT_PTR_EQUAL(ctx, &s);
	return is_in_peers && strcmp(peer, "n9") != 0;
}

static void hold(uint64_t id, const char *node, uint64_t theirs)
{
	struct fm_cache_holder who = { .uid = 1000, .theirs = theirs };
	uint64_t number;

	(void)snprintf(who.node, sizeof(who.node), "%s", node);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, id, &who, &number, &s.err), 0);
}

static void begin(void)
{
	struct fm_cache_key listing = scene_key(1);

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	is_in_peers = true;
	CU_ASSERT_EQUAL_FATAL(fm_lent_new(s.c, may, &s, &store, &s.err), 0);
	fm_lent_key(&listing, key);
}

static void end(void)
{
	store->ops->free(store);
	scene_end(&s);
}

/* As that peer, KEY and what is behind it. A descriptor, or why not. */
static int open_of(const char *peer, const char *of, const char *behind)
{
	const struct fm_who who = { .peer = peer, .uid = 1000 };
	char path[256];

	(void)snprintf(path, sizeof(path), "%s%s", of, behind);
	return store->ops->open_fd(store, path, &who, &s.err);
}

static int open_as(const char *peer, const char *behind)
{
	return open_of(peer, key, behind);
}

static bool reads(int fd)
{
	char bytes[FILE_LEN + 1];
	ssize_t n = fd < 0 ? -1 : pread(fd, bytes, sizeof(bytes), 0);

	return n == FILE_LEN && bytes[0] == 'x' && bytes[n - 1] == 'x';
}

static void test_held(void)
{
	int fd, first;
	uint64_t id;

	begin();
	id = scene_stage(&s, 1, 2 * FILE_LEN);
	CU_ASSERT_EQUAL(open_as("n3", "/a"), -ENOENT);
	hold(id, "n3", 7);
	fd = open_as("n3", "/a");
	CU_ASSERT_TRUE(reads(fd));
	CU_ASSERT_EQUAL(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	first = fd;
	fd = open_as("n3", "/sub/b");
	CU_ASSERT_TRUE(reads(fd));
	(void)close(fd);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), -EBUSY);
	fm_cache_release_node(s.c, "n3", 7);
	CU_ASSERT_EQUAL(open_as("n3", "/a"), -ENOENT);
	CU_ASSERT_TRUE(reads(first));
	(void)close(first);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), 0);
	end();
}

static void test_who(void)
{
	struct fm_cache_holder user = { .uid = 1000 };
	uint64_t id, number;

	begin();
	id = scene_stage(&s, 1, 2 * FILE_LEN);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, id, &user, &number, &s.err), 0);
	CU_ASSERT_EQUAL(open_as(NULL, "/a"), -EACCES);
	CU_ASSERT_EQUAL(open_as("", "/a"), -ENOENT);	/* what a user here holds is no node's */
	CU_ASSERT_EQUAL(open_as("n3", "/a"), -ENOENT);
	hold(id, "n4", 1);
	hold(id, "n9", 2);
	CU_ASSERT_EQUAL(open_as("n3", "/a"), -ENOENT);
	CU_ASSERT_EQUAL(open_as("n", "/a"), -ENOENT);
	CU_ASSERT_EQUAL(open_as("n9", "/a"), -EACCES);
	is_in_peers = false;
	CU_ASSERT_EQUAL(open_as("n4", "/a"), -EACCES);
	end();
}

/* What a peer may not name, though it holds a dataset. */
static void test_paths(void)
{
	static const char *const none[] = {
		"", "/", "//a", "/.", "/..", "/../.manifest", "/sub/../../.manifest", "/../set1/a",
		"/.manifest", "/.scratch", "/none", "/sub", "/sub/", "/link", "/way/b", "/pipe",
		"x", "/a/", "/a/b", "a", "0/a", "/../../../lock",
	};
	char dir[256], path[300], other[sizeof(key)];
	uint64_t id;

	begin();
	id = scene_stage(&s, 1, 2 * FILE_LEN);
	hold(id, "n3", 7);
	CU_ASSERT_EQUAL(fm_cache_path(s.c, id, dir, sizeof(dir)), 0);
	CU_ASSERT_EQUAL(chmod(dir, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/link", dir);
	CU_ASSERT_EQUAL(symlink("a", path), 0);
	(void)snprintf(path, sizeof(path), "%s/way", dir);
	CU_ASSERT_EQUAL(symlink("sub", path), 0);
	(void)snprintf(path, sizeof(path), "%s/pipe", dir);
	CU_ASSERT_EQUAL(mkfifo(path, 0600), 0);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		int fd = open_as("n3", none[i]);

		if (fd >= 0)
			fprintf(stderr, "KEY%s is opened\n", none[i]);
		CU_ASSERT_TRUE(fd < 0);
	}
	(void)strcpy(other, key);
	for (size_t len = 0; len < FM_LENT_KEY_LEN; len++) {
		other[len] = '\0';
		CU_ASSERT_EQUAL(open_of("n3", other, "/a"), -EINVAL);
		other[len] = key[len];
	}
	other[0] = 'G';
	CU_ASSERT_EQUAL(open_of("n3", other, "/a"), -EINVAL);
	other[0] = key[0] == '0' ? '1' : '0';
	CU_ASSERT_EQUAL(open_of("n3", other, "/a"), -ENOENT);
	CU_ASSERT_EQUAL(open_of("n3", "set1", "/a"), -EINVAL);
	end();
}

/* Of one that is on its way nothing is read, though its files are there. */
static void test_not_ready(void)
{
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	const struct fm_cache_key version = scene_key(101);
	char hex[FM_LENT_KEY_LEN + 1], nothing[FM_LENT_KEY_LEN + 1];
	const struct fm_cache_key zeros = { 0 };
	struct fm_cache_fetch *f;

	begin();
	fm_lent_key(&version, hex);
	fm_lent_key(&zeros, nothing);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	scene_fill(f, plan.name);
	CU_ASSERT_EQUAL(open_of("n3", hex, "/a"), -ENOENT);
	CU_ASSERT_EQUAL(open_of("n3", nothing, "/a"), -ENOENT);
	CU_ASSERT_EQUAL(open_as("n3", "/a"), -ENOENT);
	fm_cache_fetch_close(f);
	CU_ASSERT_EQUAL(open_of("n3", nothing, "/a"), -ENOENT);
	end();
}

/* A dataset that is one file has no name but its key. */
static void test_file(void)
{
	struct fm_cache_plan plan = scene_plan(1, FILE_LEN);
	struct fm_cache_fetch *f;
	int fd;

	begin();
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(scene_write(fm_cache_fetch_dir(f), plan.name, FILE_LEN), 0);
	CU_ASSERT_EQUAL(scene_write(fm_cache_fetch_dir(f), FM_CACHE_MANIFEST_NAME, 10), 0);
	CU_ASSERT_EQUAL(scene_finish(&s, f, 1), 0);
	hold(fm_cache_fetch_id(f), "n3", 7);
	fm_cache_fetch_close(f);
	fd = open_as("n3", "");
	CU_ASSERT_TRUE(reads(fd));
	(void)close(fd);
	CU_ASSERT_TRUE(open_as("n3", "/set1") < 0);
	CU_ASSERT_TRUE(open_as("n3", "/.manifest") < 0);
	end();
}

/* What came of a user's own hub cache is for no node, though one held it. */
static void test_own(void)
{
	struct fm_cache_plan plan = scene_plan(1, FILE_LEN);
	struct fm_cache_fetch *f;

	begin();
	plan.source = "hf://~1000/models--o--n@1111111111111111111111111111111111111111";
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(scene_write(fm_cache_fetch_dir(f), plan.name, FILE_LEN), 0);
	CU_ASSERT_EQUAL(scene_write(fm_cache_fetch_dir(f), FM_CACHE_MANIFEST_NAME, 10), 0);
	CU_ASSERT_EQUAL(scene_finish(&s, f, 1), 0);
	hold(fm_cache_fetch_id(f), "n3", 7);
	fm_cache_fetch_close(f);
	CU_ASSERT_EQUAL(open_as("n3", ""), -ENOENT);
	end();
}

/* Nothing else is done with it, not even looked at. */
static void test_nothing_else(void)
{
	const struct fm_who who = { .peer = "n3", .uid = 0 };
	const struct fm_list_opts list = { .after = "", .max = 4 };
	const struct fm_create how = { .size = 1 };
	const struct fm_store_ops *ops;
	struct fm_store_space space;
	struct fm_entry entries[4];
	struct fm_file *file;
	struct fm_attr attr;
	size_t count = 0;

	begin();
	ops = store->ops;
	hold(scene_stage(&s, 1, 2 * FILE_LEN), "n3", 7);
	CU_ASSERT_TRUE(store->is_hidden);
	CU_ASSERT_STRING_EQUAL(store->name, FM_LENT_STORE);
	CU_ASSERT_EQUAL(ops->open_source(store, key, &who, &file, &attr, &s.err), -EACCES);
	CU_ASSERT_EQUAL(ops->create(store, key, &who, &how, &file, &s.err), -EACCES);
	CU_ASSERT_EQUAL(ops->stat(store, key, &who, &attr, &s.err), -EACCES);
	CU_ASSERT_EQUAL(ops->list(store, "", &who, &list, entries, &count, &s.err), -EACCES);
	CU_ASSERT_EQUAL(ops->remove(store, key, &who, true, &s.err), -EACCES);
	CU_ASSERT_EQUAL(ops->space(store, &who, &space, &s.err), -EACCES);
	CU_ASSERT_EQUAL(ops->mkdir(store, "x", &who, &s.err), -EACCES);
	CU_ASSERT_TRUE(!ops->open_tree && !ops->open_dir && !ops->create_tree && !ops->move &&
		       !ops->link && !ops->verify && !ops->lets_peer);
	end();
}

static void test_faults(void)
{
	uint64_t id;

	if (fm_test_lacks_faults())
		return;
	begin();
	id = scene_stage(&s, 1, 2 * FILE_LEN);
	hold(id, "n3", 7);
	fm_fault_arm("lent.open", 1);
	CU_ASSERT_EQUAL(open_as("n3", "/a"), -EMFILE);
	fm_fault_arm(NULL, 0);
	store->ops->free(store);
	fm_fault_arm("lent.new", 1);
	CU_ASSERT_EQUAL(fm_lent_new(s.c, may, &s, &store, &s.err), -ENOMEM);
	fm_fault_arm(NULL, 0);
	scene_end(&s);
}

static const struct fm_test tests[] = {
	{ "what came of a user's own cache is for no node", test_own },
	{ "a file of a dataset is read by the node that holds it, which stays meanwhile",
	  test_held },
	{ "who holds nothing here, or is not in staging.peers, reads nothing", test_who },
	{ "only files below the data are named", test_paths },
	{ "what is not READY is not read", test_not_ready },
	{ "a dataset that is one file", test_file },
	{ "nothing else is done with the store", test_nothing_else },
	{ "no memory, no descriptor", test_faults },
};

FM_TEST_MAIN("stage_lent", tests)
