/* SPDX-License-Identifier: MIT */
/*
 * links: fm_store
 *
 * test_written - a file that somebody stores to through a mapping while it is read is told from one
 * that stays as it is.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>

#include "mover/base/fault.h"
#include "mover/journal/written.h"
#include "mover/store/file_source.h"
#include "mover/store/fileio.h"
#include "mover/tree/reading.h"
#include "tests/unit/store_fixture.h"

#define PAGES 4u
#define LEN (PAGES * 4096u)

static char top[] = ON_DISK "/fm-written-XXXXXX";
static char path[64];
static time_t set_back_s;	/* the clock */
static unsigned coarse_asked;	/* how often it was looked at, as file systems do */

/* Instead of the library's. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
	long ret = syscall(SYS_clock_gettime, clock, out);

	if (clock == CLOCK_REALTIME_COARSE) {
		out->tv_sec -= set_back_s;
		coarse_asked++;
	}
	return (int)ret;
}

struct mapped {
	int fd;
	uint8_t *at;
};

/* A file whose pages are dirty, and may be stored to without a word to the file system. */
static struct mapped map_dirty(void)
{
	struct mapped m = { .fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) };

	CU_ASSERT_FATAL(m.fd >= 0 && ftruncate(m.fd, LEN) == 0);
	m.at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	CU_ASSERT_FATAL(m.at != MAP_FAILED);
	memset(m.at, 'a', LEN);
	return m;
}

static void unmap(struct mapped *m)
{
	munmap(m->at, LEN);
	close(m->fd);
}

static struct fm_reading *open_reading(void)
{
	struct fm_reading *r = NULL;

	CU_ASSERT_EQUAL_FATAL(fm_reading_open(AT_FDCWD, path, false, &r), 0);
	return r;
}

/* What a tree's small files are read with. */
static void test_small_file(void)
{
	struct mapped m = map_dirty();
	uint8_t got[LEN];

	for (unsigned page = 0; page < PAGES; page++) {
		struct fm_reading *r = open_reading();

		CU_ASSERT_EQUAL(fm_reading_read(r, got, LEN, 0), 0);
		CU_ASSERT_EQUAL(fm_reading_check(r), 0);
		m.at[page * 4096] = (uint8_t)('b' + page);
		CU_ASSERT_EQUAL(fm_reading_check(r), -ESTALE);
		fm_reading_put(r);
	}
	unmap(&m);
}

/* A single file through the page cache, as for several destinations. */
static void test_buffered_source(void)
{
	struct fm_file_source_opts opts = { .is_buffered = true };
	struct mapped m = map_dirty();
	struct fm_file *file = NULL;
	struct fm_attr attr;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(fm_file_source_new(open(path, O_RDONLY), &opts, &file, &attr, &err),
			      0);
	CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), 0);
	m.at[LEN - 1] = 'z';
	CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), -ESTALE);
	file->ops->close(file);
	unmap(&m);
}

/* Read without the page cache: what was read may be stored to no more without a word. */
static void test_direct_source(void)
{
	struct fm_file_source_opts opts = { .is_buffered = false };
	struct mapped m = map_dirty();
	struct fm_file *file = NULL;
	struct fm_attr attr;
	struct fm_err err = { 0 };
	struct lane l;

	lane_open(&l, false);
	CU_ASSERT_EQUAL_FATAL(fm_file_source_new(open(path, O_RDONLY), &opts, &file, &attr, &err),
			      0);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), LEN, 0), LEN);
	CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), 0);
	m.at[4096] = 'z';
	CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), -ESTALE);
	file->ops->close(file);
	lane_close(&l);
	unmap(&m);
}

/* Written, looked at and written again at once: the clock of the file system has ticks. */
static void test_same_tick(void)
{
	for (unsigned i = 0; i < 50; i++) {
		struct mapped m = map_dirty();
		struct stat before, now;

		CU_ASSERT_EQUAL(pwrite(m.fd, "x", 1, 0), 1);
		CU_ASSERT_EQUAL(fm_look_before_read(m.fd, true, i % 2 ? LEN : 0, &before), 0);
		CU_ASSERT_EQUAL(pwrite(m.fd, "y", 1, 0), 1);
		CU_ASSERT_EQUAL(fstat(m.fd, &now), 0);
		CU_ASSERT_TRUE(fm_is_written(m.fd, &before, &now));
		unmap(&m);
	}
}

/* ---- one long write ---- */

#define LONG_PART (1u << 20)
#define LONG_PARTS 192u
#define LONG_BYTES ((size_t)LONG_PARTS * LONG_PART)

static char long_part[LONG_PART];

/* The whole file anew, by one call. */
static void *write_long(void *arg)
{
	struct iovec parts[LONG_PARTS];
	const int *fd = arg;

	for (unsigned i = 0; i < LONG_PARTS; i++)
		parts[i] = (struct iovec){ .iov_base = long_part, .iov_len = LONG_PART };
	CU_ASSERT_EQUAL(pwritev(*fd, parts, LONG_PARTS, 0), LONG_BYTES);
	return NULL;
}

static bool has_same_mtime(int fd, const struct stat *as)
{
	struct stat now;

	CU_ASSERT_EQUAL(fstat(fd, &now), 0);
	return now.st_mtim.tv_sec == as->st_mtim.tv_sec &&
	       now.st_mtim.tv_nsec == as->st_mtim.tv_nsec;
}

/*
 * A write moved the times when it began. What is read after the look is the whole of it, whether it
 * had ended before or was waited for; the position of a file without holes stays at its start.
 */
static void try_long_write(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct stat st;
	pthread_t writer;
	char last = 0;

	CU_ASSERT_FATAL(fd >= 0);
	memset(long_part, 'a', sizeof(long_part));
	(void)write_long(&fd);
	memset(long_part, 'b', sizeof(long_part));
	CU_ASSERT_EQUAL(fm_look_before_read(fd, true, 0, &st), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&writer, NULL, write_long, &fd), 0);
	while (has_same_mtime(fd, &st))
		;
	CU_ASSERT_EQUAL(fm_look_before_read(fd, true, 0, &st), 0);
	CU_ASSERT_EQUAL(pread(fd, &last, 1, (off_t)LONG_BYTES - 1), 1);
	CU_ASSERT_EQUAL(last, 'b');
	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_CUR), 0);
	pthread_join(writer, NULL);
	close(fd);
	(void)unlink(name);
}

static void test_a_write_under_way_is_waited_for(void)
{
	char in_memory[64];

	(void)snprintf(in_memory, sizeof(in_memory), IN_MEMORY "/fm-written-%d", (int)getpid());
	try_long_write(path);
	try_long_write(in_memory);
}

/* What was written before the clock was set back has times to come: no tick of theirs is waited
 * for. */
static void test_clock_set_back(void)
{
	struct mapped m = map_dirty();
	struct stat st;

	set_back_s = 3600;
	coarse_asked = 0;
	CU_ASSERT_EQUAL(fm_look_before_read(m.fd, true, LEN, &st), 0);
	CU_ASSERT_TRUE(coarse_asked > 0 && coarse_asked < 8);
	set_back_s = 0;
	unmap(&m);
}

/* As for -ESTALE, nobody may take an error for "as it was". */
static void test_errors(void)
{
	struct mapped m = map_dirty();
	struct fm_reading *r;
	struct stat st;

	if (fm_test_lacks_faults()) {
		unmap(&m);
		return;
	}
	for (unsigned i = 1; i <= 2; i++) {
		fm_fault_arm("written.fstat", i);
		CU_ASSERT_EQUAL(fm_look_before_read(m.fd, true, LEN, &st), -EIO);
	}
	fm_fault_arm("written.sync", 1);
	CU_ASSERT_EQUAL(fm_look_before_read(m.fd, true, LEN, &st), -EIO);
	fm_fault_arm("written.sync", 1);
	CU_ASSERT_EQUAL(fm_look_before_read(m.fd, true, LEN - 1, &st), 0);
	fm_fault_arm("written.sync", 1);
	CU_ASSERT_EQUAL(fm_reading_open(AT_FDCWD, path, false, &r), -EIO);
	fm_fault_arm(NULL, 0);
	unmap(&m);
}

static void set_up(void)
{
	struct statfs fs;

	if (!mkdtemp(top) || statfs(top, &fs) < 0)
		exit(1);
	if (fm_fileio_is_memory(&fs)) {
		remove_all(top);
		fm_test_skip(ON_DISK
			     " is in memory, which keeps no time of stores through a mapping");
	}
	(void)snprintf(path, sizeof(path), "%s/f", top);
}

static void test_clean_up(void)
{
	remove_all(top);
}

static const struct fm_test tests[] = {
	{ "a store to a small file of a tree is seen", test_small_file },
	{ "a store to a file that is read through the page cache is seen", test_buffered_source },
	{ "a store to what was read without the page cache is seen", test_direct_source },
	{ "a write in the tick of the one before it is seen", test_same_tick },
	{ "a write that is under way is waited for", test_a_write_under_way_is_waited_for },
	{ "a clock that was set back costs nothing", test_clock_set_back },
	{ "errors are told", test_errors },
	{ "nothing is left", test_clean_up },
};

int main(void)
{
	set_up();
	return fm_test_main("written", tests, sizeof(tests) / sizeof(tests[0]));
}
