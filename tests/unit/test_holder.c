/* SPDX-License-Identifier: MIT */
/*
 * Goal: a holder shares our memory and nothing that we have open; work is done there, and its end
 * is told here. Method: real processes: what is open there is asked of /proc, a pipe tells by its
 * end who has it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/apart.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/loop.h"
#include "mover/base/ring.h"
#include "mover/base/worker.h"
#include "tests/fm_test.h"

#if defined(__SANITIZE_THREAD__)
#define HAS_PROCESSES false
#else
#define HAS_PROCESSES true
#endif

static struct fm_loop *loop;
static struct fm_holders *all;

static void begin(unsigned lanes)
{
	struct fm_loop_opts opts = { 0 };
	struct fm_holders_opts o = { .lanes = lanes };
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_apart_start(&err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &loop, &err), 0);
	o.loop = loop;
	CU_ASSERT_EQUAL_FATAL(fm_holders_new(&o, &all, &err), 0);
}

static void end(void)
{
	CU_ASSERT_TRUE_FATAL(fm_holders_stop(all, 60 * FM_NS_PER_S));
	while (fm_loop_step(loop, 0))
		;
	fm_holders_free(all);
	fm_loop_free(loop);
	fm_apart_stop();
}

struct job {
	struct fm_work work;
	struct fm_holder *holder;
	void (*act)(struct job *j);
	int fd;
	int ret;
	pid_t pid;
	struct fm_passed passed;
	char buf[16];
	bool is_done;
};

static void job_run(struct fm_work *work)
{
	struct job *j = fm_container_of(work, struct job, work);

	j->pid = getpid();
	if (j->act)
		j->act(j);
}

static void job_done(struct fm_work *work)
{
	struct job *j = fm_container_of(work, struct job, work);

	j->is_done = true;
	fm_holder_put(j->holder);
}

static void submit(struct job *j, uid_t uid)
{
	j->work.run = job_run;
	j->work.done = job_done;
	if (!j->holder)
		j->holder = fm_holder_get(all, uid);
	CU_ASSERT_PTR_NOT_NULL_FATAL(j->holder);
	fm_holder_work(j->holder, &j->work);
}

static void await(const bool *what)
{
	for (int i = 0; i < 6000 && !*what; i++)
		(void)fm_loop_step(loop, 10 * FM_NS_PER_MS);
	CU_ASSERT_TRUE_FATAL(*what);
}

static void do_job(struct job *j, uid_t uid)
{
	submit(j, uid);
	await(&j->is_done);
}

/* What is ours is not there. */
static void look_for_it(struct job *j)
{
	j->ret = fcntl(j->fd, F_GETFD) < 0 ? -errno : 0;
}

static void test_apart(void)
{
	struct job j = { .act = look_for_it };
	int fds[2];

	begin(0);
	CU_ASSERT_EQUAL_FATAL(pipe2(fds, O_CLOEXEC), 0);
	j.fd = fds[0];
	do_job(&j, 1);
	if (HAS_PROCESSES) {
		CU_ASSERT_NOT_EQUAL(j.pid, getpid());
		CU_ASSERT_EQUAL(j.ret, -EBADF);
	}
	(void)close(fds[0]);
	(void)close(fds[1]);
	end();
}

/* Goal: when all places for users are taken root still has some, and one that is not in use goes
 * for who comes next. */
static void test_no_place_is_left(void)
{
	struct fm_holder *held[FM_HOLDERS_MAX], *next = NULL;
	const unsigned users = FM_HOLDERS_MAX - FM_HOLDERS_ROOT;

	begin(0);
	for (unsigned i = 0; i < users; i++) {
		held[i] = fm_holder_get(all, 1000 + i);
		CU_ASSERT_PTR_NOT_NULL_FATAL(held[i]);
	}
	CU_ASSERT_PTR_NULL(fm_holder_get(all, 1));
	held[users] = fm_holder_get(all, 0);
	CU_ASSERT_PTR_NOT_NULL(held[users]);
	/* Nobody ends while all are in use. */
	(void)fm_loop_step(loop, 0);
	CU_ASSERT_PTR_NULL(fm_holder_get(all, 1));
	CU_ASSERT_PTR_EQUAL(fm_holder_get(all, 1000), held[0]);
	fm_holder_put(held[0]);

	/* root's is not ended for others, who would not get its place */
	fm_holder_put(held[users]);
	CU_ASSERT_PTR_NULL(fm_holder_get(all, 1));
	CU_ASSERT_PTR_EQUAL(fm_holder_get(all, 0), held[users]);

	fm_holder_put(held[7]);
	CU_ASSERT_PTR_NULL(fm_holder_get(all, 1));
	CU_ASSERT_PTR_NULL(fm_holder_get(all, 1007));	/* it ends: he has no place any more */
	for (unsigned i = 0; i < 6000 && !next; i++) {
		next = fm_holder_get(all, 1);
		(void)fm_loop_step(loop, 10 * FM_NS_PER_MS);
	}
	CU_ASSERT_PTR_NOT_NULL(next);
	for (unsigned i = 0; i <= users; i++)
		if (i != 7)
			fm_holder_put(held[i]);
	fm_holder_put(next);
	end();
}

static void test_a_process_for_each_user(void)
{
	struct job a = { 0 }, b = { 0 }, c = { 0 };

	begin(0);
	do_job(&a, 1);
	do_job(&b, 2);
	do_job(&c, 1);
	CU_ASSERT_EQUAL(a.pid, c.pid);
	if (HAS_PROCESSES)
		CU_ASSERT_NOT_EQUAL(a.pid, b.pid);
	end();
}

static void take_it(struct job *j)
{
	j->fd = fm_holder_passed(j->holder, &j->passed);
	j->ret = j->fd < 0 ? j->fd : (int)read(j->fd, j->buf, sizeof(j->buf));
}

/* What is handed over is theirs then: after our close the other end sees it open until it is closed
 * there. */
static void test_pass_and_close(void)
{
	struct job j = { .act = take_it };
	int fds[2];

	begin(0);
	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	CU_ASSERT_EQUAL_FATAL(send(fds[0], "hello", 5, 0), 5);
	j.holder = fm_holder_get(all, 1);
	CU_ASSERT_PTR_NOT_NULL_FATAL(j.holder);
	CU_ASSERT_EQUAL_FATAL(fm_holder_pass(j.holder, fds[1], &j.passed), 0);
	(void)close(fds[1]);
	do_job(&j, 1);
	CU_ASSERT_EQUAL(j.ret, 5);
	CU_ASSERT_EQUAL(memcmp(j.buf, "hello", 5), 0);
	CU_ASSERT_EQUAL(recv(fds[0], j.buf, sizeof(j.buf), MSG_DONTWAIT), -1);
	CU_ASSERT_EQUAL(errno, EAGAIN);
	fm_holder_close(j.holder, &j.fd, 1);
	for (int i = 0; i < 6000 && recv(fds[0], j.buf, sizeof(j.buf), MSG_DONTWAIT) != 0; i++)
		(void)fm_loop_step(loop, 10 * FM_NS_PER_MS);
	CU_ASSERT_EQUAL(recv(fds[0], j.buf, sizeof(j.buf), MSG_DONTWAIT), 0);
	(void)close(fds[0]);
	end();
}

/* Many at once: each gets its own. */
static void test_pass_many(void)
{
	struct job jobs[64] = { 0 };
	int fds[64][2];

	begin(0);
	for (unsigned i = 0; i < 64; i++) {
		CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds[i]),
				      0);
		(void)snprintf(jobs[i].buf, sizeof(jobs[i].buf), "%u", i);
		CU_ASSERT_TRUE_FATAL(send(fds[i][0], jobs[i].buf, strlen(jobs[i].buf) + 1, 0) > 0);
		memset(jobs[i].buf, 0, sizeof(jobs[i].buf));
		jobs[i].act = take_it;
		jobs[i].holder = fm_holder_get(all, 1);
		CU_ASSERT_PTR_NOT_NULL_FATAL(jobs[i].holder);
		CU_ASSERT_EQUAL_FATAL(fm_holder_pass(jobs[i].holder, fds[i][1], &jobs[i].passed),
				      0);
		submit(&jobs[i], 1);
	}
	for (unsigned i = 0; i < 64; i++) {
		await(&jobs[i].is_done);
		CU_ASSERT_EQUAL(atoi(jobs[i].buf), (int)i);
		fm_holder_close(jobs[i].holder, &jobs[i].fd, 1);
		(void)close(fds[i][0]);
		(void)close(fds[i][1]);
	}
	end();
}

/* ---- what it begins with ---- */

#define MANY 400u	/* more than fit in one message of descriptors */

struct look {
	int fds[MANY];
	ino_t inodes[MANY];
	unsigned right, others;
	pid_t pid;
};

static void look_run(void *arg)
{
	struct look *l = arg;
	struct stat st;

	l->pid = getpid();
	for (unsigned i = 0; i < MANY; i++)
		l->right += fstat(l->fds[i], &st) == 0 && st.st_ino == l->inodes[i];
	for (int fd = STDERR_FILENO + 1; fd < 4 * (int)MANY; fd++)
		l->others += fcntl(fd, F_GETFD) >= 0;
}

/* Every other one of many, given in no order, has the number there that it has here. */
static void test_numbers(void)
{
	static struct look l;
	int dropped[MANY];
	struct fm_apart *apart;
	struct fm_err err;
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(fm_apart_start(&err), 0);
	for (unsigned i = 0; i < MANY; i++) {
		unsigned at = i * 7 % MANY;

		dropped[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		l.fds[at] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		CU_ASSERT_TRUE_FATAL(l.fds[at] >= 0 && fstat(l.fds[at], &st) == 0);
		l.inodes[at] = st.st_ino;
	}
	CU_ASSERT_EQUAL_FATAL(fm_apart_new(look_run, &l, l.fds, MANY, &apart, &err), 0);
	CU_ASSERT_TRUE(fm_apart_wait(apart, 60 * FM_NS_PER_S));
	fm_apart_free(apart);
	CU_ASSERT_EQUAL(l.right, MANY);
	if (HAS_PROCESSES) {
		CU_ASSERT_NOT_EQUAL(l.pid, getpid());
		CU_ASSERT_EQUAL(l.others, MANY);
	}
	for (unsigned i = 0; i < MANY; i++) {
		(void)close(dropped[i]);
		(void)close(l.fds[i]);
	}
	fm_apart_stop();
}

static unsigned count_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 4 * (int)MANY; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Whatever fails, nothing is left of it, and the next one is made. */
static void test_it_cannot_be_made(void)
{
	static const char *const starts[] = {"apart.socket", "apart.thread", "apart.table"};
	static const char *const points[] = {"apart.alloc", "apart.pass", "apart.thread",
					     "apart.clone"};
	struct fm_err err;
	unsigned open;

	for (unsigned i = 0; HAS_PROCESSES && i < 3; i++) {
		open = count_open();
		fm_fault_arm(starts[i], 1);
		CU_ASSERT_TRUE(fm_apart_start(&err) < 0);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(count_open(), open);
	}
	begin(1);
	for (unsigned i = 0; HAS_PROCESSES && i < 4; i++) {
		struct job j = { 0 };

		open = count_open();
		fm_fault_arm(points[i], i == 1 ? 3 : 1);
		CU_ASSERT_PTR_NULL(fm_holder_get(all, 10 + i));
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(count_open(), open);
		do_job(&j, 10 + i);
	}
	end();
}

/* ---- its lanes read into our memory ---- */

struct reading {
	struct fm_task task, back;
	struct fm_io io;
	struct fm_holder *holder;
	int64_t res;
	bool is_done;
	char buf[4096];
};

static void back_run(struct fm_task *task)
{
	fm_container_of(task, struct reading, back)->is_done = true;
}

static void read_done(struct fm_io *io)
{
	struct reading *r = fm_container_of(io, struct reading, io);

	r->res = io->res;
	r->back.run = back_run;
	fm_loop_post(loop, &r->back);
}

static void read_run(struct fm_task *task)
{
	struct reading *r = fm_container_of(task, struct reading, task);

	fm_ring_read(fm_holder_ring(r->holder, 0), &r->io);
}

static void test_lane(void)
{
	struct job j = { .act = NULL };
	struct reading *r = calloc(1, sizeof(*r));
	char path[] = "/tmp/fm-holder-XXXXXX";
	int fd = mkstemp(path);

	CU_ASSERT_PTR_NOT_NULL_FATAL(r);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(write(fd, "what is in it", 13), 13);
	begin(2);
	j.holder = r->holder = fm_holder_get(all, 1);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r->holder);
	fm_holder_ref(r->holder);
	CU_ASSERT_EQUAL_FATAL(fm_holder_pass(r->holder, fd, &j.passed), 0);
	j.act = take_it;
	(void)close(fd);
	do_job(&j, 1);
	r->task.run = read_run;
	r->io = (struct fm_io){.done = read_done, .fd = j.fd, .buf = r->buf, .len = sizeof(r->buf)};
	fm_loop_post(fm_holder_loop(r->holder, 0), &r->task);
	await(&r->is_done);
	CU_ASSERT_EQUAL(r->res, 13);
	CU_ASSERT_EQUAL(memcmp(r->buf, "what is in it", 13), 0);
	fm_holder_close(r->holder, &j.fd, 1);
	fm_holder_put(r->holder);
	end();
	free(r);
	(void)unlink(path);
}

/* ---- our end, while something hangs there ---- */

static void hang(struct job *j)
{
	char byte;

	j->fd = fm_holder_passed(j->holder, &j->passed);
	(void)!read(j->fd, &byte, 1);
}

/*
 * The holder of a daemon that is killed while a call hangs there: what the daemon has open is free,
 * though the call goes on. (What hangs here can be killed in the end, or nobody would see the
 * test's own end; tests/cli/hang.sh has what cannot.)
 */
static void test_kill(void)
{
	int ours[2], its[2], status;
	struct job j = { .act = hang };
	char byte;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(pipe2(ours, O_CLOEXEC), 0);
	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, its), 0);
	pid = fork();
	CU_ASSERT_TRUE_FATAL(pid >= 0);
	if (pid == 0) {
		(void)close(ours[0]);
		(void)close(its[0]);
		begin(1);
		j.holder = fm_holder_get(all, 1);
		if (!j.holder || fm_holder_pass(j.holder, its[1], &j.passed) < 0)
			_exit(1);
		submit(&j, 1);
		while (j.passed.fd < 0)
			(void)fm_loop_step(loop, FM_NS_PER_MS);
		(void)raise(SIGKILL);
	}
	(void)close(ours[1]);
	(void)close(its[1]);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CU_ASSERT_EQUAL(read(ours[0], &byte, 1), 0);	/* nobody has the other end any more */
	CU_ASSERT_EQUAL(read(its[0], &byte, 1), 0);	/* and here nothing could keep the holder */
	(void)close(ours[0]);
	(void)close(its[0]);
}

/* One that was killed may have held a lock of ours. */
static void test_it_is_killed(void)
{
	struct job j = { 0 };
	int status;
	pid_t pid;

	if (!HAS_PROCESSES)
		return;
	pid = fork();
	CU_ASSERT_TRUE_FATAL(pid >= 0);
	if (pid == 0) {
		begin(0);
		do_job(&j, 1);
		(void)kill(j.pid, SIGKILL);
		for (;;)
			(void)pause();
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_TRUE(WIFSIGNALED(status));
}

static const struct fm_test tests[] = {
	{ "it has our memory and not our descriptors", test_apart },
	{ "each user has one", test_a_process_for_each_user },
	{ "no place is left", test_no_place_is_left },
	{ "a descriptor is handed over, and closed there", test_pass_and_close },
	{ "many are handed over at once", test_pass_many },
	{ "what it begins with has its number there", test_numbers },
	{ "it cannot be made: nothing is left", test_it_cannot_be_made },
	{ "its lanes read into our memory", test_lane },
	{ "ours is killed: what it had is free", test_kill },
	{ "it is killed: so are we", test_it_is_killed },
};
FM_TEST_MAIN("holder", tests)
