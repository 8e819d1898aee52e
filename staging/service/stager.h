/* SPDX-License-Identifier: MIT */
/*
 * stager - what this node stages: from a request for a source to a READY dataset of the cache.
 *
 * stage_ask.h has the requests.
 *
 * Control thread; what waits for a disk goes to the worker.
 */
#ifndef FM_STAGE_STAGER_H
#define FM_STAGE_STAGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/node/service.h"
#include "mover/store/store.h"
#include "staging/cache.h"
#include "staging/service/hub.h"
#include "staging/service/rights.h"

struct fm_afar;
struct fm_api_op;
struct fm_elsewhere;
struct fm_err;
struct fm_list;
struct fm_loop;
struct fm_queue;
struct fm_share;
struct fm_stage_check_runs;
struct fm_stage_runs;
struct fm_togethers;
struct fm_stager;
struct fm_worker;

#define FM_STAGE_UPLOADS_MAX 16u	/* from the disk at once, of one run */

struct fm_stager_opts {
	struct fm_loop *loop;
	struct fm_engine *engine;
	struct fm_queue *queue;
	struct fm_worker *worker;
	const char *node;		/* our name; outlives it */
	struct fm_cache_opts cache;
	/* whom this node stages together with, NULL-terminated; outlives it; NULL: nobody */
	const char *const *peers;
	struct fm_stage_everybody everybody;
	uint64_t settle_ns;		/* before a run of several nodes reads */
	unsigned uploads;		/* 1 .. FM_STAGE_UPLOADS_MAX */
};

/* A service without messages: it keeps the stager where the operations of the API find it. */
extern const struct fm_service fm_stage_service;
extern const struct fm_api_op *const fm_stage_ops[];	/* NULL-terminated */

/*
 * Opens the cache: waits for the disk, before the loop runs. On an error there is no stager, and
 * fm_stager_why() has the reason. It stops and ends with the engine, which outlives the queue.
 */
int fm_stager_start(const struct fm_stager_opts *opts, struct fm_err *err);

/* In its place: there is none, for that reason. */
void fm_stager_refuse(const struct fm_engine *engine, const struct fm_err *why);

/* NULL: this node stages nothing. */
struct fm_stager *fm_stager_of(const struct fm_engine *engine);

/* Why that is NULL although a directory is configured; code 0: none is. */
const struct fm_err *fm_stager_why(const struct fm_engine *engine);

const struct fm_stager_opts *fm_stager_config(const struct fm_stager *s);
struct fm_cache *fm_stager_cache(struct fm_stager *s);
struct fm_worker *fm_stager_worker(struct fm_stager *s);
struct fm_stage_check_runs *fm_stager_checks(struct fm_stager *s);
struct fm_loop *fm_stager_loop(struct fm_stager *s);
struct fm_engine *fm_stager_engine(struct fm_stager *s);
struct fm_elsewhere *fm_stager_elsewhere(struct fm_stager *s);
struct fm_afar *fm_stager_afar(struct fm_stager *s);
struct fm_hub *fm_stager_hub(struct fm_stager *s);
struct fm_list *fm_stager_hub_asks(struct fm_stager *s);	/* of hub_ask.h */
struct fm_share *fm_stager_own_places(struct fm_stager *s);	/* of own_ask.h */
struct fm_togethers *fm_stager_togethers(struct fm_stager *s);
const struct fm_stage_runs *fm_stager_runs(const struct fm_stager *s);

#endif
