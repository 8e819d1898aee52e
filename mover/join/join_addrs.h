/* SPDX-License-Identifier: MIT */
/*
 * join_addrs - which further addresses two nodes tell each other when one joins the other, and
 * which of those that were told are kept.
 *
 * Both configurations name them, so that a node whose first cable is cut before the two ever met
 * is reached over the others. What was told is hostile: kept is what another machine can have,
 * once each, and nothing that this machine has itself (bridges of containers have the same
 * addresses everywhere). Plain data, no I/O. Any thread.
 */
#ifndef FM_JOIN_ADDRS_H
#define FM_JOIN_ADDRS_H

#include <stddef.h>
#include <stdint.h>

#include "mover/join/join_msg.h"

struct fm_addr;

#define FM_JOIN_ADDR_TEXT_MAX 56	/* "[ADDRESS]:PORT" with its end */

/* What to tell: our addresses at that port, the best first. Port 0: none, since we are not dialled
 * there. */
void fm_join_addrs_own(const struct fm_addr *own, size_t count, uint16_t port,
		       struct fm_join_addrs *out);

/* Of what was told, leave what is kept. own: our addresses as they are now. */
void fm_join_addrs_keep(struct fm_join_addrs *told, const struct fm_addr *own, size_t count);

/* "ADDRESS", as it stands in a dial. */
void fm_join_addr_host(const struct fm_join_addr *a, char out[static FM_JOIN_ADDR_TEXT_MAX]);

/* "ADDRESS:PORT", "[ADDRESS]:PORT". */
void fm_join_addr_print(const struct fm_join_addr *a, char out[static FM_JOIN_ADDR_TEXT_MAX]);

#endif
