/* SPDX-License-Identifier: MIT */
/* session - see session.h. */
#include "mover/node/session.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/data/flow.h"
#include "mover/node/service.h"

#define DIAL_TIMEOUT_NS (5 * FM_NS_PER_S)
#define HELLO_TIMEOUT_NS (5 * FM_NS_PER_S)
#define PING_EVERY_NS FM_NS_PER_S
/* How long the peer may still begin something on a session that it has not retired yet. */
#define RETIRED_NS (5 * FM_NS_PER_S)
/* Half-made sessions of one peer: more than two nodes that dial each other ever need. */
#define SESSIONS_PER_PEER_MAX 8
/* bytes in the queue behind which what can wait waits */
#define QUEUE_WAITS_MAX (FM_CTL_QUEUE_MAX / 8)

static struct fm_net *net_of(const struct fm_session *s)
{
	return s->engine->env.net;
}

/* ---- its end ---- */

static void free_run(struct fm_task *task)
{
	struct fm_session *s = fm_container_of(task, struct fm_session, free_task);
	struct fm_engine *e = s->engine;

	assert(s->conns.count == 0);
	if (s->domain)
		e->env.net->ops->domain_free(s->domain);
	fm_link_unref(s->link);
	fm_list_del(&s->at);
	fm_budget_free(s);
	fm_engine_check_stopped(e);
}

static void free_if_done(struct fm_session *s)
{
	if (s->is_closed && s->pending == 0 && fm_list_is_empty(&s->flows))
		fm_loop_post(s->engine->env.loop, &s->free_task);
}

void fm_session_settle(struct fm_session *s)
{
	assert(s->pending > 0);
	s->pending--;
	free_if_done(s);
}

/* ---- the memory of its data connections ---- */

/* One whose token was good, until it is there: it has been counted. */
struct arrival {
	struct fm_list at;
	struct fm_session *session;
	uint64_t bytes;
};

static uint64_t conn_bytes(enum fm_kind kind, bool is_sealed)
{
	uint64_t transport = kind == FM_KIND_RDMA ? FM_RDMA_DATA_BYTES
			     : is_sealed	  ? FM_TLS_DATA_BYTES
						  : 0;

	return sizeof(struct fm_flow) + transport;
}

/* Ours to make; the peer has so much less to ask for. 0: there is no memory to count it. */
static uint64_t count_dialled(struct fm_session *s, const struct fm_conn_info *info)
{
	uint64_t before = s->conns.count;

	fm_share_force(&s->engine->conns, fm_share_name(s->name),
		       conn_bytes(info->kind, info->encryption != FM_PLAIN), &s->conns);
	return s->conns.count - before;
}

/* The peer's share has room for it. NULL: it has not, or there is no memory. */
static struct arrival *arrival_new(struct fm_session *s, uint64_t bytes, struct fm_err *why)
{
	struct fm_share *share = &s->engine->conns;
	struct fm_share_id peer = fm_share_name(s->name);
	struct arrival *a = FM_FAULT("session.arrival") ? NULL : malloc(sizeof(*a));

	if (a && fm_share_take(share, peer, bytes, &s->conns, NULL) == 0) {
		*a = (struct arrival){ .session = s, .bytes = bytes };
		fm_list_append(&s->arriving, &a->at);
		s->pending++;
		return a;
	}
	if (a && !fm_share_may(share, peer, bytes))
		fm_err_set(why, -EBUSY,
			   "its data connections have as much memory as one peer may have now "
			   "(%llu of %llu bytes): raise memory.total",
			   (unsigned long long)fm_share_of(share, peer),
			   (unsigned long long)share->limits.total);
	else
		fm_err_set(why, -ENOMEM, "no memory for one more data connection");
	free(a);
	return NULL;
}

static void arrival_free(struct arrival *a)
{
	fm_list_del(&a->at);
	free(a);
}

void fm_session_net_stopped(struct fm_session *s)
{
	fm_list_each (at, next, &s->arriving) {
		struct arrival *a = fm_container_of(at, struct arrival, at);

		fm_share_give(&s->conns, a->bytes);
		arrival_free(a);
		s->pending--;
	}
	free_if_done(s);
}

static void say_bye(struct fm_session *s, const char *bye)
{
	struct fm_wire_msg m = { .type = FM_WIRE_BYE };

	m.bye.text = fm_wire_str(bye);
	fm_session_send(s, &m);
}

void fm_session_close(struct fm_session *s, const struct fm_err *err, const char *bye)
{
	if (s->is_closed)
		return;
	if (bye)
		say_bye(s, bye);
	if (s->is_closed)	/* what could not even be said */
		return;
	s->is_closed = true;
	if (s->is_up)
		fm_session_log(s, FM_LOG_INFO, "session with %s ended: %s", s->name, err->text);
	s->is_up = false;
	fm_line_end(s);
	memset(s->tokens, 0, sizeof(s->tokens));
	fm_list_each(at, next, &s->flows)
		fm_flow_close(fm_container_of(at, struct fm_flow, owner_at));
	fm_services_session_lost(s->engine, s, err);
	if (s->peer)
		fm_peer_lost(s->peer, s, err);
	free_if_done(s);
}

static void close_with(struct fm_session *s, int code, const char *why, bool is_said)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, code, "%s: %s", s->name, why);
	fm_session_close(s, &err, is_said ? why : NULL);
}

void fm_session_protocol_error(struct fm_session *s, const char *what)
{
	char why[256];

	(void)snprintf(why, sizeof(why), "broke the protocol: %s", what);
	close_with(s, -EPROTO, why, true);
}

void fm_session_send(struct fm_session *s, const struct fm_wire_msg *m)
{
	struct fm_engine *e = s->engine;
	size_t len;
	int ret;

	if (s->is_closed)
		return;
	len = fm_wire_encode(m, e->buf);
	if (len == 0) {
		fm_session_log(
			s, FM_LOG_ERROR,
			"%s: a message to it would break the protocol (%s): the session ends",
			s->name, fm_wire_type_name(m->type));
		close_with(s, -EINVAL, "this node had a message for it that breaks the protocol",
			   false);
		return;
	}
	ret = fm_line_send(s, m->type, e->buf, len);
	if (ret == -ENOBUFS)
		close_with(s, -ENOBUFS, "does not read what it is sent", false);
	else if (ret == -ENOMEM)
		close_with(s, -ENOMEM, "out of memory for a message to it", false);
	/* -EPIPE comes as `closed` as well. */
}

bool fm_session_has_room(const struct fm_session *s)
{
	return !s->is_closed && fm_line_queued(s) < QUEUE_WAITS_MAX;
}

/* ---- HELLO ---- */

void fm_session_say_hello(struct fm_session *s)
{
	struct fm_wire_msg m = { .type = FM_WIRE_HELLO };

	m.hello.version_min = FM_WIRE_VERSION;
	m.hello.version_max = FM_WIRE_VERSION;
	memcpy(m.hello.boot_id, s->engine->boot_id, sizeof(m.hello.boot_id));
	m.hello.name = fm_wire_str(s->engine->name);
	m.hello.session = s->is_dialler ? s->lines.number : 1;
	m.hello.tcp_conns = (uint16_t)s->engine->o.tcp_conns;
	m.hello.rdma_conns = (uint16_t)s->engine->o.rdma_conns;
	fm_session_send(s, &m);
}

static int make_shared(struct fm_session *s, struct fm_err *err)
{
	int ret = fm_link_new(s->engine->slabs, &s->engine->shared_rate, &s->link, err);

	if (ret < 0)
		return ret;
	s->link->registered = s->engine->registered;
	return net_of(s)->ops->domain_new(net_of(s), &s->domain, err);
}

static void become_up(struct fm_session *s)
{
	struct fm_err err = { 0 };

	if (make_shared(s, &err) < 0) {
		close_with(s, err.code, err.text, true);
		return;
	}
	s->is_up = true;
	s->up_ns = fm_engine_now(s->engine);
	fm_session_log(s, FM_LOG_INFO, "session with %s (%s) is up", s->name,
		       net_of(s)->ops->ctl_peer(fm_line_ctl(s)));
	fm_rail_send_addrs(s);
	if (s->is_closed)
		return;
	fm_services_peer_up(s->peer);
	if (s->engine->env.watcher.up)
		s->engine->env.watcher.up(s->engine->env.watcher.ctx, s->name);
}

/*
 * Closes the session if the peer was restarted. The accepting node sends HELLO before RESUME tells
 * it that a session goes on, so the dialler can compare its boot id here.
 */
static void check_is_same_run(struct fm_session *s, const struct fm_wire_hello *m)
{
	if (memcmp(s->boot_id, m->boot_id, sizeof(s->boot_id)) != 0)
		close_with(s, -ECONNRESET, "was started again", true);
}

static void on_hello(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_hello *m = &msg->hello;
	char why[256];

	if (s->lines.is_resuming) {
		check_is_same_run(s, m);
		return;
	}
	if (s->is_up) {
		fm_session_protocol_error(s, "HELLO twice");
		return;
	}
	if (m->version_min > FM_WIRE_VERSION || m->version_max < FM_WIRE_VERSION) {
		(void)snprintf(why, sizeof(why),
			       "speaks protocol versions %u to %u, %s speaks %u: install the same "
			       "fmove on both",
			       m->version_min, m->version_max, s->engine->name, FM_WIRE_VERSION);
		close_with(s, -EPROTONOSUPPORT, why, true);
		return;
	}
	if (m->name.len != strlen(s->name) || memcmp(m->name.at, s->name, m->name.len) != 0)
		fm_session_log(s, FM_LOG_WARN, "%s calls itself %.*s", s->name, (int)m->name.len,
			       m->name.at);
	memcpy(s->boot_id, m->boot_id, sizeof(s->boot_id));
	s->lines.can_resume = m->session != 0;
	if (!s->is_dialler)
		s->lines.number = m->session;
	s->conns_there[FM_KIND_TCP] = m->tcp_conns;
	s->conns_there[FM_KIND_RDMA] = m->rdma_conns;
	fm_peer_offer(s->peer, s);
	become_up(s);
}

/* ---- messages ---- */

static void on_bye(struct fm_session *s, const struct fm_wire_msg *m)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -ECONNRESET, "%s ended the session: %.*s", s->name,
			 (int)m->bye.text.len, m->bye.text.at);
	fm_session_close(s, &err, NULL);
}

static void on_ping(struct fm_session *s, const struct fm_wire_msg *m)
{
	struct fm_wire_msg pong = { .type = FM_WIRE_PONG };

	pong.ping = m->ping;
	fm_session_send(s, &pong);
}

/*
 * Any PONG shows that the peer is alive, which is counted elsewhere. This measures the round trip.
 */
static void on_pong(struct fm_session *s, const struct fm_wire_msg *m)
{
	if (s->pinged_ns > 0 && m->ping.nonce == s->pinged_ns)
		s->round_trip_ns = fm_engine_now(s->engine) - s->pinged_ns;
}

/* Its own; all others are for the services. */
static const struct fm_service_message messages[] = {
	{ FM_WIRE_HELLO, on_hello },
	{ FM_WIRE_BYE, on_bye },
	{ FM_WIRE_PING, on_ping },
	{ FM_WIRE_PONG, on_pong },
	{ FM_WIRE_RECEIVED, fm_line_on_received },
	{ FM_WIRE_RESUME, fm_line_on_resume },
	{ FM_WIRE_ADDRS, fm_rail_on_addrs },
	{ FM_WIRE_TOKENS_WANT, fm_rail_on_tokens_want },
	{ FM_WIRE_TOKENS, fm_rail_on_tokens },
};

static void hand_over(const struct fm_service *service, struct fm_session *s,
		      const struct fm_wire_msg *m)
{
	for (unsigned i = 0; i < service->message_count && !s->is_closed; i++)
		if (service->messages[i].type == m->type)
			service->messages[i].on(s, m);
}

static void dispatch(struct fm_session *s, const struct fm_wire_msg *m)
{
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		if (messages[i].type == m->type) {
			messages[i].on(s, m);
			return;
		}
	}
	for (unsigned i = 0; i < s->engine->service_count; i++)
		hand_over(s->engine->env.services[i], s, m);
}

/* Whether a message may come before HELLO, or before the answer to RESUME. */
static bool is_early(enum fm_wire_type type)
{
	return type == FM_WIRE_HELLO || type == FM_WIRE_BYE || type == FM_WIRE_RESUME;
}

void fm_session_heard(struct fm_session *s)
{
	s->heard_ns = fm_engine_now(s->engine);
	if (s->link)
		atomic_store(&s->link->heard_ns, s->heard_ns);
}

void fm_session_message(struct fm_session *s, const uint8_t *msg, size_t len)
{
	struct fm_wire_msg *m = &s->engine->in;
	char what[96];
	int ret;

	if (s->is_closed)
		return;
	if (!s->lines.is_resuming)	/* else HELLO alone would keep it */
		fm_session_heard(s);
	ret = fm_wire_decode(msg, len, m);
	if (ret < 0) {
		(void)snprintf(what, sizeof(what), "a message that is none (%zu bytes: %s)", len,
			       fm_err_name(ret));
		fm_session_protocol_error(s, what);
		return;
	}
	if ((!s->is_up || s->lines.is_resuming) && !is_early(m->type)) {
		(void)snprintf(what, sizeof(what), "%s before %s", fm_wire_type_name(m->type),
			       s->is_up ? "RESUME" : "HELLO");
		fm_session_protocol_error(s, what);
		return;
	}
	fm_line_count(s, m->type, len);
	if (!s->is_closed)
		dispatch(s, m);
}

void fm_session_broke(struct fm_session *s, const struct fm_err *err)
{
	struct fm_err named = *err;

	(void)fm_err_wrap(&named, "%s", s->name);
	fm_session_close(s, &named, NULL);
}

/* ---- its beginning ---- */

static struct fm_session *session_new(struct fm_peer *p, bool is_dialler)
{
	struct fm_session *s = FM_FAULT("session.new") ? NULL : fm_budget_alloc_link(sizeof(*s));

	if (!s)
		return NULL;
	s->engine = p->engine;
	s->peer = p;
	(void)snprintf(s->name, sizeof(s->name), "%s", p->name);
	s->is_dialler = is_dialler;
	s->heard_ns = fm_engine_now(p->engine);
	s->deadline_ns = s->heard_ns + HELLO_TIMEOUT_NS + (is_dialler ? DIAL_TIMEOUT_NS : 0);
	s->free_task.run = free_run;
	s->next_id = 1;		/* 0 says "no tree" */
	fm_lines_init(&s->lines);
	fm_list_init(&s->flows);
	fm_list_init(&s->arriving);
	fm_list_append(&p->engine->sessions, &s->at);
	return s;
}

/* Frees a session that nobody has been told of yet. */
static void session_drop(struct fm_session *s)
{
	fm_list_del(&s->at);
	fm_budget_free(s);
}

struct fm_session *fm_session_dial(struct fm_peer *p, const struct fm_reach_dial *to)
{
	struct fm_session *s = session_new(p, true);

	if (!s)
		return NULL;
	s->lines.number = ++p->engine->next_session;
	if (fm_line_dial(s, to) == 0)
		return s;
	session_drop(s);
	return NULL;
}

static bool net_is_known(void *ctx, const uint8_t key[FM_KEY_LEN])
{
	return fm_engine_peer_by_key(ctx, key) != NULL;
}

static unsigned sessions_of(const struct fm_engine *e, const struct fm_peer *p)
{
	unsigned n = 0;

	fm_list_each(at, next, &e->sessions)
		n += fm_container_of(at, struct fm_session, at)->peer == p;
	return n;
}

/*
 * Counts the data connections of all sessions of this peer. Those of a session that has ended count
 * until their last I/O is over.
 */
static unsigned flows_of(const struct fm_session *of)
{
	unsigned n = 0;

	fm_list_each(at, next, &of->engine->sessions) {
		const struct fm_session *s = fm_container_of(at, struct fm_session, at);

		if (strcmp(s->name, of->name) == 0)
			n += s->pending + s->flow_count;
	}
	return n;
}

static bool net_accepted(void *ctx, struct fm_ctl *ctl, const uint8_t key[FM_KEY_LEN],
			 const struct fm_ctl_events **events, void **ctl_ctx)
{
	struct fm_engine *e = ctx;
	struct fm_peer *p = fm_engine_peer_by_key(e, key);
	struct fm_session *s;

	if (!p || e->is_stopping || sessions_of(e, p) >= SESSIONS_PER_PEER_MAX)
		return false;
	s = session_new(p, false);
	if (!s)
		return false;
	if (fm_line_accept(s, ctl, events, ctl_ctx) < 0) {
		session_drop(s);
		return false;
	}
	fm_session_say_hello(s);
	return true;
}

/*
 * Whether this is the token. Compares in constant time: an attacker must not learn how much of it
 * was right.
 */
static bool is_token(const struct fm_token *t, const uint8_t token[FM_TOKEN_LEN], uint64_t now_ns)
{
	uint8_t diff = 0;

	for (unsigned i = 0; i < FM_TOKEN_LEN; i++)
		diff |= (uint8_t)(t->token[i] ^ token[i]);
	return diff == 0 && t->until_ns > now_ns;
}

/*
 * Whether a connection with this key may use the session's token. A token is worth nothing with the
 * key of another known peer.
 */
static bool is_of_peer(const struct fm_session *s, const uint8_t *key)
{
	return !key || (s->peer && memcmp(s->peer->key, key, FM_KEY_LEN) == 0);
}

/* One more connection of the peer, whose token was good. NULL: there is no room for it. */
static struct arrival *let_arrive(struct fm_session *s, uint64_t bytes, struct fm_err *why)
{
	struct arrival *a = NULL;

	if (flows_of(s) < FM_PEER_FLOWS_MAX)
		a = arrival_new(s, bytes, why);
	else
		fm_err_set(why, -EBUSY, "it has %d data connections already", FM_PEER_FLOWS_MAX);
	if (!a && !s->is_refusal_said)
		fm_session_log(s, FM_LOG_WARN, "a data connection is refused: %s", why->text);
	s->is_refusal_said |= !a;
	return a;
}

static struct fm_domain *net_token(void *ctx, const uint8_t token[FM_TOKEN_LEN], enum fm_kind kind,
				   const uint8_t *key, void **tag, struct fm_err *why)
{
	struct fm_engine *e = ctx;
	uint64_t now_ns = fm_engine_now(e);
	struct arrival *a;

	fm_list_each(at, next, &e->sessions) {
		struct fm_session *s = fm_container_of(at, struct fm_session, at);

		for (unsigned i = 0; s->is_up && i < FM_SESSION_TOKENS_MAX; i++) {
			if (!is_token(&s->tokens[i], token, now_ns) || !is_of_peer(s, key))
				continue;
			memset(&s->tokens[i], 0, sizeof(s->tokens[i]));
			a = let_arrive(s, conn_bytes(kind, key != NULL), why);
			*tag = a;
			return a ? s->domain : NULL;
		}
	}
	return NULL;
}

static int add_flow(struct fm_session *s, struct fm_conn *conn, int rail, uint64_t bytes);

static void net_arrived(void *ctx, void *tag, struct fm_conn *conn)
{
	struct arrival *a = tag;
	struct fm_session *s = a->session;
	uint64_t bytes = a->bytes;

	(void)ctx;
	arrival_free(a);
	if (conn && s->is_closed)
		conn->ops->close(conn);
	else if (conn && add_flow(s, conn, -1, bytes) == 0)
		bytes = 0;	/* the flow's; else it is logged there; the peer makes another */
	fm_share_give(&s->conns, bytes);
	fm_session_settle(s);
}

/*
 * The network changed: sessions look at their rails in the next tick, at most twice a second
 * however often this is called.
 */
static void net_changed(void *ctx)
{
	const struct fm_engine *e = ctx;

	fm_list_each(at, next, &e->sessions)
		fm_rail_look(fm_container_of(at, struct fm_session, at));
	fm_list_each(at, next, &e->peers)
		fm_peer_network_changed(fm_container_of(at, struct fm_peer, at));
}

const struct fm_net_events fm_session_net_events = {
	.changed = net_changed,
	.is_known = net_is_known,
	.accepted = net_accepted,
	.token = net_token,
	.arrived = net_arrived,
};

/* ---- flows ---- */

struct flow_owner {
	struct fm_session *session;
	int rail;
	uint64_t bytes;			/* counted for it */
};

static bool is_way_up(const struct fm_session *s, const struct fm_conn_info *info)
{
	fm_list_each(at, next, &s->flows) {
		const struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);

		if (atomic_load(&f->is_up) && fm_conn_is_same_way(&f->info, info))
			return true;
	}
	return false;
}

/*
 * Ends the other connections between the same two addresses. Each would notice only seconds after
 * it sends, and chunks would move from one dead connection to the next. A connection that was made
 * after this one was lost shows that the cable is back, so it stays.
 */
static void cut_same_cable(struct fm_session *s, const struct fm_flow *gone)
{
	fm_list_each(at, next, &s->flows) {
		struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);

		if (f->kind == gone->kind && f->made_ns < gone->lost_ns &&
		    strcmp(f->info.local_addr, gone->info.local_addr) == 0 &&
		    strcmp(f->info.remote_addr, gone->info.remote_addr) == 0)
			fm_flow_cut(f, "nothing comes back over another connection of this cable: "
				       "is it plugged in at both ends?");
	}
}

static void flow_down(struct fm_flow *f)
{
	struct flow_owner *owner = f->owner;
	struct fm_session *s = owner->session;

	s->up[f->kind]--;
	if (s->is_closed)
		return;
	if (f->err.code)
		fm_session_log(s, FM_LOG_WARN, "%s: connection %s -> %s broke: %s (%s)", s->name,
			       f->info.local_addr, f->info.remote_addr, f->err.text, f->info.note);
	if (f->err.code && !is_way_up(s, &f->info))
		fm_rail_is_lost(s, &f->info, f->err.text);
	if (f->err.code == -ENETDOWN)
		cut_same_cable(s, f);
	fm_rail_down(s, owner->rail);
	if (s->up[FM_KIND_TCP] + s->up[FM_KIND_RDMA] == 0) {
		fm_rail_await(s, FM_KIND_TCP);
		fm_rail_await(s, f->kind);
	}
	fm_services_session_changed(s->engine, s);
	fm_session_wake(s, UINT_MAX, UINT64_MAX);	/* its chunks are to be had again */
}

/* What has no room is in the peer's sum alone. */
static void add_port(struct fm_port_sums *ports, const struct fm_flow *f)
{
	(void)fm_port_sums_add(ports, &f->info, atomic_load(&f->bytes_sent),
			       atomic_load(&f->bytes_received));
}

static void flow_gone(struct fm_flow *f)
{
	struct flow_owner *owner = f->owner;
	struct fm_session *s = owner->session;

	fm_list_del(&f->owner_at);
	s->flow_count--;
	fm_share_give(&s->conns, owner->bytes);
	if (s->peer) {
		s->peer->bytes_sent += atomic_load(&f->bytes_sent);
		s->peer->bytes_received += atomic_load(&f->bytes_received);
		add_port(&s->peer->ports, f);
	}
	free(owner);
	fm_flow_free(f);
	free_if_done(s);
}

/*
 * Chooses the lane with the fewest connections of the session, so that it uses all processors. Of
 * several, the next in turn.
 */
static struct fm_lane *choose_lane(struct fm_session *s)
{
	struct fm_engine *e = s->engine;
	unsigned conns[FM_LANES_MAX] = { 0 }, first = e->next_lane++, best = first % e->o.lanes;

	fm_list_each(at, next, &s->flows)
		conns[fm_container_of(at, struct fm_flow, owner_at)->lane->index]++;
	for (unsigned i = 1; i < e->o.lanes; i++)
		if (conns[(first + i) % e->o.lanes] < conns[best])
			best = (first + i) % e->o.lanes;
	return &e->lanes[best];
}

/* bytes: counted for it, and its own if it is made. */
static int add_flow(struct fm_session *s, struct fm_conn *conn, int rail, uint64_t bytes)
{
	struct fm_engine *e = s->engine;
	struct flow_owner *owner = FM_FAULT("session.flow") ? NULL : malloc(sizeof(*owner));
	struct fm_err err = { 0 };
	struct fm_flow *f;
	int ret;

	if (!owner) {
		conn->ops->close(conn);
		return -ENOMEM;
	}
	*owner = (struct flow_owner){ s, rail, bytes };
	ret = fm_flow_new(&(struct fm_flow_opts){ .conn = conn,
						  .lane = choose_lane(s),
						  .link = s->link,
						  .control = e->env.loop,
						  .owner = owner,
						  .down = flow_down,
						  .gone = flow_gone },
			  &f, &err);
	if (ret < 0) {
		fm_session_log(s, FM_LOG_ERROR, "%s: %s", s->name, err.text);
		free(owner);
		return ret;
	}
	fm_list_append(&s->flows, &f->owner_at);
	s->flow_count++;
	s->up[f->kind]++;
	fm_rail_is_found(s, &f->info);
	fm_rail_check_flow(s, f);
	fm_session_log(s, FM_LOG_INFO, "%s: connection %s -> %s%s%s is up, lane %u (%s)", s->name,
		       f->info.local_addr, f->info.remote_addr, f->info.local[0] ? " on " : "",
		       f->info.local, f->lane->index, f->info.note);
	fm_services_session_changed(s->engine, s);
	fm_session_wake(s, UINT_MAX, UINT64_MAX);
	return 0;
}

int fm_session_add_flow(struct fm_session *s, struct fm_conn *conn, int rail)
{
	uint64_t bytes = count_dialled(s, conn->ops->info(conn));
	int ret = add_flow(s, conn, rail, bytes);

	if (ret < 0)
		fm_share_give(&s->conns, bytes);
	return ret;
}

void fm_session_add_moved(const struct fm_session *s, uint64_t *sent, uint64_t *received,
			  struct fm_port_sums *ports)
{
	fm_list_each(at, next, &s->flows) {
		const struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);

		*sent += atomic_load(&f->bytes_sent);
		*received += atomic_load(&f->bytes_received);
		add_port(ports, f);
	}
}

enum fm_encryption fm_session_encryption(const struct fm_session *s, enum fm_kind kind)
{
	enum fm_encryption last = FM_PLAIN;

	fm_list_each(at, next, &s->flows) {
		const struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);

		if (f->kind == kind)
			last = f->info.encryption;
	}
	return last;
}

unsigned fm_session_conns(const struct fm_session *s, enum fm_kind kind,
			  const struct fm_only *only)
{
	unsigned count = 0;

	if (fm_only_is_any(only))
		return s->up[kind];
	fm_list_each(at, next, &s->flows) {
		const struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);

		count += f->kind == kind && atomic_load(&f->is_up) && fm_only_takes(only, &f->info);
	}
	if (count < only->conns)
		return 0;
	return only->conns ? only->conns : count;
}

void fm_session_wake(struct fm_session *s, unsigned kinds, uint64_t chunks)
{
	uint64_t woken = 0;
	unsigned done = 0;	/* one bit a lane */

	_Static_assert(FM_LANES_MAX <= 8 * sizeof(done), "a bit for each lane");
	fm_list_each(at, next, &s->flows) {
		const struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);
		struct fm_lane *lane = f->lane;

		if (!(kinds & 1u << f->kind) || done & 1u << lane->index)
			continue;
		done |= 1u << lane->index;
		fm_lane_wake(lane);
		if (++woken >= chunks)
			return;
	}
}

/* ---- time, numbers ---- */

static void look_at_flows(struct fm_session *s)
{
	fm_list_each(at, next, &s->flows)
		fm_flow_look(fm_container_of(at, struct fm_flow, owner_at));
}

/*
 * Says what is wrong, and over which addresses the session went last, so that a person knows which
 * cable to look at.
 */
static void name_way(const struct fm_session *s, const char *what, char *out, size_t len)
{
	struct fm_session_way way;
	char from[sizeof(way.local) + sizeof(way.device) + 8];
	bool is_dead;

	fm_line_lost_way(s, &way, &is_dead);
	/* Whose address is gone has no interface. */
	(void)snprintf(from, sizeof(from), way.device[0] ? "%s over %s" : "%s", way.local,
		       way.device);
	if (!way.local[0])
		(void)snprintf(out, len, "%s", what);
	else if (is_dead)
		(void)snprintf(out, len,
			       "%s: from %s, which carries nothing: %s; look at that cable", what,
			       from, way.remote);
	else
		(void)snprintf(out, len,
			       "%s: from %s: %s: is it up, is this cable plugged in at both ends?",
			       what, from, way.remote);
}

static void close_silent(struct fm_session *s)
{
	unsigned long long silent_s = (unsigned long long)(s->engine->o.stall_ns / FM_NS_PER_S);
	char what[64], why[320];

	(void)snprintf(what, sizeof(what), "is silent for %llu s", silent_s);
	name_way(s, what, why, sizeof(why));
	close_with(s, -ETIMEDOUT, why, false);
}

void fm_session_name_cable(const struct fm_session *s, struct fm_err *err)
{
	char why[320];

	name_way(s, "nothing leads there now", why, sizeof(why));
	(void)fm_err_set(err, -EHOSTUNREACH, "%s: %s", s->name, why);
}

bool fm_session_is_lost(const struct fm_session *s, struct fm_err *err)
{
	if (!fm_line_is_lost(s))
		return false;
	fm_session_name_cable(s, err);
	return true;
}

void fm_session_stood_still(struct fm_session *s, uint64_t still_ns)
{
	uint64_t now_ns = fm_engine_now(s->engine);

	/* It may have been heard after that, in this pass of the loop. */
	s->heard_ns = s->heard_ns + still_ns < now_ns ? s->heard_ns + still_ns : now_ns;
	s->deadline_ns += still_ns;
	fm_line_stood_still(s, still_ns);
}

void fm_session_tick(struct fm_session *s, uint64_t now_ns)
{
	struct fm_wire_msg m = { .type = FM_WIRE_PING };

	if (s->is_closed)
		return;
	if (!s->is_up) {
		if (now_ns > s->deadline_ns)
			close_with(s, -ETIMEDOUT, "does not answer: connected, but no HELLO came",
				   false);
		return;
	}
	if (now_ns > s->heard_ns + s->engine->o.stall_ns && !fm_line_may_answer(s, now_ns)) {
		close_silent(s);
		return;
	}
	if (s->retired_ns && now_ns > s->retired_ns + RETIRED_NS &&
	    !fm_services_are_on(s->engine, s)) {
		close_with(s, -EALREADY, "another connection is in use", true);
		return;
	}
	if (now_ns >= s->pinged_ns + PING_EVERY_NS) {
		s->pinged_ns = now_ns;
		m.ping.nonce = now_ns;
		fm_session_send(s, &m);
		fm_line_tell(s);
		look_at_flows(s);
	}
	fm_line_tick(s, now_ns);
	fm_rail_tick(s, now_ns);
	if (!s->is_closed)
		fm_rail_step(s);
}

#define ACCEPTOR_BIT (UINT64_C(1) << 63)

uint64_t fm_session_new_id(struct fm_session *s)
{
	return s->next_id++ | (s->is_dialler ? 0 : ACCEPTOR_BIT);
}

bool fm_session_is_peers_id(const struct fm_session *s, uint64_t id)
{
	return !(id & ACCEPTOR_BIT) != s->is_dialler;
}
