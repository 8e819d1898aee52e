/* SPDX-License-Identifier: MIT */
/*
 * find_link - the links on which nodes are found, and the sockets for that, for both sides (find.h,
 * client/cli/finding.c). No names are resolved and nothing waits. Any thread.
 */
#ifndef FM_FIND_LINK_H
#define FM_FIND_LINK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_addr;
struct fm_err;

#define FM_FIND_PORT 7471		/* of UDP, on both sides: what a firewall lets through */
#define FM_FIND_LINKS_MAX 16

/* The words of node.find. */
enum fm_find_where { FM_FIND_OFF, FM_FIND_RDMA, FM_FIND_ANY };

/* Our link-local addresses there, one of each interface. Returns how many. */
size_t fm_find_links(const struct fm_addr *own, size_t count, enum fm_find_where where,
		     struct sockaddr_in6 out[static FM_FIND_LINKS_MAX]);

/* The group, on the interface of that address. */
struct sockaddr_in6 fm_find_group(const struct sockaddr_in6 *link);

/*
 * A socket that does not block, with FM_FIND_PORT: one that hears what is sent to the group on that
 * interface, or else what is sent to our address there. What it sends has the hop limit 255 and is
 * not heard on this machine.
 */
int fm_find_socket(const struct sockaddr_in6 *link, bool is_group, int *fd, struct fm_err *err);

/*
 * One datagram, as much of it as fits. Its length, 0 for one that did not come from this link or
 * is empty, -EAGAIN when there is none, another negative errno.
 */
int fm_find_receive(int fd, uint8_t *buf, size_t room, struct sockaddr_in6 *from);

#endif
