/* SPDX-License-Identifier: MIT */
/*
 * fill - the next chunks of a source that may stand still, read into memory of its own (beside.h).
 *
 * A pipe may be silent for ever, and what fills it may be another transfer over the same
 * connection; a file may be one of FUSE, and a directory its client's, who was stopped. So whoever
 * waits for such a source holds nothing that others wait for: no slot here, none of the peer's. Its
 * chunks are read here; one that is full, or the last of a stream, is handed out like any other,
 * and copied into the slot that the connection took for it. The next one is read while that is
 * sent. A stream is read one chunk after the other; since nobody can read it again, a place keeps
 * its chunk until that is acknowledged, and as much is under way as there are places.
 *
 * Happy path: a lane finds it empty (fm_link_fill()) -> read -> full, the lanes are woken ->
 * claimed -> copied (a stream's: acknowledged) -> empty.
 * Failure: a transfer that is removed gives its reads up, on the lanes that began them. A
 * connection that ends takes no fill with it: a stream's chunks that it had are full again, and go
 * over another; others are read again.
 */
#ifndef FM_FILL_H
#define FM_FILL_H

#include <stdbool.h>
#include <stdint.h>

struct fm_beside_place;
struct fm_xfer;

enum fm_fill_state { FM_FILL_EMPTY, FM_FILL_READING, FM_FILL_FULL, FM_FILL_TAKEN };

/*
 * Of one place; under the lock of the link. The chunk that is read there is fm_xfer.filling[] of
 * it.
 */
struct fm_fill {
	enum fm_fill_state state;
	/* READING: the connection that saw to it, NULL if that is gone ... */
	const void *who;
	unsigned kind;			/* ... and its kind */
};

/* Under the lock: a chunk is being read. */
bool fm_fill_is_reading(const struct fm_xfer *x);

/* As fm_beside_start(), of a place that fm_xfer_fill() gave. */
void fm_fill_start(struct fm_beside_place *place,
		   void (*ended)(struct fm_beside_place *place, int64_t res));

/* Under the lock: that read ended. */
void fm_fill_ended(struct fm_beside_place *place, int64_t res);

/* Under the lock: the transfer was removed. */
void fm_fill_cancel(struct fm_xfer *x);

#endif
