/* SPDX-License-Identifier: MIT */
/* links: fm_cli */
/*
 * Goal:   what is tried again after a daemon went away begins with nothing of the try before it,
 *         and touches nothing that was there before the call.
 * Method: a daemon of our own that writes into the file that it is passed and goes away; the next
 *         one looks what is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/fmove.h"
#include "tests/fm_test.h"

#define PART  "a part"
#define WHOLE "all of it"

static char path[64];

/* Reads a request. Returns the descriptor that came with it, or -1, and the request's number. */
static int read_request(int fd, unsigned long *id)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char buf[4096];
	struct iovec part = {.iov_base = buf, .iov_len = sizeof(buf) - 1};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = len > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	const char *number;
	int passed = -1;

	buf[len > 0 ? len : 0] = '\0';
	number = strstr(buf, "\"id\":");
	*id = number ? strtoul(number + 5, NULL, 10) : 0;
	if (c)
		memcpy(&passed, CMSG_DATA(c), sizeof(int));
	return passed;
}

/* As a daemon does: only into an empty file. */
static void answer(int fd, unsigned long id, int target)
{
	char text[128];
	struct stat st;

	if (fstat(target, &st) == 0 && st.st_size == 0 &&
	    pwrite(target, WHOLE, strlen(WHOLE), 0) == (ssize_t)strlen(WHOLE))
		(void)snprintf(text, sizeof(text), "{\"event\":\"done\",\"id\":%lu}", id);
	else
		(void)snprintf(text, sizeof(text),
			       "{\"event\":\"error\",\"id\":%lu,\"code\":\"EEXIST\",\"text\":"
			       "\"it is not empty\"}",
			       id);
	(void)!write(fd, text, strlen(text));
}

/* The first one goes away with part of the file there, the next one serves. */
static _Noreturn void serve(int listener, bool writes)
{
	for (unsigned n = 0;; n++) {
		int fd = accept(listener, NULL, NULL);
		unsigned long id;
		int target = read_request(fd, &id);

		if (n > 0)
			answer(fd, id, target);
		else if (writes)
			(void)!pwrite(target, PART, strlen(PART), 0);
		(void)close(target);
		(void)close(fd);
	}
}

static pid_t up(struct fmove **c, bool writes)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid_t pid;

	(void)snprintf(path, sizeof(path), "/tmp/fm-lost.%d", (int)getpid());
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	(void)unlink(path);
	CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(listener, 4), 0);
	pid = fork();
	if (pid == 0)
		serve(listener, writes);
	(void)close(listener);
	CU_ASSERT_EQUAL_FATAL(fmove_connect(path, c, NULL), 0);
	return pid;
}

/* What a get into a file that has that content says, and what is in it then. */
static int get_into(const char *before, bool writes, char *after, size_t cap)
{
	static const struct fmove_name name = {"n2", "s", "f"};
	const struct fmove_options opts = {.struct_size = sizeof(opts), .retry_ms = 60000};
	struct fmove_result result = {.struct_size = sizeof(result)};
	int fd = memfd_create("target", MFD_CLOEXEC), ret;
	struct fmove_error err;
	struct fmove *c;
	pid_t pid = up(&c, writes);
	ssize_t len;

	CU_ASSERT_EQUAL_FATAL(write(fd, before, strlen(before)), (ssize_t)strlen(before));
	ret = fmove_get(c, fd, &name, &opts, &result, &err);
	len = pread(fd, after, cap - 1, 0);
	after[len > 0 ? len : 0] = '\0';
	fmove_close(c);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	(void)unlink(path);
	(void)close(fd);
	return ret;
}

static void test_a_get_begins_with_an_empty_file(void)
{
	char after[64];

	CU_ASSERT_EQUAL(get_into("", true, after, sizeof(after)), 0);
	CU_ASSERT_STRING_EQUAL(after, WHOLE);
}

static void test_what_was_there_stays(void)
{
	char after[64];

	CU_ASSERT_EQUAL(get_into("of somebody", false, after, sizeof(after)), -EEXIST);
	CU_ASSERT_STRING_EQUAL(after, "of somebody");
}

static const struct fm_test tests[] = {
	{"a get that is tried again begins with an empty file",
	 test_a_get_begins_with_an_empty_file},
	{"what was in the file before the call stays", test_what_was_there_stays},
};
FM_TEST_MAIN("lost", tests)
