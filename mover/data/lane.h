/* SPDX-License-Identifier: MIT */
/*
 * lane - one thread's share of the data path: its loop, its I/O ring and the flows (data
 * connections) it serves.
 *
 * A lane owns no transfer: it takes the next chunk from a link whenever a flow has room for one, so
 * a slow connection takes fewer and a dead one none.
 */
#ifndef FM_LANE_H
#define FM_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/store/store.h"

/* Something that a lane serves: a flow. */
struct fm_lane_user {
	struct fm_list at;		/* fm_lane.users */
	void (*step)(struct fm_lane_user *user);	/* do what can be done now */
};

struct fm_lane {
	struct fm_lane_io io;
	struct fm_done_list done;	/* I/O that ended at once */
	unsigned index;
	uint32_t chunk_bytes;		/* of a slot */
	bool is_unchecked;		/* measuring only: no CRC */
	struct fm_list users;		/* fm_lane_user.at */
	struct fm_task pump;
	struct fm_timer tick;
	struct fm_log_limit lines;	/* of bytes that the disk, or who lent them, changed */
};

/* Before its thread runs. */
void fm_lane_init(struct fm_lane *lane, unsigned index, struct fm_loop *loop, struct fm_ring *ring);

/* Lane. Behind the last one that leaves no timer stays. */
void fm_lane_join(struct fm_lane *lane, struct fm_lane_user *user);
void fm_lane_leave(struct fm_lane *lane, struct fm_lane_user *user);

/* Every one has left. */
void fm_lane_fini(struct fm_lane *lane);

/* There may be something to do: a new source, a transfer that was removed. Any thread. */
void fm_lane_wake(struct fm_lane *lane);

/* Lane. A chunk that was read back is something else than was written. */
void fm_lane_log_read_back(struct fm_lane *lane, uint32_t len, uint64_t offset);

/* Lane. Its users are looked at again no later than at_ns. */
void fm_lane_wake_at(struct fm_lane *lane, uint64_t at_ns);

#endif
