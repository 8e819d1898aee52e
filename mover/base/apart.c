/* SPDX-License-Identifier: MIT */
/*
 * apart - see apart.h.
 *
 * A thread of ours, the keeper, makes the process by clone(2) with CLONE_VM alone and waits for its
 * end. So the first thread there has the keeper's thread-local storage, which nobody else uses
 * meanwhile, and the C library works as it does in the child of vfork(2).
 */
#include "mover/base/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* of CLOCK_MONOTONIC */
	enum state state;
	int error;			/* REFUSED */
	pthread_t forgetter;		/* there, if forgets ... */
	bool forgets;
	atomic_bool has_run;		/* ... and what it is told */
	int keep[];			/* ascending; standard error is among them */
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

/*
 * Closes the copies of what is not kept. Closing a copy flushes, too: on FUSE and NFS that asks the
 * server, so this waits as long as a store that stopped answering does.
 */
static void close_others(const struct fm_apart *a)
{
	unsigned from = 0;

	for (unsigned i = 0; i < a->count; i++) {
		unsigned fd = (unsigned)a->keep[i];

		if (fd > from)
			(void)close_range(from, fd - 1, 0);
		from = fd + 1;
	}
	(void)close_range(from, ~0u, 0);
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
		close_others(a);
		fill_standard();
		a->run(a->arg);
	}
	stop_forgetting(a);
	/* No exit handlers, and no epilogue of a sanitizer that would look at the stack. */
	(void)syscall(SYS_exit_group, 0);
	return 0;
}

/* ---- here ---- */

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

TWO_STACKS static void *keeper_main(void *arg)
{
	struct fm_apart *a = arg;
	int status;
	pid_t pid;

	if (IS_THREAD) {
		say(a, RUNS, 0);
		a->run(a->arg);
		say(a, OVER, 0);
		return NULL;
	}
	pid = FM_FAULT("apart.clone")
		      ? (errno = EAGAIN, -1)
		      : clone(apart_main, (char *)a->stack + STACK_BYTES, CLONE_VM, a);
	if (pid < 0) {
		say(a, REFUSED, -errno);
		return NULL;
	}
	say(a, RUNS, 0);
	status = wait_for(pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fm_log_error(
			"process %d, which shares our memory, was ended (status %#x): so are we",
			(int)pid, (unsigned)status);
		abort();
	}
	say(a, OVER, 0);
	return NULL;
}

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static struct fm_apart *apart_alloc(void (*run)(void *arg), void *arg, const int *keep,
				    unsigned count)
{
	struct fm_apart *a = FM_FAULT("apart.alloc")
				     ? NULL
				     : calloc(1, sizeof(*a) + (count + 1) * sizeof(*keep));
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
	a->keep[count] = STDERR_FILENO;
	a->count = count + 1;
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

/* Its mask is that of all threads there. */
static int start_keeper(struct fm_apart *a)
{
	sigset_t all, saved;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	ret = FM_FAULT("apart.thread") ? EAGAIN : pthread_create(&a->keeper, NULL, keeper_main, a);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (ret != 0)
		return -ret;
	/* only for people who look at the process */
	(void)pthread_setname_np(a->keeper, "fm-keeper");
	pthread_mutex_lock(&a->lock);
	while (a->state == STARTING)
		pthread_cond_wait(&a->changed, &a->lock);
	ret = a->error;
	pthread_mutex_unlock(&a->lock);
	if (ret < 0)
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
	ret = start_keeper(a);
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
