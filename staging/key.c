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

/* Whether it begins with that, behind which *at is then. */
static bool begins(const char **at, const char *with)
{
	size_t len = strlen(with);
	bool is_so = strncmp(*at, with, len) == 0;

	*at += is_so ? len : 0;
	return is_so;
}

/* A name of 1 to FM_CACHE_NODE_MAX bytes up to the divider. */
static bool take_name(const char **at, char divider, char out[static FM_CACHE_NODE_MAX + 1])
{
	size_t len = strcspn(*at, divider == ':' ? ":/" : "/");

	if (len == 0 || len > FM_CACHE_NODE_MAX || (*at)[len] != divider)
		return false;
	memcpy(out, *at, len);
	out[len] = '\0';
	*at += len + 1;
	return true;
}

static bool take_number(const char **at)
{
	size_t len = strspn(*at, "0123456789");

	if (len == 0 || (*at)[len] != '/')
		return false;
	*at += len + 1;
	return true;
}

int fm_stage_source_parse(const char *source, struct fm_stage_source_parts *out)
{
	const char *at = source;

	*out = (struct fm_stage_source_parts){ .kind = FM_STAGE_PLAIN };
	if (begins(&at, FM_STAGE_SHARED)) {
		out->kind = FM_STAGE_SHARED_STORE;
		if (!take_name(&at, '/', out->store))
			return -EINVAL;
	} else if (begins(&at, FM_HUB_OWN_SOURCE)) {
		out->kind = FM_STAGE_OWN_HUB;
		if (!take_number(&at))
			return -EINVAL;
	} else {
		if (begins(&at, FM_HUB_SOURCE))
			out->kind = FM_STAGE_HUB;
		if (!take_name(&at, ':', out->node) || !take_name(&at, '/', out->store))
			return -EINVAL;
	}
	out->path = at;
	return 0;
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

/* Of what a source has before its path; 0: it is none. */
static size_t store_len(const char *source)
{
	struct fm_stage_source_parts s;

	return fm_stage_source_parse(source, &s) < 0 ? 0 : (size_t)(s.path - source);
}

bool fm_stage_is_same_store(const char *a, const char *b)
{
	size_t len = store_len(a);

	return len > 0 && len == store_len(b) && memcmp(a, b, len) == 0;
}

int fm_stage_store_version(const char *source, uint8_t *version)
{
	char store[2 * FM_CACHE_NODE_MAX + 16];
	size_t len = store_len(source);

	if (len == 0 || len >= sizeof(store))
		return -EINVAL;
	memcpy(store, source, len);
	store[len] = '\0';
	return fm_stage_own_version(store, version);
}

int fm_stage_own_version(const char *source, uint8_t *version)
{
	struct fm_cache_key key;
	int ret = fm_stage_key(source, version, false, &key);

	if (ret == 0)
		memcpy(version, key.bytes, sizeof(key.bytes));
	return ret;
}
