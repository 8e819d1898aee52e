/* SPDX-License-Identifier: MIT */
/*
 * cache_afar - what processes of this node hold on other nodes, written down so that a daemon that
 * is started anew goes on with it. Whoever holds there tells those nodes (service/afar.h).
 */
#ifndef FM_STAGING_CACHE_AFAR_H
#define FM_STAGING_CACHE_AFAR_H

#include <stdint.h>

#include "staging/cache_format.h"

struct fm_cache;
struct fm_err;

uint64_t fm_cache_afar_number(void); /* a new one */

/* Written, in place of what has that number. Waits for the disk. */
int fm_cache_afar_save(struct fm_cache *cache, const struct fm_cache_afar_record *record,
		       struct fm_err *err);
/* Not there any more. Waits for the disk. */
void fm_cache_afar_drop(struct fm_cache *cache, uint64_t number);

/*
 * take() for each; pidfd is take()'s then, and -1 if the process is gone. What is damaged is
 * removed. Waits for the disk.
 */
int fm_cache_afar_load(struct fm_cache *cache,
		       void (*take)(void *ctx, const struct fm_cache_afar_record *record,
				    int pidfd),
		       void *ctx, struct fm_err *err);

#endif
