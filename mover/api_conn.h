/* SPDX-License-Identifier: MIT */
/*
 * api_conn - one client's connection to the local API: whole messages in with their descriptors,
 * whole messages out.
 *
 * It knows limits and no requests. A client that does not read gets nothing read from either, and
 * is closed when too much waits for it or for too long. All connections together read at most
 * FM_API_PASS_BYTES_MAX in one pass of the loop, so that no number of clients keeps the loop from
 * its sessions. Loop thread. Callbacks are made from the loop only, never from inside a call.
 */
#ifndef FM_API_CONN_H
#define FM_API_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/api.h"

struct fm_api_conn;
struct fm_err;
struct fm_loop;

#define FM_API_PASS_BYTES_MAX (64u << 10)
#define FM_API_PASS_MESSAGES_MAX 16	/* of one connection */
/* the largest real one is a path of 4095 bytes, each escaped as six */
#define FM_API_REQUEST_BYTES_MAX (64u << 10)

/* What all connections of one server share. */
struct fm_api_shared {
	struct fm_loop *loop;
	char *rx;			/* FM_API_REQUEST_BYTES_MAX */
	size_t queued_bytes;		/* waiting for clients, all together */
	uint64_t pass_ns;		/* the pass that pass_bytes belongs to */
	size_t pass_bytes;
};

/*
 * fds are the callee's; len is 0 and why says it if the message was too long or carried too many
 * descriptors.
 */
struct fm_api_message {
	const char *text;
	size_t len;
	int fds[FM_API_FDS_MAX];
	unsigned fd_count;
	const char *why;
};

struct fm_api_conn_events {
	void (*message)(void *ctx, const struct fm_api_message *msg);
	/* It ended, or broke: call fm_api_conn_free(). Once. reason NULL: the client closed it. */
	void (*closed)(void *ctx, const char *reason);
};

/* fd is taken over, also on error. */
int fm_api_conn_new(struct fm_api_shared *shared, int fd, const struct fm_api_conn_events *events,
		    void *ctx, struct fm_api_conn **out, struct fm_err *err);

/* Closes; what waits is dropped. NULL is allowed. */
void fm_api_conn_free(struct fm_api_conn *conn);

/* What cannot be sent now waits. A connection for which too much waits breaks: closed() follows. */
void fm_api_conn_send(struct fm_api_conn *conn, const char *text, size_t len);

/* Whether something waits: not the time for messages that may as well be left out. */
bool fm_api_conn_is_slow(const struct fm_api_conn *conn);

#endif
