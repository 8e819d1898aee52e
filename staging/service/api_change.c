/* SPDX-License-Identifier: MIT */
/*
 * api_change - "pin", "unpin" and "unstage": of a dataset that is here, or of that name on other
 * nodes. See api_op.h.
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
#include "mover/base/exit_code.h"
#include "mover/base/fault.h"
#include "mover/base/json.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "staging/service/afar.h"
#include "staging/service/api_ops.h"
#include "staging/service/elsewhere.h"
#include "staging/service/hub.h"
#include "staging/service/stager.h"
#include "staging/service/together.h"

/* A name, and an error of whatever bytes, every byte escaped as six. */
_Static_assert((FM_CACHE_AFAR_NODES + 1) * ((FM_CACHE_NODE_MAX + 256) * 6 + 64) + 256 <=
		       FM_API_MSG_MAX,
	       "all nodes fit a message");

/* What a verb does here, and how other nodes are asked to do it. */
struct verb {
	enum fm_stage_verb there;
	int (*here)(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err);
};

struct change {
	struct fm_work work;
	struct fm_api_task *task;	/* NULL: it is gone */
	const struct verb *verb;
	struct fm_cache *cache;
	const char *node;		/* our name */
	char name[FM_NAME_LEN_MAX + 1];
	uid_t uid;
	bool is_dry;			/* nothing goes; ... */
	uint64_t bytes;			/* ... what would */
	bool is_of_nodes;		/* of several, and each of them is told of ... */
	char job[FM_QUEUE_ID_LEN + 1];	/* ... and logs under this id */
	bool is_here;			/* also of this one */
	unsigned waits;			/* for what has not ended yet, here and there */
	struct fm_afar_ask *ask;	/* to other nodes; NULL: none */
	unsigned count;
	char other[FM_CACHE_AFAR_NODES][FM_CACHE_NODE_MAX + 1];
	struct fm_err err;
};

/*
 * Whether it came of another user's own hub cache: then nobody but root of this node shall know
 * that it is here, and no other node may name it, not even in his name.
 */
static bool is_hidden(const struct fm_cache_info *info, uid_t uid, bool is_here)
{
	struct fm_hub_name name;
	uid_t owner;

	if (!fm_hub_is_own(info->source))
		return false;
	if (!is_here)
		return true;
	return uid != 0 && (fm_hub_own_parse(info->source, &owner, &name) < 0 || owner != uid);
}

/* What a name may mean to who says it. */
struct meant {
	const char *name;		/* of datasets, or their source */
	uid_t uid;
	bool is_here;			/* a user of this node */
	bool is_any;			/* one was met that is no secret to him */
};

/*
 * Whether the dataset has that name or source, and this user staged it or is root. For one that was
 * removed from the disk by hand nobody knows who staged it; then any user may, because there is
 * nothing left to lose.
 */
static bool is_his(struct fm_cache *c, uint64_t id, struct meant *m)
{
	struct fm_cache_info info;
	struct fm_err err;	/* it goes just now: then it is none */
	int ret;

	if (!fm_cache_look(c, id, &info) ||
	    (strcmp(info.name, m->name) != 0 && strcmp(info.source, m->name) != 0) ||
	    is_hidden(&info, m->uid, m->is_here))
		return false;
	m->is_any = true;
	ret = m->uid == 0 && m->is_here ? 1 : fm_cache_is_user(c, id, m->uid, &err);
	return ret == 1 || ret == -ENOENT;
}

/* Finds any dataset of that name that the user may change; 0: there is none. */
static uint64_t find_any(struct fm_cache *c, struct meant *m)
{
	uint64_t *ids = calloc(FM_CACHE_DATASETS_MAX, sizeof(*ids)), id = 0;
	size_t count = ids ? fm_cache_list(c, ids, FM_CACHE_DATASETS_MAX) : 0;

	for (; count > 0 && id == 0; count--)
		if (is_his(c, ids[count - 1], m))
			id = ids[count - 1];
	free(ids);
	return id;
}

int fm_stage_find_his(struct fm_cache *cache, const char *name, uid_t uid, bool is_here,
		      uint64_t *id, struct fm_err *err)
{
	struct meant m = { .name = name, .uid = uid, .is_here = is_here };
	uint64_t last = fm_cache_find_name(cache, name);

	*id = 0;
	if (last != 0)
		*id = is_his(cache, last, &m) ? last : find_any(cache, &m);
	if (*id == 0 && !m.is_any)
		return fm_err_set(err, -ENOENT,
				  "no dataset here is called \"%s\": fmove datasets lists those "
				  "of this node", name);
	if (*id == 0)
		return fm_err_set(err, -EPERM,
				  "only who staged it, or root, may do that: stage it first");
	return 0;
}

int fm_stage_find_to(enum fm_stage_verb verb, struct fm_cache *cache, const char *name, uid_t uid,
		     const char *node, uint64_t *id, struct fm_err *err)
{
	*id = verb == FM_STAGE_UNPIN ? fm_cache_find_pinned(cache, name, uid, node) : 0;
	return *id ? 0 : fm_stage_find_his(cache, name, uid, !node, id, err);
}

static void change_run(struct fm_work *work)
{
	struct change *c = fm_container_of(work, struct change, work);
	uint64_t id;

	if (fm_stage_find_to(c->verb->there, c->cache, c->name, c->uid, NULL, &id, &c->err) < 0)
		return;
	if (c->is_dry)
		(void)fm_cache_try_discard(c->cache, id, &c->bytes, &c->err);
	else
		(void)c->verb->here(c->cache, id, c->uid, &c->err);
}

/* ---- the answer ---- */

static void node_add(struct fm_json_writer *w, const char *node, int code, const char *text)
{
	fm_jw_object(w, NULL);
	fm_jw_text(w, "node", node);
	if (code < 0) {
		fm_jw_text(w, "code", fm_api_errno_name(code));
		fm_jw_text(w, "text", text);
	}
	fm_jw_object_end(w);
}

static void nodes_add(struct fm_json_writer *w, const struct change *c)
{
	char here[256];

	(void)snprintf(here, sizeof(here), "%.255s", c->err.text);
	fm_jw_array(w, "nodes");
	if (c->is_here)
		node_add(w, c->node, c->err.code, here);
	for (unsigned n = 0; n < c->count; n++) {
		const char *text;
		int code = fm_afar_look(c->ask, n, &text);

		node_add(w, c->other[n], code, text);
	}
	fm_jw_array_end(w);
}

static void answer(const struct change *c)
{
	struct fm_api_task *t = c->task;
	struct fm_json_writer w;

	t->work = NULL;
	if (c->err.code < 0 && !c->is_of_nodes) {
		fm_api_task_send_error(t, &c->err);
	} else {
		fm_api_event_begin(&w, t->tasks->tx, FM_API_MSG_MAX, t->id, "done");
		if (c->is_dry)
			fm_jw_u64(&w, "bytes", c->bytes);
		if (c->is_of_nodes) {
			fm_jw_text(&w, "job", c->job);
			nodes_add(&w, c);
		}
		fm_api_task_send(t, fm_api_event_end(&w));
	}
	fm_api_task_free(t);
}

static void one_ended(struct change *c)
{
	if (--c->waits > 0)
		return;
	if (c->task)
		answer(c);
	fm_afar_put(c->ask);
	free(c);
}

static void change_done(struct fm_work *work)
{
	one_ended(fm_container_of(work, struct change, work));
}

static void others_done(void *ctx)
{
	one_ended(ctx);
}

static void forget_change(struct fm_api_task *t)
{
	((struct change *)t->work)->task = NULL;
}

/* ---- the request ---- */

/* Which nodes it is for. One that is not known is an error. */
static int find_nodes(struct change *c, struct fm_stager *s, const char *nodes, struct fm_err *err)
{
	const struct fm_elsewhere *e = fm_stager_elsewhere(s);
	uint64_t set;
	int ret = fm_togethers_nodes(fm_stager_togethers(s), nodes, &set, err);

	if (ret < 0)
		return ret;
	c->is_of_nodes = true;
	c->is_here = fm_togethers_has_self(fm_stager_togethers(s), set);
	fm_list_each(at, next, &fm_stager_engine(s)->peers) {
		const struct fm_peer *p = fm_container_of(at, struct fm_peer, at);

		if (c->count < FM_CACHE_AFAR_NODES && fm_elsewhere_means(e, nodes, p->name))
			(void)snprintf(c->other[c->count++], sizeof(c->other[0]), "%s", p->name);
	}
	return 0;
}

static int ask_others(struct change *c, struct fm_stager *s, struct fm_err *err)
{
	const char *nodes[FM_CACHE_AFAR_NODES];
	const struct fm_afar_wish wish = { .verb = c->verb->there, .uid = c->uid, .name = c->name,
					   .nodes = nodes, .count = c->count,
					   .job = c->job, .what = c->name };
	int ret;

	if (c->count == 0)
		return 0;
	if (!c->name[0])
		return fm_err_set(err, -EINVAL, "name: it is empty: give the dataset's name");
	if (strlen(c->name) > FM_CACHE_NAME_MAX)
		return fm_err_set(err, -ENAMETOOLONG,
				  "too long for other nodes: give the dataset's name");
	for (unsigned n = 0; n < c->count; n++)
		nodes[n] = c->other[n];
	ret = fm_afar_ask(fm_stager_afar(s), &wish, others_done, c, &c->ask, err);
	c->waits += ret == 0;
	return ret;
}

static int new_change(const struct fm_api_call *call, struct fm_stager *s, const struct verb *verb,
		      struct fm_api_task *t, struct change **out, struct fm_err *err)
{
	struct change *c = FM_FAULT("stage.change") ? NULL : calloc(1, sizeof(*c));
	int ret = 0;

	if (!c)
		return fm_err_set(err, -ENOMEM, "no memory for a request");
	*c = (struct change){ .work = { .run = change_run, .done = change_done,
					.who = fm_share_user(t->owner->who.uid) },
			      .task = t, .verb = verb, .cache = fm_stager_cache(s),
			      .node = fm_stager_config(s)->node,
			      .uid = t->owner->who.uid, .is_dry = call->ask->is_dry,
			      .is_here = true };
	(void)snprintf(c->name, sizeof(c->name), "%s", call->ask->name);
	fm_queue_make_id(call->tasks->queue, c->job);
	if (call->ask->nodes[0] && c->is_dry)
		ret = fm_err_set(err, -EINVAL, "dry_run: it is of this node, without nodes");
	else if (call->ask->nodes[0])
		ret = find_nodes(c, s, call->ask->nodes, err);
	if (ret == 0)
		ret = ask_others(c, s, err);
	if (ret < 0)
		free(c);
	else
		*out = c;
	return ret;
}

static int start_change(struct fm_api_task *t, const struct fm_api_call *call,
			const struct verb *verb, struct fm_err *err)
{
	struct fm_stager *s;
	struct change *c = NULL;
	int ret = fm_stage_api_stager(call->tasks, &s, err);

	if (ret == 0)
		ret = new_change(call, s, verb, t, &c, err);
	if (ret < 0 || !c)
		return ret;
	t->work = c;
	t->work_forget = forget_change;
	if (c->is_here) {
		c->waits++;
		fm_worker_submit(fm_stager_worker(s), &c->work, fm_stager_loop(s));
	}
	return 0;
}

static int unpin(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err)
{
	return fm_cache_unpin(c, id, uid, uid == 0, err);
}

static int unstage(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err)
{
	(void)uid;
	return fm_cache_discard(c, id, err);
}

static int start_pin(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	static const struct verb verb = { FM_STAGE_PIN, fm_cache_pin };

	return start_change(t, call, &verb, err);
}

static int start_unpin(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	static const struct verb verb = { FM_STAGE_UNPIN, unpin };

	return start_change(t, call, &verb, err);
}

static int start_unstage(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	static const struct verb verb = { FM_STAGE_UNSTAGE, unstage };

	return start_change(t, call, &verb, err);
}

const struct fm_api_op fm_stage_op_pin = { .name = "pin", .start = start_pin,
					   .takes = FM_API_KEY(NODES), .needs = FM_API_KEY(NAME),
					   .abandon = fm_api_task_free };
const struct fm_api_op fm_stage_op_unpin = { .name = "unpin", .start = start_unpin,
					     .takes = FM_API_KEY(NODES),
					     .needs = FM_API_KEY(NAME),
					     .abandon = fm_api_task_free };
const struct fm_api_op fm_stage_op_unstage = { .name = "unstage", .start = start_unstage,
					       .takes = FM_API_KEY(DRY_RUN) | FM_API_KEY(NODES),
					       .needs = FM_API_KEY(NAME),
					       .abandon = fm_api_task_free };
