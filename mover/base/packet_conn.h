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

#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"

struct fm_err;
struct fm_holder;
struct fm_holders;
struct fm_packet_conn;
struct fm_packet_shut;

#define FM_PACKET_FDS_MAX 8		/* descriptors beside one message */
#define FM_PACKET_PASS_BYTES_MAX (64u << 10)
#define FM_PACKET_PASS_MESSAGES_MAX 16	/* of one connection */

struct fm_packet_limits {
	size_t receive_max;		/* bytes of one message from a client */
	size_t send_max;		/* of one to it */
	size_t queue_max;		/* waiting for one client */
	struct fm_share_limits queue_total;	/* and for all of them: bytes */
	uint64_t unread_ms;		/* a client that reads nothing for this long is closed */
};

/* What all connections of one server share. fm_packet_shared_init(), then rx. */
struct fm_packet_shared {
	struct fm_loop *loop;
	const struct fm_packet_limits *limits;
	char *rx;			/* limits->receive_max bytes; the owner's */
	struct fm_share queued;		/* bytes waiting for clients, by user */
	/*
	 * Who receives descriptors. NULL: we do, ourselves: for who is a client, and for tests. (A
	 * stranger's descriptor may be of a file that never answers, whatever is done to it.)
	 */
	struct fm_holders *holders;
	uint64_t pass_ns;		/* the pass that pass_bytes belongs to */
	size_t pass_bytes;
	struct fm_packet_shut *spare;	/* for closing the socket that is taken next */
	struct fm_list shut;		/* packet_shut.c's: sockets that cannot be closed yet */
	struct fm_list closers;		/* ... and processes that close some */
	struct fm_timer shut_timer;
};

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

/*
 * Whether one more socket may be taken. To close one may need memory where there are holders: it is
 * had before the socket is. Before each that is handed to fm_packet_conn_new() or, without having
 * been, to fm_packet_close(). False: there is no memory; later again.
 */
bool fm_packet_may_take(struct fm_packet_shared *shared);

/* fd is taken over, also on error. uid: whose it is. */
int fm_packet_conn_new(struct fm_packet_shared *shared, int fd, uid_t uid,
		       const struct fm_packet_events *events, void *ctx,
		       struct fm_packet_conn **out, struct fm_err *err);

/* Closes; what waits is dropped. NULL is allowed. */
void fm_packet_conn_free(struct fm_packet_conn *conn);

/* Close the socket of a client, who is told nothing: without waiting for what he may have sent with
 * it. */
void fm_packet_close(struct fm_packet_shared *shared, int fd, uid_t uid);

/* All connections are freed, the loop too soon. */
void fm_packet_shared_end(struct fm_packet_shared *shared);

/* 1 to limits->send_max bytes. What cannot be sent now waits. A connection for which too much waits
 * breaks: closed() follows. */
void fm_packet_conn_send(struct fm_packet_conn *conn, const char *text, size_t len);

/* Whether something waits: not the time for messages that may as well be left out. */
bool fm_packet_conn_is_slow(const struct fm_packet_conn *conn);

#endif
