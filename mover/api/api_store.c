/* SPDX-License-Identifier: MIT */
/*
 * api_store - requests about what is stored, here or at a peer. See api_op.h.
 *
 * The engine's; the done event; gone. One whose client is gone ends in its own time, unanswered.
 */
#include <stddef.h>
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_rows.h"
#include "mover/api/api_task.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/services/request.h"

/* event NULL: that it is done is all there is to say. */
static const struct verb {
	const struct fm_api_op *op;
	enum fm_verb verb;
	int (*event)(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r);
	enum fm_verb of_partials;	/* where it takes "partial" */
} verbs[] = {
	{ &fm_api_stat, FM_VERB_STAT, fm_api_event_stat, 0 },
	{ &fm_api_look, FM_VERB_LOOK, fm_api_event_look, 0 },
	{ &fm_api_list, FM_VERB_LIST, fm_api_event_list, FM_VERB_PARTIALS },
	{ &fm_api_remove, FM_VERB_REMOVE, NULL, 0 },
	{ &fm_api_mkdir, FM_VERB_MKDIR, NULL, 0 },
	{ &fm_api_move, FM_VERB_MOVE, NULL, 0 },
	{ &fm_api_link, FM_VERB_LINK, fm_api_event_link, 0 },
	{ &fm_api_group_begin, FM_VERB_GROUP_BEGIN, NULL, 0 },
	{ &fm_api_group_commit, FM_VERB_GROUP_COMMIT, NULL, 0 },
	{ &fm_api_group_discard, FM_VERB_GROUP_DISCARD, NULL, 0 },
	{ &fm_api_group_list, FM_VERB_GROUP_LIST, fm_api_event_groups, 0 },
	{ &fm_api_space, FM_VERB_FREE, fm_api_event_space, 0 },
	{ &fm_api_purge, FM_VERB_PURGE, fm_api_event_purged, FM_VERB_PURGE_PARTIALS },
};

static const struct verb *verb_of(const struct fm_api_op *op)
{
	const struct verb *v = verbs;

	while (v->op != op)
		v++;
	return v;
}

static void request_done(void *ctx, const struct fm_request_result *result)
{
	struct fm_api_task *t = ctx;
	const struct verb *v = verb_of(t->op);
	char *tx = t->tasks->tx;

	if (result->missing)
		fm_api_task_send(t, fm_api_event_missing(tx, FM_API_MSG_MAX, t->id, result));
	else if (result->code < 0)
		fm_api_task_send_error(t, &result->err);
	else if (v->event)
		fm_api_task_send(t, v->event(tx, FM_API_MSG_MAX, t->id, result));
	else
		fm_api_task_send(t, fm_api_event_done(tx, FM_API_MSG_MAX, t->id));
	fm_api_task_free(t);
}

/* What is asked of a group. A second is the least that it may have. */
static struct fm_group_ask group_of(const struct fm_api_request *a)
{
	struct fm_group_ask g = {.members = (uint32_t)a->members,
				 .expires_s = (a->expires_ms + 999) / 1000,
				 .expect = a->expect_len > 0 ? a->expect : NULL,
				 .expect_len = a->expect_len};

	memcpy(g.id, a->group, sizeof(g.id));
	return g;
}

static enum fm_verb asked_verb(const struct fm_api_request *a, const struct verb *v)
{
	if (a->is_check)
		return FM_VERB_GROUP_CHECK;
	return a->is_partial ? v->of_partials : v->verb;
}

static int start_request(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	const struct fm_api_request *a = call->ask;
	const struct verb *v = verb_of(t->op);
	const struct fm_group_ask group = group_of(a);
	const struct fm_request_opts opts = {
		.verb = asked_verb(a, v),
		.node = a->node[0] ? a->node : NULL,
		.store = a->store,
		.path = a->path,
		.path_len = a->path_len,
		.after = a->after,
		.to = a->to,
		.to_len = a->to_len,
		.keep = (uint32_t)a->keep_last,
		.is_recursive = a->is_recursive,
		.may_replace = a->is_force,
		.is_later = a->is_later,
		.is_dry = a->is_dry,
		.group = a->has_group ? &group : NULL,
		.who = t->owner->who,
		.timeout_ns = a->timeout_ms * FM_NS_PER_MS,
	};

	return fm_request_start(t->tasks->engine, &opts, request_done, t, err);
}

#define TAKES (FM_API_KEY(NODE) | FM_API_KEY(TIMEOUT_MS))
#define NEEDS (FM_API_KEY(STORE) | FM_API_KEY(PATH))

const struct fm_api_op fm_api_stat = {
	.name = "stat",
	.takes = TAKES,
	.needs = NEEDS,
	.start = start_request,
};

const struct fm_api_op fm_api_look = {
	.name = "look",
	.takes = TAKES,
	.needs = NEEDS,
	.start = start_request,
};

const struct fm_api_op fm_api_list = {
	.name = "list",
	.takes = TAKES | FM_API_KEY(AFTER) | FM_API_KEY(PARTIAL),
	.needs = NEEDS,
	.start = start_request,
};

const struct fm_api_op fm_api_remove = {
	.name = "remove",
	.takes = TAKES | FM_API_KEY(RECURSIVE),
	.needs = NEEDS,
	.start = start_request,
};

const struct fm_api_op fm_api_mkdir = {
	.name = "mkdir",
	.takes = TAKES,
	.needs = NEEDS,
	.start = start_request,
};

const struct fm_api_op fm_api_move = {
	.name = "move",
	.takes = TAKES | FM_API_KEY(FORCE),
	.needs = NEEDS | FM_API_KEY(TO),
	.start = start_request,
};

const struct fm_api_op fm_api_link = {
	.name = "link",
	.takes = TAKES | FM_API_KEY(FORCE) | FM_API_KEY(KEEP_LAST) | FM_API_KEY(LATER),
	.needs = NEEDS | FM_API_KEY(TO),
	.start = start_request,
};

#define PUBLISHES (FM_API_KEY(FORCE) | FM_API_KEY(MEMBERS) | FM_API_KEY(EXPECT))

const struct fm_api_op fm_api_group_begin = {
	.name = "group_begin",
	.takes = TAKES | PUBLISHES | FM_API_KEY(EXPIRES_MS),
	.needs = NEEDS | FM_API_KEY(GROUP),
	.start = start_request,
};

const struct fm_api_op fm_api_group_commit = {
	.name = "group_commit",
	.takes = TAKES | PUBLISHES | FM_API_KEY(CHECK_ONLY),
	.needs = NEEDS | FM_API_KEY(GROUP),
	.start = start_request,
};

const struct fm_api_op fm_api_group_discard = {
	.name = "group_discard",
	.takes = TAKES,
	.needs = NEEDS | FM_API_KEY(GROUP),
	.start = start_request,
};

const struct fm_api_op fm_api_group_list = {
	.name = "group_list",
	.takes = TAKES,
	.needs = NEEDS,
	.start = start_request,
};

const struct fm_api_op fm_api_space = {
	.name = "space",
	.takes = TAKES | FM_API_KEY(AFTER),
	.needs = NEEDS,
	.start = start_request,
};

const struct fm_api_op fm_api_purge = {
	.name = "purge",
	.takes = TAKES | FM_API_KEY(DRY_RUN) | FM_API_KEY(PARTIAL),
	.needs = NEEDS,
	.start = start_request,
};
