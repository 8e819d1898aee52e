/* SPDX-License-Identifier: MIT */
/*
 * api_locate - "locate": the store of this node that an absolute path is in. See api_op.h.
 *
 * Nothing of the path is looked at: its text is compared with where those stores are that the
 * caller may read. So nobody learns more than the rules of the stores let him, and symbolic links
 * are for the caller to resolve, with his own rights.
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
#include "mover/node/node.h"
#include "mover/store/access.h"
#include "staging/service/api_ops.h"

struct locate {
	struct fm_work work;
	struct fm_api_task *task;	/* NULL: it is gone */
	struct fm_store_ref *stores[FM_STORES_MAX];
	unsigned count;
	struct fm_who who;
	char path[FM_PATH_LEN_MAX + 1];
	const char *store;		/* NULL: in none */
	const char *below;		/* in path */
};

/* Finds the store that a path is in. If several contain it, the innermost counts. */
static void locate_run(struct fm_work *work)
{
	struct locate *l = fm_container_of(work, struct locate, work);
	const char *below;

	for (unsigned i = 0; i < l->count; i++) {
		struct fm_store *s = l->stores[i]->store;

		if (!s->ops->has_path || !s->ops->has_path(s, l->path, &l->who, &below) ||
		    (l->store && below <= l->below))
			continue;
		l->store = s->name;
		l->below = below;
	}
}

/* The rules of all stores are asked, of their file systems none. */
static const void *may_await(const struct locate *l)
{
	const void *users = NULL;

	for (unsigned i = 0; i < l->count && !users; i++)
		users = fm_access_may_await(l->stores[i]->store, &l->who);
	return users;
}

/*
 * Fails with the line of configuration that would declare a store: for /data/set, a store "data".
 */
static int fail_undeclared(const struct locate *l, const char *node, struct fm_err *err)
{
	const char *slash = strrchr(l->path, '/'), *name;
	int len = slash == l->path ? (int)strlen(l->path) : (int)(slash - l->path);

	for (name = l->path + len; name[-1] != '/';)
		name--;
	return fm_err_set(err, -ENOENT,
			  "in no store of %s that you may read; a line in its fmove.conf would "
			  "declare one: stores = ( { name = \"%.*s\"; directory = \"%.*s\"; } );",
			  node, (int)(l->path + len - name), name, len, l->path);
}

static void answer(struct locate *l)
{
	struct fm_api_task *t = l->task;
	struct fm_json_writer w;
	struct fm_err err;

	if (!l->store) {
		(void)fail_undeclared(l, t->tasks->node, &err);
		fm_api_task_send_error(t, &err);
		return;
	}
	fm_api_event_begin(&w, t->tasks->tx, FM_API_MSG_MAX, t->id, "done");
	fm_jw_text(&w, "node", t->tasks->node);
	fm_jw_text(&w, "store", l->store);
	fm_jw_name(&w, "path", l->below, strlen(l->below));
	fm_api_task_send(t, fm_api_event_end(&w));
}

static void locate_done(struct fm_work *work)
{
	struct locate *l = fm_container_of(work, struct locate, work);

	if (l->task) {
		answer(l);
		l->task->work = NULL;
		fm_api_task_free(l->task);
	}
	while (l->count > 0)
		fm_engine_store_put(l->stores[--l->count]);
	free(l);
}

static void forget(struct fm_api_task *t)
{
	((struct locate *)t->work)->task = NULL;
}

static int start_locate(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	struct fm_engine *e = t->tasks->engine;
	struct locate *l;

	if (call->ask->path[0] != '/' || !call->ask->path[1])
		return fm_err_set(err, -EINVAL, "\"path\" is not absolute, or names no file");
	l = FM_FAULT("stage.locate") ? NULL : calloc(1, sizeof(*l));
	if (!l)
		return fm_err_set(err, -ENOMEM, "no memory for a request");
	l->task = t;
	l->who = t->owner->who;
	(void)snprintf(l->path, sizeof(l->path), "%s", call->ask->path);
	fm_list_each(at, next, &e->stores) {
		const char *name = fm_container_of(at, struct fm_store_ref, at)->store->name;
		struct fm_store_ref *ref = fm_engine_store_get(e, name, strlen(name));

		if (ref)
			l->stores[l->count++] = ref;
	}
	l->work = (struct fm_work){ .run = locate_run, .done = locate_done,
				    .may_await = may_await(l),
				    .who = fm_share_user(l->who.uid) };
	t->work = l;
	t->work_forget = forget;
	fm_worker_submit(e->env.worker, &l->work, t->tasks->loop);
	return 0;
}

const struct fm_api_op fm_stage_op_locate = {
	.name = "locate",
	.needs = FM_API_KEY(PATH),
	.start = start_locate,
	.abandon = fm_api_task_free,
};
