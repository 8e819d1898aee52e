/* SPDX-License-Identifier: MIT */
/*
 * fill - the next chunk of a source that is a stream, read into memory of its own.
 *
 * A pipe may be silent for ever, and what fills it may be another transfer over the same connection. So a stream that waits for its pipe
 * holds nothing that others wait for: no slot here, none of the peer's. Its chunk is read here; when it is full, or the stream has ended,
 * it is handed out like any other, and copied into the slot that the connection took for it. The next one is read while that is sent.
 *
 * The memory is taken when the transfer begins, from the user's share of the budget, and never waited for: what waited would hold up
 * the other end of its pipe.
 *
 * Happy path: a lane finds it empty (fm_link_fill()) -> read -> full, the lanes are woken -> claimed -> copied -> empty.
 * Failure: a transfer that is removed gives its read up, on the lane that began it. A connection that ends takes no fill with it.
 */
#ifndef FM_FILL_H
#define FM_FILL_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/loop.h"
#include "mover/base/ring.h"
#include "mover/base/share.h"

struct fm_err;
struct fm_lane;
struct fm_xfer;

enum fm_fill_state { FM_FILL_EMPTY, FM_FILL_READING, FM_FILL_FULL, FM_FILL_TAKEN };

struct fm_fill {
	/* Under the lock of the link. */
	enum fm_fill_state state;
	uint32_t len;			/* FULL, TAKEN: bytes in it */
	const void *who;		/* READING: the connection that saw to it ... */
	unsigned kind;
	struct fm_lane *lane;		/* ... and its lane */
	/* The rest is that lane's. */
	struct fm_xfer *x;
	void *memory;			/* page-aligned, of one chunk */
	struct fm_io io;
	bool is_in_flight;
	struct fm_task give_up;
	struct fm_share_held held;	/* of the budget */
};

/* Control thread: the memory. -EBUSY: none left for this user. */
int fm_fill_init(struct fm_fill *fill, struct fm_xfer *x, struct fm_share_id who, struct fm_err *err);
void fm_fill_fini(struct fm_fill *fill);

/* Its lane; fm_link_fill() gave it. */
void fm_fill_start(struct fm_fill *fill);

/* Under the lock: the transfer was removed. */
void fm_fill_cancel(struct fm_fill *fill);

#endif
