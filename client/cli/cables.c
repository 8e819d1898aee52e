/* SPDX-License-Identifier: MIT */
/* cables - see cables.h. */
#include "client/cli/cables.h"

#include <glob.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The network interface of each RoCE port, by the port's first entry. */
#define PORTS "/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/0"
#define SPARE_BITS_MAX 2u	/* behind those of a network with two hosts: /30, /31, /126, /127 */

static bool is_first_line(const char *path, const char *wanted)
{
	char line[64] = "";
	FILE *f = fopen(path, "re");

	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	return strcmp(line, wanted) == 0;
}

static bool is_of_port(const char *interface, const glob_t *ports)
{
	for (size_t i = 0; i < ports->gl_pathc; i++)
		if (is_first_line(ports->gl_pathv[i], interface))
			return true;
	return false;
}

/*
 * The network of an address. false: it is no IP address, or its network has room for more than two
 * hosts.
 */
static bool network_of(const struct ifaddrs *ifa, struct fm_network *out)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC }, mask = { .ss_family = AF_UNSPEC };
	struct fm_network n = { .family = ifa->ifa_addr->sa_family };
	size_t size =
		n.family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	char text[FM_NETWORK_TEXT_MAX];
	const uint8_t *ip, *bits;
	size_t len, mask_len;

	if ((n.family != AF_INET && n.family != AF_INET6) || !ifa->ifa_netmask)
		return false;
	memcpy(&sa, ifa->ifa_addr, size);
	memcpy(&mask, ifa->ifa_netmask, size);
	mask.ss_family = sa.ss_family;		/* some say none */
	ip = fm_network_ip(&sa, &len);
	bits = fm_network_ip(&mask, &mask_len);
	for (size_t i = 0; i < len; i++) {
		n.address[i] = ip[i] & bits[i];
		n.bits = (uint8_t)(n.bits + __builtin_popcount(bits[i]));
	}
	fm_network_print(&n, text);
	/* not link-local */
	return (size_t)n.bits < 8 * len && n.bits + SPARE_BITS_MAX >= 8 * len &&
	       fm_network_parse(text, out) == 0;
}

static void add(struct fm_networks *list, const struct fm_network *n)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->network[i].bits == n->bits &&
		    memcmp(list->network[i].address, n->address, sizeof(n->address)) == 0)
			return;
	if (list->count < FM_NETWORKS_MAX)
		list->network[list->count++] = *n;
}

void fm_cables_find(struct fm_networks *out)
{
	struct fm_network n;
	struct ifaddrs *all;
	glob_t ports;

	out->count = 0;
	if (glob(PORTS, 0, NULL, &ports) != 0)
		return;
	if (getifaddrs(&all) == 0) {
		for (const struct ifaddrs *ifa = all; ifa; ifa = ifa->ifa_next)
			if (ifa->ifa_addr && is_of_port(ifa->ifa_name, &ports) &&
			    network_of(ifa, &n))
				add(out, &n);
		freeifaddrs(all);
	}
	globfree(&ports);
}
