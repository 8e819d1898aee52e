/* SPDX-License-Identifier: MIT */
/*
 * links: fm_tree fm_journal
 *
 * test_remove - directories that go as a whole, also when several remove the same one; what a sweep may take away.
 */
#include <pthread.h>
#include <sys/mount.h>

#include "mover/tree/remove.h"
#include "tests/unit/may_mount.h"
#include "tests/unit/sink_scene.h"

#define REMOVERS 3
#define ROUNDS 40

static int parent;
static pthread_barrier_t all_there;

/* Some directories in each other, with files, several times. */
static void make_tree(const char *name)
{
	char path[512];

	CU_ASSERT_EQUAL(mkdir(at(name), 0700), 0);
	for (unsigned i = 0; i < 8; i++) {
		int len = snprintf(path, sizeof(path), "%s", name);

		for (unsigned depth = 0; depth < 8; depth++) {
			len += snprintf(path + len, sizeof(path) - (size_t)len, "/d%u", depth ? depth : i);
			CU_ASSERT_EQUAL(mkdir(at(path), 0700), 0);
			(void)snprintf(path + len, sizeof(path) - (size_t)len, "/f");
			close(open(at(path), O_CREAT | O_WRONLY, 0600));
			path[len] = '\0';
		}
	}
}

static void *remove_it(void *arg)
{
	int *ret = arg;

	(void)pthread_barrier_wait(&all_there);
	*ret = fm_tree_remove(parent, "tree", NULL);
	return NULL;
}

/* Goal: a sweep and a publish that remove the same old version leave nothing of it, whoever is done first. */
static void test_at_once(void)
{
	pthread_t threads[REMOVERS];
	int ret[REMOVERS];

	scene_begin(IN_MEMORY);
	parent = open(dir, O_RDONLY | O_DIRECTORY);
	pthread_barrier_init(&all_there, NULL, REMOVERS);
	for (unsigned round = 0; round < ROUNDS; round++) {
		make_tree("tree");
		for (unsigned i = 0; i < REMOVERS; i++)
			CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, remove_it, &ret[i]), 0);
		for (unsigned i = 0; i < REMOVERS; i++) {
			CU_ASSERT_EQUAL(pthread_join(threads[i], NULL), 0);
			CU_ASSERT_EQUAL(ret[i], 0);
		}
		CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	}
	pthread_barrier_destroy(&all_there);
	close(parent);
	scene_end();
}

/* What another one who removes the tree does meanwhile: directories that are about to be met are at the top. */
static void move_meanwhile(void *ctx, int64_t bytes)
{
	unsigned *calls = ctx;
	char from[64], to[64];

	(void)bytes;
	if ((*calls)++ > 0)
		return;
	for (unsigned i = 0; i < 8; i++) {
		(void)snprintf(from, sizeof(from), "tree/d%u/d1", i);
		(void)snprintf(to, sizeof(to), "tree/.fmove.gone.%u", 100 + i);
		(void)rename(at(from), at(to));		/* those that are there still */
	}
}

/* Goal: a directory that somebody else moved is no reason to end with the rest left. */
static void test_moved_meanwhile(void)
{
	unsigned calls = 0;
	const struct fm_tree_freed freed = { .used = move_meanwhile, .ctx = &calls };
	char path[64];

	scene_begin(IN_MEMORY);
	parent = open(dir, O_RDONLY | O_DIRECTORY);
	make_tree("tree");
	for (unsigned i = 0; i < 8 * 16; i++) {		/* around d1, however they are listed */
		(void)snprintf(path, sizeof(path), "tree/d%u/g%u", i / 16, i % 16);
		close(open(at(path), O_CREAT | O_WRONLY, 0600));
	}
	CU_ASSERT_EQUAL(fm_tree_remove(parent, "tree", &freed), 0);
	CU_ASSERT_TRUE(calls > 0);
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	close(parent);
	scene_end();
}

struct asked {
	bool is_old;
	unsigned times;
	int lock_ret;			/* of somebody who comes meanwhile */
};

static bool is_old(const void *ctx, int from, const char *name)
{
	struct asked *a = (struct asked *)(uintptr_t)ctx;
	int tree_fd, lock_fd;

	a->times++;
	a->lock_ret = fm_staging_lock(from, name, &tree_fd, &lock_fd);
	if (a->lock_ret == 0) {
		close(lock_fd);
		close(tree_fd);
	}
	return a->is_old;
}

/* Goal: a tree that somebody went on with just before the sweep locked it stays. */
static void test_age_under_lock(void)
{
	struct asked asked = { .is_old = false };
	const struct fm_staging_age age = { .is_old = is_old, .ctx = &asked };
	char name[FM_STAGING_NAME_LEN + 1], made[FM_STAGING_NAME_LEN + sizeof("/data")];
	int tree_fd, lock_fd;

	scene_begin(IN_MEMORY);
	parent = open(dir, O_RDONLY | O_DIRECTORY);
	fm_staging_name(FM_STAGING_TREE, "tree", name);
	CU_ASSERT_EQUAL_FATAL(fm_staging_lock(parent, name, &tree_fd, &lock_fd), 0);
	close(lock_fd);
	close(tree_fd);
	(void)snprintf(made, sizeof(made), "%s/data", name);
	make_tree(made);
	CU_ASSERT_EQUAL(fm_staging_sweep(parent, name, &age, NULL), -EAGAIN);
	CU_ASSERT_TRUE(asked.times == 1 && asked.lock_ret == -EBUSY);
	CU_ASSERT_EQUAL(names_in(at(made), "d"), 8);
	asked.is_old = true;
	CU_ASSERT_EQUAL(fm_staging_sweep(parent, name, &age, NULL), 0);
	CU_ASSERT_TRUE(asked.times == 2 && asked.lock_ret == -EBUSY);
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	close(parent);
	scene_end();
}

/* Goal: what somebody has mounted in a tree that goes, or on it, keeps its files. */
static void test_mounted(void)
{
	static const char *const points[] = { "tree/d1", "tree/d1/d1", "tree" };

	if (!may_mount())
		return;
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		int ret;

		scene_begin(IN_MEMORY);
		parent = open(dir, O_RDONLY | O_DIRECTORY);
		make_tree("tree");
		make_tree("theirs");
		CU_ASSERT_EQUAL_FATAL(mount(at("theirs"), at(points[i]), NULL, MS_BIND, NULL), 0);
		ret = fm_tree_remove(parent, "tree", NULL);
		CU_ASSERT_TRUE(ret == -EXDEV || ret == -EBUSY);
		CU_ASSERT_EQUAL(names_in(at("theirs"), "d"), 8);
		CU_ASSERT_EQUAL(access(at("theirs/d1/f"), F_OK), 0);
		CU_ASSERT_EQUAL(umount(at(points[i])), 0);
		CU_ASSERT_EQUAL(fm_tree_remove(parent, "tree", NULL), 0);
		CU_ASSERT_EQUAL(access(at("tree"), F_OK), -1);
		close(parent);
		scene_end();
	}
}

static const struct fm_test tests[] = {
	{ "several that remove the same leave nothing", test_at_once },
	{ "what somebody else moves meanwhile goes too", test_moved_meanwhile },
	{ "what is mounted in it stays", test_mounted },
	{ "the age of what a sweep takes is asked under the lock", test_age_under_lock },
};
FM_TEST_MAIN("remove", tests)
