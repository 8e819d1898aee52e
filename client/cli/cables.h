/* SPDX-License-Identifier: MIT */
/*
 * cables - the networks between an RDMA port of this machine and the one that it is wired to: two
 * addresses, nobody else.
 *
 * For proposals only: whether a network is private, people decide.
 */
#ifndef FM_CLIENT_CABLES_H
#define FM_CLIENT_CABLES_H

#include "mover/base/network.h"

/* Of the addresses that RDMA ports have now. What cannot be read is left out. */
void fm_cables_find(struct fm_networks *out);

#endif
