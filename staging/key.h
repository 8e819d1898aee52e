/* SPDX-License-Identifier: MIT */
/* key - what a dataset is known by before its manifest is known. */
#ifndef FM_STAGE_KEY_H
#define FM_STAGE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "staging/cache_limits.h"

/* The source of a shared store begins with this; no node has such a name. */
#define FM_STAGE_SHARED "shared "

/* The source of a dataset that a hub gave (service/hub.h) begins with the first one; one of a
 * user's own hub cache with the second one, and his number. */
#define FM_HUB_SOURCE	  "hf://"
#define FM_HUB_OWN_SOURCE FM_HUB_SOURCE "~"

/*
 * The name of a source: NODE:STORE/PATH, or "shared ID/PATH" for a shared store, whichever node was
 * asked. shared: its ID; "": it is not shared.
 */
void fm_stage_source(const char *shared, const char *node, const char *store, const char *path,
		     char *out, size_t size);

enum fm_stage_source_kind {
	FM_STAGE_PLAIN,			/* NODE:STORE/PATH */
	FM_STAGE_SHARED_STORE,		/* shared ID/PATH */
	FM_STAGE_HUB,			/* hf://NODE:STORE/PATH */
	FM_STAGE_OWN_HUB		/* hf://~UID/PATH */
};

/* What the name of a source says. */
struct fm_stage_source_parts {
	enum fm_stage_source_kind kind;
	char node[FM_CACHE_NODE_MAX + 1];	/* PLAIN, HUB; else "" */
	char store[FM_CACHE_NODE_MAX + 1];	/* SHARED_STORE: its ID; OWN_HUB: "" */
	const char *path;			/* in the name that was taken apart */
};

/* Takes the name of a source apart. -EINVAL: it is none. */
int fm_stage_source_parse(const char *source, struct fm_stage_source_parts *out);

/*
 * The key of a listing in the cache: the SHA-256 of source and listing. Anybody can make equal
 * names, sizes and times. So a dataset of another source is never used because its listing is
 * equal. is_file: the dataset is one file. A directory that holds only that file has the same
 * listing, may take its place at the source, and is another dataset. Returns 0 or -ENOMEM.
 */
int fm_stage_key(const char *source, const uint8_t *listing, bool is_file,
		 struct fm_cache_key *out);

/*
 * The version of a dataset that shares its copy with no other one, not even of the same bytes:
 * the SHA-256 of its source and of the version that its manifest names, which it takes the place
 * of.
 */
int fm_stage_own_version(const char *source, uint8_t *version);

/* Whether two sources are in one store, whose rules say who may read either. */
bool fm_stage_is_same_store(const char *a, const char *b);

/*
 * The version of a dataset whose bytes are here already as those of another store: the same rules
 * must say who may read all that share a copy. Like the one above, of the name of its store, which
 * is what its source has before the path. -EINVAL: it is no source. -ENOMEM.
 */
int fm_stage_store_version(const char *source, uint8_t *version);

#endif
