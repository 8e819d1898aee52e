/* SPDX-License-Identifier: MIT */
/*
 * listen - the stream socket where a daemon's metrics are read: an address and a port of this
 * machine, or a UNIX socket.
 */
#ifndef FM_METRICS_LISTEN_H
#define FM_METRICS_LISTEN_H

#include <stdint.h>
#include <sys/types.h>

struct fm_err;

/* backlog: of listen(2). The descriptor, or a negative errno with the address in *err: -EADDRINUSE,
 * -EADDRNOTAVAIL, -EINVAL: host is no address. */
int fm_metrics_listen_ip(const char *host, uint16_t port, int backlog, struct fm_err *err);

/*
 * What a daemon that is dead left there is replaced. gid: the group of the socket's file, or -1.
 * Errors of bind(2).
 */
int fm_metrics_listen_unix(const char *path, mode_t mode, gid_t gid, int backlog,
			   struct fm_err *err);

#endif
