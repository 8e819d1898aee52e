/* SPDX-License-Identifier: MIT */
/*
 * api_datasets - "datasets": what is in the cache, and what other nodes have of it. See api_op.h.
 *
 * A worker finds what the caller may see. If he asks for other nodes, too, these are asked of as
 * many datasets as a question has place for, and the rest is for the next request.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_op.h"
#include "mover/api/api_request.h"
#include "mover/api/api_task.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/json.h"
#include "mover/base/worker.h"
#include "staging/service/api_ops.h"
#include "staging/service/elsewhere.h"
#include "staging/service/hub.h"
#include "staging/service/run.h"
#include "staging/service/stage_ask.h"
#include "staging/service/stager.h"
#include "staging/service/there.h"
#include "staging/service/together.h"

#define HOLDERS_MAX 16u	/* that are named */
/* Of a node: its name, every byte escaped as six, and the rest. */
#define NODE_TEXT_MAX (FM_WIRE_NAME_MAX * 6 + 96u)
#define ROW_TEXT_MAX (FM_STAGE_API_DATASET_MAX + FM_ELSEWHERE_NODES_MAX * NODE_TEXT_MAX)
_Static_assert(ROW_TEXT_MAX + 256 <= FM_API_MSG_MAX, "a dataset does not fit a message");

/*
 * The list of datasets. A user sees those that he staged and those that are fetched for him; root
 * sees all.
 */
struct listing {
	struct fm_work work;
	struct fm_api_task *task;	/* NULL: it is gone */
	struct fm_stager *stager;
	uid_t uid;
	char nodes[FM_API_NODES_MAX + 1];	/* "": no others are asked */
	struct fm_elsewhere_ask *ask;		/* under way, or answered; NULL: none */
	uint64_t from;				/* number in the list */
	size_t count;
	size_t end;				/* others are asked of those before it */
	uint64_t ids[FM_CACHE_DATASETS_MAX];
	bool is_his[FM_CACHE_DATASETS_MAX];
};

static void holders_add(struct fm_json_writer *w, struct fm_cache *c, uint64_t id)
{
	struct fm_cache_holder holders[HOLDERS_MAX];
	size_t count = fm_cache_holders(c, id, holders, HOLDERS_MAX);

	fm_jw_array(w, "holders");
	for (size_t i = 0; i < count; i++) {
		fm_jw_object(w, NULL);
		fm_jw_u64(w, "pid", (uint64_t)holders[i].pid);
		fm_jw_u64(w, "uid", holders[i].uid);
		if (holders[i].node[0])
			fm_jw_text(w, "node", holders[i].node);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

/* The state of a dataset for users. A partial one that no run fetches just now is "partial". */
static const char *state_of(const struct fm_stager *s, const struct fm_cache_info *info)
{
	const char *doing = fm_stage_runs_doing(fm_stager_runs(s), &info->listing);

	if (info->state == FM_CACHE_READY || info->state == FM_CACHE_EVICTING)
		return fm_cache_state_name(info->state);
	return doing ? doing : "partial";
}

static void nodes_add(struct fm_json_writer *w, const struct fm_elsewhere_ask *ask, unsigned key)
{
	fm_jw_array(w, "nodes");
	for (unsigned n = 0; n < fm_elsewhere_nodes(ask); n++) {
		struct fm_elsewhere_node node;

		fm_elsewhere_look(ask, n, key, &node);
		fm_jw_object(w, NULL);
		fm_jw_text(w, "node", node.name);
		fm_jw_text(w, "state", node.state);
		fm_jw_u64(w, "bytes", node.bytes);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

static void listing_run(struct fm_work *work)
{
	struct listing *l = fm_container_of(work, struct listing, work);
	struct fm_cache *c = fm_stager_cache(l->stager);
	struct fm_err err;	/* it goes just now: then he sees it no more */

	l->count = fm_cache_list(c, l->ids, FM_CACHE_DATASETS_MAX);
	l->end = l->count;
	for (size_t i = l->from; i < l->count; i++)
		l->is_his[i] = l->uid == 0 ||
				    fm_cache_has_staged(c, l->ids[i], l->uid, &err) == 1;
}

/* Whether the caller sees dataset number i, and what it is. */
static bool is_shown(const struct listing *l, size_t i, struct fm_cache_info *info)
{
	return fm_cache_look(fm_stager_cache(l->stager), l->ids[i], info) &&
	       (l->is_his[i] || fm_stager_is_asked(l->stager, info->source, l->uid));
}

static void row_add(const struct listing *l, struct fm_json_writer *w,
		    const struct fm_cache_info *info)
{
	struct fm_cache *c = fm_stager_cache(l->stager);
	char path[FM_PATH_LEN_MAX + 1];

	if (info->state != FM_CACHE_READY ||
	    fm_cache_path(c, info->id, path, sizeof(path)) < 0)
		path[0] = '\0';
	fm_jw_object(w, NULL);
	fm_stage_api_dataset(w, info, state_of(l->stager, info), path);
	holders_add(w, c, info->id);
	if (l->ask && !fm_hub_is_own(info->source))
		nodes_add(w, l->ask, fm_elsewhere_key(l->ask, &info->listing));
	fm_jw_object_end(w);
}

/* Adds datasets to the answer from number `from` on, as many as fit. */
static void listing_add(const struct listing *l, struct fm_json_writer *w)
{
	struct fm_cache_info info;
	size_t i;

	fm_jw_array(w, "datasets");
	for (i = l->from; i < l->end && fm_jw_room(w) > ROW_TEXT_MAX + 64; i++)
		if (is_shown(l, i, &info))
			row_add(l, w, &info);
	fm_jw_array_end(w);
	fm_jw_u64(w, "next", i);
	fm_jw_bool(w, "more", i < l->count);
}

/* Answers the request, and ends it. */
static void answer(struct listing *l)
{
	struct fm_api_task *t = l->task;
	struct fm_cache_sums sums;
	struct fm_json_writer w;

	t->work = NULL;
	fm_cache_sums(fm_stager_cache(l->stager), &sums);
	fm_api_event_begin(&w, t->tasks->tx, FM_API_MSG_MAX, t->id, "done");
	fm_jw_u64(&w, "size", sums.size);
	fm_jw_u64(&w, "used", sums.used);
	fm_jw_u64(&w, "promised", sums.promised);
	fm_jw_u64(&w, "source_bytes", fm_togethers_read(fm_stager_togethers(l->stager)));
	listing_add(l, &w);
	fm_api_task_send(t, fm_api_event_end(&w));
	fm_api_task_free(t);
	free(l);
}

static void answered(void *ctx, const struct fm_elsewhere_ask *ask)
{
	(void)ask;	/* it is l->ask, and goes behind this */
	answer(ctx);
}

/* Asks the other nodes of what the caller sees. 0: of nothing. */
static int ask_others(struct listing *l, struct fm_err *err)
{
	struct fm_cache_key keys[FM_STAGE_THERE_MAX];
	struct fm_elsewhere_question q = { .who = fm_share_user(l->uid), .nodes = l->nodes,
					   .keys = keys, .done = answered, .ctx = l };
	struct fm_cache_info info;
	unsigned count = 0;
	size_t i;
	int ret;

	for (i = l->from; i < l->count && count < FM_STAGE_THERE_MAX; i++)
		/* of a user's own cache no other node hears */
		if (is_shown(l, i, &info) && !fm_hub_is_own(info.source))
			keys[count++] = info.listing;
	l->end = i;
	if (count == 0)
		return 0;
	q.count = count;
	ret = fm_elsewhere_ask(fm_stager_elsewhere(l->stager), &q, &l->ask, err);
	return ret < 0 ? ret : 1;
}

static void listing_done(struct fm_work *work)
{
	struct listing *l = fm_container_of(work, struct listing, work);
	struct fm_api_task *t = l->task;
	struct fm_err err;
	int ret;

	if (!t) {
		free(l);
		return;
	}
	ret = l->nodes[0] ? ask_others(l, &err) : 0;
	if (ret > 0)
		return;		/* answered() goes on */
	if (ret == 0) {
		answer(l);
		return;
	}
	t->work = NULL;
	fm_api_task_send_error(t, &err);
	fm_api_task_free(t);
	free(l);
}

static void forget_listing(struct fm_api_task *t)
{
	struct listing *l = t->work;

	l->task = NULL;
	if (l->ask) {		/* else the worker has it, and listing_done() frees it */
		fm_elsewhere_forget(l->ask);
		free(l);
	}
}

static int start_datasets(struct fm_api_task *t, const struct fm_api_call *call,
			  struct fm_err *err)
{
	struct fm_stager *s;
	struct listing *l;
	int ret = fm_stage_api_stager(call->tasks, &s, err);

	if (ret < 0)
		return ret;
	l = FM_FAULT("stage.listing") ? NULL : malloc(sizeof(*l));
	if (!l)
		return fm_err_set(err, -ENOMEM, "no memory for a list of what is staged");
	l->work = (struct fm_work){ .run = listing_run, .done = listing_done,
				    .who = fm_share_user(t->owner->who.uid) };
	l->task = t;
	l->stager = s;
	l->uid = t->owner->who.uid;
	l->from = call->ask->after_seq;
	l->ask = NULL;
	(void)snprintf(l->nodes, sizeof(l->nodes), "%s", call->ask->nodes);
	t->work = l;
	t->work_forget = forget_listing;
	fm_worker_submit(fm_stager_worker(s), &l->work, fm_stager_loop(s));
	return 0;
}

const struct fm_api_op fm_stage_op_datasets = {
	.name = "datasets",
	.takes = FM_API_KEY(SEQ) | FM_API_KEY(NODES),
	.start = start_datasets,
	.abandon = fm_api_task_free,
};
