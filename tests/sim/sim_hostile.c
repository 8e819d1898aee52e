/* SPDX-License-Identifier: MIT */
/*
 * sim_hostile - a peer with a good key and bad manners among honest nodes.
 *
 * Node n3 has no engine. It speaks the protocol well enough to get everywhere (it says HELLO, makes
 * data connections with the tokens it was given, grants, sends and acknowledges chunks) and at
 * every step may do something else instead: any other message with any values that can be written,
 * numbers that belong to somebody else, bytes changed, chunks into memory it was not lent, into
 * memory whose bytes are just being looked at, silence.
 *
 * Honest nodes must stay up, keep their memory, and move files between each other as if n3 were not
 * there. What n3 spoils is its own.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "mover/tree/pack.h"
#include "mover/wire/wire.h"
#include "tests/sim/scenario_priv.h"

#define BUSY_NS (5 * SIM_MS)	/* what is busy is not sent again before, at least ... */
#define BUSY_MAX 500u		/* ... and not more often */
#define IDS 16			/* transfer numbers remembered */
#define CONNS_MAX 32		/* data connections, ever */
#define REGION (64u << 10)	/* lent to each, twice */
#define SENDS_MAX 64		/* under way on one connection */
#define DIALS_MAX 12		/* control connections dialled, ever */
#define MESSAGES_MAX 150	/* unasked, on one connection */
#define PACKS 2			/* that it has, good ones: one with a file, one that offers */
#define PACK_AT(i) ((32u << 10) + (i) * 4096u)	/* in the memory that it sends from */
#define ACTIVE_NS (25 * SIM_S)	/* then it falls silent */

struct hostile {
	struct scenario *sc;
	struct sim *sim;
	struct sim_node *node;
	struct fm_domain *domain;
	uint64_t ids[IDS];
	unsigned id_count;
	uint64_t ordered_id;		/* of its last GET into a stream ... */
	uint64_t window;		/* ... and how far it let that go */
	unsigned conns, dials;
	/* it does wrong one time in so many: who does it always gets nowhere */
	unsigned manners;
	bool never_acks, never_returns;
	/* every chunk comes over another connection just now, it says */
	bool is_busy;
	uint64_t next_id;
	uint32_t pack_len[PACKS];
	uint32_t pack_crc[PACKS];
	bool is_over;
};

struct hctl {
	struct hostile *h;
	struct fm_ctl *ctl;
	bool is_closed;
	bool is_dialler;
	bool has_said_addrs;
	unsigned messages;
};

/* A chunk that it says is busy, in a slot. */
struct busy {
	uint64_t xfer, seq;
	uint64_t since_ns;
	unsigned count;
};

struct hconn {
	struct hostile *h;
	struct fm_conn *conn;
	struct fm_loop *loop;
	struct fm_region rx, tx;
	unsigned index;
	bool is_closed;
	unsigned under_way;
	unsigned messages;
	struct fm_grant grant;	/* the last that came; generation 0: none */
	struct busy busy[FM_WIRE_SLOTS_MAX];
};

struct hsend {
	struct fm_send send;
	struct hconn *c;
};

/* ---- odds ---- */

static uint64_t below(struct hostile *h, uint64_t n)
{
	return sim_below(h->sim, n);
}

static bool one_in(struct hostile *h, unsigned n)
{
	return sim_one_in(h->sim, n);
}

static bool does_wrong(struct hostile *h, unsigned n)
{
	return sim_one_in(h->sim, n * h->manners);
}

static void remember(struct hostile *h, uint64_t id)
{
	h->ids[h->id_count++ % IDS] = id;
}

/* Somebody's, or one that nobody has. */
static uint64_t pick_id(struct hostile *h)
{
	if (h->id_count > 0 && !one_in(h, 3))
		return h->ids[below(h, h->id_count < IDS ? h->id_count : IDS)];
	return below(h, 6) | (one_in(h, 2) ? UINT64_C(1) << 63 : 0);
}

static uint64_t pick_size(struct hostile *h)
{
	switch (below(h, 6)) {
	case 0:
		return 0;
	case 1:
		return FM_WIRE_SIZE_MAX;
	default:
		return below(h, 100000);
	}
}

static uint32_t pick_chunk(struct hostile *h)
{
	return 4096u << (one_in(h, 4) ? below(h, 15) : below(h, 3));
}

/* ---- control messages ---- */

static void hctl_say(struct hctl *c, const struct fm_wire_msg *m)
{
	static uint8_t buf[FM_WIRE_MSG_MAX];
	size_t len = fm_wire_encode(m, buf);
	struct fm_net *net = c->h->node->net;

	if (c->is_closed)
		return;
	if (does_wrong(c->h, 20))
		buf[below(c->h, len)] ^= (uint8_t)(1u << below(c->h, 8));
	if (does_wrong(c->h, 40))
		len = 1 + below(c->h, len);
	/* whether it arrives is the others' concern */
	(void)net->ops->ctl_send(c->ctl, buf, len);
}

static void fill_store(struct hostile *h, struct fm_wire_str *store, struct fm_wire_str *path,
		       bool is_write)
{
	static char text[8];

	*store = fm_wire_str(one_in(h, 10) ? "nowhere" : "s");
	/* It may write, but under names of its own: what it may damage by right says nothing. */
	(void)snprintf(text, sizeof(text), "%c%u",
		       is_write	      ? 'h'
		       : one_in(h, 2) ? 't'
				      : 'f',
		       (unsigned)below(h, 8));
	*path = fm_wire_str(one_in(h, 10) ? "" : text);
}

/* A file, a tree, a large file of somebody's tree. */
static void make_put(struct hostile *h, struct fm_wire_put *p)
{
	*p = (struct fm_wire_put){ .flags = (uint16_t)below(h, 4),
				   .xfer = pick_id(h),
				   .size = pick_size(h),
				   .chunk = pick_chunk(h),
				   .mode = 0600,
				   .durability = (uint8_t)below(h, 3),
				   .ino = below(h, 3),
				   .dev = below(h, 2) };
	if (one_in(h, 4))
		p->size = FM_WIRE_SIZE_UNKNOWN;
	fill_store(h, &p->store, &p->path, true);
	if (one_in(h, 3)) {
		p->flags |= FM_WIRE_PUT_TREE | (uint16_t)(below(h, 8) * FM_WIRE_PUT_UPDATE) |
			    (one_in(h, 3) ? FM_WIRE_PUT_NAMES : 0);
		p->size = FM_WIRE_SIZE_UNKNOWN;
		p->mode = 0;
	} else if (one_in(h, 3)) {
		p->tree = pick_id(h);
		p->tree += p->tree == 0;
		p->size = pick_size(h);
		p->store = fm_wire_str("");
		p->path = fm_wire_str(one_in(h, 5) ? "../x" : one_in(h, 2) ? "file" : "d/big");
	}
}

static void make_ready(struct hostile *h, struct fm_wire_ready *m)
{
	static uint8_t have[2 * FM_WIRE_RANGE_LEN];

	*m = (struct fm_wire_ready){
		.flags = (uint16_t)below(h, one_in(h, 2) ? 2 : FM_WIRE_READY_FLAGS + 1),
		.xfer = pick_id(h),
		.chunk = pick_chunk(h),
		.note = fm_wire_str("")};
	if (!one_in(h, 4))
		return;
	m->count = 1 + (uint16_t)below(h, 2);
	m->have = have;
	m->have_crc = (uint32_t)below(h, UINT32_MAX);
	for (unsigned i = 0; i < m->count; i++)
		fm_wire_set_range(have, i,
				  (struct fm_wire_range){(2 * i + below(h, 2)) * 8192 + i * 8192,
							 1 + below(h, 8191)});
}

/* Ranges; which of them are in the file is not known here. */
static void add_ranges(struct hostile *h, struct fm_wire_get *m)
{
	static uint8_t ranges[4 * FM_WIRE_RANGE_LEN];

	m->ranges = ranges;
	m->range_count = (uint16_t)(1 + below(h, 4));
	for (unsigned i = 0; i < m->range_count; i++)
		fm_wire_set_range(ranges, i,
				  (struct fm_wire_range){below(h, 9000), below(h, 20000)});
	if (one_in(h, 2))
		m->flags |= FM_WIRE_GET_VERIFY;
}

/* Connections that may be there, or more than there are. */
static void add_only(struct hostile *h, struct fm_wire_get *m)
{
	m->flags |= FM_WIRE_GET_ONLY;
	m->conns = (uint8_t)below(h, FM_WIRE_ONLY_CONNS_MAX + 1);
	m->way_count = (uint8_t)(m->conns == 0 || one_in(h, 2));
	m->way[0] = (struct fm_wire_way){
		4, {10, 0, 0, (uint8_t)below(h, 4)}, {10, 0, 0, (uint8_t)below(h, 4)}};
}

static void make_get(struct hostile *h, struct fm_wire_get *m)
{
	*m = (struct fm_wire_get){.flags = (uint16_t)(2 + below(h, 6)),
				  .xfer = pick_id(h),
				  .chunk = pick_chunk(h),
				  .rate_bytes = one_in(h, 4) ? below(h, 100000) : 0};
	if (one_in(h, 3))
		m->flags |= FM_WIRE_GET_RESUME;
	if (one_in(h, 2))
		m->flags |= FM_WIRE_GET_TREE;
	if (m->flags & FM_WIRE_GET_TREE)
		m->count = (uint16_t)below(h, 3);
	else if (one_in(h, 4))
		add_ranges(h, m);
	else if (one_in(h, 4))
		add_only(h, m);
	m->exclude[0] = fm_wire_str("x*");
	m->exclude[1] = fm_wire_str("[");
	fill_store(h, &m->store, &m->path, false);
	if (!(m->flags & FM_WIRE_GET_ORDERED))
		return;
	h->ordered_id = m->xfer;
	h->window = 0;
}

static void make_need(struct hostile *h, struct fm_wire_need *m)
{
	*m = (struct fm_wire_need){
		.xfer = pick_id(h), .seq = below(h, 6), .count = 1 + (uint16_t)below(h, 8)};
	m->bits[0] = (uint8_t)(below(h, 256) & ((1u << m->count) - 1));
}

/* For a get of its own, further each time; or any number, which may be less than before, for any
 * transfer. */
static void make_window(struct hostile *h, struct fm_wire_window *m)
{
	bool is_wild = one_in(h, 6);

	h->window += 1 + below(h, 3);
	m->xfer = is_wild ? pick_id(h) : h->ordered_id;
	m->to = is_wild ? 1 + below(h, one_in(h, 2) ? 4 : FM_WIRE_SIZE_MAX) : h->window;
}

static void make_xfer_message(struct hostile *h, struct fm_wire_msg *m)
{
	static const uint8_t name[] = { 3, 3, 0, 'a', '/', 'b' };
	uint64_t id = pick_id(h), size = pick_size(h);

	switch (m->type) {
	case FM_WIRE_PUT:
		make_put(h, &m->put);
		break;
	case FM_WIRE_READY:
		make_ready(h, &m->ready);
		break;
	case FM_WIRE_GET:
		make_get(h, &m->get);
		break;
	case FM_WIRE_NEED:
		make_need(h, &m->need);
		break;
	case FM_WIRE_COMMIT:
		m->commit.xfer = id;
		break;
	case FM_WIRE_WINDOW:
		make_window(h, &m->window);
		break;
	case FM_WIRE_KEPT:
		m->kept = (struct fm_wire_kept){.flags = (uint16_t)one_in(h, 3),
						.xfer = id,
						.reread = 1 + below(h, 100000)};
		if (one_in(h, 2))
			m->kept.damaged = (struct fm_wire_range){below(h, 16) * 4096,
								 1 + below(h, m->kept.reread)};
		m->kept.crc = m->kept.damaged.len > 0 ? (uint32_t)below(h, UINT32_MAX) : 0;
		break;
	case FM_WIRE_NAMES:
		m->names = (struct fm_wire_names){
			.xfer = id, .len = one_in(h, 2) ? 0 : sizeof(name), .at = name};
		break;
	case FM_WIRE_VERIFY:
		m->verify = (struct fm_wire_verify){ .id = id };
		fill_store(h, &m->verify.store, &m->verify.path, false);
		break;
	case FM_WIRE_VERIFIED:
		m->verified = (struct fm_wire_verified){.flags = (uint16_t)below(h, 2),
							.id = id,
							.files = below(h, 9),
							.text = fm_wire_str("")};
		break;
	case FM_WIRE_SPACE:
		m->space = (struct fm_wire_space){.id = id,
						  .free = size,
						  .count = (uint16_t)one_in(h, 2),
						  .store = fm_wire_str(one_in(h, 2) ? "s" : "")};
		m->space.tree[0] = (struct fm_wire_aside){.bytes = size, .path = fm_wire_str("a")};
		m->space.flags = m->space.count > 0 ? FM_WIRE_SPACE_MORE : 0;
		break;
	case FM_WIRE_GROUPS:
		m->groups = (struct fm_wire_groups){.id = id, .count = (uint16_t)one_in(h, 2)};
		m->groups.group[0] = (struct fm_wire_group){.path = fm_wire_str("a"),
							    .peer = fm_wire_str("")};
		for (unsigned i = 0; i < FM_WIRE_MEMBERS_COUNT; i++)
			m->groups.group[0].names[i] = fm_wire_str("x");
		m->groups.flags = m->groups.count > 0 ? FM_WIRE_GROUPS_MORE : 0;
		break;
	case FM_WIRE_VOLUMES_ASK:
		m->volumes_ask.id = id;
		break;
	case FM_WIRE_VOLUMES:
		m->volumes = (struct fm_wire_volumes){ .id = id, .text = fm_wire_str("") };
		break;
	case FM_WIRE_FACTS_ASK:
		m->facts_ask.id = id;
		break;
	case FM_WIRE_FACTS:
		m->facts = (struct fm_wire_facts){.id = id,
						  .text = fm_wire_str(""),
						  .piece = fm_wire_str(one_in(h, 2) ? "{}" : "")};
		m->facts.flags = m->facts.piece.len > 0 ? (uint16_t)below(h, 2) : 0;
		break;
	case FM_WIRE_STAGE:
		m->stage = (struct fm_wire_stage){.kind = (uint8_t)(1 + below(h, 5)),
						  .body = (const uint8_t *)"stage",
						  .len = below(h, 6)};
		break;
	case FM_WIRE_FOUND:
		m->found = (struct fm_wire_found){ .flags = (uint16_t)below(h, 2),
						   .xfer = id,
						   .size = size,
						   .mode = 0600,
						   .note = fm_wire_str("note") };
		if (one_in(h, 3))
			m->found.size = FM_WIRE_SIZE_UNKNOWN;
		break;
	case FM_WIRE_FINISH:
		m->finish = (struct fm_wire_finish){ .flags = (uint16_t)one_in(h, 4),
						     .xfer = id,
						     .size = size,
						     .data_bytes = size,
						     .chunks = size > 0 ? 1 + below(h, size) : 0,
						     .crc = (uint32_t)below(h, UINT32_MAX) };
		break;
	case FM_WIRE_DONE:
		m->done = (struct fm_wire_done){
			.flags = (uint16_t)below(h, 8), .xfer = id, .files = below(h, 9)};
		break;
	default:
		m->type = FM_WIRE_ABORT;
		m->abort = (struct fm_wire_abort){ .xfer = id,
						   .code = 1 + (uint32_t)below(h, 4095),
						   .text = fm_wire_str("for no reason") };
		break;
	}
}

static void make_reply(struct hostile *h, struct fm_wire_msg *m)
{
	m->reply = (struct fm_wire_reply){
		.id = pick_id(h), .count = (uint16_t)below(h, 4), .text = fm_wire_str("text")};
	if (m->reply.count > 0)
		m->reply.flags = (uint16_t)below(h, 2);
	else
		m->reply.code = (uint32_t)below(h, 200);
	m->reply.says = fm_wire_str(m->reply.count == 1 ? "a link" : "");
	for (unsigned i = 0; i < m->reply.count; i++)
		m->reply.entry[i] = (struct fm_wire_entry){ .type = 1 + (uint8_t)below(h, 4),
							    .size = below(h, 1000),
							    .name = fm_wire_str("e") };
}

static void make_addrs(struct hostile *h, struct fm_wire_msg *m)
{
	m->addrs.tcp_port = (uint16_t)(one_in(h, 4) ? below(h, 65536) : 7471);
	m->addrs.rdma_port = (uint16_t)(one_in(h, 4) ? below(h, 65536) : 7472);
	m->addrs.count = (uint16_t)below(h, 4);
	for (unsigned i = 0; i < m->addrs.count; i++)	/* 10.0.i.3 is n3 */
		m->addrs.addr[i] = (struct fm_wire_addr){
			.family = 4,
			.prefix_len = (uint8_t)below(h, 33),
			.is_rdma = one_in(h, 2),
			.speed_mbps = (uint32_t)below(h, 200000),
			.address = { 10, 0, (uint8_t)i, 3 },
			.name = "port",
		};
}

/* Any message, well-formed. */
static void make_message(struct hostile *h, struct fm_wire_msg *m)
{
	m->type = (enum fm_wire_type)(1 + below(h, FM_WIRE_TYPE_LAST));
	switch (m->type) {
	case FM_WIRE_HELLO:
		m->hello = (struct fm_wire_hello){.version_min = FM_WIRE_VERSION,
						  .version_max =
							  FM_WIRE_VERSION + (uint16_t)below(h, 3),
						  .name = fm_wire_str("n3")};
		break;
	case FM_WIRE_ADDRS:
		make_addrs(h, m);
		break;
	case FM_WIRE_TOKENS:
	case FM_WIRE_TOKENS_WANT:
		memset(&m->tokens, 0x33, sizeof(m->tokens));
		m->tokens.count = 1 + (uint16_t)below(h, FM_WIRE_TOKENS_MAX);
		break;
	case FM_WIRE_PING:
	case FM_WIRE_PONG:
		m->ping.nonce = below(h, 100);
		break;
	case FM_WIRE_REQUEST:
		m->request = (struct fm_wire_request){ .id = pick_id(h),
						       .verb = 1 + (uint8_t)below(h, 4),
						       .after = fm_wire_str("") };
		fill_store(h, &m->request.store, &m->request.path, true);
		break;
	case FM_WIRE_REPLY:
		make_reply(h, m);
		break;
	case FM_WIRE_BYE:
		m->bye.text = fm_wire_str("so long");
		break;
	default:
		make_xfer_message(h, m);
		break;
	}
}

/* Something that it may ask for. */
static void make_request(struct hctl *c, struct fm_wire_msg *m)
{
	static const enum fm_wire_type types[] = {FM_WIRE_PUT, FM_WIRE_GET, FM_WIRE_REQUEST,
						  FM_WIRE_PING};
	struct hostile *h = c->h;
	uint64_t id = h->next_id++ | (c->is_dialler ? 0 : UINT64_C(1) << 63);

	do
		make_message(h, m);
	while (m->type != types[below(h, 4)]);
	if (m->type == FM_WIRE_PUT)
		m->put.xfer = id;
	if (m->type == FM_WIRE_GET)
		m->get.xfer = id;
}

static void hctl_unasked(void *ctx)
{
	static struct fm_wire_msg m;
	struct hctl *c = ctx;

	if (c->is_closed || c->h->is_over || c->messages++ > MESSAGES_MAX)
		return;
	if (does_wrong(c->h, 1))
		make_message(c->h, &m);
	else
		make_request(c, &m);
	hctl_say(c, &m);
	(void)sim_after(c->h->sim, c->h->node->control, sim_latency(c->h->sim, SIM_S), hctl_unasked,
			c);
}

static void hctl_hello(struct hctl *c)
{
	struct fm_wire_msg m = {.type = FM_WIRE_HELLO,
				.hello = {.version_min = FM_WIRE_VERSION,
					  .version_max = FM_WIRE_VERSION,
					  .name = fm_wire_str("n3")}};

	hctl_say(c, &m);
	(void)sim_after(c->h->sim, c->h->node->control, sim_latency(c->h->sim, SIM_S), hctl_unasked,
			c);
}

static void dial_data(struct hctl *c, const uint8_t token[FM_WIRE_TOKEN_LEN]);

static void on_tokens(struct hctl *c, const struct fm_wire_tokens *t)
{
	for (unsigned i = 0; i < t->count && i < 4; i++)
		dial_data(c, t->token[i]);
}

static void give_tokens(struct hctl *c, unsigned count)
{
	static struct fm_wire_msg m;

	m.type = FM_WIRE_TOKENS;
	m.tokens.count =
		(uint16_t)(does_wrong(c->h, 4) ? 1 + below(c->h, FM_WIRE_TOKENS_MAX) : count);
	memset(m.tokens.token, 0x44, sizeof(m.tokens.token));
	hctl_say(c, &m);
}

static void ask_tokens(struct hctl *c)
{
	static struct fm_wire_msg m;

	m.type = FM_WIRE_TOKENS_WANT;
	m.tokens.count = 1 + (uint16_t)below(c->h, 4);
	hctl_say(c, &m);
}

/* What a peer would say to this message; false: nothing. */
static bool answer(struct hctl *c, const struct fm_wire_msg *in, struct fm_wire_msg *m)
{
	struct hostile *h = c->h;

	switch (in->type) {
	case FM_WIRE_PING:
		m->type = FM_WIRE_PONG;
		m->ping = in->ping;
		return true;
	case FM_WIRE_PUT:
		m->type = FM_WIRE_READY;
		make_xfer_message(h, m);
		m->ready.xfer = in->put.xfer;
		m->ready.chunk = in->put.chunk;
		return true;
	case FM_WIRE_GET:
		m->type = FM_WIRE_FOUND;
		make_xfer_message(h, m);
		m->found.xfer = in->get.xfer;
		return true;
	case FM_WIRE_FINISH:
		m->type = FM_WIRE_DONE;
		m->done = (struct fm_wire_done){ .xfer = in->finish.xfer };
		return true;
	case FM_WIRE_READY:
	case FM_WIRE_FOUND:
		m->type = FM_WIRE_FINISH;
		make_xfer_message(h, m);
		return does_wrong(h, 1);
	case FM_WIRE_REQUEST:
		m->type = FM_WIRE_REPLY;
		make_reply(h, m);
		m->reply.id = in->request.id;
		return true;
	case FM_WIRE_ADDRS:
		m->type = FM_WIRE_ADDRS;
		make_addrs(h, m);
		return !c->has_said_addrs;
	default:
		return false;
	}
}

/* What a sink asks for, more or less: its peer offers, whether or not it was told to. */
static void maybe_need(struct hctl *c, uint64_t id)
{
	struct fm_wire_msg m = { .type = FM_WIRE_NEED };

	if (c->is_closed || !one_in(c->h, 2))
		return;
	make_need(c->h, &m.need);
	m.need.xfer = id;
	hctl_say(c, &m);
}

static void remember_from(struct hostile *h, const struct fm_wire_msg *m)
{
	if (m->type == FM_WIRE_PUT)
		remember(h, m->put.xfer);
	else if (m->type == FM_WIRE_GET)
		remember(h, m->get.xfer);
	else if (m->type == FM_WIRE_READY)
		remember(h, m->ready.xfer);
	else if (m->type == FM_WIRE_FOUND)
		remember(h, m->found.xfer);
}

static void hctl_message(void *ctx, const uint8_t *msg, size_t len)
{
	static struct fm_wire_msg in, out;
	struct hctl *c = ctx;

	if (fm_wire_decode(msg, len, &in) < 0)
		sim_fail(c->h->sim, "an honest node sent a message that is none");
	remember_from(c->h, &in);
	if (in.type == FM_WIRE_TOKENS)
		on_tokens(c, &in.tokens);
	if (in.type == FM_WIRE_TOKENS_WANT && !does_wrong(c->h, 2))
		give_tokens(c, in.tokens.count);
	if (in.type == FM_WIRE_ADDRS)
		ask_tokens(c);
	/* It stays alive as a rule, and else does as it likes. */
	if (does_wrong(c->h, in.type == FM_WIRE_PING ? 10 : 2) || !answer(c, &in, &out))
		return;
	c->has_said_addrs |= out.type == FM_WIRE_ADDRS;
	hctl_say(c, &out);
	if (out.type == FM_WIRE_READY && in.put.flags & FM_WIRE_PUT_TREE)
		maybe_need(c, in.put.xfer);
}

static void hctl_opened(void *ctx)
{
	hctl_hello(ctx);
}

static void dial_somebody(void *ctx);

static void hctl_closed(void *ctx, const struct fm_err *err)
{
	struct hctl *c = ctx;

	(void)err;
	c->is_closed = true;
	c->h->node->net->ops->ctl_close(c->ctl);
	(void)sim_after(c->h->sim, c->h->node->control, sim_latency(c->h->sim, 2 * SIM_S),
			dial_somebody, c->h);
}

static const struct fm_ctl_events hctl_events = { .opened = hctl_opened,
						  .message = hctl_message,
						  .closed = hctl_closed };

static void dial_somebody(void *ctx)
{
	struct hostile *h = ctx;
	const struct sim_node *to = sim_node(h->sim, (unsigned)below(h, h->sc->honest));
	struct fm_ctl_dial d = {
		.host = to->name, .port = 7471, .events = &hctl_events, .timeout_ns = 5 * SIM_S};
	struct hctl *c;

	if (h->is_over || h->dials++ >= DIALS_MAX)
		return;
	c = sim_alloc(h->sim, sizeof(*c));
	c->h = h;
	c->is_dialler = true;
	d.ctx = c;
	memcpy(d.key, to->key, FM_KEY_LEN);
	c->ctl = h->node->net->ops->ctl_dial(h->node->net, &d);
}

/* ---- data connections ---- */

static void hsend_done(struct fm_send *send, int res)
{
	struct hsend *s = fm_container_of(send, struct hsend, send);

	(void)res;
	s->c->under_way--;
}

/* Zeros, or a pack. */
static void *payload_of(const struct hconn *c, const struct fm_data_msg *m)
{
	for (unsigned i = 0; i < PACKS; i++)
		if (m->data_crc == c->h->pack_crc[i] && m->length == c->h->pack_len[i])
			return (char *)c->tx.memory + PACK_AT(i);
	return c->tx.memory;
}

static void hconn_say(struct hconn *c, const struct fm_data_msg *m)
{
	struct hsend *s;

	if (c->is_closed || c->under_way >= SENDS_MAX)
		return;
	s = sim_alloc(c->h->sim, sizeof(*s));
	s->c = c;
	s->send.done = hsend_done;
	fm_data_encode(m, s->send.msg);
	if (does_wrong(c->h, 50))
		s->send.msg[below(c->h, FM_DATA_MSG_LEN)] ^= 4;
	if (m->type == FM_DATA_CHUNK && !does_wrong(c->h, 4)) {
		s->send.payload = payload_of(c, m);
		s->send.payload_len = m->length < REGION ? m->length : REGION;
		s->send.region = &c->tx;
		s->send.rkey = c->grant.rkey + does_wrong(c->h, 20);
		s->send.remote = c->grant.remote + (uint64_t)m->slot * c->grant.slot_bytes +
				 (does_wrong(c->h, 20) ? below(c->h, 1u << 20) : 0);
	}
	c->under_way++;
	c->conn->ops->send(c->conn, &s->send);
}

/* A chunk of somebody's transfer, right in everything or not. */
static void make_chunk(struct hconn *c, struct fm_data_msg *m)
{
	struct hostile *h = c->h;

	*m = (struct fm_data_msg){
		.type = FM_DATA_CHUNK,
		.generation = c->grant.generation,
		.xfer = pick_id(h),
		.seq = below(h, does_wrong(h, 4) ? UINT64_MAX : 12),
	};
	if (m->generation == 0 || does_wrong(h, 10))
		m->generation = 1 + (uint32_t)below(h, 3);
	m->slot = (uint16_t)below(h, c->grant.slots > 0 && !does_wrong(h, 10) ? c->grant.slots
									      : FM_WIRE_SLOTS_MAX);
	m->offset = does_wrong(h, 5) ? below(h, FM_WIRE_SIZE_MAX - FM_WIRE_CHUNK_MAX)
				     : m->seq % 100 * 4096;
	m->length = 1 + (uint32_t)below(h, does_wrong(h, 5) ? FM_WIRE_CHUNK_MAX : 4096);
	/* Zeros, whose CRC is what it ought to be as long as there are 4096 of them. */
	m->data_crc = one_in(h, 2) ? UINT32_C(0x98f94189) : (uint32_t)below(h, UINT32_MAX);
	if (m->data_crc == UINT32_C(0x98f94189))
		m->length = 4096;
	if (one_in(h, 3)) {
		unsigned i = (unsigned)below(h, PACKS);

		m->length = h->pack_len[i];
		m->data_crc = h->pack_crc[i];
	}
}

static void make_grant(struct hconn *c, struct fm_data_msg *m)
{
	struct fm_grant g = {
		.slots = 1 + (unsigned)below(c->h, 8),
		.generation = 1 + (uint32_t)below(c->h, 4),
		.remote = c->rx.remote,
		.slot_bytes = 4096u << below(c->h, 3),
		.rkey = c->rx.rkey,
	};

	if (does_wrong(c->h, 10))
		g.slots = FM_WIRE_SLOTS_MAX;		/* more than is lent */
	*m = fm_grant_msg(&g);
}

static void make_data_message(struct hconn *c, struct fm_data_msg *m)
{
	uint32_t generation =
		c->grant.generation > 0 ? c->grant.generation : 1 + (uint32_t)below(c->h, 3);

	*m = (struct fm_data_msg){.type = 1 + (uint8_t)below(c->h, FM_DATA_WANT),
				  .generation = generation};
	switch ((enum fm_data_type)m->type) {
	case FM_DATA_GRANT:
		make_grant(c, m);
		break;
	case FM_DATA_CHUNK:
		make_chunk(c, m);
		break;
	case FM_DATA_ACK:
		m->status = (uint8_t)below(c->h, 3);
		m->slot = (uint16_t)below(c->h, 8);
		m->xfer = pick_id(c->h);
		m->seq = below(c->h, 12);
		break;
	case FM_DATA_WANT:
		m->generation = 0;
		break;
	case FM_DATA_REVOKE:
	case FM_DATA_RETURN:
		break;
	}
}

static void hconn_unasked(void *ctx)
{
	struct hconn *c = ctx;
	struct fm_data_msg m;

	if (c->is_closed || c->h->is_over || c->messages++ > MESSAGES_MAX)
		return;
	/* Mostly what is well-behaved for who has a grant, or wants one: else the connection would
	 * not live long. */
	if (does_wrong(c->h, 4))
		make_data_message(c, &m);
	else if (c->grant.generation > 0)
		make_chunk(c, &m);
	else
		m = (struct fm_data_msg){ .type = FM_DATA_WANT };
	hconn_say(c, &m);
	(void)sim_after(c->h->sim, c->loop, sim_latency(c->h->sim, SIM_S), hconn_unasked, c);
}

/* Goal: what is said to be busy comes again, but not as fast as that is said, nor without end. */
static void count_busy(struct hconn *c, const struct fm_data_msg *chunk)
{
	struct busy *b = &c->busy[chunk->slot];
	uint64_t now_ns = sim_now(c->h->sim);

	if (b->count == 0 || b->xfer != chunk->xfer || b->seq != chunk->seq)
		*b = (struct busy){ chunk->xfer, chunk->seq, now_ns, 0 };
	if (b->count++ * BUSY_NS > now_ns - b->since_ns || b->count > BUSY_MAX)
		sim_fail(c->h->sim, "chunk %llu was sent %u times in %llu us",
			 (unsigned long long)b->seq, b->count,
			 (unsigned long long)(now_ns - b->since_ns) / 1000);
}

static enum fm_ack_status pick_status(struct hconn *c, const struct fm_data_msg *chunk)
{
	if (c->h->is_busy) {
		count_busy(c, chunk);
		return FM_ACK_BUSY;
	}
	return does_wrong(c->h, 2) ? (enum fm_ack_status)below(c->h, 4) : FM_ACK_WRITTEN;
}

static void hconn_message(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN])
{
	struct hconn *c = ctx;
	struct fm_data_msg in, out;

	if (fm_data_decode(msg, &in) < 0)
		sim_fail(c->h->sim, "an honest node sent a data message that is none");
	if (does_wrong(c->h, 5))
		return;			/* silence */
	switch ((enum fm_data_type)in.type) {
	case FM_DATA_GRANT:
		c->grant = fm_grant_of(&in);
		return;
	case FM_DATA_WANT:
		make_grant(c, &out);
		break;
	case FM_DATA_CHUNK:
		remember(c->h, in.xfer);
		if (c->h->never_acks)
			return;
		out = (struct fm_data_msg){
			.type = FM_DATA_ACK,
			.status = (uint8_t)pick_status(c, &in),
			.slot = in.slot,
			.generation = in.generation,
			.xfer = in.xfer,
			.seq = in.seq,
		};
		break;
	case FM_DATA_REVOKE:
		if (c->h->never_returns)
			return;
		c->grant.generation = 0;
		out = (struct fm_data_msg){ .type = FM_DATA_RETURN, .generation = in.generation };
		break;
	default:
		return;
	}
	hconn_say(c, &out);
}

static void hconn_failed(void *ctx, const struct fm_err *err)
{
	struct hconn *c = ctx;

	(void)err;
	if (c->is_closed)
		return;
	c->is_closed = true;
	c->conn->ops->close(c->conn);
}

static void hconn_closed(void *ctx)
{
	(void)ctx;		/* its memory is never used again */
}

static const struct fm_conn_events hconn_events = { .message = hconn_message,
						    .failed = hconn_failed,
						    .closed = hconn_closed };

static void make_pack(struct hostile *h, char *at, unsigned which)
{
	struct fm_pack_entry e = {.type = FM_PACK_FILE,
				  .mode = 0600,
				  .size = 9,
				  .path = "d/file",
				  .path_len = 6,
				  .identity = 7};
	struct fm_pack_entry dir = {.type = FM_PACK_DIR, .mode = 0700, .path = "d", .path_len = 1};
	struct fm_pack_writer w;

	fm_pack_begin(&w, at, 4096, which == 1 ? FM_PACK_OFFER : 0);
	(void)fm_pack_add(&w, &dir);
	e.data_len = which == 1 ? 0 : 9;
	e.crc = which == 1 ? 0 : fm_crc32c_part(fm_crc32c(0, "some data", 9), 0, 9);
	if (which == 1)
		(void)fm_pack_add(&w, &e);
	else
		memcpy(fm_pack_add(&w, &e), "some data", 9);
	h->pack_len[which] = (uint32_t)fm_pack_end(&w);
	h->pack_crc[which] = fm_crc32c(0, at, h->pack_len[which]);
}

static void hconn_start(void *ctx)
{
	struct hconn *c = ctx;
	struct hostile *h = c->h;
	char *memory = (char *)h->node->arena + (size_t)c->index * 2 * REGION;
	struct fm_err err;
	int ret;

	if (c->index >= CONNS_MAX) {
		c->is_closed = true;
		c->conn->ops->attach(c->conn, c->loop, &hconn_events, c);
		c->conn->ops->close(c->conn);
		return;
	}
	memset(memory, 0, 2 * (size_t)REGION);
	for (unsigned i = 0; i < PACKS; i++)
		make_pack(h, memory + REGION + PACK_AT(i), i);
	c->conn->ops->attach(c->conn, c->loop, &hconn_events, c);
	ret = c->conn->ops->lend(c->conn, memory, REGION, true, &c->rx, &err);
	assert(ret == 0);
	ret = c->conn->ops->lend(c->conn, memory + REGION, REGION, false, &c->tx, &err);
	assert(ret == 0);
	(void)sim_after(h->sim, c->loop, sim_latency(h->sim, SIM_S), hconn_unasked, c);
}

static void hconn_new(struct hostile *h, struct fm_conn *conn)
{
	struct hconn *c = sim_alloc(h->sim, sizeof(*c));

	c->h = h;
	c->conn = conn;
	c->index = h->conns++;
	c->loop = h->node->lanes[c->index % sim_opts(h->sim)->lanes];
	(void)sim_after(h->sim, c->loop, 0, hconn_start, c);
}

static void dial_done(void *ctx, int res, struct fm_conn *conn, const struct fm_err *err)
{
	(void)res;
	(void)err;
	if (conn)
		hconn_new(ctx, conn);
}

static void dial_data(struct hctl *c, const uint8_t token[FM_WIRE_TOKEN_LEN])
{
	struct fm_net *net = c->h->node->net;
	struct fm_data_dial d = { .kind = one_in(c->h, 2) ? FM_KIND_RDMA : FM_KIND_TCP,
				  .domain = c->h->domain,
				  .timeout_ns = SIM_S };
	const char *why;

	d.port = net->ops->data_port(net, d.kind, &why);
	if (d.port == 0)
		return;
	net->ops->ctl_addrs(c->ctl, &d.local, &d.remote);
	memcpy(d.token, token, FM_TOKEN_LEN);
	if (one_in(c->h, 12))
		d.token[0] ^= 1;
	d.done = dial_done;
	d.ctx = c->h;
	net->ops->data_dial(net, &d);
}

/* ---- its network ---- */

static bool net_is_known(void *ctx, const uint8_t key[FM_KEY_LEN])
{
	(void)ctx;
	(void)key;
	return true;
}

static bool net_accepted(void *ctx, struct fm_ctl *ctl, const uint8_t key[FM_KEY_LEN],
			 const struct fm_ctl_events **events, void **ctl_ctx)
{
	struct hostile *h = ctx;
	struct hctl *c = sim_alloc(h->sim, sizeof(*c));

	(void)key;
	if (h->is_over)
		return false;
	c->h = h;
	c->ctl = ctl;
	*events = &hctl_events;
	*ctl_ctx = c;
	hctl_hello(c);
	return true;
}

static struct fm_domain *net_token(void *ctx, const uint8_t token[FM_TOKEN_LEN], enum fm_kind kind,
				   const uint8_t *key, void **tag, struct fm_err *why)
{
	struct hostile *h = ctx;

	(void)why;
	(void)token;
	(void)kind;
	(void)key;
	*tag = NULL;
	return one_in(h, 10) ? NULL : h->domain;
}

static void net_arrived(void *ctx, void *tag, struct fm_conn *conn)
{
	(void)tag;
	if (conn)
		hconn_new(ctx, conn);
}

static const struct fm_net_events net_events = {
	.is_known = net_is_known,
	.accepted = net_accepted,
	.token = net_token,
	.arrived = net_arrived,
};

static void fall_silent(void *ctx)
{
	struct hostile *h = ctx;

	h->is_over = true;
	sim_trace(h->sim, "n3 falls silent");
}

void scenario_hostile_start(struct scenario *sc, struct sim_node *node)
{
	struct hostile *h = sim_alloc(sc->sim, sizeof(*h));
	int ret;

	sc->hostile = h;
	h->sc = sc;
	h->sim = sc->sim;
	h->node = node;
	h->manners = 1u << below(h, 8);
	h->never_acks = one_in(h, 4);
	h->never_returns = one_in(h, 4);
	h->is_busy = sim_opts(sc->sim)->seed % 7 == 0;
	/* else some of what it sends is good when it is looked at */
	node->is_rewriting = sim_opts(sc->sim)->seed % 4 == 0;
	sim_conn_set_hostile(node);
	ret = node->net->ops->start(node->net, &net_events, h, NULL);
	assert(ret == 0);
	ret = node->net->ops->domain_new(node->net, &h->domain, NULL);
	assert(ret == 0);
	(void)sim_after(sc->sim, node->control, 0, dial_somebody, h);
	(void)sim_after(sc->sim, node->control, sim_below(sc->sim, 5 * SIM_S), dial_somebody, h);
	(void)sim_after(sc->sim, NULL, ACTIVE_NS, fall_silent, h);
}

static void stop_now(void *ctx)
{
	struct hostile *h = ctx;

	h->node->net->ops->stop(h->node->net);
	h->node->net->ops->domain_free(h->domain);
}

/* Time for its connections to find out that nobody is there any more. */
void scenario_hostile_stop(struct scenario *sc)
{
	(void)sim_after(sc->sim, sc->hostile->node->control, 15 * SIM_S, stop_now, sc->hostile);
	(void)sim_run(sc->sim, NULL, NULL, 20 * SIM_S);
}

size_t scenario_hostile_arena_len(void)
{
	return (size_t)CONNS_MAX * 2 * REGION;
}
