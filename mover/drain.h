/* SPDX-License-Identifier: MIT */
/*
 * drain - what came for a sink that is a stream, in memory of its own until the stream takes it. The counterpart of fill.h.
 *
 * A pipe may be read by nobody, and who would read it may wait for another transfer over the same connection. So a chunk for a stream keeps
 * its slot only while it is copied here; it is acknowledged then, and written from here. The source is told how many chunks there is room
 * for (WINDOW of wire.h), so what comes always finds a place, in whatever order it comes.
 *
 * The memory is taken when the transfer begins, from the user's share of the budget, and never waited for: what waited would hold up
 * the other end of its pipe.
 *
 * Happy path: fm_drain_accept() -> copied to fm_drain_place() -> fm_drain_filled() -> fm_drain_start() -> written -> the next one that is
 * here; the control thread hears when the source may be told to go on.
 * Failure: a transfer that is removed gives its write up, on the lane that began it. A connection that ends takes nothing of it along.
 */
#ifndef FM_DRAIN_H
#define FM_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/loop.h"
#include "mover/base/ring.h"
#include "mover/base/share.h"

struct fm_chunk;
struct fm_err;
struct fm_lane;
struct fm_xfer;

#define FM_DRAIN_CHUNKS_MAX 4u

/* Chunk number n is in place n % count. */
struct fm_drain_place {
	enum { FM_DRAIN_FREE, FM_DRAIN_COMING, FM_DRAIN_HERE } state;
	uint32_t len;
	uint64_t offset;
};

struct fm_drain {
	/* Under the lock of the link. */
	unsigned count;			/* places; 0: the sink is none that is a stream */
	struct fm_drain_place place[FM_DRAIN_CHUNKS_MAX];
	uint64_t to;			/* chunks numbered below may come: the source was told so */
	bool is_writing;
	bool is_over;			/* FINISH came: no chunk may; the control thread waits until all is written */
	struct fm_lane *lane;		/* is_writing: where */
	/* The rest is that lane's. */
	struct fm_xfer *x;
	char *memory;			/* page-aligned, a chunk for each place */
	struct fm_io io;
	bool is_in_flight;
	struct fm_task give_up;
	struct fm_share_held held;	/* of the budget */
};

/* Control thread: the memory. -EBUSY: none left for this user. */
int fm_drain_init(struct fm_drain *drain, struct fm_xfer *x, struct fm_share_id who, struct fm_err *err);
void fm_drain_fini(struct fm_drain *drain);

/* Under the lock: 0, and the place for that chunk is the caller's to fill. -ERANGE: it was not to come; -EPROTO: it came already. */
int fm_drain_accept(struct fm_drain *drain, const struct fm_chunk *chunk);

/* Without the lock. */
void *fm_drain_place(const struct fm_drain *drain, uint64_t seq);

/* Under the lock: it is in its place, or is not (it arrived damaged). True: the caller, on that lane, is to call fm_drain_start(). */
bool fm_drain_filled(struct fm_drain *drain, uint64_t seq, bool is_there, struct fm_lane *lane);

/* Its lane, without the lock. */
void fm_drain_start(struct fm_drain *drain);

/* Under the lock. How far the source may be told to go, which it is then; 0: no further yet than it was. */
uint64_t fm_drain_open(struct fm_drain *drain);

/* Under the lock: all came, so none may come from here on. -EPROTO: it did not: one is on its way, or missing before what is here. */
int fm_drain_end(struct fm_drain *drain);

/* Under the lock: all that came was written. */
bool fm_drain_is_empty(const struct fm_drain *drain);

/* Under the lock: the transfer was removed. */
void fm_drain_cancel(struct fm_drain *drain);

#endif
