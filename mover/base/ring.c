/* SPDX-License-Identifier: MIT */
/*
 * ring - the order of operations, the depth, and the calls of done(); the bytes are moved by a
 * backend.
 *
 * Happy path: fm_ring_read() queues; the poller, at the start of the loop's next pass, gives up to
 * `depth` operations to the backend, which submits them together; the backend reports each attempt
 * to ring_io_advance(), and begins another for the rest of a short one; ring_end() and
 * ring_finish() bring the operation back to its owner. Failure: the first error of an attempt is
 * the operation's result. The backend is chosen once: what the kernel refuses, threads do.
 */
#include "mover/base/ring.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/ring_priv.h"

enum io_state { IO_IDLE, IO_WAITING, IO_RUNNING, IO_ENDED };

/* Of what was moved, what was asked for. */
static int64_t ring_counted(const struct fm_io *io)
{
	return io->moved < io->len ? io->moved : io->len;
}

enum io_next ring_io_advance(struct fm_io *io, int64_t got)
{
	if (got == -EINTR)
		return IO_AGAIN;
	if (got == -EAGAIN)
		return IO_WAIT;
	/*
	 * A direct read is cut off a sector boundary only by the end of the file. The attempt to go
	 * on from there is refused by some file systems for its alignment; it is where the others
	 * say 0.
	 */
	if (got == -EINVAL && !io->is_write && io->moved > 0 && !ring_io_is_stream(io))
		got = 0;
	if (got < 0) {
		io->res = got;
		return IO_OVER;
	}
	if (got == 0) {
		/* a write that moves nothing would never end */
		io->res = io->is_write ? -EIO : ring_counted(io);
		return IO_OVER;
	}
	assert(got <= (int64_t)ring_io_left(io));
	io->moved += (uint32_t)got;
	if (ring_io_left(io) > 0)
		return IO_AGAIN;
	io->res = ring_counted(io);
	return IO_OVER;
}

static void ring_end_with(struct fm_ring *ring, struct fm_io *io, int64_t res)
{
	io->res = res;
	io->state = IO_ENDED;
	fm_list_append(&ring->ended, &io->link);
}

void ring_end(struct fm_ring *ring, struct fm_io *io)
{
	assert(io->state == IO_RUNNING && ring->running > 0);
	ring->running--;
	if (!ring_io_is_stream(io))
		ring->running_finite--;
	if (io->may_stand)
		ring->standing--;
	ring_end_with(ring, io, io->res);
}

bool ring_finish(struct fm_ring *ring)
{
	struct fm_list *link = fm_list_pop(&ring->ended);
	bool has_found = link;

	assert(!ring->is_finishing);
	ring->is_finishing = true;
	for (; link; link = fm_list_pop(&ring->ended)) {
		struct fm_io *io = fm_container_of(link, struct fm_io, link);

		io->state = IO_IDLE;
		ring->in_flight--;
		io->done(io);
	}
	ring->is_finishing = false;
	return has_found;
}

static void ring_start(struct fm_ring *ring, struct fm_io *io)
{
	if (FM_FAULT(io->is_write ? "ring.write" : "ring.read")) {
		ring_end_with(ring, io, -EIO);
		return;
	}
	io->state = IO_RUNNING;
	ring->running++;
	if (!ring_io_is_stream(io))
		ring->running_finite++;
	if (io->may_stand)
		ring->standing++;
	ring->ops->start(ring, io);
}

/*
 * The list whose first operation may start now; NULL: none. What may never end has its part, which
 * it gets first, and leaves the rest to the others.
 */
static struct fm_list *ring_next(struct fm_ring *ring)
{
	if (ring->running == ring->depth)
		return NULL;
	if (ring->standing < ring->standing_max && !fm_list_is_empty(&ring->may_stand))
		return &ring->may_stand;
	return fm_list_is_empty(&ring->waiting) ? NULL : &ring->waiting;
}

bool ring_drive(struct fm_ring *ring)
{
	struct fm_list *next;

	while ((next = ring_next(ring)))
		ring_start(ring, fm_container_of(fm_list_pop(next), struct fm_io, link));
	if (ring->ops->poll)
		ring->ops->poll(ring);
	/* Only what poll() will see the end of, and soon, is worth spinning for. */
	ring->poller.is_busy = ring->ops->poll && ring->running_finite > 0;
	return ring_finish(ring);
}

static bool ring_poll(struct fm_poller *poller)
{
	return ring_drive(fm_container_of(poller, struct fm_ring, poller));
}

/* The next pass will poll again; it is only needed if there is something to be done by then. */
static bool ring_before_sleep(struct fm_poller *poller)
{
	struct fm_ring *ring = fm_container_of(poller, struct fm_ring, poller);

	if (!fm_list_is_empty(&ring->ended))
		return true;
	if (ring_next(ring))
		return true;
	return ring->ops->is_ready && ring->ops->is_ready(ring);
}

static bool is_refusal(int ret)
{
	return ret == -EPERM || ret == -ENOSYS || ret == -ENOMEM;
}

static int ring_open(struct fm_ring *ring, const struct fm_ring_opts *opts, struct fm_err *err)
{
	struct fm_err why = { .code = 0 };
	int ret;

	if (opts->is_threads_only) {
		snprintf(ring->kind, sizeof(ring->kind), "threads");
		return ring_threads_open(ring, opts, err);
	}
	ret = ring_uring_open(ring, opts, &why);
	if (ret < 0 && is_refusal(ret)) {
		snprintf(ring->kind, sizeof(ring->kind), "threads (io_uring refused: %s)",
			 fm_err_name(ret));
		return ring_threads_open(ring, opts, err);
	}
	if (ret < 0)
		return fm_err_set(err, ret, "%s", why.text);
	return 0;
}

int fm_ring_new(struct fm_loop *loop, const struct fm_ring_opts *opts, struct fm_ring **out,
		struct fm_err *err)
{
	struct fm_ring *ring;
	int ret;

	assert(loop && out && opts->depth >= 1 && opts->depth <= FM_RING_DEPTH_MAX);
	ring = FM_FAULT("ring.alloc") ? NULL : calloc(1, sizeof(*ring));
	if (!ring)
		return fm_err_set(err, -ENOMEM, "allocate ring");
	ring->loop = loop;
	ring->depth = opts->depth;
	ring->standing_max = (opts->depth + 1) / 2;
	fm_list_init(&ring->waiting);
	fm_list_init(&ring->may_stand);
	fm_list_init(&ring->ended);
	ret = ring_open(ring, opts, err);
	if (ret < 0) {
		free(ring);
		return ret;
	}
	ring->poller.poll = ring_poll;
	ring->poller.before_sleep = ring_before_sleep;
	fm_poller_add(loop, &ring->poller);
	*out = ring;
	return 0;
}

void fm_ring_free(struct fm_ring *ring)
{
	if (!ring)
		return;
	assert(ring->in_flight == 0 && !ring->is_finishing);
	fm_poller_del(ring->loop, &ring->poller);
	ring->ops->free(ring);
	free(ring);
}

static void ring_queue(struct fm_ring *ring, struct fm_io *io, bool is_write)
{
	assert(io->done && io->fd >= 0 && io->buf && io->len > 0 && io->state == IO_IDLE);
	assert(io->pad <= UINT32_MAX - io->len && (io->pad == 0 || !ring_io_is_stream(io)));
	io->res = 0;
	io->moved = 0;
	io->is_write = is_write;
	io->is_cancelled = false;
	io->is_polling = false;
	io->is_forced = io->may_stand;
	io->replies = 0;
	io->state = IO_WAITING;
	fm_list_append(io->may_stand ? &ring->may_stand : &ring->waiting, &io->link);
	ring->in_flight++;
}

void fm_ring_read(struct fm_ring *ring, struct fm_io *io)
{
	ring_queue(ring, io, false);
}

void fm_ring_write(struct fm_ring *ring, struct fm_io *io)
{
	ring_queue(ring, io, true);
}

void fm_ring_cancel(struct fm_ring *ring, struct fm_io *io)
{
	if (io->state == IO_WAITING) {
		fm_list_del(&io->link);
		ring_end_with(ring, io, -ECANCELED);
	} else if (io->state == IO_RUNNING && !io->is_cancelled) {
		ring->ops->cancel(ring, io);
	}
}

unsigned fm_ring_in_flight(const struct fm_ring *ring)
{
	return ring->in_flight;
}

const char *fm_ring_kind(const struct fm_ring *ring)
{
	return ring->kind;
}
