/* SPDX-License-Identifier: MIT */
/*
 * sim_net - the network of a simulated node: control connections, and the dialling of data
 * connections.
 *
 * A control connection is two ends. What one sends arrives at the other in order, each message
 * after a latency of its own. It breaks (both ends hear it, each in its own time; what was under
 * way then is lost), gets stuck (nothing arrives any more and nobody is told, as when a cable is
 * pulled), or is closed by one end (the other hears it behind the last message). It goes over a
 * cable, the subnet that was dialled: what goes over one that a node has lost gets stuck, and
 * others are made over what is whole. When a node dies, of what it sent and has not arrived the
 * last part is lost, or all or nothing; then the other end is told (the node was killed) or is not
 * (its power was cut).
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/fault.h"
#include "mover/base/network.h"
#include "mover/wire/wire.h"
#include "tests/sim/sim_priv.h"

#define CTL_PORT 7471
#define RDMA_PORT 7472

struct fm_ctl {
	struct fm_list at;		/* sim_net_world.ctls */
	struct sim_net *net;
	struct fm_ctl *far;		/* NULL: not connected yet */
	const struct fm_ctl_events *events;
	void *ctx;
	struct fm_ctl_dial dial;	/* of the end that dialled */
	struct sim_net *target;
	unsigned rail;			/* the subnet, which is the cable, that it goes over */
	bool is_open;			/* opened() was called, or it was accepted */
	/* by its owner: nothing may be called on it, or call back */
	bool is_closed;
	bool is_told;			/* closed() was called */
	bool is_broken;			/* nothing that is sent arrives */
	bool is_stuck;			/* likewise, and nobody knows ... */
	uint64_t stuck_ns;		/* ... since then */
	struct fm_list early;		/* struct parcel: sent before it was open */
	uint64_t last_ns;		/* when what was sent to this end last arrives */
	/* what arrives later is lost, since its sender died; 0: it lives */
	uint64_t deaf_ns;
	size_t queued;			/* bytes this end sent that have not arrived */
	char peer[32];
};

/* Something on its way to one end of a control connection. */
struct parcel {
	struct fm_list at;		/* fm_ctl.early */
	struct fm_ctl *to;
	struct fm_ctl *from;
	struct fm_err err;		/* closed */
	size_t len;
	uint8_t bytes[];		/* message */
};

static struct sim *sim_of(const struct sim_net *n)
{
	return n->node->sim;
}

static struct sim_net *net_of(struct fm_net *net)
{
	return fm_container_of(net, struct sim_net, net);
}

/* The engine's control side is one thread; before it runs (running NULL) the test itself may
 * call. */
static void check_thread(const struct sim_net *n)
{
	const struct fm_loop *running = sim_running(sim_of(n));

	assert(!running || running == n->node->control);
}

/* ---- control connections ---- */

static struct fm_ctl *ctl_new(struct sim_net *n)
{
	struct fm_ctl *c = sim_alloc(sim_of(n), sizeof(*c));

	c->net = n;
	fm_list_init(&c->early);
	fm_list_append(&sim_net_world(sim_of(n))->ctls, &c->at);
	return c;
}

static bool is_dead(const struct sim_net *n, unsigned rail)
{
	return n->is_isolated || n->node->death == SIM_POWER_CUT || n->dead_rails >> rail & 1;
}

static bool is_cut_off(const struct fm_ctl *c, const struct sim_net *far)
{
	return is_dead(c->net, c->rail) || is_dead(far, c->rail);
}

static bool is_listening(const struct sim_net *n)
{
	return n->events && !n->node->death;
}

/* When something sent now arrives at c, not before what was sent earlier. */
static uint64_t arrival_ns(struct fm_ctl *c)
{
	struct sim *s = sim_of(c->net);
	uint64_t at = sim_now(s) + sim_latency(s, sim_opts(s)->net_ns);

	if (at <= c->last_ns)
		at = c->last_ns + 1;
	c->last_ns = at;
	return at;
}

static struct parcel *parcel_new(struct fm_ctl *to, size_t len)
{
	struct parcel *p = sim_alloc(sim_of(to->net), sizeof(*p) + len);

	p->to = to;
	p->len = len;
	return p;
}

static void ctl_tell_closed(void *ctx)
{
	struct parcel *p = ctx;
	struct fm_ctl *c = p->to;

	c->is_broken = true;
	if (c->is_closed || c->is_told)
		return;
	c->is_told = true;
	sim_trace(sim_of(c->net), "%s: control connection to %s: %s", c->net->node->name, c->peer,
		  p->err.text);
	c->events->closed(c->ctx, &p->err);
}

static void ctl_close_at(struct fm_ctl *c, uint64_t at_ns, int code, const char *why)
{
	struct parcel *p = parcel_new(c, 0);

	(void)fm_err_set(&p->err, code, "%s: %s", c->peer, why);
	(void)sim_at(sim_of(c->net), c->net->node->control, at_ns, ctl_tell_closed, p);
}

/*
 * The real network tells a reset, which may come from the peer's kernel alone, from the end that a
 * process leaves.
 */
static void ctl_reset_at(struct fm_ctl *c, uint64_t at_ns, bool is_reset)
{
	ctl_close_at(c, at_ns, is_reset ? -ECONNABORTED : -ECONNRESET,
		     is_reset ? "connection reset by peer" : "closed by peer");
}

/* Both ends hear it, each within the latency. */
static void ctl_break(struct fm_ctl *c)
{
	struct sim *s = sim_of(c->net);

	if (c->is_broken || c->is_stuck || !c->far)
		return;
	sim_fired(s, SIM_FIRED_NET);
	sim_trace(s, "cut: control connection %s - %s", c->net->node->name,
		  c->far->net->node->name);
	c->is_broken = c->far->is_broken = true;
	ctl_reset_at(c, sim_now(s) + sim_latency(s, sim_opts(s)->net_ns), true);
	ctl_reset_at(c->far, sim_now(s) + sim_latency(s, sim_opts(s)->net_ns), true);
}

static void ctl_get_stuck(struct fm_ctl *c)
{
	if (!c->far || c->is_stuck)
		return;
	sim_fired(sim_of(c->net), SIM_FIRED_NET);
	sim_trace(sim_of(c->net), "stuck: control connection %s - %s", c->net->node->name,
		  c->far->net->node->name);
	c->is_stuck = c->far->is_stuck = true;
	c->stuck_ns = c->far->stuck_ns = sim_now(sim_of(c->net));
}

static void ctl_deliver(void *ctx)
{
	struct parcel *p = ctx;
	struct fm_ctl *c = p->to;

	p->from->queued -= p->len;
	if (c->is_closed || c->is_told || (c->deaf_ns && sim_now(sim_of(c->net)) >= c->deaf_ns))
		return;
	assert(c->is_open);
	sim_trace(sim_of(c->net), "%s <- %s: %s", c->net->node->name, c->peer,
		  fm_wire_type_name(p->bytes[0]));
	c->events->message(c->ctx, p->bytes, p->len);
}

static void ctl_post(struct parcel *p, struct fm_ctl *to)
{
	p->to = to;
	(void)sim_at(sim_of(to->net), to->net->node->control, arrival_ns(to), ctl_deliver, p);
}

static void ctl_opened(void *ctx)
{
	struct parcel *p = ctx;
	struct fm_ctl *c = p->to;
	struct fm_list *link;

	if (c->is_closed || c->is_told)
		return;
	c->is_open = true;
	while ((link = fm_list_pop(&c->early)))
		ctl_post(fm_container_of(link, struct parcel, at), c->far);
	c->events->opened(c->ctx);
}

/* At the far end, in a pass of its control loop. */
static void ctl_arrive(void *ctx)
{
	struct fm_ctl *c = ctx, *far;
	struct sim_net *target = c->target;
	struct sim *s = sim_of(target);
	uint64_t back_ns = sim_now(s) + sim_latency(s, sim_opts(s)->net_ns);
	struct sim_event *opened;

	if (c->is_closed)
		return;
	if (is_cut_off(c, target)) {
		ctl_close_at(c,
			     sim_now(s) +
				     (c->dial.connect_ns ? c->dial.connect_ns : c->dial.timeout_ns),
			     -ETIMEDOUT, "connect: timed out");
		return;
	}
	if (!is_listening(target) || memcmp(c->dial.key, target->node->key, FM_KEY_LEN) != 0 ||
	    !target->events->is_known(target->ctx, c->net->node->key)) {
		ctl_close_at(c, back_ns, is_listening(target) ? -EACCES : -ECONNREFUSED,
			     is_listening(target) ? "wrong key" : "refused");
		return;
	}
	far = ctl_new(target);
	far->far = c;
	far->rail = c->rail;
	far->is_open = true;
	(void)snprintf(far->peer, sizeof(far->peer), "%s", c->net->node->name);
	c->far = far;
	/* Before accepted(), which may send already: what it sends arrives behind. */
	opened = sim_at(s, c->net->node->control, arrival_ns(c), ctl_opened, parcel_new(c, 0));
	if (target->events->accepted(target->ctx, far, c->net->node->key, &far->events, &far->ctx))
		return;
	far->is_closed = true;
	c->is_broken = true;
	sim_cancel(opened);
	ctl_close_at(c, back_ns, -ECONNREFUSED, "closed by peer");
}

/* A node's name, or one of the addresses that address() gives it. */
static struct sim_net *find_host(struct sim *s, const char *host)
{
	struct in_addr in;
	unsigned node;

	if (inet_pton(AF_INET, host, &in) == 1) {
		node = (ntohl(in.s_addr) & 0xff) - 1;
		return ntohl(in.s_addr) >> 16 == 0x0a00 && node < sim_opts(s)->nodes
			       ? sim_net_world(s)->nets[node]
			       : NULL;
	}
	for (unsigned i = 0; i < sim_opts(s)->nodes; i++)
		if (strcmp(sim_node(s, i)->name, host) == 0)
			return sim_net_world(s)->nets[i];
	return NULL;
}

/* A name is that of the first address. */
static unsigned rail_of_host(const char *host)
{
	struct in_addr in;

	return inet_pton(AF_INET, host, &in) == 1 ? ntohl(in.s_addr) >> 8 & 0xff : 0;
}

static struct fm_ctl *net_ctl_dial(struct fm_net *net, const struct fm_ctl_dial *dial)
{
	struct sim_net *n = net_of(net);
	struct sim *s = sim_of(n);
	struct fm_ctl *c = FM_FAULT("sim.ctl_dial") ? NULL : ctl_new(n);

	check_thread(n);
	if (!c)
		return NULL;
	c->dial = *dial;
	c->dial.host = NULL;		/* the caller's, and may be gone by then */
	c->events = dial->events;
	c->ctx = dial->ctx;
	c->target = find_host(s, dial->host);
	c->rail = rail_of_host(dial->host);
	(void)snprintf(c->peer, sizeof(c->peer), "%s", dial->host);
	sim_trace(s, "%s: dial %s", n->node->name, dial->host);
	if (!c->target)
		ctl_close_at(c, sim_now(s) + sim_latency(s, sim_opts(s)->net_ns), -ENOENT,
			     "no such host");
	else
		(void)sim_after(s, c->target->node->control, sim_latency(s, sim_opts(s)->net_ns),
				ctl_arrive, c);
	return c;
}

/* What may go wrong with a message that is about to be sent. */
static void ctl_maybe_fail(struct fm_ctl *c)
{
	struct sim *s = sim_of(c->net);

	if (sim_one_in(s, sim_faults(s)->ctl_cut))
		ctl_break(c);
	if (sim_one_in(s, sim_faults(s)->ctl_stuck) || (c->far && is_cut_off(c, c->far->net)))
		ctl_get_stuck(c);
}

static int net_ctl_send(struct fm_ctl *c, const uint8_t *msg, size_t len)
{
	struct parcel *p;

	check_thread(c->net);
	assert(!c->is_closed && len >= 1 && len <= FM_CTL_MSG_MAX);
	if (c->is_told)
		return -EPIPE;
	if (c->queued + len > FM_CTL_QUEUE_MAX)
		return -ENOBUFS;
	if (FM_FAULT("sim.ctl_send"))
		return -ENOMEM;
	ctl_maybe_fail(c);
	if (c->is_broken)
		return sim_one_in(sim_of(c->net), 2) ? -EPIPE : 0;
	c->queued += len;
	if (c->is_stuck)
		return 0;
	p = parcel_new(c, len);
	p->from = c;
	memcpy(p->bytes, msg, len);
	if (c->is_open)
		ctl_post(p, c->far);
	else
		fm_list_append(&c->early, &p->at);
	return 0;
}

static bool net_ctl_is_stuck(struct fm_ctl *c)
{
	return c->is_open && c->is_stuck && sim_now(sim_of(c->net)) > c->stuck_ns + 2 * SIM_S;
}

static size_t net_ctl_queued(const struct fm_ctl *c)
{
	return c->queued;
}

static void net_ctl_close(struct fm_ctl *c)
{
	if (!c)
		return;
	check_thread(c->net);
	assert(!c->is_closed);
	c->is_closed = true;
	if (c->far && !c->is_broken && !c->is_stuck)
		ctl_close_at(c->far, arrival_ns(c->far), -ECONNRESET, "closed by peer");
	c->is_broken = true;
}

static const char *net_ctl_peer(const struct fm_ctl *c)
{
	assert(!c->is_closed);
	return c->peer;
}

/* ---- addresses ---- */

static void address(struct sim *s, unsigned node, unsigned rail, struct fm_addr *a)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&a->sa;

	memset(a, 0, sizeof(*a));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(UINT32_C(0x0a000000) + (rail << 8) + node + 1);
	a->prefix_len = 24;
	a->is_rdma = rail < sim_opts(s)->rdma_rails;
	a->speed_mbps = 100000;
	(void)snprintf(a->name, sizeof(a->name), a->is_rdma ? "roce%u" : "eth%u", rail);
}

static unsigned rail_of(const struct fm_addr *a)
{
	return ntohl(((const struct sockaddr_in *)&a->sa)->sin_addr.s_addr) >> 8 & 0xff;
}

static unsigned node_of(const struct fm_addr *a)
{
	return (ntohl(((const struct sockaddr_in *)&a->sa)->sin_addr.s_addr) & 0xff) - 1;
}

static size_t net_addrs(struct fm_net *net, struct fm_addr *out, size_t max)
{
	struct sim_net *n = net_of(net);
	struct sim *s = sim_of(n);
	size_t count = 0;

	for (unsigned rail = 0; rail < sim_opts(s)->rails && count < max; rail++)
		if (!(n->gone_rails >> rail & 1))
			address(s, n->node->index, rail, &out[count++]);
	return count;
}

static bool net_has_addr(struct fm_net *net, const struct sockaddr_storage *sa)
{
	struct fm_addr all[FM_ADDRS_MAX];
	size_t count = net_addrs(net, all, sizeof(all) / sizeof(all[0]));

	for (size_t i = 0; i < count; i++)
		if (fm_network_is_same(&all[i].sa, sa))
			return true;
	return false;
}

static void net_ctl_addrs(const struct fm_ctl *c, struct fm_addr *local, struct fm_addr *remote)
{
	struct sim *s = sim_of(c->net);

	assert(!c->is_closed && c->far);
	address(s, c->net->node->index, c->rail, local);
	address(s, c->far->net->node->index, c->rail, remote);
}

static uint16_t net_data_port(struct fm_net *net, enum fm_kind kind, const char **why)
{
	const struct sim_opts *o = sim_opts(sim_of(net_of(net)));

	if (kind == FM_KIND_TCP && !o->is_tcp_off)
		return CTL_PORT;
	if (kind == FM_KIND_RDMA && o->rdma_rails > 0)
		return RDMA_PORT;
	*why = "the simulator has none";
	return 0;
}

/* ---- dialling data connections ---- */

struct dialling {
	struct fm_list half_made_at;	/* of the target, until it arrived */
	struct fm_list dial_at;		/* of the dialler, until it is done */
	struct fm_data_dial dial;
	struct sim_net *net, *target;
	struct sim_conn *ends[2];	/* the dialler's, the target's */
	void *tag;
	bool is_over;
	struct fm_err err;
};

/* Once; the dialler's net may have been stopped before the answer came. */
static bool dial_take(struct dialling *d)
{
	bool is_first = !d->is_over;

	d->is_over = true;
	fm_list_del(&d->dial_at);
	return is_first;
}

static void dial_failed(void *ctx)
{
	struct dialling *d = ctx;

	if (dial_take(d))
		d->dial.done(d->dial.ctx, d->err.code, NULL, &d->err);
}

static void dial_cancelled(void *ctx)
{
	struct dialling *d = ctx;
	struct fm_err err;

	(void)fm_err_set(&err, -ECANCELED, "the network is being stopped");
	d->dial.done(d->dial.ctx, -ECANCELED, NULL, &err);
}

static void dial_fail_at(struct dialling *d, uint64_t at_ns, int code, const char *why)
{
	(void)fm_err_set(&d->err, code, "%s", why);
	(void)sim_at(sim_of(d->net), d->net->node->control, at_ns, dial_failed, d);
}

static void dial_succeeded(void *ctx)
{
	struct dialling *d = ctx;

	if (dial_take(d))
		d->dial.done(d->dial.ctx, 0, sim_conn_base(d->ends[0]), NULL);
}

/* The dialler gave up before it heard: its end exists no more, the far one finds out. */
static void dial_was_late(void *ctx)
{
	struct dialling *d = ctx;
	struct fm_conn *conn = sim_conn_base(d->ends[0]);

	if (d->is_over)
		return;
	conn->ops->close(conn);
	(void)fm_err_set(&d->err, -ETIMEDOUT, "timed out");
	dial_failed(d);
}

static void dial_arrived(void *ctx)
{
	struct dialling *d = ctx;

	if (fm_list_is_empty(&d->half_made_at))	/* stopped in between */
		return;
	fm_list_del(&d->half_made_at);
	d->target->events->arrived(d->target->ctx, d->tag, sim_conn_base(d->ends[1]));
}

static void dial_did_not_arrive(void *ctx)
{
	struct dialling *d = ctx;

	if (fm_list_is_empty(&d->half_made_at))
		return;
	fm_list_del(&d->half_made_at);
	d->target->events->arrived(d->target->ctx, d->tag, NULL);
}

static bool is_reachable(struct dialling *d)
{
	const struct sim_opts *o = sim_opts(sim_of(d->net));
	unsigned from = rail_of(&d->dial.local), to = rail_of(&d->dial.remote);

	if (is_dead(d->net, from) || is_dead(d->target, to) || (from != to && !o->is_crossed))
		return false;
	return d->dial.kind == FM_KIND_TCP || (from < o->rdma_rails && to < o->rdma_rails);
}

/* The token was good. Either end may still hear first, and either may hear that it failed. */
static void dial_accept(struct dialling *d, struct fm_domain *domain)
{
	struct sim *s = sim_of(d->net);
	const struct sim_conn_pair_opts o = {
		.kind = d->dial.kind,
		.net = { d->net, d->target },
		.domain = { d->dial.domain, domain },
		.addr = { d->dial.local, d->dial.remote },
		.rail = { rail_of(&d->dial.local), rail_of(&d->dial.remote) },
	};
	uint64_t back_ns = sim_now(s) + sim_latency(s, sim_opts(s)->net_ns);
	uint64_t there_ns = sim_now(s) + sim_latency(s, sim_opts(s)->net_ns);
	bool is_failing = sim_one_in(s, sim_faults(s)->dial_refused);

	fm_list_append(&d->target->half_made, &d->half_made_at);
	if (is_failing)
		sim_fired(s, SIM_FIRED_NET);
	if (is_failing && sim_one_in(s, 2)) {
		(void)sim_at(s, d->target->node->control, there_ns, dial_did_not_arrive, d);
		dial_fail_at(d, back_ns, -ECONNRESET, "connection reset while it was made");
		return;
	}
	sim_conn_pair(&o, d->ends);
	(void)sim_at(s, d->target->node->control, there_ns, dial_arrived, d);
	(void)sim_at(s, d->net->node->control, back_ns, is_failing ? dial_was_late : dial_succeeded,
		     d);
}

/* At the target, in a pass of its control loop. */
static void dial_at_target(void *ctx)
{
	struct dialling *d = ctx;
	struct sim *s = sim_of(d->net);
	uint64_t back_ns = sim_now(s) + sim_latency(s, sim_opts(s)->net_ns);
	const char *why = NULL;
	struct fm_err full;
	struct fm_domain *domain;

	if (d->is_over)
		return;
	if (!is_reachable(d)) {
		if (sim_one_in(s, 2))
			dial_fail_at(d, back_ns, -EHOSTUNREACH, "no route to host");
		else
			dial_fail_at(d, sim_now(s) + d->dial.timeout_ns, -ETIMEDOUT, "timed out");
		return;
	}
	if (!is_listening(d->target) ||
	    d->dial.port != net_data_port(&d->target->net, d->dial.kind, &why) ||
	    sim_one_in(s, sim_faults(s)->dial_refused)) {
		sim_fired(s, SIM_FIRED_NET);
		dial_fail_at(d, back_ns, -ECONNREFUSED, "refused");
		return;
	}
	domain = d->target->events->token(d->target->ctx, d->dial.token, d->dial.kind, NULL,
					  &d->tag, &full);
	if (!domain) {
		sim_trace(s, "%s: token refused", d->target->node->name);
		dial_fail_at(d, back_ns, -EACCES, "token refused");
		return;
	}
	dial_accept(d, domain);
}

static int net_data_dial(struct fm_net *net, const struct fm_data_dial *dial)
{
	struct sim_net *n = net_of(net);
	struct sim *s = sim_of(n);
	struct dialling *d = sim_alloc(s, sizeof(*d));

	check_thread(n);
	assert(dial->timeout_ns > 0 && !dial->domain->is_freed && dial->domain->net == n);
	assert(node_of(&dial->local) == n->node->index);
	d->dial = *dial;
	d->net = n;
	fm_list_init(&d->half_made_at);
	fm_list_append(&n->dials, &d->dial_at);
	if (node_of(&dial->remote) >= sim_opts(s)->nodes ||
	    rail_of(&dial->remote) >= sim_opts(s)->rails) {
		/* nobody has that address */
		dial_fail_at(d, sim_now(s) + dial->timeout_ns, -ETIMEDOUT, "timed out");
		return 0;
	}
	d->target = sim_net_world(s)->nets[node_of(&dial->remote)];
	(void)sim_after(s, d->target->node->control, sim_latency(s, sim_opts(s)->net_ns),
			dial_at_target, d);
	return 0;
}

static int net_domain_new(struct fm_net *net, struct fm_domain **out, struct fm_err *err)
{
	struct sim_net *n = net_of(net);
	struct fm_domain *d = sim_alloc(sim_of(n), sizeof(*d));

	check_thread(n);
	if (FM_FAULT("sim.domain_new"))
		return fm_err_set(err, -ENOMEM, "allocate a domain");
	d->net = n;
	sim_net_world(sim_of(n))->domains++;
	*out = d;
	return 0;
}

static void net_domain_free(struct fm_domain *d)
{
	if (!d)
		return;
	check_thread(d->net);
	assert(!d->is_freed && d->conns == 0);
	d->is_freed = true;
	sim_net_world(sim_of(d->net))->domains--;
}

/* The dialler's net is being stopped. */
static void dial_cancel(struct dialling *d)
{
	d->is_over = true;
	if (d->ends[0])
		sim_conn_base(d->ends[0])->ops->close(sim_conn_base(d->ends[0]));
	(void)sim_after(sim_of(d->net), d->net->node->control, 0, dial_cancelled, d);
}

/* ---- the node's network ---- */

static int net_start(struct fm_net *net, const struct fm_net_events *events, void *ctx,
		     struct fm_err *err)
{
	struct sim_net *n = net_of(net);

	check_thread(n);
	assert(!n->events);
	if (FM_FAULT("sim.start"))
		return fm_err_set(err, -EADDRINUSE, "listen: the address is in use");
	n->events = events;
	n->ctx = ctx;
	return 0;
}

static void net_stop(struct fm_net *net)
{
	struct sim_net *n = net_of(net);
	struct fm_list *link;

	check_thread(n);
	n->events = NULL;
	while ((link = fm_list_pop(&n->half_made))) {
		struct sim_conn *end =
			fm_container_of(link, struct dialling, half_made_at)->ends[1];

		if (end)
			sim_conn_base(end)->ops->close(sim_conn_base(end));
	}
	while ((link = fm_list_pop(&n->dials)))
		dial_cancel(fm_container_of(link, struct dialling, dial_at));
}

static const struct fm_net_ops net_ops = {
	.start = net_start,
	.stop = net_stop,
	.ctl_dial = net_ctl_dial,
	.ctl_send = net_ctl_send,
	.ctl_is_stuck = net_ctl_is_stuck,
	.ctl_queued = net_ctl_queued,
	.ctl_close = net_ctl_close,
	.ctl_peer = net_ctl_peer,
	.addrs = net_addrs,
	.has_addr = net_has_addr,
	.ctl_addrs = net_ctl_addrs,
	.data_port = net_data_port,
	.data_dial = net_data_dial,
	.domain_new = net_domain_new,
	.domain_free = net_domain_free,
};

struct fm_net *sim_net_new(struct sim_node *node)
{
	struct sim_net *n = sim_alloc(node->sim, sizeof(*n));

	n->net.ops = &net_ops;
	fm_list_init(&n->half_made);
	fm_list_init(&n->dials);
	n->node = node;
	sim_net_world(node->sim)->nets[node->index] = n;
	return &n->net;
}

/* Of what there is over these nothing arrives any more, and nobody is told yet. */
static void lose(struct sim_net *n, unsigned rails)
{
	fm_list_each(at, next, &sim_net_world(n->node->sim)->ctls) {
		struct fm_ctl *c = fm_container_of(at, struct fm_ctl, at);

		if (c->net == n && !c->is_closed && rails >> c->rail & 1)
			ctl_get_stuck(c);
	}
	sim_conn_isolate(n, rails);
}

void sim_net_isolate(struct sim_node *node, bool is_isolated)
{
	struct sim_net *n = sim_net_world(node->sim)->nets[node->index];

	sim_trace(node->sim, "%s is %s", node->name, is_isolated ? "isolated" : "connected again");
	sim_fired(node->sim, SIM_FIRED_NET);
	n->is_isolated = is_isolated;
	if (is_isolated)
		lose(n, SIM_ALL_RAILS);
}

static void tell_change(void *ctx)
{
	const struct sim_net *n = ctx;

	if (n->events && n->events->changed)
		n->events->changed(n->ctx);
}

void sim_net_cut_cable(struct sim_node *node, unsigned rail, enum sim_cable what)
{
	struct sim_net *n = sim_net_world(node->sim)->nets[node->index];
	unsigned bit = 1u << rail;

	sim_trace(node->sim, "%s: cable %u %s", node->name, rail,
		  what == SIM_CABLE_WHOLE    ? "is whole"
		  : what == SIM_CABLE_PULLED ? "is pulled"
					     : "loses everything");
	sim_fired(node->sim, SIM_FIRED_NET);
	n->dead_rails = what == SIM_CABLE_WHOLE ? n->dead_rails & ~bit : n->dead_rails | bit;
	n->gone_rails = what == SIM_CABLE_PULLED ? n->gone_rails | bit : n->gone_rails & ~bit;
	if (what != SIM_CABLE_WHOLE)
		lose(n, bit);
	if (what != SIM_CABLE_LOSES)
		(void)sim_after(node->sim, node->control, 0, tell_change, n);
}

/* ---- crashes ---- */

/* All of what was sent to c and has not arrived, the last part of it, or nothing. */
static uint64_t lost_from(struct fm_ctl *c)
{
	struct sim *s = sim_of(c->net);
	uint64_t now_ns = sim_now(s), last_ns = c->last_ns > now_ns ? c->last_ns : now_ns;

	switch (sim_below(s, 3)) {
	case 0:
		return now_ns;
	case 1:
		return now_ns + sim_below(s, last_ns - now_ns);
	default:
		return last_ns + 1;
	}
}

static void ctl_die(struct fm_ctl *c)
{
	struct sim *s = sim_of(c->net);
	struct fm_ctl *far = c->far;

	c->is_broken = true;
	if (!far || far->is_closed || far->is_told)
		return;
	far->deaf_ns = lost_from(far);
	if (c->net->node->death == SIM_POWER_CUT)
		c->is_stuck = far->is_stuck = true;
	else
		ctl_reset_at(far, far->deaf_ns + sim_latency(s, sim_opts(s)->net_ns),
			     sim_one_in(s, 2));
}

void sim_net_die(struct sim_node *node)
{
	struct sim_net *n = sim_net_world(node->sim)->nets[node->index];

	fm_list_each(at, next, &sim_net_world(node->sim)->ctls) {
		struct fm_ctl *c = fm_container_of(at, struct fm_ctl, at);

		if (c->net == n && !c->is_closed)
			ctl_die(c);
	}
	sim_conn_die(n);
}

unsigned sim_net_left(const struct sim_node *node)
{
	const struct sim_net *n = sim_net_world(node->sim)->nets[node->index];
	unsigned left =
		sim_conn_left(n) + !fm_list_is_empty(&n->half_made) + !fm_list_is_empty(&n->dials);

	fm_list_each(at, next, &sim_net_world(node->sim)->ctls) {
		const struct fm_ctl *c = fm_container_of(at, struct fm_ctl, at);

		left += c->net == n && !c->is_closed;
	}
	return left;
}

/* The machine knows nothing of the connections that its peers still have: whoever sends over one is
 * told so. */
void sim_net_boot(struct sim_node *node)
{
	const struct sim_net *n = sim_net_world(node->sim)->nets[node->index];

	fm_list_each(at, next, &sim_net_world(node->sim)->ctls) {
		struct fm_ctl *c = fm_container_of(at, struct fm_ctl, at);

		if (c->far && c->far->net == n && c->deaf_ns && !c->is_closed && !c->is_told &&
		    sim_one_in(node->sim, 2))
			ctl_reset_at(c, sim_now(node->sim) + sim_below(node->sim, 3 * SIM_S), true);
	}
}

static bool is_live(const struct fm_ctl *c)
{
	return !c->is_closed && !c->is_broken && !c->is_stuck && c->far && !c->far->is_closed;
}

void sim_net_cut_ctl(struct sim *s)
{
	struct fm_ctl *found = NULL;
	unsigned seen = 0;

	fm_list_each(at, next, &sim_net_world(s)->ctls) {
		struct fm_ctl *c = fm_container_of(at, struct fm_ctl, at);

		if (is_live(c) && sim_below(s, ++seen) == 0)
			found = c;
	}
	if (found)
		ctl_break(found);
}

void sim_net_counts(struct sim *s, struct sim_net_counts *out)
{
	const struct sim_net_world *w = sim_net_world(s);

	*out = (struct sim_net_counts){
		.domains = w->domains, .flips = w->flips, .overruns = w->overruns};
	fm_list_each(at, next, &sim_net_world(s)->ctls)
		out->ctls += !fm_container_of(at, struct fm_ctl, at)->is_closed;
	sim_conn_counts(s, out);
}
