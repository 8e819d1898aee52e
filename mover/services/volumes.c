/* SPDX-License-Identifier: MIT */
#include "mover/services/volumes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/node/session.h"

/* Who asks wants to mount: a peer that takes longer counts as one that does not answer. */
#define TIMEOUT_NS (2 * FM_NS_PER_S)

_Static_assert(sizeof(((struct fm_volume_said *)0)->name) == FM_WIRE_NAME_MAX + 1 &&
		       sizeof(((struct fm_volume_said *)0)->subsystem) ==
			       FM_WIRE_SUBSYSTEM_MAX + 1 &&
		       sizeof(((struct fm_volume_said *)0)->wwid) == FM_WIRE_WWID_MAX + 1,
	       "what is said fits the message");

struct asked {
	struct fm_session *session;	/* NULL: has answered, or never will */
	uint64_t id;
	unsigned volumes;		/* said so far */
};

/* begin (a task): every peer that is connected is asked -> answer() for each -> done(). */
struct volumes_ask {
	struct fm_list at;		/* volumes.asks */
	struct fm_engine *engine;
	struct fm_volumes_events events;
	void *ctx;
	struct fm_share_held place;
	uint64_t deadline_ns;
	struct fm_task begin_task;
	struct fm_task done_task;
	bool is_over;
	unsigned count, waiting;
	struct asked asked[FM_PEERS_MAX];
};

struct volumes {
	struct fm_list asks;		/* volumes_ask.at */
	unsigned ask_count;
	struct fm_share places;		/* of asks, by user */
	const struct fm_volumes_here *here;	/* NULL: nothing is said of ours */
};

static struct volumes *volumes_of(const struct fm_engine *e)
{
	return fm_service_state(e, &fm_volumes_service);
}

void fm_volumes_set_here(struct fm_engine *e, const struct fm_volumes_here *here)
{
	volumes_of(e)->here = here;
}

/* ---- asking ---- */

static void done_run(struct fm_task *task)
{
	struct volumes_ask *a = fm_container_of(task, struct volumes_ask, done_task);
	struct fm_engine *e = a->engine;

	a->events.done(a->ctx);
	fm_list_del(&a->at);
	volumes_of(e)->ask_count--;
	fm_share_give_all(&a->place);
	free(a);
	fm_engine_check_stopped(e);
}

static void check_over(struct volumes_ask *a)
{
	if (a->waiting > 0 || a->is_over)
		return;
	a->is_over = true;
	fm_loop_post(a->engine->env.loop, &a->done_task);
}

static void fail_one(struct volumes_ask *a, struct asked *one, const struct fm_err *err)
{
	const struct fm_volumes_answer answer = { .node = one->session->name, .err = err };

	one->session = NULL;
	a->waiting--;
	a->events.answer(a->ctx, &answer);
}

static void ask_peer(struct volumes_ask *a, struct fm_peer *p)
{
	struct fm_wire_msg m = { .type = FM_WIRE_VOLUMES_ASK };
	struct fm_volumes_answer answer = { .node = p->name };
	struct asked *one = &a->asked[a->count];
	struct fm_err err = { 0 };

	/* Somebody must hear that it was not asked: nothing said would be that nothing is mounted
	 * there. */
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
	one->id = m.volumes_ask.id = fm_session_new_id(p->session);
	a->count++;
	a->waiting++;
	fm_session_send(p->session, &m);
}

static void begin_run(struct fm_task *task)
{
	struct volumes_ask *a = fm_container_of(task, struct volumes_ask, begin_task);

	fm_list_each(at, next, &a->engine->peers)
		ask_peer(a, fm_container_of(at, struct fm_peer, at));
	a->waiting--;
	check_over(a);
}

int fm_volumes_ask(struct fm_engine *e, uid_t uid, const struct fm_volumes_events *events,
		   void *ctx, struct fm_err *err)
{
	struct fm_share_held place = { 0 };
	struct volumes_ask *a;
	int ret;

	if (e->is_stopping)
		return fm_err_set(err, -ECANCELED, "fmoved is stopping");
	ret = fm_share_take(&volumes_of(e)->places, fm_share_user(uid), 1, &place, err);
	if (ret < 0)
		return ret;
	a = FM_FAULT("volumes.ask") ? NULL : calloc(1, sizeof(*a));
	if (!a) {
		fm_share_give_all(&place);
		return fm_err_set(err, -ENOMEM, "no memory to ask the peers");
	}
	a->place = place;
	/* until all are asked: a session may end before, or in the midst of it */
	a->waiting = 1;
	a->engine = e;
	a->events = *events;
	a->ctx = ctx;
	a->deadline_ns = fm_engine_now(e) + TIMEOUT_NS;
	a->begin_task.run = begin_run;
	a->done_task.run = done_run;
	fm_list_append(&volumes_of(e)->asks, &a->at);
	volumes_of(e)->ask_count++;
	fm_loop_post(e->env.loop, &a->begin_task);
	return 0;
}

/* ---- what is answered ---- */

static struct asked *find(const struct fm_session *s, uint64_t id, struct volumes_ask **ask)
{
	fm_list_each(at, next, &volumes_of(s->engine)->asks) {
		struct volumes_ask *a = fm_container_of(at, struct volumes_ask, at);

		for (unsigned i = 0; i < a->count; i++) {
			if (a->asked[i].session != s || a->asked[i].id != id)
				continue;
			*ask = a;
			return &a->asked[i];
		}
	}
	return NULL;
}

static void copy(char *to, size_t cap, const struct fm_wire_str *from)
{
	(void)snprintf(to, cap, "%.*s", (int)from->len, from->at);
}

static void take_volume(struct fm_volume_said *to, const struct fm_wire_volume *from)
{
	*to = (struct fm_volume_said){ .is_mounted = from->state & FM_WIRE_VOLUME_MOUNTED,
				       .is_read_write = from->state & FM_WIRE_VOLUME_READ_WRITE,
				       .is_sealed = from->state & FM_WIRE_VOLUME_SEALED,
				       .epoch = from->epoch };
	copy(to->name, sizeof(to->name), &from->name);
	copy(to->subsystem, sizeof(to->subsystem), &from->subsystem);
	copy(to->wwid, sizeof(to->wwid), &from->wwid);
	copy(to->writer, sizeof(to->writer), &from->writer);
}

static void on_volumes(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_volumes *m = &msg->volumes;
	struct fm_volume_said said[FM_WIRE_VOLUMES_MAX];
	struct fm_volumes_answer answer = { .node = s->name, .volumes = said, .count = m->count };
	struct volumes_ask *a = NULL;
	struct asked *one = find(s, m->id, &a);
	struct fm_err err = { 0 };

	if (!one)
		return;		/* too late */
	one->volumes += m->count;
	if (m->code)
		(void)fm_err_set(&err, -(int)m->code, "%.*s", (int)m->text.len, m->text.at);
	else if (one->volumes > FM_VOLUMES_SAID_MAX)
		(void)fm_err_set(&err, -EPROTO, "says more than %d volumes", FM_VOLUMES_SAID_MAX);
	if (err.code < 0) {
		fail_one(a, one, &err);
		check_over(a);
		return;
	}
	for (unsigned i = 0; i < m->count; i++)
		take_volume(&said[i], &m->volume[i]);
	answer.is_more = m->flags & FM_WIRE_VOLUMES_MORE;
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
	struct fm_wire_msg m = { .type = FM_WIRE_VOLUMES };

	m.volumes.id = id;
	m.volumes.code = (uint32_t)-err->code;
	m.volumes.text = fm_wire_str(err->text);
	fm_session_send(s, &m);
}

static void put_volume(struct fm_wire_volume *to, const struct fm_volume_said *from)
{
	unsigned state = (from->is_mounted ? FM_WIRE_VOLUME_MOUNTED : 0) |
			 (from->is_mounted && from->is_read_write ? FM_WIRE_VOLUME_READ_WRITE : 0) |
			 (from->is_sealed ? FM_WIRE_VOLUME_SEALED : 0);

	*to = (struct fm_wire_volume){ .state = (uint8_t)state,
				       .epoch = from->epoch,
				       .name = fm_wire_str(from->name),
				       .subsystem = fm_wire_str(from->subsystem),
				       .wwid = fm_wire_str(from->wwid),
				       .writer = fm_wire_str(from->writer) };
}

static void send_volumes(struct fm_session *s, uint64_t id, const struct fm_volume_said *volumes,
			 unsigned count)
{
	struct fm_wire_msg m = { .type = FM_WIRE_VOLUMES };
	unsigned done = 0;

	do {
		m.volumes.id = id;
		m.volumes.text = fm_wire_str("");
		for (m.volumes.count = 0; m.volumes.count < FM_WIRE_VOLUMES_MAX && done < count;
		     m.volumes.count++)
			put_volume(&m.volumes.volume[m.volumes.count], &volumes[done++]);
		m.volumes.flags = done < count ? FM_WIRE_VOLUMES_MORE : 0;
		fm_session_send(s, &m);
	} while (done < count && !s->is_closed);
}

static void on_volumes_ask(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_volumes_ask *m = &msg->volumes_ask;
	const struct fm_volumes_here *here = volumes_of(s->engine)->here;
	struct fm_volume_said *volumes = NULL;
	unsigned count = 0;
	struct fm_err err = { 0 };
	int ret;

	/* Long answers to one that does not read are not worth its session. */
	if (!fm_session_has_room(s))
		ret = fm_err_set(&err, -EBUSY, "too much is unread: ask again later");
	else if (!here)
		ret = fm_err_set(&err, -ENOENT, "fmove-nvmed does not run there");
	else
		ret = here->read(here->ctx, &volumes, &count, &err);
	if (ret < 0)
		refuse(s, m->id, &err);
	else
		send_volumes(s, m->id, volumes, count);
	free(volumes);
}

/* ---- what happens around it ---- */

static void volumes_session_lost(struct fm_session *s, const struct fm_err *err)
{
	fm_list_each(at, next, &volumes_of(s->engine)->asks) {
		struct volumes_ask *a = fm_container_of(at, struct volumes_ask, at);

		for (unsigned i = 0; i < a->count; i++)
			if (a->asked[i].session == s)
				fail_one(a, &a->asked[i], err);
		check_over(a);
	}
}

static void fail_all(struct volumes_ask *a, const struct fm_err *err)
{
	for (unsigned i = 0; i < a->count; i++)
		if (a->asked[i].session)
			fail_one(a, &a->asked[i], err);
	check_over(a);
}

static void volumes_stop(struct fm_engine *e)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -ECANCELED, "fmoved at %s is stopping", e->name);
	fm_list_each(at, next, &volumes_of(e)->asks)
		fail_all(fm_container_of(at, struct volumes_ask, at), &err);
}

static void volumes_tick(struct fm_engine *e, uint64_t now_ns)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -ETIMEDOUT, "did not answer in time");
	fm_list_each(at, next, &volumes_of(e)->asks) {
		struct volumes_ask *a = fm_container_of(at, struct volumes_ask, at);

		if (now_ns >= a->deadline_ns)
			fail_all(a, &err);
	}
}

static bool volumes_are_idle(const struct fm_engine *e)
{
	return volumes_of(e)->ask_count == 0;
}

static void volumes_init(void *state)
{
	struct volumes *v = state;

	fm_list_init(&v->asks);
	fm_share_init(&v->places,
		      &(struct fm_share_limits){"places for questions about volumes",
						FM_VOLUME_ASKS_MAX, FM_VOLUME_ASKS_ROOT, 0, 1});
}

static const struct fm_service_message messages[] = {
	{ FM_WIRE_VOLUMES_ASK, on_volumes_ask },
	{ FM_WIRE_VOLUMES, on_volumes },
};

const struct fm_service fm_volumes_service = {
	.name = "volumes",
	.messages = messages,
	.message_count = sizeof(messages) / sizeof(messages[0]),
	.state_bytes = sizeof(struct volumes),
	.init = volumes_init,
	.session_lost = volumes_session_lost,
	.tick = volumes_tick,
	.stop = volumes_stop,
	.is_idle = volumes_are_idle,
};
