/* SPDX-License-Identifier: MIT */
/*
 * From a directory to its listing and its manifest. links: fm_staging
 *
 * In the current directory (the build's): what is in memory keeps no holes and no attributes as a
 * disk does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/tree/digest.h"
#include "mover/tree/tree.h"
#include "staging/build.h"
#include "staging/chunk.h"
#include "staging/walk.h"
#include "tests/fm_test.h"
#include "tests/unit/deep_tree.h"
#include "tests/unit/meet_others.h"
#include "tests/unit/remove_all.h"

static char top[64];
static int root;
static struct fm_err err;

static void begin(void)
{
	snprintf(top, sizeof(top), "test_stage_build.XXXXXX");
	if (!mkdtemp(top))
		abort();
	root = open(top, O_RDONLY | O_DIRECTORY);
}

static void end(void)
{
	close(root);
	remove_all(top);
}

static void write_file(const char *name, const void *bytes, size_t len)
{
	const struct timespec times[2] = { { 1000, 0 }, { 1000, 5 } };
	int fd = openat(root, name, O_RDWR | O_CREAT | O_TRUNC, 0640);

	CU_ASSERT_EQUAL_FATAL(pwrite(fd, bytes, len, 0), (ssize_t)len);
	CU_ASSERT_EQUAL(futimens(fd, times), 0);
	close(fd);
}

/* Some of everything. */
static void make_tree(void)
{
	CU_ASSERT_EQUAL(mkdirat(root, "b", 0700), 0);
	CU_ASSERT_EQUAL(mkdirat(root, "b/empty", 01755), 0);
	write_file("b/x", "hello\n", 6);
	write_file("b-1", "", 0);
	CU_ASSERT_EQUAL(linkat(root, "b/x", root, "c", 0), 0);
	CU_ASSERT_EQUAL(symlinkat("/etc", root, "a"), 0);
	write_file(".fmove.0123456789abcdef.part", "is not met", 10);
}

static int build(const char *file, int fd, struct fm_stage_totals *t)
{
	const struct fm_stage_build_opts opts = { .root = root, .file = file };
	uint8_t version[FM_SHA256_LEN];

	return fm_stage_build(&opts, fd, version, t, &err);
}

/* ---- walking ---- */

/* The paths of all that is met, one behind the other. */
static int walk_some(size_t names_max, char *out, size_t cap)
{
	struct fm_stage_walk *w;
	struct fm_stage_met m;
	int ret = fm_stage_walk_new(root, names_max, &w);
	size_t len = 0;

	out[0] = '\0';
	while (ret >= 0 && (ret = fm_stage_walk_next(w, &m, &err)) > 0 && len < cap)
		len += (size_t)snprintf(out + len, cap - len, "%s ", m.path);
	if (ret != -ENOMEM)
		fm_stage_walk_free(w);
	return ret;
}

static int walk(char *out, size_t cap)
{
	return walk_some(FM_STAGE_NAMES_MAX, out, cap);
}

static void test_walk(void)
{
	char met[256];

	begin();
	CU_ASSERT_EQUAL(walk(met, sizeof(met)), 0);
	CU_ASSERT_STRING_EQUAL(met, "");
	make_tree();
	CU_ASSERT_EQUAL(walk(met, sizeof(met)), 0);
	CU_ASSERT_STRING_EQUAL(met, "a b b/empty b/x b-1 c ");
	end();
}

static int build_apart(struct fm_stage_totals *t)
{
	int fd = memfd_create("apart", MFD_CLOEXEC), ret = build(NULL, fd, t);

	close(fd);
	return ret;
}

/*
 * More directories than are open at once, with others beside the way that are met on the way back.
 */
static void test_deep(void)
{
	struct fm_stage_totals t;
	int fd;

	begin();
	CU_ASSERT_EQUAL(mkdirat(root, "deep", 0755), 0);
	fd = deep_make(root, "deep", 300);
	close(openat(fd, "z", O_CREAT | O_WRONLY, 0600));
	close(fd);
	CU_ASSERT_EQUAL(build_apart(&t), 0);
	CU_ASSERT_EQUAL(t.entries, 1 + 300 + 3 + 1);
	end();
}

static void test_too_deep(void)
{
	struct fm_stage_totals t;
	int fd, next;

	begin();
	fd = dup(root);
	for (unsigned i = 0; i <= FM_TREE_DEPTH_MAX; i++) {
		CU_ASSERT_EQUAL_FATAL(mkdirat(fd, "d", 0755), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
		close(fd);
		fd = next;
	}
	close(fd);
	CU_ASSERT_EQUAL(build_apart(&t), -ELOOP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "more than 1024 directories"));
	end();
	begin();
	CU_ASSERT_EQUAL(mkdirat(root, "d", 0755), 0);
	close(deep_make(root, "d", 600));
	CU_ASSERT_EQUAL(build_apart(&t), -ENAMETOOLONG);
	end();
}

/* "a", "b", "b-1", "c" with their ends, then those of "b" beside them; nothing of "b" behind it. */
static void test_names_max(void)
{
	char met[256];

	begin();
	make_tree();
	CU_ASSERT_EQUAL(walk_some(10 + 8, met, sizeof(met)), 0);
	CU_ASSERT_EQUAL(walk_some(10 + 7, met, sizeof(met)), -E2BIG);
	CU_ASSERT_STRING_EQUAL(met, "a b ");
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the names in \"b\""));
	CU_ASSERT_EQUAL(walk_some(9, met, sizeof(met)), -E2BIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the names in \".\""));
	end();
}

static void test_special(void)
{
	struct fm_stage_totals t;
	char met[64];
	int fd;

	begin();
	CU_ASSERT_EQUAL(mkfifoat(root, "pipe", 0600), 0);
	CU_ASSERT_EQUAL(walk(met, sizeof(met)), 0);
	CU_ASSERT_STRING_EQUAL(met, "pipe ");
	fd = open(top, O_TMPFILE | O_RDWR, 0600);
	CU_ASSERT_EQUAL(build(NULL, fd, &t), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"pipe\" is a special file"));
	close(fd);
	end();
}

/* ---- the manifest ---- */

static struct fm_stage_reader *reader_of(int fd)
{
	struct fm_stage_reader *r;

	CU_ASSERT_EQUAL_FATAL(fm_stage_reader_new(fd, &r), 0);
	return r;
}

static void expect(struct fm_stage_reader *r, enum fm_stage_type type, const char *path,
		   unsigned mode, uint64_t size, const char *target)
{
	struct fm_stage_entry e;

	CU_ASSERT_EQUAL_FATAL(fm_stage_reader_next(r, &e), 1);
	CU_ASSERT_EQUAL(e.type, type);
	CU_ASSERT_EQUAL(e.mode, mode);
	CU_ASSERT_EQUAL(e.size, size);
	CU_ASSERT_TRUE(e.path_len == strlen(path) && memcmp(e.path, path, e.path_len) == 0);
	CU_ASSERT_TRUE(e.target_len == strlen(target) &&
		       memcmp(e.target, target, e.target_len) == 0);
	if (type == FM_STAGE_FILE)
		CU_ASSERT_EQUAL(e.mtime_ns, INT64_C(1000000000005));
}

static void test_build(void)
{
	struct fm_stage_totals t, again;
	struct fm_stage_reader *r;
	struct fm_stage_chunk c;
	struct fm_stage_entry e;
	int fd = memfd_create("manifest", MFD_CLOEXEC);

	begin();
	make_tree();
	CU_ASSERT_EQUAL_FATAL(build(NULL, fd, &t), 0);
	CU_ASSERT_EQUAL(build_apart(&again), 0);
	CU_ASSERT_EQUAL(memcmp(&t, &again, sizeof(t)), 0);
	r = reader_of(fd);
	expect(r, FM_STAGE_LINK, "a", 0, 0, "/etc");
	expect(r, FM_STAGE_DIR, "b", 0700, 0, "");
	expect(r, FM_STAGE_DIR, "b/empty", 01755, 0, "");
	expect(r, FM_STAGE_FILE, "b/x", 0640, 6, "");
	CU_ASSERT_EQUAL(fm_stage_reader_chunk(r, &c), 1);
	CU_ASSERT_EQUAL(c.crc, fm_crc32c(0, "hello\n", 6));
	expect(r, FM_STAGE_FILE, "b-1", 0640, 0, "");
	expect(r, FM_STAGE_HARD, "c", 0, 0, "b/x");
	CU_ASSERT_EQUAL(fm_stage_reader_next(r, &e), 0);
	fm_stage_reader_free(r);
	close(fd);
	end();
}

/* Only that file, under its name, whatever is beside it, and however many names it has. */
static void test_one_file(void)
{
	struct fm_stage_totals t;
	struct fm_stage_reader *r;
	int fd = memfd_create("manifest", MFD_CLOEXEC);

	begin();
	make_tree();
	CU_ASSERT_EQUAL_FATAL(build("c", fd, &t), 0);
	CU_ASSERT_TRUE(t.is_file);
	CU_ASSERT_EQUAL(t.entries, 1);
	r = reader_of(fd);
	expect(r, FM_STAGE_FILE, "c", 0640, 6, "");
	fm_stage_reader_free(r);
	CU_ASSERT_EQUAL(build("a", fd, &t), -ESTALE);
	CU_ASSERT_EQUAL(build("none", fd, &t), -ESTALE);
	close(fd);
	end();
}

/* Bytes at the end of each chunk but the second one, of which nothing was written. */
static void test_holes(void)
{
	struct fm_stage_chunk c;
	struct fm_stage_entry e;
	struct fm_stage_totals t;
	struct fm_stage_reader *r;
	uint8_t *zeros = calloc(1, FM_STAGE_CHUNK);
	int fd = memfd_create("manifest", MFD_CLOEXEC), file;

	begin();
	file = openat(root, "holes", O_RDWR | O_CREAT, 0600);
	CU_ASSERT_EQUAL(pwrite(file, "x", 1, FM_STAGE_CHUNK - 1), 1);
	CU_ASSERT_EQUAL(pwrite(file, "x", 1, 2 * (off_t)FM_STAGE_CHUNK + 5), 1);
	close(file);
	/* As many zeros, but written. */
	file = openat(root, "zeros", O_RDWR | O_CREAT, 0600);
	CU_ASSERT_EQUAL(write(file, zeros, FM_STAGE_CHUNK), FM_STAGE_CHUNK);
	close(file);
	CU_ASSERT_EQUAL_FATAL(build(NULL, fd, &t), 0);
	r = reader_of(fd);
	CU_ASSERT_EQUAL(fm_stage_reader_next(r, &e), 1);
	CU_ASSERT_EQUAL(fm_stage_reader_chunk(r, &c), 1);
	CU_ASSERT_EQUAL(c.zeros, UINT64_MAX >> 1);
	CU_ASSERT_EQUAL(fm_stage_reader_chunk(r, &c), 1);
	CU_ASSERT_EQUAL(c.zeros, UINT64_MAX);
	CU_ASSERT_EQUAL(c.crc, fm_crc32c(0, zeros, FM_STAGE_CHUNK));
	CU_ASSERT_EQUAL(fm_stage_reader_chunk(r, &c), 1);
	CU_ASSERT_EQUAL(c.zeros, 0);
	CU_ASSERT_EQUAL(fm_stage_reader_next(r, &e), 1);
	CU_ASSERT_EQUAL(fm_stage_reader_chunk(r, &c), 1);
	CU_ASSERT_EQUAL(c.zeros, UINT64_MAX);
	fm_stage_reader_free(r);
	free(zeros);
	close(fd);
	end();
}

/* ---- many small files ---- */

#define MANY 100u

/* Names of two sizes, a link among them. */
static void make_many(void)
{
	char name[32];

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "f%03u", i);
		write_file(name, name, i % 5);
	}
	CU_ASSERT_EQUAL(symlinkat("/etc", root, "f050-link"), 0);
}

/* Goal: files that are read at once are in the manifest in their order, each with its own CRC. */
static void test_many(void)
{
	struct fm_stage_totals t;
	struct fm_stage_reader *r;
	struct fm_stage_chunk c;
	struct fm_stage_entry e;
	int fd = memfd_create("manifest", MFD_CLOEXEC);
	char name[32];

	begin();
	make_many();
	CU_ASSERT_EQUAL_FATAL(build(NULL, fd, &t), 0);
	CU_ASSERT_EQUAL(t.files, MANY);
	r = reader_of(fd);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "f%03u", i);
		expect(r, FM_STAGE_FILE, name, 0640, i % 5, "");
		if (i % 5 > 0) {
			CU_ASSERT_EQUAL(fm_stage_reader_chunk(r, &c), 1);
			CU_ASSERT_EQUAL(c.crc, fm_crc32c(0, name, i % 5));
		}
		if (i == 50)
			expect(r, FM_STAGE_LINK, "f050-link", 0, 0, "/etc");
	}
	CU_ASSERT_EQUAL(fm_stage_reader_next(r, &e), 0);
	fm_stage_reader_free(r);
	close(fd);
	end();
}

/*
 * Goal: one file is not read behind the other, also with memory for two chunks, of which one has to
 * be left. Method: the first that is read waits for another.
 */
static void test_at_once(void)
{
	uint64_t limit = fm_budget_used() + FM_STAGE_LEFT + 3 * (FM_STAGE_CHUNK / 2);
	struct fm_stage_totals t;
	int fd = memfd_create("manifest", MFD_CLOEXEC);

	if (fm_test_lacks_faults())
		return;
	begin();
	make_many();
	meet_others_at("stage.read_data");
	fm_budget_set(limit * 8 / 7);	/* an eighth of it is left for sessions */
	CU_ASSERT_EQUAL(build(NULL, fd, &t), 0);
	fm_budget_set(UINT64_MAX);
	CU_ASSERT_TRUE(have_met_others());
	close(fd);
	end();
}

/* Goal: without threads, and without memory for more than one, all is read all the same. */
static void test_one_after_the_other(void)
{
	static const char *const points[] = { "stage.thread", "stage.buf" };
	struct fm_stage_totals t;

	if (fm_test_lacks_faults())
		return;
	begin();
	make_many();
	for (unsigned i = 0; i < 2; i++) {
		int fd = memfd_create("manifest", MFD_CLOEXEC);

		fm_fault_arm(points[i], 2);
		CU_ASSERT_EQUAL(build(NULL, fd, &t), 0);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		close(fd);
	}
	end();
}

/* ---- what is not as it should be ---- */

/* What came was checked, and its CRC32C kept with it. Now one byte is another, at the same time. */
static void test_damaged(void)
{
	struct fm_digest d = { .crc = fm_crc32c(0, "hello\n", 6), .size = 6,
			       .mtime_ns = INT64_C(1000000000005) };
	struct fm_stage_totals t;
	int fd = memfd_create("manifest", MFD_CLOEXEC), file;

	begin();
	write_file("f", "hello\n", 6);
	file = openat(root, "f", O_RDWR);
	write_file("g", "beside it\n", 10);
	if (fm_digest_set(file, &d) < 0) {
		printf("SKIP: no attributes on this file system\n");
	} else {
		CU_ASSERT_EQUAL(build(NULL, fd, &t), 0);
		write_file("f", "hellO\n", 6);
		CU_ASSERT_EQUAL(fm_digest_set(file, &d), 0);
		CU_ASSERT_EQUAL(build(NULL, fd, &t), -EILSEQ);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"f\" is damaged"));
	}
	close(file);
	close(fd);
	end();
}

/* Whoever throws away what cannot be read does not for what is not in the directory. */
static void test_unreadable(void)
{
	static const struct {
		const char *point;
		bool is_data;
	} of[] = {
		{ "stage.read_data", true }, { "reading.fstat", true }, { "stage.readdir", true },
		{ "stage.readlink", true }, { "stage.fstatat", true },
		{ "stage.stat", false }, { "stage.read", false }, { "stage.write", false },
	};
	int draft = memfd_create("draft", MFD_CLOEXEC);
	atomic_bool is_unreadable = false;
	struct fm_stage_build_opts opts = { .draft = &draft, .is_unreadable = &is_unreadable };
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;

	if (fm_test_lacks_faults())
		return;
	begin();
	make_tree();
	CU_ASSERT_EQUAL(build(NULL, draft, &t), 0);
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		int fd = memfd_create("manifest", MFD_CLOEXEC);

		opts.root = root;
		is_unreadable = false;
		fm_fault_arm(of[i].point, 1);
		CU_ASSERT_TRUE(fm_stage_build(&opts, fd, version, &t, &err) < 0);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		if (is_unreadable != of[i].is_data)
			printf("%s: %s\n", of[i].point, err.text);
		CU_ASSERT_EQUAL(is_unreadable, of[i].is_data);
		close(fd);
	}
	close(draft);
	end();
}

/* Somebody does this when that point is reached, once. */
static const char *hooked;
static unsigned hooked_after;	/* so many times nothing is done */
static void (*hook)(void);

static void reached(void *ctx, const char *name)
{
	(void)ctx;
	if (!hooked || strcmp(name, hooked) != 0 || hooked_after-- > 0)
		return;
	hooked = NULL;
	hook();
}

static void append(void)
{
	int fd = openat(root, "d/f", O_WRONLY | O_APPEND);

	CU_ASSERT_EQUAL(write(fd, "more", 4), 4);
	close(fd);
}

static void overwrite(void)
{
	int fd = openat(root, "d/f", O_WRONLY);

	CU_ASSERT_EQUAL(pwrite(fd, "jelly\n", 6, 0), 6);
	close(fd);
}

static void shorten(void)
{
	int fd = openat(root, "d/f", O_WRONLY);

	CU_ASSERT_EQUAL(ftruncate(fd, 3), 0);
	close(fd);
}

static void add_name(void)
{
	close(openat(root, "d/0", O_WRONLY | O_CREAT, 0600));
}

static void remove_name(void)
{
	CU_ASSERT_EQUAL(unlinkat(root, "d/f", 0), 0);
}

static void replace_dir(void)
{
	CU_ASSERT_EQUAL(renameat(root, "d", root, "d-old"), 0);
	CU_ASSERT_EQUAL(symlinkat("/etc", root, "d"), 0);
}

static void test_changed(void)
{
	static const struct {
		const char *point;
		unsigned after;
		void (*hook)(void);
		int want;
	} cases[] = {
		{ "stage.read_data", 0, append, -ESTALE },
		{ "stage.read_data", 0, overwrite, -ESTALE },
		{ "stage.read_data", 0, shorten, -ESTALE },
		{ "reading.alloc", 0, remove_name, -ESTALE },
		{ "stage.fstatat", 1, remove_name, -ESTALE },	/* its names were read */
		{ "stage.fstatat", 1, add_name, -ESTALE },
		{ "stage.fstatat", 0, replace_dir, -ESTALE },	/* "d" is being looked at */
		{ "stage.fstatat", 0, add_name, 0 },	/* what is in it is not known yet */
	};
	struct fm_stage_totals t;

	if (fm_test_lacks_faults())
		return;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = memfd_create("manifest", MFD_CLOEXEC);

		begin();
		CU_ASSERT_EQUAL(mkdirat(root, "d", 0755), 0);
		write_file("d/f", "hello\n", 6);
		hooked = cases[i].point;
		hooked_after = cases[i].after;
		hook = cases[i].hook;
		fm_fault_watch(reached, NULL);
		CU_ASSERT_EQUAL(build(NULL, fd, &t), cases[i].want);
		fm_fault_watch(NULL, NULL);
		CU_ASSERT_PTR_NULL(hooked);
		close(fd);
		end();
	}
}

static void test_stopped(void)
{
	atomic_bool is_stopped = true;
	_Atomic uint64_t done = 0;
	struct fm_stage_build_opts opts = { .is_stopped = &is_stopped, .bytes_done = &done };
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;
	int fd = memfd_create("manifest", MFD_CLOEXEC);

	begin();
	make_tree();
	opts.root = root;
	CU_ASSERT_EQUAL(fm_stage_build(&opts, fd, version, &t, &err), -ECANCELED);
	is_stopped = false;
	CU_ASSERT_EQUAL(ftruncate(fd, 0), 0);
	CU_ASSERT_EQUAL(fm_stage_build(&opts, fd, version, &t, &err), 0);
	CU_ASSERT_EQUAL(done, 6);
	close(fd);
	end();
}

static void test_nth_failure(void)
{
	bool has_fired = true;
	struct fm_stage_totals t;

	if (fm_test_lacks_faults())
		return;
	begin();
	make_tree();
	for (unsigned n = 1; has_fired; n++) {
		int fd = memfd_create("manifest", MFD_CLOEXEC), ret;
		uint8_t version[FM_SHA256_LEN];

		fm_fault_arm(NULL, n);
		ret = build(NULL, fd, &t);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		if (ret < 0) {
			CU_ASSERT_TRUE(has_fired);
			CU_ASSERT_EQUAL(err.code, ret);
			CU_ASSERT_TRUE(err.text[0] != '\0');
		} else {	/* some faults are only a courtesy less */
			CU_ASSERT_EQUAL(fm_stage_manifest_check(fd, version, &t), 0);
		}
		close(fd);
	}
	end();
}

static const struct fm_test tests[] = {
	{ "names are met in canonical order", test_walk },
	{ "a tree may be deeper than directories are open", test_deep },
	{ "a tree that is too deep is refused", test_too_deep },
	{ "names that are held have a limit", test_names_max },
	{ "special files are refused", test_special },
	{ "the manifest says what is there", test_build },
	{ "one file is a dataset", test_one_file },
	{ "a hole is what has only zeros", test_holes },
	{ "small files are in their order", test_many },
	{ "small files are read at once", test_at_once },
	{ "small files need neither threads nor memory", test_one_after_the_other },
	{ "what is not what came is told", test_damaged },
	{ "what cannot be read is told from what is beside it", test_unreadable },
	{ "what changes while it is read is told", test_changed },
	{ "it stops when it is told to", test_stopped },
	{ "every call may fail", test_nth_failure },
};

FM_TEST_MAIN("stage_build", tests)
