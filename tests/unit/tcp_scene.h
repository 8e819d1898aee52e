/* SPDX-License-Identifier: MIT */
/*
 * tcp_scene - what the tests of TCP data connections share: nodes that take one token, dials, the
 * two ends of a connection and what they saw. Everything is over loopback, where TCP is plain;
 * is_over_tls makes it TLS all the same.
 */
#ifndef FM_TCP_SCENE_H
#define FM_TCP_SCENE_H

#include "net_test.h"

static bool is_over_tls;

#define PAGE 4096u
#define MSG FM_DATA_MSG_LEN

/* ---- a node that takes one token ---- */

struct node {
	struct fm_net *net;
	uint8_t key[FM_KEY_LEN];
	struct fm_domain *domain;
	uint8_t token[FM_TOKEN_LEN];
	bool is_token_used;
	unsigned tokens, arrived, arrived_none;
	struct fm_conn *conn;		/* arrived, not attached */
	const struct node *far;		/* whose key it pins; NULL: nobody's */
};

static bool is_unknown;		/* nobody is a peer */

static inline bool is_known(void *ctx, const uint8_t key[FM_KEY_LEN])
{
	(void)ctx;
	(void)key;
	return is_over_tls && !is_unknown;
}

static inline bool on_accepted(void *ctx, struct fm_ctl *ctl, const uint8_t key[FM_KEY_LEN],
			const struct fm_ctl_events **events, void **ctl_ctx)
{
	(void)ctx;
	(void)ctl;
	(void)key;
	(void)events;
	(void)ctl_ctx;
	return false;
}

static inline struct fm_domain *on_token(void *ctx, const uint8_t token[FM_TOKEN_LEN],
					 enum fm_kind kind, const uint8_t *key, void **tag,
					 struct fm_err *why)
{
	struct node *n = ctx;

	(void)why;
	CU_ASSERT_EQUAL(kind, FM_KIND_TCP);
	CU_ASSERT_EQUAL(key != NULL, is_over_tls);
	n->tokens++;
	if (n->is_token_used || memcmp(token, n->token, FM_TOKEN_LEN) != 0)
		return NULL;
	n->is_token_used = true;
	*tag = &n->token;
	return n->domain;
}

static inline void on_arrived(void *ctx, void *tag, struct fm_conn *conn)
{
	struct node *n = ctx;

	CU_ASSERT_PTR_EQUAL(tag, &n->token);
	n->arrived++;
	if (!conn)
		n->arrived_none++;
	n->conn = conn;
}

static const struct fm_net_events net_events = {is_known, on_accepted, on_token, on_arrived, NULL};

static inline int node_try(struct fm_loop *loop, struct node *n, uint8_t seed, bool is_tcp_allowed,
			   struct fm_err *err)
{
	const struct fm_net_opts opts = {.listen = "127.0.0.1:0",
					 .key_file = key_file(seed),
					 .dscp = 10,
					 .is_tcp_allowed = is_tcp_allowed};
	int ret;

	memset(n, 0, sizeof(*n));
	memset(n->token, 0xa0 + seed, sizeof(n->token));
	ret = fm_net_new(loop, &opts, &n->net, err);
	if (ret < 0)
		return ret;
	ret = n->net->ops->start(n->net, &net_events, n, err);
	if (ret == 0)
		ret = n->net->ops->domain_new(n->net, &n->domain, err);
	return ret;
}

static inline void node_new(struct fm_loop *loop, struct node *n, uint8_t seed)
{
	if (node_try(loop, n, seed, true, NULL) < 0)
		abort();
}

static inline void node_free(struct node *n)
{
	if (!n->net)
		return;
	n->net->ops->stop(n->net);
	if (n->conn)
		n->conn->ops->close(n->conn);
	n->net->ops->domain_free(n->domain);
	fm_net_free(n->net);
}

/* ---- dialling ---- */

struct dialled {
	unsigned done;
	int res;
	struct fm_conn *conn;
	struct fm_err err;
};

static inline void on_dialled(void *ctx, int res, struct fm_conn *conn, const struct fm_err *err)
{
	struct dialled *d = ctx;

	d->done++;
	d->res = res;
	d->conn = conn;
	d->err = *err;
	CU_ASSERT_EQUAL(res == 0, conn != NULL);
}

static inline struct fm_addr loopback_addr(void)
{
	struct sockaddr_in in = loopback(0);
	struct fm_addr addr = { .prefix_len = 8 };

	memcpy(&addr.sa, &in, sizeof(in));
	return addr;
}

static inline void dial_port(struct node *from, uint16_t port, const uint8_t token[FM_TOKEN_LEN],
			     struct dialled *d)
{
	struct fm_data_dial dial = { .kind = FM_KIND_TCP,
				     .local = loopback_addr(),
				     .remote = loopback_addr(),
				     .port = port,
				     .needs_tls = is_over_tls,
				     .domain = from->domain,
				     .timeout_ns = 10 * FM_NS_PER_S,
				     .done = on_dialled,
				     .ctx = d };

	memset(d, 0, sizeof(*d));
	memcpy(dial.token, token, FM_TOKEN_LEN);
	if (from->far)
		fm_net_key(from->far->net, dial.key);
	if (from->net->ops->data_dial(from->net, &dial) == 0) {
		CU_ASSERT_EQUAL(d->done, 0);
		return;
	}
	fm_err_set(&d->err, -ENOMEM, "no memory to dial");
	on_dialled(d, -ENOMEM, NULL, &d->err);
}

/* ---- an end of a connection, and what it saw ---- */

struct end {
	struct fm_conn *conn;
	unsigned messages, failed, closed, sent, cancelled;
	uint8_t msg_last[MSG];
	struct fm_err err;
	unsigned close_after_messages, close_after_sends;	/* 0: never */
	bool closes_when_failed;
	unsigned asked;			/* whether a message may come, with its payload */
	bool refuses, is_bad_ask;
	uint8_t *place;			/* where payloads come of at most so many bytes */
	size_t place_len;
	/* on each message: its payload lies where the message says */
	struct end *check;
	uint8_t *memory;
	size_t len;
	struct fm_region region;
	unsigned bad;
};

static inline void end_close(struct end *e)
{
	if (e->conn)
		e->conn->ops->close(e->conn);
	e->conn = NULL;
}

static inline uint8_t pattern(uint32_t seq, size_t at)
{
	return (uint8_t)(seq * 7 + at + (at >> 8));
}

/* A message says: sequence number, offset and length of the payload. */
static inline void msg_put(uint8_t msg[MSG], uint32_t seq, uint32_t offset, uint32_t len)
{
	memset(msg, 0xee, MSG);
	memcpy(msg, &seq, 4);
	memcpy(msg + 4, &offset, 4);
	memcpy(msg + 8, &len, 4);
}

static inline void on_message(void *ctx, const uint8_t msg[MSG])
{
	struct end *e = ctx;
	uint32_t seq, offset, len;

	memcpy(e->msg_last, msg, MSG);
	memcpy(&seq, msg, 4);
	memcpy(&offset, msg + 4, 4);
	memcpy(&len, msg + 8, 4);
	if (e->memory) {
		e->bad += seq != e->messages;
		for (size_t i = 0; i < len; i++)
			e->bad += e->memory[offset + i] != pattern(seq, i);
	}
	e->messages++;
	if (e->messages == e->close_after_messages)
		end_close(e);
}

static inline void on_failed(void *ctx, const struct fm_err *err)
{
	struct end *e = ctx;

	e->failed++;
	e->err = *err;
	if (e->closes_when_failed)
		end_close(e);
}

static inline void on_closed(void *ctx)
{
	struct end *e = ctx;

	e->closed++;
}

static inline bool on_may_write(void *ctx, const uint8_t msg[MSG], uint64_t remote, uint32_t len)
{
	struct end *e = ctx;

	uint64_t end = e->region.remote + e->region.len;

	e->asked++;
	e->is_bad_ask |= msg[MSG - 1] != 0xee || (len == 0 && remote != 0) ||
			 (len > 0 && (remote < e->region.remote || remote + len > end));
	return !e->refuses;
}

static inline void *on_place(void *ctx, const uint8_t msg[MSG], uint32_t len)
{
	struct end *e = ctx;

	(void)msg;
	return len <= e->place_len ? e->place : NULL;
}

static const struct fm_conn_events conn_events = {
	.message = on_message, .failed = on_failed, .closed = on_closed, .may_write = on_may_write,
	.place = on_place,
};

struct out {
	struct fm_send send;
	struct end *end;
	unsigned done;
	int res;
};

static inline void on_sent(struct fm_send *send, int res)
{
	struct out *o = fm_container_of(send, struct out, send);
	struct end *e = o->end;

	o->done++;
	o->res = res;
	CU_ASSERT_TRUE(res == 0 || res == -ECANCELED);
	if (res == 0)
		e->sent++;
	else
		e->cancelled++;
	if (e->sent && e->sent == e->close_after_sends)
		end_close(e);
}

static inline void end_attach(struct end *e, struct fm_conn *conn, struct fm_loop *loop)
{
	e->conn = conn;
	conn->ops->attach(conn, loop, &conn_events, e);
}

static inline void end_lend(struct end *e, size_t len, bool is_rx)
{
	struct fm_err err;

	e->len = len;
	e->memory = aligned_alloc(PAGE, len);
	if (!e->memory)
		abort();
	memset(e->memory, 0, len);
	CU_ASSERT_EQUAL(e->conn->ops->lend(e->conn, e->memory, len, is_rx, &e->region, &err), 0);
}

/* Two nodes on one loop, a connection between them, attached. */
struct pair {
	struct fm_loop *loop;
	struct node a, b;
	struct dialled d;
	struct end from, to;	/* a dialled, b accepted */
};

static inline void pair_new(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	p->loop = loop_new();
	node_new(p->loop, &p->a, 1);
	node_new(p->loop, &p->b, 2);
	p->a.far = &p->b;
}

static inline void pair_connect(struct pair *p)
{
	dial_port(&p->a, fm_net_port(p->b.net), p->b.token, &p->d);
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, p->d.done && p->b.conn));
	if (!p->d.conn || !p->b.conn)
		abort();
	end_attach(&p->from, p->d.conn, p->loop);
	end_attach(&p->to, p->b.conn, p->loop);
	p->b.conn = NULL;
}

static inline void pair_free(struct pair *p)
{
	end_close(&p->from);
	end_close(&p->to);
	loop_idle(p->loop, 2);
	free(p->from.memory);
	free(p->to.memory);
	node_free(&p->a);
	node_free(&p->b);
	fm_loop_free(p->loop);
}

#define ASSERT_SAYS(err, part) \
	do { \
		if (!strstr((err).text, part)) \
			printf("\n    \"%s\" does not say \"%s\"", (err).text, part); \
		CU_ASSERT_PTR_NOT_NULL(strstr((err).text, part)); \
	} while (0)

#endif
