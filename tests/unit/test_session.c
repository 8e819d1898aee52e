/* SPDX-License-Identifier: MIT */
/*
 * Sessions against a peer that speaks the protocol by hand: a network of one control connection
 * whose far end is the test. links: fm_services fm_store
 */
#include "tests/fm_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/node/engine.h"
#include "mover/node/node.h"
#include "mover/node/session.h"
#include "mover/services/request.h"
#include "mover/services/services.h"
#include "mover/services/transfer/transfer.h"
#include "mover/services/verification.h"
#include "mover/services/node_facts.h"
#include "mover/services/volumes.h"
#include "mover/store/tree_file.h"
#include "mover/wire/wire.h"

#define SLAB (64u << 10)
#define VERIFICATIONS_OF_ONE (FM_VERIFICATIONS_PEERS_MAX / 2)

/* The network: what the engine sends is decoded and kept, what the test says is handed to it. */
struct fm_ctl {
	bool is_closed;
	bool is_unread;			/* what is sent waits, up to FM_CTL_QUEUE_MAX */
	size_t queued;
};

static struct fm_ctl ctl;
static const struct fm_net_events *net_events;
static void *net_ctx;
static const struct fm_ctl_events *ctl_events;
static void *ctl_ctx;
static struct fm_wire_msg last;
static uint8_t last_bytes[FM_WIRE_MSG_MAX];
static unsigned sent;
static uint32_t aborted;		/* the code of the last ABORT */
static char abort_text[FM_WIRE_TEXT_MAX + 1];
static unsigned findings, verdicts;	/* in what was sent */
static unsigned volumes_said;
static size_t facts_said;

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

static int ctl_send(struct fm_ctl *c, const uint8_t *msg, size_t len)
{
	if (c->is_unread && c->queued + len > FM_CTL_QUEUE_MAX)
		return -ENOBUFS;
	if (c->is_unread)
		c->queued += len;
	memcpy(last_bytes, msg, len);
	CU_ASSERT_EQUAL(fm_wire_decode(last_bytes, len, &last), 0);
	sent++;
	if (last.type == FM_WIRE_ABORT) {
		aborted = last.abort.code;
		(void)snprintf(abort_text, sizeof(abort_text), "%.*s", (int)last.abort.text.len,
			       last.abort.text.at);
	}
	if (last.type == FM_WIRE_VOLUMES)
		volumes_said += last.volumes.count;
	if (last.type == FM_WIRE_FACTS)
		facts_said += last.facts.piece.len;
	if (last.type == FM_WIRE_VERIFIED) {
		findings += last.verified.count;
		verdicts += !(last.verified.flags & FM_WIRE_VERIFIED_MORE);
	}
	return 0;
}

static size_t ctl_queued(const struct fm_ctl *c)
{
	return c->queued;
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
	*local = *remote = (struct fm_addr){ .name = "" };
}

static size_t net_addrs(struct fm_net *net, struct fm_addr *out, size_t max)
{
	(void)net;
	(void)out;
	(void)max;
	return 0;
}

static bool net_has_addr(struct fm_net *net, const struct sockaddr_storage *sa)
{
	(void)net;
	(void)sa;
	return false;
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

/* Time goes on only when it is moved: nothing here comes too late for a busy machine. */
static uint64_t moved_ns;

static uint64_t clock_now(void *ctx)
{
	(void)ctx;
	return FM_NS_PER_S + moved_ns;
}

static const struct fm_clock test_clock = { clock_now, NULL };

/* What this node says of its volumes. */
static unsigned volumes_here;
static bool is_odd_here;		/* the last one is none that can be said */

static int read_here(void *ctx, struct fm_volume_said **out, unsigned *count, struct fm_err *err)
{
	(void)ctx;
	if (volumes_here == 0)
		return fm_err_set(err, -ENOENT, "nothing runs there");
	*out = calloc(volumes_here, sizeof(**out));
	CU_ASSERT_PTR_NOT_NULL_FATAL(*out);
	*count = volumes_here;
	for (unsigned i = 0; i < volumes_here; i++) {
		(*out)[i] = (struct fm_volume_said){.subsystem = "disk",
						    .writer = "a",
						    .is_mounted = true,
						    .is_read_write = true,
						    .epoch = i};
		snprintf((*out)[i].name, sizeof((*out)[i].name), "v%u", i);
	}
	if (is_odd_here)
		(*out)[volumes_here - 1].subsystem[0] = '\0';
	return 0;
}

static const struct fm_volumes_here here = { .read = read_here };

/* The facts of this node: so many bytes, each time they are read one more of the same letter. */
static size_t facts_here;
static unsigned facts_read;
static int facts_code;			/* or what begin() says */
static void (*facts_hang)(void);	/* what happens while they are read */

static int begin_facts(void *ctx, char **status, struct fm_err *err)
{
	(void)ctx;
	*status = NULL;
	return facts_code < 0 ? fm_err_set(err, facts_code, "a test") : 0;
}

static int read_facts(void *ctx, const char *status, char **out, struct fm_err *err)
{
	(void)ctx;
	(void)status;
	facts_read++;
	if (facts_hang)
		facts_hang();
	if (facts_here == 0)
		return fm_err_set(err, -EIO, "no facts");
	*out = malloc(facts_here);
	memset(*out, 'a' + (int)(facts_read % 26), facts_here);
	return (int)facts_here;
}

static const struct fm_node_facts_here facts_table = { begin_facts, read_facts, NULL };

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
	struct fm_loop_opts lo = { .is_simulated = true, .clock = &test_clock };
	struct fm_engine_opts o = {.node = "a",
				   .lanes = 1,
				   .chunk_bytes = SLAB,
				   .slab_bytes = SLAB,
				   .rdma_conns = 1,
				   .tcp_conns = 1,
				   /* nor does it need data connections */
				   .stall_ns = 1000 * FM_NS_PER_S};
	struct fm_engine_env env = {.clock = &test_clock,
				    .random = &fm_random_real,
				    .net = &net,
				    .arena = arena,
				    .arena_len = sizeof(arena),
				    .services = fm_services};
	struct fm_peer_opts peer = { .name = "b", .key = { 2 } };

	ctl = (struct fm_ctl){ 0 };
	sent = aborted = findings = verdicts = 0;
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&lo, &loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(0, &worker, NULL), 0);
	env.loop = loop;
	env.lane_loops[0] = loop;
	env.worker = worker;
	CU_ASSERT_EQUAL_FATAL(fm_engine_new(&o, &env, &engine, NULL), 0);
	fm_volumes_set_here(engine, &here);
	fm_node_facts_set_here(engine, &facts_table);
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

	m.hello = (struct fm_wire_hello){
		.version_min = min, .version_max = max, .boot_id = {7}, .name = fm_wire_str("b")};
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
	char text[128];

	begin();
	say_hello(FM_WIRE_VERSION + 1, FM_WIRE_VERSION + 2);
	(void)snprintf(
		text, sizeof(text),
		"speaks protocol versions %d to %d, a speaks %d: install the same fmove on both",
		FM_WIRE_VERSION + 1, FM_WIRE_VERSION + 2, FM_WIRE_VERSION);
	CU_ASSERT_TRUE(ctl.is_closed);
	CU_ASSERT_TRUE(is_bye_with(text));
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
	put.put = (struct fm_wire_put){.xfer = 5,
				       .size = 10,
				       .chunk = 4096,
				       .store = fm_wire_str("none"),
				       .path = fm_wire_str("x")};
	say(&put);
	CU_ASSERT_EQUAL(last.type, FM_WIRE_ABORT);
	CU_ASSERT_EQUAL(last.abort.xfer, 5);
	CU_ASSERT_EQUAL(last.abort.code, ENOENT);
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

/* How many lines with that word stand in what was written there. */
static unsigned lines_with(FILE *f, const char *word)
{
	char line[4096];
	unsigned n = 0;

	rewind(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, word) != NULL;
	return n;
}

/* Goal: a peer with a good key cannot fill the log, whatever it sends. */
static void test_log_of_peer(void)
{
	struct fm_wire_msg put = { .type = FM_WIRE_PUT };
	FILE *log = tmpfile();
	int was = dup(STDERR_FILENO);
	unsigned said;

	CU_ASSERT_FATAL(log && was >= 0);
	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	CU_ASSERT_TRUE(dup2(fileno(log), STDERR_FILENO) >= 0);
	for (unsigned i = 0; i < 1000; i++) {
		put.put = (struct fm_wire_put){.xfer = 5 + i,
					       .size = 10,
					       .chunk = 4096,
					       .store = fm_wire_str("none"),
					       .path = fm_wire_str("x")};
		say(&put);
		CU_ASSERT_EQUAL(last.type, FM_WIRE_ABORT);
	}
	CU_ASSERT_TRUE(dup2(was, STDERR_FILENO) >= 0);
	said = lines_with(log, "put of a:none");
	/* a minute may end meanwhile */
	CU_ASSERT_TRUE(said >= FM_PEER_LINES / 2 && said <= 2 * FM_PEER_LINES);
	end();
	close(was);
	(void)fclose(log);
}

/*
 * Goal: what a peer says of a job is not taken for the daemon's own words, and the lines of its
 * jobs have a limit of their own.
 */
static void test_log_of_peers_job(void)
{
	struct fm_wire_msg put = { .type = FM_WIRE_PUT };
	FILE *log = tmpfile();
	int was = dup(STDERR_FILENO);
	unsigned said;

	CU_ASSERT_FATAL(log && was >= 0);
	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	CU_ASSERT_TRUE(dup2(fileno(log), STDERR_FILENO) >= 0);
	for (unsigned i = 0; i < 3 * FM_PEER_JOB_LINES; i++) {
		put.put = (struct fm_wire_put){.xfer = 5 + i,
					       .size = 10,
					       .chunk = 4096,
					       .flags = FM_WIRE_PUT_JOB,
					       .store = fm_wire_str("s is done: 8"),
					       .path = fm_wire_str("x")};
		memcpy(put.put.job, "abcdefgh", FM_WIRE_JOB_LEN);
		say(&put);
		CU_ASSERT_EQUAL(last.type, FM_WIRE_ABORT);
	}
	CU_ASSERT_TRUE(dup2(was, STDERR_FILENO) >= 0);
	said = lines_with(log, "job abcdefgh: put of a:? for ");
	CU_ASSERT_TRUE(said >= FM_PEER_JOB_LINES / 2 && said <= 2 * FM_PEER_JOB_LINES);
	CU_ASSERT_EQUAL(lines_with(log, "put of a:s"), 0);
	end();
	close(was);
	(void)fclose(log);
}

/* A store "s" that keeps nothing and has no directories: what is wanted of it is looked at later,
 * by the worker. */
static void add_store(void)
{
	static const char *const all[] = { "*", NULL };
	const struct fm_store_opts o = {
		.name = "s", .directory = "null:", .read = all, .write = all};
	struct fm_store *store;

	CU_ASSERT_EQUAL_FATAL(fm_store_open(&o, &store, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_store(engine, store, NULL), 0);
}

/* The same without letting the worker go on. */
static void say_at_once(const struct fm_wire_msg *m)
{
	static uint8_t buf[FM_WIRE_MSG_MAX];

	ctl_events->message(ctl_ctx, buf, fm_wire_encode(m, buf));
}

/* ---- what one peer may have of what there is ---- */

enum asking { ASK_PUT, ASK_PUT_TREE, ASK_REQUEST, ASK_VERIFY };

/* True: it was refused since there is too much of it; what was asked is not carried out yet, nor
 * answered otherwise. */
static bool is_refused(enum asking what)
{
	static uint64_t id;
	struct fm_wire_msg m = { .type = FM_WIRE_PUT };

	id++;
	last.type = 0;
	if (what == ASK_REQUEST) {
		m.type = FM_WIRE_REQUEST;
		m.request = (struct fm_wire_request){.id = id,
						     .verb = FM_VERB_LIST,
						     .store = fm_wire_str("s"),
						     .path = fm_wire_str("x"),
						     .after = fm_wire_str("")};
	} else if (what == ASK_VERIFY) {
		m.type = FM_WIRE_VERIFY;
		m.verify = (struct fm_wire_verify){
			.id = id, .store = fm_wire_str("s"), .path = fm_wire_str("x")};
	} else {
		m.put = (struct fm_wire_put){.flags = what == ASK_PUT_TREE ? FM_WIRE_PUT_TREE : 0,
					     .xfer = id,
					     .chunk = 4096,
					     .size = what == ASK_PUT_TREE ? FM_WIRE_SIZE_UNKNOWN
									  : 10,
					     .store = fm_wire_str("s"),
					     .path = fm_wire_str("x")};
	}
	say_at_once(&m);
	return (last.type == FM_WIRE_ABORT && last.abort.code == EBUSY &&
		last.abort.flags & FM_WIRE_ABORT_FULL) ||
	       (last.type == FM_WIRE_REPLY && last.reply.code == EBUSY &&
		last.reply.flags & FM_WIRE_REPLY_FULL) ||
	       (last.type == FM_WIRE_VERIFIED && last.verified.code == EBUSY &&
		last.verified.flags & FM_WIRE_VERIFIED_FULL);
}

/* Its connection goes and it comes back, while what it asked for is still with the workers. */
static void reconnect(void)
{
	static struct fm_ctl again;
	struct fm_wire_msg hello = { .type = FM_WIRE_HELLO };
	const uint8_t key[FM_KEY_LEN] = { 2 };

	ctl_events->closed(ctl_ctx, &(struct fm_err){ .code = -ECONNRESET, .text = "gone" });
	again = (struct fm_ctl){ 0 };
	CU_ASSERT_TRUE_FATAL(net_events->accepted(net_ctx, &again, key, &ctl_events, &ctl_ctx));
	hello.hello = (struct fm_wire_hello){.version_min = FM_WIRE_VERSION,
					     .version_max = FM_WIRE_VERSION,
					     .boot_id = {7},
					     .name = fm_wire_str("b")};
	say_at_once(&hello);
	CU_ASSERT_FALSE(again.is_closed);
}

/* Goal: whatever a peer asks for, a half of the places is for others, also when it hangs up and
 * comes back while its work still runs. */
static void test_a_peers_share(void)
{
	static const struct {
		enum asking what;
		unsigned max;
	} all[] = {{ASK_PUT, FM_JOBS_PEERS_MAX},
		   {ASK_PUT_TREE, FM_TREES_PEERS_MAX},
		   {ASK_REQUEST, FM_REQUESTS_PEERS_MAX},
		   {ASK_VERIFY, FM_VERIFICATIONS_PEERS_MAX}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		unsigned n = 0;

		begin();
		say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
		add_store();
		while (n < all[i].max && !is_refused(all[i].what))
			n++;
		CU_ASSERT_EQUAL(n, all[i].max / 2);
		reconnect();
		CU_ASSERT_TRUE(is_refused(all[i].what));
		spin();
		CU_ASSERT_FALSE(is_refused(all[i].what));
		end();
	}
}

/* Goal: what a peer gave up counts as its own while it is still being read. */
static void test_verifications_of_one_peer(void)
{
	struct fm_wire_msg verify = { .type = FM_WIRE_VERIFY }, abort = { .type = FM_WIRE_ABORT };

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	add_store();
	verify.verify =
		(struct fm_wire_verify){.store = fm_wire_str("s"), .path = fm_wire_str("x")};
	abort.abort = (struct fm_wire_abort){ .code = ECANCELED, .text = fm_wire_str("") };
	for (unsigned i = 1; i <= VERIFICATIONS_OF_ONE + 1; i++) {
		verify.verify.id = abort.abort.xfer = i;
		last.type = 0;
		say_at_once(&verify);
		if (i <= VERIFICATIONS_OF_ONE)
			say_at_once(&abort);
	}
	CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_VERIFIED);
	CU_ASSERT_EQUAL(last.verified.code, EBUSY);
	spin();
	verify.verify.id++;
	say(&verify);
	CU_ASSERT_NOT_EQUAL(last.verified.code, EBUSY);
	end();
}

static struct fm_err verified;

static void on_verifying(void *ctx, const struct fm_verify_count *count)
{
	(void)ctx;
	(void)count;
}

static void on_finding(void *ctx, enum fm_finding_kind kind, uint64_t offset, uint64_t length,
		       const char *path)
{
	(void)ctx;
	(void)kind;
	(void)offset;
	(void)length;
	(void)path;
}

static void on_verified(void *ctx, const struct fm_err *err, const struct fm_verify_count *count)
{
	(void)ctx;
	(void)count;
	verified = *err;
}

/* A second later the peer is still there. */
static void live_on(const struct fm_wire_msg *said)
{
	struct fm_wire_msg pong = { .type = FM_WIRE_PONG };

	moved_ns += FM_NS_PER_S;
	say(said ? said : &pong);
	say(&pong);
}

/* Goal: a peer that lives and never answers is not waited for without end; one that says something
 * now and then is. */
static void test_verifying_in_silence(void)
{
	static const struct fm_verification_events events = {on_verifying, on_finding, on_verified};
	const struct fm_verification_opts o = {
		.node = "b", .store = "s", .path = "x", .path_len = 1};
	struct fm_wire_msg going_on = { .type = FM_WIRE_VERIFIED };
	struct fm_verification *v;

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	verified = (struct fm_err){ .code = 1 };
	CU_ASSERT_EQUAL_FATAL(fm_verification_start(engine, &o, &events, NULL, &v, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_VERIFY);
	going_on.verified = (struct fm_wire_verified){
		.flags = FM_WIRE_VERIFIED_MORE, .id = last.verify.id, .text = fm_wire_str("")};
	for (unsigned i = 0; i < 100; i++)
		live_on(&going_on);
	CU_ASSERT_EQUAL(verified.code, 1);
	for (unsigned i = 0; i < 100 && verified.code == 1; i++)
		live_on(NULL);
	CU_ASSERT_EQUAL(verified.code, -ETIMEDOUT);
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

static struct fm_err asked;

static void on_asked(void *ctx, const struct fm_request_result *result)
{
	(void)ctx;
	asked = result->err;
}

/* A request that the peer has not answered; *reply is what it would say. A peer that is silent for
 * 10 s ends the session. */
static void begin_asking(struct fm_wire_msg *reply)
{
	const struct fm_request_opts ls = {.verb = FM_VERB_LIST,
					   .node = "b",
					   .store = "s",
					   .path = "x",
					   .path_len = 1,
					   .after = ""};

	begin();
	engine->o.stall_ns = 10 * FM_NS_PER_S;
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	asked.code = 0;
	CU_ASSERT_EQUAL_FATAL(fm_request_start(engine, &ls, on_asked, NULL, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_REQUEST);
	reply->type = FM_WIRE_REPLY;
	reply->reply = (struct fm_wire_reply){.id = last.request.id,
					      .code = EBUSY,
					      .text = fm_wire_str("busy")};
}

/* The time jumps. */
static void stand_still(uint64_t ns)
{
	moved_ns += ns;
	spin();
}

static void run_on(unsigned half_seconds)
{
	for (; half_seconds > 0; half_seconds--)
		stand_still(FM_NS_PER_S / 2);
}

/*
 * Goal:   what this node stood still is no silence of its peer, which may have stood still as well:
 *         the session goes on, and what was asked for is answered. A peer that says nothing while
 *         this node runs is lost all the same.
 * Method: what the peer says comes only after the tick; then it says nothing.
 */
static void test_stood_still(void)
{
	struct fm_wire_msg reply;

	begin_asking(&reply);
	stand_still(100 * FM_NS_PER_S);
	CU_ASSERT_FALSE_FATAL(ctl.is_closed);
	CU_ASSERT_EQUAL(last.type, FM_WIRE_PING);
	/* Once more, shortly afterwards. */
	run_on(4);
	stand_still(100 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(asked.code, 0);
	/* The other one stood still with it, and goes on later. */
	run_on(12);
	CU_ASSERT_FALSE_FATAL(ctl.is_closed);
	CU_ASSERT_EQUAL(asked.code, 0);
	say(&reply);
	CU_ASSERT_EQUAL(asked.code, -EBUSY);
	run_on(19);
	CU_ASSERT_FALSE_FATAL(ctl.is_closed);
	run_on(3);
	CU_ASSERT_TRUE(ctl.is_closed);
	end();
}

/* Goal: a tick that is a little late after such a pause does not end the wait for the others. */
static void test_a_little_late_after_it(void)
{
	struct fm_wire_msg reply;

	begin_asking(&reply);
	stand_still(100 * FM_NS_PER_S);
	stand_still(12 * FM_NS_PER_S / 10);
	run_on(16);
	CU_ASSERT_EQUAL(asked.code, 0);
	say(&reply);
	CU_ASSERT_EQUAL(asked.code, -EBUSY);
	end();
}

/* Goal: a node that stands still again and again waits for others three times, and then gives up
 * what had its end meanwhile. */
static void test_stood_still_often(void)
{
	struct fm_wire_msg reply;

	begin_asking(&reply);
	for (unsigned i = 0; i < 3; i++) {
		stand_still(100 * FM_NS_PER_S);
		CU_ASSERT_EQUAL(asked.code, 0);
	}
	stand_still(100 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(asked.code, -ETIMEDOUT);
	end();
}

/* Goal: who asks a peer that is full hears that it may pass, of a request and of a verification as
 * of a transfer. */
static void test_a_full_peer(void)
{
	static const struct fm_verification_events events = {on_verifying, on_finding, on_verified};
	const struct fm_verification_opts o = {
		.node = "b", .store = "s", .path = "x", .path_len = 1};
	const struct fm_request_opts ls = {.verb = FM_VERB_LIST,
					   .node = "b",
					   .store = "s",
					   .path = "x",
					   .path_len = 1,
					   .after = ""};
	struct fm_wire_msg reply = { .type = FM_WIRE_REPLY }, said = { .type = FM_WIRE_VERIFIED };
	struct fm_verification *v;

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	for (unsigned is_full = 0; is_full < 2; is_full++) {
		CU_ASSERT_EQUAL_FATAL(fm_request_start(engine, &ls, on_asked, NULL, NULL), 0);
		CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_REQUEST);
		reply.reply = (struct fm_wire_reply){.flags = is_full ? FM_WIRE_REPLY_FULL : 0,
						     .id = last.request.id,
						     .code = EBUSY,
						     .text = fm_wire_str("all are taken")};
		say(&reply);
		CU_ASSERT_TRUE(asked.code == -EBUSY && asked.is_full == is_full);
		CU_ASSERT_EQUAL_FATAL(fm_verification_start(engine, &o, &events, NULL, &v, NULL),
				      0);
		CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_VERIFY);
		said.verified =
			(struct fm_wire_verified){.flags = is_full ? FM_WIRE_VERIFIED_FULL : 0,
						  .id = last.verify.id,
						  .code = EBUSY,
						  .text = fm_wire_str("all are taken")};
		say(&said);
		CU_ASSERT_TRUE(verified.code == -EBUSY && verified.is_full == is_full);
	}
	end();
}

/* Goal: a peer cannot list without end: what it lists is behind the name that was asked for, and
 * goes upwards. */
static void test_a_list_in_order(void)
{
	static const struct {
		const char *after, *first, *second;
		int want;
	} cases[] = {
		{"", "a", "b", 0},	      {"b", "c", "\xff", 0},
		{"", "b", "a", -EPROTO},      {"b", "b", "c", -EPROTO},
		{"b", "a", "c", -EPROTO},     {"", "", "a", -EPROTO},
		{"b", "\xff", "c", -EPROTO},
	};
	struct fm_wire_msg reply = { .type = FM_WIRE_REPLY };

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fm_request_opts ls = {.verb = FM_VERB_LIST,
						   .node = "b",
						   .store = "s",
						   .path = "x",
						   .path_len = 1,
						   .after = cases[i].after};

		asked.code = 1;
		CU_ASSERT_EQUAL_FATAL(fm_request_start(engine, &ls, on_asked, NULL, NULL), 0);
		reply.reply = (struct fm_wire_reply){.flags = FM_WIRE_REPLY_MORE,
						     .id = last.request.id,
						     .count = 2,
						     .text = fm_wire_str("")};
		reply.reply.entry[0] = (struct fm_wire_entry){
			.type = 1, .name = fm_wire_str(cases[i].first)};
		reply.reply.entry[1] = (struct fm_wire_entry){
			.type = 1, .name = fm_wire_str(cases[i].second)};
		say(&reply);
		CU_ASSERT_EQUAL(asked.code, cases[i].want);
	}
	end();
}

/* Goal: of what a peer was asked to change, and did not answer, the error says that it may have
 * been done, also when the connection breaks; of what was never sent it does not. */
static void test_an_answer_lost(void)
{
	static const struct {
		enum fm_verb verb;
		const char *says;
	} cases[] = {{FM_VERB_LIST, NULL},
		     {FM_VERB_REMOVE, "may still be removing"},
		     {FM_VERB_MOVE, "may have been moved"},
		     {FM_VERB_LINK, "may have been made"},
		     {FM_VERB_MKDIR, "may have been made"}};
	struct fm_request_opts o = {.node = "b",
				    .store = "s",
				    .path = "x",
				    .path_len = 1,
				    .after = "",
				    .to = "y",
				    .to_len = 1};

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		bool is_stopped = i % 2;

		begin();
		say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
		fm_err_clear(&asked);
		o.verb = cases[i / 2].verb;
		CU_ASSERT_EQUAL_FATAL(fm_request_start(engine, &o, on_asked, NULL, NULL), 0);
		CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_REQUEST);
		if (!is_stopped) {
			ctl_events->closed(ctl_ctx, &(struct fm_err){.code = -ECONNRESET,
								     .text = "b: gone"});
			spin();
		}
		end();
		CU_ASSERT_TRUE(asked.code < 0);
		if (cases[i / 2].says)
			CU_ASSERT_PTR_NOT_NULL(strstr(asked.text, cases[i / 2].says));
		if (!cases[i / 2].says)
			CU_ASSERT_PTR_NULL(strstr(asked.text, "may"));
	}
}

static char shared[FM_SHARED_LEN_MAX + 1];

static void on_looked(void *ctx, const struct fm_request_result *result)
{
	(void)ctx;
	asked = result->err;
	asked.code = result->code;
	(void)snprintf(shared, sizeof(shared), "%s", result->shared ? result->shared : "");
}

/* Goal: who looks at what a peer has hears by which ID its store is shared; what is none ends the
 * request. */
static void test_a_shared_store(void)
{
	static const struct {
		const char *said, *is;
		int code;
	} cases[] = { { "", "", 0 }, { "nfs1", "nfs1", 0 }, { "a/b", "", -EPROTO },
		      { "0123456789012345678901234567890123456789012345678901234567890123", "",
			-EPROTO } };
	const struct fm_request_opts look = { .verb = FM_VERB_STAT, .node = "b", .store = "s",
					      .path = "x", .path_len = 1 };
	struct fm_wire_msg reply = { .type = FM_WIRE_REPLY };

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(fm_request_start(engine, &look, on_looked, NULL, NULL), 0);
		reply.reply = (struct fm_wire_reply){ .id = last.request.id, .count = 1,
						      .text = fm_wire_str(cases[i].said) };
		reply.reply.entry[0] = (struct fm_wire_entry){ .type = FM_NODE_DIR };
		say(&reply);
		CU_ASSERT_EQUAL(asked.code, cases[i].code);
		CU_ASSERT_STRING_EQUAL(shared, cases[i].is);
	}
	end();
}

/* ---- a store whose directories are as the test wants them ---- */

/* A tree: its reads and writes are done on this loop, so they hang until the test lets it go on. */
static struct fm_loop *disk;

static void tree_stop(struct fm_tree *t)
{
	(void)t;
	while (fm_loop_step(disk, 0))
		;
}

static void tree_count(struct fm_tree *t, struct fm_tree_count *out)
{
	(void)t;
	*out = (struct fm_tree_count){ 0 };
}

static int tree_log(struct fm_tree *t, struct fm_err *err)
{
	(void)t;
	(void)err;
	return 0;
}

static void tree_drop(struct fm_tree *t)
{
	(void)t;
}

static const struct fm_tree_ops tree_ops = {.count = tree_count,
					    .stop = tree_stop,
					    .log = tree_log,
					    .keep = tree_drop,
					    .discard = tree_drop,
					    .close = tree_drop};
static struct fm_tree tree = { .ops = &tree_ops };
static struct fm_file *tree_file;
/* why it refuses; -EBUSY: no memory is left for another transfer there */
static int own_code;

static int own_full(struct fm_err *err)
{
	return own_code == -EBUSY ? fm_err_full(err, "all memory is taken")
				  : fm_err_sys(err, own_code, "open it");
}

static int own_create_tree(struct fm_store *s, const char *path, const struct fm_who *who,
			   const struct fm_create_tree *how, struct fm_file **out,
			   struct fm_err *err)
{
	const struct fm_tree_file_opts o = { .tree = &tree };
	int ret = own_code ? own_full(err) : fm_tree_file_new(&o, &tree_file, err);

	(void)s;
	(void)path;
	(void)who;
	(void)how;
	*out = tree_file;
	return ret;
}

static void file_drop(struct fm_file *f)
{
	(void)f;
}

static const struct fm_file_ops file_ops = { .discard = file_drop, .close = file_drop };
static struct fm_file own_file = { .ops = &file_ops, .has_fixed_size = true };

static int own_create(struct fm_store *s, const char *path, const struct fm_who *who,
		      const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	(void)s;
	(void)path;
	(void)who;
	(void)how;
	*out = &own_file;
	return own_code ? own_full(err) : 0;
}

static int own_open_source(struct fm_store *s, const char *path, const struct fm_who *who,
			   struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	(void)s;
	(void)path;
	(void)who;
	*attr = (struct fm_attr){ .type = FM_NODE_FILE, .size = 1 << 20 };
	*out = &own_file;
	return own_code ? own_full(err) : 0;
}

static int own_open_tree(struct fm_store *s, const char *path, const struct fm_who *who,
			 const char *const *excludes, struct fm_file **out, struct fm_attr *attr,
			 struct fm_err *err)
{
	(void)excludes;
	return own_open_source(s, path, who, out, attr, err);
}

/* Everything is corrupt, and has the longest of names. */
static int own_verify(struct fm_store *s, const char *path, const struct fm_who *who,
		      struct fm_verify *v, struct fm_err *err)
{
	(void)s;
	(void)path;
	(void)who;
	(void)err;
	for (unsigned i = 0; i < FM_VERIFY_FINDINGS_MAX; i++) {
		struct fm_finding *f = calloc(1, sizeof(*f) + FM_WIRE_PATH_MAX + 1);

		CU_ASSERT_PTR_NOT_NULL_FATAL(f);
		f->kind = FM_FINDING_CORRUPT;
		memset(f->path, 'x', FM_WIRE_PATH_MAX);
		fm_list_append(&v->findings, &f->at);
		v->waiting++;
	}
	return 0;
}

static void own_free(struct fm_store *s)
{
	(void)s;
}

static const struct fm_store_ops own_ops = {.open_source = own_open_source,
					    .open_tree = own_open_tree,
					    .create = own_create,
					    .create_tree = own_create_tree,
					    .verify = own_verify,
					    .free = own_free};
static struct fm_store own_store = { .ops = &own_ops, .name = "own" };

static void begin_with_own_store(void)
{
	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_store(engine, &own_store, NULL), 0);
}

/* What a peer hears of its store's code, of whatever it wants to move, and whether it may ask
 * again. */
static void refuses_with(int code, int heard, bool may_ask_again)
{
	struct fm_wire_msg m[] = {
		{.type = FM_WIRE_PUT, .put = {.xfer = 2, .chunk = 4096, .size = 10}},
		{.type = FM_WIRE_PUT,
		 .put = {.xfer = 4,
			 .chunk = 4096,
			 .size = FM_WIRE_SIZE_UNKNOWN,
			 .flags = FM_WIRE_PUT_TREE}},
		{.type = FM_WIRE_GET, .get = {.xfer = 6, .chunk = 4096, .flags = FM_WIRE_GET_TCP}},
		{.type = FM_WIRE_GET,
		 .get = {.xfer = 8, .chunk = 4096, .flags = FM_WIRE_GET_TCP | FM_WIRE_GET_TREE}},
	};

	begin_with_own_store();
	own_code = code;
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++) {
		if (m[i].type == FM_WIRE_PUT) {
			m[i].put.store = fm_wire_str("own");
			m[i].put.path = fm_wire_str("x");
		} else {
			m[i].get.store = fm_wire_str("own");
			m[i].get.path = fm_wire_str("x");
		}
		last.type = 0;
		say(&m[i]);
		CU_ASSERT_TRUE(last.type == FM_WIRE_ABORT && last.abort.code == (uint32_t)-heard);
		CU_ASSERT_EQUAL((last.abort.flags & FM_WIRE_ABORT_FULL) != 0, may_ask_again);
	}
	own_code = 0;
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

static int own_space(struct fm_store *s, const struct fm_who *who, struct fm_store_space *out,
		     struct fm_err *err)
{
	(void)s;
	(void)who;
	(void)err;
	*out = (struct fm_store_space){.size = 7};
	return 0;
}

/* Goal: one question about a store's room that has no answer yet says nothing of its file system
 * before a tick found so: this node itself may have stood still. */
static void test_room_asked_before(void)
{
	const struct fm_request_opts df = {.verb = FM_VERB_FREE,
					   .node = "a",
					   .store = "own",
					   .path = "",
					   .after = ""};
	struct fm_store_ops with_space = own_ops;
	struct fm_store_ref *ref;

	with_space.space = own_space;
	own_store.ops = &with_space;
	begin_with_own_store();
	ref = fm_engine_store_get(engine, "own", 3);
	CU_ASSERT_PTR_NOT_NULL_FATAL(ref);
	ref->room_asked = 1;
	ref->room_asked_ns = clock_now(NULL);
	moved_ns += 3 * FM_NS_PER_S;
	asked.code = 1;
	CU_ASSERT_EQUAL_FATAL(fm_request_start(engine, &df, on_asked, NULL, NULL), 0);
	spin();
	CU_ASSERT_EQUAL(asked.code, 0);
	ref->room_asked = 0;
	fm_engine_store_put(ref);
	end();
	own_store.ops = &own_ops;
}

/*
 * Goal: a peer hears that it may ask again where the store finds that nothing is left for it, or
 * has no descriptor just now; not where it is refused for good.
 */
static void test_a_full_store(void)
{
	refuses_with(-EBUSY, -EBUSY, true);
	refuses_with(-EMFILE, -EBUSY, true);
	refuses_with(-ENFILE, -EBUSY, true);
	refuses_with(-ENOMEM, -ENOMEM, false);
	refuses_with(-EACCES, -EPERM, false);	/* of no rule */
}

static void on_written(struct fm_io *io)
{
	(void)io;
}

/* b puts a tree, a part of which hangs on its way to the disk, if that is wanted; for so many
 * seconds nothing else happens. */
static void put_tree(bool is_hanging, bool is_callers, unsigned seconds)
{
	struct fm_loop_opts lo = { .is_simulated = true, .clock = &test_clock };
	struct fm_wire_msg put = { .type = FM_WIRE_PUT };
	struct fm_lane_io lane = { 0 };
	static char byte;
	static struct fm_io io;

	begin_with_own_store();
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&lo, &disk, NULL), 0);
	lane.loop = disk;
	io = (struct fm_io){ .done = on_written, .buf = &byte, .len = 1 };
	tree.is_callers = is_callers;
	put.put = (struct fm_wire_put){.xfer = 2,
				       .flags = FM_WIRE_PUT_TREE,
				       .size = FM_WIRE_SIZE_UNKNOWN,
				       .chunk = 4096,
				       .store = fm_wire_str("own"),
				       .path = fm_wire_str("x")};
	say(&put);
	/* behind READY */
	CU_ASSERT_EQUAL_FATAL(last.type, is_callers ? FM_WIRE_WINDOW : FM_WIRE_READY);
	if (is_hanging)
		tree_file->ops->write(tree_file, &lane, &io);
	for (unsigned i = 0; i < seconds && !aborted; i++)
		live_on(NULL);
	CU_ASSERT_FALSE(ctl.is_closed);
}

static void end_with_disk(void)
{
	end();
	fm_loop_free(disk);
}

/* Goal: a directory whose disk hangs for ever ends by itself; one that waits for its far end, or
 * for a client, does not. */
static void test_tree_on_a_disk_that_hangs(void)
{
	put_tree(true, false, 290);
	CU_ASSERT_EQUAL(aborted, 0);
	for (unsigned i = 0; i < 20; i++)
		live_on(NULL);
	CU_ASSERT_EQUAL(aborted, ETIMEDOUT);
	end_with_disk();

	put_tree(false, false, 400);
	CU_ASSERT_EQUAL(aborted, 0);
	end_with_disk();

	put_tree(true, true, 400);
	CU_ASSERT_EQUAL(aborted, 0);
	end_with_disk();
}

/*
 * Goal: a file that has its room and of which nothing comes does not keep it for ever, though its
 * peer lives.
 */
static void test_file_of_which_nothing_comes(void)
{
	struct fm_wire_msg put = { .type = FM_WIRE_PUT };

	begin_with_own_store();
	put.put = (struct fm_wire_put){ .xfer = 2,
					.size = 1 << 20,
					.chunk = 4096,
					.store = fm_wire_str("own"),
					.path = fm_wire_str("x") };
	say(&put);
	CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_READY);
	for (unsigned i = 0; i < 290; i++)
		live_on(NULL);
	CU_ASSERT_EQUAL(aborted, 0);
	for (unsigned i = 0; i < 20; i++)
		live_on(NULL);
	CU_ASSERT_EQUAL(aborted, ETIMEDOUT);
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

/* Goal: a sink that never says what is there and that it has room ends its get, and it is the one
 * that is named. */
static void test_get_that_is_never_ready(void)
{
	struct fm_wire_msg get = { .type = FM_WIRE_GET };

	begin_with_own_store();
	get.get = (struct fm_wire_get){ .xfer = 2,
					.chunk = 4096,
					.flags = FM_WIRE_GET_TCP | FM_WIRE_GET_RESUME,
					.store = fm_wire_str("own"),
					.path = fm_wire_str("x") };
	say(&get);
	CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_FOUND);
	for (unsigned i = 0; i < 70; i++)
		live_on(NULL);
	CU_ASSERT_EQUAL(aborted, ETIMEDOUT);
	CU_ASSERT_STRING_EQUAL(abort_text, "b did not open the file in time");
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

/* Goal: of a store that has no descriptors, ranges are refused, and the session lives. */
static void test_ranges_of_whole_files(void)
{
	uint8_t ranges[FM_WIRE_RANGE_LEN];
	struct fm_wire_msg get = { .type = FM_WIRE_GET };

	begin_with_own_store();
	fm_wire_set_range(ranges, 0, (struct fm_wire_range){0, 1});
	get.get = (struct fm_wire_get){.xfer = 2,
				       .chunk = 4096,
				       .flags = FM_WIRE_GET_TCP,
				       .store = fm_wire_str("own"),
				       .path = fm_wire_str("x"),
				       .range_count = 1,
				       .ranges = ranges};
	say(&get);
	CU_ASSERT_EQUAL(aborted, EOPNOTSUPP);
	CU_ASSERT_STRING_EQUAL(abort_text, "store own gives whole files only");
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

/* Goal: a get over connections that are not there, which its peer asks for, does not wait for ever,
 * and names them. */
static void test_get_over_no_such_way(void)
{
	struct fm_wire_msg get = { .type = FM_WIRE_GET };

	begin_with_own_store();
	engine->o.stall_ns = 10 * FM_NS_PER_S;
	get.get = (struct fm_wire_get){.xfer = 2,
				       .chunk = 4096,
				       .flags = FM_WIRE_GET_TCP | FM_WIRE_GET_ONLY,
				       .store = fm_wire_str("own"),
				       .path = fm_wire_str("x"),
				       .conns = 2,
				       .way_count = 1,
				       .way = {{4, {10, 0, 0, 1}, {10, 0, 0, 2}}}};
	say(&get);
	CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_FOUND);
	for (unsigned i = 0; i < 20; i++)
		live_on(NULL);
	CU_ASSERT_EQUAL(aborted, EHOSTUNREACH);
	CU_ASSERT_PTR_NOT_NULL(strstr(abort_text, "no connection for the data: "));
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

/* Goal: findings of several verifications that end together never close the session, however slowly
 * the peer reads; it gets them all. */
static void test_many_findings_at_once(void)
{
	struct fm_wire_msg verify = { .type = FM_WIRE_VERIFY };
	const unsigned all = VERIFICATIONS_OF_ONE * FM_VERIFY_FINDINGS_MAX;

	begin_with_own_store();
	verify.verify =
		(struct fm_wire_verify){.store = fm_wire_str("own"), .path = fm_wire_str("x")};
	ctl.is_unread = true;
	for (verify.verify.id = 2; verify.verify.id < 2 + VERIFICATIONS_OF_ONE; verify.verify.id++)
		say_at_once(&verify);
	spin();
	CU_ASSERT_FALSE_FATAL(ctl.is_closed);
	CU_ASSERT_TRUE(findings > 0 && findings < all);
	for (unsigned i = 0; i < 60 && verdicts < VERIFICATIONS_OF_ONE; i++) {
		ctl.queued = 0;
		live_on(NULL);
	}
	CU_ASSERT_FALSE(ctl.is_closed);
	CU_ASSERT_EQUAL(findings, all);
	CU_ASSERT_EQUAL(verdicts, VERIFICATIONS_OF_ONE);
	end();

	/* The session ends, or the peer gives one up, with most of it unsaid. */
	begin_with_own_store();
	ctl.is_unread = true;
	for (verify.verify.id = 2; verify.verify.id < 2 + VERIFICATIONS_OF_ONE; verify.verify.id++)
		say_at_once(&verify);
	spin();
	say(&(struct fm_wire_msg){
		.type = FM_WIRE_ABORT,
		.abort = {.xfer = 3, .code = ECANCELED, .text = fm_wire_str("")}});
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

/* ---- what nodes say of volumes ---- */

static void test_volumes_asked(void)
{
	const struct fm_wire_msg ask = { .type = FM_WIRE_VOLUMES_ASK, .volumes_ask = { .id = 5 } };

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	volumes_here = volumes_said = 0;
	say(&ask);
	CU_ASSERT_TRUE_FATAL(last.type == FM_WIRE_VOLUMES && last.volumes.id == 5);
	CU_ASSERT_TRUE(last.volumes.code == ENOENT && last.volumes.count == 0);
	volumes_here = 2 * FM_WIRE_VOLUMES_MAX + 1;
	say(&ask);
	CU_ASSERT_EQUAL(volumes_said, volumes_here);
	CU_ASSERT_TRUE_FATAL(last.type == FM_WIRE_VOLUMES && last.volumes.count == 1 &&
			     last.volumes.flags == 0);
	CU_ASSERT_EQUAL(last.volumes.volume[0].state,
			FM_WIRE_VOLUME_MOUNTED | FM_WIRE_VOLUME_READ_WRITE);
	CU_ASSERT_EQUAL(last.volumes.volume[0].epoch, volumes_here - 1);
	end();
}

/* What others made this node say ends the session, and nothing else. */
static void test_cannot_be_said(void)
{
	const struct fm_wire_msg ask = { .type = FM_WIRE_VOLUMES_ASK, .volumes_ask = { .id = 5 } };

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	volumes_here = 2;
	is_odd_here = true;
	volumes_said = 0;
	say(&ask);
	is_odd_here = false;
	CU_ASSERT_EQUAL(volumes_said, 0);
	CU_ASSERT_TRUE(ctl.is_closed);
	end();
}

static struct {
	unsigned answers, volumes, dones;
	int code;
	struct fm_volume_said first;
} heard;

static void on_volumes(void *ctx, const struct fm_volumes_answer *answer)
{
	(void)ctx;
	CU_ASSERT_STRING_EQUAL(answer->node, "b");
	heard.answers++;
	heard.volumes += answer->count;
	heard.code = answer->err ? answer->err->code : 0;
	if (answer->count > 0)
		heard.first = answer->volumes[0];
}

static void on_volumes_done(void *ctx)
{
	(void)ctx;
	heard.dones++;
}

static const struct fm_volumes_events volumes_events = { on_volumes, on_volumes_done };

static void ask_volumes(void)
{
	memset(&heard, 0, sizeof(heard));
	CU_ASSERT_EQUAL_FATAL(fm_volumes_ask(engine, 1000, &volumes_events, NULL, NULL), 0);
	spin();
}

static void test_volumes_answers(void)
{
	struct fm_wire_msg m = { .type = FM_WIRE_VOLUMES };

	begin();
	/* Before it is connected nobody is waited for. */
	ask_volumes();
	CU_ASSERT_TRUE(heard.answers == 1 && heard.code == -EHOSTUNREACH && heard.dones == 1);
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	ask_volumes();
	CU_ASSERT_TRUE_FATAL(last.type == FM_WIRE_VOLUMES_ASK && heard.dones == 0);
	m.volumes = (struct fm_wire_volumes){.flags = FM_WIRE_VOLUMES_MORE,
					     .id = last.volumes_ask.id,
					     .count = 1,
					     .text = fm_wire_str("")};
	m.volumes.volume[0] = (struct fm_wire_volume){FM_WIRE_VOLUME_SEALED, 7,
						      fm_wire_str("v"),	     fm_wire_str("disk"),
						      fm_wire_str("w"),	     fm_wire_str("b")};
	say(&m);
	CU_ASSERT_TRUE(heard.volumes == 1 && heard.dones == 0);
	m.volumes.flags = 0;
	say(&m);
	CU_ASSERT_TRUE(heard.answers == 2 && heard.volumes == 2 && heard.dones == 1);
	CU_ASSERT_TRUE(heard.first.is_sealed && !heard.first.is_mounted && heard.first.epoch == 7);
	CU_ASSERT_STRING_EQUAL(heard.first.subsystem, "disk");
	say(&m);	/* too late, or never asked */
	CU_ASSERT_EQUAL(heard.answers, 2);
	/* No end of it. */
	ask_volumes();
	m.volumes.id = last.volumes_ask.id;
	m.volumes.flags = FM_WIRE_VOLUMES_MORE;
	for (unsigned i = 0; i < 300 && heard.dones == 0; i++)
		say(&m);
	CU_ASSERT_TRUE(heard.dones == 1 && heard.code == -EPROTO &&
		       heard.volumes == FM_VOLUMES_SAID_MAX);
	/* Silence. */
	ask_volumes();
	for (unsigned i = 0; i < 5; i++)
		live_on(NULL);
	CU_ASSERT_TRUE(heard.dones == 1 && heard.code == -ETIMEDOUT);
	CU_ASSERT_FALSE(ctl.is_closed);
	/* It goes, and so do we. */
	ask_volumes();
	ctl_events->closed(ctl_ctx, &(struct fm_err){ .code = -ECONNRESET, .text = "gone" });
	spin();
	CU_ASSERT_TRUE(heard.dones == 1 && heard.code == -ECONNRESET);
	/* Asked and stopped before anybody could be: that is not "nothing is mounted". */
	memset(&heard, 0, sizeof(heard));
	CU_ASSERT_EQUAL_FATAL(fm_volumes_ask(engine, 1000, &volumes_events, NULL, NULL), 0);
	end();
	CU_ASSERT_TRUE(heard.answers == 1 && heard.code == -EHOSTDOWN && heard.dones == 1);
}

static unsigned ask_as(uid_t uid)
{
	struct fm_err err;
	unsigned n = 0;

	while (fm_volumes_ask(engine, uid, &volumes_events, NULL, &err) == 0)
		n++;
	CU_ASSERT_EQUAL(err.code, -EBUSY);
	return n;
}

/* Goal: who asks for volumes again and again does not make fmove-nvmed, which is root, blind. */
static void test_volumes_are_asked_for_root(void)
{
	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	CU_ASSERT_EQUAL(ask_as(1000), (FM_VOLUME_ASKS_MAX - FM_VOLUME_ASKS_ROOT) / 2);
	for (uid_t uid = 1001; uid < 1020; uid++)
		(void)ask_as(uid);
	CU_ASSERT_TRUE(ask_as(0) >= FM_VOLUME_ASKS_ROOT);
	spin();
	end();
}

/* ---- facts ---- */

static void ask_for_facts(void)
{
	static uint64_t id = 5;

	facts_said = 0;
	say(&(struct fm_wire_msg){ .type = FM_WIRE_FACTS_ASK, .facts_ask = { .id = ++id } });
}

static void test_facts_asked(void)
{
	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	facts_read = 0;
	facts_here = 0;
	ask_for_facts();
	CU_ASSERT_TRUE(last.type == FM_WIRE_FACTS && last.facts.code == EIO && facts_read == 1);
	/* In pieces; who asks a moment later gets the same ones. */
	facts_here = 3 * FM_WIRE_FACTS_MAX + 1;
	ask_for_facts();
	CU_ASSERT_TRUE(facts_read == 2 && facts_said == facts_here);
	CU_ASSERT_TRUE_FATAL(last.type == FM_WIRE_FACTS && last.facts.flags == 0 &&
			     last.facts.piece.len == 1);
	CU_ASSERT_EQUAL(*last.facts.piece.at, 'c');
	ask_for_facts();
	CU_ASSERT_TRUE(facts_read == 2 && facts_said == facts_here);
	for (unsigned i = 0; i < 3; i++)
		live_on(NULL);
	ask_for_facts();
	CU_ASSERT_TRUE(facts_read == 3 && *last.facts.piece.at == 'd');
	/* The configuration says no. */
	for (unsigned i = 0; i < 3; i++)
		live_on(NULL);
	facts_code = -EACCES;
	ask_for_facts();
	facts_code = 0;
	CU_ASSERT_TRUE(last.facts.code == EACCES && facts_read == 3 && facts_said == 0);
	CU_ASSERT_FALSE(ctl.is_closed);
	end();
}

static uint32_t hung_code[2];

/* It does not come back: who waits is refused, and who asks then is refused at once. */
static void hang(void)
{
	static uint8_t buf[FM_WIRE_MSG_MAX];
	const struct fm_wire_msg ask = {.type = FM_WIRE_FACTS_ASK, .facts_ask = {.id = 1000}};

	fm_node_facts_service.tick(engine, clock_now(NULL) + 16 * FM_NS_PER_S);
	hung_code[0] = last.facts.code;
	ctl_events->message(ctl_ctx, buf, fm_wire_encode(&ask, buf));
	hung_code[1] = last.type == FM_WIRE_FACTS && last.facts.id == 1000 ? last.facts.code : 0;
}

/* Goal: a reading that hangs holds no peer and no second worker, and is forgotten afterwards. */
static void test_facts_hang(void)
{
	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	facts_read = 0;
	facts_here = 1;
	facts_hang = hang;
	ask_for_facts();
	facts_hang = NULL;
	CU_ASSERT_EQUAL(hung_code[0], ETIMEDOUT);
	CU_ASSERT_EQUAL(hung_code[1], ETIMEDOUT);
	CU_ASSERT_EQUAL(facts_read, 1);
	ask_for_facts();
	CU_ASSERT_TRUE(last.type == FM_WIRE_FACTS && last.facts.code == 0 && facts_said == 1);
	end();
}

/* Goal: a peer that asks and does not read costs one answer, loses no session, and holds up nobody
 * for long. */
static void test_facts_unread(void)
{
	unsigned before;

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	facts_read = 0;
	facts_here = FM_NODE_FACTS_BYTES_MAX;
	ctl.is_unread = true;
	ctl.queued = FM_CTL_QUEUE_MAX / 8 - 3 * FM_WIRE_FACTS_MAX;
	ask_for_facts();
	CU_ASSERT_TRUE(facts_said > 0 && facts_said < facts_here);
	before = sent;
	ask_for_facts();	/* while the first is under way */
	CU_ASSERT_TRUE(last.type == FM_WIRE_FACTS && last.facts.code == EBUSY &&
		       sent == before + 1);
	/* It reads on: the rest comes. */
	for (unsigned i = 0; i < 30 && last.facts.code == EBUSY; i++) {
		ctl.queued = 0;
		live_on(NULL);
		if (last.type != FM_WIRE_FACTS)
			continue;
		if (last.facts.flags == 0 && last.facts.code == 0)
			break;
	}
	CU_ASSERT_FALSE(ctl.is_closed);
	CU_ASSERT_EQUAL(facts_read, 1);
	/* It never does: the answer is given up, the session is not. */
	for (unsigned i = 0; i < 5; i++) {
		ctl.queued = 0;
		live_on(NULL);
	}
	ask_for_facts();
	for (unsigned i = 0; i < 20; i++)
		live_on(NULL);
	CU_ASSERT_FALSE(ctl.is_closed);
	ctl.queued = 0;
	ask_for_facts();
	CU_ASSERT_TRUE(last.type == FM_WIRE_FACTS && last.facts.code == 0);
	end();	/* in the midst of it */
}

/* Goal: while a peer reads what it was told some time ago another one is told what is so now, and
 * the first one gets its own to the end. */
static void test_facts_asked_while_sent(void)
{
	static struct fm_ctl other;
	const struct fm_peer_opts third = { .name = "c", .key = { 3 } };
	const struct fm_ctl_events *slow_events;
	struct fm_wire_msg hello = { .type = FM_WIRE_HELLO };
	struct fm_wire_msg pong = { .type = FM_WIRE_PONG };
	uint8_t buf[FM_WIRE_MSG_MAX];
	void *slow_ctx;
	char slow;

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	facts_read = 0;
	facts_here = FM_NODE_FACTS_BYTES_MAX;
	ctl.is_unread = true;
	ctl.queued = FM_CTL_QUEUE_MAX / 8 - 3 * FM_WIRE_FACTS_MAX;
	ask_for_facts();
	CU_ASSERT_TRUE(facts_said > 0 && facts_said < facts_here);
	slow = *last.facts.piece.at;
	slow_events = ctl_events;
	slow_ctx = ctl_ctx;
	moved_ns += 3 * FM_NS_PER_S;

	other = (struct fm_ctl){ 0 };
	CU_ASSERT_EQUAL_FATAL(fm_engine_set_peer(engine, &third, NULL), 0);
	CU_ASSERT_TRUE_FATAL(
		net_events->accepted(net_ctx, &other, third.key, &ctl_events, &ctl_ctx));
	hello.hello = (struct fm_wire_hello){.version_min = FM_WIRE_VERSION,
					     .version_max = FM_WIRE_VERSION,
					     .boot_id = {8},
					     .name = fm_wire_str("c")};
	say(&hello);
	ask_for_facts();
	CU_ASSERT_TRUE(facts_read == 2 && facts_said == facts_here);
	CU_ASSERT_NOT_EQUAL(*last.facts.piece.at, slow);
	/* The configuration has changed: those who ask from now on hear so. */
	moved_ns += 3 * FM_NS_PER_S;
	say(&pong);
	facts_code = -EACCES;
	ask_for_facts();
	facts_code = 0;
	CU_ASSERT_TRUE(last.facts.code == EACCES && facts_read == 2);

	ctl.is_unread = false;
	ctl.queued = 0;
	slow_events->message(slow_ctx, buf, fm_wire_encode(&pong, buf));
	fm_node_facts_service.tick(engine, clock_now(NULL));
	CU_ASSERT_TRUE(last.type == FM_WIRE_FACTS && last.facts.code == 0 && last.facts.flags == 0);
	CU_ASSERT_TRUE(last.facts.piece.len > 0 && *last.facts.piece.at == slow);
	end();
}

static struct {
	unsigned answers, dones;
	size_t bytes;
	int code;
} told;

static void on_facts_answer(void *ctx, const struct fm_node_facts_answer *answer)
{
	(void)ctx;
	CU_ASSERT_STRING_EQUAL(answer->node, "b");
	told.answers++;
	told.bytes += answer->len;
	told.code = answer->err ? answer->err->code : 0;
}

static void on_facts_done(void *ctx)
{
	(void)ctx;
	told.dones++;
}

static int ask_facts(const char *node, struct fm_err *err)
{
	static const struct fm_node_facts_events events = { on_facts_answer, on_facts_done };
	int ret;

	memset(&told, 0, sizeof(told));
	fm_err_clear(err);
	ret = fm_node_facts_ask(engine, 1000, node, &events, NULL, err);
	spin();
	return ret;
}

static void test_facts_answers(void)
{
	static char piece[FM_WIRE_FACTS_MAX + 1];
	struct fm_wire_msg m = { .type = FM_WIRE_FACTS };
	struct fm_err err;

	memset(piece, '{', FM_WIRE_FACTS_MAX);
	begin();
	CU_ASSERT_EQUAL(ask_facts("c", &err), -ENOENT);
	CU_ASSERT_EQUAL(ask_facts("b", &err), 0);
	CU_ASSERT_TRUE(told.answers == 1 && told.code == -EHOSTUNREACH && told.dones == 1);
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	CU_ASSERT_EQUAL(ask_facts(NULL, &err), 0);
	CU_ASSERT_TRUE_FATAL(last.type == FM_WIRE_FACTS_ASK && told.dones == 0);
	m.facts = (struct fm_wire_facts){.flags = FM_WIRE_FACTS_MORE,
					 .id = last.facts_ask.id,
					 .text = fm_wire_str(""),
					 .piece = fm_wire_str(piece)};
	say(&m);
	CU_ASSERT_TRUE(told.answers == 1 && told.dones == 0);
	m.facts.flags = 0;
	say(&m);
	CU_ASSERT_TRUE(told.bytes == 2 * FM_WIRE_FACTS_MAX && told.dones == 1 && told.code == 0);
	say(&m);	/* too late, or never asked */
	CU_ASSERT_EQUAL(told.answers, 2);
	/* No end of it. */
	CU_ASSERT_EQUAL(ask_facts("b", &err), 0);
	m.facts.id = last.facts_ask.id;
	m.facts.flags = FM_WIRE_FACTS_MORE;
	for (unsigned i = 0; i < 300 && told.dones == 0; i++)
		say(&m);
	CU_ASSERT_TRUE(told.dones == 1 && told.code == -EPROTO &&
		       told.bytes == FM_NODE_FACTS_BYTES_MAX);
	/* It refuses. */
	CU_ASSERT_EQUAL(ask_facts("b", &err), 0);
	m.facts = (struct fm_wire_facts){.id = last.facts_ask.id,
					 .code = EACCES,
					 .text = fm_wire_str("no"),
					 .piece = fm_wire_str("")};
	say(&m);
	CU_ASSERT_TRUE(told.dones == 1 && told.code == -EACCES);
	/* Silence. */
	CU_ASSERT_EQUAL(ask_facts("b", &err), 0);
	for (unsigned i = 0; i < 25; i++)
		live_on(NULL);
	CU_ASSERT_TRUE(told.dones == 1 && told.code == -ETIMEDOUT);
	CU_ASSERT_FALSE(ctl.is_closed);
	/* It goes, and so do we. */
	CU_ASSERT_EQUAL(ask_facts("b", &err), 0);
	ctl_events->closed(ctl_ctx, &(struct fm_err){ .code = -ECONNRESET, .text = "gone" });
	spin();
	CU_ASSERT_TRUE(told.dones == 1 && told.code == -ECONNRESET);
	end();
}

/* A PONG that echoes the PING in force says how long it took; any other says nothing. */
static void test_round_trip(void)
{
	struct fm_wire_msg pong = { .type = FM_WIRE_PONG };
	const struct fm_peer *peer;

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	peer = fm_engine_peer(engine, "b");
	live_on(NULL);
	live_on(NULL);
	CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_PING);
	pong.ping.nonce = last.ping.nonce + 1;
	say(&pong);
	CU_ASSERT_EQUAL(peer->session->round_trip_ns, 0);
	pong.ping.nonce = last.ping.nonce;
	moved_ns += 700000;
	spin();
	say(&pong);
	CU_ASSERT_EQUAL(peer->session->round_trip_ns, 700000);
	end();
}

/* Goal: a token is good for the peer it was given to, once. Method: another key that is known, the
 * peer's own, the same again. */
static void test_tokens_are_the_peers(void)
{
	struct fm_wire_msg m = { .type = FM_WIRE_TOKENS_WANT };
	const uint8_t other[FM_KEY_LEN] = { 3 }, peer[FM_KEY_LEN] = { 2 };
	uint8_t token[2][FM_TOKEN_LEN];
	struct fm_err why = { 0 };
	void *tag = NULL;

	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	m.tokens.count = 2;
	say(&m);
	CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_TOKENS);
	memcpy(token, last.tokens.token, sizeof(token));
	CU_ASSERT_PTR_NULL(net_events->token(net_ctx, token[0], FM_KIND_TCP, other, &tag, &why));
	CU_ASSERT_PTR_NOT_NULL(net_events->token(net_ctx, token[0], FM_KIND_TCP, peer, &tag, NULL));
	net_events->arrived(net_ctx, tag, NULL);
	CU_ASSERT_PTR_NULL(net_events->token(net_ctx, token[0], FM_KIND_TCP, peer, &tag, &why));
	CU_ASSERT_EQUAL(why.code, 0);
	/* A plain connection, or RDMA, proves no key. */
	CU_ASSERT_PTR_NOT_NULL(net_events->token(net_ctx, token[1], FM_KIND_TCP, NULL, &tag, NULL));
	net_events->arrived(net_ctx, tag, NULL);
	end();
}

enum { CONNS = FM_WIRE_TOKENS_MAX };

static struct fm_err refused;		/* why the last one was */

/* As many connections of the peer begin as it gets memory for, of CONNS. */
static unsigned conns_begin(void *tag[static CONNS])
{
	struct fm_wire_msg m = { .type = FM_WIRE_TOKENS_WANT };
	const uint8_t peer[FM_KEY_LEN] = { 2 };
	static struct fm_wire_tokens tokens;
	unsigned count = 0;

	m.tokens.count = CONNS;
	say(&m);
	CU_ASSERT_EQUAL_FATAL(last.type, FM_WIRE_TOKENS);
	tokens = last.tokens;
	for (unsigned i = 0; i < CONNS; i++)
		count += net_events->token(net_ctx, tokens.token[i], FM_KIND_TCP, peer,
					   &tag[count], &refused) != NULL;
	return count;
}

static unsigned count_in(int fd, const char *text)
{
	static char all[65536];
	unsigned count = 0;

	CU_ASSERT_TRUE(pread(fd, all, sizeof(all) - 1, 0) > 0);
	for (const char *at = all; (at = strstr(at, text)); at++)
		count++;
	return count;
}

/*
 * Goal:   one peer's data connections take half of the memory that there is, whatever it asks for,
 *         and what did not come about is given back.
 *         The log says what is short, once.
 * Method: little memory; one after the other begins, then some end and others begin; the session
 *         ends with some that are still arriving.
 */
static void test_conns_share_memory(void)
{
	int log = memfd_create("log", MFD_CLOEXEC), stderr_was = dup(STDERR_FILENO);
	void *tag[CONNS], *again[CONNS];
	unsigned count;

	fm_budget_set(16u << 20);
	begin();
	say_hello(FM_WIRE_VERSION, FM_WIRE_VERSION);
	CU_ASSERT_EQUAL(dup2(log, STDERR_FILENO), STDERR_FILENO);
	count = conns_begin(tag);
	CU_ASSERT_TRUE(count > 8 && count < CONNS);
	CU_ASSERT_EQUAL(refused.code, -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(refused.text, "raise memory.total"));
	CU_ASSERT_TRUE(count * (uint64_t)FM_TLS_DATA_BYTES <= fm_budget_most() / 2);
	CU_ASSERT_EQUAL(conns_begin(again), 0);
	CU_ASSERT_EQUAL(dup2(stderr_was, STDERR_FILENO), STDERR_FILENO);
	CU_ASSERT_EQUAL(count_in(log, "a data connection is refused: "), 1);
	close(log);
	close(stderr_was);
	for (unsigned i = 0; i < 4; i++)
		net_events->arrived(net_ctx, tag[i], NULL);
	CU_ASSERT_EQUAL(conns_begin(again), 4);
	for (unsigned i = 0; i < 4; i++)
		net_events->arrived(net_ctx, again[i], NULL);
	end();
	fm_budget_set(UINT64_MAX);
}

static const struct fm_test tests[] = {
	{"one peer's connections have a share of the memory", test_conns_share_memory},
	{"users cannot keep root from asking for volumes", test_volumes_are_asked_for_root},
	{"a token is good for the peer that it was given to", test_tokens_are_the_peers},
	{"facts: in pieces, one reading for all who ask, or why not", test_facts_asked},
	{"facts whose reading hangs", test_facts_hang},
	{"an answer that is lost", test_an_answer_lost},
	{"facts for a peer that does not read", test_facts_unread},
	{"facts while another one is sent older ones", test_facts_asked_while_sent},
	{"a peer lists in order, or in vain", test_a_list_in_order},
	{"facts of a peer: in pieces, without end, refused, silence, gone", test_facts_answers},
	{"how long a PING took", test_round_trip},
	{"what this node says of volumes: all of it, or why not", test_volumes_asked},
	{"a message that breaks the protocol is not sent, and ends its session",
	 test_cannot_be_said},
	{"what a peer says of volumes, in time and within limits", test_volumes_answers},
	{"a peer that speaks other versions only is told which, and what to do",
	 test_other_version},
	{"a newer peer that still knows our version is welcome", test_newer_that_knows_ours},
	{"nothing is taken before HELLO", test_before_hello},
	{"bytes that are no message end the session with a word", test_garbage},
	{"a second HELLO ends the session", test_hello_twice},
	{"a put into a store that is not there is refused, and the session goes on", test_no_store},
	{"and that fills no log", test_log_of_peer},
	{"the log of jobs of a peer", test_log_of_peers_job},
	{"what this node stood still is no silence of its peer", test_stood_still},
	{"who is a little late after it waits as long", test_a_little_late_after_it},
	{"who stands still again and again waits three times", test_stood_still_often},
	{"of a peer that is full is said that it may be asked again", test_a_full_peer},
	{"who looks at what a peer has hears how its store is shared", test_a_shared_store},
	{"where a store has nothing left for a transfer its peer may ask again", test_a_full_store},
	{"an unanswered question about room alone makes no store silent", test_room_asked_before},
	{"half of everything is for other peers, also behind a reconnect", test_a_peers_share},
	{"what a peer gave up counts while it is still read", test_verifications_of_one_peer},
	{"a verification that a peer never answers ends", test_verifying_in_silence},
	{"a directory on a disk that hangs ends by itself", test_tree_on_a_disk_that_hangs},
	{"a file of which nothing comes ends", test_file_of_which_nothing_comes},
	{"a get whose sink is never ready ends", test_get_that_is_never_ready},
	{"ranges are refused where a store gives whole files only", test_ranges_of_whole_files},
	{"a get over connections that are not there ends", test_get_over_no_such_way},
	{"many findings at once wait for room in the session", test_many_findings_at_once},
};
FM_TEST_MAIN("session", tests)
