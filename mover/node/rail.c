/* SPDX-License-Identifier: MIT */
/* rail - see rail.h. */
#include "mover/node/rail.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/network.h"
#include "mover/base/plain.h"
#include "mover/data/flow.h"
#include "mover/node/service.h"
#include "mover/node/session.h"
#include "mover/node/tuning.h"

#define LINGERING_MAX 32		/* connections that are gone, whose I/O is not */
#define DIAL_TIMEOUT_NS (3 * FM_NS_PER_S)
/*
 * A machine under load may answer later than that, and always. So a pair that is likely to work
 * gets twice the time after each dial that nobody answered in time, up to this: the peer gives up
 * what it accepts after 10 s.
 */
#define DIAL_TIMEOUT_MAX_NS (9 * FM_NS_PER_S)
/*
 * Pauses double, up to these. They are short for a pair that is likely to work: a dial that fails
 * costs nothing but its ports' time. They are long after a rail that broke young: each time it
 * comes back in vain, transfers lose seconds.
 */
#define PAUSE_MIN_NS (500 * FM_NS_PER_MS)
#define DIAL_PAUSE_MAX_NS (4 * FM_NS_PER_S)
#define UNLIKELY_PAUSE_MAX_NS (30 * FM_NS_PER_S)
#define UNLIKELY_WAIT_NS (30 * FM_NS_PER_S)
#define BREAK_PAUSE_MAX_NS (30 * FM_NS_PER_S)
/* pauses begin anew for a rail whose addresses come back, but not more often */
#define BACK_AGAIN_NS (5 * FM_NS_PER_S)
/* a rail that lasted this long is tried again at once when it breaks */
#define STABLE_NS (20 * FM_NS_PER_S)
#define LOOK_NS (2 * FM_NS_PER_S)	/* how often our own addresses are looked at */
#define TOKEN_LIFE_NS (30 * FM_NS_PER_S)
/*
 * How long after the session came up, or fm_rail_await(), a job waits for RDMA before it takes TCP;
 * for TCP also after it is made anew.
 */
#define MAY_COME_NS (4 * FM_NS_PER_S)

static struct fm_net *net_of(const struct fm_session *s)
{
	return s->engine->env.net;
}

/* ---- addresses ---- */

static void to_wire(const struct fm_addr *a, struct fm_wire_addr *w)
{
	size_t len;
	const uint8_t *ip = fm_network_ip(&a->sa, &len);

	*w = (struct fm_wire_addr){ .family = len == 4 ? 4 : 6,
				    .prefix_len = a->prefix_len,
				    .is_rdma = a->is_rdma,
				    .private_bits = a->private_bits,
				    .speed_mbps = a->speed_mbps };
	memcpy(w->address, ip, len);
	(void)snprintf(w->name, sizeof(w->name), "%s", a->name);
}

static void from_wire(const struct fm_wire_addr *w, struct fm_addr *a)
{
	*a = (struct fm_addr){ .prefix_len = w->prefix_len,
			       .private_bits = w->private_bits,
			       .is_rdma = w->is_rdma,
			       .speed_mbps = w->speed_mbps };
	(void)fm_plain(w->name, strlen(w->name), a->name, sizeof(a->name));
	if (w->family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)&a->sa;

		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, w->address, 4);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a->sa;

		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, w->address, 16);
	}
}

static bool is_same_ip(const struct fm_addr *a, const struct fm_addr *b)
{
	return fm_network_is_same(&a->sa, &b->sa);
}

static bool is_same_subnet(const struct fm_addr *a, const struct fm_addr *b)
{
	return fm_network_is_shared(&a->sa, &b->sa, a->prefix_len);
}

/* Whether the address is link-local. All such are in one subnet, whatever cable they are at. */
static bool is_link_local(const struct fm_addr *a)
{
	size_t len;
	const uint8_t *ip = fm_network_ip(&a->sa, &len);

	return len == 16 && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)ip);
}

static bool is_same_port(const struct fm_addr *a, const struct fm_addr *b)
{
	return is_same_ip(a, b) || (a->name[0] && strcmp(a->name, b->name) == 0);
}

static void our_addrs(struct fm_session *s, struct fm_wire_addrs *out)
{
	struct fm_addr addr[FM_ADDRS_MAX];
	const char *why;
	size_t n = net_of(s)->ops->addrs(net_of(s), addr, FM_ADDRS_MAX);

	_Static_assert(FM_ADDRS_MAX == FM_WIRE_ADDRS_MAX, "a full list of ours is full there");
	memset(out, 0, sizeof(*out));	/* it is compared byte by byte */
	out->tcp_port = net_of(s)->ops->data_port(net_of(s), FM_KIND_TCP, &why);
	out->rdma_port = net_of(s)->ops->data_port(net_of(s), FM_KIND_RDMA, &why);
	out->count = (uint16_t)n;
	for (size_t i = 0; i < n; i++)
		to_wire(&addr[i], &out->addr[i]);
}

void fm_rail_send_addrs(struct fm_session *s)
{
	struct fm_wire_msg m = { .type = FM_WIRE_ADDRS };

	our_addrs(s, &m.addrs);
	s->rails.sent = m.addrs;
	s->rails.looked_ns = fm_engine_now(s->engine);
	fm_session_send(s, &m);
}

/* ---- which pairs to try ---- */

static bool is_pair(const struct fm_rail *rail, enum fm_kind kind, const struct fm_addr *local,
		    const struct fm_addr *remote)
{
	return rail->kind == kind && is_same_ip(&rail->local, local) &&
	       is_same_ip(&rail->remote, remote);
}

/*
 * Where this pair is, or may go: connections know their rail by its number, so only a place that
 * nobody uses is used again. A new place comes first: what is known of a pair is known when it
 * comes back. NULL: none is left.
 */
static struct fm_rail *find_place(struct fm_rails *r, enum fm_kind kind,
				  const struct fm_addr *local, const struct fm_addr *remote)
{
	struct fm_rail *free_place = NULL;

	for (unsigned i = 0; i < r->count; i++) {
		struct fm_rail *rail = &r->rail[i];

		if (is_pair(rail, kind, local, remote))
			return rail;
		if (!free_place && !rail->is_listed && rail->up + rail->dialling == 0)
			free_place = rail;
	}
	if (r->count < FM_RAILS_MAX)
		free_place = &r->rail[r->count];
	return free_place;
}

/*
 * The cable works again, so the pauses begin anew. They do not if it came back a moment ago: a
 * cable that comes and goes all the time is still broken.
 */
static void come_back(struct fm_rail *rail, uint64_t now_ns)
{
	rail->is_gone = false;
	if (rail->back_ns && now_ns < rail->back_ns + BACK_AGAIN_NS)
		return;
	rail->back_ns = rail->retry_ns = now_ns;
	rail->dial_pause_ns = rail->break_pause_ns = PAUSE_MIN_NS;
	rail->dial_timeout_ns = DIAL_TIMEOUT_NS;
}

static void add_rail(struct fm_session *s, enum fm_kind kind, const struct fm_addr *local,
		     const struct fm_addr *remote)
{
	struct fm_rails *r = &s->rails;
	struct fm_rail *rail = find_place(r, kind, local, remote);

	if (!rail || local->sa.ss_family != remote->sa.ss_family)
		return;
	if (rail < &r->rail[r->count] && is_pair(rail, kind, local, remote)) {
		if (rail->is_gone)
			come_back(rail, fm_engine_now(s->engine));
		rail->is_listed = true;		/* it was there already, with what is known of it */
		rail->local.speed_mbps = local->speed_mbps;
		rail->remote.speed_mbps = remote->speed_mbps;
		return;
	}
	if (rail == &r->rail[r->count])
		r->count++;
	*rail = (struct fm_rail){.local = *local,
				 .remote = *remote,
				 .kind = kind,
				 .retry_ns = fm_engine_now(s->engine),
				 .dial_pause_ns = PAUSE_MIN_NS,
				 .dial_timeout_ns = DIAL_TIMEOUT_NS,
				 .break_pause_ns = PAUSE_MIN_NS,
				 .is_listed = true,
				 .is_likely =
					 is_same_subnet(local, remote) && !is_link_local(local)};
	/* A link-local address means something on one link only: ours. */
	if (local->sa.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&rail->remote.sa)->sin6_scope_id =
			((const struct sockaddr_in6 *)&local->sa)->sin6_scope_id;
}

/* Pairs of one subnet first: they are the cables. */
static void add_rdma(struct fm_session *s, const struct fm_addr *local, size_t n)
{
	struct fm_rails *r = &s->rails;
	struct fm_addr remote;

	for (unsigned pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n; i++) {
			for (unsigned j = 0; local[i].is_rdma && j < r->remote.count; j++) {
				from_wire(&r->remote.addr[j], &remote);
				if (remote.is_rdma &&
				    is_same_subnet(&local[i], &remote) == (pass == 0))
					add_rail(s, FM_KIND_RDMA, &local[i], &remote);
			}
		}
	}
}

static uint32_t fastest(const struct fm_addr *local, size_t n)
{
	uint32_t best = 0;

	for (size_t i = 0; i < n; i++)
		best = local[i].speed_mbps > best ? local[i].speed_mbps : best;
	return best;
}

/*
 * Fills in the speeds of the two ends of the control connection. It knows only their addresses, so
 * the speeds come from the address lists of the two nodes.
 */
static void find_speeds(const struct fm_rails *r, const struct fm_addr *mine, size_t n,
			struct fm_addr *local, struct fm_addr *remote)
{
	struct fm_addr theirs;

	for (size_t i = 0; i < n; i++)
		if (is_same_ip(&mine[i], local))
			local->speed_mbps = mine[i].speed_mbps;
	for (unsigned i = 0; i < r->remote.count; i++) {
		from_wire(&r->remote.addr[i], &theirs);
		if (is_same_ip(&theirs, remote))
			remote->speed_mbps = theirs.speed_mbps;
	}
}

/*
 * Adds the TCP rails: the way of the control connection, because it works, and every other pair in
 * one subnet that is not much slower than the fastest port.
 */
static void add_tcp(struct fm_session *s, const struct fm_addr *local, size_t n)
{
	struct fm_rails *r = &s->rails;
	struct fm_addr ctl_local = { .prefix_len = 0 }, ctl_remote = { .prefix_len = 0 }, remote;
	uint32_t best = fastest(local, n);

	net_of(s)->ops->ctl_addrs(fm_line_ctl(s), &ctl_local, &ctl_remote);
	find_speeds(r, local, n, &ctl_local, &ctl_remote);
	add_rail(s, FM_KIND_TCP, &ctl_local, &ctl_remote);
	if (fm_network_is_loopback(&ctl_remote.sa))
		return;
	for (size_t i = 0; i < n; i++) {
		if (is_same_port(&local[i], &ctl_local) ||
		    (local[i].speed_mbps && local[i].speed_mbps < best / FM_SLOWEST_SHARE))
			continue;
		for (unsigned j = 0; j < r->remote.count; j++) {
			from_wire(&r->remote.addr[j], &remote);
			if (!is_same_ip(&remote, &ctl_remote) && is_same_subnet(&local[i], &remote))
				add_rail(s, FM_KIND_TCP, &local[i], &remote);
		}
	}
}

/*
 * Lists every pair of the present addresses. A pair that is gone keeps the connections it has and
 * gets no new ones.
 */
static void list_rails(struct fm_session *s)
{
	struct fm_addr local[FM_ADDRS_MAX];
	struct fm_rails *r = &s->rails;
	const char *why;
	size_t n;

	if (!fm_line_ctl(s))
		return;		/* fm_rail_session_moved() comes back to it */
	r->is_stale = false;
	for (unsigned i = 0; i < r->count; i++)
		r->rail[i].is_listed = false;
	n = net_of(s)->ops->addrs(net_of(s), local, FM_ADDRS_MAX);
	if (r->remote.rdma_port && net_of(s)->ops->data_port(net_of(s), FM_KIND_RDMA, &why))
		add_rdma(s, local, n);
	if (r->remote.tcp_port && net_of(s)->ops->data_port(net_of(s), FM_KIND_TCP, &why))
		add_tcp(s, local, n);
	for (unsigned i = 0; i < r->count; i++)
		r->rail[i].is_gone |= !r->rail[i].is_listed;
	fm_rail_step(s);
}

/* ---- which networks are private ---- */

/* Whether the peer accepts plain TCP from us between these two addresses. */
static bool is_plain_there(const struct fm_rails *r, const struct fm_rail *rail)
{
	struct fm_addr remote;

	for (unsigned i = 0; i < r->remote.count; i++) {
		from_wire(&r->remote.addr[i], &remote);
		if (remote.private_bits && is_same_ip(&remote, &rail->remote))
			return fm_network_is_shared(&remote.sa, &rail->local.sa,
						    remote.private_bits);
	}
	return false;
}

static const struct fm_wire_addr *addr_of(const struct fm_wire_addrs *all,
					  const struct fm_wire_addr *wanted)
{
	for (unsigned i = 0; i < all->count; i++)
		if (all->addr[i].family == wanted->family &&
		    memcmp(all->addr[i].address, wanted->address, sizeof(wanted->address)) == 0)
			return &all->addr[i];
	return NULL;
}

/* Whether any address in both lists is in another private network than before, or has left one. */
static bool is_other_privacy(const struct fm_wire_addrs *before, const struct fm_wire_addrs *now)
{
	for (unsigned i = 0; i < before->count; i++) {
		const struct fm_wire_addr *same = addr_of(now, &before->addr[i]);

		if (same && same->private_bits != before->addr[i].private_bits)
			return true;
	}
	return false;
}

/*
 * Closes the TCP connections, so that they are made anew by the present configurations. Chunks
 * under way are sent again.
 */
static void renew_tcp(struct fm_session *s)
{
	s->rails.renewals++;
	s->rails.renewed_ns = fm_engine_now(s->engine);
	for (unsigned i = 0; i < s->rails.count; i++) {
		struct fm_rail *rail = &s->rails.rail[i];

		rail->needs_tls = false;
		rail->is_renewing = rail->kind == FM_KIND_TCP && rail->up > 0;
	}
	fm_list_each(at, next, &s->flows) {
		struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);

		if (f->kind == FM_KIND_TCP && !f->info.is_loopback)
			fm_flow_close(f);
	}
}

static bool addr_text(const struct fm_wire_addr *wire, char text[INET6_ADDRSTRLEN])
{
	return inet_ntop(wire->family == 4 ? AF_INET : AF_INET6, wire->address, text,
			 INET6_ADDRSTRLEN);
}

/* The address that a connection shows. False: it shows none. */
static bool from_text(const char *shown, struct fm_wire_addr *out)
{
	char ip[INET6_ADDRSTRLEN];

	(void)snprintf(ip, sizeof(ip), "%.*s", (int)strcspn(shown, "%"), shown);
	*out = (struct fm_wire_addr){ .family = strchr(ip, ':') ? 6 : 4 };
	return inet_pton(out->family == 4 ? AF_INET : AF_INET6, ip, out->address) == 1;
}

static bool is_here(struct fm_session *s, const struct fm_wire_addr *wire)
{
	struct fm_addr own;

	from_wire(wire, &own);
	return net_of(s)->ops->has_addr(net_of(s), &own.sa);
}

/*
 * TCP itself would wait half a minute. Of the peer we have only its list: one that is full may have
 * no room for an address that is well. Then what nothing comes back over ends for that.
 */
void fm_rail_check_flow(struct fm_session *s, struct fm_flow *f)
{
	const struct fm_wire_addrs *listed = &s->rails.remote;
	struct fm_wire_addr local, remote;
	bool is_local_here, is_remote_there;

	if (f->kind != FM_KIND_TCP || !from_text(f->info.local_addr, &local) ||
	    !from_text(f->info.remote_addr, &remote))
		return;
	is_local_here = is_here(s, &local);
	is_remote_there = addr_of(listed, &remote);
	if (f->was_here && !is_local_here)
		fm_flow_cut(f, "its address or its carrier is gone here");
	else if (f->was_there && !is_remote_there && listed->count < FM_WIRE_ADDRS_MAX)
		fm_flow_cut(f, "its address or its carrier is gone there");
	f->was_here |= is_local_here;
	f->was_there |= is_remote_there;
}

static void check_flows(struct fm_session *s)
{
	fm_list_each(at, next, &s->flows)
		fm_rail_check_flow(s, fm_container_of(at, struct fm_flow, owner_at));
}

static void tell_line_gone(struct fm_session *s, const struct fm_wire_addrs *before)
{
	struct fm_addr gone;

	for (unsigned i = 0; i < before->count; i++) {
		if (is_here(s, &before->addr[i]))
			continue;
		from_wire(&before->addr[i], &gone);
		fm_line_address_gone(s, &gone);
	}
}

static void tell_line(struct fm_session *s, const struct fm_wire_addrs *now)
{
	struct fm_addr there;

	for (unsigned i = 0; i < now->count; i++) {
		from_wire(&now->addr[i], &there);
		fm_line_address_there(s, &there);
	}
}

void fm_rail_await(struct fm_session *s, enum fm_kind kind)
{
	s->rails.await_ns[kind] = fm_engine_now(s->engine);
}

static void look_for_new(struct fm_session *s, const struct fm_wire_addrs *before,
			 const struct fm_wire_addrs *now)
{
	for (unsigned i = 0; i < now->count; i++) {
		if (addr_of(before, &now->addr[i]))
			continue;
		fm_rail_await(s, FM_KIND_TCP);
		if (now->addr[i].is_rdma)
			fm_rail_await(s, FM_KIND_RDMA);
	}
}

void fm_rail_session_moved(struct fm_session *s, const struct fm_addr *old_local,
			   const struct fm_addr *old_remote, const struct fm_addr *local,
			   const struct fm_addr *remote)
{
	struct fm_wire_addr from, to;
	char from_text[INET6_ADDRSTRLEN], to_text[INET6_ADDRSTRLEN];

	to_wire(old_local, &from);
	to_wire(old_remote, &to);
	if ((!is_same_ip(old_local, local) || !is_same_ip(old_remote, remote)) &&
	    addr_text(&from, from_text) && addr_text(&to, to_text)) {
		fm_list_each(at, next, &s->flows) {
			struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);

			if (f->kind == FM_KIND_TCP &&
			    fm_conn_is_address(f->info.local_addr, from_text) &&
			    fm_conn_is_address(f->info.remote_addr, to_text))
				fm_flow_cut(f, "nothing came back over it, and the session had to "
					       "leave it: "
					       "is this cable plugged in at both ends?");
		}
	}
	fm_rail_await(s, FM_KIND_TCP);
	if (s->is_dialler && s->rails.is_known)
		list_rails(s);
}

void fm_rail_on_addrs(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_addrs *m = &msg->addrs;

	if (s->rails.is_known)
		look_for_new(s, &s->rails.remote, m);
	if (s->rails.is_known && is_other_privacy(&s->rails.remote, m)) {
		fm_session_log(s, FM_LOG_INFO,
			       "%s: private_networks changed there; TCP connections are made anew",
			       s->name);
		renew_tcp(s);
	}
	/* The first are dialled at once. Later ones wait for the tick: however often they change,
	 * they are looked at twice a second. */
	s->rails.is_stale = s->rails.is_known;
	s->rails.remote = *m;
	s->rails.is_known = true;
	check_flows(s);
	if (s->peer)
		fm_peer_learn(s->peer, m);
	if (s->is_dialler && !s->rails.is_stale)
		list_rails(s);
	if (!s->is_closed)
		fm_services_session_changed(s->engine, s);
}

void fm_rail_look(struct fm_session *s)
{
	s->rails.looked_ns = 0;
}

void fm_rail_tick(struct fm_session *s, uint64_t now_ns)
{
	struct fm_rails *r = &s->rails;
	struct fm_wire_addrs now;

	if (!s->is_up || s->is_closed)
		return;
	if (s->is_dialler && r->is_stale)
		list_rails(s);
	if (s->is_closed || now_ns < r->looked_ns + LOOK_NS)
		return;
	r->looked_ns = now_ns;
	check_flows(s);
	our_addrs(s, &now);
	if (memcmp(&now, &r->sent, sizeof(now)) == 0)
		return;
	fm_log_info("our addresses changed: %s is told", s->name);
	tell_line_gone(s, &r->sent);
	tell_line(s, &now);
	look_for_new(s, &r->sent, &now);
	if (is_other_privacy(&r->sent, &now))
		renew_tcp(s);
	fm_rail_send_addrs(s);
	if (!s->is_closed && s->is_dialler && r->is_known)
		list_rails(s);
}

/* ---- tokens ---- */

void fm_rail_on_tokens_want(struct fm_session *s, const struct fm_wire_msg *msg)
{
	struct fm_wire_msg m = { .type = FM_WIRE_TOKENS };
	uint64_t now_ns = fm_engine_now(s->engine);

	/* The oldest make room: whoever asks for more than it can use loses those that it did not
	 * use. */
	while (m.tokens.count < msg->tokens.count) {
		struct fm_token *t = &s->tokens[s->next_token++ % FM_SESSION_TOKENS_MAX];

		s->engine->env.random->fill(s->engine->env.random->ctx, t->token, FM_TOKEN_LEN);
		t->until_ns = now_ns + TOKEN_LIFE_NS;
		memcpy(m.tokens.token[m.tokens.count++], t->token, FM_TOKEN_LEN);
	}
	fm_session_send(s, &m);
}

void fm_rail_on_tokens(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_tokens *m = &msg->tokens;
	struct fm_rails *r = &s->rails;

	if (!r->is_asking) {
		fm_session_protocol_error(s, "TOKENS that nobody asked for");
		return;
	}
	r->is_asking = false;
	memcpy(r->tokens, m->token, sizeof(r->tokens));
	r->token_count = m->count;
	fm_rail_step(s);
	/* Each is good for 30 s; what is not used at once is asked for again. */
	r->token_count = 0;
}

/* ---- making connections ---- */

struct dial {
	struct fm_session *session;
	unsigned rail;
	unsigned renewals;		/* of the session when it began */
};

/* The speed of the slower end. Where one end's speed is not known, that of the other end. */
static uint32_t link_mbps(const struct fm_rail *rail)
{
	uint32_t here = rail->local.speed_mbps, there = rail->remote.speed_mbps;

	return here && (here < there || !there) ? here : there;
}

/*
 * How many connections this rail should have. The node that allows fewer decides: it has no lanes
 * or slabs for more.
 */
static unsigned full(const struct fm_session *s, const struct fm_rail *rail)
{
	const struct fm_engine_opts *o = &s->engine->o;
	unsigned ours = rail->kind == FM_KIND_RDMA ? o->rdma_conns : o->tcp_conns,
		 theirs = s->conns_there[rail->kind];

	if (theirs && theirs < ours)
		ours = theirs;
	return rail->kind == FM_KIND_TCP && o->is_link_counted
		       ? fm_tuning_link_conns(ours, link_mbps(rail))
		       : ours;
}

static unsigned wanted(const struct fm_session *s, const struct fm_rail *rail)
{
	return rail->has_worked ? full(s, rail) : 1;	/* the first one shows whether it works */
}

static bool has_port_in_common(const struct fm_rail *a, const struct fm_rail *b)
{
	return a != b && a->kind == b->kind &&
	       (is_same_port(&a->local, &b->local) || is_same_port(&a->remote, &b->remote));
}

/* Whether another pair uses a port of this pair, or dials with it. */
static bool is_taken(const struct fm_rails *r, const struct fm_rail *rail)
{
	for (unsigned i = 0; i < r->count; i++)
		if (r->rail[i].up + r->rail[i].dialling > 0 &&
		    has_port_in_common(&r->rail[i], rail))
			return true;
	return false;
}

static bool is_port_up(const struct fm_rails *r, const struct fm_rail *rail)
{
	for (unsigned i = 0; i < r->count; i++)
		if (r->rail[i].up > 0 && has_port_in_common(&r->rail[i], rail))
			return true;
	return false;
}

/*
 * The time from which it is this pair's turn. A pair that is not likely to work lets others go
 * first for a while, but not for ever.
 */
static uint64_t turn_ns(const struct fm_rail *rail)
{
	return rail->retry_ns + (rail->is_likely ? 0 : UNLIKELY_WAIT_NS);
}

/*
 * Whether a port of this pair should be left to another pair that is due. A dial that leads nowhere
 * keeps both ports for seconds, and more pairs lead nowhere than there are cables. The port is left
 * to the other pair even while one of its ports still dials.
 */
static bool is_anothers_turn(const struct fm_rails *r, const struct fm_rail *rail, uint64_t now_ns)
{
	for (unsigned i = 0; i < r->count; i++) {
		const struct fm_rail *o = &r->rail[i];

		if (o->is_listed && now_ns >= o->retry_ns && turn_ns(o) < turn_ns(rail) &&
		    has_port_in_common(o, rail) && !is_port_up(r, o))
			return true;
	}
	return false;
}

static uint64_t longer(uint64_t pause_ns, uint64_t max_ns)
{
	return pause_ns * 2 < max_ns ? pause_ns * 2 : max_ns;
}

/* Whether the configurations changed after this connection was dialled. */
static bool is_outdated(const struct dial *d, const struct fm_conn *conn)
{
	const struct fm_conn_info *info = conn->ops->info(conn);

	return info->kind == FM_KIND_TCP && !info->is_loopback &&
	       d->renewals != d->session->rails.renewals;
}

static void dial_failed(struct fm_session *s, struct fm_rail *rail, int res)
{
	rail->has_worked = rail->up > 0;
	rail->needs_tls |= res == -EOPNOTSUPP;
	if (res == -ETIMEDOUT && rail->is_likely)
		rail->dial_timeout_ns = longer(rail->dial_timeout_ns, DIAL_TIMEOUT_MAX_NS);
	rail->retry_ns = fm_engine_now(s->engine) + rail->dial_pause_ns;
	rail->dial_pause_ns = longer(rail->dial_pause_ns,
				     rail->is_likely ? DIAL_PAUSE_MAX_NS : UNLIKELY_PAUSE_MAX_NS);
}

static void dial_done(void *ctx, int res, struct fm_conn *conn, const struct fm_err *err)
{
	struct dial *d = ctx;
	struct fm_session *s = d->session;
	struct fm_rails *r = &s->rails;
	struct fm_rail *rail = &r->rail[d->rail];

	rail->dialling--;
	r->dialling--;
	if (conn && (s->is_closed || is_outdated(d, conn))) {
		conn->ops->close(conn);
	} else if (conn) {
		if (rail->up++ == 0)
			rail->up_ns = fm_engine_now(s->engine);
		rail->has_worked = true;
		rail->is_likely = true;
		rail->dial_pause_ns = PAUSE_MIN_NS;
		if (fm_session_add_flow(s, conn, (int)d->rail) < 0)
			fm_rail_down(s, (int)d->rail);
	} else {
		fm_log_debug("%s: no %s connection over %s: %s", s->name,
			     rail->kind == FM_KIND_RDMA ? "RDMA" : "TCP", rail->local.name,
			     err->text);
		(void)snprintf(r->last_error[rail->kind], sizeof(r->last_error[0]), "%s",
			       err->text);
		dial_failed(s, rail, res);
	}
	free(d);
	if (!s->is_closed)
		fm_rail_step(s);
	fm_session_settle(s);
}

/* False: there is no memory for it now, and the rail waits. */
static bool dial(struct fm_session *s, unsigned index)
{
	struct fm_rails *r = &s->rails;
	struct fm_rail *rail = &r->rail[index];
	struct dial *d = FM_FAULT("rail.dial") ? NULL : malloc(sizeof(*d));
	struct fm_data_dial o = {.kind = rail->kind,
				 .local = rail->local,
				 .remote = rail->remote,
				 .port = rail->kind == FM_KIND_RDMA ? r->remote.rdma_port
								    : r->remote.tcp_port,
				 .is_plain_there = is_plain_there(r, rail),
				 .needs_tls = rail->needs_tls,
				 .domain = s->domain,
				 .timeout_ns = rail->dial_timeout_ns,
				 .done = dial_done,
				 .ctx = d};

	memcpy(o.token, r->tokens[--r->token_count], FM_TOKEN_LEN);
	memcpy(o.key, s->peer->key, FM_KEY_LEN);
	if (d)
		*d = (struct dial){ s, index, r->renewals };
	rail->dialling++;
	r->dialling++;
	s->pending++;
	if (d && net_of(s)->ops->data_dial(net_of(s), &o) == 0)
		return true;
	rail->dialling--;
	r->dialling--;
	s->pending--;
	free(d);
	rail->retry_ns = fm_engine_now(s->engine) + rail->dial_pause_ns;
	return false;
}

static void ask_tokens(struct fm_session *s, unsigned count)
{
	struct fm_wire_msg m = { .type = FM_WIRE_TOKENS_WANT };

	_Static_assert(FM_RAIL_DIALS_MAX <= FM_WIRE_TOKENS_MAX, "a token for every dial");
	s->rails.is_asking = true;
	m.tokens.count = (uint16_t)count;
	fm_session_send(s, &m);
}

void fm_rail_step(struct fm_session *s)
{
	struct fm_rails *r = &s->rails;
	uint64_t now_ns = fm_engine_now(s->engine);
	unsigned missing = 0;

	if (!s->is_up || s->is_closed || !s->is_dialler)
		return;
	/* Each that lingers holds memory for a disk that hangs: more of them would leave none to
	 * others. */
	if (s->flow_count - s->up[FM_KIND_TCP] - s->up[FM_KIND_RDMA] >= LINGERING_MAX)
		return;
	for (unsigned i = 0; i < r->count; i++) {
		struct fm_rail *rail = &r->rail[i];

		if (!rail->is_listed || now_ns < rail->retry_ns || is_taken(r, rail) ||
		    is_anothers_turn(r, rail, now_ns))
			continue;
		while (rail->up + rail->dialling < wanted(s, rail) &&
		       r->dialling < FM_RAIL_DIALS_MAX && r->token_count > 0 && dial(s, i))
			;
		if (now_ns >= rail->retry_ns && rail->up + rail->dialling < wanted(s, rail))
			missing += wanted(s, rail) - rail->up - rail->dialling;
	}
	if (missing > FM_RAIL_DIALS_MAX - r->dialling)
		missing = FM_RAIL_DIALS_MAX - r->dialling;
	if (missing > 0 && !r->is_asking)
		ask_tokens(s, missing);
}

/*
 * Makes other pairs of the same two ports wait too (link-local addresses beside others): they would
 * break over the same cable.
 */
static void pause_ports(struct fm_rails *r, const struct fm_rail *rail)
{
	for (unsigned i = 0; i < r->count; i++) {
		struct fm_rail *o = &r->rail[i];

		if (o->kind != rail->kind || !is_same_port(&o->local, &rail->local) ||
		    !is_same_port(&o->remote, &rail->remote))
			continue;
		if (o->retry_ns < rail->retry_ns)
			o->retry_ns = rail->retry_ns;
		o->break_pause_ns = rail->break_pause_ns;
	}
}

/*
 * A rail that broke soon after it came up is left alone while another one works. If none works, a
 * transfer waits, so rails that are likely to work are dialled at the usual pace.
 */
static void hurry_what_is_left(struct fm_session *s, uint64_t now_ns)
{
	uint64_t latest_ns = now_ns + DIAL_PAUSE_MAX_NS;

	if (s->up[FM_KIND_TCP] + s->up[FM_KIND_RDMA] > 0)
		return;
	for (unsigned i = 0; i < s->rails.count; i++) {
		struct fm_rail *rail = &s->rails.rail[i];

		if (rail->is_likely && rail->retry_ns > latest_ns)
			rail->retry_ns = latest_ns;
	}
}

void fm_rail_down(struct fm_session *s, int index)
{
	uint64_t now_ns = fm_engine_now(s->engine);
	struct fm_rail *rail;

	if (index < 0)
		return;
	rail = &s->rails.rail[index];
	assert(rail->up > 0);
	rail->up--;
	if (rail->is_renewing) {
		rail->is_renewing = rail->up > 0;
		rail->retry_ns = now_ns;
		return;
	}
	/* One that dies young is left alone for longer each time: another kind of rail may do
	 * better meanwhile. */
	if (now_ns > rail->up_ns + STABLE_NS)
		rail->break_pause_ns = PAUSE_MIN_NS;
	if (now_ns >= rail->retry_ns) {		/* once for all its connections */
		rail->retry_ns = now_ns + rail->break_pause_ns;
		rail->break_pause_ns = longer(rail->break_pause_ns, BREAK_PAUSE_MAX_NS);
		pause_ports(&s->rails, rail);
	}
	hurry_what_is_left(s, now_ns);
}

/* ---- what was lost ---- */

void fm_rail_is_found(struct fm_session *s, const struct fm_conn_info *info)
{
	struct fm_rails *r = &s->rails;
	unsigned kept = 0;

	for (unsigned i = 0; i < r->lost_count; i++)
		if (!fm_conn_is_same_way(&r->lost[i].info, info))
			r->lost[kept++] = r->lost[i];
	r->lost_count = kept;
}

void fm_rail_is_lost(struct fm_session *s, const struct fm_conn_info *info, const char *why)
{
	struct fm_rails *r = &s->rails;
	struct fm_rail_lost *lost;

	fm_rail_is_found(s, info);
	if (r->lost_count == FM_RAILS_LOST_MAX) {
		memmove(&r->lost[0], &r->lost[1], (FM_RAILS_LOST_MAX - 1) * sizeof(r->lost[0]));
		r->lost_count--;
	}
	lost = &r->lost[r->lost_count++];
	lost->info = *info;
	lost->since_ns = fm_engine_now(s->engine);
	(void)snprintf(lost->why, sizeof(lost->why), "%s", why);
}

/* ---- questions ---- */

static bool has_remote_rdma(const struct fm_session *s)
{
	for (unsigned i = 0; i < s->rails.remote.count; i++)
		if (s->rails.remote.addr[i].is_rdma)
			return true;
	return false;
}

bool fm_rail_may_come(const struct fm_session *s, enum fm_kind kind)
{
	struct fm_net *net = net_of(s);
	uint64_t since_ns = s->rails.await_ns[kind] > s->up_ns ? s->rails.await_ns[kind] : s->up_ns;
	const char *why;

	if (kind == FM_KIND_TCP && s->rails.renewed_ns > since_ns)
		since_ns = s->rails.renewed_ns;
	if (fm_engine_now(s->engine) > since_ns + MAY_COME_NS ||
	    !net->ops->data_port(net, kind, &why))
		return false;
	if (!s->rails.is_known)
		return true;
	if (kind == FM_KIND_TCP)
		return s->rails.remote.tcp_port != 0;
	return s->rails.remote.rdma_port != 0 && has_remote_rdma(s);
}

void fm_rail_why_not(const struct fm_session *s, enum fm_kind kind, char *out, size_t len)
{
	struct fm_net *net = net_of(s);
	const char *name = kind == FM_KIND_RDMA ? "RDMA" : "TCP", *why = NULL;

	if (!net->ops->data_port(net, kind, &why))
		(void)snprintf(out, len, "no %s here: %s", name, why ? why : "it is switched off");
	else if (!s->rails.is_known)
		(void)snprintf(out, len, "%s has not said its addresses yet", s->name);
	else if (!(kind == FM_KIND_RDMA ? s->rails.remote.rdma_port : s->rails.remote.tcp_port))
		(void)snprintf(out, len, "no %s at %s", name, s->name);
	else if (kind == FM_KIND_RDMA && !has_remote_rdma(s))
		(void)snprintf(out, len, "no RDMA port of %s has an address", s->name);
	else if (s->rails.last_error[kind][0])
		(void)snprintf(out, len, "%s did not connect: %.100s", name,
			       s->rails.last_error[kind]);
	else
		(void)snprintf(out, len, "no %s connection between the nodes", name);
}
