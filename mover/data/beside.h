/* SPDX-License-Identifier: MIT */
/*
 * beside - chunks of a transfer in memory of its own, beside the slabs, and the reads and writes on
 * them.
 *
 * A file may stand still: a pipe that nobody fills or empties, a file system that a user serves
 * (FUSE) or a server that is dead, a directory whose client is stopped. What is read from it, or
 * written to it, is read and written here, for however long that takes, so that no slot of a
 * connection waits with it. fill.h (sources) and drain.h (sinks) say which chunk is in which place.
 *
 * The memory is taken when the transfer begins, from the share of the budget of whoever began it,
 * and never waited for: what waited would hold up the other end of its pipe.
 */
#ifndef FM_BESIDE_H
#define FM_BESIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/loop.h"
#include "mover/base/ring.h"
#include "mover/base/share.h"

struct fm_err;
struct fm_lane;
struct fm_xfer;

#define FM_BESIDE_CHUNKS_MAX 8u
#define FM_BESIDE_STREAM_CHUNKS_MAX 4u	/* of a pipe: so many of one user have to find room */

/* Room for one chunk. */
struct fm_beside_place {
	struct fm_xfer *x;
	struct fm_lane *lane;		/* where; under the lock of the link, before it begins */
	/* The rest is that lane's. */
	struct fm_io io;
	bool is_in_flight;
	void (*ended)(struct fm_beside_place *place, int64_t res);
	struct fm_task give_up;
};

struct fm_beside {
	unsigned count;			/* places; 0: the transfer goes through slots */
	/* page-aligned, a chunk for each place, then for each another one if a sink is read back */
	char *memory;
	struct fm_share_held held;	/* of the budget */
	struct fm_beside_place place[FM_BESIDE_CHUNKS_MAX];
};

/*
 * Control thread: the memory of x->beside, for 1 to `most` chunks: fewer where much of it is taken.
 * -EBUSY: there is not even one left for this user; *err is_full.
 */
int fm_beside_init(struct fm_xfer *x, unsigned most, struct fm_share_id who, struct fm_err *err);
void fm_beside_fini(struct fm_xfer *x);

void *fm_beside_at(const struct fm_xfer *x, unsigned place);

/* Its lane, without the lock: read or write; io says len and offset. The caller holds the transfer
 * until ended() is called, on that lane, without the lock. */
void fm_beside_start(struct fm_beside_place *place, const struct fm_io *io,
		     void (*ended)(struct fm_beside_place *place, int64_t res));

/* The same for a sink: what was written is read again, to fm_beside_again_at(). */
void fm_beside_read_back(struct fm_beside_place *place, const struct fm_io *io,
			 void (*ended)(struct fm_beside_place *place, int64_t res));
void *fm_beside_again_at(const struct fm_beside_place *place);

/* Under the lock: a read or write that was begun, or is about to be, is given up if that can be. */
void fm_beside_cancel(struct fm_beside_place *place);

#endif
