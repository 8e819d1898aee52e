/* SPDX-License-Identifier: MIT */
/*
 * rdma_transport - drives the RDMA transport by itself, over real devices (the lab's: soft-RoCE).
 *
 *   rdma_transport check                        every behaviour, between two nodes of this process
 *   rdma_transport serve ADDR PORT [wait]       one node: accept, grant 16 slots of 1 MiB,
 *                                               acknowledge chunks
 *   rdma_transport send LOCAL ADDR PORT CHUNKS  the other one: push chunks, print MiB/s and CPU
 *                                               seconds
 *
 * check reads RDMA_A, RDMA_B (addresses of two RDMA ports of this machine that reach each other)
 * and RDMA_NOBODY (an address that an RDMA port here has a route to and where nobody is) from the
 * environment, and, if they are there, the shell commands RDMA_DELAY, RDMA_CUT, RDMA_MEND,
 * RDMA_NARROW_A, RDMA_NARROW_B, RDMA_WIDEN and RDMA_REMOVE, and RDMA_LATE (an address) with
 * RDMA_LATE_ADD and RDMA_LATE_DEL.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mover/base/log.h"
#include "mover/transport/rdma_hello.h"
#include "mover/transport/rdma_priv.h"
#include "tests/lab/rdma_nodes.h"

#define TESTS_MAX 64
#define RESOLVE_MS (int)(WAIT_NS / FM_NS_PER_MS)

/* ---- rails, connecting ---- */

static bool is_rail(const char *text, char name[FM_RAIL_NAME_MAX], uint32_t *speed)
{
	struct fm_addr addr;

	memset(&addr, 0, sizeof(addr));
	parse_addr(text, &addr.sa);
	return fm_rdma_is_rail(node_a.rdma, &addr, name, speed);
}

static void test_rails(void)
{
	char name[FM_RAIL_NAME_MAX] = "";
	uint32_t speed = 0;

	CU_ASSERT_TRUE(is_rail(getenv("RDMA_A"), name, &speed));
	CU_ASSERT_TRUE(strlen(name) > 0 && speed > 0);
	CU_ASSERT_FALSE(is_rail("127.0.0.1", name, &speed));
	CU_ASSERT_FALSE(is_rail("192.0.2.1", name, &speed));
}

static void test_connect(void)
{
	const struct fm_conn_info *info;
	struct end a, b;

	connect_ends(&a, &b);
	info = a.conn->ops->info(a.conn);
	printf("\n    %s %s -> %s, MTU %u, %u Mb/s, %s ... ", info->local, info->local_addr,
	       info->remote_addr, info->mtu, info->speed_mbps, info->note);
	CU_ASSERT_EQUAL(info->kind, FM_KIND_RDMA);
	CU_ASSERT_STRING_EQUAL(info->local_addr, getenv("RDMA_A"));
	CU_ASSERT_STRING_EQUAL(info->remote_addr, getenv("RDMA_B"));
	CU_ASSERT_STRING_EQUAL(info->note, "RoCE v2");
	CU_ASSERT_EQUAL(info->mtu, b.conn->ops->info(b.conn)->mtu);
	CU_ASSERT_TRUE(info->mtu >= 1024);
	close_end(&a);
	CU_ASSERT_TRUE(UNTIL(b.failures == 1));
	CU_ASSERT_PTR_NOT_NULL(strstr(b.err.text, "the peer closed the connection"));
	close_end(&b);
	CU_ASSERT_EQUAL(a.failures, 0);
}

/*
 * Goal:   when the two ends' networks carry packets of different size, the smaller counts, whoever
 *         dials.
 * Method: RDMA_NARROW makes a's network carry little, then b's; RDMA_WIDEN undoes it.
 */
static void test_mtu(void)
{
	const char *names[] = { "RDMA_NARROW_A", "RDMA_NARROW_B" };
	const char *widen = getenv("RDMA_WIDEN");
	struct test_send s;
	struct end a, b;

	for (unsigned i = 0; i < 2; i++) {
		if (!getenv(names[i]) || !widen) {
			printf("(%s or RDMA_WIDEN is not set) ... ", names[i]);
			return;
		}
		CU_ASSERT_EQUAL_FATAL(system(getenv(names[i])), 0);
		connect_ends(&a, &b);
		CU_ASSERT_EQUAL(a.conn->ops->info(a.conn)->mtu, 1024);
		CU_ASSERT_EQUAL(b.conn->ops->info(b.conn)->mtu, 1024);
		send_to(&a, &s, 0, 0, 0, 65536);
		CU_ASSERT_TRUE(UNTIL(a.sends_good == 1 && b.messages == 1));
		send_to(&b, &s, 0, 0, 0, 65536);
		CU_ASSERT_TRUE(UNTIL(b.sends_good == 1 && a.messages == 1));
		close_end(&a);
		close_end(&b);
		CU_ASSERT_EQUAL_FATAL(system(widen), 0);
	}
}

static void expect_refused(int res, const char *text)
{
	CU_ASSERT_TRUE_FATAL(UNTIL(node_a.is_dialled));
	CU_ASSERT_EQUAL(node_a.dial_res, res);
	CU_ASSERT_PTR_NULL(node_a.dialled);
	CU_ASSERT_EQUAL(node_a.dial_err.code, res);
	if (!strstr(node_a.dial_err.text, text)) {
		printf("\n    %s ... ", node_a.dial_err.text);
		CU_FAIL("other words were expected");
	}
}

static void test_wrong_token(void)
{
	unsigned seen = node_b.tokens_seen, arrivals = node_b.arrivals;

	node_dial(&node_a, &node_b.sa, PORT_B, "0123456789abcdeX", WAIT_NS);
	expect_refused(-EACCES, "does not know the token");
	CU_ASSERT_EQUAL(node_b.tokens_seen, seen + 1);
	CU_ASSERT_EQUAL(node_b.arrivals, arrivals);
}

static void test_nobody(void)
{
	struct sockaddr_storage nobody;

	node_dial(&node_a, &node_b.sa, 7499, TOKEN, WAIT_NS);
	expect_refused(-ECONNREFUSED, "nobody listens");

	parse_addr(getenv("RDMA_NOBODY"), &nobody);
	node_dial(&node_a, &nobody, PORT_B, TOKEN, 3 * FM_NS_PER_S);
	CU_ASSERT_TRUE_FATAL(UNTIL(node_a.is_dialled));
	CU_ASSERT_TRUE(node_a.dial_res < 0);
	printf("\n    %s ... ", node_a.dial_err.text);
}

static bool has_event(const struct rdma_event_channel *channel)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* A request of our own making to b, and its answer. */
struct request {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	enum rdma_cm_event_type answer;
	int status;
};

static void await_note(struct request *r)
{
	struct rdma_cm_event *event;

	CU_ASSERT_TRUE_FATAL(UNTIL(has_event(r->channel)));
	CU_ASSERT_EQUAL_FATAL(rdma_get_cm_event(r->channel, &event), 0);
	r->answer = event->event;
	r->status = event->status;
	rdma_ack_cm_event(event);
}

static void request_send(struct request *r, const void *data, size_t len)
{
	static uint32_t qp_num = 4711;	/* another for each: the same one is a stale connection */
	struct rdma_conn_param param = { .retry_count = 1,
					 .qp_num = qp_num++,
					 .private_data = data,
					 .private_data_len = (uint8_t)len };
	struct sockaddr_storage src = node_a.sa, dst = node_b.sa;

	((struct sockaddr_in *)(void *)&dst)->sin_port = htons(PORT_B);
	r->channel = rdma_create_event_channel();
	CU_ASSERT_EQUAL_FATAL(rdma_create_id(r->channel, &r->id, NULL, RDMA_PS_TCP), 0);
	CU_ASSERT_EQUAL(rdma_resolve_addr(r->id, (struct sockaddr *)&src, (struct sockaddr *)&dst,
					  RESOLVE_MS),
			0);
	await_note(r);
	CU_ASSERT_EQUAL(r->answer, RDMA_CM_EVENT_ADDR_RESOLVED);
	CU_ASSERT_EQUAL(rdma_resolve_route(r->id, RESOLVE_MS), 0);
	await_note(r);
	CU_ASSERT_EQUAL(rdma_connect(r->id, &param), 0);
	await_note(r);
}

static void request_end(struct request *r)
{
	rdma_destroy_id(r->id);
	rdma_destroy_event_channel(r->channel);
}

/* Goal: whatever stands in the private data, the request is refused and nobody is asked for a
 * token. */
static void test_garbage(void)
{
	unsigned seen = node_b.tokens_seen, arrivals = node_b.arrivals;

	for (unsigned i = 0; i < 8; i++) {
		struct request r;
		uint8_t data[56];

		fill(data, sizeof(data), i);
		if (i % 2)
			memcpy(data, "FMDR", 4);
		request_send(&r, i == 0 ? NULL : data, i == 0 ? 0 : 8 * i - 3);
		CU_ASSERT_EQUAL(r.answer, RDMA_CM_EVENT_REJECTED);
		CU_ASSERT_EQUAL(r.status, 28);
		request_end(&r);
	}
	CU_ASSERT_EQUAL(node_b.tokens_seen, seen);
	CU_ASSERT_EQUAL(node_b.arrivals, arrivals);
}

/*
 * Goal:   a session that asks for connections and never makes them keeps no other one waiting.
 * Method: as many requests as there are places, each with a token that is good, and nothing after
 *         the answer. Then a connection of another session.
 */
static void test_crowd(void)
{
	struct rdma_hello hello = { .mtu = IBV_MTU_1024 };
	struct fm_domain other = { .rdma = NULL };
	uint8_t data[RDMA_REQUEST_LEN];
	struct request r[RDMA_HALF_MAX];
	unsigned failed = node_b.arrivals_failed;
	struct end a, b;

	memcpy(hello.token, TOKEN, FM_TOKEN_LEN);
	fm_rdma_request_encode(data, &hello);
	for (unsigned i = 0; i < RDMA_HALF_MAX; i++) {
		request_send(&r[i], data, sizeof(data));
		CU_ASSERT_EQUAL(r[i].answer, RDMA_CM_EVENT_CONNECT_RESPONSE);
	}
	CU_ASSERT_EQUAL(node_b.arrivals_failed, failed);
	CU_ASSERT_EQUAL_FATAL(fm_rdma_domain_new(node_b.rdma, &other.rdma), 0);
	node_b.accept_domain = &other;
	connect_ends(&a, &b);
	CU_ASSERT_EQUAL(node_b.arrivals_failed, failed + 1);
	close_end(&a);
	close_end(&b);
	node_b.accept_domain = &node_b.domain;
	fm_rdma_domain_free(other.rdma);
	for (unsigned i = 0; i < RDMA_HALF_MAX; i++)
		request_end(&r[i]);
	CU_ASSERT_TRUE(UNTIL(node_b.arrivals_failed == failed + RDMA_HALF_MAX));
}

static void test_unattached(void)
{
	struct test_send s[4];
	struct end a;

	node_b.arrived = NULL;
	node_dial(&node_a, &node_b.sa, PORT_B, TOKEN, WAIT_NS);
	CU_ASSERT_TRUE_FATAL(UNTIL(node_a.is_dialled && node_b.arrived));
	end_attach(&a, &node_a, node_a.dialled);
	for (unsigned i = 0; i < 4; i++)
		send_to(&a, &s[i], i, 0, 0, 0);
	CU_ASSERT_TRUE(UNTIL(a.sends_good == 4));

	/* Messages that came before attaching wait. */
	{
		struct end b;

		end_attach(&b, &node_b, node_b.arrived);
		CU_ASSERT_TRUE(UNTIL(b.messages == 4));
		close_end(&b);
	}
	close_end(&a);

	/* Closing without ever attaching; the other end is told. */
	node_b.arrived = NULL;
	node_dial(&node_a, &node_b.sa, PORT_B, TOKEN, WAIT_NS);
	CU_ASSERT_TRUE_FATAL(UNTIL(node_a.is_dialled && node_b.arrived));
	end_attach(&a, &node_a, node_a.dialled);
	node_b.arrived->ops->close(node_b.arrived);
	CU_ASSERT_TRUE(UNTIL(a.failures == 1));
	close_end(&a);
}

/* ---- payload ---- */

static void test_payload(void)
{
	static const uint32_t sizes[] = { 1, 63, 64, 4095, 4096, 65537, MIB, MIB + 1, 3 * MIB + 5 };
	struct test_send s;
	struct end a, b;

	connect_ends(&a, &b);
	b.on_message = on_message_check;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t to = 1000 * i;

		memset(b.rx.memory, 0xee, b.rx.len);
		fill(a.tx.memory, sizes[i], i);
		send_to(&a, &s, i, 0, to, sizes[i]);
		CU_ASSERT_TRUE(UNTIL(a.sends_good == i + 1 && b.messages == i + 1));
		CU_ASSERT_TRUE(to == 0 || ((uint8_t *)b.rx.memory)[to - 1] == 0xee);
		CU_ASSERT_EQUAL(((uint8_t *)b.rx.memory)[to + sizes[i]], 0xee);
	}
	CU_ASSERT_EQUAL(b.order_errors, 0);
	CU_ASSERT_EQUAL(a.failures + b.failures, 0);
	close_end(&a);
	close_end(&b);
}

/*
 * Goal: what is lent as a whole is sent from by every connection of a session on the device; it
 * stays when these are gone, and their domain.
 */
static void test_lender(void)
{
	const struct fm_lender_ops *ops;
	struct fm_lender *lender, *same;
	struct test_send s, s2;
	struct fm_region lent;
	struct fm_err err = { 0 };
	uint8_t *memory = map_arena(MIB);
	struct end a, b, a2, b2;

	connect_ends(&a, &b);
	connect_ends(&a2, &b2);
	b.on_message = b2.on_message = on_message_check;
	lender = a.conn->ops->lender(a.conn);
	same = a2.conn->ops->lender(a2.conn);
	CU_ASSERT_PTR_EQUAL_FATAL(lender, same);
	ops = lender->ops;
	CU_ASSERT_STRING_EQUAL(ops->name(lender), a.conn->ops->info(a.conn)->local);
	CU_ASSERT_EQUAL_FATAL(ops->lend(lender, memory, MIB, &lent, &err), 0);
	a.conn->ops->take_back(a.conn, &a.tx);
	a2.conn->ops->take_back(a2.conn, &a2.tx);
	a.tx = a2.tx = lent;
	fill(memory, MIB, 0);
	send_to(&a, &s, 0, 0, 0, MIB);
	CU_ASSERT_TRUE(UNTIL(a.sends_good == 1 && b.messages == 1));
	send_to(&a2, &s2, 0, 0, MIB, MIB);
	CU_ASSERT_TRUE(UNTIL(a2.sends_good == 1 && b2.messages == 1));
	CU_ASSERT_EQUAL(b.order_errors + b2.order_errors, 0);
	close_end(&a);
	close_end(&b);
	close_end(&a2);
	close_end(&b2);
	ops->put(same);
	fm_rdma_domain_free(node_a.domain.rdma);
	CU_ASSERT_EQUAL_FATAL(fm_rdma_domain_new(node_a.rdma, &node_a.domain.rdma), 0);
	ops->take_back(lender, &lent);
	ops->put(lender);
	munmap(memory, MIB);
}

/* One direction of a stream of chunks with slots and acknowledgements, both in the same kind of
 * message. */
#define ACK UINT64_C(0xacac)
#define STREAM_SLOTS 32u
#define STREAM_SLOT_LEN 65536u
#define STREAM_CHUNKS 500u /* and as many acknowledgements: nearly twice round RDMA_RECVS */

struct stream {
	struct end *end;
	struct test_send send[STREAM_SLOTS], ack[FM_DATA_MSGS_MAX / 2];
	bool is_slot_free[STREAM_SLOTS];
	unsigned acks_next;
	uint64_t next, total, acked;
};

static uint32_t stream_len(uint64_t number)
{
	return (uint32_t)(1 + number * 7919 % STREAM_SLOT_LEN);
}

static void on_message_stream(struct end *e, const uint8_t *msg)
{
	struct stream *st = e->user;
	struct test_send *ack;

	if (get_u64(msg, 32) == ACK) {
		st->is_slot_free[get_u64(msg, 0)] = true;
		st->acked++;
		return;
	}
	on_message_check(e, msg);
	ack = &st->ack[st->acks_next++ % (FM_DATA_MSGS_MAX / 2)];
	memset(ack, 0, sizeof(*ack));
	ack->end = e;
	ack->send.done = send_done;
	put_u64(ack->send.msg, 0, get_u64(msg, 8) / STREAM_SLOT_LEN);
	put_u64(ack->send.msg, 32, ACK);
	e->conn->ops->send(e->conn, &ack->send);
}

static void stream_start(struct stream *st, struct end *e, uint64_t total)
{
	memset(st, 0, sizeof(*st));
	st->end = e;
	st->total = total;
	e->user = st;
	e->on_message = on_message_stream;
	for (unsigned i = 0; i < STREAM_SLOTS; i++)
		st->is_slot_free[i] = st->send[i].is_free = true;
}

static void stream_push(struct stream *st)
{
	for (unsigned i = 0; i < STREAM_SLOTS && st->next < st->total; i++) {
		size_t at = (size_t)i * STREAM_SLOT_LEN;
		uint32_t len = stream_len(st->next);

		if (!st->is_slot_free[i] || !st->send[i].is_free)
			continue;
		st->is_slot_free[i] = false;
		fill((uint8_t *)st->end->tx.memory + at, len, st->next);
		send_to(st->end, &st->send[i], st->next++, at, at, len);
	}
}

static void test_both_ways(void)
{
	static struct stream sa, sb;
	uint64_t end = now_ns() + WAIT_NS;
	struct end a, b;

	connect_ends(&a, &b);
	stream_start(&sa, &a, STREAM_CHUNKS);
	stream_start(&sb, &b, STREAM_CHUNKS);
	while ((sa.acked < sa.total || sb.acked < sb.total) && now_ns() < end &&
	       a.failures + b.failures == 0) {
		stream_push(&sa);
		stream_push(&sb);
		step();
	}
	CU_ASSERT_EQUAL(sa.acked, sa.total);
	CU_ASSERT_EQUAL(sb.acked, sb.total);
	CU_ASSERT_EQUAL(a.order_errors + b.order_errors, 0);
	CU_ASSERT_EQUAL(a.failures + b.failures, 0);
	if (a.failures + b.failures)
		printf("\n    %s | %s\n", a.err.text, b.err.text);
	close_end(&a);
	close_end(&b);
}

/*
 * Goal:   the send queue cannot overflow, and all sends end in order.
 * Method: as many sends under way as are allowed, in several work requests each: 544, where the
 * queue takes 512.
 */
static void test_many_sends(void)
{
	static struct test_send s[FM_DATA_MSGS_MAX];
	struct end a, b;

	connect_ends(&a, &b);
	fill(a.tx.memory, MIB + 64, 0);
	for (unsigned i = 0; i < FM_DATA_MSGS_MAX; i++)
		send_to(&a, &s[i], i, 0, 0, i % 8 ? 4096 : MIB + 64);
	CU_ASSERT_TRUE(UNTIL(a.sends_good == FM_DATA_MSGS_MAX && b.messages == FM_DATA_MSGS_MAX));
	/* and again, without payload, several times round the queues */
	for (unsigned i = 0; i < FM_DATA_MSGS_MAX; i++)
		send_to(&a, &s[i], i, 0, 0, 0);
	for (unsigned round = 0; round < 8; round++) {
		CU_ASSERT_TRUE_FATAL(UNTIL(a.sends_good == (round + 2) * FM_DATA_MSGS_MAX));
		CU_ASSERT_TRUE_FATAL(UNTIL(b.messages == a.sends_good));
		for (unsigned i = 0; i < FM_DATA_MSGS_MAX; i++)
			send_to(&a, &s[i], i, 0, 0, 0);
	}
	CU_ASSERT_TRUE(UNTIL(a.sends_good == 10 * FM_DATA_MSGS_MAX && b.messages == a.sends_good));
	CU_ASSERT_EQUAL(a.failures + b.failures, 0);
	close_end(&a);
	close_end(&b);
}

static void on_message_costly(struct end *e, const uint8_t *msg)
{
	(void)msg;
	e->conn->looked += 8 * MIB;
}

/*
 * Goal:   messages of which each makes the receiver look at many bytes do not keep its lane.
 * Method: all of them are there when the receiver has its turn, which ends after one batch.
 */
static void test_costly_messages(void)
{
	static struct test_send s[FM_DATA_MSGS_MAX];
	struct end a, b;

	connect_ends(&a, &b);
	b.on_message = on_message_costly;
	for (unsigned i = 0; i < FM_DATA_MSGS_MAX; i++)
		send_to(&a, &s[i], i, 0, 0, 0);
	for (uint64_t end = now_ns() + WAIT_NS; a.sends_good < FM_DATA_MSGS_MAX && now_ns() < end;)
		node_step(&node_a, FM_NS_PER_MS / 4);
	CU_ASSERT_EQUAL_FATAL(a.sends_good, FM_DATA_MSGS_MAX);
	CU_ASSERT_EQUAL(b.messages, 0);
	for (uint64_t end = now_ns() + WAIT_NS; b.messages == 0 && now_ns() < end;)
		node_step(&node_b, 0);
	CU_ASSERT_TRUE(b.messages > 0 && b.messages <= FM_DATA_MSGS_MAX / 4);
	CU_ASSERT_TRUE(UNTIL(b.messages == FM_DATA_MSGS_MAX));
	CU_ASSERT_EQUAL(a.failures + b.failures, 0);
	close_end(&a);
	close_end(&b);
}

static void test_big_sends(void)
{
	static struct test_send s[FM_DATA_MSGS_MAX];
	struct end a, b;

	connect_ends(&a, &b);
	/* 225 sends of 2 requests, 31 of 3: of 512 places two are left when the next wants three,
	 * and from there on 11 wait. */
	for (unsigned i = 0; i < FM_DATA_MSGS_MAX; i++)
		send_to(&a, &s[i], i, 0, 0, i < 225 ? 4 : MIB + 4);
	CU_ASSERT_TRUE(UNTIL(a.sends_good == FM_DATA_MSGS_MAX && b.messages == FM_DATA_MSGS_MAX));
	CU_ASSERT_EQUAL(a.failures + b.failures, 0);
	close_end(&a);
	close_end(&b);
}

static const struct fm_test own_tests[] = {
	{ "an address of an RDMA port is a rail, others are not", test_rails },
	{ "two nodes connect, know what over, and hear of the other's close", test_connect },
	{ "the smaller MTU of the two ends is used", test_mtu },
	{ "a wrong token is refused in words", test_wrong_token },
	{ "dialling where nobody is ends when its time is up", test_nobody },
	{ "garbage instead of a request is refused", test_garbage },
	{ "who has most of the places leaves some to others", test_crowd },
	{ "a connection may get messages, and be closed, before it is attached", test_unattached },
	{ "a payload is in place, and nothing beside it, when its message comes", test_payload },
	{ "memory lent as a whole serves a session's connections, and outlives them", test_lender },
	{ "both ends send at once with many in flight", test_both_ways },
	{ "as many sends as allowed all end", test_many_sends },
	{ "messages that cost their receiver much do not keep its lane", test_costly_messages },
	{ "more work requests than the queue takes wait their turn", test_big_sends },
};
#define OWN_COUNT (sizeof(own_tests) / sizeof(own_tests[0]))

static int check_main(void)
{
	struct fm_test tests[TESTS_MAX];
	int ret;

	assert(OWN_COUNT + rdma_failure_count <= TESTS_MAX);
	fm_log_set_level(FM_LOG_WARN);
	arena_a = map_arena(ARENA);
	arena_b = map_arena(ARENA);
	node_open(&node_a, getenv("RDMA_A"), PORT_A);
	node_open(&node_b, getenv("RDMA_B"), PORT_B);
	memcpy(tests, own_tests, sizeof(own_tests));
	memcpy(tests + OWN_COUNT, rdma_failure_tests, rdma_failure_count * sizeof(tests[0]));
	ret = fm_test_main("rdma_transport", tests, OWN_COUNT + rdma_failure_count);
	if (ret == 0) {		/* else connections may be left */
		node_close(&node_a);
		node_close(&node_b);
	}
	return ret;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "check") == 0)
		return check_main();
	if ((argc == 4 || argc == 5) && strcmp(argv[1], "serve") == 0)
		return serve_main(argv[2], argv[3], argc == 5);
	if (argc == 6 && strcmp(argv[1], "send") == 0)
		return send_main(argv[2], argv[3], argv[4], argv[5]);
	fprintf(stderr,
		"usage: rdma_transport check | serve ADDR PORT | send LOCAL ADDR PORT CHUNKS\n");
	return 2;
}
