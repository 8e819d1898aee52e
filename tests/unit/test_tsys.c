/* SPDX-License-Identifier: MIT */
/* Names that lead out of their directory, at the system calls of a tree.
 * links: fm_tree fm_journal */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/tree/tsys.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

/* A directory "in" to stay in; beside it "file" and "dir", which nothing may reach. */
static char top[64];
static int top_fd, in;

static void begin(void)
{
	snprintf(top, sizeof(top), "/tmp/fmove-test-XXXXXX");
	if (!mkdtemp(top))
		abort();
	top_fd = open(top, O_RDONLY | O_DIRECTORY);
	CU_ASSERT_EQUAL(mkdirat(top_fd, "in", 0700), 0);
	CU_ASSERT_EQUAL(mkdirat(top_fd, "dir", 0700), 0);
	close(openat(top_fd, "file", O_CREAT | O_WRONLY, 0600));
	in = openat(top_fd, "in", O_PATH | O_DIRECTORY);
	close(openat(in, "own", O_CREAT | O_WRONLY, 0600));
	CU_ASSERT_EQUAL(mkdirat(in, "sub", 0700), 0);
	CU_ASSERT_EQUAL(symlinkat("../dir", in, "link"), 0);
}

static void end(void)
{
	struct stat st;

	CU_ASSERT_EQUAL(fstatat(top_fd, "file", &st, 0), 0);
	CU_ASSERT_EQUAL(fstatat(top_fd, "dir", &st, 0), 0);
	CU_ASSERT_EQUAL(unlinkat(top_fd, "dir", AT_REMOVEDIR), 0);	/* nothing is in it */
	CU_ASSERT_TRUE(fstatat(top_fd, "new", &st, AT_SYMLINK_NOFOLLOW) < 0);
	close(in);
	close(top_fd);
	remove_all(top);
}

static void test_open(void)
{
	int fd;

	begin();
	CU_ASSERT_EQUAL(fm_tsys_open(in, "..", O_PATH | O_DIRECTORY, 0), -EXDEV);
	CU_ASSERT_EQUAL(fm_tsys_open(in, "../file", O_RDWR, 0), -EXDEV);
	CU_ASSERT_EQUAL(fm_tsys_open(in, "../new", O_RDWR | O_CREAT | O_EXCL, 0600), -EXDEV);
	CU_ASSERT_EQUAL(fm_tsys_open(in, "/etc/passwd", O_RDONLY, 0), -EXDEV);
	CU_ASSERT_EQUAL(fm_tsys_open(in, "link/new", O_RDWR | O_CREAT, 0600), -ELOOP);
	CU_ASSERT_EQUAL(fm_tsys_open(in, "link", O_RDONLY | O_DIRECTORY, 0), -ENOTDIR);
	CU_ASSERT_EQUAL(fm_tsys_open(in, "link", O_RDONLY, 0), -ELOOP);
	CU_ASSERT_EQUAL(fm_tsys_open(in, "sub/../../file", O_RDWR, 0), -EXDEV);
	CU_ASSERT_EQUAL(fm_tsys_open_below(in, "../dir"), -EXDEV);
	CU_ASSERT_EQUAL(fm_tsys_open_below(in, "link"), -ELOOP);
	fd = fm_tsys_open(in, "fresh", O_WRONLY | O_CREAT | O_EXCL, 0600);
	CU_ASSERT_TRUE(fd >= 0);
	close(fd);
	fd = fm_tsys_open(in, ".", O_RDONLY | O_DIRECTORY, 0);
	CU_ASSERT_TRUE(fd >= 0);
	close(fd);
	end();
}

static void test_names(void)
{
	static const char *const out[] = {"../new",	   "..",      ".",	"", "/new",
					  "sub/../../new", "sub/new", "../file"};
	struct stat st;

	begin();
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
		CU_ASSERT_EQUAL(fm_tsys_mkdir(in, out[i]), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_symlink("x", in, out[i]), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_link(in, "own", in, out[i]), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_link(in, out[i], in, "second"), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_unlink(in, out[i], 0), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_rename(in, "own", in, out[i], 0), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_rename(in, out[i], in, "own", 0), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_rename_free(in, "own", in, out[i]), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_fstatat(in, out[i], &st), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_set_link(in, out[i], 0), -EXDEV);
		CU_ASSERT_EQUAL(fm_tsys_own_link(in, out[i], getuid(), getgid()), -EXDEV);
	}
	CU_ASSERT_EQUAL(fm_tsys_chmod_at(in, "../file", 0), -EXDEV);
	CU_ASSERT_EQUAL(fm_tsys_mkdir(in, "..."), 0);
	CU_ASSERT_EQUAL(fm_tsys_rename(in, "...", in, "..dir", 0), 0);
	CU_ASSERT_EQUAL(fm_tsys_unlink(in, "..dir", AT_REMOVEDIR), 0);
	end();
}

static const struct fm_test tests[] = {
	{ "what is opened is beneath its directory, and no link leads there", test_open },
	{ "a name that is more than one component is refused by every call", test_names },
};
FM_TEST_MAIN("tsys", tests)
