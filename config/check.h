/* SPDX-License-Identifier: MIT */
/*
 * check - what must hold between values of a configuration, each of which is allowed by itself.
 * Part of loading.
 */
#ifndef FM_CONFIG_CHECK_H
#define FM_CONFIG_CHECK_H

#include <stdint.h>

struct fm_config;
struct fm_err;

/*
 * What the daemon needs beside its arena, whatever is asked: code, stacks, rings, the queue, the
 * local API. Measured generously. What memory.total leaves beside both is the budget
 * (base/budget.h) of all that grows with what is asked; with less than this a node cannot work.
 */
#define FM_CONFIG_OVERHEAD_BYTES (UINT64_C(48) << 20)
#define FM_CONFIG_BUDGET_MIN (UINT64_C(8) << 20)
#define FM_CONFIG_SLOTS_MAX 64		/* chunks in a slab */
#define FM_CONFIG_SLABS_MAX (UINT64_C(1) << 20)		/* in the arena */

/* -EINVAL and "FILE:LINE: key: what; what is allowed". */
int fm_config_check(const struct fm_config *cfg, struct fm_err *err);

/* The part of it that is about volumes: a file of its own. */
int fm_config_check_volumes(const struct fm_config *cfg, struct fm_err *err);

#endif
