/* SPDX-License-Identifier: MIT */
/*
 * holder - see holder.h.
 *
 * Made on our loop: the lanes' loops first, so that both processes have their descriptors, then the
 * process. Its first thread is one of the worker's. It ends when no reference is left for IDLE_NS:
 * the worker ends, the lanes are stopped, the process is over; the next tick frees it. One in which
 * something hangs keeps its references, so it is never told to end.
 */
#include "mover/base/holder.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/apart.h"
#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/ring.h"
#include "mover/base/worker.h"

#define TICK_NS FM_NS_PER_S
#define IDLE_NS (10 * FM_NS_PER_S)
#define RING_DEPTH 64
#define HOLDER_BYTES (1u << 20)		/* of the budget: stacks, rings */
#define RETRY_NS 100000000L		/* what the system refuses now it may grant soon */
#define STEP_NS (10 * FM_NS_PER_MS)
#define KEEP_MAX (1 + 1 + FM_HOLDER_LOOPS_MAX + 2 * FM_HOLDER_LANES_MAX)

struct lane {
	struct fm_holder *holder;
	struct fm_loop *loop;
	struct fm_ring *ring;
	pthread_t thread;
	bool has_thread;
};

struct fm_holder {
	struct fm_list at;
	struct fm_holders *all;
	uid_t uid;
	atomic_uint refs;
	uint64_t used_ns;		/* a tick saw a reference last, or it was told to end */
	bool is_ending;
	struct fm_apart *apart;
	struct fm_worker *worker;
	struct lane lanes[FM_HOLDER_LANES_MAX];
	int pass[2];			/* ours, its */
	pthread_mutex_t pass_lock;
};

struct fm_holders {
	struct fm_holders_opts o;
	struct fm_loop *others[FM_HOLDER_LOOPS_MAX];
	struct fm_list list;
	unsigned count;
	struct fm_timer tick;
	struct fm_log_limit lines;	/* of users who have to wait */
};

/* ---- there ---- */

static void pause_a_moment(void)
{
	const struct timespec t = { .tv_nsec = RETRY_NS };

	(void)nanosleep(&t, NULL);	/* longer or shorter is as good */
}

static void *lane_main(void *arg)
{
	struct lane *lane = arg;
	const struct fm_ring_opts opts = {.depth = RING_DEPTH,
					  .is_threads_only = lane->holder->all->o.is_threads_only};
	struct fm_err err;

	while (fm_ring_new(lane->loop, &opts, &lane->ring, &err) < 0)
		pause_a_moment();
	fm_loop_run(lane->loop);
	while (fm_loop_step(lane->loop, 0))
		;	/* nothing may be posted to a loop that is freed */
	fm_ring_free(lane->ring);
	return NULL;
}

static void holder_main(void *arg)
{
	struct fm_holder *h = arg;
	unsigned lanes = h->all->o.lanes;

	for (unsigned i = 0; i < lanes; i++)
		while (pthread_create(&h->lanes[i].thread, NULL, lane_main, &h->lanes[i]) != 0)
			pause_a_moment();
	fm_worker_serve(h->worker, FM_HOLDER_THREADS);
	for (unsigned i = 0; i < lanes; i++) {
		fm_loop_stop(h->lanes[i].loop);
		pthread_join(h->lanes[i].thread, NULL);
	}
}

/* ---- making one ---- */

static unsigned keep(int *out, unsigned count, const struct fm_loop *loop, bool is_its)
{
	int fds[2];

	fm_loop_fds(loop, fds);
	out[count++] = fds[0];
	if (is_its)
		out[count++] = fds[1];
	return count;
}

static int start_process(struct fm_holder *h, struct fm_err *err)
{
	const struct fm_holders_opts *o = &h->all->o;
	int fds[KEEP_MAX];
	unsigned count = 0;

	fds[count++] = h->pass[1];
	count = keep(fds, count, o->loop, false);
	for (unsigned i = 0; i < o->others_count; i++)
		count = keep(fds, count, o->others[i], false);
	for (unsigned i = 0; i < o->lanes; i++)
		count = keep(fds, count, h->lanes[i].loop, true);
	return fm_apart_new(holder_main, h, fds, count, &h->apart, err);
}

/* Of one that was made in part, too; its process is over or never was. */
static void holder_free(struct fm_holder *h)
{
	fm_apart_free(h->apart);
	for (unsigned i = 0; i < FM_HOLDER_LANES_MAX; i++)
		fm_loop_free(h->lanes[i].loop);
	fm_worker_free(h->worker);
	for (unsigned i = 0; i < 2; i++)
		if (h->pass[i] >= 0)
			(void)close(h->pass[i]);	/* nothing waits in them */
	pthread_mutex_destroy(&h->pass_lock);
	fm_budget_give(HOLDER_BYTES);
	free(h);
}

static int holder_fill(struct fm_holder *h, struct fm_err *err)
{
	const struct fm_loop_opts loop_opts = { .spin_ns = h->all->o.spin_ns };
	int ret = fm_worker_new_idle(&h->worker, err);

	for (unsigned i = 0; ret == 0 && i < h->all->o.lanes; i++) {
		h->lanes[i].holder = h;
		ret = fm_loop_new(&loop_opts, &h->lanes[i].loop, err);
	}
	if (ret == 0 && (FM_FAULT("holder.socket") ||
			 socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, h->pass) < 0))
		ret = fm_err_sys(err, errno ? -errno : -EMFILE, "socketpair");
	return ret < 0 ? ret : start_process(h, err);
}

static struct fm_holder *holder_new(struct fm_holders *all, uid_t uid)
{
	struct fm_holder *h = FM_FAULT("holder.new") || !fm_budget_take(HOLDER_BYTES)
				      ? NULL
				      : calloc(1, sizeof(*h));
	struct fm_err err;

	if (!h)
		return NULL;
	h->all = all;
	h->uid = uid;
	h->pass[0] = h->pass[1] = -1;
	atomic_init(&h->refs, 0);
	pthread_mutex_init(&h->pass_lock, NULL);
	if (holder_fill(h, &err) < 0) {
		if (fm_log_may(&all->lines, fm_loop_now(all->o.loop)))
			fm_log_warn("files of user %u have to wait: %s", (unsigned)uid, err.text);
		holder_free(h);
		return NULL;
	}
	fm_list_append(&all->list, &h->at);
	all->count++;
	return h;
}

/* ---- all of them ---- */

static void holder_end(struct fm_holder *h, uint64_t now_ns)
{
	h->is_ending = true;
	h->used_ns = now_ns;
	fm_worker_end(h->worker);
}

static void look_at(struct fm_holder *h, uint64_t now_ns)
{
	if (h->is_ending) {
		if (!fm_apart_is_over(h->apart))
			return;
		fm_list_del(&h->at);
		h->all->count--;
		holder_free(h);
	} else if (atomic_load(&h->refs) > 0) {
		h->used_ns = now_ns;
	} else if (now_ns >= h->used_ns + IDLE_NS) {
		holder_end(h, now_ns);
	}
}

static void tick(struct fm_timer *timer)
{
	struct fm_holders *all = fm_container_of(timer, struct fm_holders, tick);
	uint64_t now_ns = fm_loop_now(all->o.loop);

	fm_list_each(at, next, &all->list)
		look_at(fm_container_of(at, struct fm_holder, at), now_ns);
	if (all->count > 0)
		fm_timer_set(all->o.loop, timer, now_ns + TICK_NS);
}

int fm_holders_new(const struct fm_holders_opts *opts, struct fm_holders **out, struct fm_err *err)
{
	struct fm_holders *all = FM_FAULT("holders.new") ? NULL : calloc(1, sizeof(*all));

	assert(opts->lanes <= FM_HOLDER_LANES_MAX && opts->others_count <= FM_HOLDER_LOOPS_MAX);
	if (!all)
		return fm_err_set(err, -ENOMEM, "no memory for the holders of descriptors");
	all->o = *opts;
	for (unsigned i = 0; i < opts->others_count; i++)
		all->others[i] = opts->others[i];
	all->o.others = all->others;
	fm_list_init(&all->list);
	all->tick.fire = tick;
	*out = all;
	return 0;
}

static bool has_refs(const struct fm_holders *all)
{
	fm_list_each(at, next, &all->list)
		if (atomic_load(&fm_container_of(at, struct fm_holder, at)->refs) > 0)
			return true;
	return false;
}

static bool is_working(const struct fm_holders *all)
{
	fm_list_each(at, next, &all->list)
		if (!fm_worker_is_idle(fm_container_of(at, struct fm_holder, at)->worker))
			return true;
	return false;
}

bool fm_holders_settle(struct fm_holders *all, uint64_t max_ns)
{
	uint64_t end_ns = fm_clock_real.now_ns(fm_clock_real.ctx) + max_ns;

	while (all && fm_clock_real.now_ns(fm_clock_real.ctx) < end_ns) {
		bool is_busy = is_working(all);

		if (!fm_loop_step(all->o.loop, is_busy ? STEP_NS : 0) && !is_busy)
			return true;
	}
	return !all;
}

bool fm_holders_stop(struct fm_holders *all, uint64_t max_ns)
{
	uint64_t end_ns;
	bool is_over = true;

	if (!all)
		return true;
	fm_timer_clear(all->o.loop, &all->tick);
	end_ns = fm_clock_real.now_ns(fm_clock_real.ctx) + max_ns;
	while (has_refs(all) && fm_clock_real.now_ns(fm_clock_real.ctx) < end_ns)
		(void)fm_loop_step(all->o.loop, STEP_NS);
	if (has_refs(all))
		return false;
	fm_list_each(at, next, &all->list) {
		struct fm_holder *h = fm_container_of(at, struct fm_holder, at);

		if (!h->is_ending)
			holder_end(h, fm_loop_now(all->o.loop));
		is_over &= fm_apart_wait(h->apart, max_ns);
	}
	return is_over;
}

void fm_holders_free(struct fm_holders *all)
{
	struct fm_list *at;

	if (!all)
		return;
	assert(!fm_timer_is_set(&all->tick));
	while ((at = fm_list_pop(&all->list)))
		holder_free(fm_container_of(at, struct fm_holder, at));
	free(all);
}

/*
 * All places are taken: the one that nobody has used for the longest time ends, for the next try.
 * That of root is for root alone. One that does not come to its end is as if it were in use.
 */
static void make_room(struct fm_holders *all, uid_t uid)
{
	uint64_t now_ns = fm_loop_now(all->o.loop);
	struct fm_holder *oldest = NULL;

	fm_list_each(at, next, &all->list) {
		struct fm_holder *h = fm_container_of(at, struct fm_holder, at);

		if (uid != 0 && h->uid == 0)
			continue;
		if (h->is_ending && now_ns < h->used_ns + IDLE_NS)
			return;		/* that is a place soon */
		if (!h->is_ending && atomic_load(&h->refs) == 0 &&
		    (!oldest || h->used_ns < oldest->used_ns))
			oldest = h;
	}
	if (oldest)
		holder_end(oldest, now_ns);
	else if (fm_log_may(&all->lines, now_ns))
		fm_log_warn("files of user %u have to wait: %u users have files here that are in "
			    "use, as many as there is room for",
			    (unsigned)uid, all->count);
}

static bool has_place(const struct fm_holders *all, uid_t uid)
{
	unsigned others = 0;		/* than root's */

	fm_list_each(at, next, &all->list)
		others += fm_container_of(at, struct fm_holder, at)->uid != 0;
	return all->count < FM_HOLDERS_MAX &&
	       (uid == 0 || others < FM_HOLDERS_MAX - FM_HOLDERS_ROOT);
}

struct fm_holder *fm_holder_get(struct fm_holders *all, uid_t uid)
{
	struct fm_holder *h = NULL;

	fm_list_each(at, next, &all->list) {
		struct fm_holder *other = fm_container_of(at, struct fm_holder, at);

		if (other->uid == uid && !other->is_ending)
			h = other;
	}
	if (!h && has_place(all, uid))
		h = holder_new(all, uid);
	else if (!h)
		make_room(all, uid);
	if (!h)
		return NULL;
	h->used_ns = fm_loop_now(all->o.loop);
	if (!fm_timer_is_set(&all->tick))
		fm_timer_set(all->o.loop, &all->tick, h->used_ns + TICK_NS);
	return fm_holder_ref(h);
}

struct fm_holder *fm_holder_ref(struct fm_holder *h)
{
	if (h)
		atomic_fetch_add(&h->refs, 1);
	return h;
}

void fm_holder_put(struct fm_holder *h)
{
	if (h)
		atomic_fetch_sub(&h->refs, 1);
}

void fm_holder_work(struct fm_holder *h, struct fm_work *work)
{
	assert(atomic_load(&h->refs) > 0);
	fm_worker_submit(h->worker, work, h->all->o.loop);
}

struct fm_worker *fm_holder_worker(struct fm_holder *h)
{
	return h->worker;
}

/* ---- closing ---- */

struct closing {
	struct fm_work work;
	struct fm_holder *holder;
	unsigned count;
	int fds[];
};

static void close_all(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);	/* given up: nothing more is wanted of it */
}

static void closing_run(struct fm_work *work)
{
	const struct closing *c = fm_container_of(work, struct closing, work);

	close_all(c->fds, c->count);
}

static void closing_done(struct fm_work *work)
{
	struct closing *c = fm_container_of(work, struct closing, work);

	fm_holder_put(c->holder);
	free(c);
}

static bool has_any(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (fds[i] >= 0)
			return true;
	return false;
}

void fm_holder_close(struct fm_holder *h, const int *fds, unsigned count)
{
	struct closing *c;

	if (!h) {
		close_all(fds, count);
		return;
	}
	if (!has_any(fds, count))
		return;
	c = calloc(1, sizeof(*c) + count * sizeof(*fds));
	if (!c)
		return;		/* without memory they stay open until the holder ends */
	c->work.run = closing_run;
	c->work.done = closing_done;
	c->holder = fm_holder_ref(h);
	c->count = count;
	memcpy(c->fds, fds, count * sizeof(*fds));
	fm_holder_work(h, &c->work);
}

/* ---- handing over ---- */

/* The message says for whom it is: whoever takes it out of the socket lays it there. */
struct message {
	struct fm_passed *passed;
};

int fm_holder_pass(struct fm_holder *h, int fd, struct fm_passed *passed)
{
	const struct message m = { passed };

	passed->fd = -1;
	if (FM_FAULT("holder.pass") ||
	    fm_call_send_fd(h->pass[0], &m, sizeof(m), fd, MSG_DONTWAIT) < 0)
		return -EAGAIN;
	return 0;
}

/* -EBADF: it came without its descriptor, for which this process has no room. */
static int take_one(struct fm_holder *h)
{
	struct message m;
	int fd, n = fm_call_recv_fd(h->pass[1], &m, sizeof(m), &fd, MSG_DONTWAIT);

	if (n != (int)sizeof(m))
		return n < 0 ? n : -EBADMSG;
	m.passed->fd = fd < 0 ? -EBADF : fd;
	return 0;
}

int fm_holder_passed(struct fm_holder *h, struct fm_passed *passed)
{
	int ret = 0, fd;

	pthread_mutex_lock(&h->pass_lock);
	while (passed->fd == -1 && ret == 0)
		ret = take_one(h);	/* ours, or that of somebody who comes after us */
	fd = passed->fd;
	pthread_mutex_unlock(&h->pass_lock);
	return ret < 0 ? ret : fd;
}

/* ---- lanes ---- */

struct fm_loop *fm_holder_loop(struct fm_holder *h, unsigned any)
{
	return h->all->o.lanes > 0 ? h->lanes[any % h->all->o.lanes].loop : NULL;
}

struct fm_ring *fm_holder_ring(struct fm_holder *h, unsigned any)
{
	return h->lanes[any % h->all->o.lanes].ring;
}
