/* SPDX-License-Identifier: MIT */
/*
 * The manifest of a dataset: its bytes are those of fmove-manifest(5), and nothing else is taken
 * for one. links: fm_staging
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "staging/manifest_priv.h"
#include "tests/fm_test.h"

#define MIB (UINT64_C(1) << 20)
#define MANUAL FM_SOURCE_DIR "/staging/fmove-manifest.5"

static int new_file(void)
{
	int fd = memfd_create("manifest", MFD_CLOEXEC);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	return fd;
}

static struct fm_stage_entry entry(enum fm_stage_type type, const char *path, const char *target)
{
	return (struct fm_stage_entry){ .type = type, .path = path, .path_len = strlen(path),
					.target = target, .target_len = strlen(target) };
}

static struct fm_stage_entry dir(const char *path)
{
	struct fm_stage_entry e = entry(FM_STAGE_DIR, path, "");

	e.mode = 0755;
	return e;
}

static struct fm_stage_entry file(const char *path, uint64_t size)
{
	struct fm_stage_entry e = entry(FM_STAGE_FILE, path, "");

	e.mode = 0644;
	e.size = size;
	e.mtime_ns = 1000000007;
	return e;
}

/* The entry, and for a file chunks that have only zeros but for the first byte of the first one. */
static int put(struct fm_stage_writer *w, struct fm_stage_entry e)
{
	int ret = fm_stage_writer_entry(w, &e);

	for (uint64_t n = 0; ret == 0 && n < fm_stage_chunks(e.size); n++) {
		uint32_t len = fm_stage_chunk_len(e.size, n);
		unsigned granules = (len + FM_STAGE_GRANULE - 1) / FM_STAGE_GRANULE;
		struct fm_stage_chunk c = {.crc = fm_crc32c_whole(0, len),
					   .zeros = granules == 64 ? UINT64_MAX
								   : (UINT64_C(1) << granules) - 1};

		if (n == 0) {
			c.crc = 0x12345678;
			c.zeros &= ~UINT64_C(1);
		}
		ret = fm_stage_writer_chunk(w, &c);
	}
	return ret;
}

static struct fm_stage_writer *writer_of(int fd, bool is_file)
{
	struct fm_stage_writer *w;

	CU_ASSERT_EQUAL_FATAL(fm_stage_writer_new(fd, is_file, &w), 0);
	return w;
}

static struct fm_stage_totals end_of(struct fm_stage_writer *w, uint8_t version[FM_SHA256_LEN])
{
	struct fm_stage_totals t = { .entries = 0 };

	CU_ASSERT_EQUAL(fm_stage_writer_end(w, version, &t), 0);
	fm_stage_writer_free(w);
	return t;
}

/* ---- the bytes ---- */

/* The dataset of fmove-manifest(5). */
static void put_example(struct fm_stage_writer *w)
{
	const struct fm_stage_chunk hello = { .crc = fm_crc32c(0, "hello\n", 6) };
	struct fm_stage_entry e = dir("d");

	CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), 0);
	e = file("d/f", 6);
	CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), 0);
	CU_ASSERT_EQUAL(fm_stage_writer_chunk(w, &hello), 0);
	e = entry(FM_STAGE_HARD, "d-2", "d/f");
	CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), 0);
	e = entry(FM_STAGE_LINK, "l", "d/f");
	e.mtime_ns = -1;
	CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), 0);
}

static const uint8_t golden[] = {
	/* head: magic, version, kind */
	'F',
	'M',
	'O',
	'V',
	'E',
	'S',
	'E',
	'T',
	1,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	/* d: type, zero, mode 0755, lengths, size, mtime_ns, path */
	1,
	0,
	0xed,
	0x01,
	1,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	'd',
	/* d/f: type, zero, mode 0644, lengths, size 6, mtime_ns, path */
	2,
	0,
	0xa4,
	0x01,
	3,
	0,
	0,
	0,
	6,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0x07,
	0xca,
	0x9a,
	0x3b,
	0,
	0,
	0,
	0,
	'd',
	'/',
	'f',
	/* its chunk: crc, zeros */
	0xbe,
	0xd8,
	0x3d,
	0x35,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	/* d-2, the same file */
	4,
	0,
	0,
	0,
	3,
	0,
	3,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	'd',
	'-',
	'2',
	'd',
	'/',
	'f',
	/* l, a symbolic link of one nanosecond before 1970 */
	3,
	0,
	0,
	0,
	1,
	0,
	3,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0xff,
	0xff,
	0xff,
	0xff,
	0xff,
	0xff,
	0xff,
	0xff,
	'l',
	'd',
	'/',
	'f',
	/* no more entries */
	5,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	/* extent 0: the entry at 41, offset 0, 6 bytes, 1 file */
	41,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	6,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	1,
	0,
	0,
	0,
	/* tail: 4 entries, 1 file, 6 bytes, index at 162, 1 extent, zero, listing, magic */
	4,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	1,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	6,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	162,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	1,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0x2f,
	0x43,
	0xca,
	0xe2,
	0xb0,
	0xa5,
	0x54,
	0x08,
	0x78,
	0x25,
	0xe0,
	0x8e,
	0x57,
	0xc5,
	0x27,
	0xf6,
	0xfb,
	0x58,
	0xd0,
	0xef,
	0xc2,
	0x77,
	0xbb,
	0xde,
	0xeb,
	0x47,
	0xf9,
	0xdb,
	0x10,
	0xa4,
	0xf2,
	0xf5,
	'F',
	'M',
	'O',
	'V',
	'E',
	'E',
	'N',
	'D',
};
/* sha256sum(1) says the same. */
static const char golden_version[] =
	"2a475580bd4794dbd80f81b2ab2bb5d0dd091c09cb3612febfd106abda92c144";

static void test_golden(void)
{
	uint8_t buf[512], version[FM_SHA256_LEN], again[FM_SHA256_LEN];
	char hex[FM_SHA256_HEX + 1];
	struct fm_stage_totals t, read;
	int fd = new_file();
	struct fm_stage_writer *w = writer_of(fd, false);
	ssize_t n;

	put_example(w);
	t = end_of(w, version);
	n = pread(fd, buf, sizeof(buf), 0);
	CU_ASSERT_EQUAL(n, (ssize_t)sizeof(golden));
	CU_ASSERT_EQUAL(memcmp(buf, golden, sizeof(golden)), 0);
	fm_sha256_hex(version, hex);
	CU_ASSERT_STRING_EQUAL(hex, golden_version);
	CU_ASSERT_EQUAL(fm_stage_manifest_check(fd, again, &read), 0);
	CU_ASSERT_EQUAL(memcmp(version, again, sizeof(version)), 0);
	CU_ASSERT_EQUAL(memcmp(&t, &read, sizeof(t)), 0);
	close(fd);
}

/* The manual shows the same: lines of four blanks and bytes, and the version. */
static void test_manual(void)
{
	FILE *f = fopen(MANUAL, "r");
	char line[256];
	bool has_version = false;
	size_t n = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned byte;
		int len;

		line[strcspn(line, "\n")] = '\0';
		has_version = has_version || strcmp(line, golden_version) == 0;
		if (strspn(line, "0123456789abcdef ") != strlen(line) ||
		    strncmp(line, "    ", 4) != 0)
			continue;
		for (const char *at = line; sscanf(at, " %2x%n", &byte, &len) == 1; at += len)
			CU_ASSERT_TRUE(n < sizeof(golden) && golden[n++] == byte);
	}
	fclose(f);
	CU_ASSERT_EQUAL(n, sizeof(golden));
	CU_ASSERT_TRUE(has_version);
}

/* A file with these bytes. */
static int file_of(const uint8_t *bytes, size_t len)
{
	int fd = new_file();

	CU_ASSERT_EQUAL_FATAL(write(fd, bytes, len), (ssize_t)len);
	return fd;
}

static int check(const uint8_t *bytes, size_t len, char hex[FM_SHA256_HEX + 1])
{
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;
	int fd = file_of(bytes, len), ret = fm_stage_manifest_check(fd, version, &t);

	if (ret == 0)
		fm_sha256_hex(version, hex);
	close(fd);
	return ret;
}

/* What no rule contradicts (a mode, a CRC, whether it is one file) the version tells. */
static void test_damage(void)
{
	char hex[FM_SHA256_HEX + 1];
	uint8_t bytes[sizeof(golden)];
	unsigned unruled = 0;

	for (size_t i = 0; i < sizeof(golden); i++) {
		memcpy(bytes, golden, sizeof(golden));
		bytes[i] ^= 1;
		if (check(bytes, sizeof(bytes), hex) == 0) {
			unruled++;
			CU_ASSERT_STRING_NOT_EQUAL(hex, golden_version);
		}
		CU_ASSERT_EQUAL(check(golden, i, hex), -EBADMSG);
	}
	CU_ASSERT_EQUAL(unruled, 4 + 4);	/* modes of d and d/f, the CRC */
	CU_ASSERT_EQUAL(check(golden, sizeof(golden), hex), 0);
	CU_ASSERT_STRING_EQUAL(hex, golden_version);
}

/* ---- what may be in one ---- */

static void test_order(void)
{
	static const char *const sorted[] = {"a",  "a/b",  "a/b/c", "a/b-", "a/c",
					     "a ", "a-b",  "a.b",   "a0",   "ab",
					     "b",  "\x7f", "\x80",  "\xff", "\xff/a"};
	size_t count = sizeof(sorted) / sizeof(sorted[0]);

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < count; j++) {
			int want = (i > j) - (i < j);

			CU_ASSERT_EQUAL(fm_stage_path_compare(sorted[i], strlen(sorted[i]),
							      sorted[j], strlen(sorted[j])),
					want);
		}
}

/* Behind "d" and "d/f": -EINVAL, and it is not written. */
static void refuse(struct fm_stage_entry e)
{
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_writer *w = writer_of(new_file(), false);

	CU_ASSERT_EQUAL(put(w, dir("d")), 0);
	CU_ASSERT_EQUAL(put(w, file("d/f", 1)), 0);
	CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), -EINVAL);
	CU_ASSERT_EQUAL(put(w, file("e", 1)), 0);
	CU_ASSERT_EQUAL(end_of(w, version).entries, 3);
}

static void test_bad_entries(void)
{
	static const char *const paths[] = {"",	   "/",	     "/x",    "x/",    "x//y", ".",
					    "..",  "d/../x", "d/..",  "d/./x", "d",    "d/f",
					    "d/a", "c",	     "d/f/x", "x/y"};
	struct fm_stage_entry e;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		refuse(file(paths[i], 1));
	e = file("d/x", 1);
	e.mode = 04755;
	refuse(e);
	e = dir("d/x");
	e.size = 1;
	refuse(e);
	e = dir("d/x");
	e.mtime_ns = 1;
	refuse(e);
	refuse(entry(FM_STAGE_FILE, "d/x", "to"));
	refuse(entry(FM_STAGE_LINK, "d/x", ""));
	refuse(entry(FM_STAGE_HARD, "d/x", ""));
	refuse(entry(FM_STAGE_HARD, "d/x", "d/y"));
	refuse(entry(FM_STAGE_HARD, "d/x", "../d"));
	refuse(entry((enum fm_stage_type)0, "d/x", ""));
	refuse(entry((enum fm_stage_type)5, "d/x", ""));
	e = file("d/a\0b", 1);
	e.path_len = 5;
	refuse(e);
}

static void test_chunks(void)
{
	CU_ASSERT_EQUAL(fm_stage_chunks(0), 0);
	CU_ASSERT_EQUAL(fm_stage_chunks(1), 1);
	CU_ASSERT_EQUAL(fm_stage_chunks(FM_STAGE_CHUNK), 1);
	CU_ASSERT_EQUAL(fm_stage_chunks(FM_STAGE_CHUNK + 1), 2);
	CU_ASSERT_EQUAL(fm_stage_chunk_len(FM_STAGE_CHUNK + 1, 0), FM_STAGE_CHUNK);
	CU_ASSERT_EQUAL(fm_stage_chunk_len(FM_STAGE_CHUNK + 1, 1), 1);
}

/* 100,000 bytes have two granules: bits above are refused, and all zeros have one CRC only. */
static void test_bad_chunks(void)
{
	static const struct {
		uint64_t zeros;
		uint8_t crc_flip;
		int want;
	} cases[] = {
		{ 0, 0, 0 }, { 1, 1, 0 }, { 2, 1, 0 }, { 3, 0, 0 }, { 3, 1, -EBADMSG },
		{ 4, 0, -EBADMSG }, { UINT64_C(1) << 63, 0, -EBADMSG },
	};
	const struct fm_stage_entry e = file("f", 100000);
	const struct fm_stage_chunk zeros = { .crc = fm_crc32c_whole(0, 100000), .zeros = 3 };
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = new_file();
		struct fm_stage_writer *w = writer_of(fd, true);
		uint64_t mask = htole64(cases[i].zeros);
		uint8_t crc;

		CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), 0);
		CU_ASSERT_EQUAL(fm_stage_writer_chunk(w, &zeros), 0);
		(void)end_of(w, version);
		CU_ASSERT_EQUAL(pread(fd, &crc, 1, 16 + 24 + 1), 1);
		crc ^= cases[i].crc_flip;
		CU_ASSERT_EQUAL(pwrite(fd, &crc, 1, 16 + 24 + 1), 1);
		CU_ASSERT_EQUAL(pwrite(fd, &mask, 8, 16 + 24 + 1 + 4), 8);
		CU_ASSERT_EQUAL(fm_stage_manifest_check(fd, version, &t), cases[i].want);
		close(fd);
	}
}

static void test_one_file(void)
{
	uint8_t bytes[sizeof(golden)];
	struct fm_stage_reader *r;
	struct fm_stage_entry e;
	int fd;
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;
	struct fm_stage_writer *w = writer_of(new_file(), true);

	CU_ASSERT_EQUAL(put(w, dir("d")), -EINVAL);
	fm_stage_writer_free(w);
	memcpy(bytes, golden, sizeof(golden));
	bytes[10] = 1;	/* a tree that says it is one file */
	fd = file_of(bytes, sizeof(bytes));
	CU_ASSERT_EQUAL_FATAL(fm_stage_reader_new(fd, &r), 0);
	CU_ASSERT_EQUAL(fm_stage_reader_next(r, &e), -EBADMSG);
	fm_stage_reader_free(r);
	close(fd);
	w = writer_of(new_file(), true);
	CU_ASSERT_EQUAL(fm_stage_writer_end(w, version, &t), -EINVAL);
	fm_stage_writer_free(w);
	w = writer_of(new_file(), true);
	CU_ASSERT_EQUAL(put(w, file("f", 7)), 0);
	CU_ASSERT_EQUAL(put(w, file("g", 7)), -EINVAL);
	fm_stage_writer_free(w);
	w = writer_of(new_file(), true);
	CU_ASSERT_EQUAL(put(w, file("f", 7)), 0);
	t = end_of(w, version);
	CU_ASSERT_TRUE(t.is_file);
	CU_ASSERT_EQUAL(t.bytes, 7);
}

static void test_limits(void)
{
	struct fm_stage_so_far so_far = { .entries = FM_STAGE_ENTRIES_MAX - 1 };
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_entry e = file("f", FM_STAGE_BYTES_MAX + 1);
	struct fm_stage_writer *w = writer_of(-1, false);

	CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), -EFBIG);
	/* As many extents as there may be, and one more. */
	e = file("f", (uint64_t)FM_STAGE_EXTENTS_MAX * FM_STAGE_EXTENT);
	CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), 0);
	e = file("g", FM_STAGE_EXTENT);
	CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), -EFBIG);
	CU_ASSERT_EQUAL(end_of(w, version).extents, FM_STAGE_EXTENTS_MAX);
	e = file("a", 0);
	CU_ASSERT_EQUAL(fm_stage_so_far_add(&so_far, &e), 0);
	e = file("b", 0);
	CU_ASSERT_EQUAL(fm_stage_so_far_add(&so_far, &e), -EFBIG);
}

/* ---- extents ---- */

static struct fm_stage_extent cuts[8];
static unsigned cut_count;

static int keep_cut(void *ctx, const struct fm_stage_extent *e)
{
	(void)ctx;
	if (cut_count == sizeof(cuts) / sizeof(cuts[0]))
		return -EFBIG;
	cuts[cut_count++] = *e;
	return 0;
}

static void expect_cut(unsigned n, uint64_t entry_at, uint64_t offset, uint64_t bytes,
		       uint32_t files)
{
	CU_ASSERT_EQUAL(cuts[n].entry_at, entry_at);
	CU_ASSERT_EQUAL(cuts[n].offset, offset);
	CU_ASSERT_EQUAL(cuts[n].bytes, bytes);
	CU_ASSERT_EQUAL(cuts[n].files, files);
}

static void test_cut(void)
{
	static const uint64_t sizes[] = {0,	   10 * MIB, 6 * MIB,	   0, 1,
					 16 * MIB, 3,	     50 * MIB - 1, 5, 0};
	struct fm_stage_cut c = { .open.files = 0 };

	cut_count = 0;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		CU_ASSERT_EQUAL(fm_stage_cut_file(&c, i, sizes[i], keep_cut, NULL), 0);
	CU_ASSERT_EQUAL(fm_stage_cut_end(&c, keep_cut, NULL), 0);
	CU_ASSERT_EQUAL(fm_stage_cut_end(&c, keep_cut, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(cut_count, 8);
	expect_cut(0, 1, 0, 16 * MIB, 2);
	expect_cut(1, 4, 0, 1, 1);
	expect_cut(2, 5, 0, 16 * MIB, 1);
	expect_cut(3, 6, 0, 3, 1);
	expect_cut(4, 7, 0, 16 * MIB, 1);
	expect_cut(5, 7, 16 * MIB, 16 * MIB, 1);
	expect_cut(6, 7, 32 * MIB, 18 * MIB - 1, 1);
	expect_cut(7, 8, 0, 5, 1);
}

static void test_cut_many(void)
{
	struct fm_stage_cut c = { .open.files = 0 };

	cut_count = 0;
	for (uint64_t i = 0; i <= FM_STAGE_PACK_FILES; i++)
		CU_ASSERT_EQUAL(fm_stage_cut_file(&c, i, 1, keep_cut, NULL), 0);
	CU_ASSERT_EQUAL(fm_stage_cut_end(&c, keep_cut, NULL), 0);
	CU_ASSERT_EQUAL(cut_count, 2);
	expect_cut(0, 0, 0, FM_STAGE_PACK_FILES, FM_STAGE_PACK_FILES);
	expect_cut(1, FM_STAGE_PACK_FILES, 0, 1, 1);
	cut_count = 0;
	CU_ASSERT_EQUAL(fm_stage_cut_file(&c, 0, UINT64_C(1) << 55, keep_cut, NULL), -EFBIG);
}

/* Enough entries that both windows of the reader move, with a large file every hundred. */
#define MANY 5000u

static struct fm_stage_entry one_of_many(unsigned i, char path[64])
{
	(void)snprintf(path, 64, "%08u", i);
	return i % 100 == 99 ? file(path, 130 * MIB) : file(path, i % 7 * 1000);
}

static int write_many(int fd)
{
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;
	struct fm_stage_writer *w;
	char path[64];
	int ret = fm_stage_writer_new(fd, false, &w);

	if (ret < 0)
		return ret;
	for (unsigned i = 0; ret == 0 && i < MANY; i++)
		ret = put(w, one_of_many(i, path));
	if (ret == 0)
		ret = fm_stage_writer_end(w, version, &t);
	fm_stage_writer_free(w);
	return ret;
}

/* An extent is found by its number, and its files behind the place that it names. */
static void test_seek(void)
{
	struct fm_stage_reader *r;
	struct fm_stage_entry e;
	struct fm_stage_extent x;
	struct fm_stage_chunk c;
	char path[64];
	int fd = new_file(), ret;

	CU_ASSERT_EQUAL_FATAL(write_many(fd), 0);
	CU_ASSERT_EQUAL_FATAL(fm_stage_reader_new(fd, &r), 0);
	CU_ASSERT_EQUAL(fm_stage_reader_totals(r)->extents, MANY / 100 * 9);
	/* A pack and eight pieces of a large file for each hundred. */
	for (unsigned n = MANY / 100; n-- > 0;) {
		CU_ASSERT_EQUAL(fm_stage_reader_extent(r, 9 * n + 8, &x), 0);
		CU_ASSERT_EQUAL(x.offset, 112 * MIB);
		CU_ASSERT_EQUAL(x.bytes, 18 * MIB);
		fm_stage_reader_seek(r, &x);
		CU_ASSERT_EQUAL_FATAL(fm_stage_reader_next(r, &e), 1);
		(void)one_of_many(100 * n + 99, path);
		CU_ASSERT_EQUAL(memcmp(e.path, path, 8), 0);
		CU_ASSERT_EQUAL(fm_stage_reader_chunk(r, &c), 1);
		CU_ASSERT_EQUAL(c.crc, 0x12345678);
	}
	do {
		ret = fm_stage_reader_next(r, &e);
	} while (ret > 0);
	CU_ASSERT_EQUAL(ret, 0);
	fm_stage_reader_free(r);
	close(fd);
}

static void test_listing(void)
{
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals read, listed;
	struct fm_stage_writer *w = writer_of(-1, false);
	char path[64];
	int fd = new_file();

	CU_ASSERT_EQUAL(write_many(fd), 0);
	CU_ASSERT_EQUAL(fm_stage_manifest_check(fd, version, &read), 0);
	for (unsigned i = 0; i < MANY; i++) {
		struct fm_stage_entry e = one_of_many(i, path);

		e.mode = 0600;		/* is no part of it */
		CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), 0);
	}
	listed = end_of(w, version);
	CU_ASSERT_EQUAL(memcmp(&read, &listed, sizeof(read)), 0);
	close(fd);
}

/* ---- failures ---- */

static int write_and_check(void)
{
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;
	int fd = new_file(), ret = write_many(fd);

	if (ret == 0)
		ret = fm_stage_manifest_check(fd, version, &t);
	close(fd);
	return ret;
}

static void test_nth_failure(void)
{
	bool has_fired = true;
	unsigned n;

	if (fm_test_lacks_faults())
		return;
	for (n = 1; has_fired; n++) {
		int ret;

		fm_fault_arm(NULL, n);
		ret = write_and_check();
		has_fired = fm_fault_fired();
		CU_ASSERT_EQUAL(ret < 0, has_fired);
		CU_ASSERT_NOT_EQUAL(ret, -EBADMSG);	/* it is not the manifest's fault */
	}
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(n > 10);
}

static const struct fm_test tests[] = {
	{ "the bytes are golden", test_golden },
	{ "the manual shows these bytes", test_manual },
	{ "damage is told, by a rule or by the version", test_damage },
	{ "a directory comes before what is in it, and that before what is beside it", test_order },
	{ "what does not belong into a manifest is refused", test_bad_entries },
	{ "a file has a chunk for every 4 MiB", test_chunks },
	{ "chunks of zeros are what they say", test_bad_chunks },
	{ "a dataset of one file is one file", test_one_file },
	{ "what is too large is refused", test_limits },
	{ "large files are cut, small ones are packed", test_cut },
	{ "a pack has so many files at most", test_cut_many },
	{ "an extent is found by its number", test_seek },
	{ "a listing has the digest of the manifest", test_listing },
	{ "every call may fail", test_nth_failure },
};

FM_TEST_MAIN("stage_manifest", tests)
