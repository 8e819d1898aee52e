/* SPDX-License-Identifier: MIT */
/* links: fm_base */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/log.h"
#include "tests/fm_test.h"

static char output[16384];

/*
 * Run body in a process of its own (how lines begin is decided once in each) and keep what it wrote
 * to standard error.
 */
static void capture(void (*body)(void))
{
	FILE *file = tmpfile();
	size_t len;
	pid_t pid;

	CU_ASSERT_PTR_NOT_NULL_FATAL(file);
	pid = fork();
	if (pid == 0) {
		unsetenv("JOURNAL_STREAM");
		dup2(fileno(file), STDERR_FILENO);
		body();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	rewind(file);
	len = fread(output, 1, sizeof(output) - 1, file);
	output[len] = '\0';
	fclose(file);
}

/* What follows the time in the only line of the output. */
static const char *text_of_line(void)
{
	const char *word = strchr(output, ' ');
	size_t len = strlen(output);

	CU_ASSERT_TRUE(len > 0 && strchr(output, '\n') == output + len - 1);
	return word ? word + 1 : "";
}

static void say_hello(void)
{
	fm_log_warn("hello %d", 7);
}

static void test_line(void)
{
	struct tm tm = { 0 };

	capture(say_hello);
	CU_ASSERT_STRING_EQUAL(text_of_line(), "warning: hello 7\n");
	CU_ASSERT_PTR_NOT_NULL(strptime(output, "%Y-%m-%dT%H:%M:%S.", &tm));
}

static void set_journal(int fd)
{
	char text[64];
	struct stat st;

	fstat(fd, &st);
	snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", text, 1);
}

static void say_to_journal(void)
{
	set_journal(STDERR_FILENO);
	fm_log_set_level(FM_LOG_DEBUG);
	fm_log_error("e");
	fm_log_warn("w");
	fm_log_info("i");
	fm_log_debug("d");
}

static void test_journal(void)
{
	capture(say_to_journal);
	CU_ASSERT_STRING_EQUAL(output, "<3>e\n<4>w\n<6>i\n<7>d\n");
}

static void say_with_foreign_journal(void)
{
	set_journal(STDOUT_FILENO);
	fm_log_info("i");
}

static void test_foreign_journal(void)
{
	capture(say_with_foreign_journal);
	CU_ASSERT_STRING_EQUAL(text_of_line(), "info: i\n");
}

static void say_of_jobs(void)
{
	struct fm_log_limit limit = {.most = 3};

	fm_log_job(&limit, 1, FM_LOG_DEBUG, "abcd2345", "not shown, and not counted");
	fm_log_job(&limit, 1, FM_LOG_INFO, "abcd2345", "a\nb %d", 7);
	fm_log_job(&limit, 1, FM_LOG_INFO, "", "none");
	fm_log_job(&limit, 1, FM_LOG_WARN, "efgh2345", "%01200d", 0);
	fm_log_job(&limit, 1, FM_LOG_INFO, "abcd2345", "too many");
	fm_log_job(NULL, 0, FM_LOG_WARN, "ijkl2345", "its file is none");
	fm_log_of_job("mnop2345");
	fm_log_warn("of the thread's");
	fm_log_job(NULL, 0, FM_LOG_WARN, "qrst2345", "of another");
	fm_log_of_job(NULL);
	fm_log_warn("of none");
}

static void test_jobs(void)
{
	const char *lines[4] = {output};

	capture(say_of_jobs);
	for (unsigned i = 1; i < 4; i++) {
		lines[i] = strchr(lines[i - 1], '\n');
		CU_ASSERT_PTR_NOT_NULL_FATAL(lines[i]);
		lines[i]++;
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[0], "info: job abcd2345: a\\x0ab 7\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[1], "info: none\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[2], "warning: job efgh2345: 000"));
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[2], "000...\n"));
	CU_ASSERT_PTR_NULL(strstr(output, "not shown"));
	CU_ASSERT_PTR_NULL(strstr(output, "too many"));
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[3], "warning: job ijkl2345: its file is none\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[3], "warning: job mnop2345: of the thread's\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[3], "warning: job qrst2345: of another\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[3], "warning: of none\n"));
}

static void say_all_levels(void)
{
	fm_log_debug("not shown");
	fm_log_set_level(FM_LOG_ERROR);
	fm_log_warn("not shown");
	fm_log_error("shown");
}

static void test_levels(void)
{
	capture(say_all_levels);
	CU_ASSERT_STRING_EQUAL(text_of_line(), "error: shown\n");
}

static void test_level_names(void)
{
	CU_ASSERT_EQUAL(fm_log_level_named("error"), FM_LOG_ERROR);
	CU_ASSERT_EQUAL(fm_log_level_named("debug"), FM_LOG_DEBUG);
	CU_ASSERT_EQUAL(fm_log_level_named("loud"), -1);
	CU_ASSERT_EQUAL(fm_log_level_named(""), -1);
	CU_ASSERT_PTR_NULL(fm_log_level_names[FM_LOG_DEBUG + 1]);
}

static void say_hostile(void)
{
	fm_log_info("a\nb\rc\td\x1b[2Je\x7f" "f\\g");
}

static void test_controls(void)
{
	capture(say_hostile);
	CU_ASSERT_STRING_EQUAL(text_of_line(), "info: a\\x0ab\\x0dc\\x09d\\x1b[2Je\\x7ff\\g\n");
}

static void say_utf8(void)
{
	/* e acute, euro sign, an emoji; then: U+009B, a lone continuation, overlong, a surrogate,
	 * cut short. */
	fm_log_info("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80|\xc2\x9b|\x9b|\xc0\xaf|\xed\xa0\x80|"
		    "\xe2\x82");
}

static void test_utf8(void)
{
	capture(say_utf8);
	CU_ASSERT_STRING_EQUAL(
		text_of_line(),
		"info: \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80|\\xc2\\x9b|\\x9b|\\xc0\\xaf|"
		"\\xed\\xa0\\x80|\\xe2\\x82\n");
}

static void say_much(void)
{
	char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fm_log_info("%s", text);
}

static void say_much_escaped(void)
{
	char text[5000];

	memset(text, '\n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fm_log_info("%s", text);
}

static void test_long(void)
{
	capture(say_much);
	CU_ASSERT_STRING_EQUAL(text_of_line() + strlen(text_of_line()) - 5, "x...\n");
	capture(say_much_escaped);
	CU_ASSERT_STRING_EQUAL(text_of_line() + strlen(text_of_line()) - 6, "0a...\n");
}

static void keep_errno(void)
{
	errno = ENOSPC;
	close(STDERR_FILENO);
	fm_log_info("nobody reads this");
	_exit(errno == ENOSPC ? 5 : 6);
}

static void test_errno(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		keep_errno();
	waitpid(pid, &status, 0);
	CU_ASSERT_TRUE(WIFEXITED(status));
	CU_ASSERT_EQUAL(WEXITSTATUS(status), 5);
}

/* A thousand lines within a minute, then one behind it. */
static void say_often(void)
{
	struct fm_log_limit limit = { 0 };
	unsigned said = 0;

	for (uint64_t i = 0; i < 1000; i++)
		said += fm_log_may(&limit, FM_NS_PER_S * 1000 + i * FM_NS_PER_MS);
	fm_log_set_level(said == 20 ? FM_LOG_WARN : FM_LOG_ERROR);
	/* Of two threads one may have looked at the clock before the other one began the minute. */
	(void)fm_log_may(&limit, FM_NS_PER_S * 999);
	if (!fm_log_may(&limit, FM_NS_PER_S * 1062))
		fm_log_error("not after a minute?");
}

static unsigned said_of(struct fm_log_users *users, uid_t uid, uint64_t now_ns, unsigned times)
{
	unsigned said = 0;

	for (unsigned i = 0; i < times; i++)
		said += fm_log_may(fm_log_of_user(users, uid, now_ns), now_ns);
	return said;
}

/*
 * Goal: no user leaves out lines of another, though users come without end; those for whom there is
 * no place share one, and a place is free again a minute later.
 */
static void test_limit_of_users(void)
{
	static struct fm_log_users users = { .most = 5 };
	const uint64_t now_ns = FM_NS_PER_S * 1000;

	fm_log_set_level(FM_LOG_ERROR);
	for (uid_t uid = 0; uid < FM_LOG_USERS; uid++)
		CU_ASSERT_EQUAL(said_of(&users, uid, now_ns, 9), 5);
	CU_ASSERT_EQUAL(said_of(&users, 1000, now_ns, 3), 3);
	CU_ASSERT_EQUAL(said_of(&users, 1001, now_ns, 3), 2);
	CU_ASSERT_EQUAL(said_of(&users, 7, now_ns + FM_NS_PER_S * 59, 9), 0);
	CU_ASSERT_EQUAL(said_of(&users, 7, now_ns + FM_NS_PER_S * 61, 1), 1);
	CU_ASSERT_EQUAL(said_of(&users, 1001, now_ns + FM_NS_PER_S * 61, 9), 5);
	CU_ASSERT_EQUAL(said_of(&users, 7, now_ns + FM_NS_PER_S * 61, 9), 4);
	fm_log_set_level(FM_LOG_INFO);
}

/* Goal: what others can cause as often as they like fills no log, and what was left out is said. */
static void test_limit(void)
{
	capture(say_often);
	CU_ASSERT_STRING_EQUAL(text_of_line(), "warning: and 981 more like it\n");
}

/* Nothing more fits into it. */
static void fill_up(int fd)
{
	static const char much[4096];
	int flags = fcntl(fd, F_GETFL);

	(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, much, sizeof(much)) > 0 || write(fd, much, 1) > 0)
		;
	(void)fcntl(fd, F_SETFL, flags);
}

static void drain(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (poll(&p, 1, 0) > 0 && read(fd, output, sizeof(output)) > 0)
		;
	output[0] = '\0';
}

/* Three lines, and one more when it is told that the log is read again. */
static void say_to(int log, int told)
{
	char go;

	unsetenv("JOURNAL_STREAM");
	dup2(log, STDERR_FILENO);
	alarm(FM_TEST_HANG_S);		/* for one who waits for whoever reads the log */
	for (unsigned i = 0; i < 3; i++)
		fm_log_error("lost");
	(void)!write(told, "", 1);
	(void)!read(told, &go, 1);
	fm_log_error("read again");
	_exit(0);
}

static void check_unread(const int log[2])
{
	int told[2], status = -1;
	char done = 1;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, told), 0);
	fill_up(log[1]);
	pid = fork();
	if (pid == 0) {
		close(told[0]);
		say_to(log[1], told[1]);
	}
	close(told[1]);
	CU_ASSERT_EQUAL(read(told[0], &done, 1), 1);
	drain(log[0]);
	(void)send(told[0], "", 1, MSG_NOSIGNAL);
	waitpid(pid, &status, 0);
	CU_ASSERT_EQUAL(status, 0);
	close(log[1]);
	for (size_t len = 0; len < sizeof(output) - 1;) {
		ssize_t ret = read(log[0], output + len, sizeof(output) - 1 - len);

		if (ret <= 0)
			break;
		output[len += (size_t)ret] = '\0';
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(output, "error: 3 lines before this one were lost"));
	CU_ASSERT_PTR_NOT_NULL(strstr(output, "error: read again\n"));
	CU_ASSERT_PTR_NULL(strstr(output, "error: lost\n"));
	close(log[0]);
	close(told[0]);
}

/* Goal: who reads the log may stand still, and nobody who says something waits for him. What had no
 * room is counted. */
static void test_unread(void)
{
	int log[2];

	CU_ASSERT_EQUAL_FATAL(pipe(log), 0);
	check_unread(log);
	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, log), 0);
	check_unread(log);
}

static const struct fm_test tests[] = {
	{"nobody waits for who reads the log, and lines that are lost are counted", test_unread},
	{"lines that others cause are so many a minute", test_limit},
	{"lines that a user causes are so many a minute, too", test_limit_of_users},
	{"a line has its time, its level and its text", test_line},
	{"under the journal a line has its priority instead of a time", test_journal},
	{"an inherited JOURNAL_STREAM of another descriptor is not believed", test_foreign_journal},
	{"a line of a job has its id before it, escaped and bounded as any", test_jobs},
	{"what is above the level is not shown", test_levels},
	{"levels have names", test_level_names},
	{"control characters from outside cannot break or forge a line", test_controls},
	{"UTF-8 is shown, what is not UTF-8 or a control is escaped", test_utf8},
	{"a text that is too long is cut and still one line", test_long},
	{"logging keeps errno, and survives a closed standard error", test_errno},
};
FM_TEST_MAIN("log", tests)
