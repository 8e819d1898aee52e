/* SPDX-License-Identifier: MIT */
/* proc_stat - see proc_stat.h. */
#include "mover/base/proc_stat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int fm_proc_stat_parse(const char *text, struct fm_proc_stat *out)
{
	const char *name = strchr(text, '('), *end = strrchr(text, ')');
	int parent;

	if (!name || !end || end < name)
		return -EBADMSG;
	(void)snprintf(out->name, sizeof(out->name), "%.*s", (int)(end - name - 1), name + 1);
	if (sscanf(end + 1,
		   " %c %d %*s %*s %*s %*s %u %*s %*s %*s %*s %" SCNu64 " %" SCNu64
		   " %*s %*s %*s %*s %*s %*s %" SCNu64,
		   &out->state, &parent, &out->flags, &out->user_ticks, &out->system_ticks,
		   &out->start_ticks) != 6)
		return -EBADMSG;
	out->parent = parent;
	return 0;
}
