/* SPDX-License-Identifier: MIT */
/*
 * A session whose connection is replaced, against a peer that speaks the protocol by hand: a
 * network of control connections whose far ends are the test. links: fm_services
 */
#include "tests/fm_test.h"

#include <errno.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/node/session.h"
#include "mover/services/request.h"
#include "mover/services/services.h"
#include "mover/services/transfer/transfer.h"

#define CTLS_MAX 96
#define SENT_MAX 32
#define ABORTS 5u
#define COUNTED (1 + ABORTS)		/* ADDRS comes first */
#define SLAB (64u << 10)
#define NUMBER 7			/* of a session that b dials */

/* What we sent over it: types, and what tells one ABORT from another. */
struct fm_ctl {
	bool is_closed, is_stuck;
	bool has_no_room;		/* for what is sent again, but for the first of it */
	const struct fm_ctl_events *events;
	void *ctx;
	char host[16];			/* that was dialled */
	unsigned pings;
	struct {
		enum fm_wire_type type;
		uint64_t xfer;
		struct fm_wire_resume resume;
	} sent[SENT_MAX];
	unsigned count;
};

static struct fm_ctl ctls[CTLS_MAX];
static unsigned ctl_count;
static const struct fm_net_events *net_events;
static void *net_ctx;
static uint64_t moved_ns;
static struct fm_loop *loop;
static struct fm_worker *worker;
static struct fm_engine *engine;
static char arena[2 * SLAB];
static bool has_address;		/* we have the one that connections are from */
static bool has_data;			/* and data connections of TCP go there */
static const uint8_t key_b[FM_KEY_LEN] = { 2 }, key_c[FM_KEY_LEN] = { 3 };

/* ---- the network ---- */

static int net_start(struct fm_net *net, const struct fm_net_events *events, void *ctx,
		     struct fm_err *err)
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

static struct fm_ctl *new_ctl(void)
{
	CU_ASSERT_TRUE_FATAL(ctl_count < CTLS_MAX);
	ctls[ctl_count] = (struct fm_ctl){ 0 };
	return &ctls[ctl_count++];
}

static struct fm_ctl *ctl_dial(struct fm_net *net, const struct fm_ctl_dial *d)
{
	struct fm_ctl *c = new_ctl();

	(void)net;
	c->events = d->events;
	c->ctx = d->ctx;
	(void)snprintf(c->host, sizeof(c->host), "%s", d->host);
	return c;
}

static int ctl_send(struct fm_ctl *c, const uint8_t *msg, size_t len)
{
	static struct fm_wire_msg m;
	static uint8_t bytes[FM_WIRE_MSG_MAX];

	CU_ASSERT_FALSE(c->is_closed);
	memcpy(bytes, msg, len);
	CU_ASSERT_EQUAL(fm_wire_decode(bytes, len, &m), 0);
	if (c->has_no_room && m.type == FM_WIRE_ABORT)
		return -ENOMEM;
	c->pings += m.type == FM_WIRE_PING;
	if (m.type == FM_WIRE_PING || m.type == FM_WIRE_PONG || c->count == SENT_MAX)
		return 0;
	c->sent[c->count].type = m.type;
	c->sent[c->count].xfer = m.type == FM_WIRE_ABORT ? m.abort.xfer : 0;
	if (m.type == FM_WIRE_RESUME || m.type == FM_WIRE_RECEIVED)
		c->sent[c->count].resume = m.resume;
	c->count++;
	return 0;
}

static bool ctl_is_stuck(struct fm_ctl *c)
{
	return c->is_stuck;
}

static size_t ctl_queued(const struct fm_ctl *c)
{
	(void)c;
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

static void ctl_addrs(const struct fm_ctl *c, struct fm_addr *local, struct fm_addr *remote)
{
	(void)c;
	*local = *remote = (struct fm_addr){ .sa.ss_family = AF_INET };
}

static size_t net_addrs(struct fm_net *net, struct fm_addr *out, size_t max)
{
	(void)net;
	if (!has_address || max == 0)
		return 0;
	out[0] = (struct fm_addr){ .sa.ss_family = AF_INET };
	return 1;
}

static bool net_has_addr(struct fm_net *net, const struct sockaddr_storage *sa)
{
	(void)net;
	(void)sa;
	return has_address;
}

static uint16_t net_port(struct fm_net *net, enum fm_kind kind, const char **why)
{
	(void)net;
	*why = "a test";
	return has_data && kind == FM_KIND_TCP ? 7471 : 0;
}

static int domain_new(struct fm_net *net, struct fm_domain **out, struct fm_err *err)
{
	(void)net;
	(void)err;
	*out = (struct fm_domain *)(void *)arena;
	return 0;
}

static void domain_free(struct fm_domain *d)
{
	(void)d;
}

static const struct fm_net_ops net_ops = {
	.start = net_start,
	.stop = net_stop,
	.ctl_dial = ctl_dial,
	.ctl_send = ctl_send,
	.ctl_is_stuck = ctl_is_stuck,
	.ctl_queued = ctl_queued,
	.ctl_close = ctl_close,
	.ctl_peer = ctl_peer,
	.ctl_addrs = ctl_addrs,
	.addrs = net_addrs,
	.has_addr = net_has_addr,
	.data_port = net_port,
	.domain_new = domain_new,
	.domain_free = domain_free,
};
static struct fm_net net = { .ops = &net_ops };

static uint64_t clock_now(void *ctx)
{
	(void)ctx;
	return FM_NS_PER_S + moved_ns;
}

static const struct fm_clock test_clock = { clock_now, NULL };

/* ---- the node ---- */

static void spin(void)
{
	while (fm_loop_step(loop, 0))
		;
}

/* Time goes on only here. */
static void pass(uint64_t ns)
{
	for (uint64_t end_ns = moved_ns + ns; moved_ns < end_ns; moved_ns += FM_NS_PER_S / 4)
		spin();
	spin();
}

/* A node "a" that knows the peers "b", which it dials if host is something, and "c". */
static void begin(const char *host)
{
	struct fm_loop_opts lo = { .is_simulated = true, .clock = &test_clock };
	struct fm_engine_opts o = {.node = "a",
				   .lanes = 1,
				   .chunk_bytes = SLAB,
				   .slab_bytes = SLAB,
				   .rdma_conns = 1,
				   .tcp_conns = 1,
				   .stall_ns = 30 * FM_NS_PER_S};
	struct fm_engine_env env = {.clock = &test_clock,
				    .random = &fm_random_real,
				    .net = &net,
				    .arena = arena,
				    .arena_len = sizeof(arena),
				    .services = fm_services};
	struct fm_peer_opts b = { .name = "b", .host = host, .port = 7471 }, c = { .name = "c" };

	memcpy(b.key, key_b, FM_KEY_LEN);
	memcpy(c.key, key_c, FM_KEY_LEN);
	ctl_count = 0;
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&lo, &loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(0, &worker, NULL), 0);
	env.loop = loop;
	env.lane_loops[0] = loop;
	env.worker = worker;
	CU_ASSERT_EQUAL_FATAL(fm_engine_new(&o, &env, &engine, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_peer(engine, &b, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_peer(engine, &c, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_engine_start(engine, NULL), 0);
	spin();
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

/* The session that was begun last. */
static struct fm_session *session(void)
{
	CU_ASSERT_FALSE_FATAL(fm_list_is_empty(&engine->sessions));
	return fm_container_of(engine->sessions.prev, struct fm_session, at);
}

/* ---- the peer ---- */

static struct fm_ctl *connect_as(const uint8_t key[FM_KEY_LEN])
{
	struct fm_ctl *c = new_ctl();

	CU_ASSERT_TRUE_FATAL(net_events->accepted(net_ctx, c, key, &c->events, &c->ctx));
	return c;
}

static void say(struct fm_ctl *c, const struct fm_wire_msg *m)
{
	static uint8_t buf[FM_WIRE_MSG_MAX];

	c->events->message(c->ctx, buf, fm_wire_encode(m, buf));
	spin();
}

static void hello_as(struct fm_ctl *c, const char *name, uint8_t boot, uint64_t number)
{
	struct fm_wire_msg m = { .type = FM_WIRE_HELLO };

	m.hello = (struct fm_wire_hello){.version_min = FM_WIRE_VERSION,
					 .version_max = FM_WIRE_VERSION,
					 .boot_id = {boot},
					 .name = fm_wire_str(name),
					 .session = number};
	say(c, &m);
}

static void say_hello(struct fm_ctl *c, uint8_t boot, uint64_t number)
{
	hello_as(c, "b", boot, number);
}

static void say_resume(struct fm_ctl *c, uint64_t number, uint64_t count, uint64_t order)
{
	struct fm_wire_msg m = { .type = FM_WIRE_RESUME, .resume = { number, count, order } };

	say(c, &m);
}

static void say_count(struct fm_ctl *c, enum fm_wire_type type, uint64_t number, uint64_t count)
{
	struct fm_wire_msg m = { .type = type, .resume = { number, count, 1 } };

	say(c, &m);
}

/* Each is answered with an ABORT of the same number: there is no such store. */
static void ask(struct fm_ctl *c, uint64_t xfer)
{
	struct fm_wire_msg m = { .type = FM_WIRE_PUT };

	if (session()->is_dialler)
		xfer |= UINT64_C(1) << 63;
	m.put = (struct fm_wire_put){.xfer = xfer,
				     .size = 10,
				     .chunk = 4096,
				     .store = fm_wire_str("none"),
				     .path = fm_wire_str("x")};
	say(c, &m);
}

static void break_line(struct fm_ctl *c, int code)
{
	c->events->closed(c->ctx, &(struct fm_err){ .code = code, .text = "gone" });
	spin();
}

static struct fm_ctl *begin_accepted(uint64_t number)
{
	struct fm_ctl *c;

	begin(NULL);
	c = connect_as(key_b);
	say_hello(c, 9, number);
	for (uint64_t i = 1; i <= ABORTS; i++)
		ask(c, i);
	CU_ASSERT_EQUAL_FATAL(c->count, 1 + COUNTED);
	return c;
}

static struct fm_ctl *begin_dialled(void)
{
	struct fm_ctl *c;

	begin("10.1.0.2");
	CU_ASSERT_EQUAL_FATAL(ctl_count, 1);
	c = &ctls[0];
	c->events->opened(c->ctx);
	say_hello(c, 9, 1);
	for (uint64_t i = 1; i <= ABORTS; i++)
		ask(c, i);
	CU_ASSERT_EQUAL_FATAL(c->count, 1 + COUNTED);
	return c;
}

/* The connection is stuck, another one is dialled and opens. */
static struct fm_ctl *resume_dialled(struct fm_ctl *old)
{
	struct fm_ctl *c;

	old->is_stuck = true;
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 2);
	CU_ASSERT_FALSE(old->is_closed);
	c = &ctls[1];
	c->events->opened(c->ctx);
	CU_ASSERT_FALSE(old->is_closed);
	CU_ASSERT_EQUAL_FATAL(c->count, 1);
	CU_ASSERT_EQUAL(c->sent[0].type, FM_WIRE_RESUME);
	CU_ASSERT_EQUAL(c->sent[0].resume.session, session()->lines.number);
	CU_ASSERT_EQUAL(c->sent[0].resume.count, ABORTS);
	return c;
}

/* From the one at `at` on, c was sent what came after the first `had`, and nothing else. */
static void was_sent_rest(const struct fm_ctl *c, unsigned at, uint64_t had)
{
	CU_ASSERT_EQUAL_FATAL(c->count, at + COUNTED - had);
	for (uint64_t i = had; i < COUNTED; i++, at++) {
		CU_ASSERT_EQUAL(c->sent[at].type, i == 0 ? FM_WIRE_ADDRS : FM_WIRE_ABORT);
		CU_ASSERT_EQUAL(c->sent[at].xfer & UINT32_MAX, i);
	}
}

static bool was_told_bye(const struct fm_ctl *c)
{
	return c->is_closed && c->count > 0 && c->sent[c->count - 1].type == FM_WIRE_BYE;
}

/* ---- a peer that is not reached ---- */

/* Time goes by, and each dial fails at once. */
static void pass_unreached(uint64_t ns, bool is_changing)
{
	for (uint64_t end_ns = moved_ns + ns; moved_ns < end_ns;) {
		pass(FM_NS_PER_S / 4);
		if (is_changing)
			net_events->changed(net_ctx);
		if (!ctls[ctl_count - 1].is_closed)
			break_line(&ctls[ctl_count - 1], -EHOSTUNREACH);
	}
}

/*
 * Goal: a change of our network, which may be a cable that is put in again, has the peer dialled at
 * once, however long it was not reached, and soon once more; where changes do not end, that is no
 * storm. A session does not mind.
 */
static void test_network_changed(void)
{
	unsigned before;

	begin("10.1.0.2");
	pass_unreached(60 * FM_NS_PER_S, false);
	before = ctl_count;
	pass_unreached(10 * FM_NS_PER_S, false);
	CU_ASSERT_TRUE(ctl_count <= before + 1);	/* it is dialled seldom by now */
	before = ctl_count;
	net_events->changed(net_ctx);
	pass_unreached(FM_NS_PER_S, false);
	CU_ASSERT_EQUAL(ctl_count, before + 1);
	pass_unreached(4 * FM_NS_PER_S, false);
	CU_ASSERT_TRUE(ctl_count > before + 1);
	before = ctl_count;
	pass_unreached(30 * FM_NS_PER_S, true);
	CU_ASSERT_TRUE(ctl_count >= before + 6 && ctl_count <= before + 24);
	pass_unreached(60 * FM_NS_PER_S, false);
	before = ctl_count;
	for (unsigned i = 0; i < 50 && ctl_count == before; i++)
		pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, before + 1);
	net_events->changed(net_ctx);		/* while it is dialled */
	break_line(&ctls[before], -EHOSTUNREACH);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, before + 2);
	break_line(&ctls[before + 1], -EHOSTUNREACH);
	pass_unreached(60 * FM_NS_PER_S, false);
	before = ctl_count;
	net_events->changed(net_ctx);
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, before + 1);
	ctls[before].events->opened(ctls[before].ctx);
	say_hello(&ctls[before], 9, 1);
	net_events->changed(net_ctx);
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL(ctl_count, before + 1);
	end();
}

/* Goal: the same where it is dialled just now anyway, which is too soon for a link whose address is
 * still missing. */
static void test_network_changed_before_dial(void)
{
	const struct fm_peer *p;
	unsigned before;

	begin("10.1.0.2");
	pass_unreached(60 * FM_NS_PER_S, false);
	p = fm_engine_peer_by_key(engine, key_b);
	CU_ASSERT_TRUE_FATAL(fm_timer_is_set(&p->dial_timer));
	moved_ns = p->dial_timer.at_ns - FM_NS_PER_S - FM_NS_PER_S / 10;
	spin();
	before = ctl_count;
	net_events->changed(net_ctx);
	pass_unreached(5 * FM_NS_PER_S, false);
	CU_ASSERT_TRUE(ctl_count >= before + 3);
	end();
}

/* ---- going on ---- */

static void test_acceptor_at_each_point(void)
{
	for (uint64_t had = 0; had <= COUNTED; had++) {
		struct fm_ctl *old = begin_accepted(NUMBER), *c;

		break_line(old, -ETIMEDOUT);
		c = connect_as(key_b);
		say_count(c, FM_WIRE_RESUME, NUMBER, had);
		CU_ASSERT_EQUAL_FATAL(c->sent[1].type, FM_WIRE_RESUME);
		CU_ASSERT_EQUAL(c->sent[1].resume.session, NUMBER);
		CU_ASSERT_EQUAL(c->sent[1].resume.count, ABORTS);
		was_sent_rest(c, 2, had);
		ask(c, 6);
		CU_ASSERT_EQUAL(c->sent[c->count - 1].xfer, 6);
		CU_ASSERT_FALSE(c->is_closed);
		end();
	}
}

static void test_dialler_at_each_point(void)
{
	for (uint64_t had = 0; had <= COUNTED; had++) {
		struct fm_ctl *c = resume_dialled(begin_dialled());

		say_hello(c, 9, 1);
		say_count(c, FM_WIRE_RESUME, session()->lines.number, had);
		CU_ASSERT_TRUE(ctls[0].is_closed);
		was_sent_rest(c, 1, had);
		ask(c, 6);
		CU_ASSERT_EQUAL(c->sent[c->count - 1].xfer & UINT32_MAX, 6);
		CU_ASSERT_FALSE(c->is_closed);
		end();
	}
}

/* What is asked for while there is no connection is said as soon as there is one. */
static void test_said_meanwhile(void)
{
	struct fm_ctl *c = resume_dialled(begin_dialled());
	struct fm_wire_msg m = {.type = FM_WIRE_ABORT,
				.abort = {.xfer = 6, .code = ECANCELED, .text = fm_wire_str("")}};

	fm_session_send(session(), &m);
	CU_ASSERT_EQUAL(c->count, 1);
	say_hello(c, 9, 1);
	say_count(c, FM_WIRE_RESUME, session()->lines.number, COUNTED);
	CU_ASSERT_EQUAL_FATAL(c->count, 2);
	CU_ASSERT_EQUAL(c->sent[1].xfer, 6);
	end();
}

/* A message that is not sent again is one that its job waits for. */
static void test_no_room(void)
{
	struct fm_ctl *c = resume_dialled(begin_dialled());

	c->has_no_room = true;
	say_count(c, FM_WIRE_RESUME, session()->lines.number, 0);
	CU_ASSERT_TRUE(was_told_bye(c));
	end();
	(void)begin_accepted(NUMBER);
	c = connect_as(key_b);
	c->has_no_room = true;
	say_count(c, FM_WIRE_RESUME, NUMBER, 0);
	CU_ASSERT_TRUE(was_told_bye(c));
	end();
}

static void test_not_stuck_any_more(void)
{
	struct fm_ctl *old = begin_dialled();

	old->is_stuck = true;
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 2);
	old->is_stuck = false;
	pass(FM_NS_PER_S);
	CU_ASSERT_TRUE(ctls[1].is_closed);
	CU_ASSERT_FALSE(old->is_closed);
	end();
}

static struct fm_request_result answer;

static void on_answer(void *ctx, const struct fm_request_result *r)
{
	(void)ctx;
	answer = *r;
}

/* What a request to b comes to at once; 0: it was sent. */
static int begin_request(void)
{
	const struct fm_request_opts o = {
		.verb = FM_VERB_STAT, .node = "b", .store = "s", .path = "x", .path_len = 1};

	answer.code = 0;
	CU_ASSERT_EQUAL_FATAL(fm_request_start(engine, &o, on_answer, NULL, NULL), 0);
	spin();
	return answer.code;
}

/* What was under way on a session that cannot go on may be tried again. */
static void test_cannot_go_on(void)
{
	struct fm_ctl *old = begin_dialled(), *c;

	CU_ASSERT_EQUAL(begin_request(), 0);
	c = resume_dialled(old);
	say_hello(c, 9, 1);
	say_count(c, FM_WIRE_RESUME, session()->lines.number, COUNTED + 2);
	spin();
	CU_ASSERT_EQUAL(answer.code, -ECONNRESET);
	end();
}

/*
 * Goal: what begins while nothing leads to the peer is refused at once, and told over which cable;
 * not as long as another way is tried. What is under way waits, and goes on when the cable is back.
 */
static void test_nothing_leads_there(void)
{
	struct fm_addr gone = { .sa.ss_family = AF_INET };
	struct fm_ctl *c = begin_dialled(), *spare;

	CU_ASSERT_EQUAL(begin_request(), 0);
	fm_line_address_gone(session(), &gone);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 2);
	CU_ASSERT_EQUAL(begin_request(), 0);
	break_line(&ctls[1], -ETIMEDOUT);
	CU_ASSERT_EQUAL(begin_request(), -EHOSTUNREACH);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(answer.err.text,
		       "from 0.0.0.0, which carries nothing: 0.0.0.0; look at that cable"));
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 3);
	spare = &ctls[2];
	spare->events->opened(spare->ctx);
	CU_ASSERT_EQUAL(begin_request(), 0);
	say_count(spare, FM_WIRE_RESUME, session()->lines.number, COUNTED);
	CU_ASSERT_EQUAL(begin_request(), 0);
	CU_ASSERT_TRUE(session()->is_up && !spare->is_closed && c->is_closed);
	end();
}

/* Goal: that no other way led there once says nothing of later, when the connection has worked
 * again meanwhile. */
static void test_nothing_led_there(void)
{
	struct fm_addr gone = { .sa.ss_family = AF_INET };
	struct fm_ctl *c = begin_dialled();

	c->is_stuck = true;
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 2);
	break_line(&ctls[1], -ETIMEDOUT);
	CU_ASSERT_EQUAL(begin_request(), 0);		/* it may be the peer that is slow */
	c->is_stuck = false;
	pass(FM_NS_PER_S);
	fm_line_address_gone(session(), &gone);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 3);
	CU_ASSERT_EQUAL(begin_request(), 0);
	end();
}

/* Goal: the same where the other end dials: whether it comes another way is awaited for as long as
 * silence says nothing. */
static void test_nobody_comes(void)
{
	struct fm_addr gone = { .sa.ss_family = AF_INET };

	(void)begin_accepted(NUMBER);
	fm_line_address_gone(session(), &gone);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(begin_request(), 0);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(begin_request(), -EHOSTUNREACH);
	end();
}

/* Goal: where we have another address it may take the dialler longer, which tries the dead one
 * first. */
static void test_somebody_may_come(void)
{
	struct fm_addr gone = { .sa.ss_family = AF_INET };

	has_address = true;
	(void)begin_accepted(NUMBER);
	fm_line_address_gone(session(), &gone);
	pass(5 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(begin_request(), 0);
	pass(3 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(begin_request(), -EHOSTUNREACH);
	end();
	has_address = false;
}

/* The peer is heard each second. */
static void pass_heard(struct fm_ctl *c, unsigned seconds)
{
	const struct fm_wire_msg m = { .type = FM_WIRE_PING };

	for (unsigned i = 0; i < seconds; i++) {
		pass(FM_NS_PER_S);
		say(c, &m);
	}
}

/*
 * Goal: a cable that was out for a moment only at our end, as at a switch, so that the dialler
 * stayed with the connection, says nothing of later: neither is a peer that is slow refused, nor is
 * a transfer that has no connection to wait for kept waiting.
 */
static void test_address_is_back(void)
{
	struct fm_ctl *c;

	has_address = true;
	c = begin_accepted(NUMBER);
	has_address = false;
	pass_heard(c, 3);
	CU_ASSERT_TRUE(fm_line_is_moving(session()));
	has_address = true;
	pass_heard(c, 3);
	CU_ASSERT_FALSE(fm_line_is_moving(session()));
	pass(4 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(begin_request(), 0);
	end();
	has_address = false;
}

/* ---- a put, which waits for data connections that never come ---- */

static int put_code;			/* 1: it waits */

static void put_file_close(struct fm_file *file)
{
	(void)file;
}

static void put_done(void *ctx, const struct fm_job_result *r)
{
	(void)ctx;
	put_code = r->code;
}

static int begin_put(void)
{
	static const struct fm_file_ops ops = { .close = put_file_close };
	static const struct fm_job_events events = { .done = put_done };
	static struct fm_file file;
	struct fm_job_opts o = {.is_put = true,
				.node = "b",
				.store = "s",
				.path = "x",
				.path_len = 1,
				.file = &file,
				.attr = {.type = FM_NODE_FILE, .size = 10},
				.transport = FM_WANT_TCP};
	struct fm_job *job;

	file = (struct fm_file){ .ops = &ops, .is_ours = true };
	put_code = 1;
	CU_ASSERT_EQUAL_FATAL(fm_job_start(engine, &o, &events, NULL, &job, NULL), 0);
	spin();
	return put_code;
}

/* The peer takes data connections. */
static struct fm_ctl *begin_with_data(void)
{
	const struct fm_wire_msg m = { .type = FM_WIRE_ADDRS, .addrs = { .tcp_port = 7471 } };
	struct fm_ctl *c;

	has_address = has_data = true;
	c = begin_accepted(NUMBER);
	say(c, &m);
	CU_ASSERT_EQUAL(begin_put(), 1);
	pass_heard(c, 5);
	CU_ASSERT_EQUAL(put_code, -EHOSTUNREACH);
	CU_ASSERT_EQUAL(begin_put(), -EHOSTUNREACH);
	return c;
}

static void end_with_data(void)
{
	end();
	has_address = has_data = false;
}

/* Goal: when an address is back, a put waits for data connections as it does when the session came
 * up. */
static void test_way_is_back(void)
{
	struct fm_ctl *c = begin_with_data();

	has_address = false;
	pass_heard(c, 3);
	has_address = true;
	pass_heard(c, 3);
	CU_ASSERT_EQUAL(begin_put(), 1);
	pass_heard(c, 5);
	CU_ASSERT_EQUAL(put_code, -EHOSTUNREACH);
	end_with_data();
}

/* Goal: the same when the session goes another way. */
static void test_way_is_another(void)
{
	struct fm_ctl *c = begin_with_data();

	break_line(c, -ETIMEDOUT);
	CU_ASSERT_EQUAL(begin_put(), 1);
	c = connect_as(key_b);
	say_count(c, FM_WIRE_RESUME, NUMBER, COUNTED);
	pass_heard(c, 1);
	CU_ASSERT_EQUAL(put_code, 1);
	pass_heard(c, 7);
	CU_ASSERT_EQUAL(put_code, -EHOSTUNREACH);
	end_with_data();
}

/* Goal: a cable that comes and goes all the time makes nobody wait for ever. */
static void test_way_flaps(void)
{
	struct fm_ctl *c = begin_with_data();

	for (unsigned i = 0; i < 10; i++) {
		has_address = i % 2;
		net_events->changed(net_ctx);
		pass_heard(c, 1);
		if (i == 1)
			CU_ASSERT_EQUAL(begin_put(), 1);
	}
	CU_ASSERT_EQUAL(put_code, -EHOSTUNREACH);
	end_with_data();
}

/* Goal: nor does a session whose address is gone here, and which is heard all the same. */
static void test_way_is_moving(void)
{
	struct fm_ctl *c;

	has_address = true;
	c = begin_accepted(NUMBER);
	has_address = false;
	pass_heard(c, 3);
	CU_ASSERT_TRUE(fm_line_is_moving(session()));
	CU_ASSERT_EQUAL(begin_put(), 1);
	pass_heard(c, 7);
	CU_ASSERT_TRUE(fm_line_is_moving(session()));
	CU_ASSERT_EQUAL(put_code, -EHOSTUNREACH);
	end();
}

static void test_no_answer(void)
{
	struct fm_ctl *c = resume_dialled(begin_dialled());

	pass(8 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(ctl_count, 3);
	CU_ASSERT_FALSE(session()->is_closed);
	ctls[2].events->opened(ctls[2].ctx);
	CU_ASSERT_EQUAL(ctls[2].sent[0].type, FM_WIRE_RESUME);
	CU_ASSERT_EQUAL(c->sent[0].resume.order, 1);
	CU_ASSERT_EQUAL(ctls[2].sent[0].resume.order, 2);
	CU_ASSERT_FALSE(ctls[0].is_closed || c->is_closed);
	say_count(&ctls[2], FM_WIRE_RESUME, session()->lines.number, COUNTED);
	CU_ASSERT_TRUE(ctls[0].is_closed && c->is_closed);
	CU_ASSERT_FALSE(session()->is_closed);
	end();
}

/* Goal: where the new connection's cable is cut too before the answer is there, the next one is not
 * waited for. */
static void test_cut_before_answer(void)
{
	struct fm_addr gone = { .sa.ss_family = AF_INET };
	struct fm_ctl *c = resume_dialled(begin_dialled());

	fm_line_address_gone(session(), &gone);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 3);
	c = &ctls[2];
	c->events->opened(c->ctx);
	CU_ASSERT_EQUAL(c->sent[0].type, FM_WIRE_RESUME);
	c->is_stuck = true;
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 4);
	c = &ctls[3];
	c->events->opened(c->ctx);
	say_count(c, FM_WIRE_RESUME, session()->lines.number, COUNTED);
	CU_ASSERT_TRUE(session()->is_up && !c->is_closed);
	end();
}

/* ---- several addresses of the peer ---- */

/* The peer has another address, which it says. */
static struct fm_ctl *begin_dialled_two(void)
{
	const struct fm_wire_addr second = { .family = 4, .address = { 10, 1, 1, 2 } };
	const struct fm_wire_msg m = {
		.type = FM_WIRE_ADDRS, .addrs = {.tcp_port = 7471, .count = 1, .addr = {second}}};
	struct fm_ctl *c;

	has_address = true;
	c = begin_dialled();
	say(c, &m);
	return c;
}

static void end_two(void)
{
	end();
	has_address = false;
}

static unsigned dials_under_way(void)
{
	unsigned n = 0;

	for (unsigned i = 1; i < ctl_count; i++)
		n += !ctls[i].is_closed;
	return n;
}

/*
 * Goal:   a connection that is made over a cable which is cut meanwhile is not waited for: the
 *         other address is dialled beside it, and the first that opens carries the session.
 * Method: neither dial ends; the second opens, or the first does, later.
 */
static void test_ways_do_not_wait(void)
{
	for (unsigned first = 1; first <= 2; first++) {
		struct fm_ctl *old = begin_dialled_two(), *c = &ctls[first];

		old->is_stuck = true;
		pass(FM_NS_PER_S * 5 / 4);
		CU_ASSERT_EQUAL_FATAL(ctl_count, 3);
		CU_ASSERT_STRING_EQUAL(ctls[1].host, "10.1.1.2");
		CU_ASSERT_STRING_EQUAL(ctls[2].host, "10.1.0.2");
		CU_ASSERT_FALSE(ctls[1].is_closed);
		c->events->opened(c->ctx);
		CU_ASSERT_TRUE(ctls[3 - first].is_closed);
		say_count(c, FM_WIRE_RESUME, session()->lines.number, COUNTED);
		CU_ASSERT_TRUE(session()->is_up && !c->is_closed && old->is_closed);
		pass(2 * FM_NS_PER_S);
		CU_ASSERT_EQUAL(ctl_count, 3);
		end_two();
	}
}

/* Goal: dials that never end are no more than a few, and each that ends makes room for another. */
static void test_ways_are_bounded(void)
{
	begin_dialled_two()->is_stuck = true;
	pass(12 * FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 1 + FM_LINES_SPARE_MAX);
	break_line(&ctls[2], -ETIMEDOUT);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(dials_under_way(), FM_LINES_SPARE_MAX);
	CU_ASSERT_EQUAL(ctl_count, 2 + FM_LINES_SPARE_MAX);
	ctls[0].is_stuck = false;
	say(&ctls[0], &(struct fm_wire_msg){ .type = FM_WIRE_PING });
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL(dials_under_way(), 0);
	end_two();
}

/* Goal: a peer with one address is not dialled there beside a dial that is under way. */
static void test_one_way(void)
{
	begin_dialled()->is_stuck = true;
	pass(8 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(ctl_count, 2);
	end();
}

/* Goal: nothing leads there when the last dial of a round has ended, not before. */
static void test_no_way_of_two(void)
{
	struct fm_addr gone = { .sa.ss_family = AF_INET };
	struct fm_session *s;

	(void)begin_dialled_two();
	s = session();
	fm_line_address_gone(s, &gone);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 2);
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 3);
	break_line(&ctls[1], -ETIMEDOUT);
	CU_ASSERT_FALSE(fm_line_is_lost(s));
	break_line(&ctls[2], -ETIMEDOUT);
	CU_ASSERT_TRUE(fm_line_is_lost(s));
	end_two();
}

/*
 * Goal: a cable that is cut behind RESUME, which the peer's kernel has taken, is noticed: something
 * is sent into it until the answer is there.
 */
static void test_pinged_for_answer(void)
{
	struct fm_ctl *c = resume_dialled(begin_dialled());

	pass(3 * FM_NS_PER_S);
	CU_ASSERT_TRUE(c->pings >= 2);
	end();
}

/*
 * Goal:   a peer that was only slow reads first what comes first: the end of the old connection
 *         must not be before RESUME.
 * Method: the old one is open until the answer; what still comes over it does not count, and its
 * end ends nothing.
 */
static void test_old_stays_open(void)
{
	struct fm_ctl *old = begin_dialled(), *c = resume_dialled(old);
	uint64_t received = session()->lines.received;
	unsigned count = c->count;

	ask(old, 6);
	CU_ASSERT_EQUAL(session()->lines.received, received);
	CU_ASSERT_EQUAL(c->count, count);
	break_line(old, -ECONNRESET);
	CU_ASSERT_FALSE(session()->is_closed);
	CU_ASSERT_EQUAL(session()->lines.left_count, 0);
	say_count(c, FM_WIRE_RESUME, session()->lines.number, COUNTED);
	ask(c, 6);
	CU_ASSERT_EQUAL(c->sent[c->count - 1].xfer & UINT32_MAX, 6);
	end();
}

/* Goal: an answer that is under way when the session was silent for long enough is awaited. */
static void test_answered_late(void)
{
	struct fm_ctl *old = begin_dialled(), *c;

	old->is_stuck = true;
	for (unsigned i = 0; i < 28; i++) {
		pass(FM_NS_PER_S);
		if (!ctls[ctl_count - 1].is_closed && i < 27)
			break_line(&ctls[ctl_count - 1], -ETIMEDOUT);
	}
	c = &ctls[ctl_count - 1];
	c->events->opened(c->ctx);
	CU_ASSERT_EQUAL_FATAL(c->sent[0].type, FM_WIRE_RESUME);
	pass(4 * FM_NS_PER_S);
	CU_ASSERT_FALSE_FATAL(fm_list_is_empty(&engine->sessions));
	say_count(c, FM_WIRE_RESUME, session()->lines.number, COUNTED);
	pass(FM_NS_PER_S);
	CU_ASSERT_TRUE(session()->is_up && !c->is_closed);
	end();
}

/*
 * Goal: who takes each connection, but does not go on with the session, keeps it no longer than who
 * is silent.
 */
static void test_hello_alone(void)
{
	struct fm_ctl *c = resume_dialled(begin_dialled());

	for (unsigned i = 0; i < 35 && !fm_list_is_empty(&engine->sessions); i++) {
		if (!c->is_closed)
			say_hello(c, 9, 1);
		pass(FM_NS_PER_S);
		if (&ctls[ctl_count - 1] != c) {
			c = &ctls[ctl_count - 1];
			c->events->opened(c->ctx);
		}
	}
	CU_ASSERT_TRUE(fm_list_is_empty(&engine->sessions));
	end();
}

/* A peer that opens connections and never answers on them does not make us keep them all. */
static void test_left_are_bounded(void)
{
	struct fm_ctl *c = resume_dialled(begin_dialled());

	for (unsigned i = 0; i <= FM_LINES_LEFT_MAX; i++) {
		CU_ASSERT_EQUAL(session()->lines.left_count,
				i < FM_LINES_LEFT_MAX ? i + 1 : FM_LINES_LEFT_MAX);
		CU_ASSERT_EQUAL(ctls[0].is_closed, i >= FM_LINES_LEFT_MAX);
		c->is_stuck = true;		/* sooner than its answer is overdue */
		pass(FM_NS_PER_S);
		CU_ASSERT_EQUAL_FATAL(ctl_count, i + 3);
		c = &ctls[ctl_count - 1];
		c->events->opened(c->ctx);
	}
	CU_ASSERT_FALSE(session()->is_closed);
	end();
	for (unsigned i = 0; i < ctl_count; i++)
		CU_ASSERT_TRUE(ctls[i].is_closed);
}

/* It did not hear our answer in time, and came again. */
static void test_acceptor_is_asked_twice(void)
{
	struct fm_ctl *old = begin_accepted(NUMBER), *first = connect_as(key_b),
		      *second = connect_as(key_b);

	say_count(first, FM_WIRE_RESUME, NUMBER, 2);
	CU_ASSERT_TRUE(old->is_closed);
	was_sent_rest(first, 2, 2);
	say_resume(second, NUMBER, 2, 2);
	CU_ASSERT_TRUE(first->is_closed);
	was_sent_rest(second, 2, 2);
	CU_ASSERT_FALSE(session()->is_closed);
	end();
}

/*
 * Goal:   a connection that the peer has given up does not take the session from a later one: its
 *         end would be the session's.
 * Method: both are there, and the first RESUME is read behind the second.
 */
static void test_acceptor_is_asked_late(void)
{
	struct fm_ctl *old = begin_accepted(NUMBER), *first = connect_as(key_b),
		      *second = connect_as(key_b);

	break_line(old, -ETIMEDOUT);
	say_resume(second, NUMBER, 2, 2);
	CU_ASSERT_EQUAL(second->sent[1].resume.order, 2);
	was_sent_rest(second, 2, 2);
	say_resume(first, NUMBER, 2, 1);
	CU_ASSERT_TRUE(was_told_bye(first));
	CU_ASSERT_FALSE(second->is_closed || session()->is_closed);
	ask(second, 6);
	CU_ASSERT_EQUAL(second->sent[second->count - 1].xfer, 6);
	end();
}

static unsigned sessions_up(void)
{
	unsigned n = 0;

	fm_list_each(at, next, &engine->sessions)
		n += fm_container_of(at, struct fm_session, at)->is_up;
	return n;
}

/*
 * Goal:   a peer that was started again numbers its sessions from the beginning: none of an earlier
 *         run takes the connection that is to go on with one of this run.
 * Method: two of the earlier run are up, of which one was retired; then that of the new run, of the
 *         same number.
 */
static void test_started_again_with_two(void)
{
	struct fm_ctl *old = begin_accepted(NUMBER), *second = connect_as(key_b), *new, *c;

	say_hello(second, 9, NUMBER);
	ask(second, 1);
	CU_ASSERT_EQUAL(sessions_up(), 2);
	new = connect_as(key_b);
	say_hello(new, 10, NUMBER);
	CU_ASSERT_EQUAL(sessions_up(), 1);
	CU_ASSERT_TRUE(old->is_closed && second->is_closed);
	break_line(new, -ETIMEDOUT);
	c = connect_as(key_b);
	say_resume(c, NUMBER, 0, 1);
	CU_ASSERT_EQUAL_FATAL(c->sent[1].type, FM_WIRE_RESUME);
	CU_ASSERT_EQUAL(c->sent[1].resume.count, 0);
	end();
}

/* An earlier fmove: its session ends with its connection, and nothing is kept for it. */
static void test_cannot_resume(void)
{
	struct fm_ctl *c = begin_accepted(0);

	CU_ASSERT_EQUAL(session()->lines.kept_bytes, 0);
	break_line(c, -ETIMEDOUT);
	CU_ASSERT_TRUE(fm_list_is_empty(&engine->sessions));
	end();
}

/* Who ends, or is started again, closes its connections: that is no cut cable. */
static void test_closed_by_peer(void)
{
	break_line(begin_accepted(NUMBER), -ECONNRESET);
	CU_ASSERT_TRUE(fm_list_is_empty(&engine->sessions));
	end();
}

/*
 * Goal: a reset may come from a kernel that has given the connection up, of a peer whose session
 * lives. The dialler finds out at once: it goes on, or it ends where nobody listens.
 */
static void test_dialler_is_reset(void)
{
	struct fm_ctl *c = begin_dialled();

	break_line(c, -ECONNABORTED);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 2);
	ctls[1].events->opened(ctls[1].ctx);
	say_count(&ctls[1], FM_WIRE_RESUME, session()->lines.number, COUNTED);
	break_line(&ctls[1], -ETIMEDOUT);
	CU_ASSERT_TRUE(session()->is_up);
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 3);
	/* a cable that is cut, and who else has its address */
	break_line(&ctls[2], -ECONNREFUSED);
	CU_ASSERT_TRUE(session()->is_up);
	end();
	c = begin_dialled();
	break_line(c, -ECONNABORTED);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 2);
	break_line(&ctls[1], -ECONNREFUSED);
	CU_ASSERT_TRUE(fm_list_is_empty(&engine->sessions));
	end();
}

/*
 * Goal: a peer, or somebody on the path, that resets each connection does not have us dial without
 * a pause.
 */
static void test_reset_again_and_again(void)
{
	struct fm_ctl *c = begin_dialled();
	unsigned dialled;

	for (unsigned i = 0; i < 20 && c; i++) {
		dialled = ctl_count;
		break_line(c, -ECONNABORTED);
		c = ctl_count > dialled ? &ctls[dialled] : NULL;
		if (!c)
			continue;
		c->events->opened(c->ctx);
		say_count(c, FM_WIRE_RESUME, session()->lines.number, COUNTED);
	}
	CU_ASSERT_EQUAL_FATAL(ctl_count, 2);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL_FATAL(ctl_count, 3);
	c = &ctls[2];
	c->events->opened(c->ctx);
	say_count(c, FM_WIRE_RESUME, session()->lines.number, COUNTED);
	CU_ASSERT_TRUE(session()->is_up && !c->is_closed);
	end();
}

/*
 * Goal: a firewall, or whoever else has an address of the peer now, does not end a session that was
 * reset: it ends where one refuses and no other answers.
 */
static void test_reset_and_refused(void)
{
	const struct fm_wire_addr second = { .family = 4, .address = { 10, 1, 1, 2 } };
	const struct fm_wire_msg m = { .type = FM_WIRE_ADDRS,
				       .addrs = { .tcp_port = 7471, .count = 1,
						  .addr = { second } } };

	for (unsigned refusals = 1; refusals <= 2; refusals++) {
		struct fm_ctl *c;

		has_address = true;
		c = begin_dialled();
		say(c, &m);
		break_line(c, -ECONNABORTED);
		CU_ASSERT_EQUAL_FATAL(ctl_count, 2);
		break_line(&ctls[1], -ECONNREFUSED);
		CU_ASSERT_EQUAL_FATAL(ctl_count, 3);
		if (refusals == 1) {
			ctls[2].events->opened(ctls[2].ctx);
			say_count(&ctls[2], FM_WIRE_RESUME, session()->lines.number, COUNTED);
			CU_ASSERT_TRUE(session()->is_up);
		} else {
			break_line(&ctls[2], -ETIMEDOUT);
			CU_ASSERT_TRUE(fm_list_is_empty(&engine->sessions));
		}
		end();
		has_address = false;
	}
}

/* Goal: who accepted waits for the dialler, but not for long. */
static void test_acceptor_is_reset(void)
{
	struct fm_ctl *c = begin_accepted(NUMBER);

	break_line(c, -ECONNABORTED);
	pass(4 * FM_NS_PER_S);
	CU_ASSERT_FALSE_FATAL(fm_list_is_empty(&engine->sessions));
	c = connect_as(key_b);
	say_count(c, FM_WIRE_RESUME, NUMBER, COUNTED);
	pass(8 * FM_NS_PER_S);
	CU_ASSERT_TRUE(session()->is_up);
	break_line(c, -ECONNABORTED);
	pass(6 * FM_NS_PER_S);
	CU_ASSERT_TRUE(fm_list_is_empty(&engine->sessions));
	end();
}

/*
 * Goal: a peer that dialled and was killed with unread data is known as gone as soon as all of its
 * addresses say so, and a peer that listens still has the time that it had to come back.
 */
static void test_acceptor_asks_who_listens(void)
{
	const struct fm_wire_addr first = { .family = 4, .address = { 10, 1, 0, 2 } };
	const struct fm_wire_addr second = { .family = 4, .address = { 10, 1, 1, 2 } };
	const struct fm_wire_msg m = {
		.type = FM_WIRE_ADDRS,
		.addrs = {.tcp_port = 7471, .count = 2, .addr = {first, second}}};

	has_address = true;
	for (unsigned refusals = 1; refusals <= 2; refusals++) {
		struct fm_ctl *c = begin_accepted(NUMBER);
		unsigned dialled = ctl_count;

		say(c, &m);
		break_line(c, -ECONNABORTED);
		CU_ASSERT_EQUAL_FATAL(ctl_count, dialled + 1);
		break_line(&ctls[dialled], -ECONNREFUSED);
		CU_ASSERT_EQUAL_FATAL(ctl_count, dialled + 2);
		CU_ASSERT_TRUE(session()->is_up);
		if (refusals == 2) {
			break_line(&ctls[dialled + 1], -ECONNREFUSED);
			CU_ASSERT_TRUE(fm_list_is_empty(&engine->sessions) || !session()->is_up);
			end();
			continue;
		}
		ctls[dialled + 1].events->opened(ctls[dialled + 1].ctx);
		CU_ASSERT_TRUE(ctls[dialled + 1].is_closed);
		CU_ASSERT_EQUAL(ctls[dialled + 1].count, 0);
		pass(4 * FM_NS_PER_S);
		CU_ASSERT_EQUAL_FATAL(ctl_count, dialled + 2);
		c = connect_as(key_b);
		say_count(c, FM_WIRE_RESUME, NUMBER, COUNTED);
		pass(8 * FM_NS_PER_S);
		CU_ASSERT_TRUE(session()->is_up && !c->is_closed);
		end();
	}
	has_address = false;
}

/* Goal: who asks is not in the way of the dialler, which comes meanwhile. */
static void test_dialler_comes_while_asked(void)
{
	const struct fm_wire_msg m = {.type = FM_WIRE_ADDRS,
				      .addrs = {.tcp_port = 7471,
						.count = 1,
						.addr = {{.family = 4, .address = {10, 1, 0, 2}}}}};
	struct fm_ctl *c, *asking;

	has_address = true;
	c = begin_accepted(NUMBER);
	say(c, &m);
	break_line(c, -ECONNABORTED);
	asking = &ctls[ctl_count - 1];
	CU_ASSERT_FALSE(asking->is_closed);
	c = connect_as(key_b);
	say_count(c, FM_WIRE_RESUME, NUMBER, COUNTED);
	CU_ASSERT_TRUE(asking->is_closed);
	break_line(c, -ECONNABORTED);	/* again at once: that is no storm of ours */
	CU_ASSERT_EQUAL(&ctls[ctl_count - 1], c);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(&ctls[ctl_count - 2], c);
	pass(6 * FM_NS_PER_S);
	CU_ASSERT_TRUE(fm_list_is_empty(&engine->sessions) || !session()->is_up);
	end();
	has_address = false;
}

/* ---- what is kept ---- */

static void test_received(void)
{
	struct fm_ctl *c = begin_accepted(NUMBER), *again;
	const struct fm_lines *l = &session()->lines;

	say_count(c, FM_WIRE_RECEIVED, 0, 4);
	CU_ASSERT_EQUAL(l->forgotten, 4);
	say_count(c, FM_WIRE_RECEIVED, 0, 2);	/* it cannot have fewer; nothing comes back */
	CU_ASSERT_EQUAL(l->forgotten, 4);
	again = connect_as(key_b);
	say_count(again, FM_WIRE_RESUME, NUMBER, 3);
	CU_ASSERT_TRUE(was_told_bye(again));
	CU_ASSERT_FALSE(c->is_closed);
	say_count(c, FM_WIRE_RECEIVED, 0, COUNTED);
	CU_ASSERT_EQUAL(l->kept_bytes, 0);
	CU_ASSERT_TRUE(fm_list_is_empty(&l->kept));
	end();
}

/* A peer that never says RECEIVED costs no more memory than this, however small its messages. */
static void test_bounded(void)
{
	struct fm_ctl *c = begin_accepted(NUMBER), *again;
	const struct fm_lines *l = &session()->lines;
	uint64_t gone;

	for (uint64_t i = ABORTS + 1; l->forgotten == 0 && i < FM_LINE_KEPT_MAX; i++) {
		ask(c, i);
		CU_ASSERT_TRUE_FATAL(l->kept_bytes <= FM_LINE_KEPT_MAX);
	}
	gone = l->forgotten;	/* a long answer takes the place of more than one short one */
	CU_ASSERT_TRUE(gone > 0);
	CU_ASSERT_TRUE(l->kept_bytes > FM_LINE_KEPT_MAX / 2);
	again = connect_as(key_b);
	say_count(again, FM_WIRE_RESUME, NUMBER, gone - 1);
	CU_ASSERT_TRUE(was_told_bye(again));
	again = connect_as(key_b);
	say_count(again, FM_WIRE_RESUME, NUMBER, gone);
	CU_ASSERT_FALSE(again->is_closed);
	CU_ASSERT_TRUE(c->is_closed);
	end();
}

/* Goal: a peer that never says RECEIVED leaves others memory for what is kept for them; and whoever
 * has his share goes on without. */
static void test_shares(void)
{
	struct fm_ctl *b, *c;
	struct fm_lines *of_b;
	uint64_t total;

	fm_budget_set(fm_budget_used() + (4u << 20));
	b = begin_accepted(NUMBER);
	total = engine->kept.limits.total;
	CU_ASSERT_TRUE(total > 0 && total < FM_LINE_KEPT_MAX);
	of_b = &session()->lines;
	for (uint64_t i = ABORTS + 1; of_b->forgotten == 0 && i < FM_LINE_KEPT_MAX; i++)
		ask(b, i);
	CU_ASSERT_TRUE(of_b->forgotten > 0 && of_b->kept_bytes > total / 4 &&
		       of_b->kept_bytes <= total / 2);
	c = connect_as(key_c);
	hello_as(c, "c", 9, NUMBER);
	for (uint64_t i = 1; i <= ABORTS; i++)
		ask(c, i);
	CU_ASSERT_EQUAL(session()->lines.forgotten, 0);
	CU_ASSERT_FALSE(b->is_closed || c->is_closed);
	end();
	fm_budget_set(UINT64_MAX);
}

/* We tell what came, at least once a second. */
static void test_told(void)
{
	struct fm_ctl *c = begin_accepted(NUMBER);

	pass(2 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(c->sent[c->count - 1].type, FM_WIRE_RECEIVED);
	CU_ASSERT_EQUAL(c->sent[c->count - 1].resume.count, ABORTS);
	end();
}

/* ---- hostile ---- */

static void test_received_too_much(void)
{
	struct fm_ctl *c = begin_accepted(NUMBER);

	say_count(c, FM_WIRE_RECEIVED, 0, COUNTED + 1);
	CU_ASSERT_TRUE(was_told_bye(c));
	end();
}

/* None of these disturbs the session that is there. */
static void test_acceptor_refuses(void)
{
	static const struct {
		const uint8_t *key;
		uint64_t number, count;
	} bad[] = {
		{ key_b, NUMBER, COUNTED + 1 },
		{ key_b, NUMBER, UINT64_MAX },
		{ key_b, NUMBER + 1, COUNTED },
		{ key_b, UINT64_MAX, 0 },
		{ key_c, NUMBER, COUNTED },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fm_ctl *c = begin_accepted(NUMBER), *half = connect_as(bad[i].key);

		say_count(half, FM_WIRE_RESUME, bad[i].number, bad[i].count);
		CU_ASSERT_TRUE(was_told_bye(half));
		CU_ASSERT_FALSE(c->is_closed);
		end();
	}
}

static void test_resume_unasked(void)
{
	struct fm_ctl *c = begin_accepted(NUMBER);

	say_count(c, FM_WIRE_RESUME, NUMBER, 1);
	CU_ASSERT_TRUE(was_told_bye(c));
	end();
}

static void test_dialler_refuses(void)
{
	for (unsigned i = 0; i < 5; i++) {
		struct fm_ctl *old = begin_dialled(), *c;
		uint64_t number = session()->lines.number;

		say_count(old, FM_WIRE_RECEIVED, 0, 2);
		c = resume_dialled(old);
		if (i == 0)
			say_count(c, FM_WIRE_RESUME, number, COUNTED + 1);
		else if (i == 1)
			say_count(c, FM_WIRE_RESUME, number, 1);	/* it had two */
		else if (i == 2)
			say_count(c, FM_WIRE_RESUME, number + 1, COUNTED);
		else if (i == 3)
			say_hello(c, 8, 1);		/* started again */
		else
			say_count(c, FM_WIRE_RECEIVED, 0, 3);
		CU_ASSERT_TRUE(was_told_bye(c));
		end();
	}
}

static const struct fm_test tests[] = {
	{"a change of our network has a peer dialled that is not reached", test_network_changed},
	{"also one that is dialled just then", test_network_changed_before_dial},
	{"who accepted goes on behind whatever the other has had", test_acceptor_at_each_point},
	{"who dialled does so too", test_dialler_at_each_point},
	{"what is said while there is no connection is said on the next", test_said_meanwhile},
	{"without memory for what is sent again the session ends", test_no_room},
	{"a connection that is not stuck any more is kept", test_not_stuck_any_more},
	{"a session that cannot go on", test_cannot_go_on},
	{"what begins while nothing leads to the peer is refused at once",
	 test_nothing_leads_there},
	{"that nothing led there before is forgotten", test_nothing_led_there},
	{"what begins while the dialler may come another way waits for it", test_nobody_comes},
	{"and for longer where we have another address", test_somebody_may_come},
	{"an address that is back is gone no longer", test_address_is_back},
	{"a put waits for a way that is back", test_way_is_back},
	{"a put waits when the session goes another way", test_way_is_another},
	{"a way that comes and goes does not make a put wait for ever", test_way_flaps},
	{"nor does a session that is heard and cannot move", test_way_is_moving},
	{"a dial that hangs keeps no other address waiting", test_ways_do_not_wait},
	{"dials that hang are few", test_ways_are_bounded},
	{"one address is dialled once at a time", test_one_way},
	{"no address leads there when the last dial has ended", test_no_way_of_two},
	{"the cable is probed while RESUME is not answered", test_pinged_for_answer},
	{"a RESUME without an answer is said again on another connection", test_no_answer},
	{"a RESUME whose cable is cut is said on the next connection at once",
	 test_cut_before_answer},
	{"the old connection is open until the new one carries the session", test_old_stays_open},
	{"an answer to RESUME is awaited, however long it was silent", test_answered_late},
	{"HELLO without an answer to RESUME does not keep a session", test_hello_alone},
	{"connections that were left are bounded", test_left_are_bounded},
	{"who is asked twice to go on does so on the second connection",
	 test_acceptor_is_asked_twice},
	{"a connection that was given up does not take the session back",
	 test_acceptor_is_asked_late},
	{"a peer started again leaves no session behind", test_started_again_with_two},
	{"a peer that knows no RESUME ends with its connection", test_cannot_resume},
	{"a connection that its peer closed ends the session", test_closed_by_peer},
	{"a dialler whose connection was reset finds out whether the session lives",
	 test_dialler_is_reset},
	{"resets without end have nobody dial without a pause", test_reset_again_and_again},
	{"an address that refuses does not end a session that was reset", test_reset_and_refused},
	{"who accepted waits a while for that", test_acceptor_is_reset},
	{"who accepted asks whether anybody listens", test_acceptor_asks_who_listens},
	{"who asks is not in the dialler's way", test_dialler_comes_while_asked},
	{"what the peer has had is kept no longer", test_received},
	{"what is kept has a limit", test_bounded},
	{"of what is kept each peer has a share", test_shares},
	{"what came is told within a second or so", test_told},
	{"RECEIVED of more than was sent breaks the protocol", test_received_too_much},
	{"RESUME with wrong numbers, or by another peer, leaves the session alone",
	 test_acceptor_refuses},
	{"RESUME in the midst of a session breaks the protocol", test_resume_unasked},
	{"wrong answers to RESUME end the session", test_dialler_refuses},
};
FM_TEST_MAIN("line", tests)
