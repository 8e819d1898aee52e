/* SPDX-License-Identifier: MIT */
/*
 * api_ops - the operations of the local API that have a file of their own; api.c has the others,
 * and the list of all.
 */
#ifndef FM_STAGE_API_OPS_H
#define FM_STAGE_API_OPS_H

#include <stdint.h>
#include <sys/types.h>

#include "mover/store/store.h"
#include "staging/cache.h"
#include "staging/service/keep.h"

struct fm_api_op;
struct fm_api_tasks;
struct fm_cache;
struct fm_cache_info;
struct fm_err;
struct fm_json_writer;
struct fm_stager;

/* Of this node; -EOPNOTSUPP: it stages nothing, and err says why. */
int fm_stage_api_stager(struct fm_api_tasks *tasks, struct fm_stager **out, struct fm_err *err);

/*
 * The dataset that a user means by a name: of several the one that was asked for last, if it is
 * his; else any that is. -ENOENT; -EPERM: he staged none of them. All are those of root, if he is
 * of this node: another node's may do here what he staged here. For a worker.
 */
int fm_stage_find_his(struct fm_cache *cache, const char *name, uid_t uid, bool is_here,
		      uint64_t *id, struct fm_err *err);
/*
 * The same for a verb, of a user of that node; NULL: of this one. To unpin rather the one of that
 * name that he pins from there, which he may have asked for together with somebody who staged it.
 */
int fm_stage_find_to(enum fm_stage_verb verb, struct fm_cache *cache, const char *name, uid_t uid,
		     const char *node, uint64_t *id, struct fm_err *err);

/* A name and a source, every byte escaped as six, a path likewise, and the rest. */
#define FM_STAGE_API_DATASET_MAX                                                                   \
	((FM_CACHE_NAME_MAX + FM_CACHE_SOURCE_MAX + FM_PATH_LEN_MAX) * 6 + 2048)

/* Adds what is known of a dataset to an object: at most so many bytes. */
void fm_stage_api_dataset(struct fm_json_writer *w, const struct fm_cache_info *info,
			  const char *state, const char *path);

extern const struct fm_api_op fm_stage_op_check;	/* api_check.c */
extern const struct fm_api_op fm_stage_op_datasets;	/* api_datasets.c */
extern const struct fm_api_op fm_stage_op_locate;	/* api_locate.c */
extern const struct fm_api_op fm_stage_op_pin;		/* api_change.c */
extern const struct fm_api_op fm_stage_op_unpin;
extern const struct fm_api_op fm_stage_op_unstage;

#endif
