/* SPDX-License-Identifier: MIT */
/*
 * A directory of a store of this node, listed and copied. links: fm_staging_service fm_store
 *
 * In the current directory (the build's): what is in memory keeps no times as a disk does. What is
 * about the page cache lies in /var/tmp, which is on a disk also where that directory is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/page.h"
#include "mover/store/held_file.h"
#include "mover/tree/digest.h"
#include "staging/build.h"
#include "staging/cache.h"
#include "staging/service/local.h"
#include "tests/fm_test.h"
#include "tests/unit/cached.h"
#include "tests/unit/refused_call.h"
#include "tests/unit/remove_all.h"

#define LARGE 9000000
#define HUGE (40 << 20)	/* of which much less may be in memory */
#define BEHIND_MAX (16 << 20)

static char top[64], from[80], to[80];
static struct fm_store *source, *sink;
static atomic_bool is_stopped;
static bool is_in_memory;
static struct fm_err err;

static struct fm_store *open_store(const char *directory)
{
	static const char *const everybody[] = { "*", NULL };
	const struct fm_store_opts opts = { .name = "s", .directory = directory, .read = everybody,
					    .write = everybody, .is_durable = true };
	struct fm_store *s = NULL;

	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
	return s;
}

static void write_file(const char *name, off_t size, char fill)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/set/%s", from, name);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	for (off_t at = 0; at < size; at += 1000)
		CU_ASSERT_EQUAL(pwrite(fd, &fill, 1, at), 1);
	CU_ASSERT_EQUAL(ftruncate(fd, size), 0);
	close(fd);
}

static void begin_in(const char *where)
{
	char path[128];

	is_stopped = false;
	(void)snprintf(top, sizeof(top), "%sstage_local.XXXXXX", where);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(top));
	(void)snprintf(from, sizeof(from), "%s/from", top);
	(void)snprintf(to, sizeof(to), "%s/to", top);
	CU_ASSERT_EQUAL(mkdir(from, 0755) | mkdir(to, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/set", from);
	CU_ASSERT_EQUAL(mkdir(path, 0755), 0);
	for (char i = 'a'; i < 'k'; i++)
		write_file((char[]){ i, '\0' }, 3000, i);
	write_file("large", LARGE, 'l');
	write_file("larger", LARGE + 5, 'm');
	write_file("hole", 0, 0);
	(void)snprintf(path, sizeof(path), "%s/set/hole", from);
	CU_ASSERT_EQUAL(truncate(path, LARGE), 0);
	source = open_store(from);
	sink = open_store(to);
}

static void begin(void)
{
	begin_in("");
}

static void end(void)
{
	source->ops->free(source);
	sink->ops->free(sink);
	remove_all(top);
}

static struct fm_stage_local opts_of(void)
{
	return (struct fm_stage_local){ .store = source, .path = "set",
					.who = { NULL, getuid(), getgid() },
					.is_stopped = &is_stopped };
}

static int list(struct fm_stage_totals *out)
{
	const struct fm_stage_local l = opts_of();
	struct fm_stage_offered *o;
	int ret = fm_stage_offered_new(FM_STAGE_OFFERED_MAX, &o, &err);

	if (ret < 0)
		return ret;
	ret = fm_stage_local_list(&l, o, &err);
	if (ret == 0)
		ret = fm_stage_offered_end(o, out, &err);
	fm_stage_offered_free(o);
	return ret;
}

static int copy_file(const char *path)
{
	struct fm_stage_local l = opts_of();
	int dir = open(to, O_RDONLY | O_DIRECTORY), ret;

	l.path = path;
	ret = fm_stage_local_copy_file(&l, dir, "copy", &err);
	close(dir);
	return ret;
}

static int copy(void)
{
	static const uint8_t listing[FM_SHA256_LEN] = { 1 };
	const struct fm_create_tree how = { .is_durable = true, .has_digests = true };
	const struct fm_stage_local l = opts_of();
	struct fm_file *file;
	int ret = sink->ops->create_tree(sink, "copy", &l.who, &how, &file, &err);

	if (ret < 0)
		return ret;
	ret = fm_stage_local_copy(&l, listing, file, &err);
	if (ret < 0)
		file->ops->discard(file);
	fm_file_close(file);
	return ret;
}

/* Of the directory at path, or of a file in it. */
static void totals_of(const char *path, const char *file, struct fm_stage_totals *out)
{
	const struct fm_stage_build_opts opts = { .root = open(path, O_RDONLY | O_DIRECTORY),
						  .file = file };
	int fd = open(top, O_TMPFILE | O_RDWR, 0600);
	uint8_t version[FM_SHA256_LEN];

	CU_ASSERT_EQUAL(fm_stage_build(&opts, fd, version, out, &err), 0);
	close(fd);
	close(opts.root);
}

static void listing_of(const char *store, const char *name, struct fm_stage_totals *out)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", store, name);
	totals_of(path, NULL, out);
}

static bool is_same(void)
{
	char command[256];

	(void)snprintf(command, sizeof(command), "diff -r %s/set %s/copy", from, to);
	return system(command) == 0;
}

static bool is_there(void)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/copy", to);
	return access(path, F_OK) == 0;
}

static void test_list(void)
{
	struct fm_stage_totals is, want;

	begin();
	CU_ASSERT_EQUAL(list(&is), 0);
	listing_of(from, "set", &want);
	CU_ASSERT_EQUAL(memcmp(is.listing, want.listing, FM_SHA256_LEN), 0);
	CU_ASSERT_EQUAL(is.bytes, want.bytes);
	end();
}

static void test_copy(void)
{
	struct fm_stage_totals is, want;

	begin();
	CU_ASSERT_EQUAL(copy(), 0);
	CU_ASSERT_TRUE(is_same());
	listing_of(from, "set", &want);
	listing_of(to, "copy", &is);
	CU_ASSERT_EQUAL(memcmp(is.listing, want.listing, FM_SHA256_LEN), 0);
	end();
}

/* How much of the copy is in memory before each piece of it, at most. */
struct midst {
	int dir;
	size_t most;
};

static void count_cached(void *ctx, const char *name)
{
	struct midst *m = ctx;
	size_t bytes;

	if (strcmp(name, "stage.copy") != 0)
		return;
	bytes = cached_pages(m->dir, FM_CACHE_SCRATCH_NAME) * fm_page_bytes();
	m->most = bytes > m->most ? bytes : m->most;
}

static void write_huge(void)
{
	static char piece[1 << 20];
	char path[128];
	int fd;

	memset(piece, 'h', sizeof(piece));
	(void)snprintf(path, sizeof(path), "%s/huge", from);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	for (unsigned i = 0; i < HUGE / sizeof(piece); i++)
		CU_ASSERT_EQUAL(write(fd, piece, sizeof(piece)), sizeof(piece));
	close(fd);
}

/* Of the copy of a file that is larger than twice what may be on its way. */
static void check_midst(int dir)
{
	struct midst m = { .dir = dir };

	if (fm_test_lacks_faults())
		return;
	write_huge();
	fm_fault_watch(count_cached, &m);
	fm_fault_arm("stage.clone", 1);
	CU_ASSERT_EQUAL(copy_file("huge"), 0);
	fm_fault_arm(NULL, 0);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(m.most > 0);	/* else nothing was seen */
	CU_ASSERT_TRUE(m.most <= BEHIND_MAX);
	CU_ASSERT_TRUE(cached_pages(dir, "copy") * fm_page_bytes() < BEHIND_MAX / 2);
	CU_ASSERT_EQUAL(unlinkat(dir, "copy", 0), 0);
}

/* Goal: however large a dataset is, memory does not fill with it while it is copied. */
static void test_not_cached(void)
{
	int dir;

	begin_in("/var/tmp/");
	dir = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_in_memory = !cached_has_none(dir);
	if (!is_in_memory) {
		check_midst(dir);
		CU_ASSERT_EQUAL(copy(), 0);
		/* The kernel may keep what is in one piece with the end, which is no whole page. */
		CU_ASSERT_TRUE(cached_pages(dir, "copy/large") < LARGE / 2 / FM_BLOCK);
		CU_ASSERT_TRUE(cached_pages(dir, "copy/larger") < LARGE / 2 / FM_BLOCK);
	}
	(void)close(dir);
	end();
}

/* Before the first large file is copied all of them are written to: whichever it is changes. */
static void write_meanwhile(void *ctx, const char *name)
{
	bool *is_done = ctx;

	if (strcmp(name, "stage.clone") != 0 || *is_done)
		return;
	*is_done = true;
	write_file("large", LARGE, 'x');
	write_file("larger", LARGE + 5, 'x');
	write_file("hole", LARGE, 'x');
}

static void test_changed(void)
{
	bool is_done = false;

	if (fm_test_lacks_faults())
		return;
	begin();
	fm_fault_watch(write_meanwhile, &is_done);
	CU_ASSERT_EQUAL(copy(), -ESTALE);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(is_done);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "changed while"));
	CU_ASSERT_FALSE(is_there());
	end();
}

/* A large file that is not what came once: its copy is found not to be, either. */
static void test_damaged(void)
{
	struct fm_digest digest = { .crc = 1, .size = LARGE };
	struct fm_stage_build_opts opts = { .root = -1 };
	uint8_t version[FM_SHA256_LEN];
	struct fm_stage_totals t;
	char path[128];
	struct stat st;
	int fd, ret;

	begin();
	(void)snprintf(path, sizeof(path), "%s/set/large", from);
	fd = open(path, O_RDWR);
	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	digest.mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
	ret = fm_digest_set(fd, &digest);
	close(fd);
	CU_ASSERT_EQUAL(copy(), 0);
	(void)snprintf(path, sizeof(path), "%s/copy", to);
	opts.root = open(path, O_RDONLY | O_DIRECTORY);
	fd = open(top, O_TMPFILE | O_RDWR, 0600);
	if (ret != -EOPNOTSUPP) {
		CU_ASSERT_TRUE(fm_stage_build(&opts, fd, version, &t, &err) < 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "large"));
	}
	close(fd);
	close(opts.root);
	end();
}

static void test_stopped(void)
{
	begin();
	is_stopped = true;
	CU_ASSERT_EQUAL(copy(), -EHOSTDOWN);
	CU_ASSERT_FALSE(is_there());
	is_stopped = false;
	CU_ASSERT_EQUAL(copy(), 0);
	end();
}

/* Where files are cloned none is copied: that point is not reached there. */
static void test_failure(const char *name, int code)
{
	char path[128];
	bool has_fired;
	int ret;

	fm_fault_arm(name, 1);
	ret = copy();
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(has_fired || strcmp(name, "stage.copy") == 0);
	CU_ASSERT_EQUAL(ret, has_fired ? code : 0);
	CU_ASSERT_EQUAL(is_there(), ret == 0);
	/* which of them is copied first, nobody says */
	if (ret == -EIO)
		CU_ASSERT_TRUE(strstr(err.text, "\"large") || strstr(err.text, "\"hole\""));
	if (ret == 0) {
		CU_ASSERT_TRUE(is_same());
		(void)snprintf(path, sizeof(path), "%s/copy", to);
		remove_all(path);
	}
}

/* No clone: it is copied. No copy, no memory: told, and nothing is there. */
static void test_failures(void)
{
	if (fm_test_lacks_faults())
		return;
	begin();
	test_failure("stage.copy", -EIO);
	test_failure("stage.write_back", -EIO);
	test_failure("stage.alloc", -ENOMEM);
	test_failure("stage.clone", 0);
	end();
}

/* Where nothing can be written back early, it is when the copy is synced. */
static void test_no_write_back(void)
{
	begin();
	CU_ASSERT_TRUE(with_refused_call(SYS_sync_file_range, ENOSYS, copy) >= 0);
	CU_ASSERT_TRUE(with_refused_call(SYS_sync_file_range, EIO, copy) != 0);
	end();
}

/* ---- one file ---- */

static void test_file(void)
{
	struct fm_stage_totals is, want;
	char path[128], command[256];
	struct stat st;

	begin();
	CU_ASSERT_EQUAL(copy_file("set/large"), 0);
	(void)snprintf(command, sizeof(command), "cmp %s/set/large %s/copy", from, to);
	CU_ASSERT_EQUAL(system(command), 0);
	(void)snprintf(path, sizeof(path), "%s/set/large", from);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	const struct fm_stage_entry file = {
		.type = FM_STAGE_FILE, .path = "copy", .path_len = 4, .size = (uint64_t)st.st_size,
		.mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec,
	};
	CU_ASSERT_EQUAL(fm_stage_list_file(&file, -1, &want, &err), 0);
	totals_of(to, "copy", &is);
	CU_ASSERT_TRUE(want.is_file);
	CU_ASSERT_EQUAL(memcmp(is.listing, want.listing, FM_SHA256_LEN), 0);
	end();
}

static void test_file_changed(void)
{
	bool is_done = false;

	if (fm_test_lacks_faults())
		return;
	begin();
	fm_fault_watch(write_meanwhile, &is_done);
	CU_ASSERT_EQUAL(copy_file("set/large"), -ESTALE);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(is_done);
	CU_ASSERT_FALSE(is_there());
	end();
}

/* It fails at any piece: told, and nothing has the name; the next try makes it. */
static void test_file_failures(void)
{
	static const char *const points[] = { "stage.alloc", "stage.copy" };
	bool has_fired = true;

	if (fm_test_lacks_faults())
		return;
	for (size_t p = 0; p < sizeof(points) / sizeof(points[0]); p++) {
		for (unsigned n = 1; n < 100; n++) {
			int ret;

			begin();
			fm_fault_arm(points[p], n);
			ret = copy_file("set/large");
			has_fired = fm_fault_fired();
			fm_fault_arm(NULL, 0);
			CU_ASSERT_EQUAL(is_there(), ret == 0);
			if (ret == -EIO)
				CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"set/large\""));
			if (ret < 0)
				CU_ASSERT_EQUAL(copy_file("set/large"), 0);
			end();
			if (!has_fired)
				break;
		}
		CU_ASSERT_FALSE(has_fired);
	}
}

static const struct fm_test tests[] = {
	{ "its listing is that of the directory", test_list },
	{ "its copy is the same", test_copy },
	{ "its copy does not stay in memory", test_not_cached },
	{ "what changes while it is copied is told", test_changed },
	{ "what was damaged at the source is told", test_damaged },
	{ "it stops when it is told to", test_stopped },
	{ "what fails is told", test_failures },
	{ "it needs no early writing back", test_no_write_back },
	{ "a file's copy is the same, and its listing", test_file },
	{ "a file that changes while it is copied is told", test_file_changed },
	{ "of a file that could not be copied nothing has its name", test_file_failures },
};

int main(void)
{
	int ret = fm_test_main("stage_local", tests, sizeof(tests) / sizeof(tests[0]));

	if (ret == 0 && is_in_memory)
		fm_test_skip("/var/tmp has no O_DIRECT: what stays in memory was not looked at; "
			     "the rest passed");
	return ret;
}
