/* SPDX-License-Identifier: MIT */
/* listen - see listen.h. */
#include "mover/metrics/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

static int listen_at(const struct addrinfo *at, int backlog)
{
	const int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int yes = 1, ret = 0, fd;

	fd = FM_FAULT("metrics.socket") ? (errno = EMFILE, -1) : socket(at->ai_family, type, 0);
	if (fd < 0)
		return -errno;
	/* a daemon that starts again finds connections of the former one */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, backlog) < 0)
		ret = -errno;
	if (ret < 0)
		(void)close(fd);	/* nothing was written to it */
	return ret < 0 ? ret : fd;
}

int fm_metrics_listen(const char *host, uint16_t port, int backlog, struct fm_err *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
	struct addrinfo *at;
	char service[8];
	int ret;

	(void)snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &at) != 0)
		return fm_err_set(err, -EINVAL, "%s is no address", host);
	ret = listen_at(at, backlog);
	freeaddrinfo(at);
	if (ret == -EADDRINUSE)
		return fm_err_set(err, ret, "port %u of %s is taken: ss -ltnp says by whom", port,
				  host);
	return ret < 0 ? fm_err_sys(err, ret, "listen on port %u of %s", port, host) : ret;
}
