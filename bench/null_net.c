/* SPDX-License-Identifier: MIT */
#include "bench/null_net.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/list.h"
#include "mover/base/loop.h"

#define INBOX_MAX 1024	/* power of two; more than a connection may have under way */

/* A control connection's end. Messages wait in a list until the far end's loop runs. */
struct ctl_msg {
	struct ctl_msg *next;
	size_t len;
	uint8_t bytes[];
};

struct fm_ctl {
	struct fm_ctl *far;
	struct fm_loop *loop;
	const struct fm_ctl_events *events;
	void *ctx;
	struct fm_task task;
	struct ctl_msg *first, **last;
	bool is_opening;
};

struct conn {
	struct fm_conn conn;
	struct conn *far;
	struct fm_conn_info info;
	struct fm_loop *loop;
	const struct fm_conn_events *events;
	void *ctx;
	struct fm_task task;
	struct fm_send *inbox[INBOX_MAX];	/* sends of the far end, not delivered yet */
	unsigned in, out;
	struct fm_send *done_first, **done_last;
	bool is_closing;
};

struct net {
	struct fm_net net;
	struct net *far;
	struct fm_loop *loop;
	uint8_t key[FM_KEY_LEN];
	const struct fm_net_events *events;
	void *ctx;
};

static void ctl_run(struct fm_task *task)
{
	struct fm_ctl *c = fm_container_of(task, struct fm_ctl, task);
	struct ctl_msg *m;

	if (c->is_opening) {
		c->is_opening = false;
		c->events->opened(c->ctx);
	}
	while (c->events && (m = c->first) != NULL) {
		c->first = m->next;
		if (!c->first)
			c->last = &c->first;
		c->events->message(c->ctx, m->bytes, m->len);
		free(m);
	}
}

static struct fm_ctl *ctl_new(struct fm_loop *loop)
{
	struct fm_ctl *c = calloc(1, sizeof(*c));

	assert(c);
	c->loop = loop;
	c->task.run = ctl_run;
	c->last = &c->first;
	return c;
}

static int start(struct fm_net *net, const struct fm_net_events *events, void *ctx,
		 struct fm_err *err)
{
	struct net *n = fm_container_of(net, struct net, net);

	(void)err;
	n->events = events;
	n->ctx = ctx;
	return 0;
}

static void stop(struct fm_net *net)
{
	(void)net;
}

static struct fm_ctl *ctl_dial(struct fm_net *net, const struct fm_ctl_dial *dial)
{
	struct net *n = fm_container_of(net, struct net, net);
	struct fm_ctl *here = ctl_new(n->loop), *there = ctl_new(n->far->loop);
	bool is_taken;

	here->far = there;
	there->far = here;
	here->events = dial->events;
	here->ctx = dial->ctx;
	here->is_opening = true;
	is_taken =
		n->far->events->accepted(n->far->ctx, there, n->key, &there->events, &there->ctx);
	assert(is_taken);
	(void)is_taken;
	fm_loop_post(here->loop, &here->task);
	return here;
}

static int ctl_send(struct fm_ctl *c, const uint8_t *msg, size_t len)
{
	struct ctl_msg *m = malloc(sizeof(*m) + len);

	assert(m);
	m->next = NULL;
	m->len = len;
	memcpy(m->bytes, msg, len);
	*c->far->last = m;
	c->far->last = &m->next;
	fm_loop_post(c->far->loop, &c->far->task);
	return 0;
}

static void ctl_close(struct fm_ctl *c)
{
	c->events = NULL;	/* the program ends soon: kept */
}

static const char *ctl_peer(const struct fm_ctl *c)
{
	(void)c;
	return "null";
}

static size_t addrs(struct fm_net *net, struct fm_addr *out, size_t max)
{
	(void)net;
	(void)out;
	(void)max;
	return 0;
}

static bool has_addr(struct fm_net *net, const struct sockaddr_storage *sa)
{
	(void)net;
	(void)sa;
	return false;
}

static void ctl_addrs(const struct fm_ctl *c, struct fm_addr *local, struct fm_addr *remote)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&local->sa;

	(void)c;
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	*remote = *local;
}

static uint16_t data_port(struct fm_net *net, enum fm_kind kind, const char **why)
{
	(void)net;
	*why = "this network has no wire";
	return kind == FM_KIND_TCP ? 1 : 0;
}

static const struct fm_conn_ops conn_ops;

static void conn_run(struct fm_task *task);

static struct conn *conn_new(void)
{
	struct conn *c = calloc(1, sizeof(*c));

	assert(c);
	c->conn.ops = &conn_ops;
	c->info = (struct fm_conn_info){ .kind = FM_KIND_TCP, .note = "null" };
	c->task.run = conn_run;
	c->done_last = &c->done_first;
	return c;
}

static int data_dial(struct fm_net *net, const struct fm_data_dial *d)
{
	struct net *n = fm_container_of(net, struct net, net);
	struct conn *here = conn_new(), *there = conn_new();
	struct fm_err why;
	void *tag;

	here->far = there;
	there->far = here;
	if (!n->far->events->token(n->far->ctx, d->token, d->kind, NULL, &tag, &why))
		abort();
	n->far->events->arrived(n->far->ctx, tag, &there->conn);
	d->done(d->ctx, 0, &here->conn, NULL);
	return 0;
}

static int domain_new(struct fm_net *net, struct fm_domain **out, struct fm_err *err)
{
	static int one;

	(void)net;
	(void)err;
	*out = (struct fm_domain *)(void *)&one;
	return 0;
}

static void domain_free(struct fm_domain *d)
{
	(void)d;
}

static const struct fm_net_ops net_ops = {
	.start = start,
	.stop = stop,
	.ctl_dial = ctl_dial,
	.ctl_send = ctl_send,
	.ctl_close = ctl_close,
	.ctl_peer = ctl_peer,
	.addrs = addrs,
	.has_addr = has_addr,
	.ctl_addrs = ctl_addrs,
	.data_port = data_port,
	.data_dial = data_dial,
	.domain_new = domain_new,
	.domain_free = domain_free,
};

/* ---- data connections ---- */

static void finish_send(struct conn *c, struct fm_send *s)
{
	s->next = NULL;
	*c->done_last = s;
	c->done_last = &s->next;
	fm_loop_post(c->loop, &c->task);
}

static void conn_run(struct fm_task *task)
{
	struct conn *c = fm_container_of(task, struct conn, task);
	unsigned until = c->in;
	struct fm_send *s;

	while (c->out != until) {
		s = c->inbox[c->out++ % INBOX_MAX];
		if (!c->is_closing)
			c->events->message(c->ctx, s->msg);
		finish_send(c->far, s);
	}
	while ((s = c->done_first) != NULL) {
		c->done_first = s->next;
		if (!c->done_first)
			c->done_last = &c->done_first;
		s->done(s, 0);
	}
	if (c->is_closing && c->events) {
		const struct fm_conn_events *events = c->events;

		c->events = NULL;
		events->closed(c->ctx);
	}
}

static void conn_attach(struct fm_conn *conn, struct fm_loop *loop,
			const struct fm_conn_events *events, void *ctx)
{
	struct conn *c = fm_container_of(conn, struct conn, conn);

	c->loop = loop;
	c->events = events;
	c->ctx = ctx;
	fm_loop_post(loop, &c->task);
}

static int conn_lend(struct fm_conn *conn, void *memory, size_t len, bool is_rx,
		     struct fm_region *out, struct fm_err *err)
{
	(void)conn;
	(void)is_rx;
	(void)err;
	*out = (struct fm_region){ .memory = memory, .len = len, .remote = 4096 };
	return 0;
}

static void conn_take_back(struct fm_conn *conn, struct fm_region *region)
{
	(void)conn;
	(void)region;
}

static void conn_send(struct fm_conn *conn, struct fm_send *s)
{
	struct conn *c = fm_container_of(conn, struct conn, conn), *far = c->far;

	assert(far->in - far->out < INBOX_MAX);
	far->inbox[far->in++ % INBOX_MAX] = s;
	if (far->loop)
		fm_loop_post(far->loop, &far->task);
}

static void conn_close(struct fm_conn *conn)
{
	struct conn *c = fm_container_of(conn, struct conn, conn);

	c->is_closing = true;
	fm_loop_post(c->loop, &c->task);
}

static const struct fm_conn_info *conn_info(const struct fm_conn *conn)
{
	return &fm_container_of(conn, const struct conn, conn)->info;
}

static const struct fm_conn_ops conn_ops = {
	.attach = conn_attach,
	.lend = conn_lend,
	.take_back = conn_take_back,
	.send = conn_send,
	.close = conn_close,
	.info = conn_info,
};

void null_net_pair(struct fm_loop *const loops[2], struct fm_net *out[2])
{
	struct net *n = calloc(2, sizeof(*n));

	assert(n);
	for (unsigned i = 0; i < 2; i++) {
		n[i].net.ops = &net_ops;
		n[i].far = &n[1 - i];
		n[i].loop = loops[i];
		n[i].key[0] = (uint8_t)(i + 1);
		out[i] = &n[i].net;
	}
}
