/* SPDX-License-Identifier: MIT */
/*
 * links: fm_tree fm_journal
 *
 * test_wanted - what a replaced directory still has that is somebody's is found wherever it lies,
 * and who cannot look does not say that nothing is there.
 */
#include "mover/tree/wanted.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "mover/journal/partial.h"
#include "mover/tree/stash.h"
#include "tests/unit/deep_tree.h"
#include "tests/unit/sink_scene.h"

#define DEPTH 5000
#define FILES_MAX 64
#define POINTS_MAX 1000
#define HASH ".fmove.0123456789abcdef"

static int parent, stage = -1, lock = -1;

static void begin(const char *base)
{
	scene_begin(base);
	parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_EQUAL(mkdir(at("old"), 0755), 0);
	CU_ASSERT_EQUAL(mkdir(at("old/d"), 0755), 0);
	write_file("old/d/f", 1, 100, 0600, A_TIME);
}

static void end(void)
{
	close(parent);
	scene_end();
}

/* ---- what is looked for ---- */

static void add_kept(int in)
{
	CU_ASSERT_EQUAL(mkdirat(in, HASH ".kept", 0700), 0);
}

static void add_kept_in_stash(int in)
{
	struct fm_stash_what what = { .dir = in, .from = "v", .name = "tree" };
	char stash[FM_STAGING_NAME_LEN + 1];
	struct stat st;

	CU_ASSERT_EQUAL(mkdirat(in, "v", 0700), 0);
	CU_ASSERT_EQUAL(fstatat(in, "v", &st, 0), 0);
	what.ino = st.st_ino;
	OK(fm_stash_keep(&what, in, FM_STAGING_KEPT, stash));
}

static void add_part(int in)
{
	lock = openat(in, HASH ".part", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	OK(fm_partial_lock(lock));
}

static void add_tree(int in)
{
	OK(fm_staging_lock(in, HASH ".tree", &stage, &lock));
}

/* A merge replaced it, and died. */
static void add_new(int in)
{
	const struct fm_staging_state state = { .data_ino = 1, .is_merging = true };

	add_tree(in);
	OK(fm_staging_write(lock, &state));
	close(lock);
	lock = -1;
	CU_ASSERT_EQUAL(mkdirat(in, HASH ".new", 0700), 0);
}

static void close_added(void)
{
	if (lock >= 0)
		close(lock);
	if (stage >= 0)
		close(stage);
	lock = stage = -1;
}

static const struct {
	void (*add)(int in);
	int wanted;
} kinds[] = {
	{add_kept, FM_WANTED_KEPT}, {add_kept_in_stash, FM_WANTED_KEPT}, {add_part, FM_WANTED_BUSY},
	{add_tree, FM_WANTED_BUSY}, {add_new, FM_WANTED_KEPT},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void run_found(void)
{
	int in = openat(parent, "old/d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CU_ASSERT_EQUAL(fm_wanted_in(parent, "old"), FM_WANTED_NOTHING);
	CU_ASSERT_EQUAL(fm_wanted_in(parent, "nothing"), FM_WANTED_NOTHING);
	for (size_t i = 0; i < KINDS; i++) {
		kinds[i].add(in);
		CU_ASSERT_EQUAL(fm_wanted_in(parent, "old"), kinds[i].wanted);
		close_added();
		remove_all(at("old/d"));
		CU_ASSERT_EQUAL(mkdir(at("old/d"), 0755), 0);
		close(in);
		in = openat(parent, "old/d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	close(in);
}

/* Goal: each kind of what is somebody's. */
static void test_found(void)
{
	for (size_t i = 0; i < BASES; i++) {
		begin(bases[i]);
		run_found();
		end();
	}
}

/* Goal: the same in a version that is kept aside, which lies in a stash; and that one which is kept
 * lies in one. */
static void test_found_in_stash(void)
{
	char stash[FM_STAGING_NAME_LEN + 1];
	struct stat st;
	int in;

	for (size_t i = 0; i < KINDS; i++) {
		struct fm_stash_what what = { .from = "old", .name = "tree" };

		begin(IN_MEMORY);
		in = openat(parent, "old/d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		kinds[i].add(in);
		CU_ASSERT_EQUAL(stat(at("old"), &st), 0);
		what.dir = parent;
		what.ino = st.st_ino;
		OK(fm_stash_keep(&what, parent, FM_STAGING_OLD, stash));
		CU_ASSERT_EQUAL(fm_wanted_in(parent, stash), kinds[i].wanted);
		close_added();
		close(in);
		end();
	}
}

/* Goal: what no path can name is looked through, with few descriptors and little memory. */
static void test_deep(void)
{
	struct rlimit was, few = { .rlim_cur = FILES_MAX, .rlim_max = FILES_MAX };
	uint64_t used = fm_budget_used();
	int bottom;

	for (size_t i = 0; i < BASES; i++) {
		begin(bases[i]);
		bottom = deep_make(parent, "old", DEPTH);
		CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &was), 0);
		few.rlim_max = was.rlim_max;
		CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &few), 0);
		CU_ASSERT_EQUAL(fm_wanted_in(parent, "old"), FM_WANTED_NOTHING);
		add_kept(bottom);
		CU_ASSERT_EQUAL(fm_wanted_in(parent, "old"), FM_WANTED_KEPT);
		CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &was), 0);
		CU_ASSERT_EQUAL(fm_budget_used(), used);
		close(bottom);
		OK(fm_tree_remove(parent, "old", NULL));
		end();
	}
}

/* Several directories beside the way down: where it was left off is found again. */
static void test_wide(void)
{
	int in, bottom;

	for (size_t i = 0; i < BASES; i++) {
		begin(bases[i]);
		for (unsigned n = 0; n < 10; n++) {
			char name[8];

			(void)snprintf(name, sizeof(name), "w%u", n);
			CU_ASSERT_EQUAL(mkdirat(parent, "old/here", 0755) == 0 || errno == EEXIST,
					1);
			in = openat(parent, "old/here", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			CU_ASSERT_EQUAL(mkdirat(in, name, 0755), 0);
			bottom = deep_make(in, name, 40);
			add_kept(bottom);
			CU_ASSERT_EQUAL(fm_wanted_in(parent, "old"), FM_WANTED_KEPT);
			CU_ASSERT_EQUAL(unlinkat(bottom, HASH ".kept", AT_REMOVEDIR), 0);
			CU_ASSERT_EQUAL(fm_wanted_in(parent, "old"), FM_WANTED_NOTHING);
			close(bottom);
			close(in);
		}
		OK(fm_tree_remove(parent, "old", NULL));
		end();
	}
}

/* ---- not by root, who may all ---- */

static bool has_mode(const char *name, mode_t mode)
{
	struct stat st;

	return stat(at(name), &st) == 0 && (st.st_mode & 07777) == mode;
}

static int closed(void)
{
	static const mode_t modes[] = { 0, 0400, 0100, 0600 };
	int failed = 0;

	parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		failed += mkdir(at("mine"), 0700) < 0 || mkdir(at("mine/in"), 0700) < 0;
		failed += mkdir(at("mine/in/" HASH ".kept"), modes[i]) < 0;
		failed += chmod(at("mine/in"), modes[i]) < 0;
		failed += fm_wanted_in(parent, "mine") != FM_WANTED_KEPT;
		failed += !has_mode("mine/in", modes[i]) || chmod(at("mine"), modes[i]) < 0;
		failed += fm_wanted_in(parent, "mine") != FM_WANTED_KEPT;
		failed += !has_mode("mine", modes[i]) || chmod(at("mine"), 0700) < 0;
		failed += chmod(at("mine/in"), 0700) < 0 || rmdir(at("mine/in/" HASH ".kept")) < 0;
		failed += chmod(at("mine/in"), modes[i]) < 0;
		failed += fm_wanted_in(parent, "mine") != FM_WANTED_NOTHING;
		failed += !has_mode("mine/in", modes[i]) || chmod(at("mine/in"), 0700) < 0;
		failed += rmdir(at("mine/in")) < 0 || rmdir(at("mine")) < 0;
	}
	/* Another user's. */
	failed +=
		fm_wanted_in(parent, "roots") != -EACCES || fm_wanted_in(parent, "old") != -EACCES;
	close(parent);
	return failed;
}

/* Goal: what its owner closed to himself is looked through, and stays as closed; another's is not
 * known. */
static void test_closed(void)
{
	int status;
	pid_t child;

	if (geteuid() != 0)
		return;
	begin(IN_MEMORY);
	CU_ASSERT_EQUAL(chmod(dir, 0777), 0);
	CU_ASSERT_EQUAL(mkdir(at("roots"), 0700), 0);
	write_file("old/" HASH ".part", 1, 100, 0600, A_TIME);
	(void)fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(setgid(65534) < 0 || setuid(65534) < 0 ? 1 : closed());
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	end();
}

/* ---- who cannot look ---- */

#ifdef FM_FAULTS

static void each_point(int bottom, size_t kind)
{
	unsigned n = 0;
	int wanted;

	kinds[kind].add(bottom);
	do {
		fm_fault_arm(NULL, ++n);
		wanted = fm_wanted_in(parent, "old");
		CU_ASSERT_TRUE(wanted < 0 || wanted == kinds[kind].wanted);
	} while (fm_fault_fired() && n < POINTS_MAX);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(wanted, kinds[kind].wanted);
	CU_ASSERT_TRUE(n > 20 && n < POINTS_MAX);
	close_added();
}

/* Goal: whatever fails, once, nobody hears that nothing is wanted. */
static void test_unknown(void)
{
	int bottom;

	for (size_t i = 0; i < KINDS; i++) {
		begin(IN_MEMORY);
		bottom = deep_make(parent, "old", 18);
		each_point(bottom, i);
		close(bottom);
		end();
	}
}

#endif

static const struct fm_test tests[] = {
	{ "each kind is found", test_found },
	{ "in what is kept aside, too", test_found_in_stash },
	{ "however deep", test_deep },
	{ "and wide", test_wide },
	{ "in what is closed to its owner", test_closed },
#ifdef FM_FAULTS
	{ "who cannot look does not say that there is nothing", test_unknown },
#endif
};

FM_TEST_MAIN("wanted", tests)
