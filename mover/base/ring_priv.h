/* SPDX-License-Identifier: MIT */
/*
 * ring_priv - what ring.c and its two backends (ring_uring.c, ring_threads.c) share. Nobody else
 * includes it.
 *
 * The front (ring.c) keeps the order, the depth and the calls of done(); a backend moves the bytes
 * of what it was given.
 */
#ifndef FM_BASE_RING_PRIV_H
#define FM_BASE_RING_PRIV_H

#include "mover/base/loop.h"
#include "mover/base/ring.h"

/* Loop thread only, all of them. */
struct ring_backend_ops {
	/* Take io over, until ring_end(). At most `depth` of them are with the backend at once. */
	void (*start)(struct fm_ring *ring, struct fm_io *io);

	/* Give io up soon; called once for it. ring_end() still comes. */
	void (*cancel)(struct fm_ring *ring, struct fm_io *io);

	/* Pass on what was started, call ring_end() for what is over. May be NULL. */
	void (*poll)(struct fm_ring *ring);

	/* Whether poll() has something to do at once. May be NULL. */
	bool (*is_ready)(struct fm_ring *ring);

	void (*free)(struct fm_ring *ring);
};

struct fm_ring {
	struct fm_loop *loop;
	const struct ring_backend_ops *ops;
	void *backend;
	unsigned depth;
	/* of these for files that may never answer; the backend may say fewer */
	unsigned standing_max;
	struct fm_poller poller;
	struct fm_list waiting;		/* not with the backend yet, in order ... */
	struct fm_list may_stand;	/* ... and of files that may never answer */
	struct fm_list ended;		/* done() is still to be called */
	unsigned in_flight;		/* in all four places */
	unsigned running;		/* with the backend */
	unsigned running_finite;	/* ... those that do not wait for a stream */
	unsigned standing;		/* ... those whose files may never answer */
	bool is_finishing;
	char kind[128];
};

/* What one attempt to transfer the rest of an operation means for it. */
enum io_next {
	IO_OVER,	/* io->res is set */
	IO_AGAIN,	/* transfer the rest */
	IO_WAIT,	/* the same, once the descriptor is ready */
};

/* got: what read(2) would have returned, or a negative errno. */
enum io_next ring_io_advance(struct fm_io *io, int64_t got);

static inline bool ring_io_is_stream(const struct fm_io *io)
{
	return io->offset == FM_IO_STREAM;
}

static inline uint8_t *ring_io_rest(const struct fm_io *io)
{
	return (uint8_t *)io->buf + io->moved;
}

/* How much of it is still to be moved. */
static inline uint32_t ring_io_left(const struct fm_io *io)
{
	return io->len + io->pad - io->moved;
}

/* The backend is through with io, whose res is set. done() follows in ring_finish(). */
void ring_end(struct fm_ring *ring, struct fm_io *io);

/* Call done() for all that ended. Returns whether there was any. */
bool ring_finish(struct fm_ring *ring);

/* Start what waits, poll the backend, finish what ended. Returns whether anything ended. */
bool ring_drive(struct fm_ring *ring);

/* Each sets ring->ops, ->backend and ->kind. uring: -EPERM, -ENOSYS or -ENOMEM if the kernel
 * refuses. */
int ring_uring_open(struct fm_ring *ring, const struct fm_ring_opts *opts, struct fm_err *err);
int ring_threads_open(struct fm_ring *ring, const struct fm_ring_opts *opts, struct fm_err *err);

#endif
