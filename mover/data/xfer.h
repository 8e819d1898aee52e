/* SPDX-License-Identifier: MIT */
/*
 * xfer - what the lanes know of one transfer: which chunk is next, which were acknowledged or
 * written, the CRC of the whole.
 *
 * Shared by the control thread and the lanes; every call but ref and unref needs the lock of the
 * transfer's link, which link.c takes around it. A chunk under way holds a reference. The control
 * thread ends a transfer with fm_link_remove(): nobody can take or find it any more, and when the
 * last reference is gone `drained` runs on the control loop: no I/O on the file is in flight.
 *
 * A source hands out chunks in order, each once, and again when it was lost with its connection or
 * arrived damaged. A chunk has a number (seq) by which the sink tells a repetition from a new one.
 */
#ifndef FM_XFER_H
#define FM_XFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/err.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/base/ranges.h"
#include "mover/base/share.h"
#include "mover/data/beside.h"
#include "mover/data/drain.h"
#include "mover/data/fill.h"
#include "mover/data/only.h"
#include "mover/data/rate.h"
#include "mover/transport/transport.h"
#include "mover/tree/digest.h"

struct fm_file;
struct fm_have;
struct fm_layout;
struct fm_link;
struct fm_written;

/* the same chunk damaged this often: the transfer is given up */
#define FM_XFER_CORRUPT_MAX 3
/* ... refused this often, since another copy is looked at: the same */
#define FM_XFER_BUSY_MAX 500u
/* stretches written since the journal was told last; more are sent again after a crash */
#define FM_XFER_LOG_MAX 4096u
/* chunks that a sink can remember: what has more comes in several tries */
#define FM_XFER_CHUNKS_MAX (UINT64_C(1) << 31)
/* how far numbers may run ahead of the count of chunks seen */
#define FM_XFER_SEQ_AHEAD 65536u

struct fm_chunk {
	uint64_t seq;
	uint64_t offset;
	uint32_t len;
	uint32_t crc;			/* of the data; known after it was read */
	uint8_t corrupt_count;
	uint16_t busy_count;
	/* source: it is, until the chunk is read again; of a file in memory always */
	bool has_crc;
	bool is_again;			/* answered with a status that asks for it once more */
	bool is_direct;			/* sent from the file's memory, or came to its place */
	uint32_t fed;			/* pack: fm_xfer.fed when it was handed out */
	/* source that may stand still: where it was read (beside.h) */
	unsigned place;
};

/* A chunk that comes to its place in a sink, and is nobody else's there meanwhile. */
struct fm_landing {
	struct fm_list at;		/* fm_xfer.landings */
	struct fm_xfer *x;		/* NULL: none */
	uint64_t seq;
};

/* A chunk to send again. */
struct fm_again {
	struct fm_chunk chunk;
	struct fm_again *next;
};

struct fm_xfer_opts {
	uint64_t id;
	bool is_source;
	struct fm_file *file;		/* not owned */
	uint64_t size;			/* FM_SIZE_UNKNOWN: a stream, or not known yet (sink) */
	uint32_t chunk_bytes;
	unsigned kinds;			/* bits 1 << enum fm_kind that may carry it (source) ... */
	/* ... and which connections of these; a sink only counts them, if there is a number */
	struct fm_only only;
	bool is_ordered;		/* the sink is a stream: holes are sent as zeros */
	bool is_windowed;		/* source: the sink says how far it may go */
	uint64_t window;		/* ... chunks numbered below may be sent; it grows */
	/* sink: each chunk is read again after it was written, and compared */
	bool is_read_back;
	/* sink: remember what was written, for fm_xfer_take_log() */
	bool is_logged;
	/* source: not 0: an end of it may stand still: all of this number leave room for others */
	uint64_t share;
	/* whose memory holds what waits for a file that may stand still */
	struct fm_share_id who;
	uint64_t rate_bytes;
	/* source: chunks before the next source has its turn; 0: FM_WEIGHT_NORMAL */
	unsigned weight;
	/* NULL; or that transfer's limit is meant: a tree's, which is removed from the link after
	 * this one, and may be freed before it */
	struct fm_xfer *rate_of;
	struct fm_loop *control;
	void *owner;			/* the control thread's: whose transfer it is */
	/* source: all chunks acknowledged; either: it failed. Task: fm_xfer.notify */
	void (*progressed)(struct fm_task *task);
	void (*drained)(struct fm_task *task);		/* task: fm_xfer.ended */
};

struct fm_xfer {
	struct fm_list link_at;		/* in its link's table */
	struct fm_list source_at;	/* in its link's list of sources that may have work */
	struct fm_xfer_opts o;
	const struct fm_layout *layout;	/* of what is moved */
	struct fm_link *link;
	atomic_uint refs;
	struct fm_task notify;
	struct fm_task ended;
	struct fm_err err;		/* the first failure; err.code 0: none */
	bool is_removed;
	unsigned turns;			/* of its weight, taken */

	/* One connection carries an ordered transfer, or one from a stream, as long as it lasts. */
	const void *bound_to;
	unsigned bound_kind;
	/*
	 * Of only.conns connections these; they stay as long as they last. Sink: all that brought
	 * something; never followed, since they may be gone.
	 */
	const void *carriers[FM_ONLY_CONNS_MAX];
	unsigned joined;		/* that were ever among them */

	/* Source */
	uint64_t next_offset;
	uint64_t run_to;		/* end of the stretch of data that next_offset is in */
	/* the file is to be asked where data comes next, from next_offset on ... */
	bool is_look_due;
	bool is_looking;		/* ... which a lane does now ... */
	bool has_looked;		/* ... and did: it is this stretch */
	uint64_t looked_from;
	uint64_t looked_to;
	uint64_t next_seq;
	bool is_at_end;
	/* of one that may stand still: its next chunks, by place */
	struct fm_fill fill[FM_BESIDE_CHUNKS_MAX];
	struct fm_chunk filling[FM_BESIDE_CHUNKS_MAX];
	unsigned under_way;		/* chunks handed out and not acknowledged */
	struct fm_again *again;
	struct fm_again *later;		/* packs: numbers for which there was nothing yet */
	bool is_starved;		/* packs: the tree has none now */
	uint32_t fed;			/* packs: grows when the tree may have one again */
	struct fm_rate rate;

	/* Both: of a file that may stand still, see store/store.h */
	struct fm_beside beside;

	/* Both: chunks that count */
	uint64_t data_bytes;
	uint64_t chunks;
	uint32_t crc_parts;
	/* the same by blocks, fm_digest_block_bytes() each */
	uint32_t block_crc[FM_DIGEST_BLOCKS_MAX];
	bool has_no_blocks;		/* what of it is in which block is not known */
	uint64_t resent_bytes;
	uint64_t direct_bytes;		/* of data_bytes, without a copy at this end */
	unsigned corrupt_chunks;
	uint64_t kind_bytes[FM_KIND_COUNT];	/* of data_bytes, what came over which */
	uint64_t encryption_bytes[FM_ENCRYPTION_COUNT];	/* and how it was sealed on its way */
	struct fm_ranges have;		/* there from an earlier try: not sent */
	uint64_t have_bytes;		/* of these, what was not found to be damaged since */
	bool is_rereading;		/* the sink is reading them again */
	uint64_t reread_bytes;		/* so far */
	/* of them, what it found to be something else: sent after all */
	struct fm_ranges damaged;
	uint64_t damaged_bytes;
	struct fm_ranges wanted;	/* source: of these, what was not handed out yet */

	/* Sink */
	/* of one that has a place: at most one for each connection */
	struct fm_list landings;
	struct fm_written *log;		/* FM_XFER_LOG_MAX; NULL: not logged */
	size_t log_count;
	/* Of one that may stand still: what it did not take yet. next_seq is the first chunk that
	 * is not written; of a stream next_offset is where it goes. */
	struct fm_drain drain;
	uint8_t *seen;			/* one bit a chunk */
	size_t seen_bytes;
	size_t seen_taken;		/* of the budget */
	/* size not known yet: the end of the file, as the chunk that is cut off a block says; 0:
	 * none came */
	uint64_t odd_end;
};

/* Counts of what moved. */
struct fm_moved {
	uint64_t bytes;
	uint64_t chunks;
	uint64_t kind_bytes[FM_KIND_COUNT];
	uint64_t encryption_bytes[FM_ENCRYPTION_COUNT];
	uint64_t resent;
	uint64_t direct;		/* of bytes: without a copy at this end */
	uint64_t resumed;		/* of bytes: were there from an earlier try */
	uint64_t reread;
	uint64_t damaged;
	unsigned corrupt;
	unsigned carriers;		/* if only.conns says something: how many it were */
};

/* The sum of what a source sent or a sink got, once that is complete. */
struct fm_whole {
	struct fm_err err;		/* why it is not all; code 0: nothing failed */
	bool is_gapless;		/* sink: no chunk is missing before one that is here */
	uint64_t size;
	uint64_t data_bytes;
	uint64_t chunks;
	uint32_t crc;
	struct fm_digest digest;	/* its mtime is left to the caller */
};

/* The reference of the control thread is the caller's. */
int fm_xfer_new(const struct fm_xfer_opts *opts, struct fm_xfer **out, struct fm_err *err);

void fm_xfer_ref(struct fm_xfer *x);
/* The last one posts `ended`; fm_xfer_free() is then the control thread's. Call without the
 * lock. */
void fm_xfer_unref(struct fm_xfer *x);

/* Whether somebody beside the control thread has a reference: I/O of it is under way. */
bool fm_xfer_has_io(const struct fm_xfer *x);
void fm_xfer_free(struct fm_xfer *x);
/* The same of one that no link ever had. */
void fm_xfer_abandon(struct fm_xfer *x);

/* Who asks for a chunk. */
struct fm_claim {
	const void *who;		/* the connection */
	unsigned kind;
	const struct fm_conn_info *info;	/* of it; NULL: of no transfer with only */
	unsigned conns;			/* of that kind; the link says */
	uint64_t now_ns;
	/* how many chunks of x it has under way; NULL: none is to be sent yet */
	unsigned (*held)(const void *who, const struct fm_xfer *x);
	/* whether x, whose share is not 0, may have one more; NULL: yes */
	bool (*has_share)(const void *who, const struct fm_xfer *x);
};

/*
 * Source: the next chunk for that connection. True: chunk is the caller's to send. False: none now;
 * *again_ns is lowered to the time when the rate allows one. Towards the end of a file a connection
 * gets no more than its share of what is left, so that the slow ones do not hold the last chunks
 * while the fast ones are idle.
 */
bool fm_xfer_claim(struct fm_xfer *x, const struct fm_claim *claim, struct fm_chunk *out,
		   uint64_t *again_ns);

/*
 * Source, after a claim: whether it found nothing because the file is to be asked first where its
 * next data is. That may wait for a disk, so the caller asks it (next_data() from *offset on)
 * without the lock, holding a reference, says what came of it with fm_xfer_looked(), and claims
 * again. Until then nobody else is asked to, and claims of others say when to come again.
 */
bool fm_xfer_must_look(struct fm_xfer *x, uint64_t *offset);
void fm_xfer_looked(struct fm_xfer *x, int ret, uint64_t from, uint64_t to);

/*
 * Sets the ranges that are there from an earlier try. They count as done until the sink, which
 * reads them again, says otherwise; no transfer ends before it has read them all. Called before the
 * transfer is in a link, so before the first chunk. -ENOMEM. -EPROTO: a range is off block
 * boundaries or beyond the end, there are more than READY can say, or there is a CRC without
 * ranges.
 */
int fm_xfer_set_have(struct fm_xfer *x, const struct fm_have *have);

/*
 * A stretch of what was there is something else: it counts no more, and comes like the rest of the
 * file. crc: its contributions, as they were told with it. -EPROTO: it was not there, or was found
 * out before; -ENOMEM.
 */
int fm_xfer_take_back(struct fm_xfer *x, uint64_t offset, uint64_t len, uint32_t crc);

/* So many bytes of the earlier ranges have been read again; is_over: all of them. */
void fm_xfer_reread(struct fm_xfer *x, uint64_t bytes, bool is_over);

/* Sink: the contributions of a stretch that was there, and is what it should be, by blocks of the
 * whole. */
void fm_xfer_count_kept(struct fm_xfer *x, uint64_t offset, uint64_t len, const uint32_t *block);

/* Source: so much was read again at the far end, and that stretch was something else; len 0: none.
 * -EPROTO: that cannot be. */
int fm_xfer_take_kept(struct fm_xfer *x, uint64_t reread, bool is_over,
		      const struct fm_written *damaged);

/*
 * Sink: the stretches written since the last call, into out (room for FM_XFER_LOG_MAX); returns how
 * many.
 */
size_t fm_xfer_take_log(struct fm_xfer *x, struct fm_written *out);

/* Sink, drained: the list itself, the caller's to free(); NULL if there is none. */
struct fm_written *fm_xfer_steal_log(struct fm_xfer *x, size_t *count);

/* Source: whether a claim would find a chunk, rate limits aside. */
bool fm_xfer_has_work(const struct fm_xfer *x, const struct fm_claim *claim);

/*
 * Source that may stand still: whether that connection may see to it that its next chunk is read;
 * then it is being read, in that place. Where that chunk is may have to be looked for first, as for
 * a claim.
 */
bool fm_xfer_fill(struct fm_xfer *x, const struct fm_claim *claim, unsigned *place,
		  uint64_t *again_ns);

/* ... the read ended with res: bytes, 0 at the end, an error. */
void fm_xfer_filled(struct fm_xfer *x, unsigned place, int64_t res);

/* ... the claimed chunk was copied: the next may be read there. A stream's stays until its ACK. */
void fm_xfer_copied(struct fm_xfer *x, unsigned place);

/* That connection is gone. If it alone carried the transfer, another one goes on with it. */
void fm_xfer_unbind(struct fm_xfer *x, const void *who);

/*
 * Source: the read of a claimed chunk ended with res, bytes or an error. False: there is nothing to
 * send, and the claim is over: the transfer is, or failed now, or the chunk does not exist, or not
 * yet.
 */
bool fm_xfer_read(struct fm_xfer *x, struct fm_chunk *chunk, int64_t res);

/* Source, packs: that one is not there yet; it is handed out again after fm_xfer_feed(). */
void fm_xfer_put_off(struct fm_xfer *x, const struct fm_chunk *chunk);

/* Source, packs: the tree may have one now. The caller wakes the lanes. */
void fm_xfer_feed(struct fm_xfer *x);

/* Source: it was written at the far end. */
void fm_xfer_acked(struct fm_xfer *x, const struct fm_chunk *chunk, const struct fm_conn_info *by);

/* Source: it was lost with its connection, or damaged: hand it out again. */
void fm_xfer_lost(struct fm_xfer *x, const struct fm_chunk *chunk);

/* Source: it will not be sent (the transfer failed). */
void fm_xfer_dropped(struct fm_xfer *x);

/*
 * Source: it arrived damaged, or (is_busy) while the far end looked at another copy of it. True:
 * not for the first time, and it is not sent again: the transfer fails.
 */
bool fm_xfer_refused(struct fm_xfer *x, struct fm_chunk *chunk, bool is_busy);

/*
 * Sink: whether a chunk with these numbers may be written. Only the last chunk of a file may end
 * elsewhere than at a block: what is written behind its data, to fill the block, must not be
 * another chunk's. -ENOMEM: it is one more than can be remembered. That of a sink that may stand
 * still has its place in the drain then. Of those -EALREADY: it is there; -EAGAIN: it is to come
 * again, since it is just coming over another connection.
 */
int fm_xfer_accept(struct fm_xfer *x, const struct fm_chunk *chunk);

/* Sink: it is written; counted once however often it came. */
void fm_xfer_written(struct fm_xfer *x, const struct fm_chunk *chunk,
		     const struct fm_conn_info *by);

/*
 * Sink: it was written, and what was read back is something else. It is to come again. False: it is
 * not, and the transfer fails: another copy of it counted already, or (is_heard false) the
 * connection is gone whose sender would hear of it, and who sends it again meanwhile may have been
 * believed, or be about to be.
 */
bool fm_xfer_read_wrong(struct fm_xfer *x, const struct fm_chunk *chunk, bool is_heard);

/*
 * Sink that has a place (store/store.h): whether the chunk may come there now, which it does until
 * fm_xfer_landed(); l is the caller's. As fm_xfer_accept(), and -EALREADY: it is there; -EAGAIN:
 * just coming over another connection, whose bytes may be damaged where these were found good.
 */
int fm_xfer_land(struct fm_xfer *x, const struct fm_chunk *chunk, struct fm_landing *l);
void fm_xfer_landed(struct fm_landing *l);

/* The same in two steps, for what is in the drain between them. */
/* false: it does not count */
bool fm_xfer_came(struct fm_xfer *x, const struct fm_chunk *chunk, const struct fm_conn_info *by);
void fm_xfer_note_written(struct fm_xfer *x, const struct fm_chunk *chunk);

/*
 * The same of a read or write of the file, without a text of its own: what would mean the peer, or
 * that somebody gave it up, as the error of a connection does, is -EIO then. The text names it.
 */
void fm_xfer_fail_io(struct fm_xfer *x, int code, const char *what, uint64_t offset);

/* The first failure counts; tells the control thread. */
void fm_xfer_fail(struct fm_xfer *x, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Source: nothing left to do. */
bool fm_xfer_is_sent(const struct fm_xfer *x);
/* ... and the control thread hears if so. */
void fm_xfer_tell_if_sent(struct fm_xfer *x);

/* CRC32C of the whole, size bytes. */
uint32_t fm_xfer_crc(const struct fm_xfer *x, uint64_t size);

void fm_xfer_moved(const struct fm_xfer *x, struct fm_moved *out);
void fm_moved_add(struct fm_moved *to, const struct fm_moved *more);

/* Source, sent. Of what the far end had already only the CRC of the whole is known. */
void fm_xfer_sent_whole(const struct fm_xfer *x, struct fm_whole *out);
/* Sink: all is here, size bytes, and no more may come. */
void fm_xfer_end_sink(struct fm_xfer *x, uint64_t size, struct fm_whole *out);

#endif
