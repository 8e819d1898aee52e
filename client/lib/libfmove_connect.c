/* SPDX-License-Identifier: MIT */
/*
 * libfmove_connect - the handle that all calls begin with, and what fork() leaves of it. See
 * fmove.h.
 *
 * All handles of the process are on a list. fork() waits until no other thread has a lock of one,
 * so the child finds each as it is between two steps.
 */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- handles and fork() ---- */

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fm_list handles = {&handles, &handles};

static struct fmove *handle_of(struct fm_list *at)
{
	return fm_container_of(at, struct fmove, in_handles);
}

static void before_fork(void)
{
	pthread_mutex_lock(&handles_lock);
	fm_list_each(at, next, &handles)
		pthread_mutex_lock(&handle_of(at)->connections.lock);
}

static void after_fork(void)
{
	fm_list_each(at, next, &handles)
		pthread_mutex_unlock(&handle_of(at)->connections.lock);
	pthread_mutex_unlock(&handles_lock);
}

static void after_fork_in_child(void)
{
	fm_list_each(at, next, &handles) {
		fm_connections_forked(&handle_of(at)->connections);
		fm_ops_forked(handle_of(at));
	}
	after_fork();
}

static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork,
			     after_fork_in_child); /* without memory: not */
}

static void handle_add(struct fmove *c)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, watch_forks);
	pthread_mutex_lock(&handles_lock);
	fm_list_append(&handles, &c->in_handles);
	pthread_mutex_unlock(&handles_lock);
}

static void handle_remove(struct fmove *c)
{
	pthread_mutex_lock(&handles_lock);
	fm_list_del(&c->in_handles);
	pthread_mutex_unlock(&handles_lock);
}

/* ---- connecting ---- */

static int address_of(const char *path, struct sockaddr_un *out, struct fmove_error *err)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(out->sun_path))
		return fm_lib_fail(err, -ENAMETOOLONG,
				   "socket %s: longer than the %zu bytes a socket's path may have",
				   path, sizeof(out->sun_path) - 1);
	memcpy(out->sun_path, path, strlen(path) + 1);
	return 0;
}

int fmove_connect(const char *socket_path, struct fmove **out, struct fmove_error *err)
{
	struct sockaddr_un address;
	struct fmove *c;
	int ret;

	if (!socket_path || !*socket_path)
		/* of a program with the rights of another user it would name whom to trust */
		socket_path = secure_getenv("FMOVE_SOCKET");
	if (!socket_path || !*socket_path)
		socket_path = FM_API_SOCKET;
	ret = address_of(socket_path, &address, err);
	if (ret < 0)
		return ret;
	c = calloc(1, sizeof(*c));
	if (!c)
		return fm_lib_fail(err, -ENOMEM, "no memory for a connection");
	fm_connections_init(&c->connections, &address);
	fm_ops_init(&c->ops);
	handle_add(c); /* first: a child that is forked meanwhile is not to have its socket */
	ret = fm_connections_first(&c->connections, err);
	if (ret < 0) {
		fmove_close(c);
		return ret;
	}
	*out = c;
	return 0;
}

void fmove_disconnect(struct fmove *c)
{
	fm_connections_drop_idle(&c->connections);
}

void fmove_close(struct fmove *c)
{
	if (!c)
		return;
	fm_ops_close(c);
	handle_remove(c);
	fm_connections_close(&c->connections);
	free(c);
}

void fmove_set_again(struct fmove *c,
		     bool (*again)(void *ctx, const struct fmove_error *why, unsigned refused,
				   uint64_t left_ms),
		     void *ctx)
{
	c->again = again;
	c->again_ctx = ctx;
}

void fmove_set_timeout(struct fmove *c, uint64_t ms)
{
	c->timeout_ms = ms;
}

void fmove_set_cancel(struct fmove *c, int fd)
{
	c->cancel_fd = fd;
}
