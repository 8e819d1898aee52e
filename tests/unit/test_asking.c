/* SPDX-License-Identifier: MIT */
/*
 * What is asked of peers: each of them is told of once with an end, whatever becomes of it, and
 * who asked hears that it is over once. The peers and their sessions are what the engine keeps of
 * them; nothing is sent. links: fm_services fm_store
 */
#include "tests/fm_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/node/node.h"
#include "mover/node/session.h"
#include "mover/services/asking.h"

#define PEERS 3
#define TIMEOUT_NS FM_NS_PER_S
#define SAID_MAX 10
#define PLACES 4

static uint64_t now_ns;

static uint64_t clock_now(void *ctx)
{
	(void)ctx;
	return FM_NS_PER_S + now_ns;
}

static const struct fm_clock test_clock = { clock_now, NULL };

static struct fm_loop *loop;
static struct fm_engine engine;
static struct fm_peer peers[PEERS];		/* "p0" is not connected */
static struct fm_session sessions[PEERS];
static uint64_t ids[PEERS];			/* of what each was asked last */
static struct fm_asking asking;
static struct fm_session *lost_in_send;		/* it ends when it is asked */

struct ask {
	struct fm_ask ask;
	unsigned number;			/* which of heard[] */
};

static struct heard {
	unsigned answers[PEERS], more[PEERS], failures[PEERS], dones;
	int code[PEERS];			/* of the last failure */
	char text[FM_ERR_TEXT_MAX];
} heard[PLACES];

static struct heard *heard_of(struct fm_ask *a)
{
	return &heard[fm_container_of(a, struct ask, ask)->number];
}

static void lose(struct fm_session *s)
{
	const struct fm_err err = { .code = -ECONNRESET, .text = "gone" };

	peers[s - sessions].session = NULL;
	fm_asking_session_lost(&asking, s, &err);
}

static void send_ask(struct fm_session *s, uint64_t id)
{
	ids[s - sessions] = id;
	if (s == lost_in_send)
		lose(s);
}

static void on_answer(struct fm_ask *a, const char *node, const struct fm_wire_msg *m, bool is_more)
{
	CU_ASSERT_EQUAL(m->type, FM_WIRE_VOLUMES);
	heard_of(a)->answers[node[1] - '0']++;
	heard_of(a)->more[node[1] - '0'] += is_more;
	CU_ASSERT_EQUAL(heard_of(a)->dones, 0);
}

static void on_failed(struct fm_ask *a, const char *node, const struct fm_err *err)
{
	heard_of(a)->failures[node[1] - '0']++;
	heard_of(a)->code[node[1] - '0'] = err->code;
	(void)snprintf(heard_of(a)->text, sizeof(heard_of(a)->text), "%s", err->text);
	CU_ASSERT_EQUAL(heard_of(a)->dones, 0);
}

/* Whoever hears it may end others, too. */
static void on_done(struct fm_ask *a)
{
	heard_of(a)->dones++;
	fm_asking_tick(&asking, 0);
	fm_asking_session_lost(&asking, &sessions[0], &(struct fm_err){ .code = -EIO });
}

static const struct fm_question question = {
	.places = {"places for questions of a test", PLACES, 0, 0, 0},
	.timeout_ns = TIMEOUT_NS,
	.ask_bytes = sizeof(struct ask),
	.said_max = SAID_MAX,
	.said_what = "things",
	.send = send_ask,
	.answer = on_answer,
	.failed = on_failed,
	.done = on_done,
};

static void spin(void)
{
	while (fm_loop_step(loop, 0))
		;
}

static void begin(void)
{
	struct fm_loop_opts lo = { .is_simulated = true, .clock = &test_clock };

	now_ns = 0;
	lost_in_send = NULL;
	memset(heard, 0, sizeof(heard));
	memset(&engine, 0, sizeof(engine));
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&lo, &loop, NULL), 0);
	engine.env.loop = loop;
	strcpy(engine.name, "us");
	fm_list_init(&engine.peers);
	for (unsigned i = 0; i < PEERS; i++) {
		peers[i] = (struct fm_peer){ .engine = &engine };
		memset(&sessions[i], 0, sizeof(sessions[i]));
		(void)snprintf(peers[i].name, sizeof(peers[i].name), "p%u", i);
		memcpy(sessions[i].name, peers[i].name, sizeof(peers[i].name));
		peers[i].session = i > 0 ? &sessions[i] : NULL;
		fm_list_append(&engine.peers, &peers[i].at);
	}
	strcpy(peers[0].last_error, "no route");
	fm_asking_init(&asking, &question);
}

static void end(void)
{
	spin();
	CU_ASSERT_TRUE(fm_asking_is_idle(&asking));
	fm_loop_free(loop);
}

static int try_to_ask(unsigned number, const char *node, struct fm_err *err)
{
	struct fm_ask *a;
	int ret = fm_asking_begin(&asking, &engine, 1000, node, &a, err);

	if (ret == 0)
		fm_container_of(a, struct ask, ask)->number = number;
	return ret;
}

static void ask(unsigned number, const char *node)
{
	CU_ASSERT_EQUAL_FATAL(try_to_ask(number, node, NULL), 0);
	spin();
}

static void say(unsigned peer, struct fm_ask_reply reply)
{
	const struct fm_wire_msg m = { .type = FM_WIRE_VOLUMES };

	fm_asking_heard(&asking, &sessions[peer], &m, &reply);
	spin();
}

/* Each of those that are connected was heard to its end. */
static bool is_over(unsigned number, unsigned answers1, unsigned answers2)
{
	const struct heard *h = &heard[number];

	return h->answers[1] == answers1 && h->answers[2] == answers2 && h->dones == 1 &&
	       h->failures[0] == 1 && h->code[0] == -EHOSTUNREACH;
}

static void test_all(void)
{
	begin();
	ask(0, NULL);
	CU_ASSERT_TRUE(heard[0].failures[0] == 1 && heard[0].dones == 0);
	CU_ASSERT_STRING_EQUAL(heard[0].text, "is not connected: no route");
	say(2, (struct fm_ask_reply){.id = ids[2], .said = 1, .is_more = true});
	say(1, (struct fm_ask_reply){.id = ids[1]});
	CU_ASSERT_TRUE(heard[0].answers[1] == 1 && heard[0].dones == 0);
	say(2, (struct fm_ask_reply){.id = ids[2], .said = SAID_MAX - 1});
	CU_ASSERT_TRUE(is_over(0, 1, 2) && heard[0].more[2] == 1 && heard[0].failures[2] == 0);
	end();
}

/* Of two questions each answer belongs to one, by its number and by who sent it. */
static void test_whose(void)
{
	uint64_t first;

	begin();
	ask(0, NULL);
	first = ids[1];
	ask(1, NULL);
	CU_ASSERT_NOT_EQUAL(first, ids[1]);
	say(1, (struct fm_ask_reply){.id = ids[1]});
	CU_ASSERT_TRUE(heard[0].answers[1] == 0 && heard[1].answers[1] == 1);
	say(2, (struct fm_ask_reply){.id = ids[2] + 1});	/* never asked */
	say(1, (struct fm_ask_reply){.id = first});
	say(1, (struct fm_ask_reply){.id = first});		/* once more */
	say(2, (struct fm_ask_reply){.id = ids[2]});
	CU_ASSERT_TRUE(is_over(1, 1, 1) && heard[0].dones == 0 && heard[0].answers[2] == 0);
	now_ns = TIMEOUT_NS;
	fm_asking_tick(&asking, FM_NS_PER_S + now_ns);
	spin();
	CU_ASSERT_TRUE(is_over(0, 1, 0) && heard[0].code[2] == -ETIMEDOUT);
	end();
}

static void test_silence(void)
{
	begin();
	ask(0, NULL);
	say(1, (struct fm_ask_reply){.id = ids[1], .is_more = true});
	now_ns = TIMEOUT_NS - 1;
	fm_asking_tick(&asking, FM_NS_PER_S + now_ns);
	spin();
	CU_ASSERT_TRUE(heard[0].failures[1] == 0 && heard[0].dones == 0);
	now_ns = TIMEOUT_NS;
	fm_asking_tick(&asking, FM_NS_PER_S + now_ns);
	/* Over, but not yet told: what comes now is too late, and so is another end of it. */
	fm_asking_tick(&asking, FM_NS_PER_S + now_ns);
	say(1, (struct fm_ask_reply){.id = ids[1]});
	lose(&sessions[2]);
	spin();
	CU_ASSERT_TRUE(is_over(0, 1, 0) && heard[0].failures[1] == 1 && heard[0].failures[2] == 1);
	CU_ASSERT_TRUE(heard[0].code[1] == -ETIMEDOUT && heard[0].code[2] == -ETIMEDOUT);
	CU_ASSERT_STRING_EQUAL(heard[0].text, "did not answer in time");
	say(2, (struct fm_ask_reply){.id = ids[2]});
	CU_ASSERT_EQUAL(heard[0].answers[2], 0);
	end();
}

static void test_lost(void)
{
	begin();
	/* Before it is asked: as one that is not connected. */
	CU_ASSERT_EQUAL_FATAL(try_to_ask(0, NULL, NULL), 0);
	lose(&sessions[1]);
	spin();
	CU_ASSERT_TRUE(heard[0].failures[1] == 1 && heard[0].code[1] == -EHOSTUNREACH);
	/* While the others wait: it is told at once, and they are still waited for. */
	peers[1].session = &sessions[1];
	ask(1, NULL);
	lose(&sessions[1]);
	spin();
	CU_ASSERT_TRUE(heard[1].code[1] == -ECONNRESET && heard[1].dones == 0);
	/* In the midst of its answer. Both questions were its. */
	say(2, (struct fm_ask_reply){.id = ids[2], .is_more = true});
	lose(&sessions[2]);
	spin();
	CU_ASSERT_TRUE(is_over(0, 0, 0) && heard[0].code[2] == -ECONNRESET);
	CU_ASSERT_TRUE(is_over(1, 0, 1) && heard[1].code[2] == -ECONNRESET);
	end();
}

/* To send may end the session: it is told of once, and the question is over once all were asked. */
static void test_lost_in_send(void)
{
	begin();
	lost_in_send = &sessions[1];
	ask(0, NULL);
	CU_ASSERT_TRUE(heard[0].failures[1] == 1 && heard[0].code[1] == -ECONNRESET);
	CU_ASSERT_EQUAL(heard[0].dones, 0);
	lost_in_send = &sessions[2];
	ask(1, "p2");
	CU_ASSERT_TRUE(heard[1].failures[2] == 1 && heard[1].dones == 1);
	CU_ASSERT_TRUE(is_over(0, 0, 0) && heard[0].failures[2] == 1);
	end();
}

static void test_refused(void)
{
	const struct fm_wire_str no = fm_wire_str("nobody is here");

	begin();
	ask(0, NULL);
	say(1, (struct fm_ask_reply){.id = ids[1], .code = ENOENT, .text = no, .is_more = true});
	CU_ASSERT_TRUE(heard[0].code[1] == -ENOENT && heard[0].answers[1] == 0);
	CU_ASSERT_STRING_EQUAL(heard[0].text, "nobody is here");
	say(2, (struct fm_ask_reply){.id = ids[2], .said = SAID_MAX, .is_more = true});
	say(2, (struct fm_ask_reply){.id = ids[2], .said = 1, .is_more = true});
	CU_ASSERT_TRUE(is_over(0, 0, 1) && heard[0].code[2] == -EPROTO);
	CU_ASSERT_STRING_EQUAL(heard[0].text, "says more than 10 things");
	end();
}

static void test_one(void)
{
	struct fm_err err = { 0 };

	begin();
	CU_ASSERT_EQUAL(try_to_ask(0, "p9", &err), -ENOENT);
	CU_ASSERT_STRING_EQUAL(err.text, "us has no peer \"p9\"");
	ask(0, "p1");
	CU_ASSERT_TRUE(sessions[1].next_id == 1 && sessions[2].next_id == 0);
	say(1, (struct fm_ask_reply){.id = ids[1]});
	CU_ASSERT_TRUE(heard[0].answers[1] == 1 && heard[0].failures[0] == 0);
	CU_ASSERT_EQUAL(heard[0].dones, 1);
	end();
}

/* Goal: what could not be begun takes nobody's place, and nobody hears of it. */
static void test_no_memory(void)
{
	struct fm_err err = { 0 };

	if (fm_test_lacks_faults())
		return;
	begin();
	for (unsigned i = 0; i < 2 * PLACES; i++) {
		fm_fault_arm("asking.begin", 1);
		CU_ASSERT_EQUAL(try_to_ask(0, NULL, &err), -ENOMEM);
		CU_ASSERT_TRUE(fm_fault_fired());
	}
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(fm_asking_is_idle(&asking));
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < PLACES; i++)
			CU_ASSERT_EQUAL(try_to_ask(i, NULL, NULL), 0);
		CU_ASSERT_EQUAL(try_to_ask(0, NULL, &err), -EBUSY);
		spin();
		now_ns += TIMEOUT_NS;
		fm_asking_tick(&asking, FM_NS_PER_S + now_ns);
		spin();
		for (unsigned i = 0; i < PLACES; i++)
			CU_ASSERT_TRUE(is_over(i, 0, 0));
		memset(heard, 0, sizeof(heard));
	}
	end();
}

/* Goal: who asks while this node stops hears that nobody was asked, not that nothing was said. */
static void test_stop(void)
{
	const struct fm_err err = { .code = -EHOSTDOWN, .text = "stopping" };
	struct fm_err why = { 0 };

	begin();
	ask(0, NULL);
	say(1, (struct fm_ask_reply){.id = ids[1]});
	CU_ASSERT_EQUAL_FATAL(try_to_ask(1, NULL, NULL), 0);
	engine.is_stopping = engine.is_stopped = true;
	fm_asking_stop(&asking, &err);
	CU_ASSERT_FALSE(fm_asking_is_idle(&asking));
	spin();
	CU_ASSERT_TRUE(is_over(0, 1, 0) && heard[0].code[2] == -EHOSTDOWN);
	for (unsigned i = 0; i < PEERS; i++)
		CU_ASSERT_TRUE(heard[1].failures[i] == 1 && heard[1].code[i] == -EHOSTDOWN);
	CU_ASSERT_EQUAL(heard[1].dones, 1);
	CU_ASSERT_EQUAL(try_to_ask(0, NULL, &why), -EHOSTDOWN);
	end();
}

int main(void)
{
	static const struct fm_test tests[] = {
		{"all are heard, to the end of each", test_all},
		{"whose answer it is, of several questions", test_whose},
		{"silence, and what comes too late", test_silence},
		{"peers that go away: before, meanwhile, in the midst", test_lost},
		{"a peer that goes away while it is asked", test_lost_in_send},
		{"it refuses, or says too much", test_refused},
		{"one peer alone", test_one},
		{"no memory, no place", test_no_memory},
		{"this node stops", test_stop},
	};

	return fm_test_main("asking", tests, sizeof(tests) / sizeof(tests[0]));
}
