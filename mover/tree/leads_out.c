/* SPDX-License-Identifier: MIT */
/* leads_out - see leads_out.h. */
#include "mover/tree/leads_out.h"

#include <string.h>

/* Directories between the root and what has that path. */
static long depth_of(const char *path, size_t len)
{
	long depth = 0;

	for (size_t i = 0; i < len; i++)
		depth += path[i] == '/';
	return depth;
}

bool fm_leads_out(const char *path, size_t path_len, const char *target, size_t target_len)
{
	const char *at = target, *end = target + target_len;
	long depth = depth_of(path, path_len);

	if (target_len > 0 && target[0] == '/')
		return true;
	while (at < end && depth >= 0) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		size_t len = (size_t)((slash ? slash : end) - at);

		if (len == 2 && at[0] == '.' && at[1] == '.')
			depth--;
		else if (len > 1 || (len == 1 && at[0] != '.'))
			depth++;
		at += len + 1;
	}
	return depth < 0;
}
