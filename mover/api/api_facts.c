/* SPDX-License-Identifier: MIT */
/*
 * api_facts - what was read of peers, fmove-facts(5). See api_op.h; its event: api_event.h.
 *
 * The engine's; an event for each piece of each peer; the done event; gone.
 */
#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_request.h"
#include "mover/api/api_rows.h"
#include "mover/api/api_task.h"
#include "mover/base/err.h"
#include "mover/base/exit_code.h"
#include "mover/base/json.h"
#include "mover/services/node_facts.h"
#include "mover/wire/wire.h"

/* Each byte may be escaped as six. */
_Static_assert(6 * (FM_WIRE_FACTS_MAX + FM_WIRE_NAME_MAX + FM_ERR_TEXT_MAX) + 1024 <=
		       FM_API_MSG_MAX,
	       "what one message says fits one event");

int fm_api_event_facts(char *buf, size_t cap, uint64_t id, const struct fm_node_facts_answer *a)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "facts");
	fm_jw_text(&w, "node", a->node);
	if (a->err) {
		fm_jw_text(&w, "code", fm_api_errno_name(a->err->code));
		fm_jw_text(&w, "text", a->err->text);
	} else {
		fm_jw_name(&w, "piece", a->piece, a->len);
	}
	fm_jw_bool(&w, "more", a->is_more);
	return fm_api_event_end(&w);
}

/* ---- the operation ---- */

static void task_facts(void *ctx, const struct fm_node_facts_answer *answer)
{
	struct fm_api_task *t = ctx;

	if (t->owner)
		fm_api_task_send(t,
				 fm_api_event_facts(t->tasks->tx, FM_API_MSG_MAX, t->id, answer));
}

static void task_facts_done(void *ctx)
{
	struct fm_api_task *t = ctx;

	fm_api_task_send(t, fm_api_event_done(t->tasks->tx, FM_API_MSG_MAX, t->id));
	fm_api_task_free(t);
}

static int start_facts(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	static const struct fm_node_facts_events events = {task_facts, task_facts_done};
	const char *node = call->ask->node[0] ? call->ask->node : NULL;

	return fm_node_facts_ask(t->tasks->engine, t->owner->who.uid, node, &events, t, err);
}

const struct fm_api_op fm_api_facts = {
	.name = "facts",
	.takes = FM_API_KEY(NODE),
	.start = start_facts,
};
