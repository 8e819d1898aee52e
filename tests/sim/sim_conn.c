/* SPDX-License-Identifier: MIT */
/*
 * sim_conn - data connections of the simulated network, as nasty as the contract in transport.h
 * allows.
 *
 * A send *leaves* (its payload is read from the sender's memory), *arrives* (the payload lands in
 * the receiver's memory, which must be lent to that connection under that key, or the connection
 * breaks as with a NIC) and its message is delivered in a later pass of the receiver's loop. Order
 * holds within one direction of one connection and nowhere else. A TCP send is done when it has
 * left, an RDMA send some time after it arrived; its memory must stay as it is until then, which is
 * checked.
 *
 * Cut: nothing arrives any more; of payloads that are on the way a part may still land. Each end
 * hears failed() in its own time. Closed by one end: memory lent to it can be written until
 * closed(); the other end hears failed() behind what was under way.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/fault.h"
#include "mover/wire/wire.h"
#include "tests/sim/sim_priv.h"

#define REWRITTEN 256u		/* of each block, the bytes that a hostile node changes one of */

struct lent {
	struct fm_list at;
	struct fm_region region;
	bool is_rx;
};

struct sim_conn {
	struct fm_conn conn;
	struct fm_list at;		/* sim_net_world.conns */
	struct sim_net *net;
	struct sim_conn *far;
	struct fm_domain *domain;
	struct fm_conn_info info;
	unsigned rail;			/* of its own address */
	struct fm_loop *loop;		/* NULL: not attached */
	const struct fm_conn_events *events;
	void *ctx;
	struct fm_list regions;		/* struct lent */
	struct fm_list sends;		/* struct xmit whose done() is not on its way yet */
	struct fm_list inbox;		/* struct inbound that came before attach() */
	struct inbound *placing;	/* its payload comes to where the receiver said ... */
	uint64_t placing_until_ns;	/* ... until then, and what is behind it waits */
	unsigned under_way;		/* sends whose done() was not called */
	uint64_t line_free_ns;		/* when the next send can leave */
	uint64_t last_arrival_ns;	/* at this end */
	uint64_t last_done_ns;
	bool is_cut;			/* nothing arrives, at either end */
	bool is_failed;			/* failed() was called, or will be when it is attached */
	bool is_told;			/* failed() was called */
	bool is_closing;
	bool is_gone;
	struct fm_err why;
};

struct xmit {
	struct fm_list at;		/* sim_conn.sends */
	struct sim_conn *from;
	struct fm_send *send;
	int res;
	bool has_left;
	bool is_done;			/* done() is on its way, or was called */
	uint8_t msg[FM_DATA_MSG_LEN];
	uint32_t len;
	uint64_t remote;
	uint32_t rkey;
	uint8_t *wire;			/* what left */
};

struct inbound {
	struct fm_list at;		/* sim_conn.inbox */
	struct sim_conn *to;
	bool is_flipped;
	void *placed;			/* where its payload is to come, which lies at `lent` */
	const uint8_t *lent;
	size_t len;
	uint8_t msg[FM_DATA_MSG_LEN];
};

static struct sim *sim_of(const struct sim_conn *c)
{
	return c->net->node->sim;
}

static struct sim_net_world *world_of(const struct sim_conn *c)
{
	return sim_net_world(sim_of(c));
}

static struct sim_conn *conn_of(struct fm_conn *conn)
{
	return fm_container_of(conn, struct sim_conn, conn);
}

struct fm_conn *sim_conn_base(struct sim_conn *c)
{
	return &c->conn;
}

static uint64_t latency(const struct sim_conn *c)
{
	return sim_latency(sim_of(c), sim_opts(sim_of(c))->net_ns);
}

/* Everything of an attached connection happens on its lane. */
static void check_thread(const struct sim_conn *c)
{
	assert(sim_running(sim_of(c)) == (c->loop ? c->loop : c->net->node->control));
}

/* ---- done() ---- */

static void xmit_done(void *ctx)
{
	struct xmit *x = ctx;
	struct sim_conn *c = x->from;

	assert(c->under_way > 0 && !c->is_gone);
	if (x->res == 0 && x->len > 0 && memcmp(x->wire, x->send->payload, x->len) != 0)
		sim_fail(sim_of(c), "%s: a payload was changed before its send was done",
			 c->net->node->name);
	c->under_way--;
	x->send->done(x->send, x->res);
}

static void done_after(struct xmit *x, int res, uint64_t delay_ns)
{
	struct sim_conn *c = x->from;
	uint64_t at = sim_now(sim_of(c)) + delay_ns;

	assert(!x->is_done);
	x->is_done = true;
	x->res = res;
	fm_list_del(&x->at);
	if (at <= c->last_done_ns)
		at = c->last_done_ns;
	c->last_done_ns = at;
	(void)sim_at(sim_of(c), c->loop, at, xmit_done, x);
}

static void flush(struct sim_conn *c)
{
	fm_list_each(at, next, &c->sends)
		done_after(fm_container_of(at, struct xmit, at), -ECANCELED, latency(c));
}

/* ---- failure ---- */

static void tell_failed(void *ctx)
{
	struct sim_conn *c = ctx;

	if (c->is_closing || c->is_told)
		return;
	c->is_told = true;
	flush(c);
	sim_trace(sim_of(c), "%s: data connection to %s: %s", c->net->node->name,
		  c->far->net->node->name, c->why.text);
	c->events->failed(c->ctx, &c->why);
}

static void fail_at(struct sim_conn *c, uint64_t at_ns, int code, const char *why)
{
	if (c->is_failed)
		return;
	c->is_failed = true;
	(void)fm_err_set(&c->why, code, "%s", why);
	if (c->loop)
		(void)sim_at(sim_of(c), c->loop, at_ns, tell_failed, c);
}

static struct lent *find_lent(struct sim_conn *c, const struct xmit *x)
{
	fm_list_each(at, next, &c->regions) {
		struct lent *l = fm_container_of(at, struct lent, at);

		if (l->is_rx && l->region.rkey == x->rkey && x->remote >= l->region.remote &&
		    x->len <= l->region.len &&
		    x->remote - l->region.remote <= l->region.len - x->len)
			return l;
	}
	return NULL;
}

/* Of what was on the way when the line was cut, a part may have arrived: payload only, never its
 * message. */
static void land_parts(struct sim_conn *from)
{
	fm_list_each(at, next, &from->sends) {
		struct xmit *x = fm_container_of(at, struct xmit, at);
		struct lent *l = x->has_left && x->len > 0 && !from->far->is_gone
					 ? find_lent(from->far, x)
					 : NULL;

		if (l && sim_one_in(sim_of(from), 2))
			memcpy((uint8_t *)l->region.memory + (x->remote - l->region.remote),
			       x->wire, sim_below(sim_of(from), x->len + 1));
	}
}

static void cut(struct sim_conn *c, const char *why, uint64_t within_ns)
{
	struct sim *s = sim_of(c);

	if (c->is_cut)
		return;
	sim_trace(s, "cut: data connection %s - %s: %s", c->net->node->name,
		  c->far->net->node->name, why);
	land_parts(c);
	land_parts(c->far);
	c->is_cut = c->far->is_cut = true;
	fail_at(c, sim_now(s) + sim_below(s, within_ns), -ECONNRESET, why);
	fail_at(c->far, sim_now(s) + sim_below(s, within_ns), -ECONNRESET, why);
}

void sim_conn_break(struct sim_conn *c, const char *why)
{
	cut(c, why, sim_opts(sim_of(c))->net_ns);
}

static void break_by_fault(void *ctx)
{
	sim_fired(sim_of(ctx), SIM_FIRED_NET);
	sim_conn_break(ctx, "cut on the way");
}

void sim_conn_isolate(struct sim_net *n, unsigned rails)
{
	fm_list_each(at, next, &sim_net_world(n->node->sim)->conns) {
		struct sim_conn *c = fm_container_of(at, struct sim_conn, at);

		if (c->net == n && !c->is_gone && rails >> c->rail & 1)
			cut(c, "transport retry counter exceeded", 6 * SIM_S);
	}
}

/* The other end hears it soon from a kernel that lives; of a machine without power its own device
 * gives up some day. */
void sim_conn_die(struct sim_net *n)
{
	uint64_t within_ns =
		n->node->death == SIM_POWER_CUT ? 6 * SIM_S : sim_opts(n->node->sim)->net_ns;

	fm_list_each(at, next, &sim_net_world(n->node->sim)->conns) {
		struct sim_conn *c = fm_container_of(at, struct sim_conn, at);

		if (c->net == n && !c->is_gone)
			cut(c, "its peer died", within_ns);
	}
}

unsigned sim_conn_left(const struct sim_net *n)
{
	unsigned left = 0;

	fm_list_each(at, next, &sim_net_world(n->node->sim)->conns) {
		const struct sim_conn *c = fm_container_of(at, struct sim_conn, at);

		left += c->net == n && !c->is_gone;
	}
	return left;
}

/* ---- on the way ---- */

static void trace_message(const struct sim_conn *c, const uint8_t msg[FM_DATA_MSG_LEN])
{
	static const char *const names[] = {"?",      "GRANT",	"CHUNK", "ACK",
					    "REVOKE", "RETURN", "WANT"};
	struct fm_data_msg m;

	if (fm_data_decode(msg, &m) == 0)
		sim_trace(sim_of(c), "%s <- %s %s: %s generation %u slot %u seq %llu status %u",
			  c->net->node->name, c->far->net->node->name, c->info.local, names[m.type],
			  m.generation, m.slot, (unsigned long long)m.seq, m.status);
}

/* Where the receiver wants it, and since then did not say otherwise. */
static void bring(struct inbound *in)
{
	if (!in->placed)
		return;
	memcpy(in->placed, in->lent, in->len);
	if (in->to->placing == in)
		in->to->placing = NULL;
}

static void conn_divert(struct fm_conn *conn)
{
	struct sim_conn *c = conn_of(conn);

	check_thread(c);
	if (c->placing)
		c->placing->placed = NULL;
	c->placing = NULL;
}

static void deliver(void *ctx)
{
	struct inbound *in = ctx;
	struct sim_conn *c = in->to;

	if (c->is_closing || c->is_told)
		return;
	world_of(c)->flips += in->is_flipped;
	trace_message(c, in->msg);
	bring(in);
	c->events->message(c->ctx, in->msg);
}

static void flip_bit(struct sim *s, uint8_t *at, size_t len)
{
	uint64_t bit = sim_below(s, 8 * len);

	sim_fired(s, SIM_FIRED_FLIP);
	at[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* It is asked with the head of the frame, and brought with the message: meanwhile it comes. */
static void ask_place(struct inbound *in, const struct xmit *x, uint8_t *lent)
{
	struct sim_conn *c = in->to;

	if (!lent || c->info.kind != FM_KIND_TCP || !c->events->place || c->placing)
		return;
	in->placed = c->events->place(c->ctx, x->msg, x->len);
	in->lent = lent;
	in->len = x->len;
	c->placing = in->placed ? in : NULL;
	if (in->placed)
		sim_trace(sim_of(c), "%s: %u bytes come to their place", c->net->node->name,
			  x->len);
}

/* When it has come, all of it. */
static uint64_t come_at(const struct inbound *in)
{
	struct sim_conn *c = in->to;
	struct sim *s = sim_of(c);
	uint64_t now_ns = sim_now(s);

	if (c->placing_until_ns < now_ns)
		c->placing_until_ns = now_ns;
	if (in->placed)
		c->placing_until_ns += sim_latency(s, sim_opts(s)->net_ns);
	return c->placing_until_ns;
}

static void come_in(struct sim_conn *c, const struct xmit *x, uint8_t *lent, bool is_flipped)
{
	struct sim *s = sim_of(c);
	struct inbound *in = sim_alloc(s, sizeof(*in));

	in->to = c;
	in->is_flipped = is_flipped;
	memcpy(in->msg, x->msg, FM_DATA_MSG_LEN);
	ask_place(in, x, lent);
	if (sim_one_in(s, sim_faults(s)->conn_flip_msg)) {
		sim_fired(s, SIM_FIRED_NET);	/* it costs the connection */
		flip_bit(s, in->msg, FM_DATA_MSG_LEN);
	}
	if (c->loop)
		(void)sim_at(s, c->loop, come_at(in), deliver, in);
	else
		fm_list_append(&c->inbox, &in->at);
}

/* Into the receiver's memory: where it is then. NULL: it may not be written to. */
static uint8_t *place(struct sim_conn *to, const struct xmit *x, bool *is_flipped)
{
	struct sim *s = sim_of(to);
	struct lent *l = find_lent(to, x);
	uint8_t *at;

	if (!l)
		return NULL;
	if (to->info.kind == FM_KIND_TCP && to->events->may_write &&
	    !to->events->may_write(to->ctx, x->msg, x->remote, x->len))
		return NULL;
	at = (uint8_t *)l->region.memory + (x->remote - l->region.remote);
	memcpy(at, x->wire, x->len);
	if (sim_one_in(s, sim_faults(s)->conn_flip)) {
		flip_bit(s, at, x->len);
		*is_flipped = true;
	}
	return at;
}

/* TCP asks of a message without a payload, too. */
static bool may_come(struct sim_conn *to, const struct xmit *x)
{
	return x->len > 0 || !to->loop || to->info.kind != FM_KIND_TCP || !to->events->may_write ||
	       to->events->may_write(to->ctx, x->msg, 0, 0);
}

/* A byte near the start of each block, where what a pack says is; which one follows from how many
 * there were. */
static void rewrite(struct sim_conn *c, const struct fm_region *region)
{
	uint64_t *count = &world_of(c)->rewrites;

	for (size_t at = 0; at + REWRITTEN <= region->len; at += 4096) {
		uint64_t number = ++*count * UINT64_C(0x9e3779b97f4a7c15);

		((uint8_t *)region->memory)[at + (number >> 24) % REWRITTEN] ^=
			(uint8_t)(1u << (number >> 60) % 8);
	}
}

static void rewrite_regions(struct sim_conn *c)
{
	fm_list_each(at, next, &c->regions) {
		const struct lent *l = fm_container_of(at, struct lent, at);

		if (l->is_rx)
			rewrite(c, &l->region);
	}
}

void sim_conn_set_hostile(struct sim_node *node)
{
	sim_net_world(node->sim)->hostile = node;
}

void sim_conn_rewrite(struct sim *s)
{
	const struct sim_node *hostile = sim_net_world(s)->hostile;

	fm_list_each(at, next, &sim_net_world(s)->conns) {
		struct sim_conn *c = fm_container_of(at, struct sim_conn, at);

		if (hostile && c->far->net->node == hostile && c->info.kind == FM_KIND_RDMA &&
		    !c->is_gone && !c->is_cut)
			rewrite_regions(c);
	}
}

/* Between passes: this is the hardware at the far end. */
static void arrive(void *ctx)
{
	struct xmit *x = ctx;
	struct sim_conn *from = x->from, *to = from->far;
	struct sim *s = sim_of(from);
	uint8_t *lent = NULL;
	bool is_flipped = false;

	/* Given up before it was done: it may have made it all the same. */
	if (from->is_cut || to->is_gone || !x->has_left ||
	    (x->is_done && x->res < 0 && sim_one_in(s, 2)))
		return;
	if (x->len > 0)
		lent = place(to, x, &is_flipped);
	if ((x->len > 0 && !lent) || !may_come(to, x)) {
		world_of(from)->overruns++;
		sim_trace(s, "%s wrote to memory that %s does not lend, or nothing where it should",
			  from->net->node->name, to->net->node->name);
		cut(from, "remote access error", sim_opts(s)->net_ns);
		return;
	}
	come_in(to, x, lent, is_flipped);
	if (!x->is_done)
		done_after(x, 0, latency(from));
}

static bool is_inside(const struct fm_send *send)
{
	const char *memory = send->region->memory, *payload = send->payload;

	return payload >= memory && send->payload_len <= send->region->len &&
	       (size_t)(payload - memory) <= send->region->len - send->payload_len;
}

static void leave(void *ctx)
{
	struct xmit *x = ctx;
	struct sim_conn *c = x->from;

	if (x->is_done || c->is_cut)
		return;
	x->has_left = true;
	if (x->len > 0) {
		struct lent *l = x->send->region->handle;

		assert(!l->is_rx && l->region.memory == x->send->region->memory &&
		       is_inside(x->send));
		memcpy(x->wire, x->send->payload, x->len);
	}
	if (c->info.kind == FM_KIND_TCP)
		done_after(x, 0, sim_below(sim_of(c), 100 * SIM_US));
}

static void conn_send(struct fm_conn *conn, struct fm_send *send)
{
	struct sim_conn *c = conn_of(conn);
	struct sim *s = sim_of(c);
	struct xmit *x = sim_alloc(s, sizeof(*x));
	uint64_t arrive_ns;

	check_thread(c);
	assert(c->loop && !c->is_closing && send->done && c->under_way < FM_DATA_MSGS_MAX);
	assert((send->payload != NULL) == (send->payload_len > 0));
	c->under_way++;
	x->from = c;
	x->send = send;
	x->len = send->payload_len;
	x->remote = send->remote;
	x->rkey = send->rkey;
	x->wire = x->len > 0 ? sim_alloc(s, x->len) : NULL;
	memcpy(x->msg, send->msg, FM_DATA_MSG_LEN);
	fm_list_append(&c->sends, &x->at);
	if (c->is_told) {
		done_after(x, -ECANCELED, latency(c));
		return;
	}
	if (sim_one_in(s, sim_faults(s)->conn_cut))
		(void)sim_after(s, NULL, sim_latency(s, 2 * sim_opts(s)->net_ns), break_by_fault,
				c);
	if (c->line_free_ns < sim_now(s))
		c->line_free_ns = sim_now(s);
	if (sim_one_in(s, sim_faults(s)->conn_stall)) {
		sim_fired(s, SIM_FIRED_NET);
		c->line_free_ns += sim_below(s, 3 * SIM_S);
	}
	c->line_free_ns += x->len * sim_opts(s)->ns_per_kib / 1024;
	arrive_ns = c->line_free_ns + latency(c);
	if (arrive_ns <= c->far->last_arrival_ns)
		arrive_ns = c->far->last_arrival_ns + 1;
	c->far->last_arrival_ns = arrive_ns;
	(void)sim_at(s, NULL, c->line_free_ns, leave, x);
	(void)sim_at(s, NULL, arrive_ns, arrive, x);
}

/* ---- memory ---- */

/* A slab belongs to one connection at a time. */
static void check_free(struct sim_conn *c, const char *memory, size_t len)
{
	fm_list_each(at, next, &world_of(c)->conns) {
		struct sim_conn *o = fm_container_of(at, struct sim_conn, at);

		fm_list_each(r, next_r, &o->regions) {
			const struct lent *l = fm_container_of(r, struct lent, at);
			const char *other = l->region.memory;

			assert(memory + len <= other || other + l->region.len <= memory);
		}
	}
}

static int conn_lend(struct fm_conn *conn, void *memory, size_t len, bool is_rx,
		     struct fm_region *out, struct fm_err *err)
{
	struct sim_conn *c = conn_of(conn);
	struct sim_net_world *w = world_of(c);
	struct lent *l = sim_alloc(sim_of(c), sizeof(*l));

	check_thread(c);
	if (FM_FAULT("sim.lend"))
		return fm_err_set(err, -ENOMEM, "register memory");
	assert(c->loop && !c->is_closing && (uintptr_t)memory % 4096 == 0 && len > 0);
	check_free(c, memory, len);
	w->remote += UINT64_C(1) << 32;
	l->is_rx = is_rx;
	l->region = (struct fm_region){
		.memory = memory,
		.len = len,
		.remote = w->remote,
		.rkey = ++w->rkey,
		.lkey = w->rkey,
		.handle = l,
	};
	fm_list_append(&c->regions, &l->at);
	*out = l->region;
	return 0;
}

static void conn_take_back(struct fm_conn *conn, struct fm_region *region)
{
	struct sim_conn *c = conn_of(conn);
	struct lent *l = region->handle;

	check_thread(c);
	assert(!c->is_gone && !fm_list_is_empty(&l->at));
	/* The NIC may still read what is sent from there. */
	fm_list_each(at, next, &c->sends) {
		const struct xmit *x = fm_container_of(at, struct xmit, at);

		assert(x->len == 0 || x->send->region->handle != l);
	}
	fm_list_del(&l->at);
}

/* ---- the ends ---- */

static void conn_attach(struct fm_conn *conn, struct fm_loop *loop,
			const struct fm_conn_events *events, void *ctx)
{
	struct sim_conn *c = conn_of(conn);
	struct fm_list *link;

	assert(!c->loop && !c->is_closing && sim_running(sim_of(c)) == loop);
	c->loop = loop;
	c->events = events;
	c->ctx = ctx;
	while ((link = fm_list_pop(&c->inbox)))
		(void)sim_after(sim_of(c), loop, 0, deliver,
				fm_container_of(link, struct inbound, at));
	if (c->is_failed)
		(void)sim_after(sim_of(c), loop, 0, tell_failed, c);
}

static void gone(struct sim_conn *c)
{
	struct fm_list *link;

	assert(c->under_way == 0);
	c->is_gone = true;
	c->domain->conns--;
	while ((link = fm_list_pop(&c->regions)))
		;
}

static void tell_closed(void *ctx)
{
	struct sim_conn *c = ctx;

	gone(c);
	c->events->closed(c->ctx);
}

static void conn_close(struct fm_conn *conn)
{
	struct sim_conn *c = conn_of(conn);
	struct sim *s = sim_of(c);
	uint64_t at_ns;

	check_thread(c);
	assert(!c->is_closing);
	c->is_closing = true;
	sim_trace(s, "%s: close data connection to %s", c->net->node->name,
		  c->far->net->node->name);
	flush(c);
	at_ns = sim_now(s) > c->far->last_arrival_ns ? sim_now(s) : c->far->last_arrival_ns;
	fail_at(c->far, at_ns + latency(c), -ECONNRESET, "closed by peer");
	if (!c->loop) {
		gone(c);
		return;
	}
	at_ns = sim_now(s) > c->last_done_ns ? sim_now(s) : c->last_done_ns;
	(void)sim_at(s, c->loop, at_ns + latency(c), tell_closed, c);
}

static const struct fm_conn_info *conn_info(const struct fm_conn *conn)
{
	const struct sim_conn *c = fm_container_of(conn, const struct sim_conn, conn);

	assert(!c->is_closing);
	return &c->info;
}

static const struct fm_conn_ops conn_ops = {
	.attach = conn_attach,
	.lend = conn_lend,
	.take_back = conn_take_back,
	.divert = conn_divert,
	.send = conn_send,
	.close = conn_close,
	.info = conn_info,
};

static struct sim_conn *conn_new(const struct sim_conn_pair_opts *o, unsigned end)
{
	struct sim_net *n = o->net[end];
	struct sim_conn *c = sim_alloc(n->node->sim, sizeof(*c));

	assert(!o->domain[end]->is_freed);
	c->conn.ops = &conn_ops;
	c->net = n;
	c->domain = o->domain[end];
	c->domain->conns++;
	c->rail = o->rail[end];
	c->info.kind = o->kind;
	c->info.note = o->kind == FM_KIND_TCP ? "TCP" : "simulated RDMA";
	(void)snprintf(c->info.local, sizeof(c->info.local), "%s", o->addr[end].name);
	(void)snprintf(c->info.local_addr, sizeof(c->info.local_addr), "%s %s", n->node->name,
		       o->addr[end].name);
	(void)snprintf(c->info.remote_addr, sizeof(c->info.remote_addr), "%s %s",
		       o->net[!end]->node->name, o->addr[!end].name);
	fm_list_init(&c->regions);
	fm_list_init(&c->sends);
	fm_list_init(&c->inbox);
	fm_list_append(&world_of(c)->conns, &c->at);
	return c;
}

void sim_conn_pair(const struct sim_conn_pair_opts *o, struct sim_conn *ends[2])
{
	ends[0] = conn_new(o, 0);
	ends[1] = conn_new(o, 1);
	ends[0]->far = ends[1];
	ends[1]->far = ends[0];
}

void sim_net_cut_conn(struct sim *s)
{
	struct sim_conn *found = NULL;
	unsigned seen = 0;

	fm_list_each(at, next, &sim_net_world(s)->conns) {
		struct sim_conn *c = fm_container_of(at, struct sim_conn, at);

		if (!c->is_cut && !c->is_closing && !c->far->is_closing &&
		    sim_below(s, ++seen) == 0)
			found = c;
	}
	if (found)
		break_by_fault(found);
}

void sim_conn_counts(struct sim *s, struct sim_net_counts *out)
{
	fm_list_each(at, next, &sim_net_world(s)->conns) {
		struct sim_conn *c = fm_container_of(at, struct sim_conn, at);

		out->conns += !c->is_gone;
		out->sends += c->under_way;
		fm_list_each(r, next_r, &c->regions)
			out->regions++;
	}
}
