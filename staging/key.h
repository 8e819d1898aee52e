/* SPDX-License-Identifier: MIT */
/* key - what a dataset is known by before its manifest is known. */
#ifndef FM_STAGE_KEY_H
#define FM_STAGE_KEY_H

#include <stdint.h>

struct fm_cache_key;

/*
 * What a cache knows a listing of a source by: the SHA-256 of both. Names, sizes and times alone
 * are what anybody can make, so nobody is given what another source brought because these are
 * equal.
 */
int fm_stage_key(const char *source, const uint8_t *listing, struct fm_cache_key *out);

#endif
