/* SPDX-License-Identifier: MIT */
/*
 * loop - one thread's events: posted tasks, timers, file descriptors (epoll), pollers.
 *
 * Everything but fm_loop_post() and fm_loop_stop() is for the loop's own thread. Callbacks never
 * nest: a callback may add, change and remove anything, itself included, and what it posts runs in
 * a later pass. The loop owns none of the objects handed to it; they must stay until removed (a
 * task: until it ran).
 *
 * With a clock of the simulator the loop has no epoll; the simulator calls fm_loop_step() and
 * fm_loop_next_ns().
 */
#ifndef FM_BASE_LOOP_H
#define FM_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/list.h"

struct fm_loop;
struct fm_err;
struct fm_clock;

/* Work to do once on the loop's thread. `run` is set by the owner; the rest is the loop's. */
struct fm_task {
	void (*run)(struct fm_task *task);
	struct fm_task *next;
	bool is_posted;
};

/* `fire` is called once when the time has come. Zero-initialise, set fire. */
struct fm_timer {
	void (*fire)(struct fm_timer *timer);
	/* The loop's: */
	uint64_t at_ns;		/* not before the pass in which it was set */
	uint64_t seq;		/* timers for the same time fire in the order set */
	unsigned heap_at;	/* 1-based place in the heap; 0: not set */
};

/* `ready` is called with EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP bits, level-triggered. */
struct fm_watch {
	void (*ready)(struct fm_watch *watch, uint32_t events);
	int fd;
	uint32_t events;	/* asked for; 0: only errors */
	bool is_added;		/* the loop's */
};

/*
 * Something to look at in every pass without a system call, such as a completion queue. poll
 * returns whether it found work. While is_busy is set (work is in flight that this poller will see
 * the end of) the loop spins for spin_ns after the last find before it sleeps. before_sleep is
 * called right before the loop would sleep: it asks for a notification (a watch will tell) and
 * returns true if something came in between, so that the loop does not sleep. May be NULL.
 */
struct fm_poller {
	bool (*poll)(struct fm_poller *poller);
	bool (*before_sleep)(struct fm_poller *poller);
	bool is_busy;
	struct fm_list link;
};

struct fm_loop_opts {
	const struct fm_clock *clock;	/* NULL: the real one */
	uint64_t spin_ns;		/* see fm_poller; 0: never spin */
	bool is_simulated;		/* no epoll, no wake-up descriptor */
};

int fm_loop_new(const struct fm_loop_opts *opts, struct fm_loop **out, struct fm_err *err);

/* Everything must be removed, nothing posted. NULL is allowed. */
void fm_loop_free(struct fm_loop *loop);

/*
 * The descriptors of the loop: out[0] is what fm_loop_post() writes to, out[1] what its own thread
 * waits at. For a process that shares memory, not descriptors (apart.h), and is to post to this
 * loop, or to run it.
 */
void fm_loop_fds(const struct fm_loop *loop, int out[2]);

/* Until fm_loop_stop(). */
void fm_loop_run(struct fm_loop *loop);

/* Any thread; also from a signal handler. */
void fm_loop_stop(struct fm_loop *loop);

/* One pass, sleeping at most until the next timer or max_ns (0: do not sleep). Returns whether
 * anything ran. */
bool fm_loop_step(struct fm_loop *loop, uint64_t max_ns);

/* When the next pass has something to do: 0 now, FM_NEVER not before somebody posts, else a time of
 * the clock. */
uint64_t fm_loop_next_ns(struct fm_loop *loop);

/* Time as of the start of this pass. */
uint64_t fm_loop_now(const struct fm_loop *loop);

/*
 * Run task on the loop's thread. Any thread. A task that is posted already runs once; tasks of one
 * thread run in the order posted.
 */
void fm_loop_post(struct fm_loop *loop, struct fm_task *task);

/* Set (or move) the timer to fire at at_ns. */
void fm_timer_set(struct fm_loop *loop, struct fm_timer *timer, uint64_t at_ns);
void fm_timer_clear(struct fm_loop *loop, struct fm_timer *timer);
static inline bool fm_timer_is_set(const struct fm_timer *timer)
{
	return timer->heap_at != 0;
}

int fm_watch_add(struct fm_loop *loop, struct fm_watch *watch, struct fm_err *err);
void fm_watch_mod(struct fm_loop *loop, struct fm_watch *watch, uint32_t events);
void fm_watch_del(struct fm_loop *loop, struct fm_watch *watch);

void fm_poller_add(struct fm_loop *loop, struct fm_poller *poller);
void fm_poller_del(struct fm_loop *loop, struct fm_poller *poller);

#endif
