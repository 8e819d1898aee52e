/* SPDX-License-Identifier: MIT */
/*
 * port_sum - what connections moved, by the port of ours that they left through: a device, or an
 * address where no device is known. A pure structure.
 *
 * Connections come and go; these sums never get less, so that a rate can be made of them.
 */
#ifndef FM_PORT_SUM_H
#define FM_PORT_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/transport/transport.h"

#define FM_PORT_SUMS_MAX 16		/* of one peer; more ports than nodes have */

struct fm_port_sum {
	enum fm_kind kind;
	char port[INET6_ADDRSTRLEN + 16];
	uint64_t sent, received;	/* bytes */
};

struct fm_port_sums {
	struct fm_port_sum port[FM_PORT_SUMS_MAX];
	unsigned count;
};

/* false: there is no room for one more port. */
bool fm_port_sums_add(struct fm_port_sums *sums, const struct fm_conn_info *info, uint64_t sent,
		      uint64_t received);

#endif
