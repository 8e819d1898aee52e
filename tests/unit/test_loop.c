/* SPDX-License-Identifier: MIT */
/* links: fm_base */
/*
 * Clocks: `tick` is a clock that the test moves; where nothing sleeps, a loop with epoll can use it
 * too. Tests that let a real loop sleep are woken by what they test; if that fails they hang, and
 * ctest's deadline tells.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "tests/fm_test.h"

static uint64_t tick_ns = 1000;

static uint64_t tick_now(void *ctx)
{
	(void)ctx;
	return tick_ns;
}

static const struct fm_clock tick = { tick_now, NULL };

static struct fm_loop *new_loop(const struct fm_loop_opts *opts)
{
	struct fm_loop *loop = NULL;
	struct fm_err err;

	if (fm_loop_new(opts, &loop, &err) < 0) {
		printf("fm_loop_new: %s\n", err.text);
		exit(1);
	}
	return loop;
}

static struct fm_loop *new_sim(void)
{
	return new_loop(&(struct fm_loop_opts){ .clock = &tick, .is_simulated = true });
}

static struct fm_loop *new_real(void)
{
	return new_loop(&(struct fm_loop_opts){ 0 });
}

/* --------------------------------------------------------------------------------------- timers */

static char trace[64];

struct named_timer {
	struct fm_timer timer;
	char name;
	struct fm_loop *loop;
	struct fm_timer *other;
};

static void trace_add(char c)
{
	size_t len = strlen(trace);

	if (len + 1 < sizeof(trace)) {
		trace[len] = c;
		trace[len + 1] = '\0';
	}
}

static void named_fire(struct fm_timer *timer)
{
	trace_add(fm_container_of(timer, struct named_timer, timer)->name);
}

static void test_timer_order(void)
{
	struct fm_loop *loop = new_sim();
	struct named_timer t[5];

	trace[0] = '\0';
	for (int i = 0; i < 5; i++)
		t[i] = (struct named_timer){ .timer.fire = named_fire, .name = (char)('a' + i) };
	fm_timer_set(loop, &t[0].timer, tick_ns + 30);
	fm_timer_set(loop, &t[1].timer, tick_ns + 10);
	fm_timer_set(loop, &t[2].timer, tick_ns + 20);
	fm_timer_set(loop, &t[3].timer, tick_ns + 10);
	fm_timer_set(loop, &t[4].timer, tick_ns + 31);
	CU_ASSERT_EQUAL(fm_loop_next_ns(loop), tick_ns + 10);
	CU_ASSERT_FALSE(fm_loop_step(loop, FM_NEVER));
	tick_ns += 30;
	CU_ASSERT_TRUE(fm_loop_step(loop, FM_NEVER));
	CU_ASSERT_STRING_EQUAL(trace, "bdca");
	CU_ASSERT_FALSE(fm_timer_is_set(&t[0].timer));
	CU_ASSERT_TRUE(fm_timer_is_set(&t[4].timer));
	CU_ASSERT_EQUAL(fm_loop_next_ns(loop), tick_ns + 1);
	fm_timer_clear(loop, &t[4].timer);
	CU_ASSERT_EQUAL(fm_loop_next_ns(loop), FM_NEVER);
	fm_loop_free(loop);
}

static void test_timer_move(void)
{
	struct fm_loop *loop = new_sim();
	struct named_timer a = { .timer.fire = named_fire, .name = 'a' };
	struct named_timer b = { .timer.fire = named_fire, .name = 'b' };

	trace[0] = '\0';
	fm_timer_set(loop, &a.timer, tick_ns + 10);
	fm_timer_set(loop, &b.timer, tick_ns + 20);
	fm_timer_set(loop, &a.timer, tick_ns + 30);
	tick_ns += 20;
	fm_loop_step(loop, 0);
	CU_ASSERT_STRING_EQUAL(trace, "b");
	fm_timer_set(loop, &a.timer, tick_ns + 5);
	tick_ns += 5;
	fm_loop_step(loop, 0);
	CU_ASSERT_STRING_EQUAL(trace, "ba");
	fm_timer_clear(loop, &a.timer);
	fm_timer_clear(loop, &a.timer);
	fm_loop_free(loop);
}

#define MANY 500

static uint64_t fired_last_ns;
static unsigned fired_count;

static void ordered_fire(struct fm_timer *timer)
{
	CU_ASSERT_TRUE(timer->at_ns >= fired_last_ns);
	fired_last_ns = timer->at_ns;
	fired_count++;
}

/* Method: set, move and clear timers at random, then let time run; each that is set must fire, by
 * its time. */
static void test_timer_many(void)
{
	static struct fm_timer timers[MANY];
	struct fm_loop *loop = new_sim();
	unsigned set = 0, seed = 1;

	for (int i = 0; i < 20 * MANY; i++) {
		struct fm_timer *timer = &timers[rand_r(&seed) % MANY];

		timer->fire = ordered_fire;
		if (rand_r(&seed) % 3 == 0)
			fm_timer_clear(loop, timer);
		else
			fm_timer_set(loop, timer, tick_ns + 1 + (unsigned)rand_r(&seed) % 1000);
	}
	for (int i = 0; i < MANY; i++)
		set += fm_timer_is_set(&timers[i]);
	fired_last_ns = 0;
	fired_count = 0;
	while (fm_loop_next_ns(loop) != FM_NEVER) {
		tick_ns = fm_loop_next_ns(loop);
		fm_loop_step(loop, 0);
	}
	CU_ASSERT_TRUE(set > 0);
	CU_ASSERT_EQUAL(fired_count, set);
	fm_loop_free(loop);
}

static void rearm_fire(struct fm_timer *timer)
{
	struct named_timer *t = fm_container_of(timer, struct named_timer, timer);

	trace_add(t->name);
	fm_timer_set(t->loop, timer, 0);
}

/* A time in the past counts as now. */
static void test_timer_rearm(void)
{
	struct fm_loop *loop = new_sim();
	struct named_timer a = { .timer.fire = rearm_fire, .name = 'a', .loop = loop };
	struct named_timer b = { .timer.fire = named_fire, .name = 'b' };

	trace[0] = '\0';
	fm_timer_set(loop, &a.timer, 0);
	fm_timer_set(loop, &b.timer, tick_ns + 1);
	fm_loop_step(loop, 0);
	CU_ASSERT_STRING_EQUAL(trace, "a");
	fm_loop_step(loop, 0);
	CU_ASSERT_STRING_EQUAL(trace, "aa");
	tick_ns += 1;
	fm_loop_step(loop, 0);
	CU_ASSERT_STRING_EQUAL(trace, "aaab");
	fm_timer_clear(loop, &a.timer);
	fm_loop_free(loop);
}

static void clear_other_fire(struct fm_timer *timer)
{
	struct named_timer *t = fm_container_of(timer, struct named_timer, timer);

	trace_add(t->name);
	fm_timer_clear(t->loop, t->other);
}

static void test_timer_clear_other(void)
{
	struct fm_loop *loop = new_sim();
	struct named_timer b = { .timer.fire = named_fire, .name = 'b' };
	struct named_timer a = {
		.timer.fire = clear_other_fire, .name = 'a', .loop = loop, .other = &b.timer};

	trace[0] = '\0';
	fm_timer_set(loop, &a.timer, tick_ns);
	fm_timer_set(loop, &b.timer, tick_ns);
	fm_loop_step(loop, 0);
	fm_loop_step(loop, 0);
	CU_ASSERT_STRING_EQUAL(trace, "a");
	fm_loop_free(loop);
}

struct stopper {
	struct fm_task task;
	struct fm_timer timer;
	struct fm_loop *loop;
};

static void stopper_fire(struct fm_timer *timer)
{
	fm_loop_stop(fm_container_of(timer, struct stopper, timer)->loop);
}

static void stopper_run(struct fm_task *task)
{
	fm_loop_stop(fm_container_of(task, struct stopper, task)->loop);
}

static void test_timer_wakes(void)
{
	struct fm_loop *loop = new_real();
	struct stopper s = { .timer.fire = stopper_fire, .loop = loop };
	uint64_t at_ns = fm_loop_now(loop) + 2 * FM_NS_PER_MS;

	fm_timer_set(loop, &s.timer, at_ns);
	fm_loop_run(loop);
	CU_ASSERT_TRUE(fm_loop_now(loop) >= at_ns);
	fm_loop_free(loop);
}

/* ---------------------------------------------------------------------------------------- tasks */

struct named_task {
	struct fm_task task;
	char name;
	struct fm_loop *loop;
	struct fm_task *other;
};

static void named_run(struct fm_task *task)
{
	struct named_task *t = fm_container_of(task, struct named_task, task);

	trace_add(t->name);
	if (t->other)
		fm_loop_post(t->loop, t->other);
}

static void test_task_order(void)
{
	struct fm_loop *loop = new_sim();
	struct named_task c = { .task.run = named_run, .name = 'c' };
	struct named_task a = {.task.run = named_run, .name = 'a', .loop = loop, .other = &c.task};
	struct named_task b = { .task.run = named_run, .name = 'b' };

	trace[0] = '\0';
	fm_loop_post(loop, &a.task);
	fm_loop_post(loop, &b.task);
	fm_loop_post(loop, &a.task);
	CU_ASSERT_EQUAL(fm_loop_next_ns(loop), 0);
	CU_ASSERT_TRUE(fm_loop_step(loop, 0));
	CU_ASSERT_STRING_EQUAL(trace, "ab");
	CU_ASSERT_TRUE(fm_loop_step(loop, 0));
	CU_ASSERT_STRING_EQUAL(trace, "abc");
	CU_ASSERT_FALSE(fm_loop_step(loop, 0));
	CU_ASSERT_EQUAL(fm_loop_next_ns(loop), FM_NEVER);
	fm_loop_free(loop);
}

static void test_task_reposts_itself(void)
{
	struct fm_loop *loop = new_sim();
	struct named_task a = {.task.run = named_run, .name = 'a', .loop = loop, .other = &a.task};

	trace[0] = '\0';
	fm_loop_post(loop, &a.task);
	fm_loop_step(loop, 0);
	fm_loop_step(loop, 0);
	CU_ASSERT_STRING_EQUAL(trace, "aa");
	a.other = NULL;
	fm_loop_step(loop, 0);
	CU_ASSERT_STRING_EQUAL(trace, "aaa");
	fm_loop_free(loop);
}

#define POSTERS 4
#define POSTS 2000

struct numbered_task {
	struct fm_task task;
	struct poster *poster;
	unsigned number;
};

struct poster {
	pthread_t thread;
	struct fm_loop *loop;
	unsigned next;		/* the number that must come now */
	bool is_disordered;
	struct numbered_task tasks[POSTS];
};

static unsigned posters_left;

static void numbered_run(struct fm_task *task)
{
	struct numbered_task *t = fm_container_of(task, struct numbered_task, task);
	struct poster *poster = t->poster;

	poster->is_disordered |= t->number != poster->next;
	poster->next++;
	if (poster->next == POSTS && --posters_left == 0)
		fm_loop_stop(poster->loop);
}

static void *poster_thread(void *arg)
{
	struct poster *poster = arg;

	for (unsigned i = 0; i < POSTS; i++)
		fm_loop_post(poster->loop, &poster->tasks[i].task);
	return NULL;
}

/* The loop sleeps whenever it has caught up; a lost wake-up would leave it there. */
static void test_post_threads(void)
{
	struct poster *posters = calloc(POSTERS, sizeof(*posters));
	struct fm_loop *loop = new_real();

	posters_left = POSTERS;
	for (unsigned p = 0; p < POSTERS; p++) {
		posters[p].loop = loop;
		for (unsigned i = 0; i < POSTS; i++)
			posters[p].tasks[i] =
				(struct numbered_task){{.run = numbered_run}, &posters[p], i};
		pthread_create(&posters[p].thread, NULL, poster_thread, &posters[p]);
	}
	fm_loop_run(loop);
	for (unsigned p = 0; p < POSTERS; p++) {
		pthread_join(posters[p].thread, NULL);
		CU_ASSERT_EQUAL(posters[p].next, POSTS);
		CU_ASSERT_FALSE(posters[p].is_disordered);
	}
	fm_loop_free(loop);
	free(posters);
}

static struct {
	struct fm_loop *loop;
	struct fm_task task;
	atomic_uint wanted;	/* raised before each post */
	unsigned seen;		/* by the last run */
} shared;

static void shared_run(struct fm_task *task)
{
	(void)task;
	shared.seen = atomic_load_explicit(&shared.wanted, memory_order_relaxed);
	if (shared.seen == POSTERS * POSTS)
		fm_loop_stop(shared.loop);
}

static void *shared_thread(void *arg)
{
	for (unsigned i = 0; i < POSTS; i++) {
		atomic_fetch_add_explicit(&shared.wanted, 1, memory_order_relaxed);
		fm_loop_post(shared.loop, &shared.task);
	}
	return arg;
}

/* Goal: a post that finds the task posted already is not lost: a run that sees all its writes
 * follows. */
static void test_post_shared(void)
{
	pthread_t threads[POSTERS];

	shared.loop = new_real();
	shared.task.run = shared_run;
	atomic_store(&shared.wanted, 0);
	for (unsigned p = 0; p < POSTERS; p++)
		pthread_create(&threads[p], NULL, shared_thread, NULL);
	fm_loop_run(shared.loop);
	for (unsigned p = 0; p < POSTERS; p++)
		pthread_join(threads[p], NULL);
	/* the last post may have come after the run that stopped the loop */
	fm_loop_step(shared.loop, 0);
	CU_ASSERT_EQUAL(shared.seen, POSTERS * POSTS);
	fm_loop_free(shared.loop);
}

#define VOLLEYS 3000

struct player {
	struct fm_task task;
	struct fm_loop *loop;
	struct player *other;
	unsigned hits;
};

static void player_run(struct fm_task *task)
{
	struct player *p = fm_container_of(task, struct player, task);

	if (++p->hits < VOLLEYS) {
		fm_loop_post(p->other->loop, &p->other->task);
	} else {
		fm_loop_stop(p->other->loop);
		fm_loop_stop(p->loop);
	}
}

static void *player_thread(void *arg)
{
	fm_loop_run(((struct player *)arg)->loop);
	return NULL;
}

/* Two loops that play one ball: each sleeps while the other has it, thousands of times. */
static void test_ping_pong(void)
{
	struct player a = { .task.run = player_run, .loop = new_real() };
	struct player b = { .task.run = player_run, .loop = new_real(), .other = &a };
	pthread_t thread;

	a.other = &b;
	pthread_create(&thread, NULL, player_thread, &b);
	fm_loop_post(a.loop, &a.task);
	fm_loop_run(a.loop);
	pthread_join(thread, NULL);
	CU_ASSERT_EQUAL(a.hits, VOLLEYS);
	CU_ASSERT_EQUAL(b.hits, VOLLEYS - 1);
	fm_loop_free(a.loop);
	fm_loop_free(b.loop);
}

static void *post_once_thread(void *arg)
{
	struct stopper *s = arg;

	fm_loop_post(s->loop, &s->task);
	return NULL;
}

/* Goal: the loop may be freed as soon as the task ran, while its poster is still on the way out.
 * ASan and TSan tell. */
static void test_free_after_post(void)
{
	for (int i = 0; i < 300; i++) {
		struct stopper s = { .task.run = stopper_run, .loop = new_real() };
		pthread_t thread;

		pthread_create(&thread, NULL, post_once_thread, &s);
		fm_loop_run(s.loop);
		fm_loop_free(s.loop);
		pthread_join(thread, NULL);
	}
	CU_PASS("nothing was touched after it was freed");
}

/* ----------------------------------------------------------------------------------------- stop */

static void test_stop_before_run(void)
{
	struct fm_loop *loop = new_real();
	struct stopper s = { .task.run = stopper_run, .loop = loop };

	fm_loop_stop(loop);
	fm_loop_run(loop);
	fm_loop_post(loop, &s.task);	/* and it can run again */
	fm_loop_run(loop);
	CU_ASSERT_FALSE(s.task.is_posted);
	fm_loop_free(loop);
}

static struct fm_loop *signalled;

static void stop_on_signal(int number)
{
	(void)number;
	fm_loop_stop(signalled);
}

static void *signal_thread(void *arg)
{
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

/* The signal meets the loop before, during or after it falls asleep: each must end it. */
static void test_stop_signal(void)
{
	struct sigaction action = { .sa_handler = stop_on_signal };
	pthread_t self = pthread_self(), thread;

	signalled = new_real();
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 300; i++) {
		pthread_create(&thread, NULL, signal_thread, &self);
		fm_loop_run(signalled);
		pthread_join(thread, NULL);
	}
	signal(SIGUSR1, SIG_DFL);
	fm_loop_free(signalled);
	CU_PASS("it ended each time");
}

/* -------------------------------------------------------------------------------------- watches */

struct pipe_watch {
	struct fm_watch watch;
	struct fm_loop *loop;
	struct pipe_watch *victim;	/* removed, and freed, in ready() */
	int fds[2];
	unsigned calls;
	uint32_t events;
};

static void pipe_ready(struct fm_watch *watch, uint32_t events)
{
	struct pipe_watch *p = fm_container_of(watch, struct pipe_watch, watch);

	p->calls++;
	p->events = events;
}

static struct pipe_watch *pipe_watch_new(struct fm_loop *loop)
{
	struct pipe_watch *p = calloc(1, sizeof(*p));

	if (!p || pipe2(p->fds, O_CLOEXEC) < 0)
		abort();
	p->loop = loop;
	p->watch.ready = pipe_ready;
	p->watch.fd = p->fds[0];
	p->watch.events = EPOLLIN;
	CU_ASSERT_EQUAL(fm_watch_add(loop, &p->watch, NULL), 0);
	return p;
}

static void pipe_watch_free(struct pipe_watch *p)
{
	if (!p)
		return;
	fm_watch_del(p->loop, &p->watch);
	close(p->fds[0]);
	close(p->fds[1]);
	free(p);
}

static void pipe_put(struct pipe_watch *p)
{
	CU_ASSERT_EQUAL(write(p->fds[1], "x", 1), 1);
}

static void test_watch_level(void)
{
	struct fm_loop *loop = new_real();
	struct pipe_watch *p = pipe_watch_new(loop);
	char c;

	CU_ASSERT_FALSE(fm_loop_step(loop, 0));
	pipe_put(p);
	CU_ASSERT_TRUE(fm_loop_step(loop, FM_NEVER));
	CU_ASSERT_TRUE(fm_loop_step(loop, FM_NEVER));
	CU_ASSERT_EQUAL(p->calls, 2);
	CU_ASSERT_EQUAL(p->events, EPOLLIN);
	CU_ASSERT_EQUAL(read(p->fds[0], &c, 1), 1);
	CU_ASSERT_FALSE(fm_loop_step(loop, 0));
	pipe_watch_free(p);
	fm_loop_free(loop);
}

static void test_watch_mod(void)
{
	struct fm_loop *loop = new_real();
	struct pipe_watch *p = pipe_watch_new(loop);

	pipe_put(p);
	fm_watch_mod(loop, &p->watch, 0);
	CU_ASSERT_FALSE(fm_loop_step(loop, 0));
	fm_watch_mod(loop, &p->watch, EPOLLIN);
	CU_ASSERT_TRUE(fm_loop_step(loop, 0));
	fm_watch_mod(loop, &p->watch, 0);
	close(p->fds[1]);
	CU_ASSERT_TRUE(fm_loop_step(loop, 0));
	CU_ASSERT_EQUAL(p->events, EPOLLHUP);
	p->fds[1] = -1;
	pipe_watch_free(p);
	fm_loop_free(loop);
}

static void pipe_ready_kills(struct fm_watch *watch, uint32_t events)
{
	struct pipe_watch *p = fm_container_of(watch, struct pipe_watch, watch);

	pipe_ready(watch, events);
	pipe_watch_free(p->victim);
	p->victim = NULL;
	fm_watch_del(p->loop, watch);
}

/* Two watches are ready at once; whichever is first removes itself and the other, which is freed on
 * the spot. */
static void test_watch_removed_by_other(void)
{
	struct fm_loop *loop = new_real();
	struct pipe_watch *a = pipe_watch_new(loop), *b = pipe_watch_new(loop), *left;

	a->watch.ready = pipe_ready_kills;
	b->watch.ready = pipe_ready_kills;
	a->victim = b;
	b->victim = a;
	pipe_put(a);
	pipe_put(b);
	/* Only the first to be called is left; a step that called both would call into freed
	 * memory. */
	CU_ASSERT_TRUE(fm_loop_step(loop, 0));
	CU_ASSERT_FALSE(fm_loop_step(loop, 0));
	left = a->victim ? b : a;
	CU_ASSERT_EQUAL(left->calls, 1);
	CU_ASSERT_FALSE(left->watch.is_added);
	pipe_watch_free(left);
	fm_loop_free(loop);
}

static void pipe_ready_mutes(struct fm_watch *watch, uint32_t events)
{
	struct pipe_watch *p = fm_container_of(watch, struct pipe_watch, watch);

	pipe_ready(watch, events);
	fm_watch_mod(p->loop, &p->victim->watch, 0);
}

static void test_watch_muted_by_other(void)
{
	struct fm_loop *loop = new_real();
	struct pipe_watch *a = pipe_watch_new(loop), *b = pipe_watch_new(loop);

	a->watch.ready = pipe_ready_mutes;
	b->watch.ready = pipe_ready_mutes;
	a->victim = b;
	b->victim = a;
	pipe_put(a);
	pipe_put(b);
	CU_ASSERT_TRUE(fm_loop_step(loop, 0));
	CU_ASSERT_EQUAL(a->calls + b->calls, 1);
	pipe_watch_free(a);
	pipe_watch_free(b);
	fm_loop_free(loop);
}

static void test_watch_refused(void)
{
	struct fm_loop *loop = new_real(), *sim = new_sim();
	struct fm_watch watch = {.ready = pipe_ready,
				 .fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_watch_add(loop, &watch, &err), -EPERM);
	CU_ASSERT_EQUAL(err.code, -EPERM);
	CU_ASSERT_FALSE(watch.is_added);
	CU_ASSERT_EQUAL(fm_watch_add(sim, &watch, &err), -ENOTSUP);
	close(watch.fd);
	fm_loop_free(loop);
	fm_loop_free(sim);
}

/* -------------------------------------------------------------------------------------- pollers */

struct test_poller {
	struct fm_poller poller;
	struct fm_loop *loop;
	struct test_poller *victim;
	unsigned polls;
	unsigned sleeps;	/* calls of before_sleep */
	unsigned finds_left;	/* poll() finds something so often */
	uint64_t step_ns;	/* what one poll() moves the clock by */
};

static bool test_poll(struct fm_poller *poller)
{
	struct test_poller *p = fm_container_of(poller, struct test_poller, poller);

	p->polls++;
	tick_ns += p->step_ns;
	if (p->victim)
		fm_poller_del(p->loop, &p->victim->poller);
	p->victim = NULL;
	if (p->finds_left == 0)
		return false;
	p->finds_left--;
	return true;
}

/* "Something came in between": the loop must not sleep, or the test hangs. */
static bool test_before_sleep(struct fm_poller *poller)
{
	fm_container_of(poller, struct test_poller, poller)->sleeps++;
	return true;
}

static void test_poller_keeps_awake(void)
{
	struct fm_loop *loop = new_real();
	struct test_poller p = {.poller = {.poll = test_poll, .before_sleep = test_before_sleep},
				.finds_left = 1};

	fm_poller_add(loop, &p.poller);
	CU_ASSERT_TRUE(fm_loop_step(loop, FM_NEVER));
	CU_ASSERT_EQUAL(p.sleeps, 0);
	CU_ASSERT_FALSE(fm_loop_step(loop, FM_NEVER));
	CU_ASSERT_EQUAL(p.sleeps, 1);
	CU_ASSERT_FALSE(fm_loop_step(loop, 0));		/* not asked to sleep, so nothing to arm */
	CU_ASSERT_EQUAL(p.sleeps, 1);
	CU_ASSERT_EQUAL(p.polls, 3);
	fm_poller_del(loop, &p.poller);
	fm_loop_free(loop);
}

/* Each poll takes 1 us; the loop may spin for 10 us. */
static void test_poller_spins(void)
{
	struct fm_loop *loop = new_loop(&(struct fm_loop_opts){ .clock = &tick, .spin_ns = 10000 });
	struct test_poller p = {
		.poller = {.poll = test_poll, .before_sleep = test_before_sleep, .is_busy = true},
		.finds_left = 1,
		.step_ns = 1000};

	tick_ns += 1000000;
	fm_poller_add(loop, &p.poller);
	for (int i = 0; i < 10; i++)
		fm_loop_step(loop, FM_NEVER);
	CU_ASSERT_EQUAL(p.sleeps, 0);
	fm_loop_step(loop, FM_NEVER);
	CU_ASSERT_EQUAL(p.sleeps, 1);
	p.finds_left = 1;
	fm_loop_step(loop, FM_NEVER);
	fm_loop_step(loop, FM_NEVER);
	CU_ASSERT_EQUAL(p.sleeps, 1);
	p.poller.is_busy = false;
	fm_loop_step(loop, FM_NEVER);
	CU_ASSERT_EQUAL(p.sleeps, 2);
	fm_poller_del(loop, &p.poller);
	fm_loop_free(loop);
}

static void test_poller_removes(void)
{
	struct fm_loop *loop = new_sim();
	struct test_poller a = { .poller.poll = test_poll, .loop = loop };
	struct test_poller b = { .poller.poll = test_poll, .loop = loop };
	struct test_poller c = { .poller.poll = test_poll, .loop = loop };

	a.victim = &b;
	c.victim = &c;
	fm_poller_add(loop, &a.poller);
	fm_poller_add(loop, &b.poller);
	fm_poller_add(loop, &c.poller);
	fm_loop_step(loop, 0);
	fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(a.polls, 2);
	CU_ASSERT_EQUAL(b.polls, 0);
	CU_ASSERT_EQUAL(c.polls, 1);
	fm_poller_del(loop, &a.poller);
	fm_loop_free(loop);
}

static void pipe_ready_stops(struct fm_watch *watch, uint32_t events)
{
	pipe_ready(watch, events);
	fm_loop_stop(fm_container_of(watch, struct pipe_watch, watch)->loop);
}

/* With a clock that stands still, and one that runs. */
static void test_busy_poller_starves_nobody(void)
{
	const struct fm_clock *clocks[] = { &tick, &fm_clock_real };

	for (int i = 0; i < 2; i++) {
		struct fm_loop *loop = new_loop(&(struct fm_loop_opts){ .clock = clocks[i] });
		struct test_poller p = { .poller.poll = test_poll, .finds_left = UINT32_MAX };
		struct pipe_watch *w = pipe_watch_new(loop);

		w->watch.ready = pipe_ready_stops;
		pipe_put(w);
		fm_poller_add(loop, &p.poller);
		fm_loop_run(loop);
		CU_ASSERT_EQUAL(w->calls, 1);
		fm_poller_del(loop, &p.poller);
		pipe_watch_free(w);
		fm_loop_free(loop);
	}
}

/* ------------------------------------------------------------------------------- life and death */

static void test_time_once_per_pass(void)
{
	struct fm_loop *loop = new_sim();
	uint64_t before_ns = tick_ns;

	tick_ns += 50;
	CU_ASSERT_EQUAL(fm_loop_now(loop), before_ns);
	fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(fm_loop_now(loop), before_ns + 50);
	fm_loop_free(loop);
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void test_new_faults(void)
{
	const struct fm_loop_opts opts = { 0 };
	unsigned n, fds = count_fds();
	int ret = -1;

	for (n = 1; ret < 0 && n < 100; n++) {
		struct fm_loop *loop = NULL;
		struct fm_err err = { 0 };

		fm_fault_arm(NULL, n);
		ret = fm_loop_new(&opts, &loop, &err);
		CU_ASSERT_EQUAL(ret < 0, fm_fault_fired());
		CU_ASSERT_EQUAL(ret, err.code);
		CU_ASSERT_EQUAL(ret < 0, err.text[0] != '\0' && !loop);
		fm_loop_free(loop);
		CU_ASSERT_EQUAL(count_fds(), fds);
	}
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(ret, 0);
}

static const struct fm_test tests[] = {
	{"timers fire by time, and in the order set at the same time", test_timer_order},
	{"a timer may be moved either way, and cleared twice", test_timer_move},
	{"of many timers set and cleared at random all fire by time", test_timer_many},
	{"a timer that sets itself into the past keeps no other from firing", test_timer_rearm},
	{"a due timer that another one clears does not fire", test_timer_clear_other},
	{"a sleeping loop wakes up for a timer", test_timer_wakes},
	{"tasks run once each in the order posted, what they post in a later pass",
	 test_task_order},
	{"a task may post itself again", test_task_reposts_itself},
	{"posts of several threads all run, in the order of each thread", test_post_threads},
	{"a task posted by several threads runs after the last of them", test_post_shared},
	{"a loop that sleeps is woken by a post, every time", test_ping_pong},
	{"a loop may be freed as soon as a posted task ran", test_free_after_post},
	{"a stop before run is not lost, and ends one run", test_stop_before_run},
	{"a signal handler can stop the loop at any moment", test_stop_signal},
	{"a watch is called as long as its descriptor is ready", test_watch_level},
	{"a watch can change what it waits for, errors always come", test_watch_mod},
	{"a ready watch that another one removes is not called", test_watch_removed_by_other},
	{"a ready watch that another one changes is called for what it asks",
	 test_watch_muted_by_other},
	{"what cannot be watched is refused with an error", test_watch_refused},
	{"the loop does not sleep while a poller finds something", test_poller_keeps_awake},
	{"the loop spins after a find while a poller is busy", test_poller_spins},
	{"a poller may remove itself and the next one", test_poller_removes},
	{"a poller that always finds something starves no descriptor",
	 test_busy_poller_starves_nobody},
	{"time stands still between passes", test_time_once_per_pass},
	{"a loop that cannot be made leaves nothing behind", test_new_faults},
};
FM_TEST_MAIN("loop", tests)
