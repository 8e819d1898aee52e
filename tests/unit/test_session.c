/* SPDX-License-Identifier: MIT */
/*
 * Sessions against a peer that speaks the protocol by hand: a network of one control connection whose far end is the test. links: fm_engine
 */
#include "tests/fm_test.h"

#include <errno.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/engine.h"
#include "mover/wire/wire.h"

#define SLAB (64u << 10)

/* The network: what the engine sends is decoded and kept, what the test says is handed to it. */
struct fm_ctl {
	bool is_closed;
};

static struct fm_ctl ctl;
static const struct fm_net_events *net_events;
static void *net_ctx;
static const struct fm_ctl_events *ctl_events;
static void *ctl_ctx;
static struct fm_wire_msg last;
static uint8_t last_bytes[FM_WIRE_MSG_MAX];
static unsigned sent;

static int net_start(struct fm_net *net, const struct fm_net_events *events, void *ctx, struct fm_err *err)
{
	(void)net;
	(void)err;
	net_events = events;
	net_ctx = ctx;
	return 0;
}

static void net_stop(struct fm_net *net)
{
	(void)net;
}

static int ctl_send(struct fm_ctl *c, const uint8_t *msg, size_t len)
{
	(void)c;
	memcpy(last_bytes, msg, len);
	CU_ASSERT_EQUAL(fm_wire_decode(last_bytes, len, &last), 0);
	sent++;
	return 0;
}

static void ctl_close(struct fm_ctl *c)
{
	if (c)
		c->is_closed = true;
}

static const char *ctl_peer(const struct fm_ctl *c)
{
	(void)c;
	return "test";
}

static size_t net_addrs(struct fm_net *net, struct fm_addr *out, size_t max)
{
	(void)net;
	(void)out;
	(void)max;
	return 0;
}

static uint16_t net_port(struct fm_net *net, enum fm_kind kind, const char **why)
{
	(void)net;
	(void)kind;
	*why = "a test";
	return 0;
}

static int domain_new(struct fm_net *net, struct fm_domain **out, struct fm_err *err)
{
	(void)net;
	(void)err;
	*out = (struct fm_domain *)(void *)&ctl;
	return 0;
}

static void domain_free(struct fm_domain *d)
{
	(void)d;
}

static const struct fm_net_ops net_ops = {
	.start = net_start,
	.stop = net_stop,
	.ctl_send = ctl_send,
	.ctl_close = ctl_close,
	.ctl_peer = ctl_peer,
	.addrs = net_addrs,
	.data_port = net_port,
	.domain_new = domain_new,
	.domain_free = domain_free,
};
static struct fm_net net = { .ops = &net_ops };

static struct fm_loop *loop;
static struct fm_worker *worker;
static struct fm_engine *engine;
static char arena[2 * SLAB];

static void spin(void)
{
	while (fm_loop_step(loop, 0))
		;
}

/* A node "a" that knows a peer "b", which has just connected. */
static void begin(void)
{
	struct fm_loop_opts lo = { .is_simulated = true, .clock = &fm_clock_real };
	struct fm_engine_opts o = { .node = "a", .lanes = 1, .chunk_bytes = SLAB, .slab_bytes = SLAB, .rdma_conns = 1, .tcp_conns = 1 };
	struct fm_engine_env env = { .clock = &fm_clock_real, .random = &fm_random_real, .net = &net, .arena = arena,
				     .arena_len = sizeof(arena) };
	struct fm_peer_opts peer = { .name = "b", .key = { 2 } };

	ctl.is_closed = false;
	sent = 0;
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&lo, &loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(0, &worker, NULL), 0);
	env.loop = loop;
	env.lane_loops[0] = loop;
	env.worker = worker;
	CU_ASSERT_EQUAL_FATAL(fm_engine_new(&o, &env, &engine, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_peer(engine, &peer, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_engine_start(engine, NULL), 0);
	CU_ASSERT_TRUE_FATAL(net_events->accepted(net_ctx, &ctl, peer.key, &ctl_events, &ctl_ctx));
	CU_ASSERT_EQUAL(last.type, FM_WIRE_HELLO);
}

static void stopped(void *ctx)
{
	*(bool *)ctx = true;
}

static void end(void)
{
	bool is_stopped = false;

	fm_engine_stop(engine, stopped, &is_stopped);
	spin();
	CU_ASSERT_TRUE(is_stopped);
	fm_engine_free(engine);
	fm_worker_free(worker);
	fm_loop_free(loop);
}

static void say(const struct fm_wire_msg *m)
{
	static uint8_t buf[FM_WIRE_MSG_MAX];

	ctl_events->message(ctl_ctx, buf, fm_wire_encode(m, buf));
	spin();
}

static void say_hello(uint16_t min, uint16_t max)
{
	struct fm_wire_msg m = { .type = FM_WIRE_HELLO };

	m.hello = (struct fm_wire_hello){ .version_min = min, .version_max = max, .boot_id = { 7 }, .name = fm_wire_str("b") };
	say(&m);
}

static bool is_bye_with(const char *text)
{
	char bye[FM_WIRE_TEXT_MAX + 1] = "";

	if (last.type != FM_WIRE_BYE)
		return false;
	memcpy(bye, last.bye.text.at, last.bye.text.len);
	return strstr(bye, text) != NULL;
}

static void test_other_version(void)
{
	begin();
	say_hello(FM_WIRE_VERSION + 1, FM_WIRE_VERSION + 2);
	CU_ASSERT_TRUE(ctl.is_closed);
	CU_ASSERT_TRUE(is_bye_with("speaks protocol versions 2 to 3, a speaks 1: install the same fmove on both"));
	end();
}

static void test_newer_that_knows_ours(void)
{
	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION + 5);
	CU_ASSERT_FALSE(ctl.is_closed);
	CU_ASSERT_EQUAL(last.type, FM_WIRE_ADDRS);
	end();
}

static void test_before_hello(void)
{
	struct fm_wire_msg ping = { .type = FM_WIRE_PING };

	begin();
	say(&ping);
	CU_ASSERT_TRUE(ctl.is_closed);
	CU_ASSERT_TRUE(is_bye_with("PING before HELLO"));
	end();
}

static void test_garbage(void)
{
	static const uint8_t bytes[] = { 0xff, 0xff, 1, 2, 3 };

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	ctl_events->message(ctl_ctx, bytes, sizeof(bytes));
	spin();
	CU_ASSERT_TRUE(ctl.is_closed);
	CU_ASSERT_TRUE(is_bye_with("broke the protocol"));
	end();
}

static void test_hello_twice(void)
{
	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	CU_ASSERT_TRUE(ctl.is_closed);
	CU_ASSERT_TRUE(is_bye_with("HELLO twice"));
	end();
}

static void test_no_store(void)
{
	struct fm_wire_msg put = { .type = FM_WIRE_PUT };

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	/* b dialled, so its numbers have no top bit. */
	put.put = (struct fm_wire_put){ .xfer = 5, .size = 10, .chunk = 4096, .store = fm_wire_str("none"), .path = fm_wire_str("x") };
	say(&put);
	CU_ASSERT_EQUAL(last.type, FM_WIRE_ABORT);
	CU_ASSERT_EQUAL(last.abort.xfer, 5);
	CU_ASSERT_EQUAL(last.abort.code, ENOENT);
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

static const struct fm_test tests[] = {
	{ "a peer that speaks other versions only is told which, and what to do", test_other_version },
	{ "a newer peer that still knows our version is welcome", test_newer_that_knows_ours },
	{ "nothing is taken before HELLO", test_before_hello },
	{ "bytes that are no message end the session with a word", test_garbage },
	{ "a second HELLO ends the session", test_hello_twice },
	{ "a put into a store that is not there is refused, and the session goes on", test_no_store },
};
FM_TEST_MAIN("session", tests)
