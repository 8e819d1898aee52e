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
 * Loop thread.
 */
#ifndef FM_BASE_PACKET_SHUT_H
#define FM_BASE_PACKET_SHUT_H

#include <sys/types.h>

/* sockets of one user that wait here; times 2 for each process of it that hangs ... */
#define FM_PACKET_SHUT_WAITING_MAX 64u
#define FM_PACKET_SHUT_DOUBLED_MAX 6u	/* ... of so many */

struct fm_packet_shared;
struct fm_packet_shut;

void fm_packet_shut_init(struct fm_packet_shared *shared);

/* fd is taken over. *room is what fm_packet_may_take() found, and used up: NULL. */
void fm_packet_shut(struct fm_packet_shared *shared, int fd, uid_t uid,
		    struct fm_packet_shut **room);

#endif
