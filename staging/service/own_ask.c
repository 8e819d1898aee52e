/* SPDX-License-Identifier: MIT */
/* own_ask - see own_ask.h. */
#include "staging/service/own_ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/hub_name.h"
#include "mover/base/list.h"
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "staging/service/hub.h"
#include "staging/service/served.h"
#include "staging/service/stager.h"

struct fm_own_ask {
	char job[FM_WIRE_JOB_LEN + 1];
	struct fm_list at;		/* of fm_stager_hub_asks(): the engine waits for it */
	struct fm_stager *s;
	struct fm_hub_name name;	/* its revision is a commit */
	char revision[FM_HUB_REVISION_MAX + 1];
	char dataset[FM_CACHE_NAME_MAX + 1];
	struct fm_who who;
	pid_t pid;
	bool is_pinned;
	bool is_made;			/* list, copy and err are; before, the holder's */
	bool is_over;			/* it was answered meanwhile, and is off the list */
	struct fm_share_held place;	/* its user's, as long as it has anything of his */
	struct fm_holder *holder;
	int fds[FM_OWN_FDS];
	struct fm_work work;		/* there: makes these of the descriptors */
	struct fm_served *list, *copy;
	struct fm_err err;		/* of that */
	struct fm_stage_ask *ask;	/* while it is staged */
	void (*done)(void *ctx, const struct fm_stage_result *result, const char *home);
	void *ctx;			/* NULL: nobody waits any more */
};

/* ---- the end ---- */

static void answer(struct fm_own_ask *o, const struct fm_stage_result *result)
{
	char home[FM_PATH_LEN_MAX + 1];

	fm_hub_own_home(fm_stager_hub(o->s), o->who.uid, home);
	if (o->ctx)
		o->done(o->ctx, result, home);
	o->ctx = NULL;
	fm_list_del(&o->at);
}

static void free_ask(struct fm_own_ask *o)
{
	fm_served_put(o->list);
	fm_served_put(o->copy);
	fm_holder_put(o->holder);
	fm_share_give_all(&o->place);
	free(o);
}

static void end(struct fm_own_ask *o, const struct fm_stage_result *result)
{
	struct fm_engine *engine = fm_stager_engine(o->s);

	answer(o, result);
	free_ask(o);
	fm_engine_check_stopped(engine);
}

/*
 * What he passed is still looked at in his holder, whose threads may all wait for ever: nobody
 * waits for that. He keeps his place.
 */
static void leave(struct fm_own_ask *o)
{
	struct fm_stage_result left = { .is_hub = true };

	(void)fm_err_set(&left.err, -ECANCELED, "cancelled");
	fm_stager_log_failed(o->s, o->job, o->who.uid, o->dataset, &left.err);
	answer(o, &left);
	o->is_over = true;
	fm_engine_check_stopped(fm_stager_engine(o->s));
}

static void staged(void *ctx, const struct fm_stage_result *result)
{
	end(ctx, result);
}

/* ---- what is served is known: stage it ---- */

static int stage(struct fm_own_ask *o, struct fm_err *err)
{
	char path[FM_HUB_DIR_MAX + FM_HUB_COMMIT_LEN + 2];
	struct fm_stage_request r = { .job = o->job, .node = "", .store = "", .path = path,
				      .name = o->dataset, .who = o->who, .pid = o->pid,
				      .is_pinned = o->is_pinned,
				      .is_hub = true, .list = o->list, .copy = o->copy,
				      .revision = o->revision };
	int ret;

	r.path_len = (size_t)snprintf(path, sizeof(path), "%s@%s", o->name.dir, o->name.revision);
	ret = fm_stager_ask(o->s, &r, staged, o, &o->ask, err);
	if (ret < 0)
		return ret;
	/* that has its own references, and lets go of each when it is through with it */
	fm_served_put(o->list);
	fm_served_put(o->copy);
	o->list = o->copy = NULL;
	return 0;
}

static void make_run(struct fm_work *work)
{
	struct fm_own_ask *o = fm_container_of(work, struct fm_own_ask, work);
	const unsigned half = FM_OWN_FDS / 2;

	if (fm_served_new(o->holder, o->fds, half, &o->list, &o->err) < 0)
		fm_holder_close(o->holder, o->fds + half, half);
	else
		(void)fm_served_new(o->holder, o->fds + half, half, &o->copy, &o->err);
}

static void make_done(struct fm_work *work)
{
	struct fm_own_ask *o = fm_container_of(work, struct fm_own_ask, work);
	struct fm_stage_result failed = { .err = o->err };

	if (o->is_over) {
		free_ask(o);
		return;
	}
	o->is_made = true;
	if (failed.err.code == 0)
		(void)stage(o, &failed.err);
	if (failed.err.code < 0) {
		fm_stager_log_failed(o->s, o->job, o->who.uid, o->dataset, &failed.err);
		end(o, &failed);
	}
}

/* ---- from outside ---- */

static int check(const struct fm_own_ask_opts *o, struct fm_hub_name *name, struct fm_err *err)
{
	if (fm_hub_path_parse(o->path, name) < 0 || !fm_hub_is_commit(name->revision))
		return fm_err_set(err, -EINVAL, "path is not models--ORG--NAME@COMMIT");
	if (!fm_hub_is_revision(o->revision) || !fm_hub_can_be(o->revision, name->revision))
		return fm_err_set(err, -EINVAL, "to is no revision that can be that commit");
	if (!o->holder)
		return fm_err_set(err, -EOPNOTSUPP, "nobody holds what callers pass");
	return 0;
}

static int take_place(struct fm_own_ask *o, struct fm_err *err)
{
	int ret = fm_share_take(fm_stager_own_places(o->s), fm_share_user(o->who.uid), 1, &o->place,
				err);

	if (ret < 0 && err->is_full)
		ret = fm_err_full(err, "%s; run this again when one of them has ended", err->text);
	return ret;
}

int fm_own_ask(struct fm_stager *s, const struct fm_own_ask_opts *opts,
	       void (*done)(void *ctx, const struct fm_stage_result *result, const char *home),
	       void *ctx, struct fm_own_ask **out, struct fm_err *err)
{
	struct fm_hub_name name;
	struct fm_own_ask *o;
	int ret = check(opts, &name, err);

	if (ret < 0)
		return ret;
	o = FM_FAULT("own.ask") ? NULL : calloc(1, sizeof(*o));
	if (!o)
		return fm_err_sys(err, -ENOMEM, "ask for %s", name.dir);
	o->s = s;
	o->name = name;
	o->who = opts->who;
	ret = take_place(o, err);
	if (ret < 0) {
		free(o);
		return ret;
	}
	o->pid = opts->pid;
	o->is_pinned = opts->is_pinned;
	o->done = done;
	o->ctx = ctx;
	(void)snprintf(o->job, sizeof(o->job), "%s", opts->job);
	(void)snprintf(o->revision, sizeof(o->revision), "%s", opts->revision);
	(void)snprintf(o->dataset, sizeof(o->dataset), "%s",
		       opts->name[0] ? opts->name : name.dir);
	memcpy(o->fds, opts->fds, sizeof(o->fds));
	for (unsigned i = 0; i < FM_OWN_FDS; i++)
		opts->fds[i] = -1;
	o->holder = fm_holder_ref(opts->holder);
	o->work = (struct fm_work){ .run = make_run, .done = make_done, .job = o->job };
	fm_list_append(fm_stager_hub_asks(s), &o->at);
	fm_holder_work(o->holder, &o->work);
	*out = o;
	return 0;
}

void fm_own_ask_cancel(struct fm_own_ask *o)
{
	if (o->is_made)
		fm_stage_ask_cancel(o->ask);
	else
		leave(o);
}

void fm_own_ask_forget(struct fm_own_ask *o)
{
	o->ctx = NULL;
	fm_own_ask_cancel(o);
}

void fm_own_ask_look(const struct fm_own_ask *o, struct fm_stage_progress *out)
{
	*out = (struct fm_stage_progress){ .phase = "listing", .job = o->job };
	if (o->ask)
		fm_stage_ask_look(o->ask, out);
}
