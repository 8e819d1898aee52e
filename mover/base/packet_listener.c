/* SPDX-License-Identifier: MIT */
/* packet_listener - see packet_listener.h. */
#include "mover/base/packet_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/log.h"

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

/* Whether nobody listens there any more: what a dead daemon left may be replaced, nothing else. */
static bool is_dead(const struct sockaddr_un *address)
{
	struct stat st;
	bool is_refused;
	int fd;

	if (lstat(address->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	is_refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		     errno == ECONNREFUSED;
	(void)close(fd);	/* only asked */
	return is_refused;
}

static int bind_to(int fd, const struct sockaddr_un *address, const char *daemon,
		   struct fm_err *err)
{
	int ret = bind(fd, (const struct sockaddr *)address, sizeof(*address));

	if (ret < 0 && errno == EADDRINUSE && is_dead(address)) {
		(void)unlink(address->sun_path);	/* bind() says it if it is still there */
		ret = bind(fd, (const struct sockaddr *)address, sizeof(*address));
	}
	if (ret < 0 && errno == EADDRINUSE)
		return fm_err_set(err, -EADDRINUSE,
				  "socket %s: another %s serves it, or it is no socket",
				  address->sun_path, daemon);
	return ret < 0 ? fm_err_sys(err, -errno, "socket %s", address->sun_path) : 0;
}

/*
 * Group and mode of the socket that was bound. By its descriptor: chmod() would follow a link that
 * somebody put there, and fchmod() of a socket does not change its file.
 */
static int set_access(const char *path, const struct fm_packet_listener_opts *opts)
{
	char self[64];
	struct stat st;
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return -errno;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);	/* always fits */
	if (fstat(fd, &st) < 0)
		ret = -errno;
	else if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
		ret = -EPERM;
	else if ((opts->gid != (gid_t)-1 &&
		  fchownat(fd, "", (uid_t)-1, opts->gid, AT_EMPTY_PATH) < 0) ||
		 chmod(self, opts->mode) < 0)
		ret = -errno;
	(void)close(fd);	/* only looked at */
	return ret;
}

int fm_packet_listener_open(struct fm_packet_listener *l, struct fm_loop *loop,
			    const struct fm_packet_listener_opts *opts, struct fm_err *err)
{
	const char *path = opts->path;
	size_t len = strlen(path);
	int fd, ret;

	*l = (struct fm_packet_listener){.loop = loop,
					 .may_take = opts->may_take,
					 .accepted = opts->accepted,
					 .ctx = opts->ctx,
					 .again.fire = watch_again,
					 .address.sun_family = AF_UNIX};
	if (len == 0 || len >= sizeof(l->address.sun_path))
		return fm_err_set(err, -ENAMETOOLONG,
				  "socket %s: a path of 1 to %zu bytes is needed", path,
				  sizeof(l->address.sun_path) - 1);
	memcpy(l->address.sun_path, path, len + 1);
	fd = FM_FAULT("packet.socket")
		     ? (errno = EMFILE, -1)
		     : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fm_err_sys(err, -errno, "socket %s", path);
	/* bind() gives the file the mode of the descriptor: nobody gets in before owner and mode
	 * are right. */
	ret = fchmod(fd, 0) < 0 ? fm_err_sys(err, -errno, "socket %s: set its mode", path)
				: bind_to(fd, &l->address, opts->daemon, err);
	if (ret < 0)
		goto close_fd;
	ret = FM_FAULT("packet.listen") ? -EIO : set_access(path, opts);
	if (ret == 0 && listen(fd, opts->backlog) < 0)
		ret = -errno;
	if (ret < 0) {
		ret = fm_err_sys(err, ret, "socket %s: set its group and mode, listen", path);
		goto unlink_path;
	}
	l->watch = (struct fm_watch){ .ready = watch_ready, .fd = fd, .events = EPOLLIN };
	ret = fm_watch_add(loop, &l->watch, err);
	if (ret == 0)
		return 0;

unlink_path:
	(void)unlink(path);	/* ours; if it stays, the next start replaces it */
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
