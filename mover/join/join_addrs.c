/* SPDX-License-Identifier: MIT */
/* join_addrs - see join_addrs.h. */
#include "mover/join/join_addrs.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/network.h"
#include "mover/transport/transport.h"

static int family_of(const struct fm_join_addr *a)
{
	return a->family == 4 ? AF_INET : AF_INET6;
}

static bool is_same_ip(const struct fm_join_addr *a, const struct fm_addr *b)
{
	size_t len;
	const uint8_t *ip = fm_network_ip(&b->sa, &len);

	return ip && family_of(a) == b->sa.ss_family && memcmp(a->ip, ip, len) == 0;
}

static bool is_ours(const struct fm_join_addr *a, const struct fm_addr *own, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (is_same_ip(a, &own[i]))
			return true;
	return false;
}

/* Unless it is there already. */
static void add(struct fm_join_addrs *to, const struct fm_join_addr *a)
{
	for (unsigned i = 0; i < to->count; i++)
		if (to->addr[i].family == a->family && to->addr[i].port == a->port &&
		    memcmp(to->addr[i].ip, a->ip, sizeof(a->ip)) == 0)
			return;
	if (to->count < FM_JOIN_ADDRS_MAX)
		to->addr[to->count++] = *a;
}

void fm_join_addrs_own(const struct fm_addr *own, size_t count, uint16_t port,
		       struct fm_join_addrs *out)
{
	out->count = 0;
	for (size_t i = 0; port && i < count; i++) {
		struct fm_join_addr a = { .port = port };
		size_t len;
		const uint8_t *ip = fm_network_ip(&own[i].sa, &len);

		if (!ip || !fm_network_is_unicast(own[i].sa.ss_family, ip))
			continue;
		a.family = len == 4 ? 4 : 6;
		memcpy(a.ip, ip, len);
		add(out, &a);
	}
}

void fm_join_addrs_keep(struct fm_join_addrs *told, const struct fm_addr *own, size_t count)
{
	struct fm_join_addrs kept = { .count = 0 };

	for (unsigned i = 0; i < told->count; i++) {
		const struct fm_join_addr *a = &told->addr[i];

		if (a->port && fm_network_is_unicast(family_of(a), a->ip) &&
		    !is_ours(a, own, count))
			add(&kept, a);
	}
	*told = kept;
}

void fm_join_addr_host(const struct fm_join_addr *a, char out[static FM_JOIN_ADDR_TEXT_MAX])
{
	(void)inet_ntop(family_of(a), a->ip, out, FM_JOIN_ADDR_TEXT_MAX);	/* it has room */
}

void fm_join_addr_print(const struct fm_join_addr *a, char out[static FM_JOIN_ADDR_TEXT_MAX])
{
	char host[FM_JOIN_ADDR_TEXT_MAX];

	fm_join_addr_host(a, host);
	(void)snprintf(out, FM_JOIN_ADDR_TEXT_MAX, a->family == 6 ? "[%.45s]:%u" : "%.45s:%u", host,
		       a->port);
}
