/* SPDX-License-Identifier: MIT */
/* staging_names - see staging_names.h. */
#include "mover/tree/staging_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/env.h"

#define HEX_LEN 16
#define HEX_AT (sizeof(FM_STAGING_PREFIX) - 1)

static const struct {
	enum fm_staging_kind kind;
	const char *suffix;
} suffixes[] = {
	{ FM_STAGING_TREE, ".tree" },
	{ FM_STAGING_NEW, ".new" },
	{ FM_STAGING_OLD, ".old" },
	{ FM_STAGING_KEPT, ".kept" },
};

enum fm_staging_kind fm_staging_kind(const char *name)
{
	const char *hex = name + HEX_AT;

	if (strncmp(name, FM_STAGING_PREFIX, HEX_AT) != 0 ||
	    strspn(hex, "0123456789abcdef") != HEX_LEN)
		return FM_STAGING_NONE;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (strcmp(hex + HEX_LEN, suffixes[i].suffix) == 0)
			return suffixes[i].kind;
	return FM_STAGING_NONE;
}

void fm_staging_name(enum fm_staging_kind kind, const char *final,
		     char out[FM_STAGING_NAME_LEN + 1])
{
	const char *suffix = suffixes[0].suffix;
	uint64_t hex;

	if (kind == FM_STAGING_OLD || kind == FM_STAGING_KEPT)
		fm_random_real.fill(fm_random_real.ctx, &hex, sizeof(hex));
	else
		hex = fm_partial_hash(final);
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (suffixes[i].kind == kind)
			suffix = suffixes[i].suffix;
	snprintf(out, FM_STAGING_NAME_LEN + 1, FM_STAGING_PREFIX "%016" PRIx64 "%s", hex, suffix);
}
