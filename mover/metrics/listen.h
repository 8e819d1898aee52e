/* SPDX-License-Identifier: MIT */
/*
 * listen - the socket where a daemon's metrics are read: an address and a port of this machine.
 *
 * No UNIX socket: through one a client hands descriptors over, and whoever reads from it closes
 * the last copy, which may wait for ever (TCP with SO_LINGER, FUSE). base/packet_shut.h keeps that
 * away, but libmicrohttpd reads for itself.
 */
#ifndef FM_METRICS_LISTEN_H
#define FM_METRICS_LISTEN_H

#include <stdint.h>

struct fm_err;

/*
 * backlog: of listen(2). The descriptor, or a negative errno with the address in *err: -EADDRINUSE,
 * -EADDRNOTAVAIL, -EINVAL: host is no address.
 */
int fm_metrics_listen(const char *host, uint16_t port, int backlog, struct fm_err *err);

#endif
