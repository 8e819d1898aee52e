/* SPDX-License-Identifier: MIT */
/*
 * address - addresses of this machine to tell others, as they are said or found.
 */
#ifndef FM_CONFIG_ADDRESS_H
#define FM_CONFIG_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_config_node;
struct fm_err;

#define FM_ADDRESS_TEXT_MAX 300		/* "[HOST]:PORT" */
#define FM_ADDRESSES_MAX 8		/* of one node that another tries when it joins */

/* "HOST:PORT", with the brackets that an IPv6 address needs. Cut to max. */
void fm_address_print(const char *host, uint16_t port, char *out, size_t max);

/* The host of a listening address is every address of this machine: "", "0.0.0.0", "::". */
bool fm_address_is_any(const char *host);

/*
 * What a person says of an address, "HOST", "HOST:PORT", "[IPv6]:PORT", "[IPv6]" or "IPv6", as
 * "HOST:PORT" with that port where none was said. -EINVAL: it is none.
 */
int fm_address_complete(const char *text, uint16_t port, char out[static FM_ADDRESS_TEXT_MAX]);

struct fm_addresses {
	unsigned count;
	char text[FM_ADDRESSES_MAX][FM_ADDRESS_TEXT_MAX];	/* "HOST:PORT" */
};

/*
 * Where others reach this node, the best first: node.address; else the host of node.listen if it
 * says one; else the address that this machine uses towards the outside; where no route leads
 * there, those of its interfaces, IPv4 or else IPv6. -EADDRNOTAVAIL with what to do.
 */
int fm_address_of_node(const struct fm_config_node *node, struct fm_addresses *out,
		       struct fm_err *err);

#endif
