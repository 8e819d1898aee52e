/* SPDX-License-Identifier: MIT */
/*
 * Names below a store. links: fm_store
 */
#include "mover/base/fault.h"
#include "mover/store/path.h"

#include "tests/unit/store_fixture.h"

static char dir[64];
static int root = -1;

static void begin(const char *base)
{
	dir_make(base, dir);
	root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(root >= 0);
}

static void end(void)
{
	close(root);
	dir_remove(dir);
}

/*
 * Goal: every name that could leave the store, or mean two things, is refused before the disk is
 * asked; all others are not.
 */
static void test_check(void)
{
	static const struct {
		const char *path;
		int ret;
		const char *text;	/* part of the message */
	} cases[] = {
		{ "", 0, NULL },
		{ "a", 0, NULL },
		{ "a/b/c", 0, NULL },
		{ "a b/\xc3\xa4/\xff\xfe", 0, NULL },
		{ "line\nbreak/\x01", 0, NULL },
		{ "...", 0, NULL },
		{ "..a/b..", 0, NULL },
		{ ".hidden", 0, NULL },
		{ ".fmov", 0, NULL },
		{ "a.fmove.x", 0, NULL },
		{ "/", -EXDEV, "absolute" },
		{ "/etc/passwd", -EXDEV, "absolute" },
		{ "..", -EXDEV, "\"..\"" },
		{ "a/../b", -EXDEV, "\"..\"" },
		{ "a/..", -EXDEV, "\"..\"" },
		{ ".", -EINVAL, "\".\"" },
		{ "a/./b", -EINVAL, "\".\"" },
		{ "a/", -EINVAL, "empty component" },
		{ "a//b", -EINVAL, "empty component" },
		{ ".fmove.0123.part", -EINVAL, "partial" },
		{ "a/.fmove./b", -EINVAL, "partial" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fm_err err = { 0 };

		CU_ASSERT_EQUAL(fm_path_check(cases[i].path, &err), cases[i].ret);
		CU_ASSERT_EQUAL(err.code, cases[i].ret);
		if (cases[i].text)
			CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].text));
	}
}

static void fill(char *out, size_t len, char c)
{
	memset(out, c, len);
	out[len] = '\0';
}

static void test_lengths(void)
{
	static char path[8192];
	struct fm_err err = { 0 };

	fill(path, 255, 'n');
	CU_ASSERT_EQUAL(fm_path_check(path, &err), 0);
	fill(path, 256, 'n');
	CU_ASSERT_EQUAL(fm_path_check(path, &err), -ENAMETOOLONG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "256 bytes"));

	fill(path, FM_PATH_LEN_MAX, 'p');
	for (size_t i = 200; i < FM_PATH_LEN_MAX; i += 200)
		path[i] = '/';
	CU_ASSERT_EQUAL(fm_path_check(path, &err), 0);
	strcat(path, "p");
	CU_ASSERT_EQUAL(fm_path_check(path, &err), -ENAMETOOLONG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "4096 bytes"));
	fill(path, 8000, 'x');
	CU_ASSERT_EQUAL(fm_path_check(path, &err), -ENAMETOOLONG);
}

/* Goal: whatever is in a name, a message about it is one line of UTF-8, and short. */
static void test_show(void)
{
	struct fm_path_shown shown;
	char path[4096];

	CU_ASSERT_STRING_EQUAL(fm_path_show("a b/\xc3\xa4", &shown), "a b/\xc3\xa4");
	CU_ASSERT_STRING_EQUAL(fm_path_show("a\nb\x7f\\\"", &shown), "a\\x0ab\\x7f\\x5c\\x22");
	CU_ASSERT_STRING_EQUAL(fm_path_show("\xff\xc3", &shown), "\\xff\\xc3");
	/* A C1 control character, an overlong slash, half of a surrogate pair. */
	CU_ASSERT_STRING_EQUAL(fm_path_show("\xc2\x85", &shown), "\\xc2\\x85");
	CU_ASSERT_STRING_EQUAL(fm_path_show("\xc0\xaf", &shown), "\\xc0\\xaf");
	CU_ASSERT_STRING_EQUAL(fm_path_show("\xed\xa0\x80", &shown), "\\xed\\xa0\\x80");
	CU_ASSERT_STRING_EQUAL(fm_path_show("\xf0\x9f\x98\x80", &shown), "\xf0\x9f\x98\x80");

	for (size_t len = 0; len < 400; len++) {
		memset(path, '\n', len);
		memcpy(path + len, "end", 4);
		fm_path_show(path, &shown);
		CU_ASSERT_TRUE(strlen(shown.text) < sizeof(shown.text));
		CU_ASSERT_PTR_NULL(strchr(shown.text, '\n'));
		CU_ASSERT_STRING_EQUAL(shown.text + strlen(shown.text) - 3, "end");
		CU_ASSERT_EQUAL(!!strstr(shown.text, "..."), len > 37);
	}
}

/*
 * Goal: links inside the store work, also upwards; no kind of link leads out of it.
 * Method: the target of the links that lead out does exist.
 */
static void test_links(void)
{
	static const struct {
		const char *path;
		int ret;
	} cases[] = {
		{ "in/link", 0 },	     { "in/up", 0 },	      { "loop", -ELOOP },
		{ "out_absolute", -EXDEV },  { "out_up", -EXDEV },    { "in/out_up2", -EXDEV },
		{ "out_dir/passwd", -EXDEV }, { "magic", -EXDEV },    { "none", -ENOENT },
		{ "dangling", -ENOENT },     { "file/x", -ENOTDIR },
	};
	char dots[128];

	begin(ON_DISK);
	snprintf(dots, sizeof(dots), "../%s/file", strrchr(dir, '/') + 1);
	CU_ASSERT_EQUAL(mkdirat(root, "in", 0755), 0);
	close(openat(root, "file", O_CREAT | O_WRONLY, 0644));
	CU_ASSERT_EQUAL(symlinkat("../file", root, "in/link"), 0);
	CU_ASSERT_EQUAL(symlinkat("../in/../in/link", root, "in/up"), 0);
	CU_ASSERT_EQUAL(symlinkat("loop", root, "loop"), 0);
	CU_ASSERT_EQUAL(symlinkat("/etc/passwd", root, "out_absolute"), 0);
	CU_ASSERT_EQUAL(symlinkat(dots, root, "out_up"), 0);	/* comes back in: out is out */
	CU_ASSERT_EQUAL(symlinkat("../../../etc/passwd", root, "in/out_up2"), 0);
	CU_ASSERT_EQUAL(symlinkat("/etc", root, "out_dir"), 0);
	CU_ASSERT_EQUAL(symlinkat("/proc/self/root", root, "magic"), 0);
	CU_ASSERT_EQUAL(symlinkat("nowhere", root, "dangling"), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fm_err err = { 0 };
		int fd = fm_path_open(root, cases[i].path, O_RDONLY, &err);

		CU_ASSERT_EQUAL(fd < 0 ? fd : 0, cases[i].ret);
		CU_ASSERT_EQUAL(err.code, cases[i].ret);
		if (cases[i].ret == -EXDEV)
			CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "leads out of the store"));
		if (fd >= 0)
			close(fd);
	}
	end();
}

/* How many directories are synced for a path: the n-th sync is failed, until none is. */
static unsigned syncs_of(const char *path)
{
	const struct fm_path_make make = { .has_owner = false };
	struct fm_path_parent parent;
	struct fm_err err;
	unsigned n = 0;
	int ret;

	CU_ASSERT_EQUAL_FATAL(fm_path_open_parent(root, path, &make, &parent, &err), 0);
	do {
		fm_fault_arm("store.fsync", ++n);
		ret = fm_path_sync_up(root, parent.fd, path, &err);
		CU_ASSERT_TRUE(ret == 0 || ret == -EIO);
	} while (ret < 0);
	fm_fault_arm(NULL, 0);
	close(parent.fd);
	return n - 1;
}

/* Goal: before a file is called durable, so are all the directories it is in, whoever made them:
 * also behind a link. */
static void test_parents_of_others_are_synced(void)
{
	if (fm_test_lacks_faults())
		return;
	begin(ON_DISK);
	CU_ASSERT_EQUAL(syncs_of("f"), 0);
	CU_ASSERT_EQUAL(syncs_of("a/b/c/f"), 3);
	/* another one's, who has not synced them yet */
	CU_ASSERT_EQUAL(syncs_of("a/b/c/g"), 3);
	CU_ASSERT_EQUAL(symlinkat("a/b", root, "link"), 0);
	CU_ASSERT_EQUAL(syncs_of("link/c/h"), 3);
	end();
}

/* Goal: what was moved out of the store meanwhile is synced up to the root of all, once. */
static void test_a_parent_that_was_moved_out(void)
{
	const struct fm_path_make make = { .has_owner = false };
	struct fm_path_parent parent;
	struct fm_err err = { 0 };
	char away[64];
	unsigned n;

	if (fm_test_lacks_faults())
		return;
	begin(ON_DISK);
	CU_ASSERT_EQUAL_FATAL(fm_path_open_parent(root, "a/b/f", &make, &parent, &err), 0);
	(void)snprintf(away, sizeof(away), "../fm-path-away.%d", (int)getpid());
	CU_ASSERT_EQUAL_FATAL(renameat(root, "a", root, away), 0);
	fm_fault_arm("store.fsync", 1000);
	CU_ASSERT_EQUAL(fm_path_sync_up(root, parent.fd, "a/b/f", &err), 0);
	n = fm_fault_count();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(n < 1000);
	close(parent.fd);
	CU_ASSERT_EQUAL(renameat(root, away, root, "a"), 0);
	end();
}

/* Goal: a directory above that may be passed through, but not read, is no reason to refuse a file,
 * nor one to forget the sync. */
static void test_a_parent_that_may_not_be_read(void)
{
	const struct fm_path_make make = { .has_owner = false };
	const bool is_root = geteuid() == 0;
	struct fm_path_parent parent;
	struct fm_err err = { 0 };

	if (fm_test_lacks_faults())
		return;
	begin(ON_DISK);
	CU_ASSERT_EQUAL_FATAL(fm_path_open_parent(root, "a/b/f", &make, &parent, &err), 0);
	CU_ASSERT_EQUAL(fchmod(parent.fd, 0777), 0);
	CU_ASSERT_EQUAL(fchmodat(root, "a", 0311, 0), 0);
	CU_ASSERT_TRUE(!is_root || seteuid(65534) == 0);
	CU_ASSERT_EQUAL(fm_path_sync_up(root, parent.fd, "a/b/f", &err), 0);
	fm_fault_arm("store.syncfs", 1);
	CU_ASSERT_EQUAL(fm_path_sync_up(root, parent.fd, "a/b/f", &err), -EIO);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(!is_root || seteuid(0) == 0);
	CU_ASSERT_EQUAL(fchmodat(root, "a", 0755, 0), 0);
	close(parent.fd);
	end();
}

/* Goal: missing directories are made, also through a link inside, never outside or through a
 * file. */
static void test_parents(void)
{
	const struct fm_path_make make = { .has_owner = false };
	struct fm_path_parent parent;
	struct fm_err err = { 0 };

	begin(ON_DISK);
	CU_ASSERT_EQUAL(fm_path_open_parent(root, "a/b/c", NULL, &parent, &err), -ENOENT);
	CU_ASSERT_EQUAL(faccessat(root, "a", F_OK, 0), -1);

	CU_ASSERT_EQUAL(fm_path_open_parent(root, "a/b/c", &make, &parent, &err), 0);
	CU_ASSERT_STRING_EQUAL(parent.name, "c");
	CU_ASSERT_EQUAL(fm_path_sync_up(root, parent.fd, "a/b/c", &err), 0);
	close(parent.fd);

	CU_ASSERT_EQUAL(fm_path_open_parent(root, "a/b/x/y/z", &make, &parent, &err), 0);
	CU_ASSERT_EQUAL(fm_path_sync_up(root, parent.fd, "a/b/x/y/z", &err), 0);
	close(parent.fd);
	CU_ASSERT_EQUAL(faccessat(root, "a/b/x/y", F_OK, 0), 0);

	CU_ASSERT_EQUAL(symlinkat("a/b", root, "short"), 0);
	CU_ASSERT_EQUAL(fm_path_open_parent(root, "short/new/f", &make, &parent, &err), 0);
	close(parent.fd);
	CU_ASSERT_EQUAL(faccessat(root, "a/b/new", F_OK, 0), 0);

	CU_ASSERT_EQUAL(symlinkat("/tmp", root, "out"), 0);
	CU_ASSERT_EQUAL(fm_path_open_parent(root, "out/new/f", &make, &parent, &err), -EXDEV);
	CU_ASSERT_EQUAL(symlinkat("nowhere", root, "dangling"), 0);
	CU_ASSERT_EQUAL(fm_path_open_parent(root, "dangling/new/f", &make, &parent, &err), -ENOENT);
	close(openat(root, "file", O_CREAT | O_WRONLY, 0644));
	CU_ASSERT_EQUAL(fm_path_open_parent(root, "file/new/f", &make, &parent, &err), -ENOTDIR);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"file/new/f\""));
	end();
}

/* Goal: the longest path there may be can be made, opened and removed. */
static void test_deepest(void)
{
	const struct fm_path_make make = { .has_owner = false };
	struct fm_path_parent parent;
	struct fm_err err = { 0 };
	char path[FM_PATH_LEN_MAX + 1];

	begin(IN_MEMORY);
	fill(path, FM_PATH_LEN_MAX, 'd');
	for (size_t i = 1; i < FM_PATH_LEN_MAX - 1; i += 2)
		path[i] = '/';
	CU_ASSERT_EQUAL_FATAL(fm_path_check(path, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_path_open_parent(root, path, &make, &parent, &err), 0);
	CU_ASSERT_STRING_EQUAL(parent.name, "d");
	close(parent.fd);
	end();
}

static const struct fm_test tests[] = {
	{"names that could leave the store are refused, all others are not", test_check},
	{"names and paths of the greatest length work, one byte more does not", test_lengths},
	{"a name in a message is one short line", test_show},
	{"links inside the store are followed, those that leave it are not", test_links},
	{"missing directories are made inside the store only", test_parents},
	{"the directories above are synced, whoever made them", test_parents_of_others_are_synced},
	{"a directory that was moved out of the store", test_a_parent_that_was_moved_out},
	{"a directory above that may not be read", test_a_parent_that_may_not_be_read},
	{"a path of 4095 bytes can be made", test_deepest},
};
FM_TEST_MAIN("path", tests)
