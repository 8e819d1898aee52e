/* SPDX-License-Identifier: MIT */
/* only - see only.h. */
#include "mover/data/only.h"

#include <stdio.h>
#include <string.h>

static bool is_end(const char *wanted, const char *shown)
{
	return !wanted[0] || fm_conn_is_address(shown, wanted);
}

bool fm_only_is_any(const struct fm_only *o)
{
	return !o->device[0] && o->way_count == 0 && o->conns == 0;
}

bool fm_only_takes(const struct fm_only *o, const struct fm_conn_info *info)
{
	bool is_there = o->way_count == 0;

	if (o->device[0] && strcmp(o->device, info->local) != 0)
		return false;
	for (unsigned i = 0; i < o->way_count && !is_there; i++)
		is_there = is_end(o->way[i].local, info->local_addr) &&
			   is_end(o->way[i].remote, info->remote_addr);
	return is_there;
}

/* As snprintf() behind what is there; a text that is cut short is still one. */
static void add(char *out, size_t len, const char *word, const char *value)
{
	size_t at = strlen(out);

	if (value[0])
		(void)snprintf(out + at, len - at, "%s%s", word, value);
}

const char *fm_only_text(const struct fm_only *o, char *out, size_t len)
{
	if (o->conns == 0)
		(void)snprintf(out, len, "connections");
	else
		(void)snprintf(out, len, "%u connection%s", o->conns, o->conns == 1 ? "" : "s");
	add(out, len, " of ", o->device);
	for (unsigned i = 0; i < o->way_count; i++) {
		add(out, len, i > 0 ? " or from " : " from ", o->way[i].local);
		add(out, len, " to ", o->way[i].remote);
	}
	return out;
}
