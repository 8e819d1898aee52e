/* SPDX-License-Identifier: MIT */
/*
 * A chunk that is written again: it is right and sealed as before, or the file is as it was.
 * links: fm_staging
 */
#include "staging/mend.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define LEN 300u
#define AT  4096u

static char top[64];
static int root, from;
static char right[LEN], wrong[LEN], is[LEN];
static struct fm_stage_bad bad;
static struct stat before;

static void write_wrong(void)
{
	const struct timespec times[2] = { { 1000, 0 }, { 1000, 5 } };
	int fd;

	(void)unlinkat(root, "f", 0);
	fd = openat(root, "f", O_WRONLY | O_CREAT, 0644);
	CU_ASSERT_EQUAL(pwrite(fd, wrong, LEN, AT), (ssize_t)LEN);
	CU_ASSERT_EQUAL(fchmod(fd, 0444), 0);
	CU_ASSERT_EQUAL(futimens(fd, times), 0);
	CU_ASSERT_EQUAL(fstat(fd, &before), 0);
	close(fd);
}

static void begin(void)
{
	snprintf(top, sizeof(top), "test_stage_mend.XXXXXX");
	if (!mkdtemp(top))
		abort();
	root = open(top, O_RDONLY | O_DIRECTORY);
	from = memfd_create("from", MFD_CLOEXEC);
	memset(right, 'r', LEN);
	memset(wrong, 'w', LEN);
	CU_ASSERT_EQUAL(pwrite(from, right, LEN, AT), (ssize_t)LEN);
	bad = (struct fm_stage_bad){ .offset = AT, .len = LEN, .crc = fm_crc32c(0, right, LEN) };
	write_wrong();
}

static void end(void)
{
	close(from);
	close(root);
	remove_all(top);
}

/* Its bytes into `is`; nobody may write to it, and its time is what it was. */
static void look(void)
{
	int fd = openat(root, "f", O_RDONLY);
	struct stat st;

	CU_ASSERT_EQUAL(pread(fd, is, LEN, AT), (ssize_t)LEN);
	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	close(fd);
	CU_ASSERT_EQUAL(st.st_mode, before.st_mode);
	CU_ASSERT_EQUAL(st.st_size, before.st_size);
	CU_ASSERT_EQUAL(st.st_mtim.tv_sec, before.st_mtim.tv_sec);
	CU_ASSERT_EQUAL(st.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

static void test_mended(void)
{
	begin();
	CU_ASSERT_EQUAL(fm_stage_mend(root, "f", from, bad.offset, &bad), 0);
	look();
	CU_ASSERT_EQUAL(memcmp(is, right, LEN), 0);
	end();
}

static void test_refused(void)
{
	begin();
	bad.crc++;
	CU_ASSERT_EQUAL(fm_stage_mend(root, "f", from, bad.offset, &bad), -EBADMSG);
	bad.crc--;
	CU_ASSERT_EQUAL(ftruncate(from, AT + 1), 0);
	CU_ASSERT_EQUAL(fm_stage_mend(root, "f", from, bad.offset, &bad), -EBADMSG);
	look();
	CU_ASSERT_EQUAL(memcmp(is, wrong, LEN), 0);
	CU_ASSERT_EQUAL(pwrite(from, right, LEN, AT), (ssize_t)LEN);
	CU_ASSERT_EQUAL(fm_stage_mend(root, "none", from, bad.offset, &bad), -ENOENT);
	CU_ASSERT_EQUAL(symlinkat("f", root, "link"), 0);
	CU_ASSERT_TRUE(fm_stage_mend(root, "link", from, bad.offset, &bad) < 0);
	CU_ASSERT_TRUE(fm_stage_mend(root, "../f", from, bad.offset, &bad) < 0);
	look();
	CU_ASSERT_EQUAL(memcmp(is, wrong, LEN), 0);
	end();
}

/* It is shorter than it should be: it is not made longer. */
static void test_short(void)
{
	int fd;

	begin();
	CU_ASSERT_EQUAL(fchmodat(root, "f", 0644, 0), 0);
	fd = openat(root, "f", O_WRONLY);
	CU_ASSERT_EQUAL(ftruncate(fd, AT + 1), 0);
	close(fd);
	CU_ASSERT_EQUAL(fm_stage_mend(root, "f", from, bad.offset, &bad), -ESTALE);
	end();
}

/* Each call fails once. Whatever failed, it is sealed, and can be mended. */
static void test_faults(void)
{
	bool is_fired = true;
	struct stat st;

	if (fm_test_lacks_faults())
		return;
	begin();
	for (unsigned n = 1; is_fired; n++) {
		int ret;

		write_wrong();
		fm_fault_arm(NULL, n);
		ret = fm_stage_mend(root, "f", from, bad.offset, &bad);
		is_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(ret < 0, is_fired);
		CU_ASSERT_EQUAL(fstatat(root, "f", &st, 0), 0);
		CU_ASSERT_EQUAL(st.st_mode, before.st_mode);
		CU_ASSERT_EQUAL(fm_stage_mend(root, "f", from, bad.offset, &bad), 0);
		CU_ASSERT_TRUE(n < 50);
	}
	look();
	CU_ASSERT_EQUAL(memcmp(is, right, LEN), 0);
	end();
}

static const struct fm_test tests[] = {
	{ "a damaged chunk is right again, and sealed as before", test_mended },
	{ "other bytes are not taken, nor another file", test_refused },
	{ "a file that is too short stays so", test_short },
	{ "every call may fail", test_faults },
};

FM_TEST_MAIN("stage_mend", tests)
