/* SPDX-License-Identifier: MIT */
/* links: fm_cli */
/*
 * Goal:   a program that the daemon refuses hears why, in the daemon's words, whenever it asks; and
 *         is asked whether to ask again if, and only if, a place was missing.
 * Method: a daemon of our own that says the refusal and closes: before the request, behind it
 * without reading it, and without a word; then others that answer the third time, refuse for
 * another reason, or never answer. A clock that goes on whenever it is looked at lets a limit run
 * out between any two looks.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/fmove.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

static const char refusal[] =
	"{\"event\":\"error\",\"id\":null,\"code\":\"EBUSY\",\"exit\":6,\"text\":\"too many "
	"connections\"}";

enum when { BEFORE, BEHIND, SILENT };

static bool goes_by_looks;	/* the clock: a millisecond for each look at it */

/* Instead of the library's. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
	static long looks;

	if (!goes_by_looks)
		return (int)syscall(SYS_clock_gettime, clock, out);
	looks++;
	*out = (struct timespec){.tv_sec = 1000 + looks / 1000, .tv_nsec = looks % 1000 * 1000000};
	return 0;
}

static int listen_at(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)unlink(path);
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(fd, 1), 0);
	return fd;
}

static void refuse(int listener, enum when when)
{
	int fd = accept(listener, NULL, NULL);
	struct pollfd request = {.fd = fd, .events = POLLIN};

	if (when == BEHIND)
		(void)poll(&request, 1, -1);
	if (when != SILENT)
		(void)!write(fd, refusal, strlen(refusal));
	(void)close(fd);
}

static int refuse_beside(int listener, enum when when)
{
	int child = fork();

	if (child == 0) {
		refuse(listener, when);
		_exit(0);
	}
	return child;
}

static void hears(enum when when, int code, const char *text)
{
	char path[64];
	struct fmove_error err = {0};
	struct fmove *c;
	char *status;
	int fd, child;

	(void)snprintf(path, sizeof(path), "/tmp/fm-refused.%d", (int)getpid());
	fd = listen_at(path);
	CU_ASSERT_EQUAL_FATAL(fmove_connect(path, &c, &err), 0);
	child = refuse_beside(fd, when);
	if (when != BEHIND)
		(void)waitpid(child, NULL, 0);
	if (when == SILENT)	/* the one that is made anew, too */
		child = refuse_beside(fd, when);
	CU_ASSERT_EQUAL(fmove_status(c, &status, &err), code);
	CU_ASSERT_EQUAL(err.code, code);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, text));
	if (when != BEFORE)
		(void)waitpid(child, NULL, 0);
	fmove_close(c);
	(void)close(fd);
	(void)unlink(path);
}

static void test_before_it_asked(void)
{
	hears(BEFORE, -EBUSY, "too many connections");
}

static void test_behind_its_request(void)
{
	hears(BEHIND, -EBUSY, "too many connections");
}

static void test_without_a_word(void)
{
	hears(SILENT, -ECONNRESET, "stopped or restarted");
}

/* ---- asking again ---- */

#define FULL                                                                                       \
	"{\"event\":\"error\",\"id\":null,\"code\":\"EBUSY\",\"exit\":1,\"full\":true,\"text\":"   \
	"\"all are taken\"}"
#define IN_USE                                                                                     \
	"{\"event\":\"error\",\"id\":1,\"code\":\"EBUSY\",\"exit\":1,\"full\":false,\"text\":"     \
	"\"it is in use\"}"
#define DONE "{\"event\":\"done\",\"id\":1}"

struct again {
	char path[64];
	int listener, child;
	struct fmove *c;
	struct fmove_error err;
	unsigned asked, most;		/* how often we were asked; how often we say yes */
	useconds_t pause_us;
};

/* One connection for each answer, which comes behind the request. One that says it has no limit
 * gets another. */
static void answer_each(int listener, const char *const *answers)
{
	char request[1024];

	for (; *answers; answers++) {
		int fd = accept(listener, NULL, NULL);
		ssize_t len = read(fd, request, sizeof(request) - 1);
		const char *answer = *answers;

		request[len > 0 ? len : 0] = '\0';
		if (strstr(request, "\"timeout_ms\":0"))
			answer = IN_USE;
		(void)!write(fd, answer, strlen(answer));
		(void)close(fd);
	}
}

static bool ask_again(void *ctx, const struct fmove_error *why, unsigned refused, uint64_t left_ms)
{
	struct again *a = ctx;

	a->asked++;
	CU_ASSERT_EQUAL(refused, a->asked);
	CU_ASSERT_TRUE(why->is_full && why->code == -EBUSY && strstr(why->text, "all are taken"));
	CU_ASSERT_TRUE(left_ms > 0);
	(void)usleep(a->pause_us);
	return a->asked <= a->most;
}

static void again_up(struct again *a, unsigned most, const char *const *answers)
{
	*a = (struct again){ .most = most };
	(void)snprintf(a->path, sizeof(a->path), "/tmp/fm-again.%d", (int)getpid());
	a->listener = listen_at(a->path);
	a->child = fork();
	if (a->child == 0) {
		answer_each(a->listener, answers);
		_exit(0);
	}
	CU_ASSERT_EQUAL_FATAL(fmove_connect(a->path, &a->c, &a->err), 0);
	fmove_set_again(a->c, ask_again, a);
}

static void again_down(struct again *a)
{
	fmove_close(a->c);
	(void)kill(a->child, SIGKILL);
	(void)waitpid(a->child, NULL, 0);
	(void)close(a->listener);
	(void)unlink(a->path);
}

static void test_until_it_is_taken(void)
{
	static const char *const answers[] = { FULL, FULL, DONE, NULL };
	struct again a;
	char *status;

	again_up(&a, 10, answers);
	CU_ASSERT_EQUAL_FATAL(fmove_status(a.c, &status, &a.err), 0);
	CU_ASSERT_EQUAL(a.asked, 2);
	free(status);
	again_down(&a);
}

static void test_another_reason_is_no_reason_to_wait(void)
{
	static const char *const answers[] = { IN_USE, DONE, NULL };
	struct again a;
	char *status;

	again_up(&a, 10, answers);
	CU_ASSERT_EQUAL(fmove_status(a.c, &status, &a.err), -EBUSY);
	CU_ASSERT_FALSE(a.err.is_full);
	CU_ASSERT_STRING_EQUAL(a.err.text, "it is in use");
	CU_ASSERT_EQUAL(a.asked, 0);
	again_down(&a);
}

static void test_until_there_is_no_more_patience(void)
{
	static const char *const answers[] = { FULL, FULL, FULL, NULL };
	struct again a;
	char *status;

	again_up(&a, 1, answers);
	CU_ASSERT_EQUAL(fmove_status(a.c, &status, &a.err), -EBUSY);
	CU_ASSERT_TRUE(a.err.is_full);
	CU_ASSERT_EQUAL(a.asked, 2);
	fmove_set_again(a.c, NULL, NULL);
	/* over a connection of its own */
	CU_ASSERT_EQUAL(fmove_status(a.c, &status, NULL), -EBUSY);
	CU_ASSERT_EQUAL(a.asked, 2);
	again_down(&a);
}

static void test_until_the_timeout(void)
{
	static const char *const answers[] = { FULL, DONE, NULL };
	static const struct fmove_name name = { "n2", "s", "f" };
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct again a;

	again_up(&a, 10, answers);
	a.pause_us = 20000;
	fmove_set_timeout(a.c, 10);
	CU_ASSERT_EQUAL(fmove_stat(a.c, &name, &entry, &a.err), -ETIMEDOUT);
	CU_ASSERT_EQUAL(a.err.exit, 4);
	CU_ASSERT_FALSE(a.err.is_full);
	CU_ASSERT_PTR_NOT_NULL(strstr(a.err.text, "all are taken"));
	again_down(&a);
}

/*
 * Goal:   a limit that runs out just before it is asked again does not become 0, which means no
 *         limit to the daemon.
 * Method: limits of so many looks at the clock that the last of each is another one.
 */
static void test_a_limit_stays_one(void)
{
	static const char *const answers[] = {FULL, FULL, FULL, FULL, FULL, FULL, FULL, FULL, NULL};
	static const struct fmove_name name = { "n2", "s", "f" };
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct again a;

	for (unsigned ms = 1; ms <= 12; ms++) {
		again_up(&a, UINT_MAX, answers);
		fmove_set_timeout(a.c, ms);
		goes_by_looks = true;
		CU_ASSERT_EQUAL(fmove_stat(a.c, &name, &entry, &a.err), -ETIMEDOUT);
		goes_by_looks = false;
		again_down(&a);
	}
}

/* Of many names it takes long, and whoever asked is not to be told that it failed while it goes
 * on. */
static void test_a_removal_of_many_names_has_its_time(void)
{
	static const struct fmove_name name = { "n2", "s", "d" };
	char request[1024] = "";
	struct again a = { .most = 0 };
	int listener, fds[2];
	ssize_t len;

	(void)snprintf(a.path, sizeof(a.path), "/tmp/fm-remove.%d", (int)getpid());
	listener = listen_at(a.path);
	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	a.child = fork();
	if (a.child == 0) {
		int fd = accept(listener, NULL, NULL);

		len = read(fd, request, sizeof(request) - 1);
		(void)!write(fds[1], request, len > 0 ? (size_t)len : 0);
		(void)!write(fd, DONE, strlen(DONE));
		_exit(0);
	}
	CU_ASSERT_EQUAL_FATAL(fmove_connect(a.path, &a.c, &a.err), 0);
	CU_ASSERT_EQUAL(fmove_remove(a.c, &name, true, &a.err), 0);
	len = read(fds[0], request, sizeof(request) - 1);
	request[len > 0 ? len : 0] = '\0';
	CU_ASSERT_PTR_NOT_NULL(strstr(request, "\"timeout_ms\":3600000"));
	a.listener = listener;
	(void)close(fds[0]);
	(void)close(fds[1]);
	again_down(&a);
}

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static void write_at(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	CU_ASSERT_EQUAL_FATAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

/* A cache of Hugging Face's with one snapshot of one file. */
static int hub_up(char *dir)
{
	static const char *const dirs[] = {"models--me--m", "models--me--m/refs",
					   "models--me--m/blobs", "models--me--m/snapshots",
					   "models--me--m/snapshots/" COMMIT};
	int hub;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	hub = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		CU_ASSERT_EQUAL_FATAL(mkdirat(hub, dirs[i], 0755), 0);
	write_at(hub, "models--me--m/refs/main", COMMIT);
	write_at(hub, "models--me--m/blobs/b", "of me");
	CU_ASSERT_EQUAL_FATAL(symlinkat("../../blobs/b", hub,
					"models--me--m/snapshots/" COMMIT "/config.json"),
			      0);
	return hub;
}

/*
 * Goal:   descriptors go with each request: those of the one that was refused are closed.
 * Method: fewer than are passed, or none, would end the second request with EBADF.
 */
static void test_an_own_cache_is_passed_again(void)
{
	static const char third[] = "{\"event\":\"done\",\"id\":3}";	/* a request of its own */
	static const char *const answers[] = {FULL, FULL, third, NULL};
	struct fmove_dataset dataset = {.struct_size = sizeof(dataset)};
	char dir[] = "/tmp/fm-hub.XXXXXX", home[FMOVE_PATH_MAX + 1];
	bool is_fetched;
	struct again a;
	int hub = hub_up(dir);

	again_up(&a, 10, answers);
	CU_ASSERT_EQUAL(fmove_stage_own(a.c, hub, "models--me--m", "main", NULL, &dataset, home,
					&is_fetched, &a.err),
			0);
	CU_ASSERT_EQUAL(a.asked, 2);
	again_down(&a);
	(void)close(hub);
	remove_all(dir);
}

static const struct fm_test tests[] = {
	{"the refusal came before the request", test_before_it_asked},
	{"the refusal came behind the request, which nobody read", test_behind_its_request},
	{"nothing was said", test_without_a_word},
	{"what finds no place is asked again until it is taken", test_until_it_is_taken},
	{"what is busy for another reason is not asked again",
	 test_another_reason_is_no_reason_to_wait},
	{"it is asked again as long as the caller wants", test_until_there_is_no_more_patience},
	{"it is asked again no longer than its timeout", test_until_the_timeout},
	{"a limit that runs out on the way stays a limit", test_a_limit_stays_one},
	{"what is passed is passed again", test_an_own_cache_is_passed_again},
	{"a removal of many names has its time", test_a_removal_of_many_names_has_its_time},
};
FM_TEST_MAIN("refused", tests)
