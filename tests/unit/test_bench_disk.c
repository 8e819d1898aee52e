/* SPDX-License-Identifier: MIT */
/* The file that is measured with, and the loop that reads and writes it. links: fm_cli */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "client/bench/disk.h"
#include "client/bench/scratch.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define MIB   (UINT64_C(1) << 20)
#define BLOCK 65536u

static char root[200];

static void begin(void)
{
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(root, sizeof(root), "%s/fmove-scratch.XXXXXX", tmp ? tmp : "/tmp");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
}

static unsigned names_in(const char *path)
{
	DIR *dir = opendir(path);
	unsigned count = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir))
		count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	(void)closedir(dir);
	return count;
}

/* Goal: nothing is there by name while it is open, so whoever is killed leaves nothing. */
static void test_no_name(void)
{
	struct fm_scratch s;
	struct fm_err err = {0};
	struct stat st;

	begin();
	for (int has_names = 0; has_names < 2; has_names++) {
		CU_ASSERT_EQUAL_FATAL(fm_scratch_open(root, MIB, has_names, &s, &err), 0);
		CU_ASSERT_EQUAL(names_in(root), 0);
		CU_ASSERT_EQUAL(fstat(s.fd, &st), 0);
		CU_ASSERT_TRUE(st.st_nlink == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) == 0);
		fm_scratch_close(&s);
		CU_ASSERT_EQUAL(names_in(root), 0);
	}
	remove_all(root);
}

/* Goal: what one that was killed left, of a process with our number, is left alone and in nobody's
 * way. */
static void test_taken_name(void)
{
	char path[300], inner[330];
	struct fm_scratch s;
	struct fm_err err = {0};
	int fd;

	begin();
	(void)snprintf(path, sizeof(path), "%s/" FM_SCRATCH_NAME "%ld", root, (long)getpid());
	(void)snprintf(inner, sizeof(inner), "%s/data", path);
	CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
	fd = open(inner, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	(void)close(fd);
	CU_ASSERT_EQUAL_FATAL(fm_scratch_open(root, MIB, true, &s, &err), 0);
	CU_ASSERT_EQUAL(names_in(root), 1);
	fm_scratch_close(&s);
	CU_ASSERT_EQUAL(access(inner, F_OK), 0);
	CU_ASSERT_EQUAL(names_in(root), 1);
	remove_all(root);
}

/* Goal: who leaves too little on the disk is refused before anything is made. */
static void test_nearly_full(void)
{
	struct fm_scratch s;
	struct fm_err err = {0};
	struct statvfs fs;

	begin();
	CU_ASSERT_EQUAL_FATAL(statvfs(root, &fs), 0);
	CU_ASSERT_EQUAL(fm_scratch_open(root, (uint64_t)fs.f_bavail * fs.f_frsize, false, &s, &err),
			-ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "must leave"));
	CU_ASSERT_EQUAL(fm_scratch_open("/nowhere/at/all", MIB, false, &s, &err), -ENOENT);
	remove_all(root);
}

static void test_loop(void)
{
	static struct fm_histogram h;
	struct fm_bench_repeat r;
	struct fm_scratch s;
	struct fm_disk *d;
	struct fm_err err = {0};
	struct stat st;

	begin();
	CU_ASSERT_EQUAL_FATAL(fm_scratch_open(root, 4 * MIB, false, &s, &err), 0);
	for (unsigned depth = 1; depth <= 128; depth *= 16) {
		const struct fm_disk_opts o = {
			.fd = s.fd, .size = 4 * MIB, .block_bytes = BLOCK, .depth = depth};

		CU_ASSERT_EQUAL_FATAL(fm_disk_new(&o, &d, &err), 0);
		CU_ASSERT_EQUAL(fm_disk_fill(d, &err), 0);
		CU_ASSERT_EQUAL(fstat(s.fd, &st), 0);
		CU_ASSERT_EQUAL(st.st_size, 4 * MIB);
		for (int is_write = 0; is_write < 2; is_write++) {
			h = (struct fm_histogram){0};
			CU_ASSERT_EQUAL(fm_disk_run(d, is_write, 0.05, &r, &h, &err), 0);
			CU_ASSERT_TRUE(r.bytes > 0 && r.bytes % BLOCK == 0);
			CU_ASSERT_EQUAL(h.count, r.bytes / BLOCK);
			CU_ASSERT_TRUE(r.seconds > 0);
		}
		fm_disk_free(d);
	}
	fm_scratch_close(&s);
	remove_all(root);
}

/* Goal: a block that is another one's, a file that became shorter, a disk that refuses: all are
 * told. */
static void test_wrong_bytes(void)
{
	static struct fm_histogram h;
	struct fm_bench_repeat r;
	struct fm_scratch s;
	struct fm_disk *d;
	struct fm_err err = {0};
	char *block;
	void *memory = NULL;

	begin();
	CU_ASSERT_EQUAL_FATAL(posix_memalign(&memory, 4096, BLOCK), 0);
	block = memory;
	CU_ASSERT_EQUAL_FATAL(fm_scratch_open(root, MIB, false, &s, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_disk_new(&(const struct fm_disk_opts){.fd = s.fd,
								       .size = MIB,
								       .block_bytes = BLOCK,
								       .depth = 4},
					  &d, &err),
			      0);
	CU_ASSERT_EQUAL_FATAL(fm_disk_fill(d, &err), 0);
	CU_ASSERT_EQUAL(pread(s.fd, block, BLOCK, 3 * BLOCK), BLOCK);
	CU_ASSERT_EQUAL(pwrite(s.fd, block, BLOCK, 7 * BLOCK), BLOCK);
	CU_ASSERT_EQUAL(fm_disk_run(d, false, 30, &r, &h, &err), -EBADMSG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "not what was written"));
	CU_ASSERT_EQUAL(fm_disk_fill(d, &err), 0);
	CU_ASSERT_EQUAL(ftruncate(s.fd, 5 * BLOCK), 0);
	CU_ASSERT_EQUAL(fm_disk_run(d, false, 30, &r, &h, &err), -EIO);
	fm_disk_free(d);
	fm_scratch_close(&s);
	free(memory);
	remove_all(root);
}

static const struct fm_test tests[] = {
	{"a file without a name, or one that lost it", test_no_name},
	{"a name that is there is left alone", test_taken_name},
	{"a disk that is nearly full", test_nearly_full},
	{"a closed loop at several depths", test_loop},
	{"what is read is compared", test_wrong_bytes},
};
FM_TEST_MAIN("bench disk", tests)
