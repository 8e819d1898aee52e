/* SPDX-License-Identifier: MIT */
/*
 * The n-th-failure loop over the journal. links: fm_journal
 *
 * Goal:   whatever call fails, there is one error with a text, no descriptor is left open, what the
 *         journal said
 * before it still says, in memory and in the file, and it can be used further. Method: fail the
 * n-th fault point, n = 1, 2, 3 ... until all goes without the fault: then every point has been
 * tried.
 */
#include "tests/unit/journal_fixture.h"

#include <signal.h>
#include <sys/resource.h>

#define POINTS_MAX 200
#define MANY 20000	/* entries of more than one block */

/* What is there before. */
static void prepare(int fd)
{
	struct fm_journal *j = open_journal(fd, &tree_opts);

	CU_ASSERT_EQUAL(append_one(j, piece("part", 100, 0, 10, 0x1)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("done", 50, 0, 50, 0x2)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("other", 70, 0, 30, 0x4)), 0);
	fm_journal_close(j);
}

/* New files of each kind, pieces of known ones, one that is complete by that, one that starts
 * anew. */
static int append_batch(struct fm_journal *j)
{
	const struct fm_journal_entry batch[] = {
		piece("part", 100, 20, 10, 0x10),  piece("part", 100, 30, 10, 0x20),
		piece("done", 51, 0, 1, 0x40),	   piece("done", 51, 40, 1, 0x80),
		piece("other", 70, 30, 40, 0x100), piece("n1", 1, 0, 1, 0),
		piece("n2", 1, 0, 1, 0),	   piece("n3", 1, 0, 1, 0),
		piece("n4", 2, 0, 1, 0),	   piece("n5", 1, 0, 1, 0),
		piece("n6", 1, 0, 1, 0),	   piece("n4", 2, 1, 1, 0),
	};

	fm_err_clear(&err);
	return fm_journal_append(j, batch, sizeof(batch) / sizeof(batch[0]), &err);
}

static bool is_before(struct fm_journal *j)
{
	return bytes_there(j, "part") == 10 && crc_there(j, "part") == 0x1 &&
	       bytes_there(j, "done") == 50 && crc_there(j, "done") == 0x2 &&
	       bytes_there(j, "other") == 30 && crc_there(j, "other") == 0x4 &&
	       bytes_there(j, "n1") == NEVER_KNOWN && bytes_there(j, "n6") == NEVER_KNOWN;
}

static bool is_after(struct fm_journal *j)
{
	return bytes_there(j, "part") == 30 && crc_there(j, "part") == 0x31 &&
	       bytes_there(j, "done") == 2 && crc_there(j, "done") == 0xc0 &&
	       bytes_there(j, "other") == 70 && crc_there(j, "other") == 0x104 &&
	       bytes_there(j, "n1") == 1 && bytes_there(j, "n4") == 2 && bytes_there(j, "n6") == 1;
}

static unsigned fds_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* An error is one, with a line for people. */
static void check_error(int ret)
{
	CU_ASSERT_TRUE(ret < 0);
	CU_ASSERT_EQUAL(ret, err.code);
	CU_ASSERT_TRUE(strlen(err.text) > 10);
}

/* Fail the n-th point of opening and appending. Whether it came to that. */
static bool fail_append(unsigned n)
{
	int fd = file_of("", 0), ret, ret_open;
	struct fm_journal *j = NULL;
	unsigned fds;
	bool has_fired;

	prepare(fd);
	fds = fds_open();
	fm_fault_arm(NULL, n);
	ret_open = try_open_env(fd, &tree_opts, &here, &j);
	ret = ret_open < 0 ? ret_open : append_batch(j);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(ret < 0, has_fired);
	if (ret < 0)
		check_error(ret);
	if (ret_open < 0) {
		CU_ASSERT_PTR_NULL(j);
		CU_ASSERT_EQUAL(fds_open(), fds);
		j = open_journal(fd, &tree_opts);
	}
	CU_ASSERT_TRUE(ret < 0 ? is_before(j) : is_after(j));
	/* it is the same from the file, and from the journal that had the error */
	if (n % 2 == 0) {
		fm_journal_close(j);
		j = open_journal(fd, &tree_opts);
		CU_ASSERT_TRUE(ret < 0 ? is_before(j) : is_after(j));
	}
	CU_ASSERT_EQUAL(append_batch(j), 0);
	CU_ASSERT_TRUE(is_after(j));
	fm_journal_close(j);
	j = open_journal(fd, &tree_opts);
	CU_ASSERT_PTR_NULL(why);
	CU_ASSERT_TRUE(is_after(j));
	fm_journal_close(j);
	CU_ASSERT_EQUAL(fds_open(), fds);
	close(fd);
	return has_fired;
}

static void test_each_failure(void)
{
	unsigned n = 1;

	while (n < POINTS_MAX && fail_append(n))
		n++;
	CU_ASSERT_TRUE(n > 15 && n < POINTS_MAX);
}

/* The first append of all, by the public functions: the head may be half written. */
static bool fail_first(unsigned n)
{
	int fd = file_of("", 0), ret;
	struct fm_journal *j;
	bool has_fired;
	uint64_t there;
	struct fm_journal_opts opts;

	fm_err_clear(&err);
	fm_fault_arm(NULL, n);
	ret = fm_journal_open(fcntl(fd, F_DUPFD_CLOEXEC, 0), &tree_opts, &j, &why, &err);
	if (ret == 0) {
		ret = append_one(j, piece("x", 9, 0, 9, 0));
		fm_journal_close(j);
	}
	if (ret == 0)
		ret = fm_journal_peek(fd, &opts, &there);
	else
		check_error(ret);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(ret < 0, has_fired);
	ret = fm_journal_peek(fd, &opts, &there);
	CU_ASSERT_TRUE(ret == 0 ? there == 9 : ret == -EBADMSG && file_len(fd) == 0);
	close(fd);
	return has_fired;
}

static void test_first_append(void)
{
	unsigned n = 1;

	while (n < POINTS_MAX && fail_first(n))
		n++;
	CU_ASSERT_TRUE(n > 10 && n < POINTS_MAX);
}

/* A journal that is not trusted cannot be emptied: it must not be used. */
static bool fail_emptying(unsigned n)
{
	struct fm_journal_opts other = tree_opts;
	int fd = file_of("", 0), ret;
	struct fm_journal *j;
	bool has_fired;

	prepare(fd);
	other.source.ino++;
	fm_fault_arm(NULL, n);
	ret = try_open_env(fd, &other, &here, &j);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(ret < 0, has_fired);
	if (ret < 0)
		check_error(ret);
	fm_journal_close(j);
	j = open_journal(fd, &other);
	CU_ASSERT_TRUE(fm_journal_is_empty(j));
	fm_journal_close(j);
	close(fd);
	return has_fired;
}

static void test_emptying(void)
{
	unsigned n = 1;

	while (n < POINTS_MAX && fail_emptying(n))
		n++;
	CU_ASSERT_TRUE(n > 4 && n < POINTS_MAX);
}

/* The disk takes the first block and not the second. */
static void test_later_block(void)
{
	static struct fm_journal_entry entries[MANY];
	static char paths[MANY][12];
	int fd = file_of("", 0);
	struct fm_journal *j;
	uint64_t len;

	prepare(fd);
	len = file_len(fd);
	j = open_journal(fd, &tree_opts);
	for (int i = 0; i < MANY; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%d", i);
		entries[i] = piece(paths[i], 7, 0, 7, 0);
	}
	fm_fault_arm("journal.write", 2);
	CU_ASSERT_EQUAL(fm_journal_append(j, entries, MANY, &err), -ENOSPC);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(is_before(j));
	CU_ASSERT_EQUAL(bytes_there(j, "0"), NEVER_KNOWN);
	CU_ASSERT_EQUAL(file_len(fd), len);
	CU_ASSERT_EQUAL(fm_journal_append(j, entries, MANY, &err), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "0"), 7);
	CU_ASSERT_EQUAL(bytes_there(j, "19999"), 7);
	fm_journal_close(j);
	close(fd);
}

static void limit_files(uint64_t len)
{
	struct rlimit limit;

	CU_ASSERT_EQUAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = len ? len : limit.rlim_max;
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A write that really stops in the middle, after whole records; and then not even cutting back
 * works. */
static void test_cutting_back(void)
{
	int fd = file_of("", 0);
	struct fm_journal *j;
	uint64_t len;

	prepare(fd);
	len = file_len(fd);
	j = open_journal(fd, &tree_opts);
	limit_files(len + 64 + 64 + 10);
	CU_ASSERT_EQUAL(append_batch(j), -EFBIG);
	CU_ASSERT_EQUAL(file_len(fd), len);
	fm_fault_arm("journal.cut", 1);
	CU_ASSERT_EQUAL(append_batch(j), -EFBIG);
	CU_ASSERT_TRUE(fm_fault_fired());
	limit_files(0);
	CU_ASSERT_EQUAL(file_len(fd), len + 64 + 64 + 10);
	CU_ASSERT_TRUE(is_before(j));
	/* Nothing can be appended before what is too much is gone: it would count again behind
	 * something short. */
	fm_fault_arm("journal.cut", 1);
	CU_ASSERT_EQUAL(append_one(j, piece("x", 1, 0, 1, 0)), -EIO);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(append_one(j, piece("x", 1, 0, 1, 0)), 0);
	CU_ASSERT_EQUAL(file_len(fd), len + 64);
	fm_journal_close(j);
	j = open_journal(fd, &tree_opts);
	CU_ASSERT_TRUE(is_before(j));
	CU_ASSERT_EQUAL(bytes_there(j, "x"), 1);
	fm_journal_close(j);
	close(fd);
}

/* Whether a sync was reached since the last arming. If so, it failed. */
static bool was_synced(void)
{
	bool has_fired = fm_fault_fired();

	fm_fault_arm("journal.sync", 1);
	return has_fired;
}

static void test_synced(void)
{
	struct fm_journal_opts opts = tree_opts;
	int fd = file_of("", 0);
	struct fm_journal *j;

	prepare(fd);
	j = open_journal(fd, &opts);
	fm_fault_arm("journal.sync", 1);
	CU_ASSERT_EQUAL(append_one(j, piece("part", 100, 0, 10, 0x1)), 0);	/* nothing new */
	CU_ASSERT_FALSE(was_synced());
	CU_ASSERT_EQUAL(append_batch(j), -EIO);
	CU_ASSERT_TRUE(was_synced());
	fm_journal_close(j);
	/* Appended without syncs from now on: that is on the disk before the first of them, and
	 * nothing is later. */
	opts.is_synced = false;
	j = open_journal(fd, &opts);
	CU_ASSERT_EQUAL(append_one(j, piece("new", 1, 0, 1, 0)), -EIO);
	CU_ASSERT_TRUE(was_synced());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(append_one(j, piece("new", 1, 0, 1, 0)), 0);
	fm_fault_arm("journal.sync", 1);
	CU_ASSERT_EQUAL(append_one(j, piece("newer", 1, 0, 1, 0)), 0);
	CU_ASSERT_FALSE(was_synced());
	fm_journal_close(j);
	/* Emptied for another source: on the disk at once, whatever the new one's durability. */
	opts.source.ino++;
	opts.is_synced = false;
	CU_ASSERT_EQUAL(try_open_env(fd, &opts, &here, &j), -EIO);
	CU_ASSERT_TRUE(was_synced());
	j = open_journal(fd, &opts);	/* it is empty now: there is nothing that could come back */
	CU_ASSERT_EQUAL(append_batch(j), 0);
	CU_ASSERT_FALSE(was_synced());
	fm_fault_arm(NULL, 0);
	fm_journal_close(j);
	close(fd);
}

static const struct fm_test tests[] = {
	{ "whatever fails, all of an append counts or nothing", test_each_failure },
	{ "whatever fails, there is a first record or an empty file", test_first_append },
	{ "whatever fails, what is not trusted stays so", test_emptying },
	{ "a synced journal is synced with each append, and when it is emptied", test_synced },
	{ "what was written of several blocks is cut off", test_later_block },
	{ "what cannot be cut off at once is cut off before the next append", test_cutting_back },
};

int main(void)
{
#ifndef FM_FAULTS
	fm_test_skip("built without fault points");
#endif
	(void)signal(SIGXFSZ, SIG_IGN);
	return fm_test_main("journal fault", tests, sizeof(tests) / sizeof(tests[0]));
}
