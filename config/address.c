/* SPDX-License-Identifier: MIT */
/* address - see address.h. */
#include "config/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/config.h"
#include "config/value.h"
#include "mover/base/err.h"

void fm_address_print(const char *host, uint16_t port, char *out, size_t max)
{
	snprintf(out, max, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

/*
 * The source address of a route; a datagram socket is connected without a packet being sent. The targets are for
 * documentation only.
 */
static int source_towards(int family, const char *target, char *host, size_t max)
{
	struct sockaddr_storage sa = { .ss_family = (sa_family_t)family };
	struct sockaddr_in *in4 = (struct sockaddr_in *)&sa;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&sa;
	void *address = family == AF_INET ? (void *)&in4->sin_addr : (void *)&in6->sin6_addr;
	socklen_t len = family == AF_INET ? sizeof(*in4) : sizeof(*in6);
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_found;

	if (fd < 0)
		return -errno;
	in4->sin_port = htons(9);	/* at the same place in both families */
	is_found = inet_pton(family, target, address) == 1 && connect(fd, (struct sockaddr *)&sa, len) == 0 &&
		   getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
		   inet_ntop(family, address, host, (socklen_t)max);
	close(fd);
	return is_found ? 0 : -EADDRNOTAVAIL;
}

bool fm_address_is_any(const char *host)
{
	return !host[0] || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

int fm_address_of_node(const struct fm_config_node *node, char *out, size_t max, struct fm_err *err)
{
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;

	if (node->address[0]) {
		snprintf(out, max, "%s", node->address);
		return 0;
	}
	if (fm_value_address(node->listen, true, host, sizeof(host), &port) < 0 || port == 0)
		return fm_err_set(err, -EADDRNOTAVAIL, "node.listen (%s) has no fixed port: say node.address",
				  node->listen);
	if (fm_address_is_any(host) && source_towards(AF_INET, "192.0.2.1", host, sizeof(host)) < 0 &&
	    source_towards(AF_INET6, "2001:db8::1", host, sizeof(host)) < 0)
		return fm_err_set(err, -EADDRNOTAVAIL,
				  "no route leads out of this machine, so its address cannot be told: set node.address = "
				  "\"HOST:PORT\" in its configuration");
	fm_address_print(host, port, out, max);
	return 0;
}
