/* SPDX-License-Identifier: MIT */
/* key - see key.h. */
#include "staging/key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "staging/cache.h"
#include "staging/sha256.h"

void fm_stage_source(const char *shared, const char *node, const char *store, const char *path,
		     char *out, size_t size)
{
	if (shared[0])
		(void)snprintf(out, size, FM_STAGE_SHARED "%s/%s", shared, path);
	else
		(void)snprintf(out, size, "%s:%s/%s", node, store, path);
}

int fm_stage_key(const char *source, const uint8_t *listing, bool is_file, struct fm_cache_key *out)
{
	static const uint8_t file = 1;
	struct fm_sha256 *s = fm_sha256_new();

	if (!s)
		return -ENOMEM;
	fm_sha256_add(s, source, strlen(source) + 1);
	fm_sha256_add(s, listing, FM_SHA256_LEN);
	if (is_file)	/* of a directory nothing follows: what caches have by now is found */
		fm_sha256_add(s, &file, sizeof(file));
	fm_sha256_end(s, out->bytes);
	fm_sha256_free(s);
	return 0;
}

int fm_stage_own_version(const char *source, uint8_t *version)
{
	struct fm_cache_key key;
	int ret = fm_stage_key(source, version, false, &key);

	if (ret == 0)
		memcpy(version, key.bytes, sizeof(key.bytes));
	return ret;
}
