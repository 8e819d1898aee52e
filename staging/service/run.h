/* SPDX-License-Identifier: MIT */
/*
 * run - one dataset that is fetched, for all who asked for it. Control thread. See stage_ask.h.
 */
#ifndef FM_STAGE_RUN_H
#define FM_STAGE_RUN_H

#include "mover/queue/queue.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/worker.h"
#include "staging/manifest.h"
#include "staging/service/stage_ask.h"
#include "staging/service/stager.h"

struct fm_served;
struct fm_stage_run;
struct fm_together;

struct fm_stage_runs {
	struct fm_list all;
	struct fm_stager_opts o;
	struct fm_cache *cache;
	struct fm_log_users lines;	/* of those alone that callers of this node want */
	bool is_stopping;
};

/* The dataset to fetch, and the user who asked first. The texts are copied. */
struct fm_stage_plan {
	const char *node, *store, *path;
	size_t path_len;
	const char *name;
	const char *source;		/* NODE:STORE/PATH */
	const struct fm_cache_key *key;
	const struct fm_stage_totals *totals;
	int draft;			/* of its manifest (offered.h); -1: none. Copied */
	uid_t uid;
	gid_t gid;
	/* The node that said so; NULL: he asked here. Copied; who joins by it has it meanwhile */
	const char *peer;
	bool is_hub;			/* path is a commit of a hub's repository: hub.h */
	struct fm_together *together;	/* by which it comes; NULL: from the source alone */
	bool is_alone;			/* if they do not, it may */
	const char *job;		/* what it is logged under; copied */
	/* what the caller serves, of his own hub cache; NULL: it is of a store. Referred to */
	struct fm_served *served;
};

/*
 * Somebody who waits for the run. The caller owns it; ended() is called once. is_others: the run
 * was refused for what its own user may have, and this one is another: the caller is to join a run
 * again, or to tell those of `together`, who have heard nothing.
 */
struct fm_stage_waiter {
	struct fm_list at;
	void (*ended)(struct fm_stage_waiter *w, uint64_t id, const struct fm_err *err);
	bool is_others;
	/* of the plan that it joined by */
	uid_t uid;
	const char *peer;
	const struct fm_together *together;
};

void fm_stage_runs_init(struct fm_stage_runs *runs, const struct fm_stager_opts *opts,
			struct fm_cache *cache);
void fm_stage_runs_stop(struct fm_stage_runs *runs);

/* Tells the cache how much of the running fetches is on the disk, before it looks for room. */
void fm_stage_runs_note(struct fm_stage_runs *runs);

/* The one of that key, or a new one. */
int fm_stage_run_join(struct fm_stage_runs *runs, const struct fm_stage_plan *plan,
		      struct fm_stage_waiter *waiter, struct fm_stage_run **out,
		      struct fm_err *err);

/*
 * He waits for it no more, and hears nothing. One that a caller serves ends with the last who
 * waits; what came stays.
 */
void fm_stage_run_leave(struct fm_stage_run *run, struct fm_stage_waiter *waiter);

/* What it is logged under: of who asked first. */
const char *fm_stage_run_job(const struct fm_stage_run *run);

/* What is being done for a dataset that is fetched: "planned", "copying", ...; NULL: nothing. */
const char *fm_stage_runs_doing(const struct fm_stage_runs *runs, const struct fm_cache_key *key);
/* Whether one of them fetches that, and will tell the nodes of `together` how it ended here. */
bool fm_stage_runs_do_for(const struct fm_stage_runs *runs, const struct fm_cache_key *key,
			  const struct fm_together *together);

void fm_stage_run_look(const struct fm_stage_run *run, struct fm_stage_progress *out);

#endif
