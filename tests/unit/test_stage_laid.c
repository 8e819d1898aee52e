/* SPDX-License-Identifier: MIT */
/*
 * A dataset laid out and filled by extents is what its manifest says. links: fm_staging
 *
 * In the current directory (the build's): what is in memory keeps no times as a disk does. What is
 * about the page cache lies in /var/tmp, which is on a disk also where that directory is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "staging/at_once.h"
#include "staging/build.h"
#include "staging/check.h"
#include "staging/laid.h"
#include "tests/fm_test.h"
#include "tests/unit/cached.h"
#include "tests/unit/meet_others.h"
#include "tests/unit/remove_all.h"

static char top[64];
#define PIECE 1100000	/* bytes of a file of a pack that is not small */

static int home, from, to, manifest;
static bool is_in_memory;
static struct fm_stage_totals totals;
static struct fm_err err;
static unsigned findings;

static void found(void *ctx, const struct fm_stage_finding *f)
{
	(void)ctx;
	(void)f;
	findings++;
}

static void write_file(const char *path, const char *text, off_t at)
{
	int fd = openat(from, path, O_CREAT | O_WRONLY, 0640);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
	(void)close(fd);
}

static void fill_file(const char *path, size_t len)
{
	char *bytes = malloc(len + 1);

	CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
	memset(bytes, 'p', len);
	bytes[len] = '\0';
	write_file(path, bytes, 0);
	free(bytes);
}

static void begin_in(const char *where)
{
	struct fm_stage_build_opts opts = { .root = -1 };
	uint8_t version[FM_SHA256_LEN];

	home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(top, sizeof(top), "%sstage_laid.XXXXXX", where);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(top));
	CU_ASSERT_EQUAL_FATAL(chdir(top), 0);
	CU_ASSERT_EQUAL_FATAL(mkdir("from", 0755) | mkdir("to", 0700), 0);
	opts.root = from = open("from", O_RDONLY | O_DIRECTORY);
	to = open("to", O_RDONLY | O_DIRECTORY);
	CU_ASSERT_EQUAL_FATAL(mkdirat(from, "d", 0750) | mkdirat(from, "d/e", 0555), 0);
	write_file("d/a", "small", 0);
	write_file("d/none", "", 0);
	write_file("d/z", "another", 0);
	fill_file("d/piece", PIECE);
	CU_ASSERT_EQUAL_FATAL(mkdirat(from, "a", 0755), 0);
	for (unsigned i = 0; i < 60; i++) {
		char path[32];

		snprintf(path, sizeof(path), "a/%u", i);
		write_file(path, path, (off_t)i * 100);
	}
	/* two extents, most of it a hole */
	write_file("large", "end", 2 * (off_t)FM_STAGE_EXTENT + 5000);
	write_file("large", "begin", 70000);
	CU_ASSERT_EQUAL_FATAL(symlinkat("d/a", from, "link"), 0);
	CU_ASSERT_EQUAL_FATAL(linkat(from, "d/a", from, "hard", 0), 0);
	manifest = memfd_create("manifest", 0);
	CU_ASSERT_EQUAL_FATAL(fm_stage_build(&opts, manifest, version, &totals, &err), 0);
}

static void begin(void)
{
	begin_in("");
}

static void end(void)
{
	(void)close(from);
	(void)close(to);
	(void)close(manifest);
	CU_ASSERT_EQUAL_FATAL(fchdir(home), 0);
	(void)close(home);
	remove_all(top);
}

static size_t bytes_of(uint32_t n)
{
	struct fm_stage_extent x = { 0 };
	struct fm_stage_reader *r;

	CU_ASSERT_EQUAL_FATAL(fm_stage_reader_new(manifest, &r), 0);
	CU_ASSERT_EQUAL(fm_stage_reader_extent(r, n, &x), 0);
	fm_stage_reader_free(r);
	return (size_t)x.bytes;
}

static int move(uint32_t n, uint32_t crc)
{
	static _Alignas(FM_BLOCK) uint8_t chunk[FM_STAGE_CHUNK];
	size_t len = bytes_of(n);
	uint8_t *buf = len > 0 ? aligned_alloc(FM_BLOCK, fm_block_up(len)) : NULL;
	uint32_t said = 0;
	int ret = buf ? fm_stage_extent_read_source(manifest, from, NULL, n, buf, len, chunk,
							&said)
		      : -ENOMEM;

	if (ret == 0)
		CU_ASSERT_EQUAL(fm_crc32c(0, buf, len), crc);
	if (ret == 0)
		CU_ASSERT_EQUAL(said, crc);
	if (ret == 0)
		ret = fm_stage_extent_write(manifest, to, n, buf, len, NULL);
	free(buf);
	return ret;
}

static int move_all(void)
{
	uint32_t crc[8];
	int ret = fm_stage_extent_crcs(manifest, totals.extents, crc);

	for (uint32_t n = totals.extents; ret == 0 && n-- > 0;)
		ret = move(n, crc[n]);
	return ret;
}

static unsigned check(void)
{
	const struct fm_stage_check_opts opts = { .root = to, .manifest = manifest,
						  .found = found };

	findings = 0;
	CU_ASSERT_EQUAL(fm_stage_check(&opts, &err), 0);
	return findings;
}

/* The manifest of `from` with no CRC in it, as a listing makes it. */
static int draft_of(void)
{
	static const struct fm_stage_chunk unknown = { .crc = 0 };
	struct fm_stage_writer *w = NULL;
	struct fm_stage_reader *r = NULL;
	struct fm_stage_totals as_listed;
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_entry e;
	int draft = memfd_create("draft", 0);

	CU_ASSERT_EQUAL_FATAL(fm_stage_reader_new(manifest, &r), 0);
	CU_ASSERT_EQUAL_FATAL(fm_stage_writer_new(draft, false, &w), 0);
	while (fm_stage_reader_next(r, &e) > 0) {
		CU_ASSERT_EQUAL(fm_stage_writer_entry(w, &e), 0);
		for (uint64_t n = 0; n < fm_stage_chunks(e.size); n++)
			CU_ASSERT_EQUAL(fm_stage_writer_chunk(w, &unknown), 0);
	}
	CU_ASSERT_EQUAL(fm_stage_writer_end(w, version, &as_listed), 0);
	fm_stage_writer_free(w);
	fm_stage_reader_free(r);
	return draft;
}

static void fill_extent(int draft, uint32_t n, uint32_t wanted, bool is_written)
{
	static _Alignas(FM_BLOCK) uint8_t chunk[FM_STAGE_CHUNK];
	size_t len = bytes_of(n);
	uint8_t *buf = aligned_alloc(FM_BLOCK, fm_block_up(len + 1));
	uint32_t crc = 0;
	int ret;

	CU_ASSERT_PTR_NOT_NULL_FATAL(buf);
	ret = fm_stage_extent_read_source(draft, from, NULL, n, buf, len, chunk, &crc);
	CU_ASSERT_EQUAL_FATAL(ret, 0);
	CU_ASSERT_EQUAL(crc, wanted);
	ret = is_written ? fm_stage_extent_write(draft, to, n, buf, len, &crc)
			 : fm_stage_extent_fill(draft, n, buf, len, &crc);
	CU_ASSERT_EQUAL(ret, 0);
	CU_ASSERT_EQUAL(crc, wanted);
	free(buf);
}

/*
 * Goal: two nodes that have the same bytes have the same version, whether one made its manifest
 * from what is on its disk or from what came. Method: with its last extent the draft is the
 * manifest, byte for byte.
 */
static void fill_all(bool is_written)
{
	uint8_t version[FM_SHA256_LEN], filled[FM_SHA256_LEN];
	struct fm_stage_totals t;
	uint32_t crc[8];

	begin();
	int draft = draft_of();
	CU_ASSERT_EQUAL(fm_stage_lay_begin(draft, to), 0);
	CU_ASSERT_EQUAL_FATAL(fm_stage_extent_crcs(manifest, totals.extents, crc), 0);
	CU_ASSERT_EQUAL(fm_stage_manifest_check(manifest, version, &t), 0);
	for (uint32_t n = totals.extents; n-- > 0;) {
		CU_ASSERT_EQUAL(fm_stage_manifest_check(draft, filled, &t), 0);
		CU_ASSERT_NOT_EQUAL(memcmp(version, filled, sizeof(version)), 0);
		fill_extent(draft, n, crc[n], is_written);
	}
	CU_ASSERT_EQUAL(fm_stage_manifest_check(draft, filled, &t), 0);
	CU_ASSERT_EQUAL(memcmp(version, filled, sizeof(version)), 0);
	(void)close(draft);
	end();
}

static void test_filled(void)
{
	fill_all(false);
	fill_all(true);
}

/* An extent that came when nobody knew its size has another one, perhaps: nothing is touched. */
static void test_other_size(void)
{
	static uint8_t byte[1], chunk[FM_STAGE_CHUNK];
	uint32_t crc;
	struct stat st;

	begin();
	int draft = draft_of();
	CU_ASSERT_EQUAL(fm_stage_lay_begin(draft, to), 0);
	for (uint32_t n = 0; n < totals.extents; n++) {
		CU_ASSERT_EQUAL(fm_stage_extent_write(draft, to, n, byte, 1, &crc), -EBADMSG);
		CU_ASSERT_EQUAL(fm_stage_extent_fill(draft, n, byte, 1, &crc), -EBADMSG);
		CU_ASSERT_EQUAL(fm_stage_extent_read(draft, from, n, byte, 1), -EBADMSG);
		CU_ASSERT_EQUAL(fm_stage_extent_read_source(draft, from, NULL, n, byte, 1, chunk,
							    &crc),
				-EBADMSG);
	}
	CU_ASSERT_EQUAL(fstatat(to, "large", &st, 0), -1);
	(void)close(draft);
	end();
}

/* What cannot be written into the draft is told: without it the manifest would be a wrong one. */
static void test_not_filled(void)
{
	uint8_t *buf;
	uint32_t crc;

	if (fm_test_lacks_faults())
		return;
	begin();
	int draft = draft_of();
	CU_ASSERT_EQUAL(fm_stage_lay_begin(draft, to), 0);
	buf = calloc(1, bytes_of(0));
	CU_ASSERT_PTR_NOT_NULL_FATAL(buf);
	fm_fault_arm("stage.fill", 2);
	CU_ASSERT_EQUAL(fm_stage_extent_write(draft, to, 0, buf, bytes_of(0), &crc), -ENOSPC);
	fm_fault_arm("stage.fill", 2);
	CU_ASSERT_EQUAL(fm_stage_extent_fill(draft, 0, buf, bytes_of(0), &crc), -ENOSPC);
	fm_fault_arm(NULL, 0);
	free(buf);
	(void)close(draft);
	end();
}

static void test_whole(void)
{
	struct stat a, b;

	begin();
	CU_ASSERT_EQUAL(totals.extents, 3);	/* two of the large file, and a pack before it */
	CU_ASSERT_EQUAL(fm_stage_lay_begin(manifest, to), 0);
	CU_ASSERT_EQUAL(move_all(), 0);
	CU_ASSERT_EQUAL(fm_stage_lay_end(manifest, to), 0);
	CU_ASSERT_EQUAL(check(), 0);
	CU_ASSERT_EQUAL(fstatat(to, "large", &a, 0) | fstatat(from, "large", &b, 0), 0);
	CU_ASSERT_TRUE(a.st_blocks <= b.st_blocks + 256);	/* its hole is one */
	CU_ASSERT_EQUAL(fstatat(to, "d/e", &a, 0), 0);
	CU_ASSERT_EQUAL(a.st_mode & 07777, 0555);
	CU_ASSERT_EQUAL(fstatat(to, "d/a", &a, 0), 0);
	CU_ASSERT_EQUAL(a.st_mode & 07777, 0640);
	end();
}

/* Goal: however large a dataset is, memory does not fill with it while it comes. */
static void test_not_cached(void)
{
	begin_in("/var/tmp/");
	is_in_memory = !cached_has_none(to);
	if (!is_in_memory) {
		CU_ASSERT_EQUAL(fm_stage_lay_begin(manifest, to), 0);
		CU_ASSERT_EQUAL(move_all(), 0);
		CU_ASSERT_TRUE(cached_pages(to, "large") <= 2); /* its end, of 5,003 bytes */
		CU_ASSERT_TRUE(cached_pages(to, "d/piece") <= 1); /* its end */
		CU_ASSERT_TRUE(cached_pages(to, "a/1") > 0); /* else it would see nothing */
		CU_ASSERT_EQUAL(syncfs(to), 0);
		CU_ASSERT_EQUAL(fm_stage_lay_end(manifest, to), 0);
		CU_ASSERT_EQUAL(cached_pages(to, "a/1"), 0);
	}
	end();
}

/* A disk that fails while a file is let go of: told, and by no other name than the disk's. */
static void test_not_written(void)
{
	uint32_t crc[8];

	if (fm_test_lacks_faults())
		return;
	begin();
	CU_ASSERT_EQUAL(fm_stage_lay_begin(manifest, to), 0);
	CU_ASSERT_EQUAL_FATAL(fm_stage_extent_crcs(manifest, totals.extents, crc), 0);
	fm_fault_arm("stage.laid_write_back", 1);
	CU_ASSERT_EQUAL(move(0, crc[0]), -EIO);
	fm_fault_arm(NULL, 0);
	end();
}

/* What an earlier try left, finished or not, is gone on with; what lay in an extent is replaced. */
static void test_again(void)
{
	begin();
	CU_ASSERT_EQUAL(fm_stage_lay_begin(manifest, to), 0);
	CU_ASSERT_EQUAL(move_all(), 0);
	CU_ASSERT_EQUAL(fm_stage_lay_end(manifest, to), 0);
	CU_ASSERT_EQUAL(fm_stage_lay_begin(manifest, to), 0);
	int fd = openat(to, "large", O_WRONLY);
	CU_ASSERT_EQUAL(pwrite(fd, "wrong", 5, 200000), 5);	/* where a hole must be */
	(void)close(fd);
	CU_ASSERT_EQUAL(move_all(), 0);
	CU_ASSERT_EQUAL(fm_stage_lay_end(manifest, to), 0);
	CU_ASSERT_EQUAL(check(), 0);
	end();
}

/* A file that is not as the manifest says when all came: told, since nobody reads it again. */
static void test_not_kept(void)
{
	int fd;

	begin();
	CU_ASSERT_EQUAL(fm_stage_lay_begin(manifest, to), 0);
	CU_ASSERT_EQUAL(move_all(), 0);
	fd = openat(to, "d/a", O_WRONLY | O_APPEND);
	CU_ASSERT_EQUAL(write(fd, "more", 4), 4);
	(void)close(fd);
	CU_ASSERT_EQUAL(fm_stage_lay_end(manifest, to), -ESTALE);
	CU_ASSERT_EQUAL(move_all(), 0);
	CU_ASSERT_EQUAL(fm_stage_lay_end(manifest, to), 0);
	end();
}

static void test_changed(void)
{
	begin();
	CU_ASSERT_EQUAL(fm_stage_lay_begin(manifest, to), 0);
	write_file("d/z", "longer than it was", 0);
	CU_ASSERT_EQUAL(move_all(), -ESTALE);
	CU_ASSERT_EQUAL(unlinkat(from, "d/z", 0), 0);
	CU_ASSERT_EQUAL(move_all(), -ESTALE);
	end();
}

/* As bits, the extents of what is in `from` now that the older manifest knows. */
static uint64_t known_of_older(int older)
{
	struct fm_stage_build_opts opts = { .root = from };
	uint8_t version[FM_SHA256_LEN];
	uint32_t crc[8], right[8];
	uint64_t known = 0;
	int newer = memfd_create("newer", 0);

	CU_ASSERT_EQUAL_FATAL(fm_stage_build(&opts, newer, version, &totals, &err), 0);
	CU_ASSERT_EQUAL(fm_stage_extent_crcs_of_older(newer, older, totals.extents, crc, &known),
			0);
	CU_ASSERT_EQUAL(fm_stage_extent_crcs(newer, totals.extents, right), 0);
	known &= (UINT64_C(1) << totals.extents) - 1;
	for (uint32_t n = 0; n < totals.extents; n++)
		if (known >> n & 1)
			CU_ASSERT_EQUAL(crc[n], right[n]);
	(void)close(newer);
	return known;
}

/*
 * Goal: of a newer version the extents are known of which no file changed, wherever the cuts are.
 * Method: a pack, two extents of a large file, and a pack behind it; files come, go and change.
 */
static void test_older(void)
{
	struct timespec times[2];
	struct stat was;

	begin();
	CU_ASSERT_EQUAL(known_of_older(manifest), 7);	/* all */
	write_file("m", "new", 0);
	CU_ASSERT_EQUAL(known_of_older(manifest), 7);	/* of four */
	CU_ASSERT_EQUAL(unlinkat(from, "d/z", 0), 0);
	CU_ASSERT_EQUAL(known_of_older(manifest), 7);	/* what is left of the pack is unchanged */
	CU_ASSERT_EQUAL_FATAL(fstatat(from, "a/9", &was, 0), 0);
	times[0] = times[1] = was.st_mtim;
	write_file("a/9", "longer", was.st_size);
	CU_ASSERT_EQUAL(utimensat(from, "a/9", times, 0), 0);
	CU_ASSERT_EQUAL(known_of_older(manifest), 6);	/* another size at the same time */
	write_file("large", "begin", 70000);
	CU_ASSERT_EQUAL(known_of_older(manifest), 0);	/* another time, the same bytes */
	CU_ASSERT_EQUAL(unlinkat(from, "large", 0), 0);
	CU_ASSERT_EQUAL(known_of_older(manifest), 0);
	end();
}

/* A manifest that ends too early is told, and one without files has nothing. */
static void test_older_damaged(void)
{
	uint32_t crc[8];
	uint64_t known;
	struct stat st;

	begin();
	CU_ASSERT_EQUAL(fm_stage_extent_crcs_of_older(manifest, manifest, totals.extents - 1, crc,
						      &known),
			-EBADMSG);
	CU_ASSERT_EQUAL(fstat(manifest, &st), 0);
	int older = memfd_create("older", 0);
	for (off_t len = 0; len < st.st_size; len += 97) {
		uint8_t buf[97];
		ssize_t n = pread(manifest, buf, sizeof(buf), len);

		CU_ASSERT_TRUE(fm_stage_extent_crcs_of_older(manifest, older, totals.extents, crc,
							     &known) < 0);
		CU_ASSERT_EQUAL(write(older, buf, (size_t)n), n);
	}
	CU_ASSERT_EQUAL(fm_stage_extent_crcs_of_older(manifest, older, totals.extents, crc,
						      &known),
			0);
	(void)close(older);
	end();
}

/* Goal: the files of a pack are neither read nor written one behind the other. */
static void test_at_once(void)
{
	uint32_t crc[8];

	if (fm_test_lacks_faults())
		return;
	begin();
	CU_ASSERT_EQUAL(fm_stage_lay_begin(manifest, to), 0);
	CU_ASSERT_EQUAL_FATAL(fm_stage_extent_crcs(manifest, totals.extents, crc), 0);
	meet_others_at("stage.read_data");
	CU_ASSERT_EQUAL(move(0, crc[0]), 0);
	CU_ASSERT_TRUE(have_met_others());
	meet_others_at("stage.laid_write");
	CU_ASSERT_EQUAL(move(0, crc[0]), 0);
	CU_ASSERT_TRUE(have_met_others());
	end();
}

/*
 * Goal: without a thread, and without memory for one, the others do the work; the first one needs
 * no more than what the caller gives. Method: extent 0 is a pack, 1 of one file.
 */
static void test_one_after_the_other(void)
{
	uint32_t crc[8];

	if (fm_test_lacks_faults())
		return;
	begin();
	CU_ASSERT_EQUAL(fm_stage_lay_begin(manifest, to), 0);
	CU_ASSERT_EQUAL_FATAL(fm_stage_extent_crcs(manifest, totals.extents, crc), 0);
	for (unsigned n = 1; n < FM_STAGE_AT_ONCE; n++) {
		fm_fault_arm("stage.thread", n);
		CU_ASSERT_EQUAL(move(0, crc[0]), 0);
		CU_ASSERT_TRUE(fm_fault_fired());
	}
	/* A thread asks for memory when there is a file for it, which the others may have taken. */
	for (unsigned n = 0; n < 10000 && (n == 0 || !fm_fault_fired()); n++) {
		fm_fault_arm("stage.buf", 1);
		CU_ASSERT_EQUAL(move(0, crc[0]), 0);
	}
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm("stage.buf", 1);	/* for one file the caller's is enough */
	CU_ASSERT_EQUAL(move(1, crc[1]), 0);
	CU_ASSERT_FALSE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	end();
}

static const struct fm_test tests[] = {
	{ "by extents, in any order, it becomes what the manifest says", test_whole },
	{ "the CRCs of what came make its manifest", test_filled },
	{ "CRCs that cannot be written down are told", test_not_filled },
	{ "a buffer of another size than the extent is refused", test_other_size },
	{ "what comes does not stay in the page cache, but for small files", test_not_cached },
	{ "what cannot be written is told", test_not_written },
	{ "what is there is gone on with", test_again },
	{ "what the disk has not kept is told", test_not_kept },
	{ "a source that changed is told", test_changed },
	{ "what an older version knows of it", test_older },
	{ "a damaged manifest of an older version", test_older_damaged },
	{ "files of a pack are moved at once", test_at_once },
	{ "a pack needs neither threads nor memory", test_one_after_the_other },
};

int main(void)
{
	int ret = fm_test_main("stage_laid", tests, sizeof(tests) / sizeof(tests[0]));

	if (ret == 0 && is_in_memory)
		fm_test_skip("/var/tmp has no O_DIRECT: what stays in memory was not looked at; "
			     "the rest passed");
	return ret;
}
