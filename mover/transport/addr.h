/* SPDX-License-Identifier: MIT */
/*
 * addr - addresses: those of this node that may carry data, those of a socket, and how an address
 * reads.
 *
 * Used by the other files of transport/ only. Any thread, except where a struct fm_rdma is passed
 * (control loop). An IPv4 address that a dual-stack socket shows as ::ffff:a.b.c.d is always turned
 * into AF_INET first.
 */
#ifndef FM_TRANSPORT_ADDR_H
#define FM_TRANSPORT_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/transport/transport.h"

struct fm_rdma;

#define FM_ADDR_TEXT_MAX (INET6_ADDRSTRLEN + 16)	/* with %INTERFACE */
#define FM_ADDR_PORT_TEXT_MAX (FM_ADDR_TEXT_MAX + 9)	/* with [ ] : PORT */
/* of all interfaces that are looked at; a host full of containers has hundreds */
#define FM_ADDR_SEEN_MAX 1024

/* "10.0.0.2", "fe80::1%eth0"; "?" for a family we do not know. */
void fm_addr_text(const struct sockaddr_storage *sa, char out[FM_ADDR_TEXT_MAX]);

/* "10.0.0.2:7471", "[fe80::1%eth0]:7471". */
void fm_addr_port_text(const struct sockaddr_storage *sa, char out[FM_ADDR_PORT_TEXT_MAX]);

/* The length that bind(2) and connect(2) want. 0 for a family we do not know. */
socklen_t fm_addr_len(const struct sockaddr_storage *sa);

uint16_t fm_addr_port(const struct sockaddr_storage *sa);
void fm_addr_set_port(struct sockaddr_storage *sa, uint16_t port);

/* Family, address and scope; ports do not count. */
bool fm_addr_is_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

bool fm_addr_is_link_local(const struct sockaddr_storage *sa);

/* ::ffff:10.0.0.2 becomes 10.0.0.2. */
void fm_addr_unmap(struct sockaddr_storage *sa);

/* The two ends of a connected socket. A negative errno when it is connected no more. */
int fm_addr_of_socket(int fd, struct sockaddr_storage *local, struct sockaddr_storage *remote);

/*
 * Fill in what the node knows of its own address addr->sa: prefix, interface or RDMA device, speed,
 * whether it is a rail. What it does not know stays 0. rdma may be NULL. The MTU of the interface
 * goes to *mtu (0: not known), which may be NULL.
 */
void fm_addr_describe(struct fm_addr *addr, struct fm_rdma *rdma, uint32_t *mtu);

/*
 * Of a peer's address: ours in its network, at an interface that carries nothing; false: there is
 * none, or another one there carries. Of an address of ours: that one, whatever others there do.
 * The kernel says it of a port up to a second after its cable was cut: ask when a dial has failed,
 * not before.
 */
bool fm_addr_find_dead(const struct sockaddr_storage *to, struct fm_addr *out);

/* The index of the interface that has that address; 0: none. */
unsigned fm_addr_interface(const struct sockaddr_storage *sa);

/*
 * How many addresses of ours may carry data: of interfaces that are up, no loopback. If there are
 * more than max, those of RDMA devices come first, then those of hardware and of what stands on it,
 * at any depth, by what the kernel calls its lower interfaces, then the rest. VLANs, bonds and
 * bridges stand on theirs; of what containers have, macvlans and a VXLAN bound to a port do, too,
 * but no veth and no bridge of such. Link-local ones are last in each. At most FM_ADDR_SEEN_MAX.
 * rdma may be NULL. Or a negative errno: they could not be read, for want of descriptors or memory
 * say, which says nothing of them; *out is as it was.
 */
int fm_addr_list(struct fm_rdma *rdma, struct fm_addr *out, size_t max);

/* What went wrong with connect(2), in words. Returns code. */
int fm_addr_connect_err(struct fm_err *err, int code);

#endif
