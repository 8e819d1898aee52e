/* SPDX-License-Identifier: MIT */
/*
 * registered - buffers of local callers that are known to network cards, so that what is put from
 * them leaves from there (RDMA).
 *
 * Happy path: a chunk of a buffer is to be sent over a connection whose transport sends from memory
 * that is lent only -> nothing is there yet, so this chunk is copied into a slot, and so are the
 * next ones -> the control thread counts the bytes against the user's share -> the worker has the
 * buffer lent, which pins its pages and takes about as long as a copy of them -> from now on chunks
 * go from where they lie, over each connection of the session on that device, in this put and in
 * those that follow. It ends with the buffer, or with the last of these connections, whichever goes
 * first; no send from it is under way then, since each holds its transfer and so the buffer, and
 * ends with its connection.
 *
 * Failure modes: over the share, or refused by the device or the limit of locked memory: the chunks
 * are copied, and it is tried again a while later. Calls of the user hang on all workers that he
 * may have: his buffer waits behind them and is copied, and waits no longer once the connections
 * are gone. They go while it is being lent: that cannot be stopped, so it is taken back when it is
 * there, on the worker as well.
 *
 * Locked memory of the daemon: as long as one is there its pages cannot be freed, whatever their
 * owner does. So the bytes count, for each session and device again, as the kernel counts them.
 */
#ifndef FM_DATA_REGISTERED_H
#define FM_DATA_REGISTERED_H

#include <stdint.h>

struct fm_conn;
struct fm_err;
struct fm_file;
struct fm_loop;
struct fm_registered_place;
struct fm_registered;
struct fm_region;
struct fm_worker;

struct fm_registered_opts {
	struct fm_loop *loop;		/* of the control thread */
	struct fm_worker *worker;
	uint64_t bytes_max;		/* of all users together */
};

/* bytes_max where so much may be locked, beside all else that is (UINT64_MAX: anything), and the
 * buffers of all have buffer_bytes at most: four times that, and half of what may be. */
uint64_t fm_registered_bytes_max(uint64_t lockable, uint64_t buffer_bytes);

int fm_registered_new(const struct fm_registered_opts *opts, struct fm_registered **out,
		      struct fm_err *err);

/* The worker is about to be freed, before these. Nothing is lent from now on, and what is still to
 * be taken back is so on the loop. NULL is allowed. */
void fm_registered_stop(struct fm_registered *all);

/* Every place was left, and what came of that has run on the loop. NULL is allowed. */
void fm_registered_free(struct fm_registered *all);

/*
 * A connection comes: where it sends from; for it to leave when it is gone and all its sends are
 * done. NULL: from anywhere, or from nothing but what was lent to it alone (there is no memory, or
 * all is NULL). Any thread.
 */
struct fm_registered_place *fm_registered_join(struct fm_registered *all, struct fm_conn *conn);
void fm_registered_leave(struct fm_registered_place *place);

/*
 * Lane. What a chunk of that source, which is open and stays so until the chunk is sent, may be
 * sent from without a copy, over a connection that joined place. NULL: nothing, or not yet.
 */
const struct fm_region *fm_registered_find(struct fm_registered_place *place,
					   const struct fm_file *file, uint64_t now_ns);

#endif
