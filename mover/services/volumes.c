/* SPDX-License-Identifier: MIT */
/* volumes - see volumes.h. */
#include "mover/services/volumes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "mover/base/env.h"
#include "mover/node/session.h"
#include "mover/services/asking.h"

/* Who asks wants to mount: a peer that takes longer counts as one that does not answer. */
#define TIMEOUT_NS (2 * FM_NS_PER_S)

_Static_assert(sizeof(((struct fm_volume_said *)0)->name) == FM_WIRE_NAME_MAX + 1 &&
		       sizeof(((struct fm_volume_said *)0)->subsystem) ==
			       FM_WIRE_SUBSYSTEM_MAX + 1 &&
		       sizeof(((struct fm_volume_said *)0)->wwid) == FM_WIRE_WWID_MAX + 1,
	       "what is said fits the message");

struct volumes_ask {
	struct fm_ask ask;
	struct fm_volumes_events events;
	void *ctx;
};

struct volumes {
	struct fm_asking asking;
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

static void send_ask(struct fm_session *s, uint64_t id)
{
	fm_session_send(s, &(struct fm_wire_msg){.type = FM_WIRE_VOLUMES_ASK,
						 .volumes_ask = {.id = id}});
}

static void tell(struct fm_ask *ask, const struct fm_volumes_answer *answer)
{
	const struct volumes_ask *a = fm_container_of(ask, struct volumes_ask, ask);

	a->events.answer(a->ctx, answer);
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

static void ask_answer(struct fm_ask *ask, const char *node, const struct fm_wire_msg *m,
		       bool is_more)
{
	struct fm_volume_said said[FM_WIRE_VOLUMES_MAX];

	for (unsigned i = 0; i < m->volumes.count; i++)
		take_volume(&said[i], &m->volumes.volume[i]);
	tell(ask, &(struct fm_volumes_answer){.node = node,
					      .volumes = said,
					      .count = m->volumes.count,
					      .is_more = is_more});
}

static void ask_failed(struct fm_ask *ask, const char *node, const struct fm_err *err)
{
	tell(ask, &(struct fm_volumes_answer){.node = node, .err = err});
}

static void ask_done(struct fm_ask *ask)
{
	const struct volumes_ask *a = fm_container_of(ask, struct volumes_ask, ask);

	a->events.done(a->ctx);
}

static const struct fm_question question = {
	.places = {"places for questions about volumes", FM_VOLUME_ASKS_MAX, FM_VOLUME_ASKS_ROOT, 0,
		   1},
	.timeout_ns = TIMEOUT_NS,
	.ask_bytes = sizeof(struct volumes_ask),
	.said_max = FM_VOLUMES_SAID_MAX,
	.said_what = "volumes",
	.send = send_ask,
	.answer = ask_answer,
	.failed = ask_failed,
	.done = ask_done,
};

int fm_volumes_ask(struct fm_engine *e, uid_t uid, const struct fm_volumes_events *events,
		   void *ctx, struct fm_err *err)
{
	struct volumes_ask *a;
	struct fm_ask *ask;
	int ret = fm_asking_begin(&volumes_of(e)->asking, e, uid, NULL, &ask, err);

	if (ret < 0)
		return ret;
	a = fm_container_of(ask, struct volumes_ask, ask);
	a->events = *events;
	a->ctx = ctx;
	return 0;
}

static void on_volumes(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_volumes *m = &msg->volumes;
	const struct fm_ask_reply reply = {.id = m->id,
					   .code = m->code,
					   .text = m->text,
					   .said = m->count,
					   .is_more = m->flags & FM_WIRE_VOLUMES_MORE};

	fm_asking_heard(&volumes_of(s->engine)->asking, s, msg, &reply);
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
	fm_asking_session_lost(&volumes_of(s->engine)->asking, s, err);
}

static void volumes_stop(struct fm_engine *e)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -EHOSTDOWN, "fmoved at %s is stopping", e->name);
	fm_asking_stop(&volumes_of(e)->asking, &err);
}

static void volumes_tick(struct fm_engine *e, uint64_t now_ns)
{
	fm_asking_tick(&volumes_of(e)->asking, now_ns);
}

static bool volumes_are_idle(const struct fm_engine *e)
{
	return fm_asking_is_idle(&volumes_of(e)->asking);
}

static void volumes_init(void *state)
{
	struct volumes *v = state;

	fm_asking_init(&v->asking, &question);
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
