/* SPDX-License-Identifier: MIT */
/*
 * netlink - the kernel's word that a link, an address or a route of this machine has changed, at
 * once.
 *
 * What has changed is not taken from its messages, which may be lost when many come: whoever is
 * told looks for himself. So this needs no library: a socket that becomes readable is all. Control
 * loop only.
 */
#ifndef FM_TRANSPORT_NETLINK_H
#define FM_TRANSPORT_NETLINK_H

struct fm_err;
struct fm_loop;
struct fm_netlink;

/* changed() once for all that came since the last time. */
int fm_netlink_open(struct fm_loop *loop, void (*changed)(void *ctx), void *ctx,
		    struct fm_netlink **out, struct fm_err *err);

/* NULL is allowed. */
void fm_netlink_close(struct fm_netlink *n);

#endif
