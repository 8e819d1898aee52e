/* SPDX-License-Identifier: MIT */
/*
 * Ranges of a file as one file: what is read at any offset, by a ring, by threads, in memory; what
 * is refused; damage. links: fm_store
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/ranges.h"
#include "mover/store/ranged_file.h"
#include "mover/tree/digest.h"
#include "tests/unit/store_scene.h"

#define SIZE (10u << 20)		/* three blocks of a digest, the last one of 2 MiB */
#define SALT 3

static unsigned char whole[SIZE];
static unsigned char want[4 * SIZE];
static struct fm_file *file;
static struct fm_attr attr;

/* Opens ranges of the file "f". */
static int open_ranges(const struct fm_range *ranges, size_t count, bool is_verified)
{
	int fd = open(at("f"), O_RDONLY);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	fm_err_clear(&err);
	return fm_ranged_file_new(fd, ranges, count, is_verified, &file, &attr, &err);
}

static void write_file(void)
{
	int fd = open(at("f"), O_CREAT | O_TRUNC | O_RDWR, 0644);

	pattern(whole, SALT, 0, SIZE);
	CU_ASSERT_EQUAL_FATAL(write(fd, whole, SIZE), SIZE);
	close(fd);
}

/* Collects what the ranges have. Returns how much that is. */
static size_t expect(const struct fm_range *ranges, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++) {
		size_t n = ranges[i].len == FM_RANGE_TO_END ? SIZE - ranges[i].offset
							    : ranges[i].len;

		memcpy(want + len, whole + ranges[i].offset, n);
		len += n;
	}
	return len;
}

/* Reads all of it in chunks, the last of them rounded up, and compares. */
static void read_all(size_t len, uint32_t chunk)
{
	for (uint64_t offset = 0; offset < len; offset += chunk) {
		size_t left = len - offset < chunk ? len - offset : chunk;

		CU_ASSERT_EQUAL(file_read(&l, file, buffer(), chunk, offset), (int64_t)left);
		CU_ASSERT_EQUAL(memcmp(buffer(), want + offset, left), 0);
	}
	CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), 0);
}

static void reads(const struct fm_range *ranges, size_t count)
{
	size_t len = expect(ranges, count);

	CU_ASSERT_EQUAL_FATAL(open_ranges(ranges, count, false), 0);
	CU_ASSERT_EQUAL(attr.size, len);
	CU_ASSERT_FALSE(attr.has_holes);
	read_all(len, CHUNK);
	read_all(len, 4096 * 3);
	file->ops->close(file);
}

/*
 * Goal:   every chunk has the bytes of the ranges, one after the other, whatever their order.
 * Method: as many small ones as there may be, long ones, neighbours, twice the same, empty ones, up
 *         to the end; on a disk by io_uring and by threads, and in memory.
 */
static void test_reads(void)
{
	static const struct fm_range mixed[] = {
		{5, 0},
		{SIZE - 1, 1},
		{0, FM_RANGE_TO_END},
		{4095, 2},
		{4097, 100000},
		{104097, 7},
		{0, 3 << 20},
		{0, 3 << 20},
		{SIZE, 0},
		{SIZE, FM_RANGE_TO_END},
		{1, CHUNK},
	};
	static struct fm_range many[FM_RANGED_MAX];

	for (size_t i = 0; i < FM_RANGED_MAX; i++)
		many[i] = (struct fm_range){(i * 7919 * 13) % (SIZE - 2000), i % 1999};
	for (size_t n = 0; n < 2 * BASES; n++) {
		begin(bases[n / 2], n % 2);
		write_file();
		reads(mixed, sizeof(mixed) / sizeof(mixed[0]));
		reads(many, FM_RANGED_MAX);
		reads(mixed, 1);
		end();
	}
}

/* Goal: what is past the end is refused, with its number. No descriptor is left. */
static void test_refused(void)
{
	static const struct {
		struct fm_range range;
		const char *says;
	} cases[] = {
		{{SIZE, 1}, "range 2 (1 bytes from 10485760 on) ends past the end"},
		{{SIZE + 1, FM_RANGE_TO_END}, "range 2 begins at byte 10485761, past the end"},
		{{SIZE + 1, 0}, "begins"},
		{{UINT64_MAX, UINT64_MAX - 1}, "begins"},
		{{1, UINT64_MAX - 1}, "ends"},
		{{0, SIZE + 1}, "which has 10485760 bytes"},
	};
	unsigned before;

	begin(ON_DISK, false);
	write_file();
	before = fds_open();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fm_range ranges[] = {{0, 1}, cases[i].range};

		CU_ASSERT_EQUAL(open_ranges(ranges, 2, false), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].says));
	}
	CU_ASSERT_EQUAL(fds_open(), before);
	end();
}

/* Goal: other ranges, or another file, are another source; the same ones are the same. */
static void test_identity(void)
{
	const struct fm_range a[] = {{0, 10}, {20, 10}}, b[] = {{0, 10}, {21, 10}};
	uint64_t dev;

	begin(ON_DISK, false);
	write_file();
	CU_ASSERT_EQUAL_FATAL(open_ranges(a, 2, false), 0);
	dev = attr.dev;
	file->ops->close(file);
	CU_ASSERT_EQUAL_FATAL(open_ranges(a, 2, false), 0);
	CU_ASSERT_EQUAL(attr.dev, dev);
	file->ops->close(file);
	CU_ASSERT_EQUAL_FATAL(open_ranges(b, 2, false), 0);
	CU_ASSERT_NOT_EQUAL(attr.dev, dev);
	file->ops->close(file);
	end();
}

/* Goal: a file that was cut or written to meanwhile gives no bytes that it does not have, and is
 * found. */
static void test_changed(void)
{
	const struct fm_range range = {SIZE - CHUNK, CHUNK};

	for (size_t n = 0; n < 2 * BASES; n++) {
		begin(bases[n / 2], n % 2);
		write_file();
		CU_ASSERT_EQUAL_FATAL(open_ranges(&range, 1, false), 0);
		CU_ASSERT_EQUAL(truncate(at("f"), SIZE - 1), 0);
		CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, 0), 0);
		CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), -ESTALE);
		file->ops->close(file);
		end();
	}
}

/* Keeps the digest of `whole` with "f". false: this file system keeps none, as memory may not:
 * hence the current directory, the build's. */
static bool keep_digest(unsigned blocks)
{
	uint64_t bytes = fm_digest_block_bytes(SIZE);
	struct fm_digest d = {
		.crc = fm_crc32c(0, whole, SIZE), .size = SIZE, .blocks = blocks};
	int fd = open(at("f"), O_RDWR), ret;
	struct stat st;

	for (unsigned b = 0; b < blocks; b++) {
		uint64_t len = SIZE - b * bytes < bytes ? SIZE - b * bytes : bytes;

		d.block[b] = fm_crc32c_part(fm_crc32c(0, whole + b * bytes, len), b * bytes, len);
	}
	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	d.mtime_ns = fm_time_ns(&st.st_mtim);
	ret = fm_digest_set(fd, &d);
	close(fd);
	return ret == 0;
}

/* Changes one byte and leaves the time as it is. */
static void damage(off_t offset)
{
	int fd = open(at("f"), O_RDWR);
	struct timespec times[2];
	unsigned char byte;
	struct stat st;

	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	CU_ASSERT_EQUAL(pread(fd, &byte, 1, offset), 1);
	byte ^= 4;
	CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, offset), 1);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	CU_ASSERT_EQUAL(futimens(fd, times), 0);
	whole[offset] = byte;
	close(fd);
}

/* Where damage is found once all of it was read `times` times; UINT64_MAX: none is. */
static uint64_t found(const struct fm_range *ranges, size_t count, bool is_verified, unsigned times)
{
	size_t len = expect(ranges, count);
	uint64_t offset, length;
	bool is_damaged;
	int ret;

	CU_ASSERT_EQUAL_FATAL(open_ranges(ranges, count, is_verified), 0);
	for (unsigned i = 0; i < times; i++)
		read_all(len, CHUNK);
	do
		ret = fm_ranged_file_check(file, &err);
	while (ret > 0);
	CU_ASSERT_EQUAL(ret, 0);
	CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), 0);
	is_damaged = fm_ranged_file_damage(file, &offset, &length);
	file->ops->close(file);
	return is_damaged ? offset : UINT64_MAX;
}

/*
 * Goal:   a block that is covered wholly is compared, by one range or neighbours, however often it
 *         was read; one covered in part only if that is asked for; others never.
 */
static void test_damage(void)
{
	enum { BLOCK = 4 << 20 };
	static const struct fm_range second[] = {{BLOCK, BLOCK}},
				     halves[] = {{BLOCK, 1000}, {BLOCK + 1000, BLOCK - 1000}},
				     apart[] = {{BLOCK + 1000, BLOCK - 1000}, {BLOCK, 1000}},
				     twice[] = {{BLOCK, BLOCK}, {0, SIZE}},
				     others[] = {{0, BLOCK}, {2 * BLOCK, FM_RANGE_TO_END}};
	const uint64_t none = UINT64_MAX;

	begin(".", false);
	write_file();
	CU_ASSERT_TRUE_FATAL(keep_digest(3));
	CU_ASSERT_EQUAL(found(twice, 2, true, 1), none);
	CU_ASSERT_EQUAL(found(apart, 2, true, 1), none);
	damage(BLOCK + 5);
	for (unsigned times = 0; times < 3; times++) {
		CU_ASSERT_EQUAL(found(second, 1, false, times), BLOCK);
		CU_ASSERT_EQUAL(found(halves, 2, false, times), BLOCK);
		CU_ASSERT_EQUAL(found(twice, 2, false, times), BLOCK);
		CU_ASSERT_EQUAL(found(apart, 2, false, times), none);
		CU_ASSERT_EQUAL(found(apart, 2, true, times), BLOCK);
		CU_ASSERT_EQUAL(found(others, 2, true, times), none);
	}
	end();

	/* Of a digest without blocks the whole is one. */
	begin(".", false);
	write_file();
	CU_ASSERT_TRUE_FATAL(keep_digest(0));
	damage(SIZE - 1);
	CU_ASSERT_EQUAL(found(second, 1, false, 1), none);
	CU_ASSERT_EQUAL(found(second, 1, true, 1), 0);
	CU_ASSERT_EQUAL(found(twice, 2, false, 1), 0);
	end();
}

/*
 * Goal:   a block of which one half was read twice and the other not at all, since it came with an
 *         earlier try, is read again: as many bytes as it has were read, and they say nothing.
 */
static void test_half_twice(void)
{
	enum { BLOCK = 4 << 20 };
	static const struct fm_range second = {BLOCK, BLOCK};
	uint64_t offset, length;

	begin(".", false);
	write_file();
	CU_ASSERT_TRUE_FATAL(keep_digest(3));
	for (int is_damaged = 0; is_damaged <= 1; is_damaged++) {
		if (is_damaged)
			damage(BLOCK + 5);
		CU_ASSERT_EQUAL_FATAL(open_ranges(&second, 1, false), 0);
		for (unsigned times = 0; times < 2; times++)
			for (uint64_t at = BLOCK / 2; at < BLOCK; at += CHUNK)
				CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, at), CHUNK);
		CU_ASSERT_EQUAL(fm_ranged_file_check(file, &err), 0);
		CU_ASSERT_EQUAL(fm_ranged_file_damage(file, &offset, &length), is_damaged);
		file->ops->close(file);
	}
	end();
}

/* Goal: who verifies blocks of a large file does so a part at a time. */
static void test_checked_in_parts(void)
{
	enum { LARGE = 200 << 20 };
	const struct fm_range range = {5, 1};
	struct fm_digest d = {.crc = 1, .size = LARGE};
	unsigned calls;
	struct stat st;
	int fd;

	begin(".", false);
	fd = open(at("f"), O_CREAT | O_RDWR, 0644);
	CU_ASSERT_EQUAL_FATAL(ftruncate(fd, LARGE), 0);
	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	d.mtime_ns = fm_time_ns(&st.st_mtim);
	CU_ASSERT_EQUAL_FATAL(fm_digest_set(fd, &d), 0);
	CU_ASSERT_EQUAL_FATAL(open_ranges(&range, 1, true), 0);
	for (calls = 0; fm_ranged_file_check(file, &err) > 0; calls++)
		;
	CU_ASSERT_EQUAL(calls, 3);	/* of 64 MiB, and the rest */
	file->ops->close(file);
	d.crc = fm_crc32c_whole(0, LARGE);
	CU_ASSERT_EQUAL(fm_digest_set(fd, &d), 0);
	CU_ASSERT_EQUAL_FATAL(open_ranges(&range, 1, true), 0);
	while (fm_ranged_file_check(file, &err) > 0)
		;
	CU_ASSERT_FALSE(fm_ranged_file_damage(file, &(uint64_t){0}, &(uint64_t){0}));
	file->ops->close(file);
	close(fd);
	end();
}

/* Goal: each fault in opening or reading is one error, and leaves nothing. */
static void test_faults(void)
{
	const struct fm_range ranges[] = {{0, 10}, {20, 10}};
	bool has_fired = true;
	unsigned n = 0;

	begin(ON_DISK, false);
	write_file();
	while (has_fired && ++n < 100) {
		unsigned before = fds_open();
		int64_t res = -1;
		int ret;

		fm_fault_arm(NULL, n);
		ret = open_ranges(ranges, 2, false);
		if (ret == 0)
			res = file_read(&l, file, buffer(), CHUNK, 0);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(ret < 0 || res != 20, has_fired);
		if (ret == 0)
			file->ops->close(file);
		CU_ASSERT_EQUAL(fds_open(), before);
	}
	CU_ASSERT_TRUE(n > 3 && n < 100);
	end();
}

static const struct fm_test tests[] = {
	{"ranges of any order, length and number are read", test_reads},
	{"what lies past the end is refused", test_refused},
	{"other ranges are another source", test_identity},
	{"a file that changes meanwhile is found", test_changed},
	{"damage in blocks that are covered is found", test_damage},
	{"a block of which a half was read twice is read again", test_half_twice},
	{"blocks are checked a part at a time", test_checked_in_parts},
	{"each fault is one error", test_faults},
};
FM_TEST_MAIN("ranged file", tests)
