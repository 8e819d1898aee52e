/* SPDX-License-Identifier: MIT */
/*
 * packet_shut - sockets of local clients in which descriptors may wait that nobody took out.
 *
 * Closing such a socket closes those, and a file behind one may never answer. So the holder of the
 * client's user does it. A holder in which all threads hang takes no more some day, and the kernel
 * may refuse to hand a socket over at all; the user knocks on. What waits for its holder is a
 * socket in our own table, so it must not become many: then a process is made for nothing but to
 * close them. The more of one user's hang, the more sockets the next one gets: there are few,
 * whatever a user does.
 *
 * A program that takes no descriptors (is_plain), and forks, so that it must have no threads, has
 * no holders either: there every such socket is for a process, which is forked.
 *
 * Loop thread.
 */
#ifndef FM_BASE_PACKET_SHUT_H
#define FM_BASE_PACKET_SHUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"

/* sockets of one user that wait here; times 2 for each process of it that hangs ... */
#define FM_PACKET_SHUT_WAITING_MAX 64u
#define FM_PACKET_SHUT_DOUBLED_MAX 6u	/* ... of so many */

struct fm_holders;
struct fm_packet_shut;

struct fm_packet_limits {
	size_t receive_max;		/* bytes of one message from a client */
	size_t send_max;		/* of one to it */
	size_t queue_max;		/* waiting for one client */
	struct fm_share_limits queue_total;	/* and for all of them: bytes */
	uint64_t unread_ms;		/* a client that reads nothing for this long is closed */
	/* A connection on which a descriptor comes is closed. Without holders, and in a program
	 * that has no other thread. */
	bool is_plain;
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

/* Whether somebody else closes descriptors that clients sent. */
bool fm_packet_is_apart(const struct fm_packet_shared *shared);

void fm_packet_shut_init(struct fm_packet_shared *shared);

/* fd is taken over. *room is what fm_packet_may_take() found, and used up: NULL. */
void fm_packet_shut(struct fm_packet_shared *shared, int fd, uid_t uid,
		    struct fm_packet_shut **room);

/*
 * Whether one more socket may be taken. To close one may need memory where others do it: it is
 * had before the socket is. Before each that is handed to fm_packet_conn_new() or, without having
 * been, to fm_packet_close(). False: there is no memory; later again.
 */
bool fm_packet_may_take(struct fm_packet_shared *shared);

/* All connections are freed, the loop too soon. */
void fm_packet_shared_end(struct fm_packet_shared *shared);

#endif
