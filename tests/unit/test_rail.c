/* SPDX-License-Identifier: MIT */
/*
 * Rails over a clock and a network of the test: what is dialled when, and how long it takes until
 * all is back. links: fm_services
 */
#include "tests/fm_test.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/network.h"
#include "mover/base/worker.h"
#include "mover/node/engine.h"
#include "mover/node/session.h"
#include "mover/services/services.h"
#include "mover/services/transfer/job.h"
#include "mover/wire/wire.h"

#define SLAB (64u << 10)
#define STEP_NS (100 * FM_NS_PER_MS)
#define PORTS 4
#define ALL_ADDRS_MAX (FM_ADDRS_MAX + 2 * PORTS + 1)
#define DIALS_MAX 64

struct fm_ctl {
	bool is_closed;
};

struct fm_domain {
	int unused;
};

/* A connection that does nothing but break when it is told to. */
struct conn {
	struct fm_conn conn;
	struct fm_conn_info info;
	const struct fm_conn_events *events;
	void *ctx;
	struct fm_task closed;
	unsigned port;
	struct fm_send *sends;		/* nobody takes what is sent */
};

struct dial {
	struct fm_data_dial dial;
	uint64_t since_ns;
	uint64_t until_ns;
};

static uint64_t clock_ns;
static struct fm_ctl ctl;
static struct fm_domain domain;
static const struct fm_ctl_events *ctl_events;
static void *ctl_ctx;
static struct fm_loop *loop;
static struct fm_worker *worker;
static struct fm_engine *engine;
static char arena[2 * SLAB];

static unsigned ports;
/* addresses that lead nowhere, before those of the ports; of ours one more is behind them */
static unsigned others_here, others_there;
static bool is_unplugged;		/* our last port */
static bool is_order_other;		/* of the peer's ports: the last one comes first */
static bool is_one_subnet;		/* all ports */
static bool is_well;			/* the network: from port i to port i, frames arrive ... */
static bool is_link_local_only;		/* ... of link-local addresses */
static bool has_no_memory;		/* ... or this node to dial, so often asked */
static unsigned refused;
static uint64_t answer_ns;		/* ... and so long does the peer take to answer a dial */
static int silent_port;			/* nothing comes back over it; -1: none ... */
/* ... over the last connection of it; the others have sent nothing */
static bool is_last_silent;
static const struct conn *silent;	/* nothing comes back over that one; NULL: none ... */
static unsigned looks;			/* ... which was seen so often */
static bool is_mute;			/* the peer says nothing over the session */
static bool is_asked;			/* TOKENS_WANT came */
static unsigned asked_count;
static uint64_t put_xfer;		/* of the PUT that came */
static struct dial dials[DIALS_MAX];
static unsigned dial_count, crosses_dialled, dialled;
static unsigned privacy;		/* bits of the network that the peer calls private */
static uint64_t longest_cross_ns;	/* that a dial from one port to another was to last */
static struct conn *up[PORTS];		/* the last one made */
static unsigned conn_count[PORTS];
/* What the nodes are like; begin() puts nothing of it back. */
static enum fm_kind kind = FM_KIND_RDMA;
static unsigned lanes = 1, conns_here = 1, conns_there;
static uint32_t mbps_here = 100000, mbps_there = 100000;
static bool is_link_counted;

/* ---- the clock ---- */

static uint64_t test_now(void *ctx)
{
	(void)ctx;
	return clock_ns;
}

static const struct fm_clock test_clock = { .now_ns = test_now };

static void spin(void)
{
	while (fm_loop_step(loop, 0))
		;
}

/* ---- connections ---- */

static void conn_attach(struct fm_conn *conn, struct fm_loop *lane,
			const struct fm_conn_events *events, void *ctx)
{
	struct conn *c = fm_container_of(conn, struct conn, conn);

	(void)lane;
	c->events = events;
	c->ctx = ctx;
}

static void conn_send(struct fm_conn *conn, struct fm_send *send)
{
	struct conn *c = fm_container_of(conn, struct conn, conn);

	send->next = c->sends;
	c->sends = send;
}

static void conn_closed(struct fm_task *task)
{
	struct conn *c = fm_container_of(task, struct conn, closed);

	while (c->sends) {
		struct fm_send *send = c->sends;

		c->sends = send->next;
		send->done(send, -ECANCELED);
	}
	conn_count[c->port]--;
	if (up[c->port] == c)
		up[c->port] = NULL;
	c->events->closed(c->ctx);
	free(c);
}

static void conn_close(struct fm_conn *conn)
{
	struct conn *c = fm_container_of(conn, struct conn, conn);

	c->closed.run = conn_closed;
	fm_loop_post(loop, &c->closed);
}

static const struct fm_conn_info *conn_info(const struct fm_conn *conn)
{
	return &fm_container_of(conn, const struct conn, conn)->info;
}

static bool conn_is_silent(const struct fm_conn *conn, uint64_t for_ns)
{
	const struct conn *c = fm_container_of(conn, const struct conn, conn);

	(void)for_ns;
	if (c == silent) {
		looks++;
		return true;
	}
	return (int)c->port == silent_port && (!is_last_silent || up[c->port] == c);
}

static const struct fm_conn_ops conn_ops = {.attach = conn_attach,
					    .send = conn_send,
					    .close = conn_close,
					    .is_silent = conn_is_silent,
					    .info = conn_info};

static void conn_break_with(struct conn *c, int code)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, code, "the peer does not answer");
	c->events->failed(c->ctx, &err);
	spin();
}

static void conn_break(struct conn *c)
{
	conn_break_with(c, -ECONNRESET);
}

/* ---- the network ---- */

static int net_start(struct fm_net *net, const struct fm_net_events *events, void *ctx,
		     struct fm_err *err)
{
	(void)net;
	(void)events;
	(void)ctx;
	(void)err;
	return 0;
}

static struct fm_ctl *net_ctl_dial(struct fm_net *net, const struct fm_ctl_dial *dial)
{
	(void)net;
	ctl_events = dial->events;
	ctl_ctx = dial->ctx;
	return &ctl;
}

static int ctl_send(struct fm_ctl *c, const uint8_t *msg, size_t len)
{
	static struct fm_wire_msg m;

	(void)c;
	CU_ASSERT_EQUAL_FATAL(fm_wire_decode(msg, len, &m), 0);
	if (m.type == FM_WIRE_TOKENS_WANT) {
		is_asked = true;
		asked_count = m.tokens.count;
	}
	if (m.type == FM_WIRE_PUT)
		put_xfer = m.put.xfer;
	return 0;
}

static void ctl_close(struct fm_ctl *c)
{
	c->is_closed = true;
}

static const char *ctl_peer(const struct fm_ctl *c)
{
	(void)c;
	return "test";
}

/* Ours end in 1, the peer's in 2; each port has a subnet of its own and, as every port has, a
 * link-local address. */
static void address(unsigned port, bool is_ipv6, unsigned host, struct fm_addr *out)
{
	char text[64];

	*out = (struct fm_addr){.prefix_len = is_ipv6 ? 64 : 24,
				.is_rdma = kind == FM_KIND_RDMA,
				.speed_mbps = host == 1 ? mbps_here : mbps_there};
	(void)snprintf(out->name, sizeof(out->name), "roce%u", port);
	if (is_one_subnet && !is_ipv6)
		(void)snprintf(text, sizeof(text), "10.0.0.%u", 10 * host + port);
	else
		(void)snprintf(text, sizeof(text), is_ipv6 ? "fe80::%x:%x" : "10.0.%u.%u", port,
			       host);
	if (is_ipv6) {
		out->sa.ss_family = AF_INET6;
		inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)(void *)&out->sa)->sin6_addr);
	} else {
		out->sa.ss_family = AF_INET;
		inet_pton(AF_INET, text, &((struct sockaddr_in *)(void *)&out->sa)->sin_addr);
	}
}

/* In a subnet of its own. */
static void other_address(unsigned number, unsigned host, struct fm_addr *out)
{
	char text[64];

	*out = (struct fm_addr){ .prefix_len = 24, .sa.ss_family = AF_INET };
	(void)snprintf(out->name, sizeof(out->name), "veth%u", number);
	(void)snprintf(text, sizeof(text), "10.%u.%u.1", 100 + host, number);
	inet_pton(AF_INET, text, &((struct sockaddr_in *)(void *)&out->sa)->sin_addr);
}

static size_t net_addrs(struct fm_net *net, struct fm_addr *out, size_t max)
{
	struct fm_addr all[ALL_ADDRS_MAX];
	size_t n = 0;

	(void)net;
	for (unsigned i = 0; i < others_here; i++)
		other_address(i, 1, &all[n++]);
	for (unsigned port = 0; port < (is_unplugged ? ports - 1 : ports); port++) {
		address(port, false, 1, &all[n++]);
		address(port, true, 1, &all[n++]);
	}
	if (others_here)
		other_address(99, 1, &all[n++]);
	n = n < max ? n : max;
	memcpy(out, all, n * sizeof(all[0]));
	return n;
}

static bool net_has_addr(struct fm_net *net, const struct sockaddr_storage *sa)
{
	struct fm_addr all[ALL_ADDRS_MAX];
	size_t count = net_addrs(net, all, sizeof(all) / sizeof(all[0]));

	for (size_t i = 0; i < count; i++)
		if (fm_network_is_same(&all[i].sa, sa))
			return true;
	return false;
}

static uint16_t net_port(struct fm_net *net, enum fm_kind of, const char **why)
{
	(void)net;
	*why = "a test";
	return of == kind ? 7471 : 0;
}

/* Nothing but the addresses is known of them. */
static void net_ctl_addrs(const struct fm_ctl *c, struct fm_addr *local, struct fm_addr *remote)
{
	(void)c;
	address(0, false, 1, local);
	address(0, false, 2, remote);
	local->speed_mbps = remote->speed_mbps = 0;
}

static int net_data_dial(struct fm_net *net, const struct fm_data_dial *dial)
{
	(void)net;
	if (has_no_memory) {
		refused++;
		return -ENOMEM;
	}
	assert(dial_count < DIALS_MAX);
	dials[dial_count++] = (struct dial){ *dial, clock_ns, clock_ns + dial->timeout_ns };
	if (strcmp(dial->local.name, dial->remote.name) != 0) {
		crosses_dialled++;
		longest_cross_ns =
			dial->timeout_ns > longest_cross_ns ? dial->timeout_ns : longest_cross_ns;
	}
	dialled++;
	return 0;
}

static bool does_reach(const struct fm_data_dial *dial)
{
	return is_well && strcmp(dial->local.name, dial->remote.name) == 0 &&
	       (!is_link_local_only || dial->local.sa.ss_family == AF_INET6);
}

static bool is_answered(const struct dial *d)
{
	return does_reach(&d->dial) && clock_ns >= d->since_ns + answer_ns;
}

static void dial_end(struct dial *d)
{
	bool has_come = is_answered(d);
	struct fm_data_dial dial = d->dial;
	struct fm_err err = { 0 };
	struct conn *c;

	*d = dials[--dial_count];
	if (!has_come) {
		(void)fm_err_set(&err, -ETIMEDOUT, "timed out");
		dial.done(dial.ctx, -ETIMEDOUT, NULL, &err);
		return;
	}
	c = calloc(1, sizeof(*c));
	assert(c);
	c->conn.ops = &conn_ops;
	c->info.kind = dial.kind;
	c->info.note = "test";
	c->port = (unsigned)(dial.local.name[4] - '0');
	(void)snprintf(c->info.local, sizeof(c->info.local), "roce%u", c->port);
	(void)snprintf(c->info.local_addr, sizeof(c->info.local_addr), "10.0.%u.1", c->port);
	(void)snprintf(c->info.remote_addr, sizeof(c->info.remote_addr), "10.0.%u.2", c->port);
	up[c->port] = c;
	CU_ASSERT_TRUE(++conn_count[c->port] <= conns_here);
	dial.done(dial.ctx, 0, &c->conn, &err);
}

static int domain_new(struct fm_net *net, struct fm_domain **out, struct fm_err *err)
{
	(void)net;
	(void)err;
	*out = &domain;
	return 0;
}

static void domain_free(struct fm_domain *d)
{
	(void)d;
}

/* As the contract has it: what is being dialled ends. */
static void net_stop(struct fm_net *net)
{
	(void)net;
	is_well = false;
	while (dial_count > 0)
		dial_end(&dials[0]);
}

static const struct fm_net_ops net_ops = {
	.start = net_start,
	.stop = net_stop,
	.ctl_dial = net_ctl_dial,
	.ctl_send = ctl_send,
	.ctl_close = ctl_close,
	.ctl_peer = ctl_peer,
	.ctl_addrs = net_ctl_addrs,
	.addrs = net_addrs,
	.has_addr = net_has_addr,
	.data_port = net_port,
	.data_dial = net_data_dial,
	.domain_new = domain_new,
	.domain_free = domain_free,
};
static struct fm_net net = { .ops = &net_ops };

/* ---- a node "a" that dialled "b" ---- */

static void say(const struct fm_wire_msg *m)
{
	static uint8_t buf[FM_WIRE_MSG_MAX];

	ctl_events->message(ctl_ctx, buf, fm_wire_encode(m, buf));
	spin();
}

static void answer_tokens(void)
{
	static struct fm_wire_msg m;

	m = (struct fm_wire_msg){ .type = FM_WIRE_TOKENS };
	m.tokens.count = (uint16_t)asked_count;
	is_asked = false;
	say(&m);
}

/* Time goes by. The peer is alive and hands out tokens; dials end as the network is. */
static void pass(uint64_t ns)
{
	struct fm_wire_msg pong = { .type = FM_WIRE_PONG };

	for (uint64_t end = clock_ns + ns; clock_ns < end;) {
		clock_ns += STEP_NS;
		spin();
		if (!is_mute)
			say(&pong);
		if (is_asked)
			answer_tokens();
		for (unsigned i = dial_count; i-- > 0;) {
			if (clock_ns >= dials[i].until_ns || is_answered(&dials[i]))
				dial_end(&dials[i]);
		}
		spin();
	}
}

static void add_addr(struct fm_wire_addrs *all, const struct fm_addr *a, uint8_t private_bits)
{
	bool is_ipv6 = a->sa.ss_family == AF_INET6;
	struct fm_wire_addr *w = &all->addr[all->count];

	if (all->count == FM_ADDRS_MAX)
		return;
	all->count++;
	*w = (struct fm_wire_addr){ .family = is_ipv6 ? 6 : 4, .prefix_len = a->prefix_len,
				    .is_rdma = a->is_rdma, .speed_mbps = a->speed_mbps,
				    .private_bits = private_bits };
	if (is_ipv6)
		memcpy(w->address, &((const struct sockaddr_in6 *)(const void *)&a->sa)->sin6_addr,
		       16);
	else
		memcpy(w->address, &((const struct sockaddr_in *)(const void *)&a->sa)->sin_addr,
		       4);
	memcpy(w->name, a->name, strlen(a->name) + 1);
}

static void say_addrs(unsigned port_count)
{
	static struct fm_wire_msg m;
	struct fm_addr a;

	m = (struct fm_wire_msg){ .type = FM_WIRE_ADDRS };
	m.addrs.rdma_port = kind == FM_KIND_RDMA ? 7471 : 0;
	m.addrs.tcp_port = kind == FM_KIND_TCP ? 7471 : 0;
	for (unsigned i = 0; i < others_there; i++) {
		other_address(i, 2, &a);
		add_addr(&m.addrs, &a, 0);
	}
	for (unsigned i = 0; i < 2 * port_count; i++) {
		address(is_order_other ? port_count - 1 - i / 2 : i / 2, i % 2, 2, &a);
		add_addr(&m.addrs, &a, i % 2 ? 0 : (uint8_t)privacy);
	}
	say(&m);
}

static void begin(unsigned port_count)
{
	struct fm_loop_opts lo = { .is_simulated = true, .clock = &test_clock };
	struct fm_engine_opts o = {.node = "a",
				   .lanes = lanes,
				   .chunk_bytes = SLAB,
				   .slab_bytes = SLAB,
				   .rdma_conns = conns_here,
				   .tcp_conns = conns_here,
				   .is_link_counted = is_link_counted,
				   .key = {1}};
	struct fm_engine_env env = {.clock = &test_clock,
				    .random = &fm_random_real,
				    .net = &net,
				    .arena = arena,
				    .arena_len = sizeof(arena),
				    .services = fm_services};
	struct fm_peer_opts peer = { .name = "b", .host = "b", .port = 7471, .key = { 2 } };
	struct fm_wire_msg hello = { .type = FM_WIRE_HELLO };

	/* each rail says when it comes and goes: thousands of lines */
	fm_log_set_level(FM_LOG_ERROR);
	clock_ns = FM_NS_PER_S;
	silent_port = -1;
	silent = NULL;
	looks = 0;
	is_mute = is_last_silent = false;
	ctl.is_closed = is_asked = is_well = is_link_local_only = false;
	ports = port_count;
	is_one_subnet = ports > 2;
	dial_count = crosses_dialled = 0;
	answer_ns = longest_cross_ns = 0;
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&lo, &loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(0, &worker, NULL), 0);
	env.loop = loop;
	for (unsigned i = 0; i < lanes; i++)
		env.lane_loops[i] = loop;
	env.worker = worker;
	CU_ASSERT_EQUAL_FATAL(fm_engine_new(&o, &env, &engine, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_peer(engine, &peer, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_engine_start(engine, NULL), 0);
	ctl_events->opened(ctl_ctx);
	hello.hello = (struct fm_wire_hello){.version_min = FM_WIRE_VERSION,
					     .version_max = FM_WIRE_VERSION,
					     .boot_id = {7},
					     .name = fm_wire_str("b"),
					     .tcp_conns = (uint16_t)conns_there,
					     .rdma_conns = (uint16_t)conns_there};
	say(&hello);
	say_addrs(ports);
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

static bool are_all_up(void)
{
	for (unsigned i = 0; i < ports; i++)
		if (!up[i])
			return false;
	return true;
}

/* How long until all rails are up; gives up after a minute. */
static uint64_t until_up(void)
{
	uint64_t begin_ns = clock_ns;

	while (!are_all_up() && clock_ns < begin_ns + 60 * FM_NS_PER_S)
		pass(STEP_NS);
	return clock_ns - begin_ns;
}

/*
 * Goal:   without memory to dial a rail waits, asks for no tokens meanwhile, and comes when there
 *         is some again; the session may also end then.
 * Method: the network has none for ten seconds, then none when the engine stops.
 */
static void test_no_memory(void)
{
	begin(2);
	is_well = has_no_memory = true;
	refused = 0;
	pass(10 * FM_NS_PER_S);
	CU_ASSERT_FALSE(up[0] || up[1]);
	CU_ASSERT_TRUE(refused > 2 && refused < 200);
	has_no_memory = false;
	CU_ASSERT_TRUE(until_up() <= 60 * FM_NS_PER_S && are_all_up());
	conn_break(up[0]);
	has_no_memory = true;
	pass(10 * FM_NS_PER_S);
	end();
	has_no_memory = false;
}

/*
 * Goal:   however long RDMA was away, and whatever was being dialled when it came back, every rail
 *         is soon back: the many pairs that lead nowhere are not in the way of those that lead
 *         somewhere.
 * Method: outages that end at every point of a minute.
 */
static void test_back_in_time(void)
{
	uint64_t longest_ns = 0;
	unsigned crosses;

	begin(2);
	is_well = true;
	CU_ASSERT_TRUE(until_up() <= FM_NS_PER_S);
	for (unsigned i = 0; i < 120; i++) {
		uint64_t took_ns;

		pass(21 * FM_NS_PER_S);		/* they last */
		crosses = crosses_dialled;
		is_well = false;
		conn_break(up[0]);
		conn_break(up[1]);
		pass((60 * FM_NS_PER_S) + i * 500 * FM_NS_PER_MS);
		CU_ASSERT_FALSE(up[0] || up[1]);
		CU_ASSERT_TRUE(crosses_dialled > crosses);	/* the others get their turn */
		is_well = true;
		took_ns = until_up();
		longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
	}
	printf("(at most %llu ms) ... ", (unsigned long long)(longest_ns / FM_NS_PER_MS));
	CU_ASSERT_TRUE(longest_ns <= 8 * FM_NS_PER_S);
	end();
}

/*
 * Goal:   a peer that is slow to answer, and always is, gets its rails all the same; a pair that
 *         leads nowhere does not keep its ports for any longer than before.
 * Method: every dial is answered after 8 s, of RDMA and of TCP.
 */
static void test_slow_answers(void)
{
	for (unsigned of = 0; of < FM_KIND_COUNT; of++) {
		kind = (enum fm_kind)of;
		begin(2);
		is_well = true;
		answer_ns = 8 * FM_NS_PER_S;
		(void)until_up();
		CU_ASSERT_TRUE_FATAL(are_all_up());
		conn_break(up[1]);
		(void)until_up();
		CU_ASSERT_TRUE(are_all_up());
		CU_ASSERT_TRUE(longest_cross_ns <= 3 * FM_NS_PER_S);
		end();
	}
	kind = FM_KIND_RDMA;
}

/* Goal: a rail that comes up and breaks, again and again, is left alone for longer and longer, but
 * for half a minute at most. */
static void test_breaks_young(void)
{
	uint64_t pause_ns = 0, last_ns = 0;

	begin(2);
	is_well = true;
	(void)until_up();
	for (unsigned i = 0; i < 10; i++) {
		last_ns = pause_ns;
		pause_ns = clock_ns;
		conn_break(up[1]);
		(void)until_up();
		pause_ns = clock_ns - pause_ns;
		CU_ASSERT_TRUE(pause_ns + FM_NS_PER_S >= last_ns);
		CU_ASSERT_TRUE(pause_ns <= 31 * FM_NS_PER_S);
	}
	CU_ASSERT_TRUE(pause_ns >= 29 * FM_NS_PER_S);
	pass(21 * FM_NS_PER_S);
	conn_break(up[1]);
	CU_ASSERT_TRUE(until_up() <= 2 * FM_NS_PER_S);	/* it had lasted */
	end();
}

/* Goal: where nothing else is up, a rail that breaks young is tried again before a transfer that
 * waits for it gives up. */
static void test_breaks_alone(void)
{
	static const unsigned counts[] = { 1, 2 };

	for (unsigned n = 0; n < 2; n++) {
		uint64_t longest_ns = 0;

		begin(counts[n]);
		is_well = true;
		(void)until_up();
		for (unsigned i = 0; i < 20; i++) {
			uint64_t took_ns;

			for (unsigned port = 0; port < counts[n]; port++)
				conn_break(up[port]);
			took_ns = until_up();
			longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
		}
		printf("(%u: at most %llu ms) ... ", counts[n],
		       (unsigned long long)(longest_ns / FM_NS_PER_MS));
		CU_ASSERT_TRUE(longest_ns >= 4 * FM_NS_PER_S && longest_ns <= 8 * FM_NS_PER_S);
		end();
	}
}

/*
 * Goal:   pairs that are likely to work, and do not, leave the ports to others now and then, even
 *         where they are so many that one of them is always due.
 * Method: four ports in one subnet, in which nothing arrives but what goes from link-local to
 * link-local address.
 */
static void test_unlikely_only(void)
{
	uint64_t took_ns;

	begin(4);
	is_well = is_link_local_only = true;
	took_ns = until_up();
	printf("(after %llu ms) ... ", (unsigned long long)(took_ns / FM_NS_PER_MS));
	CU_ASSERT_TRUE(are_all_up() && took_ns <= 60 * FM_NS_PER_S);
	end();
}

static void count_lost(void *ctx, const struct fm_rail_status *rail)
{
	if (!rail->why)
		return;
	CU_ASSERT_FALSE(rail->is_up);
	CU_ASSERT_PTR_NOT_NULL(strstr(rail->why, "plugged in"));
	++*(unsigned *)ctx;
}

static void ignore_node(void *ctx, const struct fm_node_status *status)
{
	(void)ctx;
	(void)status;
}

static void ignore_peer(void *ctx, const struct fm_peer_status *status)
{
	(void)ctx;
	(void)status;
}

/* How many rails status says are down. */
static unsigned lost(void)
{
	static const struct fm_status_visitor visitor = {
		.node = ignore_node, .peer = ignore_peer, .rail = count_lost};
	unsigned n = 0;

	fm_engine_status(engine, &visitor, &n);
	return n;
}

/* Goal: a rail over which nothing comes back ends soon, but only while the peer is heard: else the
 * machine itself may have stood still. */
static void test_silent(void)
{
	begin(2);
	is_well = true;
	(void)until_up();
	is_well = false;
	silent_port = 1;
	is_mute = true;
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_TRUE(up[0] && up[1]);
	is_mute = false;
	pass(3 * FM_NS_PER_S);
	CU_ASSERT_TRUE(up[0] && !up[1]);
	CU_ASSERT_EQUAL(lost(), 1);
	silent_port = -1;
	is_well = true;
	CU_ASSERT_TRUE(until_up() <= 5 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(lost(), 0);
	end();
}

/*
 * Goal: the first connection that finds its cable cut takes the others of the same addresses along,
 * and no more: what it carried must not go to one that would find out only then.
 */
static void test_silent_together(void)
{
	conns_here = 2;
	begin(2);
	is_well = true;
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_TRUE_FATAL(conn_count[0] == 2 && conn_count[1] == 2);
	is_well = false;
	silent_port = 1;
	is_last_silent = true;
	pass(3 * FM_NS_PER_S);
	CU_ASSERT_TRUE(conn_count[0] == 2 && conn_count[1] == 0);
	CU_ASSERT_EQUAL(lost(), 1);
	end();
	conns_here = 1;
}

/* Goal: the same where the transport finds it out, as RDMA does. Of other reasons to break each has
 * its own. */
static void test_cut_together(void)
{
	conns_here = 2;
	begin(2);
	is_well = true;
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_TRUE_FATAL(conn_count[0] == 2 && conn_count[1] == 2);
	conn_break(up[0]);
	CU_ASSERT_TRUE(conn_count[0] == 1 && conn_count[1] == 2);
	conn_break_with(up[1], -ENETDOWN);
	CU_ASSERT_TRUE(conn_count[0] == 1 && conn_count[1] == 0);
	end();
	conns_here = 1;
}

/* Goal: when the last connection breaks, jobs wait for the next one; while there is another one,
 * none does. */
static void test_last_is_awaited(void)
{
	const struct fm_session *s;

	begin(2);
	s = fm_container_of(engine->sessions.next, struct fm_session, at);
	is_well = true;
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_TRUE_FATAL(are_all_up());
	conn_break(up[0]);
	CU_ASSERT_FALSE(fm_rail_may_come(s, kind));
	conn_break(up[1]);
	CU_ASSERT_TRUE(fm_rail_may_come(s, kind));
	end();
}

/* Time goes by until that port has so many connections, but no longer than 3 s. */
static bool has(unsigned port, unsigned count)
{
	for (unsigned i = 0; i < 30 && conn_count[port] != count; i++)
		pass(STEP_NS);
	return conn_count[port] == count;
}

/*
 * Goal: a cable that is back keeps the connections that were made over it since, though one from
 * before the cut is found silent only then.
 */
static void test_back_before_all_are_found(void)
{
	struct conn *new;

	conns_here = 2;
	begin(2);
	is_well = true;
	CU_ASSERT_TRUE_FATAL(has(1, 1));
	silent = up[1];
	CU_ASSERT_TRUE_FATAL(has(1, 2));
	for (unsigned i = 0; i < 30 && looks == 0; i++)
		pass(STEP_NS);
	conn_break(up[1]);
	CU_ASSERT_TRUE_FATAL(has(1, 1) && has(1, 2));
	new = up[1];
	CU_ASSERT_EQUAL_FATAL(looks, 1);
	CU_ASSERT_TRUE_FATAL(has(1, 1));
	CU_ASSERT_PTR_EQUAL(up[1], new);
	end();
	conns_here = 1;
}

/* How often it dials within half a minute in which the peer refuses all; is_flapping: and says
 * other addresses at each step. */
static unsigned count_dials(bool is_flapping)
{
	unsigned before;

	begin(2);
	before = dialled;
	for (uint64_t end_ns = clock_ns + 30 * FM_NS_PER_S; clock_ns < end_ns;) {
		for (unsigned i = 0; i < dial_count; i++)
			dials[i].until_ns = clock_ns;
		pass(STEP_NS);
		if (is_flapping) {
			say_addrs(0);
			say_addrs(ports);
			pass(STEP_NS);
			say_addrs(0);
		}
	}
	end();
	return dialled - before;
}

/*
 * Goal:   a peer whose addresses come and go is dialled anew for it, but not all the time.
 * Method: half a minute of dials that fail, with the same addresses and with others at each step.
 * Pauses begin anew every few seconds then, which makes up to three times as many dials, and not
 * one for each time that the addresses come.
 */
static void test_flapping(void)
{
	unsigned calm = count_dials(false), flapping = count_dials(true);

	printf("(%u dials, %u) ... ", calm, flapping);
	CU_ASSERT_TRUE(calm > 0 && flapping <= 3 * calm);
}

static void close_nothing(struct fm_file *file)
{
	(void)file;
}

static void note_end(void *ctx, const struct fm_job_result *result)
{
	*(struct fm_err *)ctx = result->err;
}

/*
 * Goal:   a transfer that has a session, but never a connection for its data, ends, whatever the
 *         peer does.
 * Method: nothing is reached, and the peer calls its network private and not private by turns, for
 * which all is dialled anew.
 */
static void test_never_a_connection(void)
{
	static const struct fm_file_ops ops = { .close = close_nothing };
	struct fm_file file = { .ops = &ops, .is_ours = true };
	const struct fm_job_opts o = {.is_put = true,
				      .node = "b",
				      .store = "s",
				      .path = "f",
				      .path_len = 1,
				      .file = &file,
				      .attr = {.type = FM_NODE_FILE, .size = 1}};
	const struct fm_job_events events = { .done = note_end };
	struct fm_err ended = { 0 }, err;
	struct fm_job *job;

	kind = FM_KIND_TCP;
	begin(2);
	CU_ASSERT_EQUAL_FATAL(fm_job_start(engine, &o, &events, &ended, &job, &err), 0);
	for (unsigned i = 0; i < 15 && ended.code == 0; i++) {
		pass(2 * FM_NS_PER_S);
		privacy = i % 2 ? 0 : 24;
		say_addrs(ports);
	}
	CU_ASSERT_EQUAL(ended.code, -EHOSTUNREACH);
	CU_ASSERT_PTR_NOT_NULL(strstr(ended.text, "no connection for the data"));
	privacy = 0;
	end();
	kind = FM_KIND_RDMA;
}

/*
 * Goal:   a transfer whose connections break as soon as they are made goes on as long as some are
 *         made, and ends soon when none is.
 * Method: each is broken before the next tick could see it.
 */
static void test_only_moments(void)
{
	static const struct fm_file_ops ops = { .close = close_nothing };
	struct fm_file file = { .ops = &ops, .is_ours = true };
	const struct fm_job_opts o = {.is_put = true,
				      .node = "b",
				      .store = "s",
				      .path = "f",
				      .path_len = 1,
				      .file = &file,
				      .attr = {.type = FM_NODE_FILE, .size = 1}};
	const struct fm_job_events events = { .done = note_end };
	struct fm_wire_msg ready = { .type = FM_WIRE_READY };
	struct fm_err ended = { 0 }, err;
	struct fm_job *job;

	kind = FM_KIND_TCP;
	conns_here = 1;
	begin(1);
	is_well = true;
	(void)until_up();
	CU_ASSERT_EQUAL_FATAL(fm_job_start(engine, &o, &events, &ended, &job, &err), 0);
	ready.ready = (struct fm_wire_ready){ .xfer = put_xfer, .chunk = SLAB };
	say(&ready);
	for (unsigned i = 0; i < 600; i++) {
		if (up[0])
			conn_break(up[0]);
		pass(STEP_NS);
	}
	CU_ASSERT_EQUAL(ended.code, 0);
	is_well = false;
	if (up[0])
		conn_break(up[0]);
	pass(11 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(ended.code, -ECONNRESET);
	end();
	kind = FM_KIND_RDMA;
}

/* Goal: a rail has as many connections as the smaller node wants, and over a slow link fewer,
 * unless they were set. */
static void test_how_many(void)
{
	static const struct {
		enum fm_kind kind;
		unsigned here, there;
		bool is_link_counted;
		uint32_t mbps_here, mbps_there;
		unsigned want;
	} cases[] = {
		/* an older node does not say */
		{ FM_KIND_RDMA, 8, 0, true, 100000, 100000, 8 },
		{ FM_KIND_RDMA, 8, 2, true, 100000, 100000, 2 },
		{ FM_KIND_RDMA, 2, 8, true, 100000, 100000, 2 },
		{ FM_KIND_RDMA, 8, 8, true, 1000, 1000, 8 },
		{ FM_KIND_TCP, 16, 0, true, 0, 0, 16 },			/* speeds are not known */
		{ FM_KIND_TCP, 16, 4, true, 0, 0, 4 },
		{ FM_KIND_TCP, 4, 16, true, 0, 0, 4 },
		{ FM_KIND_TCP, 16, 65535, true, 200000, 200000, 16 },
		{ FM_KIND_TCP, 16, 8, true, 200000, 200000, 8 },
		{ FM_KIND_TCP, 16, 16, true, 1000, 1000, 4 },
		{ FM_KIND_TCP, 16, 16, true, 200000, 25000, 5 },	/* the slower end decides */
		{ FM_KIND_TCP, 16, 16, true, 25000, 0, 5 },
		{ FM_KIND_TCP, 16, 16, true, 0, 1000, 4 },
		{ FM_KIND_TCP, 16, 2, true, 1000, 1000, 2 },
		{ FM_KIND_TCP, 16, 16, false, 1000, 1000, 16 },		/* set */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kind = cases[i].kind;
		conns_here = cases[i].here;
		conns_there = cases[i].there;
		is_link_counted = cases[i].is_link_counted;
		mbps_here = cases[i].mbps_here;
		mbps_there = cases[i].mbps_there;
		begin(1);
		is_well = true;
		pass(5 * FM_NS_PER_S);
		CU_ASSERT_EQUAL(conn_count[0], cases[i].want);
		if (conn_count[0] != cases[i].want)
			printf("\ncase %zu: %u connections\n", i, conn_count[0]);
		end();
	}
}

static unsigned conns_of_lane[FM_LANES_MAX];

static void count_lane(void *ctx, const struct fm_rail_status *rail)
{
	(void)ctx;
	if (!rail->why)
		conns_of_lane[rail->lane]++;
}

static void skip_node(void *ctx, const struct fm_node_status *s)
{
	(void)ctx;
	(void)s;
}

static void skip_peer(void *ctx, const struct fm_peer_status *s)
{
	(void)ctx;
	(void)s;
}

static bool has_each_lane_one(void)
{
	static const struct fm_status_visitor visitor = {
		.node = skip_node, .peer = skip_peer, .rail = count_lane};

	memset(conns_of_lane, 0, sizeof(conns_of_lane));
	fm_engine_status(engine, &visitor, NULL);
	for (unsigned i = 0; i < lanes; i++)
		if (conns_of_lane[i] != 1)
			return false;
	return true;
}

/* Goal: the connections of a session are spread over all lanes, and still are when some broke and
 * were made again. */
static void test_lanes(void)
{
	kind = FM_KIND_RDMA;
	lanes = conns_here = 4;
	conns_there = 0;
	begin(1);
	is_well = true;
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_TRUE(has_each_lane_one());
	for (unsigned i = 0; i < 5; i++) {
		CU_ASSERT_PTR_NOT_NULL_FATAL(up[0]);
		conn_break(up[0]);
		pass(60 * FM_NS_PER_S);
		CU_ASSERT_TRUE(has_each_lane_one());
	}
	end();
}

static void begin_full(unsigned here, unsigned there)
{
	kind = FM_KIND_TCP;
	lanes = conns_here = 1;
	conns_there = 0;
	others_here = here;
	others_there = there;
	begin(2);
	is_well = true;
	(void)until_up();
	CU_ASSERT_TRUE_FATAL(are_all_up());
	is_well = false;		/* what is cut stays so */
}

static void end_full(void)
{
	end();
	others_here = others_there = 0;
	is_unplugged = is_order_other = false;
	kind = FM_KIND_RDMA;
}

/*
 * Goal:   an address for which a full list has no room any more is not one that is gone: what goes
 *         over it goes on. Of ours, one that is gone is noticed whatever the list has room for.
 * Method: addresses that stand before the two ports come up, and push the second one out or not;
 *         then it is unplugged. The list is as full, or even the same, afterwards.
 */
static void test_full_list(void)
{
	begin_full(FM_ADDRS_MAX - 5, 0);
	others_here = FM_ADDRS_MAX - 2;
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_TRUE(up[0] && up[1]);
	is_unplugged = true;
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_TRUE(up[0] && !up[1]);
	end_full();

	begin_full(FM_ADDRS_MAX - 3, 0);	/* the last listed is the second port's */
	is_unplugged = true;
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_TRUE(up[0] && !up[1]);
	end_full();
}

/*
 * Goal:   a peer's list that is full says of none that it is gone, in whatever order it is. One
 *         that is not says so, also of what was pushed out before.
 * Method: others push out the second port, then the first one, which stood before the second.
 */
static void test_full_list_there(void)
{
	begin_full(0, FM_ADDRS_MAX - 4);
	others_there = FM_ADDRS_MAX - 2;
	say_addrs(2);
	pass(FM_NS_PER_S);
	CU_ASSERT_TRUE(up[0] && up[1]);
	others_there = FM_ADDRS_MAX - 4;
	say_addrs(2);
	others_there = FM_ADDRS_MAX - 2;
	is_order_other = true;
	say_addrs(2);
	pass(FM_NS_PER_S);
	CU_ASSERT_TRUE(up[0] && up[1]);
	is_order_other = false;
	others_there = 0;
	say_addrs(1);
	pass(FM_NS_PER_S);
	CU_ASSERT_TRUE(up[0] && !up[1]);
	say_addrs(0);
	pass(FM_NS_PER_S);
	CU_ASSERT_FALSE(up[0] || up[1]);
	end_full();
}

static const struct fm_test tests[] = {
	{"an address of ours that is gone is found so, listed or not", test_full_list},
	{"a peer's full list says of no address that it is gone", test_full_list_there},
	{"a peer whose addresses come and go is not dialled all the time", test_flapping},
	{"a rail over which nothing comes back ends, if the peer is heard elsewhere", test_silent},
	{"all connections of a cable end with the first that finds it cut", test_silent_together},
	{"so they do where a connection itself says that its network is gone", test_cut_together},
	{"when the last connection breaks, the next one is awaited", test_last_is_awaited},
	{"what was made since a cable is back is kept", test_back_before_all_are_found},
	{"without memory to dial a rail waits", test_no_memory},
	{"rails are back soon after the network is, however long it was away", test_back_in_time},
	{"a peer that is always slow to answer gets its rails, too", test_slow_answers},
	{"pairs that are unlikely to work get their turn", test_unlikely_only},
	{"a rail that breaks young is left alone longer each time, within bounds",
	 test_breaks_young},
	{"a rail that breaks young is tried soon where nothing else is up", test_breaks_alone},
	{"connections are spread over the lanes, also when some were made again", test_lanes},
	{"a transfer that never gets a connection ends", test_never_a_connection},
	{"a transfer whose connections last moments goes on", test_only_moments},
	{"a rail has as many connections as the smaller node and the link want", test_how_many},
};
FM_TEST_MAIN("rail", tests)
