/* SPDX-License-Identifier: MIT */
/* key - what a dataset is known by before its manifest is known. */
#ifndef FM_STAGE_KEY_H
#define FM_STAGE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_cache_key;

/* The source of a shared store begins with this; no node has such a name. */
#define FM_STAGE_SHARED "shared "

/*
 * The name of a source: NODE:STORE/PATH, or "shared ID/PATH" for a shared store, whichever node was
 * asked. shared: its ID; "": it is not shared.
 */
void fm_stage_source(const char *shared, const char *node, const char *store, const char *path,
		     char *out, size_t size);

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

#endif
