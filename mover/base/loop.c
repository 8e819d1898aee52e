/* SPDX-License-Identifier: MIT */
/*
 * loop - one thread's events.
 *
 * A pass: read the time; ask the pollers; look at the descriptors, sleeping there if nothing else
 * is to be done; run the posted tasks; fire the timers that are due. The time is read a second time
 * only after a sleep.
 *
 * System calls: while there is work, epoll is asked once in LOOK_NS, not in every pass; a wake-up
 * from another thread is one write(2), made only if this loop is asleep, and the eventfd is never
 * read: being edge-triggered, it reports each write once.
 */
#include "mover/base/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

#define EVENTS_MAX 64		/* descriptors served in one pass */
#define CACHE_LINE_MAX 256	/* bytes: 64 on x86-64, 64 to 256 on arm64 */
#define TIMERS_MAX 65536	/* set at once; address space only, until they are */

/* How long a busy loop may leave its descriptors unwatched: by time, and by passes for a clock that
 * stands still. */
#define LOOK_NS (20 * UINT64_C(1000))
#define LOOK_PASSES 64

struct fm_loop {
	const struct fm_clock *clock;
	uint64_t spin_ns;
	bool is_simulated;
	bool is_in_pass;

	uint64_t now_ns;
	uint64_t found_ns;		/* when a poller found something last */

	struct fm_list pollers;
	/* where the walk over the pollers goes on; fm_poller_del() steps it */
	struct fm_list *poller_next;

	struct fm_timer **heap;		/* a binary heap, heap[1] the first to fire */
	unsigned heap_len;
	uint64_t timer_seq;		/* timers set so far */

	int epoll_fd;
	int wake_fd;
	unsigned watches;
	unsigned passes_unlooked;	/* passes since epoll was asked */
	uint64_t looked_ns;
	struct epoll_event events[EVENTS_MAX];
	unsigned event_at, event_len;	/* not yet dispatched: [event_at, event_len) */

	/* What other threads touch, on a cache line of its own. */
	_Alignas(CACHE_LINE_MAX) _Atomic(struct fm_task *) posted;	/* newest first */
	atomic_bool is_asleep;
	atomic_bool is_stopped;
	atomic_uint visitors;		/* threads inside fm_loop_post() or fm_loop_stop() */
};

static int loop_open_epoll(struct fm_loop *loop, struct fm_err *err)
{
	/* ptr NULL: there is nothing to dispatch */
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int ret;

	loop->epoll_fd =
		FM_FAULT("loop.epoll") ? (errno = EMFILE, -1) : epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return fm_err_sys(err, -errno, "epoll_create");
	loop->wake_fd = FM_FAULT("loop.eventfd") ? (errno = EMFILE, -1)
						 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wake_fd < 0) {
		ret = fm_err_sys(err, -errno, "eventfd");
		goto close_epoll;
	}
	ret = FM_FAULT("loop.watch_wake")
		      ? (errno = ENOSPC, -1)
		      : epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event);
	if (ret < 0) {
		ret = fm_err_sys(err, -errno, "watch the eventfd");
		goto close_wake;
	}
	return 0;

close_wake:
	close(loop->wake_fd);
close_epoll:
	close(loop->epoll_fd);
	return ret;
}

int fm_loop_new(const struct fm_loop_opts *opts, struct fm_loop **out, struct fm_err *err)
{
	struct fm_loop *loop;
	int ret = -ENOMEM;

	assert(opts && out);
	loop = FM_FAULT("loop.alloc") ? NULL
				      : aligned_alloc(_Alignof(struct fm_loop), sizeof(*loop));
	if (!loop)
		goto no_memory;
	memset(loop, 0, sizeof(*loop));
	loop->heap =
		FM_FAULT("loop.alloc_timers") ? NULL : calloc(TIMERS_MAX + 1, sizeof(*loop->heap));
	if (!loop->heap)
		goto free_loop;
	loop->clock = opts->clock ? opts->clock : &fm_clock_real;
	loop->spin_ns = opts->spin_ns;
	loop->is_simulated = opts->is_simulated;
	loop->epoll_fd = -1;
	loop->wake_fd = -1;
	fm_list_init(&loop->pollers);
	loop->now_ns = loop->clock->now_ns(loop->clock->ctx);
	if (!loop->is_simulated) {
		ret = loop_open_epoll(loop, err);
		if (ret < 0)
			goto free_heap;
	}
	*out = loop;
	return 0;

free_heap:
	free(loop->heap);
	free(loop);
	return ret;
free_loop:
	free(loop);
no_memory:
	return fm_err_set(err, -ENOMEM, "allocate event loop");
}

void fm_loop_free(struct fm_loop *loop)
{
	if (!loop)
		return;
	/* Who posted the last task may still be on the way out of fm_loop_post(). */
	while (atomic_load_explicit(&loop->visitors, memory_order_acquire) > 0)
		sched_yield();
	assert(!loop->is_in_pass);
	assert(!atomic_load(&loop->posted));
	assert(loop->heap_len == 0 && loop->watches == 0 && fm_list_is_empty(&loop->pollers));
	if (!loop->is_simulated) {
		close(loop->wake_fd);
		close(loop->epoll_fd);
	}
	free(loop->heap);
	free(loop);
}

void fm_loop_fds(const struct fm_loop *loop, int out[2])
{
	out[0] = loop->wake_fd;
	out[1] = loop->epoll_fd;
}

uint64_t fm_loop_now(const struct fm_loop *loop)
{
	return loop->now_ns;
}

static void loop_read_clock(struct fm_loop *loop)
{
	loop->now_ns = loop->clock->now_ns(loop->clock->ctx);
}

/* --------------------------------------------------------------------------------- posted tasks */

/*
 * A thread publishes something (a task, is_stopped), then looks at is_asleep; the loop sets
 * is_asleep, then looks at what is published. All four are sequentially consistent, so they have
 * one order, and in it one of the two looks comes after the other's store: either the thread sees a
 * sleeper and writes, or the loop sees the work and does not sleep. Of several threads one takes
 * is_asleep away and writes; the others rely on that write, which is still to come. A write that
 * comes late, when the loop is awake for another reason, costs one empty pass.
 */
static void loop_wake(struct fm_loop *loop)
{
	const uint64_t one = 1;

	if (loop->is_simulated || !atomic_load(&loop->is_asleep) ||
	    !atomic_exchange(&loop->is_asleep, false))
		return;
	/* fails only when the counter is full: 2^64 wake-ups away */
	(void)!write(loop->wake_fd, &one, sizeof(one));
}

void fm_loop_post(struct fm_loop *loop, struct fm_task *task)
{
	struct fm_task *head;

	assert(task->run);
	/*
	 * Whoever finds it set has still released what it wrote before to the loop's own exchange
	 * in loop_run_task().
	 */
	if (__atomic_exchange_n(&task->is_posted, true, __ATOMIC_ACQ_REL))
		return;
	atomic_fetch_add_explicit(&loop->visitors, 1, memory_order_relaxed);
	head = atomic_load_explicit(&loop->posted, memory_order_relaxed);
	do {
		task->next = head;
	} while (!atomic_compare_exchange_weak(&loop->posted, &head, task));
	/* From here on the task may have run and be gone. */
	loop_wake(loop);
	atomic_fetch_sub_explicit(&loop->visitors, 1, memory_order_release);
}

/* Nothing in here may lock or allocate: it may have interrupted anything. */
void fm_loop_stop(struct fm_loop *loop)
{
	int errno_saved = errno;

	atomic_fetch_add_explicit(&loop->visitors, 1, memory_order_relaxed);
	atomic_store(&loop->is_stopped, true);
	loop_wake(loop);
	atomic_fetch_sub_explicit(&loop->visitors, 1, memory_order_release);
	errno = errno_saved;
}

static struct fm_task *task_reverse(struct fm_task *newest)
{
	struct fm_task *oldest = NULL;

	while (newest) {
		struct fm_task *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

/* The tasks that were there when it began: what they post in turn waits for the next pass. */
static bool loop_run_tasks(struct fm_loop *loop)
{
	struct fm_task *task, *next;

	if (!atomic_load_explicit(&loop->posted, memory_order_relaxed))
		return false;
	task = task_reverse(atomic_exchange_explicit(&loop->posted, NULL, memory_order_acquire));
	for (; task; task = next) {
		next = task->next;	/* it may be posted again, or freed, from here on */
		(void)__atomic_exchange_n(&task->is_posted, false, __ATOMIC_ACQ_REL);
		task->run(task);
	}
	return true;
}

/* --------------------------------------------------------------------------------------- timers */

/* Timers for the same time fire in the order they were set. */
static bool timer_is_before(const struct fm_timer *a, const struct fm_timer *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->seq < b->seq);
}

static void heap_put(struct fm_loop *loop, unsigned at, struct fm_timer *timer)
{
	loop->heap[at] = timer;
	timer->heap_at = at;
}

/* Find the place for timer from `at` towards the root, and put it there. */
static void heap_rise(struct fm_loop *loop, unsigned at, struct fm_timer *timer)
{
	while (at > 1 && timer_is_before(timer, loop->heap[at / 2])) {
		heap_put(loop, at, loop->heap[at / 2]);
		at /= 2;
	}
	heap_put(loop, at, timer);
}

/* As heap_rise(), away from the root. */
static void heap_sink(struct fm_loop *loop, unsigned at, struct fm_timer *timer)
{
	unsigned child;

	while ((child = 2 * at) <= loop->heap_len) {
		if (child < loop->heap_len &&
		    timer_is_before(loop->heap[child + 1], loop->heap[child]))
			child++;
		if (!timer_is_before(loop->heap[child], timer))
			break;
		heap_put(loop, at, loop->heap[child]);
		at = child;
	}
	heap_put(loop, at, timer);
}

void fm_timer_clear(struct fm_loop *loop, struct fm_timer *timer)
{
	unsigned at = timer->heap_at;
	struct fm_timer *last;

	if (at == 0)
		return;
	assert(at <= loop->heap_len && loop->heap[at] == timer);
	timer->heap_at = 0;
	last = loop->heap[loop->heap_len--];
	if (last == timer)
		return;
	if (at > 1 && timer_is_before(last, loop->heap[at / 2]))
		heap_rise(loop, at, last);
	else
		heap_sink(loop, at, last);
}

void fm_timer_set(struct fm_loop *loop, struct fm_timer *timer, uint64_t at_ns)
{
	assert(timer->fire);
	fm_timer_clear(loop, timer);
	assert(loop->heap_len < TIMERS_MAX);
	/* Not before now: a timer that always sets itself into the past would otherwise keep all
	 * others from firing. */
	timer->at_ns = at_ns > loop->now_ns ? at_ns : loop->now_ns;
	timer->seq = loop->timer_seq++;
	heap_rise(loop, ++loop->heap_len, timer);
}

static bool loop_has_timer_due(const struct fm_loop *loop)
{
	return loop->heap_len > 0 && loop->heap[1]->at_ns <= loop->now_ns;
}

/* A timer that is set while they fire waits for the next pass, even if it is due: seq tells. */
static bool loop_fire_timers(struct fm_loop *loop)
{
	uint64_t seq_end = loop->timer_seq;
	bool has_fired = false;

	while (loop_has_timer_due(loop) && loop->heap[1]->seq < seq_end) {
		struct fm_timer *timer = loop->heap[1];

		fm_timer_clear(loop, timer);
		timer->fire(timer);
		has_fired = true;
	}
	return has_fired;
}

uint64_t fm_loop_next_ns(struct fm_loop *loop)
{
	if (atomic_load_explicit(&loop->posted, memory_order_relaxed) || loop_has_timer_due(loop))
		return 0;
	return loop->heap_len > 0 ? loop->heap[1]->at_ns : FM_NEVER;
}

/* -------------------------------------------------------------------------------------- pollers */

void fm_poller_add(struct fm_loop *loop, struct fm_poller *poller)
{
	assert(poller->poll);
	fm_list_append(&loop->pollers, &poller->link);
}

void fm_poller_del(struct fm_loop *loop, struct fm_poller *poller)
{
	if (loop->poller_next == &poller->link)
		loop->poller_next = poller->link.next;
	fm_list_del(&poller->link);
}

/* The poller after the one returned last, or NULL. Any of them may be removed in between. */
static struct fm_poller *loop_next_poller(struct fm_loop *loop)
{
	struct fm_list *at = loop->poller_next;

	if (at == &loop->pollers)
		return NULL;
	loop->poller_next = at->next;
	return fm_container_of(at, struct fm_poller, link);
}

static bool loop_poll(struct fm_loop *loop)
{
	struct fm_poller *poller;
	bool has_found = false;

	loop->poller_next = loop->pollers.next;
	while ((poller = loop_next_poller(loop)))
		has_found |= poller->poll(poller);
	if (has_found)
		loop->found_ns = loop->now_ns;
	return has_found;
}

static bool loop_should_spin(const struct fm_loop *loop)
{
	if (loop->now_ns - loop->found_ns >= loop->spin_ns)
		return false;
	fm_list_each(at, next, &loop->pollers)
		if (fm_container_of(at, struct fm_poller, link)->is_busy)
			return true;
	return false;
}

/* Have every poller ask to be woken. Returns whether one of them found work instead. */
static bool loop_arm_pollers(struct fm_loop *loop)
{
	struct fm_poller *poller;
	bool has_found = false;

	loop->poller_next = loop->pollers.next;
	while (!has_found && (poller = loop_next_poller(loop)))
		has_found = poller->before_sleep && poller->before_sleep(poller);
	return has_found;
}

/* ---------------------------------------------------------------------------------- descriptors */

int fm_watch_add(struct fm_loop *loop, struct fm_watch *watch, struct fm_err *err)
{
	struct epoll_event event = { .events = watch->events, .data.ptr = watch };
	int ret;

	assert(watch->ready && !watch->is_added);
	if (loop->is_simulated)
		return fm_err_set(err, -ENOTSUP, "a simulated loop has no descriptors");
	ret = FM_FAULT("loop.watch") ? (errno = ENOSPC, -1)
				     : epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event);
	if (ret < 0)
		return fm_err_sys(err, -errno, "watch a descriptor");
	watch->is_added = true;
	loop->watches++;
	return 0;
}

void fm_watch_mod(struct fm_loop *loop, struct fm_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };
	int ret;

	assert(watch->is_added);
	if (watch->events == events)
		return;
	watch->events = events;
	ret = epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
	/* it fails only for a descriptor that was closed before its watch was removed */
	assert(ret == 0);
	(void)ret;
}

void fm_watch_del(struct fm_loop *loop, struct fm_watch *watch)
{
	int ret;

	if (!watch->is_added)
		return;
	ret = epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	assert(ret == 0);	/* as above */
	(void)ret;
	watch->is_added = false;
	loop->watches--;
	for (unsigned i = loop->event_at; i < loop->event_len; i++)
		if (loop->events[i].data.ptr == watch)
			loop->events[i].data.ptr = NULL;
}

/* How long the pass may sleep, by what the loop knows itself. */
static uint64_t loop_idle_ns(const struct fm_loop *loop, uint64_t max_ns)
{
	uint64_t idle_ns = max_ns;

	if (atomic_load_explicit(&loop->posted, memory_order_relaxed) || loop_has_timer_due(loop) ||
	    loop_should_spin(loop))
		return 0;
	if (loop->heap_len > 0 && loop->heap[1]->at_ns - loop->now_ns < idle_ns)
		idle_ns = loop->heap[1]->at_ns - loop->now_ns;
	return idle_ns;
}

/* Rounded up, since waking before the timer is due would be for nothing. */
static int timeout_ms(uint64_t idle_ns)
{
	if (idle_ns > (uint64_t)INT_MAX * FM_NS_PER_MS)
		return idle_ns == FM_NEVER ? -1 : INT_MAX;
	return (int)((idle_ns + FM_NS_PER_MS - 1) / FM_NS_PER_MS);
}

/* Ask epoll, sleeping for at most idle_ns. Fills loop->events. */
static void loop_look(struct fm_loop *loop, uint64_t idle_ns)
{
	int n;

	if (idle_ns > 0 && loop_arm_pollers(loop))
		idle_ns = 0;
	if (idle_ns > 0) {
		atomic_store(&loop->is_asleep, true);
		if (atomic_load(&loop->posted) || atomic_load(&loop->is_stopped))
			idle_ns = 0;
	}
	n = epoll_wait(loop->epoll_fd, loop->events, EVENTS_MAX, timeout_ms(idle_ns));
	if (idle_ns > 0)
		loop_read_clock(loop);
	atomic_store_explicit(&loop->is_asleep, false, memory_order_relaxed);
	assert(n >= 0 || errno == EINTR);
	loop->event_at = 0;
	loop->event_len = n > 0 ? (unsigned)n : 0;
	loop->looked_ns = loop->now_ns;
	loop->passes_unlooked = 0;
}

static bool loop_dispatch(struct fm_loop *loop)
{
	bool has_run = false;

	while (loop->event_at < loop->event_len) {
		const struct epoll_event *event = &loop->events[loop->event_at++];
		struct fm_watch *watch = event->data.ptr;
		uint32_t events;

		if (!watch)
			continue;
		/* A callback before it may have changed what is asked for. */
		events = event->events & (watch->events | EPOLLERR | EPOLLHUP);
		if (!events)
			continue;
		watch->ready(watch, events);
		has_run = true;
	}
	return has_run;
}

/* --------------------------------------------------------------------------------------- passes */

static bool loop_may_skip_look(struct fm_loop *loop)
{
	return ++loop->passes_unlooked < LOOK_PASSES && loop->now_ns - loop->looked_ns < LOOK_NS;
}

static bool loop_pass(struct fm_loop *loop, uint64_t max_ns, bool is_running)
{
	bool has_run;

	assert(!loop->is_in_pass);
	loop->is_in_pass = true;
	loop_read_clock(loop);
	has_run = loop_poll(loop);
	if (!loop->is_simulated) {
		uint64_t idle_ns = has_run ? 0 : loop_idle_ns(loop, max_ns);

		if (idle_ns > 0 || !is_running || !loop_may_skip_look(loop)) {
			loop_look(loop, idle_ns);
			has_run |= loop_dispatch(loop);
		}
	}
	has_run |= loop_run_tasks(loop);
	has_run |= loop_fire_timers(loop);
	loop->is_in_pass = false;
	return has_run;
}

bool fm_loop_step(struct fm_loop *loop, uint64_t max_ns)
{
	return loop_pass(loop, max_ns, false);
}

void fm_loop_run(struct fm_loop *loop)
{
	assert(!loop->is_simulated);	/* nothing could wake it */
	while (!atomic_load_explicit(&loop->is_stopped, memory_order_acquire))
		loop_pass(loop, FM_NEVER, true);
	atomic_store(&loop->is_stopped, false);
}
