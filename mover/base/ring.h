/* SPDX-License-Identifier: MIT */
/*
 * ring - asynchronous reads and writes of one loop's thread: io_uring, or threads with pread and
 * pwrite where it is refused.
 *
 * Short transfers are continued until io->len bytes, end of file or an error, so io->res is the
 * whole length or a short count at end of file. done() is called exactly once, on the loop's
 * thread, never from inside the call that started it. More operations than the ring is deep wait in
 * order. Of that depth files that may never answer have a half at most. Buffers inside the
 * registered memory use READ_FIXED and WRITE_FIXED. Whoever writes to a pipe or socket ignores
 * SIGPIPE.
 */
#ifndef FM_BASE_RING_H
#define FM_BASE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/list.h"

struct fm_ring;
struct fm_loop;
struct fm_err;

#define FM_RING_DEPTH_MAX 1024

/* Offset for a descriptor that cannot seek (pipe, socket, terminal). */
#define FM_IO_STREAM UINT64_MAX

/* Zero-initialise, then set what is above the line. It may be used again from its done() on. */
struct fm_io {
	void (*done)(struct fm_io *io);
	int fd;
	void *buf;
	uint32_t len;		/* bytes, > 0 */
	/* bytes behind them that are moved too and counted nowhere: a direct file takes whole
	 * blocks */
	uint32_t pad;
	uint64_t offset;	/* or FM_IO_STREAM */
	/* its file may never answer: it does not begin on this thread, where some file systems wait
	 * though they were told not to (FUSE) */
	bool may_stand;
	/* to be written as a pack of a tree: its CRC32C (tree_file.h); else not looked at. NULL:
	 * not known */
	const uint32_t *crc;
	int64_t res;		/* bytes, or a negative errno; valid in done() */
	/* The ring's: */
	uint32_t moved;		/* bytes so far */
	bool is_write;
	bool is_cancelled;
	bool is_polling;	/* waits for the descriptor, not for the transfer */
	bool is_forced;		/* may block in the kernel's own threads */
	uint8_t replies;	/* completions that the kernel still owes for it */
	uint8_t state;
	struct fm_list link;
	/* Whoever does it elsewhere: */
	void *held;
};

struct fm_ring_opts {
	unsigned depth;		/* operations in the kernel at once, 1 .. FM_RING_DEPTH_MAX */
	void *memory;		/* registered as fixed buffers if it can be; NULL: none */
	size_t memory_len;
	bool is_threads_only;	/* do not try io_uring */
};

int fm_ring_new(struct fm_loop *loop, const struct fm_ring_opts *opts, struct fm_ring **out,
		struct fm_err *err);

/* Nothing may be in flight; not from within a done(). NULL is allowed. */
void fm_ring_free(struct fm_ring *ring);

void fm_ring_read(struct fm_ring *ring, struct fm_io *io);
void fm_ring_write(struct fm_ring *ring, struct fm_io *io);

/*
 * Give up an operation that may wait for ever (a pipe). Its done() comes with -ECANCELED, or with
 * its result. Nothing happens if it is over already.
 */
void fm_ring_cancel(struct fm_ring *ring, struct fm_io *io);

unsigned fm_ring_in_flight(const struct fm_ring *ring);

/*
 * "io_uring, fixed buffers", "io_uring", "io_uring (memory not registered: REASON)", "threads" or
 * "threads (io_uring refused: REASON)". Lives as long as the ring.
 */
const char *fm_ring_kind(const struct fm_ring *ring);

#endif
