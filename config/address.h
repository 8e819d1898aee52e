/* SPDX-License-Identifier: MIT */
/*
 * address - which address of this machine to tell others, when nobody said one.
 */
#ifndef FM_CONFIG_ADDRESS_H
#define FM_CONFIG_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_config_node;
struct fm_err;

#define FM_ADDRESS_TEXT_MAX 300		/* "[HOST]:PORT" */

/* "HOST:PORT", with the brackets that an IPv6 address needs. Cut to max. */
void fm_address_print(const char *host, uint16_t port, char *out, size_t max);

/* The host of a listening address is every address of this machine: "", "0.0.0.0", "::". */
bool fm_address_is_any(const char *host);

/*
 * Where others reach this node: node.address; else the host of node.listen if it says one; else the
 * address that this machine uses towards the outside; where no route leads there, that of an
 * interface, IPv4 first. -EADDRNOTAVAIL with what to do.
 */
int fm_address_of_node(const struct fm_config_node *node, char *out, size_t max,
		       struct fm_err *err);

/*
 * Where that was one interface's out of several: the addresses of the others, "HOST:PORT,
 * HOST:PORT".
 * "": it was not. Cut to max.
 */
void fm_address_others(const struct fm_config_node *node, char *out, size_t max);

#endif
