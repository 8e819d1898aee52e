/* SPDX-License-Identifier: MIT */
/*
 * link - what the lanes share of one session: its transfers, its sources with work, how many slabs
 * it holds.
 *
 * One mutex guards all of it, the fields of the transfers included. It is held for the book-keeping
 * of one chunk at a time, never across I/O. Reference-counted: the session, every flow and every
 * transfer hold one.
 */
#ifndef FM_LINK_H
#define FM_LINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/base/list.h"
#include "mover/data/slab.h"
#include "mover/transport/transport.h"

struct fm_beside_place;
struct fm_chunk;
struct fm_claim;
struct fm_conn_info;
struct fm_err;
struct fm_landing;
struct fm_lane;
struct fm_loop;
struct fm_moved;
struct fm_registered;
struct fm_rate;
struct fm_whole;
struct fm_written;
struct fm_xfer;

#define FM_LINK_BUCKETS 64

/* Chunks that a transfer sends before the next one has its turn. */
#define FM_WEIGHT_LOW 1u
#define FM_WEIGHT_NORMAL 2u
#define FM_WEIGHT_HIGH 8u

/* The rate limit of the whole node, shared by all links. */
struct fm_shared_rate {
	pthread_mutex_t lock;
	struct fm_rate *rate;
};

struct fm_link {
	pthread_mutex_t lock;
	atomic_uint refs;
	struct fm_slabs *slabs;
	struct fm_shared_rate *rate;
	struct fm_registered *registered;	/* before the first connection; NULL: nothing is */
	struct fm_list xfers[FM_LINK_BUCKETS];
	struct fm_list sources;		/* fm_xfer.source_at, the next to serve first */
	unsigned sinks;			/* transfers that receive */
	struct fm_slab_user slab_use[2];	/* per enum fm_slab_use; the pool's lock's */
	uint64_t starved_ns[2];		/* when a connection could not have one last */
	/* connections whose peer asked for slots and has none yet, by age */
	struct fm_list rx_waiting;
	atomic_uint wants;		/* flows whose peer asked for slots and has none yet */
	atomic_uint flows[FM_KIND_COUNT];	/* connections of each kind */
	atomic_uint_fast64_t heard_ns;	/* when the peer said something over the session last */
	/* grows when a transfer is removed: lanes look for I/O to cancel */
	atomic_uint stops;
};

int fm_link_new(struct fm_slabs *slabs, struct fm_shared_rate *rate, struct fm_link **out,
		struct fm_err *err);
void fm_link_ref(struct fm_link *link);
void fm_link_unref(struct fm_link *link);

/* Control thread. From now on lanes find it. -EEXIST if its id is in use. Takes a reference to the
 * link for it. */
int fm_link_add(struct fm_link *link, struct fm_xfer *x);

/*
 * Control thread. Lanes find it no more; drops the control thread's reference to it. True: they
 * have I/O of it under way, and find out that it may be cancelled when they are woken.
 */
bool fm_link_remove(struct fm_link *link, struct fm_xfer *x);

/* Lane. With a reference, or NULL. */
struct fm_xfer *fm_link_find_sink(struct fm_link *link, uint64_t id);

/*
 * Lane. A chunk of the next source for that connection, sources taking turns, each as many as its
 * weight says. The transfer comes with a reference; NULL: nothing now, *again_ns is when a rate
 * limit allows more (FM_NEVER: not by time).
 */
struct fm_xfer *fm_link_claim(struct fm_link *link, const struct fm_claim *claim,
			      struct fm_chunk *out, uint64_t *again_ns);

/*
 * Lane. Where the next chunk of a source that may stand still is to be read on it, for that
 * connection: fm_fill_start() does it. Its transfer comes with a reference. NULL: none; *again_ns
 * as above.
 */
struct fm_beside_place *fm_link_fill(struct fm_link *link, const struct fm_claim *claim,
				     struct fm_lane *lane, uint64_t *again_ns);

/* Lane. Whether a claim could find a chunk, rate limits aside. */
bool fm_link_has_work(struct fm_link *link, const struct fm_claim *claim);

/* Lane. That connection is gone: transfers that it alone carried go on over another. */
void fm_link_unbind(struct fm_link *link, const void *who);

/* Lane. Whether a transfer that receives exists. */
bool fm_link_has_sink(struct fm_link *link);

/*
 * Lane. The peer of this connection asks for slots, so it waits for a slab. Connections get slabs
 * in the order in which they began to wait. Otherwise a connection whose peer has no memory to send
 * from would take the slab again and again.
 */
void fm_link_wait_rx(struct fm_link *link, struct fm_list *conn);
void fm_link_leave_rx(struct fm_link *link, struct fm_list *conn);
bool fm_link_is_turn_rx(struct fm_link *link, const struct fm_list *conn, uint64_t now_ns);

/* Lane. A slab for a connection of this link, or -EAGAIN. is_giving: see fm_slabs_put(). */
int fm_link_take_slab(struct fm_link *link, enum fm_slab_use use, uint64_t now_ns);
void fm_link_put_slab(struct fm_link *link, enum fm_slab_use use, int slab, bool is_giving);
/* What it took to receive: zeros, but for what came for this link. */
void fm_link_clear_slab(struct fm_link *link, int slab);

/*
 * Lane. Whether a connection that last used its slab at used_ns should give it back: long idle, or
 * others want for their share. is_giving: see fm_slabs_ask_back().
 */
bool fm_link_should_give(struct fm_link *link, enum fm_slab_use use, bool *is_giving,
			 uint64_t used_ns, uint64_t now_ns);

/*
 * Calls for a transfer that is in a link; xfer.h says what each does. They take the lock of the
 * link, and nothing else does.
 */

/* Control thread. */
void fm_link_moved(struct fm_xfer *x, struct fm_moved *out);
int fm_link_error(struct fm_xfer *x, struct fm_err *out);	/* the first failure's code, or 0 */
void fm_link_set_kinds(struct fm_xfer *x, unsigned kinds);
void fm_link_set_size(struct fm_xfer *x, uint64_t size);
void fm_link_set_window(struct fm_xfer *x, uint64_t to);
bool fm_link_is_sent(struct fm_xfer *x);
void fm_link_feed(struct fm_xfer *x);
void fm_link_sent_whole(struct fm_xfer *x, struct fm_whole *out);
void fm_link_end_sink(struct fm_xfer *x, uint64_t size, struct fm_whole *out);
uint64_t fm_link_open_window(struct fm_xfer *x);
bool fm_link_is_drained(struct fm_xfer *x);
size_t fm_link_take_log(struct fm_xfer *x, struct fm_written *out);
void fm_link_reread(struct fm_xfer *x, uint64_t bytes, bool is_over);
int fm_link_take_back(struct fm_xfer *x, const struct fm_written *piece);
void fm_link_count_kept(struct fm_xfer *x, const struct fm_written *piece, const uint32_t *block);
int fm_link_take_kept(struct fm_xfer *x, uint64_t reread, bool is_over,
		      const struct fm_written *damaged);

/* Lane, source. */
bool fm_link_is_removed(struct fm_xfer *x);
bool fm_link_read(struct fm_xfer *x, struct fm_chunk *chunk, int64_t res);
void fm_link_copied(struct fm_xfer *x, unsigned place);
void fm_link_lost(struct fm_xfer *x, const struct fm_chunk *chunk);
void fm_link_dropped(struct fm_xfer *x);
bool fm_link_refused(struct fm_xfer *x, struct fm_chunk *chunk, bool is_busy);
void fm_link_acked(struct fm_xfer *x, const struct fm_chunk *chunk, const struct fm_conn_info *by);
/* it is not what it was when it was sent first; it is not sent again */
void fm_link_changed(struct fm_xfer *x, const struct fm_chunk *chunk);
/* the far end will have no more of it */
void fm_link_given_up(struct fm_xfer *x);

/* Lane, sink. A chunk that does not belong there fails the transfer. */
int fm_link_accept(struct fm_xfer *x, const struct fm_chunk *chunk);
void fm_link_written(struct fm_xfer *x, const struct fm_chunk *chunk,
		     const struct fm_conn_info *by);
void fm_link_corrupt(struct fm_xfer *x);
/* What was read back is something else. Whether it is to come again. */
bool fm_link_read_wrong(struct fm_xfer *x, const struct fm_chunk *chunk, bool is_heard);
void fm_link_fail_io(struct fm_xfer *x, int code, const char *what, uint64_t offset);
/* A chunk comes to its place in the sink; the landing holds a reference until it is over. */
int fm_link_land(struct fm_xfer *x, const struct fm_chunk *chunk, struct fm_landing *l);
/* It is there, or not as it was sent. */
void fm_link_landed(struct fm_landing *l, const struct fm_chunk *chunk, bool is_as_sent,
		    const struct fm_conn_info *by);
/* It did not come to its end. */
void fm_link_land_not(struct fm_landing *l);
/* A chunk was copied to its place beside the sink. As fm_drain_filled(). */
struct fm_beside_place *fm_link_filled(struct fm_xfer *x, const struct fm_chunk *chunk,
				       bool is_as_sent, const struct fm_conn_info *by,
				       struct fm_lane *lane);

/*
 * Lane: the read or write at a place that fm_link_fill() or fm_link_filled() gave. Holds the
 * transfer and the link until it has ended: the session may be gone when the file answers.
 */
void fm_link_start(struct fm_beside_place *place);

#endif
