/* SPDX-License-Identifier: MIT */
/* network - see network.h. */
#include "mover/base/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_same(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	if (memcmp(a, b, bits / 8) != 0)
		return false;
	return bits % 8 == 0 || (a[bits / 8] ^ b[bits / 8]) >> (8 - bits % 8) == 0;
}

/* "30", nothing behind it, at most max. */
static int parse_bits(const char *text, unsigned max, uint8_t *out)
{
	unsigned long bits;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	bits = strtoul(text, &end, 10);
	if (*end || bits < FM_NETWORK_BITS_MIN || bits > max)
		return -EINVAL;
	*out = (uint8_t)bits;
	return 0;
}

/* So that one network has one spelling, and "10.0.0.1/30" is noticed by whoever meant a host. */
static bool has_host_bits(const struct fm_network *n)
{
	size_t len = n->family == AF_INET ? 4 : 16;

	for (size_t bit = n->bits; bit < 8 * len; bit++)
		if (n->address[bit / 8] & 0x80 >> bit % 8)
			return true;
	return false;
}

/* It has link-local addresses in it, or is a part of theirs. */
static bool is_link_local(const struct fm_network *n)
{
	static const uint8_t link_local[16] = { 0xfe, 0x80 };

	return n->family == AF_INET6 &&
	       is_same(n->address, link_local, n->bits < 10 ? n->bits : 10);
}

int fm_network_parse(const char *text, struct fm_network *out)
{
	const char *slash = strchr(text, '/');
	struct fm_network n = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };
	char address[INET6_ADDRSTRLEN];
	size_t len = slash ? (size_t)(slash - text) : 0;

	if (len == 0 || len >= sizeof(address))
		return -EINVAL;
	memcpy(address, text, len);
	address[len] = '\0';
	if (inet_pton(n.family, address, n.address) != 1 ||
	    parse_bits(slash + 1, n.family == AF_INET ? 32 : 128, &n.bits) < 0 ||
	    has_host_bits(&n) || is_link_local(&n))
		return -EINVAL;
	*out = n;
	return 0;
}

void fm_network_print(const struct fm_network *n, char text[static FM_NETWORK_TEXT_MAX])
{
	char address[INET6_ADDRSTRLEN] = "?";

	inet_ntop(n->family, n->address, address, sizeof(address));
	snprintf(text, FM_NETWORK_TEXT_MAX, "%s/%u", address, n->bits);
}

const uint8_t *fm_network_ip(const struct sockaddr_storage *sa, size_t *len)
{
	if (sa->ss_family == AF_INET) {
		*len = 4;
		return (const uint8_t *)&((const struct sockaddr_in *)(const void *)sa)->sin_addr;
	}
	if (sa->ss_family == AF_INET6) {
		*len = 16;
		return (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	}
	*len = 0;
	return NULL;
}

bool fm_network_is_shared(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
			  unsigned bits)
{
	size_t len, len_b;
	const uint8_t *ip = fm_network_ip(a, &len), *ip_b = fm_network_ip(b, &len_b);

	return ip && ip_b && len == len_b && bits <= 8 * len && is_same(ip, ip_b, bits);
}

bool fm_network_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return fm_network_is_shared(a, b, a->ss_family == AF_INET ? 32 : 128);
}

bool fm_network_has(const struct fm_network *n, int family, const uint8_t *ip)
{
	return n->family == family && is_same(ip, n->address, n->bits);
}

uint8_t fm_networks_bits(const struct fm_networks *list, const struct sockaddr_storage *sa)
{
	uint8_t widest = 0;
	size_t len;
	const uint8_t *ip = fm_network_ip(sa, &len);

	for (unsigned i = 0; ip && i < list->count; i++) {
		const struct fm_network *n = &list->network[i];

		if (!fm_network_has(n, sa->ss_family, ip))
			continue;
		if (!widest || n->bits < widest)
			widest = n->bits;
	}
	return widest;
}

bool fm_network_is_loopback(const struct sockaddr_storage *sa)
{
	size_t len;
	const uint8_t *ip = fm_network_ip(sa, &len);

	if (len == 4)
		return ip[0] == 127;
	return len == 16 && IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)(const void *)ip);
}

bool fm_network_is_unicast(int family, const uint8_t *ip)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff }, none[16];

	if (family == AF_INET)
		return ip[0] != 0 && ip[0] != 127 && ip[0] < 224 && !(ip[0] == 169 && ip[1] == 254);
	return ip[0] != 0xff && !(ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80) &&
	       memcmp(ip, mapped, sizeof(mapped)) != 0 && memcmp(ip, none, 15) != 0;
}
