/* SPDX-License-Identifier: MIT */
/* key - see key.h. */
#include "staging/key.h"

#include <errno.h>
#include <string.h>

#include "staging/cache.h"
#include "staging/sha256.h"

int fm_stage_key(const char *source, const uint8_t *listing, struct fm_cache_key *out)
{
	struct fm_sha256 *s = fm_sha256_new();

	if (!s)
		return -ENOMEM;
	fm_sha256_add(s, source, strlen(source) + 1);
	fm_sha256_add(s, listing, FM_SHA256_LEN);
	fm_sha256_end(s, out->bytes);
	fm_sha256_free(s);
	return 0;
}
