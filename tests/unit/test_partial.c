/* SPDX-License-Identifier: MIT */
/*
 * The two files of an unfinished transfer: names, locks, and what is not touched. links: fm_journal
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/journal/format.h"
#include "mover/journal/partial.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

static char path[64];
static int dir = -1;

static void begin(void)
{
	strcpy(path, "/tmp/fm-partial-XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(dir >= 0);
}

static void end(void)
{
	close(dir);
	remove_all(path);
}

static int64_t size_of(const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -1 : (int64_t)st.st_size;
}

static void make(const char *name, const char *text)
{
	int fd = openat(dir, name, O_CREAT | O_RDWR, 0600);

	CU_ASSERT_EQUAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void test_names(void)
{
	static const char *const none[] = {"",
					   ".fmove.",
					   ".fmove.0123456789abcdef",
					   ".fmove.0123456789abcdef.tree",
					   ".fmove.0123456789abcde.part",
					   ".fmove.0123456789abcdef0.part",
					   ".fmove.0123456789ABCDEF.part",
					   ".fmove.0123456789abcdef.part.x",
					   "x.fmove.0123456789abcdef.part",
					   ".fmove.0x23456789abcdef.part"};
	char name[FM_PARTIAL_NAME_MAX + 1];
	uint64_t hash = 0;

	fm_partial_name(UINT64_C(0x0123456789abcdef), FM_PARTIAL_FILE, name);
	CU_ASSERT_STRING_EQUAL(name, ".fmove.0123456789abcdef.part");
	CU_ASSERT_EQUAL(fm_partial_parse(name, &hash), FM_PARTIAL_FILE);
	CU_ASSERT_EQUAL(hash, UINT64_C(0x0123456789abcdef));
	fm_partial_name(UINT64_MAX, FM_PARTIAL_JOURNAL, name);
	CU_ASSERT_STRING_EQUAL(name, ".fmove.ffffffffffffffff.journal");
	CU_ASSERT_EQUAL(fm_partial_parse(name, NULL), FM_PARTIAL_JOURNAL);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		CU_ASSERT_EQUAL(fm_partial_parse(none[i], &hash), FM_PARTIAL_NONE);
	/* The names on disk must not change from one version to the next. */
	CU_ASSERT_EQUAL(fm_partial_hash("model.safetensors"), UINT64_C(0xa4fe0ae6a691c7eb));
	CU_ASSERT_NOT_EQUAL(fm_partial_hash("a"), fm_partial_hash("b"));
}

/* Goal: the pair is one transfer's until its last descriptor is closed; then the next one's. */
static void test_lock(void)
{
	struct fm_partial a, b;
	int passed_on;

	begin();
	CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &a), 0);
	CU_ASSERT_FALSE(a.has_content || fm_partial_is_journaled(&a));
	CU_ASSERT_TRUE(fm_partial_is_busy(dir, a.name) && fm_partial_is_busy(dir, a.journal_name));
	CU_ASSERT_EQUAL(fm_partial_open(dir, "f", 0, &b), -EAGAIN);
	CU_ASSERT_EQUAL(fm_partial_open(dir, "f", 30, &b), -EAGAIN);
	CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "g", 0, &b), 0);
	CU_ASSERT_EQUAL(fm_partial_remove(&b), 0);
	fm_partial_close(&b);
	CU_ASSERT_EQUAL(write(a.fd, "abc", 3), 3);
	CU_ASSERT_EQUAL(write(a.journal, "j", 1), 1);
	CU_ASSERT_TRUE(fm_partial_is_journaled(&a));
	passed_on = dup(a.journal);
	fm_partial_close(&a);
	CU_ASSERT_EQUAL(fm_partial_open(dir, "f", 0, &b), -EAGAIN);
	close(passed_on);
	CU_ASSERT_FALSE(fm_partial_is_busy(dir, a.journal_name));
	CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &b), 0);
	CU_ASSERT_TRUE(b.has_content);
	CU_ASSERT_EQUAL(fm_partial_remove(&b), 0);
	CU_ASSERT_FALSE(fm_partial_is_journaled(&b));
	/* Its names are free, and are made anew while it is still open. */
	CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &a), 0);
	CU_ASSERT_FALSE(a.has_content);
	fm_partial_close(&a);
	fm_partial_close(&b);
	end();
}

/* Goal: one without the other is of no use: both are empty then. */
static void test_halves(void)
{
	struct fm_partial p;

	begin();
	CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
	fm_partial_close(&p);
	make(p.name, "content");
	CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
	CU_ASSERT_FALSE(p.has_content);
	CU_ASSERT_EQUAL(size_of(p.name), 0);
	fm_partial_close(&p);
	make(p.journal_name, "journal");
	CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
	CU_ASSERT_FALSE(p.has_content);
	CU_ASSERT_EQUAL(size_of(p.journal_name), 0);
	fm_partial_close(&p);
	end();
}

/*
 * Goal: a version that was replaced, which a crash leaves under the partial name, is not written
 * to: somebody may still read it. Method: such a file with an empty journal, and with one of
 * another file.
 */
static void test_replaced(void)
{
	struct fm_journal_head head = { .name = "f" };
	uint8_t bytes[FM_JOURNAL_HEAD_LEN];
	struct fm_partial p;

	for (int i = 0; i < 3; i++) {
		char text[8] = "";
		struct stat st;
		int reader;

		begin();
		CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
		CU_ASSERT_EQUAL(fstat(p.fd, &st), 0);
		CU_ASSERT_EQUAL(write(p.fd, "old", 3), 3);
		head.ino = st.st_ino + (i == 1);
		fm_journal_head_put(&head, bytes);
		if (i > 0)
			CU_ASSERT_EQUAL(write(p.journal, bytes, sizeof(bytes)),
					(ssize_t)sizeof(bytes));
		fm_partial_close(&p);
		reader = openat(dir, p.name, O_RDONLY);
		CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
		CU_ASSERT_EQUAL(p.has_content, i == 2);		/* which is ours */
		CU_ASSERT_EQUAL(read(reader, text, sizeof(text)), 3);
		CU_ASSERT_STRING_EQUAL(text, "old");
		CU_ASSERT_EQUAL(size_of(p.name), i == 2 ? 3 : 0);
		CU_ASSERT_EQUAL(size_of(p.journal_name), i == 2 ? (int64_t)sizeof(bytes) : 0);
		CU_ASSERT_TRUE(fm_partial_is_busy(dir, p.name));
		close(reader);
		fm_partial_close(&p);
		end();
	}
}

/* Goal: in place of the journal: nothing is touched, -EPERM or the like. In place of the file: it
 * is put out of the way. */
static void test_foreign(void)
{
	char file[FM_PARTIAL_NAME_MAX + 1], journal[FM_PARTIAL_NAME_MAX + 1];
	struct fm_partial p;
	struct stat st;

	fm_partial_name(fm_partial_hash("f"), FM_PARTIAL_FILE, file);
	fm_partial_name(fm_partial_hash("f"), FM_PARTIAL_JOURNAL, journal);
	for (int i = 0; i < 4; i++) {
		for (int is_file = 0; is_file < 2; is_file++) {
			const char *name = is_file ? file : journal;
			int ret;

			begin();
			make("victim", "precious");
			if (i == 0)
				CU_ASSERT_EQUAL(symlinkat("victim", dir, name), 0);
			if (i == 1)
				CU_ASSERT_EQUAL(linkat(dir, "victim", dir, name, 0), 0);
			if (i == 2)
				CU_ASSERT_EQUAL(mkfifoat(dir, name, 0600), 0);
			if (i == 3)
				CU_ASSERT_EQUAL(mkdirat(dir, name, 0700), 0);
			ret = fm_partial_open(dir, "f", 0, &p);
			CU_ASSERT_EQUAL(ret == 0, is_file && i < 3);
			if (ret == 0) {
				CU_ASSERT_TRUE(fstat(p.fd, &st) == 0 && S_ISREG(st.st_mode) &&
					       st.st_nlink == 1);
				CU_ASSERT_EQUAL(write(p.fd, "x", 1), 1);
				fm_partial_close(&p);
			}
			CU_ASSERT_EQUAL(size_of("victim"), 8);
			end();
		}
	}
	if (geteuid() != 0) {
		printf("SKIP: needs root, to give files away\n");
		return;
	}
	for (int is_file = 0; is_file < 2; is_file++) {
		begin();
		make(is_file ? file : journal, "x");
		CU_ASSERT_EQUAL(fchownat(dir, is_file ? file : journal, 65534, 65534, 0), 0);
		CU_ASSERT_EQUAL(fm_partial_open(dir, "f", 0, &p), is_file ? 0 : -EPERM);
		if (is_file)
			fm_partial_close(&p);
		end();
	}
}

static void test_random(void)
{
	struct fm_partial p, q;

	begin();
	CU_ASSERT_EQUAL_FATAL(fm_partial_open_random(dir, 7, &p), 0);
	CU_ASSERT_STRING_EQUAL(p.name, ".fmove.0000000000000007.part");
	CU_ASSERT_TRUE(p.journal < 0 && fm_partial_is_busy(dir, p.name) &&
		       !fm_partial_is_journaled(&p));
	CU_ASSERT_EQUAL(fm_partial_open_random(dir, 7, &q), -EEXIST);
	fm_partial_close(&p);
	CU_ASSERT_FALSE(fm_partial_is_busy(dir, p.name));
	CU_ASSERT_EQUAL(fm_partial_remove(&p), 0);
	CU_ASSERT_EQUAL(fm_partial_remove(&p), 0);	/* gone already */
	end();
}

static void test_failures(void)
{
#ifdef FM_FAULTS
	struct fm_partial p;

	for (unsigned n = 1; n < 30; n++) {
		bool has_fired;
		int ret;

		begin();
		fm_fault_arm(NULL, n);
		ret = fm_partial_open(dir, "f", 0, &p);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		/* that the file says it is in use can be done without */
		CU_ASSERT_TRUE(ret == 0 || has_fired);
		if (ret == 0)
			fm_partial_close(&p);
		CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
		CU_ASSERT_EQUAL(fm_partial_remove(&p), 0);
		fm_partial_close(&p);
		/* nothing is left in it */
		CU_ASSERT_EQUAL(unlinkat(AT_FDCWD, path, AT_REMOVEDIR), 0);
		end();
		if (!has_fired)
			return;
	}
	CU_FAIL("the faults never end");
#else
	printf("SKIP: built without fault points\n");
#endif
}

/* An unfinished one, which its journal names. */
static uint64_t leave_unfinished(void)
{
	struct fm_journal_head head = { .name = "f" };
	uint8_t bytes[FM_JOURNAL_HEAD_LEN];
	struct fm_partial p;
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
	CU_ASSERT_EQUAL(write(p.fd, "content", 7), 7);
	CU_ASSERT_EQUAL(fstat(p.fd, &st), 0);
	head.ino = st.st_ino;
	fm_journal_head_put(&head, bytes);
	CU_ASSERT_EQUAL(write(p.journal, bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
	fm_partial_close(&p);
	return st.st_ino;
}

/* Goal: what could not be looked at is no reason to remove what came so far. */
static void test_look_fails(void)
{
#ifdef FM_FAULTS
	bool has_fired = true;
	struct fm_partial p;
	struct stat st;
	uint64_t ino;

	for (unsigned n = 1; has_fired && n < 30; n++) {
		begin();
		ino = leave_unfinished();
		fm_fault_arm(NULL, n);
		if (fm_partial_open(dir, "f", 0, &p) == 0)
			fm_partial_close(&p);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
		CU_ASSERT_EQUAL(fstat(p.fd, &st), 0);
		CU_ASSERT_TRUE(p.has_content && st.st_ino == ino && st.st_size == 7);
		fm_partial_close(&p);
		end();
	}
	CU_ASSERT_FALSE(has_fired);
#else
	printf("SKIP: built without fault points\n");
#endif
}

/*
 * Goal: a file that was moved under the partial name is not written to, and so not given away at
 * the end: only what the journal names is. Method: an empty one; one that another transfer has
 * locked, though the journal names it; one with a damaged journal.
 */
static void test_moved_here(void)
{
	struct fm_journal_head head = { .name = "f" };
	uint8_t bytes[FM_JOURNAL_HEAD_LEN];
	struct fm_partial p, other;
	struct stat moved, now;

	for (int i = 0; i < 3; i++) {
		int reader;	/* so that its inode is not another's soon */

		begin();
		CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
		CU_ASSERT_EQUAL(fm_partial_remove(&p), 0);
		fm_partial_close(&p);
		CU_ASSERT_EQUAL_FATAL(fm_partial_open_random(dir, 7, &other), 0);
		CU_ASSERT_TRUE(i == 0 || write(other.fd, "content", 7) == 7);
		CU_ASSERT_EQUAL(fstat(other.fd, &moved), 0);
		CU_ASSERT_EQUAL(renameat(dir, other.name, dir, p.name), 0);
		reader = openat(dir, p.name, O_RDONLY);
		if (i == 1) {
			int fd = openat(dir, p.journal_name, O_CREAT | O_RDWR, 0600);

			head.ino = moved.st_ino;
			fm_journal_head_put(&head, bytes);
			CU_ASSERT_EQUAL(write(fd, bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
			close(fd);
		} else {
			fm_partial_close(&other);	/* so it is not locked */
		}
		if (i == 2)
			make(p.journal_name, "what no journal begins with");
		CU_ASSERT_EQUAL_FATAL(fm_partial_open(dir, "f", 0, &p), 0);
		CU_ASSERT_EQUAL(fstat(p.fd, &now), 0);
		CU_ASSERT_TRUE(now.st_ino != moved.st_ino && now.st_size == 0);
		fm_partial_close(&p);
		close(reader);
		if (i == 1)
			fm_partial_close(&other);
		end();
	}
}

static const struct fm_test tests[] = {
	{ "names are made and told apart", test_names },
	{ "a pair belongs to one until its last descriptor is closed", test_lock },
	{ "one without the other is emptied", test_halves },
	{ "what was replaced is not written to", test_replaced },
	{ "what was moved there is not written to", test_moved_here },
	{ "what is not ours is not touched", test_foreign },
	{ "a random name has no journal", test_random },
	{ "whatever fails, nothing is left", test_failures },
	{ "and what came before stays", test_look_fails },
};
FM_TEST_MAIN("partial", tests)
