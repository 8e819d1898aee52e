/* SPDX-License-Identifier: MIT */
/*
 * flow - one data connection on its lane: slots, credits and the chunks under way, both directions.
 *
 * Sending, happy path: a source of the link has work -> WANT goes to the peer -> its GRANT brings
 * slots over there -> a slab of ours is leased -> per chunk: claim, read into a slot of ours, CRC,
 * write to a granted slot with the CHUNK message behind it, ACK. Receiving: WANT came and a sink
 * exists -> lease a slab, lend it to the connection, GRANT -> per CHUNK: check the CRC, write, ACK.
 *
 * Failure modes: a damaged chunk is ACKed as CORRUPT and read and sent again (of a file that may
 * stand still: sent again with the CRC that it had, without a read); a chunk for a transfer that is
 * gone is ACKed as DROPPED; a message that breaks the rules, or a broken connection, closes the
 * flow: nothing is sent any more, and the connection's end is awaited (no peer can write to the
 * slabs then). Chunks that were not acknowledged go back to their transfer then, each as soon as
 * nothing is read into its slot, and the control thread hears `down`: the connection is made again,
 * and others carry the chunks. I/O may take as long as a disk hangs; when all of it has ended, the
 * slabs go back to the pool, and the control thread hears `gone`.
 *
 * Made and freed by the control thread; everything else happens on the lane.
 */
#ifndef FM_FLOW_H
#define FM_FLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/base/ring.h"
#include "mover/transport/transport.h"
#include "mover/wire/wire.h"
#include "mover/data/lane.h"
#include "mover/data/xfer.h"

struct fm_flow;
struct fm_link;
struct fm_registered_place;

#define FM_FLOW_SLOTS_MAX FM_WIRE_SLOTS_MAX
/* A slab that could not be had is asked for again, and a busy chunk sent again, after this long. */
#define FM_FLOW_RETRY_NS (10 * FM_NS_PER_MS)
/*
 * Where no whole chunk moves for long, so many bytes tell that the network is slow. Fewer do not
 * count: a peer could keep memory with a byte now and then.
 */
#define FM_FLOW_MOVED_BYTES (1u << 20)
#define FM_FLOW_ACKS_MAX (2 * FM_FLOW_SLOTS_MAX)
_Static_assert(FM_FLOW_SLOTS_MAX + FM_FLOW_ACKS_MAX + 8 <= FM_DATA_MSGS_MAX,
	       "everything a flow has under way fits the connection");
_Static_assert(FM_DATA_MSG_SIZE == FM_DATA_MSG_LEN,
	       "wire and transport agree on the size of a data message");

/* The steps of a chunk that is sent. */
enum fm_tx_step {
	/* nothing: for a slot of ours, for its time, or for the peer's word */
	FM_TX_WAITING,
	FM_TX_READING,
	/* it was read, and waits for the peer's slots, which went back meanwhile */
	FM_TX_HELD,
	FM_TX_SENDING,			/* its memory is the connection's */
};

/* What the peer answered. The answer and the end of the send come in either order. */
enum fm_tx_word {
	FM_TX_UNSENT,
	FM_TX_AWAITED,			/* it is in the peer's slot, or on its way there */
	FM_TX_ACKED,
	FM_TX_CORRUPT,			/* to be sent again as soon as the send has ended */
	/* the same, a little later: the far end has it from another connection */
	FM_TX_BUSY,
};

/*
 * A chunk being sent: one for each slot of the peer. It holds a slot of ours only until it has left
 * (that of a source that may stand still: until it is acknowledged), so that the next chunk is read
 * into memory that is still in the caches. It uses the peer's from when it is sent until the peer
 * has answered, so slots that the peer asks back go back while their chunks are still being read,
 * however long that takes, and are theirs again with the next grant.
 */
struct fm_tx {
	struct fm_flow *flow;
	struct fm_io io;
	struct fm_send send;
	struct fm_xfer *x;		/* with a reference; NULL: the peer's slot is free */
	struct fm_chunk chunk;
	/* chunk.is_direct: what its memory was lent with; NULL: that is not asked for */
	const struct fm_region *lent;
	uint64_t sent_ns;		/* when it was handed to the connection ... */
	bool is_alone;			/* ... with at most one more under way */
	int slot;			/* of ours; -1: none */
	uint64_t read_ns;		/* when its read began */
	enum fm_tx_step step;
	enum fm_tx_word word;
	uint64_t again_ns;		/* one that is busy: not before */
	struct fm_list wait_at;
};

/* A chunk being received, in a slot that was granted. */
struct fm_rx {
	struct fm_flow *flow;
	struct fm_io io;
	struct fm_xfer *x;		/* with a reference; NULL: the peer's to fill */
	struct fm_chunk chunk;
	uint64_t xfer_id;
	uint64_t since_ns;		/* when it came ... */
	unsigned number;		/* ... as which of those of the flow */
};

/* A chunk that came to two places, in parts. */
struct fm_torn {
	bool is_coming;
	uint64_t xfer_id;
	uint64_t seq;
};

/* A message without payload that is under way. */
struct fm_note {
	struct fm_flow *flow;
	struct fm_send send;
	struct fm_note *next;		/* free list */
};

/* A slab of ours, lent to the connection. */
struct fm_lease {
	int slab;			/* -1: none */
	bool is_giving;			/* it is to go back for somebody else's sake */
	struct fm_region region;
	uint64_t used_ns;
};

/* Each comes after the one before it. */
enum fm_flow_state {
	FM_FLOW_NEW,			/* its lane has not begun with it */
	FM_FLOW_UP,
	FM_FLOW_FAILED,			/* nothing is begun any more: err has the reason */
	FM_FLOW_CLOSING,		/* its connection was asked to close */
	/* the connection is gone; reads and writes may be under way */
	FM_FLOW_CLOSED,
	FM_FLOW_FINISHED,		/* nothing is */
};

struct fm_flow {
	/* Set before attach; then constant. */
	struct fm_conn *conn;
	struct fm_lane *lane;
	struct fm_link *link;
	struct fm_loop *control;
	void *owner;			/* the control thread's */
	void (*down)(struct fm_flow *flow);	/* control thread: its connection is no more */
	void (*gone)(struct fm_flow *flow);	/* control thread, after that: free it */
	unsigned kind;
	uint64_t made_ns;
	struct fm_conn_info info;	/* a copy: the connection's dies first */
	/* until its connection is gone (registered.h); NULL: none */
	struct fm_registered_place *place;
	struct fm_lane_user user;	/* of the lane */
	struct fm_list owner_at;	/* the control thread's */
	/* its addresses were among those of this node, of the peer: the control thread's */
	bool was_here, was_there;
	struct fm_task attach_task, look_task, close_task, down_task, gone_task, last_task,
		free_task;
	bool is_leaving;			/* the control thread's: gone_task has run */

	/* Any thread. */
	atomic_uint_fast64_t bytes_sent, bytes_received;
	atomic_bool is_up;

	/* The lane's. */
	struct fm_task step_task;
	enum fm_flow_state state;
	/* why it ended; 0: asked to, -ENETDOWN: its network is gone ... */
	struct fm_err err;
	uint64_t lost_ns;		/* ... at the latest since then */
	unsigned io_count;		/* reads and writes under way */
	/* the longest of those that ended lately, and when it did: fm_flow_took() */
	uint64_t took_ns, took_at_ns;
	unsigned stops_seen;		/* of link->stops */
	const char *cut_why;		/* set before close_task is posted; NULL: just closed */
	bool is_silent;			/* its network was, at the last look ... */
	uint64_t silent_ns;		/* ... since then at least, ... */
	/* ... and the first of these found this in link->heard_ns */
	uint64_t silent_heard_ns;

	/* Sending */
	bool is_want_sent;
	struct fm_grant grant;		/* generation 0: none */
	bool is_grant_revoked;
	/* slots of the peer that are ours to fill, the warmest on top */
	uint16_t credit[FM_FLOW_SLOTS_MAX];
	unsigned credits;
	struct fm_lease tx_lease;
	struct fm_tx tx[FM_FLOW_SLOTS_MAX];	/* by the peer's slot */
	uint16_t tx_free[FM_FLOW_SLOTS_MAX];	/* slots of ours, the warmest on top */
	unsigned tx_frees;
	/* since when chunks of transfers that ended wait for the peer's word, and none of them was
	 * answered, or is leaving; 0: none */
	uint64_t orphans_ns;
	uint64_t orphans_left;		/* conn->left then */
	unsigned tx_slots;
	unsigned tx_held;		/* chunks that were read and have no slot of the peer */
	unsigned tx_queued;		/* chunks that were read and have not left */
	uint64_t ack_ns;		/* how long an acknowledgement takes, smoothed */
	unsigned acks;
	bool is_source_instant;		/* the last chunk came from a file in memory */
	/* chunks to be read again that have no slot of ours: fm_tx.wait_at */
	struct fm_list tx_waiting;
	/* to be sent again when their time comes, in that order: fm_tx.wait_at */
	struct fm_list tx_later;

	/* Receiving */
	bool is_wanted;			/* the peer asked and has nothing yet */
	struct fm_list wait_rx_at;	/* as long as that: link->rx_waiting */
	bool is_revoking;
	uint64_t revoked_ns;		/* since when */
	unsigned rx_late;		/* chunks that came since then */
	uint32_t rx_generation;
	struct fm_lease rx_lease;
	uint64_t rx_came;		/* conn->came when it was last looked at */
	struct fm_rx rx[FM_FLOW_SLOTS_MAX];
	unsigned rx_slots;
	unsigned rx_chunks;		/* that came, ever */
	struct fm_landing landing;	/* the chunk that comes to its place, and to no slot */
	/* the same, until its transfer was removed: its slot has only the rest of its bytes */
	struct fm_torn torn;

	struct fm_note notes[FM_FLOW_ACKS_MAX];
	struct fm_note *note_free;
	unsigned notes_out;
};

struct fm_flow_opts {
	struct fm_conn *conn;		/* taken over, also on error */
	struct fm_lane *lane;
	struct fm_link *link;		/* takes a reference */
	struct fm_loop *control;
	void *owner;
	void (*down)(struct fm_flow *flow);
	void (*gone)(struct fm_flow *flow);
};

/* Control thread. */
int fm_flow_new(const struct fm_flow_opts *opts, struct fm_flow **out, struct fm_err *err);

/* Control thread, every second: end it if its network is silent while the session is not. */
void fm_flow_look(struct fm_flow *flow);

/* Control thread: as fm_flow_close(), because its network is gone: `why`, which is static. */
void fm_flow_cut(struct fm_flow *flow, const char *why);

/* Control thread: end it; gone() follows. May be called more than once. */
void fm_flow_close(struct fm_flow *flow);

/* Control thread, from gone() or later. */
void fm_flow_free(struct fm_flow *flow);

/* flow_tx.c: lane. */
void fm_flow_tx_init(struct fm_flow *flow);
void fm_flow_tx_step(struct fm_flow *flow, uint64_t now_ns);
int fm_flow_tx_grant(struct fm_flow *flow, const struct fm_data_msg *m);
int fm_flow_tx_ack(struct fm_flow *flow, const struct fm_data_msg *m);
int fm_flow_tx_revoke(struct fm_flow *flow, const struct fm_data_msg *m);
void fm_flow_tx_cancel_removed(struct fm_flow *flow);
/* its connection is gone: its chunks go over others */
void fm_flow_tx_lose(struct fm_flow *flow);
void fm_flow_tx_finish(struct fm_flow *flow);

/* flow_rx.c: lane. */
void fm_flow_rx_init(struct fm_flow *flow);
void fm_flow_rx_step(struct fm_flow *flow, uint64_t now_ns);
int fm_flow_rx_want(struct fm_flow *flow);
bool fm_flow_rx_may_write(const struct fm_flow *flow, const struct fm_data_msg *m, uint64_t remote,
			  uint32_t len);
void *fm_flow_rx_place(struct fm_flow *flow, const struct fm_data_msg *m);
void fm_flow_rx_cancel_removed(struct fm_flow *flow);
int fm_flow_rx_chunk(struct fm_flow *flow, const struct fm_data_msg *m);
int fm_flow_rx_return(struct fm_flow *flow, const struct fm_data_msg *m);
/* its connection was asked to close, and writes nothing any more but to slots */
void fm_flow_rx_closing(struct fm_flow *flow);
void fm_flow_rx_finish(struct fm_flow *flow);

/* flow.c, for the other two: lane. */
/* -ENOBUFS: the peer breaks the rules */
int fm_flow_note(struct fm_flow *flow, const struct fm_data_msg *m);
int fm_flow_lease(struct fm_flow *flow, struct fm_lease *lease, bool is_rx);
void fm_flow_unlease(struct fm_flow *flow, struct fm_lease *lease, bool is_rx);
void fm_flow_wake(struct fm_flow *flow);
static inline bool fm_flow_is_ending(const struct fm_flow *flow)
{
	return flow->state >= FM_FLOW_FAILED;
}

void fm_flow_fail(struct fm_flow *flow, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The longest that reads and writes took that ended lately. */
static inline uint64_t fm_flow_usual_ns(const struct fm_flow *flow, uint64_t now_ns)
{
	return now_ns < flow->took_at_ns + 120 * FM_NS_PER_S ? flow->took_ns : 0;
}

/* A read or write that began then has ended. One of them alone does not make minutes usual. */
static inline void fm_flow_took(struct fm_flow *flow, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t usual_ns = fm_flow_usual_ns(flow, now_ns), ns = now_ns - since_ns;
	uint64_t most_ns = 2 * usual_ns + 2 * FM_NS_PER_S;

	if (ns < usual_ns)
		return;
	flow->took_ns = ns < most_ns ? ns : most_ns;
	flow->took_at_ns = now_ns;
}

/*
 * Whether a read or write that began then may be one of a disk that hangs: it takes two seconds
 * longer than is usual for the connection or, where many chunks overtook it, just longer. A disk
 * that is slow takes as long for each, of whichever transfer, so those that end show that others
 * need not hang.
 */
static inline bool fm_flow_seems_hung(const struct fm_flow *flow, uint64_t since_ns,
				      bool is_overtaken, uint64_t now_ns)
{
	return now_ns > since_ns + fm_flow_usual_ns(flow, now_ns) +
				(is_overtaken ? 0 : 2 * FM_NS_PER_S);
}

#endif
