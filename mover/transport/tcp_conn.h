/* SPDX-License-Identifier: MIT */
/*
 * tcp_conn - an established data connection over TCP: frames, lent memory, the data path. See tcp.h
 * for the frames.
 *
 * Made by tcp.c on the control loop, then the engine's (struct fm_conn); attached, it is on its
 * lane's loop only.
 */
#ifndef FM_TRANSPORT_TCP_CONN_H
#define FM_TRANSPORT_TCP_CONN_H

#include <stdatomic.h>

#include "mover/transport/transport.h"

#define FM_TCP_REGIONS_MAX 4096		/* lent to one connection at once */

struct fm_tls;

/*
 * fd and tls (NULL: plain) are the connection's if this succeeds. info->encryption is filled in.
 * *live counts connections; it must stay until it is back. -ENOMEM.
 */
int fm_tcp_conn_new(int fd, struct fm_tls *tls, const struct fm_conn_info *info, atomic_uint *live,
		    struct fm_conn **out);

#endif
