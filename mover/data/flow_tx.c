/* SPDX-License-Identifier: MIT */
/* flow_tx - the sending half of a flow: claim a chunk, read it, send it, wait for its
 * acknowledgement. See flow.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/data/flow.h"
#include "mover/data/layout.h"
#include "mover/data/link.h"
#include "mover/data/registered.h"

/* Chunks of a file in memory that wait for the network card. */
#define INSTANT_QUEUE_MAX 8
#define BUSY_SOON 10	/* times that a chunk is sent again soon */
/* An acknowledgement that takes longer waits for a distance or a disk. */
#define QUICK_ACK_NS (2 * FM_NS_PER_MS)
#define OVERDUE_ACK_NS (10 * QUICK_ACK_NS)
#define ACKS_UNTIL_MEASURED 1024
/* Leases are looked at this often while they are idle. */
#define IDLE_LOOK_NS (100 * FM_NS_PER_MS)
/* How long the peer may take to answer for the next chunk whose transfer has ended. */
#define ORPHAN_NS (30 * FM_NS_PER_S)

void fm_flow_tx_init(struct fm_flow *f)
{
	f->tx_lease.slab = -1;
	fm_list_init(&f->tx_waiting);
	fm_list_init(&f->tx_later);
	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++) {
		f->tx[i].flow = f;
		f->tx[i].slot = -1;
		fm_list_init(&f->tx[i].wait_at);
	}
}

static unsigned there(const struct fm_tx *t)
{
	return (unsigned)(t - t->flow->tx);
}

static void *slot_memory(const struct fm_flow *f, int slot)
{
	assert(slot >= 0 && (unsigned)slot < f->tx_slots);
	return (char *)f->tx_lease.region.memory + (size_t)slot * f->lane->chunk_bytes;
}

/*
 * Finds out whether the chunk is sent from where it lies. Over TCP a payload may be anywhere; RDMA
 * sends from registered memory, which slots are, and buffers become.
 */
static void look_where_it_lies(struct fm_tx *t)
{
	const struct fm_file *file = t->x->o.file;
	struct fm_flow *f = t->flow;

	t->lent = NULL;
	if (file->memory && f->kind != FM_KIND_TCP)
		t->lent = fm_registered_find(f->place, file, fm_loop_now(f->lane->io.loop));
	t->chunk.is_direct = file->memory && (f->kind == FM_KIND_TCP || t->lent);
}

static const void *payload(const struct fm_tx *t)
{
	return t->chunk.is_direct ? t->x->o.file->memory + t->chunk.offset
				  : slot_memory(t->flow, t->slot);
}

static void give_slot(struct fm_tx *t)
{
	if (t->slot >= 0)
		t->flow->tx_free[t->flow->tx_frees++] = (uint16_t)t->slot;
	t->slot = -1;
}

static void take_slot(struct fm_tx *t)
{
	assert(t->slot < 0 && t->flow->tx_frees > 0);
	t->slot = t->flow->tx_free[--t->flow->tx_frees];
}

static void set_step(struct fm_tx *t, enum fm_tx_step step)
{
	struct fm_flow *f = t->flow;

	f->tx_held += (unsigned)(step == FM_TX_HELD) - (unsigned)(t->step == FM_TX_HELD);
	f->tx_queued += (unsigned)(step == FM_TX_SENDING) - (unsigned)(t->step == FM_TX_SENDING);
	t->step = step;
}

static bool is_refused(const struct fm_tx *t)
{
	return t->word == FM_TX_CORRUPT || t->word == FM_TX_BUSY;
}

/* The chunk is dealt with; the peer's slot is ours to fill again. */
static void tx_free(struct fm_tx *t)
{
	struct fm_flow *f = t->flow;
	struct fm_xfer *x = t->x;

	assert(x && t->step != FM_TX_READING && t->step != FM_TX_SENDING);
	t->x = NULL;
	set_step(t, FM_TX_WAITING);
	t->word = FM_TX_UNSENT;
	fm_list_del(&t->wait_at);
	give_slot(t);
	if (f->grant.generation != 0)
		f->credit[f->credits++] = (uint16_t)there(t);
	fm_flow_wake(f);
	fm_xfer_unref(x);
}

static void tx_drop(struct fm_tx *t)
{
	fm_link_dropped(t->x);
	tx_free(t);
}

static void tx_again(struct fm_tx *t);

static void send_done(struct fm_send *send, int res)
{
	struct fm_tx *t = fm_container_of(send, struct fm_tx, send);
	struct fm_flow *f = t->flow;

	(void)res;	/* not acknowledged is not sent: fm_flow_tx_finish() sees to it */
	set_step(t, FM_TX_WAITING);
	if (t->x->beside.count == 0)
		give_slot(t);
	if (t->word == FM_TX_ACKED)
		tx_free(t);
	else if (is_refused(t) && f->state == FM_FLOW_UP)
		tx_again(t);
	else
		fm_flow_wake(f);
}

static void tx_send(struct fm_tx *t)
{
	struct fm_flow *f = t->flow;
	struct fm_data_msg m = {
		.type = FM_DATA_CHUNK,
		.slot = (uint16_t)there(t),
		.generation = f->grant.generation,
		.xfer = t->x->o.id,
		.seq = t->chunk.seq,
		.offset = t->chunk.offset,
		.length = t->chunk.len,
		.data_crc = t->chunk.crc,
	};

	t->send = (struct fm_send){
		.done = send_done,
		.payload = payload(t),
		.payload_len = t->chunk.len,
		.region = t->chunk.is_direct ? t->lent : &f->tx_lease.region,
		.remote = f->grant.remote + (uint64_t)there(t) * f->grant.slot_bytes,
		.rkey = f->grant.rkey,
	};
	if (fm_data_encode(&m, t->send.msg) < 0) {
		fm_flow_fail(f, -EINVAL,
			     "a chunk that cannot be sent: number %llu, byte %llu, %u bytes",
			     (unsigned long long)m.seq, (unsigned long long)m.offset, m.length);
		return;
	}
	set_step(t, FM_TX_SENDING);
	t->word = FM_TX_AWAITED;
	t->sent_ns = fm_loop_now(f->lane->io.loop);
	t->is_alone = f->grant.slots - f->credits <= 2;
	atomic_fetch_add_explicit(&f->bytes_sent, t->chunk.len, memory_order_relaxed);
	f->conn->ops->send(f->conn, &t->send);
}

/* Its bytes are in our slot, or where they are sent from, and their CRC is known. */
static void tx_ready(struct fm_tx *t)
{
	if (t->flow->grant.generation != 0)
		tx_send(t);
	else
		set_step(t, FM_TX_HELD);
	fm_flow_wake(t->flow);
}

/*
 * Its bytes are there. Those of a caller's memory are the ones that had a CRC before, or his
 * transfer fails: the far end may have refused them because they changed on their way, and a new
 * CRC would make a mixture good. Nothing else tells: memory has no time of its last change.
 */
static void tx_filled(struct fm_tx *t)
{
	bool is_repeated = t->chunk.has_crc && t->x->o.file->memory;
	uint32_t before = t->chunk.crc;

	if (!t->flow->lane->is_unchecked)
		t->chunk.crc = fm_crc32c(0, payload(t), t->chunk.len);
	t->chunk.has_crc = true;
	if (!is_repeated || t->chunk.crc == before) {
		tx_ready(t);
		return;
	}
	fm_link_changed(t->x, &t->chunk);
	tx_free(t);
}

/* Copies a chunk that was read beforehand, of a source that may block, into our slot. */
static void tx_copy(struct fm_tx *t)
{
	memcpy(slot_memory(t->flow, t->slot), fm_beside_at(t->x, t->chunk.place), t->chunk.len);
	fm_link_copied(t->x, t->chunk.place);
	t->word = FM_TX_UNSENT;
	if (t->chunk.has_crc)
		tx_ready(t);
	else
		tx_filled(t);
}

/*
 * The same chunk once more, out of our slot, with the CRC that it had: if our memory changed the
 * bytes, they are refused again, and the transfer fails. A new CRC would make them good. Those of a
 * stream are still where they were read.
 */
static void tx_repeat(struct fm_tx *t)
{
	if (t->x->layout->is_in_order)
		memcpy(slot_memory(t->flow, t->slot), fm_beside_at(t->x, t->chunk.place),
		       t->chunk.len);
	tx_ready(t);
}

/* Sends a chunk from where it lies. */
static void tx_direct(struct fm_tx *t)
{
	t->word = FM_TX_UNSENT;
	if (fm_link_read(t->x, &t->chunk, t->chunk.len))
		tx_filled(t);
	else
		tx_free(t);
}

/* Gives a chunk back whose connection is gone. Nothing is being read into its slot any more. */
static void tx_lose(struct fm_tx *t)
{
	assert(t->step != FM_TX_READING && t->step != FM_TX_SENDING);
	if (t->word != FM_TX_ACKED) {
		if (!t->x->layout->is_in_order && !t->x->o.file->memory)
			t->chunk.has_crc = false;	/* it is read again */
		fm_link_lost(t->x, &t->chunk);
	}
	tx_free(t);
}

static void read_done(struct fm_io *io)
{
	struct fm_tx *t = fm_container_of(io, struct fm_tx, io);
	struct fm_flow *f = t->flow;

	set_step(t, FM_TX_WAITING);
	fm_flow_took(f, t->read_ns, fm_loop_now(f->lane->io.loop));
	f->io_count--;
	if (fm_flow_is_ending(f)) {
		if (f->state == FM_FLOW_CLOSED)
			tx_lose(t);
		fm_flow_wake(f);
		return;
	}
	if (fm_link_read(t->x, &t->chunk, t->io.res))
		tx_filled(t);
	else
		tx_free(t);
}

static void tx_read(struct fm_tx *t)
{
	struct fm_flow *f = t->flow;
	struct fm_file *file = t->x->o.file;
	/* A direct read wants whole blocks; what lies behind the end of the file is not read. */
	uint32_t len = (t->chunk.len + 4095u) & ~4095u;

	set_step(t, FM_TX_READING);
	t->read_ns = fm_loop_now(f->lane->io.loop);
	t->word = FM_TX_UNSENT;
	f->io_count++;
	t->io = (struct fm_io){
		.done = read_done,
		.buf = slot_memory(f, t->slot),
		.len = len,
		.offset = t->x->layout->at(&t->chunk),
	};
	file->ops->read(file, &f->lane->io, &t->io);
}

/* Begins with a chunk that was claimed. */
static void tx_begin(struct fm_tx *t)
{
	look_where_it_lies(t);
	if (t->chunk.is_direct) {
		tx_direct(t);
		return;
	}
	take_slot(t);
	if (t->x->beside.count > 0)
		tx_copy(t);
	else
		tx_read(t);
}

static bool waits_for_acks(const struct fm_flow *f)
{
	return f->ack_ns < QUICK_ACK_NS && f->grant.slots - f->credits >= 2;
}

/*
 * Looks for acknowledgements that are overdue. A file at either end may block, such as a pipe that
 * nobody reads. Others must not wait for it, so the connection counts as slow.
 */
static void look_for_overdue(struct fm_flow *f, uint64_t now_ns)
{
	if (f->kind != FM_KIND_TCP || !f->is_source_instant || !waits_for_acks(f))
		return;
	if (now_ns - f->tx_lease.used_ns >= OVERDUE_ACK_NS)
		f->ack_ns = QUICK_ACK_NS;
	else
		fm_lane_wake_at(f->lane, f->tx_lease.used_ns + OVERDUE_ACK_NS);
}

/*
 * Whether enough is under way. A disk is kept busy with all the slots there are. A file in memory
 * is read within the call, and what is read long before it is sent, or sent long before it is
 * written, only pushes the rest out of the caches: over TCP, where every byte goes through them,
 * two chunks are enough as long as they are acknowledged quickly (two for each of the connections
 * cover a network's delay up to that).
 */
static bool is_busy(const struct fm_flow *f)
{
	if (!f->is_source_instant)
		return false;
	if (f->kind != FM_KIND_TCP)
		return f->tx_queued >= INSTANT_QUEUE_MAX;
	return f->tx_queued >= 2 || waits_for_acks(f);
}

static unsigned held_of(const void *who, const struct fm_xfer *x)
{
	const struct fm_flow *f = who;
	unsigned n = 0;

	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++)
		n += f->tx[i].x == x;
	return n;
}

/*
 * An end of a transfer may be somebody who stands still (the client of a tree that was stopped, a
 * caller's file that never answers), and keeps the slots of what it has under way. So these leave a
 * quarter to all others, and each of them, or all of one user, as many to others of this kind as
 * they have themselves.
 */
static bool has_share(const void *who, const struct fm_xfer *x)
{
	const struct fm_flow *f = who;
	unsigned slots = f->grant.slots < f->tx_slots ? f->grant.slots : f->tx_slots;
	unsigned most = slots - (slots + 3) / 4, all = 0, own = 0;

	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++) {
		all += f->tx[i].x && f->tx[i].x->o.share;
		own += f->tx[i].x && f->tx[i].x->o.share == x->o.share;
	}
	return all < most ? own < most - all || own == 0 : all == 0;
}

/* Start chunks as long as there is work, a slot here and a slot there. */
static void claim(struct fm_flow *f, uint64_t now_ns)
{
	const struct fm_claim claim = {.who = f,
				       .kind = f->kind,
				       .info = &f->info,
				       .now_ns = now_ns,
				       .held = held_of,
				       .has_share = has_share};
	uint64_t again_ns;

	look_for_overdue(f, now_ns);
	while (f->credits > 0 && f->tx_frees > 0 && !f->is_grant_revoked && !is_busy(f)) {
		struct fm_chunk chunk;
		struct fm_xfer *x = fm_link_claim(f->link, &claim, &chunk, &again_ns);
		struct fm_tx *t;

		if (!x) {
			fm_lane_wake_at(f->lane, again_ns);
			return;
		}
		t = &f->tx[f->credit[--f->credits]];
		assert(!t->x);
		t->x = x;
		t->chunk = chunk;
		f->tx_lease.used_ns = now_ns;
		f->is_source_instant = x->o.file->is_instant && x->beside.count == 0;
		tx_begin(t);
		if (t->step == FM_TX_READING && f->is_source_instant)
			return;		/* its end is a pass away, and wakes us */
	}
}

/* Chunks that arrived damaged go first. */
static void read_waiting(struct fm_flow *f)
{
	while (f->tx_frees > 0 && !fm_list_is_empty(&f->tx_waiting)) {
		struct fm_tx *t =
			fm_container_of(fm_list_pop(&f->tx_waiting), struct fm_tx, wait_at);

		take_slot(t);
		tx_read(t);
	}
}

static void send_again(struct fm_tx *t)
{
	if (t->chunk.is_direct)
		tx_filled(t);
	else if (t->x->beside.count > 0)
		tx_repeat(t);
	else
		fm_list_append(&t->flow->tx_waiting, &t->wait_at);
	fm_flow_wake(t->flow);
}

/* Sends chunks again that found the far end busy. */
static void send_later(struct fm_flow *f, uint64_t now_ns)
{
	while (!fm_list_is_empty(&f->tx_later)) {
		struct fm_tx *t = fm_container_of(f->tx_later.next, struct fm_tx, wait_at);

		if (now_ns < t->again_ns) {
			fm_lane_wake_at(f->lane, t->again_ns);
			return;
		}
		fm_list_del(&t->wait_at);
		if (fm_link_is_removed(t->x))
			tx_drop(t);
		else
			send_again(t);
	}
}

static void say(struct fm_flow *f, enum fm_data_type type, uint32_t generation)
{
	struct fm_data_msg m = { .type = (uint8_t)type, .generation = generation };

	if (fm_flow_note(f, &m) < 0)
		fm_flow_fail(f, -ENOBUFS, "too many messages under way");
}

static bool is_tx_idle(const struct fm_flow *f)
{
	return f->tx_frees == f->tx_slots && fm_list_is_empty(&f->tx_waiting) &&
	       fm_list_is_empty(&f->tx_later);
}

/* Whether chunks are in the peer's slots, or on their way there. */
static bool uses_grant(const struct fm_flow *f)
{
	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++)
		if (f->tx[i].x &&
		    (f->tx[i].word == FM_TX_AWAITED || f->tx[i].step == FM_TX_SENDING))
			return true;
	return false;
}

static void return_grant(struct fm_flow *f)
{
	if (!f->is_grant_revoked || uses_grant(f))
		return;
	say(f, FM_DATA_RETURN, f->grant.generation);
	f->grant.generation = 0;
	f->is_grant_revoked = false;
	f->credits = 0;
}

static void give_tx_slab(struct fm_flow *f, uint64_t now_ns)
{
	if (f->tx_lease.slab < 0 || !is_tx_idle(f))
		return;
	if (!fm_link_should_give(f->link, FM_SLAB_TX, &f->tx_lease.is_giving, f->tx_lease.used_ns,
				 now_ns)) {
		fm_lane_wake_at(f->lane, now_ns + IDLE_LOOK_NS);
		return;
	}
	fm_flow_unlease(f, &f->tx_lease, false);
	f->tx_slots = 0;
	f->tx_frees = 0;
	/* there may be work: it was given back for others' sake */
	fm_lane_wake_at(f->lane, now_ns + IDLE_LOOK_NS);
}

/* Whether a read seems to hang: the slab does not become idle as long as it does, and the rest of
 * it is used. */
static bool is_hung(const struct fm_flow *f, uint64_t now_ns)
{
	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++) {
		const struct fm_tx *t = &f->tx[i];

		if (t->step == FM_TX_READING &&
		    fm_flow_seems_hung(f, t->read_ns, false, now_ns))
			return true;
	}
	return false;
}

/*
 * Whether the slab of this connection is to be given back: another session lacks its share, and
 * this one has more, or it has had it long enough. No new chunk is begun in it then, unless it
 * cannot be given back.
 */
static bool is_tx_slab_wanted(struct fm_flow *f, uint64_t now_ns)
{
	return !is_hung(f, now_ns) &&
	       fm_link_should_give(f->link, FM_SLAB_TX, &f->tx_lease.is_giving, now_ns, now_ns);
}

static bool take_tx_slab(struct fm_flow *f)
{
	if (f->tx_lease.slab >= 0)
		return true;
	if (fm_flow_lease(f, &f->tx_lease, false) < 0)
		return false;
	f->tx_slots = fm_slabs_bytes(f->link->slabs) / f->lane->chunk_bytes;
	for (f->tx_frees = 0; f->tx_frees < f->tx_slots; f->tx_frees++)
		f->tx_free[f->tx_frees] = (uint16_t)(f->tx_slots - 1 - f->tx_frees);
	return true;
}

static bool is_orphan(const struct fm_tx *t)
{
	return t->x && t->word == FM_TX_AWAITED && fm_link_is_removed(t->x);
}

/*
 * A chunk whose transfer ended still has its slots and its file. A peer that is well acknowledges
 * or drops it as soon as its disk lets it; one that never does may not keep them for ever. A slow
 * network brings many of them one after another.
 */
static void watch_orphans(struct fm_flow *f, uint64_t now_ns)
{
	bool has_orphan = false, is_leaving = false;

	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX && !is_leaving; i++) {
		bool is = is_orphan(&f->tx[i]);

		has_orphan |= is;
		is_leaving = is && f->tx[i].step == FM_TX_SENDING;
	}
	if (is_leaving && f->conn->left - f->orphans_left >= FM_FLOW_MOVED_BYTES) {
		f->orphans_left = f->conn->left;
		f->orphans_ns = now_ns;
	}
	if (!has_orphan)
		f->orphans_ns = 0;
	else if (now_ns >= f->orphans_ns + ORPHAN_NS)
		fm_flow_fail(f, -ETIMEDOUT, "the peer has not acknowledged a chunk for %u s",
			     (unsigned)(ORPHAN_NS / FM_NS_PER_S));
	else
		fm_lane_wake_at(f->lane, now_ns + IDLE_LOOK_NS);
}

/* Starts reads of sources that may block. They take no slot. */
static void fill_beside(struct fm_flow *f, uint64_t now_ns)
{
	const struct fm_claim claim = {
		.who = f, .kind = f->kind, .info = &f->info, .now_ns = now_ns};
	struct fm_beside_place *place;
	uint64_t again_ns;

	while ((place = fm_link_fill(f->link, &claim, f->lane, &again_ns))) {
		fm_link_start(place);
		fm_xfer_unref(place->x);
	}
	fm_lane_wake_at(f->lane, again_ns);
}

void fm_flow_tx_step(struct fm_flow *f, uint64_t now_ns)
{
	const struct fm_claim any = {.who = f, .kind = f->kind, .info = &f->info};

	if (f->orphans_ns)
		watch_orphans(f, now_ns);
	if (f->state == FM_FLOW_UP)
		send_later(f, now_ns);
	return_grant(f);
	if (!fm_list_is_empty(&f->tx_waiting) && take_tx_slab(f))
		read_waiting(f);
	if (fm_flow_is_ending(f))
		return;
	fill_beside(f, now_ns);
	if (fm_link_has_work(f->link, &any) || f->tx_held > 0) {
		if (f->grant.generation == 0 && !f->is_want_sent) {
			f->is_want_sent = true;
			say(f, FM_DATA_WANT, 0);
		}
		if (f->grant.generation != 0 && !f->is_grant_revoked && take_tx_slab(f) &&
		    !is_tx_slab_wanted(f, now_ns))
			claim(f, now_ns);
	}
	give_tx_slab(f, now_ns);
}

static void send_held(struct fm_flow *f)
{
	for (unsigned i = 0; i < f->grant.slots; i++) {
		if (f->tx[i].step == FM_TX_HELD)
			tx_send(&f->tx[i]);
	}
}

int fm_flow_tx_grant(struct fm_flow *f, const struct fm_data_msg *m)
{
	if (f->grant.generation != 0)
		return -EPROTO;
	for (unsigned i = m->slot; i < FM_FLOW_SLOTS_MAX; i++)
		if (f->tx[i].x)
			return -EPROTO;		/* it had more slots before */
	/*
	 * Transfers agreed on chunks that fit both nodes' slots, so smaller slots than the chunks
	 * cannot be meant for us.
	 */
	f->grant = fm_grant_of(m);
	f->is_grant_revoked = false;
	f->is_want_sent = false;
	f->credits = 0;
	for (unsigned i = f->grant.slots; i-- > 0;)
		if (!f->tx[i].x)
			f->credit[f->credits++] = (uint16_t)i;
	send_held(f);
	fm_flow_wake(f);
	return 0;
}

/* The chunk that an acknowledgement is about; NULL: none that is under way. */
static struct fm_tx *find(struct fm_flow *f, const struct fm_data_msg *m)
{
	struct fm_tx *t;

	if (m->generation != f->grant.generation || m->slot >= f->grant.slots)
		return NULL;
	t = &f->tx[m->slot];
	if (!t->x || t->word != FM_TX_AWAITED || t->chunk.seq != m->seq || t->x->o.id != m->xfer)
		return NULL;
	return t;
}

/*
 * Sends a chunk again, into the same slot. It arrived damaged, or while the far end looked at
 * another copy of it, as happens after a cable was cut. In the second case it is sent a little
 * later: the far end mostly needs the time of a copy in memory, and an immediate repeat would come
 * as often as the wire allows. Where the other copy comes to its place over a connection that the
 * far end does not know to be dead yet, it takes seconds: then repeats come seldom.
 */
static void tx_again(struct fm_tx *t)
{
	struct fm_flow *f = t->flow;

	t->chunk.is_again = true;
	if (fm_link_is_removed(t->x)) {
		tx_drop(t);
	} else if (fm_link_refused(t->x, &t->chunk, t->word == FM_TX_BUSY)) {
		tx_drop(t);
	} else if (t->word == FM_TX_BUSY) {
		t->again_ns = fm_loop_now(f->lane->io.loop) +
			      FM_FLOW_RETRY_NS * (t->chunk.busy_count < BUSY_SOON ? 1 : 20);
		fm_list_append(&f->tx_later, &t->wait_at);
		fm_lane_wake_at(f->lane, t->again_ns);
	} else {
		send_again(t);
	}
}

/*
 * Measures how long an acknowledgement takes: the path and the far disk, without our own queue. So
 * only chunks that were sent with little under way count. From time to time the queue is kept
 * short, to have such chunks.
 */
static void measure_ack(struct fm_flow *f, const struct fm_tx *t)
{
	if (t->is_alone)
		f->ack_ns += (fm_loop_now(f->lane->io.loop) - t->sent_ns) / 8 - f->ack_ns / 8;
	if (++f->acks % ACKS_UNTIL_MEASURED == 0)
		f->ack_ns = 0;
}

int fm_flow_tx_ack(struct fm_flow *f, const struct fm_data_msg *m)
{
	struct fm_tx *t = find(f, m);

	if (!t)
		return -EPROTO;
	if (f->orphans_ns && is_orphan(t))
		f->orphans_ns = fm_loop_now(f->lane->io.loop);
	if (m->status == FM_ACK_CORRUPT || m->status == FM_ACK_BUSY) {
		t->word = m->status == FM_ACK_BUSY ? FM_TX_BUSY : FM_TX_CORRUPT;
		if (t->step != FM_TX_SENDING)
			tx_again(t);
		return 0;
	}
	if (m->status == FM_ACK_WRITTEN && t->x->o.file->ops->acked)
		t->x->o.file->ops->acked(t->x->o.file, t->x->layout->at(&t->chunk));
	if (m->status == FM_ACK_WRITTEN)
		fm_link_acked(t->x, &t->chunk, &f->info);
	else
		fm_link_given_up(t->x);
	measure_ack(f, t);
	t->word = FM_TX_ACKED;
	if (t->step != FM_TX_SENDING)
		tx_free(t);
	return 0;
}

int fm_flow_tx_revoke(struct fm_flow *f, const struct fm_data_msg *m)
{
	if (f->grant.generation == 0 || m->generation != f->grant.generation || f->is_grant_revoked)
		return -EPROTO;
	f->is_grant_revoked = true;
	fm_flow_wake(f);
	return 0;
}

/* Drops a chunk that was read and is not wanted any more. */
static void drop_held(struct fm_tx *t)
{
	if (t->step == FM_TX_HELD && fm_link_is_removed(t->x))
		tx_drop(t);
}

void fm_flow_tx_cancel_removed(struct fm_flow *f)
{
	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++) {
		struct fm_tx *t = &f->tx[i];

		if (f->orphans_ns == 0 && f->conn && is_orphan(t)) {
			f->orphans_ns = fm_loop_now(f->lane->io.loop);
			f->orphans_left = f->conn->left;
		}
		drop_held(t);
	}
}

/*
 * Gives the chunks of a broken flow back to their transfers. A chunk that is still being read goes
 * back when its read has ended; the others do not wait for it.
 */
void fm_flow_tx_lose(struct fm_flow *f)
{
	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++)
		if (f->tx[i].x && f->tx[i].step != FM_TX_READING)
			tx_lose(&f->tx[i]);
	fm_link_unbind(f->link, f);
}

void fm_flow_tx_finish(struct fm_flow *f)
{
	for (unsigned i = 0; i < FM_FLOW_SLOTS_MAX; i++)
		assert(!f->tx[i].x);
	fm_flow_unlease(f, &f->tx_lease, false);
	f->tx_slots = 0;
	f->tx_frees = 0;
}
