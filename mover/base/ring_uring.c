/* SPDX-License-Identifier: MIT */
/*
 * ring_uring - io_uring under a ring. The one file that knows liburing.
 *
 * System calls: one io_uring_enter(2) in a pass that has something to submit, which also lets the
 * kernel post what is finished; none in a pass that has not, unless the kernel asks to be entered.
 * While the loop sleeps, epoll_wait(2) ends with EINTR when there are completions to be posted to
 * this thread, and watches the ring's descriptor for those that the kernel's own threads post.
 *
 * user_data is the fm_io; with the lowest bit set it is the answer to the cancellation of that
 * fm_io. done() waits for both, so that a late cancellation never meets the next operation of the
 * same fm_io.
 *
 * A non-blocking descriptor without data answers EAGAIN: then a poll of the descriptor takes the
 * place of the transfer until it is ready.
 */
#include "mover/base/ring_priv.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

#define FIXED_PIECE ((size_t)1 << 30)	/* the kernel's limit for one registered buffer */
#define REAP_MAX 64
#define CANCEL_BIT UINT64_C(1)

struct ring_uring {
	struct fm_ring *ring;
	struct io_uring uring;
	struct fm_watch watch;
	bool is_enabled;	/* on the loop's thread, at the first operation */
	bool has_more_workers;	/* the kernel may have some for what may never end */
	uint8_t *fixed;		/* the registered memory, in pieces of FIXED_PIECE; NULL: none */
	size_t fixed_len;
};

/*
 * From the best to what every kernel has. SINGLE_ISSUER binds the ring to the thread that enables
 * it; R_DISABLED lets that be the loop's thread, whichever creates the ring. With COOP_TASKRUN a
 * completion never interrupts the loop while it computes: it is posted on the way out of whatever
 * system call comes next, and TASKRUN_FLAG tells the poller without one that it waits.
 *
 * Not DEFER_TASKRUN: since Linux 6.3 deferred work does not wake a thread that sleeps in
 * epoll_wait(2). It would take an eventfd, and for each wake-up one more io_uring_enter(2) to have
 * the completions posted.
 */
static const unsigned setup_flags[] = {
	IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN |
		IORING_SETUP_TASKRUN_FLAG,
	IORING_SETUP_R_DISABLED | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
	0,
};

static int uring_init(struct ring_uring *u, unsigned depth)
{
	/* Each operation may have a cancellation beside it: with twice the depth there is always an
	 * entry free. */
	unsigned entries = 2 * depth;
	int ret = -EINVAL;

	if (FM_FAULT("ring.uring"))
		return -EPERM;
	for (size_t i = 0; ret == -EINVAL && i < sizeof(setup_flags) / sizeof(setup_flags[0]); i++)
		ret = io_uring_queue_init(entries, &u->uring, setup_flags[i]);
	return ret;
}

/* Returns 0, also if there is nothing to register, or why it could not be. */
static int uring_register(struct ring_uring *u, void *memory, size_t len)
{
	size_t pieces = (len + FIXED_PIECE - 1) / FIXED_PIECE;
	struct iovec *iov;
	int ret;

	if (!memory || len == 0)
		return 0;
	iov = FM_FAULT("ring.alloc_pieces") ? NULL : calloc(pieces, sizeof(*iov));
	if (!iov)
		return -ENOMEM;
	for (size_t i = 0; i < pieces; i++) {
		size_t left = len - i * FIXED_PIECE;

		iov[i].iov_base = (uint8_t *)memory + i * FIXED_PIECE;
		iov[i].iov_len = left < FIXED_PIECE ? left : FIXED_PIECE;
	}
	ret = FM_FAULT("ring.register")
		      ? -ENOMEM
		      : io_uring_register_buffers(&u->uring, iov, (unsigned)pieces);
	free(iov);
	if (ret < 0)
		return ret;
	u->fixed = memory;
	u->fixed_len = len;
	return 0;
}

/*
 * The registered piece that buf lies in, or -1. *len is cut at the end of the piece: the rest
 * follows as after a short transfer.
 */
static int uring_piece(const struct ring_uring *u, const uint8_t *buf, uint32_t *len)
{
	size_t at, left;

	if (!u->fixed || buf < u->fixed || buf >= u->fixed + u->fixed_len)
		return -1;
	at = (size_t)(buf - u->fixed);
	if (u->fixed_len - at < *len)	/* it ends outside: not the registered memory's after all */
		return -1;
	left = FIXED_PIECE - at % FIXED_PIECE;
	if (left < *len)
		*len = (uint32_t)left;
	return (int)(at / FIXED_PIECE);
}

static struct io_uring_sqe *uring_sqe(struct ring_uring *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->uring);

	assert(sqe);	/* see uring_init() */
	return sqe;
}

static void uring_prepare_transfer(struct ring_uring *u, struct fm_io *io, struct io_uring_sqe *sqe)
{
	uint8_t *buf = ring_io_rest(io);
	uint32_t len = ring_io_left(io);
	uint64_t offset = ring_io_is_stream(io) ? (uint64_t)-1 : io->offset + io->moved;
	int piece = uring_piece(u, buf, &len);

	if (io->is_write && piece >= 0)
		io_uring_prep_write_fixed(sqe, io->fd, buf, len, offset, piece);
	else if (io->is_write)
		io_uring_prep_write(sqe, io->fd, buf, len, offset);
	else if (piece >= 0)
		io_uring_prep_read_fixed(sqe, io->fd, buf, len, offset, piece);
	else
		io_uring_prep_read(sqe, io->fd, buf, len, offset);
	if (io->is_forced)
		sqe->flags |= IOSQE_ASYNC;
}

static void uring_prepare(struct ring_uring *u, struct fm_io *io)
{
	struct io_uring_sqe *sqe = uring_sqe(u);

	if (io->is_polling)
		io_uring_prep_poll_add(sqe, io->fd, io->is_write ? POLLOUT : POLLIN);
	else
		uring_prepare_transfer(u, io, sqe);
	io_uring_sqe_set_data64(sqe, (uintptr_t)io);
	io->replies++;
}

static void uring_enable(struct ring_uring *u)
{
	int ret = 0;

	/* The registration itself, since liburing 2.3 declares io_uring_enable_rings() but does not
	 * export it. */
	if (u->uring.flags & IORING_SETUP_R_DISABLED)
		ret = io_uring_register((unsigned)u->uring.ring_fd, IORING_REGISTER_ENABLE_RINGS,
					NULL, 0);
	assert(ret == 0);	/* there is nothing about it that could be refused */
	(void)ret;
	u->is_enabled = true;
}

/*
 * The kernel's threads for files are as many as it makes by itself, and one more for each operation
 * that may never end: else those would have them all, and writes that cannot begin on this thread
 * would wait. Before Linux 5.15 there is no limit to be raised.
 */
static void uring_more_workers(struct ring_uring *u)
{
	unsigned entries = u->uring.sq.ring_entries;
	unsigned usual = 4 * (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	unsigned most[] = {(usual < entries ? usual : entries) + u->ring->standing_max, 0};

	(void)io_uring_register_iowq_max_workers(&u->uring, most);
	u->has_more_workers = true;
}

static void uring_start(struct fm_ring *ring, struct fm_io *io)
{
	struct ring_uring *u = ring->backend;

	if (!u->is_enabled)
		uring_enable(u);
	if (io->may_stand && !u->has_more_workers)
		uring_more_workers(u);
	uring_prepare(u, io);
}

static void uring_cancel(struct fm_ring *ring, struct fm_io *io)
{
	struct ring_uring *u = ring->backend;
	struct io_uring_sqe *sqe;

	assert(io->replies == 1);	/* an attempt, always, while io is running */
	io->is_cancelled = true;
	sqe = uring_sqe(u);
	io_uring_prep_cancel64(sqe, (uintptr_t)io, 0);
	io_uring_sqe_set_data64(sqe, (uintptr_t)io | CANCEL_BIT);
	io->replies++;
}

/* Choose the next attempt after EAGAIN. */
static void uring_wait(struct fm_io *io)
{
	/*
	 * A file or a disk is never waited for by poll; it says EAGAIN when not blocking was not
	 * possible. So let it block elsewhere.
	 */
	if (ring_io_is_stream(io))
		io->is_polling = true;
	else
		io->is_forced = true;
}

/* Returns whether io is over. */
static bool uring_attempt_done(struct ring_uring *u, struct fm_io *io, int res)
{
	enum io_next next = IO_AGAIN;

	if (io->is_polling && res >= 0)		/* ready, or in error: the transfer will tell */
		io->is_polling = false;
	else
		next = ring_io_advance(io, res);
	if (next == IO_OVER)
		return true;
	if (io->is_cancelled) {
		io->res = -ECANCELED;
		return true;
	}
	if (next == IO_WAIT)
		uring_wait(io);
	uring_prepare(u, io);
	return false;
}

static void uring_cqe(struct ring_uring *u, uint64_t user_data, int res)
{
	struct fm_io *io = (struct fm_io *)(uintptr_t)(user_data & ~CANCEL_BIT);
	bool is_over = true;

	assert(io->replies > 0);
	io->replies--;
	if (!(user_data & CANCEL_BIT))
		is_over = uring_attempt_done(u, io, res);
	if (is_over && io->replies == 0)
		ring_end(u->ring, io);
}

static void uring_submit(struct ring_uring *u)
{
	int ret;

	if (io_uring_sq_ready(&u->uring) == 0)
		return;
	ret = io_uring_submit(&u->uring);
	/* Out of memory for requests, or interrupted: what was not taken stays in the queue for the
	 * next pass. */
	assert(ret >= 0 || ret == -EAGAIN || ret == -EBUSY || ret == -EINTR || ret == -ENOMEM);
	(void)ret;
}

static void uring_poll(struct fm_ring *ring)
{
	struct ring_uring *u = ring->backend;
	struct io_uring_cqe *cqes[REAP_MAX];
	unsigned n;

	if (ring->running == 0)
		return;
	uring_submit(u);
	while ((n = io_uring_peek_batch_cqe(&u->uring, cqes, REAP_MAX)) > 0) {
		for (unsigned i = 0; i < n; i++)
			uring_cqe(u, cqes[i]->user_data, cqes[i]->res);
		io_uring_cq_advance(&u->uring, n);
	}
}

static bool uring_is_ready(struct fm_ring *ring)
{
	struct ring_uring *u = ring->backend;

	return io_uring_sq_ready(&u->uring) > 0 || io_uring_cq_ready(&u->uring) > 0;
}

/* The pass that woke up reaps at once, instead of leaving it to the next. */
static void uring_ready(struct fm_watch *watch, uint32_t events)
{
	struct ring_uring *u = fm_container_of(watch, struct ring_uring, watch);

	(void)events;
	ring_drive(u->ring);
}

static void uring_free(struct fm_ring *ring)
{
	struct ring_uring *u = ring->backend;

	fm_watch_del(ring->loop, &u->watch);
	/*
	 * Closing the ring would unpin the memory some time later; whoever makes the next ring
	 * needs the locked memory now.
	 */
	if (u->fixed)
		/* refused on another thread; then later it is */
		(void)io_uring_unregister_buffers(&u->uring);
	io_uring_queue_exit(&u->uring);
	free(u);
}

static const struct ring_backend_ops uring_ops = {
	.start = uring_start,
	.cancel = uring_cancel,
	.poll = uring_poll,
	.is_ready = uring_is_ready,
	.free = uring_free,
};

static void uring_describe(struct ring_uring *u, int register_ret)
{
	char *kind = u->ring->kind;
	size_t len = sizeof(u->ring->kind);

	if (register_ret < 0)
		snprintf(kind, len, "io_uring (memory not registered: %s)",
			 fm_err_name(register_ret));
	else
		snprintf(kind, len, "io_uring%s", u->fixed ? ", fixed buffers" : "");
}

int ring_uring_open(struct fm_ring *ring, const struct fm_ring_opts *opts, struct fm_err *err)
{
	struct ring_uring *u;
	int ret;

	u = FM_FAULT("ring.alloc_uring") ? NULL : calloc(1, sizeof(*u));
	if (!u)
		return fm_err_set(err, -ENOMEM, "allocate ring");
	u->ring = ring;
	ret = uring_init(u, opts->depth);
	if (ret < 0) {
		fm_err_sys(err, ret, "io_uring_queue_init");
		goto free_uring;
	}
	u->watch.ready = uring_ready;
	u->watch.fd = u->uring.ring_fd;
	u->watch.events = EPOLLIN;
	ret = fm_watch_add(ring->loop, &u->watch, err);
	if (ret < 0) {
		fm_err_wrap(err, "io_uring");
		goto exit_queue;
	}
	uring_describe(u, uring_register(u, opts->memory, opts->memory_len));
	ring->ops = &uring_ops;
	ring->backend = u;
	return 0;

exit_queue:
	io_uring_queue_exit(&u->uring);
free_uring:
	free(u);
	return ret;
}
