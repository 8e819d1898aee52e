/* SPDX-License-Identifier: MIT */
/*
 * rdma_cm - setting up RDMA connections with librdmacm, on the control loop.
 *
 * Dialling: id with a channel of its own, bound to the source address -> address resolved -> route
 * resolved -> queue pair with receives posted, request with the token -> answer -> queue pair ready
 * to send -> established -> done(). Accepting: request -> token() -> queue pair ready to send,
 * receives posted, accept -> established -> arrived(). Nothing waits: each arrow is an event of the
 * connection manager. A connection that is not established before its deadline, or gets an event
 * that does not fit, fails: the timer reports it and frees everything. There is one way out,
 * half_end().
 *
 * Each connection has an event channel of its own, since its events move with it to its lane's
 * loop. The kernel takes requests over a channel only from a thread with the very credentials that
 * opened it: no thread may change its user, groups or capabilities once there is a struct fm_rdma.
 *
 * We take the queue pair through its states ourselves and not with rdma_create_qp(): so it can be
 * in our own device context and domain, and the path MTU can be the smaller of the two ends' (the
 * connection manager takes the dialling end's, and then frames that the other end's network drops
 * are retried until the connection fails).
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/transport/addr.h"
#include "mover/transport/rdma_hello.h"
#include "mover/transport/rdma_priv.h"

#define ACCEPT_NS (10 * FM_NS_PER_S)		/* from a request to the connection */
#define RESOLVE_TRY_MS 500			/* see dial_resolve() */
/* requests looked at before other things get their turn */
#define NOTES_MAX 64
/* A listener that failed is made anew; pauses double. */
#define LISTEN_PAUSE_MIN_NS FM_NS_PER_S
#define LISTEN_PAUSE_MAX_NS (30 * FM_NS_PER_S)
#define REJ_NO_LISTENER 8			/* rdma_cm_event.status of a refusal: IBTA codes */
#define REJ_STALE 10
#define REJ_CONSUMER 28

_Static_assert(RDMA_REQUEST_LEN <= RDMA_PRIVATE_MAX, "the request must fit");

/* ---- events ---- */

int fm_rdma_next_note(struct rdma_event_channel *channel, struct rdma_note *out)
{
	struct rdma_cm_event *event;
	size_t len;

	if (FM_FAULT("rdma.cm_event"))
		return -EIO;
	if (rdma_get_cm_event(channel, &event) < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	out->type = event->event;
	out->status = event->status;
	out->id = event->id;
	/* For events without private data the length is 0. */
	len = event->param.conn.private_data ? event->param.conn.private_data_len : 0;
	out->data_len = len < sizeof(out->data) ? len : sizeof(out->data);
	if (out->data_len > 0)
		memcpy(out->data, event->param.conn.private_data, out->data_len);
	rdma_ack_cm_event(event);
	return 0;
}

void fm_rdma_id_destroy(struct rdma_cm_id *id)
{
	if (rdma_destroy_id(id) < 0)	/* see above; its memory is lost */
		fm_log_warn("rdma: destroy connection id: %s", fm_err_name(errno));
}

static int channel_new(struct rdma_event_channel **out, struct fm_err *err)
{
	struct rdma_event_channel *channel;
	int ret;

	channel = FM_FAULT("rdma.channel") ? (errno = EMFILE, NULL) : rdma_create_event_channel();
	if (!channel)
		return fm_err_sys(err, -errno, "open /dev/infiniband/rdma_cm");
	ret = fm_rdma_set_nonblocking(channel->fd);
	if (ret < 0) {
		rdma_destroy_event_channel(channel);
		return fm_err_sys(err, ret, "event channel");
	}
	*out = channel;
	return 0;
}

/* Without a DSCP of ours the system's default (default_roce_tos) stays. The bits for ECN are the
 * card's business. */
static void id_set_tos(struct fm_rdma *rdma, struct rdma_cm_id *id)
{
	uint8_t tos = (uint8_t)(rdma->dscp << 2);

	if (tos != 0 &&
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) < 0)
		/* slower perhaps, not wrong */
		fm_log_warn("rdma: set DSCP %u: %s", rdma->dscp, fm_err_name(errno));
}

/* ---- half-made connections ---- */

static void half_timer(struct fm_timer *timer);
static void half_cm_ready(struct fm_watch *watch, uint32_t events);

static struct rdma_conn *half_new(struct fm_rdma *rdma)
{
	struct rdma_conn *c = FM_FAULT("rdma.conn_alloc") ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->rdma = rdma;
	c->loop = rdma->loop;
	c->state = RDMA_HALF;
	c->timer.fire = half_timer;
	fm_list_init(&c->regions);
	fm_list_append(&rdma->half, &c->half);
	atomic_fetch_add(&rdma->conns, 1);
	return c;
}

static void half_leave(struct rdma_conn *c)
{
	fm_timer_clear(c->loop, &c->timer);
	fm_watch_del(c->loop, &c->cm_watch);
	fm_list_del(&c->half);
}

static void half_drop(struct rdma_conn *c)
{
	half_leave(c);
	fm_rdma_conn_free(c);
}

static const char *half_step_name(const struct rdma_conn *c)
{
	switch (c->step) {
	case RDMA_STEP_ADDR:
		return "resolve address";
	case RDMA_STEP_ROUTE:
		return "resolve route";
	case RDMA_STEP_CONNECT:
		return "connect";
	case RDMA_STEP_ACCEPT:
		break;
	}
	return "accept";
}

/*
 * What it holds goes at once, so that its domain can be freed. It is told by the timer, since some
 * of our callers are called by who is to be told.
 */
static void half_fail(struct rdma_conn *c, const struct fm_err *err)
{
	c->err = *err;
	c->is_failed = true;
	fm_rdma_conn_release(c);
	fm_timer_set(c->loop, &c->timer, fm_loop_now(c->loop));
}

static void half_fail_step(struct rdma_conn *c, int code)
{
	struct fm_err err;

	fm_err_sys(&err, code, "%s", half_step_name(c));
	half_fail(c, &err);
}

/* Tell and free. */
static void half_end(struct rdma_conn *c)
{
	char from[FM_ADDR_TEXT_MAX], to[FM_ADDR_PORT_TEXT_MAX];
	struct fm_rdma *rdma = c->rdma;
	struct fm_data_dial dial = c->dial;
	struct fm_err err = c->err;
	bool is_dialled = c->is_dialled;
	void *tag = c->tag;

	half_drop(c);
	if (!is_dialled) {
		fm_log_some(&rdma->lines, fm_loop_now(rdma->loop), FM_LOG_INFO,
			    "rdma: a connection did not come about: %s", err.text);
		rdma->events->arrived(rdma->ctx, tag, NULL);
		return;
	}
	fm_addr_set_port(&dial.remote.sa, dial.port);
	fm_addr_text(&dial.local.sa, from);
	fm_addr_port_text(&dial.remote.sa, to);
	fm_err_wrap(&err, "RDMA from %s to %s", from, to);
	dial.done(dial.ctx, err.code, NULL, &err);
}

static void half_timer(struct fm_timer *timer)
{
	struct rdma_conn *c = fm_container_of(timer, struct rdma_conn, timer);

	if (!c->is_failed)
		fm_err_sys(&c->err, -ETIMEDOUT, "%s", half_step_name(c));
	half_end(c);
}

static void half_ready(struct rdma_conn *c)
{
	struct fm_rdma *rdma = c->rdma;

	half_leave(c);
	fm_rdma_qp_ready(c);
	fm_log_debug("rdma: %s to %s: connected, MTU %u, %s", c->info.local, c->info.remote_addr,
		     c->info.mtu, c->info.note);
	if (c->is_dialled)
		c->dial.done(c->dial.ctx, 0, &c->conn, NULL);
	else
		rdma->events->arrived(rdma->ctx, c->tag, &c->conn);
}

static int half_watch(struct rdma_conn *c, struct fm_err *err)
{
	c->cm_watch =
		(struct fm_watch){.ready = half_cm_ready, .fd = c->channel->fd, .events = EPOLLIN};
	return fm_watch_add(c->loop, &c->cm_watch, err);
}

static struct rdma_conn_param half_param(const struct rdma_conn *c, const void *data, size_t len)
{
	/*
	 * No reads, so no resources for them. The retries are set in the queue pair again: the far
	 * end's wish does not count.
	 */
	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = (uint8_t)len,
		.retry_count = RDMA_ACK_RETRIES,
		.qp_num = c->qp->qp_num,
	};
}

/* ---- dialling ---- */

/* Sets the addresses of c->dial up as the connection manager wants them. */
static int dial_prepare(struct rdma_conn *c, struct fm_err *err)
{
	struct sockaddr_storage *src = &c->dial.local.sa, *dst = &c->dial.remote.sa;
	struct sockaddr_in6 *src6 = (struct sockaddr_in6 *)(void *)src,
			    *dst6 = (struct sockaddr_in6 *)(void *)dst;

	fm_addr_set_port(src, 0);
	fm_addr_set_port(dst, c->dial.port);
	if (src->ss_family != dst->ss_family)
		return fm_err_set(err, -EAFNOSUPPORT, "addresses of two families");
	if (fm_addr_is_link_local(dst))		/* the scope is a matter of this end only */
		dst6->sin6_scope_id = src6->sin6_scope_id;
	return 0;
}

/*
 * Tried again until the deadline of the dial: the kernel looks at the neighbour's address when a
 * try ends and when it is told of a change, but misses a change that comes while it is still
 * starting to wait.
 */
static int dial_resolve(struct rdma_conn *c)
{
	struct sockaddr *src = (struct sockaddr *)&c->dial.local.sa,
			*dst = (struct sockaddr *)&c->dial.remote.sa;

	c->step = RDMA_STEP_ADDR;
	if (FM_FAULT("rdma.resolve_addr"))
		return -ENODEV;
	return rdma_resolve_addr(c->id, src, dst, RESOLVE_TRY_MS) < 0 ? -errno : 0;
}

static int dial_start(struct rdma_conn *c, struct fm_err *err)
{
	int ret;

	ret = channel_new(&c->channel, err);
	if (ret < 0)
		return ret;
	ret = half_watch(c, err);
	if (ret < 0)
		return ret;
	ret = FM_FAULT("rdma.id") ? (errno = ENOMEM, -1)
				  : rdma_create_id(c->channel, &c->id, c, RDMA_PS_TCP);
	if (ret < 0)
		return fm_err_sys(err, -errno, "create connection id");
	id_set_tos(c->rdma, c->id);
	ret = dial_prepare(c, err);
	if (ret < 0)
		return ret;
	ret = dial_resolve(c);
	return ret < 0 ? fm_err_sys(err, ret, "resolve address") : 0;
}

int fm_rdma_dial(struct fm_rdma *rdma, const struct fm_data_dial *dial)
{
	struct rdma_conn *c;
	struct fm_err err;

	assert(dial->kind == FM_KIND_RDMA && dial->done && dial->timeout_ns > 0);
	c = half_new(rdma);
	if (!c)
		return -ENOMEM;
	c->is_dialled = true;
	c->dial = *dial;
	c->domain = fm_domain_rdma(dial->domain);
	assert(c->domain);
	fm_timer_set(c->loop, &c->timer, fm_loop_now(c->loop) + dial->timeout_ns);
	if (dial_start(c, &err) < 0)
		half_fail(c, &err);
	return 0;
}

static void dial_addr_again(struct rdma_conn *c)
{
	int ret = dial_resolve(c);

	if (ret < 0)
		half_fail_step(c, ret);
}

static void dial_addr_resolved(struct rdma_conn *c)
{
	int ret;

	c->step = RDMA_STEP_ROUTE;
	ret = FM_FAULT("rdma.resolve_route") ? (errno = EINVAL, -1)
					     : rdma_resolve_route(c->id, RESOLVE_TRY_MS);
	if (ret < 0)
		half_fail_step(c, -errno);
}

static void dial_route_resolved(struct rdma_conn *c)
{
	struct rdma_hello hello;
	uint8_t request[RDMA_REQUEST_LEN];
	struct rdma_conn_param param;
	struct fm_err err;
	int ret;

	c->step = RDMA_STEP_CONNECT;
	ret = fm_rdma_qp_new(c, &err);
	if (ret < 0) {
		half_fail(c, &err);
		return;
	}
	hello.mtu = c->mtu;
	memcpy(hello.token, c->dial.token, sizeof(hello.token));
	fm_rdma_request_encode(request, &hello);
	param = half_param(c, request, sizeof(request));
	ret = FM_FAULT("rdma.connect") ? (errno = EINVAL, -1) : rdma_connect(c->id, &param);
	if (ret < 0)
		half_fail_step(c, -errno);
}

/* Returns whether the connection is ours still. */
static bool dial_answered(struct rdma_conn *c, const struct rdma_note *note)
{
	struct rdma_answer answer;
	struct fm_err err;

	if (fm_rdma_answer_decode(note->data, note->data_len, &answer) < 0 ||
	    answer.reason != RDMA_REFUSAL_NONE) {
		fm_err_set(&err, -EPROTO, "the answer is not that of an fmove of our version");
		half_fail(c, &err);
		return true;
	}
	if (fm_rdma_qp_connect(c, answer.mtu, &err) < 0) {
		half_fail(c, &err);
		return true;
	}
	if (FM_FAULT("rdma.establish") ? (errno = EIO, true) : rdma_establish(c->id) < 0) {
		half_fail_step(c, -errno);
		return true;
	}
	half_ready(c);
	return false;
}

static void explain_refusal(const struct rdma_note *note, struct fm_err *err)
{
	struct rdma_answer answer;

	if (fm_rdma_answer_decode(note->data, note->data_len, &answer) < 0 ||
	    answer.reason == RDMA_REFUSAL_NONE) {
		fm_err_set(err, -ECONNREFUSED,
			   "something that is not fmove refused the connection");
		return;
	}
	switch (answer.reason) {
	case RDMA_REFUSAL_TOKEN:
		fm_err_set(err, -EACCES,
			   "the peer does not know the token (used already, or too old)");
		break;
	case RDMA_REFUSAL_VERSION:
		fm_err_set(err, -EPROTONOSUPPORT,
			   "the peer speaks version %u of the data connection, we speak %d",
			   answer.version, RDMA_HELLO_VERSION);
		break;
	case RDMA_REFUSAL_BUSY:
		fm_err_set(err, -EBUSY, "the peer is setting up too many connections already");
		break;
	case RDMA_REFUSAL_FAILED:
		fm_err_set(err, -EREMOTEIO, "the peer could not make its end (its log says why)");
		break;
	default:
		fm_err_set(err, -EPROTO, "the peer did not understand the request");
		break;
	}
}

static void half_rejected(struct rdma_conn *c, const struct rdma_note *note)
{
	struct fm_err err;

	switch (note->status) {
	case REJ_CONSUMER:
		explain_refusal(note, &err);
		break;
	case REJ_NO_LISTENER:
		fm_err_set(&err, -ECONNREFUSED, "nobody listens for RDMA connections there");
		break;
	case REJ_STALE:
		fm_err_set(&err, -EAGAIN, "a former connection is not forgotten yet");
		break;
	default:
		fm_err_set(&err, -ECONNREFUSED,
			   "refused by the peer's connection manager (reason %d)", note->status);
		break;
	}
	half_fail(c, &err);
}

/* ---- events of half-made connections ---- */

static void half_failed(struct rdma_conn *c, const struct rdma_note *note)
{
	struct fm_err err;

	switch (note->type) {
	case RDMA_CM_EVENT_REJECTED:
		half_rejected(c, note);
		return;
	case RDMA_CM_EVENT_UNREACHABLE:
		fm_err_set(&err, -EHOSTUNREACH, "%s: the peer does not answer", half_step_name(c));
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		fm_err_set(&err, -ECONNRESET, "%s: the peer closed the connection",
			   half_step_name(c));
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		fm_err_set(&err, -ENODEV, "%s: the RDMA device was removed", half_step_name(c));
		break;
	default:
		if (note->status < 0)
			fm_err_sys(&err, note->status, "%s", half_step_name(c));
		else
			fm_err_set(&err, -EPROTO, "%s: %s", half_step_name(c),
				   rdma_event_str(note->type));
		break;
	}
	half_fail(c, &err);
}

/* Returns whether the connection is ours still. */
static bool half_note(struct rdma_conn *c, const struct rdma_note *note)
{
	if (note->type == RDMA_CM_EVENT_ADDR_RESOLVED && c->step == RDMA_STEP_ADDR) {
		dial_addr_resolved(c);
		return true;
	}
	if (note->type == RDMA_CM_EVENT_ADDR_ERROR && c->step == RDMA_STEP_ADDR &&
	    note->status == -ETIMEDOUT) {
		dial_addr_again(c);
		return true;
	}
	if (note->type == RDMA_CM_EVENT_ROUTE_RESOLVED && c->step == RDMA_STEP_ROUTE) {
		dial_route_resolved(c);
		return true;
	}
	if (note->type == RDMA_CM_EVENT_CONNECT_RESPONSE && c->step == RDMA_STEP_CONNECT)
		return dial_answered(c, note);
	if (note->type == RDMA_CM_EVENT_ESTABLISHED && c->step == RDMA_STEP_ACCEPT) {
		half_ready(c);
		return false;
	}
	half_failed(c, note);
	return true;
}

static void half_cm_ready(struct fm_watch *watch, uint32_t events)
{
	struct rdma_conn *c = fm_container_of(watch, struct rdma_conn, cm_watch);
	struct rdma_note note;
	int ret;

	(void)events;
	do {
		ret = fm_rdma_next_note(c->channel, &note);
		if (ret == -EAGAIN)
			return;
		if (ret < 0)
			half_fail_step(c, ret);
		else if (!half_note(c, &note))
			return;
	} while (!c->is_failed);
}

/* ---- accepting ---- */

static void accept_refuse(struct rdma_cm_id *id, enum rdma_refusal reason)
{
	uint8_t answer[RDMA_ANSWER_LEN];

	fm_rdma_answer_encode(answer, 0, reason);
	/* if that fails, destroying it refuses without a reason */
	(void)rdma_reject(id, answer, sizeof(answer));
}

/* From the request to the acceptance; c owns note->id. */
static int accept_start(struct rdma_conn *c, const struct rdma_hello *hello, struct fm_err *err)
{
	uint8_t answer[RDMA_ANSWER_LEN];
	struct rdma_conn_param param;
	int ret;

	ret = channel_new(&c->channel, err);
	if (ret < 0)
		return ret;
	ret = FM_FAULT("rdma.migrate") ? (errno = ENOMEM, -1) : rdma_migrate_id(c->id, c->channel);
	if (ret < 0)
		return fm_err_sys(err, -errno, "move connection id");
	ret = half_watch(c, err);
	if (ret < 0)
		return ret;
	id_set_tos(c->rdma, c->id);
	ret = fm_rdma_qp_new(c, err);
	if (ret < 0)
		return ret;
	ret = fm_rdma_qp_connect(c, hello->mtu, err);
	if (ret < 0)
		return ret;
	fm_rdma_answer_encode(answer, c->mtu, RDMA_REFUSAL_NONE);
	param = half_param(c, answer, sizeof(answer));
	ret = FM_FAULT("rdma.accept") ? (errno = EIO, -1) : rdma_accept(c->id, &param);
	return ret < 0 ? fm_err_sys(err, -errno, "accept") : 0;
}

/* The token is used up: from here on arrived() is called. */
static void accept_begin(struct rdma_conn *c, struct rdma_cm_id *id, const struct rdma_hello *hello)
{
	struct fm_err err;

	c->step = RDMA_STEP_ACCEPT;
	c->id = id;
	fm_timer_set(c->loop, &c->timer, fm_loop_now(c->loop) + ACCEPT_NS);
	if (accept_start(c, hello, &err) < 0) {
		accept_refuse(id, RDMA_REFUSAL_FAILED);
		half_fail(c, &err);
	}
}

/* One that failed has given back everything, and is in the list until it is told. */
static bool is_accepting(const struct rdma_conn *c)
{
	return !c->is_dialled && !c->is_failed && c->domain;
}

unsigned fm_rdma_accepting(const struct fm_rdma *rdma, const struct fm_rdma_domain *of)
{
	unsigned count = 0;

	fm_list_each(at, next, &rdma->half) {
		const struct rdma_conn *c = fm_container_of(at, struct rdma_conn, half);

		count += is_accepting(c) && (!of || c->domain == of);
	}
	return count;
}

struct rdma_conn *fm_rdma_find_crowd(const struct fm_rdma *rdma, const struct fm_rdma_domain *by)
{
	unsigned most = fm_rdma_accepting(rdma, by);
	struct rdma_conn *crowd = NULL;

	fm_list_each(at, next, &rdma->half) {
		struct rdma_conn *c = fm_container_of(at, struct rdma_conn, half);
		unsigned count = is_accepting(c) ? fm_rdma_accepting(rdma, c->domain) : 0;

		if (count <= most)
			continue;
		most = count;
		crowd = c;
	}
	return crowd;
}

/*
 * A place for one more of this session. A peer that asks for connections and never makes them could
 * hold all places, for ten seconds each: so where none is left, whoever has most gives up the
 * oldest.
 */
static bool accept_find_room(struct fm_rdma *rdma, const struct fm_rdma_domain *by)
{
	struct rdma_conn *crowd;
	struct fm_err err;

	if (fm_rdma_accepting(rdma, NULL) < RDMA_HALF_MAX)
		return true;
	crowd = fm_rdma_find_crowd(rdma, by);
	if (!crowd)
		return false;
	fm_err_set(&err, -EBUSY, "it was not made yet, its session had most of those, and others "
				 "came");
	half_fail(crowd, &err);
	return true;
}

static enum rdma_refusal accept_request(struct fm_rdma *rdma, const struct rdma_note *note)
{
	struct fm_domain *domain;
	struct rdma_conn *c;
	struct rdma_hello hello;
	enum rdma_refusal refusal;
	struct fm_err why = { 0 };
	void *tag;

	refusal = fm_rdma_request_decode(note->data, note->data_len, &hello);
	if (refusal != RDMA_REFUSAL_NONE)
		return refusal;
	c = half_new(rdma);	/* before token(): so that none is used up in vain */
	if (!c)
		return RDMA_REFUSAL_FAILED;
	domain = rdma->events->token(rdma->ctx, hello.token, FM_KIND_RDMA, NULL, &tag, &why);
	if (!domain) {
		fm_rdma_conn_free(c);
		return why.code < 0 ? RDMA_REFUSAL_FAILED : RDMA_REFUSAL_TOKEN;
	}
	if (!accept_find_room(rdma, fm_domain_rdma(domain))) {
		fm_rdma_conn_free(c);
		rdma->events->arrived(rdma->ctx, tag, NULL);
		return RDMA_REFUSAL_BUSY;
	}
	c->tag = tag;
	c->domain = fm_domain_rdma(domain);
	assert(c->domain);
	accept_begin(c, note->id, &hello);
	return RDMA_REFUSAL_NONE;
}

static void listener_note(struct fm_rdma *rdma, const struct rdma_note *note)
{
	enum rdma_refusal refusal;

	rdma->listen_pause_ns = LISTEN_PAUSE_MIN_NS;	/* it works */

	if (note->type != RDMA_CM_EVENT_CONNECT_REQUEST) {
		fm_log_warn("rdma: listener: %s (%d)", rdma_event_str(note->type), note->status);
		return;
	}
	refusal = accept_request(rdma, note);
	if (refusal == RDMA_REFUSAL_NONE)
		return;
	fm_log_debug("rdma: refused a connection (reason %d)", (int)refusal);
	accept_refuse(note->id, refusal);
	fm_rdma_id_destroy(note->id);
}

static void listener_stop(struct fm_rdma *rdma)
{
	fm_watch_del(rdma->loop, &rdma->listen_watch);
	fm_rdma_id_destroy(rdma->listener);
	rdma_destroy_event_channel(rdma->channel);
	rdma->listener = NULL;
	rdma->channel = NULL;
}

/*
 * Without one no peer that dials us has RDMA, and nothing else would ever mend that. The port of a
 * process before us, for one, is free only when the kernel is through with its connections.
 */
static void listener_failed(struct fm_rdma *rdma, const struct fm_err *err)
{
	fm_log_warn("no RDMA connection is accepted: %s; tried again in %llu s", err->text,
		    (unsigned long long)(rdma->listen_pause_ns / FM_NS_PER_S));
	(void)snprintf(rdma->listen_why, sizeof(rdma->listen_why), "%s", err->text);
	fm_timer_set(rdma->loop, &rdma->listen_timer,
		     fm_loop_now(rdma->loop) + rdma->listen_pause_ns);
	if (rdma->listen_pause_ns < LISTEN_PAUSE_MAX_NS / 2)
		rdma->listen_pause_ns *= 2;
	else
		rdma->listen_pause_ns = LISTEN_PAUSE_MAX_NS;
}

static void listener_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_rdma *rdma = fm_container_of(watch, struct fm_rdma, listen_watch);
	struct rdma_note note;
	struct fm_err err;
	int ret;

	(void)events;
	for (unsigned i = 0; i < NOTES_MAX && rdma->listener; i++) {
		ret = FM_FAULT("rdma.listener") ? -ENOMEM : fm_rdma_next_note(rdma->channel, &note);
		if (ret == -EAGAIN)
			return;
		if (ret < 0) {
			fm_err_sys(&err, ret, "events of the listener");
			listener_stop(rdma);
			listener_failed(rdma, &err);
			return;
		}
		listener_note(rdma, &note);
	}
}

/* ---- the whole ---- */

/* Every address of both families; without IPv6, of IPv4. */
static int listener_bind(struct fm_rdma *rdma, struct fm_err *err)
{
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_port = htons(rdma->port) };
	struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons(rdma->port) };
	int afonly = 0;

	if (FM_FAULT("rdma.bind"))
		return fm_err_sys(err, -EADDRINUSE, "RDMA port %u", rdma->port);
	/* Fails on kernels that know no such option; they listen on both anyway. */
	(void)rdma_set_option(rdma->listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &afonly,
			      sizeof(afonly));
	if (rdma_bind_addr(rdma->listener, (struct sockaddr *)&any6) == 0)
		return 0;
	if (errno == EADDRINUSE || rdma_bind_addr(rdma->listener, (struct sockaddr *)&any4) < 0)
		return fm_err_sys(err, -errno, "RDMA port %u", rdma->port);
	return 0;
}

static int listener_start(struct fm_rdma *rdma, struct fm_err *err)
{
	int ret;

	ret = channel_new(&rdma->channel, err);
	if (ret < 0)
		return ret;
	ret = FM_FAULT("rdma.listen_id")
		      ? (errno = ENOMEM, -1)
		      : rdma_create_id(rdma->channel, &rdma->listener, rdma, RDMA_PS_TCP);
	if (ret < 0) {
		ret = fm_err_sys(err, -errno, "create connection id");
		goto destroy_channel;
	}
	id_set_tos(rdma, rdma->listener);
	ret = listener_bind(rdma, err);
	if (ret < 0)
		goto destroy_id;
	ret = FM_FAULT("rdma.listen") ? (errno = EADDRINUSE, -1)
				      : rdma_listen(rdma->listener, RDMA_BACKLOG);
	if (ret < 0) {
		ret = fm_err_sys(err, -errno, "listen on RDMA port %u", rdma->port);
		goto destroy_id;
	}
	rdma->listen_watch = (struct fm_watch){
		.ready = listener_ready, .fd = rdma->channel->fd, .events = EPOLLIN};
	ret = fm_watch_add(rdma->loop, &rdma->listen_watch, err);
	if (ret < 0)
		goto destroy_id;
	return 0;

destroy_id:
	fm_rdma_id_destroy(rdma->listener);
	rdma->listener = NULL;
destroy_channel:
	rdma_destroy_event_channel(rdma->channel);
	rdma->channel = NULL;
	return ret;
}

static void listener_try(struct fm_rdma *rdma)
{
	struct fm_err err;

	if (listener_start(rdma, &err) < 0) {
		listener_failed(rdma, &err);
		return;
	}
	if (rdma->listen_why[0])
		fm_log_info("RDMA connections are accepted again");
	rdma->listen_why[0] = '\0';
}

static void listen_timer(struct fm_timer *timer)
{
	listener_try(fm_container_of(timer, struct fm_rdma, listen_timer));
}

void fm_rdma_start(struct fm_rdma *rdma, const struct fm_net_events *events, void *ctx)
{
	assert(!rdma->listener);
	rdma->events = events;
	rdma->ctx = ctx;
	rdma->listen_pause_ns = LISTEN_PAUSE_MIN_NS;
	if (!rdma->missing[0])
		listener_try(rdma);
}

const char *fm_rdma_why_not(const struct fm_rdma *rdma)
{
	return rdma->missing[0] ? rdma->missing : NULL;
}

const char *fm_rdma_trouble(const struct fm_rdma *rdma)
{
	return rdma->listen_why[0] ? rdma->listen_why : NULL;
}

void fm_rdma_stop(struct fm_rdma *rdma)
{
	struct fm_err err;

	if (rdma->listener)
		listener_stop(rdma);
	rdma->events = NULL;
	fm_timer_clear(rdma->loop, &rdma->listen_timer);
	fm_err_set(&err, -ECANCELED, "the network is being stopped");
	fm_list_each(at, next, &rdma->half) {
		struct rdma_conn *c = fm_container_of(at, struct rdma_conn, half);

		if (!c->is_dialled)
			half_drop(c);
		else if (!c->is_failed)
			half_fail(c, &err);
	}
}

/* A missing module or missing rights are told apart here: librdmacm says EPERM to both. */
static int check_rdma_cm(struct fm_err *err)
{
	static const char path[] = "/dev/infiniband/rdma_cm";

	if (access(path, F_OK) < 0)
		return fm_err_set(err, -ENODEV, "no %s: load the kernel module rdma_ucm", path);
	if (access(path, R_OK | W_OK) < 0)
		return fm_err_set(err, -ENODEV, "no access to %s: %s", path, fm_err_name(errno));
	return 0;
}

static int open_all(struct fm_rdma *rdma, struct fm_err *err)
{
	int ret = fm_rdma_devices_open(rdma, err);

	if (ret < 0)
		return ret;
	ret = check_rdma_cm(err);
	if (ret == 0)
		ret = channel_new(&rdma->probe, err);
	if (ret < 0)
		fm_rdma_devices_close(rdma);
	return ret;
}

/* Sessions look at what there is every few seconds, and tell their peers. */
static void find_first(struct fm_rdma *rdma)
{
	struct fm_err err = { 0 };

	if (open_all(rdma, &err) < 0) {
		if (strcmp(rdma->missing, err.text) != 0)
			fm_log_info("no RDMA: %s", err.text);
		(void)snprintf(rdma->missing, sizeof(rdma->missing), "%s", err.text);
		return;
	}
	if (rdma->missing[0])
		fm_log_info("there is RDMA now");
	rdma->missing[0] = '\0';
	if (rdma->events)
		listener_try(rdma);
}

static void look_later(struct fm_rdma *rdma)
{
	uint64_t pause_ns = rdma->missing[0] ? RDMA_MISSING_NS : RDMA_LOOK_NS;

	fm_timer_set(rdma->loop, &rdma->look, fm_loop_now(rdma->loop) + pause_ns);
}

static void look_fire(struct fm_timer *timer)
{
	struct fm_rdma *rdma = fm_container_of(timer, struct fm_rdma, look);

	if (rdma->missing[0])
		find_first(rdma);
	else
		fm_rdma_devices_look(rdma);
	look_later(rdma);
}

int fm_rdma_new(struct fm_loop *loop, uint16_t port, uint8_t dscp, struct fm_rdma **out,
		struct fm_err *err)
{
	struct fm_rdma *rdma;

	assert(loop && port > 0 && dscp < 64 && out);
	rdma = FM_FAULT("rdma.alloc") ? NULL : calloc(1, sizeof(*rdma));
	if (!rdma)
		return fm_err_set(err, -ENOMEM, "allocate RDMA transport");
	rdma->loop = loop;
	rdma->port = port;
	rdma->dscp = dscp;
	rdma->listen_timer.fire = listen_timer;
	rdma->look.fire = look_fire;
	fm_list_init(&rdma->devices);
	fm_list_init(&rdma->domains);
	fm_list_init(&rdma->half);
	find_first(rdma);
	look_later(rdma);
	*out = rdma;
	return 0;
}

void fm_rdma_free(struct fm_rdma *rdma)
{
	if (!rdma)
		return;
	assert(!rdma->listener);
	fm_list_each(at, next, &rdma->half)
		half_drop(fm_container_of(at, struct rdma_conn, half));
	fm_timer_clear(rdma->loop, &rdma->look);
	assert(atomic_load(&rdma->conns) == 0 && rdma->domain_count == 0 &&
	       atomic_load(&rdma->lenders) == 0 && atomic_load(&rdma->bytes_registered) == 0);
	if (rdma->probe)
		rdma_destroy_event_channel(rdma->probe);
	fm_rdma_devices_close(rdma);
	free(rdma);
}

/* librdmacm opens a device for the id that is bound to it, and keeps it open. Opened here as well,
 * its removal is looked out for. */
static void watch_device(struct fm_rdma *rdma, const char *name)
{
	struct rdma_device *device;
	struct fm_err err = { 0 };

	if (fm_rdma_device_get(rdma, name, &device, &err) < 0)
		fm_log_debug("rdma: %s", err.text);	/* who dials from it hears of it */
}

/* What binding an id to it finds is exactly what dialling from it would use. */
bool fm_rdma_is_rail(struct fm_rdma *rdma, const struct fm_addr *addr, char name[FM_RAIL_NAME_MAX],
		     uint32_t *speed_mbps)
{
	struct sockaddr_storage sa = addr->sa;
	struct ibv_port_attr port;
	struct rdma_cm_id *id;
	const char *device = NULL;
	bool is_rail = false;

	if (!rdma->probe || FM_FAULT("rdma.probe") ||
	    rdma_create_id(rdma->probe, &id, NULL, RDMA_PS_TCP) < 0)
		return false;
	fm_addr_set_port(&sa, 0);
	if (rdma_bind_addr(id, (struct sockaddr *)&sa) == 0 && id->verbs) {
		device = ibv_get_device_name(id->verbs->device);
		watch_device(rdma, device);
	}
	if (device && ibv_query_port(id->verbs, id->port_num, &port) == 0 &&
	    port.state == IBV_PORT_ACTIVE) {
		is_rail = true;
		snprintf(name, FM_RAIL_NAME_MAX, "%s", device);
		*speed_mbps = fm_rdma_port_speed(device, id->port_num);
	}
	fm_rdma_id_destroy(id);
	return is_rail;
}
