/* SPDX-License-Identifier: MIT */
/*
 * listen - the socket where a daemon's metrics are read: an address and a port of this machine, or
 * a UNIX socket.
 *
 * Through a UNIX socket a client hands descriptors over, and whoever reads from it closes the last
 * copy, which may wait for ever (TCP with SO_LINGER, FUSE). base/packet_shut.h keeps that away, but
 * libmicrohttpd reads for itself. So none may be handed over, which the kernel sees to since Linux
 * 6.16; an older one lets in nobody but the daemon's own user and root.
 */
#ifndef FM_METRICS_LISTEN_H
#define FM_METRICS_LISTEN_H

#include <stdint.h>
#include <sys/un.h>

struct fm_err;

#define FM_METRICS_SOCKET_MODE	     0660 /* of a UNIX socket, ... */
#define FM_METRICS_SOCKET_MODE_ALONE 0600 /* ... and where descriptors cannot be kept away */

struct fm_metrics_at {
	const char *host;   /* an address of this machine */
	uint16_t port;
	const char *path;   /* of a UNIX socket, in place of both; NULL: none */
	const char *daemon; /* whose it is, for an error: "fmoved" */
};

/*
 * backlog: of listen(2). The descriptor, or a negative errno with the address in *err: -EADDRINUSE,
 * -EADDRNOTAVAIL, -EINVAL: host is no address. *file is a UNIX socket that is there from now on,
 * for unlink(); its sun_path is "" without one.
 */
int fm_metrics_listen(const struct fm_metrics_at *at, int backlog, struct sockaddr_un *file,
		      struct fm_err *err);

/* Says in the log where they are, as the configuration has it; path: as above. */
void fm_metrics_log(const char *where, const char *path);

#endif
