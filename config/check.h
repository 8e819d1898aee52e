/* SPDX-License-Identifier: MIT */
/*
 * check - what must hold between values of a configuration, each of which is allowed by itself. Part of loading.
 */
#ifndef FM_CONFIG_CHECK_H
#define FM_CONFIG_CHECK_H

#include <stdint.h>

struct fm_config;
struct fm_err;

/*
 * What the daemon needs beside its arena, and for each lane: see memory.total. Measured generously, a daemon with
 * 32 transfers uses half.
 */
#define FM_CONFIG_OVERHEAD_BYTES (UINT64_C(48) << 20)
#define FM_CONFIG_SLOTS_MAX 64		/* chunks in a slab */

/* -EINVAL and "FILE:LINE: key: what; what is allowed". */
int fm_config_check(const struct fm_config *cfg, struct fm_err *err);

/* The part of it that is about volumes: a file of its own. */
int fm_config_check_volumes(const struct fm_config *cfg, struct fm_err *err);

#endif
