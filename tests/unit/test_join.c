/* SPDX-License-Identifier: MIT */
/*
 * join: the messages, byte for byte; both sides of the protocol over a real connection on this
 * machine; what is admitted.
 *
 * links: fm_cli fm_join fm_transport fm_config
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

/* The daemon is no library. */
#include "mover/daemon/admit.c"
/* Whose connection it is, and when joins end, nobody else sees. */
#include "mover/join/join.c"

#include "client/cli/joining.h"
#include "config/keys.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/node/engine.h"
#include "mover/join/find_msg.h"
#include "mover/join/join.h"
#include "mover/transport/net.h"
#include "tests/fm_test.h"
#include "tests/unit/port.h"

/* ---- messages ---- */

static const uint8_t golden_request[] = {
	'F',  'M',  'J',  'N', 2,    0,	   0, 0, 0,   1,   2, 3, 4,   5,   6,	7,   8, 9, 10, 11,
	12,   13,   14,	  15,  0x2f, 0x1d, 2, 0, 'n', '2', 4, 0, 'h', ':', '7', '1', 2, 0, 4,  0,
	0x2f, 0x1d, 10,	  2,   0,    7,	   0, 0, 0,   0,   0, 0, 0,   0,   0,	0,   0, 0, 6,  0,
	1,    0,    0xfd, 0,   0,    0,	   0, 0, 0,   0,   0, 0, 0,   0,   0,	0,   0, 9,
};

static const uint8_t golden_answer[] = {
	'F', 'M', 'J', 'D', 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 'n', '1', 3, 0, 'h', ':', '1', 0, 0, 0, 0,
};

static const struct fm_join_addrs further = {2,
					     {{4, 7471, {10, 2, 0, 7}}, {6, 1, {0xfd, [15] = 9}}}};

static void test_golden_bytes(void)
{
	struct fm_join_request request = {.port = 7471,
					  .name = "n2",
					  .address = "h:71",
					  .further = further},
			       request_back;
	struct fm_join_answer answer = { .name = "n1", .address = "h:1" }, answer_back;
	uint8_t buf[FM_JOIN_MSG_MAX];
	size_t len;

	for (uint8_t i = 0; i < FM_JOIN_SECRET_LEN; i++)
		request.secret[i] = i;
	len = fm_join_request_encode(&request, buf);
	CU_ASSERT_EQUAL_FATAL(len, sizeof(golden_request));
	CU_ASSERT_EQUAL(memcmp(buf, golden_request, len), 0);
	CU_ASSERT_EQUAL(fm_join_request_decode(buf, len, &request_back), 0);
	CU_ASSERT_STRING_EQUAL(request_back.name, "n2");
	CU_ASSERT_STRING_EQUAL(request_back.address, "h:71");
	CU_ASSERT_EQUAL(request_back.port, 7471);
	CU_ASSERT_EQUAL(request_back.further.count, 2);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(request_back.further.addr[i].family, further.addr[i].family);
		CU_ASSERT_EQUAL(request_back.further.addr[i].port, further.addr[i].port);
		CU_ASSERT_EQUAL(memcmp(request_back.further.addr[i].ip, further.addr[i].ip, 16), 0);
	}
	len = fm_join_answer_encode(&answer, buf);
	CU_ASSERT_EQUAL_FATAL(len, sizeof(golden_answer));
	CU_ASSERT_EQUAL(memcmp(buf, golden_answer, len), 0);
	CU_ASSERT_EQUAL(fm_join_answer_decode(buf, len, &answer_back), 0);
	CU_ASSERT_STRING_EQUAL(answer_back.name, "n1");
}

/* Goal: no byte of a message is trusted. Method: every length, and every byte changed in every
 * bit. */
static void test_malformed(void)
{
	uint8_t buf[sizeof(golden_request) + 1];
	struct fm_join_request request;
	struct fm_join_answer answer;

	for (size_t len = 0; len < sizeof(golden_request); len++)
		CU_ASSERT_TRUE(fm_join_request_decode(golden_request, len, &request) < 0);
	for (size_t len = 0; len < sizeof(golden_answer); len++)
		CU_ASSERT_TRUE(fm_join_answer_decode(golden_answer, len, &answer) < 0);
	memcpy(buf, golden_request, sizeof(golden_request));
	buf[sizeof(golden_request)] = 0;
	/* something behind it */
	CU_ASSERT_EQUAL(fm_join_request_decode(buf, sizeof(buf), &request), -EBADMSG);
	for (size_t bit = 0; bit < sizeof(golden_request) * 8; bit++) {
		memcpy(buf, golden_request, sizeof(golden_request));
		buf[bit / 8] = (uint8_t)(buf[bit / 8] ^ 1u << bit % 8);
		if (fm_join_request_decode(buf, sizeof(golden_request), &request) == 0)
			CU_ASSERT_TRUE(strlen(request.name) == 2 && strlen(request.address) == 4);
	}
	memcpy(buf, golden_request, sizeof(golden_request));
	buf[28] = 0;	/* NUL in the name */
	CU_ASSERT_EQUAL(fm_join_request_decode(buf, sizeof(golden_request), &request), -ERANGE);
	memcpy(buf, golden_answer, sizeof(golden_answer));
	buf[8] = 1;	/* a code, and yet a name */
	CU_ASSERT_EQUAL(fm_join_answer_decode(buf, sizeof(golden_answer), &answer), -ERANGE);
}

/* Byte i of the request is another one. */
static int decode_with(size_t i, uint8_t byte)
{
	uint8_t buf[sizeof(golden_request)];
	struct fm_join_request request;

	memcpy(buf, golden_request, sizeof(golden_request));
	buf[i] = byte;
	return fm_join_request_decode(buf, sizeof(buf), &request);
}

static void test_malformed_addresses(void)
{
	enum { COUNT = 36, FIRST = 38 };

	CU_ASSERT_EQUAL(golden_request[COUNT], 2);
	CU_ASSERT_EQUAL(decode_with(COUNT, FM_JOIN_ADDRS_MAX + 1), -ERANGE);
	CU_ASSERT_EQUAL(decode_with(COUNT, 3), -EBADMSG);
	CU_ASSERT_EQUAL(decode_with(COUNT, 1), -EBADMSG);
	CU_ASSERT_EQUAL(decode_with(FIRST, 5), -ERANGE);	/* no family */
	CU_ASSERT_EQUAL(decode_with(FIRST + 1, 1), -ERANGE);
	/* an IPv4 address of five bytes */
	CU_ASSERT_EQUAL(decode_with(FIRST + 4 + 4, 1), -ERANGE);
	CU_ASSERT_EQUAL(decode_with(FIRST + 20 + 2, 0), -ERANGE);	/* port 0 */
}

static struct fm_addr own_addr(const char *text)
{
	struct fm_addr a = { .prefix_len = 24 };
	struct sockaddr_in *in = (struct sockaddr_in *)&a.sa;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a.sa;

	if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
		in->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
		in6->sin6_family = AF_INET6;
	return a;
}

/* As lines. */
static const char *text_of(const struct fm_join_addrs *addrs)
{
	static char text[FM_JOIN_ADDRS_MAX * FM_JOIN_ADDR_TEXT_MAX];
	char one[FM_JOIN_ADDR_TEXT_MAX];

	text[0] = '\0';
	for (unsigned i = 0; i < addrs->count; i++) {
		fm_join_addr_print(&addrs->addr[i], one);
		strcat(strcat(text, one), "\n");
	}
	return text;
}

/* Goal: what a node that looks for others asks and is answered has these bytes, and no others are
 * taken for it. */
static void test_finding_bytes(void)
{
	static const uint8_t nonce[FM_FIND_NONCE_LEN] = {'1', '2', '3', '4', '5', '6', '7', '8'};
	static const uint8_t golden_found[] = {
		'F', 'M', 'F', 'A', 1,	 0,   0,    0,	  '1', '2', '3',
		'4', '5', '6', '7', '8', 47, 29, 2, 0, 'n', '1',
	};
	static const uint8_t golden_find[FM_FIND_LEN] = "FMFQ\1\0\0\00012345678";
	struct fm_find_found found = {.port = 7471, .name = "n1"}, back;
	uint8_t buf[FM_FIND_LEN], got[FM_FIND_NONCE_LEN];
	size_t len;

	fm_find_encode(nonce, buf);
	CU_ASSERT_EQUAL(memcmp(buf, golden_find, sizeof(buf)), 0);
	CU_ASSERT_EQUAL(fm_find_decode(buf, sizeof(buf), got), 0);
	CU_ASSERT_EQUAL(memcmp(got, nonce, sizeof(got)), 0);
	CU_ASSERT_EQUAL(fm_find_decode(buf, sizeof(buf) - 1, got), -EBADMSG);
	buf[sizeof(buf) - 1] = 1;
	CU_ASSERT_EQUAL(fm_find_decode(buf, sizeof(buf), got), -EPROTO);
	memcpy(found.nonce, nonce, sizeof(nonce));
	len = fm_find_found_encode(&found, buf);
	CU_ASSERT_EQUAL_FATAL(len, sizeof(golden_found));
	CU_ASSERT_EQUAL(memcmp(buf, golden_found, len), 0);
	CU_ASSERT_EQUAL(fm_find_found_decode(buf, len, &back), 0);
	CU_ASSERT_EQUAL(back.port, 7471);
	CU_ASSERT_STRING_EQUAL(back.name, "n1");
	CU_ASSERT_EQUAL(fm_find_found_decode(buf, len - 1, &back), -EBADMSG);
	buf[len - 1] = '\0';
	CU_ASSERT_EQUAL(fm_find_found_decode(buf, len, &back), -ERANGE);
}

/* Goal: nodes are found on links of the ports that node.find names, once on each. */
static void test_finding_links(void)
{
	struct fm_addr own[FM_ADDRS_MAX];
	struct sockaddr_in6 links[FM_FIND_LINKS_MAX];

	for (unsigned i = 0; i < FM_ADDRS_MAX; i++) {
		own[i] = own_addr("fe80::1");
		((struct sockaddr_in6 *)(void *)&own[i].sa)->sin6_scope_id = i + 1;
	}
	CU_ASSERT_EQUAL(fm_find_links(own, FM_ADDRS_MAX, FM_FIND_ANY, links), FM_FIND_LINKS_MAX);
	own[1] = own_addr("fd00::1");
	own[2] = own_addr("169.254.3.4");
	own[3] = own[0];
	own[4].is_rdma = true;
	CU_ASSERT_EQUAL(fm_find_links(own, 5, FM_FIND_ANY, links), 2);
	CU_ASSERT_EQUAL(links[0].sin6_scope_id, 1);
	CU_ASSERT_EQUAL(links[1].sin6_scope_id, 5);
	CU_ASSERT_EQUAL(fm_find_links(own, 5, FM_FIND_RDMA, links), 1);
	CU_ASSERT_EQUAL(links[0].sin6_scope_id, 5);
	CU_ASSERT_EQUAL(fm_find_links(own, 5, FM_FIND_OFF, links), 0);
}

static void test_own_addresses(void)
{
	struct fm_addr own[FM_ADDRS_MAX];
	struct fm_join_addrs said;

	own[0] = own_addr("10.1.0.1");
	own[1] = own_addr("169.254.3.4");
	own[2] = own_addr("fe80::1");
	own[3] = own_addr("fd00::1");
	own[4] = own_addr("10.1.0.1");		/* at another interface, too */
	fm_join_addrs_own(own, 5, 7471, &said);
	CU_ASSERT_STRING_EQUAL(text_of(&said), "10.1.0.1:7471\n[fd00::1]:7471\n");
	fm_join_addrs_own(own, 5, 0, &said);
	CU_ASSERT_EQUAL(said.count, 0);
	for (unsigned i = 0; i < FM_ADDRS_MAX; i++) {
		char text[16];

		snprintf(text, sizeof(text), "10.2.0.%u", i);
		own[i] = own_addr(text);
	}
	fm_join_addrs_own(own, FM_ADDRS_MAX, 7471, &said);
	CU_ASSERT_EQUAL(said.count,
			FM_ADDRS_MAX < FM_JOIN_ADDRS_MAX ? FM_ADDRS_MAX : FM_JOIN_ADDRS_MAX);
}

/* Goal: what a node says of its addresses gets into a configuration only if somebody else can have
 * that address. */
static void test_hostile_addresses(void)
{
	struct fm_addr own[] = { own_addr("172.17.0.1"), own_addr("fd00::7") };
	struct fm_join_addrs told = {11,
				     {
					     {4, 7471, {10, 2, 0, 7}},
					     {4, 7471, {10, 2, 0, 7}},
					     {4, 22, {127, 0, 0, 1}},
					     {4, 1, {0}},
					     {4, 1, {224, 0, 0, 1}},
					     {4, 1, {169, 254, 1, 1}},
					     {4, 7471, {172, 17, 0, 1}},
					     {6, 1, {0xfe, 0x80, [15] = 1}},
					     {6, 1, {[15] = 1}},
					     {6, 1, {0xfd, [15] = 7}},
					     {6, 2, {0xfd, [15] = 8}},
				     }};

	fm_join_addrs_keep(&told, own, 2);
	CU_ASSERT_STRING_EQUAL(text_of(&told), "10.2.0.7:7471\n[fd00::8]:2\n");
}

/* ---- both sides ---- */

static struct scene {
	struct fm_loop *loop;
	struct fm_worker *worker;
	struct fm_net *net;
	struct fm_join *join;
	uint8_t key[FM_KEY_LEN];
	/* what admit shall do, and what it saw */
	int admit_ret;
	sem_t *admit_waits;
	atomic_uint admitted, retracted;
	struct fm_join_candidate who;
	/* the engine */
	int engine_ret;
	unsigned peers;
	char host[64], more[64];
	uint16_t port, more_port;
	/* the new node's thread */
	pthread_t thread;
	struct fm_joining joining;
	struct fm_join_answer answer;
	struct fm_err err;
	int ret;
	enum fm_joining_end end;
} scene;

static char dir[] = "/tmp/fmove-test-join.XXXXXX";

/* In place of the engine's own. */
int fm_engine_set_peer(struct fm_engine *engine, const struct fm_peer_opts *peer,
		       struct fm_err *err)
{
	(void)engine;
	if (scene.engine_ret < 0)
		return fm_err_set(err, scene.engine_ret, "the engine says no");
	scene.peers++;
	snprintf(scene.host, sizeof(scene.host), "%s", peer->host ? peer->host : "");
	snprintf(scene.more, sizeof(scene.more), "%.63s",
		 peer->more_count == 1 ? peer->more[0].host : "");
	scene.more_port = peer->more_count == 1 ? peer->more[0].port : 0;
	scene.port = peer->port;
	return 0;
}

static int admit(void *ctx, const struct fm_join_candidate *who, struct fm_err *err)
{
	(void)ctx;
	scene.who = *who;
	if (scene.admit_waits) {
		fm_loop_stop(scene.loop);
		while (sem_wait(scene.admit_waits) < 0)
			;	/* interrupted */
	}
	atomic_fetch_add(&scene.admitted, 1);
	return scene.admit_ret < 0 ? fm_err_set(err, scene.admit_ret, "admit says no")
				   : scene.admit_ret;
}

static void retract(void *ctx, const struct fm_join_candidate *who)
{
	(void)ctx;
	(void)who;
	atomic_fetch_add(&scene.retracted, 1);
}

static bool known(void *ctx, const uint8_t key[FM_KEY_LEN])
{
	(void)ctx;
	(void)key;
	return false;
}

static const struct fm_net_events net_events = { .is_known = known };

static const char *key_file(const char *name)
{
	static char path[2][128];
	static unsigned n;

	n = !n;
	snprintf(path[n], sizeof(path[n]), "%s/%s.key", dir, name);
	return path[n];
}

static void scene_begin(void)
{
	struct fm_loop_opts loop_opts = { 0 };
	struct fm_net_opts net_opts = {
		.listen = "127.0.0.1:0", .key_file = key_file("server"), .is_tcp_allowed = true};
	struct fm_join_opts join_opts = {
		.node = "srv", .address = "", .admit = admit, .retract = retract};
	struct fm_err err = { 0 };

	memset(&scene, 0, sizeof(scene));
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&loop_opts, &scene.loop, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(1, &scene.worker, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_net_new(scene.loop, &net_opts, &scene.net, &err), 0);
	CU_ASSERT_EQUAL_FATAL(scene.net->ops->start(scene.net, &net_events, NULL, &err), 0);
	join_opts.loop = scene.loop;
	join_opts.worker = scene.worker;
	join_opts.net = scene.net;
	CU_ASSERT_EQUAL_FATAL(fm_join_new(&join_opts, &scene.join, &err), 0);
	fm_join_open(scene.join, fm_loop_now(scene.loop) + 3600 * FM_NS_PER_S);
	fm_net_key(scene.net, scene.key);
}

static void drain(void)
{
	for (int i = 0; i < 1000 && fm_loop_step(scene.loop, 0); i++)
		;
}

static void scene_end(void)
{
	fm_join_stop(scene.join);
	scene.net->ops->stop(scene.net);
	fm_worker_free(scene.worker);
	drain();
	fm_join_free(scene.join);
	fm_net_free(scene.net);
	fm_loop_free(scene.loop);
}

static void *joiner_main(void *arg)
{
	(void)arg;
	scene.ret = fm_joining_run(&scene.joining, &scene.answer, &scene.end, &scene.err);
	fm_loop_stop(scene.loop);
	return NULL;
}

static void joiner_start(void)
{
	scene.joining = (struct fm_joining){.host = "127.0.0.1",
					    .port = fm_net_port(scene.net),
					    .key_file = key_file("joiner")};
	memcpy(scene.joining.key, scene.key, FM_KEY_LEN);
	memset(scene.joining.request.secret, 0x5a, FM_JOIN_SECRET_LEN);
	strcpy(scene.joining.request.name, "new");
	scene.joining.request.port = 7999;
	scene.err.text[0] = '\0';
}

static void joiner_run(void)
{
	CU_ASSERT_EQUAL_FATAL(pthread_create(&scene.thread, NULL, joiner_main, NULL), 0);
	fm_loop_run(scene.loop);
	pthread_join(scene.thread, NULL);
}

static void test_joins(void)
{
	uint8_t key[FM_KEY_LEN];
	struct fm_err err;

	scene_begin();
	joiner_start();
	joiner_run();
	CU_ASSERT_EQUAL(scene.ret, 0);
	CU_ASSERT_STRING_EQUAL(scene.answer.name, "srv");
	CU_ASSERT_STRING_EQUAL(scene.answer.address, "");
	CU_ASSERT_EQUAL(scene.end, FM_JOINING_SETTLED);
	CU_ASSERT_EQUAL(atomic_load(&scene.admitted), 1);
	CU_ASSERT_STRING_EQUAL(scene.who.request.name, "new");
	/* it said the port only */
	CU_ASSERT_STRING_EQUAL(scene.who.request.address, "127.0.0.1:7999");
	CU_ASSERT_EQUAL(fm_key_read(key_file("joiner"), key, &err), 0);
	CU_ASSERT_EQUAL(memcmp(scene.who.key, key, FM_KEY_LEN), 0);
	CU_ASSERT_EQUAL(scene.peers, 1);
	CU_ASSERT_STRING_EQUAL(scene.host, "127.0.0.1");
	CU_ASSERT_EQUAL(scene.port, 7999);
	joiner_start();
	strcpy(scene.joining.request.address, "[fe80::1%eth0]:7000");
	scene.joining.request.further = (struct fm_join_addrs){1, {{4, 7001, {192, 0, 2, 9}}}};
	fm_join_set_address(scene.join, "srv.lan:7471");
	joiner_run();
	CU_ASSERT_EQUAL(scene.ret, 0);
	CU_ASSERT_STRING_EQUAL(scene.answer.address, "srv.lan:7471");
	CU_ASSERT_STRING_EQUAL(scene.host, "fe80::1%eth0");
	CU_ASSERT_EQUAL(scene.port, 7000);
	CU_ASSERT_STRING_EQUAL(scene.more, "192.0.2.9");
	CU_ASSERT_EQUAL(scene.more_port, 7001);
	scene_end();
}

/* Goal: a token is not guessed; so whoever tries costs nobody else his turn. */
static void test_guesser_keeps_nobody_out(void)
{
	scene_begin();
	scene.admit_ret = -ENOENT;
	for (int i = 0; i < 20; i++) {
		joiner_start();
		joiner_run();
		CU_ASSERT_EQUAL(scene.ret, -EACCES);
		CU_ASSERT_STRING_EQUAL(scene.err.text, "admit says no");
	}
	scene.admit_ret = 0;
	joiner_start();
	joiner_run();
	CU_ASSERT_EQUAL(scene.ret, 0);
	scene_end();
}

static unsigned opened_count, closed_count;

static void idle_opened(void *ctx)
{
	(void)ctx;
	opened_count++;
}

static void idle_message(void *ctx, const uint8_t *msg, size_t len)
{
	(void)ctx;
	(void)msg;
	(void)len;
}

static void idle_closed(void *ctx, const struct fm_err *err)
{
	(void)ctx;
	(void)err;
	closed_count++;
}

/* Goal: all places are held by somebody who says nothing; the next one gets the place of the first
 * of them. */
static void test_who_holds_places_makes_room(void)
{
	static const struct fm_ctl_events idle = {
		.opened = idle_opened, .message = idle_message, .closed = idle_closed};
	struct fm_net_opts opts = {
		.listen = "127.0.0.1:0", .key_file = key_file("joiner"), .is_tcp_allowed = true};
	struct fm_ctl *ctls[FM_JOIN_CONNS_MAX];
	struct fm_ctl_dial dial = {
		.host = "127.0.0.1", .events = &idle, .timeout_ns = 60 * FM_NS_PER_S};
	struct fm_net *other;
	struct fm_err err;

	scene_begin();
	opened_count = closed_count = 0;
	CU_ASSERT_EQUAL_FATAL(fm_net_new(scene.loop, &opts, &other, &err), 0);
	dial.port = fm_net_port(scene.net);
	memcpy(dial.key, scene.key, FM_KEY_LEN);
	for (unsigned i = 0; i < FM_JOIN_CONNS_MAX; i++)
		ctls[i] = fm_net_join_dial(other, &dial);
	while (opened_count < FM_JOIN_CONNS_MAX && closed_count == 0)
		fm_loop_step(scene.loop, FM_NEVER);
	CU_ASSERT_EQUAL(opened_count, FM_JOIN_CONNS_MAX);
	joiner_start();
	joiner_run();
	CU_ASSERT_EQUAL(scene.ret, 0);
	while (closed_count == 0)
		fm_loop_step(scene.loop, FM_NEVER);
	CU_ASSERT_EQUAL(closed_count, 1);
	for (unsigned i = 0; i < FM_JOIN_CONNS_MAX; i++)
		other->ops->ctl_close(ctls[i]);
	drain();
	fm_net_free(other);
	scene_end();
}

/* Goal: where nobody is invited, a stranger gets no further than the handshake. */
static void test_nobody_is_invited(void)
{
	scene_begin();
	fm_join_open(scene.join, 0);
	joiner_start();
	joiner_run();
	CU_ASSERT_EQUAL(scene.ret, -EACCES);
	CU_ASSERT_PTR_NOT_NULL(strstr(scene.err.text, "no invitation is open"));
	CU_ASSERT_EQUAL(scene.end, FM_JOINING_SETTLED);
	/* it is over soon */
	fm_join_open(scene.join, fm_loop_now(scene.loop) + FM_NS_PER_S / 100);
	while (scene.join->shut.at_ns > fm_loop_now(scene.loop))
		fm_loop_step(scene.loop, scene.join->shut.at_ns);
	joiner_start();
	joiner_run();
	CU_ASSERT_EQUAL(scene.ret, -EACCES);
	CU_ASSERT_EQUAL(atomic_load(&scene.admitted), 0);
	scene_end();
}

static void test_sources(void)
{
	static const char *const pairs[][2] = {
		{ "10.0.0.7:7471", "10.0.0.7" },
		{ "[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2::" },
		{ "[2001:db8:1:2:ffff::1]:2", "2001:db8:1:2::" },
		{ "[fe80::1%eth0]:7000", "fe80::" },
	};
	char text[FM_JOIN_ADDRESS_MAX + 1];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		source_of(pairs[i][0], text);
		CU_ASSERT_STRING_EQUAL(text, pairs[i][1]);
	}
}

static void come_from(struct fm_join *join, struct conn *c, const char *from)
{
	*c = (struct conn){ .join = join };
	(void)snprintf(c->from, sizeof(c->from), "%s", from);
	source_of(c->from, c->source);
	CU_ASSERT_EQUAL_FATAL(fm_share_take(&join->places, source(c), 1, &c->place, NULL), 0);
	fm_list_append(&join->conns, &c->link);
}

/* Goal: of the network that has most the address that has most makes room, not who came first. */
static void test_who_floods_goes(void)
{
	static const char *const from[] = {
		"10.0.0.7:1",	     "10.0.0.7:2",	  "[2001:db8::1]:1",  "[2001:db8::2]:1",
		"[2001:db8::bad]:1", "[2001:db8::bad]:2", "[2001:db8::b]:1",
	};
	struct conn c[sizeof(from) / sizeof(from[0])];
	struct fm_join join = { .admitted = 0 };

	fm_list_init(&join.conns);
	fm_share_init(&join.places,
		      &(struct fm_share_limits){ "places", FM_JOIN_CONNS_MAX, 0, 0, 0 });
	for (unsigned i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		come_from(&join, &c[i], from[i]);
	CU_ASSERT_PTR_EQUAL(crowding(&join), &c[4]);
	c[4].state = CONN_ADMIT;
	CU_ASSERT_PTR_EQUAL(crowding(&join), &c[5]);
	for (unsigned i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		fm_share_give_all(&c[i].place);
}

static void test_other_refusals_do_not_count(void)
{
	scene_begin();
	scene.admit_ret = -EEXIST;
	for (int i = 0; i < 3; i++) {
		joiner_start();
		joiner_run();
		CU_ASSERT_EQUAL(scene.ret, -EEXIST);
	}
	CU_ASSERT_EQUAL(atomic_load(&scene.admitted), 3);
	CU_ASSERT_EQUAL(scene.peers, 0);
	scene_end();
}

static void test_engine_refuses(void)
{
	scene_begin();
	scene.engine_ret = -ENOSPC;
	joiner_start();
	joiner_run();
	CU_ASSERT_EQUAL(scene.ret, -ENOSPC);
	CU_ASSERT_STRING_EQUAL(scene.err.text, "the engine says no");
	scene_end();
	CU_ASSERT_EQUAL(atomic_load(&scene.retracted), 1);
}

/* One that was a peer before keeps its entry, which a person may have written. */
static void test_engine_refuses_a_known_one(void)
{
	scene_begin();
	scene.engine_ret = -ENOMEM;
	scene.admit_ret = 1;
	joiner_start();
	joiner_run();
	CU_ASSERT_EQUAL(scene.ret, -ENOMEM);
	scene_end();
	CU_ASSERT_EQUAL(atomic_load(&scene.retracted), 0);
}

/* Somebody else answers at that address: nothing is told to it. */
static void test_wrong_server(void)
{
	scene_begin();
	joiner_start();
	scene.joining.key[0] ^= 1;
	joiner_run();
	CU_ASSERT_TRUE(scene.ret < 0);
	CU_ASSERT_TRUE(scene.err.text[0]);
	CU_ASSERT_EQUAL(scene.end, FM_JOINING_NOT_THERE);
	CU_ASSERT_EQUAL(atomic_load(&scene.admitted), 0);
	scene_end();
}

/* A socket that does not listen keeps the port from whatever else runs here. */
static void test_nobody_there(void)
{
	uint16_t port;
	int fd = raw_bind(&port);

	scene_begin();
	joiner_start();
	scene_end();
	scene.joining.port = port;
	scene.ret = fm_joining_run(&scene.joining, &scene.answer, &scene.end, &scene.err);
	CU_ASSERT_EQUAL(scene.ret, -ECONNREFUSED);
	CU_ASSERT_EQUAL(scene.end, FM_JOINING_NOT_THERE);
	(void)close(fd);
}

/* Without memory to dial, a signal is not looked for any more either. */
static void test_no_memory(void)
{
	int cancel[2];

	CU_ASSERT_EQUAL_FATAL(pipe(cancel), 0);
	scene_begin();
	joiner_start();
	scene.joining.cancel_fd = cancel[0];
	scene_end();
	fm_fault_arm("joining.dial", 1);
	scene.ret = fm_joining_run(&scene.joining, &scene.answer, &scene.end, &scene.err);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(scene.ret, -ENOMEM);
	CU_ASSERT_EQUAL(scene.end, FM_JOINING_NOT_THERE);
	(void)close(cancel[0]);
	(void)close(cancel[1]);
}

/* The daemon stops while a worker decides: the new node learns that nobody knows, and nothing is
 * left over. */
static void test_stop_meanwhile(void)
{
	sem_t waits;

	sem_init(&waits, 0, 0);
	scene_begin();
	scene.admit_waits = &waits;
	joiner_start();
	CU_ASSERT_EQUAL_FATAL(pthread_create(&scene.thread, NULL, joiner_main, NULL), 0);
	fm_loop_run(scene.loop);
	fm_join_stop(scene.join);
	sem_post(&waits);
	drain();
	pthread_join(scene.thread, NULL);
	CU_ASSERT_TRUE(scene.ret < 0);
	CU_ASSERT_EQUAL(scene.end, FM_JOINING_UNKNOWN);
	scene_end();
	CU_ASSERT_EQUAL(scene.peers, 0);
	sem_destroy(&waits);
}

/* ---- what is admitted ---- */

static char conf[64];

static int try_admit(const struct fm_invite *invite, const char *name, uint8_t key,
		     const char *address, struct fm_err *err)
{
	struct fm_join_candidate who = { .key = { key }, .request = { .further = further } };

	memcpy(who.request.secret, invite->secret, FM_JOIN_SECRET_LEN);
	snprintf(who.request.name, sizeof(who.request.name), "%s", name);
	snprintf(who.request.address, sizeof(who.request.address), "%s", address);
	return fm_admit(conf, &who, err);
}

static unsigned peer_count(void)
{
	struct fm_config *cfg;
	struct fm_err err = { 0 };
	unsigned count;

	if (fm_config_load(conf, &cfg, &err) < 0)
		return UINT32_MAX;
	count = cfg->peer_count;
	fm_config_free(cfg);
	return count;
}

/* Of the one peer there is. */
static unsigned further_addresses(void)
{
	struct fm_err err = { 0 };
	struct fm_config *cfg;
	unsigned count = 0;

	CU_ASSERT_EQUAL_FATAL(fm_config_load(conf, &cfg, &err), 0);
	while (cfg->peers[0].addresses[count])
		count++;
	fm_config_free(cfg);
	return count;
}

static bool first_may_bench(void)
{
	struct fm_err err = { 0 };
	struct fm_config *cfg;
	bool may;

	CU_ASSERT_EQUAL_FATAL(fm_config_load(conf, &cfg, &err), 0);
	may = cfg->peers[0].may_bench;
	fm_config_free(cfg);
	return may;
}

static void add_to_entry(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/peers.d/%s.conf", dir, name);
	f = fopen(path, "ae");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(fputs(text, f) >= 0);
	CU_ASSERT_EQUAL(fclose(f), 0);
}

static void test_admit(void)
{
	struct fm_file_write how = { .path = conf, .mode = 0600 };
	struct fm_invite invite = { .key = { 1 } }, wrong = { .key = { 1 } };
	struct fm_err err = { 0 };

	snprintf(conf, sizeof(conf), "%s/fmove.conf", dir);
	CU_ASSERT_EQUAL_FATAL(fm_file_write(&how, "node = { name = \"srv\"; };\n", &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &invite, &err), 0);
	/* names are not told to guessers */
	CU_ASSERT_EQUAL(try_admit(&wrong, "srv", 9, "", &err), -ENOENT);
	CU_ASSERT_EQUAL(try_admit(&invite, "srv", 9, "", &err), -EEXIST);
	CU_ASSERT_EQUAL(try_admit(&invite, "a/b", 9, "", &err), -EINVAL);
	CU_ASSERT_EQUAL(try_admit(&invite, "new", 9, "h:1\"; key = \"", &err), -EINVAL);
	CU_ASSERT_EQUAL(peer_count(), 0);
	/* none of that used the token up */
	CU_ASSERT_EQUAL(try_admit(&invite, "new", 9, "h:1", &err), 0);
	CU_ASSERT_EQUAL(peer_count(), 1);
	CU_ASSERT_EQUAL(further_addresses(), 2);
	CU_ASSERT_EQUAL(try_admit(&invite, "new", 9, "h:1", &err), -ENOENT);

	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &invite, &err), 0);
	CU_ASSERT_EQUAL(try_admit(&invite, "new", 8, "h:2", &err), -EEXIST);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "taken by another node"));
	CU_ASSERT_EQUAL(try_admit(&invite, "other", 9, "h:2", &err), -EEXIST);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "known already, under the name \"new\""));
	/* the same node, elsewhere now */
	add_to_entry("new", "bench = true;\n");
	CU_ASSERT_EQUAL(try_admit(&invite, "new", 9, "10.2.0.7:7471", &err), 1);
	CU_ASSERT_EQUAL(peer_count(), 1);
	CU_ASSERT_TRUE(first_may_bench());	/* as somebody said: joining does not say it */
	/* its address once is enough, and twice is refused */
	CU_ASSERT_EQUAL(further_addresses(), 1);
}

/* A name, a key or an address that is good in itself may still be a mistake beside the others: then
 * no daemon would start again. */
static void test_admit_keeps_config_whole(void)
{
	static const char peer[] = "node = { name = \"srv\"; };\n"
				   "peers = ( { name = \"hand\"; key = \"%s\"; } );\n";
	struct fm_file_write how = { .path = conf, .mode = 0600, .may_replace = true };
	const uint8_t by_hand[FM_KEY_LEN] = { 5 };
	char key[FM_VALUE_KEY_TEXT_MAX], text[256];
	struct fm_invite invite = { .key = { 1 } };
	unsigned before = peer_count();
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &invite, &err), 0);
	CU_ASSERT_EQUAL(try_admit(&invite, "hf", 6, "h:1", &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"hf\" is not allowed"));
	CU_ASSERT_EQUAL(peer_count(), before);

	/* written by a person: an entry in peers.d would be a second one */
	fm_value_key_print(by_hand, key);
	(void)snprintf(text, sizeof(text), peer, key);
	CU_ASSERT_EQUAL_FATAL(fm_file_write(&how, text, &err), 0);
	CU_ASSERT_EQUAL(peer_count(), before + 1);
	CU_ASSERT_EQUAL(try_admit(&invite, "hand", 5, "h:1", &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "fmove.conf:2; remove one"));
	CU_ASSERT_EQUAL(peer_count(), before + 1);
	CU_ASSERT_EQUAL(fm_invite_use(dir, invite.secret, &err), 0);
}

static void test_admit_broken_config(void)
{
	struct fm_file_write how = { .path = conf, .mode = 0600, .may_replace = true };
	struct fm_invite invite = { .key = { 1 } };
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &invite, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_file_write(&how, "node = { name = 7; };\n", &err), 0);
	CU_ASSERT_EQUAL(try_admit(&invite, "third", 7, "h:1", &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "configuration has a mistake"));
	CU_ASSERT_EQUAL(fm_invite_check(dir, invite.secret, &err), 0);
}

static void test_begin(void)
{
	uint8_t key[FM_KEY_LEN];
	struct fm_err err;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	CU_ASSERT_EQUAL_FATAL(fm_key_generate(key_file("server"), key, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_key_generate(key_file("joiner"), key, &err), 0);
	fm_log_set_level(FM_LOG_ERROR);
}

static void test_end(void)
{
	char command[80];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	CU_ASSERT_EQUAL(system(command), 0);
}

static const struct fm_test tests[] = {
	{ "a directory and two keys for the tests below", test_begin },
	{ "messages are these bytes", test_golden_bytes },
	{ "malformed messages are refused", test_malformed },
	{ "malformed addresses are refused", test_malformed_addresses },
	{ "told is each of our addresses once that others can dial", test_own_addresses },
	{ "questions and answers of finding are these bytes", test_finding_bytes },
	{ "nodes are found on the chosen ports, once on each", test_finding_links },
	{ "kept is what another machine can have", test_hostile_addresses },
	{ "a new node joins, dialled where it came from or where it says", test_joins },
	{ "who guesses keeps nobody else from joining", test_guesser_keeps_nobody_out },
	{ "who holds all places keeps nobody else from joining", test_who_holds_places_makes_room },
	{ "without an open invitation nobody joins", test_nobody_is_invited },
	{ "an address counts, or a network of IPv6", test_sources },
	{ "who floods a network of IPv6 goes, and not its others", test_who_floods_goes },
	{ "a good token with a bad name is no guess", test_other_refusals_do_not_count },
	{ "what the engine refuses is written down no longer", test_engine_refuses },
	{ "a peer that joins again keeps its entry if the engine refuses",
	  test_engine_refuses_a_known_one },
	{ "a server with another key is told nothing", test_wrong_server },
	{ "an address where nobody listens is said", test_nobody_there },
	{ "nothing stays behind where there is no memory to dial", test_no_memory },
	{ "a stop in the middle leaves nothing over", test_stop_meanwhile },
	{ "admitted is who has a good token, a free name and a new key", test_admit },
	{ "who would make the configuration a mistake is not admitted",
	  test_admit_keeps_config_whole },
	{ "a configuration with a mistake uses up no token", test_admit_broken_config },
	{ "the directory goes again", test_end },
};

FM_TEST_MAIN("join", tests)
