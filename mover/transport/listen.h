/* SPDX-License-Identifier: MIT */
/*
 * listen - the port where peers knock: accepting, telling TLS from data by the first byte, and
 * bounding what is half-open.
 *
 * A connection is half-open from accept(2) until it has shown a known key or a good token. Anyone
 * can make one, so they are few (FM_HALF_OPEN_MAX), and each has a deadline. When all are taken, a
 * source (an address; of IPv6 the network, of one link) that has more than one node asks for is
 * crowding: of its address that has most the oldest goes at once for anybody elsewhere, and for an
 * address of its own that has fewer. Others of its own wait here for a fair time, FM_WAITING_MAX of
 * them: nodes of one network that come back together are no flood. Only an address that has itself
 * more than one node asks for, those that wait included, is turned away at once.
 *
 * So a flood from three addresses of IPv4 at most, or from one network of IPv6, costs bounded
 * memory and does not delay peers elsewhere; from one address of a network of IPv6 it does not
 * delay others of that network. Where nobody is crowding, since the sources are many, the oldest
 * makes room for the newest after that time, and the kernel's backlog waits until then. Control
 * loop only.
 */
#ifndef FM_TRANSPORT_LISTEN_H
#define FM_TRANSPORT_LISTEN_H

#include <stdint.h>
#include <sys/socket.h>

#include "mover/base/err.h"
#include "mover/base/list.h"

struct fm_loop;
struct fm_listener;

#define FM_HALF_OPEN_MAX 64
/* of one source that are no crowd: a node dials 16 data connections at once (node/rail.h) */
#define FM_HALF_CROWD_MAX 20
/* of a source that crowds, until there is room: hundreds of nodes may be of one network */
#define FM_WAITING_MAX 256
/* for each of: first byte; handshake or hello */
#define FM_HALF_OPEN_NS (5 * UINT64_C(1000000000))

/*
 * A half-open connection. Set drop; the rest is the listener's. Embedded in whatever the connection
 * is at the time.
 */
struct fm_half {
	/*
	 * Too slow, crowded out, or the listener stops: free the connection, no event. It has left
	 * the listener already.
	 */
	void (*drop)(struct fm_half *half, const char *why);
	struct fm_listener *listener;	/* NULL: not half-open */
	struct fm_list link;
	uint64_t since_ns;
	struct fm_half_from {
		uint8_t source[20];	/* an address; of IPv6 its network; and the link */
		uint8_t address[20];
	} from;
};

/*
 * Whose connection it is from now on; the first byte is still to be read. It must be half-open when
 * the call returns, or closed.
 */
struct fm_listener_events {
	void (*tls)(void *ctx, int fd, const struct sockaddr_storage *peer);
	void (*data)(void *ctx, int fd, const struct sockaddr_storage *peer);
};

/*
 * Bind every address of "ADDRESS:PORT" and listen. ":PORT" and "[::]:PORT" are every address of the
 * node, both families. The kernel queues connections from now on; they are served after
 * fm_listener_start(). loop may be NULL if it is never started: to see whether the port is free.
 */
int fm_listener_new(struct fm_loop *loop, const char *where, struct fm_listener **out,
		    struct fm_err *err);

/* Stopped. NULL is allowed. */
void fm_listener_free(struct fm_listener *listener);

int fm_listener_start(struct fm_listener *listener, const struct fm_listener_events *events,
		      void *ctx, struct fm_err *err);

/* Close the port; every half-open connection is dropped. */
void fm_listener_stop(struct fm_listener *listener);

uint16_t fm_listener_port(const struct fm_listener *listener);

/* Count the connection, which is from there, as half-open from now on; until it is taken out, or
 * dropped. */
void fm_half_enter(struct fm_listener *listener, struct fm_half *half,
		   const struct sockaddr_storage *peer);
void fm_half_leave(struct fm_half *half);

/* Log that somebody was turned away, but only so many lines a minute: anyone can cause them. */
void fm_listener_refused(struct fm_listener *listener, const struct sockaddr_storage *peer,
			 const char *why);

#endif
