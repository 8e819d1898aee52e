/* SPDX-License-Identifier: MIT */
/* hub_ask - see hub_ask.h. */
#include "staging/service/hub_ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/exit_code.h"
#include "mover/base/fault.h"
#include "mover/base/hub_name.h"
#include "mover/base/list.h"
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "staging/service/hub.h"
#include "staging/service/hub_find.h"
#include "staging/service/stager.h"

struct fm_hub_ask {
	struct fm_list at;
	struct fm_stager *s;
	struct fm_hub_name name;
	char job[FM_WIRE_JOB_LEN + 1];
	char dataset[FM_CACHE_NAME_MAX + 1];
	char *nodes;			/* NULL: here */
	struct fm_who who;
	pid_t pid;
	bool is_pinned, is_live;
	bool is_looking;		/* it is not staged yet */
	enum fm_stage_freshness check;
	struct fm_work work;		/* looks whose the repository is here */
	char from[FM_HUB_FROM_MAX + 1];
	int code;			/* of that look */
	struct fm_stage_ask *ask;	/* while it is staged */
	void (*done)(void *ctx, const struct fm_stage_result *result, const char *home);
	void *ctx;			/* NULL: nobody waits any more */
};

/* ---- the end ---- */

static void free_ask(struct fm_hub_ask *h)
{
	free(h->nodes);
	free(h);
}

static void end(struct fm_hub_ask *h, const struct fm_stage_result *result)
{
	struct fm_engine *engine = fm_stager_engine(h->s);

	if (h->is_looking && result->err.code < 0)
		fm_stager_log_failed(h->s, h->job, h->who.uid, h->dataset, &result->err);
	if (h->ctx)
		h->done(h->ctx, result, fm_hub_home(fm_stager_hub(h->s)));
	fm_list_del(&h->at);
	free_ask(h);
	fm_engine_check_stopped(engine);
}

static void staged(void *ctx, const struct fm_stage_result *result)
{
	struct fm_hub_ask *h = ctx;

	h->ask = NULL;
	h->is_looking = false;		/* what follows is logged by the stager */
	end(h, result);
}

/* ---- it is found: stage it ---- */

/* A node is away that may say which commit it is. What a user here asked for before may be here. */
static void tell_offline(const struct fm_hub_ask *h, struct fm_err *err)
{
	const struct fm_err why = *err;

	if (fm_api_exit(why.code) == FM_EXIT_UNREACHABLE && h->from[0])
		(void)fm_err_set(err, why.code,
				 "%.300s; what was staged of it is in HF_HOME=%.120s, where the "
				 "hub's own tools find it with HF_HUB_OFFLINE=1",
				 why.text, fm_hub_home(fm_stager_hub(h->s)));
}

static void found(void *ctx, const struct fm_hub_found *where)
{
	struct fm_hub_ask *h = ctx;
	char path[FM_HUB_DIR_MAX + FM_HUB_COMMIT_LEN + 2];
	struct fm_stage_request r = { .job = h->job, .node = where->node,
				      .store = where->store, .path = path,
				      .name = h->dataset, .who = h->who, .pid = h->pid,
				      .is_pinned = h->is_pinned, .check = h->check,
				      .is_live = h->is_live, .is_hub = true,
				      .revision = h->name.revision, .nodes = h->nodes };
	struct fm_stage_result failed = { .err = where->err };
	int ret = where->err.code;

	if (ret < 0) {
		tell_offline(h, &failed.err);
		end(h, &failed);
		return;
	}
	r.path_len = (size_t)snprintf(path, sizeof(path), "%s@%s", h->name.dir, where->commit);
	if (fm_stager_ask(h->s, &r, staged, h, &h->ask, &failed.err) < 0)
		end(h, &failed);
	else if (!h->ctx)
		fm_hub_ask_forget(h);
}

/* ---- first: whose is it here? ---- */

static void look_run(struct fm_work *work)
{
	struct fm_hub_ask *h = fm_container_of(work, struct fm_hub_ask, work);

	h->code = fm_hub_from(fm_stager_hub(h->s), h->name.dir, h->from);
}

/*
 * The store that a user here has the repository from is asked before other nodes. So the same
 * command gets the same source again, and no node that answers sooner, or brought it here by
 * itself, takes it over.
 */
static void look_done(struct fm_work *work)
{
	struct fm_hub_ask *h = fm_container_of(work, struct fm_hub_ask, work);
	struct fm_stage_result failed = { .err = { 0 } };

	if (h->code < 0) {
		(void)fm_err_sys(&failed.err, h->code, "read the source of %s", h->name.dir);
		end(h, &failed);
		return;
	}
	if (fm_hub_find(fm_stager_engine(h->s), &h->name, &h->who, h->from, found, h,
			&failed.err) < 0)
		end(h, &failed);
}

/* ---- from outside ---- */

int fm_hub_ask(struct fm_stager *s, const struct fm_hub_ask_opts *o,
	       void (*done)(void *ctx, const struct fm_stage_result *result, const char *home),
	       void *ctx, struct fm_hub_ask **out, struct fm_err *err)
{
	struct fm_hub_name name;
	struct fm_hub_ask *h;

	if (fm_hub_path_parse(o->path, &name) < 0)
		return fm_err_set(err, -EINVAL, "path is not models--ORG--NAME@REVISION");
	h = FM_FAULT("hub.ask") ? NULL : calloc(1, sizeof(*h));
	if (h && o->nodes && o->nodes[0])
		h->nodes = strdup(o->nodes);
	if (!h || (o->nodes && o->nodes[0] && !h->nodes)) {
		free(h);
		return fm_err_sys(err, -ENOMEM, "ask for %s", name.dir);
	}
	h->s = s;
	h->is_looking = true;
	h->name = name;
	(void)snprintf(h->job, sizeof(h->job), "%s", o->job);
	h->who = o->who;
	h->pid = o->pid;
	h->is_pinned = o->is_pinned;
	h->is_live = o->is_live;
	h->check = o->check;
	h->done = done;
	h->ctx = ctx;
	(void)snprintf(h->dataset, sizeof(h->dataset), "%s", o->name[0] ? o->name : name.dir);
	h->work = (struct fm_work){ .run = look_run, .done = look_done, .job = h->job,
				    .who = fm_share_user(o->who.uid) };
	fm_worker_submit(fm_stager_worker(s), &h->work, fm_stager_loop(s));
	fm_list_append(fm_stager_hub_asks(s), &h->at);
	*out = h;
	return 0;
}

/*
 * Forgets who asks. What was asked for goes on, up to its names in the hub. While the repository is
 * looked for, the search still uses h, which goes when that has found it.
 */
void fm_hub_ask_forget(struct fm_hub_ask *h)
{
	h->ctx = NULL;
	if (!h->ask)
		return;
	fm_stage_ask_forget(h->ask);
	fm_list_del(&h->at);
	free_ask(h);
}

void fm_hub_ask_look(const struct fm_hub_ask *h, struct fm_stage_progress *out)
{
	*out = (struct fm_stage_progress){ .phase = "looking for it", .job = h->job };
	if (h->ask)
		fm_stage_ask_look(h->ask, out);
}
