/* SPDX-License-Identifier: MIT */
/*
 * stager_priv - what the stager and its requests share: stager.c has the service, stage_ask.c one
 * request. Control thread, but for what says otherwise.
 */
#ifndef FM_STAGE_STAGER_PRIV_H
#define FM_STAGE_STAGER_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>

#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "staging/service/check_runs.h"
#include "staging/service/elsewhere.h"
#include "staging/service/rights.h"
#include "staging/service/run.h"
#include "staging/service/stager.h"

struct fm_afar;
struct fm_cache;
struct fm_far_rules;
struct fm_hub;
struct fm_keeper;
struct fm_together;
struct fm_together_source;
struct fm_togethers;

struct fm_stager {
	struct fm_stager_opts o;
	struct fm_cache *cache;
	struct fm_list asks, hub_asks;
	struct fm_hub *hub;
	struct fm_stage_runs runs;
	struct fm_stage_check_runs checks;
	struct fm_togethers *togethers;
	struct fm_elsewhere elsewhere;
	struct fm_keeper *keeper;
	struct fm_afar *afar;
	struct fm_far_rules *far_rules;
	struct fm_share places, own_places;
	struct fm_log_users lines;	/* of requests of callers of this node */
	struct fm_timer upkeep;
	struct fm_work upkeep_work;
	bool is_in_upkeep;
	struct fm_stage_rights rights;
	struct fm_work rights_work;
	bool is_asking_rights;
	bool is_stopping;
	atomic_bool is_cancelled;	/* the same, for the worker */
};

/* What a run of other nodes asks of this one; ctx: the stager. Refused, if it cannot begin. */
void fm_stage_ask_invited(void *ctx, struct fm_together *t,
			  const struct fm_together_source *source);

/* Whether each of the requests only waits for the user database. */
bool fm_stage_asks_await_users(const struct fm_stager *s);

/* The stager stops: those whose callers serve something end, and no other begins anew. */
void fm_stage_asks_stop(struct fm_stager *s);

#endif
