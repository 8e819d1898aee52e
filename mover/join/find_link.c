/* SPDX-License-Identifier: MIT */
/* find_link - see find_link.h. */
#include "mover/join/find_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/transport/addr.h"

#define HOPS 255	/* a router takes one away: what has them all was sent on this link */

size_t fm_find_links(const struct fm_addr *own, size_t count, enum fm_find_where where,
		     struct sockaddr_in6 out[static FM_FIND_LINKS_MAX])
{
	size_t links = 0;

	for (size_t i = 0; i < count && links < FM_FIND_LINKS_MAX; i++) {
		struct sockaddr_in6 *link = &out[links];
		size_t before = 0;

		if (where == FM_FIND_OFF || (where == FM_FIND_RDMA && !own[i].is_rdma) ||
		    own[i].sa.ss_family != AF_INET6 || !fm_addr_is_link_local(&own[i].sa))
			continue;
		memcpy(link, &own[i].sa, sizeof(*link));
		link->sin6_port = htons(FM_FIND_PORT);
		while (out[before].sin6_scope_id != link->sin6_scope_id)
			before++;
		links += before == links;	/* else the interface is there already */
	}
	return links;
}

struct sockaddr_in6 fm_find_group(const struct sockaddr_in6 *link)
{
	/* For one link, not assigned by anybody: "fmov". */
	return (struct sockaddr_in6){
		.sin6_family = AF_INET6,
		.sin6_port = htons(FM_FIND_PORT),
		.sin6_addr = {{{0xff, 0x12, [12] = 'f', 'm', 'o', 'v'}}},
		.sin6_scope_id = link->sin6_scope_id,
	};
}

static int set(int fd, int option, int value)
{
	return setsockopt(fd, IPPROTO_IPV6, option, &value, sizeof(value));
}

static int prepare(int fd, const struct sockaddr_in6 *link, bool is_group)
{
	struct sockaddr_in6 at = is_group ? fm_find_group(link) : *link;
	const struct ipv6_mreq member = {.ipv6mr_multiaddr = at.sin6_addr,
					 .ipv6mr_interface = link->sin6_scope_id};
	const int is_shared = is_group;

	/* Several daemons of a machine hear the group. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &is_shared, sizeof(is_shared)) < 0 ||
	    set(fd, IPV6_V6ONLY, 1) < 0 || set(fd, IPV6_RECVHOPLIMIT, 1) < 0 ||
	    set(fd, IPV6_UNICAST_HOPS, HOPS) < 0 || set(fd, IPV6_MULTICAST_HOPS, HOPS) < 0 ||
	    set(fd, IPV6_MULTICAST_LOOP, 0) < 0 ||
	    set(fd, IPV6_MULTICAST_IF, (int)link->sin6_scope_id) < 0 ||
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return -errno;
	if (is_group && setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &member, sizeof(member)) < 0)
		return -errno;
	return 0;
}

int fm_find_socket(const struct sockaddr_in6 *link, bool is_group, int *fd, struct fm_err *err)
{
	int got = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int ret = got < 0 ? -errno : prepare(got, link, is_group);

	if (ret == 0) {
		*fd = got;
		return 0;
	}
	if (got >= 0)
		(void)close(got);	/* nothing was sent */
	return fm_err_sys(err, ret, "UDP port %d", FM_FIND_PORT);
}

static bool has_all_hops(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		int hops;

		if (c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != IPV6_HOPLIMIT)
			continue;
		memcpy(&hops, CMSG_DATA(c), sizeof(hops));
		return hops == HOPS;
	}
	return false;
}

int fm_find_receive(int fd, uint8_t *buf, size_t room, struct sockaddr_in6 *from)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = room};
	struct msghdr m = {.msg_name = from,
			   .msg_namelen = sizeof(*from),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	ssize_t len = recvmsg(fd, &m, 0);

	if (len < 0)
		return -errno;
	if (m.msg_namelen != sizeof(*from) || !IN6_IS_ADDR_LINKLOCAL(&from->sin6_addr) ||
	    !has_all_hops(&m))
		return 0;
	return (int)len;
}
