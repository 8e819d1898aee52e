/* SPDX-License-Identifier: MIT */
#include "tests/lab/rdma_nodes.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/mman.h>

struct fm_rdma_domain *fm_domain_rdma(struct fm_domain *domain)
{
	return domain->rdma;
}

struct node node_a, node_b;
uint8_t *arena_a, *arena_b;

void parse_addr(const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)out;
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;
	const char *scope = text ? strchr(text, '%') : NULL;
	char plain[INET6_ADDRSTRLEN];

	memset(out, 0, sizeof(*out));
	snprintf(plain, sizeof(plain), "%.*s", scope ? (int)(scope - text) : INET6_ADDRSTRLEN,
		 text ? text : "(none)");
	if (inet_pton(AF_INET, plain, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		return;
	}
	if (inet_pton(AF_INET6, plain, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_scope_id = scope ? if_nametoindex(scope + 1) : 0;
		return;
	}
	fprintf(stderr, "rdma_transport: not an address: %s\n", plain);
	exit(2);
}

static struct fm_domain *node_token(void *ctx, const uint8_t token[FM_TOKEN_LEN], enum fm_kind kind,
				    const uint8_t *key, void **tag, struct fm_err *why)
{
	struct node *n = ctx;

	(void)why;
	assert(kind == FM_KIND_RDMA && !key);
	n->tokens_seen++;
	*tag = n;
	return memcmp(token, TOKEN, FM_TOKEN_LEN) == 0 ? n->accept_domain : NULL;
}

static void node_arrived(void *ctx, void *tag, struct fm_conn *conn)
{
	struct node *n = ctx;

	assert(tag == n);
	n->arrivals++;
	n->arrivals_failed += !conn;
	n->arrived = conn;
}

static const struct fm_net_events node_events = { .token = node_token, .arrived = node_arrived };

int node_try_open(struct node *n, const char *addr, uint16_t port, struct fm_err *err)
{
	struct fm_loop_opts opts = { .spin_ns = 0 };
	int ret;

	memset(n, 0, sizeof(*n));
	parse_addr(addr, &n->sa);
	n->port = port;
	n->accept_domain = &n->domain;
	ret = fm_loop_new(&opts, &n->ctl, err);
	if (ret < 0)
		return ret;
	ret = fm_loop_new(&opts, &n->lane, err);
	if (ret < 0)
		goto free_ctl;
	ret = fm_rdma_new(n->ctl, port, 26, &n->rdma, err);
	if (ret < 0)
		goto free_lane;
	if (fm_rdma_why_not(n->rdma)) {
		ret = fm_err_set(err, -ENODEV, "%s", fm_rdma_why_not(n->rdma));
		goto free_rdma;
	}
	ret = fm_rdma_domain_new(n->rdma, &n->domain.rdma);
	if (ret < 0) {
		fm_err_sys(err, ret, "domain");
		goto free_rdma;
	}
	fm_rdma_start(n->rdma, &node_events, n);
	return 0;

free_rdma:
	fm_rdma_free(n->rdma);
free_lane:
	fm_loop_free(n->lane);
free_ctl:
	fm_loop_free(n->ctl);
	return ret;
}

void node_open(struct node *n, const char *addr, uint16_t port)
{
	struct fm_err err = { 0 };

	if (node_try_open(n, addr, port, &err) < 0) {
		fprintf(stderr, "rdma_transport: %s\n", err.text);
		exit(1);
	}
}

void node_close(struct node *n)
{
	fm_rdma_stop(n->rdma);
	fm_rdma_domain_free(n->domain.rdma);
	fm_rdma_free(n->rdma);
	fm_loop_free(n->lane);
	fm_loop_free(n->ctl);
}

void node_step(struct node *n, uint64_t max_ns)
{
	fm_loop_step(n->ctl, 0);
	fm_loop_step(n->lane, max_ns);
}

void step(void)
{
	node_step(&node_a, FM_NS_PER_MS / 4);
	node_step(&node_b, FM_NS_PER_MS / 4);
}

uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

static void dial_done(void *ctx, int res, struct fm_conn *conn, const struct fm_err *err)
{
	struct node *n = ctx;

	n->is_dialled = true;
	n->dial_res = res;
	n->dialled = conn;
	if (err)
		n->dial_err = *err;
}

void node_dial(struct node *n, const struct sockaddr_storage *to, uint16_t port, const char *token,
	       uint64_t timeout_ns)
{
	struct fm_data_dial dial = {
		.kind = FM_KIND_RDMA,
		.local = { .sa = n->sa },
		.remote = { .sa = *to },
		.port = port,
		.domain = &n->domain,
		.timeout_ns = timeout_ns,
		.done = dial_done,
		.ctx = n,
	};

	memcpy(dial.token, token, FM_TOKEN_LEN);
	n->is_dialled = false;
	n->dialled = NULL;
	memset(&n->dial_err, 0, sizeof(n->dial_err));
	if (fm_rdma_dial(n->rdma, &dial) < 0) {
		fm_err_set(&n->dial_err, -ENOMEM, "no memory to dial");
		dial_done(n, -ENOMEM, NULL, NULL);
		return;
	}
	assert(!n->is_dialled);		/* a later pass */
}

static void end_message(void *ctx, const uint8_t msg[FM_DATA_MSG_LEN])
{
	struct end *e = ctx;

	e->messages++;
	if (e->on_message)
		e->on_message(e, msg);
}

static void end_failed(void *ctx, const struct fm_err *err)
{
	struct end *e = ctx;

	e->failures++;
	e->err = *err;
}

static void end_closed(void *ctx)
{
	struct end *e = ctx;

	e->closes++;
	e->conn = NULL;
}

static const struct fm_conn_events end_events = {
	.message = end_message, .failed = end_failed, .closed = end_closed};

void end_attach(struct end *e, struct node *n, struct fm_conn *conn)
{
	memset(e, 0, sizeof(*e));
	e->conn = conn;
	conn->ops->attach(conn, n->lane, &end_events, e);
}

static void end_lend(struct end *e, uint8_t *arena, struct end *other)
{
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(e->conn->ops->lend(e->conn, arena, ARENA / 2, true, &e->rx, &err), 0);
	CU_ASSERT_EQUAL_FATAL(
		e->conn->ops->lend(e->conn, arena + ARENA / 2, ARENA / 2, false, &e->tx, &err), 0);
	other->remote = e->rx.remote;
	other->rkey = e->rx.rkey;
}

void connect_ends(struct end *a, struct end *b)
{
	node_b.arrived = NULL;
	node_dial(&node_a, &node_b.sa, PORT_B, TOKEN, WAIT_NS);
	CU_ASSERT_TRUE_FATAL(UNTIL(node_a.is_dialled && (node_a.dial_res < 0 || node_b.arrived)));
	if (node_a.dial_res < 0)
		printf("%s\n", node_a.dial_err.text);
	CU_ASSERT_EQUAL_FATAL(node_a.dial_res, 0);
	end_attach(a, &node_a, node_a.dialled);
	end_attach(b, &node_b, node_b.arrived);
	end_lend(a, arena_a, b);
	end_lend(b, arena_b, a);
}

void close_end(struct end *e)
{
	if (e->conn)
		e->conn->ops->close(e->conn);
	CU_ASSERT_TRUE_FATAL(UNTIL(e->closes == 1));
}

void send_done(struct fm_send *send, int res)
{
	struct test_send *s = fm_container_of(send, struct test_send, send);

	s->is_free = true;
	s->end->sends_good += res == 0;
	s->end->sends_cancelled += res == -ECANCELED;
	assert(res == 0 || res == -ECANCELED);
}

void put_u64(uint8_t *msg, unsigned at, uint64_t v)
{
	memcpy(msg + at, &v, sizeof(v));
}

uint64_t get_u64(const uint8_t *msg, unsigned at)
{
	uint64_t v;

	memcpy(&v, msg + at, sizeof(v));
	return v;
}

void send_to(struct end *e, struct test_send *s, uint64_t number, size_t from, size_t to,
	     uint32_t len)
{
	memset(s, 0, sizeof(*s));
	s->end = e;
	s->send.done = send_done;
	put_u64(s->send.msg, 0, number);
	put_u64(s->send.msg, 8, to);
	put_u64(s->send.msg, 16, len);
	if (len > 0) {
		s->send.payload = (uint8_t *)e->tx.memory + from;
		s->send.payload_len = len;
		s->send.region = &e->tx;
		s->send.remote = e->remote + to;
		s->send.rkey = e->rkey;
	}
	e->conn->ops->send(e->conn, &s->send);
}

void fill(uint8_t *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)((seed + i) * 2654435761u >> 13);
}

bool is_filled(const uint8_t *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)((seed + i) * 2654435761u >> 13))
			return false;
	return true;
}

void on_message_check(struct end *e, const uint8_t *msg)
{
	uint64_t number = get_u64(msg, 0), to = get_u64(msg, 8), len = get_u64(msg, 16);

	/* The bytes must be there when the message is: they are looked at right now. */
	if (number != e->order_next || !is_filled((uint8_t *)e->rx.memory + to, len, number))
		e->order_errors++;
	e->order_next = number + 1;
}

uint8_t *map_arena(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}
