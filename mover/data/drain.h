/* SPDX-License-Identifier: MIT */
/*
 * drain - what came for a sink that may stand still, in memory of its own (beside.h) until the sink
 * takes it. The counterpart of fill.h.
 *
 * A pipe may be read by nobody, and who would read it may wait for another transfer over the same
 * connection; a file may be one of FUSE, and a directory its client's, who was stopped. So a chunk
 * for such a sink keeps its slot only while it is copied here; it is acknowledged then, and written
 * from here. The source is told how many chunks there is room for (WINDOW of wire.h), so what comes
 * always finds a place, in whatever order it comes.
 *
 * Happy path: fm_drain_accept() -> copied to fm_drain_place() -> fm_drain_filled() ->
 * fm_drain_start() -> written; the control thread hears when the source may be told to go on. A
 * stream is written in order, one chunk after the other; anything else as it comes. What is read
 * back and differs is written again from here.
 * Failure: a transfer that is removed gives its writes up, on the lanes that began them. A
 * connection that ends takes nothing of it along; what its sender did not hear of comes again over
 * another, and is not written again.
 */
#ifndef FM_DRAIN_H
#define FM_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/data/beside.h"

struct fm_chunk;
struct fm_lane;
struct fm_xfer;

/*
 * Chunk number n is in place n % count; those from fm_xfer.next_seq on, which is the first that is
 * not written.
 */
struct fm_drain_place {
	enum {
		FM_DRAIN_FREE,
		FM_DRAIN_COMING,
		FM_DRAIN_HERE,
		FM_DRAIN_WRITING,
		FM_DRAIN_READING,	/* back, to be compared */
		FM_DRAIN_WRITTEN,
	} state;
	uint8_t wrong;			/* times that something else was read back */
	uint64_t seq;
	uint32_t len;
	uint32_t crc;
	uint64_t offset;
};

/* Under the lock of the link. */
struct fm_drain {
	struct fm_drain_place place[FM_BESIDE_CHUNKS_MAX];
	uint64_t to;	/* chunks numbered below may come: the source was told so */
	bool is_over;	/* FINISH came: no chunk may, and it is waited until all is written */
};

/*
 * Under the lock, for a chunk that did not come before. 0: its place is the caller's to fill.
 * -ERANGE: the chunk is outside of the window. -EPROTO: the transfer has had its end. -EAGAIN: the
 * chunk is just coming over another connection.
 */
int fm_drain_accept(struct fm_xfer *x, const struct fm_chunk *chunk);

/* Without the lock. */
void *fm_drain_place(const struct fm_xfer *x, uint64_t seq);

/*
 * Under the lock: it is in its place, or is not (it arrived damaged). Not NULL: the caller, on that
 * lane, is to call fm_link_start() with it.
 */
struct fm_beside_place *fm_drain_filled(struct fm_xfer *x, uint64_t seq, bool is_there,
					struct fm_lane *lane);

/* As fm_beside_start(). */
void fm_drain_start(struct fm_beside_place *place,
		    void (*ended)(struct fm_beside_place *place, int64_t res));

/* Its lane, without the lock: what became of it. -EBADMSG: something else was read back. */
int64_t fm_drain_look(struct fm_beside_place *place, int64_t res);

/* Under the lock: that write ended. Not NULL: to be started now, on the same lane. */
struct fm_beside_place *fm_drain_ended(struct fm_beside_place *place, int64_t res);

/*
 * Under the lock. How far the source may be told to go, which it is then; 0: no further yet than it
 * was.
 */
uint64_t fm_drain_open(struct fm_xfer *x);

/*
 * Under the lock: FINISH came, so no further chunk may come. -EPROTO: a chunk is still on its way,
 * or one is missing before those that are here.
 */
int fm_drain_end(struct fm_xfer *x);

/* Under the lock: all that came was written. */
bool fm_drain_is_empty(const struct fm_xfer *x);

/* Under the lock: the transfer was removed. */
void fm_drain_cancel(struct fm_xfer *x);

#endif
