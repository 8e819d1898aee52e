/* SPDX-License-Identifier: MIT */
/*
 * small_daemon - for tests of libfmove: a daemon in another process that allows so many connections
 * at once and answers each request after a while, or never.
 */
#ifndef FM_TEST_SMALL_DAEMON_H
#define FM_TEST_SMALL_DAEMON_H

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/fmove.h"
#include "tests/fm_test.h"

#define FULL                                                                                       \
	"{\"event\":\"error\",\"id\":null,\"code\":\"EBUSY\",\"exit\":1,\"full\":true,\"text\":"   \
	"\"all are taken\"}"

/* For the thread sanitizer: a child has none of its parent's threads to join. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_thread_leaks=0";
}

/* What the daemon counts, in memory that both processes have. */
struct counts {
	atomic_uint open, most, refused, accepted, asked, answered, cancels;
	atomic_uint timeout_ms;		/* of the last request that has one */
	atomic_bool is_silent;		/* requests are not answered ... */
	atomic_bool confirms;		/* ... unless they are cancelled */
	atomic_bool says_more;		/* events and keys that this library does not know */
	atomic_bool is_strange;		/* answers are no JSON */
	atomic_bool tells_progress;	/* once, before each answer */
	atomic_bool forgets;		/* a put is EBADF, and whoever shows a buffer waits */
	atomic_bool is_older;		/* the key "bytes" is EINVAL */
	char jobs[48];			/* what answers have as "jobs"; or "" */
};

static struct counts *counts;
static char path[64];
static pid_t daemon_pid;

/* ---- the daemon ---- */

static int listen_here(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	(void)unlink(path);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(fd, 4096), 0);
	return fd;
}

/* As a later daemon may. */
static void say_more(int fd, unsigned long id)
{
	char text[160];

	(void)snprintf(text, sizeof(text),
		       "{\"event\":\"later\",\"id\":%lu,\"more\":[{}]}", id);
	(void)!write(fd, text, strlen(text));
	(void)snprintf(text, sizeof(text),
		       "{\"more\":{\"event\":1},\"event\":\"done\",\"id\":%lu,\"version\":\"99\","
		       "\"api\":2}",
		       id);
	(void)!write(fd, text, strlen(text));
}

static void say_progress(int fd, unsigned long id)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "{\"event\":\"progress\",\"id\":%lu,\"bytes\":1}",
		       id);
	(void)!write(fd, text, strlen(text));
}

static void say_error(int fd, unsigned long id, const char *code)
{
	char text[96];

	(void)snprintf(text, sizeof(text),
		       "{\"event\":\"error\",\"id\":%lu,\"code\":\"%s\",\"text\":\"\"}", id, code);
	(void)!write(fd, text, strlen(text));
}

#define MOVED_TO 100

/* Reads a request, and moves the position of the file that comes with it. */
static ssize_t read_request(int fd, char *buf, size_t len)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
	struct iovec part = {.iov_base = buf, .iov_len = len};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	size_t count = c && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
						       : 0;

	for (size_t i = 0; i < count; i++) {
		int passed;

		memcpy(&passed, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		(void)lseek(passed, MOVED_TO, SEEK_SET);	/* where it has one */
		(void)close(passed);
	}
	return n;
}

/* Answers the request that is there. False: the client went away. */
static bool answer(int fd, unsigned pause_us)
{
	char request[4096], text[128];
	ssize_t len = read_request(fd, request, sizeof(request) - 1);
	const char *id, *timeout;

	if (len <= 0)
		return false;
	request[len] = '\0';
	counts->asked++;
	timeout = strstr(request, "\"timeout_ms\":");
	if (timeout)
		counts->timeout_ms = (unsigned)strtoul(timeout + 13, NULL, 10);
	id = strstr(request, "\"id\":");
	if (strstr(request, "\"op\":\"cancel\"")) {
		counts->cancels++;
		(void)snprintf(text, sizeof(text),
			       "{\"event\":\"error\",\"id\":%lu,\"code\":\"ECANCELED\","
			       "\"text\":\"cancelled as asked\"}",
			       strtoul(strstr(request, "\"job\":") + 6, NULL, 10));
		if (counts->confirms)
			(void)!write(fd, text, strlen(text));
		return true;
	}
	if (!id || counts->is_silent || (counts->forgets && strstr(request, "\"op\":\"buffer\"")))
		return true;
	(void)usleep(pause_us);
	(void)snprintf(text, sizeof(text),
		       "{\"event\":\"done\",\"id\":%lu,\"buffer\":1%s%s}",
		       strtoul(id + 5, NULL, 10), counts->jobs[0] ? ",\"jobs\":" : "",
		       counts->jobs);
	counts->answered++;
	if (counts->tells_progress)
		say_progress(fd, strtoul(id + 5, NULL, 10));
	if (counts->forgets)
		say_error(fd, strtoul(id + 5, NULL, 10), "EBADF");
	else if (counts->is_older && strstr(request, "\"bytes\":"))
		say_error(fd, strtoul(id + 5, NULL, 10), "EINVAL");
	else if (counts->is_strange)
		(void)!write(fd, "\x7f" "FM2", 4);
	else if (counts->says_more)
		say_more(fd, strtoul(id + 5, NULL, 10));
	else
		(void)!write(fd, text, strlen(text));
	return true;
}

static void take(int listener, struct pollfd *fds, unsigned limit)
{
	int fd = accept(listener, NULL, NULL);
	unsigned i = 0;

	counts->accepted++;
	while (i < limit && fds[i].fd >= 0)
		i++;
	if (i == limit) {
		counts->refused++;
		(void)!write(fd, FULL, strlen(FULL));
		(void)close(fd);
		return;
	}
	fds[i].fd = fd;
	counts->open++;
	counts->most = counts->open > counts->most ? counts->open : counts->most;
}

static _Noreturn void serve(int listener, unsigned limit, unsigned pause_us)
{
	struct pollfd fds[256];

	for (unsigned i = 0; i < limit; i++)
		fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	fds[limit] = (struct pollfd){.fd = listener, .events = POLLIN};
	for (;;) {
		(void)poll(fds, limit + 1, -1);
		for (unsigned i = 0; i < limit; i++)
			if (fds[i].revents && !answer(fds[i].fd, pause_us)) {
				(void)close(fds[i].fd);
				fds[i].fd = -1;
				counts->open--;
			}
		if (fds[limit].revents)
			take(listener, fds, limit);
	}
}

static struct fmove *up(unsigned limit, unsigned pause_us)
{
	struct fmove_error err;
	struct fmove *c;
	int listener;

	(void)snprintf(path, sizeof(path), "/tmp/fm-threads.%d", (int)getpid());
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CU_ASSERT_NOT_EQUAL_FATAL((void *)counts, MAP_FAILED);
	listener = listen_here();
	daemon_pid = fork();
	if (daemon_pid == 0)
		serve(listener, limit, pause_us);
	(void)close(listener);
	CU_ASSERT_EQUAL_FATAL(fmove_connect(path, &c, &err), 0);
	return c;
}

static void down(struct fmove *c)
{
	fmove_close(c);
	(void)kill(daemon_pid, SIGKILL);
	(void)waitpid(daemon_pid, NULL, 0);
	(void)unlink(path);
	(void)munmap(counts, sizeof(*counts));
}

static void await(atomic_uint *count, unsigned least)
{
	for (unsigned ms = 0; *count < least && ms < FM_TEST_HANG_S * 1000; ms++)
		(void)usleep(1000);
	CU_ASSERT_TRUE_FATAL(*count >= least);
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

#endif
