/* SPDX-License-Identifier: MIT */
/*
 * api - see api.h. Here: the listening socket, who may connect, and which request goes where.
 *
 * api_conn moves messages, api_request reads one, api_task carries it out, api_event and api_status
 * write the answers.
 */
#include "mover/api.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "mover/api_conn.h"
#include "mover/api_event.h"
#include "mover/api_request.h"
#include "mover/api_task.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"

#define ACCEPT_RETRY_MS 100	/* after a failure such as "no descriptors left" */
#define ACCEPT_PASS_MAX 16

struct fm_api {
	struct fm_loop *loop;
	struct fm_watch listener;
	struct fm_timer accept_again;
	struct sockaddr_un address;
	struct fm_api_shared shared;
	struct fm_api_tasks tasks;
	struct fm_list clients;
	unsigned client_count;
	bool is_stopped;
};

struct client {
	struct fm_list link;
	struct fm_api *api;
	struct fm_api_conn *conn;
	struct fm_api_owner owner;
};

/* ---- requests ---- */

static void client_send(void *ctx, const char *text, size_t len)
{
	fm_api_conn_send(((struct client *)ctx)->conn, text, len);
}

static bool client_is_slow(void *ctx)
{
	return fm_api_conn_is_slow(((struct client *)ctx)->conn);
}

static void client_reply(struct client *c, int len)
{
	/* Every event has a limit below FM_API_MSG_MAX by construction. */
	assert(len > 0);
	fm_api_conn_send(c->conn, c->api->tasks.tx, (size_t)len);
}

static void client_reply_error(struct client *c, const struct fm_api_request *ask,
			       const struct fm_err *err)
{
	client_reply(c, fm_api_event_error(c->api->tasks.tx, FM_API_MSG_MAX,
					   ask && ask->has_id ? &ask->id : NULL, err));
}

static int cancel(struct client *c, const struct fm_api_request *ask, struct fm_err *err)
{
	if (fm_api_task_cancel(&c->owner, ask->job) < 0)
		return fm_err_set(err, -ENOENT,
				  "cancel: no transfer with the id %" PRIu64 " on this connection",
				  ask->job);
	client_reply(c, fm_api_event_done(c->api->tasks.tx, FM_API_MSG_MAX, ask->id));
	return 0;
}

/* What the table of keys cannot check. */
static int request_check(struct client *c, const struct fm_api_request *ask, unsigned fd_count,
			 struct fm_err *err)
{
	unsigned fds =
		fm_api_op_is_transfer(ask->op) && !ask->is_generated && !ask->is_discarded ? 1 : 0;

	if (fd_count != fds)
		return fm_err_set(err, -EINVAL,
				  "%u descriptor%s came with this request, it takes %u", fd_count,
				  fd_count == 1 ? "" : "s", fds);
	if (c->owner.count >= FM_API_REQUESTS_MAX)
		return fm_err_set(err, -EBUSY, "more than %d requests under way on one connection",
				  FM_API_REQUESTS_MAX);
	if (fm_api_task_is(&c->owner, ask->id))
		return fm_err_set(err, -EINVAL,
				  "\"id\": %" PRIu64 " is that of a request which is under way",
				  ask->id);
	return 0;
}

/* Carry it out. *fd and *ask are taken over where they are set to -1 and NULL. */
static int request_do(struct client *c, struct fm_api_request **ask, int *fd, struct fm_err *err)
{
	char *tx = c->api->tasks.tx;
	int task_fd = *fd;
	int ret;

	switch ((*ask)->op) {
	case FM_API_PING:
		client_reply(c, fm_api_event_pong(tx, FM_API_MSG_MAX, (*ask)->id));
		return 0;
	case FM_API_STATUS:
		client_reply(c, fm_api_event_status(tx, FM_API_MSG_MAX, (*ask)->id,
						    c->api->tasks.engine));
		return 0;
	case FM_API_CANCEL:
		return cancel(c, *ask, err);
	default:
		*fd = -1;
		ret = fm_api_task_start(&c->api->tasks, &c->owner, *ask, task_fd, err);
		if (ret == 0)
			*ask = NULL;
		return ret;
	}
}

static void client_message(void *ctx, const struct fm_api_message *msg)
{
	struct client *c = ctx;
	struct fm_api_request *ask;
	int fds[FM_API_FDS_MAX];
	struct fm_err err;
	int ret = 0;

	for (unsigned i = 0; i < FM_API_FDS_MAX; i++)
		fds[i] = i < msg->fd_count ? msg->fds[i] : -1;
	ask = FM_FAULT("api.request") ? NULL : malloc(sizeof(*ask));
	if (!ask)
		ret = fm_err_set(&err, -ENOMEM, "no memory for a request");
	else if (msg->why)
		ret = fm_err_set(&err, -EMSGSIZE, "%s", msg->why);
	if (ret < 0) {
		client_reply_error(c, NULL, &err);
	} else {
		ret = fm_api_request_parse(msg->text, msg->len, ask, &err);
		if (ret == 0)
			ret = request_check(c, ask, msg->fd_count, &err);
		if (ret == 0)
			ret = request_do(c, &ask, &fds[0], &err);
		if (ret < 0)
			client_reply_error(c, ask, &err);
	}
	for (unsigned i = 0; i < FM_API_FDS_MAX; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);	/* unused */
	free(ask);
}

/* ---- clients ---- */

static void client_free(struct client *c)
{
	fm_api_task_abandon(&c->owner);
	fm_api_conn_free(c->conn);
	fm_list_del(&c->link);
	c->api->client_count--;
	free(c);
}

static void client_closed(void *ctx, const char *reason)
{
	struct client *c = ctx;

	if (reason)
		fm_log_warn("local client of user %u closed: it %s", (unsigned)c->owner.who.uid,
			    reason);
	client_free(c);
}

static bool has_room_for(const struct fm_api *api, uid_t uid)
{
	unsigned same = 0;

	if (api->client_count >= FM_API_CONNS_MAX)
		return false;
	fm_list_each(at, next, &api->clients)
		same += fm_container_of(at, struct client, link)->owner.who.uid == uid;
	return same < FM_API_CONNS_USER_MAX;
}

/* Say why, if it can be said without waiting, and hang up. */
static void refuse(struct fm_api *api, int fd, const struct fm_err *err)
{
	int len = fm_api_event_error(api->tasks.tx, FM_API_MSG_MAX, NULL, err);

	/* a courtesy */
	(void)send(fd, api->tasks.tx, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)close(fd);
}

static int client_new(struct fm_api *api, int fd, const struct ucred *who, struct fm_err *err)
{
	static const struct fm_api_conn_events events = { client_message, client_closed };
	struct client *c;
	int ret;

	c = FM_FAULT("api.client") ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		(void)close(fd);	/* nothing was written to it */
		return fm_err_set(err, -ENOMEM, "no memory for a client");
	}
	c->api = api;
	c->owner =
		(struct fm_api_owner){ .send = client_send, .is_slow = client_is_slow, .ctx = c };
	c->owner.who = (struct fm_who){ .uid = who->uid, .gid = who->gid };
	fm_list_init(&c->owner.tasks);
	ret = fm_api_conn_new(&api->shared, fd, &events, c, &c->conn, err);
	if (ret < 0) {
		free(c);
		return ret;
	}
	fm_list_append(&api->clients, &c->link);
	api->client_count++;
	return 0;
}

static void client_accept(struct fm_api *api, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	struct fm_err err;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0) {
		(void)close(fd);	/* a socket without peer: it is gone again */
		return;
	}
	if (!has_room_for(api, who.uid)) {
		(void)fm_err_set(&err, -EBUSY,
				 "too many connections to this daemon; close some, or try again");
		refuse(api, fd, &err);
		return;
	}
	if (client_new(api, fd, &who, &err) < 0)
		fm_log_warn("local client refused: %s", err.text);
}

/* ---- the listening socket ---- */

static void listener_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_api *api = fm_container_of(watch, struct fm_api, listener);

	(void)events;
	for (unsigned i = 0; i < ACCEPT_PASS_MAX; i++) {
		int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			client_accept(api, fd);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		/* What waits there would wake us in every pass. */
		fm_log_warn("local API: accept: %s", fm_err_name(errno));
		fm_watch_mod(api->loop, watch, 0);
		fm_timer_set(api->loop, &api->accept_again,
			     fm_loop_now(api->loop) + ACCEPT_RETRY_MS * FM_NS_PER_MS);
		return;
	}
}

static void listener_again(struct fm_timer *timer)
{
	struct fm_api *api = fm_container_of(timer, struct fm_api, accept_again);

	fm_watch_mod(api->loop, &api->listener, EPOLLIN);
}

/* Whether nobody listens there any more: what a dead daemon left may be replaced, nothing else. */
static bool socket_is_dead(const struct sockaddr_un *address)
{
	struct stat st;
	bool is_dead;
	int fd;

	if (lstat(address->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	is_dead = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		  errno == ECONNREFUSED;
	(void)close(fd);	/* only asked */
	return is_dead;
}

static int listener_bind(int fd, const struct sockaddr_un *address, struct fm_err *err)
{
	int ret;

	ret = bind(fd, (const struct sockaddr *)address, sizeof(*address));
	if (ret < 0 && errno == EADDRINUSE && socket_is_dead(address)) {
		(void)unlink(address->sun_path);	/* bind() says it if it is still there */
		ret = bind(fd, (const struct sockaddr *)address, sizeof(*address));
	}
	if (ret < 0 && errno == EADDRINUSE)
		return fm_err_set(err, -EADDRINUSE,
				  "socket %s: another fmoved serves it, or it is no socket",
				  address->sun_path);
	if (ret < 0)
		return fm_err_sys(err, -errno, "socket %s", address->sun_path);
	return 0;
}

static int listener_open(struct fm_api *api, const struct fm_api_opts *opts, struct fm_err *err)
{
	const char *path = api->address.sun_path;
	int fd, ret;

	fd = FM_FAULT("api.socket")
		     ? (errno = EMFILE, -1)
		     : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fm_err_sys(err, -errno, "socket %s", path);
	/*
	 * bind() gives the file the mode of the descriptor: nobody gets in before owner and mode
	 * are right.
	 */
	if (fchmod(fd, 0) < 0) {
		ret = fm_err_sys(err, -errno, "socket %s: set its mode", path);
		goto close_fd;
	}
	ret = listener_bind(fd, &api->address, err);
	if (ret < 0)
		goto close_fd;
	if (FM_FAULT("api.listen") ||
	    (opts->gid != (gid_t)-1 && lchown(path, (uid_t)-1, opts->gid) < 0) ||
	    chmod(path, opts->mode) < 0 || listen(fd, FM_API_CONNS_MAX) < 0) {
		ret = fm_err_sys(err, errno ? -errno : -EIO,
				 "socket %s: set its group and mode, listen", path);
		goto unlink_path;
	}
	api->listener = (struct fm_watch){ .ready = listener_ready, .fd = fd, .events = EPOLLIN };
	ret = fm_watch_add(api->loop, &api->listener, err);
	if (ret < 0)
		goto unlink_path;
	return 0;

unlink_path:
	(void)unlink(path);	/* ours; if it stays, the next start replaces it */
close_fd:
	(void)close(fd);	/* nothing was written to it */
	return ret;
}

/* ---- new, stop, free ---- */

int fm_api_new(struct fm_loop *loop, const struct fm_api_opts *opts, struct fm_engine *engine,
	       struct fm_api **out, struct fm_err *err)
{
	size_t path_len = strlen(opts->socket_path);
	struct fm_api *api;
	int ret = -ENOMEM;

	if (path_len == 0 || path_len >= sizeof(api->address.sun_path))
		return fm_err_set(err, -ENAMETOOLONG,
				  "socket %s: a path of 1 to %zu bytes is needed",
				  opts->socket_path, sizeof(api->address.sun_path) - 1);
	api = FM_FAULT("api.alloc") ? NULL : calloc(1, sizeof(*api));
	if (!api)
		return fm_err_set(err, -ENOMEM, "no memory for the local API");
	api->loop = loop;
	api->accept_again.fire = listener_again;
	fm_list_init(&api->clients);
	api->address.sun_family = AF_UNIX;
	memcpy(api->address.sun_path, opts->socket_path, path_len + 1);
	api->shared = (struct fm_api_shared){ .loop = loop };
	api->tasks =
		(struct fm_api_tasks){ .loop = loop, .engine = engine, .worker = opts->worker };
	api->shared.rx = FM_FAULT("api.rx") ? NULL : malloc(FM_API_REQUEST_BYTES_MAX);
	api->tasks.tx = FM_FAULT("api.tx") ? NULL : malloc(FM_API_MSG_MAX);
	if (!api->shared.rx || !api->tasks.tx) {
		(void)fm_err_set(err, -ENOMEM, "no memory for the local API");
		goto free_api;
	}
	ret = listener_open(api, opts, err);
	if (ret < 0)
		goto free_api;
	*out = api;
	return 0;

free_api:
	free(api->shared.rx);
	free(api->tasks.tx);
	free(api);
	return ret;
}

void fm_api_stop(struct fm_api *api)
{
	if (api->is_stopped)
		return;
	api->is_stopped = true;
	(void)unlink(api->address.sun_path);	/* somebody may have been there before us */
	fm_timer_clear(api->loop, &api->accept_again);
	fm_watch_del(api->loop, &api->listener);
	(void)close(api->listener.fd);		/* nothing is written to it */
	fm_list_each(at, next, &api->clients)
		client_free(fm_container_of(at, struct client, link));
}

void fm_api_free(struct fm_api *api)
{
	if (!api)
		return;
	assert(api->is_stopped && api->client_count == 0 && api->tasks.count == 0);
	free(api->shared.rx);
	free(api->tasks.tx);
	free(api);
}
