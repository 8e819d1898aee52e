/* SPDX-License-Identifier: MIT */
/*
 * api - see api.h. Here: who may connect, and what is checked of every request.
 *
 * packet_listener lets clients in, packet_conn moves messages, api_request reads one, the row of
 * its operation (api_op.h) carries it out, api_event writes the answers.
 */
#include "mover/api/api.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/api/api_buffer.h"
#include "mover/api/api_door.h"
#include "mover/api/api_event.h"
#include "mover/api/api_op.h"
#include "mover/api/api_request.h"
#include "mover/api/api_task.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/packet_conn.h"
#include "mover/base/packet_listener.h"
#include "mover/queue/queue.h"

static const struct fm_packet_limits limits = {
	.receive_max = FM_API_REQUEST_BYTES_MAX,
	.send_max = FM_API_MSG_MAX,
	.queue_max = FM_API_QUEUE_MAX,
	.queue_total = {"bytes of unread answers", FM_API_QUEUE_TOTAL_MAX, FM_API_QUEUE_TOTAL_ROOT,
			0, 1},
	.unread_ms = FM_API_UNREAD_MS,
};
static const struct fm_share_limits conn_limits = {"connections to this daemon", FM_API_CONNS_MAX,
						   FM_API_CONNS_ROOT, 0, 1};
static const struct fm_share_limits task_limits = {"places for requests at this daemon",
						   FM_API_TASKS_MAX, FM_API_TASKS_ROOT, 0, 1};
_Static_assert(FM_API_FDS_MAX == FM_PACKET_FDS_MAX, "as many descriptors as a message may have");

struct fm_api {
	struct fm_loop *loop;
	struct fm_list doors;		/* struct fm_api_door; the first is the daemon's own */
	struct fm_packet_shared shared;
	const struct fm_api_op *const *ops;
	struct fm_api_tasks tasks;
	struct fm_list clients;
	struct fm_share conns;
	struct fm_log_limit lines;	/* of clients that were turned away, or closed */
	char node[FM_API_NODE_MAX + 1];
	bool is_stopped;
};

struct client {
	struct fm_list link;
	struct fm_api *api;
	const struct fm_api_door *door;
	struct fm_packet_conn *conn;
	struct fm_share_held place;
	struct fm_api_owner owner;
};

/* ---- requests ---- */

static void client_send(void *ctx, const char *text, size_t len)
{
	fm_packet_conn_send(((struct client *)ctx)->conn, text, len);
}

static bool client_is_slow(void *ctx)
{
	return fm_packet_conn_is_slow(((struct client *)ctx)->conn);
}

static void client_reply(struct client *c, int len)
{
	/* Every event has a limit below FM_API_MSG_MAX by construction. */
	assert(len > 0);
	fm_packet_conn_send(c->conn, c->api->tasks.tx, (size_t)len);
}

static void client_reply_error(struct client *c, const struct fm_api_request *ask,
			       const struct fm_err *err)
{
	client_reply(c, fm_api_event_error(c->api->tasks.tx, FM_API_MSG_MAX,
					   ask && ask->has_id ? &ask->id : NULL, err));
}

static int check_fds(const struct fm_api_request *ask, unsigned count, struct fm_err *err)
{
	unsigned least = 0, most = 0;

	if (ask->op->fds)
		ask->op->fds(ask, &least, &most);
	if (count >= least && count <= most)
		return 0;
	return fm_err_set(err, -EINVAL, "%u descriptor%s came with this request, it takes %u%s",
			  count, count == 1 ? "" : "s", count < least ? least : most,
			  most == least	  ? ""
			  : count < least ? " or more"
					  : " or less");
}

static int request_check(struct client *c, const struct fm_api_request *ask, unsigned fd_count,
			 struct fm_err *err)
{
	int ret = check_fds(ask, fd_count, err);

	if (ret == 0 && ask->op->check)
		ret = ask->op->check(ask, err);
	if (ret < 0)
		return ret;
	if (c->owner.count >= FM_API_REQUESTS_MAX)
		return fm_err_full(
			err, "%d requests are under way on this connection, no more are allowed",
			FM_API_REQUESTS_MAX);
	if (fm_api_task_is(&c->owner, ask->id))
		return fm_err_set(err, -EINVAL,
				  "\"id\": %" PRIu64 " is that of a request which is under way",
				  ask->id);
	return 0;
}

/* Carry it out. Descriptors are taken over where they are set to -1. */
static int request_do(struct client *c, const struct fm_api_request *ask, int *fds,
		      struct fm_holder *holder, struct fm_err *err)
{
	const struct fm_api_call call = {
		.tasks = &c->api->tasks,
		.owner = &c->owner,
		.ask = ask,
		.fds = fds,
		.holder = holder,
	};

	return ask->op->answer ? ask->op->answer(&call, err) : fm_api_task_start(&call, err);
}

static void client_message(void *ctx, const struct fm_packet *msg)
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
	else if (msg->why[0])
		ret = fm_err_set(&err, -EMSGSIZE, "%s", msg->why);
	if (ret < 0) {
		client_reply_error(c, NULL, &err);
	} else {
		ret = fm_api_request_parse(msg->text, msg->len, c->api->ops, ask, &err);
		if (ret == 0)
			ret = request_check(c, ask, msg->fd_count, &err);
		if (ret == 0)
			ret = request_do(c, ask, fds, msg->holder, &err);
		if (ret < 0)
			client_reply_error(c, ask, &err);
	}
	fm_holder_close(msg->holder, fds, FM_API_FDS_MAX);	/* unused */
	free(ask);
}

/* ---- clients ---- */

static void client_free(struct client *c)
{
	fm_api_task_abandon(&c->owner);
	fm_api_buffers_drop(&c->owner);
	fm_packet_conn_free(c->conn);
	fm_list_del(&c->link);
	fm_share_give_all(&c->place);
	free(c);
}

static void client_closed(void *ctx, const char *reason)
{
	struct client *c = ctx;

	if (reason && fm_log_may(&c->api->lines, fm_loop_now(c->api->loop)))
		fm_log_warn("local client of user %u closed: it %s", (unsigned)c->owner.who.uid,
			    reason);
	client_free(c);
}

/* Say why, if it can be said without waiting, and hang up. */
static void refuse(struct fm_api *api, int fd, uid_t uid, const struct fm_err *err)
{
	int len = fm_api_event_error(api->tasks.tx, FM_API_MSG_MAX, NULL, err);

	/* a courtesy */
	(void)send(fd, api->tasks.tx, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
	fm_packet_close(&api->shared, fd, uid);
}

static int client_new(const struct fm_api_door *door, int fd, const struct ucred *who,
		      struct fm_err *err)
{
	static const struct fm_packet_events events = { client_message, client_closed };
	struct fm_api *api = door->api;
	struct client *c;
	int ret;

	c = FM_FAULT("api.client") ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		fm_packet_close(&api->shared, fd, who->uid);
		return fm_err_set(err, -ENOMEM, "no memory for a client");
	}
	c->api = api;
	c->door = door;
	c->owner =
		(struct fm_api_owner){ .send = client_send, .is_slow = client_is_slow, .ctx = c };
	c->owner.who = (struct fm_who){ .uid = who->uid, .gid = who->gid };
	fm_list_init(&c->owner.tasks);
	fm_list_init(&c->owner.buffers);
	ret = fm_packet_conn_new(&api->shared, fd, who->uid, &events, c, &c->conn, err);
	if (ret < 0) {
		free(c);
		return ret;
	}
	fm_list_append(&api->clients, &c->link);
	fm_share_force(&api->conns, fm_share_user(who->uid), 1, &c->place);
	return 0;
}

static bool client_may_come(void *ctx)
{
	return fm_packet_may_take(&((struct fm_api_door *)ctx)->api->shared);
}

/* Of a socket of one user the kernel's word counts for nothing: a container's root is uid 0. */
static struct ucred who_comes(const struct fm_api_door *door, const struct ucred *who)
{
	struct ucred as = *who;

	if (door->is.is_of_user) {
		as.uid = door->is.user_uid;
		as.gid = door->is.user_gid;
	}
	return as;
}

static void client_accepted(void *ctx, int fd, const struct ucred *peer)
{
	const struct fm_api_door *door = ctx;
	struct ucred as = who_comes(door, peer), *who = &as;
	struct fm_api *api = door->api;
	struct fm_err err;

	if (api->is_stopped) {
		(void)fm_err_set(&err, -EHOSTDOWN, "fmoved is stopping");
		refuse(api, fd, who->uid, &err);
		return;
	}
	if (fm_share_check(&api->conns, fm_share_user(who->uid), 1, &err) < 0) {
		refuse(api, fd, who->uid, &err);
		return;
	}
	if (client_new(door, fd, who, &err) < 0 && fm_log_may(&api->lines, fm_loop_now(api->loop)))
		fm_log_warn("local client refused: %s", err.text);
}

/* ---- sockets ---- */

int fm_api_open(struct fm_api *api, const struct fm_api_socket *socket, struct fm_err *err)
{
	struct fm_packet_listener_opts listening = {.path = socket->path,
						    .mode = socket->mode,
						    .gid = socket->gid,
						    .backlog = FM_API_CONNS_MAX,
						    .daemon = "fmoved",
						    .may_take = client_may_come,
						    .accepted = client_accepted};
	struct fm_api_door *door = FM_FAULT("api.door") ? NULL : calloc(1, sizeof(*door));
	int ret;

	if (!door)
		return fm_err_set(err, -ENOMEM, "no memory for socket %s", socket->path);
	door->api = api;
	door->is = *socket;
	listening.ctx = door;
	ret = fm_packet_listener_open(&door->listener, api->loop, &listening, err);
	if (ret < 0)
		free(door);
	else
		fm_list_append(&api->doors, &door->link);
	return ret;
}

/* Who came in by it goes, too: it is closed because he may not have these rights any more. */
static void door_close(struct fm_api_door *door)
{
	struct fm_api *api = door->api;

	fm_packet_listener_close(&door->listener);
	fm_list_each(at, next, &api->clients) {
		struct client *c = fm_container_of(at, struct client, link);

		if (c->door == door)
			client_free(c);
	}
	fm_list_del(&door->link);
	free(door);
}

void fm_api_close(struct fm_api *api, const char *path)
{
	fm_list_each(at, next, &api->doors) {
		struct fm_api_door *door = fm_container_of(at, struct fm_api_door, link);

		if (strcmp(door->is.path, path) == 0)
			door_close(door);
	}
}

/* ---- new, stop, free ---- */

int fm_api_new(struct fm_loop *loop, const struct fm_api_opts *opts, struct fm_engine *engine,
	       struct fm_api **out, struct fm_err *err)
{
	struct fm_api_socket own = {.mode = opts->mode, .gid = opts->gid};
	struct fm_api *api;
	int ret = -ENOMEM;

	if (strlen(opts->socket_path) >= sizeof(own.path))
		return fm_err_set(err, -ENAMETOOLONG, "socket %s: its path is too long",
				  opts->socket_path);
	(void)snprintf(own.path, sizeof(own.path), "%s", opts->socket_path);
	api = FM_FAULT("api.alloc") ? NULL : calloc(1, sizeof(*api));
	if (!api)
		return fm_err_set(err, -ENOMEM, "no memory for the local API");
	api->loop = loop;
	fm_list_init(&api->clients);
	fm_list_init(&api->doors);
	fm_share_init(&api->conns, &conn_limits);
	fm_packet_shared_init(&api->shared, loop, &limits);
	api->shared.holders = opts->holders;
	api->tasks = (struct fm_api_tasks){
		.loop = loop, .engine = engine, .queue = opts->queue, .node = api->node,
		.doors = &api->doors
	};
	api->ops = opts->ops;
	fm_share_init(&api->tasks.places, &task_limits);
	fm_api_buffers_init(&api->tasks, opts->buffer_bytes);
	(void)snprintf(api->node, sizeof(api->node), "%s", opts->node);	/* has at most so many */
	api->shared.rx = FM_FAULT("api.rx") ? NULL : malloc(FM_API_REQUEST_BYTES_MAX);
	api->tasks.tx = FM_FAULT("api.tx") ? NULL : malloc(FM_API_MSG_MAX);
	if (!api->shared.rx || !api->tasks.tx) {
		(void)fm_err_set(err, -ENOMEM, "no memory for the local API");
		goto free_api;
	}
	ret = fm_api_open(api, &own, err);
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
	fm_list_each(at, next, &api->doors)
		door_close(fm_container_of(at, struct fm_api_door, link));
	fm_packet_shared_end(&api->shared);
}

void fm_api_free(struct fm_api *api)
{
	if (!api)
		return;
	assert(api->is_stopped && fm_list_is_empty(&api->clients) && api->tasks.places.used == 0 &&
	       api->tasks.buffer_bytes.used == 0);
	free(api->shared.rx);
	free(api->tasks.tx);
	free(api);
}
