/* SPDX-License-Identifier: MIT */
/*
 * packet_shut - see packet_shut.h.
 *
 * Happy path: the socket is passed to the holder, closed here, and closed there by a work of its
 * own. The holder takes none: it waits in a list, and is tried again at every tick. Too many of one
 * user are waiting: a closer is made, a process that begins with copies of them; they are closed
 * here, and end with it. The end: closers get all that waits. One in which something hangs is left
 * behind; it has nothing of ours.
 *
 * Without holders the first that waits gets a closer, which is forked, and so do more when that has
 * ended. As long as one hangs, others wait until they are many, too.
 */
#include "mover/base/packet_shut.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/apart.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/worker.h"

#define TICK_NS (100 * FM_NS_PER_MS)
#define END_NS FM_NS_PER_S	/* for all closers to end, of those in which nothing hangs */

struct fm_packet_shut {
	struct fm_work work;
	struct fm_list at;		/* of those that wait */
	struct fm_holder *holder;
	struct fm_passed passed;
	int fd;
	uid_t uid;
};

struct closer {
	struct fm_list at;
	struct fm_apart *apart;		/* or NULL, and it is forked: */
	pid_t pid;
	uid_t uid;
	unsigned count;
	int fds[];
};

/* ---- the holder ---- */

static void shut_run(struct fm_work *work)
{
	struct fm_packet_shut *s = fm_container_of(work, struct fm_packet_shut, work);
	int fd = fm_holder_passed(s->holder, &s->passed);

	if (fd >= 0)
		(void)close(fd);	/* with all that waits in it */
}

static void shut_done(struct fm_work *work)
{
	struct fm_packet_shut *s = fm_container_of(work, struct fm_packet_shut, work);

	fm_holder_put(s->holder);
	free(s);
}

/* Whether the holder has it, and closes it. */
static bool shut_there(struct fm_packet_shared *shared, struct fm_packet_shut *s)
{
	s->holder = shared->holders ? fm_holder_get(shared->holders, s->uid) : NULL;
	if (!s->holder)
		return false;
	if (fm_holder_pass(s->holder, s->fd, &s->passed) < 0) {
		fm_holder_put(s->holder);
		return false;
	}
	(void)close(s->fd);	/* not the last: another is on its way */
	s->work.run = shut_run;
	s->work.done = shut_done;
	fm_holder_work(s->holder, &s->work);
	return true;
}

/* ---- closers ---- */

/* There. Its end closes them; a thread of ours has no other way. */
static void closer_run(void *arg)
{
	const struct closer *c = arg;

	for (unsigned i = 0; !fm_apart_has_descriptors() && i < c->count; i++)
		(void)close(c->fds[i]);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/*
 * In the child: what it is for is the last that it has, and is closed by its end. That waits for
 * the end of the pipe, `wait`: we have none of it then.
 */
static void forked_run(struct closer *c, int wait)
{
	unsigned from = 0;
	char byte;

	(void)prctl(PR_SET_NAME, "fm-closer");	/* only for people who look at the process */
	qsort(c->fds, c->count, sizeof(*c->fds), compare);
	for (unsigned i = 0; i < c->count; from = (unsigned)c->fds[i++] + 1)
		if ((unsigned)c->fds[i] > from)
			(void)close_range(from, (unsigned)c->fds[i] - 1, 0);
	(void)close_range(from, ~0u, 0);
	while (read(wait, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(EXIT_SUCCESS);
}

/* *go is for us to close once we have closed what it has. */
static int forked_new(struct closer *c, int *go)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	c->fds[c->count] = ends[0];	/* there is room */
	c->pid = FM_FAULT("packet.fork") ? -1 : fork();
	if (c->pid == 0) {
		c->count++;
		forked_run(c, ends[0]);
	}
	(void)close(ends[0]);
	*go = ends[1];
	if (c->pid > 0)
		return 0;
	(void)close(ends[1]);
	return -EAGAIN;
}

/* Frees what was had for it, if it is. What is forked needs nothing of ours, at the end. */
static bool is_over(struct closer *c, bool is_end)
{
	if (!c->apart)
		return waitpid(c->pid, NULL, WNOHANG) != 0 || is_end;
	if (!fm_apart_is_over(c->apart))
		return false;
	fm_apart_free(c->apart);
	return true;
}

static void free_closers(struct fm_packet_shared *shared, bool is_end)
{
	fm_list_each(at, next, &shared->closers) {
		struct closer *c = fm_container_of(at, struct closer, at);

		if (!is_over(c, is_end))
			continue;
		fm_list_del(at);
		free(c);
	}
}

static void await_closers(struct fm_packet_shared *shared)
{
	uint64_t end_ns = fm_clock_real.now_ns(fm_clock_real.ctx) + END_NS;

	fm_list_each(at, next, &shared->closers) {
		struct fm_apart *apart = fm_container_of(at, struct closer, at)->apart;
		uint64_t now_ns = fm_clock_real.now_ns(fm_clock_real.ctx);

		/* looked at behind */
		if (apart)
			(void)fm_apart_wait(apart, now_ns < end_ns ? end_ns - now_ns : 0);
	}
}

static unsigned closers_of(const struct fm_packet_shared *shared, uid_t uid)
{
	unsigned count = 0;

	fm_list_each(at, next, &shared->closers)
		count += fm_container_of(at, struct closer, at)->uid == uid;
	return count;
}

static unsigned waiting_of(const struct fm_packet_shared *shared, uid_t uid)
{
	unsigned count = 0;

	fm_list_each(at, next, &shared->shut)
		count += fm_container_of(at, struct fm_packet_shut, at)->uid == uid;
	return count;
}

/* What was copied is ours no more. */
static void drop_waiting(struct fm_packet_shared *shared, uid_t uid)
{
	fm_list_each(at, next, &shared->shut) {
		struct fm_packet_shut *s = fm_container_of(at, struct fm_packet_shut, at);

		if (s->uid != uid)
			continue;
		if (!shared->holders || fm_apart_has_descriptors())
			(void)close(s->fd);	/* not the last */
		fm_list_del(at);
		free(s);
	}
}

/* All sockets of that user that wait here. False: not now. */
static bool closer_new(struct fm_packet_shared *shared, uid_t uid)
{
	size_t room = (waiting_of(shared, uid) + 1) * sizeof(((struct closer *)0)->fds[0]);
	struct closer *c = FM_FAULT("packet.closer") ? NULL : calloc(1, sizeof(*c) + room);
	struct fm_err err;
	int ret, go = -1;

	if (!c)
		return false;
	c->uid = uid;
	fm_list_each(at, next, &shared->shut) {
		const struct fm_packet_shut *s = fm_container_of(at, struct fm_packet_shut, at);

		if (s->uid == uid)
			c->fds[c->count++] = s->fd;
	}
	ret = shared->holders ? fm_apart_new(closer_run, c, c->fds, c->count, &c->apart, &err)
			      : forked_new(c, &go);
	if (ret < 0) {
		free(c);
		return false;
	}
	fm_list_append(&shared->closers, &c->at);
	drop_waiting(shared, uid);
	if (go >= 0)
		(void)close(go);
	return true;
}

/* Whether so many of that user wait that a process may be made for them. */
static bool is_too_many(const struct fm_packet_shared *shared, uid_t uid)
{
	unsigned closers = closers_of(shared, uid);

	if (!shared->holders && closers == 0)
		return waiting_of(shared, uid) > 0;
	if (closers > FM_PACKET_SHUT_DOUBLED_MAX)
		closers = FM_PACKET_SHUT_DOUBLED_MAX;
	return waiting_of(shared, uid) >= FM_PACKET_SHUT_WAITING_MAX << closers;
}

/* For one user; the list is another one then. False: there is nobody whose turn it is. */
static bool close_some(struct fm_packet_shared *shared, bool is_end)
{
	uid_t looked_at = (uid_t)-1;	/* nobody's */

	fm_list_each(at, next, &shared->shut) {
		uid_t uid = fm_container_of(at, struct fm_packet_shut, at)->uid;

		if (is_end || (uid != looked_at && is_too_many(shared, uid)))
			return closer_new(shared, uid);
		looked_at = uid;
	}
	return false;
}

/* ---- waiting ---- */

static void tick(struct fm_timer *timer)
{
	struct fm_packet_shared *shared =
		fm_container_of(timer, struct fm_packet_shared, shut_timer);

	fm_list_each(at, next, &shared->shut) {
		fm_list_del(at);
		if (!shut_there(shared, fm_container_of(at, struct fm_packet_shut, at)))
			fm_list_append(next, at);	/* before the next: where it was */
	}
	free_closers(shared, false);
	while (close_some(shared, false))
		;
	if (!fm_list_is_empty(&shared->shut) || !fm_list_is_empty(&shared->closers))
		fm_timer_set(shared->loop, timer, fm_loop_now(shared->loop) + TICK_NS);
}

bool fm_packet_is_apart(const struct fm_packet_shared *shared)
{
	return shared->holders || shared->limits->is_plain;
}

void fm_packet_shut_init(struct fm_packet_shared *shared)
{
	fm_list_init(&shared->shut);
	fm_list_init(&shared->closers);
	shared->shut_timer.fire = tick;
}

bool fm_packet_may_take(struct fm_packet_shared *shared)
{
	bool is_apart = fm_packet_is_apart(shared);

	if (is_apart && !shared->spare)
		shared->spare = FM_FAULT("packet.spare") ? NULL : calloc(1, sizeof(*shared->spare));
	return !is_apart || shared->spare;
}

void fm_packet_shut(struct fm_packet_shared *shared, int fd, uid_t uid,
		    struct fm_packet_shut **room)
{
	struct fm_packet_shut *s = *room;

	assert(s);
	*room = NULL;
	fm_list_init(&s->at);
	s->fd = fd;
	s->uid = uid;
	if (shut_there(shared, s))
		return;
	fm_list_append(&shared->shut, &s->at);
	if (!fm_timer_is_set(&shared->shut_timer))
		fm_timer_set(shared->loop, &shared->shut_timer,
			     fm_loop_now(shared->loop) + TICK_NS);
}

void fm_packet_shared_end(struct fm_packet_shared *shared)
{
	struct fm_list *at;

	fm_timer_clear(shared->loop, &shared->shut_timer);
	while (close_some(shared, true))
		;
	await_closers(shared);
	free_closers(shared, true);
	/* Without a process for them they end with ours. */
	while ((at = fm_list_pop(&shared->shut)))
		free(fm_container_of(at, struct fm_packet_shut, at));
	fm_list_init(&shared->closers);
	free(shared->spare);
	shared->spare = NULL;
}
