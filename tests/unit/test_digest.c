/* SPDX-License-Identifier: MIT */
/*
 * The digest that is kept with a file. links: fm_tree
 *
 * In the current directory (the build's), since what is in memory may keep no extended attributes.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/tree/digest.h"
#include "tests/fm_test.h"

/* Version 1, 2 blocks: what is on disks out there. */
static const uint8_t golden[] = {
	/* version, blocks, zero, crc */
	0x01, 0x02, 0x00, 0x00, 0x83, 0x92, 0x06, 0xe3,
	0x88, 0x77, 0x66, 0x00, 0x00, 0x00, 0x00, 0x00,				/* size */
	0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,				/* mtime_ns */
	0x04, 0x03, 0x02, 0x01, 0x08, 0x07, 0x06, 0x05,				/* blocks */
};

static const struct fm_digest known = {.crc = 0xe3069283,
				       .size = 0x667788,
				       .mtime_ns = -2,
				       .blocks = 2,
				       .block = {0x01020304, 0x05060708}};

/* An empty file without a name, in the current directory. */
static int new_file(void)
{
	char name[] = "test_digest.XXXXXX";
	int fd = mkstemp(name);

	if (fd >= 0)
		unlink(name);
	return fd;
}

static void set_raw(int fd, const void *bytes, size_t len)
{
	CU_ASSERT_EQUAL(fsetxattr(fd, FM_DIGEST_NAME, bytes, len, 0), 0);
}

static bool is_same(const struct fm_digest *a, const struct fm_digest *b)
{
	return a->crc == b->crc && a->size == b->size && a->mtime_ns == b->mtime_ns &&
	       a->blocks == b->blocks &&
	       memcmp(a->block, b->block, a->blocks * sizeof(a->block[0])) == 0;
}

static void test_round_trip(void)
{
	struct fm_digest got, full = known;
	uint8_t bytes[sizeof(golden) + 1];
	int fd = new_file();

	CU_ASSERT_EQUAL(fm_digest_get(fd, &got), -ENODATA);
	CU_ASSERT_EQUAL(fm_digest_set(fd, &known), 0);
	CU_ASSERT_EQUAL(fgetxattr(fd, FM_DIGEST_NAME, bytes, sizeof(bytes)),
			(ssize_t)sizeof(golden));
	CU_ASSERT_EQUAL(memcmp(bytes, golden, sizeof(golden)), 0);
	CU_ASSERT_EQUAL(fm_digest_get(fd, &got), 0);
	CU_ASSERT_TRUE(is_same(&got, &known));
	/* A second one takes its place, with as many blocks as there can be, or none. */
	full.size = (uint64_t)FM_DIGEST_BLOCK_MIN * FM_DIGEST_BLOCKS_MAX - 1;
	full.blocks = FM_DIGEST_BLOCKS_MAX;
	for (uint32_t i = 0; i < FM_DIGEST_BLOCKS_MAX; i++)
		full.block[i] = i * 0x01010101;
	CU_ASSERT_EQUAL(fm_digest_set(fd, &full), 0);
	CU_ASSERT_EQUAL(fm_digest_get(fd, &got), 0);
	CU_ASSERT_TRUE(is_same(&got, &full));
	full.blocks = 0;
	CU_ASSERT_EQUAL(fm_digest_set(fd, &full), 0);
	CU_ASSERT_EQUAL(fm_digest_get(fd, &got), 0);
	CU_ASSERT_TRUE(is_same(&got, &full));
	close(fd);
}

/* Whatever stands there is told apart from a digest, and leaves the caller's struct alone. */
static void expect_bad(int fd, const void *bytes, size_t len)
{
	struct fm_digest got = known;

	set_raw(fd, bytes, len);
	CU_ASSERT_EQUAL(fm_digest_get(fd, &got), -EBADMSG);
	CU_ASSERT_TRUE(is_same(&got, &known));
}

static void test_not_ours(void)
{
	/* version, blocks, zeros, size: not that of so many blocks, or of no file */
	static const size_t heads[] = { 0, 1, 2, 3, 11, 15 };
	uint8_t bytes[24 + 4 * FM_DIGEST_BLOCKS_MAX + 4] = { 0 };
	int fd = new_file();

	for (size_t len = 0; len < sizeof(golden); len++)
		expect_bad(fd, golden, len);
	memcpy(bytes, golden, sizeof(golden));
	expect_bad(fd, bytes, sizeof(golden) + 1);
	expect_bad(fd, bytes, sizeof(golden) + 4);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		memcpy(bytes, golden, sizeof(golden));
		bytes[heads[i]] ^= 1;
		expect_bad(fd, bytes, sizeof(golden));
	}
	/* Its length is right, but there are never so many blocks. */
	memcpy(bytes, golden, sizeof(golden));
	bytes[1] = FM_DIGEST_BLOCKS_MAX + 1;
	expect_bad(fd, bytes, sizeof(bytes));
	/* No blocks, and more bytes than a file has. */
	memcpy(bytes, golden, sizeof(golden));
	bytes[1] = 0;
	bytes[15] = 0x80;
	expect_bad(fd, bytes, 24);
	/* What comes after us may mean anything. */
	bytes[0] = 2;
	set_raw(fd, bytes, sizeof(bytes));
	CU_ASSERT_EQUAL(fm_digest_get(fd, &(struct fm_digest){ 0 }), -EOPNOTSUPP);
	close(fd);
}

static void test_blocks(void)
{
	const uint64_t full = (uint64_t)FM_DIGEST_BLOCK_MIN * FM_DIGEST_BLOCKS_MAX;
	const uint64_t sizes[] = { 0,	     1,		FM_DIGEST_BLOCK_MIN,  full - 1, full,
				   full + 1, INT64_MAX, UINT64_C(500) << 30, UINT64_MAX };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t bytes = fm_digest_block_bytes(sizes[i]);

		CU_ASSERT_TRUE(bytes >= FM_DIGEST_BLOCK_MIN && (bytes & (bytes - 1)) == 0);
		CU_ASSERT_TRUE(sizes[i] / bytes + (sizes[i] % bytes != 0) <= FM_DIGEST_BLOCKS_MAX);
	}
	CU_ASSERT_EQUAL(fm_digest_block_bytes(FM_DIGEST_BLOCK_MIN), FM_DIGEST_BLOCK_MIN);
}

static void test_errors(void)
{
	struct fm_digest got;
	/* a file system without extended attributes */
	int fd = open("/proc/self/status", O_RDONLY);

	CU_ASSERT_EQUAL(fm_digest_get(fd, &got), -EOPNOTSUPP);
	CU_ASSERT_TRUE(fm_digest_set(fd, &known) < 0);
	close(fd);
	CU_ASSERT_EQUAL(fm_digest_get(fd, &got), -EBADF);
	CU_ASSERT_EQUAL(fm_digest_set(fd, &known), -EBADF);
#ifdef FM_FAULTS
	fd = new_file();
	fm_fault_arm("digest.set", 1);
	CU_ASSERT_EQUAL(fm_digest_set(fd, &known), -ENOSPC);
	CU_ASSERT_EQUAL(fm_digest_get(fd, &got), -ENODATA);
	fm_fault_arm("digest.get", 1);
	CU_ASSERT_EQUAL(fm_digest_get(fd, &got), -EIO);
	fm_fault_arm(NULL, 0);
	close(fd);
#endif
}

static const struct fm_test tests[] = {
	{ "what is set is got again, and is byte by byte what it was always", test_round_trip },
	{ "what is not exactly a digest is none", test_not_ours },
	{ "a file of any size has no more blocks than there may be", test_blocks },
	{ "errors are told", test_errors },
};

int main(void)
{
	int fd = new_file();
	bool has_xattrs = fd >= 0 && fsetxattr(fd, "user.fmove.test", "", 0, 0) == 0;

	if (fd >= 0)
		close(fd);
	if (!has_xattrs)
		fm_test_skip(
			"the file system of the current directory keeps no extended attributes");
	return fm_test_main("digest", tests, sizeof(tests) / sizeof(tests[0]));
}
