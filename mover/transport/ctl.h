/* SPDX-License-Identifier: MIT */
/*
 * ctl - control connections: whole messages over TLS between two nodes that know each other's keys.
 *
 * On the wire, inside TLS: frames of a length (32 bits, little-endian) and that many bytes, 1 ..
 * FM_CTL_MSG_MAX. The first frame of the accepting side is empty: the welcome. It tells the dialler
 * that its key was taken, which TLS 1.3 alone does not: there the dialler's handshake ends before
 * the other side has seen its key. opened() waits for it.
 *
 * Control loop only. What the engine sees of this is in transport.h.
 */
#ifndef FM_TRANSPORT_CTL_H
#define FM_TRANSPORT_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/list.h"
#include "mover/transport/transport.h"

struct fm_listener;
struct fm_loop;
struct fm_rdma;
struct fm_tls;
struct fm_tls_node;

/* Every control connection of a net, and what they need of it. Owned by the net. */
struct fm_ctls {
	struct fm_loop *loop;
	struct fm_tls_node *node;
	struct fm_listener *listener;
	struct fm_rdma *rdma;				/* to describe addresses; may be NULL */
	const struct fm_net_events *events;		/* NULL: not started, or stopped */
	void *ctx;
	/* Whose a data connection is from now on, its key proved and known; fd and tls come with
	 * it. */
	void (*data)(void *ctx, int fd, struct fm_tls *tls, const struct sockaddr_storage *peer);
	void *data_ctx;
	const struct fm_tls_join_events *join;		/* NULL: no joins now */
	void *join_ctx;
	struct fm_list all;
};

/*
 * A connection that begins with a TLS record; fd is ours. It is half-open when this returns, or
 * closed. If the handshake shows that it carries data, it goes to ctls->data.
 */
void fm_ctls_accept(struct fm_ctls *ctls, int fd, const struct sockaddr_storage *peer);

/* The functions of fm_net_ops. NULL: no memory. */
struct fm_ctl *fm_ctl_dial(struct fm_ctls *ctls, const struct fm_ctl_dial *dial, bool is_join);
int fm_ctl_send(struct fm_ctl *ctl, const uint8_t *msg, size_t len);
bool fm_ctl_is_stuck(struct fm_ctl *ctl);
size_t fm_ctl_queued(const struct fm_ctl *ctl);
void fm_ctl_close(struct fm_ctl *ctl);
const char *fm_ctl_peer(const struct fm_ctl *ctl);
void fm_ctl_addrs(const struct fm_ctl *ctl, struct fm_addr *local, struct fm_addr *remote);

#endif
