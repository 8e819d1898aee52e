/* SPDX-License-Identifier: MIT */
/* log_file - see log_file.h. */
#include "mover/base/log_file.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>


#define END_LOOKS_MAX 2000
#define END_LOOK_NS 1000000

static bool has_child;

/* What is in the file is taken out of the socket then, so that the writer sees what is not. */
static void copy(int from)
{
	char buf[16384];
	ssize_t len;

	while ((len = recv(from, buf, sizeof(buf), MSG_PEEK)) > 0 || (len < 0 && errno == EINTR)) {
		for (ssize_t at = 0, n; at < len; at += n) {
			n = write(STDERR_FILENO, buf + at, (size_t)(len - at));
			if (n <= 0)
				break;	/* full, or broken: nobody can be told */
		}
		if (len > 0)
			(void)recv(from, buf, (size_t)len, 0);
	}
}

/* Nothing else stays open here. It ends behind the last line, not when it is told to. */
static void run_child(int from)
{
	(void)prctl(PR_SET_NAME, "fmove-log");
	(void)dup2(from, STDIN_FILENO);
	(void)dup2(STDERR_FILENO, STDOUT_FILENO);
	(void)close_range(STDERR_FILENO + 1, ~0U, 0);
	copy(STDIN_FILENO);
	_exit(0);
}

static bool is_same(const struct stat *one, int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == one->st_dev && st.st_ino == one->st_ino;
}

void fm_log_file_begin(void)
{
	int ends[2];
	struct stat st;
	pid_t pid;

	if (fstat(STDERR_FILENO, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return;
	pid = fork();
	if (pid == 0)
		run_child(ends[0]);
	if (pid > 0) {
		if (is_same(&st, STDOUT_FILENO))
			(void)dup2(ends[1], STDOUT_FILENO);
		(void)dup2(ends[1], STDERR_FILENO);
		has_child = true;
	}
	(void)close(ends[0]);
	(void)close(ends[1]);
}

void fm_log_file_end(void)
{
	const struct timespec pause = { .tv_nsec = END_LOOK_NS };
	int left = 0;

	for (unsigned i = 0; has_child && i < END_LOOKS_MAX; i++) {
		if (ioctl(STDERR_FILENO, SIOCOUTQ, &left) < 0 || left == 0)
			return;
		(void)nanosleep(&pause, NULL);
	}
}
