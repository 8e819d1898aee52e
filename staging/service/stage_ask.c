/* SPDX-License-Identifier: MIT */
/*
 * stage_ask - see stage_ask.h. A request gets the listing of its source, then a dataset that is
 * there or is fetched, then its hold.
 */
#include "staging/service/stage_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/exit_code.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/retry.h"
#include "mover/node/node.h"
#include "mover/services/request.h"
#include "mover/services/target.h"
#include "mover/store/tree_file.h"
#include "staging/build.h"
#include "staging/cache_file.h"
#include "staging/key.h"
#include "staging/offered.h"
#include "staging/service/afar.h"
#include "staging/service/far_rules.h"
#include "staging/service/hub.h"
#include "staging/service/local.h"
#include "staging/service/reread.h"
#include "staging/service/rights.h"
#include "staging/service/run.h"
#include "staging/service/served.h"
#include "staging/service/stager_priv.h"
#include "staging/service/together.h"

/* What the draft of a manifest takes, about, and what a file takes beside its bytes. */
#define DRAFT_LEAST (UINT64_C(1) << 20)
#define DRAFT_ENTRY 256u
#define DRAFT_CHUNK 16u
#define FILE_BLOCK  4096u

#define ASK_AGAIN_NS (30 * FM_NS_PER_S)	/* for which a source is asked for an invitation */

struct fm_stage_ask {
	struct fm_list at;
	struct fm_stager *s;
	char job[FM_WIRE_JOB_LEN + 1];	/* what it and its jobs are logged under */
	struct fm_stage_waiter waiter;	/* of its run */
	struct fm_stage_run *run;	/* NULL: none, or not any more */
	struct fm_queue_watch watch;	/* of the listing */
	struct fm_work work;
	struct fm_stage_offered *offered;
	/* a store of this node, that it is listed in; then the one whose rules count; NULL: none */
	struct fm_store_ref *from;
	uint64_t store_changes;		/* of the engine, when its rules were asked for this */
	bool has_entry;			/* by these rules it was written who may read */
	struct fm_stage_totals totals;
	struct fm_share_held place;
	int draft;			/* of the manifest; -1: none */
	uint64_t nodes;			/* that it is for; 0: this one */
	struct fm_together *together;	/* NULL: none */
	struct fm_together_waiter end;	/* of it */
	struct fm_cache_key key;	/* what the dataset is known by, on all nodes */
	/* What the other nodes that have it then are asked for; so many have no answer yet: */
	struct fm_afar_ask *held, *pinned, *shown, *let;
	unsigned keeping;
	bool is_let;			/* they are asked to let him read it */
	bool is_invited;		/* by a run, which is told how it ended ... */
	char peer[FM_WIRE_NAME_MAX + 1];	/* ... and is this one's; "": a user's here */
	struct fm_retry retry;		/* then */
	struct fm_timer again;
	uint64_t id;			/* of the dataset */
	uid_t uid;
	gid_t gid;
	pid_t pid;
	bool is_pinned;
	bool is_hub;
	bool is_own;			/* of the caller's own hub cache, which he serves: */
	struct fm_served *list, *copy;	/* until it is listed; to be copied */
	bool is_listing;		/* it is served that, now */
	atomic_bool is_cancelled;	/* he does not wait any more; the worker looks, too */
	char revision[FM_HUB_REVISION_MAX + 1];	/* of a hub, for its ref; "": none */
	bool is_live;
	enum fm_stage_freshness check;
	bool do_rules_wait;		/* of the store of this node that is not open now */
	bool is_joined;			/* of a hub, alone: to a run that was there */
	bool is_again;			/* a run of others, which it had joined, failed */
	bool is_old;			/* some of it may have been read before this request */
	bool is_reread;			/* the source is read for its content, now; then: */
	uint64_t hold;			/* of the dataset; 0: none */
	struct fm_attr attr;		/* of the source; of a single file, its CRC32C: */
	uint32_t crc;
	char shared[FM_SHARED_LEN_MAX + 1];	/* the ID of its store; "": one node has it */
	char node[65], store[65], path[FM_PATH_LEN_MAX + 1], name[FM_CACHE_NAME_MAX + 1];
	size_t path_len;
	struct fm_stage_result result;
	void (*done)(void *ctx, const struct fm_stage_result *result);
	_Atomic(void *) ctx;		/* NULL: nobody waits any more; the worker looks, too */
};

/* Whose threads it takes: what a peer asks for in the name of a user takes none of his. */
static struct fm_share_id share_of(const struct fm_stage_ask *a)
{
	return a->peer[0] ? fm_share_name(a->peer) : fm_share_user(a->uid);
}

/* What lists or reads all of a source: one that the caller serves, or a store of this node. */
static void submit_awaiting(struct fm_stage_ask *a, void (*run)(struct fm_work *work),
			    void (*done)(struct fm_work *work), const void *may_await)
{
	enum fm_work_length length = a->list	    ? FM_WORK_BRIEF
				     : a->is_reread ? FM_WORK_COPIES
						    : FM_WORK_LISTS;

	a->work = (struct fm_work){ .run = run, .done = done, .who = share_of(a), .user = a->uid,
				    .job = a->job, .may_await = may_await,
				    .awaits_caller = a->list && may_await,
				    .length = length };
	fm_worker_submit(a->s->o.worker, &a->work, a->s->o.loop);
}

static void submit(struct fm_stage_ask *a, void (*run)(struct fm_work *work),
		   void (*done)(struct fm_work *work))
{
	submit_awaiting(a, run, done, NULL);
}

/* ---- the end of one ---- */

static void drop_draft(struct fm_stage_ask *a)
{
	if (a->draft >= 0)
		(void)close(a->draft);
	a->draft = -1;
}

static void free_ask(struct fm_stage_ask *a)
{
	if (a->from)
		fm_engine_store_put(a->from);
	fm_stage_offered_free(a->offered);
	fm_served_put(a->list);
	fm_served_put(a->copy);
	drop_draft(a);
	fm_afar_put(a->held);
	fm_afar_put(a->pinned);
	fm_afar_put(a->shown);
	fm_afar_put(a->let);
	free(a);
}

static void log_failed(struct fm_stager *s, struct fm_log_limit *lines, const char *job,
		       const char *name, const struct fm_err *why)
{
	fm_log_job(lines, fm_loop_now(s->o.loop), FM_LOG_WARN, job, "%s is not staged: %s", name,
		   why->text);
}

static struct fm_log_limit *lines_of_user(struct fm_stager *s, uid_t uid)
{
	return fm_log_of_user(&s->lines, uid, fm_loop_now(s->o.loop));
}

void fm_stager_log_failed(struct fm_stager *s, const char *job, uid_t uid, const char *name,
			  const struct fm_err *why)
{
	log_failed(s, lines_of_user(s, uid), job, name, why);
}

/* What a peer asks for leaves out no lines of callers of this node. */
static struct fm_log_limit *lines_of(const struct fm_stage_ask *a)
{
	return a->peer[0] ? fm_engine_job_lines(a->s->o.engine, a->peer)
			  : lines_of_user(a->s, a->uid);
}

/* What nobody hears any more. */
static void log_unkept(const struct fm_stage_ask *a)
{
	fm_log_of_job(a->job);
	fm_afar_log(a->held);
	fm_afar_log(a->pinned);
	fm_afar_log(a->shown);
	fm_afar_log(a->let);
	if (a->result.keep_err.code < 0)
		fm_log_warn("%s: not asked of other nodes: %s", a->name, a->result.keep_err.text);
	fm_log_of_job(NULL);
}

static void end_ask(struct fm_stage_ask *a)
{
	struct fm_engine *engine = a->s->o.engine;

	void *ctx = atomic_load(&a->ctx);

	/* Whoever reads a file for it says only that he was told to end. */
	if (a->s->is_stopping && a->result.err.code == -ECANCELED)
		(void)fm_err_set(&a->result.err, -EHOSTDOWN, "fmoved stops");
	if (a->hold)
		fm_cache_release(a->s->cache, a->hold);
	a->result.together = a->nodes ? a->together : NULL;
	a->result.held = a->held;
	a->result.pinned = a->pinned;
	a->result.shown = a->shown;
	a->result.let = a->let;
	memcpy(a->result.job, a->together ? fm_together_job(a->together) : a->job,
	       sizeof(a->result.job));
	if (a->result.err.code < 0)
		log_failed(a->s, lines_of(a), a->job, a->name, &a->result.err);
	if (ctx)
		a->done(ctx, &a->result);
	else
		log_unkept(a);
	if (a->is_invited && a->result.err.code < 0)
		fm_together_refuse(a->together, &a->result.err);
	if (a->together)
		fm_together_put(a->together);
	fm_list_del(&a->at);
	fm_share_give_all(&a->place);
	free_ask(a);
	fm_engine_check_stopped(engine);
}

static void fail_ask(struct fm_stage_ask *a, const struct fm_err *why)
{
	a->result.err = *why;
	end_ask(a);
}

/* ---- READY: hold, pin, show, and say where ---- */

static void source_of(const struct fm_stage_ask *a, char out[static FM_CACHE_SOURCE_MAX + 1])
{
	/* What a hub gave was compared with its names, and no plain source is called so. */
	if (a->is_own)
		fm_hub_own_source(a->uid, a->path, out, FM_CACHE_SOURCE_MAX + 1);
	else if (a->is_hub)
		fm_hub_source(a->node, a->store, a->path, out, FM_CACHE_SOURCE_MAX + 1);
	else
		fm_stage_source(a->shared, a->node, a->store, a->path, out,
				FM_CACHE_SOURCE_MAX + 1);
}

/* A link in its place leads to what is somebody's own. */
static bool is_missing(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 ? errno == ENOENT
				    : !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode);
}

/*
 * Finds the path of a READY dataset. One that somebody removed by hand must not be reported as
 * here. One that is about to be evicted is away for a moment, and not READY then.
 */
static int find_data(struct fm_stage_ask *a, struct fm_err *err)
{
	struct fm_cache_info info;

	if (fm_cache_path(a->s->cache, a->id, a->result.path, sizeof(a->result.path)) < 0)
		return fm_err_set(err, -ENOENT, "%s was removed meanwhile; run it again", a->name);
	if (!is_missing(a->result.path) || !fm_cache_look(a->s->cache, a->id, &info) ||
	    info.state != FM_CACHE_READY || !is_missing(a->result.path))
		return 0;
	a->result.path[0] = '\0';
	return fm_err_set(err, -ENOENT,
			  "it was staged here, and somebody removed it from the cache's directory; "
			  "\"fmove unstage %s\", and stage it again",
			  a->name);
}

/*
 * Behind the user's own right, whose place may have been one of theirs. What is here under another
 * source's name, of the same bytes, goes by that one's rules.
 */
static void name_readers(struct fm_stage_ask *a, const char *source)
{
	struct fm_cache_info info;

	if (!fm_cache_look(a->s->cache, a->id, &info) || strcmp(info.source, source) != 0)
		return;
	if (fm_stage_rights_is_far(a->s->o.node, source))
		fm_far_rules_name(a->s->far_rules, a->id, source);
	else if (!a->do_rules_wait)
		(void)fm_stage_rights_name(a->s->cache, a->id, a->from ? a->from->store : NULL,
					   &a->s->o.everybody);
}

static void hold_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	const struct fm_cache_holder who = { .uid = a->uid, .pid = a->pid };
	struct fm_cache *c = a->s->cache;
	struct fm_err *err = &a->result.err;
	uint64_t hold;
	int ret = fm_cache_request(c, a->id, err);

	if (ret == 0 || ret == -ENOENT)
		ret = find_data(a, err);
	if (ret == 0 && atomic_load(&a->is_cancelled))
		ret = fm_err_set(err, -ECANCELED, "cancelled");
	/* The hold comes first: the right to read may depend on it. */
	if (ret == 0 && a->pid > 0 && atomic_load(&a->ctx))
		(void)fm_cache_hold(c, a->id, &who, &hold, err);
}

/*
 * Whether the rules of the request's store are those of what it gets. A copy may be of another
 * source: one in the same store, or in another one, if an older fmoved let the two share it.
 */
static bool is_of_its_store(const struct fm_stage_ask *a)
{
	char source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_cache_info info;

	source_of(a, source);
	return fm_cache_look(a->s->cache, a->id, &info) &&
	       fm_stage_is_same_store(info.source, source);
}

/* Apart from what waits for the disk alone: users may be looked up for it. */
static void agree_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);

	if (!a->do_rules_wait && is_of_its_store(a))
		(void)fm_stage_rights_agree(a->s->cache, a->id, a->from ? a->from->store : NULL,
					    &a->result.err);
}

static void give_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	struct fm_cache *c = a->s->cache;
	struct fm_err *err = &a->result.err;
	char source[FM_CACHE_SOURCE_MAX + 1];
	const struct fm_hub_asked asked = { .source = source, .uid = a->uid };
	int ret = 0;

	if (atomic_load(&a->is_cancelled))	/* while users were looked up, too */
		ret = fm_err_set(err, -ECANCELED, "cancelled");
	if (ret == 0)
		ret = fm_cache_allow_user(c, a->id, a->uid, a->is_invited, err);
	source_of(a, source);
	if (ret == 0)
		name_readers(a, source);
	a->has_entry = ret == 0;
	/* The pin comes last: nobody would know of one that a refused request has left. */
	if (ret == 0 && a->revision[0])
		ret = fm_hub_show(a->s->hub, a->id, a->revision, &asked, a->result.path,
				  sizeof(a->result.path), a->result.note, err);
	if (ret == 0 && atomic_load(&a->is_cancelled))	/* while hubs were waited for */
		ret = fm_err_set(err, -ECANCELED, "cancelled");
	if (ret == 0 && a->is_pinned)
		ret = fm_cache_pin(c, a->id, a->uid, err);
	if (ret < 0)
		return;
	a->result.is_here = true;
	a->result.is_same_disk = a->from && a->from->store->device == fm_cache_device(c);
	if (!fm_cache_look(c, a->id, &a->result.info))
		(void)fm_err_set(err, -ENOENT, "%s was removed meanwhile; run it again", a->name);
	else if (a->check == FM_STAGE_BY_CONTENT && a->nodes)
		(void)fm_stage_reread_version(c, a->id, &a->result.manifest, err);
}

/* ---- and on the other nodes ---- */

static void kept(void *ctx);

/* Names the other nodes that were asked for and have it: their number. */
static unsigned nodes_with_it(const struct fm_stage_ask *a,
			      const char *nodes[static FM_CACHE_AFAR_NODES])
{
	struct fm_together_node n;
	unsigned count = 0;

	for (unsigned i = 0; i < fm_together_count(a->together); i++) {
		fm_together_look(a->together, i, &n);
		if (a->nodes & (UINT64_C(1) << i) && count < FM_CACHE_AFAR_NODES && !n.is_here &&
		    strcmp(n.state, "ready") == 0)
			nodes[count++] = n.name;
	}
	return count;
}

/* A process that is gone, or holds too much, holds nothing there: that is told with the nodes. */
static void keep(struct fm_stage_ask *a, struct fm_afar_wish *wish, enum fm_stage_verb verb,
		 struct fm_afar_ask **out)
{
	struct fm_err err;

	wish->verb = verb;
	if (fm_afar_ask(a->s->afar, wish, kept, a, out, &err) == 0)
		a->keeping++;
	else
		a->result.keep_err = err;
}

/* Those that are to keep it: none, if it was not found to be what the source has. */
static struct fm_afar_wish wish_of(const struct fm_stage_ask *a,
				   const char *nodes[static FM_CACHE_AFAR_NODES])
{
	struct fm_afar_wish wish = { .uid = a->uid, .pid = a->pid, .key = &a->key, .nodes = nodes,
				     .job = fm_together_job(a->together), .what = a->name };

	if (!a->s->is_stopping && !(a->is_reread && a->result.err.code < 0))
		wish.count = nodes_with_it(a, nodes);
	return wish;
}

/*
 * They are to let him read it, too: it may have been there before he asked, or have come for
 * another user. As on this node the hold comes first: the right to read may depend on it.
 */
static void let_in(struct fm_stage_ask *a)
{
	const char *nodes[FM_CACHE_AFAR_NODES];
	struct fm_afar_wish wish = wish_of(a, nodes);

	a->is_let = true;
	if (wish.count > 0)
		keep(a, &wish, FM_STAGE_LET, &a->let);
	if (a->keeping == 0)
		end_ask(a);
}

static void kept(void *ctx)
{
	struct fm_stage_ask *a = ctx;

	a->keeping--;
	if (a->keeping == 0 && a->is_let)
		end_ask(a);
	else if (a->keeping == 0)
		let_in(a);
}

/*
 * Ends a request for several nodes: their results are known only when the run has ended. Those that
 * have it then are asked to keep it as this node does, since the user's job runs there, too, and to
 * show what is of a hub in theirs; not if the source could not be read a second time.
 */
static void together_ended(struct fm_together_waiter *w, const struct fm_err *err)
{
	struct fm_stage_ask *a = fm_container_of(w, struct fm_stage_ask, end);
	const char *nodes[FM_CACHE_AFAR_NODES];
	struct fm_afar_wish wish;

	if (a->result.err.code == 0 && err->code < 0 && !a->result.is_here)
		a->result.err = *err;
	wish = wish_of(a, nodes);
	if (wish.count > 0 && a->pid > 0 && atomic_load(&a->ctx))
		keep(a, &wish, FM_STAGE_HOLD, &a->held);
	if (wish.count > 0 && a->is_pinned)
		keep(a, &wish, FM_STAGE_PIN, &a->pinned);
	if (wish.count > 0 && a->revision[0]) {
		wish.name = a->revision;
		wish.gid = a->gid;
		keep(a, &wish, FM_STAGE_SHOW, &a->shown);
	}
	if (a->keeping == 0)
		let_in(a);
}

/*
 * Ends a request after this node's part: err says whether that failed. If it asked for several
 * nodes, it waits for the others, which go on, and keep what they have.
 */
static void end_here(struct fm_stage_ask *a, const struct fm_err *err)
{
	a->result.err = *err;
	if (!a->nodes || !a->together) {
		end_ask(a);
		return;
	}
	a->end.ended = together_ended;
	fm_together_wait(a->together, &a->end);
}

/*
 * Finds the store of this node whose rules say who may read the dataset, as it is now: the one that
 * was listed may have gone by a reload, and other rules with another store be there.
 */
static void find_rules(struct fm_stage_ask *a)
{
	struct fm_engine *engine = a->s->o.engine;
	char source[FM_CACHE_SOURCE_MAX + 1];

	source_of(a, source);
	if (a->from)
		fm_engine_store_put(a->from);
	a->from = NULL;
	a->do_rules_wait = fm_stage_rights_wait(engine, a->s->o.node, source);
	if (!a->do_rules_wait)
		a->from = fm_stage_rights_store(engine, a->s->o.node, source);
}

static void submit_looking_up(struct fm_stage_ask *a, void (*run)(struct fm_work *work),
			      void (*done)(struct fm_work *work), const void *may_await)
{
	a->work = (struct fm_work){ .run = run, .done = done, .who = share_of(a), .user = a->uid,
				    .job = a->job, .may_await = may_await };
	fm_worker_submit(a->s->o.worker, &a->work, a->s->o.loop);
}

/* Those rules are others than those by which the user got it. */
static void again_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	const struct fm_who who = { NULL, a->uid, a->gid };
	struct fm_store *store = a->from ? a->from->store : NULL;
	char source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_attr attr;
	struct fm_err err;

	source_of(a, source);
	name_readers(a, source);
	/* What a peer may read it may for its users. */
	if (!store || a->is_invited || fm_stage_rights_may_read(store, &who) ||
	    store->ops->stat(store, "", &who, &attr, &err) != -EACCES)	/* in words */
		return;
	fm_stage_rights_end(a->s->cache, source, a->uid, false);
	if (a->result.err.code == 0)
		a->result.err = err;
	a->result.is_here = false;
}

static void hold_done(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	const struct fm_err err = a->result.err;

	a->work.may_await = NULL;
	if (a->has_entry && a->store_changes != a->s->o.engine->store_changes) {
		a->store_changes = a->s->o.engine->store_changes;
		find_rules(a);
		submit_looking_up(a, again_run, hold_done,
				  fm_stage_rights_may_await_of(a->from ? a->from->store : NULL));
		return;
	}
	/* It is here, though the run may have found nothing when it looked, and waits for it. */
	if (a->together && err.code == 0)
		fm_together_found(a->together);
	else if (a->together && a->nodes && a->result.was_ready)
		fm_together_refuse(a->together, &err);
	end_here(a, &err);
}

static void agreed(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);

	if (a->result.err.code < 0)
		hold_done(work);
	else
		submit(a, give_run, hold_done);
}

static void held(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);

	if (a->result.err.code < 0)
		hold_done(work);
	else
		submit_looking_up(a, agree_run, agreed,
				  fm_stage_rights_may_await_of(a->from ? a->from->store : NULL));
}

static void take(struct fm_stage_ask *a, uint64_t id)
{
	a->id = id;
	find_rules(a);
	submit(a, hold_run, held);
}

static void reread(struct fm_stage_ask *a);

/*
 * Takes a dataset for a request. With --check content, bytes that were read before the request are
 * read again first.
 */
static void take_fresh(struct fm_stage_ask *a, uint64_t id)
{
	a->id = id;
	if (a->check == FM_STAGE_BY_CONTENT && a->is_old)
		reread(a);
	else
		take(a, id);
}

static void find_or_fetch(struct fm_stage_ask *a);

static void run_ended(struct fm_stage_waiter *w, uint64_t id, const struct fm_err *err)
{
	struct fm_stage_ask *a = fm_container_of(w, struct fm_stage_ask, waiter);

	a->run = NULL;
	if (err->code == 0) {
		take_fresh(a, id);
		return;
	}
	/* It was refused to who began it. What this one begins is his, and ends so but once. */
	if (w->is_others) {
		find_or_fetch(a);
		return;
	}
	/* With other nodes it may fail for what a fetch from the source alone does not; and one
	 * that another request serves ends with that, each time with another one. */
	if (a->is_joined && !a->s->is_stopping &&
	    (!a->is_again || (a->is_own && err->code == -ECANCELED))) {
		a->is_again = true;
		find_or_fetch(a);
		return;
	}
	end_here(a, err);
}

/* ---- the listing ---- */

static void refused_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	char source[FM_CACHE_SOURCE_MAX + 1];

	source_of(a, source);
	fm_stage_rights_end(a->s->cache, source, a->uid,
			    fm_stage_rights_is_far(a->s->o.node, source));
}

/*
 * Ends a request that could not list or read the source, which a->result.err says. If that was the
 * second reading, other nodes may have their part still to do, and are waited for.
 */
static void end_listing(struct fm_stage_ask *a)
{
	const struct fm_err why = a->result.err;

	if (!a->is_reread || !a->nodes) {
		end_ask(a);
		return;
	}
	/* not kept for as long as the others take: it may be most of what memory.total allows */
	fm_stage_offered_free(a->offered);
	a->offered = NULL;
	if (a->result.was_ready)
		fm_together_found(a->together);
	end_here(a, &why);
}

static void refused_done(struct fm_work *work)
{
	end_listing(fm_container_of(work, struct fm_stage_ask, work));
}

/*
 * The source could not be listed, or read again. If its store refused this user, the user may not
 * read a copy that is here either.
 */
static void fail_listing(struct fm_stage_ask *a, const struct fm_err *why)
{
	a->result.err = *why;
	/* what he serves himself is his: no store refuses it to him */
	if (!fm_stage_rights_is_refusal(why) || a->list) {
		end_listing(a);
		return;
	}
	submit(a, refused_run, refused_done);
}

static bool is_alone(const struct fm_stage_ask *a, const struct fm_cache_key *key)
{
	struct fm_togethers *all = a->s->togethers;
	struct fm_err err;

	if (a->nodes || a->is_invited)
		return false;
	/* of a hub: then no other node gives bytes, also where no hash would show it */
	if (a->is_hub)
		return true;
	if (fm_together_find(all, key))
		return false;
	if (strcmp(a->node, a->s->o.node) == 0)
		return !a->shared[0] || !a->s->o.peers || !a->s->o.peers[0];
	return fm_togethers_may(all, a->node, &err) < 0;
}

static int look(struct fm_stage_ask *a, struct fm_err *err);

static void ask_again(struct fm_timer *timer)
{
	struct fm_stage_ask *a = fm_container_of(timer, struct fm_stage_ask, again);
	struct fm_err err;
	int ret = 0;

	if (a->s->is_stopping)
		ret = fm_err_set(&err, -EHOSTDOWN, "fmoved stops");
	if (ret < 0 || look(a, &err) < 0)
		fail_ask(a, &err);
}

/*
 * Whether a request is tried again, because its error may pass. Only a request of another node is,
 * since the run waits for this node. A user who asked can try again himself.
 */
static bool try_again(struct fm_stage_ask *a, int code)
{
	uint64_t now_ns = fm_loop_now(a->s->o.loop), pause_ns;

	if (!a->is_invited || a->s->is_stopping || !fm_errno_may_pass(code))
		return false;
	fm_retry_failed(&a->retry, now_ns, now_ns, 0);
	if (!fm_retry_next(&a->retry, ASK_AGAIN_NS, now_ns, a->s->o.engine->env.random, &pause_ns))
		return false;
	fm_stage_offered_free(a->offered);
	a->offered = NULL;
	drop_draft(a);
	fm_err_clear(&a->result.err);
	fm_timer_set(a->s->o.loop, &a->again, now_ns + pause_ns);
	return true;
}

/* For a run with other nodes, which does without if there is no descriptor. */
static int dup_draft(const struct fm_stage_ask *a)
{
	return a->draft < 0 || FM_FAULT("stage.draft_dup")
		       ? -1
		       : fm_call(fcntl(a->draft, F_DUPFD_CLOEXEC, 0));
}

/* What is done for it goes on under another request's id. */
static void log_other_job(struct fm_stage_ask *a, const char *job)
{
	fm_log_job(lines_of(a), fm_loop_now(a->s->o.loop), FM_LOG_INFO, a->job,
		   "%s: what job %s brings is waited for", a->name, job);
}

/* What is here is taken for the source, which was not listed. */
static bool is_unlisted(const struct fm_stage_ask *a)
{
	return a->result.check == FM_STAGE_BY_SEAL || a->result.check == FM_STAGE_UNASKED;
}

/*
 * Joins the run of this listing with other nodes. There is one only if other nodes are asked for,
 * have begun one, or may have begun one.
 */
static int join_together(struct fm_stage_ask *a, const struct fm_cache_key *key, struct fm_err *err)
{
	struct fm_togethers *all = a->s->togethers;
	const struct fm_together_source source = { .job = a->job, .node = a->node,
						   .store = a->store, .path = a->path,
						   .name = a->name,
						   .shared = a->shared, .is_hub = a->is_hub,
						   .peer = a->peer[0] ? a->peer : NULL,
						   .is_unlisted = is_unlisted(a),
						   .uid = a->uid, .gid = a->gid };
	int ret;

	if (a->together || is_alone(a, key))
		return 0;
	ret = fm_together_join(all, &source, &a->totals, dup_draft(a), &a->together, err);
	if (ret < 0)
		return a->nodes || a->is_invited ? ret : 0;
	fm_together_get(a->together);
	if (strcmp(a->job, fm_together_job(a->together)) != 0)
		log_other_job(a, fm_together_job(a->together));
	if (a->nodes)
		fm_together_request(a->together, a->nodes, a->uid, a->gid);
	return 0;
}

static bool is_for_us(const struct fm_stage_ask *a)
{
	return !a->nodes || fm_togethers_has_self(a->s->togethers, a->nodes);
}

static void list_source(struct fm_stage_ask *a);

static void list_after_all(struct fm_stage_ask *a)
{
	bool was_looked_at = a->result.check == FM_STAGE_BY_SEAL;
	struct fm_err err;

	a->result.check = FM_STAGE_BY_LISTING;
	a->id = 0;
	if (was_looked_at)
		list_source(a);
	else if (look(a, &err) < 0)
		fail_ask(a, &err);
}

/* ---- what a run is of, and the source is not, or does not say ---- */

static bool is_usable(const struct fm_stage_ask *a, const struct fm_cache_info *info,
		      const char *source);

/* Finds what the run is of among what is here, into a->id; 0: it is not, or not this user's. */
static void find_named(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	uint64_t id = fm_cache_find_listing(a->s->cache, fm_together_key(a->together));
	char source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_cache_info info;
	struct fm_err err;	/* then it is as if it were not here */

	source_of(a, source);
	if (id && fm_cache_look(a->s->cache, id, &info) && is_usable(a, &info, source) &&
	    fm_stage_reread_totals(a->s->cache, id, &a->totals, &err) == 0)
		a->id = id;
}

static void found_named(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	const struct fm_err why = a->result.err;

	if (a->id) {
		fm_err_clear(&a->result.err);
		a->result.check = FM_STAGE_UNASKED;
		find_or_fetch(a);
	} else if (why.code == -ESTALE || !try_again(a, why.code)) {
		fail_listing(a, &why);
	}
}

/*
 * The source cannot be asked, or is another one by now. Who asked this node knows what he wants: by
 * --check none, or by a listing before that. The user's copy of it that is here is the answer.
 */
static void use_named(struct fm_stage_ask *a, const struct fm_err *why)
{
	a->result.err = *why;
	a->id = 0;
	drop_draft(a);		/* of a listing that is not the run's */
	submit(a, find_named, found_named);
}

static struct fm_cache_plan charge_of(const struct fm_stage_ask *a, const struct fm_cache_key *key)
{
	return (struct fm_cache_plan){ .name = a->name, .bytes = a->totals.bytes,
				       .files = a->totals.entries, .listing = *key,
				       .uid = a->uid, .node = a->peer[0] ? a->peer : NULL };
}

/* It is not here: it joins the run of this node that brings it, or one begins. */
static void fetch_here(struct fm_stage_ask *a, const struct fm_stage_plan *plan)
{
	const struct fm_cache_plan charge = charge_of(a, plan->key);
	struct fm_err err;
	int ret;

	a->waiter.ended = run_ended;
	/* What he may not hold would come for nothing, and in the place of others'. */
	ret = fm_cache_check_quota(a->s->cache, &charge, &err);
	if (ret == 0)
		ret = fm_stage_run_join(&a->s->runs, plan, &a->waiter, &a->run, &err);
	if (ret == 0 && !a->together && strcmp(a->job, fm_stage_run_job(a->run)) != 0)
		log_other_job(a, fm_stage_run_job(a->run));
	if (ret == 0)
		return;
	/* The other nodes wait for this one, too; a run that brings it for others tells them. */
	if ((a->nodes || (a->waiter.is_others && a->together)) &&
	    !fm_stage_runs_do_for(&a->s->runs, plan->key, a->together))
		fm_together_refuse(a->together, &err);
	end_here(a, &err);
}

static void find_or_fetch(struct fm_stage_ask *a)
{
	char source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_cache_key key;
	struct fm_stage_plan plan = { .node = a->node, .store = a->store, .path = a->path,
				      .path_len = a->path_len, .name = a->name, .source = source,
				      .key = &key, .totals = &a->totals, .draft = a->draft,
				      .uid = a->uid, .gid = a->gid,
				      .peer = a->peer[0] ? a->peer : NULL,
				      .is_hub = a->is_hub, .job = a->job,
				      .served = a->copy };
	struct fm_cache_info info;
	struct fm_err err;
	bool is_ready;
	uint64_t id;
	int ret;

	source_of(a, source);
	ret = fm_stage_key(source, a->totals.listing, a->totals.is_file, &key);
	a->key = key;
	if (ret < 0) {
		(void)fm_err_sys(&err, ret, "find %s", a->name);
		fail_ask(a, &err);
		return;
	}
	id = fm_cache_find_listing(a->s->cache, &key);
	is_ready = id && fm_cache_look(a->s->cache, id, &info) && info.state == FM_CACHE_READY;
	if (!is_ready && is_unlisted(a)) {	/* it has just gone */
		list_after_all(a);
		return;
	}
	if (a->is_invited)
		ret = fm_together_listed(a->together, &key, dup_draft(a), &err);
	if (ret == -ESTALE) {
		use_named(a, &err);
		return;
	}
	if (ret == 0 && (a->nodes || !is_ready))
		ret = join_together(a, &key, &err);
	if (ret < 0) {
		fail_ask(a, &err);
		return;
	}
	if (!is_for_us(a)) {
		a->result.was_ready = true;
		a->end.ended = together_ended;
		fm_together_wait(a->together, &a->end);
		return;
	}
	plan.together = a->together;
	plan.is_alone = !a->nodes && !a->is_invited;
	if (is_ready) {
		a->result.was_ready = true;
		a->is_old = true;
		take_fresh(a, id);
		return;
	}
	a->is_joined = a->is_hub && plan.is_alone && fm_stage_runs_doing(&a->s->runs, &key);
	a->is_old = id || a->together || fm_stage_runs_doing(&a->s->runs, &key);
	fetch_here(a, &plan);
}

static struct fm_stage_reread reread_of(const struct fm_stage_ask *a)
{
	return (struct fm_stage_reread){ .cache = a->s->cache, .id = a->id, .totals = &a->totals };
}

/* ---- its draft of a manifest ---- */

/* Lists into the draft; -1: without one, which leaves out->extents 0. */
typedef int list_fn(const struct fm_stage_ask *a, int draft, struct fm_stage_totals *out,
		    struct fm_err *err);

static int list_with_draft(struct fm_stage_ask *a, list_fn *list, struct fm_err *err)
{
	int ret = 0;

	a->draft = fm_call(open(a->s->o.cache.directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
	if (a->draft < 0)
		return fm_cache_no_file(a->s->cache, a->draft, err);
	ret = list(a, a->draft, &a->totals, err);
	if (ret < 0)
		drop_draft(a);
	return ret;
}

/* Whether what is listed without a draft is READY, which needs none. */
static bool needs_no_draft(struct fm_stage_ask *a, uint64_t id)
{
	struct fm_stage_totals there;
	struct fm_cache_info info;
	struct fm_err err;	/* then it needs one */

	if (!id || !fm_cache_look(a->s->cache, id, &info) || info.state != FM_CACHE_READY ||
	    fm_stage_reread_totals(a->s->cache, id, &there, &err) < 0)
		return false;
	a->totals.extents = there.extents;
	return true;
}

/*
 * Makes room for the draft, and for all that it is of, unless that is for other nodes alone, or
 * some of it is there and has room set aside: nothing is to go for a draft whose dataset has no
 * room afterwards.
 */
static int make_room(struct fm_stage_ask *a, const struct fm_cache_key *key, uint64_t id,
		     struct fm_err *err)
{
	const struct fm_cache_plan plan = charge_of(a, key);
	uint64_t draft = DRAFT_LEAST + a->totals.entries * DRAFT_ENTRY +
			 a->totals.bytes / FM_STAGE_CHUNK * DRAFT_CHUNK;
	uint64_t rest = a->totals.bytes + a->totals.entries * FILE_BLOCK;
	int ret = fm_cache_check_quota(a->s->cache, &plan, err);

	if (ret < 0)
		return ret;
	if (id || !is_for_us(a))
		rest = 0;
	return fm_cache_make_room_for(a->s->cache, draft + rest, a->name, err);
}

/*
 * Lists the source. The draft of its manifest lies on the disk of the cache: if that is full, what
 * is READY is given all the same, and for what is not datasets go that nobody needs.
 */
static void list_it(struct fm_stage_ask *a, list_fn *list)
{
	char source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_err *err = &a->result.err;
	struct fm_cache_key key;
	uint64_t id;

	if (!fm_cache_is_full(list_with_draft(a, list, err)))
		return;
	fm_err_clear(err);
	if (list(a, -1, &a->totals, err) < 0)
		return;
	source_of(a, source);
	if (fm_stage_key(source, a->totals.listing, a->totals.is_file, &key) < 0)
		return;	/* who looks for it says so */
	id = fm_cache_find_listing(a->s->cache, &key);
	if (!needs_no_draft(a, id) && make_room(a, &key, id, err) == 0)
		(void)list_with_draft(a, list, err);
}

static int list_offered(const struct fm_stage_ask *a, int draft, struct fm_stage_totals *out,
			struct fm_err *err)
{
	return fm_stage_offered_draft(a->offered, draft, out, err);
}

static void list_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);

	if (a->is_reread) {
		const struct fm_stage_reread r = reread_of(a);

		(void)fm_stage_reread_tree(&r, a->offered, &a->result.err);
		return;
	}
	list_it(a, list_offered);
}

/* Whoever served it keeps no memory for that while it is copied. */
static void take_listing(struct fm_stage_ask *a)
{
	fm_served_put(a->list);
	a->list = NULL;
	find_or_fetch(a);
}

static void list_done(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);

	fm_stage_offered_free(a->offered);
	a->offered = NULL;
	a->is_listing = false;
	if (a->result.err.code == 0 && atomic_load(&a->is_cancelled))
		(void)fm_err_set(&a->result.err, -ECANCELED, "cancelled");
	if (a->result.err.code == 0 && a->s->is_stopping)
		(void)fm_err_set(&a->result.err, -EHOSTDOWN, "fmoved stops");
	if (a->result.err.code == 0 && a->is_reread)
		take(a, a->id);
	else if (a->result.err.code == 0)
		take_listing(a);
	else if (!try_again(a, a->result.err.code))
		fail_listing(a, &a->result.err);
}

static void listed(struct fm_queue_watch *watch, const struct fm_job_result *result)
{
	struct fm_stage_ask *a = fm_container_of(watch, struct fm_stage_ask, watch);

	if (result->code < 0) {
		if (!try_again(a, result->code))
			fail_listing(a, &result->err);
		return;
	}
	submit(a, list_run, list_done);
}

static const struct fm_queue_events listing_events = { .done = listed };

static void list_local_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	const struct fm_stage_local l = { .store = a->from ? a->from->store : NULL,
					  .served = a->list, .path = a->path,
					  .who = { NULL, a->uid, a->gid },
					  .is_stopped = &a->s->is_cancelled,
					  .has_checksums = a->is_reread };

	if (fm_stage_local_list(&l, a->offered, &a->result.err) == 0)
		list_run(work);
}

static int open_own(struct fm_stage_ask *a, struct fm_err *err)
{
	return a->from ? 0
		       : fm_target_store(a->s->o.engine, a->store, strlen(a->store), &a->from, err);
}

static const void *may_await_own(const struct fm_stage_ask *a)
{
	return a->from ? fm_store_may_await(a->from->store) : NULL;
}

static void crc_local_run(struct fm_work *work);

static void look_up_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	const struct fm_who who = { NULL, a->uid, a->gid };

	(void)fm_stage_rights_may_read(a->from->store, &who);	/* what reads it says so */
}

static void looked_up(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	bool is_file = a->is_reread && a->totals.is_file;

	submit_awaiting(a, is_file ? crc_local_run : list_local_run, list_done, may_await_own(a));
}

/*
 * Lists or reads the source in a store of this node. What always answers has threads of which a
 * user database that does not answer takes none: it is waited for first, apart.
 */
static void submit_own(struct fm_stage_ask *a)
{
	const struct fm_who who = { NULL, a->uid, a->gid };
	const void *users = fm_stage_rights_to_look_up(a->from ? a->from->store : NULL, &who);

	if (users)
		submit_looking_up(a, look_up_run, looked_up, users);
	else
		looked_up(&a->work);
}

static int list_local(struct fm_stage_ask *a, struct fm_err *err)
{
	int ret = fm_stage_offered_new(FM_STAGE_OFFERED_MAX, &a->offered, err);

	if (ret == 0 && !a->is_own)
		ret = open_own(a, err);
	if (ret < 0)
		return ret;
	a->is_listing = a->is_own;
	if (a->list)
		submit_awaiting(a, list_local_run, list_done, fm_served_may_await(a->list));
	else
		submit_own(a);
	return 0;
}

static int list(struct fm_stage_ask *a, struct fm_err *err)
{
	struct fm_tree_file_opts file = { .threads = fm_tree_file_threads(),
					  .who = share_of(a) };
	struct fm_queue_opts o = {
		.job = { .node = a->node, .store = a->store, .path = a->path,
			 .path_len = a->path_len, .who = { NULL, a->uid, a->gid }, .is_dry = true,
			 .has_checksums = a->is_reread },
		.end = FM_QUEUE_FILE,
		.fd = -1,
		.journal = -1,
		.file = "",
		.peer = a->peer,
		.id = a->job,
	};
	int ret = fm_stage_offered_new(FM_STAGE_OFFERED_MAX, &a->offered, err);

	if (ret < 0)
		return ret;
	file.tree = fm_stage_offered_tree(a->offered);
	ret = fm_tree_file_new(&file, &o.job.file, err);
	if (ret < 0)
		return ret;
	o.job.attr = (struct fm_attr){ .type = FM_NODE_DIR, .size = FM_SIZE_UNKNOWN };
	a->watch.events = &listing_events;
	return fm_queue_submit(a->s->o.queue, &o, &a->watch, err);
}

/* ---- first: what it is ---- */

static int totals_of_file(const struct fm_stage_ask *a, int draft, struct fm_stage_totals *out,
			  struct fm_err *err)
{
	const struct fm_stage_entry file = { .type = FM_STAGE_FILE, .size = a->attr.size,
					     .mode = (uint16_t)(a->attr.mode & 0777),
					     .mtime_ns = a->attr.mtime_ns, .path = a->name,
					     .path_len = strlen(a->name) };

	return fm_stage_list_file(&file, draft, out, err);
}

static void list_file_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);

	list_it(a, totals_of_file);
}

static void list_source(struct fm_stage_ask *a)
{
	struct fm_err err;
	int ret;

	if (a->attr.type == FM_NODE_FILE) {
		submit(a, list_file_run, list_done);
		return;
	}
	if (a->attr.type != FM_NODE_DIR)
		ret = fm_err_set(&err, -EINVAL,
				 "it is neither a directory nor a file: name one that is");
	else if (strcmp(a->node, a->s->o.node) == 0)
		ret = list_local(a, &err);
	else
		ret = list(a, &err);
	if (ret < 0)
		fail_ask(a, &err);
}

/* ---- again, for its content ---- */

static void compare_file_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	const struct fm_stage_reread r = reread_of(a);
	struct fm_stage_totals now;

	if (totals_of_file(a, -1, &now, &a->result.err) == 0)
		(void)fm_stage_reread_file(&r, &now, a->crc, &a->result.err);
}

static void crc_local_run(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	const struct fm_stage_local l = { .store = a->from->store, .path = a->path,
					  .who = { NULL, a->uid, a->gid },
					  .is_stopped = &a->s->is_cancelled };

	if (fm_stage_local_crc(&l, &a->attr, &a->crc, &a->result.err) == 0)
		compare_file_run(work);
}

static void came(struct fm_queue_watch *watch, const struct fm_job_result *result)
{
	struct fm_stage_ask *a = fm_container_of(watch, struct fm_stage_ask, watch);

	if (result->code < 0) {
		fail_listing(a, &result->err);
		return;
	}
	a->attr = result->attr;
	a->crc = result->crc;
	submit(a, compare_file_run, list_done);
}

/* Gets the CRC of a file of another node: the file is sent here, and its bytes are thrown away. */
static int crc_of_file(struct fm_stage_ask *a, struct fm_err *err)
{
	static const struct fm_queue_events events = { .done = came };
	struct fm_queue_opts o = {
		.job = { .node = a->node, .store = a->store, .path = a->path,
			 .path_len = a->path_len, .who = { NULL, a->uid, a->gid } },
		.end = FM_QUEUE_FILE,
		.fd = -1,
		.journal = -1,
		.file = "",
		.peer = a->peer,
		.id = a->job,
	};
	int ret = fm_null_sink(&o.job.file, err);

	if (ret < 0)
		return ret;
	a->watch.events = &events;
	return fm_queue_submit(a->s->o.queue, &o, &a->watch, err);
}

/*
 * Reads the bytes again for --check content. The dataset is held meanwhile, by the service, because
 * no user has it yet.
 */
static void reread(struct fm_stage_ask *a)
{
	const struct fm_cache_holder who = { .uid = a->uid };
	bool is_own = strcmp(a->node, a->s->o.node) == 0;
	struct fm_err err;
	int ret;

	a->is_reread = true;
	ret = fm_cache_hold(a->s->cache, a->id, &who, &a->hold, &err);
	if (ret == 0 && !a->totals.is_file)
		ret = is_own ? list_local(a, &err) : list(a, &err);
	else if (ret == 0 && !is_own)
		ret = crc_of_file(a, &err);
	else if (ret == 0 && (ret = open_own(a, &err)) == 0)
		submit_own(a);
	if (ret < 0) {
		a->result.err = err;
		end_listing(a);
	}
}

/*
 * Whether a dataset of that source is READY, and the user of the request may use it without asking
 * the source.
 */
static bool is_usable(const struct fm_stage_ask *a, const struct fm_cache_info *info,
		      const char *source)
{
	struct fm_err err;	/* it goes just now: then it is none */

	return info->state == FM_CACHE_READY && strcmp(info->source, source) == 0 &&
	       fm_cache_has_staged(a->s->cache, info->id, a->uid, &err) == 1;
}

/* Finds the newest dataset that the request can use, into a->id; 0: there is none. */
static void find_here(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	uint64_t *ids = calloc(FM_CACHE_DATASETS_MAX, sizeof(*ids));
	size_t count = ids ? fm_cache_list(a->s->cache, ids, FM_CACHE_DATASETS_MAX) : 0;
	char source[FM_CACHE_SOURCE_MAX + 1];
	struct fm_cache_info info;
	int64_t newest = INT64_MIN;

	source_of(a, source);
	for (size_t i = 0; i < count; i++) {
		if (!fm_cache_look(a->s->cache, ids[i], &info) || info.created_ns < newest ||
		    !is_usable(a, &info, source))
			continue;
		newest = info.created_ns;
		a->id = ids[i];
	}
	free(ids);
}

/*
 * The source cannot be reached. The error mentions the copy that is here, if the user may use it.
 */
static void unreachable(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	const struct fm_err why = a->result.err;

	if (a->id && a->is_hub)
		(void)fm_err_set(&a->result.err, why.code,
				 "%.300s; with HF_HOME=%.150s and HF_HUB_OFFLINE=1 the hub's own "
				 "tools use the copy that is here",
				 why.text, fm_hub_home(a->s->hub));
	else if (a->id)
		(void)fm_err_set(&a->result.err, why.code,
				 "%.400s; --check none uses the copy that is here", why.text);
	end_ask(a);
}

/*
 * Whether nothing was said of the source: its node cannot be reached, or does not talk with this
 * one (it does not know its key, say, and forbids that no user).
 */
static bool is_unasked(const struct fm_stage_ask *a, const struct fm_err *why)
{
	bool is_away = fm_api_exit(why->code) == FM_EXIT_UNREACHABLE ||
		       (why->code == -EACCES && !fm_stage_rights_is_refusal(why));

	return is_away && !a->s->is_stopping;
}

static void fail_look(struct fm_stage_ask *a, const struct fm_err *why)
{
	if (a->is_invited && is_unasked(a, why)) {
		use_named(a, why);
		return;
	}
	if (try_again(a, why->code))
		return;
	a->result.err = *why;
	if (is_unasked(a, why))
		submit(a, find_here, unreachable);
	else
		fail_listing(a, why);
}

/*
 * Takes the ID of a shared store from a node with which this one stages. Another node could pass
 * its own bytes off under that ID.
 */
static void take_shared(struct fm_stage_ask *a, const char *id)
{
	struct fm_err err;

	if (!a->is_hub && fm_togethers_may(a->s->togethers, a->node, &err) == 0)
		(void)snprintf(a->shared, sizeof(a->shared), "%s", id);
}

/*
 * The volume's bytes may change at any moment, and what this node has cached of its directories may
 * be older than the rest: what is read is no copy of anything that ever was.
 */
static int check_written(const struct fm_stage_ask *a, const struct fm_request_result *result,
			 struct fm_err *err)
{
	/* Another node's request was let through there. */
	if (!result->written_by[0] || a->is_live || a->is_invited)
		return 0;
	return fm_err_set(err, -EBUSY,
			  "%s:%s: %s has its volume mounted read-write, so what is read may be a "
			  "mixture; stage it from a store of %s, or seal it there (fmove nvme seal "
			  "VOLUME; fmove nvme status here says what %s said last); --live takes it "
			  "as it is",
			  a->node, a->store, result->written_by, result->written_by,
			  result->written_by);
}

/* Whether other nodes are to have it, too: then the run has to know its listing. */
static bool is_for_others(const struct fm_stage_ask *a)
{
	return a->nodes || a->is_invited;
}

/* The listing of what is here is that of its manifest. */
static void find_listed(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	struct fm_err err;	/* then the source is listed */

	find_here(work);
	if (a->id && is_for_others(a) &&
	    fm_stage_reread_totals(a->s->cache, a->id, &a->totals, &err) < 0)
		a->id = 0;
}

/* What was found here is the answer, for other nodes, too. */
static void take_found(struct fm_stage_ask *a)
{
	if (is_for_others(a)) {
		find_or_fetch(a);
		return;
	}
	a->result.was_ready = true;
	take(a, a->id);
}

/* A READY dataset of a sealed volume's path; its seal is part of the source's name. */
static void found_sealed(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);

	if (!a->id) {
		list_source(a);
		return;
	}
	a->result.check = FM_STAGE_BY_SEAL;
	take_found(a);
}

/*
 * The source is there, and what it is now is known. Of a sealed volume a copy that is here is the
 * source as it is for ever. With other nodes each looks for its own one: who has none lists.
 */
static void take_look(struct fm_stage_ask *a, const struct fm_request_result *result)
{
	a->attr = result->entries[0].attr;
	if (!result->is_sealed || !a->shared[0]) {
		list_source(a);
		return;
	}
	if (a->check == FM_STAGE_BY_CONTENT) {
		list_source(a);
		return;
	}
	submit(a, find_listed, found_sealed);
}

static void looked(void *ctx, const struct fm_request_result *result)
{
	struct fm_stage_ask *a = ctx;
	struct fm_err err;

	if (FM_FAULT("stage.looked")) {
		(void)fm_err_set(&err, -ECONNRESET, "%s connected anew", a->node);
		fail_look(a, &err);
		return;
	}
	if (result->code == 0 && !a->is_invited)
		take_shared(a, result->shared);
	if (result->code < 0) {
		fail_look(a, &result->err);
	} else if (a->is_invited && a->shared[0] && strcmp(a->shared, result->shared) != 0) {
		(void)fm_err_set(&err, -ESTALE, "%s:%s is not shared as \"%s\"", a->node, a->store,
				 a->shared);
		fail_ask(a, &err);
	} else if (a->s->is_stopping) {
		(void)fm_err_set(&err, -EHOSTDOWN, "fmoved stops");
		fail_ask(a, &err);
	} else if (check_written(a, result, &err) < 0) {
		fail_ask(a, &err);
	} else {
		take_look(a, result);
	}
}

static int look(struct fm_stage_ask *a, struct fm_err *err)
{
	const struct fm_request_opts o = { .verb = FM_VERB_STAT, .node = a->node,
					   .store = a->store, .path = a->path,
					   .path_len = a->path_len,
					   .who = { NULL, a->uid, a->gid } };

	return a->is_own ? list_local(a, err)
		       : fm_request_start(a->s->o.engine, &o, looked, a, err);
}

/* ---- without asking ---- */

static void found_here(struct fm_work *work)
{
	struct fm_stage_ask *a = fm_container_of(work, struct fm_stage_ask, work);
	struct fm_err err;

	if (a->id) {
		a->result.check = FM_STAGE_UNASKED;
		take_found(a);
	} else if (look(a, &err) < 0) {
		fail_ask(a, &err);
	}
}

static int trust(struct fm_stage_ask *a)
{
	struct fm_store_ref *own = strcmp(a->node, a->s->o.node) != 0
					   ? NULL
					   : fm_engine_store_get(a->s->o.engine, a->store,
								 strlen(a->store));

	if (own) {
		take_shared(a, own->store->shared);
		fm_engine_store_put(own);
	}
	submit(a, find_listed, found_here);
	return 0;
}

/* ---- from outside ---- */

static int check_name(const char *name, struct fm_err *err)
{
	size_t len = strlen(name);

	if (len == 0 || len > FM_CACHE_NAME_MAX || name[0] == '.' || strchr(name, '/'))
		return fm_err_set(err, -EINVAL,
				  "a dataset's name is one of 1 to %d bytes without / that "
				  "does not begin with a dot: give it one with --as",
				  FM_CACHE_NAME_MAX);
	return 0;
}

/*
 * Before anything is asked of another node: what it cannot be asked ends its session, which other
 * users have, too. And a source is taken apart at its first ':' and '/'.
 */
static int check_source(const struct fm_stage_request *r, struct fm_err *err)
{
	if (!fm_wire_is_good_name(r->node, strlen(r->node)) || strchr(r->node, ':'))
		return fm_err_set(err, -EINVAL,
				  "'%s' is no name of a node: 1 to %d bytes without '/' and ':'",
				  r->node, FM_WIRE_NAME_MAX);
	return fm_target_check_store(r->store, err);
}

static struct fm_stage_ask *new_ask(struct fm_stager *s, const struct fm_stage_request *r)
{
	struct fm_stage_ask *a = FM_FAULT("stage.ask") ? NULL : calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->s = s;
	if (r->job)
		(void)snprintf(a->job, sizeof(a->job), "%s", r->job);
	else
		fm_queue_make_id(s->o.queue, a->job);
	a->store_changes = s->o.engine->store_changes;
	a->uid = r->who.uid;
	a->gid = r->who.gid;
	(void)snprintf(a->peer, sizeof(a->peer), "%s", r->who.peer ? r->who.peer : "");
	a->pid = r->pid;
	a->is_pinned = r->is_pinned;
	a->check = r->check;
	if (r->check == FM_STAGE_BY_CONTENT)
		a->result.check = r->check;
	a->is_hub = a->result.is_hub = r->is_hub;
	(void)snprintf(a->revision, sizeof(a->revision), "%s", r->revision ? r->revision : "");
	a->is_own = r->list;
	a->list = fm_served_ref(r->list);
	a->copy = fm_served_ref(r->copy);
	a->is_live = r->is_live;
	a->draft = -1;
	a->again.fire = ask_again;
	(void)snprintf(a->shared, sizeof(a->shared), "%s", r->shared ? r->shared : "");
	(void)snprintf(a->node, sizeof(a->node), "%s", r->node);
	(void)snprintf(a->store, sizeof(a->store), "%s", r->store);
	(void)snprintf(a->name, sizeof(a->name), "%s", r->name);
	memcpy(a->path, r->path, r->path_len);
	a->path_len = r->path_len;
	return a;
}

/* Of several nodes this one compares its copy with the source, and the others' with its copy. */
static int check_nodes(const struct fm_stager *s, const struct fm_stage_request *r, uint64_t *nodes,
		       struct fm_err *err)
{
	int ret = fm_togethers_may(s->togethers, r->node, err);

	if (ret == 0)
		ret = fm_togethers_nodes(s->togethers, r->nodes, nodes, err);
	if (ret == 0 && r->check == FM_STAGE_BY_CONTENT &&
	    !fm_togethers_has_self(s->togethers, *nodes))
		ret = fm_err_set(err, -EINVAL,
				 "check: %s reads the source again, and compares it with its own "
				 "copy: it must be one of the nodes",
				 s->o.node);
	return ret;
}

static struct fm_share_id asker_of(const struct fm_stage_request *r)
{
	return r->who.peer ? fm_share_name(r->who.peer) : fm_share_user(r->who.uid);
}

int fm_stager_ask(struct fm_stager *s, const struct fm_stage_request *r,
		  void (*done)(void *ctx, const struct fm_stage_result *result), void *ctx,
		  struct fm_stage_ask **out, struct fm_err *err)
{
	struct fm_share_held place = { 0 };
	struct fm_stage_ask *a;
	uint64_t nodes = 0;
	int ret = check_name(r->name, err);

	if (ret == 0 && !r->list)	/* what the caller serves is of no node */
		ret = check_source(r, err);
	if (ret == 0 && r->path_len > FM_PATH_LEN_MAX)
		ret = fm_err_set(err, -ENAMETOOLONG, "the path has more than %d bytes",
				 FM_PATH_LEN_MAX);
	if (ret == 0)
		ret = fm_share_take(&s->places, asker_of(r), 1, &place, err);
	if (ret < 0)
		return ret;
	if (r->nodes && r->nodes[0])
		ret = check_nodes(s, r, &nodes, err);
	if (ret < 0) {
		fm_share_give_all(&place);
		return ret;
	}
	a = new_ask(s, r);
	if (!a) {
		fm_share_give_all(&place);
		return fm_err_set(err, -ENOMEM, "no memory for a request");
	}
	a->nodes = nodes;
	if (!a->is_own)
		fm_far_rules_ask(s->far_rules, a->node, a->store);
	if (s->is_stopping)
		ret = fm_err_set(err, -EHOSTDOWN, "fmoved stops");
	else
		ret = a->check == FM_STAGE_UNASKED ? trust(a) : look(a, err);
	if (ret < 0) {
		fm_share_give_all(&place);
		free_ask(a);
		return ret;
	}
	a->place = place;
	a->done = done;
	atomic_store(&a->ctx, ctx);
	fm_list_append(&s->asks, &a->at);
	*out = a;
	return 0;
}

void fm_stage_ask_forget(struct fm_stage_ask *ask)
{
	atomic_store(&ask->ctx, NULL);
}

/* In all other states it waits for our own disk alone. */
void fm_stage_ask_cancel(struct fm_stage_ask *ask)
{
	struct fm_err err;

	atomic_store(&ask->is_cancelled, true);
	fm_served_cancel(ask->list);
	fm_served_cancel(ask->copy);
	if (ask->is_listing)
		(void)fm_worker_cancel(ask->s->o.worker, &ask->work);
	if (!ask->run)
		return;
	fm_stage_run_leave(ask->run, &ask->waiter);
	ask->run = NULL;
	(void)fm_err_set(&err, -ECANCELED, "cancelled");
	fail_ask(ask, &err);
}

bool fm_stager_is_asked(struct fm_stager *s, const char *source, uid_t uid)
{
	char text[FM_CACHE_SOURCE_MAX + 1];

	fm_list_each (at, next, &s->asks) {
		const struct fm_stage_ask *a = fm_container_of(at, struct fm_stage_ask, at);

		if (a->uid != uid)
			continue;
		source_of(a, text);
		if (strcmp(text, source) == 0)
			return true;
	}
	return false;
}

void fm_stage_ask_look(const struct fm_stage_ask *ask, struct fm_stage_progress *out)
{
	*out = (struct fm_stage_progress){ .phase = "listing" };
	if (ask->run)
		fm_stage_run_look(ask->run, out);
	else if (ask->is_reread)
		*out = (struct fm_stage_progress){ .phase = "comparing",
						   .size = ask->totals.bytes };
	else if (ask->together)
		*out = (struct fm_stage_progress){ .phase = "staging" };
	out->together = ask->nodes ? ask->together : NULL;
	out->job = ask->together ? fm_together_job(ask->together) : ask->job;
}

/* ---- a peer's request for this node ---- */

void fm_stage_ask_invited(void *ctx, struct fm_together *t,
			  const struct fm_together_source *source)
{
	struct fm_stager *s = ctx;
	const struct fm_stage_request r = { .job = source->job,
					    .node = source->node, .store = source->store,
					    .path = source->path,
					    .path_len = strlen(source->path),
					    .name = source->name,
					    .shared = source->shared,
					    .is_hub = source->is_hub,
					    .who = { source->peer, source->uid, source->gid } };
	struct fm_stage_ask *a;
	struct fm_err err;

	if (fm_stager_ask(s, &r, NULL, NULL, &a, &err) < 0) {
		fm_together_refuse(t, &err);
		return;
	}
	a->is_invited = true;
	a->together = t;
	fm_together_get(t);
}

/* ---- all of them ---- */

bool fm_stage_asks_await_users(const struct fm_stager *s)
{
	fm_list_each(at, next, &((struct fm_stager *)s)->asks)
		if (fm_container_of(at, struct fm_stage_ask, at)->work.may_await !=
		    fm_stage_rights_may_await())
			return false;
	return true;
}

void fm_stage_asks_stop(struct fm_stager *s)
{
	fm_list_each (at, next, &s->asks) {
		struct fm_stage_ask *a = fm_container_of(at, struct fm_stage_ask, at);

		fm_served_cancel(a->list);
		fm_served_cancel(a->copy);
		if (fm_timer_is_set(&a->again))
			fm_timer_set(s->o.loop, &a->again, fm_loop_now(s->o.loop));
	}
}
