/* SPDX-License-Identifier: MIT */
/* links: fm_staging */
/*
 * test_cache - a cache on a real disk and in memory: what comes, what stays, what goes.
 */
#include <grp.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/unit/cache_scene.h"

#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/tree/tree.h"
#include "staging/cache_afar.h"
#include "staging/key.h"
#include "staging/manifest.h"

/* ---- how it comes ---- */

static void stage_on(const char *on)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	struct fm_cache_key version = scene_key(101);
	struct fm_cache_fetch *f, *other;
	char path[PATH_MAX], file[PATH_MAX + 8];
	struct stat st;
	uint64_t id;

	scene_new(&s, on);
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	id = fm_cache_fetch_id(f);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_PLANNED);
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &plan, &other, &s.err), -EBUSY);
	scene_fill(f, "set1");
	fm_cache_fetch_mark(f, 3);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_FETCHING);
	CU_ASSERT_EQUAL(fm_cache_fetch_ready(f, &version, &s.err), -EINVAL);
	CU_ASSERT_EQUAL(fm_cache_path(s.c, id, path, sizeof(path)), -EINVAL);
	CU_ASSERT_EQUAL(scene_finish(&s, f, 1), 0);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_READY);
	fm_cache_fetch_close(f);
	CU_ASSERT_EQUAL(fm_cache_find_version(s.c, &version), id);
	CU_ASSERT_EQUAL(fm_cache_find_name(s.c, "set1"), id);
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &plan, &f, &s.err), -EALREADY);
	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, id, path, sizeof(path)), 0);
	CU_ASSERT_TRUE(stat(path, &st) == 0 && (st.st_mode & 07777) == 0555);
	snprintf(file, sizeof(file), "%s/sub/b", path);
	CU_ASSERT_TRUE(stat(file, &st) == 0 && (st.st_mode & 07777) == 0444 &&
		       st.st_size == FILE_LEN);
	scene_reopen(&s);
	CU_ASSERT_EQUAL(fm_cache_find_version(s.c, &version), id);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_READY);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_ABSENT);
	CU_ASSERT_NOT_EQUAL(stat(path, &st), 0);
	scene_end(&s);
}

static void test_staging(void)
{
	stage_on("/var/tmp");
	stage_on("/dev/shm");
}

/* The bits that were saved are there after a restart, and no others. */
static void test_goes_on(void)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN), other = plan;
	struct fm_cache_fetch *f;
	struct fm_cache_info info;
	uint64_t id;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	id = fm_cache_fetch_id(f);
	scene_fill(f, "set1");
	fm_cache_fetch_mark(f, 2);
	fm_cache_fetch_mark(f, 10);
	fm_cache_fetch_mark(f, EXTENTS); /* there is none */
	CU_ASSERT_EQUAL(fm_cache_fetch_save(f, &s.err), 0);
	fm_cache_fetch_mark(f, 5);
	fm_cache_fetch_close(f);
	scene_reopen(&s);
	CU_ASSERT_TRUE(fm_cache_look(s.c, id, &info) && info.extents_done == 2 &&
		       info.state == FM_CACHE_FETCHING);
	other.bytes++;
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &other, &f, &s.err), -EBADMSG);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch_id(f), id);
	CU_ASSERT_EQUAL(fm_cache_fetch_missing(f), EXTENTS - 2);
	CU_ASSERT_TRUE(fm_cache_fetch_has(f, 2) && fm_cache_fetch_has(f, 10) &&
		       !fm_cache_fetch_has(f, 5));
	CU_ASSERT_EQUAL(scene_finish(&s, f, 1), 0);
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/* After a sync that failed nothing of it counts, now or after a restart. */
static void test_failed_sync(void)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	struct fm_cache_fetch *f;

	if (fm_test_lacks_faults())
		return;
	scene_new(&s, "/var/tmp");
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	scene_fill(f, "set1");
	fm_cache_fetch_mark(f, 2);
	CU_ASSERT_EQUAL(fm_cache_fetch_save(f, &s.err), 0);
	fm_fault_arm("cache.syncfs", 1);
	CU_ASSERT_EQUAL(fm_cache_fetch_save(f, &s.err), -EIO);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(fm_cache_fetch_save(f, &s.err), -EIO);
	CU_ASSERT_EQUAL(scene_finish(&s, f, 1), -EIO);
	fm_cache_fetch_close(f);
	/* Not even its bytes, which a later reader would have from memory. */
	CU_ASSERT_EQUAL(fm_cache_find_listing(s.c, &plan.listing), 0);
	scene_reopen(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch_missing(f), EXTENTS);
	CU_ASSERT_EQUAL(faccessat(fm_cache_fetch_dir(f), "set1", F_OK, 0), -1);
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/*
 * Directories in the one behind fd (taken over), until a path below it has FM_TREE_PATH_MAX bytes:
 * the longest that a listing takes. The last one is returned, with a file in it.
 */
static int make_longest(int fd)
{
	char name[NAME_MAX + 1];
	size_t left = FM_TREE_PATH_MAX - 2; /* for "/f" */

	while (left > 0) {
		size_t len = left > NAME_MAX ? NAME_MAX : left;
		int in;

		memset(name, 'd', len);
		name[len] = '\0';
		CU_ASSERT_EQUAL(mkdirat(fd, name, 0700), 0);
		in = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CU_ASSERT_TRUE_FATAL(in >= 0);
		close(fd);
		fd = in;
		left -= len < left ? len + 1 : len;
	}
	CU_ASSERT_EQUAL(scene_write(fd, "f", FILE_LEN), 0);
	return fd;
}

/* Goal: what has the longest paths is made read-only, is known to be open, and goes. */
static void test_longest_path(void)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(1, FILE_LEN);
	struct fm_cache_fetch *f;
	struct stat st;
	int dir, last, fd;
	uint64_t id;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	id = fm_cache_fetch_id(f);
	scene_fill(f, plan.name);
	dir = openat(fm_cache_fetch_dir(f), plan.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(dir >= 0);
	last = make_longest(dir);
	CU_ASSERT_EQUAL_FATAL(scene_finish(&s, f, 1), 0);
	fm_cache_fetch_close(f);
	CU_ASSERT_TRUE(fstat(last, &st) == 0 && (st.st_mode & 07777) == 0555);
	fd = openat(last, "f", O_RDONLY | O_CLOEXEC);
	CU_ASSERT_TRUE(fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0444);
	close(last);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "a file of it is open"));
	close(fd);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_ABSENT);
	scene_end(&s);
}

/* ---- room ---- */

static void test_room_and_eviction(void)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(9, 30 * MIB);
	struct fm_cache_fetch *f;
	struct fm_cache_sums sums;
	uint64_t old, pinned, fresh;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	old = scene_stage(&s, 1, 25 * MIB);
	pinned = scene_stage(&s, 2, 40 * MIB);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, pinned, 1000, &s.err), 0);
	fresh = scene_stage(&s, 3, 10 * MIB);
	/* All are within the grace. */
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &plan, &f, &s.err), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, s.dir));
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "set9: 30 MiB are needed"));
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "unpin (40 MiB in 1 pinned)"));
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "staging.grace or unstage (35 MiB in 2)"));
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "raise staging.size"));
	scene_pass(&s, 2 * HOUR);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, fresh, &s.err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, old), FM_CACHE_ABSENT);
	CU_ASSERT_EQUAL(scene_state(&s, pinned), FM_CACHE_READY);
	CU_ASSERT_EQUAL(scene_state(&s, fresh), FM_CACHE_READY);
	fm_cache_sums(s.c, &sums);
	CU_ASSERT_EQUAL(sums.used, 80 * MIB + 12 * 4096);
	CU_ASSERT_EQUAL(sums.promised, sums.used - 50 * MIB - 8 * 4096);
	fm_cache_fetch_wrote(f, 10 * MIB, 0);
	fm_cache_sums(s.c, &sums);
	CU_ASSERT_EQUAL(sums.promised, 20 * MIB + 4 * 4096);
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/* Down to the low mark, and not further. */
static void test_low_mark(void)
{
	struct scene s;
	unsigned there = 0;
	uint64_t ids[8];

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	for (unsigned i = 0; i < 8; i++) {
		ids[i] = scene_stage(&s, i + 1, 11 * MIB);
		scene_pass(&s, S);
	}
	scene_pass(&s, 3 * HOUR);
	fm_cache_upkeep(s.c);
	for (unsigned i = 0; i < 8; i++)
		there += scene_state(&s, ids[i]) == FM_CACHE_READY;
	CU_ASSERT_EQUAL(there, 8); /* 88 of 100 MiB: below the high mark */
	CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 3 * MIB, &s.err), 0);
	for (unsigned i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(scene_state(&s, ids[i]), i < 4 ? FM_CACHE_ABSENT : FM_CACHE_READY);
	scene_end(&s);
}

/* Nothing goes for what has no room then either. */
static void test_too_large(void)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(9, 2 * 1024 * 1024 * MIB);
	struct fm_cache_fetch *f;
	uint64_t idle, held;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	idle = scene_stage(&s, 1, 20 * MIB);
	held = scene_stage(&s, 2, 30 * MIB);
	scene_pass(&s, 9 * HOUR);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, held, 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &plan, &f, &s.err), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "2097152 MiB are needed, 69 MiB can be had"));
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "unpin (30 MiB in 1 pinned), raise"));
	plan.bytes = 71 * MIB;
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &plan, &f, &s.err), -ENOSPC);
	CU_ASSERT_EQUAL(scene_state(&s, idle), FM_CACHE_READY);
	plan.bytes = 69 * MIB;
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, idle), FM_CACHE_ABSENT);
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/* A fetch of it, interrupted as soon as it has room; its id. */
static uint64_t abandon(struct scene *s, unsigned n, uint64_t bytes)
{
	struct fm_cache_plan plan = scene_plan(n, bytes);
	struct fm_cache_fetch *f;
	uint64_t id;

	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s->c, &plan, &f, &s->err), 0);
	id = fm_cache_fetch_id(f);
	fm_cache_fetch_close(f);
	return id;
}

/*
 * Goal: the room that an interrupted fetch was given is others' after the grace, and no READY
 * dataset goes for it. Method: of 100 MiB one fetch that stays open has 30, one that is
 * interrupted 50.
 */
static void test_abandoned(void)
{
	struct scene s;
	struct fm_cache_plan open_one = scene_plan(1, 30 * MIB), wanted = scene_plan(4, 40 * MIB);
	struct fm_cache_fetch *open_fetch, *f;
	uint64_t ready, left;

	scene_new(&s, "/dev/shm");
	s.o.low = 90;
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &open_one, &open_fetch, &s.err), 0);
	ready = scene_stage(&s, 2, 8 * MIB);
	scene_pass(&s, 9 * HOUR);
	left = abandon(&s, 3, 50 * MIB);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, ready, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &wanted, &f, &s.err), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "staging.grace or unstage (58 MiB in 2)"));
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "cancel what is fetched (30 MiB in 1)"));
	/* It is gone on with: its grace begins when that ends. */
	scene_pass(&s, HOUR / 2);
	CU_ASSERT_EQUAL(abandon(&s, 3, 50 * MIB), left);
	scene_pass(&s, HOUR - 60 * S);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, ready, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &wanted, &f, &s.err), -ENOSPC);
	scene_pass(&s, 9 * HOUR);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &wanted, &f, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, left), FM_CACHE_ABSENT);
	CU_ASSERT_EQUAL(scene_state(&s, ready), FM_CACHE_READY);
	CU_ASSERT_EQUAL(scene_state(&s, fm_cache_fetch_id(open_fetch)), FM_CACHE_PLANNED);
	fm_cache_fetch_close(f);
	fm_cache_fetch_close(open_fetch);
	scene_end(&s);
}

/* Upkeep takes it before what is READY, but not just after a start. */
static void abandoned_and_upkeep(bool is_start)
{
	struct scene s;
	uint64_t ready, left;

	scene_new(&s, "/dev/shm");
	s.o.low = 75;
	scene_open(&s);
	left = abandon(&s, 1, 20 * MIB);
	ready = scene_stage(&s, 2, 71 * MIB);
	scene_pass(&s, 9 * HOUR);
	if (is_start)
		scene_reopen(&s);
	fm_cache_upkeep(s.c);
	CU_ASSERT_EQUAL(scene_state(&s, left), is_start ? FM_CACHE_PLANNED : FM_CACHE_ABSENT);
	CU_ASSERT_EQUAL(scene_state(&s, ready), is_start ? FM_CACHE_ABSENT : FM_CACHE_READY);
	scene_end(&s);
}

static void test_abandoned_and_upkeep(void)
{
	abandoned_and_upkeep(false);
	abandoned_and_upkeep(true);
}

/* Others fill the file system: what is promised and what is free are both looked at. */
static void test_foreign_writer(void)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(1, 4 * MIB), second = scene_plan(2, 3 * MIB);
	struct fm_cache_fetch *f, *g;
	char file[128];
	int fd;

	scene_new(&s, "/dev/shm");
	if (mount("none", s.dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=8m,mode=0711") < 0) {
		printf("SKIP: only root can mount\n");
		rmdir(s.dir);
		return;
	}
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	snprintf(file, sizeof(file), "%s/foreign", s.dir);
	fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE(fd >= 0 && posix_fallocate(fd, 0, 2 << 20) == 0);
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &second, &g, &s.err), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "can be had on its file system"));
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "remove other files"));
	CU_ASSERT_EQUAL(ftruncate(fd, 0), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &second, &g, &s.err), 0);
	fm_cache_fetch_close(g);
	fm_cache_fetch_close(f);
	/* What was promised is not there any more when the fetch goes on. */
	CU_ASSERT_TRUE(posix_fallocate(fd, 0, 6 << 20) == 0);
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &plan, &f, &s.err), -ENOSPC);
	close(fd);
	fm_cache_close(s.c);
	CU_ASSERT_EQUAL(umount(s.dir), 0);
	rmdir(s.dir);
}

/* The same directory, mounted once more over itself, is it. */
static void test_mounted_again(void)
{
	struct scene s;
	uint64_t id;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	if (mount(s.dir, s.dir, NULL, MS_BIND, NULL) < 0) {
		printf("SKIP: only root can mount\n");
		scene_end(&s);
		return;
	}
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), 0);
	CU_ASSERT_EQUAL(umount(s.dir), 0);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), 0);
	scene_end(&s);
}

/* Its directory is a mount of its own, and a file system is mounted above that. */
static void test_mounted_above(void)
{
	char above[] = "/dev/shm/fm-above-XXXXXX";
	struct scene s;
	uint64_t id;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(above));
	scene_new(&s, above);
	if (mount("none", s.dir, "tmpfs", 0, "size=8m,mode=0711") < 0) {
		printf("SKIP: only root can mount\n");
		(void)rmdir(s.dir);
		(void)rmdir(above);
		return;
	}
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	CU_ASSERT_EQUAL(mount("none", above, "tmpfs", 0, "size=1m,mode=0711"), 0);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), -ENODEV);
	CU_ASSERT_EQUAL(umount(above), 0);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), 0);
	fm_cache_close(s.c);
	CU_ASSERT_EQUAL(umount(s.dir), 0);
	(void)rmdir(s.dir);
	(void)rmdir(above);
}

/*
 * Goal: its directory is another one's, bound there (mount --bind). That may be renamed: the path
 * leads where it did. What is mounted over it then, or that it is not mounted any more, is noticed.
 */
static void test_bound_one_renamed(void)
{
	char from[] = "/dev/shm/fm-bound-XXXXXX", to[sizeof(from) + 4];
	struct scene s;
	uint64_t id;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(from));
	snprintf(to, sizeof(to), "%s.new", from);
	scene_new(&s, "/dev/shm");
	if (mount(from, s.dir, NULL, MS_BIND, NULL) < 0) {
		printf("SKIP: only root can mount\n");
		(void)rmdir(s.dir);
		(void)rmdir(from);
		return;
	}
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	CU_ASSERT_EQUAL(rename(from, to), 0);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), 0);
	CU_ASSERT_EQUAL(mount("none", s.dir, "tmpfs", 0, "size=1m,mode=0711"), 0);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), -ENODEV);
	CU_ASSERT_EQUAL(umount(s.dir), 0);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), 0);
	CU_ASSERT_EQUAL(umount2(s.dir, MNT_DETACH), 0);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), -ENODEV);
	CU_ASSERT_EQUAL(rename(to, s.dir), 0);
	scene_end(&s);
}

/*
 * Goal: its mount is moved to a directory above its mount point. The path leads to that mount, as
 * before, but to another directory of it.
 */
static void test_mount_moved(void)
{
	char above[] = "/dev/shm/fm-moved-XXXXXX", in[sizeof(above) + 3];
	struct scene s;
	bool is_moved;
	uint64_t id;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(above));
	snprintf(in, sizeof(in), "%s/in", above);
	CU_ASSERT_EQUAL_FATAL(mkdir(in, 0711), 0);
	if (mount("none", in, "tmpfs", 0, "size=8m,mode=0711") < 0) {
		printf("SKIP: only root can mount\n");
		(void)rmdir(in);
		(void)rmdir(above);
		return;
	}
	scene_new(&s, in);
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), 0);
	is_moved = mount(in, above, NULL, MS_MOVE, NULL) == 0;
	if (!is_moved)
		printf("SKIP: what is mounted in a shared one cannot be moved\n");
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), is_moved ? -ENODEV : 0);
	fm_cache_close(s.c);
	CU_ASSERT_EQUAL(umount(is_moved ? above : in), 0);
	(void)rmdir(in);
	(void)rmdir(above);
}

/*
 * Goal: who asks while a file system hides the directory that was opened is told so, and has no
 * path that leads into it. It is as before when that has gone.
 */
static void test_mounted_over(void)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(2, MIB);
	struct fm_cache_fetch *f;
	uint64_t id;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	if (mount("none", s.dir, "tmpfs", 0, "size=1m,mode=0711") < 0) {
		printf("SKIP: only root can mount\n");
		scene_end(&s);
		return;
	}
	fm_cache_upkeep(s.c);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "restart fmoved"));
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &plan, &f, &s.err), -ENODEV);
	CU_ASSERT_EQUAL(umount(s.dir), 0);
	fm_cache_upkeep(s.c);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, id, &s.err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/* All that is free: then no file gets a block, or its name. */
static void fill_up(struct scene *s)
{
	static const char block[4096];
	char file[128];
	int fd;

	snprintf(file, sizeof(file), "%s/foreign", s->dir);
	fd = open(file, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	while (write(fd, block, sizeof(block)) > 0)
		;
	CU_ASSERT_EQUAL(errno, ENOSPC);
	close(fd);
}

static unsigned pins_of(struct scene *s, uint64_t id)
{
	struct fm_cache_info info;

	return fm_cache_look(s->c, id, &info) ? info.pins : 99;
}

/*
 * Goal: on a full disk who asks for what is READY has it, and its hold; what nobody needs goes for
 * that. Where all is pinned, the pins can be taken away, and that is so after a restart.
 */
static void test_full_disk(void)
{
	const struct fm_cache_holder who = {.uid = geteuid(), .pid = getpid()};
	uint64_t idle, wanted, hold;
	struct fm_cache_sums sums;
	struct scene s;

	scene_new(&s, "/dev/shm");
	if (mount("none", s.dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=2m,mode=0711") < 0) {
		printf("SKIP: only root can mount\n");
		rmdir(s.dir);
		return;
	}
	scene_open(&s);
	idle = scene_stage(&s, 1, 2 * FILE_LEN);
	wanted = scene_stage(&s, 2, 2 * FILE_LEN);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, wanted, 7, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, wanted, 8, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, idle, 7, &s.err), 0);
	scene_pass(&s, 2 * HOUR);
	fill_up(&s);
	/* one pin of two, with nothing that could go; then what was pinned can */
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, wanted, 8, false, &s.err), -ENOSPC);
	CU_ASSERT_EQUAL(pins_of(&s, wanted), 2);
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, idle, 7, false, &s.err), 0);
	CU_ASSERT_EQUAL(pins_of(&s, idle), 0);
	scene_reopen(&s);
	CU_ASSERT_EQUAL(pins_of(&s, idle), 0);
	CU_ASSERT_EQUAL(pins_of(&s, wanted), 2);
	scene_pass(&s, 2 * HOUR);	/* without its file it counted as asked for just now */
	fill_up(&s);
	CU_ASSERT_EQUAL(fm_cache_request(s.c, wanted, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, idle), FM_CACHE_READY);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, wanted, &who, &hold, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, idle), FM_CACHE_ABSENT);
	fill_up(&s);
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, wanted, 0, true, &s.err), 0);
	scene_reopen(&s);
	CU_ASSERT_EQUAL(pins_of(&s, wanted), 0);
	fm_cache_sums(s.c, &sums);
	CU_ASSERT_TRUE(sums.datasets == 1 && sums.holds == 1);
	fm_cache_close(s.c);
	CU_ASSERT_EQUAL(umount(s.dir), 0);
	rmdir(s.dir);
}

/* A file of that length, with its room; nothing is written to it. */
static void take_room(int dir, const char *name, off_t len)
{
	int fd = openat(dir, name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

	CU_ASSERT_TRUE(fd >= 0 && (len == 0 || posix_fallocate(fd, 0, len) == 0));
	close(fd);
}

static uint64_t promised(struct scene *s)
{
	struct fm_cache_sums sums;

	CU_ASSERT_EQUAL(fm_cache_make_room(s->c, 0, &s->err), 0);
	fm_cache_sums(s->c, &sums);
	return sums.promised;
}

/* Some blocks for directories and files of state. */
static bool is_about(uint64_t bytes, uint64_t expected)
{
	return bytes <= expected + 64 * 1024 && bytes + 64 * 1024 >= expected;
}

/*
 * Goal: what a fetch wrote is not promised once more, so that nothing goes for it; what is missing
 * is, also when a fetch failed and lost what it had. Method: a file system of 16 MiB with a READY
 * dataset of 4 that may go and a fetch of 8; a third one of 3 finds 4 free, if it is counted right.
 */
static void test_promise(void)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(1, 8 * MIB), other = scene_plan(3, 3 * MIB);
	struct fm_cache_fetch *f, *g;
	uint64_t ready;
	int dir;

	scene_new(&s, "/dev/shm");
	if (mount("none", s.dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,mode=0711") < 0) {
		printf("SKIP: only root can mount\n");
		rmdir(s.dir);
		return;
	}
	s.o.grace_ns = 0;
	scene_open(&s);
	ready = scene_stage(&s, 2, 4 * MIB);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	dir = fm_cache_fetch_dir(f);
	/* Room is taken when a large file is made; its fetch has written nothing yet. */
	take_room(dir, "large", 7 * MIB);
	CU_ASSERT_TRUE(is_about(promised(&s), MIB));
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &other, &g, &s.err), 0);
	take_room(fm_cache_fetch_dir(g), "large", 3 * MIB);
	fm_cache_upkeep(s.c);
	CU_ASSERT_EQUAL(scene_state(&s, ready), FM_CACHE_READY);
	fm_cache_fetch_close(g);
	fm_cache_fetch_close(f);
	CU_ASSERT_TRUE(is_about(promised(&s), MIB));
	scene_reopen(&s);
	fm_cache_upkeep(s.c);
	CU_ASSERT_EQUAL(scene_state(&s, ready), FM_CACHE_READY);
	CU_ASSERT_TRUE(is_about(promised(&s), MIB));
	/* It goes on, and fails with less than it had. */
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	fm_cache_fetch_wrote(f, 8 * MIB, 4);
	take_room(fm_cache_fetch_dir(f), "large", 0);
	fm_cache_fetch_close(f);
	CU_ASSERT_TRUE(is_about(promised(&s), 8 * MIB));
	fm_cache_close(s.c);
	CU_ASSERT_EQUAL(umount(s.dir), 0);
	rmdir(s.dir);
}

/* Goal: of many files nobody looks at each while they come: their fetch says what it wrote. */
static void test_promise_of_many_files(void)
{
	struct scene s;
	struct fm_cache_plan plan = scene_plan(1, 8 * MIB);
	struct fm_cache_fetch *f;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	plan.files = 5000;
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(promised(&s), 8 * MIB + 5000 * 4096);
	fm_cache_fetch_wrote(f, 3 * MIB, 1000);
	fm_cache_fetch_wrote(f, 2 * MIB, 500); /* late: it was more already */
	CU_ASSERT_EQUAL(promised(&s), 5 * MIB + 4000 * 4096);
	fm_cache_fetch_wrote(f, 9 * MIB, 5000);
	CU_ASSERT_EQUAL(promised(&s), 0);
	fm_cache_fetch_close(f);
	CU_ASSERT_TRUE(is_about(promised(&s), 8 * MIB + 5000 * 4096));
	scene_end(&s);
}

/* ---- places ---- */

static struct fm_cache_plan plan_of(unsigned n, uint64_t bytes, uid_t uid, const char *node)
{
	struct fm_cache_plan plan = scene_plan(n, bytes);

	plan.uid = uid;
	plan.node = node;
	return plan;
}

/* A dataset of a few bytes of its own, of which nothing came; or the error. */
static int plan_small(struct scene *s, unsigned n, uid_t uid, const char *node)
{
	struct fm_cache_plan plan = plan_of(n, 10, uid, node);
	struct fm_cache_fetch *f;
	int ret;

	memcpy(plan.listing.bytes, &n, sizeof(n)); /* there are more than a byte tells apart */
	ret = fm_cache_fetch(s->c, &plan, &f, &s->err);
	if (ret == 0)
		fm_cache_fetch_close(f);
	return ret;
}

/* How many small ones he gets until he is refused, from *n on. */
static unsigned fill_places(struct scene *s, unsigned *n, uid_t uid, const char *node)
{
	unsigned got = 0;
	int ret;

	while ((ret = plan_small(s, ++*n, uid, node)) == 0)
		got++;
	CU_ASSERT_EQUAL(ret, -EDQUOT);
	return got;
}

/*
 * Whatever one stages, others find a place: he has at most seven times of what he leaves, and 64
 * are root's. A node is one, whichever users it names.
 */
static void share_places(struct scene *s, unsigned *n, uint64_t idle)
{
	const struct fm_cache_plan large = plan_of(250, 36 * MIB, 1000, NULL);
	struct fm_cache_fetch *f;

	CU_ASSERT_EQUAL(fill_places(s, n, 1000, NULL), 3527); /* leaves 504 of 4032 - 1 */
	CU_ASSERT_PTR_NOT_NULL(strstr(s->err.text, "3527 of the 4096 datasets that may be here "
						   "came for you and cannot go yet"));
	/* There would be room for it, if something went. */
	CU_ASSERT_EQUAL(fm_cache_fetch(s->c, &large, &f, &s->err), -EDQUOT);
	CU_ASSERT_EQUAL(scene_state(s, idle), FM_CACHE_READY);
	CU_ASSERT_EQUAL(fill_places(s, n, 1001, NULL), 441); /* leaves 63 */
	CU_ASSERT_EQUAL(plan_small(s, ++*n, 1000, "n1"), 0);
	CU_ASSERT_EQUAL(fill_places(s, n, 1001, "n1"), 54); /* with that one 55: leaves 8 */
	CU_ASSERT_PTR_NOT_NULL(strstr(s->err.text, "came for users of that node"));
}

/* When as many are there as there may be, one more comes as soon as one of them may go. */
static void fill_all_places(struct scene *s, unsigned *n, uint64_t idle)
{
	struct fm_cache_sums sums;

	for (fm_cache_sums(s->c, &sums); sums.datasets < FM_CACHE_DATASETS_MAX; sums.datasets++)
		CU_ASSERT_EQUAL(plan_small(s, ++*n, 0, NULL), 0);
	CU_ASSERT_EQUAL(scene_state(s, idle), FM_CACHE_READY);
	CU_ASSERT_EQUAL(plan_small(s, ++*n, 0, NULL), 0);
	CU_ASSERT_EQUAL(scene_state(s, idle), FM_CACHE_ABSENT);
	CU_ASSERT_EQUAL(plan_small(s, *n + 1, 0, NULL), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(s->err.text, "4096 datasets are there, 4096 may be, and "
						   "none can go for it; "));
	CU_ASSERT_PTR_NOT_NULL(strstr(s->err.text, "unpin (0 MiB in 1 pinned), wait for "));
	CU_ASSERT_PTR_NOT_NULL(strstr(s->err.text, "unstage (64 MiB in 4095)"));
	CU_ASSERT_EQUAL(plan_small(s, *n, 0, NULL), 0); /* it is there */
}

static unsigned count_datasets(struct scene *s)
{
	struct fm_cache_sums sums;

	fm_cache_sums(s->c, &sums);
	return sums.datasets;
}

/* A small one that is there: the one of that number, or of the next lower one. */
static uint64_t find_small(struct scene *s, unsigned n)
{
	uint64_t id = 0;

	for (; id == 0 && n > 0; n--) {
		struct fm_cache_key listing = scene_key(n);

		memcpy(listing.bytes, &n, sizeof(n));
		id = fm_cache_find_listing(s->c, &listing);
	}
	return id;
}

/*
 * Goal: a dataset that the disk could not read for one start, and whose place another one has at
 * the next, keeps nobody from staging. It is back when there is a place; one that is READY is at
 * once, and what is to come makes way.
 */
static void have_one_over(struct scene *s, unsigned *n, uint64_t ready)
{
	if (fm_test_lacks_faults())
		return;
	fm_cache_close(s->c);
	fm_fault_arm("cache.read", 2);
	CU_ASSERT_EQUAL_FATAL(fm_cache_open(&s->o, &s->c, &s->err), 0);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(fm_cache_has_unread(s->c));
	CU_ASSERT_EQUAL(scene_state(s, ready), FM_CACHE_ABSENT);
	CU_ASSERT_EQUAL(count_datasets(s), FM_CACHE_DATASETS_MAX - 1);
	CU_ASSERT_EQUAL(plan_small(s, ++*n, 0, NULL), 0);
	scene_reopen(s);
	CU_ASSERT_EQUAL(count_datasets(s), FM_CACHE_DATASETS_MAX);
	CU_ASSERT_EQUAL(scene_state(s, ready), FM_CACHE_READY);
	CU_ASSERT_TRUE(fm_cache_has_unread(s->c));
	CU_ASSERT_EQUAL(fm_cache_discard(s->c, find_small(s, *n), &s->err), 0);
	scene_reopen(s);
	CU_ASSERT_EQUAL(count_datasets(s), FM_CACHE_DATASETS_MAX);
	CU_ASSERT_FALSE(fm_cache_has_unread(s->c));
}

static void test_places(void)
{
	struct scene s;
	uint64_t pinned, idle;
	unsigned n = 2;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	pinned = scene_stage(&s, 1, 2 * FILE_LEN);
	idle = scene_stage(&s, 2, 2 * FILE_LEN);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, pinned, 1000, &s.err), 0);
	scene_pass(&s, 2 * HOUR);
	share_places(&s, &n, idle);
	fill_all_places(&s, &n, idle);
	have_one_over(&s, &n, pinned);
	/* What may go is in nobody's way. */
	scene_pass(&s, 2 * HOUR);
	CU_ASSERT_EQUAL(plan_small(&s, ++n, 1000, NULL), 0);
	CU_ASSERT_EQUAL(scene_state(&s, pinned), FM_CACHE_READY);
	scene_end(&s);
}

/* ---- what stays ---- */

static void check_open_stays(struct scene *s, uint64_t id)
{
	scene_pass(s, 9 * HOUR);
	CU_ASSERT_EQUAL(fm_cache_discard(s->c, id, &s->err), -EBUSY);
	CU_ASSERT_EQUAL(scene_state(s, id), FM_CACHE_READY);
	CU_ASSERT_EQUAL(fm_cache_make_room(s->c, 90 * MIB, &s->err), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(s->err.text, "close what is open"));
}

static void open_on(const char *on)
{
	struct scene s;
	char path[PATH_MAX];
	void *map;
	uint64_t id;
	int fd;

	scene_new(&s, on);
	scene_open(&s);
	id = scene_stage(&s, 1, 20 * MIB);
	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, id, path, sizeof(path)), 0);
	strcat(path, "/sub/b");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	check_open_stays(&s, id);
	map = mmap(NULL, FILE_LEN, PROT_READ, MAP_SHARED, fd, 0);
	CU_ASSERT_TRUE_FATAL(map != MAP_FAILED);
	close(fd);
	check_open_stays(&s, id); /* a reader with only an mmap */
	CU_ASSERT_EQUAL(((const char *)map)[100], 'x');
	CU_ASSERT_EQUAL(munmap(map, FILE_LEN), 0);
	CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 90 * MIB, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_ABSENT);
	scene_end(&s);
}

static void test_open_files(void)
{
	open_on("/var/tmp");
	open_on("/dev/shm");
}

/* What another thread would do between two calls of an eviction. */
struct race {
	struct scene *s;
	uint64_t id;
	unsigned after; /* so many renames */
	int fd;
	char path[PATH_MAX];
	int (*act)(struct race *r);
	int ret;
	unsigned renames;
};

static void race_reached(void *ctx, const char *name)
{
	struct race *r = ctx;

	/* A lease is asked for before the first rename, and after it. */
	if (strcmp(name, "cache.rename") == 0)
		r->renames++;
	if (strcmp(name, "cache.lease") == 0 && r->renames == r->after && r->act) {
		int (*act)(struct race *) = r->act;

		r->act = NULL;
		r->ret = act(r);
	}
}

static int race_hold(struct race *r)
{
	const struct fm_cache_holder who = {.uid = 1000};
	uint64_t hold;
	int ret = fm_cache_hold(r->s->c, r->id, &who, &hold, &r->s->err);

	/* why it goes nobody knows here: a user may have unstaged it */
	if (ret == -EAGAIN)
		CU_ASSERT_STRING_EQUAL(r->s->err.text,
				       "set1 is being evicted just now: run it again");
	return ret;
}

static int race_request(struct race *r)
{
	return fm_cache_request(r->s->c, r->id, &r->s->err);
}

static int race_open(struct race *r)
{
	r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
	return r->fd < 0 ? -errno : 0;
}

static void race_with(int (*act)(struct race *r), unsigned after, int told, int evicted)
{
	struct scene s;
	struct race r = {.s = &s, .after = after, .fd = -1, .act = act, .ret = 1};
	struct stat st;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	r.id = scene_stage(&s, 1, 20 * MIB);
	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, r.id, r.path, sizeof(r.path)), 0);
	strcat(r.path, "/a");
	fm_fault_watch(race_reached, &r);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, r.id, &s.err), evicted);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(r.ret, told);
	CU_ASSERT_EQUAL(stat(r.path, &st), evicted == 0 ? -1 : 0);
	CU_ASSERT_EQUAL(scene_state(&s, r.id), evicted == 0 ? FM_CACHE_ABSENT : FM_CACHE_READY);
	if (told == -EAGAIN) /* as the header says: a second call says how it ended */
		CU_ASSERT_EQUAL(fm_cache_request(s.c, r.id, &s.err), 0);
	if (r.fd >= 0)
		close(r.fd);
	scene_end(&s);
}

static void test_races(void)
{
	if (fm_test_lacks_faults())
		return;
	race_with(race_hold, 0, 0, -EBUSY);	   /* at the first look */
	race_with(race_hold, 1, -EAGAIN, -EAGAIN); /* when it was away: it comes back */
	race_with(race_request, 1, -EAGAIN, -EAGAIN);
	race_with(race_open, 0, 0, -EBUSY);
	race_with(race_open, 1, -ENOENT, 0); /* no path leads there any more */
}

/* ---- holds, pins, quota ---- */

static pid_t start_child(void)
{
	pid_t pid = fork();

	CU_ASSERT_TRUE_FATAL(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static unsigned holds_of(struct scene *s, uint64_t id)
{
	struct fm_cache_info info;

	return fm_cache_look(s->c, id, &info) ? info.holds : 99;
}

static void test_holds(void)
{
	struct scene s;
	struct fm_cache_holder by_pid = {.uid = 0}, by_connection = {.uid = 1000},
			       by_other = {.uid = 1000};
	uint64_t id, hold, other;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	scene_pass(&s, 9 * HOUR);
	by_pid.pid = start_child();
	by_other.pid = by_pid.pid;
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, id, &by_other, &hold, &s.err), -EPERM);
	CU_ASSERT_EQUAL_FATAL(fm_cache_hold(s.c, id, &by_pid, &hold, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, id, &by_pid, &other, &s.err), 0);
	CU_ASSERT_EQUAL(other, hold); /* however often it asks */
	CU_ASSERT_EQUAL_FATAL(fm_cache_hold(s.c, id, &by_connection, &other, &s.err), 0);
	CU_ASSERT_EQUAL(holds_of(&s, id), 2);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), -EBUSY);
	scene_reopen(&s); /* the connection ended with the daemon, the process goes on */
	CU_ASSERT_EQUAL(holds_of(&s, id), 1);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), -EBUSY);
	fm_cache_upkeep(s.c);
	CU_ASSERT_EQUAL(holds_of(&s, id), 1);
	CU_ASSERT_EQUAL(kill(by_pid.pid, SIGKILL), 0);
	CU_ASSERT_EQUAL(waitpid(by_pid.pid, NULL, 0), by_pid.pid);
	fm_cache_upkeep(s.c);
	CU_ASSERT_EQUAL(holds_of(&s, id), 0);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), 0);
	scene_end(&s);
}

/* Whoever ended a process that held something need not wait for upkeep. */
static void test_hold_ends_at_once(void)
{
	struct fm_cache_holder who = {.uid = 0};
	struct scene s;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t id = scene_stage(&s, 1, 60 * MIB), hold;

		scene_pass(&s, 9 * HOUR);
		who.pid = start_child();
		CU_ASSERT_EQUAL_FATAL(fm_cache_hold(s.c, id, &who, &hold, &s.err), 0);
		CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 90 * MIB, &s.err), -ENOSPC);
		CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), -EBUSY);
		CU_ASSERT_EQUAL(kill(who.pid, SIGKILL), 0);
		CU_ASSERT_EQUAL(waitpid(who.pid, NULL, 0), who.pid);
		CU_ASSERT_EQUAL(i == 0 ? fm_cache_make_room(s.c, 90 * MIB, &s.err)
				       : fm_cache_discard(s.c, id, &s.err),
				0);
	}
	scene_end(&s);
}

/* Whether a directory of the cache has a file. */
static bool has_file(const struct scene *s, const char *place)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", s->dir, place);
	if (rmdir(path) < 0)
		return true;
	CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
	return false;
}

/* One whose process ended while no daemon ran is gone, and so is its file. */
static void test_hold_of_one_who_is_gone(void)
{
	struct scene s;
	struct fm_cache_holder who = {.uid = 0};
	uint64_t id, hold;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	who.pid = start_child();
	CU_ASSERT_EQUAL_FATAL(fm_cache_hold(s.c, id, &who, &hold, &s.err), 0);
	fm_cache_close(s.c);
	CU_ASSERT_EQUAL(kill(who.pid, SIGKILL), 0);
	CU_ASSERT_EQUAL(waitpid(who.pid, NULL, 0), who.pid);
	scene_open(&s);
	CU_ASSERT_EQUAL(holds_of(&s, id), 0);
	CU_ASSERT_FALSE(has_file(&s, "holds"));
	scene_end(&s);
}

/* For a process of another node: as long as that node says so, and 600 s without a word. */
static void test_hold_for_a_node(void)
{
	struct scene s;
	const struct fm_cache_holder who = {.uid = 1000, .node = "n1", .theirs = 7};
	struct fm_cache_holder seen[2];
	uint64_t id, hold, again;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	id = scene_stage(&s, 1, 60 * MIB);
	scene_pass(&s, 9 * HOUR);
	CU_ASSERT_EQUAL_FATAL(fm_cache_hold(s.c, id, &who, &hold, &s.err), 0);
	scene_pass(&s, 599 * S);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, id, &who, &again, &s.err), 0);
	CU_ASSERT_EQUAL(again, hold);
	scene_pass(&s, 599 * S);
	CU_ASSERT_TRUE(fm_cache_renew_node(s.c, id, "n1", 7));
	CU_ASSERT_FALSE(fm_cache_renew_node(s.c, id, "n1", 8));
	CU_ASSERT_FALSE(fm_cache_renew_node(s.c, id, "n2", 7));
	CU_ASSERT_FALSE(fm_cache_renew_node(s.c, scene_stage(&s, 2, MIB), "n1", 7));
	CU_ASSERT_FALSE(fm_cache_renew_node(s.c, 0, "n1", 7));
	scene_pass(&s, 599 * S);
	fm_cache_upkeep(s.c);
	CU_ASSERT_EQUAL(holds_of(&s, id), 1);
	CU_ASSERT_TRUE(fm_cache_is_held_by(s.c, id, 1000));
	CU_ASSERT_FALSE(fm_cache_is_held_by(s.c, id, 1001));
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, id, 1001, &s.err), 0);
	CU_ASSERT_TRUE(fm_cache_is_held_by(s.c, id, 1001));
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, id, 1001, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 90 * MIB, &s.err), -ENOSPC);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), -EBUSY);
	scene_reopen(&s); /* the time begins anew */
	scene_pass(&s, 599 * S);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), -EBUSY);
	CU_ASSERT_EQUAL(fm_cache_holders(s.c, id, seen, 2), 1);
	CU_ASSERT_STRING_EQUAL(seen[0].node, "n1");
	CU_ASSERT_TRUE(seen[0].uid == 1000 && seen[0].pid == 0 && seen[0].theirs == 7);
	scene_pass(&s, 2 * S);
	CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 90 * MIB, &s.err), 0);
	CU_ASSERT_FALSE(has_file(&s, "holds"));
	scene_end(&s);
}

/* What one node says ends no other hold than its own of that number. */
static void test_release_for_a_node(void)
{
	struct scene s;
	const struct fm_cache_holder who[] = {{.uid = 1000, .node = "n1", .theirs = 7},
					      {.uid = 1000, .node = "n2", .theirs = 7},
					      {.uid = 1000, .node = "n1", .theirs = 8},
					      {.uid = 1000}};
	uint64_t id, hold;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	for (int i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(fm_cache_hold(s.c, id, &who[i], &hold, &s.err), 0);
	CU_ASSERT_EQUAL(holds_of(&s, id), 4);
	fm_cache_release_node(s.c, "n1", 7);
	fm_cache_release_node(s.c, "n3", 8);
	CU_ASSERT_EQUAL(holds_of(&s, id), 3);
	fm_cache_release_node(s.c, "n2", 7);
	fm_cache_release_node(s.c, "n1", 8);
	fm_cache_release(s.c, hold);
	CU_ASSERT_EQUAL(holds_of(&s, id), 0);
	fm_cache_upkeep(s.c);
	CU_ASSERT_FALSE(has_file(&s, "holds"));
	scene_end(&s);
}

/* One node cannot take all holds, and its root has a quota, which ours has not. */
static void test_limits_of_a_node(void)
{
	struct scene s;
	struct fm_cache_holder who = {.uid = 0, .node = "n1"};
	const struct fm_cache_holder root = {.uid = 0};
	uint64_t a, b, hold;

	scene_new(&s, "/dev/shm");
	s.o.user_quota = 25 * MIB;
	scene_open(&s);
	a = scene_stage(&s, 1, 20 * MIB);
	b = scene_stage(&s, 2, 10 * MIB);
	while (fm_cache_hold(s.c, a, &who, &hold, &s.err) == 0)
		who.theirs++;
	CU_ASSERT_TRUE(s.err.code == -EBUSY && s.err.is_full);
	CU_ASSERT_EQUAL(who.theirs, FM_CACHE_NODE_HOLDS_MAX);
	(void)strcpy(who.node, "n2");
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, a, &who, &hold, &s.err), 0);
	/* What the service holds itself, as one that it sends to others, is not theirs. */
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, b, &root, &hold, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, b, &who, &hold, &s.err), -EDQUOT);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, b, "n1", 0, &s.err), -EDQUOT);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n1", 0, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, b, 0, &s.err), 0);
	scene_end(&s);
}

/*
 * Goal: what a user checks, or has here himself, is not held and pinned from another node beyond
 * the quota of what he has from all nodes: there it would stay.
 */
static void test_no_free_ride(void)
{
	struct scene s;
	struct fm_cache_holder far = {.uid = 1000, .node = "n1"};
	const struct fm_cache_holder check = {.uid = 1000};
	uint64_t a, b, c, hold;

	scene_new(&s, "/dev/shm");
	s.o.user_quota = 25 * MIB;
	scene_open(&s);
	a = scene_stage(&s, 1, 20 * MIB);
	b = scene_stage(&s, 2, 10 * MIB);
	c = scene_stage(&s, 3, MIB);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, a, &far, &hold, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, b, &check, &hold, &s.err), 0);
	CU_ASSERT_FALSE(fm_cache_is_held_by(s.c, b, 1000));
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, b, &far, &hold, &s.err), -EDQUOT);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, b, "n1", 1000, &s.err), -EDQUOT);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, b, 1000, &s.err), 0);	/* of this node alone it fits */
	/* a check needs no quota */
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, a, &check, &hold, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, b, &far, &hold, &s.err), -EDQUOT);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, b, "n1", 1000, &s.err), -EDQUOT);
	fm_cache_release_node(s.c, "n1", 0);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, b, &far, &hold, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, c, 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, c, "n1", 1000, &s.err), 0);
	scene_end(&s);
}

/* Other nodes' holds in the name of a user are not among those that he may have here. */
static void test_number_of_a_user(void)
{
	struct scene s;
	struct fm_cache_holder far = {.uid = 1000}, here = {.uid = 1000};
	unsigned count = 0;
	uint64_t a, hold;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	a = scene_stage(&s, 1, 4096);
	for (; far.theirs < FM_CACHE_USER_HOLDS_MAX; far.theirs++) {
		(void)snprintf(far.node, sizeof(far.node), "n%u", (unsigned)far.theirs / 512);
		CU_ASSERT_EQUAL(fm_cache_hold(s.c, a, &far, &hold, &s.err), 0);
	}
	(void)strcpy(far.node, "n9");
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, a, &far, &hold, &s.err), -EBUSY);
	while (fm_cache_hold(s.c, a, &here, &hold, &s.err) == 0)
		count++;
	CU_ASSERT_EQUAL(count, FM_CACHE_USER_HOLDS_MAX);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "the most of one user"));
	scene_end(&s);
}

static bool does_afar_live;

static void take_afar(void *ctx, const struct fm_cache_afar_record *record, int pidfd)
{
	*(struct fm_cache_afar_record *)ctx = *record;
	does_afar_live = pidfd >= 0;
	if (pidfd >= 0)
		close(pidfd);
}

/* What a process holds on other nodes is known over a restart, and whether it lives: if not, they
 * are to be told. */
static void test_hold_afar(void)
{
	struct fm_cache_afar_record a = {.number = fm_cache_afar_number(),
					 .count = 2,
					 .node = {"n2", "n3"}},
				    b;
	struct scene s;
	uid_t uid;
	int pidfd;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_hold_find(start_child(), &a.process, &uid, &pidfd, &s.err), 0);
	close(pidfd);
	CU_ASSERT_EQUAL(fm_cache_afar_save(s.c, &a, &s.err), 0);
	scene_reopen(&s);
	memset(&b, 0, sizeof(b));
	CU_ASSERT_EQUAL(fm_cache_afar_load(s.c, take_afar, &b, &s.err), 0);
	CU_ASSERT_TRUE(b.number == a.number && b.count == 2 && does_afar_live);
	CU_ASSERT_STRING_EQUAL(b.node[1], "n3");
	CU_ASSERT_EQUAL(kill(a.process.pid, SIGKILL), 0);
	CU_ASSERT_EQUAL(waitpid(a.process.pid, NULL, 0), a.process.pid);
	memset(&b, 0, sizeof(b));
	CU_ASSERT_EQUAL(fm_cache_afar_load(s.c, take_afar, &b, &s.err), 0);
	CU_ASSERT_TRUE(b.number == a.number && !does_afar_live);
	CU_ASSERT_EQUAL(fm_cache_afar_save(s.c, &a, &s.err), 0);
	fm_cache_afar_drop(s.c, a.number);
	CU_ASSERT_FALSE(has_file(&s, "afar"));
	scene_end(&s);
}

static void test_too_many_holds(void)
{
	struct scene s;
	const struct fm_cache_holder users[] = {
		{.uid = 1000}, {.uid = 1001}, {.uid = 1002}, {.uid = 1003}};
	unsigned count[4] = {0};
	uint64_t id, hold;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	for (unsigned u = 0; u < 4; u++)
		while (fm_cache_hold(s.c, id, &users[u], &hold, &s.err) == 0)
			count[u]++;
	CU_ASSERT_TRUE(s.err.code == -EBUSY && s.err.is_full);
	CU_ASSERT_EQUAL(count[0], FM_CACHE_USER_HOLDS_MAX);
	CU_ASSERT_EQUAL(count[3], FM_CACHE_USER_HOLDS_MAX - FM_CACHE_ROOT_HOLDS);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, id, &(struct fm_cache_holder){.uid = 0}, &hold, &s.err),
			0);
	fm_cache_release(s.c, hold);
	fm_cache_release(s.c, hold); /* one that has ended is left alone */
	scene_end(&s);
}

static void test_pins_and_quota(void)
{
	struct scene s;
	const struct fm_cache_holder who = {.uid = 1000}, far = {.uid = 1000, .node = "n1"};
	struct fm_cache_info info;
	uint64_t a, b, hold;

	scene_new(&s, "/var/tmp");
	s.o.user_quota = 25 * MIB;
	scene_open(&s);
	a = scene_stage(&s, 1, 20 * MIB);
	b = scene_stage(&s, 2, 10 * MIB);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, a, 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, a, 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, a, &who, &hold, &s.err), 0); /* charged once */
	CU_ASSERT_EQUAL(fm_cache_charged(s.c, 1000), 20 * MIB + 4 * 4096);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, b, 1000, &s.err), -EDQUOT);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "user_quota"));
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, b, &far, &hold, &s.err), -EDQUOT);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, b, &who, &hold, &s.err), 0); /* the service's own */
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, a, 1001, &s.err), 0); /* each in full */
	CU_ASSERT_EQUAL(fm_cache_charged(s.c, 1001), 20 * MIB + 4 * 4096);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, b, 0, &s.err), 0);
	scene_reopen(&s);
	CU_ASSERT_TRUE(fm_cache_look(s.c, a, &info) && info.pins == 2);
	scene_pass(&s, 9 * HOUR);
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, a, 1002, false, &s.err), -ENOENT);
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, a, 1000, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, a, &s.err), -EBUSY);
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, a, 0, true, &s.err), 0);
	scene_reopen(&s);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, a, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_charged(s.c, 1000), 0);
	scene_end(&s);
}

static void test_pins_of_a_node(void)
{
	struct scene s;
	struct fm_cache_info info;
	uint64_t a;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	a = scene_stage(&s, 1, 20 * MIB);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, a, 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_unpin_node(s.c, a, "n1", 1000, &s.err), -ENOENT);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n1", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n1", 1000, &s.err), 0); /* once */
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n2", 1000, &s.err), 0);
	CU_ASSERT_TRUE(fm_cache_look(s.c, a, &info) && info.pins == 3);
	scene_reopen(&s);
	CU_ASSERT_TRUE(fm_cache_look(s.c, a, &info) && info.pins == 3);
	CU_ASSERT_EQUAL(fm_cache_unpin_node(s.c, a, "n1", 1001, &s.err), -ENOENT);
	CU_ASSERT_EQUAL(fm_cache_unpin_node(s.c, a, "n1", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_unpin_node(s.c, a, "n1", 1000, &s.err), -ENOENT);
	CU_ASSERT_TRUE(fm_cache_look(s.c, a, &info) && info.pins == 2);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, a, &s.err), -EBUSY);
	/* He himself, here, takes away all of his. */
	CU_ASSERT_EQUAL(fm_cache_find_pinned(s.c, info.name, 1000, NULL), a);
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, a, 1000, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n2", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, a, &s.err), -EBUSY);
	CU_ASSERT_EQUAL(fm_cache_find_pinned(s.c, info.name, 1000, NULL), a);
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, a, 0, true, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, a, &s.err), 0);
	scene_end(&s);
}

/* Of several versions by one name each finds what was pinned from where he asks. */
static void test_find_pinned(void)
{
	const char *name = "rosa:data/set";
	struct scene s;
	uint64_t a, b, c;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	a = scene_stage(&s, 1, MIB);
	b = scene_stage(&s, 2, MIB);
	c = scene_stage(&s, 3, MIB);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n1", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, c, "n2", 1000, &s.err), 0);
	CU_ASSERT_NOT_EQUAL(fm_cache_find_pinned(s.c, name, 1000, NULL), 0);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, b, 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_find_pinned(s.c, name, 1000, NULL), b);
	CU_ASSERT_EQUAL(fm_cache_find_pinned(s.c, name, 1000, "n1"), a);
	CU_ASSERT_EQUAL(fm_cache_find_pinned(s.c, name, 1000, "n2"), c);
	CU_ASSERT_EQUAL(fm_cache_find_pinned(s.c, name, 1000, "n3"), 0);
	CU_ASSERT_EQUAL(fm_cache_find_pinned(s.c, name, 1001, NULL), 0);
	scene_end(&s);
}

static void test_quota_and_nodes(void)
{
	struct scene s;
	const struct fm_cache_holder here = {.uid = 1000}, far = {.uid = 1001, .node = "n1"};
	struct fm_cache_plan left = {
		.name = "c", .bytes = 5 * MIB - 8 * 4096, .files = 4, .uid = 1001};
	uint64_t a, b, hold;

	scene_new(&s, "/dev/shm");
	s.o.user_quota = 25 * MIB;
	scene_open(&s);
	a = scene_stage(&s, 1, 20 * MIB);
	b = scene_stage(&s, 2, 20 * MIB);
	/* What a node says of a user takes nothing from him here. */
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n1", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, b, "n1", 1000, &s.err), -EDQUOT);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, b, &here, &hold, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, a, &far, &hold, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, b, 1001, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &left, &s.err), 0);
	left.node = "n1";
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &left, &s.err), -EDQUOT);
	left.node = NULL;
	left.files++;
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &left, &s.err), -EDQUOT);
	left.files = UINT64_MAX / 2;
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &left, &s.err), -EDQUOT);
	left.uid = 0;
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &left, &s.err), 0);
	left.node = "n1";
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &left, &s.err), -EDQUOT);
	/* What he has here counts there. */
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, b, 1002, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n1", 1002, &s.err), -EDQUOT);
	scene_end(&s);
}

/*
 * Goal: a user has no more room set aside at once than his quota: neither by fetches nor by what he
 * gives up.
 */
static void test_quota_and_fetches(void)
{
	struct scene s;
	const struct fm_cache_plan first = plan_of(1, 20 * MIB, 1000, NULL),
				   second = plan_of(2, 10 * MIB, 1000, NULL),
				   far = plan_of(3, 10 * MIB, 1000, "n1"),
				   others = plan_of(4, 20 * MIB, 1001, "n1"),
				   here = plan_of(5, 10 * MIB, 1001, NULL);
	struct fm_cache_fetch *f, *g, *h;
	uint64_t left;

	scene_new(&s, "/dev/shm");
	s.o.user_quota = 25 * MIB;
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &first, &f, &s.err), 0);
	left = fm_cache_fetch_id(f);
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &first, &s.err), 0); /* it is that one */
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &far, &s.err), -EDQUOT);
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &second, &s.err), -EDQUOT);
	CU_ASSERT_EQUAL(fm_cache_fetch(s.c, &second, &g, &s.err), -EDQUOT);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "you hold, pin and fetch 20 MiB, set2 has 10"));
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "or cancel what is fetched"));
	/* What a node has fetched in the name of a user takes nothing from him here. */
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &others, &g, &s.err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &here, &h, &s.err), 0);
	fm_cache_fetch_close(h);
	fm_cache_fetch_close(g);
	/* What he gave up goes for what he asks for next, and for nothing else. */
	fm_cache_fetch_close(f);
	CU_ASSERT_EQUAL(fm_cache_check_quota(s.c, &second, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, left), FM_CACHE_PLANNED);
	fm_err_clear(&s.err);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &second, &f, &s.err), 0);
	CU_ASSERT_EQUAL(s.err.code, 0);
	CU_ASSERT_EQUAL(scene_state(&s, left), FM_CACHE_ABSENT);
	CU_ASSERT_NOT_EQUAL(fm_cache_find_listing(s.c, &others.listing), 0);
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/* A fetch that is interrupted: its id. */
static uint64_t leave(struct scene *s, unsigned n, uint64_t bytes, const char *node)
{
	const struct fm_cache_plan plan = plan_of(n, bytes, 1000, node);
	struct fm_cache_fetch *f;
	uint64_t id;

	fm_err_clear(&s->err);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s->c, &plan, &f, &s->err), 0);
	id = fm_cache_fetch_id(f);
	fm_cache_fetch_close(f);
	return id;
}

static void refuse_plan(struct scene *s, const struct fm_cache_plan *plan, int code)
{
	struct fm_cache_fetch *f;

	fm_err_clear(&s->err);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s->c, plan, &f, &s->err), code);
}

static bool is_left(struct scene *s, uint64_t id)
{
	return scene_state(s, id) == FM_CACHE_PLANNED;
}

/*
 * Goal: what a user's interrupted fetches left goes for what he asks for next only if that comes
 * then, and only as much of it as has to.
 */
static void test_quota_takes_what_it_has_to(void)
{
	struct scene s;
	const struct fm_cache_plan too_much = plan_of(5, 22 * MIB, 1000, NULL),
				   no_room = plan_of(6, 13 * MIB, 1000, NULL);
	struct fm_cache_plan other_size = plan_of(4, 8 * MIB, 1000, NULL);
	uint64_t of_root, his, large, small;

	scene_new(&s, "/dev/shm");
	s.o.user_quota = 25 * MIB;
	scene_open(&s);
	of_root = scene_stage(&s, 1, 76 * MIB);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, of_root, 0, &s.err), 0);
	his = scene_stage(&s, 2, 4 * MIB);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, his, 1000, &s.err), 0);
	large = leave(&s, 3, 12 * MIB, NULL);
	small = leave(&s, 4, 7 * MIB, NULL);
	scene_pass(&s, 60 * S);
	/* Without all of it he would have too much, ... */
	refuse_plan(&s, &too_much, -EDQUOT);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "you hold and pin 4 MiB, set5 has 22"));
	/* ... without the large one there is no room, and the small one has another size. */
	refuse_plan(&s, &no_room, -ENOSPC);
	refuse_plan(&s, &other_size, -EBADMSG);
	CU_ASSERT_TRUE(is_left(&s, large) && is_left(&s, small));
	CU_ASSERT_EQUAL(fm_cache_unpin(s.c, of_root, 0, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, of_root, &s.err), 0);
	(void)leave(&s, 6, 13 * MIB, NULL);
	CU_ASSERT_EQUAL(scene_state(&s, large), FM_CACHE_ABSENT);
	CU_ASSERT_TRUE(is_left(&s, small));
	scene_end(&s);
}

/* Goal: nor does it go for what is refused since its file system has no inodes or no room. */
static void test_quota_of_a_full_disk(void)
{
	struct scene s;
	struct fm_cache_plan many = plan_of(5, 14 * MIB, 1000, NULL),
			     others = plan_of(6, 10 * MIB, 1001, NULL);
	struct fm_cache_fetch *f;
	char file[128];
	uint64_t his;
	int fd;

	scene_new(&s, "/dev/shm");
	s.o.user_quota = 25 * MIB;
	if (mount("none", s.dir, "tmpfs", 0, "size=64m,nr_inodes=300,mode=0711") < 0) {
		printf("SKIP: only root can mount\n");
		rmdir(s.dir);
		return;
	}
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &others, &f, &s.err), 0);
	fm_cache_fetch_close(f);
	his = leave(&s, 3, 20 * MIB, NULL);
	scene_pass(&s, 60 * S);
	many.files = 1000;
	refuse_plan(&s, &many, -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "inodes"));
	CU_ASSERT_TRUE(is_left(&s, his));
	/* He goes on with what came for another one, and others have filled the disk. */
	snprintf(file, sizeof(file), "%s/foreign", s.dir);
	fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE(fd >= 0 && posix_fallocate(fd, 0, 60 << 20) == 0);
	others.uid = 1000;
	refuse_plan(&s, &others, -ENOSPC);
	CU_ASSERT_TRUE(is_left(&s, his));
	CU_ASSERT_EQUAL(ftruncate(fd, 0), 0);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &others, &f, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, his), FM_CACHE_ABSENT);
	fm_cache_fetch_close(f);
	close(fd);
	fm_cache_close(s.c);
	CU_ASSERT_EQUAL(umount(s.dir), 0);
	rmdir(s.dir);
}

/* Goal: nor for what is refused since what would have to go, too, is open. */
static void test_quota_beside_what_is_open(void)
{
	struct scene s;
	const struct fm_cache_plan plan = plan_of(3, 24 * MIB, 1000, NULL);
	struct fm_cache_fetch *f;
	char path[PATH_MAX], file[PATH_MAX + 16];
	uint64_t open_one, his;
	int fd;

	scene_new(&s, "/dev/shm");
	s.o.user_quota = 25 * MIB;
	scene_open(&s);
	open_one = scene_stage(&s, 1, 78 * MIB);
	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, open_one, path, sizeof(path)), 0);
	his = leave(&s, 2, 20 * MIB, NULL);
	scene_pass(&s, 2 * HOUR);
	snprintf(file, sizeof(file), "%s/a", path);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	refuse_plan(&s, &plan, -ENOSPC);
	CU_ASSERT_EQUAL(scene_state(&s, open_one), FM_CACHE_READY);
	CU_ASSERT_TRUE(is_left(&s, his));
	close(fd);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, open_one), FM_CACHE_ABSENT);
	CU_ASSERT_EQUAL(scene_state(&s, his), FM_CACHE_ABSENT);
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/* Goal: what a user had fetched here does not go for another node that says who he is. */
static void test_left_is_of_a_node(void)
{
	struct scene s;
	const struct fm_cache_plan much = plan_of(6, 26 * MIB, 1000, "n1");
	uint64_t here, there, third;

	scene_new(&s, "/dev/shm");
	s.o.user_quota = 25 * MIB;
	scene_open(&s);
	here = leave(&s, 1, 20 * MIB, NULL);
	third = leave(&s, 2, 20 * MIB, "n2");
	there = leave(&s, 3, 20 * MIB, "n1");
	CU_ASSERT_TRUE(is_left(&s, here) && is_left(&s, third));
	refuse_plan(&s, &much, -EDQUOT);
	CU_ASSERT_TRUE(is_left(&s, there));
	(void)leave(&s, 4, 10 * MIB, "n1");
	CU_ASSERT_EQUAL(scene_state(&s, there), FM_CACHE_ABSENT);
	CU_ASSERT_TRUE(is_left(&s, here) && is_left(&s, third));
	scene_end(&s);
}

static void test_bytes_of_a_node(void)
{
	struct scene s;
	struct fm_cache_plan small = scene_plan(5, 1);
	struct fm_cache_fetch *f;
	uint64_t a, b, c, d;

	scene_new(&s, "/dev/shm"); /* 100 MiB: 87 for nodes, of which the first has 76 */
	scene_open(&s);
	a = scene_stage(&s, 1, 40 * MIB);
	b = scene_stage(&s, 2, 30 * MIB);
	c = scene_stage(&s, 3, 10 * MIB);
	d = scene_stage(&s, 4, 10 * MIB);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n1", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n1", 1001, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, b, "n1", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, c, "n1", 1000, &s.err), -EBUSY);
	CU_ASSERT_TRUE(s.err.is_full && strstr(s.err.text, "n1 pins 70 MiB here"));
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, c, "n2", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, d, "n3", 1000, &s.err), -EBUSY);
	/* What another one pins already takes no more, but counts against his part, too. */
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, c, "n3", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n3", 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, a, "n3", 1001, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, b, "n3", 1000, &s.err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "n3 pins 50 MiB here, all nodes but this one"));
	/* Files without bytes are charged as the cache does. */
	small.files = 2000;
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &small, &f, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, fm_cache_fetch_id(f), "n2", 1000, &s.err), -EBUSY);
	fm_cache_fetch_close(f);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, d, 1000, &s.err), 0);
	scene_end(&s);
}

static void test_number_of_a_node(void)
{
	const unsigned each = FM_CACHE_FAR_PINS_MAX / 2, full = FM_CACHE_NODE_PINS_MAX / each;
	struct scene s;
	uint64_t id = 0;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	for (unsigned i = 0; i < full; i++) {
		id = scene_stage(&s, i + 1, 4096);
		for (unsigned u = 0; u < each; u++)
			CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, id, "n1", 1000 + u, &s.err), 0);
		CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, id, "n1", 999, &s.err), -EBUSY);
		CU_ASSERT_TRUE(i == full - 1 ||
			       strstr(s.err.text, "users of n1, and 0 for those of all"));
	}
	id = scene_stage(&s, full + 1, 4096);
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, id, "n1", 1000, &s.err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "the most of one node"));
	CU_ASSERT_EQUAL(fm_cache_pin_node(s.c, id, "n2", 1000, &s.err), 0);
	for (unsigned u = 0; u < FM_CACHE_PINS_MAX; u++)
		CU_ASSERT_EQUAL(fm_cache_pin(s.c, id, 1000 + u, &s.err), 0);
	scene_reopen(&s);
	CU_ASSERT_EQUAL(fm_cache_unpin_node(s.c, id, "n2", 1000, &s.err), 0);
	scene_end(&s);
}

/* ---- clocks ---- */

/* Set back by a year, then forward by ten: what was asked for within the hour stays, and no more.
 */
static void test_clock(void)
{
	struct scene s;
	struct fm_cache_info info;
	int64_t begun_ns;
	uint64_t id;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	begun_ns = s.wall_ns;
	id = scene_stage(&s, 1, 20 * MIB);
	s.wall_ns -= (int64_t)(365 * 24 * HOUR);
	CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 95 * MIB, &s.err), -ENOSPC);
	CU_ASSERT_TRUE(fm_cache_look(s.c, id, &info) && info.requested_ns == s.wall_ns);
	CU_ASSERT_TRUE(info.created_ns == s.wall_ns && info.begun_ns == begun_ns);
	scene_reopen(&s);
	CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 95 * MIB, &s.err), -ENOSPC);
	s.wall_ns += (int64_t)(3650 * 24 * HOUR);
	CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 95 * MIB, &s.err), -ENOSPC);
	scene_reopen(&s);
	CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 95 * MIB, &s.err), -ENOSPC);
	s.boot_ns += 2 * HOUR;
	CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 95 * MIB, &s.err), 0);
	scene_end(&s);
}

/* ---- whose it is ---- */

static void test_not_ours(void)
{
	struct scene s;
	struct fm_cache *other;
	char path[PATH_MAX], command[3 * PATH_MAX];
	struct fm_cache_key version = scene_key(101);
	uint64_t id;

	scene_new(&s, "/var/tmp");
	snprintf(path, sizeof(path), "%s/file", s.dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	CU_ASSERT_EQUAL(fm_cache_open(&s.o, &s.c, &s.err), -EBADMSG);
	CU_ASSERT_EQUAL(unlink(path), 0);
	CU_ASSERT_EQUAL(chmod(s.dir, 0770), 0);
	CU_ASSERT_EQUAL(fm_cache_open(&s.o, &s.c, &s.err), -EPERM);
	CU_ASSERT_EQUAL(chmod(s.dir, 0711), 0);
	if (geteuid() == 0) {
		CU_ASSERT_EQUAL(chown(s.dir, 1000, 1000), 0);
		CU_ASSERT_EQUAL(fm_cache_open(&s.o, &s.c, &s.err), -EPERM);
		CU_ASSERT_EQUAL(chown(s.dir, 0, 0), 0);
	}
	scene_open(&s);
	CU_ASSERT_EQUAL(fm_cache_open(&s.o, &other, &s.err), -EBUSY);
	id = scene_stage(&s, 1, MIB);
	fm_cache_close(s.c);
	/* A copy has its name and all its files, and another inode. */
	snprintf(command, sizeof(command),
		 "cd %s/ready && cp -a * copy && rm -r 6* && mv copy "
		 "6565656565656565656565656565656565656565656565656565656565656565",
		 s.dir);
	CU_ASSERT_EQUAL(system(command), 0);
	scene_open(&s);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_ABSENT);
	CU_ASSERT_EQUAL(fm_cache_find_version(s.c, &version), 0);
	fm_cache_upkeep(s.c);
	CU_ASSERT_TRUE(scene_exists(
		&s,
		"ready/6565656565656565656565656565656565656565656565656565656565656565/set1/a"));
	scene_end(&s);
}

/* Whatever a file of state holds, the cache opens, and uses nothing that it should not. */
static void test_damaged_state(void)
{
	static const char *const files[] = {".dataset", ".use", ".extents"};
	static const char ready[] =
		"ready/6565656565656565656565656565656565656565656565656565656565656565";
	static const char partial[] =
		"partial/0202020202020202020202020202020202020202020202020202020202020202";

	for (unsigned i = 0; i < 3; i++) {
		struct scene s;
		struct fm_cache_plan plan = scene_plan(2, MIB);
		struct fm_cache_fetch *f;
		char path[PATH_MAX];
		uint64_t id, half;

		scene_new(&s, "/var/tmp");
		scene_open(&s);
		id = scene_stage(&s, 1, MIB);
		CU_ASSERT_EQUAL(fm_cache_pin(s.c, id, 7, &s.err), 0);
		CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
		half = fm_cache_fetch_id(f);
		fm_cache_fetch_mark(f, 1);
		CU_ASSERT_EQUAL(fm_cache_fetch_save(f, &s.err), 0);
		fm_cache_fetch_close(f);
		fm_cache_close(s.c);
		snprintf(path, sizeof(path), "%s/%s/%s", s.dir, i == 2 ? partial : ready, files[i]);
		CU_ASSERT_EQUAL(truncate(path, 30), 0);
		scene_open(&s);
		CU_ASSERT_EQUAL(scene_state(&s, id), i == 0 ? FM_CACHE_ABSENT : FM_CACHE_READY);
		CU_ASSERT_EQUAL(scene_state(&s, half),
				i == 2 ? FM_CACHE_PLANNED : FM_CACHE_FETCHING);
		fm_cache_upkeep(s.c);
		CU_ASSERT_EQUAL(scene_exists(&s, ready), i != 0);
		scene_pass(&s, 60 * S); /* as asked for just now, and pinned by nobody */
		CU_ASSERT_EQUAL(fm_cache_make_room(s.c, 99 * MIB + MIB / 2, &s.err), -ENOSPC);
		scene_end(&s);
	}
}

/* Two are READY and pinned, one comes, and one is held: how much of that is lost. */
static unsigned count_lost(struct scene *s, const uint64_t ids[3])
{
	struct fm_cache_sums sums;
	struct fm_cache_info info;
	unsigned lost = 0;

	for (unsigned i = 0; i < 2; i++)
		lost += !fm_cache_look(s->c, ids[i], &info) || info.pins != 1;
	lost += scene_state(s, ids[2]) != FM_CACHE_FETCHING;
	fm_cache_sums(s->c, &sums);
	return sums.holds == 0 && lost == 0 ? 1 : lost;
}

/*
 * Goal: a block that the disk cannot read costs the dataset or the hold that it is of, until the
 * next start, and not the cache. Method: of all reads of a start one fails, each in turn; only that
 * of the head, and those of the cache's own directories, refuse the whole.
 */
static void fail_each(const char *point, unsigned least, unsigned most)
{
	const struct fm_cache_holder who = {.uid = geteuid(), .pid = getpid()};
	struct fm_cache_plan plan = scene_plan(3, MIB);
	unsigned refused_by = 0, lost = 0, n;
	struct fm_cache_fetch *f;
	uint64_t ids[3], hold;
	bool has_fired = true;
	struct scene s;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	for (unsigned i = 0; i < 2; i++) {
		ids[i] = scene_stage(&s, i + 1, MIB);
		CU_ASSERT_EQUAL(fm_cache_pin(s.c, ids[i], 7, &s.err), 0);
	}
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, ids[0], &who, &hold, &s.err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	ids[2] = fm_cache_fetch_id(f);
	fm_cache_fetch_mark(f, 1);
	CU_ASSERT_EQUAL(fm_cache_fetch_save(f, &s.err), 0);
	fm_cache_fetch_close(f);
	fm_cache_close(s.c);
	for (n = 1; has_fired && n < 100; n++) {
		int ret;

		fm_fault_arm(point, n);
		ret = fm_cache_open(&s.o, &s.c, &s.err);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		if (ret < 0) {
			refused_by++;
			continue;
		}
		CU_ASSERT_TRUE(count_lost(&s, ids) <= 1);
		lost += count_lost(&s, ids);
		fm_cache_upkeep(s.c);
		scene_reopen(&s);
		CU_ASSERT_EQUAL(count_lost(&s, ids), 0);
		fm_cache_close(s.c);
	}
	CU_ASSERT_TRUE(refused_by >= least && refused_by <= most);
	CU_ASSERT_TRUE(lost > 3);
	printf("%s: %u of %u: ", point, refused_by, n);
	remove_all(s.dir);
}

static void test_unreadable(void)
{
	if (fm_test_lacks_faults())
		return;
	fail_each("cache.read", 1, 1);
	fail_each("cache.fstat", 9, 9);	/* the directory, its lock, its head, six in it */
	fail_each("cache.readdir", 4, 20);
}

/*
 * Goal: a start takes as long with five million files as with two. Method: what is in a READY
 * dataset is watched while the cache is opened: none of its directories is.
 */
static void test_load_opens_no_data(void)
{
	static const char data[] =
		"ready/6565656565656565656565656565656565656565656565656565656565656565/set1";
	char path[PATH_MAX], events[4096];
	struct scene s;
	uint64_t id;
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), dir;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	id = scene_stage(&s, 1, 2 * FILE_LEN);
	CU_ASSERT_TRUE_FATAL(watch >= 0);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s%s", s.dir, data, i == 0 ? "" : "/sub");
		CU_ASSERT_TRUE(inotify_add_watch(watch, path, IN_OPEN | IN_ACCESS) >= 0);
	}
	scene_reopen(&s);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_READY);
	CU_ASSERT_EQUAL(read(watch, events, sizeof(events)), -1);
	CU_ASSERT_EQUAL(errno, EAGAIN);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* else it would see nothing */
	CU_ASSERT_TRUE(dir >= 0 && read(watch, events, sizeof(events)) > 0);
	close(dir);
	close(watch);
	scene_end(&s);
}

/* ---- rights ---- */

/* Whether a user may read a file: in a process of his. */
static bool may_read(const char *path, uid_t uid, gid_t gid)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (setgroups(0, NULL) < 0 || setgid(gid) < 0 || setuid(uid) < 0)
			_exit(2);
		_exit(open(path, O_RDONLY) >= 0 ? 0 : errno == EACCES ? 1 : 2);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 0;
}

static bool may_nobody(void *ctx, uid_t uid)
{
	(void)ctx;
	(void)uid;
	return false;
}

static void test_rights(void)
{
	struct scene s;
	char path[PATH_MAX];
	uint64_t id;

	if (geteuid() != 0) {
		printf("SKIP: only root can become two users\n");
		return;
	}
	scene_new(&s, "/var/tmp");
	CU_ASSERT_EQUAL(chmod(s.dir, 0711), 0);
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, id, path, sizeof(path)), 0);
	strcat(path, "/a");
	CU_ASSERT_FALSE(may_read(path, 1000, 1000));
	/* in the order of the list's entries, and not */
	CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, 3000, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, 1000, false, &s.err), 0);
	CU_ASSERT_TRUE(may_read(path, 1000, 1000) && may_read(path, 3000, 1000));
	CU_ASSERT_FALSE(may_read(path, 4000, 4000));
	CU_ASSERT_EQUAL(fm_cache_allow_only(s.c, id, may_nobody, NULL, &s.err), 0);
	CU_ASSERT_FALSE(may_read(path, 1000, 500));
	/* One by one: the first one stays. Root is allowed what nobody named him for. */
	CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, 1000, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_has_staged(s.c, id, 2000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, 2000, false, &s.err), 0);
	CU_ASSERT_TRUE(may_read(path, 1000, 1000) && may_read(path, 2000, 2000));
	CU_ASSERT_EQUAL(fm_cache_has_staged(s.c, id, 1000, &s.err), 1);
	CU_ASSERT_EQUAL(fm_cache_has_staged(s.c, id, 3000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_has_staged(s.c, id, 0, &s.err), 1);
	CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, 0, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, 1000, &s.err), 1);
	CU_ASSERT_EQUAL(fm_cache_has_staged(s.c, 4711, 0, &s.err), -ENOENT);
	scene_end(&s);
}

/* Whom rules let read by number, by group or all may, and staged nothing by that. */
static void test_readers(void)
{
	struct fm_cache_readers none = {0}, some = {.user_count = 2, .group_count = 2}, all = {0};
	struct scene s;
	char path[PATH_MAX];
	uint64_t id;

	if (geteuid() != 0) {
		printf("SKIP: only root can become two users\n");
		return;
	}
	scene_new(&s, "/var/tmp");
	CU_ASSERT_EQUAL(chmod(s.dir, 0711), 0);
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, id, path, sizeof(path)), 0);
	strcat(path, "/a");
	some.users[0] = 3000;
	some.users[1] = 1000;
	some.groups[0] = 700;
	some.groups[1] = 600;
	all.is_all = true;
	CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, 1000, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_allow_readers(s.c, id, &some, NULL, &s.err), 0);
	CU_ASSERT_TRUE(may_read(path, 3000, 1) && may_read(path, 1000, 1));
	CU_ASSERT_TRUE(may_read(path, 5000, 600) && may_read(path, 5000, 700));
	CU_ASSERT_FALSE(may_read(path, 5000, 0));
	CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, 1000, &s.err), 1);
	CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, 3000, &s.err), 0);
	/* One more who stages it takes nothing from them, nor one less. */
	CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, 2000, false, &s.err), 0);
	CU_ASSERT_TRUE(may_read(path, 3000, 1) && may_read(path, 5000, 700));
	CU_ASSERT_EQUAL(fm_cache_allow_only(s.c, id, may_nobody, NULL, &s.err), 0);
	CU_ASSERT_TRUE(may_read(path, 3000, 1) && may_read(path, 5000, 700));
	CU_ASSERT_FALSE(may_read(path, 2000, 1));
	CU_ASSERT_EQUAL(fm_cache_allow_readers(s.c, id, &all, NULL, &s.err), 0);
	CU_ASSERT_TRUE(may_read(path, 5000, 1) && may_read(path, 5000, 0));
	CU_ASSERT_EQUAL(fm_cache_allow_readers(s.c, id, &none, NULL, &s.err), 0);
	CU_ASSERT_FALSE(may_read(path, 3000, 1) || may_read(path, 5000, 700));
	scene_end(&s);
}

/* The longest list there may be is taken, and comes back. Of a list that the file system does not
 * take only those stay who staged it, and it is told once. */
static void test_readers_many(void)
{
	struct fm_cache_readers many = {.user_count = FM_CACHE_READERS_MAX / 2,
					.group_count = FM_CACHE_READERS_MAX / 2};
	struct scene s;
	uint64_t id;
	bool is_stale;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	for (unsigned i = 0; i < many.user_count; i++) {
		many.users[i] = 10000 + i;
		many.groups[i] = 20000 + i;
	}
	for (uid_t u = 1000; u < 1000 + FM_CACHE_WHO_MAX; u++)
		CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, u, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_allow_readers(s.c, id, &many, NULL, &s.err), 0);
	for (uid_t u = 1000; u < 1000 + FM_CACHE_WHO_MAX; u++)
		CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, u, &s.err), 1);
	/* The list is read, and nothing is written that is there. */
	fm_fault_arm("cache.xattr", 2);
	CU_ASSERT_EQUAL(fm_cache_allow_readers(s.c, id, &many, NULL, &s.err), 0);
	many.user_count--;
	fm_fault_arm("cache.xattr", 2);
	CU_ASSERT_EQUAL(scene_listed(&s, id, many.users[0]), SCENE_BY_RULE);
	CU_ASSERT_TRUE(fm_cache_allow_readers(s.c, id, &many, &is_stale, &s.err) < 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, "whom the rules of its source let read"));
	CU_ASSERT_FALSE(is_stale || scene_listed(&s, id, many.users[0]));
	CU_ASSERT_EQUAL(scene_listed(&s, id, 1000), SCENE_STAGED_IT);
	fm_fault_arm("cache.xattr", 2);
	CU_ASSERT_EQUAL(fm_cache_allow_readers(s.c, id, &many, NULL, &s.err), 1);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(fm_cache_allow_readers(s.c, id, &many, &is_stale, &s.err), 0);
	CU_ASSERT_FALSE(is_stale);
	CU_ASSERT_EQUAL(scene_listed(&s, id, many.users[0]), SCENE_BY_RULE);
	fm_fault_arm("cache.xattr", 1);	/* it is not even read */
	CU_ASSERT_TRUE(fm_cache_allow_readers(s.c, id, &many, &is_stale, &s.err) < 0);
	CU_ASSERT_TRUE(is_stale);
	fm_fault_arm(NULL, 0);
	scene_end(&s);
}

/* A node that names many users takes nobody's right to what he holds or pins, here or through
 * another node; users of this node find a place all the same. */
static void test_rights_and_nodes(void)
{
	const struct fm_cache_holder far = {.uid = 1001, .node = "n1"};
	struct scene s;
	uint64_t id, hold;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	id = scene_stage(&s, 1, MIB);
	for (uid_t u = 999; u < 1003; u++)
		CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, u, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, id, 1000, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_hold(s.c, id, &far, &hold, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_pin(s.c, id, 1002, &s.err), 0);
	for (uid_t u = 5000; u < 5000 + FM_CACHE_WHO_MAX; u++)
		CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, u, true, &s.err), 0);
	for (uid_t u = 1000; u < 1003; u++)
		CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, u, &s.err), 1);
	CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, 999, &s.err), 0);
	/* All places are those of users who pin it: none is for a node, one for a user here. */
	for (uid_t u = 2000; u < 2000 + FM_CACHE_WHO_MAX - 3; u++) {
		CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, u, false, &s.err), 0);
		CU_ASSERT_EQUAL(fm_cache_pin(s.c, id, u, &s.err), 0);
	}
	CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, 1001, &s.err), 1);
	CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, 6000, true, &s.err), -EBUSY);
	CU_ASSERT_TRUE(s.err.is_full && strstr(s.err.text, "hold or pin it"));
	CU_ASSERT_EQUAL(fm_cache_allow_user(s.c, id, 6000, false, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, 1001, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_is_user(s.c, id, 1000, &s.err), 1);
	scene_end(&s);
}

/* ---- versions ---- */

struct list {
	const struct fm_cache_file *at;
	size_t left;
};

static bool next_file(void *ctx, struct fm_cache_file *out)
{
	struct list *l = ctx;

	if (l->left == 0)
		return false;
	l->left--;
	*out = *l->at++;
	return true;
}

static void note_missing(void *ctx, const struct fm_cache_file *file)
{
	strcat(ctx, file->path);
	strcat(ctx, " ");
}

static int64_t mtime_at(const char *path)
{
	struct stat st;

	CU_ASSERT_EQUAL(stat(path, &st), 0);
	return (int64_t)st.st_mtim.tv_sec * (int64_t)S + st.st_mtim.tv_nsec;
}

/* Of what scene_write() writes. */
static uint32_t crc_of_file(void)
{
	static uint8_t bytes[FILE_LEN];

	memset(bytes, 'x', sizeof(bytes));
	return fm_crc32c(0, bytes, sizeof(bytes));
}

static void test_reuse(void)
{
	const uint32_t crc = crc_of_file(), other_crc = crc + 1;
	struct scene s;
	struct fm_cache_plan plan = scene_plan(2, 4 * FILE_LEN);
	struct fm_cache_file old[3], new[4];
	struct list had = {old, 3}, wanted = {new, 4};
	char missing[64] = "", path[PATH_MAX], file[PATH_MAX + 16], again[PATH_MAX + 16];
	struct fm_cache_reuse reuse = {.had = {next_file, &had},
				       .wanted = {next_file, &wanted},
				       .missing = note_missing,
				       .into = "set2",
				       .ctx = missing};
	struct fm_cache_fetch *f;
	struct fm_cache_sums sums;
	const atomic_bool stop = true;
	_Atomic uint64_t compared = 0;
	struct stat a, b;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	reuse.old = scene_stage(&s, 1, 2 * FILE_LEN);
	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, reuse.old, path, sizeof(path)), 0);
	snprintf(file, sizeof(file), "%s/a", path);
	old[0] = (struct fm_cache_file){"a", FILE_LEN, mtime_at(file), 0644, &crc, 1};
	old[1] = (struct fm_cache_file){"gone", FILE_LEN, 5, 0644, &crc, 1};
	snprintf(file, sizeof(file), "%s/sub/b", path);
	old[2] = (struct fm_cache_file){"sub/b", FILE_LEN, mtime_at(file), 0644, &crc, 1};
	new[0] = old[0];
	new[0].crcs = &other_crc; /* the same size and time, and another content */
	new[1] = old[1];
	new[1].path = "new";
	new[2] = old[2];
	new[3] = old[2];
	new[3].path = "sub/c";
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch_reuse(f, &reuse, &s.err), 0);
	CU_ASSERT_STRING_EQUAL(missing, "a new sub/c ");
	snprintf(again, sizeof(again), "%s/partial/%s/set2/sub/b", s.dir,
		 "0202020202020202020202020202020202020202020202020202020202020202");
	CU_ASSERT_TRUE(stat(file, &a) == 0 && stat(again, &b) == 0 && b.st_size == FILE_LEN);
	CU_ASSERT_EQUAL(mtime_at(again), old[2].mtime_ns);
	CU_ASSERT_EQUAL(reuse.linked_bytes > 0, a.st_ino == b.st_ino);
	CU_ASSERT_NOT_EQUAL(reuse.linked_bytes > 0, reuse.cloned_bytes > 0);
	/* Who is told to stop takes no more, and keeps what he took. */
	had = (struct list){old, 3};
	wanted = (struct list){new, 4};
	missing[0] = '\0';
	reuse.bytes_done = &compared;
	reuse.is_stopped = &stop;
	CU_ASSERT_EQUAL(fm_cache_fetch_reuse(f, &reuse, &s.err), -ECANCELED);
	CU_ASSERT_STRING_EQUAL(missing, "");
	CU_ASSERT_EQUAL(compared, 0);
	CU_ASSERT_TRUE(stat(again, &b) == 0 && b.st_size == FILE_LEN);
	reuse.is_stopped = NULL;
	/* The second time it is there already. */
	had = (struct list){old, 3};
	wanted = (struct list){new, 4};
	missing[0] = '\0';
	CU_ASSERT_EQUAL(fm_cache_fetch_reuse(f, &reuse, &s.err), 0);
	CU_ASSERT_STRING_EQUAL(missing, "a new sub/c ");
	CU_ASSERT_EQUAL(compared, FILE_LEN);
	/* What it shares is counted once, as long as the old one is here. */
	fm_cache_sums(s.c, &sums);
	CU_ASSERT_EQUAL(sums.used, 6 * FILE_LEN + 8 * 4096 - reuse.linked_bytes);
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, reuse.old, &s.err), 0);
	fm_cache_sums(s.c, &sums);
	CU_ASSERT_EQUAL(sums.used, 4 * FILE_LEN + 4 * 4096);
	CU_ASSERT_TRUE(stat(again, &b) == 0 && b.st_size == FILE_LEN);
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/* A file of the old one that was truncated is not taken. */
static void test_reuse_of_damaged(void)
{
	const uint32_t crc = crc_of_file();
	struct scene s;
	struct fm_cache_plan plan = scene_plan(2, FILE_LEN);
	struct fm_cache_file old = {"a", FILE_LEN, 0, 0644, &crc, 1};
	struct list had = {&old, 1}, wanted = {&old, 1};
	char missing[64] = "", path[PATH_MAX];
	struct fm_cache_reuse reuse = {.had = {next_file, &had},
				       .wanted = {next_file, &wanted},
				       .missing = note_missing,
				       .into = "set2",
				       .ctx = missing};
	struct fm_cache_fetch *f;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	reuse.old = scene_stage(&s, 1, 2 * FILE_LEN);
	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, reuse.old, path, sizeof(path)), 0);
	strcat(path, "/a");
	CU_ASSERT_EQUAL(truncate(path, 100), 0);
	old.mtime_ns = mtime_at(path);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch_reuse(f, &reuse, &s.err), 0);
	CU_ASSERT_STRING_EQUAL(missing, "a ");
	CU_ASSERT_EQUAL(reuse.linked_bytes + reuse.cloned_bytes, 0);
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/* What is in a directory comes before a name that only begins as the directory's does. */
static void test_reuse_order(void)
{
	const uint32_t crc = crc_of_file();
	struct scene s;
	struct fm_cache_plan plan = scene_plan(2, FILE_LEN);
	struct fm_cache_file old[2], new;
	struct list had = {old, 2}, wanted = {&new, 1};
	char missing[64] = "", path[PATH_MAX], file[PATH_MAX + 16];
	struct fm_cache_reuse reuse = {.had = {next_file, &had},
				       .wanted = {next_file, &wanted},
				       .missing = note_missing,
				       .into = "set2",
				       .ctx = missing};
	struct fm_cache_fetch *f;

	scene_new(&s, "/dev/shm");
	scene_open(&s);
	reuse.old = scene_stage(&s, 1, 2 * FILE_LEN);
	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s.c, reuse.old, path, sizeof(path)), 0);
	snprintf(file, sizeof(file), "%s/d-x", path);
	CU_ASSERT_EQUAL(chmod(path, 0700), 0);
	CU_ASSERT_EQUAL(scene_write(AT_FDCWD, file, FILE_LEN), 0);
	CU_ASSERT_EQUAL(chmod(file, 0444), 0);
	old[0] = (struct fm_cache_file){"d/y", FILE_LEN, 5, 0644, &crc, 1};
	old[1] = (struct fm_cache_file){"d-x", FILE_LEN, mtime_at(file), 0644, &crc, 1};
	new = old[1];
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch_reuse(f, &reuse, &s.err), 0);
	CU_ASSERT_STRING_EQUAL(missing, "");
	fm_cache_fetch_close(f);
	scene_end(&s);
}

/* ---- what is no cache, or not ours ---- */

/* Opens the directory a second time; the text says why that fails. */
static void refused(struct scene *s, int code, const char *text)
{
	struct fm_cache *other = NULL;

	CU_ASSERT_EQUAL(fm_cache_open(&s->o, &other, &s->err), code);
	if (!strstr(s->err.text, text))
		CU_FAIL(s->err.text);
}

static void remove_below(struct scene *s, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", s->dir, name);
	remove_all(path);
}

static void test_another_daemon(void)
{
	struct scene s;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	refused(&s, -EBUSY, "another daemon uses it");
	if (!fm_test_lacks_faults()) {
		fm_fault_arm("cache.flock", 1);
		refused(&s, -ENOLCK, "lock the file lock: No locks available");
		fm_fault_arm(NULL, 0);
	}
	scene_end(&s);
}

/*
 * Goal: what any user can lock keeps no daemon from its cache, and what it locks no other user can.
 * Method: somebody has the directory locked, which takes no right but to look at it, when a daemon
 * starts, and while it is there. The file is not as it must be; it is removed meanwhile.
 */
static void test_lock(void)
{
	char path[80];
	struct stat st;
	struct scene s;
	int fd;

	scene_new(&s, "/var/tmp");
	CU_ASSERT_EQUAL(chmod(s.dir, 0755), 0);
	fd = open(s.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(fd >= 0 && flock(fd, LOCK_SH) == 0);
	scene_open(&s);
	refused(&s, -EBUSY, "another daemon uses it");
	scene_reopen(&s);
	CU_ASSERT_EQUAL(flock(fd, LOCK_UN), 0);
	scene_reopen(&s);
	CU_ASSERT_TRUE(flock(fd, LOCK_EX | LOCK_NB) < 0);	/* as an older daemon does */
	snprintf(path, sizeof(path), "%s/lock", s.dir);
	CU_ASSERT_TRUE(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	CU_ASSERT_EQUAL(unlink(path), 0);
	remove_below(&s, "partial");
	(void)scene_stage(&s, 1, MIB);	/* which makes again what was removed */
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	refused(&s, -EBUSY, "another daemon uses it");
	fm_cache_close(s.c);
	CU_ASSERT_EQUAL(chmod(path, 0644), 0);
	refused(&s, -EPERM, "lock in it must be a file of user");
	CU_ASSERT_EQUAL(unlink(path), 0);
	CU_ASSERT_EQUAL_FATAL(symlink("/etc/passwd", path), 0);
	refused(&s, -ELOOP, "open the file lock");
	CU_ASSERT_EQUAL(unlink(path), 0);
	close(fd);
	scene_open(&s);
	scene_end(&s);
}

/* What is somebody's own is left as it was, without a lock in it, too. */
static void test_nothing_is_made(void)
{
	char path[80];
	struct scene s;

	scene_new(&s, "/var/tmp");
	snprintf(path, sizeof(path), "%s/own", s.dir);
	CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
	refused(&s, -EBADMSG, "it is not empty, and no cache");
	CU_ASSERT_FALSE(scene_exists(&s, "lock"));
	remove_all(s.dir);
}

/* What is called as the file of a cache may be somebody's own: nobody is told to remove it. */
static void test_foreign_head(void)
{
	char path[80];
	struct scene s;

	scene_new(&s, "/var/tmp");
	snprintf(path, sizeof(path), "%s/head", s.dir);
	CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
	refused(&s, -EBADMSG, "has there: name another directory");
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(symlink("/etc/passwd", path), 0);
	refused(&s, -EBADMSG, "has there: name another directory");
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(scene_write(AT_FDCWD, path, 10), 0);
	refused(&s, -EBADMSG, "has there: name another directory");
	unlink(path);
	scene_open(&s);
	scene_end(&s);
}

/* ---- what somebody removed ---- */

/* What came of a dataset goes by hand, alone or with all of the cache; all of it comes anew. */
static void removed(const char *what)
{
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	struct fm_cache_fetch *f;
	struct scene s;
	uint64_t id;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	id = fm_cache_fetch_id(f);
	fm_cache_fetch_mark(f, 2);
	CU_ASSERT_EQUAL(fm_cache_fetch_save(f, &s.err), 0);
	fm_cache_fetch_close(f);
	for (unsigned i = 0; what[i]; i++) {
		static const char *const names[] = {"partial", "head", "ready", "holds"};

		remove_below(&s, names[what[i] - '0']);
	}
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	CU_ASSERT_EQUAL(fm_cache_fetch_id(f), id);
	CU_ASSERT_EQUAL(fm_cache_fetch_missing(f), what[0] == '0' ? EXTENTS : EXTENTS - 1);
	scene_fill(f, "set1");
	CU_ASSERT_EQUAL(scene_finish(&s, f, 1), 0);
	fm_cache_fetch_close(f);
	scene_reopen(&s);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_READY);
	scene_end(&s);
}

static void test_removed(void)
{
	removed("0");
	removed("0123");
	removed("123");
}

/* The manifest of an empty file "f", alone or in a directory; fd -1: its totals alone. */
static void write_one(int fd, bool is_file, struct fm_stage_totals *totals)
{
	const struct fm_stage_entry e = {.type = FM_STAGE_FILE, .mode = 0644, .mtime_ns = 7,
					 .path = "f", .path_len = 1};
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_writer *w;

	CU_ASSERT_EQUAL_FATAL(fm_stage_writer_new(fd, is_file, &w), 0);
	CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), 0);
	CU_ASSERT_EQUAL(fm_stage_writer_end(w, version, totals), 0);
	fm_stage_writer_free(w);
}

/* A READY dataset of it with that key; its id. */
static uint64_t stage_one(struct scene *s, bool is_file, struct fm_cache_key key)
{
	struct fm_cache_plan plan = scene_plan(1, 0);
	struct fm_stage_totals totals;
	struct fm_cache_fetch *f;
	uint64_t id;
	int dir, fd;

	plan.listing = key;
	plan.name = is_file ? "f" : "one";
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s->c, &plan, &f, &s->err), 0);
	dir = fm_cache_fetch_dir(f);
	CU_ASSERT_TRUE(is_file || mkdirat(dir, "one", 0700) == 0);
	CU_ASSERT_EQUAL(scene_write(dir, is_file ? "f" : "one/f", 0), 0);
	fd = openat(dir, FM_CACHE_MANIFEST_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	write_one(fd, is_file, &totals);
	close(fd);
	CU_ASSERT_EQUAL(scene_finish(s, f, 1), 0);
	id = fm_cache_fetch_id(f);
	fm_cache_fetch_close(f);
	return id;
}

/* What caches have from before a file and a directory of just that file had two keys. */
static void test_key_of_file(void)
{
	struct fm_stage_totals totals;
	struct fm_cache_key old, new;
	struct scene s;
	uint64_t id;

	write_one(-1, true, &totals);
	CU_ASSERT_EQUAL(fm_stage_key("rosa:data/set", totals.listing, false, &old), 0);
	CU_ASSERT_EQUAL(fm_stage_key("rosa:data/set", totals.listing, true, &new), 0);
	for (int is_file = 0; is_file < 2; is_file++) {
		scene_new(&s, "/dev/shm");
		scene_open(&s);
		id = stage_one(&s, is_file, old);
		CU_ASSERT_EQUAL(fm_cache_find_listing(s.c, &old), id);
		for (int start = 0; start < 2; start++) {
			scene_reopen(&s);
			CU_ASSERT_EQUAL(fm_cache_find_listing(s.c, &old), is_file ? 0 : id);
			CU_ASSERT_EQUAL(fm_cache_find_listing(s.c, &new), is_file ? id : 0);
		}
		scene_end(&s);
	}
}

/* One that nobody goes on with takes no room any more. */
static void test_removed_partial(void)
{
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	struct fm_cache_fetch *f;
	struct scene s;
	uint64_t id;

	scene_new(&s, "/var/tmp");
	scene_open(&s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s.c, &plan, &f, &s.err), 0);
	id = fm_cache_fetch_id(f);
	fm_cache_fetch_close(f);
	remove_below(&s, "partial");
	CU_ASSERT_EQUAL(fm_cache_discard(s.c, id, &s.err), 0);
	CU_ASSERT_EQUAL(scene_state(&s, id), FM_CACHE_ABSENT);
	scene_end(&s);
}

static const struct fm_test tests[] = {
	{"what is staged is READY at once, read-only, and after a restart", test_staging},
	{"a fetch goes on from what was saved", test_goes_on},
	{"after a failed sync nothing counts", test_failed_sync},
	{"what has the longest paths there may be is READY, and can go", test_longest_path},
	{"a directory that another daemon uses, or cannot be locked, is refused, and why",
	 test_another_daemon},
	{"what any user can lock keeps nobody away", test_lock},
	{"in a directory of somebody's own nothing is made", test_nothing_is_made},
	{"a head that no cache wrote is somebody's own", test_foreign_head},
	{"what somebody removed by hand is made again, and comes anew", test_removed},
	{"what came, and somebody removed, may be discarded", test_removed_partial},
	{"a file that came under a directory's key is found by its own", test_key_of_file},
	{"room is set aside first; who lacks it hears what would make some",
	 test_room_and_eviction},
	{"eviction goes down to the low mark", test_low_mark},
	{"for what is too large nothing goes", test_too_large},
	{"the room of an interrupted fetch is wanted back, after the grace", test_abandoned},
	{"upkeep takes it first, and not just after a start", test_abandoned_and_upkeep},
	{"places: each leaves some, and one that may go goes for one more", test_places},
	{"what others write is taken into account", test_foreign_writer},
	{"what is mounted over it keeps everybody from it, and is said", test_mounted_over},
	{"its own directory mounted over it is it", test_mounted_again},
	{"what is bound there is renamed", test_bound_one_renamed},
	{"its mount is moved to above", test_mount_moved},
	{"what is mounted above its mount is noticed, too", test_mounted_above},
	{"a full disk keeps nobody from what is there, or from unpinning", test_full_disk},
	{"what a fetch has written is promised no more, and what is missing is", test_promise},
	{"of many files, as their fetch says", test_promise_of_many_files},
	{"what somebody has open or mapped stays", test_open_files},
	{"who comes while it is evicted keeps it, or finds nothing", test_races},
	{"a hold ends with its process, and survives a restart", test_holds},
	{"who ended a holder has its room at once", test_hold_ends_at_once},
	{"a hold of a process that is gone is gone", test_hold_of_one_who_is_gone},
	{"a hold for another node lasts as long as that says so, and 600 s", test_hold_for_a_node},
	{"a node ends its own holds only", test_release_for_a_node},
	{"holds for another node have a limit, and its root a quota", test_limits_of_a_node},
	{"what a user checks or has here is not free for other nodes", test_no_free_ride},
	{"nodes' holds in the name of a user are none of his here", test_number_of_a_user},
	{"a hold on other nodes is known over a restart", test_hold_afar},
	{"holds have a limit for each user and in all", test_too_many_holds},
	{"pins are charged to each who pins, and are kept", test_pins_and_quota},
	{"what a node pins for a user only it and he himself take away", test_pins_of_a_node},
	{"by name a pin is found from where it was asked for", test_find_pinned},
	{"what a node says of a user takes nothing from him here", test_quota_and_nodes},
	{"what is fetched for a user counts, and what he gives up goes", test_quota_and_fetches},
	{"but not for what is refused, nor more than has to", test_quota_takes_what_it_has_to},
	{"... nor for what the disk has no room or no inodes for", test_quota_of_a_full_disk},
	{"nor where what is open would have to go, too", test_quota_beside_what_is_open},
	{"nor for a node that says it is he", test_left_is_of_a_node},
	{"what nodes pin leaves room for others, and for this one", test_bytes_of_a_node},
	{"pins of a node have a limit, and leave this node's alone", test_number_of_a_node},
	{"a clock that is set lets nothing look old", test_clock},
	{"what fmove did not make is neither used nor removed", test_not_ours},
	{"damaged state is absent", test_damaged_state},
	{"what the disk cannot read costs no more than that", test_unreadable},
	{"a start opens nothing of what is staged", test_load_opens_no_data},
	{"who is allowed may read, and nobody else", test_rights},
	{"rules let read: users, groups, all", test_readers},
	{"as many as there may be; what the file system refuses", test_readers_many},
	{"a node that names many takes nobody's right to what he needs", test_rights_and_nodes},
	{"old and new files are matched in the order of a manifest", test_reuse_order},
	{"a new version takes what is the same", test_reuse},
	{"but nothing that is not what the manifest says", test_reuse_of_damaged},
};

FM_TEST_MAIN("cache", tests)
