/* SPDX-License-Identifier: MIT */
/*
 * net - the real network of a node: TLS control connections, TCP and RDMA data connections behind
 * struct fm_net.
 *
 * One TCP port serves control connections and TCP data connections (told apart by the first byte);
 * RDMA connections use the same number in the connection manager's own port space. All on the
 * control loop.
 */
#ifndef FM_TRANSPORT_NET_H
#define FM_TRANSPORT_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/transport/transport.h"

struct fm_networks;

struct fm_net_opts {
	const char *listen;		/* "ADDRESS:PORT", "[::]:7471", ":0"; every address of it */
	const char *key_file;		/* Ed25519 private key, PEM, readable by its owner only */
	bool is_tcp_allowed;
	bool is_rdma_allowed;
	uint8_t dscp;			/* 0 .. 63, of data connections */
};

/* Binds at once, so that a port in use is an error here. The net is used on the loop's thread
 * only. */
int fm_net_new(struct fm_loop *loop, const struct fm_net_opts *opts, struct fm_net **out,
	       struct fm_err *err);

/* Stopped, every connection and domain gone. NULL is allowed. */
void fm_net_free(struct fm_net *net);

/*
 * Our addresses that may carry data, at most max, for who has no key and so no net yet. no_rdma
 * says why there is no RDMA, if that is so.
 */
size_t fm_net_list_addrs(struct fm_loop *loop, struct fm_addr *out, size_t max,
			 struct fm_err *no_rdma);

/* The port that was bound. */
uint16_t fm_net_port(const struct fm_net *net);

/* Networks where TCP data may be plain, as far as this end is concerned (see tcp.h). From the next
 * connection on; copied. */
void fm_net_set_private(struct fm_net *net, const struct fm_networks *networks);

/* Our own public key. */
void fm_net_key(const struct fm_net *net, uint8_t key[FM_KEY_LEN]);

/* Take joins from now on; events NULL: no more. Connections that exist go on. */
void fm_net_set_join(struct fm_net *net, const struct fm_tls_join_events *events, void *ctx);

/* As ops->ctl_dial, to a node that takes joins. closed() with -ENOKEY: it takes none now. */
struct fm_ctl *fm_net_join_dial(struct fm_net *net, const struct fm_ctl_dial *dial);

#endif
