/* SPDX-License-Identifier: MIT */
/* only - see only.h. */
#include "mover/data/only.h"

#include <stdio.h>
#include <string.h>

static bool is(const char *wanted, const char *found)
{
	return !wanted[0] || strcmp(wanted, found) == 0;
}

static bool is_any_way(const struct fm_only *o)
{
	return !o->device[0] && !o->local[0] && !o->remote[0];
}

bool fm_only_is_any(const struct fm_only *o)
{
	return is_any_way(o) && o->conns == 0;
}

bool fm_only_takes(const struct fm_only *o, const struct fm_conn_info *info)
{
	return is_any_way(o) || (is(o->device, info->local) && is(o->local, info->local_addr) &&
				 is(o->remote, info->remote_addr));
}

const char *fm_only_text(const struct fm_only *o, char *out, size_t len)
{
	const char *const words[][2] = {
		{" of ", o->device}, {" from ", o->local}, {" to ", o->remote}};
	int at = o->conns == 0 ? snprintf(out, len, "connections")
			       : snprintf(out, len, "%u connection%s", o->conns,
					  o->conns == 1 ? "" : "s");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i][1][0] && at >= 0 && (size_t)at < len)
			at += snprintf(out + at, len - (size_t)at, "%s%s", words[i][0],
				       words[i][1]);
	return out;
}
