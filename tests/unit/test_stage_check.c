/* SPDX-License-Identifier: MIT */
/*
 * A dataset on the disk against its manifest. links: fm_staging
 *
 * In the current directory (the build's): what is in memory keeps no times as a disk does.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/tree/reading.h"
#include "staging/build.h"
#include "staging/check.h"
#include "staging/chunk.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define CHUNK ((off_t)FM_STAGE_CHUNK)

static char top[64];
static int root, manifest;
static struct fm_err err;
static char told[512];

static void found(void *ctx, const struct fm_stage_finding *f)
{
	static const char *const words[] = {[FM_STAGE_MISSING] = "missing",
					    [FM_STAGE_EXTRA] = "extra",
					    [FM_STAGE_OTHER] = "other",
					    [FM_STAGE_DAMAGED] = "damaged",
					    [FM_STAGE_UNREADABLE] = "unreadable"};
	size_t len = strlen(told);

	(void)ctx;
	(void)snprintf(told + len, sizeof(told) - len, "%s %s %llu+%llu;", words[f->found], f->path,
		       (unsigned long long)f->offset, (unsigned long long)f->len);
}

static int check(const char *file)
{
	const struct fm_stage_check_opts opts = { .root = root, .file = file, .manifest = manifest,
						  .found = found };

	told[0] = '\0';
	return fm_stage_check(&opts, &err);
}

static void set_time(const char *name, int flags)
{
	const struct timespec times[2] = { { 1000, 0 }, { 1000, 5 } };

	CU_ASSERT_EQUAL(utimensat(root, name, times, flags), 0);
}

static void write_at(const char *name, const char *text, off_t offset)
{
	int fd = openat(root, name, O_WRONLY | O_CREAT, 0644);

	CU_ASSERT_EQUAL(pwrite(fd, text, strlen(text), offset), (ssize_t)strlen(text));
	close(fd);
	set_time(name, 0);
}

/* a, d, d/big of three chunks, d/l, h (which is a), z */
static void begin(const char *file)
{
	struct fm_stage_build_opts opts = { .file = file };
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;

	snprintf(top, sizeof(top), "test_stage_check.XXXXXX");
	if (!mkdtemp(top))
		abort();
	root = open(top, O_RDONLY | O_DIRECTORY);
	manifest = memfd_create("manifest", MFD_CLOEXEC);
	CU_ASSERT_EQUAL(mkdirat(root, "d", 0755), 0);
	write_at("a", "hello\n", 0);
	write_at("d/big", "x", 0);
	write_at("d/big", "y", 2 * CHUNK + 99);
	CU_ASSERT_EQUAL(symlinkat("../a", root, "d/l"), 0);
	set_time("d/l", AT_SYMLINK_NOFOLLOW);
	CU_ASSERT_EQUAL(linkat(root, "a", root, "h", 0), 0);
	write_at("z", "end", 0);
	opts.root = root;
	CU_ASSERT_EQUAL_FATAL(fm_stage_build(&opts, manifest, version, &t, &err), 0);
}

static void end(void)
{
	close(manifest);
	close(root);
	remove_all(top);
}

static void damage_chunks(void)
{
	write_at("d/big", "X", 0);
	write_at("d/big", "\1", 2 * CHUNK);
}

static void damage_hole(void)
{
	write_at("d/big", "\1", CHUNK + 5);
}

static void shorten(void)
{
	int fd = openat(root, "d/big", O_WRONLY);

	CU_ASSERT_EQUAL(ftruncate(fd, CHUNK), 0);
	close(fd);
	set_time("d/big", 0);
}

static void touch(void)
{
	CU_ASSERT_EQUAL(utimensat(root, "z", NULL, 0), 0);
}

static void remove_dir(void)
{
	CU_ASSERT_EQUAL(unlinkat(root, "d/big", 0), 0);
	CU_ASSERT_EQUAL(unlinkat(root, "d/l", 0), 0);
	CU_ASSERT_EQUAL(unlinkat(root, "d", AT_REMOVEDIR), 0);
}

static void remove_last(void)
{
	CU_ASSERT_EQUAL(unlinkat(root, "z", 0), 0);
}

static void add(void)
{
	write_at("0", "first", 0);
	CU_ASSERT_EQUAL(mkdirat(root, "zz", 0755), 0);
	write_at("zz/last", "last", 0);
}

static void retarget(void)
{
	CU_ASSERT_EQUAL(unlinkat(root, "d/l", 0), 0);
	CU_ASSERT_EQUAL(symlinkat("../z", root, "d/l"), 0);
	set_time("d/l", AT_SYMLINK_NOFOLLOW);
}

static void part_names(void)
{
	CU_ASSERT_EQUAL(unlinkat(root, "h", 0), 0);
	write_at("h", "hello\n", 0);
}

static void exchange_kinds(void)
{
	CU_ASSERT_EQUAL(unlinkat(root, "z", 0), 0);
	CU_ASSERT_EQUAL(symlinkat("a", root, "z"), 0);
	CU_ASSERT_EQUAL(unlinkat(root, "d/l", 0), 0);
	write_at("d/l", "../a", 0);
}

static void take_rights(void)
{
	CU_ASSERT_EQUAL(fchmodat(root, "a", 0444, 0), 0);
	CU_ASSERT_EQUAL(fchmodat(root, "d", 0555, 0), 0);
}

static void nothing(void)
{
}

static void test_findings(void)
{
	static const struct {
		void (*what)(void);
		const char *want;
	} cases[] = {
		{ nothing, "" },
		{ take_rights, "" },
		{ damage_chunks, "damaged d/big 0+4194304;damaged d/big 8388608+100;" },
		{ damage_hole, "damaged d/big 4194304+4194304;" },
		{ shorten, "other d/big 0+8388708;" },
		{ touch, "other z 0+3;" },
		{ remove_dir, "missing d 0+0;missing d/big 0+8388708;missing d/l 0+0;" },
		{ remove_last, "missing z 0+3;" },
		{ add, "extra 0 0+0;extra zz 0+0;extra zz/last 0+0;" },
		{ retarget, "other d/l 0+0;" },
		{ part_names, "other h 0+0;" },
		{ exchange_kinds, "other d/l 0+0;other z 0+3;" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(NULL);
		cases[i].what();
		CU_ASSERT_EQUAL(check(NULL), 0);
		CU_ASSERT_STRING_EQUAL(told, cases[i].want);
		end();
	}
}

static void test_one_file(void)
{
	begin("z");
	write_at("a", "beside", 0);
	CU_ASSERT_EQUAL(check("z"), 0);
	CU_ASSERT_STRING_EQUAL(told, "");
	write_at("z", "END", 0);
	CU_ASSERT_EQUAL(check("z"), 0);
	CU_ASSERT_STRING_EQUAL(told, "damaged z 0+3;");
	remove_last();
	CU_ASSERT_EQUAL(check("z"), 0);
	CU_ASSERT_STRING_EQUAL(told, "missing z 0+3;");
	end();
}

static void test_unreadable(void)
{
	if (fm_test_lacks_faults())
		return;
	begin(NULL);
	/* "a", then chunks of "big"; the second is a hole */
	fm_fault_arm("stage.read_data", 3);
	CU_ASSERT_EQUAL(check(NULL), 0);
	CU_ASSERT_STRING_EQUAL(told, "unreadable d/big 8388608+100;");
	fm_fault_arm(NULL, 0);
	end();
}

/*
 * Where O_DIRECT needs more than whole blocks, as here of the memory, a file is read through the
 * page cache.
 */
static void test_not_direct(void)
{
	uint8_t *buf = fm_stage_chunk_buf_new();
	struct fm_reading *r;
	struct fm_stage_chunk c = { .crc = 0 };

	begin(NULL);
	CU_ASSERT_EQUAL_FATAL(fm_stage_chunk_open(root, "a", &r), 0);
	CU_ASSERT_EQUAL(fm_stage_chunk_read(r, 0, buf + 1, &c), 0);
	CU_ASSERT_EQUAL(c.crc, fm_crc32c(0, "hello\n", 6));
	fm_reading_put(r);
	fm_stage_chunk_buf_free(buf);
	end();
}

static void test_stopped(void)
{
	atomic_bool is_stopped = true;
	_Atomic uint64_t done = 0;
	struct fm_stage_check_opts opts = { .found = found, .is_stopped = &is_stopped,
					    .bytes_done = &done };

	begin(NULL);
	opts.root = root;
	opts.manifest = manifest;
	CU_ASSERT_EQUAL(fm_stage_check(&opts, &err), -ECANCELED);
	is_stopped = false;
	CU_ASSERT_EQUAL(fm_stage_check(&opts, &err), 0);
	CU_ASSERT_EQUAL(done, 6 + 2 * CHUNK + 100 + 3);
	end();
}

/* Whatever fails: an error, or a finding. Nothing passes for whole that was not looked at. */
static void test_nth_failure(void)
{
	bool has_fired = true;
	unsigned n;

	if (fm_test_lacks_faults())
		return;
	begin(NULL);
	for (n = 1; has_fired; n++) {
		int ret;

		fm_fault_arm(NULL, n);
		ret = check(NULL);
		has_fired = fm_fault_fired();
		CU_ASSERT_EQUAL(ret < 0 || told[0], has_fired);
	}
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(n > 20);
	end();
}

static const struct fm_test tests[] = {
	{ "what is not as the manifest says is found, with its place", test_findings },
	{ "one file is checked alone", test_one_file },
	{ "what cannot be read is told, and the rest is looked at", test_unreadable },
	{ "what O_DIRECT does not read is read through the page cache", test_not_direct },
	{ "it stops when it is told to", test_stopped },
	{ "every call may fail", test_nth_failure },
};

FM_TEST_MAIN("stage_check", tests)
