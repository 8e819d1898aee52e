/* SPDX-License-Identifier: MIT */
/*
 * ring_threads - a ring where io_uring is refused: threads that call pread(2) and pwrite(2).
 *
 * Files: a pool of threads, each seeing one operation through to its end. Streams: one thread of
 * their own, which polls all of them, so that those that wait for ever neither hold up files nor
 * each other, and can be cancelled. Whatever ended goes to the loop in one posted task.
 */
#include "mover/base/ring_priv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

#define FILE_THREADS_MAX 8

struct ring_threads {
	struct fm_ring *ring;
	pthread_mutex_t lock;
	pthread_cond_t has_file;	/* or is_stopping */
	struct fm_list files;		/* for the file threads to take */
	struct fm_list streams;		/* the stream thread's */
	struct fm_list ended;		/* for the loop to collect */
	struct fm_task collect;
	bool is_collect_posted;		/* exactly while `ended` has members */
	bool is_stopping;

	unsigned file_threads;
	pthread_t file_ids[FILE_THREADS_MAX];
	pthread_t stream_id;
	bool has_stream_thread;
	int wake_fd;			/* an eventfd that interrupts the stream thread's poll */

	/* The stream thread's own: what it polls; [0] is wake_fd. */
	struct pollfd *polls;
	struct fm_io **polled;
};

/* Hand io to the loop. While `ended` has members its operations are in flight, so the ring outlives
 * the posted task. */
static void threads_end(struct ring_threads *t, struct fm_io *io)
{
	fm_list_append(&t->ended, &io->link);
	if (!t->is_collect_posted) {
		t->is_collect_posted = true;
		fm_loop_post(t->ring->loop, &t->collect);
	}
}

static void threads_collect(struct fm_task *task)
{
	struct ring_threads *t = fm_container_of(task, struct ring_threads, collect);
	struct fm_list *link;

	pthread_mutex_lock(&t->lock);
	t->is_collect_posted = false;
	while ((link = fm_list_pop(&t->ended)))
		ring_end(t->ring, fm_container_of(link, struct fm_io, link));
	pthread_mutex_unlock(&t->lock);
	ring_finish(t->ring);
}

/* ---------------------------------------------------------------------------------------- files */

static int64_t file_attempt(const struct fm_io *io)
{
	off_t offset = (off_t)(io->offset + io->moved);
	size_t len = ring_io_left(io);
	ssize_t got = io->is_write ? pwrite(io->fd, ring_io_rest(io), len, offset)
				   : pread(io->fd, ring_io_rest(io), len, offset);

	return got < 0 ? -errno : got;
}

static void file_transfer(struct fm_io *io)
{
	enum io_next next;

	while ((next = ring_io_advance(io, file_attempt(io))) != IO_OVER) {
		struct pollfd ready = { .fd = io->fd, .events = io->is_write ? POLLOUT : POLLIN };

		if (next == IO_WAIT)
			/* whatever it says, the next attempt tells */
			(void)poll(&ready, 1, -1);
	}
}

static struct fm_io *file_take(struct ring_threads *t)
{
	struct fm_list *link;

	while (!(link = fm_list_pop(&t->files)) && !t->is_stopping)
		pthread_cond_wait(&t->has_file, &t->lock);
	return link ? fm_container_of(link, struct fm_io, link) : NULL;
}

static void *file_thread(void *arg)
{
	struct ring_threads *t = arg;
	struct fm_io *io;

	pthread_mutex_lock(&t->lock);
	while ((io = file_take(t))) {
		pthread_mutex_unlock(&t->lock);
		file_transfer(io);
		pthread_mutex_lock(&t->lock);
		threads_end(t, io);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* -------------------------------------------------------------------------------------- streams */

/*
 * After poll(2) a read does not block, unless somebody else reads from the same descriptor. A write
 * to a blocking descriptor waits until all of it is taken; PIPE_BUF bytes are what a pipe has room
 * for when it is ready.
 */
static int64_t stream_attempt(const struct fm_io *io)
{
	size_t len = ring_io_left(io);
	ssize_t got;

	if (!io->is_write) {
		got = read(io->fd, ring_io_rest(io), len);
	} else {
		int flags = fcntl(io->fd, F_GETFL);

		if (len > PIPE_BUF && !(flags & O_NONBLOCK))
			len = PIPE_BUF;
		got = write(io->fd, ring_io_rest(io), len);
	}
	return got < 0 ? -errno : got;
}

/* Drop what was cancelled, list the others for poll(2). Returns the number of descriptors, or 0:
 * the end. */
static nfds_t stream_gather(struct ring_threads *t)
{
	nfds_t n = 0;

	pthread_mutex_lock(&t->lock);
	if (!t->is_stopping) {
		t->polls[n++] = (struct pollfd){ .fd = t->wake_fd, .events = POLLIN };
		fm_list_each(at, next, &t->streams) {
			struct fm_io *io = fm_container_of(at, struct fm_io, link);

			if (io->is_cancelled) {
				io->res = -ECANCELED;
				fm_list_del(at);
				threads_end(t, io);
				continue;
			}
			t->polled[n] = io;
			t->polls[n++] = (struct pollfd){.fd = io->fd,
							.events = io->is_write ? POLLOUT : POLLIN};
		}
	}
	pthread_mutex_unlock(&t->lock);
	return n;
}

static void stream_try(struct ring_threads *t, struct fm_io *io)
{
	if (ring_io_advance(io, stream_attempt(io)) != IO_OVER)
		return;
	pthread_mutex_lock(&t->lock);
	fm_list_del(&io->link);
	threads_end(t, io);
	pthread_mutex_unlock(&t->lock);
}

static void *stream_thread(void *arg)
{
	struct ring_threads *t = arg;
	uint64_t wakes;
	nfds_t n;

	while ((n = stream_gather(t)) > 0) {
		if (poll(t->polls, n, -1) < 0)
			continue;
		if (t->polls[0].revents)
			(void)!read(t->wake_fd, &wakes, sizeof(wakes));
		for (nfds_t i = 1; i < n; i++)
			if (t->polls[i].revents)
				stream_try(t, t->polled[i]);
	}
	return NULL;
}

static void stream_wake(struct ring_threads *t)
{
	const uint64_t one = 1;

	(void)!write(t->wake_fd, &one, sizeof(one));	/* cannot fail before 2^64 of them */
}

/* ---------------------------------------------------------------------------------- the backend */

/* poll(2) would wait for ever where a transfer fails at once: for the wrong end of a pipe. */
static bool stream_is_open_for(const struct fm_io *io)
{
	int flags = fcntl(io->fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) != (io->is_write ? O_RDONLY : O_WRONLY);
}

static void threads_start(struct fm_ring *ring, struct fm_io *io)
{
	struct ring_threads *t = ring->backend;

	if (ring_io_is_stream(io) && !stream_is_open_for(io)) {
		io->res = -EBADF;
		ring_end(ring, io);
		return;
	}
	pthread_mutex_lock(&t->lock);
	if (ring_io_is_stream(io)) {
		fm_list_append(&t->streams, &io->link);
	} else {
		fm_list_append(&t->files, &io->link);
		pthread_cond_signal(&t->has_file);
	}
	pthread_mutex_unlock(&t->lock);
	if (ring_io_is_stream(io))
		stream_wake(t);
}

/* A file's operation ends by itself. */
static void threads_cancel(struct fm_ring *ring, struct fm_io *io)
{
	struct ring_threads *t = ring->backend;

	pthread_mutex_lock(&t->lock);
	io->is_cancelled = true;
	pthread_mutex_unlock(&t->lock);
	if (ring_io_is_stream(io))
		stream_wake(t);
}

static void threads_close(struct ring_threads *t)
{
	pthread_mutex_lock(&t->lock);
	t->is_stopping = true;
	pthread_cond_broadcast(&t->has_file);
	pthread_mutex_unlock(&t->lock);
	if (t->wake_fd >= 0)
		stream_wake(t);
	for (unsigned i = 0; i < t->file_threads; i++)
		pthread_join(t->file_ids[i], NULL);
	if (t->has_stream_thread)
		pthread_join(t->stream_id, NULL);
	if (t->wake_fd >= 0)
		close(t->wake_fd);
	pthread_cond_destroy(&t->has_file);
	pthread_mutex_destroy(&t->lock);
	free(t->polled);
	free(t->polls);
	free(t);
}

static void threads_free(struct fm_ring *ring)
{
	threads_close(ring->backend);
}

static const struct ring_backend_ops threads_ops = {
	.start = threads_start,
	.cancel = threads_cancel,
	.free = threads_free,
};

/* The threads take no signals. SIGPIPE is among them: a write to a closed pipe gives EPIPE here in
 * any case. */
static int threads_launch(struct ring_threads *t, unsigned file_threads)
{
	sigset_t all, saved;
	int ret = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	while (ret == 0 && t->file_threads < file_threads) {
		pthread_t *id = &t->file_ids[t->file_threads];

		ret = FM_FAULT("ring.thread") ? EAGAIN : pthread_create(id, NULL, file_thread, t);
		if (ret == 0) {
			/* only for people who look at the process */
			(void)pthread_setname_np(*id, "fm-ring");
			t->file_threads++;
		}
	}
	if (ret == 0)
		ret = FM_FAULT("ring.stream_thread")
			      ? EAGAIN
			      : pthread_create(&t->stream_id, NULL, stream_thread, t);
	t->has_stream_thread = ret == 0;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return -ret;
}

static struct ring_threads *threads_new(struct fm_ring *ring)
{
	struct ring_threads *t = FM_FAULT("ring.alloc_threads") ? NULL : calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->ring = ring;
	t->wake_fd = -1;
	t->collect.run = threads_collect;
	fm_list_init(&t->files);
	fm_list_init(&t->streams);
	fm_list_init(&t->ended);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->has_file, NULL);
	t->polls = FM_FAULT("ring.alloc_polls") ? NULL : calloc(ring->depth + 1, sizeof(*t->polls));
	t->polled = FM_FAULT("ring.alloc_polled") ? NULL
						  : calloc(ring->depth + 1, sizeof(struct fm_io *));
	if (!t->polls || !t->polled) {
		threads_close(t);
		return NULL;
	}
	return t;
}

int ring_threads_open(struct fm_ring *ring, const struct fm_ring_opts *opts, struct fm_err *err)
{
	struct ring_threads *t = threads_new(ring);
	int ret;

	if (!t)
		return fm_err_set(err, -ENOMEM, "allocate threads for reading and writing");
	t->wake_fd = FM_FAULT("ring.eventfd") ? (errno = EMFILE, -1)
					      : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->wake_fd < 0) {
		ret = fm_err_sys(err, -errno, "eventfd");
		goto close_threads;
	}
	ret = threads_launch(t, opts->depth < FILE_THREADS_MAX ? opts->depth : FILE_THREADS_MAX);
	if (ret < 0) {
		fm_err_sys(err, ret, "start a thread for reading and writing");
		goto close_threads;
	}
	if (ring->standing_max > (t->file_threads + 1) / 2)
		ring->standing_max = (t->file_threads + 1) / 2;
	ring->ops = &threads_ops;
	ring->backend = t;
	return 0;

close_threads:
	threads_close(t);
	return ret;
}
