/* SPDX-License-Identifier: MIT */
/* links: fm_api fm_transport */
/*
 * test_added - a part that is added, not built in: the whole of a service and of an operation of
 * the local API that the product does not have. They ping a peer and say that it answered. They
 * stand in this file, and in two rows. mover/ADDING.md shows them as its example.
 *
 * The engines, the network between them and the API are the real ones, and have nothing but these
 * rows. Since no message of the wire is the test's, it speaks with FACTS_ASK and FACTS, which are
 * free as long as nobody asks for facts.
 */
#include <sys/un.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_request.h"
#include "mover/api/api_task.h"
#include "mover/base/json.h"
#include "mover/base/worker.h"
#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "mover/node/session.h"
#include "tests/unit/net_test.h"

#define ARENA (1u << 20)

/* ---- the service ---- */

/* What it keeps in an engine: the one ping that is under way. */
struct ping_state {
	struct fm_session *session;		/* NULL: none */
	uint64_t id;
	void (*done)(void *ctx, const struct fm_err *err);
	void *ctx;
	unsigned answered;			/* of peers */
};

static const struct fm_service ping_service;
static unsigned ended;				/* states that end() was called for */

static struct ping_state *state_of(const struct fm_engine *e)
{
	return fm_service_state(e, &ping_service);
}

static int ping(struct fm_engine *e, const char *node,
		void (*done)(void *ctx, const struct fm_err *err), void *ctx, struct fm_err *err)
{
	struct fm_wire_msg m = { .type = FM_WIRE_FACTS_ASK };
	struct fm_peer *peer = fm_engine_peer(e, node);
	struct ping_state *p = state_of(e);

	if (!peer || !peer->session)
		return fm_err_set(err, -EHOSTUNREACH, "%s is not connected", node);
	if (p->session)
		return fm_err_set(err, -EBUSY, "another ping is under way");
	*p = (struct ping_state){ .session = peer->session, .done = done, .ctx = ctx,
				  .id = fm_session_new_id(peer->session),
				  .answered = p->answered };
	m.facts_ask.id = p->id;
	fm_session_send(p->session, &m);
	return 0;
}

static void finish(struct ping_state *p, const struct fm_err *err)
{
	p->session = NULL;
	p->done(p->ctx, err);
}

static void on_ask(struct fm_session *s, const struct fm_wire_msg *m)
{
	struct fm_wire_msg answer = { .type = FM_WIRE_FACTS, .facts = { .id = m->facts_ask.id } };

	state_of(s->engine)->answered++;
	fm_session_send(s, &answer);
}

static void on_answer(struct fm_session *s, const struct fm_wire_msg *m)
{
	struct ping_state *p = state_of(s->engine);

	if (p->session == s && p->id == m->facts.id)
		finish(p, NULL);
}

static void ping_session_lost(struct fm_session *s, const struct fm_err *err)
{
	struct ping_state *p = state_of(s->engine);

	if (p->session == s)
		finish(p, err);
}

static void ping_end(void *state)
{
	CU_ASSERT_PTR_NULL(((const struct ping_state *)state)->session);
	ended++;
}

static const struct fm_service_message ping_messages[] = {
	{ FM_WIRE_FACTS_ASK, on_ask },
	{ FM_WIRE_FACTS, on_answer },
};

static const struct fm_service ping_service = {
	.name = "ping",
	.messages = ping_messages,
	.message_count = sizeof(ping_messages) / sizeof(ping_messages[0]),
	.state_bytes = sizeof(struct ping_state),
	.end = ping_end,
	.session_lost = ping_session_lost,
};

/* ---- the operation of the local API ---- */

static void ping_done(void *ctx, const struct fm_err *err)
{
	struct fm_api_task *t = ctx;

	if (err)
		fm_api_task_send_error(t, err);
	else
		fm_api_task_send(t, fm_api_event_done(t->tasks->tx, FM_API_MSG_MAX, t->id));
	fm_api_task_free(t);
}

static int start_ping(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	return ping(t->tasks->engine, call->ask->node, ping_done, t, err);
}

static const struct fm_api_op ping_op = {
	.name = "ping_peer",
	.needs = FM_API_KEY(NODE),
	.start = start_ping,
};

/* ---- the rows ---- */

static const struct fm_service *const services[] = { &ping_service, NULL };
static const struct fm_api_op *const ops[] = { &ping_op, NULL };

/* ---- two nodes that have them ---- */

struct node {
	struct fm_worker *worker;
	struct fm_net *net;
	struct fm_engine *engine;
	void *arena;
	uint8_t key[FM_KEY_LEN];
	bool is_stopped;
};

static struct fm_loop *loop;
static struct node a, b;
static struct fm_api *api;
static int client;

static void node_begin(struct node *n, const char *name, uint8_t seed)
{
	struct fm_net_opts net = { .listen = "127.0.0.1:0", .key_file = key_file(seed),
				   .is_tcp_allowed = true };
	struct fm_engine_opts opts = { .node = name, .lanes = 1, .chunk_bytes = 64u << 10,
				       .slab_bytes = 256u << 10, .tcp_conns = 1, .rdma_conns = 1,
				       .stall_ns = 1000 * FM_NS_PER_S };
	struct fm_engine_env env = { .clock = &test_clock, .random = &fm_random_real,
				     .services = services, .loop = loop, .arena_len = ARENA };

	*n = (struct node){ .arena = aligned_alloc(4096, ARENA) };
	env.lane_loops[0] = loop;
	env.arena = n->arena;
	if (fm_worker_new(1, &n->worker, NULL) < 0 || fm_net_new(loop, &net, &n->net, NULL) < 0)
		abort();
	env.worker = n->worker;
	env.net = n->net;
	fm_net_key(n->net, n->key);
	memcpy(opts.key, n->key, sizeof(opts.key));
	if (fm_engine_new(&opts, &env, &n->engine, NULL) < 0 ||
	    fm_engine_start(n->engine, NULL) < 0)
		abort();
}

static void stopped(void *ctx)
{
	((struct node *)ctx)->is_stopped = true;
}

static void node_stop(struct node *n)
{
	fm_engine_stop(n->engine, stopped, n);
	CU_ASSERT_TRUE(WAIT_FOR(loop, n->is_stopped));
	loop_idle(loop, 5);
}

static void node_free(struct node *n)
{
	fm_worker_free(n->worker);
	while (fm_loop_step(loop, 0))
		;
	fm_engine_free(n->engine);
	fm_net_free(n->net);
	free(n->arena);
}

/* a dials b, and has the API. */
static void begin(void)
{
	struct fm_api_opts opts = { .mode = 0600, .gid = (gid_t)-1, .ops = ops, .node = "a" };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct fm_peer_opts to_a = { .name = "a" }, to_b = { .name = "b", .host = "127.0.0.1" };

	ended = 0;
	loop = loop_new();
	node_begin(&a, "a", 1);
	node_begin(&b, "b", 2);
	memcpy(to_a.key, a.key, sizeof(to_a.key));
	memcpy(to_b.key, b.key, sizeof(to_b.key));
	to_b.port = fm_net_port(b.net);
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_peer(b.engine, &to_a, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_peer(a.engine, &to_b, NULL), 0);
	CU_ASSERT_TRUE(WAIT_FOR(loop, fm_engine_peer(a.engine, "b")->session &&
					      fm_engine_peer(b.engine, "a")->session));
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/fmoved.sock", test_dir());
	opts.socket_path = address.sun_path;
	CU_ASSERT_EQUAL_FATAL(fm_api_new(loop, &opts, a.engine, &api, NULL), 0);
	client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CU_ASSERT_EQUAL_FATAL(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
}

/* Neither engine frees what is in use, and each ends what it made ready. */
static void end(void)
{
	close(client);
	fm_api_stop(api);
	node_stop(&a);
	node_stop(&b);
	fm_api_free(api);
	node_free(&a);
	node_free(&b);
	CU_ASSERT_EQUAL(ended, 2);
	fm_loop_free(loop);
}

static bool is_readable(void)
{
	struct pollfd p = { client, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

static void send_text(const char *text)
{
	CU_ASSERT_EQUAL(send(client, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static bool comes(const char *part)
{
	char text[1024];
	ssize_t len;

	if (!WAIT_FOR(loop, is_readable()))
		return false;
	len = recv(client, text, sizeof(text) - 1, 0);
	text[len > 0 ? len : 0] = '\0';
	if (!strstr(text, part))
		printf("\n    \"%s\" does not say \"%s\"\n", text, part);
	return strstr(text, part);
}

static void test_it_works(void)
{
	begin();
	send_text("{\"op\":\"ping_peer\",\"id\":7,\"node\":\"b\"}");
	CU_ASSERT_TRUE(comes("{\"id\":7,\"event\":\"done\"}"));
	CU_ASSERT_EQUAL(state_of(b.engine)->answered, 1);
	CU_ASSERT_EQUAL(state_of(a.engine)->answered, 0);
	send_text("{\"op\":\"ping_peer\",\"id\":8,\"node\":\"c\"}");
	CU_ASSERT_TRUE(comes("c is not connected"));
	send_text("{\"op\":\"ping_peer\",\"id\":9}");
	CU_ASSERT_TRUE(comes("ping_peer needs"));
	send_text("{\"op\":\"stage\",\"id\":10}");
	CU_ASSERT_TRUE(comes("\"event\":\"error\""));
	end();
}

/* The question is with b, which is not run any more, when its session ends. */
static void test_it_hears_that_the_peer_went(void)
{
	begin();
	send_text("{\"op\":\"ping_peer\",\"id\":7,\"node\":\"b\"}");
	CU_ASSERT_TRUE(WAIT_FOR(loop, state_of(a.engine)->session));
	fm_engine_remove_peer(a.engine, "b");
	CU_ASSERT_TRUE(comes("{\"id\":7,\"event\":\"error\""));
	CU_ASSERT_PTR_NULL(state_of(a.engine)->session);
	end();
	test_dir_remove();
}

static const struct fm_test tests[] = {
	{ "a service and an operation that are rows are asked and answer", test_it_works },
	{ "what is under way hears that its peer went", test_it_hears_that_the_peer_went },
};
FM_TEST_MAIN("added", tests)
