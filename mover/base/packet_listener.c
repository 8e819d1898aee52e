/* SPDX-License-Identifier: MIT */
/* packet_listener - see packet_listener.h. */
#include "mover/base/packet_listener.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/socket_file.h"

#define ACCEPT_RETRY_NS (100 * FM_NS_PER_MS)	/* after a failure such as "no descriptors left" */
#define ACCEPT_PASS_MAX 16

static void accept_one(struct fm_packet_listener *l, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		(void)close(fd);	/* a socket without peer: it is gone again */
	else
		l->accepted(l->ctx, fd, &who);
}

static bool may_take(const struct fm_packet_listener *l)
{
	return !l->may_take || l->may_take(l->ctx);
}

/* What waits there would wake us in every pass. */
static void listener_pause(struct fm_packet_listener *l, int error)
{
	if (fm_log_may(&l->lines, fm_loop_now(l->loop)))
		fm_log_warn("local API: accept: %s", fm_err_name(error));
	fm_watch_mod(l->loop, &l->watch, 0);
	fm_timer_set(l->loop, &l->again, fm_loop_now(l->loop) + ACCEPT_RETRY_NS);
}

static void watch_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_packet_listener *l = fm_container_of(watch, struct fm_packet_listener, watch);

	(void)events;
	for (unsigned i = 0; i < ACCEPT_PASS_MAX; i++) {
		int fd;

		if (!may_take(l)) {
			listener_pause(l, ENOMEM);
			return;
		}
		fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			accept_one(l, fd);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		listener_pause(l, errno);
		return;
	}
}

static void watch_again(struct fm_timer *timer)
{
	struct fm_packet_listener *l = fm_container_of(timer, struct fm_packet_listener, again);

	fm_watch_mod(l->loop, &l->watch, EPOLLIN);
}

int fm_packet_listener_open(struct fm_packet_listener *l, struct fm_loop *loop,
			    const struct fm_packet_listener_opts *opts, struct fm_err *err)
{
	const struct fm_socket_file file = {.path = opts->path,
					    .mode = opts->mode,
					    .gid = opts->gid,
					    .backlog = opts->backlog,
					    .daemon = opts->daemon};
	int fd, ret;

	*l = (struct fm_packet_listener){.loop = loop,
					 .may_take = opts->may_take,
					 .accepted = opts->accepted,
					 .ctx = opts->ctx,
					 .again.fire = watch_again};
	fd = FM_FAULT("packet.socket")
		     ? (errno = EMFILE, -1)
		     : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fm_err_sys(err, -errno, "socket %s", opts->path);
	ret = fm_socket_file_listen(fd, &file, &l->address, err);
	if (ret < 0)
		goto close_fd;
	l->watch = (struct fm_watch){ .ready = watch_ready, .fd = fd, .events = EPOLLIN };
	ret = fm_watch_add(loop, &l->watch, err);
	if (ret == 0)
		return 0;
	(void)unlink(l->address.sun_path);	/* ours */

close_fd:
	(void)close(fd);	/* nothing was written to it */
	return ret;
}

/*
 * Who knocked already may have sent something: closing that is for who knows how (packet_conn.h).
 * False: some are left, for which there is no memory.
 */
static bool accept_rest(struct fm_packet_listener *l)
{
	int fd;

	(void)shutdown(l->watch.fd, SHUT_RDWR);		/* nobody else gets in */
	while (may_take(l)) {
		fd = accept4(l->watch.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return true;
		accept_one(l, fd);
	}
	return false;
}

void fm_packet_listener_close(struct fm_packet_listener *l)
{
	(void)unlink(l->address.sun_path);	/* somebody may have been there before us */
	fm_timer_clear(l->loop, &l->again);
	fm_watch_del(l->loop, &l->watch);
	if (accept_rest(l))
		/* nothing is written to it; else it is open until the process ends */
		(void)close(l->watch.fd);
}
