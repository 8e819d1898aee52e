/* SPDX-License-Identifier: MIT */
/*
 * peer_book: what peers said of their addresses comes back after a restart, and of a file that a
 * stranger wrote comes nothing.
 *
 * links: fm_config
 */
#include "mover/daemon/peer_book.c"	/* of the daemon, which is no library */

#include "mover/base/env.h"
#include "mover/base/loop.h"
#include "tests/fm_test.h"

static char state[] = "/tmp/fm-peer-book.XXXXXX";
static char path[PATH_MAX];
static const uint8_t key[FM_KEY_LEN] = { 1, 2, 3 }, other_key[FM_KEY_LEN] = { 4 };
static const struct fm_endpoint here[] = { { "10.1.0.2", 7471 }, { "fd00::2", 65535 } };
static struct fm_endpoint out[FM_PEER_ADDRS_MAX];
static struct fm_loop *loop;
static struct fm_worker *worker;
static struct fm_peer_book *book;
static uint64_t moved_ns;

static uint64_t clock_now(void *ctx)
{
	(void)ctx;
	return FM_NS_PER_S + moved_ns;
}

static const struct fm_clock test_clock = { .now_ns = clock_now };

/* Time goes on only in wait_written(). */
static void begin(void)
{
	struct fm_loop_opts opts = { .is_simulated = true, .clock = &test_clock };

	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(0, &worker, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_peer_book_new(state, worker, loop, &book, NULL), 0);
}

static void end(void)
{
	fm_peer_book_stop(book);
	fm_worker_free(worker);
	while (fm_loop_step(loop, 0))
		;
	fm_peer_book_free(book);
	fm_loop_free(loop);
}

static void tell(const struct fm_endpoint *learned, unsigned count)
{
	const struct fm_peer_keeper *keeper = fm_peer_book_keeper(book);

	keeper->told(keeper->ctx, "n2", key, learned, count);
}

static void spin(void)
{
	while (fm_loop_step(loop, 0))
		;
}

static void wait_written(void)
{
	spin();
	for (unsigned i = 0; i < 100 && !fm_list_is_empty(&book->pages); i++) {
		moved_ns += FM_NS_PER_S / 10;
		spin();
	}
	CU_ASSERT_TRUE_FATAL(fm_list_is_empty(&book->pages));
}

static unsigned count_read(void)
{
	return fm_peer_book_read(book, "n2", key, out);
}

/* n2's file says this, which need not end with a zero. */
static void put(const char *text, size_t len)
{
	FILE *f = fopen(path, "we");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fwrite(text, 1, len, f), len);
	CU_ASSERT_EQUAL(fclose(f), 0);
}

static unsigned count_of(const char *lines)
{
	char text[4096], key_text[FM_VALUE_KEY_TEXT_MAX];

	fm_value_key_print(key, key_text);
	(void)snprintf(text, sizeof(text), "%s\n%s", key_text, lines);
	put(text, strlen(text));
	return count_read();
}

static void test_comes_back(void)
{
	begin();
	CU_ASSERT_EQUAL(count_read(), 0);
	tell(here, 2);
	wait_written();
	end();
	begin();
	CU_ASSERT_EQUAL_FATAL(count_read(), 2);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_STRING_EQUAL(out[i].host, here[i].host);
		CU_ASSERT_EQUAL(out[i].port, here[i].port);
	}
	CU_ASSERT_EQUAL(fm_peer_book_read(book, "n2", other_key, out), 0);
	CU_ASSERT_EQUAL(fm_peer_book_read(book, "n3", key, out), 0);
	CU_ASSERT_EQUAL(fm_peer_book_read(NULL, "n2", key, out), 0);
	tell(NULL, 0);
	wait_written();
	CU_ASSERT_EQUAL(count_read(), 0);
	end();
}

/* However often a peer says something else: one page is being written, and one waits, for a moment
 * in which none is. */
static void test_told_often(void)
{
	begin();
	tell(here, 1);
	spin();
	CU_ASSERT_EQUAL(count_read(), 1);
	tell(here, 2);
	spin();
	CU_ASSERT_EQUAL(count_read(), 1);
	wait_written();
	CU_ASSERT_EQUAL(count_read(), 2);
	for (unsigned i = 0; i < 1000; i++) {
		unsigned waiting = 0;

		tell(&here[i % 2], 1);
		fm_list_each(at, next, &book->pages)
			waiting += at != NULL;
		CU_ASSERT_TRUE(waiting <= 2);
	}
	wait_written();
	CU_ASSERT_EQUAL_FATAL(count_read(), 1);
	CU_ASSERT_STRING_EQUAL(out[0].host, "fd00::2");
	tell(here, 2);
	tell(here, 1);	/* the end finds both */
	end();
}

/* What the longest says fits what is read. */
static void test_longest(void)
{
	struct fm_endpoint all[FM_PEER_ADDRS_MAX];

	begin();
	for (unsigned i = 0; i < FM_PEER_ADDRS_MAX; i++) {
		(void)snprintf(all[i].host, sizeof(all[i].host),
			       "fd00:1111:2222:3333:4444:5555:6666:%x", 0x7770 + i);
		all[i].port = 65535;
	}
	tell(all, FM_PEER_ADDRS_MAX);
	wait_written();
	CU_ASSERT_EQUAL(count_read(), FM_PEER_ADDRS_MAX);
	CU_ASSERT_STRING_EQUAL(out[FM_PEER_ADDRS_MAX - 1].host, all[FM_PEER_ADDRS_MAX - 1].host);
	end();
}

/* What stands before the first bad line is taken, nothing behind it. */
static void test_bad_lines(void)
{
	static const char *const bad[] = {
		"10.1.0.3",	"10.1.0.3:",
		"10.1.0.3:0",	"10.1.0.3:65536",
		"10.1.0.3:-1",	"10.1.0.3:80x",
		"10.1.0.3 :80", "there.example:80",
		":80",		"",
		"[10.1.0.3:80", "fd00::3:80x",
	};
	char lines[256];

	begin();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)snprintf(lines, sizeof(lines), "10.1.0.2:80\n%s\n10.1.0.4:80\n", bad[i]);
		CU_ASSERT_EQUAL(count_of(lines), 1);
	}
	(void)snprintf(lines, sizeof(lines), "10.1.0.2:80\n%*s10.1.0.3:80\n10.1.0.4:80\n",
		       LINE_MAX_BYTES, "");
	CU_ASSERT_EQUAL(count_of(lines), 1);
	/* cut off: the port may have been another one */
	CU_ASSERT_EQUAL(count_of("10.1.0.2:80\n10.1.0.3:8"), 1);
	end();
}

static void test_bad_files(void)
{
	char many[4096] = "";

	begin();
	for (unsigned i = 0; i < 2 * FM_PEER_ADDRS_MAX; i++)
		(void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "10.1.0.%u:80\n",
			       i);
	CU_ASSERT_EQUAL(count_of(many), FM_PEER_ADDRS_MAX);
	memset(many, '\n', sizeof(many) - 1);
	memcpy(many, "10.1.0.2:80", 11);
	CU_ASSERT_EQUAL(count_of(many), 0);	/* longer than we write any */
	put("", 0);
	CU_ASSERT_EQUAL(count_read(), 0);
	put("10.1.0.2:80\n", 12);
	CU_ASSERT_EQUAL(count_read(), 0);
	put("\0\0\0\n", 4);
	CU_ASSERT_EQUAL(count_read(), 0);
	end();
}

/* None of these is read, or waited for. */
static void test_no_plain_file_of_ours(void)
{
	char elsewhere[PATH_MAX];

	begin();
	CU_ASSERT_EQUAL(count_of("10.1.0.2:80\n"), 1);
	if (geteuid() == 0) {
		CU_ASSERT_EQUAL(chown(path, 65534, 65534), 0);
		CU_ASSERT_EQUAL(count_read(), 0);
	}
	(void)snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", state);
	CU_ASSERT_EQUAL_FATAL(rename(path, elsewhere), 0);
	CU_ASSERT_EQUAL(chown(elsewhere, geteuid(), getegid()), 0);
	CU_ASSERT_EQUAL_FATAL(symlink(elsewhere, path), 0);
	CU_ASSERT_EQUAL(count_read(), 0);
	CU_ASSERT_EQUAL_FATAL(unlink(path), 0);
	CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
	CU_ASSERT_EQUAL(count_read(), 0);
	CU_ASSERT_EQUAL_FATAL(unlink(path), 0);
	CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
	CU_ASSERT_EQUAL(count_read(), 0);
	/* Nor can it be written: that is said in the log, and harms nothing. */
	tell(here, 2);
	wait_written();
	CU_ASSERT_EQUAL(rmdir(path), 0);
	CU_ASSERT_EQUAL(unlink(elsewhere), 0);
	end();
}

static const struct fm_test tests[] = {
	{ "what was told comes back, to that peer with that key alone", test_comes_back },
	{ "a peer that says something else all the time has one page waiting", test_told_often },
	{ "as many and as long as there can be", test_longest },
	{ "bad lines, and what follows them", test_bad_lines },
	{ "too many, too long, none, no key, no text", test_bad_files },
	{ "links, pipes, directories, other people's files", test_no_plain_file_of_ours },
};

int main(void)
{
	int ret;

	if (!mkdtemp(state))
		return 1;
	(void)snprintf(path, sizeof(path), "%s/peers/n2", state);
	ret = fm_test_main("peer_book", tests, sizeof(tests) / sizeof(tests[0]));
	(void)unlink(path);
	*strrchr(path, '/') = '\0';
	(void)rmdir(path);
	(void)rmdir(state);
	return ret;
}
