/* SPDX-License-Identifier: MIT */
/*
 * apart - see apart.h.
 *
 * A thread of ours, the keeper, makes the process by clone(2) with CLONE_VM alone and waits for its
 * end. So the first thread there has the keeper's thread-local storage, which nobody else uses
 * meanwhile, and the C library works as it does in the child of vfork(2).
 *
 * The process begins with a copy of the keeper's table of descriptors, which therefore is not ours:
 * what is not wanted there would have to be closed, and to close a copy of a file of FUSE or NFS
 * asks its server, which may never answer. Keepers are made by another thread, the spawner, and
 * share its table. It left ours before any store was opened. What is kept comes to it over a
 * socket, gets the number that it has here, is copied to the process, and is closed again.
 */
#include "mover/base/apart.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"

#define STACK_BYTES (256u << 10)	/* of the first thread there */

#if defined(__SANITIZE_THREAD__)
#define IS_THREAD true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IS_THREAD true
#endif
#endif
#ifndef IS_THREAD
#define IS_THREAD false
#endif

/* The address sanitizer knows one stack of a thread: here are two. */
#define TWO_STACKS __attribute__((no_sanitize_address, noinline))

#define FORGET_SIGNAL SIGUSR2		/* blocked by all threads there, like every signal */

enum state { STARTING, RUNS, REFUSED, OVER };

struct fm_apart {
	void (*run)(void *arg);
	void *arg;
	unsigned count;
	pid_t parent;
	void *stack;
	pthread_t keeper;
	bool has_keeper;
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* of CLOCK_MONOTONIC */
	enum state state;
	int error;			/* REFUSED */
	pthread_t forgetter;		/* there, if forgets ... */
	bool forgets;
	atomic_bool has_run;		/* ... and what it is told */
	unsigned placed;		/* of keep, with the spawner */
	int keep[];			/* ascending */
};

static struct {
	pthread_t thread;
	pthread_mutex_t lock;		/* it makes one after the other */
	int ours;			/* what is kept is sent here; -1: there is no spawner ... */
	int its;			/* ... taken there; open here too, so nothing else is it */
} spawner = { .lock = PTHREAD_MUTEX_INITIALIZER, .ours = -1, .its = -1 };

struct message {
	struct fm_apart *apart;
	bool is_last;			/* without a descriptor: these were all ... */
	int error;			/* ... unless this is one */
};

static struct {
	void *memory;			/* NULL: nothing */
	size_t len;
} forgotten;

void fm_apart_forget(void *memory, size_t len)
{
	forgotten.memory = memory;
	forgotten.len = len;
}

/* ---- there ---- */

/* A thread that waits for the end of our process, or of run(). Others may not be able to: they wait
 * for somebody's file. */
static void *forget_main(void *arg)
{
	struct fm_apart *a = arg;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, FORGET_SIGNAL);
	while (sigwaitinfo(&set, NULL) < 0)
		;	/* EINTR */
	if (atomic_load(&a->has_run))
		return NULL;
	(void)munmap(forgotten.memory, forgotten.len);
	(void)kill(getpid(), SIGKILL);
	return NULL;
}

/* The signal that says that our process has ended. */
static int start_forgetting(struct fm_apart *a)
{
	a->forgets = forgotten.memory && !FM_FAULT("apart.forget") &&
		     pthread_create(&a->forgetter, NULL, forget_main, a) == 0;
	return a->forgets ? FORGET_SIGNAL : SIGKILL;
}

static void stop_forgetting(struct fm_apart *a)
{
	if (!a->forgets)
		return;
	atomic_store(&a->has_run, true);
	(void)pthread_kill(a->forgetter, FORGET_SIGNAL);
	(void)pthread_join(a->forgetter, NULL);
}

/* So that no descriptor of a stranger gets a number to which somebody prints. */
static void fill_standard(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd < STDERR_FILENO);
	if (fd > STDERR_FILENO)
		(void)close(fd);
}

TWO_STACKS static int apart_main(void *arg)
{
	const struct rlimit none = { 0, 0 };
	struct fm_apart *a = arg;

	/* Asked for first, looked at then: whichever way round we two end, it does not outlive us
	 * for long. */
	(void)prctl(PR_SET_PDEATHSIG, start_forgetting(a));
	if (getppid() == a->parent) {
		(void)prctl(PR_SET_NAME, "fm-apart");
		(void)setrlimit(RLIMIT_CORE, &none);	/* ours has all of it */
		(void)close(spawner.its);	/* a copy of a socket */
		fill_standard();
		a->run(a->arg);
	}
	stop_forgetting(a);
	/* No exit handlers, and no epilogue of a sanitizer that would look at the stack. */
	(void)syscall(SYS_exit_group, 0);
	return 0;
}

/* ---- the keeper ---- */

static void say(struct fm_apart *a, enum state state, int error)
{
	pthread_mutex_lock(&a->lock);
	a->state = state;
	a->error = error;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	return status;
}

/* Before anybody hears of the process, and closes his own: so none of these is the last. */
static void close_placed(struct fm_apart *a)
{
	for (unsigned i = 0; i < a->placed; i++)
		(void)close(a->keep[i]);
	a->placed = 0;
}

static void await_process(pid_t pid)
{
	int status = wait_for(pid);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fm_log_error(
			"process %d, which shares our memory, was ended (status %#x): so are we",
			(int)pid, (unsigned)status);
		abort();
	}
}

TWO_STACKS static void *keeper_main(void *arg)
{
	struct fm_apart *a = arg;
	pid_t pid;
	int error;

	a->keeper = pthread_self();
	a->has_keeper = true;
	/* only for people who look at the process */
	(void)pthread_setname_np(a->keeper, "fm-keeper");
	if (IS_THREAD) {
		say(a, RUNS, 0);
		a->run(a->arg);
		say(a, OVER, 0);
		return NULL;
	}
	pid = FM_FAULT("apart.clone")
		      ? (errno = EAGAIN, -1)
		      : clone(apart_main, (char *)a->stack + STACK_BYTES, CLONE_VM, a);
	error = pid < 0 ? -errno : 0;
	close_placed(a);
	say(a, pid < 0 ? REFUSED : RUNS, error);
	if (pid < 0)
		return NULL;
	await_process(pid);
	say(a, OVER, 0);
	return NULL;
}

/* With the mask of all threads there. */
static int start_thread(pthread_t *out, void *(*main)(void *arg), void *arg)
{
	sigset_t all, saved;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	ret = FM_FAULT("apart.thread") ? EAGAIN : pthread_create(out, NULL, main, arg);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return -ret;
}

static int start_keeper(struct fm_apart *a)
{
	pthread_t keeper;	/* says so itself: nobody may look at a any more */

	return start_thread(&keeper, keeper_main, a);
}

/* ---- the spawner ---- */

/* A table of its own, in which there are standard error and its end of the socket. */
static int leave_table(void)
{
	unsigned low = STDERR_FILENO, high = (unsigned)spawner.its;

	if (high < low) {
		low = high;
		high = STDERR_FILENO;
	}
	if (FM_FAULT("apart.table"))
		return -EMFILE;
	if (close_range(high + 1, ~0u, CLOSE_RANGE_UNSHARE) < 0)
		return -errno;
	if (high > low + 1)
		(void)close_range(low + 1, high - 1, 0);
	if (low > 0)
		(void)close_range(0, low - 1, 0);
	return 0;
}

/*
 * Under its number. That is free: they come one at a time, the lowest number first, and each gets
 * the lowest that is free before it is moved.
 */
static int place(struct fm_apart *a, int fd)
{
	int wanted = a->keep[a->placed], ret = 0;

	if (fd < 0)
		return fd;
	if (fd != wanted) {
		ret = dup3(fd, wanted, O_CLOEXEC) < 0 ? -errno : 0;
		(void)close(fd);
	}
	a->placed += ret == 0;
	return ret;
}

static void begin(struct fm_apart *a, int error)
{
	if (error == 0)
		error = start_keeper(a);
	if (error < 0) {
		close_placed(a);
		say(a, REFUSED, error);
	}
}

static void take(const struct message *m, int fd)
{
	struct fm_apart *a = m->apart;

	if (m->is_last)
		begin(a, a->error < 0 ? a->error : m->error);
	else if (a->error == 0)
		a->error = place(a, fd);
	else if (fd >= 0)
		(void)close(fd);
}

/* It is read in any case, so the kernel needs but some memory for it. */
static void tell(int sock, const struct message *m)
{
	while (fm_call_send_fd(sock, m, sizeof(*m), -1, 0) < 0)
		(void)sched_yield();
}

/* Ends when the other end of its socket is shut. */
static void *spawner_main(void *arg)
{
	struct message m = { .error = leave_table() };
	int fd, n = m.error;

	(void)arg;
	(void)pthread_setname_np(pthread_self(), "fm-spawner");
	tell(spawner.its, &m);
	while (n >= 0 && (n = fm_call_recv_fd(spawner.its, &m, sizeof(m), &fd, 0)) != 0)
		if (n == (int)sizeof(m))
			take(&m, fd);
	return NULL;
}

static void end_spawner(void)
{
	(void)shutdown(spawner.ours, SHUT_RDWR);
	pthread_join(spawner.thread, NULL);
}

static void close_spawner(void)
{
	(void)close(spawner.ours);
	(void)close(spawner.its);
	spawner.ours = spawner.its = -1;
}

static int start_spawner(void)
{
	struct message m;
	int fd, ret = start_thread(&spawner.thread, spawner_main, NULL);

	if (ret < 0)
		return ret;
	ret = fm_call_recv_fd(spawner.ours, &m, sizeof(m), &fd, 0);
	if (ret >= 0)
		ret = m.error;
	if (ret < 0)
		end_spawner();
	return ret;
}

int fm_apart_start(struct fm_err *err)
{
	int ends[2], ret;

	if (IS_THREAD)
		return 0;
	assert(spawner.ours < 0);
	ret = FM_FAULT("apart.socket")
		      ? -EMFILE
		      : fm_call(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	if (ret < 0)
		return fm_err_sys(err, ret, "make a pair of sockets");
	spawner.ours = ends[0];
	spawner.its = ends[1];
	ret = start_spawner();
	if (ret < 0) {
		close_spawner();
		return fm_err_sys(err, ret, "start the thread that makes processes");
	}
	return 0;
}

void fm_apart_stop(void)
{
	if (spawner.ours < 0)
		return;
	end_spawner();
	close_spawner();
}

/* ---- here ---- */

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static struct fm_apart *apart_alloc(void (*run)(void *arg), void *arg, const int *keep,
				    unsigned count)
{
	struct fm_apart *a = FM_FAULT("apart.alloc")
				     ? NULL
				     : calloc(1, sizeof(*a) + count * sizeof(*keep));
	pthread_condattr_t attr;

	if (!a)
		return NULL;
	a->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (a->stack == MAP_FAILED) {
		free(a);
		return NULL;
	}
	a->run = run;
	a->arg = arg;
	a->parent = getpid();
	memcpy(a->keep, keep, count * sizeof(*keep));
	a->count = count;
	qsort(a->keep, a->count, sizeof(a->keep[0]), compare_fds);
	pthread_mutex_init(&a->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->changed, &attr);
	pthread_condattr_destroy(&attr);
	return a;
}

static void apart_destroy(struct fm_apart *a)
{
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	(void)munmap(a->stack, STACK_BYTES);	/* our own mapping: cannot fail */
	free(a);
}

/* To the spawner, which makes it of them. */
static void hand_over(struct fm_apart *a)
{
	struct message m = { .apart = a };

	for (unsigned i = 0; i < a->count && m.error == 0; i++)
		m.error = FM_FAULT("apart.pass") ? -ENOBUFS
						 : fm_call_send_fd(spawner.ours, &m, sizeof(m),
								   a->keep[i], 0);
	m.is_last = true;
	tell(spawner.ours, &m);
}

static int await_start(struct fm_apart *a)
{
	int ret;

	pthread_mutex_lock(&a->lock);
	while (a->state == STARTING)
		pthread_cond_wait(&a->changed, &a->lock);
	ret = a->error;
	pthread_mutex_unlock(&a->lock);
	return ret;
}

static int start(struct fm_apart *a)
{
	int ret;

	if (IS_THREAD)
		return start_keeper(a);
	assert(spawner.ours >= 0);
	pthread_mutex_lock(&spawner.lock);
	hand_over(a);
	ret = await_start(a);
	pthread_mutex_unlock(&spawner.lock);
	if (ret < 0 && a->has_keeper)
		pthread_join(a->keeper, NULL);
	return ret;
}

int fm_apart_new(void (*run)(void *arg), void *arg, const int *keep, unsigned count,
		 struct fm_apart **out, struct fm_err *err)
{
	struct fm_apart *a;
	int ret;

	a = apart_alloc(run, arg, keep, count);
	if (!a)
		return fm_err_set(err, -ENOMEM, "no memory for a process");
	ret = start(a);
	if (ret < 0) {
		apart_destroy(a);
		return fm_err_sys(err, ret, "start a process");
	}
	*out = a;
	return 0;
}

bool fm_apart_has_descriptors(void)
{
	return !IS_THREAD;
}

bool fm_apart_is_over(struct fm_apart *a)
{
	return fm_apart_wait(a, 0);
}

bool fm_apart_wait(struct fm_apart *a, uint64_t max_ns)
{
	struct timespec until;
	bool is_over;
	int ret = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);	/* it exists */
	until.tv_sec += (time_t)(max_ns / FM_NS_PER_S);
	until.tv_nsec += (long)(max_ns % FM_NS_PER_S);
	if (until.tv_nsec >= (long)FM_NS_PER_S) {
		until.tv_sec++;
		until.tv_nsec -= (long)FM_NS_PER_S;
	}
	pthread_mutex_lock(&a->lock);
	while (a->state != OVER && ret == 0 && max_ns > 0)
		ret = pthread_cond_timedwait(&a->changed, &a->lock, &until);
	is_over = a->state == OVER;
	pthread_mutex_unlock(&a->lock);
	return is_over;
}

void fm_apart_free(struct fm_apart *a)
{
	if (!a)
		return;
	pthread_join(a->keeper, NULL);
	apart_destroy(a);
}
