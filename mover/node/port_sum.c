/* SPDX-License-Identifier: MIT */
/* port_sum - see port_sum.h. */
#include "mover/node/port_sum.h"

#include <stdio.h>
#include <string.h>

static struct fm_port_sum *find(struct fm_port_sums *sums, enum fm_kind kind, const char *port)
{
	struct fm_port_sum *p = sums->port;

	for (; p < sums->port + sums->count; p++)
		if (p->kind == kind && strcmp(p->port, port) == 0)
			return p;
	if (sums->count == FM_PORT_SUMS_MAX)
		return NULL;
	sums->count++;
	*p = (struct fm_port_sum){.kind = kind};
	(void)snprintf(p->port, sizeof(p->port), "%s", port);
	return p;
}

bool fm_port_sums_add(struct fm_port_sums *sums, const struct fm_conn_info *info, uint64_t sent,
		      uint64_t received)
{
	struct fm_port_sum *p =
		find(sums, info->kind, info->local[0] ? info->local : info->local_addr);

	if (!p)
		return false;
	p->sent += sent;
	p->received += received;
	return true;
}
