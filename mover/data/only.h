/* SPDX-License-Identifier: MIT */
/*
 * only - which connections alone may carry a transfer: those of one device, of some rails, or a
 * number of them. For measuring. Plain data; any thread.
 */
#ifndef FM_ONLY_H
#define FM_ONLY_H

#include <stdbool.h>

#include "mover/transport/transport.h"

#define FM_ONLY_CONNS_MAX   64u
#define FM_ONLY_WAYS_MAX    4u
#define FM_ONLY_ADDRESS_MAX (INET6_ADDRSTRLEN + 16)

/*
 * As struct fm_conn_info has them; "": any. An IPv6 address without its interface is that address
 * at any.
 */
struct fm_only_way {
	char local[FM_ONLY_ADDRESS_MAX];
	char remote[FM_ONLY_ADDRESS_MAX];
};

/* Zeroed: all may. */
struct fm_only {
	char device[FM_RAIL_NAME_MAX]; /* at our end, as struct fm_conn_info has it; "": any */
	struct fm_only_way way[FM_ONLY_WAYS_MAX];
	unsigned way_count;	       /* 0: any way */
	unsigned conns;		       /* of those so many at once; 0: all */
};

/* Whether any connection may. */
bool fm_only_is_any(const struct fm_only *only);

/* Whether that one may, numbers aside. info is not looked at where any may. */
bool fm_only_takes(const struct fm_only *only, const struct fm_conn_info *info);

/* "2 connections of mlx5_0 from 10.0.0.1 to 10.0.0.2", of what was asked for; ways are joined by
 * "or". */
const char *fm_only_text(const struct fm_only *only, char *out, size_t len);

#endif
