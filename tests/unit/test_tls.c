/* SPDX-License-Identifier: MIT */
/* links: fm_transport fm_wire */
/*
 * Control connections, through struct fm_net and real sockets on 127.0.0.1: two nodes on one loop,
 * or a node and a peer that misbehaves, made of bare sockets or of the TLS layer alone.
 */
#include "mover/transport/tls.h"

#include <dirent.h>
#include <openssl/ssl.h>

#include "mover/transport/addr.h"
#include "mover/transport/listen.h"
#include "foreign_tls.h"
#include "net_test.h"

/* ---- a node, and what it saw ---- */

struct seen {
	struct fm_ctl *ctl;
	struct fm_net *net;
	unsigned opened, closed, messages;
	size_t bytes;
	size_t len_last;
	uint32_t sum;			/* of every byte in order, so that reordering shows */
	bool is_echoing;
	unsigned close_after;		/* messages; 0: never */
	bool closes_itself;
	struct fm_err err;
};

struct node {
	struct fm_net *net;
	uint8_t key[FM_KEY_LEN];
	uint8_t known[FM_KEY_LEN];	/* the one peer it knows */
	bool is_refusing;
	unsigned accepted, asked;
	struct seen in;			/* the connection accepted last */
};

static void seen_close(struct seen *s)
{
	if (s->ctl)
		s->net->ops->ctl_close(s->ctl);
	s->ctl = NULL;
}

static void on_opened(void *ctx)
{
	struct seen *s = ctx;

	s->opened++;
}

static uint32_t sum_of(uint32_t sum, const uint8_t *msg, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum = sum * 31 + msg[i];
	return sum;
}

static void on_message(void *ctx, const uint8_t *msg, size_t len)
{
	struct seen *s = ctx;

	s->messages++;
	s->bytes += len;
	s->len_last = len;
	s->sum = sum_of(s->sum, msg, len);
	if (s->is_echoing)
		CU_ASSERT_EQUAL(s->net->ops->ctl_send(s->ctl, msg, len), 0);
	if (s->messages == s->close_after)
		seen_close(s);
}

static void on_closed(void *ctx, const struct fm_err *err)
{
	struct seen *s = ctx;

	s->closed++;
	s->err = *err;
	if (s->closes_itself)
		seen_close(s);
}

static const struct fm_ctl_events ctl_events = { on_opened, on_message, on_closed };

static bool is_known(void *ctx, const uint8_t key[FM_KEY_LEN])
{
	struct node *n = ctx;

	n->asked++;
	return memcmp(key, n->known, FM_KEY_LEN) == 0;
}

static bool on_accepted(void *ctx, struct fm_ctl *ctl, const uint8_t key[FM_KEY_LEN],
			const struct fm_ctl_events **events, void **ctl_ctx)
{
	struct node *n = ctx;

	CU_ASSERT_EQUAL(memcmp(key, n->known, FM_KEY_LEN), 0);
	n->accepted++;
	if (n->is_refusing)
		return false;
	seen_close(&n->in);
	n->in.ctl = ctl;
	n->in.net = n->net;
	*events = &ctl_events;
	*ctl_ctx = &n->in;
	return true;
}

static struct fm_domain *on_token(void *ctx, const uint8_t token[FM_TOKEN_LEN], enum fm_kind kind,
				  const uint8_t *key, void **tag, struct fm_err *why)
{
	(void)why;
	(void)ctx;
	(void)token;
	(void)kind;
	(void)key;
	(void)tag;
	return NULL;
}

static void on_arrived(void *ctx, void *tag, struct fm_conn *conn)
{
	(void)ctx;
	(void)tag;
	(void)conn;
	CU_FAIL("a data connection arrived");
}

static const struct fm_net_events net_events = {is_known, on_accepted, on_token, on_arrived, NULL};

static int node_try(struct fm_loop *loop, struct node *n, uint8_t seed, const char *listen,
		    struct fm_err *err)
{
	const struct fm_net_opts opts = {
		.listen = listen, .key_file = key_file(seed), .is_tcp_allowed = true};
	int ret;

	memset(n, 0, sizeof(*n));
	ret = fm_net_new(loop, &opts, &n->net, err);
	if (ret < 0)
		return ret;
	fm_net_key(n->net, n->key);
	ret = n->net->ops->start(n->net, &net_events, n, err);
	if (ret < 0) {
		n->net->ops->stop(n->net);
		fm_net_free(n->net);
		n->net = NULL;
	}
	return ret;
}

static void node_new(struct fm_loop *loop, struct node *n, uint8_t seed)
{
	if (node_try(loop, n, seed, "127.0.0.1:0", NULL) < 0)
		abort();
}

static void node_free(struct node *n)
{
	if (!n->net)
		return;
	n->net->ops->stop(n->net);
	seen_close(&n->in);
	fm_net_free(n->net);
}

/* Two nodes that know each other. */
struct pair {
	struct fm_loop *loop;
	struct node a, b;
	struct seen out;	/* what a dialled */
};

static void pair_new(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	p->loop = loop_new();
	node_new(p->loop, &p->a, 1);
	node_new(p->loop, &p->b, 2);
	memcpy(p->a.known, p->b.key, FM_KEY_LEN);
	memcpy(p->b.known, p->a.key, FM_KEY_LEN);
}

static void pair_free(struct pair *p)
{
	seen_close(&p->out);
	node_free(&p->a);
	node_free(&p->b);
	fm_loop_free(p->loop);
}

static struct fm_ctl_dial dial_to(struct seen *s, const char *host, uint16_t port,
				  const uint8_t key[FM_KEY_LEN])
{
	struct fm_ctl_dial dial = {.host = host,
				   .port = port,
				   .events = &ctl_events,
				   .ctx = s,
				   .timeout_ns = 10 * FM_NS_PER_S};

	memcpy(dial.key, key, FM_KEY_LEN);
	return dial;
}

static void dial(struct node *n, struct seen *s, const char *host, uint16_t port,
		 const uint8_t key[FM_KEY_LEN])
{
	struct fm_ctl_dial d = dial_to(s, host, port, key);

	s->net = n->net;
	s->ctl = n->net->ops->ctl_dial(n->net, &d);
	CU_ASSERT_PTR_NOT_NULL(s->ctl);
	CU_ASSERT_EQUAL(s->opened + s->closed, 0);	/* not from inside the call */
}

static void pair_connect(struct pair *p)
{
	dial(&p->a, &p->out, "127.0.0.1", fm_net_port(p->b.net), p->b.key);
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, p->out.opened == 1 && p->b.accepted == 1));
}

/* What is said of the error, in part. */
#define ASSERT_SAYS(err, part) \
	do { \
		if (!strstr((err).text, part)) \
			printf("\n    \"%s\" does not say \"%s\"", (err).text, part); \
		CU_ASSERT_PTR_NOT_NULL(strstr((err).text, part)); \
	} while (0)

/* ---- a peer made of the TLS layer alone, to send what our own code would not ---- */

struct raw_tls {
	struct fm_tls_node *node;
	struct fm_tls *tls;
	int fd;
};

/* Connect to b as a, up to the welcome. */
static void raw_tls_open(struct raw_tls *r, struct pair *p)
{
	struct fm_tls_opts opts = { .is_dialled = true };
	uint8_t welcome[4] = { 1 };
	struct fm_err err;
	int ret = -EAGAIN;

	memcpy(opts.key, p->b.key, FM_KEY_LEN);
	r->fd = opts.fd = raw_connect(fm_net_port(p->b.net));
	if (fm_tls_node_new(key_file(1), &r->node, &err) < 0 ||
	    fm_tls_new(r->node, &opts, &r->tls, &err) < 0)
		abort();
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, ret != -EAGAIN || (ret = fm_tls_handshake(r->tls, &err)) !=
								   -EAGAIN));
	CU_ASSERT_EQUAL(ret, 0);
	ret = -EAGAIN;
	CU_ASSERT_TRUE(
		WAIT_FOR(p->loop, (ret = (int)fm_tls_read(r->tls, welcome, 4, &err)) != -EAGAIN));
	CU_ASSERT_EQUAL(ret, 4);
	CU_ASSERT_EQUAL(welcome[0], 0);
}

static void raw_tls_send(struct raw_tls *r, struct pair *p, const void *buf, size_t len)
{
	const uint8_t *at = buf;
	struct fm_err err;
	ssize_t n = 0;

	while (len > 0 && WAIT_FOR(p->loop, (n = fm_tls_write(r->tls, at, len, &err)) != -EAGAIN) &&
	       n > 0) {
		at += n;
		len -= (size_t)n;
	}
	CU_ASSERT_EQUAL(len, 0);
}

static void raw_tls_close(struct raw_tls *r)
{
	fm_tls_free(r->tls);
	fm_tls_node_free(r->node);
	close(r->fd);
}

/* ---- messages ---- */

static void test_messages_both_ways(void)
{
	struct fm_addr local, remote;
	uint8_t msg[100];
	struct pair p;

	pair_new(&p);
	pair_connect(&p);
	p.b.in.is_echoing = true;
	memset(msg, 7, sizeof(msg));
	for (size_t len = 1; len <= sizeof(msg); len++)
		CU_ASSERT_EQUAL(p.a.net->ops->ctl_send(p.out.ctl, msg, len), 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.messages == 100));
	CU_ASSERT_EQUAL(p.b.in.messages, 100);
	CU_ASSERT_EQUAL(p.out.bytes, 5050);
	CU_ASSERT_EQUAL(p.out.sum, p.b.in.sum);
	CU_ASSERT_EQUAL(p.out.opened, 1);
	CU_ASSERT_EQUAL(p.b.in.opened, 0);	/* accepted() said it */

	CU_ASSERT_PTR_NOT_NULL(strstr(p.a.net->ops->ctl_peer(p.out.ctl), "127.0.0.1:"));
	p.a.net->ops->ctl_addrs(p.out.ctl, &local, &remote);
	CU_ASSERT_EQUAL(local.sa.ss_family, AF_INET);
	CU_ASSERT_STRING_EQUAL(local.name, "lo");
	CU_ASSERT_TRUE(fm_addr_is_equal(&local.sa, &remote.sa));
	pair_free(&p);
}

/*
 * Goal: messages of the largest size, more of them than fit any buffer, both ways at once, arrive
 * whole and in order.
 */
static void test_big_messages(void)
{
	static uint8_t msg[FM_CTL_MSG_MAX];
	uint32_t sum = 0;
	struct pair p;

	pair_new(&p);
	pair_connect(&p);
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < 48; i++) {
			memset(msg, (int)(round * 48 + i), sizeof(msg));
			sum = sum_of(sum, msg, sizeof(msg));
			CU_ASSERT_EQUAL(p.a.net->ops->ctl_send(p.out.ctl, msg, sizeof(msg)), 0);
			CU_ASSERT_EQUAL(p.b.net->ops->ctl_send(p.b.in.ctl, msg, sizeof(msg)), 0);
		}
		CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.messages == 48 * (round + 1) &&
							p.b.in.messages == 48 * (round + 1)));
	}
	CU_ASSERT_EQUAL(p.out.sum, sum);
	CU_ASSERT_EQUAL(p.b.in.sum, sum);
	CU_ASSERT_EQUAL(p.out.len_last, FM_CTL_MSG_MAX);
	pair_free(&p);
}

/* A message given before the handshake is through goes out after it. */
static void test_send_before_open(void)
{
	struct pair p;

	pair_new(&p);
	dial(&p.a, &p.out, "127.0.0.1", fm_net_port(p.b.net), p.b.key);
	CU_ASSERT_EQUAL(p.a.net->ops->ctl_send(p.out.ctl, (const uint8_t *)"early", 5), 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.b.in.messages == 1));
	CU_ASSERT_EQUAL(p.b.in.len_last, 5);
	pair_free(&p);
}

static void test_close_flushes(void)
{
	uint8_t msg[1000] = { 1 };
	struct pair p;

	pair_new(&p);
	pair_connect(&p);
	for (unsigned i = 0; i < 50; i++)
		CU_ASSERT_EQUAL(p.a.net->ops->ctl_send(p.out.ctl, msg, sizeof(msg)), 0);
	seen_close(&p.out);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.b.in.closed == 1));
	CU_ASSERT_EQUAL(p.b.in.messages, 50);
	ASSERT_SAYS(p.b.in.err, "it closed the connection");
	CU_ASSERT_EQUAL(p.b.net->ops->ctl_send(p.b.in.ctl, msg, 1), -EPIPE);
	CU_ASSERT_EQUAL(p.out.closed, 0);	/* no event after close */
	pair_free(&p);
}

/* Goal: the owner may close in any callback. Method: in each of them; the sanitizer watches the
 * memory. */
static void test_close_in_callbacks(void)
{
	struct pair p;

	pair_new(&p);
	pair_connect(&p);
	p.b.in.close_after = 2;
	p.out.closes_itself = true;
	for (unsigned i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(p.a.net->ops->ctl_send(p.out.ctl, (const uint8_t *)"x", 1), 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.b.in.messages, 2);
	CU_ASSERT_EQUAL(p.b.in.closed, 0);
	CU_ASSERT_PTR_NULL(p.out.ctl);
	pair_free(&p);
}

/* Closing at any step of a dial costs nothing and says nothing. */
static void test_close_while_dialling(void)
{
	struct pair p;

	pair_new(&p);
	for (unsigned steps = 0; steps < 30; steps++) {
		memset(&p.out, 0, sizeof(p.out));
		dial(&p.a, &p.out, steps % 2 ? "localhost" : "127.0.0.1", fm_net_port(p.b.net),
		     p.b.key);
		for (unsigned i = 0; i < steps; i++)
			fm_loop_step(p.loop, FM_NS_PER_MS);
		seen_close(&p.out);
		loop_idle(p.loop, 2);
		CU_ASSERT_EQUAL(p.out.closed, 0);
	}
	loop_idle(p.loop, 50);
	pair_free(&p);
}

/* Goal: a peer that does not read costs at most FM_CTL_QUEUE_MAX. */
static void test_queue_bound(void)
{
	static uint8_t msg[FM_CTL_MSG_MAX];
	struct raw_tls r;
	struct pair p;
	size_t sent = 0;
	int ret = 0;

	pair_new(&p);
	raw_tls_open(&r, &p);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.b.accepted == 1));
	for (unsigned i = 0; i < 4096 && ret == 0; i++) {
		ret = p.b.net->ops->ctl_send(p.b.in.ctl, msg, sizeof(msg));
		sent += ret == 0 ? sizeof(msg) : 0;
		fm_loop_step(p.loop, 0);
	}
	CU_ASSERT_EQUAL(ret, -ENOBUFS);
	CU_ASSERT_TRUE(sent > FM_CTL_QUEUE_MAX - 2 * sizeof(msg));
	/* what the kernel takes is the kernel's limit */
	CU_ASSERT_TRUE(sent < FM_CTL_QUEUE_MAX + (64u << 20));
	CU_ASSERT_EQUAL(p.b.in.closed, 0);
	raw_tls_close(&r);
	pair_free(&p);
}

/* ---- who may ---- */

static void test_wrong_key_there(void)
{
	struct pair p;

	pair_new(&p);
	dial(&p.a, &p.out, "localhost", fm_net_port(p.b.net), p.a.key);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.opened, 0);
	CU_ASSERT_EQUAL(p.out.err.code, -EKEYREJECTED);
	ASSERT_SAYS(p.out.err, "localhost (127.0.0.1:");
	ASSERT_SAYS(p.out.err, "its key is not the one in the configuration (expected ");
	loop_idle(p.loop, 50);
	CU_ASSERT_EQUAL(p.b.accepted, 0);
	pair_free(&p);
}

static void test_not_known_there(void)
{
	struct pair p;

	pair_new(&p);
	memset(p.b.known, 0, FM_KEY_LEN);
	dial(&p.a, &p.out, "127.0.0.1", fm_net_port(p.b.net), p.b.key);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.opened, 0);
	CU_ASSERT_EQUAL(p.out.err.code, -EACCES);
	ASSERT_SAYS(p.out.err, "this node's key is not known there");
	CU_ASSERT_EQUAL(strncmp(p.out.err.text, "127.0.0.1:", 10), 0);
	CU_ASSERT_EQUAL(p.b.accepted, 0);
	CU_ASSERT_TRUE(p.b.asked > 0);
	pair_free(&p);
}

static void test_known_but_not_wanted(void)
{
	struct pair p;

	pair_new(&p);
	p.b.is_refusing = true;
	dial(&p.a, &p.out, "127.0.0.1", fm_net_port(p.b.net), p.b.key);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.opened, 0);
	CU_ASSERT_EQUAL(p.out.err.code, -ECONNREFUSED);
	ASSERT_SAYS(p.out.err, "does not want the connection");
	pair_free(&p);
}

/* ---- joining ---- */

static unsigned joins;
static struct seen join_seen;

static bool on_join(void *ctx, struct fm_ctl *ctl, const uint8_t key[FM_KEY_LEN],
		    const struct fm_ctl_events **events, void **ctl_ctx)
{
	struct pair *p = ctx;

	CU_ASSERT_EQUAL(memcmp(key, p->a.key, FM_KEY_LEN), 0);
	joins++;
	join_seen = (struct seen){ .ctl = ctl, .net = p->b.net, .is_echoing = true };
	*events = &ctl_events;
	*ctl_ctx = &join_seen;
	return true;
}

static void join(struct pair *p, const uint8_t key[FM_KEY_LEN])
{
	struct fm_ctl_dial d = dial_to(&p->out, "127.0.0.1", fm_net_port(p->b.net), key);

	memset(&p->out, 0, sizeof(p->out));
	p->out.net = p->a.net;
	p->out.ctl = fm_net_join_dial(p->a.net, &d);
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, p->out.opened + p->out.closed == 1));
}

/*
 * Goal: a node that nobody knows gets in by joining only, only while joins are taken, and only to
 * the key that it was told.
 */
static void test_join(void)
{
	const struct fm_tls_join_events events = { .accepted = on_join };
	struct pair p;

	pair_new(&p);
	memset(p.b.known, 0, FM_KEY_LEN);
	joins = 0;
	join(&p, p.b.key);
	CU_ASSERT_EQUAL(p.out.closed, 1);
	CU_ASSERT_EQUAL(p.out.err.code, -ENOKEY);
	seen_close(&p.out);

	fm_net_set_join(p.b.net, &events, &p);
	join(&p, p.a.key);
	CU_ASSERT_EQUAL(p.out.closed, 1);
	ASSERT_SAYS(p.out.err, "its key is not the one");
	seen_close(&p.out);
	CU_ASSERT_EQUAL(joins, 0);

	join(&p, p.b.key);
	CU_ASSERT_EQUAL(p.out.opened, 1);
	CU_ASSERT_EQUAL(joins, 1);
	CU_ASSERT_EQUAL(p.a.net->ops->ctl_send(p.out.ctl, (const uint8_t *)"token", 5), 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.messages == 1));
	seen_close(&p.out);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, join_seen.closed == 1));
	seen_close(&join_seen);

	/* While joins are taken, an unknown key still cannot connect the usual way. */
	memset(&p.out, 0, sizeof(p.out));
	dial(&p.a, &p.out, "127.0.0.1", fm_net_port(p.b.net), p.b.key);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	ASSERT_SAYS(p.out.err, "not known there");
	CU_ASSERT_EQUAL(p.b.asked, 1);	/* and a join never asked */
	CU_ASSERT_EQUAL(p.b.accepted, 0);
	pair_free(&p);
}

/* ---- hosts and ports ---- */

static void test_nobody_there(void)
{
	struct pair p;
	uint16_t port;
	int fd = raw_bind(&port);

	pair_new(&p);
	dial(&p.a, &p.out, "127.0.0.1", port, p.b.key);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.err.code, -ECONNREFUSED);
	ASSERT_SAYS(p.out.err, "connection refused: is fmoved running there?");
	pair_free(&p);
	close(fd);
}

static void test_no_answer(void)
{
	struct pair p;
	uint16_t port;
	int full[RAW_FULL], fd = raw_listen_full(&port, full);

	pair_new(&p);
	dial(&p.a, &p.out, "127.0.0.1", port, p.b.key);
	loop_idle(p.loop, 20);
	CU_ASSERT_EQUAL(p.out.closed, 0);
	clock_skip(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.err.code, -ETIMEDOUT);
	ASSERT_SAYS(p.out.err, "no answer: is it up");
	raw_close_full(fd, full);
	pair_free(&p);
}

static void test_no_such_name(void)
{
	char longest[3000];
	struct pair p;

	pair_new(&p);
	dial(&p.a, &p.out, "no-such-host.invalid", 7471, p.b.key);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	ASSERT_SAYS(p.out.err, "no-such-host.invalid:7471: ");
	CU_ASSERT_TRUE(p.out.err.code == -ENOENT || p.out.err.code == -ETIMEDOUT);
	seen_close(&p.out);

	memset(&p.out, 0, sizeof(p.out));
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	dial(&p.a, &p.out, longest, 7471, p.b.key);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.err.code, -EINVAL);
	pair_free(&p);
}

/* A name with several addresses: "localhost" has ::1 and 127.0.0.1, and b listens on the second
 * only. */
static void test_by_name(void)
{
	struct pair p;

	pair_new(&p);
	dial(&p.a, &p.out, "localhost", fm_net_port(p.b.net), p.b.key);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.opened == 1));
	CU_ASSERT_STRING_NOT_EQUAL(p.a.net->ops->ctl_peer(p.out.ctl), "localhost");
	pair_free(&p);
}

static void test_silent_listener(void)
{
	struct pair p;
	uint16_t port;
	int fd = raw_listen(&port);

	pair_new(&p);
	dial(&p.a, &p.out, "127.0.0.1", port, p.b.key);
	loop_idle(p.loop, 30);
	CU_ASSERT_EQUAL(p.out.closed, 0);
	clock_skip(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.err.code, -ETIMEDOUT);
	ASSERT_SAYS(p.out.err, "takes the connection but does not answer");
	close(fd);
	pair_free(&p);
}

static void test_other_server(void)
{
	static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	struct pair p;
	uint16_t port;
	int fd = raw_listen(&port), peer;

	pair_new(&p);
	dial(&p.a, &p.out, "127.0.0.1", port, p.b.key);
	loop_idle(p.loop, 10);
	peer = accept(fd, NULL, NULL);
	raw_send(peer, http, sizeof(http) - 1);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.err.code, -EPROTO);
	ASSERT_SAYS(p.out.err, "not an fmove node (TLS: ");
	close(peer);
	close(fd);
	pair_free(&p);
}

static void listen_fails(const char *where, int code, const char *says)
{
	struct fm_loop *loop = loop_new();
	struct fm_err err = { 0 };
	struct node n;

	CU_ASSERT_EQUAL(node_try(loop, &n, 1, where, &err), code);
	ASSERT_SAYS(err, says);
	node_free(&n);
	fm_loop_free(loop);
}

static void test_listen(void)
{
	static const char *const good[] = {"[::]:0", ":0", "0.0.0.0:0", "127.0.0.1:0",
					   "localhost:0"};
	struct fm_loop *loop = loop_new();
	struct fm_err err = { 0 };
	char where[64], what[64];
	struct node n;
	uint16_t port;
	int fd;

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CU_ASSERT_EQUAL(node_try(loop, &n, 1, good[i], &err), 0);
		CU_ASSERT_TRUE(n.net && fm_net_port(n.net) > 0);
		if (n.net)
			close(raw_connect(fm_net_port(n.net)));
		node_free(&n);
	}
	fm_loop_free(loop);
	fd = raw_listen(&port);
	snprintf(where, sizeof(where), "127.0.0.1:%u", port);
	listen_fails(where, -EADDRINUSE, "the port is in use: is another fmoved running?");
	snprintf(where, sizeof(where), "[::]:%u", port);
	snprintf(what, sizeof(what), "ss -ltnp 'sport = :%u'", port);
	listen_fails(where, -EADDRINUSE, what);
	close(fd);
	listen_fails("192.0.2.1:7471", -EADDRNOTAVAIL, "not one of this node's");
	listen_fails("7471", -EINVAL, "not of the form ADDRESS:PORT");
	listen_fails("::1:7471", -EINVAL, "not of the form ADDRESS:PORT");
	listen_fails("127.0.0.1:x", -EINVAL, "not a port");
	listen_fails("127.0.0.1:", -EINVAL, "not a port");
	listen_fails("127.0.0.1:65536", -EINVAL, "not a port");
	listen_fails("no-such-host.invalid:1", -EADDRNOTAVAIL, "no-such-host.invalid");
}

/* One port for both families: an IPv4 peer is shown as one, not as ::ffff:127.0.0.1. */
static void test_dual_stack(void)
{
	struct fm_addr local, remote;
	struct pair p;

	memset(&p, 0, sizeof(p));
	p.loop = loop_new();
	node_new(p.loop, &p.a, 1);
	CU_ASSERT_EQUAL(node_try(p.loop, &p.b, 2, "[::]:0", NULL), 0);
	memcpy(p.b.known, p.a.key, FM_KEY_LEN);
	pair_connect(&p);
	p.b.net->ops->ctl_addrs(p.b.in.ctl, &local, &remote);
	CU_ASSERT_EQUAL(local.sa.ss_family, AF_INET);
	CU_ASSERT_EQUAL(remote.sa.ss_family, AF_INET);
	CU_ASSERT_EQUAL(strncmp(p.b.net->ops->ctl_peer(p.b.in.ctl), "127.0.0.1:", 10), 0);
	pair_free(&p);
}

/* ---- peers that misbehave ---- */

static void test_garbage(void)
{
	static const char *const all[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00garbage",
					  "\x16", "", "\x16\xff\xff\xff\xff\xff\xff"};
	struct pair p;

	pair_new(&p);
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		int fd = raw_connect(fm_net_port(p.b.net));

		raw_send(fd, all[i], strlen(all[i]));
		shutdown(fd, SHUT_WR);
		CU_ASSERT_TRUE(WAIT_FOR(p.loop, raw_is_closed(fd)));
		close(fd);
	}
	CU_ASSERT_EQUAL(p.b.asked, 0);
	CU_ASSERT_EQUAL(p.b.accepted, 0);
	pair_connect(&p);
	pair_free(&p);
}

/* Whoever says nothing, or half of something, is gone after the deadline. */
static void test_slow_loris(void)
{
	static const char *const all[] = { "", "\x16\x03\x01", "FMDATA" };
	struct pair p;
	int fd[3];

	pair_new(&p);
	for (unsigned i = 0; i < 3; i++) {
		fd[i] = raw_connect(fm_net_port(p.b.net));
		raw_send(fd[i], all[i], strlen(all[i]));
	}
	loop_idle(p.loop, 30);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_FALSE(raw_is_closed(fd[i]));
	clock_skip(FM_HALF_OPEN_NS + FM_NS_PER_S);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_TRUE(WAIT_FOR(p.loop, raw_is_closed(fd[i])));
		close(fd[i]);
	}
	pair_free(&p);
}

static unsigned fds_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

enum { FLOOD = 4 * FM_HALF_OPEN_MAX };

static unsigned closed_of(const int fd[static FLOOD], unsigned count)
{
	unsigned closed = 0;

	for (unsigned i = 0; i < count; i++)
		closed += raw_is_closed(fd[i]);
	return closed;
}

/* So many connections, each from an address of its own or all from one; every second one begins as
 * TLS does, and says no more. */
static void flood(struct pair *p, unsigned count, bool are_many, int fd[static FLOOD])
{
	for (unsigned i = 0; i < count; i++) {
		fd[i] = raw_connect_from(are_many ? 256 + i : 0, fm_net_port(p->b.net));
		if (i % 2)
			raw_send(fd[i], "\x16", 1);
		fm_loop_step(p->loop, 0);
	}
	loop_idle(p->loop, 50);
}

/* From 127.0.0.1, and so many addresses behind it. */
static void dial_from(struct pair *p, unsigned further)
{
	struct fm_ctl_dial d = dial_to(&p->out, "127.0.0.1", fm_net_port(p->b.net), p->b.key);
	struct sockaddr_in from = loopback(0);

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + further);
	memcpy(&d.local.sa, &from, sizeof(from));
	p->out.net = p->a.net;
	p->out.ctl = p->a.net->ops->ctl_dial(p->a.net, &d);
	CU_ASSERT_PTR_NOT_NULL_FATAL(p->out.ctl);
}

static void flood_end(struct pair *p, const int *fd, unsigned count)
{
	is_clock_still = false;
	for (unsigned i = 0; i < count; i++)
		close(fd[i]);
	pair_free(p);
}

/*
 * Goal:   a flood of connections from one address that say nothing is bounded, and does not delay a
 *         peer elsewhere by a moment; one at the same address gets in after a fair time.
 * Method: several times as many as may be half-open, while time stands still; descriptors are
 *         counted, then a peer dials.
 */
static void test_flood(void)
{
	int fd[FLOOD];
	unsigned before;
	struct pair p;

	pair_new(&p);
	is_clock_still = true;
	before = fds_open();
	flood(&p, FLOOD, false, fd);
	CU_ASSERT_TRUE(fds_open() - before <= FLOOD + FM_HALF_OPEN_MAX + 2);
	CU_ASSERT_EQUAL(closed_of(fd, FLOOD), FLOOD - FM_HALF_OPEN_MAX);
	dial_from(&p, 1);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.opened == 1));
	CU_ASSERT_EQUAL(closed_of(fd, FLOOD), FLOOD - FM_HALF_OPEN_MAX + 1);
	CU_ASSERT_TRUE(fds_open() - before <= FLOOD + FM_HALF_OPEN_MAX + 4);
	flood_end(&p, fd, FLOOD);
}

static void test_flood_from_here(void)
{
	int fd[FLOOD];
	struct pair p;

	pair_new(&p);
	is_clock_still = true;
	flood(&p, FLOOD, false, fd);
	clock_skip(FM_NS_PER_S);
	dial_from(&p, 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.opened == 1));
	flood_end(&p, fd, FLOOD);
}

/* Goal: where many come at once, as after a power cut, none is turned away for the next one, and
 * that waits for a fair time. */
static void test_many_sources(void)
{
	int fd[FLOOD];
	struct pair p;

	pair_new(&p);
	is_clock_still = true;
	flood(&p, FM_HALF_OPEN_MAX, true, fd);
	dial_from(&p, 1);
	loop_idle(p.loop, 50);
	CU_ASSERT_EQUAL(p.out.opened, 0);
	CU_ASSERT_EQUAL(closed_of(fd, FM_HALF_OPEN_MAX), 0);
	clock_skip(FM_NS_PER_S);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.opened == 1));
	flood_end(&p, fd, FM_HALF_OPEN_MAX);
}

static void bad_frame(const void *bytes, size_t len)
{
	struct raw_tls r;
	struct pair p;

	pair_new(&p);
	raw_tls_open(&r, &p);
	raw_tls_send(&r, &p, "\x02\0\0\0ok", 6);
	raw_tls_send(&r, &p, bytes, len);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.b.in.closed == 1));
	CU_ASSERT_EQUAL(p.b.in.messages, 1);
	CU_ASSERT_EQUAL(p.b.in.err.code, -EPROTO);
	ASSERT_SAYS(p.b.in.err, "a size that is not allowed");
	raw_tls_close(&r);
	pair_free(&p);
}

static void test_bad_frames(void)
{
	bad_frame("\0\0\0\0", 4);
	bad_frame("\x01\0\x01\0", 4);		/* 65537 */
	bad_frame("\xff\xff\xff\xff", 4);
}

/*
 * Goal: a reset is told from an end. An end comes from the peer's process, or from its kernel when
 * that process is no more; a reset also from a kernel that gave up the connection alone.
 */
static void test_reset(void)
{
	const struct linger reset = { .l_onoff = 1 };
	struct raw_tls r;
	struct pair p;

	pair_new(&p);
	raw_tls_open(&r, &p);
	CU_ASSERT_EQUAL(setsockopt(r.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	raw_tls_close(&r);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.b.in.closed == 1));
	CU_ASSERT_EQUAL(p.b.in.err.code, -ECONNABORTED);
	pair_free(&p);
}

/* Goal: how a message is cut into records and segments does not matter. Method: byte by byte, and
 * all at once. */
static void test_dribble(void)
{
	static const uint8_t frames[] = "\x03\0\0\0abc\x01\0\0\0d\x05\0\0\0efghi";
	struct raw_tls r;
	struct pair p;

	pair_new(&p);
	raw_tls_open(&r, &p);
	for (unsigned i = 0; i < sizeof(frames) - 1; i++) {
		raw_tls_send(&r, &p, frames + i, 1);
		fm_loop_step(p.loop, 0);
	}
	raw_tls_send(&r, &p, frames, sizeof(frames) - 1);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.b.in.messages == 6));
	CU_ASSERT_EQUAL(p.b.in.bytes, 18);

	/* Half a message, then the end. */
	raw_tls_send(&r, &p, "\x05\0\0\0ab", 6);
	raw_tls_close(&r);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.b.in.closed == 1));
	CU_ASSERT_EQUAL(p.b.in.messages, 6);
	CU_ASSERT_EQUAL(p.b.in.err.code, -ECONNRESET);
	pair_free(&p);
}

/* What comes inside TCP but not inside TLS ends the connection. */
static void test_forged_record(void)
{
	struct raw_tls r;
	struct pair p;

	pair_new(&p);
	raw_tls_open(&r, &p);
	raw_send(r.fd, "\x17\x03\x03\x00\x20----forged----forged----forged--", 5 + 32);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.b.in.closed == 1));
	CU_ASSERT_EQUAL(p.b.in.messages, 0);
	CU_ASSERT_EQUAL(p.b.in.err.code, -EBADMSG);
	raw_tls_close(&r);
	pair_free(&p);
}

/* ---- an acceptor that does the handshake and then something else ---- */

static bool raw_known(void *ctx, const uint8_t key[FM_KEY_LEN])
{
	(void)ctx;
	(void)key;
	return true;
}

/* As b, on a port of its own: a dials, the handshake is through on this side. */
static void raw_tls_accept(struct raw_tls *r, struct pair *p)
{
	struct fm_tls_opts opts = { .is_known = raw_known };
	struct fm_err err;
	uint16_t port;
	int fd = raw_listen(&port), ret = -EAGAIN;

	dial(&p->a, &p->out, "127.0.0.1", port, p->b.key);
	loop_idle(p->loop, 5);
	r->fd = opts.fd = accept(fd, NULL, NULL);
	close(fd);
	if (fm_tls_node_new(key_file(2), &r->node, &err) < 0 ||
	    fm_tls_new(r->node, &opts, &r->tls, &err) < 0)
		abort();
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, (ret = fm_tls_handshake(r->tls, &err)) != -EAGAIN));
	CU_ASSERT_EQUAL(ret, 0);
	CU_ASSERT_EQUAL(memcmp(fm_tls_peer_key(r->tls), p->a.key, FM_KEY_LEN), 0);
}

/* Goal: a handshake is not enough. Method: no welcome, then something else in its place. */
static void test_no_welcome(void)
{
	struct raw_tls r;
	struct pair p;

	pair_new(&p);
	raw_tls_accept(&r, &p);
	loop_idle(p.loop, 10);
	CU_ASSERT_EQUAL(p.out.opened + p.out.closed, 0);
	clock_skip(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.err.code, -ETIMEDOUT);
	ASSERT_SAYS(p.out.err, "does not answer after the handshake");
	raw_tls_close(&r);
	seen_close(&p.out);

	memset(&p.out, 0, sizeof(p.out));
	raw_tls_accept(&r, &p);
	raw_tls_send(&r, &p, "\x01\0\0\0x", 5);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.err.code, -EPROTO);
	CU_ASSERT_EQUAL(p.out.opened + p.out.messages, 0);
	raw_tls_close(&r);
	pair_free(&p);
}

/* ---- TLS clients of another make ---- */

/* The handshake and one read of a client that is set up like this; it must not get a byte. */
static void stranger(void (*set_up)(SSL_CTX *ctx), const char *alpn)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl;
	struct pair p;
	char byte;
	int fd, ret = 0;

	pair_new(&p);
	set_up(ctx);
	ssl = SSL_new(ctx);
	if (alpn)
		SSL_set_alpn_protos(ssl, (const uint8_t *)alpn, (unsigned)strlen(alpn));
	fd = raw_connect(fm_net_port(p.b.net));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	SSL_set_fd(ssl, fd);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, (ret = SSL_connect(ssl)) == 1 ||
					SSL_get_error(ssl, ret) != SSL_ERROR_WANT_READ));
	if (ret == 1) {	/* TLS 1.3: the client thinks so */
		CU_ASSERT_TRUE(WAIT_FOR(p.loop, (ret = SSL_read(ssl, &byte, 1)) == 1 ||
						SSL_get_error(ssl, ret) != SSL_ERROR_WANT_READ));
	}
	CU_ASSERT_NOT_EQUAL(ret, 1);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, raw_is_closed(fd)));
	CU_ASSERT_EQUAL(p.b.accepted + p.b.asked, 0);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
	pair_free(&p);
}

static void without_key(SSL_CTX *ctx)
{
	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
}

static void tls_1_2(SSL_CTX *ctx)
{
	SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
}

/* A certificate that is well made, around a key of the wrong kind. */
static void with_other_key(SSL_CTX *ctx)
{
	EVP_PKEY *pkey = EVP_EC_gen("P-256");
	X509 *cert = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, pkey);
	X509_sign(cert, pkey, EVP_sha256());
	SSL_CTX_use_certificate(ctx, cert);
	SSL_CTX_use_PrivateKey(ctx, pkey);
	X509_free(cert);
	EVP_PKEY_free(pkey);
}

/* The key exchange that is not ours first: the node asks for another hello. */
static void with_two_hellos(SSL_CTX *ctx)
{
	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	SSL_CTX_set1_groups_list(ctx, "P-256:X25519");
}

static void test_strangers(void)
{
	stranger(with_two_hellos, "\x07" "fmove/1");
	/* the sanitizer looks at what it leaves behind */
	stranger(with_two_hellos, "\x0c" "fmove-data/1");
	stranger(without_key, "\x07" "fmove/1");
	stranger(without_key, "\x07" "fmove/2");
	stranger(without_key, "\x0c" "fmove-join/1");
	stranger(without_key, NULL);
	stranger(tls_1_2, "\x07" "fmove/1");
	stranger(with_other_key, "\x07" "fmove/1");
}

/* ---- what is TLS's own, after the handshake ---- */

/* As a, up to the welcome. */
static void foreign_dial(struct foreign *f, struct pair *p)
{
	char welcome[4];

	foreign_new(f, raw_connect(fm_net_port(p->b.net)), 1, "\x07" "fmove/1", 0);
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, SSL_do_handshake(f->ssl) == 1));
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, SSL_read(f->ssl, welcome, 4) == 4));
	CU_ASSERT_EQUAL(p->b.accepted, 1);
}

/* As b, on a port of its own: a dials, and waits for the welcome. */
static void foreign_accept(struct foreign *f, struct pair *p, size_t tickets)
{
	uint16_t port;
	int fd = raw_listen(&port);

	dial(&p->a, &p->out, "127.0.0.1", port, p->b.key);
	loop_idle(p->loop, 5);
	foreign_new(f, accept(fd, NULL, NULL), 2, NULL, tickets);
	close(fd);
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, SSL_do_handshake(f->ssl) == 1));
}

static void ends_for_it(struct foreign *f, struct pair *p, struct seen *s)
{
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, s->closed == 1));
	CU_ASSERT_EQUAL(s->err.code, -EPROTO);
	ASSERT_SAYS(s->err, "it sent what no fmove node sends");
	foreign_free(f);
	pair_free(p);
}

/*
 * Goal:   the first message of TLS itself behind the handshake ends the connection: whoever sends a
 *         million of them would be the only one whose turn it is for as long as that takes.
 * Method: a peer with a key that is known changes it, has ours changed, or gives tickets.
 */
static void test_after_handshake(void)
{
	static const int kinds[] = { SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED };
	struct foreign f;
	struct pair p;

	for (unsigned i = 0; i < 2; i++) {
		pair_new(&p);
		foreign_dial(&f, &p);
		foreign_change_key(&f, kinds[i]);
		ends_for_it(&f, &p, &p.b.in);

		pair_new(&p);
		foreign_accept(&f, &p, 0);
		foreign_change_key(&f, kinds[i]);
		ends_for_it(&f, &p, &p.out);
	}
	pair_new(&p);
	foreign_accept(&f, &p, 2);
	ends_for_it(&f, &p, &p.out);
}

/* ---- stopping ---- */

static void test_stop(void)
{
	struct pair p;
	int fd;

	pair_new(&p);
	pair_connect(&p);
	fd = raw_connect(fm_net_port(p.b.net));
	raw_send(fd, "\x16", 1);
	loop_idle(p.loop, 20);
	p.b.net->ops->stop(p.b.net);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, raw_is_closed(fd)));
	close(fd);

	/* What is there goes on. */
	CU_ASSERT_EQUAL(p.a.net->ops->ctl_send(p.out.ctl, (const uint8_t *)"x", 1), 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.b.in.messages == 1));

	/* Nobody new. */
	seen_close(&p.out);
	memset(&p.out, 0, sizeof(p.out));
	dial(&p.a, &p.out, "127.0.0.1", fm_net_port(p.b.net), p.b.key);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.out.closed == 1));
	CU_ASSERT_EQUAL(p.out.err.code, -ECONNREFUSED);
	pair_free(&p);
}

/* ---- the key file ---- */

static void key_fails(const char *path, int code, const char *says)
{
	struct fm_tls_node *node = NULL;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(fm_tls_node_new(path, &node, &err), code);
	ASSERT_SAYS(err, says);
	fm_tls_node_free(node);
}

static void test_key_file(void)
{
	/* A P-256 key, and a public key in place of a private one. */
	static const char ec[] =
		"-----BEGIN PRIVATE KEY-----\n"
		"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2\n"
		"OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r\n"
		"1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G\n"
		"-----END PRIVATE KEY-----\n";
	char path[128];

	key_fails("/no/such/key", -ENOENT, "fmove keygen");
	key_fails(test_file("empty", "", 0400), -EINVAL, "not a private key in PEM");
	key_fails(test_file("garbage", "garbage\n", 0400), -EINVAL, "not a private key in PEM");
	key_fails(test_file("ec", ec, 0400), -EINVAL, "not an Ed25519 one");
	key_fails(test_dir(), -EINVAL, "not a regular file");
	snprintf(path, sizeof(path), "%s/fifo", test_dir());
	CU_ASSERT_EQUAL(mkfifo(path, 0400), 0);
	key_fails(path, -EINVAL, "not a regular file");
	snprintf(path, sizeof(path), "%s", key_file(3));
	chmod(path, 0440);
	key_fails(path, -EACCES, "chmod 0400");
	chmod(path, 0404);
	key_fails(path, -EACCES, "chmod 0400");
	if (geteuid() == 0) {
		chmod(path, 0400);
		CU_ASSERT_EQUAL(chown(path, 12345, 0), 0);
		key_fails(path, -EACCES, "belongs to user 12345");
	}
}

/*
 * RFC 8032, 7.1: the public key of a seed is known. Ours are 32 times one byte; node "1" must have
 * that key, not any key.
 */
static void test_key_is_the_files(void)
{
	struct fm_tls_node *a = NULL, *b = NULL, *c = NULL;

	CU_ASSERT_EQUAL(fm_tls_node_new(key_file(1), &a, NULL), 0);
	CU_ASSERT_EQUAL(fm_tls_node_new(key_file(1), &b, NULL), 0);
	CU_ASSERT_EQUAL(fm_tls_node_new(key_file(2), &c, NULL), 0);
	if (a && b && c) {
		static const uint8_t start[] = { 0x8a, 0x88, 0xe3, 0xdd, 0x74, 0x09, 0xf1, 0x95 };

		CU_ASSERT_EQUAL(memcmp(fm_tls_node_key(a), start, sizeof(start)), 0);
		CU_ASSERT_EQUAL(memcmp(fm_tls_node_key(a), fm_tls_node_key(b), FM_KEY_LEN), 0);
		CU_ASSERT_NOT_EQUAL(memcmp(fm_tls_node_key(a), fm_tls_node_key(c), FM_KEY_LEN), 0);
	}
	fm_tls_node_free(a);
	fm_tls_node_free(b);
	fm_tls_node_free(c);
}

/* ---- failures ---- */

/* One whole life of a pair: made, connected by name, a message each way. Whatever fails, it ends,
 * with one event. */
static void life(void)
{
	struct fm_err err = { 0 };
	struct seen out = { 0 };
	struct fm_loop *loop = loop_new_or_null();
	struct node a = { 0 }, b = { 0 };
	int ret_a, ret_b;

	if (!loop)
		return;
	ret_a = node_try(loop, &a, 1, "127.0.0.1:0", &err);
	ret_b = node_try(loop, &b, 2, "localhost:0", &err);
	if ((ret_a < 0 || ret_b < 0) && !(err.code < 0 && err.text[0]))
		CU_FAIL("an error without a text");
	if (ret_a == 0 && ret_b == 0) {
		struct fm_ctl_dial d = dial_to(&out, "localhost", fm_net_port(b.net), b.key);

		memcpy(b.known, a.key, FM_KEY_LEN);
		b.in.is_echoing = true;
		out.net = a.net;
		out.ctl = a.net->ops->ctl_dial(a.net, &d);
		if (a.net->ops->ctl_send(out.ctl, (const uint8_t *)"hello", 5) < 0)
			seen_close(&out);
		CU_ASSERT_TRUE(WAIT_FOR(loop, !out.ctl || out.messages + out.closed > 0));
		CU_ASSERT_TRUE(out.closed == 0 || (out.err.code < 0 && out.err.text[0]));
	}
	seen_close(&out);
	node_free(&b);
	node_free(&a);
	fm_loop_free(loop);
}

/*
 * Goal:   every failure on the way is survived: an error that says something, nothing leaked.
 * Method: fail the n-th fault point, for n = 1, 2 ... until a life passes without one.
 */
static void test_every_failure(void)
{
	unsigned n = 0;

	fm_log_set_level(FM_LOG_ERROR);
	do {
		fm_fault_arm(NULL, ++n);
		life();
	} while (fm_fault_fired() && n < 1000);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(n < 1000);
#ifdef FM_FAULTS
	CU_ASSERT_TRUE(n > 30);
#endif
	printf("(%u points) ", n - 1);
}

static void test_clean_up(void)
{
	test_dir_remove();
}

static const struct fm_test tests[] = {
	{ "messages travel both ways, whole and in order", test_messages_both_ways },
	{ "the largest messages travel, more of them than fit any buffer", test_big_messages },
	{ "a message sent before the handshake is through goes after it", test_send_before_open },
	{ "close flushes what was sent", test_close_flushes },
	{ "the owner may close in any callback", test_close_in_callbacks },
	{ "the owner may close at any step of a dial", test_close_while_dialling },
	{ "a peer that does not read is bounded", test_queue_bound },
	{ "the dialler refuses a key that is not the configured one", test_wrong_key_there },
	{ "an unknown dialler is told so, and nothing else", test_not_known_there },
	{ "a known dialler that is not wanted is told so", test_known_but_not_wanted },
	{ "joining: any key, on its own protocol, while it is allowed", test_join },
	{ "a refused connection asks whether fmoved is running", test_nobody_there },
	{ "an address that does not answer runs into the deadline", test_no_answer },
	{ "a name that does not exist is an error, not a hang", test_no_such_name },
	{ "a name with several addresses is tried through", test_by_name },
	{ "a listener that says nothing runs into the deadline", test_silent_listener },
	{ "another kind of server is called that", test_other_server },
	{ "addresses to listen on: good ones, bad ones, one in use", test_listen },
	{ "one port serves both families", test_dual_stack },
	{ "garbage is turned away before anyone is asked", test_garbage },
	{ "half a hello runs into the deadline", test_slow_loris },
	{ "a flood of half-open connections is bounded, peers get in at once", test_flood },
	{ "those at its address get in, too, later", test_flood_from_here },
	{ "many who come at once wait for each other", test_many_sources },
	{ "empty and oversized messages break the connection", test_bad_frames },
	{ "a reset is told from an end", test_reset },
	{ "messages cut into any pieces are the same messages", test_dribble },
	{ "a forged record breaks the connection", test_forged_record },
	{ "a handshake without the welcome is no connection", test_no_welcome },
	{ "TLS clients without a key, of another version or kind get nothing", test_strangers },
	{ "a message of TLS itself ends a connection", test_after_handshake },
	{ "stop: nobody new, the others go on", test_stop },
	{ "a bad key file is refused with what to do", test_key_file },
	{ "the node's key is the file's", test_key_is_the_files },
	{ "any one failure is survived", test_every_failure },
	{ "(cleaning up)", test_clean_up },
};

FM_TEST_MAIN("tls", tests)
