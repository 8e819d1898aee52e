/* SPDX-License-Identifier: MIT */
/*
 * lines - the hostile peer's data connections: chunks of its own transfers and of others', into
 * slots that it was granted and into any other place, messages in any order, memory that changes
 * while it is sent from. See peer.c.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/tree/pack.h"
#include "tests/hostile/peer.h"

/* in the memory that is sent from: packs; before them what files are made of */
#define PACK_AT	  (512u << 10)
#define PACK_ROOM (64u << 10)
#define SLOT_BYTES 65536u
#define TWIN_AT	  (PACK_AT + PACKS_MAX * PACK_ROOM) /* of each pack one whose paths lead out */
#define CRC_AT	  60

_Static_assert(TWIN_AT + PACKS_MAX * PACK_ROOM <= REGION, "packs and twins fit");

static void line_send_done(struct fm_send *send, int res)
{
	struct line_send *s = fm_container_of(send, struct line_send, send);

	(void)res;
	s->is_used = false;
	s->line->under_way--;
}

static struct line_send *send_place(struct line *l)
{
	for (unsigned i = 0; i < SENDS_MAX; i++)
		if (!l->sends[i].is_used)
			return &l->sends[i];
	return NULL;
}

/* Any values at all: fm_data_encode() takes only good ones. */
static void put_message(const struct fm_data_msg *m, uint8_t out[FM_DATA_MSG_SIZE])
{
	struct fm_writer w = {out, out + FM_DATA_MSG_SIZE, false};

	memset(out, 0, FM_DATA_MSG_SIZE);
	fm_put_u8(&w, m->type);
	fm_put_u8(&w, m->status);
	fm_put_le16(&w, m->slot);
	fm_put_le32(&w, m->generation);
	fm_put_le64(&w, m->xfer);
	fm_put_le64(&w, m->seq);
	fm_put_le64(&w, m->offset);
	fm_put_le32(&w, m->length);
	fm_put_le32(&w, m->data_crc);
	w.at = out + CRC_AT;
	fm_put_le32(&w, fm_crc32c(0, out, CRC_AT));
}

/* A payload of len bytes from `from`, to where slot is; or to anywhere. */
static void aim(struct line *l, struct fm_send *send, unsigned slot, size_t from, uint32_t len)
{
	struct odds *o = &l->peer->odds;

	send->payload = (uint8_t *)l->tx.memory + from;
	send->payload_len = len;
	send->region = &l->tx;
	send->rkey = l->grant.rkey;
	send->remote = l->grant.remote + (uint64_t)slot * l->grant.slot_bytes;
	if (one_in(o, 30 * l->manners))
		send->rkey += (uint32_t)any_number(o);
	if (one_in(o, 30 * l->manners))
		send->remote += any_number(o);
}

/* len 0: no payload. */
static void say(struct line *l, const struct fm_data_msg *m, size_t from, uint32_t len)
{
	struct line_send *s = send_place(l);
	struct odds *o = &l->peer->odds;

	if (l->is_broken || !s)
		return;
	s->line = l;
	s->is_used = true;
	s->send = (struct fm_send){.done = line_send_done};
	put_message(m, s->send.msg);
	if (one_in(o, 50 * l->manners))
		s->send.msg[below(o, FM_DATA_MSG_LEN)] ^= (uint8_t)(1u << below(o, 8));
	if (len > 0)
		aim(l, &s->send, m->slot, from, len);
	l->under_way++;
	l->peer->counts.data_messages++;
	l->conn->ops->send(l->conn, &s->send);
}

/* ---- chunks ---- */

static struct deed *deed_to_send(struct peer *p)
{
	unsigned first = (unsigned)below(&p->odds, DEEDS_MAX);

	for (unsigned i = 0; i < DEEDS_MAX; i++) {
		struct deed *d = &p->deeds[(first + i) % DEEDS_MAX];

		if (d->state == DEED_SENDING && d->sent < d->count)
			return d;
	}
	return NULL;
}

static int free_slot(const struct line *l)
{
	for (unsigned i = 0; i < l->grant.slots; i++)
		if (!(l->busy & UINT64_C(1) << i))
			return (int)i;
	return -1;
}

static uint32_t pack_len(const struct line *l, size_t at)
{
	struct fm_reader r = {(uint8_t *)l->tx.memory + at + 12, (uint8_t *)l->tx.memory + at + 16,
			      false};
	uint32_t len = fm_get_le32(&r);

	return len >= FM_PACK_HEAD && len <= PACK_ROOM ? len : PACK_ROOM;
}

/* The pack was checked, perhaps: what is in its slot when it is applied? */
static void send_twin(struct line *l, const struct fm_data_msg *chunk, size_t from)
{
	struct fm_data_msg m = *chunk;

	if (one_in(&l->peer->odds, 2))
		m = (struct fm_data_msg){.type = FM_DATA_WANT, .slot = chunk->slot};
	say(l, &m, from - PACK_AT + TWIN_AT, chunk->length);
}

static void send_chunk(struct line *l, struct deed *d, unsigned slot)
{
	struct odds *o = &l->peer->odds;
	struct fm_data_msg m = {.type = FM_DATA_CHUNK,
				.slot = (uint16_t)slot,
				.generation = l->grant.generation,
				.xfer = d->id,
				.seq = d->sent,
				.offset = d->sent * d->chunk};
	size_t from = d->is_tree ? PACK_AT + below(o, PACKS_MAX) * PACK_ROOM : below(o, 8) * 4096;

	m.length = d->is_tree		    ? pack_len(l, from)
		   : d->sent + 1 < d->count || d->is_exact ? d->chunk
					    : 1 + (uint32_t)below(o, d->chunk);
	m.data_crc = fm_crc32c(0, (uint8_t *)l->tx.memory + from, m.length);
	d->parts ^= fm_crc32c_part(m.data_crc, m.offset, m.length);
	d->bytes += m.length;
	d->sent++;
	l->busy |= UINT64_C(1) << slot;
	say(l, &m, from, m.length);
	if (d->is_tree && one_in(o, l->manners))
		send_twin(l, &m, from);
}

/* Of a transfer that may be another's, or nobody's; right in everything else, or not. */
static void send_any_chunk(struct line *l, unsigned slot)
{
	struct odds *o = &l->peer->odds;
	uint32_t len = 1 + (uint32_t)below(o, 8192);
	struct fm_data_msg m = {.type = FM_DATA_CHUNK,
				.slot = (uint16_t)slot,
				.generation = l->grant.generation,
				.xfer = any_id(l->peer),
				.seq = one_in(o, 4) ? any_number(o) : below(o, 12),
				.length = len,
				.data_crc = fm_crc32c(0, l->tx.memory, len)};

	m.offset = one_in(o, 4) ? any_number(o) & INT64_MAX >> 1 : m.seq % 100 * 4096;
	l->busy |= UINT64_C(1) << slot;
	say(l, &m, 0, len);
}

/* Bytes into a slot that is being read, beside any message. */
static void overwrite(struct line *l)
{
	struct odds *o = &l->peer->odds;
	struct fm_data_msg m = {.type = (uint8_t)(one_in(o, 2) ? FM_DATA_CHUNK : below(o, 8)),
				.slot = (uint16_t)below(o, FM_WIRE_SLOTS_MAX),
				.generation = l->grant.generation,
				.xfer = any_id(l->peer),
				.length = 4096};

	say(l, &m, below(o, 8) * 4096, 1 + (uint32_t)below(o, 4096));
}

static void send_anything(struct line *l)
{
	struct odds *o = &l->peer->odds;
	struct fm_data_msg m = {.type = (uint8_t)below(o, 9), .generation = l->grant.generation};

	if (one_in(o, 2))
		m.generation = (uint32_t)any_number(o);
	if (one_in(o, 2)) {
		m.status = (uint8_t)any_number(o);
		m.slot = (uint16_t)any_number(o);
		m.xfer = one_in(o, 2) ? any_id(l->peer) : any_number(o);
		m.seq = any_number(o);
		m.offset = any_number(o);
		m.length = (uint32_t)any_number(o);
		m.data_crc = (uint32_t)any_number(o);
	}
	say(l, &m, 0, one_in(o, 2) ? 0 : 1 + (uint32_t)below(o, REGION));
}

static void send_grant(struct line *l)
{
	struct odds *o = &l->peer->odds;
	struct fm_grant g = {.slots = (unsigned)(1 + below(o, 8)),
			     .generation = 1 + (uint32_t)below(o, 1000),
			     .remote = l->rx.remote,
			     .slot_bytes = SLOT_BYTES,
			     .rkey = l->rx.rkey};
	struct fm_data_msg m;

	if (one_in(o, 10 * l->manners))
		g.slots = FM_WIRE_SLOTS_MAX; /* more than is lent */
	if (one_in(o, 10 * l->manners))
		g.slot_bytes = (uint32_t)any_number(o);
	m = fm_grant_msg(&g);
	say(l, &m, 0, 0);
}

/* ---- what it says unasked ---- */

static void say_something(struct line *l)
{
	struct odds *o = &l->peer->odds;
	struct deed *d;
	int slot;

	if (one_in(o, 4 * l->manners)) {
		one_in(o, 2) ? overwrite(l) : send_anything(l);
		return;
	}
	if (l->grant.generation == 0) {
		if (!l->is_want_sent)
			say(l, &(struct fm_data_msg){.type = FM_DATA_WANT}, 0, 0);
		l->is_want_sent = true;
		return;
	}
	slot = free_slot(l);
	if (slot < 0)
		return;
	d = deed_to_send(l->peer);
	if (d)
		send_chunk(l, d, (unsigned)slot);
	else if (!l->peer->lie)
		send_any_chunk(l, (unsigned)slot);
}

/* It changes what is being sent: over RDMA the adapter reads it whenever it likes. */
static void scribble(struct line *l)
{
	struct odds *o = &l->peer->odds;

	for (unsigned i = 0; i < 4; i++)
		l->memory[REGION + below(o, REGION)] ^= (uint8_t)(1u << below(o, 8));
	if (one_in(o, 4))
		l->memory[below(o, REGION)]++;
}

static void line_fire(struct fm_timer *timer)
{
	struct line *l = fm_container_of(timer, struct line, timer);
	struct peer *p = l->peer;
	unsigned count = 1 + (unsigned)below(&p->odds, 48);

	if (l->is_closing || peer_is_over(p))
		return;
	if (l->is_broken || (!p->lie && one_in(&p->odds, 2000))) {
		l->is_closing = true;
		l->conn->ops->close(l->conn);
		return;
	}
	if (one_in(&p->odds, 4 * l->manners))
		scribble(l);
	while (count-- > 0 && l->under_way < SENDS_MAX / 2)
		say_something(l);
	fm_timer_set(p->loop, &l->timer, after(p, below(&p->odds, 3) * FM_NS_PER_MS));
}

/* ---- what it hears ---- */

static void chunk_acked(struct line *l, const struct fm_data_msg *in)
{
	struct peer *p = l->peer;

	if (in->slot < 64)
		l->busy &= ~(UINT64_C(1) << in->slot);
	for (unsigned i = 0; i < DEEDS_MAX; i++)
		if (p->deeds[i].state == DEED_SENDING && p->deeds[i].id == in->xfer)
			p->deeds[i].acked++;
}

/* What no rule lets us read came. */
static void look_for_secret(const struct line *l, const struct fm_data_msg *in)
{
	size_t at = (size_t)in->slot * SLOT_BYTES;

	if (at + SLOT_BYTES <= REGION &&
	    memmem(l->memory + at, SLOT_BYTES, SECRET, strlen(SECRET))) {
		(void)fprintf(stderr, "the daemon sent what we may not read\n");
		exit(1);
	}
}

static void answer_chunk(struct line *l, const struct fm_data_msg *in)
{
	struct odds *o = &l->peer->odds;
	struct fm_data_msg m = {.type = FM_DATA_ACK,
				.status = FM_ACK_WRITTEN,
				.slot = in->slot,
				.generation = in->generation,
				.xfer = in->xfer,
				.seq = in->seq};

	remember(l->peer, in->xfer);
	look_for_secret(l, in);
	if (l->never_acks)
		return;
	if (one_in(o, 2 * l->manners))
		m.status = (uint8_t)below(o, 3);
	say(l, &m, 0, 0);
	if (one_in(o, 20 * l->manners))
		say(l, &m, 0, 0);
}

static void line_message(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN])
{
	struct line *l = ctx;
	struct fm_data_msg in;
	int ret = fm_data_decode(msg, &in);

	assert(ret == 0); /* the daemon says nothing that is none */
	if (one_in(&l->peer->odds, 20 * l->manners))
		return;
	switch ((enum fm_data_type)in.type) {
	case FM_DATA_GRANT:
		l->grant = fm_grant_of(&in);
		l->busy = 0;
		l->is_want_sent = false;
		break;
	case FM_DATA_CHUNK:
		answer_chunk(l, &in);
		break;
	case FM_DATA_ACK:
		chunk_acked(l, &in);
		break;
	case FM_DATA_REVOKE:
		if (l->never_returns)
			break;
		memset(&l->grant, 0, sizeof(l->grant));
		l->is_want_sent = false;
		say(l, &(struct fm_data_msg){.type = FM_DATA_RETURN, .generation = in.generation},
		    0, 0);
		break;
	case FM_DATA_WANT:
		send_grant(l);
		break;
	case FM_DATA_RETURN:
		break;
	}
}

static void line_failed(void *ctx, const struct fm_err *err)
{
	struct line *l = ctx;

	(void)err;
	l->is_broken = true;
	if (!l->is_closing)
		fm_timer_set(l->peer->loop, &l->timer, after(l->peer, 0));
}

static void line_closed(void *ctx)
{
	struct line *l = ctx;

	fm_timer_clear(l->peer->loop, &l->timer);
	l->conn = NULL;
}

static const struct fm_conn_events line_events = {
	.message = line_message, .failed = line_failed, .closed = line_closed};

/* ---- packs ---- */

static void add_file(struct fm_pack_writer *w, struct odds *o, bool is_offer)
{
	static const char *const paths[] = {"hstl-d/hstl-a", "hstl-d/b", "hstl-d/c", "hstl-f",
					    "hstl-link"};
	const char *path = paths[one_in(o, 16) ? 4 : below(o, 4)];
	struct fm_pack_entry e = {.type = FM_PACK_FILE,
				  .mode = 0640,
				  .size = 9,
				  .path = path,
				  .path_len = strlen(path),
				  .identity = 7};
	uint8_t *data;

	if (!is_offer) {
		e.data_len = 9;
		e.crc = fm_crc32c_part(fm_crc32c(0, "some data", 9), 0, 9);
	}
	data = fm_pack_add(w, &e);
	if (!is_offer)
		memcpy(data, "some data", 9);
}

static void add_other(struct fm_pack_writer *w, struct odds *o)
{
	struct fm_pack_entry e = {
		.type = FM_PACK_DIR, .mode = 0700, .path = "hstl-d/hstl-up", .path_len = 14};

	if (one_in(o, 3))
		e = (struct fm_pack_entry){.type = FM_PACK_LINK,
					   .path = "hstl-link",
					   .path_len = 9,
					   .target = "../../..",
					   .target_len = 8};
	else if (one_in(o, 6))
		e = (struct fm_pack_entry){.type = FM_PACK_HARD,
					   .path = "hstl-hard",
					   .path_len = 9,
					   .target = "hstl-d/b",
					   .target_len = 8};
	else if (one_in(o, 16))
		e = (struct fm_pack_entry){
			.type = FM_PACK_ATTR, .mode = 0600, .path = "hstl-d/big", .path_len = 10};
	(void)fm_pack_add(w, &e);
}

/* "hstl-d/..." leads out of the tree, and of the store. */
static void make_twin(const uint8_t *pack, uint8_t *twin, size_t len)
{
	memcpy(twin, pack, len);
	for (size_t i = 0; i + 6 <= len; i++)
		if (memcmp(twin + i, "hstl-d", 6) == 0)
			memcpy(twin + i, "../../", 6);
}

/* Good ones, and such whose bytes were hit before the checksum that counts was made. */
static void make_packs(struct line *l)
{
	struct odds *o = &l->peer->odds;

	for (unsigned i = 0; i < PACKS_MAX; i++) {
		uint8_t *at = (uint8_t *)l->tx.memory + PACK_AT + (size_t)i * PACK_ROOM;
		bool is_offer = one_in(o, 3);
		struct fm_pack_writer w;
		size_t len;

		fm_pack_begin(&w, at, PACK_ROOM, is_offer ? FM_PACK_OFFER : 0);
		for (unsigned n = 1 + (unsigned)below(o, 6); n > 0; n--)
			one_in(o, 2) ? add_file(&w, o, is_offer) : add_other(&w, o);
		len = fm_pack_end(&w);
		make_twin(at, at - PACK_AT + TWIN_AT, len);
		for (unsigned n = one_in(o, 6) ? (unsigned)below(o, 4) : 0; n > 0; n--)
			at[below(o, len)] = (uint8_t)any_number(o);
	}
}

/* ---- its beginning ---- */

static struct line *line_place(struct peer *p)
{
	for (unsigned i = 0; i < LINES_MAX; i++)
		if (!p->lines[i].conn)
			return &p->lines[i];
	return NULL;
}

void line_new(struct peer *p, struct fm_conn *conn)
{
	struct line *l = line_place(p);
	uint8_t *memory = l ? l->memory : NULL;
	struct fm_err err;

	if (!l || p->is_over) {
		conn->ops->close(conn);
		return;
	}
	*l = (struct line){.peer = p,
			   .conn = conn,
			   .memory = memory,
			   .timer = {.fire = line_fire},
			   .manners = p->lie ? MANNERS_GOOD : 1u << (2 + below(&p->odds, 10)),
			   .never_acks = !p->lie && one_in(&p->odds, 8),
			   .never_returns = !p->lie && one_in(&p->odds, 8)};
	conn->ops->attach(conn, p->loop, &line_events, l);
	if (conn->ops->lend(conn, memory, REGION, true, &l->rx, &err) < 0 ||
	    conn->ops->lend(conn, memory + REGION, REGION, false, &l->tx, &err) < 0) {
		l->is_broken = true;
	} else {
		make_packs(l);
		p->counts.lines++;
	}
	fm_timer_set(p->loop, &l->timer, after(p, 0));
}

static void line_dialled(void *ctx, int res, struct fm_conn *conn, const struct fm_err *err)
{
	(void)res;
	(void)err;
	if (conn)
		line_new(ctx, conn);
}

void line_dial(struct talk *t, const uint8_t token[FM_TOKEN_LEN])
{
	struct peer *p = t->peer;
	struct fm_data_dial d = {.kind = FM_KIND_TCP,
				 .port = p->dial.port,
				 .domain = p->domain,
				 .timeout_ns = (p->lie ? 60 : 3) * FM_NS_PER_S,
				 .needs_tls = one_in(&p->odds, 2),
				 .done = line_dialled,
				 .ctx = p};
	const char *why;

	if (!line_place(p))
		return;
	if (one_in(&p->odds, 2) && p->net->ops->data_port(p->net, FM_KIND_RDMA, &why) != 0)
		d.kind = FM_KIND_RDMA;
	p->net->ops->ctl_addrs(t->ctl, &d.local, &d.remote);
	memcpy(d.key, p->dial.key, FM_KEY_LEN);
	memcpy(d.token, token, FM_TOKEN_LEN);
	if (!p->lie && one_in(&p->odds, 20))
		d.token[below(&p->odds, FM_TOKEN_LEN)] ^= 1;
	p->net->ops->data_dial(p->net, &d);
}
