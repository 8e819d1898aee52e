/* SPDX-License-Identifier: MIT */
/* flow_rx - the receiving half of a flow: grant slots, check what comes, write it, acknowledge it.
 * See flow.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/block.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/data/flow.h"
#include "mover/data/layout.h"
#include "mover/data/link.h"
#include "mover/store/store.h"

/* Leases are looked at this often while they are idle. */
#define IDLE_LOOK_NS (100 * FM_NS_PER_MS)
/*
 * A peer that was asked for its slots gives them back within this time after the last of its chunks
 * came or was dealt with. What it still reads needs none (flow.h), but one of an older version, or
 * a thread of it that gets no time, may take a while. Who does not would keep memory from everybody
 * else for ever.
 */
#define RETURN_NS (30 * FM_NS_PER_S)
/* So long an eighth of a small chunk counts as much. */
#define SMALL_NS (10 * RETURN_NS)

void fm_flow_rx_init(struct fm_flow *f)
{
	f->rx_lease.slab = -1;
	fm_list_init(&f->wait_rx_at);
	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++)
		f->rx[i].flow = f;
}

static void *slot_memory(struct fm_flow *f, unsigned slot)
{
	return (char *)f->rx_lease.region.memory + (size_t)slot * f->lane->chunk_bytes;
}

static int ack(struct fm_flow *f, unsigned slot, uint64_t xfer, uint64_t seq,
	       enum fm_ack_status status)
{
	struct fm_data_msg m = {
		.type = FM_DATA_ACK,
		.status = (uint8_t)status,
		.slot = (uint16_t)slot,
		.generation = f->rx_generation,
		.xfer = xfer,
		.seq = seq,
	};

	return fm_flow_note(f, &m);
}

static void rx_free(struct fm_rx *r, enum fm_ack_status status)
{
	struct fm_flow *f = r->flow;
	struct fm_xfer *x = r->x;

	r->x = NULL;
	f->rx_lease.used_ns = fm_loop_now(f->lane->io.loop);
	if (f->state == FM_FLOW_UP &&
	    ack(f, (unsigned)(r - f->rx), r->xfer_id, r->chunk.seq, status) < 0)
		fm_flow_fail(f, -EPROTO, "the peer takes no acknowledgements");
	fm_xfer_unref(x);
}

/* Ends the work on a received chunk, with any outcome. */
static void settle(struct fm_rx *r, enum fm_ack_status status)
{
	struct fm_flow *f = r->flow;

	fm_flow_took(f, r->since_ns, fm_loop_now(f->lane->io.loop));
	rx_free(r, status);
	if (fm_flow_is_ending(f))
		fm_flow_wake(f);
}

static void fail_io(struct fm_rx *r, const char *verb)
{
	char what[48];

	(void)snprintf(what, sizeof(what), "%s %u bytes", verb, r->chunk.len);	/* fits */
	fm_link_fail_io(r->x, r->io.res < 0 ? (int)r->io.res : -EIO, what, r->chunk.offset);
}

static void count_written(struct fm_rx *r)
{
	fm_link_written(r->x, &r->chunk, &r->flow->info);
	settle(r, FM_ACK_WRITTEN);
}

/*
 * The disk gives back something else. The source still has the bytes and sends them again, as long
 * as it hears of that, and no other copy was believed.
 */
static void read_back_wrong(struct fm_rx *r)
{
	struct fm_flow *f = r->flow;
	bool comes_again = fm_link_read_wrong(r->x, &r->chunk, f->state == FM_FLOW_UP);

	if (comes_again)
		fm_lane_log_read_back(f->lane, r->chunk.len, r->chunk.offset);
	settle(r, comes_again ? FM_ACK_CORRUPT : FM_ACK_DROPPED);
}

/* A chunk was read back: compares it with what came. */
static void read_back_done(struct fm_io *io)
{
	struct fm_rx *r = fm_container_of(io, struct fm_rx, io);
	struct fm_flow *f = r->flow;

	f->io_count--;
	if (io->res < (int64_t)r->chunk.len) {
		fail_io(r, "read back");
		settle(r, FM_ACK_DROPPED);
	} else if (!FM_FAULT("store.readback") &&
		   fm_crc32c(0, io->buf, r->chunk.len) == r->chunk.crc) {
		count_written(r);
	} else {
		read_back_wrong(r);
	}
}

static void read_back(struct fm_rx *r)
{
	struct fm_flow *f = r->flow;
	struct fm_file *file = r->x->o.file;

	fm_block_spoil(slot_memory(f, (unsigned)(r - f->rx)), r->chunk.len);
	f->io_count++;
	r->io = (struct fm_io){
		.done = read_back_done,
		.buf = slot_memory(f, (unsigned)(r - f->rx)),
		.len = (uint32_t)fm_block_up(r->chunk.len),
		.offset = r->chunk.offset,
	};
	file->ops->read(file, &f->lane->io, &r->io);
}

static void write_done(struct fm_io *io)
{
	struct fm_rx *r = fm_container_of(io, struct fm_rx, io);

	r->flow->io_count--;
	if (r->x->layout->is_checked_by_writer && io->res == -EBADMSG) {
		fm_link_corrupt(r->x);
		settle(r, FM_ACK_CORRUPT);
	} else if (io->res != (int64_t)r->chunk.len) {
		fail_io(r, "write");
		settle(r, FM_ACK_DROPPED);
	} else if (r->x->o.is_read_back) {
		read_back(r);
	} else {
		count_written(r);
	}
}

static void rx_write(struct fm_rx *r)
{
	struct fm_flow *f = r->flow;
	struct fm_file *file = r->x->o.file;

	f->io_count++;
	r->io = (struct fm_io){
		.done = write_done,
		.buf = slot_memory(f, (unsigned)(r - f->rx)),
		.len = r->chunk.len,
		.offset = r->x->layout->at(&r->chunk),
		.crc = f->lane->is_unchecked ? NULL : &r->chunk.crc,
	};
	file->ops->write(file, &f->lane->io, &r->io);
}

/*
 * A file's chunk is written from its slot, so the peer can change it behind this look: what it
 * spoils is its own transfer. A pack says names to this node. It is not looked at here: its CRC is
 * computed of the copy that is applied (tree_file.h).
 */
static bool is_as_sent(struct fm_flow *f, const struct fm_xfer *x, const struct fm_chunk *c,
		       unsigned slot)
{
	return f->lane->is_unchecked || x->layout->is_checked_by_writer ||
	       fm_crc32c(0, slot_memory(f, slot), c->len) == c->crc;
}

/* 0: it may be written. Else it is refused with that status. */
static int check(struct fm_flow *f, struct fm_xfer *x, const struct fm_chunk *c, unsigned slot,
		 enum fm_ack_status *status)
{
	if (!is_as_sent(f, x, c, slot)) {
		fm_link_corrupt(x);
		*status = FM_ACK_CORRUPT;
		return -EBADMSG;
	}
	*status = FM_ACK_DROPPED;
	return fm_link_accept(x, c);
}

/* The answer to the sender about a chunk that has no place beside the sink. */
static enum fm_ack_status refusal(int ret)
{
	switch (ret) {
	case -EALREADY:		/* it came before */
		return FM_ACK_WRITTEN;
	/* it comes at this moment, and whether that copy is whole nobody knows yet */
	case -EAGAIN:
		return FM_ACK_BUSY;
	default:
		return FM_ACK_DROPPED;
	}
}

/*
 * Takes a chunk for a sink that may block. It is copied at once, so its slot is free again. The
 * copy is checked and written, because the peer could still change the slot.
 */
static enum fm_ack_status take_beside(struct fm_flow *f, struct fm_xfer *x,
				      const struct fm_chunk *c, unsigned slot)
{
	void *copy = fm_drain_place(x, c->seq);
	struct fm_beside_place *place;
	int ret = fm_link_accept(x, c);
	bool is_as_sent;

	if (ret < 0)
		return refusal(ret);
	memcpy(copy, slot_memory(f, slot), c->len);
	is_as_sent = f->lane->is_unchecked || fm_crc32c(0, copy, c->len) == c->crc;
	place = fm_link_filled(x, c, is_as_sent, &f->info, f->lane);
	if (place)
		fm_link_start(place);
	return is_as_sent ? FM_ACK_WRITTEN : FM_ACK_CORRUPT;
}

/* Whether the sink has a place for all of the chunk. */
static bool has_place(const struct fm_xfer *x, const struct fm_chunk *c)
{
	const struct fm_file *file = x->o.file;

	return file->place && c->offset <= file->room && c->len <= file->room - c->offset;
}

/* Whether that chunk came to its place. */
static bool is_landing(const struct fm_flow *f, const struct fm_xfer *x, const struct fm_chunk *c)
{
	return f->landing.x == x && f->landing.seq == c->seq;
}

/*
 * Takes a chunk to its place, unless it came there already. It is checked there: its owner may
 * change it meanwhile, and hurts his own transfer. Nothing comes there after that: a chunk that is
 * there, or coming, is not let in a second time.
 */
static enum fm_ack_status take_in_place(struct fm_flow *f, struct fm_xfer *x, struct fm_chunk *c,
					unsigned slot)
{
	struct fm_landing copied, *l = &copied;
	char *at = x->o.file->place + c->offset;
	bool is_as_sent;

	c->is_direct = is_landing(f, x, c);
	if (c->is_direct) {
		l = &f->landing;
	} else {
		int ret = fm_link_land(x, c, l);

		if (ret == -EALREADY)
			fm_link_written(x, c, &f->info);	/* counted as what came again */
		if (ret < 0)
			return refusal(ret);
		memcpy(at, slot_memory(f, slot), c->len);
	}
	is_as_sent = f->lane->is_unchecked || fm_crc32c(0, at, c->len) == c->crc;
	fm_link_landed(l, c, is_as_sent, &f->info);
	return is_as_sent ? FM_ACK_WRITTEN : FM_ACK_CORRUPT;
}

static struct fm_chunk chunk_of(const struct fm_data_msg *m)
{
	return (struct fm_chunk){
		.seq = m->seq, .offset = m->offset, .len = m->length, .crc = m->data_crc};
}

/* Where a chunk comes that may be written to its slot; NULL: to that. */
void *fm_flow_rx_place(struct fm_flow *f, const struct fm_data_msg *m)
{
	struct fm_xfer *x = f->landing.x ? NULL : fm_link_find_sink(f->link, m->xfer);
	const struct fm_chunk c = chunk_of(m);
	void *at = NULL;

	if (!x)
		return NULL;
	if (has_place(x, &c) && fm_link_land(x, &c, &f->landing) == 0)
		at = x->o.file->place + c.offset;
	fm_xfer_unref(x);
	return at;
}

/* What comes for a transfer that was removed is not to touch its memory any more. */
void fm_flow_rx_cancel_removed(struct fm_flow *f)
{
	if (!f->landing.x || !fm_link_is_removed(f->landing.x))
		return;
	f->conn->ops->divert(f->conn);
	f->torn = (struct fm_torn){.is_coming = true,
				   .xfer_id = f->landing.x->o.id,
				   .seq = f->landing.seq};
	fm_link_land_not(&f->landing);
}

/* Another transfer may have that number by now, and what lies in its slot before the rest is
 * others'. */
static bool is_torn(struct fm_flow *f, const struct fm_data_msg *m)
{
	if (!f->torn.is_coming || m->xfer != f->torn.xfer_id || m->seq != f->torn.seq)
		return false;
	f->torn.is_coming = false;
	return true;
}

/* Deals with a chunk for which nothing is to be waited for here. False: it is to be written. */
static bool take_at_once(struct fm_flow *f, struct fm_xfer *x, struct fm_chunk *c, unsigned slot,
			 enum fm_ack_status *status)
{
	if (x->beside.count > 0)
		*status = take_beside(f, x, c, slot);
	else if (has_place(x, c))
		*status = take_in_place(f, x, c, slot);
	else
		return false;
	return true;
}

/* Whether a CHUNK names a slot that the peer was granted and that is free: nothing of an earlier
 * one is under way in it. */
static bool is_free_slot(const struct fm_flow *f, const struct fm_data_msg *m)
{
	return f->rx_lease.slab >= 0 && m->generation == f->rx_generation &&
	       m->slot < f->rx_slots && !f->rx[m->slot].x && m->length <= f->lane->chunk_bytes;
}

/*
 * A chunk brings all of its bytes: what others left in its slot is looked at for nobody, who could
 * learn from the answers what it is.
 */
bool fm_flow_rx_may_write(const struct fm_flow *f, const struct fm_data_msg *m, uint64_t remote,
			  uint32_t len)
{
	if (m->type != FM_DATA_CHUNK)
		return len == 0;
	return is_free_slot(f, m) && len == m->length &&
	       remote == f->rx_lease.region.remote + (uint64_t)m->slot * f->lane->chunk_bytes;
}

int fm_flow_rx_chunk(struct fm_flow *f, const struct fm_data_msg *m)
{
	struct fm_chunk c = chunk_of(m);
	enum fm_ack_status status;
	struct fm_xfer *x;
	struct fm_rx *r;

	if (!is_free_slot(f, m))
		return -EPROTO;
	/*
	 * After REVOKE each slot may bring one more chunk, and that chunk again if it was damaged.
	 * More means that the peer keeps slots against the rules.
	 */
	if (f->is_revoking && ++f->rx_late > FM_XFER_CORRUPT_MAX * f->rx_slots)
		return -EPROTO;
	f->rx_lease.used_ns = fm_loop_now(f->lane->io.loop);
	f->rx_chunks++;
	f->conn->looked += m->length;
	atomic_fetch_add_explicit(&f->bytes_received, m->length, memory_order_relaxed);
	x = is_torn(f, m) ? NULL : fm_link_find_sink(f->link, m->xfer);
	if (!x)
		return ack(f, m->slot, m->xfer, m->seq, FM_ACK_DROPPED);
	if (take_at_once(f, x, &c, m->slot, &status) ||
	    check(f, x, &c, m->slot, &status) < 0) {
		if (status == FM_ACK_BUSY && f->is_revoking)
			f->rx_late--;	/* it comes again because we asked for it */
		fm_xfer_unref(x);
		return ack(f, m->slot, m->xfer, m->seq, status);
	}
	r = &f->rx[m->slot];
	r->x = x;
	r->xfer_id = m->xfer;
	r->chunk = c;
	r->since_ns = f->rx_lease.used_ns;
	r->number = f->rx_chunks;
	rx_write(r);
	return 0;
}

int fm_flow_rx_want(struct fm_flow *f)
{
	if (f->is_wanted || (f->rx_lease.slab >= 0 && !f->is_revoking))
		return -EPROTO;
	f->is_wanted = true;
	fm_link_wait_rx(f->link, &f->wait_rx_at);
	atomic_fetch_add(&f->link->wants, 1);
	fm_flow_wake(f);
	return 0;
}

static void forget_want(struct fm_flow *f)
{
	if (!f->is_wanted)
		return;
	f->is_wanted = false;
	fm_link_leave_rx(f->link, &f->wait_rx_at);
	atomic_fetch_sub(&f->link->wants, 1);
}

static void grant(struct fm_flow *f)
{
	struct fm_data_msg m;
	uint64_t now_ns = fm_loop_now(f->lane->io.loop);

	if (!fm_link_is_turn_rx(f->link, &f->wait_rx_at, now_ns)) {
		fm_lane_wake_at(f->lane, now_ns + FM_FLOW_RETRY_NS);
		return;
	}
	if (fm_flow_lease(f, &f->rx_lease, true) < 0)
		return;
	forget_want(f);
	f->rx_slots = fm_slabs_bytes(f->link->slabs) / f->lane->chunk_bytes;
	f->rx_generation++;
	f->is_revoking = false;
	m = fm_grant_msg(&(struct fm_grant){ .generation = f->rx_generation, .slots = f->rx_slots,
					     .slot_bytes = f->lane->chunk_bytes,
					     .remote = f->rx_lease.region.remote,
					     .rkey = f->rx_lease.region.rkey });
	if (fm_flow_note(f, &m) < 0)
		fm_flow_fail(f, -ENOBUFS, "too many messages under way");
}

static void revoke(struct fm_flow *f)
{
	struct fm_data_msg m = { .type = FM_DATA_REVOKE, .generation = f->rx_generation };

	f->is_revoking = true;
	f->revoked_ns = fm_loop_now(f->lane->io.loop);
	f->rx_late = 0;
	if (fm_flow_note(f, &m) < 0)
		fm_flow_fail(f, -ENOBUFS, "too many messages under way");
}

static bool is_rx_idle(const struct fm_flow *f)
{
	for (unsigned i = 0; i < f->rx_slots; i++)
		if (f->rx[i].x)
			return false;
	return true;
}

/*
 * A slot is used while bytes come to it, too, however long its chunk takes. A chunk may be smaller
 * than what tells a slow network: a part of it does for a while.
 */
static void look_for_coming(struct fm_flow *f, uint64_t now_ns)
{
	uint64_t part = f->lane->chunk_bytes / 8, least = FM_FLOW_MOVED_BYTES;

	if (!f->is_revoking)
		least = 1;
	else if (part < least && now_ns < f->revoked_ns + SMALL_NS)
		least = part;
	if (f->conn->came - f->rx_came < least)
		return;
	f->rx_came = f->conn->came;
	f->rx_lease.used_ns = now_ns;
}

static void await_return(struct fm_flow *f, uint64_t now_ns)
{
	uint64_t since_ns =
		f->revoked_ns > f->rx_lease.used_ns ? f->revoked_ns : f->rx_lease.used_ns;

	if (is_rx_idle(f) && now_ns >= since_ns + RETURN_NS)
		fm_flow_fail(f, -ETIMEDOUT,
			     "the peer was asked for its slots %u s ago and keeps them",
			     (unsigned)(RETURN_NS / FM_NS_PER_S));
	else
		fm_lane_wake_at(f->lane, now_ns + IDLE_LOOK_NS);
}

/*
 * Whether a write seems to hang. As long as it does the peer can give no slot back, and asked for
 * them it would begin nothing more in the others. So it is not asked. Two slabs full that came
 * meanwhile tell sooner than the time does.
 */
static bool is_hung(const struct fm_flow *f, uint64_t now_ns)
{
	for (unsigned i = 0; i < f->rx_slots; i++) {
		const struct fm_rx *r = &f->rx[i];
		bool is_overtaken = f->rx_chunks - r->number >= 2 * f->rx_slots;

		if (r->x && fm_flow_seems_hung(f, r->since_ns, is_overtaken, now_ns))
			return true;
	}
	return false;
}

void fm_flow_rx_step(struct fm_flow *f, uint64_t now_ns)
{
	if (f->rx_lease.slab < 0 && f->is_wanted && fm_link_has_sink(f->link))
		grant(f);
	if (f->rx_lease.slab < 0)
		return;
	look_for_coming(f, now_ns);
	/* a slot whose chunk is being written is in use */
	if (!f->is_revoking && !is_hung(f, now_ns) &&
	    fm_link_should_give(f->link, FM_SLAB_RX, &f->rx_lease.is_giving,
				is_rx_idle(f) ? f->rx_lease.used_ns : now_ns, now_ns))
		revoke(f);
	if (f->is_revoking)
		await_return(f, now_ns);
	else
		fm_lane_wake_at(f->lane, now_ns + IDLE_LOOK_NS);
}

int fm_flow_rx_return(struct fm_flow *f, const struct fm_data_msg *m)
{
	if (!f->is_revoking || m->generation != f->rx_generation || !is_rx_idle(f))
		return -EPROTO;
	fm_flow_unlease(f, &f->rx_lease, true);
	f->is_revoking = false;
	f->rx_slots = 0;
	fm_flow_wake(f);
	return 0;
}

void fm_flow_rx_closing(struct fm_flow *f)
{
	/*
	 * other connections wait for a slab behind this one, and its end may take as long as a disk
	 * hangs
	 */
	forget_want(f);
	if (f->landing.x)
		fm_link_land_not(&f->landing);
}

void fm_flow_rx_finish(struct fm_flow *f)
{
	for (unsigned i = 0; i < f->rx_slots; i++)
		assert(!f->rx[i].x);
	fm_flow_unlease(f, &f->rx_lease, true);
	f->rx_slots = 0;
}
