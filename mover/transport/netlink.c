/* SPDX-License-Identifier: MIT */
/* netlink - see netlink.h. */
#include "mover/transport/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"

/* in one pass; a machine that starts a hundred containers has more to say */
#define READS_MAX 64

struct fm_netlink {
	struct fm_loop *loop;
	struct fm_watch watch;
	void (*changed)(void *ctx);
	void *ctx;
};

static void netlink_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_netlink *n = fm_container_of(watch, struct fm_netlink, watch);
	char unread[64];

	(void)events;
	/* Cut on purpose: that something came is all there is to know. ENOBUFS says the same of
	 * what was lost, and goes by being read. */
	for (unsigned i = 0; i < READS_MAX; i++)
		if (recv(n->watch.fd, unread, sizeof(unread), MSG_DONTWAIT | MSG_TRUNC) < 0 &&
		    errno != ENOBUFS)
			break;
	n->changed(n->ctx);
}

static int open_socket(struct fm_err *err)
{
	struct sockaddr_nl sa = {.nl_family = AF_NETLINK,
				 .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
					      RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
					      RTMGRP_IPV6_ROUTE};
	int fd = FM_FAULT("netlink.socket")
			 ? (errno = EMFILE, -1)
			 : socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				  NETLINK_ROUTE),
	    ret;

	if (fd < 0)
		return fm_err_sys(err, -errno, "open a netlink socket");
	if (bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	ret = fm_err_sys(err, -errno, "listen to changes of links, addresses and routes");
	close(fd);
	return ret;
}

int fm_netlink_open(struct fm_loop *loop, void (*changed)(void *ctx), void *ctx,
		    struct fm_netlink **out, struct fm_err *err)
{
	struct fm_netlink *n = FM_FAULT("netlink.alloc") ? NULL : calloc(1, sizeof(*n));
	int ret;

	if (!n)
		return fm_err_set(err, -ENOMEM, "out of memory");
	*n = (struct fm_netlink){ .loop = loop, .changed = changed, .ctx = ctx };
	n->watch.ready = netlink_ready;
	n->watch.events = EPOLLIN;
	ret = n->watch.fd = open_socket(err);
	if (ret >= 0)
		ret = fm_watch_add(loop, &n->watch, err);
	if (ret < 0) {
		if (n->watch.fd >= 0)
			close(n->watch.fd);
		free(n);
		return ret;
	}
	*out = n;
	return 0;
}

void fm_netlink_close(struct fm_netlink *n)
{
	if (!n)
		return;
	fm_watch_del(n->loop, &n->watch);
	close(n->watch.fd);
	free(n);
}
