/* SPDX-License-Identifier: MIT */
/*
 * cache_limits - what a dataset of a cache is known by, and how much its files may say of it.
 */
#ifndef FM_STAGING_CACHE_LIMITS_H
#define FM_STAGING_CACHE_LIMITS_H

#include <stdint.h>

#define FM_CACHE_NAME_MAX    240	   /* bytes of a dataset's name */
#define FM_CACHE_SOURCE_MAX  5000	   /* of what its source is called */
#define FM_CACHE_EXTENTS_MAX (1u << 20) /* 16 TiB of 16 MiB */
#define FM_CACHE_PINS_MAX    64	   /* users who pin one dataset */
#define FM_CACHE_FAR_PINS_MAX 32   /* pins of one dataset that other nodes asked for */
#define FM_CACHE_NODE_MAX    64	   /* bytes of a node's name */
#define FM_CACHE_AFAR_NODES  63	   /* on which one process holds a dataset */

/* A SHA-256: of a listing or of a manifest. */
struct fm_cache_key {
	uint8_t bytes[32];
};

#endif
