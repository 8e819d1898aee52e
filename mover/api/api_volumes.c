/* SPDX-License-Identifier: MIT */
/*
 * api_volumes - what the peers say of shared volumes. See api_op.h; its event: api_event.h.
 *
 * The engine's; an event for each peer; the done event; gone.
 */
#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_rows.h"
#include "mover/api/api_task.h"
#include "mover/base/exit_code.h"
#include "mover/base/json.h"
#include "mover/base/err.h"
#include "mover/services/volumes.h"
#include "mover/wire/wire.h"

/* Each byte may be escaped as six. */
_Static_assert(FM_WIRE_VOLUMES_MAX *(
		       6 * (2 * FM_WIRE_NAME_MAX + FM_WIRE_SUBSYSTEM_MAX + FM_WIRE_WWID_MAX) +
		       160) + 8192 <=
		       FM_API_MSG_MAX,
	       "what one message says fits one event");

static void volume_add(struct fm_json_writer *w, const struct fm_volume_said *v)
{
	fm_jw_object(w, NULL);
	fm_jw_text(w, "name", v->name);
	fm_jw_text(w, "subsystem", v->subsystem);
	fm_jw_text(w, "wwid", v->wwid);
	fm_jw_text(w, "writer", v->writer);
	fm_jw_bool(w, "mounted", v->is_mounted);
	fm_jw_bool(w, "read_write", v->is_read_write);
	fm_jw_bool(w, "sealed", v->is_sealed);
	fm_jw_u64(w, "epoch", v->epoch);
	fm_jw_object_end(w);
}

int fm_api_event_volumes(char *buf, size_t cap, uint64_t id, const struct fm_volumes_answer *a)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "volumes");
	fm_jw_text(&w, "node", a->node);
	if (a->err) {
		fm_jw_text(&w, "code", fm_api_errno_name(a->err->code));
		fm_jw_text(&w, "text", a->err->text);
	}
	fm_jw_array(&w, "volumes");
	for (unsigned i = 0; i < a->count; i++)
		volume_add(&w, &a->volumes[i]);
	fm_jw_array_end(&w);
	fm_jw_bool(&w, "more", a->is_more);
	return fm_api_event_end(&w);
}

/* ---- the operation ---- */

static void task_volumes(void *ctx, const struct fm_volumes_answer *answer)
{
	struct fm_api_task *t = ctx;

	if (t->owner)
		fm_api_task_send(t,
				 fm_api_event_volumes(t->tasks->tx, FM_API_MSG_MAX, t->id, answer));
}

static void task_volumes_done(void *ctx)
{
	struct fm_api_task *t = ctx;

	fm_api_task_send(t, fm_api_event_done(t->tasks->tx, FM_API_MSG_MAX, t->id));
	fm_api_task_free(t);
}

static int start_volumes(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	static const struct fm_volumes_events events = { task_volumes, task_volumes_done };

	(void)call;
	return fm_volumes_ask(t->tasks->engine, t->owner->who.uid, &events, t, err);
}

const struct fm_api_op fm_api_volumes = { .name = "volumes", .start = start_volumes };
