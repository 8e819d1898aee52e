/* SPDX-License-Identifier: MIT */
/* port - ports of this machine's loopback, for tests that run beside others. */
#ifndef FM_TESTS_PORT_H
#define FM_TESTS_PORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* A port where nobody listens, and nobody else can until the socket is closed. */
static inline int raw_bind(uint16_t *port)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&in, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &len) < 0)
		abort();
	*port = ntohs(in.sin_port);
	return fd;
}

#endif
