/* SPDX-License-Identifier: MIT */
/* key - what a dataset is known by before its manifest is known. */
#ifndef FM_STAGE_KEY_H
#define FM_STAGE_KEY_H

#include <stddef.h>
#include <stdint.h>

struct fm_cache_key;

/* What the source of a store that several nodes have begins with: no node is called so. */
#define FM_STAGE_SHARED "shared "

/*
 * What a source is called: NODE:STORE/PATH; of a store that is shared by that ID ("": it is not)
 * "shared ID/PATH", whichever node was asked.
 */
void fm_stage_source(const char *shared, const char *node, const char *store, const char *path,
		     char *out, size_t size);

/*
 * What a cache knows a listing of a source by: the SHA-256 of both. Names, sizes and times alone
 * are what anybody can make, so nobody is given what another source brought because these are
 * equal.
 */
int fm_stage_key(const char *source, const uint8_t *listing, struct fm_cache_key *out);

#endif
