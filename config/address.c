/* SPDX-License-Identifier: MIT */
/* address - see address.h. */
#include "config/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/config.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/network.h"

void fm_address_print(const char *host, uint16_t port, char *out, size_t max)
{
	snprintf(out, max, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

/*
 * Finds the source address of a route. A datagram socket is connected, which sends no packet; the
 * targets are addresses reserved for documentation.
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
	is_found = inet_pton(family, target, address) == 1 &&
		   connect(fd, (struct sockaddr *)&sa, len) == 0 &&
		   getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
		   inet_ntop(family, address, host, (socklen_t)max);
	close(fd);
	return is_found ? 0 : -EADDRNOTAVAIL;
}

bool fm_address_is_any(const char *host)
{
	return !host[0] || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static bool leads_out(char *host, size_t max)
{
	return source_towards(AF_INET, "192.0.2.1", host, max) == 0 ||
	       source_towards(AF_INET6, "2001:db8::1", host, max) == 0;
}

/*
 * Whether the interface has an address of this family at which other nodes can reach it: it is up,
 * carries something, and its address is not only valid locally.
 */
static bool is_reached(const struct ifaddrs *ifa, int family, char *host)
{
	const unsigned wanted = IFF_UP | IFF_RUNNING;
	struct sockaddr_storage sa = { 0 };
	const uint8_t *ip;
	size_t len;

	if (!ifa->ifa_addr || ifa->ifa_addr->sa_family != family)
		return false;
	if ((ifa->ifa_flags & wanted) != wanted || ifa->ifa_flags & IFF_LOOPBACK)
		return false;
	memcpy(&sa, ifa->ifa_addr,
	       family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	ip = fm_network_ip(&sa, &len);
	return ip && fm_network_is_unicast(family, ip) &&
	       inet_ntop(family, ip, host, INET6_ADDRSTRLEN);
}

/* Adds the addresses of the interfaces: the IPv4 ones, or the IPv6 ones if there are none. */
static void add_interfaces(uint16_t port, struct fm_addresses *out)
{
	static const int families[] = { AF_INET, AF_INET6 };
	char host[INET6_ADDRSTRLEN];
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return;
	for (unsigned i = 0; i < 2 && out->count == 0; i++)
		for (struct ifaddrs *ifa = all; ifa && out->count < FM_ADDRESSES_MAX;
		     ifa = ifa->ifa_next)
			if (is_reached(ifa, families[i], host))
				fm_address_print(host, port, out->text[out->count++],
						 FM_ADDRESS_TEXT_MAX);
	freeifaddrs(all);
}

int fm_address_of_node(const struct fm_config_node *node, struct fm_addresses *out,
		       struct fm_err *err)
{
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;

	out->count = 0;
	if (node->address[0]) {
		snprintf(out->text[out->count++], FM_ADDRESS_TEXT_MAX, "%s", node->address);
		return 0;
	}
	if (fm_value_address(node->listen, true, host, sizeof(host), &port) < 0 || port == 0)
		return fm_err_set(err, -EADDRNOTAVAIL,
				  "node.listen (%s) has no fixed port: say --address HOST:PORT, or "
				  "node.address in the configuration",
				  node->listen);
	if (!fm_address_is_any(host) || leads_out(host, sizeof(host)))
		fm_address_print(host, port, out->text[out->count++], FM_ADDRESS_TEXT_MAX);
	else
		add_interfaces(port, out);
	if (out->count == 0)
		return fm_err_set(err, -EADDRNOTAVAIL,
				  "no interface of this machine is up and has an address that "
				  "others reach: say --address HOST:PORT");
	return 0;
}

int fm_address_complete(const char *text, uint16_t port, char out[static FM_ADDRESS_TEXT_MAX])
{
	size_t len = strlen(text);
	const char *colon = strchr(text, ':');
	bool is_bare_v6 = text[0] != '[' && colon && strchr(colon + 1, ':');
	bool has_port = !is_bare_v6 && colon && text[len - 1] != ']';
	char host[FM_VALUE_HOST_MAX], port_text[8] = "";

	if (len >= FM_VALUE_HOST_MAX)
		return -EINVAL;
	if (!has_port)
		(void)snprintf(port_text, sizeof(port_text), ":%u", port);	/* fits */
	(void)snprintf(out, FM_ADDRESS_TEXT_MAX, "%s%s%s%s", is_bare_v6 ? "[" : "", text,
		       is_bare_v6 ? "]" : "", port_text);	/* fits */
	return fm_value_address(out, false, host, sizeof(host), &port) < 0 ? -EINVAL : 0;
}
