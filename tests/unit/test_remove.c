/* SPDX-License-Identifier: MIT */
/*
 * links: fm_tree fm_journal
 *
 * test_remove - directories that go as a whole, also when several remove the same one; what a sweep
 * may take away.
 */
#include <pthread.h>
#include <sys/mount.h>

#include "mover/base/fault.h"
#include "mover/tree/stash.h"
#include "mover/tree/manifest.h"
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
			len += snprintf(path + len, sizeof(path) - (size_t)len, "/d%u",
					depth ? depth : i);
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

/* Goal: a sweep and a publish that remove the same old version leave nothing of it, whoever is done
 * first. */
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
			CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, remove_it, &ret[i]),
					      0);
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

/* What another one who removes the tree does meanwhile: directories that are about to be met are at
 * the top. */
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
	const char *name;
	int lock_ret;			/* of somebody who comes meanwhile */
};

static bool is_old(const void *ctx, const struct stat *made, const struct stat *journal)
{
	struct asked *a = (struct asked *)(uintptr_t)ctx;
	int tree_fd, lock_fd;

	(void)made;
	(void)journal;
	a->times++;
	a->lock_ret = fm_staging_lock(parent, a->name, &tree_fd, &lock_fd);
	if (a->lock_ret == 0) {
		close(lock_fd);
		close(tree_fd);
	}
	return a->is_old;
}

/* Goal: a tree that somebody went on with just before the sweep locked it stays. */
static void test_age_under_lock(void)
{
	char name[FM_STAGING_NAME_LEN + 1];
	struct asked asked = { .is_old = false, .name = name };
	const struct fm_staging_age age = { .is_old = is_old, .ctx = &asked };
	char made[FM_STAGING_NAME_LEN + sizeof("/data")];
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

/* ---- stashes ---- */

/* A private directory of that name, with a directory `v` in it and a mark that names this inode (0:
 * none). */
static void make_like_stash(const char *name, mode_t mode, uint64_t ino)
{
	char path[256];

	CU_ASSERT_EQUAL(mkdir(at(name), mode), 0);
	(void)snprintf(path, sizeof(path), "%s/v", name);
	make_tree(path);
	if (ino == 0)
		return;
	(void)snprintf(path, sizeof(path), "%s/.fmove.held.%016llx", name, (unsigned long long)ino);
	close(open(at(path), O_CREAT | O_WRONLY, 0600));
	CU_ASSERT_EQUAL(chmod(at(name), mode), 0);
}

/* Goal: nothing goes for its name: not what has no mark, nor what others may write to, nor what the
 * mark does not name. */
static void test_like_stashes(void)
{
	static const char name[] = ".fmove.0123456789abcdef.old";
	char held[FM_STAGING_FINAL_MAX + 1];

	for (int how = 0; how < 3; how++) {
		scene_begin(IN_MEMORY);
		parent = open(dir, O_RDONLY | O_DIRECTORY);
		make_like_stash(name, how == 1 ? 0777 : 0700,
				how == 0   ? 0
				: how == 1 ? 1
					   : ino_of("."));
		CU_ASSERT_EQUAL(fm_stash_look(parent, name, held), how == 2);
		CU_ASSERT_EQUAL(fm_stash_remove(parent, name, 0, NULL),
				how == 2 ? -ENOTEMPTY : -EPERM);
		CU_ASSERT_EQUAL(access(at(".fmove.0123456789abcdef.old/v/d1/f"), F_OK), 0);
		close(parent);
		scene_end();
	}
}

static void check_held(int ret, const char *stash)
{
	char held[FM_STAGING_FINAL_MAX + 1];

	struct stat st;

	CU_ASSERT_EQUAL(ret, 0);
	/* whoever might read it still may */
	CU_ASSERT_TRUE(stat(at(stash), &st) == 0 && (st.st_mode & 07777) == 0755);
	CU_ASSERT_TRUE(fm_stash_look(parent, stash, held) == 1 && strcmp(held, "name") == 0);
	CU_ASSERT_EQUAL(fm_stash_remove(parent, stash, 0, NULL), 0);
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
}

#ifdef FM_FAULTS
struct meanwhile {
	unsigned turn;			/* at which point */
	/* something else gets the name of what is put aside; else stashes that are empty go */
	bool takes_name;
	/* and from then on something has that name whenever it is free */
	bool takes_again;
};

static void do_meanwhile(void *ctx, const char *point)
{
	struct meanwhile *m = ctx;
	DIR *d;
	const struct dirent *e;

	(void)point;
	if (m->turn == 0 && m->takes_again)
		(void)mkdir(at("tree"), 0755);
	if (m->turn == 0 || --m->turn > 0)
		return;
	if (m->takes_name) {
		(void)rename(at("tree"), at("taken"));
		(void)rename(at("theirs"), at("tree"));
		return;
	}
	d = opendir(dir);
	while (d && (e = readdir(d)))
		if (fm_staging_kind(e->d_name) == FM_STAGING_OLD)
			(void)fm_stash_remove(dirfd(d), e->d_name, 0, NULL);
	if (d)
		closedir(d);
}

struct swap {
	unsigned first, second;		/* at which points both names are exchanged */
	unsigned point;
	ino_t old;			/* the only one that is old enough */
};

#define SWAP_ONE ".fmove.0123456789abcdef.tree"
#define SWAP_TWO ".fmove.fedcba9876543210.tree"

static void swap_at(void *ctx, const char *name)
{
	struct swap *s = ctx;

	(void)name;
	s->point++;
	if (s->point == s->first || s->point == s->second)
		(void)renameat2(AT_FDCWD, at(SWAP_ONE), AT_FDCWD, at(SWAP_TWO), RENAME_EXCHANGE);
}

static bool is_the_old(const void *ctx, const struct stat *made, const struct stat *journal)
{
	const struct swap *s = ctx;

	(void)journal;
	return made->st_ino == s->old;
}

static ino_t leave_tree(const char *name)
{
	const struct fm_staging_state state = { .data_ino = 1 };
	int tree_fd, lock_fd;

	CU_ASSERT_EQUAL_FATAL(fm_staging_lock(parent, name, &tree_fd, &lock_fd), 0);
	CU_ASSERT_EQUAL(fm_staging_write(lock_fd, &state), 0);
	close(lock_fd);
	close(tree_fd);
	return ino_of(name);
}

/* Goal: a tree that is young does not go because an old one had its name while it was asked. */
static void test_age_exchanged(void)
{
	for (unsigned turn = 0; turn < 24 * 24; turn++) {
		struct swap s = { .first = turn / 24 + 1, .second = turn / 24 + turn % 24 + 1 };
		const struct fm_staging_age age = { .is_old = is_the_old, .ctx = &s };
		ino_t young;

		scene_begin(IN_MEMORY);
		parent = open(dir, O_RDONLY | O_DIRECTORY);
		young = leave_tree(SWAP_ONE);
		s.old = leave_tree(SWAP_TWO);
		fm_fault_watch(swap_at, &s);
		(void)fm_staging_sweep(parent, SWAP_ONE, &age, NULL);
		fm_fault_watch(NULL, NULL);
		CU_ASSERT_TRUE((is_there(SWAP_ONE) && ino_of(SWAP_ONE) == young) ||
			       (is_there(SWAP_TWO) && ino_of(SWAP_TWO) == young));
		close(parent);
		scene_end();
	}
}

/* Goal: what takes the name of what is put aside, at any point, stays whole; and a sweep that meets
 * the stash half made does no harm. */
static void test_held_meanwhile(void)
{
	char stash[FM_STAGING_NAME_LEN + 1];

	for (unsigned i = 0; i < 60; i++) {
		struct meanwhile m = { .turn = i / 2 + 1, .takes_name = i % 2 };
		struct fm_stash_what what = { .from = "tree", .name = "name" };
		int ret;

		scene_begin(IN_MEMORY);
		parent = what.dir = open(dir, O_RDONLY | O_DIRECTORY);
		make_tree("tree");
		make_tree("theirs");
		what.ino = ino_of("tree");
		fm_fault_watch(do_meanwhile, &m);
		ret = fm_stash_keep(&what, parent, FM_STAGING_OLD, stash);
		fm_fault_watch(NULL, NULL);
		/* A sweep that comes when it is filled takes it, being told that any age is
		 * enough. */
		CU_ASSERT_TRUE(ret == 0 || (ret == -ESTALE && is_there("tree/d1/f")) ||
			       (ret == -ENOENT && !is_there("tree")));
		if (ret == 0 &&
		    fm_stash_look(parent, stash, (char[FM_STAGING_FINAL_MAX + 1]){0}) == 1)
			CU_ASSERT_EQUAL(fm_stash_remove(parent, stash, 0, NULL), 0);
		CU_ASSERT_TRUE(is_there("theirs/d1/f") || is_there("tree/d1/f"));
		CU_ASSERT_EQUAL(names_in(dir, ".fmove."), 0);
		close(parent);
		scene_end();
	}
}

/* Goal: what got the name meanwhile stays in its directory, where its owner finds it, also if it
 * cannot get that name back. */
static void test_held_taken(void)
{
	char stash[FM_STAGING_NAME_LEN + 1], kept[512];

	for (unsigned turn = 1; turn < 30; turn++) {
		struct meanwhile m = { .turn = turn, .takes_name = true, .takes_again = true };
		struct fm_stash_what what = { .from = "tree", .name = "name" };

		scene_begin(IN_MEMORY);
		parent = what.dir = open(dir, O_RDONLY | O_DIRECTORY);
		make_tree("tree");
		make_tree("theirs");
		what.ino = ino_of("tree");
		fm_fault_watch(do_meanwhile, &m);
		(void)fm_stash_keep(&what, parent, FM_STAGING_OLD, stash);
		fm_fault_watch(NULL, NULL);
		(void)snprintf(kept, sizeof(kept), "%s/d1/f", ours(FM_STAGING_KEPT));
		CU_ASSERT_TRUE(is_there("theirs/d1/f") || is_there("tree/d1/f") || is_there(kept));
		close(parent);
		scene_end();
	}
}

/* Goal: whatever fails, once, it is held or where it was, and then no stash is left. */
static void test_held_fails(void)
{
	char stash[FM_STAGING_NAME_LEN + 1], held[FM_STAGING_FINAL_MAX + 1];
	bool has_fired = true;
	unsigned n;

	for (n = 1; has_fired && n < 100; n++) {
		struct fm_stash_what what = { .from = "tree", .name = "name" };
		int ret;

		scene_begin(IN_MEMORY);
		parent = what.dir = open(dir, O_RDONLY | O_DIRECTORY);
		make_tree("tree");
		what.ino = ino_of("tree");
		fm_fault_arm(NULL, n);
		ret = fm_stash_keep(&what, parent, FM_STAGING_OLD, stash);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(names_in(dir, ".fmove."), ret == 0);
		CU_ASSERT_EQUAL(is_there("tree/d1/f"), ret < 0);
		CU_ASSERT_TRUE(ret < 0 || (fm_stash_look(parent, stash, held) == 1 &&
					   strcmp(held, "name") == 0));
		close(parent);
		scene_end();
	}
	CU_ASSERT_TRUE(!has_fired && n > 8);
}

/* Goal: whatever fails, once, of what is kept aside nobody hears that somebody else has named it
 * so. */
static void test_held_unknown(void)
{
	char stash[FM_STAGING_NAME_LEN + 1], held[FM_STAGING_FINAL_MAX + 1];
	struct fm_stash_what what = { .from = "tree", .name = "name" };
	unsigned n = 0;
	int ret;

	scene_begin(IN_MEMORY);
	parent = what.dir = open(dir, O_RDONLY | O_DIRECTORY);
	make_tree("tree");
	what.ino = ino_of("tree");
	CU_ASSERT_EQUAL(fm_stash_keep(&what, parent, FM_STAGING_OLD, stash), 0);
	do {
		fm_fault_arm(NULL, ++n);
		ret = fm_stash_look(parent, stash, held);
		CU_ASSERT_TRUE(ret < 0 || (ret == 1 && strcmp(held, "name") == 0));
	} while (fm_fault_fired() && n < 100);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(ret == 1 && n > 3 && n < 100);
	CU_ASSERT_EQUAL(fm_stash_look(parent, "nothing", held), -ENOENT);
	CU_ASSERT_EQUAL(fm_stash_remove(parent, stash, 0, NULL), 0);
	close(parent);
	scene_end();
}

static bool is_any_age(const void *ctx, const struct stat *made, const struct stat *journal)
{
	(void)ctx;
	(void)made;
	(void)journal;
	return true;
}

/* The .tree of a process that died when its .new was what it had replaced. */
static void leave_replaced(const char *tree, const char *new)
{
	struct fm_staging_state state = { .data_ino = 1 };
	int stage, lock;

	make_tree(new);
	state.old_ino = ino_of(new);
	CU_ASSERT_EQUAL_FATAL(fm_staging_lock(parent, tree, &stage, &lock), 0);
	CU_ASSERT_EQUAL(fm_staging_write(lock, &state), 0);
	close(lock);
	close(stage);
}

/* Goal: a .tree does not go before what only its lock file knows was put aside. */
static void test_replaced_unknown(void)
{
	static const char tree[] = ".fmove.0123456789abcdef.tree",
			  new[] = ".fmove.0123456789abcdef.new";
	const struct fm_staging_age age = { .is_old = is_any_age };
	bool has_fired = true;

	for (unsigned n = 1; has_fired && n < 1000; n++) {
		scene_begin(IN_MEMORY);
		parent = open(dir, O_RDONLY | O_DIRECTORY);
		leave_replaced(tree, new);
		fm_fault_arm(NULL, n);
		(void)fm_staging_sweep(parent, tree, &age, NULL);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_TRUE(is_there(tree) || !is_there(new));
		close(parent);
		scene_end();
	}
	CU_ASSERT_FALSE(has_fired);
}
#else
static void test_held_meanwhile(void)
{
	printf("SKIP: built without fault points\n");
}

static void test_age_exchanged(void)
{
	test_held_meanwhile();
}

static void test_held_unknown(void)
{
	test_held_meanwhile();
}

static void test_replaced_unknown(void)
{
	test_held_meanwhile();
}

static void test_held_taken(void)
{
	test_held_meanwhile();
}

static void test_held_fails(void)
{
	test_held_meanwhile();
}
#endif

/* Goal: a directory that has the name of the manifest is somebody's, and stays where he finds
 * it. */
static void test_like_manifest(void)
{
	struct fm_stash_what what = { .from = "tree", .name = "name" };
	char manifest[FM_MANIFEST_NAME_LEN + 1], stash[FM_STAGING_NAME_LEN + 1], file[128];
	struct fm_manifest_key key;

	scene_begin(IN_MEMORY);
	parent = what.dir = open(dir, O_RDONLY | O_DIRECTORY);
	make_tree("tree");
	make_tree("theirs");
	what.ino = ino_of("tree");
	CU_ASSERT_EQUAL_FATAL(fm_manifest_key_at(parent, "tree", &key), 0);
	fm_manifest_name(&key, manifest);
	CU_ASSERT_EQUAL(rename(at("theirs"), at(manifest)), 0);
	CU_ASSERT_EQUAL(fm_stash_keep(&what, parent, FM_STAGING_OLD, stash), 0);
	(void)snprintf(file, sizeof(file), "%s/d1/f", manifest);
	CU_ASSERT_TRUE(is_there(file));
	CU_ASSERT_EQUAL(fm_stash_remove(parent, stash, 0, NULL), 0);
	CU_ASSERT_FALSE(is_there(stash));
	close(parent);
	scene_end();
}

/* Goal: what is put aside is told by its mark, under the name that it had, and goes as a whole;
 * also one that forbids itself to its owner. */
static void test_held(void)
{
	char stash[FM_STAGING_NAME_LEN + 1];

	for (int is_closed = 0; is_closed < 2; is_closed++) {
		struct fm_stash_what what = { .from = "tree", .name = "name" };

		scene_begin(IN_MEMORY);
		parent = what.dir = open(dir, O_RDONLY | O_DIRECTORY);
		make_tree("tree");
		what.ino = ino_of("tree");
		if (is_closed)
			CU_ASSERT_EQUAL(chmod(at("tree"), 0), 0);
		check_held(fm_stash_keep(&what, parent, FM_STAGING_OLD, stash), stash);
		close(parent);
		scene_end();
	}
}

static const struct fm_test tests[] = {
	{"what is put aside is known, and goes", test_held},
	{"what is called like a stash and is none stays", test_like_stashes},
	{"what happens to names while something is put aside harms nobody", test_held_meanwhile},
	{"what got the name meanwhile is not hidden if it cannot have that back", test_held_taken},
	{"whatever fails, it is held or where it was", test_held_fails},
	{"a directory that is called like its manifest stays", test_like_manifest},
	{"what only a lock file knows is put aside before that goes", test_replaced_unknown},
	{"what is put aside and cannot be looked at is not said to be another's",
	 test_held_unknown},
	{"several that remove the same leave nothing", test_at_once},
	{"what somebody else moves meanwhile goes too", test_moved_meanwhile},
	{"what is mounted in it stays", test_mounted},
	{"the age of what a sweep takes is asked under the lock", test_age_under_lock},
	{"and is that of what is locked, whatever has its name meanwhile", test_age_exchanged},
};
FM_TEST_MAIN("remove", tests)
