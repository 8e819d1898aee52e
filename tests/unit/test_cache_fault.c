/* SPDX-License-Identifier: MIT */
/* links: fm_staging */
/*
 * test_cache_fault - a daemon that is killed at any call, and a disk that fails at any call.
 *
 * Goal: what is left is nothing, a partial dataset that is gone on with, or a READY one, and
 * nothing else takes room. Method: a process does all that a cache does and is killed before its
 * n-th call (n = 1, 2, 3 ... until it comes to its end); this one looks at what is left, each time.
 * Then the same with calls that fail.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include "mover/base/fault.h"
#include "tests/unit/cache_scene.h"

#define POINTS_MAX 2000

/* ---- a life ---- */

/* Where in it we are: what must be there after a death from then on. */
enum stage { BEGUN, SAVED, READY_TOLD, GOES, GONE, ENDED };

static int stage_pipe[2];

static void tell(enum stage stage)
{
	char c = (char)stage;

	if (write(stage_pipe[1], &c, 1) != 1)
		_exit(3);
}

static void live(struct scene *s)
{
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	const struct fm_cache_holder who = {.uid = geteuid(), .pid = getppid()};
	struct fm_cache_fetch *f;
	uint64_t id, hold;

	if (fm_cache_open(&s->o, &s->c, &s->err) < 0 ||
	    fm_cache_fetch(s->c, &plan, &f, &s->err) < 0)
		_exit(4);
	id = fm_cache_fetch_id(f);
	scene_fill(f, "set1");
	fm_cache_fetch_mark(f, 4);
	if (fm_cache_fetch_save(f, &s->err) < 0)
		_exit(5);
	tell(SAVED);
	if (fm_cache_hold(s->c, id, &who, &hold, &s->err) < 0 || scene_finish(s, f, 1) < 0)
		_exit(6);
	tell(READY_TOLD);
	fm_cache_fetch_close(f);
	if (fm_cache_pin(s->c, id, 1000, &s->err) < 0 ||
	    fm_cache_unpin(s->c, id, 1000, false, &s->err) < 0)
		_exit(7);
	fm_cache_release(s->c, hold);
	fm_cache_upkeep(s->c);
	tell(GOES);
	if (fm_cache_discard(s->c, id, &s->err) < 0)
		_exit(8);
	tell(GONE);
	fm_cache_close(s->c);
	tell(ENDED);
	_exit(0);
}

struct death {
	unsigned n;
	unsigned count;
};

static void die_at(void *ctx, const char *name)
{
	struct death *d = ctx;

	(void)name;
	if (++d->count == d->n)
		(void)kill(getpid(), SIGKILL);
}

/* ---- what is left ---- */

static unsigned names_in(struct scene *s, const char *place)
{
	char path[256];
	const struct dirent *e;
	unsigned count = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", s->dir, place);
	d = opendir(path);
	CU_ASSERT_PTR_NOT_NULL_FATAL(d);
	while ((e = readdir(d)))
		count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return count;
}

static bool is_whole(struct scene *s, uint64_t id)
{
	char path[PATH_MAX], file[PATH_MAX + 8];
	struct stat a, b;

	if (fm_cache_path(s->c, id, path, sizeof(path)) < 0)
		return false;
	snprintf(file, sizeof(file), "%s/a", path);
	if (stat(file, &a) < 0)
		return false;
	snprintf(file, sizeof(file), "%s/sub/b", path);
	return stat(file, &b) == 0 && a.st_size == FILE_LEN && b.st_size == FILE_LEN &&
	       (a.st_mode & 0222) == 0;
}

/* What may be there after each stage: a partial one at first, a READY one until it goes. */
static void check_state(struct scene *s, uint64_t id, enum stage stage)
{
	struct fm_cache_info info = {.state = FM_CACHE_ABSENT};

	(void)fm_cache_look(s->c, id, &info);
	switch (stage) {
	case BEGUN:
		CU_ASSERT_TRUE(info.state != FM_CACHE_READY && info.state != FM_CACHE_EVICTING);
		break;
	case SAVED:
		CU_ASSERT_TRUE(info.state == FM_CACHE_READY ||
			       (info.state == FM_CACHE_FETCHING && info.extents_done == 1));
		break;
	case READY_TOLD:
		CU_ASSERT_EQUAL(info.state, FM_CACHE_READY);
		break;
	case GOES:
		CU_ASSERT_TRUE(info.state == FM_CACHE_READY || info.state == FM_CACHE_ABSENT);
		break;
	case GONE:
	case ENDED:
		CU_ASSERT_EQUAL(info.state, FM_CACHE_ABSENT);
	}
	if (info.state == FM_CACHE_READY)
		CU_ASSERT_TRUE(is_whole(s, id));
}

/* The next run: all that is there is in the list, and the dataset becomes READY from whatever is
 * left. */
static void look_at_what_is_left(struct scene *s, enum stage stage)
{
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	struct fm_cache_key listing = scene_key(1);
	struct fm_cache_fetch *f;
	struct fm_cache_sums sums;
	uint64_t id;

	scene_open(s);
	id = fm_cache_find_listing(s->c, &listing);
	check_state(s, id, stage);
	fm_cache_upkeep(s->c);
	fm_cache_sums(s->c, &sums);
	CU_ASSERT_EQUAL(sums.datasets, names_in(s, "ready") + names_in(s, "partial"));
	CU_ASSERT_EQUAL(names_in(s, "evicting") + names_in(s, "gone"), 0);
	CU_ASSERT_EQUAL(names_in(s, "holds"), sums.holds);
	if (scene_state(s, id) != FM_CACHE_READY) {
		CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s->c, &plan, &f, &s->err), 0);
		/* It may have been saved when we were not told yet. */
		CU_ASSERT_TRUE(stage != SAVED || fm_cache_fetch_has(f, 4));
		id = fm_cache_fetch_id(f);
		scene_fill(f, "set1");
		CU_ASSERT_EQUAL(scene_finish(s, f, 1), 0);
		fm_cache_fetch_close(f);
	}
	CU_ASSERT_TRUE(is_whole(s, id));
	fm_cache_close(s->c);
}

/* Killed before its n-th call; whether it was. */
static bool kill_at(const char *on, unsigned n, enum stage *stage)
{
	struct scene s;
	struct death death = {.n = n};
	int status;
	char c;
	pid_t pid;

	scene_new(&s, on);
	CU_ASSERT_EQUAL_FATAL(pipe(stage_pipe), 0);
	pid = fork();
	CU_ASSERT_TRUE_FATAL(pid >= 0);
	if (pid == 0) {
		fm_fault_watch(die_at, &death);
		live(&s);
	}
	close(stage_pipe[1]);
	*stage = BEGUN;
	while (read(stage_pipe[0], &c, 1) == 1)
		*stage = (enum stage)c;
	close(stage_pipe[0]);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL
					   : WEXITSTATUS(status) == 0);
	look_at_what_is_left(&s, *stage);
	remove_all(s.dir);
	return WIFSIGNALED(status);
}

/* Before every call, or before each step-th one. */
static void kill_everywhere(const char *on, unsigned step)
{
	bool has_been[ENDED + 1] = {false};
	unsigned n = 1;
	enum stage stage;

	while (n < POINTS_MAX && kill_at(on, n, &stage)) {
		has_been[stage] = true;
		n += step;
	}
	CU_ASSERT_TRUE(n > 80 && n < POINTS_MAX);
	CU_ASSERT_TRUE(has_been[BEGUN] && has_been[SAVED] && has_been[GOES]);
	CU_ASSERT_TRUE(step > 1 || has_been[READY_TOLD]);
}

/* A disk that others write to takes long for each sync: a sample. */
static void test_kill_on_disk(void)
{
	kill_everywhere("/var/tmp", 7);
}

static void test_kill_in_memory(void)
{
	kill_everywhere("/dev/shm", 1);
}

/* ---- calls that fail ---- */

static unsigned fds_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* READY, from whatever is there; *hold is 0 if it is not held. */
static int try_staging(struct scene *s, uint64_t *id, uint64_t *hold)
{
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	struct fm_cache_key listing = scene_key(1);
	const struct fm_cache_holder who = {.uid = geteuid(), .pid = getpid()};
	struct fm_cache_fetch *f = NULL;
	int ret = fm_cache_fetch(s->c, &plan, &f, &s->err);

	if (ret == 0) {
		scene_fill(f, "set1");
		fm_cache_fetch_mark(f, 4);
		ret = fm_cache_fetch_save(f, &s->err);
	}
	*id = fm_cache_find_listing(s->c, &listing);
	if (ret == 0 || ret == -EALREADY)
		ret = fm_cache_hold(s->c, *id, &who, hold, &s->err);
	if (ret == 0 && f)
		ret = scene_finish(s, f, 1);
	fm_cache_fetch_close(f);
	return ret;
}

/* The first call that fails ends it, with one error; what is left is closed. */
static int try_life(struct scene *s)
{
	uint64_t id, hold = 0;
	int ret = fm_cache_open(&s->o, &s->c, &s->err);

	if (ret < 0)
		return ret;
	ret = try_staging(s, &id, &hold);
	if (ret == 0)
		ret = fm_cache_pin(s->c, id, 1000, &s->err);
	if (ret == 0)
		ret = fm_cache_unpin(s->c, id, 1000, false, &s->err);
	fm_cache_release(s->c, hold);
	if (ret == 0)
		ret = fm_cache_discard(s->c, id, &s->err);
	fm_cache_close(s->c);
	return ret;
}

/* Which one it is. */
struct point {
	unsigned n;
	unsigned count;
	char name[32];
};

static void name_point(void *ctx, const char *name)
{
	struct point *p = ctx;

	if (++p->count == p->n)
		snprintf(p->name, sizeof(p->name), "%s", name);
}

/* The file of a hold that has ended; what a removal looks at beside what it removes. */
static bool is_best_effort(const char *name)
{
	return strcmp(name, "cache.unlink") == 0 || strcmp(name, "manifest.statx") == 0;
}

/* A full disk: a hold is written once more, of the last pin the file goes; others fail. */
static bool may_be_survived(const char *name)
{
	return strcmp(name, "cache.write") == 0;
}

static bool fail_at(unsigned n)
{
	struct point point = {.n = n};
	struct scene s;
	unsigned fds = fds_open();
	bool has_fired;
	int ret;

	scene_new(&s, "/dev/shm");
	fm_fault_watch(name_point, &point);
	fm_fault_arm(NULL, n);
	ret = try_life(&s);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	fm_fault_watch(NULL, NULL);
	if (!has_fired || !may_be_survived(point.name))
		CU_ASSERT_EQUAL(ret < 0, has_fired && !is_best_effort(point.name));
	if (ret < 0)
		CU_ASSERT_TRUE(s.err.code == ret && strlen(s.err.text) > 10);
	CU_ASSERT_EQUAL(fds_open(), fds);
	/* It can be used again, from whatever is left. */
	CU_ASSERT_EQUAL(try_life(&s), 0);
	remove_all(s.dir);
	return has_fired;
}

static void test_each_failure(void)
{
	unsigned n = 1;

	while (n < POINTS_MAX && fail_at(n))
		n++;
	CU_ASSERT_TRUE(n > 80 && n < POINTS_MAX);
}

static const struct fm_test tests[] = {
	{ "whatever call fails, it is one error, and the next try succeeds", test_each_failure },
	{ "killed at any call, it leaves nothing, a part, or all", test_kill_in_memory },
	{ "killed at some calls on a disk, the same", test_kill_on_disk },
};

int main(void)
{
#ifndef FM_FAULTS
	fm_test_skip("built without fault points");
#endif
	return fm_test_main("cache fault", tests, sizeof(tests) / sizeof(tests[0]));
}
