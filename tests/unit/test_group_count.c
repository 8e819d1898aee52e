/* SPDX-License-Identifier: MIT */
/* links: fm_store */
/*
 * Goal:   of as many groups as a store may have each is found, counted for its user and dropped;
 *         what a look through the store does not find goes, and nothing else.
 * Method: directories are only numbers here.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/store/group_count.h"
#include "tests/fm_test.h"

#define MANY  FM_GROUPS_OPEN_MAX
#define LATER INT64_MAX
#define OVER  1 /* in 1970 */

static struct fm_group_count gc;

/* Inodes of one file system follow each other; those of two may be the same. */
static struct fm_group_key key_of(uint32_t i)
{
	return (struct fm_group_key){.dev = 1 + i % 2, .ino = 1000 + i / 2};
}

static int add(uint32_t i, uint32_t uid)
{
	struct fm_group_key key = key_of(i);
	struct fm_err err;

	return fm_group_count_add(&gc, &key, uid, LATER, &err);
}

static int found(uint32_t i, uint32_t uid, int64_t expires_ns)
{
	struct fm_group_key key = key_of(i);

	return fm_group_count_found(&gc, &key, uid, expires_ns);
}

static void publish(uint32_t i)
{
	struct fm_group_key key = key_of(i);

	fm_group_count_publish(&gc, &key);
}

static void drop(uint32_t i)
{
	struct fm_group_key key = key_of(i);

	fm_group_count_drop(&gc, &key);
}

static void test_many(void)
{
	fm_group_count_init(&gc, MANY + 1);
	for (int look = 0; look < 2; look++) {
		fm_group_count_look(&gc);
		for (uint32_t i = 0; i < MANY; i++)
			found(i, i % 4, LATER);
		fm_group_count_looked(&gc, true);
		CU_ASSERT_EQUAL(gc.count, MANY);
	}
	CU_ASSERT_EQUAL(found(MANY, 1, LATER), -EDQUOT); /* one more than there may be */
	CU_ASSERT_EQUAL(gc.count, MANY);
	CU_ASSERT_EQUAL(add(MANY, 1), -EDQUOT);
	drop(MANY); /* was never added */
	drop(MANY / 2 + 1);
	CU_ASSERT_EQUAL(gc.count, MANY - 1);
	CU_ASSERT_EQUAL(add(MANY, 1), 0);
	fm_group_count_look(&gc);
	for (uint32_t i = 0; i < MANY; i += 4)
		found(i, 0, LATER);
	fm_group_count_looked(&gc, true);
	CU_ASSERT_EQUAL(gc.count, MANY / 4);
	for (uint32_t i = 0; i < MANY; i++)	/* none looks at all others */
		CU_ASSERT_EQUAL(i % 4 == 0 ? 0 : add(i, i % 4), 0);
	CU_ASSERT_EQUAL(gc.count, MANY);
	for (uint32_t i = 0; i <= MANY; i++)
		drop(i);
	CU_ASSERT_EQUAL(gc.count, 0);
	fm_group_count_free(&gc);
}

/* Goal: what was published counts for nobody, and keeps nobody's group out. */
static void test_published(void)
{
	fm_group_count_init(&gc, MANY);
	for (uint32_t i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL(add(i, 7), 0);
	for (int i = 0; i < 2; i++)
		publish(5);
	CU_ASSERT_EQUAL(gc.published, 1);
	CU_ASSERT_EQUAL(gc.count, MANY);
	CU_ASSERT_EQUAL(add(MANY, 7), 0);
	CU_ASSERT_EQUAL(gc.published, 0);
	CU_ASSERT_EQUAL(gc.count, MANY);
	CU_ASSERT_EQUAL(add(5, 8), -EDQUOT);
	publish(6);
	CU_ASSERT_EQUAL(add(6, 7), 0);	/* another one has the inode now */
	CU_ASSERT_EQUAL(gc.published, 0);
	CU_ASSERT_EQUAL(add(5, 7), -EDQUOT);
	fm_group_count_free(&gc);
}

static void test_users(void)
{
	fm_group_count_init(&gc, 2);
	CU_ASSERT_EQUAL(add(1, 7), 0);
	CU_ASSERT_EQUAL(add(2, 7), 0);
	CU_ASSERT_EQUAL(add(3, 7), -EDQUOT);
	CU_ASSERT_EQUAL(add(3, 8), 0);
	found(2, 8, LATER); /* another group has the inode now */
	CU_ASSERT_EQUAL(gc.count, 3);
	CU_ASSERT_EQUAL(add(4, 8), -EDQUOT);
	found(1, 7, OVER); /* does not count any more */
	found(1, 7, OVER);
	CU_ASSERT_EQUAL(add(4, 7), 0);
	CU_ASSERT_EQUAL(add(5, 7), 0);
	CU_ASSERT_EQUAL(add(6, 7), -EDQUOT);
	fm_group_count_free(&gc);
}

static int64_t soon(int64_t ns)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return fm_time_ns(&now) + ns;
}

static void test_ends(void)
{
	const struct timespec until = {.tv_nsec = 30000000};
	int64_t ends_ns = soon(20000000);

	fm_group_count_init(&gc, 2);
	found(1, 7, ends_ns);
	CU_ASSERT_EQUAL(add(2, 7), 0);
	while (soon(0) < ends_ns)
		(void)nanosleep(&until, NULL);
	CU_ASSERT_EQUAL(add(3, 7), 0);
	CU_ASSERT_EQUAL(add(4, 7), -EDQUOT);
	drop(2);
	CU_ASSERT_EQUAL(add(4, 7), 0);
	CU_ASSERT_EQUAL(gc.count, 3);
	fm_group_count_free(&gc);
}

static void test_begun_amid_a_look(void)
{
	fm_group_count_init(&gc, 2);
	CU_ASSERT_EQUAL(add(1, 7), 0);
	fm_group_count_look(&gc);
	CU_ASSERT_EQUAL(add(2, 7), 0); /* where the look was already */
	fm_group_count_looked(&gc, true);
	CU_ASSERT_EQUAL(gc.count, 1);
	CU_ASSERT_EQUAL(add(3, 7), 0);
	CU_ASSERT_EQUAL(add(4, 7), -EDQUOT);
	fm_group_count_free(&gc);
}

static int watched_until(unsigned n, int64_t expires_ns)
{
	const struct fm_group_key key = key_of(n);
	int dir = open(".", O_RDONLY | O_DIRECTORY), ret;

	found(n, 0, expires_ns);
	ret = fm_group_count_watch(&gc, &key, dir);
	close(dir);
	return ret;
}

static int watched(unsigned n)
{
	return watched_until(n, LATER);
}

/*
 * Goal:   what vanished in a store that is never looked through as a whole does not keep others out
 *         for ever, nor stays watched: its time is over some day. What goes on stays.
 */
static void test_never_whole(void)
{
	fm_group_count_init(&gc, MANY);
	fm_group_count_look(&gc);
	for (uint32_t i = 0; i < MANY; i++)
		found(i, i % 4, i % 2 == 0 ? OVER : LATER);
	CU_ASSERT_EQUAL(gc.count, MANY);
	CU_ASSERT_EQUAL(add(MANY, 7), 0);
	CU_ASSERT_EQUAL(gc.count, MANY / 2 + 1);
	for (uint32_t i = 0; gc.count < MANY; i += 2)
		found(i, 0, OVER);
	found(MANY + 1, 7, LATER);
	CU_ASSERT_EQUAL(gc.count, MANY / 2 + 2);
	CU_ASSERT_EQUAL(watched(1), 0);
	CU_ASSERT_EQUAL(watched_until(2, OVER), 0);
	CU_ASSERT_EQUAL(gc.watches.count, 2);
	fm_group_count_look(&gc);
	fm_group_count_looked(&gc, false);
	CU_ASSERT_EQUAL(gc.count, MANY / 2 + 2);
	CU_ASSERT_EQUAL(gc.watches.count, 1);
	fm_group_count_looked(&gc, true);
	CU_ASSERT_EQUAL(gc.count + gc.watches.count, 0);
	fm_group_count_free(&gc);
}

static int synced(unsigned n)
{
	const struct fm_group_key key = key_of(n);
	bool is_watched;

	return fm_group_count_sync(&gc, &key, -1, &is_watched);
}

/*
 * Goal:   however many groups are open, a failed sync is one for ever for each group that is
 *         watched by the same descriptor, and these are not many. Those that share none are apart.
 */
static void test_watches(void)
{
	const unsigned count = FM_GROUP_WATCHES_MAX + 2;

	fm_group_count_init(&gc, 1);
	for (unsigned n = 1; n <= count; n++)
		CU_ASSERT_EQUAL(watched(n), 0);
	CU_ASSERT_EQUAL(watched(1), 0);
	CU_ASSERT_EQUAL(gc.watches.count, FM_GROUP_WATCHES_MAX);
	fm_fault_arm("store.syncfs", 1);
	CU_ASSERT_EQUAL(synced(count), -EIO);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(synced(count), -EIO);
	CU_ASSERT_EQUAL(synced(count - 1), -EIO);
	CU_ASSERT_EQUAL(synced(1), 0);
	/* Who begins later has nothing to do with it, though there is no room for one more. */
	for (unsigned n = count + 1; n <= count + 3; n++) {
		CU_ASSERT_EQUAL(watched(n), 0);
		CU_ASSERT_EQUAL(synced(n), 0);
	}
	CU_ASSERT_EQUAL(gc.watches.count, FM_GROUP_WATCHES_MAX);
	CU_ASSERT_EQUAL(synced(count), -EIO);
	for (unsigned n = 1; n <= count + 3; n++)
		drop(n);
	CU_ASSERT_EQUAL(gc.watches.count, 0);
	fm_group_count_free(&gc);
}

static bool is_noted(unsigned n)
{
	const struct fm_group_key key = key_of(n);

	return fm_group_count_is_noted(&gc, &key);
}

static void note(unsigned n)
{
	const struct fm_group_key key = key_of(n);

	fm_group_count_note(&gc, &key);
}

/* Goal: what was known of a group is not true of another one that has its inode. */
static void test_inode_again(void)
{
	fm_group_count_init(&gc, MANY);
	for (int is_begun = 0; is_begun <= 1; is_begun++) {
		CU_ASSERT_EQUAL(watched(1), 0);
		note(1);
		found(1, 0, LATER);
		CU_ASSERT_TRUE(is_noted(1) && gc.watches.count == 1);
		fm_fault_arm("store.syncfs", 1);
		CU_ASSERT_EQUAL(synced(1), -EIO);
		fm_fault_arm(NULL, 0);
		if (is_begun) {
			CU_ASSERT_EQUAL(add(1, 0), 0);
		} else {
			found(1, 0, LATER - 1);
		}
		CU_ASSERT_FALSE(is_noted(1));
		CU_ASSERT_EQUAL(gc.watches.count, 0);
		CU_ASSERT_EQUAL(watched(1), 0);
		CU_ASSERT_EQUAL(synced(1), 0);
		drop(1);
	}
	note(1); /* of none that is counted nothing is known */
	CU_ASSERT_FALSE(is_noted(1));
	fm_group_count_free(&gc);
}

/* ---- a file system that is silent ---- */

static struct fm_group_count *blocked;

/* Both locks, which each user of the store needs, are to be had while a directory is opened. */
static void look_at_locks(void *ctx, const char *point)
{
	unsigned *opened = ctx;

	if (strcmp(point, "tree.open") != 0)
		return;
	++*opened;
	CU_ASSERT_EQUAL_FATAL(pthread_mutex_trylock(&blocked->lock), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_mutex_trylock(&blocked->watches.lock), 0);
	pthread_mutex_unlock(&blocked->watches.lock);
	pthread_mutex_unlock(&blocked->lock);
}

static void test_silent(void)
{
	unsigned opened = 0;

	fm_group_count_init(&gc, MANY);
	blocked = &gc;
	fm_fault_watch(look_at_locks, &opened);
	CU_ASSERT_EQUAL(watched(1), 0);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(opened, 1);
	drop(1);
	fm_group_count_free(&gc);
}

static const struct fm_test tests[] = {
	{ "as many groups as a store may have are found, missed and dropped", test_many },
	{ "one that was published keeps none out", test_published },
	{ "a group counts for its user until its time is over", test_users },
	{ "a group that ends meanwhile makes room", test_ends },
	{ "what is begun while the store is looked through stays", test_begun_amid_a_look },
	{ "a group that is never missed goes when its time is over", test_never_whole },
	{ "a failed sync is one of each group that is watched with it", test_watches },
	{ "nothing of a group is another's that has its inode", test_inode_again },
	{ "who watches a silent file system keeps nobody else", test_silent },
};
FM_TEST_MAIN("group_count", tests)
