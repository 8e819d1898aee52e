/* SPDX-License-Identifier: MIT */
/*
 * The file of a UNIX socket: two daemons that start at once, of which one is between bind() and
 * listen() when the other comes. links: fm_base
 */
#include "tests/fm_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/socket_file.h"

static char directory[] = "/tmp/fm-socket.XXXXXX";
static char path[64], lock_path[70];

static int new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	return fd;
}

static int serve(int fd)
{
	const struct fm_socket_file file = { .path = path, .mode = 0600, .gid = (gid_t)-1,
					     .backlog = 1, .daemon = "fmoved" };
	struct sockaddr_un address;
	struct fm_err err;

	return fm_socket_file_listen(fd, &file, &address, &err);
}

static bool is_served(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = new_socket(), ret;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	ret = connect(fd, (const struct sockaddr *)&address, sizeof(address));
	(void)close(fd);
	return ret == 0;
}

static void *serve_too(void *ret)
{
	int fd = new_socket();

	*(int *)ret = serve(fd);
	(void)close(fd);
	return NULL;
}

/* What a dead daemon left is replaced, and what a living one serves is not. */
static void test_dead_one(void)
{
	int first = new_socket(), second = new_socket(), third = new_socket();

	CU_ASSERT_EQUAL(serve(first), 0);
	CU_ASSERT_EQUAL(serve(second), -EADDRINUSE);
	(void)close(first);
	CU_ASSERT_FALSE(is_served());
	CU_ASSERT_EQUAL(serve(third), 0);
	CU_ASSERT_TRUE(is_served());
	(void)close(second);
	(void)close(third);
	(void)unlink(path);
}

/* The first is made by hand: it has the lock, and its socket does not listen for a while. */
static void test_at_once(void)
{
	const struct timespec while_ns = { .tv_nsec = 50000000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), fd = new_socket(), ret = 0;
	pthread_t other;

	CU_ASSERT_EQUAL_FATAL(flock(lock, LOCK_EX), 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&other, NULL, serve_too, &ret), 0);
	(void)nanosleep(&while_ns, NULL);
	CU_ASSERT_EQUAL(listen(fd, 1), 0);
	(void)unlink(lock_path);
	(void)close(lock);
	(void)pthread_join(other, NULL);
	CU_ASSERT_EQUAL(ret, -EADDRINUSE);
	CU_ASSERT_TRUE(is_served());
	(void)close(fd);
	(void)unlink(path);
}

/* Who locks what others can open, or puts something else in the lock's place, keeps nobody from
 * serving, and nothing of his is changed. */
static void test_of_others(void)
{
	int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = new_socket();
	int open_to_all = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	CU_ASSERT_EQUAL_FATAL(flock(lock, LOCK_EX), 0);
	CU_ASSERT_EQUAL_FATAL(fchmod(open_to_all, 0666), 0);
	CU_ASSERT_EQUAL_FATAL(flock(open_to_all, LOCK_EX), 0);
	CU_ASSERT_EQUAL(serve(fd), 0);
	CU_ASSERT_TRUE(is_served());
	CU_ASSERT_EQUAL(unlink(lock_path), 0);
	(void)close(open_to_all);
	(void)close(lock);
	(void)close(fd);
	(void)unlink(path);
	fd = new_socket();
	CU_ASSERT_EQUAL_FATAL(symlink("nowhere", lock_path), 0);
	CU_ASSERT_EQUAL(serve(fd), 0);
	CU_ASSERT_EQUAL(unlink(lock_path), 0);
	(void)close(fd);
	(void)unlink(path);
}

static void test_begin(void)
{
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
	(void)snprintf(path, sizeof(path), "%s/sock", directory);
	(void)snprintf(lock_path, sizeof(lock_path), "%s.lock", path);
}

static void test_end(void)
{
	CU_ASSERT_EQUAL(rmdir(directory), 0);
}

static const struct fm_test tests[] = {
	{ "a directory of its own", test_begin },
	{ "what a dead daemon left is replaced", test_dead_one },
	{ "of two at once one serves it", test_at_once },
	{ "what others lock does not hold it up", test_of_others },
	{ "nothing stays", test_end },
};

FM_TEST_MAIN("socket_file", tests)
