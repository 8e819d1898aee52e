/* SPDX-License-Identifier: MIT */
/* node_facts - see node_facts.h. First what we ask of peers, then what peers ask of us. */
#include "mover/services/node_facts.h"

#include <errno.h>
#include <stdlib.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/node/session.h"
#include "mover/services/asking.h"

#define ASKING_NS                                                                                  \
	(20 * FM_NS_PER_S) /* reading takes a second or two, of a machine that is busy more */
#define SENDING_NS (15 * FM_NS_PER_S)
#define FRESH_NS   (2 * FM_NS_PER_S)
#define LATE_NS	   SENDING_NS /* whoever waited for it has been refused by then */

struct facts_ask {
	struct fm_ask ask;
	struct fm_node_facts_events events;
	void *ctx;
};

/* What was read of this node once. Who is being sent it keeps it while a newer one is read. */
struct document {
	unsigned users; /* facts.newest, and answers */
	char *text;
	size_t len;
	uint64_t read_ns; /* when it was ready */
};

/* An answer to a peer: it waits for a document, then goes as the session has room. */
struct served {
	struct fm_list at; /* facts.served */
	struct fm_session *session;
	uint64_t id;
	struct fm_share_held place;
	struct document *document; /* NULL: it waits */
	size_t sent;
	uint64_t deadline_ns;
};

struct facts {
	struct fm_asking asking;
	struct fm_list served;		       /* served.at */
	struct fm_share peer_places;	       /* of answers, by peer */
	const struct fm_node_facts_here *here; /* NULL: ours are not read */
	struct document *newest;	       /* NULL: there is none */
	/* The next one: */
	struct fm_engine *engine; /* while a worker makes it */
	struct fm_work work;
	bool is_working, is_late;
	uint64_t begun_ns;
	char *status; /* the worker's, while it works */
	char *made;   /* likewise */
	int made_len;
	struct fm_err made_err;
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

static void send_ask(struct fm_session *s, uint64_t id)
{
	fm_session_send(
		s, &(struct fm_wire_msg){.type = FM_WIRE_FACTS_ASK, .facts_ask = {.id = id}});
}

static void tell(struct fm_ask *ask, const struct fm_node_facts_answer *answer)
{
	const struct facts_ask *a = fm_container_of(ask, struct facts_ask, ask);

	a->events.answer(a->ctx, answer);
}

static void ask_answer(struct fm_ask *ask, const char *node, const struct fm_wire_msg *m,
		       bool is_more)
{
	tell(ask, &(struct fm_node_facts_answer){.node = node,
						 .piece = m->facts.piece.at,
						 .len = m->facts.piece.len,
						 .is_more = is_more});
}

static void ask_failed(struct fm_ask *ask, const char *node, const struct fm_err *err)
{
	tell(ask, &(struct fm_node_facts_answer){.node = node, .err = err});
}

static void ask_done(struct fm_ask *ask)
{
	const struct facts_ask *a = fm_container_of(ask, struct facts_ask, ask);

	a->events.done(a->ctx);
}

static const struct fm_question question = {
	.places = {"places for questions about facts", FM_NODE_FACTS_ASKS_MAX,
		   FM_NODE_FACTS_ASKS_ROOT, 0, 1},
	.timeout_ns = ASKING_NS,
	.ask_bytes = sizeof(struct facts_ask),
	.said_max = FM_NODE_FACTS_BYTES_MAX,
	.said_what = "bytes of facts",
	.send = send_ask,
	.answer = ask_answer,
	.failed = ask_failed,
	.done = ask_done,
};

int fm_node_facts_ask(struct fm_engine *e, uid_t uid, const char *node,
		      const struct fm_node_facts_events *events, void *ctx, struct fm_err *err)
{
	struct facts_ask *a;
	struct fm_ask *ask;
	int ret = fm_asking_begin(&facts_of(e)->asking, e, uid, node, &ask, err);

	if (ret < 0)
		return ret;
	a = fm_container_of(ask, struct facts_ask, ask);
	a->events = *events;
	a->ctx = ctx;
	return 0;
}

static void on_facts(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_facts *m = &msg->facts;
	const struct fm_ask_reply reply = {.id = m->id,
					   .code = m->code,
					   .text = m->text,
					   .said = m->piece.len,
					   .is_more = m->flags & FM_WIRE_FACTS_MORE};

	fm_asking_heard(&facts_of(s->engine)->asking, s, msg, &reply);
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

static void document_put(struct document *d)
{
	if (!d || --d->users > 0)
		return;
	free(d->text);
	free(d);
}

static void newest_drop(struct facts *f)
{
	document_put(f->newest);
	f->newest = NULL;
}

static void served_free(struct served *v)
{
	document_put(v->document);
	fm_list_del(&v->at);
	fm_share_give_all(&v->place);
	free(v);
}

/*
 * Sends as much as the session has room for, and frees the answer after the last piece. Sending may
 * end the session, and the answer with it.
 */
static void send_some(struct served *v)
{
	const struct document *d = v->document;
	struct fm_wire_msg m = {.type = FM_WIRE_FACTS};
	struct fm_session *s = v->session;
	size_t len;
	bool is_more = true;

	while (is_more && fm_session_has_room(s)) {
		len = d->len - v->sent;
		len = len < FM_WIRE_FACTS_MAX ? len : FM_WIRE_FACTS_MAX;
		is_more = v->sent + len < d->len;
		m.facts.flags = is_more ? FM_WIRE_FACTS_MORE : 0;
		m.facts.id = v->id;
		m.facts.text = fm_wire_str("");
		m.facts.piece = (struct fm_wire_str){d->text + v->sent, len};
		v->sent += len;
		fm_session_send(s, &m);
		if (s->is_closed)
			return;
	}
	if (!is_more)
		served_free(v);
}

static void serve(struct served *v, struct document *d)
{
	d->users++;
	v->document = d;
	send_some(v);
}

static void serve_waiting(struct facts *f, struct document *d)
{
	fm_list_each (at, next, &f->served) {
		struct served *v = fm_container_of(at, struct served, at);

		if (!v->document)
			serve(v, d);
	}
}

/* Also those that are being sent one already, or only those that wait. */
static void refuse_all(struct facts *f, bool is_sent_too, const struct fm_err *err)
{
	fm_list_each (at, next, &f->served) {
		struct served *v = fm_container_of(at, struct served, at);
		struct fm_session *s = v->session;
		uint64_t id = v->id;

		if (v->document && !is_sent_too)
			continue;
		served_free(v);
		refuse(s, id, err);
	}
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
	struct document *d = NULL;

	f->is_working = false;
	if (f->is_late)
		fm_log_info("reading facts for peers came back after %llu s",
			    (unsigned long long)((fm_engine_now(e) - f->begun_ns) / FM_NS_PER_S));
	f->is_late = false;
	free(f->status);
	f->status = NULL;
	if (f->made_len >= 0 && (d = FM_FAULT("node_facts.read") ? NULL : calloc(1, sizeof(*d)))) {
		*d = (struct document){1, f->made, (size_t)f->made_len, fm_engine_now(e)};
		newest_drop(f);
		f->newest = d;
		serve_waiting(f, d);
	} else {
		if (f->made_len >= 0) {
			free(f->made);
			(void)fm_err_set(&f->made_err, -ENOMEM, "no memory for its facts");
		}
		refuse_all(f, false, &f->made_err);
	}
	f->made = NULL;
	if (e->is_stopping)
		newest_drop(f);
	fm_engine_check_stopped(e);
}

/*
 * Notes that reading the facts hangs. Nothing ends a read that hangs in the kernel, so the worker
 * is lost until it comes back. No other one is begun meanwhile.
 */
static void look_for_late(struct facts *f, uint64_t now_ns)
{
	if (!f->is_working || f->is_late || now_ns < f->begun_ns + LATE_NS)
		return;
	f->is_late = true;
	fm_log_warn("reading facts for peers has not come back for %llu s: a file of /sys or "
		    "/proc, or a device, does not answer; one of our workers waits for it, and "
		    "peers are told no facts until then",
		    (unsigned long long)((now_ns - f->begun_ns) / FM_NS_PER_S));
}

/*
 * Finds the document for one who asks. One that is fresh will do, however many are still being sent
 * it: whether peers may have facts at all is asked before each reading. Otherwise a worker begins
 * to read one, or is reading it already.
 */
static int document(struct fm_engine *e, struct facts *f, bool *is_ready, struct fm_err *err)
{
	int ret;

	*is_ready = f->newest && fm_engine_now(e) < f->newest->read_ns + FRESH_NS;
	if (*is_ready)
		return 0;
	if (f->is_late)
		return fm_err_set(err, -ETIMEDOUT,
				  "reading its facts hangs: something there does not answer");
	if (f->is_working)
		return 0;
	newest_drop(f);
	ret = f->here->begin(f->here->ctx, &f->status, err);
	if (ret < 0)
		return ret;
	f->engine = e;
	f->is_working = true;
	f->begun_ns = fm_engine_now(e);
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
		(void)fm_err_set(err, -EHOSTDOWN, "fmoved at %s is stopping", s->engine->name);
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
		serve(v, f->newest);
}

/* ---- what happens around it ---- */

static void facts_session_lost(struct fm_session *s, const struct fm_err *err)
{
	struct facts *f = facts_of(s->engine);

	fm_asking_session_lost(&f->asking, s, err);
	fm_list_each (at, next, &f->served) {
		struct served *v = fm_container_of(at, struct served, at);

		if (v->session == s)
			served_free(v);
	}
}

static void facts_stop(struct fm_engine *e)
{
	struct facts *f = facts_of(e);
	struct fm_err err = {0};

	(void)fm_err_set(&err, -EHOSTDOWN, "fmoved at %s is stopping", e->name);
	fm_asking_stop(&f->asking, &err);
	refuse_all(f, true, &err);
	newest_drop(f);
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
		} else if (v->document) {
			send_some(v);
		}
	}
}

static void facts_tick(struct fm_engine *e, uint64_t now_ns)
{
	struct facts *f = facts_of(e);

	fm_asking_tick(&f->asking, now_ns);
	look_for_late(f, now_ns);
	tick_served(f, now_ns);
	if (f->newest && now_ns >= f->newest->read_ns + FRESH_NS)
		newest_drop(f);
}

static bool facts_are_idle(const struct fm_engine *e)
{
	const struct facts *f = facts_of(e);

	return fm_asking_is_idle(&f->asking) && !f->is_working;
}

static void facts_init(void *state)
{
	struct facts *f = state;

	fm_asking_init(&f->asking, &question);
	fm_list_init(&f->served);
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
