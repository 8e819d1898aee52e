/* SPDX-License-Identifier: MIT */
/*
 * discovered - lines for fmove.conf of what a target offers. Any thread.
 */
#ifndef FM_CLIENT_DISCOVERED_H
#define FM_CLIENT_DISCOVERED_H

#include <stddef.h>
#include <stdio.h>

struct fm_json;

#define FM_DISCOVERED_ADDRESS_MAX 300	/* of a text that is no longer than an address may be */

/* "HOST:PORT" or "[HOST]:PORT". Cut to cap; returns out. */
char *fm_discovered_address(const char *host, const char *port, char *out, size_t cap);

/*
 * A volumes list with one element for each subsystem among the entries of the discovery answer (see
 * fmove-nvmed's API), its further addresses as paths. Where none is the address that was dialled,
 * the dialled one is used, and a comment says what was advertised: that may be an address of
 * another network. What no configuration could hold is a comment.
 */
void fm_discovered_print(FILE *to, const struct fm_json *entries, const char *dialled_host);

#endif
