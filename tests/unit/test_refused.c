/* SPDX-License-Identifier: MIT */
/* links: fm_client */
/*
 * Goal:   a program that the daemon refuses hears why, in the daemon's words, whenever it asks.
 * Method: a daemon of our own that says the refusal and closes: before the request, behind it without reading it, and
 * without a word.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/fmove.h"
#include "tests/fm_test.h"

static const char refusal[] =
	"{\"event\":\"error\",\"id\":null,\"code\":\"EBUSY\",\"exit\":6,\"text\":\"too many connections\"}";

enum when { BEFORE, BEHIND, SILENT };

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
	child = fork();
	if (child == 0) {
		refuse(fd, when);
		_exit(0);
	}
	if (when != BEHIND)
		(void)waitpid(child, NULL, 0);
	CU_ASSERT_EQUAL(fmove_status(c, &status, &err), code);
	CU_ASSERT_EQUAL(err.code, code);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, text));
	if (when == BEHIND)
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

static const struct fm_test tests[] = {
	{"the refusal came before the request", test_before_it_asked},
	{"the refusal came behind the request, which nobody read", test_behind_its_request},
	{"nothing was said", test_without_a_word},
};
FM_TEST_MAIN("refused", tests)
