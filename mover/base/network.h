/* SPDX-License-Identifier: MIT */
/*
 * network - IP networks as people write them, "10.0.0.0/30", and which addresses are in them.
 *
 * Plain data, no allocation. Any thread.
 */
#ifndef FM_BASE_NETWORK_H
#define FM_BASE_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define FM_NETWORKS_MAX 32		/* of one list */
#define FM_NETWORK_BITS_MIN 7		/* fc00::/7 is the widest that is anybody's own */
#define FM_NETWORK_TEXT_MAX 50		/* "ADDRESS/BITS" with its end */

struct fm_network {
	int family;			/* AF_INET, AF_INET6 */
	uint8_t bits;
	uint8_t address[16];		/* IPv4: the first 4 */
};

struct fm_networks {
	unsigned count;
	struct fm_network network[FM_NETWORKS_MAX];
};

/*
 * -EINVAL: not of the form. IPv6 link-local ones are refused: every link has that network, so that
 * naming it would name links that nobody meant.
 */
int fm_network_parse(const char *text, struct fm_network *out);

void fm_network_print(const struct fm_network *n, char text[static FM_NETWORK_TEXT_MAX]);

/* The bits of sa's address as it goes over the wire, 4 or 16 bytes; NULL for a family we do not
 * know. */
const uint8_t *fm_network_ip(const struct sockaddr_storage *sa, size_t *len);

/* Whether the first bits of both addresses are the same. No address has more bits than it has. */
bool fm_network_is_shared(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
			  unsigned bits);

/* Whether the address, 4 or 16 bytes of that family, is in it. */
bool fm_network_has(const struct fm_network *n, int family, const uint8_t *ip);

/* The bits of the widest network of the list that has sa; 0: none has. So both addresses are in one
 * of them if they share so many bits. */
uint8_t fm_networks_bits(const struct fm_networks *list, const struct sockaddr_storage *sa);

/*
 * Whether another machine can send to that address, of AF_INET or AF_INET6 as it goes over the
 * wire. Link-local ones mean something on one link only, and nothing says which.
 */
bool fm_network_is_unicast(int family, const uint8_t *ip);

/* Whether they are the same address; ports do not count. */
bool fm_network_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* 127.0.0.0/8, ::1: what never leaves this machine. */
bool fm_network_is_loopback(const struct sockaddr_storage *sa);

#endif
