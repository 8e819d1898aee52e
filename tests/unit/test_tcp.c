/* SPDX-License-Identifier: MIT */
/* links: fm_transport fm_wire */
/*
 * Data connections over TCP, through struct fm_net and real sockets on 127.0.0.1: one loop for both
 * ends, two threads, or a node and a bare socket that speaks the protocol by hand (the bytes of
 * mover/transport/tcp.h, which this fixes).
 */
#include "mover/transport/tcp.h"
#include "mover/transport/tcp_conn.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tcp_scene.h"

/* ---- set-up ---- */

static void test_token(void)
{
	uint8_t wrong[FM_TOKEN_LEN] = { 0 };
	struct pair p;

	pair_new(&p);
	dial_port(&p.a, fm_net_port(p.b.net), wrong, &p.d);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done == 1));
	CU_ASSERT_EQUAL(p.d.res, -EACCES);
	ASSERT_SAYS(p.d.err, "the connection's token is not good there");
	ASSERT_SAYS(p.d.err, "TCP 127.0.0.1 to 127.0.0.1:");
	CU_ASSERT_EQUAL(p.b.arrived, 0);

	dial_port(&p.a, fm_net_port(p.b.net), p.b.token, &p.d);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done && p.b.arrived));
	CU_ASSERT_EQUAL(p.d.res, 0);
	if (p.d.conn) {
		const struct fm_conn_info *info = p.d.conn->ops->info(p.d.conn);

		CU_ASSERT_EQUAL(info->kind, FM_KIND_TCP);
		CU_ASSERT_STRING_EQUAL(info->local, "lo");
		CU_ASSERT_STRING_EQUAL(info->local_addr, "127.0.0.1");
		CU_ASSERT_STRING_EQUAL(info->remote_addr, "127.0.0.1");
		CU_ASSERT_STRING_EQUAL(info->note, "TCP");
		CU_ASSERT_TRUE(info->mtu >= 1500);
		p.d.conn->ops->close(p.d.conn);		/* never attached: no callback */
	}
	dial_port(&p.a, fm_net_port(p.b.net), p.b.token, &p.d);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done));
	CU_ASSERT_EQUAL(p.d.res, -EACCES);		/* one use */
	CU_ASSERT_EQUAL(p.b.tokens, 3);
	pair_free(&p);
}

static void test_refused_and_silent(void)
{
	struct pair p;
	uint16_t port;
	int fd = raw_listen(&port), full[RAW_FULL];

	pair_new(&p);
	dial_port(&p.a, port, p.b.token, &p.d);
	loop_idle(p.loop, 20);
	CU_ASSERT_EQUAL(p.d.done, 0);
	clock_skip(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done == 1));
	CU_ASSERT_EQUAL(p.d.res, -ETIMEDOUT);
	close(fd);
	fd = raw_bind(&port);
	dial_port(&p.a, port, p.b.token, &p.d);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done == 1));
	CU_ASSERT_EQUAL(p.d.res, -ECONNREFUSED);
	close(fd);
	fd = raw_listen_full(&port, full);
	dial_port(&p.a, port, p.b.token, &p.d);
	loop_idle(p.loop, 20);
	clock_skip(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done == 1));
	CU_ASSERT_EQUAL(p.d.res, -ETIMEDOUT);
	ASSERT_SAYS(p.d.err, "no answer: is it up");
	raw_close_full(fd, full);
	dial_port(&p.a, port, p.b.token, &p.d);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done == 1));
	ASSERT_SAYS(p.d.err, "is fmoved running there?");
	pair_free(&p);
}

static void test_local_address(void)
{
	struct fm_data_dial dial = {
		.kind = FM_KIND_TCP, .done = on_dialled, .timeout_ns = FM_NS_PER_S};
	struct sockaddr_in other = loopback(0);
	struct pair p;

	pair_new(&p);
	dial.local = dial.remote = loopback_addr();
	other.sin_addr.s_addr = htonl(0xc0000201);	/* 192.0.2.1: nobody's */
	memcpy(&dial.local.sa, &other, sizeof(other));
	dial.port = fm_net_port(p.b.net);
	dial.domain = p.a.domain;
	dial.ctx = &p.d;
	p.a.net->ops->data_dial(p.a.net, &dial);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done == 1));
	CU_ASSERT_EQUAL(p.d.res, -EADDRNOTAVAIL);

	memset(&p.d, 0, sizeof(p.d));
	dial.local.sa.ss_family = AF_INET6;
	p.a.net->ops->data_dial(p.a.net, &dial);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done == 1));
	CU_ASSERT_EQUAL(p.d.res, -EAFNOSUPPORT);
	pair_free(&p);
}

/* 127.0.0.2 is this node's, too: the source address is the one that was asked for. */
static void test_bound_to_the_rail(void)
{
	struct sockaddr_storage peer = { 0 };
	struct fm_data_dial dial = {
		.kind = FM_KIND_TCP, .done = on_dialled, .timeout_ns = 10 * FM_NS_PER_S};
	struct sockaddr_in second = loopback(0);
	socklen_t len = sizeof(peer);
	struct pair p;
	uint16_t port;
	int listener = raw_listen(&port), fd;

	pair_new(&p);
	second.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	dial.local = dial.remote = loopback_addr();
	memcpy(&dial.local.sa, &second, sizeof(second));
	dial.port = port;
	dial.ctx = &p.d;
	p.a.net->ops->data_dial(p.a.net, &dial);
	loop_idle(p.loop, 20);
	fd = accept(listener, (struct sockaddr *)&peer, &len);
	CU_ASSERT_EQUAL(((struct sockaddr_in *)&peer)->sin_addr.s_addr, second.sin_addr.s_addr);
	close(fd);
	close(listener);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done == 1));
	CU_ASSERT_EQUAL(p.d.res, -ECONNRESET);
	pair_free(&p);
}

static void test_what_is_to_be_had(void)
{
	struct fm_data_dial dial = { .kind = FM_KIND_RDMA, .done = on_dialled };
	const struct sockaddr_storage nobodys = { .ss_family = AF_INET };
	struct fm_addr addrs[FM_ADDRS_MAX];
	struct fm_loop *loop = loop_new();
	const char *why = NULL;
	struct dialled d = { 0 };
	struct node n;
	size_t count;
	int fd;

	CU_ASSERT_EQUAL(node_try(loop, &n, 1, false, NULL), 0);
	CU_ASSERT_EQUAL(n.net->ops->data_port(n.net, FM_KIND_TCP, &why), 0);
	CU_ASSERT_STRING_EQUAL(why, "TCP is switched off in the configuration");
	CU_ASSERT_EQUAL(n.net->ops->data_port(n.net, FM_KIND_RDMA, &why), 0);
	CU_ASSERT_STRING_EQUAL(why, "RDMA is switched off in the configuration");
	dial.ctx = &d;
	n.net->ops->data_dial(n.net, &dial);
	CU_ASSERT_EQUAL(d.done, 0);
	CU_ASSERT_TRUE(WAIT_FOR(loop, d.done == 1));
	CU_ASSERT_EQUAL(d.res, -ENODEV);
	fd = raw_connect(fm_net_port(n.net));
	raw_send(fd, "FMDATA\r\n", 8);
	CU_ASSERT_TRUE(WAIT_FOR(loop, raw_is_closed(fd)));
	close(fd);
	dial_port(&n, 1, n.token, &d);
	node_free(&n);		/* its dial is still under way: forgotten */
	fm_loop_free(loop);

	loop = loop_new();
	node_new(loop, &n, 1);
	CU_ASSERT_EQUAL(n.net->ops->data_port(n.net, FM_KIND_TCP, &why), fm_net_port(n.net));
	CU_ASSERT_PTR_NULL(why);
	CU_ASSERT_EQUAL(n.net->ops->data_port(n.net, FM_KIND_TCP, NULL), fm_net_port(n.net));
	count = n.net->ops->addrs(n.net, addrs, FM_ADDRS_MAX);
	CU_ASSERT_TRUE_FATAL(count <= FM_ADDRS_MAX);
	for (size_t i = 0; i < count; i++)
		CU_ASSERT_TRUE(n.net->ops->has_addr(n.net, &addrs[i].sa));
	CU_ASSERT_FALSE(n.net->ops->has_addr(n.net, &nobodys));
	node_free(&n);
	fm_loop_free(loop);
}

/*
 * Goal:   our addresses are read once for all who ask at one time, and one reading that fails is
 *         not one that finds none.
 * Method: a fault point, which a second reading at that time would reach.
 */
static void test_addrs_are_kept(void)
{
#ifdef FM_FAULTS
	struct fm_addr before[FM_ADDRS_MAX], after[FM_ADDRS_MAX];
	struct fm_loop *loop = loop_new();
	struct node n;
	size_t count;

	node_new(loop, &n, 1);
	count = n.net->ops->addrs(n.net, before, FM_ADDRS_MAX);
	fm_fault_arm("addr.list", 1);
	CU_ASSERT_EQUAL(n.net->ops->addrs(n.net, after, FM_ADDRS_MAX), count);
	CU_ASSERT_FALSE(fm_fault_fired());
	clock_skip(FM_NS_PER_S);
	fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL_FATAL(n.net->ops->addrs(n.net, after, FM_ADDRS_MAX), count);
	CU_ASSERT_TRUE(fm_fault_fired());
	for (size_t i = 0; i < count; i++)
		CU_ASSERT_EQUAL(memcmp(&before[i].sa, &after[i].sa, sizeof(after[i].sa)), 0);
	fm_fault_arm(NULL, 0);
	node_free(&n);
	fm_loop_free(loop);
#endif
}

/* Where there is no RDMA there is still TCP, and a reason; where there is, both have the same
 * port. */
static void test_rdma_or_a_reason(void)
{
	const struct fm_net_opts opts = {.listen = "127.0.0.1:0",
					 .key_file = key_file(1),
					 .is_tcp_allowed = true,
					 .is_rdma_allowed = true};
	struct fm_loop *loop = loop_new();
	struct fm_net *net = NULL;
	struct node n = { 0 };
	const char *why = NULL;

	CU_ASSERT_EQUAL(fm_net_new(loop, &opts, &net, NULL), 0);
	CU_ASSERT_EQUAL(net->ops->start(net, &net_events, &n, NULL), 0);
	CU_ASSERT_EQUAL(net->ops->data_port(net, FM_KIND_TCP, NULL), fm_net_port(net));
	if (net->ops->data_port(net, FM_KIND_RDMA, &why) == 0) {
		CU_ASSERT_TRUE(why && why[0]);
		printf("(no RDMA: %s) ", why);
	} else {
		CU_ASSERT_PTR_NULL(why);
	}
	net->ops->stop(net);
	fm_net_free(net);
	fm_loop_free(loop);
}

static void test_stop_ends_dials(void)
{
	struct pair p;
	uint16_t port;
	int fd = raw_listen(&port);

	pair_new(&p);
	dial_port(&p.a, port, p.b.token, &p.d);
	loop_idle(p.loop, 20);
	p.a.net->ops->stop(p.a.net);
	CU_ASSERT_EQUAL(p.d.done, 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done == 1));
	CU_ASSERT_EQUAL(p.d.res, -ECANCELED);
	close(fd);
	pair_free(&p);
}

/* ---- the protocol by hand ---- */

static void hello_make(uint8_t hello[64], const uint8_t token[FM_TOKEN_LEN])
{
	memset(hello, 0, 64);
	memcpy(hello, "FMDATA\r\n\x01\0\0\0\0\0\0\0", 16);
	memcpy(hello + 16, token, FM_TOKEN_LEN);
}

/* Until len bytes are there; false if the connection ends before. */
static bool raw_receive(struct fm_loop *loop, int fd, uint8_t *buf, size_t len)
{
	size_t got = 0;
	ssize_t n = 0;

	while (got < len &&
	       WAIT_FOR(loop, (n = recv(fd, buf + got, len - got, MSG_DONTWAIT)) >= 0 ||
				      errno != EAGAIN) &&
	       n > 0)
		got += (size_t)n;
	return got == len;
}

/* It is turned away before our addresses are looked at, which costs: a fault point in that look
 * does not fire. */
static void bad_hello(size_t at, uint8_t value, int answer)
{
	uint8_t hello[64], back[16] = { 0 };
	struct pair p;
	int fd;

	pair_new(&p);
	hello_make(hello, p.b.token);
	hello[at] = value;
	fm_fault_arm("addr.of_socket", 1);
	fd = raw_connect(fm_net_port(p.b.net));
	raw_send(fd, hello, sizeof(hello));
	if (answer >= 0) {
		CU_ASSERT_TRUE(raw_receive(p.loop, fd, back, sizeof(back)));
		CU_ASSERT_EQUAL(back[10], answer);
	}
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, raw_is_closed(fd)));
	CU_ASSERT_EQUAL(p.b.arrived, 0);
	CU_ASSERT_EQUAL(p.b.tokens, answer == 1 ? 1 : 0);
	CU_ASSERT_FALSE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	close(fd);
	pair_free(&p);
}

static void test_bad_hellos(void)
{
	bad_hello(0, 'f', -1);
	bad_hello(7, 0, -1);
	bad_hello(8, 2, 2);
	bad_hello(9, 1, 2);
	bad_hello(10, 1, -1);
	bad_hello(12, 1, -1);
	bad_hello(16, 0, 1);
	bad_hello(32, 1, -1);
	bad_hello(63, 1, -1);
}

/*
 * Goal: the bytes on the wire are those of tcp.h. Method: a bare socket reads what a node dials
 * with, and what it sends.
 */
static void test_golden_bytes(void)
{
	static const uint8_t answer[16] = "FMDATA\r\n\x01\0\0\0\0\0\0";
	uint8_t wanted[64], got[80 + 4], frame[80 + 4];
	struct out o = { 0 };
	struct pair p;
	uint16_t port;
	int listener = raw_listen(&port), fd;

	pair_new(&p);
	dial_port(&p.a, port, p.b.token, &p.d);
	loop_idle(p.loop, 20);
	fd = accept(listener, NULL, NULL);
	hello_make(wanted, p.b.token);
	CU_ASSERT_TRUE(raw_receive(p.loop, fd, got, 64));
	CU_ASSERT_EQUAL(memcmp(got, wanted, 64), 0);
	raw_send(fd, answer, sizeof(answer));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done));
	CU_ASSERT_EQUAL(p.d.res, 0);

	end_attach(&p.from, p.d.conn, p.loop);
	end_lend(&p.from, PAGE, false);
	memcpy(p.from.memory + 10, "data", 4);
	o.end = &p.from;
	o.send = (struct fm_send){ .done = on_sent,
				   .payload = p.from.memory + 10,
				   .payload_len = 4,
				   .region = &p.from.region,
				   .remote = UINT64_C(0x0102030405060708),
				   .rkey = 0x0a0b0c0d };
	memset(o.send.msg, 0x55, MSG);
	p.from.conn->ops->send(p.from.conn, &o.send);
	memcpy(frame, "\4\0\0\0\x0d\x0c\x0b\x0a\x08\x07\x06\x05\x04\x03\x02\x01", 16);
	memset(frame + 16, 0x55, MSG);
	memcpy(frame + 80, "data", 4);
	CU_ASSERT_TRUE(raw_receive(p.loop, fd, got, sizeof(frame)));
	CU_ASSERT_EQUAL(memcmp(got, frame, sizeof(frame)), 0);
	CU_ASSERT_EQUAL(o.done, 1);
	close(fd);
	close(listener);
	pair_free(&p);
}

static void bad_answer(const char *answer, size_t len, int code)
{
	struct pair p;
	uint16_t port;
	int listener = raw_listen(&port), fd;

	pair_new(&p);
	dial_port(&p.a, port, p.b.token, &p.d);
	loop_idle(p.loop, 10);
	fd = accept(listener, NULL, NULL);
	raw_send(fd, answer, len);
	shutdown(fd, SHUT_WR);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done));
	CU_ASSERT_EQUAL(p.d.res, code);
	close(fd);
	close(listener);
	pair_free(&p);
}

static void test_bad_answers(void)
{
	bad_answer("HTTP/1.1 400 Bad Request\r\n", 26, -EPROTO);
	bad_answer("FMDATA\r\n\x01\0\0\0\0\0\0", 15, -ECONNRESET);
	bad_answer("FMDATA\r\n\x01\0\1\0\0\0\0\0", 16, -EACCES);
	bad_answer("FMDATA\r\n\x02\0\2\0\0\0\0\0", 16, -EPROTONOSUPPORT);
	bad_answer("FMDATA\r\n\x02\0\0\0\0\0\0\0", 16, -EPROTONOSUPPORT);
	bad_answer("FMDATA\r\n\x01\0\7\0\0\0\0\0", 16, -EPROTO);
	bad_answer("FMDATA\r\n\x01\0\0\0\1\0\0\0", 16, -EPROTO);
}

/* b has a connection from a bare socket, attached, with memory lent. */
static int raw_dial(struct pair *p, size_t lend)
{
	uint8_t hello[64], answer[16];
	int fd;

	pair_new(p);
	hello_make(hello, p->b.token);
	fd = raw_connect(fm_net_port(p->b.net));
	raw_send(fd, hello, sizeof(hello));
	CU_ASSERT_TRUE(raw_receive(p->loop, fd, answer, sizeof(answer)));
	CU_ASSERT_EQUAL(memcmp(answer, "FMDATA\r\n\x01\0\0\0\0\0\0\0", 16), 0);
	CU_ASSERT_TRUE(WAIT_FOR(p->loop, p->b.conn));
	end_attach(&p->to, p->b.conn, p->loop);
	p->b.conn = NULL;
	if (lend)
		end_lend(&p->to, lend, true);
	return fd;
}

static void head_make(uint8_t head[80], uint32_t len, uint32_t rkey, uint64_t remote)
{
	for (unsigned i = 0; i < 4; i++) {
		head[i] = (uint8_t)(len >> 8 * i);
		head[4 + i] = (uint8_t)(rkey >> 8 * i);
	}
	for (unsigned i = 0; i < 8; i++)
		head[8 + i] = (uint8_t)(remote >> 8 * i);
	msg_put(head + 16, 0, 0, 0);
}

static bool is_zero(const uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i])
			return false;
	return true;
}

/* A payload of len bytes to the lent memory's address plus offset, with a key that is off by
 * key_off. */
static void outside(uint32_t len, uint64_t offset, uint32_t key_off)
{
	uint8_t frame[80 + 64];
	struct pair p;
	int fd = raw_dial(&p, 2 * PAGE);

	head_make(frame, len, p.to.region.rkey + key_off, p.to.region.remote + offset);
	memset(frame + 80, 0x77, 64);
	raw_send(fd, frame, sizeof(frame));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.failed == 1));
	CU_ASSERT_EQUAL(p.to.err.code, -EPROTO);
	ASSERT_SAYS(p.to.err, "outside the memory lent to it");
	CU_ASSERT_EQUAL(p.to.messages, 0);
	CU_ASSERT_TRUE(is_zero(p.to.memory, p.to.len));
	CU_ASSERT_TRUE(raw_is_closed(fd));
	close(fd);
	pair_free(&p);
}

static void test_outside_the_region(void)
{
	outside(64, 2 * PAGE, 0);
	outside(64, 2 * PAGE - 63, 0);
	outside(2 * PAGE + 1, 0, 0);
	outside(UINT32_MAX, 1, 0);
	outside(64, (UINT64_C(1) << 40) - 1, 0);
	outside(64, UINT64_C(1) << 40, 0);		/* the next place in the table */
	outside(64, UINT64_C(0xffffff) << 40, 0);
	outside(64, 0, 1);
	outside(64, 0, UINT32_MAX);
}

/* It is asked with the header alone: not a byte of the payload need have come. */
static void test_slot_in_use(void)
{
	uint8_t frame[80 + 64], head[80];
	struct pair p;
	int fd = raw_dial(&p, 2 * PAGE);

	head_make(frame, 64, p.to.region.rkey, p.to.region.remote + 4);
	memset(frame + 80, 0x77, 64);
	raw_send(fd, frame, sizeof(frame));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.messages == 1));
	CU_ASSERT_EQUAL(p.to.asked, 1);
	head_make(head, 0, 0, 0);
	raw_send(fd, head, sizeof(head));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.messages == 2));
	CU_ASSERT_EQUAL(p.to.asked, 2);
	p.to.refuses = true;
	raw_send(fd, frame, 80);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.failed == 1));
	CU_ASSERT_EQUAL(p.to.asked, 3);
	CU_ASSERT_FALSE(p.to.is_bad_ask);
	CU_ASSERT_EQUAL(p.to.err.code, -EPROTO);
	ASSERT_SAYS(p.to.err, "a slot that is in use");
	CU_ASSERT_EQUAL(p.to.messages, 2);
	close(fd);
	pair_free(&p);
}

/* Else its receiver would look at what somebody else left in the slot. */
static void test_chunk_without_bytes(void)
{
	uint8_t head[80];
	struct pair p;
	int fd = raw_dial(&p, PAGE);

	p.to.refuses = true;
	head_make(head, 0, 0, 0);
	raw_send(fd, head, sizeof(head));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.failed == 1));
	CU_ASSERT_TRUE(p.to.asked == 1 && p.to.messages == 0);
	CU_ASSERT_EQUAL(p.to.err.code, -EPROTO);
	ASSERT_SAYS(p.to.err, "a chunk without its bytes");
	close(fd);
	pair_free(&p);
}

static void test_nothing_lent(void)
{
	uint8_t frame[80 + 64];
	struct pair p;
	int fd = raw_dial(&p, 0);

	end_lend(&p.to, PAGE, false);	/* memory to send from may not be written to */
	CU_ASSERT_EQUAL(p.to.region.rkey, 0);
	head_make(frame, 64, p.to.region.rkey, p.to.region.remote);
	memset(frame + 80, 0x77, 64);
	raw_send(fd, frame, sizeof(frame));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.failed == 1));
	CU_ASSERT_TRUE(is_zero(p.to.memory, PAGE));
	close(fd);
	pair_free(&p);
}

static void test_empty_payload_elsewhere(void)
{
	uint8_t frame[80];
	struct pair p;
	int fd = raw_dial(&p, PAGE);

	head_make(frame, 0, p.to.region.rkey, 0);
	raw_send(fd, frame, sizeof(frame));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.failed == 1));
	CU_ASSERT_EQUAL(p.to.err.code, -EPROTO);
	close(fd);
	pair_free(&p);
}

/* Goal: how a frame is cut into segments does not matter. Method: byte by byte; then many frames in
 * one go. */
static void test_dribble(void)
{
	uint8_t frame[80 + 10], many[50 * 90];
	struct pair p;
	int fd = raw_dial(&p, PAGE);

	for (uint32_t seq = 0; seq < 52; seq++) {
		head_make(frame, 10, p.to.region.rkey, p.to.region.remote + 10 * seq);
		msg_put(frame + 16, seq, 10 * seq, 10);
		for (size_t i = 0; i < 10; i++)
			frame[80 + i] = pattern(seq, i);
		for (size_t i = 0; i < sizeof(frame) && seq < 2; i++) {
			raw_send(fd, frame + i, 1);
			fm_loop_step(p.loop, FM_NS_PER_MS);
		}
		if (seq >= 2)
			memcpy(many + 90 * (seq - 2), frame, 90);
	}
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.messages == 2));
	raw_send(fd, many, sizeof(many));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.messages == 52));
	CU_ASSERT_EQUAL(p.to.bad, 0);
	CU_ASSERT_TRUE(is_zero(p.to.memory + 520, PAGE - 520));
	close(fd);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.failed == 1));
	ASSERT_SAYS(p.to.err, "the peer closed the connection");
	pair_free(&p);
}

static void test_dies_in_payload(void)
{
	uint8_t frame[80 + 100];
	struct pair p;
	int fd = raw_dial(&p, 4 * PAGE);

	head_make(frame, 4 * PAGE, p.to.region.rkey, p.to.region.remote);
	memset(frame + 80, 1, 100);
	raw_send(fd, frame, sizeof(frame));
	loop_idle(p.loop, 10);
	CU_ASSERT_EQUAL(p.to.messages + p.to.failed, 0);
	close(fd);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.failed == 1));
	CU_ASSERT_EQUAL(p.to.err.code, -ECONNRESET);
	ASSERT_SAYS(p.to.err, "in the middle of a message");
	CU_ASSERT_EQUAL(p.to.messages, 0);
	pair_free(&p);
}

/*
 * Goal:   memory that was taken back is not written to, and whoever was writing there loses the
 *         connection.
 * Method: take it back in the middle of a payload, poison it, send the rest.
 */
static void test_take_back_in_payload(void)
{
	uint8_t frame[80 + 100], more[200];
	struct pair p;
	int fd = raw_dial(&p, PAGE);

	head_make(frame, PAGE, p.to.region.rkey, p.to.region.remote);
	memset(frame + 80, 1, 100);
	raw_send(fd, frame, sizeof(frame));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.memory[99] == 1));
	CU_ASSERT_EQUAL(p.to.conn->came, 100);
	p.to.conn->ops->take_back(p.to.conn, &p.to.region);
	CU_ASSERT_EQUAL(p.to.failed, 0);	/* not from inside the call */
	memset(p.to.memory, 0, PAGE);
	memset(more, 2, sizeof(more));
	(void)!send(fd, more, sizeof(more), MSG_NOSIGNAL);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.failed == 1));
	ASSERT_SAYS(p.to.err, "asked to give back");
	loop_idle(p.loop, 10);
	CU_ASSERT_TRUE(is_zero(p.to.memory, PAGE));
	close(fd);
	pair_free(&p);
}

/*
 * Goal:   a payload comes to where its receiver says, the beginning that was read ahead too; from
 *         the moment that it says otherwise the rest comes to the memory lent, and not a byte of it
 *         beside that; the next payload is asked for anew.
 * Method: a payload in two pieces, diverted between them; then one as a whole.
 */
static void test_placed(void)
{
	static uint8_t place[PAGE];
	uint8_t frame[80 + 100], more[PAGE - 100], whole[80 + PAGE];
	struct pair p;
	int fd = raw_dial(&p, PAGE);

	memset(place, 0, sizeof(place));
	p.to.place = place;
	p.to.place_len = PAGE;
	p.to.memory[0] = 5;
	head_make(frame, PAGE, p.to.region.rkey, p.to.region.remote);
	memset(frame + 80, 1, 100);
	raw_send(fd, frame, sizeof(frame));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, place[99] == 1));
	CU_ASSERT_TRUE(p.to.memory[0] == 5 && is_zero(p.to.memory + 1, PAGE - 1));
	p.to.conn->ops->divert(p.to.conn);
	memset(more, 2, sizeof(more));
	raw_send(fd, more, sizeof(more));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.messages == 1));
	CU_ASSERT_TRUE(is_zero(place + 100, PAGE - 100));
	CU_ASSERT_TRUE(p.to.memory[99] == 0 && p.to.memory[100] == 2);
	CU_ASSERT_EQUAL(p.to.memory[PAGE - 1], 2);
	memset(p.to.memory, 0, PAGE);
	memcpy(whole, frame, 80);
	memset(whole + 80, 3, PAGE);
	raw_send(fd, whole, sizeof(whole));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.messages == 2));
	CU_ASSERT_TRUE(place[0] == 3 && place[PAGE - 1] == 3 && is_zero(p.to.memory, PAGE));
	CU_ASSERT_EQUAL(p.to.failed, 0);
	close(fd);
	pair_free(&p);
}

/* A grant of before does not work for the memory that is lent in the same place now. */
static void test_old_grant(void)
{
	uint8_t frame[80 + 64];
	struct fm_region old;
	struct pair p;
	int fd = raw_dial(&p, PAGE);

	old = p.to.region;
	p.to.conn->ops->take_back(p.to.conn, &p.to.region);
	CU_ASSERT_EQUAL(
		p.to.conn->ops->lend(p.to.conn, p.to.memory, PAGE, true, &p.to.region, NULL), 0);
	CU_ASSERT_NOT_EQUAL(old.rkey, p.to.region.rkey);
	head_make(frame, 64, old.rkey, old.remote);
	memset(frame + 80, 0x77, 64);
	raw_send(fd, frame, sizeof(frame));
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.failed == 1));
	CU_ASSERT_TRUE(is_zero(p.to.memory, PAGE));
	close(fd);
	pair_free(&p);
}

static void test_many_regions(void)
{
	static struct fm_region region[FM_TCP_REGIONS_MAX];
	struct fm_region extra;
	struct fm_err err = { 0 };
	struct pair p;
	int fd = raw_dial(&p, PAGE);
	const struct fm_conn_ops *ops = p.to.conn->ops;

	for (unsigned i = 1; i < FM_TCP_REGIONS_MAX; i++)
		CU_ASSERT_EQUAL(ops->lend(p.to.conn, p.to.memory, PAGE, true, &region[i], &err), 0);
	CU_ASSERT_EQUAL(ops->lend(p.to.conn, p.to.memory, PAGE, true, &extra, &err), -ENOSPC);
	CU_ASSERT_EQUAL(err.code, -ENOSPC);
	ops->take_back(p.to.conn, &region[77]);
	CU_ASSERT_EQUAL(ops->lend(p.to.conn, p.to.memory, PAGE, true, &extra, &err), 0);
	CU_ASSERT_EQUAL(extra.remote, region[77].remote);
	close(fd);
	pair_free(&p);
}

/* ---- both ends ours ---- */

#define OUTS 128u
#define CHUNK (40u * 1024)		/* no power of two, more than is read ahead */

static struct out outs[2][OUTS];

static uint32_t chunk_len(uint32_t seq)
{
	static const uint32_t lens[] = { CHUNK, 0, 1, 80, 4096, 4095, 30000, CHUNK - 1 };

	return lens[seq % 8];
}

/*
 * Queue what end `from` sends as number seq: a chunk at place seq % OUTS of its own memory to the
 * same of the peer's.
 */
static void chunk_send(struct end *from, struct out *o, const struct end *to, uint32_t seq)
{
	uint32_t offset = seq % OUTS * CHUNK, len = chunk_len(seq);
	uint8_t *payload = from->memory + OUTS * CHUNK + offset;

	for (size_t i = 0; i < len; i++)
		payload[i] = pattern(seq, i);
	*o = (struct out){ .end = from };
	o->send.done = on_sent;
	msg_put(o->send.msg, seq, offset, len);
	if (len) {
		o->send.payload = payload;
		o->send.payload_len = len;
		o->send.region = &from->region;
		o->send.remote = to->region.remote + offset;
		o->send.rkey = to->region.rkey;
	}
	from->conn->ops->send(from->conn, &o->send);
}

/* Memory in two halves: the lower is lent for receiving, the upper one is sent from. */
static void end_lend_both(struct end *e)
{
	end_lend(e, 2 * OUTS * CHUNK, true);
}

/*
 * Goal:   many messages under way both ways, of all sizes around the read-ahead, arrive in order,
 *         each payload in place before its message.
 * Method: on_message() compares every byte. A place is used again only after its message was
 * answered by progress of the peer, which lock-step rounds give.
 */
static void test_both_directions(void)
{
	struct pair p;

	pair_new(&p);
	pair_connect(&p);
	end_lend_both(&p.from);
	end_lend_both(&p.to);
	for (uint32_t round = 0; round < 6; round++) {
		for (uint32_t i = 0; i < OUTS; i++) {
			chunk_send(&p.from, &outs[0][i], &p.to, round * OUTS + i);
			chunk_send(&p.to, &outs[1][i], &p.from, round * OUTS + i);
		}
		CU_ASSERT_EQUAL(p.from.sent, round * OUTS);	/* nothing from inside the call */
		CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.from.messages == (round + 1) * OUTS &&
							p.to.messages == (round + 1) * OUTS));
		CU_ASSERT_EQUAL(p.from.sent, (round + 1) * OUTS);
		CU_ASSERT_EQUAL(p.to.sent, (round + 1) * OUTS);
	}
	CU_ASSERT_EQUAL(p.from.bad + p.to.bad, 0);
	CU_ASSERT_EQUAL(p.from.failed + p.to.failed, 0);
	pair_free(&p);
}

/* more than any socket buffer, and than one pass may move */
#define BIG (12u << 20)

static void big_send(struct end *from, struct out *o, const struct fm_region *to, uint32_t seq)
{
	*o = (struct out){ .end = from };
	o->send.done = on_sent;
	msg_put(o->send.msg, seq, 0, BIG);
	o->send.payload = from->memory;
	o->send.payload_len = BIG;
	o->send.region = &from->region;
	o->send.remote = to->remote;
	o->send.rkey = to->rkey;
	from->conn->ops->send(from->conn, &o->send);
}

/* Goal: payloads larger than all buffers on the way arrive whole, and a message waits behind
 * them. */
static void test_big_payloads(void)
{
	struct out tail = { 0 };
	struct pair p;

	pair_new(&p);
	pair_connect(&p);
	end_lend(&p.from, BIG, false);
	end_lend(&p.to, BIG, true);
	for (size_t i = 0; i < BIG; i++)
		p.from.memory[i] = pattern(0, i);
	big_send(&p.from, &outs[0][0], &p.to.region, 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.messages == 1));
	CU_ASSERT_EQUAL(p.to.bad, 0);

	p.to.memory = NULL;	/* the rest is looked at here */
	memset(p.to.region.memory, 0, BIG);
	big_send(&p.from, &outs[0][0], &p.to.region, 1);
	tail.end = &p.from;
	tail.send.done = on_sent;
	memset(tail.send.msg, 0x11, MSG);
	p.from.conn->ops->send(p.from.conn, &tail.send);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.messages == 3));
	CU_ASSERT_EQUAL(p.to.msg_last[5], 0x11);
	CU_ASSERT_EQUAL(memcmp(p.to.region.memory, p.from.memory, BIG), 0);
	p.to.memory = p.to.region.memory;
	pair_free(&p);
}

/*
 * Goal:   a peer that reads slowly gets the same bytes, cut wherever the socket was full.
 * Method: a bare socket with a small buffer reads in odd pieces and compares.
 */
static void test_slow_reader(void)
{
	static uint8_t got[30011];
	const struct fm_region there = { .remote = 77, .rkey = 5 };
	struct pair p;
	int fd = raw_dial(&p, 0), small = 256 * 1024;
	size_t at = 0, bad = 0;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	end_lend(&p.to, BIG, false);
	for (size_t i = 0; i < BIG; i++)
		p.to.memory[i] = pattern(3, i);
	for (unsigned i = 0; i < 2; i++)
		big_send(&p.to, &outs[0][i], &there, 3);
	CU_ASSERT_FALSE(WAIT_FOR_MS(p.loop, 50, p.to.sent > 0));
	CU_ASSERT_TRUE(p.to.conn->left > 0 && p.to.conn->left < 80 + (size_t)BIG);
	while (at < 2 * (80 + (size_t)BIG)) {
		if (!WAIT_FOR(p.loop, (n = recv(fd, got, sizeof(got), MSG_DONTWAIT)) > 0))
			break;
		for (ssize_t i = 0; i < n; i++, at++) {
			size_t in_frame = at % (80 + BIG);

			bad += in_frame >= 80 && got[i] != pattern(3, in_frame - 80);
			bad += in_frame == 8 && got[i] != 77;
		}
	}
	CU_ASSERT_EQUAL(at, 2 * (80 + (size_t)BIG));
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.sent == 2));
	close(fd);
	pair_free(&p);
}

static unsigned outs_done(unsigned side)
{
	unsigned done = 0;

	for (unsigned i = 0; i < OUTS; i++) {
		CU_ASSERT_TRUE(outs[side][i].done <= 1);
		done += outs[side][i].done;
	}
	return done;
}

/* Goal: close gives every send back once, then says closed, once. Method: close at different points
 * of sending 5 MB. */
static void test_close_in_flight(void)
{
	for (unsigned steps = 0; steps < 12; steps++) {
		struct pair p;

		pair_new(&p);
		pair_connect(&p);
		end_lend_both(&p.from);
		end_lend_both(&p.to);
		for (uint32_t i = 0; i < OUTS; i++)
			chunk_send(&p.from, &outs[0][i], &p.to, i);
		for (unsigned i = 0; i < steps; i++)
			fm_loop_step(p.loop, 0);
		end_close(&p.from);
		CU_ASSERT_EQUAL(p.from.closed, 0);
		CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.from.closed == 1 && p.to.failed == 1));
		CU_ASSERT_EQUAL(outs_done(0), OUTS);
		CU_ASSERT_EQUAL(p.from.sent + p.from.cancelled, OUTS);
		CU_ASSERT_EQUAL(p.from.failed, 0);
		CU_ASSERT_EQUAL(p.to.bad, 0);
		CU_ASSERT_TRUE(p.to.messages >= p.from.sent);
		loop_idle(p.loop, 2);
		CU_ASSERT_EQUAL(p.from.closed, 1);
		pair_free(&p);
	}
}

/* The receiver closes: the sender gets one failure, everything back, and may still send and
 * close. */
static void test_peer_closes(void)
{
	struct out late = { 0 };
	struct pair p;

	pair_new(&p);
	pair_connect(&p);
	end_lend_both(&p.from);
	end_lend_both(&p.to);
	for (uint32_t i = 0; i < OUTS; i++)
		chunk_send(&p.from, &outs[0][i], &p.to, i);
	end_close(&p.to);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.from.failed == 1));
	CU_ASSERT_EQUAL(outs_done(0), OUTS);
	CU_ASSERT_EQUAL(p.from.closed, 0);
	late.end = &p.from;
	late.send.done = on_sent;
	p.from.conn->ops->send(p.from.conn, &late.send);
	CU_ASSERT_EQUAL(late.done, 0);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, late.done == 1));
	CU_ASSERT_EQUAL(late.res, -ECANCELED);
	CU_ASSERT_EQUAL(p.from.failed, 1);
	end_close(&p.from);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.from.closed == 1));
	pair_free(&p);
}

static void test_close_in_callbacks(void)
{
	for (unsigned way = 0; way < 3; way++) {
		struct pair p;

		pair_new(&p);
		pair_connect(&p);
		end_lend_both(&p.from);
		end_lend_both(&p.to);
		p.to.close_after_messages = way == 0 ? 3 : 0;
		p.from.close_after_sends = way == 1 ? 2 : 0;
		p.from.closes_when_failed = true;
		for (uint32_t i = 0; i < 20; i++)
			chunk_send(&p.from, &outs[0][i], &p.to, i);
		if (way == 2)
			end_close(&p.to);
		CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.from.closed == 1));
		CU_ASSERT_EQUAL(p.from.sent + p.from.cancelled, 20);
		CU_ASSERT_EQUAL(p.from.failed, way == 1 ? 0 : 1);
		CU_ASSERT_TRUE(way != 0 || p.to.messages == 3);
		CU_ASSERT_EQUAL(p.to.bad, 0);
		pair_free(&p);
	}
}

/* Goal: the last words of a peer that closes right after them are heard, even by one that is just
 * sending. */
static void test_last_words(void)
{
	struct out bye = { 0 };
	struct pair p;

	pair_new(&p);
	pair_connect(&p);
	end_lend_both(&p.from);
	end_lend_both(&p.to);
	bye.end = &p.to;
	bye.send.done = on_sent;
	p.to.conn->ops->send(p.to.conn, &bye.send);
	for (uint32_t i = 0; i < OUTS; i++)
		chunk_send(&p.from, &outs[0][i], &p.to, i);
	p.to.close_after_sends = 1;
	/* the message is no chunk; the memory is in outs[0] yet, so remember it */
	p.from.memory = NULL;
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.from.failed == 1));
	CU_ASSERT_EQUAL(p.from.messages, 1);
	p.from.memory = p.from.region.memory;
	pair_free(&p);
}

/* ---- two lanes on two threads ---- */

#define LANE_ROUNDS 20u

struct lane {
	struct fm_loop *loop;
	struct end end;
	const struct end *peer;
	struct fm_conn *conn;
	unsigned side;
	uint32_t seq;
	struct fm_timer tick;
	pthread_t thread;
};

static atomic_uint lanes_lent, lanes_done;

/* The next round begins when all of the last is sent and as much came; the peer may be a round
 * ahead. */
static void lane_tick(struct fm_timer *timer)
{
	struct lane *l = fm_container_of(timer, struct lane, tick);
	bool is_through =
		l->seq == LANE_ROUNDS * OUTS && l->end.sent == l->seq && l->end.messages == l->seq;

	if (is_through || l->end.failed) {
		atomic_fetch_add(&lanes_done, 1);
		return;
	}
	if (atomic_load(&lanes_lent) == 2 && l->end.sent == l->seq && l->end.messages >= l->seq &&
	    l->seq < LANE_ROUNDS * OUTS) {
		for (uint32_t i = 0; i < OUTS; i++)
			chunk_send(&l->end, &outs[l->side][i], l->peer, l->seq + i);
		l->seq += OUTS;
	}
	fm_timer_set(l->loop, &l->tick, fm_loop_now(l->loop) + FM_NS_PER_MS / 10);
}

static void *lane_run(void *arg)
{
	struct lane *l = arg;

	end_attach(&l->end, l->conn, l->loop);
	end_lend_both(&l->end);
	atomic_fetch_add(&lanes_lent, 1);
	l->tick.fire = lane_tick;
	lane_tick(&l->tick);
	while (atomic_load(&lanes_done) < 2)
		fm_loop_step(l->loop, FM_NS_PER_MS);
	end_close(&l->end);
	while (!l->end.closed)
		fm_loop_step(l->loop, FM_NS_PER_MS);
	return NULL;
}

/*
 * Goal:   a connection made on the control loop works on another thread's loop.
 * Method: two threads, each the lane of one end, exchange 80 MB; meant for TSan as well. A place is
 * written again one round later, behind the message of the round before, which looked at it.
 */
static void test_two_threads(void)
{
	struct lane lanes[2] = { { .side = 0 }, { .side = 1 } };
	struct pair p;

	pair_new(&p);
	atomic_store(&lanes_lent, 0);
	atomic_store(&lanes_done, 0);
	dial_port(&p.a, fm_net_port(p.b.net), p.b.token, &p.d);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done && p.b.conn));
	lanes[0].conn = p.d.conn;
	lanes[1].conn = p.b.conn;
	p.b.conn = NULL;
	for (unsigned i = 0; i < 2; i++) {
		lanes[i].loop = loop_new();
		lanes[i].peer = &lanes[1 - i].end;
		pthread_create(&lanes[i].thread, NULL, lane_run, &lanes[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(lanes[i].thread, NULL);
		CU_ASSERT_EQUAL(lanes[i].end.bad, 0);
		CU_ASSERT_EQUAL(lanes[i].end.messages, LANE_ROUNDS * OUTS);
		CU_ASSERT_EQUAL(lanes[i].end.closed, 1);
	}
	for (unsigned i = 0; i < 2; i++) {
		fm_loop_free(lanes[i].loop);
		free(lanes[i].end.memory);
	}
	pair_free(&p);
}

/* ---- failures ---- */

/* Made, dialled, one chunk each way, closed. Whatever fails, each promise of a callback is kept. */
static void life(void)
{
	struct fm_err err = { 0 };
	struct pair p = { .loop = loop_new_or_null() };

	if (!p.loop)
		return;
	if (node_try(p.loop, &p.a, 1, true, &err) < 0 ||
	    node_try(p.loop, &p.b, 2, true, &err) < 0) {
		CU_ASSERT_TRUE(err.code < 0 && err.text[0]);
		goto out;
	}
	p.a.far = &p.b;
	dial_port(&p.a, fm_net_port(p.b.net), p.b.token, &p.d);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.d.done));
	CU_ASSERT_TRUE(p.d.res == 0 || (p.d.err.code == p.d.res && p.d.err.text[0]));
	CU_ASSERT_TRUE(p.b.arrived == (p.b.is_token_used ? 1 : 0));
	if (!p.d.conn || !p.b.conn) {
		if (p.d.conn)
			p.d.conn->ops->close(p.d.conn);
		goto out;
	}
	end_attach(&p.from, p.d.conn, p.loop);
	end_attach(&p.to, p.b.conn, p.loop);
	p.b.conn = NULL;
	p.to.len = PAGE;
	p.to.memory = aligned_alloc(PAGE, PAGE);
	if (p.to.conn->ops->lend(p.to.conn, p.to.memory, PAGE, true, &p.to.region, &err) == 0) {
		outs[0][0] = (struct out){ .end = &p.from };
		outs[0][0].send.done = on_sent;
		p.from.conn->ops->send(p.from.conn, &outs[0][0].send);
		CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.to.messages || p.from.failed || p.to.failed));
	}
	end_close(&p.from);
	end_close(&p.to);
	CU_ASSERT_TRUE(WAIT_FOR(p.loop, p.from.closed == 1 && p.to.closed == 1));
	CU_ASSERT_TRUE(p.from.failed <= 1 && p.to.failed <= 1);
out:
	free(p.to.memory);
	node_free(&p.a);
	node_free(&p.b);
	fm_loop_free(p.loop);
}

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

/* ---- the same, inside TLS ---- */

#define OVER_TLS(test) \
	static void test##_over_tls(void) \
	{ \
		is_over_tls = true; \
		test(); \
		is_over_tls = false; \
	}

OVER_TLS(test_token)
OVER_TLS(test_both_directions)
OVER_TLS(test_big_payloads)
OVER_TLS(test_close_in_flight)
OVER_TLS(test_peer_closes)
OVER_TLS(test_close_in_callbacks)
OVER_TLS(test_last_words)
OVER_TLS(test_two_threads)
OVER_TLS(test_every_failure)

static void test_clean_up(void)
{
	test_dir_remove();
}

static const struct fm_test tests[] = {
	{"a token is good once, a wrong one never", test_token},
	{"nobody there, and somebody who does not answer", test_refused_and_silent},
	{"a local address that is not ours is an error", test_local_address},
	{"the connection comes from the address that was asked for", test_bound_to_the_rail},
	{"what is not to be had says why", test_what_is_to_be_had},
	{ "our addresses are read once, and kept when they cannot be", test_addrs_are_kept },
	{"without RDMA there is a reason, and TCP", test_rdma_or_a_reason},
	{"stop ends dials under way", test_stop_ends_dials},
	{"a hello that is not exactly right gets nothing", test_bad_hellos},
	{"an answer that is not exactly right is no connection", test_bad_answers},
	{"the bytes on the wire are those of tcp.h", test_golden_bytes},
	{"a payload outside the lent memory breaks the connection", test_outside_the_region},
	{"a payload for a slot in use breaks the connection before it is read", test_slot_in_use},
	{"a message that may not come without a payload breaks the connection",
	 test_chunk_without_bytes},
	{"memory that was not lent for receiving is safe", test_nothing_lent},
	{"a header that makes no sense breaks the connection", test_empty_payload_elsewhere},
	{"frames cut into any pieces are the same frames", test_dribble},
	{"a peer that dies in the middle of a payload", test_dies_in_payload},
	{"memory taken back in the middle of a payload is not written to",
	 test_take_back_in_payload},
	{"a payload comes to where its receiver says, as long as he does", test_placed},
	{"an old grant does not work", test_old_grant},
	{"lent regions are bounded, and their places used again", test_many_regions},
	{"many messages both ways, in order, payloads in place", test_both_directions},
	{"payloads larger than every buffer arrive whole", test_big_payloads},
	{"a slow reader gets the same bytes", test_slow_reader},
	{"close with sends in flight gives all of them back", test_close_in_flight},
	{"a peer that closes is one failure", test_peer_closes},
	{"the owner may close in any callback", test_close_in_callbacks},
	{"a peer's last words are heard", test_last_words},
	{"two threads, one end each", test_two_threads},
	{"any one failure is survived", test_every_failure},
	{"a token is good once, over TLS too", test_token_over_tls},
	{"many messages both ways over TLS", test_both_directions_over_tls},
	{"payloads larger than every buffer over TLS", test_big_payloads_over_tls},
	{"close with sends in flight over TLS", test_close_in_flight_over_tls},
	{"a peer that closes over TLS", test_peer_closes_over_tls},
	{"the owner may close in any callback over TLS", test_close_in_callbacks_over_tls},
	{"a peer's last words are heard over TLS", test_last_words_over_tls},
	{"two threads, one end each, over TLS", test_two_threads_over_tls},
	{"any one failure is survived over TLS", test_every_failure_over_tls},
	{"(cleaning up)", test_clean_up},
};

FM_TEST_MAIN("tcp", tests)
