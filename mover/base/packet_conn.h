/* SPDX-License-Identifier: MIT */
/*
 * packet_conn - one local client's connection, SOCK_SEQPACKET: whole messages in with their
 * descriptors, whole messages out.
 *
 * It knows limits and no requests. A client that does not read gets nothing read from either, and
 * is closed when too much waits for it, or for its user, or for too long. All connections of one
 * server together read at most FM_PACKET_PASS_BYTES_MAX in one pass of the loop, so that no number
 * of clients keeps the loop from its other work. Loop thread. Callbacks are made from the loop
 * only, never from inside a call.
 */
#ifndef FM_PACKET_CONN_H
#define FM_PACKET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/packet_shut.h"

struct fm_err;
struct fm_holder;
struct fm_packet_conn;

#define FM_PACKET_FDS_MAX 8		/* descriptors beside one message */
#define FM_PACKET_PASS_BYTES_MAX (64u << 10)
#define FM_PACKET_PASS_MESSAGES_MAX 16	/* of one connection */

/* fds are the callee's, of the table of `holder` (NULL: ours), to which it takes a reference if it
 * keeps any; len is 0 and why says it ("": all is well) if the message was too long or had too many
 * of them. */
struct fm_packet {
	const char *text;
	size_t len;
	int fds[FM_PACKET_FDS_MAX];
	unsigned fd_count;
	struct fm_holder *holder;
	char why[64];
};

struct fm_packet_events {
	void (*message)(void *ctx, const struct fm_packet *msg);
	/* It ended, or broke: call fm_packet_conn_free(). Once. reason NULL: the client closed
	 * it. */
	void (*closed)(void *ctx, const char *reason);
};

void fm_packet_shared_init(struct fm_packet_shared *shared, struct fm_loop *loop,
			   const struct fm_packet_limits *limits);

/* fd is taken over, also on error. uid: whose it is. */
int fm_packet_conn_new(struct fm_packet_shared *shared, int fd, uid_t uid,
		       const struct fm_packet_events *events, void *ctx,
		       struct fm_packet_conn **out, struct fm_err *err);

/* Closes; what waits is dropped. NULL is allowed. */
void fm_packet_conn_free(struct fm_packet_conn *conn);

/* Close the socket of a client, who is told nothing: without waiting for what he may have sent with
 * it. */
void fm_packet_close(struct fm_packet_shared *shared, int fd, uid_t uid);

/* 1 to limits->send_max bytes. What cannot be sent now waits. A connection for which too much waits
 * breaks: closed() follows. */
void fm_packet_conn_send(struct fm_packet_conn *conn, const char *text, size_t len);

/* Whether something waits: not the time for messages that may as well be left out. */
bool fm_packet_conn_is_slow(const struct fm_packet_conn *conn);

#endif
