/* SPDX-License-Identifier: MIT */
/* node_facts - see node_facts.h. First what we ask of peers, then what peers ask of us. */
#include "mover/services/node_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/node/session.h"

#define ASKING_NS                                                                                  \
	(20 * FM_NS_PER_S) /* reading takes a second or two, of a machine that is busy more */
#define SENDING_NS (15 * FM_NS_PER_S)
#define FRESH_NS   (2 * FM_NS_PER_S)

struct asked {
	struct fm_session *session; /* NULL: has answered, or never will */
	uint64_t id;
	size_t bytes; /* said so far */
};

/* begin (a task): peers that are connected are asked -> answer() for each piece -> done(). */
struct facts_ask {
	struct fm_list at; /* facts.asks */
	struct fm_engine *engine;
	struct fm_node_facts_events events;
	void *ctx;
	char node[FM_WIRE_NAME_MAX + 1]; /* "": all of them */
	struct fm_share_held place;
	uint64_t deadline_ns;
	struct fm_task begin_task;
	struct fm_task done_task;
	bool is_over;
	unsigned count, waiting;
	struct asked asked[FM_PEERS_MAX];
};

/* An answer to a peer: it waits for the document, then goes as the session has room. */
struct served {
	struct fm_list at; /* facts.served */
	struct fm_session *session;
	uint64_t id;
	struct fm_share_held place;
	size_t sent;
	uint64_t deadline_ns;
};

struct facts {
	struct fm_list asks; /* facts_ask.at */
	unsigned ask_count;
	struct fm_share places;		       /* of asks, by user */
	struct fm_list served;		       /* served.at */
	struct fm_share peer_places;	       /* of answers, by peer */
	const struct fm_node_facts_here *here; /* NULL: ours are not read */
	/* The document: */
	struct fm_engine *engine; /* while a worker makes it */
	struct fm_work work;
	bool is_working;
	char *status; /* the worker's, while it works */
	char *made;   /* likewise */
	int made_len;
	struct fm_err made_err;
	char *text; /* NULL: there is none */
	size_t len;
	uint64_t read_ns; /* when it was ready */
};

static struct facts *facts_of(const struct fm_engine *e)
{
	return fm_service_state(e, &fm_node_facts_service);
}

void fm_node_facts_set_here(struct fm_engine *e, const struct fm_node_facts_here *here)
{
	facts_of(e)->here = here;
}

/* ---- asking ---- */

static void ask_done_run(struct fm_task *task)
{
	struct facts_ask *a = fm_container_of(task, struct facts_ask, done_task);
	struct fm_engine *e = a->engine;

	a->events.done(a->ctx);
	fm_list_del(&a->at);
	facts_of(e)->ask_count--;
	fm_share_give_all(&a->place);
	free(a);
	fm_engine_check_stopped(e);
}

static void check_over(struct facts_ask *a)
{
	if (a->waiting > 0 || a->is_over)
		return;
	a->is_over = true;
	fm_loop_post(a->engine->env.loop, &a->done_task);
}

static void fail_one(struct facts_ask *a, struct asked *one, const struct fm_err *err)
{
	const struct fm_node_facts_answer answer = {.node = one->session->name, .err = err};

	one->session = NULL;
	a->waiting--;
	a->events.answer(a->ctx, &answer);
}

static void ask_peer(struct facts_ask *a, struct fm_peer *p)
{
	struct fm_wire_msg m = {.type = FM_WIRE_FACTS_ASK};
	struct fm_node_facts_answer answer = {.node = p->name};
	struct asked *one = &a->asked[a->count];
	struct fm_err err = {0};

	if (a->engine->is_stopping)
		(void)fm_err_set(&err, -ECANCELED, "fmoved at %s is stopping", a->engine->name);
	else if (!p->session)
		(void)fm_err_set(&err, -EHOSTUNREACH, "is not connected%s%s",
				 p->last_error[0] ? ": " : "", p->last_error);
	if (err.code < 0) {
		answer.err = &err;
		a->events.answer(a->ctx, &answer);
		return;
	}
	one->session = p->session;
	one->id = m.facts_ask.id = fm_session_new_id(p->session);
	a->count++;
	a->waiting++;
	fm_session_send(p->session, &m);
}

static void begin_run(struct fm_task *task)
{
	struct facts_ask *a = fm_container_of(task, struct facts_ask, begin_task);

	fm_list_each (at, next, &a->engine->peers) {
		struct fm_peer *p = fm_container_of(at, struct fm_peer, at);

		if (!a->node[0] || strcmp(a->node, p->name) == 0)
			ask_peer(a, p);
	}
	a->waiting--;
	check_over(a);
}

int fm_node_facts_ask(struct fm_engine *e, uid_t uid, const char *node,
		      const struct fm_node_facts_events *events, void *ctx, struct fm_err *err)
{
	struct fm_share_held place = {0};
	struct facts_ask *a;
	int ret;

	if (e->is_stopping)
		return fm_err_set(err, -ECANCELED, "fmoved is stopping");
	if (node && !fm_engine_peer(e, node))
		return fm_err_set(err, -ENOENT, "%s has no peer \"%.64s\"", e->name, node);
	ret = fm_share_take(&facts_of(e)->places, fm_share_user(uid), 1, &place, err);
	if (ret < 0)
		return ret;
	a = FM_FAULT("node_facts.ask") ? NULL : calloc(1, sizeof(*a));
	if (!a) {
		fm_share_give_all(&place);
		return fm_err_set(err, -ENOMEM, "no memory to ask the peers");
	}
	a->place = place;
	a->waiting = 1; /* until all are asked: a session may end before, or in the midst of it */
	a->engine = e;
	a->events = *events;
	a->ctx = ctx;
	if (node)
		(void)snprintf(a->node, sizeof(a->node), "%s", node);
	a->deadline_ns = fm_engine_now(e) + ASKING_NS;
	a->begin_task.run = begin_run;
	a->done_task.run = ask_done_run;
	fm_list_append(&facts_of(e)->asks, &a->at);
	facts_of(e)->ask_count++;
	fm_loop_post(e->env.loop, &a->begin_task);
	return 0;
}

/* ---- what is answered ---- */

static struct asked *find(const struct fm_session *s, uint64_t id, struct facts_ask **ask)
{
	fm_list_each (at, next, &facts_of(s->engine)->asks) {
		struct facts_ask *a = fm_container_of(at, struct facts_ask, at);

		for (unsigned i = 0; i < a->count; i++) {
			if (a->asked[i].session != s || a->asked[i].id != id)
				continue;
			*ask = a;
			return &a->asked[i];
		}
	}
	return NULL;
}

static void on_facts(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_facts *m = &msg->facts;
	struct fm_node_facts_answer answer = {
		.node = s->name, .piece = m->piece.at, .len = m->piece.len};
	struct facts_ask *a = NULL;
	struct asked *one = find(s, m->id, &a);
	struct fm_err err = {0};

	if (!one)
		return; /* too late */
	one->bytes += m->piece.len;
	if (m->code)
		(void)fm_err_set(&err, -(int)m->code, "%.*s", (int)m->text.len, m->text.at);
	else if (one->bytes > FM_NODE_FACTS_BYTES_MAX)
		(void)fm_err_set(&err, -EPROTO, "says more than %u bytes of facts",
				 FM_NODE_FACTS_BYTES_MAX);
	if (err.code < 0) {
		fail_one(a, one, &err);
		check_over(a);
		return;
	}
	answer.is_more = m->flags & FM_WIRE_FACTS_MORE;
	if (!answer.is_more) {
		one->session = NULL;
		a->waiting--;
	}
	a->events.answer(a->ctx, &answer);
	check_over(a);
}

/* ---- a peer asks ---- */

static void refuse(struct fm_session *s, uint64_t id, const struct fm_err *err)
{
	struct fm_wire_msg m = {.type = FM_WIRE_FACTS};

	m.facts.id = id;
	m.facts.code = (uint32_t)-err->code;
	m.facts.text = fm_wire_str(err->text);
	m.facts.piece = fm_wire_str("");
	fm_session_send(s, &m);
}

static void served_free(struct served *v)
{
	fm_list_del(&v->at);
	fm_share_give_all(&v->place);
	free(v);
}

/* As much as there is room for; freed when it is all. Sending may end the session, and with it
 * this. */
static void send_some(struct facts *f, struct served *v)
{
	struct fm_wire_msg m = {.type = FM_WIRE_FACTS};
	struct fm_session *s = v->session;
	size_t len;
	bool is_more = true;

	while (is_more && fm_session_has_room(s)) {
		len = f->len - v->sent;
		len = len < FM_WIRE_FACTS_MAX ? len : FM_WIRE_FACTS_MAX;
		is_more = v->sent + len < f->len;
		m.facts.flags = is_more ? FM_WIRE_FACTS_MORE : 0;
		m.facts.id = v->id;
		m.facts.text = fm_wire_str("");
		m.facts.piece = (struct fm_wire_str){f->text + v->sent, len};
		v->sent += len;
		fm_session_send(s, &m);
		if (s->is_closed)
			return;
	}
	if (!is_more)
		served_free(v);
}

static void send_all(struct facts *f)
{
	fm_list_each (at, next, &f->served)
		send_some(f, fm_container_of(at, struct served, at));
}

static void refuse_all(struct facts *f, const struct fm_err *err)
{
	fm_list_each (at, next, &f->served) {
		struct served *v = fm_container_of(at, struct served, at);
		struct fm_session *s = v->session;
		uint64_t id = v->id;

		served_free(v);
		refuse(s, id, err);
	}
}

static void text_drop(struct facts *f)
{
	free(f->text);
	f->text = NULL;
	f->len = 0;
}

/* ---- the document ---- */

static void read_run(struct fm_work *work)
{
	struct facts *f = fm_container_of(work, struct facts, work);

	f->made_len = f->here->read(f->here->ctx, f->status, &f->made, &f->made_err);
}

static void read_done(struct fm_work *work)
{
	struct facts *f = fm_container_of(work, struct facts, work);
	struct fm_engine *e = f->engine;

	f->is_working = false;
	free(f->status);
	f->status = NULL;
	if (f->made_len < 0) {
		refuse_all(f, &f->made_err);
	} else {
		f->text = f->made;
		f->len = (size_t)f->made_len;
		f->made = NULL;
		f->read_ns = fm_engine_now(e);
		send_all(f);
	}
	if (e->is_stopping)
		text_drop(f);
	fm_engine_check_stopped(e);
}

/* Who asks now waits for it, too. A document that is being sent, or is fresh, will do. */
static int document(struct fm_engine *e, struct facts *f, bool *is_ready, struct fm_err *err)
{
	bool is_sent = !fm_list_is_empty(&f->served);
	int ret;

	*is_ready = f->text && (is_sent || fm_engine_now(e) < f->read_ns + FRESH_NS);
	if (*is_ready || f->is_working)
		return 0;
	text_drop(f);
	ret = f->here->begin(f->here->ctx, &f->status, err);
	if (ret < 0)
		return ret;
	f->engine = e;
	f->is_working = true;
	fm_err_clear(&f->made_err);
	f->work = (struct fm_work){.run = read_run, .done = read_done};
	fm_worker_submit(e->env.worker, &f->work, e->env.loop);
	return 0;
}

static bool is_served(const struct facts *f, const struct fm_session *s)
{
	fm_list_each (at, next, &f->served)
		if (fm_container_of(at, struct served, at)->session == s)
			return true;
	return false;
}

static struct served *served_new(struct facts *f, struct fm_session *s, uint64_t id,
				 struct fm_err *err)
{
	struct fm_share_held place = {0};
	struct served *v;

	if (!f->here)
		(void)fm_err_set(err, -ENOENT, "its facts are not read");
	else if (s->engine->is_stopping)
		(void)fm_err_set(err, -ECANCELED, "fmoved at %s is stopping", s->engine->name);
	else if (is_served(f, s) || !fm_session_has_room(s))
		(void)fm_err_set(err, -EBUSY, "too much is unread: ask again later");
	if (err->code < 0 ||
	    fm_share_take(&f->peer_places, fm_share_name(s->name), 1, &place, err) < 0)
		return NULL;
	v = FM_FAULT("node_facts.serve") ? NULL : calloc(1, sizeof(*v));
	if (!v) {
		fm_share_give_all(&place);
		(void)fm_err_set(err, -ENOMEM, "no memory for an answer");
		return NULL;
	}
	v->session = s;
	v->id = id;
	v->place = place;
	v->deadline_ns = fm_engine_now(s->engine) + SENDING_NS;
	return v;
}

static void on_facts_ask(struct fm_session *s, const struct fm_wire_msg *msg)
{
	struct facts *f = facts_of(s->engine);
	struct fm_err err = {0};
	struct served *v = served_new(f, s, msg->facts_ask.id, &err);
	bool is_ready = false;

	if (!v) {
		refuse(s, msg->facts_ask.id, &err);
		return;
	}
	if (document(s->engine, f, &is_ready, &err) < 0) {
		fm_share_give_all(&v->place);
		free(v);
		refuse(s, msg->facts_ask.id, &err);
		return;
	}
	fm_list_append(&f->served, &v->at);
	if (is_ready)
		send_some(f, v);
}

/* ---- what happens around it ---- */

static void facts_session_lost(struct fm_session *s, const struct fm_err *err)
{
	struct facts *f = facts_of(s->engine);

	fm_list_each (at, next, &f->asks) {
		struct facts_ask *a = fm_container_of(at, struct facts_ask, at);

		for (unsigned i = 0; i < a->count; i++)
			if (a->asked[i].session == s)
				fail_one(a, &a->asked[i], err);
		check_over(a);
	}
	fm_list_each (at, next, &f->served) {
		struct served *v = fm_container_of(at, struct served, at);

		if (v->session == s)
			served_free(v);
	}
}

static void fail_all(struct facts_ask *a, const struct fm_err *err)
{
	for (unsigned i = 0; i < a->count; i++)
		if (a->asked[i].session)
			fail_one(a, &a->asked[i], err);
	check_over(a);
}

static void facts_stop(struct fm_engine *e)
{
	struct facts *f = facts_of(e);
	struct fm_err err = {0};

	(void)fm_err_set(&err, -ECANCELED, "fmoved at %s is stopping", e->name);
	fm_list_each (at, next, &f->asks)
		fail_all(fm_container_of(at, struct facts_ask, at), &err);
	refuse_all(f, &err);
	if (!f->is_working)
		text_drop(f);
}

static void tick_served(struct facts *f, uint64_t now_ns)
{
	struct fm_err err = {0};

	(void)fm_err_set(&err, -ETIMEDOUT, "reading its facts, or sending them, takes too long");
	fm_list_each (at, next, &f->served) {
		struct served *v = fm_container_of(at, struct served, at);
		struct fm_session *s = v->session;
		uint64_t id = v->id;

		if (now_ns >= v->deadline_ns) {
			served_free(v);
			refuse(s, id, &err);
		} else if (!f->is_working && f->text) {
			send_some(f, v);
		}
	}
}

static void facts_tick(struct fm_engine *e, uint64_t now_ns)
{
	struct facts *f = facts_of(e);
	struct fm_err err = {0};

	(void)fm_err_set(&err, -ETIMEDOUT, "did not answer in time");
	fm_list_each (at, next, &f->asks) {
		struct facts_ask *a = fm_container_of(at, struct facts_ask, at);

		if (now_ns >= a->deadline_ns)
			fail_all(a, &err);
	}
	tick_served(f, now_ns);
	if (f->text && fm_list_is_empty(&f->served) && now_ns >= f->read_ns + FRESH_NS)
		text_drop(f);
}

static bool facts_are_idle(const struct fm_engine *e)
{
	const struct facts *f = facts_of(e);

	return f->ask_count == 0 && !f->is_working;
}

static void facts_init(void *state)
{
	struct facts *f = state;

	fm_list_init(&f->asks);
	fm_list_init(&f->served);
	fm_share_init(&f->places, &(struct fm_share_limits){"places for questions about facts",
							    FM_NODE_FACTS_ASKS_MAX,
							    FM_NODE_FACTS_ASKS_ROOT, 0, 1});
	fm_share_init(&f->peer_places,
		      &(struct fm_share_limits){"places for facts that peers ask for",
						FM_NODE_FACTS_PEERS_MAX, 0, 0, 1});
}

static const struct fm_service_message messages[] = {
	{FM_WIRE_FACTS_ASK, on_facts_ask},
	{FM_WIRE_FACTS, on_facts},
};

const struct fm_service fm_node_facts_service = {
	.name = "facts",
	.messages = messages,
	.message_count = sizeof(messages) / sizeof(messages[0]),
	.state_bytes = sizeof(struct facts),
	.init = facts_init,
	.session_lost = facts_session_lost,
	.tick = facts_tick,
	.stop = facts_stop,
	.is_idle = facts_are_idle,
};
