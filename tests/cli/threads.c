/* SPDX-License-Identifier: MIT */
/*
 * threads - calls libfmove from many threads, for tests:
 *
 *   threads many FILE COUNT PATH    in COUNT threads with one handle: put FILE to n2:s/PATH/NUMBER,
 *                                   ask for its size, get it again
 *   threads storm FILE PATH         one after the other, files and a directory, with signals
 *                                   all the time
 *   threads fork FILE PATH          each of several children with the handle of their parent, which
 *                                   puts meanwhile; and children that come back from the midst of
 *                                   their parent's put and get of the directory "large"
 *   threads uid                     print whose rights it has
 *
 * Each line printed is something that is not right; the last one, how many descriptors are left.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/fmove.h"

static struct fmove *c;
static const char *file, *path;
static uint64_t size;
static atomic_int failures;

static void say(const char *what, const struct fmove_error *err)
{
	printf("%s: %s\n", what, err->text);
	failures++;
}

static int get_back(const struct fmove_name *name, struct fmove_error *err)
{
	struct fmove_result result = {.struct_size = sizeof(result)};
	int fd = memfd_create("back", MFD_CLOEXEC);
	int ret = fmove_get(c, fd, name, NULL, &result, err);
	struct stat st = {.st_size = 0};

	(void)fstat(fd, &st);
	(void)close(fd);
	if (ret == 0 && (uint64_t)st.st_size != size) {
		(void)snprintf(err->text, sizeof(err->text), "other bytes came back");
		ret = -EIO;
	}
	return ret;
}

static void round_trip(unsigned number)
{
	char to[256];
	const struct fmove_name name = {"n2", "s", to};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error err;
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	(void)snprintf(to, sizeof(to), "%s/%u", path, number);
	if (fmove_put(c, fd, &name, NULL, &result, &err) < 0)
		say("put", &err);
	else if (fmove_stat(c, &name, &entry, &err) < 0 || entry.size != size)
		say("stat", &err);
	else if (get_back(&name, &err) < 0)
		say("get", &err);
	(void)close(fd);
}

static void *thread(void *arg)
{
	round_trip(*(unsigned *)arg);
	return NULL;
}

static void many(unsigned count)
{
	pthread_t *threads = calloc(count, sizeof(*threads));
	unsigned *numbers = calloc(count, sizeof(*numbers));

	for (unsigned i = 0; i < count; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, thread, &numbers[i]) != 0)
			exit(2);
	}
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	free(numbers);
}

/* ---- signals ---- */

static atomic_uint alarms;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void put_directory(void)
{
	char to[256];
	const struct fmove_name name = {"n2", "s", to};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	int fd = open("tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)snprintf(to, sizeof(to), "%s/tree", path);
	if (fmove_put_tree(c, fd, &name, NULL, NULL, &result, &err) < 0)
		say("put_tree", &err);
	else if (fmove_get_tree(c, here, "back", &name, NULL, NULL, &result, &err) < 0)
		say("get_tree", &err);
	(void)close(fd);
	(void)close(here);
}

static void storm(void)
{
	const struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = on_alarm};

	(void)sigaction(SIGALRM, &action, NULL);
	(void)setitimer(ITIMER_REAL, &every, NULL);
	for (unsigned i = 0; i < 50; i++)
		round_trip(i);
	put_directory();
	(void)setitimer(ITIMER_REAL, &never, NULL);
	if (alarms < 50)
		printf("there was no storm\n");
}

/* ---- children ---- */

static void children(void)
{
	unsigned number = 0;
	pthread_t beside;
	int status;

	if (pthread_create(&beside, NULL, thread, &number) != 0)
		exit(2);
	for (unsigned i = 1; i <= 10; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			round_trip(i);
			fmove_close(c);
			fflush(stdout);
			_exit(failures > 0);
		}
		if (waitpid(pid, &status, 0) != pid || status != 0) {
			printf("child %u: %d\n", i, status);
			failures++;
		}
	}
	pthread_join(beside, NULL);
}

static void fork_once(void *ctx, const struct fmove_progress *p)
{
	pid_t *child = ctx;

	if (*child < 0 && p->bytes > 0)
		*child = fork();
}

/* A call in whose midst there was a child, which it came back in, too. That must end it with
 * -ECONNRESET, and nothing of its parent's. */
static void ended_twice(const char *what, int ret, const struct fmove_error *err, pid_t child)
{
	int status;

	if (child == 0)
		_exit(ret == -ECONNRESET ? 0 : 1);
	if (ret < 0)
		say(what, err);
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
		printf("%s: child %d: %d\n", what, (int)child, child < 0 ? 0 : status);
		failures++;
	}
}

static void children_of_trees(void)
{
	char to[256];
	const struct fmove_name name = {"n2", "s", to};
	pid_t put = -1, get = -1;
	struct fmove_options opts = {.struct_size = sizeof(opts),
				     .rate_bytes = 2000000,
				     .retry_ms = 20000,
				     .progress_ms = 20,
				     .progress = fork_once,
				     .ctx = &put};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;
	int fd = open("large", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int ret;

	(void)snprintf(to, sizeof(to), "%s/large", path);
	ret = fmove_put_tree(c, fd, &name, &opts, NULL, &result, &err);
	ended_twice("put_tree", ret, &err, put);
	opts.ctx = &get;
	ret = fmove_get_tree(c, here, "large_back", &name, &opts, NULL, &result, &err);
	ended_twice("get_tree", ret, &err, get);
	(void)close(fd);
	(void)close(here);
}

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	unsigned before = descriptors();
	struct fmove_error err;
	struct stat st;

	if (argc == 2 && strcmp(argv[1], "uid") == 0)
		return printf("%u\n", geteuid()) < 0;
	if (argc < 4 || stat(argv[2], &st) < 0 || fmove_connect(NULL, &c, &err) < 0) {
		printf("threads: %s\n", err.text);
		return 2;
	}
	file = argv[2];
	size = (uint64_t)st.st_size;
	path = argv[argc - 1];
	if (strcmp(argv[1], "many") == 0)
		many((unsigned)strtoul(argv[3], NULL, 10));
	else if (strcmp(argv[1], "storm") == 0)
		storm();
	else {
		children();
		children_of_trees();
	}
	fmove_close(c);
	printf("%u descriptors are left\n", descriptors() - before);
	return failures > 0;
}
