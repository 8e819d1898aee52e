/* SPDX-License-Identifier: MIT */
/*
 * counted - runs a test and notes what it computed: itself, and whatever it left to its parent.
 *
 *   counted NAME COMMAND [ARGUMENT...]
 *
 * It appends a line "SECONDS-OF-A-PROCESSOR SECONDS NAME" to the file FM_COUNTED, and ends as the
 * command did. Without FM_COUNTED it becomes the command. Seconds on the clock say little of a
 * test beside others; these say what it is made of.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 256
#define SIGNALLED 128	/* and the signal's number: as a shell tells it */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static pid_t start(char **command)
{
	pid_t pid = fork();

	if (pid == 0) {
		execvp(command[0], command);
		fprintf(stderr, "counted: %s: %s\n", command[0], strerror(errno));
		_exit(127);
	}
	return pid;
}

/* Daemons that the command started and forgot are this process's children when it ends; what of
 * them has ended is counted, and nobody waits for the others. */
static int status_of(pid_t pid)
{
	int status, result = 0;
	pid_t ended;

	do {
		ended = waitpid(-1, &status, 0);
		if (ended == pid)
			result = status;
	} while (ended != pid && (ended > 0 || errno == EINTR));
	while (waitpid(-1, &status, WNOHANG) > 0)
		;
	return WIFEXITED(result) ? WEXITSTATUS(result) : SIGNALLED + WTERMSIG(result);
}

/* One write: tests that end at once write whole lines. */
static void note(const char *path, const char *name, double took)
{
	struct rusage used;
	char line[LINE_MAX_BYTES];
	int len, fd;

	getrusage(RUSAGE_CHILDREN, &used);
	len = snprintf(line, sizeof(line), "%.2f %.2f %s\n",
		       seconds(used.ru_utime) + seconds(used.ru_stime), took, name);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || len >= (int)sizeof(line) || write(fd, line, (size_t)len) != len)
		fprintf(stderr, "counted: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	const char *path = getenv("FM_COUNTED");
	double begin = now();
	int status;
	pid_t pid;

	if (argc < 3) {
		fprintf(stderr, "usage: counted NAME COMMAND [ARGUMENT...]\n");
		return 2;
	}
	if (!path || !*path || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
		execvp(argv[2], argv + 2);
		fprintf(stderr, "counted: %s: %s\n", argv[2], strerror(errno));
		return 127;
	}
	pid = start(argv + 2);
	if (pid < 0) {
		fprintf(stderr, "counted: %s\n", strerror(errno));
		return 1;
	}
	status = status_of(pid);
	note(path, argv[1], now() - begin);
	return status;
}
