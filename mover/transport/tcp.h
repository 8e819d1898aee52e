/* SPDX-License-Identifier: MIT */
/*
 * tcp - data connections over TCP, inside TLS or plain.
 *
 * A connection is TLS 1.3 (tls.h, ALPN "fmove-data/1"): both ends have proved the keys that their
 * configurations name before a byte of what follows is looked at. It is plain only where nobody
 * else can be on the way:
 *
 * - between two loopback addresses;
 * - between two addresses that are in one network of private_networks, in the configurations of
 * both ends. Either end decides from its own configuration and from the addresses of the very
 * socket, and pins a plain connection to the interface that has the address, so that no change of
 * routes takes it elsewhere. The dialler goes by what the peer said over the control connection,
 * too; an acceptor that disagrees refuses, and the dialler makes the next one with TLS. TLS is
 * taken everywhere. So nobody on the way can make a connection plain that is not plain anyway.
 *
 * On the wire, or inside TLS, all numbers little-endian. The dialler begins with a hello of 64
 * bytes:
 *
 *   off len field
 *     0   8 magic    "FMDATA\r\n"; its first byte is what tells a plain data connection from TLS on
 *                    the same port
 *     8   2 version  1
 *    10   2 kind     0 (enum fm_kind: TCP)
 *    12   4 zero
 *    16  16 token
 *    32  32 zero
 *
 * The acceptor answers with 16 bytes, and closes unless result is 0:
 *
 *     0   8 magic    "FMDATA\r\n"
 *     8   2 version  1: its own
 *    10   2 result   0 taken, 1 the token is not (or no more) good, or there is no room for it, 2
 *                    it does not speak that version, 3 it takes TLS only here
 *    12   4 zero
 *
 * From then on both sides send frames: a header of 80 bytes, then the payload.
 *
 *     0   4 len      of the payload; 0: none, and then rkey and remote are 0
 *     4   4 rkey     of the region, as it was granted
 *     8   8 remote   where in the region, as it was granted plus an offset
 *    16  64 message
 *
 * `remote` is the region's place in the connection's table in the upper 24 bits and an offset in
 * the lower 40, so a peer never names an address; rkey is new for each lending. A header that does
 * not point into memory lent for receiving to this very connection breaks it, before a byte of the
 * payload is read. So does one that points to a slot in use: whose bytes came and are not dealt
 * with yet; and a message that is to bring bytes and brings none (fm_conn_events.may_write).
 *
 * Set-up is on the control loop; an attached connection is on its lane's loop only. Of a plain
 * connection only the token is checked, which travels in clear, as the payload does. Who can change
 * packets of that network can change data; the engine's checksums find accidents, not that.
 */
#ifndef FM_TRANSPORT_TCP_H
#define FM_TRANSPORT_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/transport/transport.h"

struct fm_listener;
struct fm_loop;
struct fm_networks;
struct fm_tcp;
struct fm_tls;
struct fm_tls_node;

struct fm_tcp_opts {
	struct fm_loop *loop;
	struct fm_listener *listener;	/* counts what is half-open */
	struct fm_tls_node *node;
	const struct fm_networks *private_networks;	/* the net's, which may change them */
	uint8_t dscp;
};

int fm_tcp_new(const struct fm_tcp_opts *opts, struct fm_tcp **out, struct fm_err *err);

/* Stopped; every connection is gone. NULL is allowed. */
void fm_tcp_free(struct fm_tcp *tcp);

/* Events for accepted connections, until fm_tcp_stop(). */
void fm_tcp_start(struct fm_tcp *tcp, const struct fm_net_events *events, void *ctx);

/* The listener has dropped the half-open ones. Dials under way end with done(-ECANCELED) in a later
 * pass. */
void fm_tcp_stop(struct fm_tcp *tcp);

/* As data_dial of struct fm_net_ops. */
int fm_tcp_dial(struct fm_tcp *tcp, const struct fm_data_dial *dial);

/*
 * A connection that does not begin as TLS (tls NULL), or whose handshake is done; fd and tls are
 * ours. It is half-open when this returns, or closed, or arrived.
 */
void fm_tcp_accept(struct fm_tcp *tcp, int fd, struct fm_tls *tls,
		   const struct sockaddr_storage *peer);

#endif
