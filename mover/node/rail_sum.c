/* SPDX-License-Identifier: MIT */
/* rail_sum - see rail_sum.h. */
#include "mover/node/rail_sum.h"

#include <stdio.h>
#include <string.h>

static struct fm_rail_sum *find(struct fm_rail_sums *sums, const struct fm_conn_info *info)
{
	struct fm_rail_sum *r;

	for (unsigned i = 0; i < sums->count; i++) {
		r = &sums->rail[i];
		if (r->info.kind == info->kind && r->info.encryption == info->encryption &&
		    strcmp(r->info.local_addr, info->local_addr) == 0 &&
		    strcmp(r->info.remote_addr, info->remote_addr) == 0)
			return r;
	}
	if (sums->count == FM_RAIL_SUMS_MAX)
		return NULL;
	r = &sums->rail[sums->count++];
	*r = (struct fm_rail_sum){.info = *info};
	return r;
}

bool fm_rail_sums_add(struct fm_rail_sums *sums, const struct fm_rail_status *rail)
{
	struct fm_rail_sum *r = find(sums, rail->info);

	if (!r)
		return false;
	if (rail->why) {
		(void)snprintf(r->error, sizeof(r->error), "%s", rail->why);
		r->down_ns = rail->down_ns;
		return true;
	}
	r->conns++;
	r->conns_up += rail->is_up;
	r->bytes_sent += rail->bytes_sent;
	r->bytes_received += rail->bytes_received;
	return true;
}
