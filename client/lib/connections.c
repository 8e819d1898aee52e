/* SPDX-License-Identifier: MIT */
/* connections - see connections.h. */
#include "client/lib/connections.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/fail.h"
#include "mover/api/api.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

#define LOOK_MS 100u /* who waits in the line looks so often whether it is cancelled */
/* The daemon sees that a connection was closed within this, and counts it until then. */
#define SEEN_NS	     FM_NS_PER_S
#define SEEN_LOOK_US 5000u

#define GROUP_MAX   64
#define GROUP_BYTES (64u << 10) /* a group with more members is not named */

/* ---- a connection ---- */

/* The group that has access to the socket; false: none, or it has no name that can be found out. */
static bool group_of(const char *path, char name[GROUP_MAX])
{
	struct group entry, *found = NULL;
	char *buf = malloc(GROUP_BYTES);
	struct stat st;

	if (buf && stat(path, &st) == 0 && st.st_mode & S_IWGRP && st.st_gid != 0)
		/* not getgrgid(), whose answer all threads of the program share */
		(void)getgrgid_r(st.st_gid, &entry, buf, GROUP_BYTES, &found);
	if (found)
		(void)snprintf(name, GROUP_MAX, "%s", entry.gr_name);	/* cut if it is too long */
	free(buf);
	return found;
}

/* The socket may not be opened. Names the group to join, if there is one. */
static int fail_rights(struct fmove_error *err, const char *path)
{
	char group[GROUP_MAX];

	if (group_of(path, group))
		return fm_lib_fail(err, -EACCES,
				   "%s may not be used by you: join the group %s (as root: usermod "
				   "-aG %s USER; it counts from the next login), or ask who runs "
				   "fmoved",
				   path, group, group);
	return fm_lib_fail(err, -EACCES,
			   "%s may not be used by you: join the group that owns it (ls -l shows "
			   "it), or ask who runs fmoved",
			   path);
}

static int fail_connect(struct fmove_error *err, int code, const char *path)
{
	switch (-code) {
	case ENOENT:
	case ECONNREFUSED:
		return fm_lib_fail(
			err, -ECONNREFUSED,
			"no fmoved listens at %s; start it (systemctl start fmoved, or fmoved "
			"--config FILE), or name its socket with --socket or FMOVE_SOCKET; fmove "
			"alone says what this node lacks",
			path);
	case EACCES:
	case EPERM:
		return fail_rights(err, path);
	case EAGAIN:
		(void)fm_lib_fail(
			err, -EBUSY,
			"%s: too many programs wait for fmoved already; if that lasts, it hangs "
			"or is stopped",
			path);
		if (err)
			err->is_full = true;
		return -EBUSY;
	default:
		return fm_lib_fail(err, code, "connect to %s: %s", path, fm_err_name(code));
	}
}

/* A socket, not connected. Not blocking: with a full backlog connect() would wait for ever. */
static int socket_new(void)
{
	int size = 2 * FM_API_MSG_MAX;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	/* as much as is granted */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return fd;
}

static int fail_socket(struct fmove_error *err, int code)
{
	(void)fm_lib_fail(err, code, "make a socket: %s", fm_err_name(code));
	if (err)
		err->is_full = code == -EMFILE || code == -ENFILE;
	return code;
}

static int socket_dial(int fd, const struct sockaddr_un *address, struct fmove_error *err)
{
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
	    fcntl(fd, F_SETFL, 0) == 0)
		return 0;
	return fail_connect(err, -errno, address->sun_path);
}

static void drop(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd); /* what was to be heard was */
	*fd = -1;
}

/*
 * Whether the daemon said something on a connection that nobody uses, or closed it: it went away,
 * or thinks it unused.
 */
static bool is_over(int fd)
{
	struct pollfd said = {fd, POLLIN, 0};

	return poll(&said, 1, 0) != 0;
}

/* The same of the first one: what the daemon said on it is meant for its call. */
static bool is_first_over(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

/* Under the lock. -1: there is none. */
static int take_idle(struct fm_connections *all)
{
	int fd = all->first;

	all->first = -1;
	if (fd >= 0 && is_first_over(fd))
		drop(&fd);
	while (fd < 0 && all->idle_count > 0) {
		fd = all->idle[--all->idle_count];
		if (is_over(fd))
			drop(&fd);
	}
	return fd;
}

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

static void drop_idle(struct fm_connections *all)
{
	if (all->first >= 0 || all->idle_count > 0)
		all->closed_ns = now_ns();
	drop(&all->first);
	while (all->idle_count > 0)
		drop(&all->idle[--all->idle_count]);
}

/* ---- of a handle ---- */

void fm_connections_init(struct fm_connections *all, const struct sockaddr_un *address)
{
	*all = (struct fm_connections){.address = *address, .first = -1};
	(void)pthread_mutex_init(&all->lock, NULL); /* cannot fail without attributes */
	fm_list_init(&all->calls);
	fm_list_init(&all->line);
}

int fm_connections_first(struct fm_connections *all, struct fmove_error *err)
{
	int fd;

	pthread_mutex_lock(&all->lock);
	fd = socket_new(); /* now: fork() has to know it */
	all->first = fd < 0 ? -1 : fd;
	pthread_mutex_unlock(&all->lock);
	return fd < 0 ? fail_socket(err, fd) : socket_dial(fd, &all->address, err);
}

void fm_connections_close(struct fm_connections *all)
{
	drop_idle(all);
	(void)pthread_mutex_destroy(&all->lock);
}

void fm_connections_drop_idle(struct fm_connections *all)
{
	pthread_mutex_lock(&all->lock);
	drop_idle(all);
	pthread_mutex_unlock(&all->lock);
}

static atomic_uint forks;

unsigned fm_forks(void)
{
	return atomic_load(&forks);
}

/*
 * The calls of the other threads do not go on here, but their connections were inherited, and the
 * daemon would not see that the parent ended. The call in whose midst it was forked, by a function
 * that it called, finds that its connection is gone.
 */
void fm_connections_forked(struct fm_connections *all)
{
	fm_list_each(at, next, &all->calls) {
		struct fm_connection *c = fm_container_of(at, struct fm_connection, in_calls);

		drop(&c->fd);
		c->of = NULL;
		fm_list_del(&c->in_calls);
	}
	fm_list_init(&all->line); /* who stood in it is not here */
	drop_idle(all);
	all->entered = 0;
	atomic_fetch_add(&forks, 1);
}

/* ---- places and the line; all under the lock ---- */

static void wake(struct fm_waiter *w)
{
	fm_list_del(&w->in_line);
	pthread_cond_signal(&w->woken);
}

/* The first ones of the line have a place, at most so many. */
static void let_in(struct fm_connections *all, unsigned count)
{
	for (; count > 0 && all->entered < FMOVE_CALLS_MAX && !fm_list_is_empty(&all->line);
	     count--) {
		struct fm_waiter *w = fm_container_of(all->line.next, struct fm_waiter, in_line);

		w->is_let_in = true;
		all->entered++;
		wake(w);
	}
}

/* None is under way, so no end will come: those who wait for one learn it. */
static void tell_alone(struct fm_connections *all)
{
	fm_list_each(at, next, &all->line) {
		struct fm_waiter *w = fm_container_of(at, struct fm_waiter, in_line);

		if (!w->is_refused)
			continue;
		w->is_alone = true;
		wake(w);
	}
}

static bool is_cancelled(const struct fm_line_limits *limits)
{
	struct pollfd fds[2] = {{limits->cancel_fds[0], POLLIN, 0},
				{limits->cancel_fds[1], POLLIN, 0}};

	return poll(fds, 2, 0) > 0;
}

static uint64_t end_ns(uint64_t ms)
{
	return ms < UINT64_MAX / 2 / FM_NS_PER_MS ? now_ns() + ms * FM_NS_PER_MS : FM_NEVER;
}

/* Sleeps until it is woken, at most until then or until it has to look again. */
static void sleep_in_line(struct fm_connections *all, struct fm_waiter *w,
			  const struct fm_line_limits *limits, uint64_t until_ns)
{
	bool looks = limits->cancel_fds[0] >= 0 || limits->cancel_fds[1] >= 0;
	uint64_t look_ns = looks ? end_ns(LOOK_MS) : FM_NEVER;
	struct timespec at;

	until_ns = until_ns < look_ns ? until_ns : look_ns;
	at = (struct timespec){.tv_sec = (time_t)(until_ns / FM_NS_PER_S),
			       .tv_nsec = (long)(until_ns % FM_NS_PER_S)};
	(void)pthread_cond_timedwait(&w->woken, &all->lock, &at);
}

static void waiter_init(struct fm_waiter *w)
{
	pthread_condattr_t attr;

	*w = (struct fm_waiter){.is_let_in = false};
	(void)pthread_condattr_init(&attr); /* these cannot fail with this clock */
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&w->woken, &attr);
	(void)pthread_condattr_destroy(&attr);
}

/* It stands in the line. 0: it was woken; -ECANCELED, -ETIMEDOUT. */
static int wait_in_line(struct fm_connections *all, struct fm_waiter *w,
			const struct fm_line_limits *limits)
{
	uint64_t until_ns = end_ns(limits->ms);
	int ret = 0;

	while (!w->is_let_in && !w->is_alone && ret == 0) {
		if (is_cancelled(limits))
			ret = -ECANCELED;
		else if (now_ns() >= until_ns)
			ret = -ETIMEDOUT;
		else
			sleep_in_line(all, w, limits, until_ns);
	}
	fm_list_del(&w->in_line);
	(void)pthread_cond_destroy(&w->woken);
	return ret;
}

static int take_place(struct fm_connections *all, bool is_first,
		      const struct fm_line_limits *limits)
{
	struct fm_waiter w;

	waiter_init(&w);
	if (is_first)
		fm_list_prepend(&all->line, &w.in_line);
	else
		fm_list_append(&all->line, &w.in_line);
	if (all->line.next == &w.in_line)
		let_in(all, 1);
	return wait_in_line(all, &w, limits);
}

static void give_place(struct fm_connections *all, enum fm_leave how)
{
	all->entered--;
	if (how != FM_LEAVE_REFUSED) {
		let_in(all, 2);
	} else if (all->entered == 0) {
		tell_alone(all);
		let_in(all, 1);
	}
}

/* ---- calls ---- */

void fm_connection_begin(struct fm_connections *all, struct fm_connection *c)
{
	*c = (struct fm_connection){.fd = -1, .of = all};
	pthread_mutex_lock(&all->lock);
	fm_list_append(&all->calls, &c->in_calls);
	pthread_mutex_unlock(&all->lock);
}

void fm_connection_end(struct fm_connection *c)
{
	struct fm_connections *all = c->of;

	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	fm_list_del(&c->in_calls);
	pthread_mutex_unlock(&all->lock);
}

static int fail_in_line(struct fmove_error *err, int code)
{
	if (code == -ECANCELED)
		return fm_lib_fail(err, code, "cancelled");
	return fm_lib_fail(err, code,
			   "not begun in its time: other calls of this program have all the places "
			   "that there are");
}

int fm_connection_enter(struct fm_connection *c, bool is_again, const struct fm_line_limits *limits,
			struct fmove_error *err)
{
	struct fm_connections *all = c->of;
	bool is_new = false;
	int ret;

	if (!all)
		return fm_lib_fail_forked(err);
	pthread_mutex_lock(&all->lock);
	ret = take_place(all, is_again, limits);
	c->has_place = ret == 0;
	if (ret == 0) {
		c->fd = take_idle(all);
		is_new = c->fd < 0;
	}
	if (is_new)
		c->fd = socket_new(); /* now: fork() has to know it */
	pthread_mutex_unlock(&all->lock);
	if (ret < 0)
		return fail_in_line(err, ret);
	if (c->fd < 0)
		return fail_socket(err, c->fd);
	return is_new ? socket_dial(c->fd, &all->address, err) : 0;
}

void fm_connection_leave(struct fm_connection *c, enum fm_leave how)
{
	struct fm_connections *all = c->of;

	if (!all || !c->has_place)
		return;
	pthread_mutex_lock(&all->lock);
	if (how == FM_LEAVE_OPEN && all->idle_count < FM_CONNECTIONS_IDLE_MAX) {
		all->idle[all->idle_count++] = c->fd;
		c->fd = -1;
	}
	if (how == FM_LEAVE_REFUSED)
		drop_idle(all); /* they are places too */
	else if (c->fd >= 0)
		all->closed_ns = now_ns();
	drop(&c->fd);
	c->has_place = false;
	give_place(all, how);
	pthread_mutex_unlock(&all->lock);
}

/*
 * 0: no other call is under way. But one that has just ended, or a connection that was just closed,
 * may have been what the daemon refused it for.
 */
static int wait_until_seen(struct fm_connections *all)
{
	bool is_unseen;

	pthread_mutex_lock(&all->lock);
	is_unseen = now_ns() - all->closed_ns < SEEN_NS;
	pthread_mutex_unlock(&all->lock);
	if (is_unseen)
		(void)usleep(SEEN_LOOK_US);
	return is_unseen;
}

int fm_connections_wait_end(struct fm_connections *all, const struct fm_line_limits *limits)
{
	struct fm_waiter w;
	int ret = 0;

	pthread_mutex_lock(&all->lock);
	if (all->entered > 0) {
		waiter_init(&w);
		w.is_refused = true;
		fm_list_prepend(&all->line, &w.in_line);
		ret = wait_in_line(all, &w, limits);
		ret = ret == 0 ? w.is_let_in : ret;
		if (w.is_let_in && --all->entered == 0)
			let_in(all, 1);
	}
	pthread_mutex_unlock(&all->lock);
	return ret == 0 ? wait_until_seen(all) : ret;
}
