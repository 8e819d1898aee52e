/* SPDX-License-Identifier: MIT */
/* asking - see asking.h. */
#include "mover/services/asking.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/node/node.h"
#include "mover/node/session.h"

void fm_asking_init(struct fm_asking *asking, const struct fm_question *question)
{
	assert(question->ask_bytes >= sizeof(struct fm_ask));
	asking->question = question;
	fm_list_init(&asking->asks);
	fm_share_init(&asking->places, &question->places);
}

/* ---- its end ---- */

static void done_run(struct fm_task *task)
{
	struct fm_ask *a = fm_container_of(task, struct fm_ask, done_task);
	struct fm_engine *e = a->engine;

	a->asking->question->done(a);
	fm_list_del(&a->at);
	a->asking->count--;
	fm_share_give_all(&a->place);
	free(a);
	fm_engine_check_stopped(e);
}

static void check_over(struct fm_ask *a)
{
	if (a->waiting > 0 || a->is_over)
		return;
	a->is_over = true;
	fm_loop_post(a->engine->env.loop, &a->done_task);
}

static void leave(struct fm_ask *a, struct fm_asked *one)
{
	one->session = NULL;
	a->waiting--;
}

static void fail_one(struct fm_ask *a, struct fm_asked *one, const struct fm_err *err)
{
	const char *node = one->session->name;

	leave(a, one);
	a->asking->question->failed(a, node, err);
}

/* ---- asking ---- */

static void ask_peer(struct fm_ask *a, struct fm_peer *p)
{
	const struct fm_question *q = a->asking->question;
	struct fm_asked *one = &a->asked[a->count];
	struct fm_err err = { 0 };

	/* Somebody must hear that it was not asked: nothing said would be that there is nothing. */
	if (a->engine->is_stopping)
		(void)fm_err_set(&err, -EHOSTDOWN, "fmoved at %s is stopping", a->engine->name);
	else if (!p->session)
		(void)fm_err_set(&err, -EHOSTUNREACH, "is not connected%s%s",
				 p->last_error[0] ? ": " : "", p->last_error);
	if (err.code < 0) {
		q->failed(a, p->name, &err);
		return;
	}
	one->session = p->session;
	one->id = fm_session_new_id(p->session);
	a->count++;
	a->waiting++;
	q->send(p->session, one->id);
}

static void begin_run(struct fm_task *task)
{
	struct fm_ask *a = fm_container_of(task, struct fm_ask, begin_task);

	fm_list_each(at, next, &a->engine->peers) {
		struct fm_peer *p = fm_container_of(at, struct fm_peer, at);

		if (!a->node[0] || strcmp(a->node, p->name) == 0)
			ask_peer(a, p);
	}
	a->waiting--;
	check_over(a);
}

int fm_asking_begin(struct fm_asking *asking, struct fm_engine *e, uid_t uid, const char *node,
		    struct fm_ask **out, struct fm_err *err)
{
	struct fm_share_held place = { 0 };
	struct fm_ask *a;
	int ret;

	if (e->is_stopping)
		return fm_err_set(err, -EHOSTDOWN, "fmoved is stopping");
	if (node && !fm_engine_peer(e, node))
		return fm_err_set(err, -ENOENT, "%s has no peer \"%.64s\"", e->name, node);
	ret = fm_share_take(&asking->places, fm_share_user(uid), 1, &place, err);
	if (ret < 0)
		return ret;
	a = FM_FAULT("asking.begin") ? NULL : calloc(1, asking->question->ask_bytes);
	if (!a) {
		fm_share_give_all(&place);
		return fm_err_set(err, -ENOMEM, "no memory to ask the peers");
	}
	a->place = place;
	/* until all are asked: a session may end before, or in the midst of it */
	a->waiting = 1;
	a->asking = asking;
	a->engine = e;
	if (node)
		(void)snprintf(a->node, sizeof(a->node), "%s", node);
	a->deadline_ns = fm_engine_now(e) + asking->question->timeout_ns;
	a->begin_task.run = begin_run;
	a->done_task.run = done_run;
	fm_list_append(&asking->asks, &a->at);
	asking->count++;
	fm_loop_post(e->env.loop, &a->begin_task);
	*out = a;
	return 0;
}

/* ---- what is answered ---- */

static struct fm_asked *find(const struct fm_asking *asking, const struct fm_session *s,
			     uint64_t id, struct fm_ask **ask)
{
	for (struct fm_list *at = asking->asks.next; at != &asking->asks; at = at->next) {
		struct fm_ask *a = fm_container_of(at, struct fm_ask, at);

		for (unsigned i = 0; i < a->count; i++) {
			if (a->asked[i].session != s || a->asked[i].id != id)
				continue;
			*ask = a;
			return &a->asked[i];
		}
	}
	return NULL;
}

void fm_asking_heard(struct fm_asking *asking, struct fm_session *s, const struct fm_wire_msg *m,
		     const struct fm_ask_reply *reply)
{
	const struct fm_question *q = asking->question;
	struct fm_ask *a = NULL;
	struct fm_asked *one = find(asking, s, reply->id, &a);
	struct fm_err err = { 0 };

	if (!one)
		return;		/* too late */
	one->said += reply->said;
	if (reply->code)
		(void)fm_err_set(&err, -(int)reply->code, "%.*s", (int)reply->text.len,
				 reply->text.at);
	else if (one->said > q->said_max)
		(void)fm_err_set(&err, -EPROTO, "says more than %" PRIu64 " %s", q->said_max,
				 q->said_what);
	if (err.code < 0) {
		fail_one(a, one, &err);
	} else {
		if (!reply->is_more)
			leave(a, one);
		q->answer(a, s->name, m, reply->is_more);
	}
	check_over(a);
}

/* ---- what happens around it ---- */

/* Ends the asks that wait for this session, or all of them if s is NULL. */
static void fail(struct fm_ask *a, const struct fm_session *s, const struct fm_err *err)
{
	for (unsigned i = 0; i < a->count; i++)
		if (a->asked[i].session && (!s || a->asked[i].session == s))
			fail_one(a, &a->asked[i], err);
	check_over(a);
}

void fm_asking_session_lost(struct fm_asking *asking, const struct fm_session *s,
			    const struct fm_err *err)
{
	fm_list_each(at, next, &asking->asks)
		fail(fm_container_of(at, struct fm_ask, at), s, err);
}

void fm_asking_stop(struct fm_asking *asking, const struct fm_err *err)
{
	fm_list_each(at, next, &asking->asks)
		fail(fm_container_of(at, struct fm_ask, at), NULL, err);
}

void fm_asking_tick(struct fm_asking *asking, uint64_t now_ns)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -ETIMEDOUT, "did not answer in time");
	fm_list_each(at, next, &asking->asks) {
		struct fm_ask *a = fm_container_of(at, struct fm_ask, at);

		if (now_ns >= a->deadline_ns)
			fail(a, NULL, &err);
	}
}

bool fm_asking_is_idle(const struct fm_asking *asking)
{
	return asking->count == 0;
}
