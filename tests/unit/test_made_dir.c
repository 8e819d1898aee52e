/* SPDX-License-Identifier: MIT */
/*
 * What is made in a private directory, and what a crash leaves of it. links: fm_store
 */
#include <glob.h>
#include <sys/wait.h>

#include "mover/base/fault.h"
#include "mover/store/made_dir.h"
#include "mover/store/rotation_record.h"
#include "mover/store/store_dir.h"
#include "tests/unit/store_scene.h"

#define POINTS_MAX 200u

static int make_dir(int parent)
{
	return fm_made_dir(parent, "d", geteuid(), getegid());
}

static int make_link(int parent)
{
	(void)parent;
	return s->ops->link(s, "l", "new", &root_user, true, &err);
}

static int make_record(int parent)
{
	static struct fm_rotation_record record = {
		.link = "l", .count = 1, .entry = {{7, 9, "t0"}}};

	return fm_rotation_record_write(parent, &record, true);
}

static void sweep(void)
{
	const atomic_bool is_over = false;

	fm_container_of(s, struct fm_store_dir, store)->partial_keep_ns = 1;
	usleep(20000);	/* times of files are those of the last tick */
	s->ops->sweep(s, &is_over);
}

static size_t count_private(void)
{
	glob_t found;
	size_t count = glob(at(".fmove.*.tree"), 0, NULL, &found) == 0 ? found.gl_pathc : 0;

	globfree(&found);
	return count;
}

static void die(void *ctx, const char *point)
{
	unsigned *left = ctx;

	(void)point;
	if (--*left == 0)
		_exit(1);
}

/* How a process ends that dies at the n-th point. 0: there are not so many. */
static int died(int (*make)(int parent), unsigned n)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY), status = -1;
	pid_t pid;

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	pid = fork();
	if (pid == 0) {
		fm_fault_watch(die, &n);
		_exit(make(fd) == 0 ? 0 : 2);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(close(fd), 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Goal: who dies while something is made in private leaves nothing that stays. */
static void test_died_anywhere(void)
{
	static int (*const made[])(int parent) = { make_dir, make_link, make_record };

	if (fm_test_lacks_faults())
		return;
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		unsigned n = 0;
		size_t left = 0;
		int how;

		do {
			begin(ON_DISK, false);
			CU_ASSERT_EQUAL(symlink("old", at("l")), 0);
			how = died(made[i], ++n);
			left += count_private();
			sweep();
			sweep();	/* the first one's own lock can make it younger */
			CU_ASSERT_EQUAL(count_private(), 0);
			s->ops->free(s);
			dir_remove(dir);
			lane_close(&l);
		} while (how == 1 && n < POINTS_MAX);
		CU_ASSERT_EQUAL(how, 0);
		CU_ASSERT_TRUE(left > 1);
	}
}

/* Something in a directory with such a name, as it is left of the user's own. */
static void check_stays(const char *in, mode_t mode)
{
	static const char name[] = ".fmove.00000000000000aa.tree";
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/%s", name, in);
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(mkdir(at(name), mode), 0);
	CU_ASSERT_EQUAL(chmod(at(name), mode), 0);
	CU_ASSERT_EQUAL(mkdir(at("d"), 0700), 0);
	CU_ASSERT_EQUAL_FATAL(close(creat(at("d/f"), 0600)), 0);
	CU_ASSERT_EQUAL(rename(at(strcmp(in, "made/") == 0 ? "d" : "d/f"), at(path)), 0);
	sweep();
	CU_ASSERT_EQUAL(access(at(path), F_OK), 0);
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

/* Goal: what somebody else may have there, or got there by an exchange, stays. */
static void test_others_stay(void)
{
	check_stays("made", 0700);
	check_stays("made/", 0700);	/* with a file in it */
	check_stays("other", 0700);
	check_stays("record", 0700);
	check_stays(FM_MADE_RECORD, 0777);
}

static const struct fm_test tests[] = {
	{ "who dies leaves nothing that a sweep does not remove", test_died_anywhere },
	{ "what was not made there stays", test_others_stay },
};
FM_TEST_MAIN("made_dir", tests)
