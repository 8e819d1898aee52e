/* SPDX-License-Identifier: MIT */
/*
 * api - see api.h. Here: who may connect, and which request goes where.
 *
 * packet_listener lets clients in, packet_conn moves messages, api_request reads one, api_task carries it out, api_event and api_status
 * write the answers.
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

#include "mover/api/api_event.h"
#include "mover/base/exit_code.h"
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
#include "mover/tree/channel.h"

static const struct fm_packet_limits limits = {
	.receive_max = FM_API_REQUEST_BYTES_MAX, .send_max = FM_API_MSG_MAX, .queue_max = FM_API_QUEUE_MAX,
	.queue_total = { "bytes of unread answers", FM_API_QUEUE_TOTAL_MAX, FM_API_QUEUE_TOTAL_ROOT, 0, 1 },
	.unread_ms = FM_API_UNREAD_MS,
};
static const struct fm_share_limits conn_limits = { "connections to this daemon", FM_API_CONNS_MAX, FM_API_CONNS_ROOT, 0, 1 };
static const struct fm_share_limits task_limits = { "places for requests at this daemon", FM_API_TASKS_MAX, FM_API_TASKS_ROOT, 0, 1 };
_Static_assert(FM_API_FDS_MAX == FM_PACKET_FDS_MAX, "as many descriptors as a message may have");

struct fm_api {
	struct fm_loop *loop;
	struct fm_packet_listener listener;
	struct fm_packet_shared shared;
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

static void client_reply_done(struct client *c, const struct fm_api_request *ask)
{
	client_reply(c, fm_api_event_done(c->api->tasks.tx, FM_API_MSG_MAX, ask->id));
}

static int cancel(struct client *c, const struct fm_api_request *ask, struct fm_err *err)
{
	int ret = 0;

	if (ask->job_id[0])
		ret = fm_queue_cancel(c->api->tasks.queue, ask->job_id, c->owner.who.uid, ask->is_kept, err);
	else if (fm_api_task_cancel(&c->owner, ask->job, ask->is_kept) < 0)
		ret = fm_err_set(err, -ENOENT,
				 "cancel: no transfer with the id %" PRIu64 " on this connection",
				 ask->job);
	if (ret == 0)
		client_reply_done(c, ask);
	return ret;
}

static int commit(struct client *c, const struct fm_api_request *ask, struct fm_err *err)
{
	struct fm_err why = { .code = 0 };
	int ret;

	if (ask->error_code[0])
		(void)fm_err_set(&why, fm_api_errno(ask->error_code), "%s", ask->file);
	ret = fm_api_task_commit(&c->owner, ask->job, why.code < 0 ? &why : NULL);
	if (ret == -ENOENT)
		return fm_err_set(err, ret, "commit: no put with \"hold\" and no attended get has the id %" PRIu64 " on this connection", ask->job);
	if (ret < 0)
		return fm_err_set(err, ret, "commit: %" PRIu64 " is not prepared yet", ask->job);
	client_reply_done(c, ask);
	return 0;
}

/* fd is taken over. */
static int resume(struct client *c, const struct fm_api_request *ask, int fd, struct fm_holder *holder, struct fm_err *err)
{
	struct fm_holder *ref = fd >= 0 ? fm_holder_ref(holder) : NULL;
	int ret = fm_queue_resume(c->api->tasks.queue, ask->job_id, c->owner.who.uid, fd, ref, err);

	if (ret == 0)
		client_reply_done(c, ask);
	return ret;
}

static int jobs(struct client *c, const struct fm_api_request *ask, struct fm_err *err)
{
	struct fm_queue *queue = c->api->tasks.queue;
	uid_t uid = c->owner.who.uid;
	char *tx = c->api->tasks.tx;
	int len;

	if (ask->is_all && uid != 0)
		return fm_err_set(err, -EPERM, "the jobs of all users are for root");
	if (ask->job_id[0])
		len = fm_api_event_one_job(tx, FM_API_MSG_MAX, ask->id, queue, uid, ask->job_id, err);
	else
		len = fm_api_event_jobs(tx, FM_API_MSG_MAX, ask->id, queue, uid, ask->is_all, ask->after_seq);
	if (len < 0)
		return len;
	client_reply(c, len);
	return 0;
}

/* How many descriptors come with a request: least and most. */
static void fds_wanted(const struct fm_api_request *ask, unsigned *least, unsigned *most)
{
	*least = *most = 0;
	if (ask->op == FM_API_RESUME)
		*most = 1;
	if (!fm_api_op_is_transfer(ask->op) || ask->is_generated || ask->is_discarded || ask->is_store)
		return;
	*least = ask->is_tree ? 1 + FM_CHANNEL_SOCKETS_MIN : 1;
	*most = ask->is_tree ? 1 + FM_CHANNEL_SOCKETS_MAX : ask->op == FM_API_GET ? 2 : 1;
}

static int attended_check(const struct fm_api_request *ask, struct fm_err *err)
{
	if (!ask->is_attended && ask->job_id[0] && fm_api_op_is_transfer(ask->op))
		return fm_err_set(err, -EINVAL, "\"job\" needs \"attended\": true");
	if (ask->is_attended && (ask->is_store || ask->is_generated || ask->is_discarded || ask->is_detached || ask->is_held))
		return fm_err_set(err, -EINVAL, "\"attended\" is for a file or directory of the client, and leaves no room for \"detach\" "
				  "or \"hold\"");
	return 0;
}

/* What the table of keys cannot check. */
static int request_check(struct client *c, const struct fm_api_request *ask, unsigned fd_count,
			 struct fm_err *err)
{
	unsigned least, most;

	fds_wanted(ask, &least, &most);
	if (fd_count < least || fd_count > most)
		return fm_err_set(err, -EINVAL,
				  "%u descriptor%s came with this request, it takes %u%s", fd_count,
				  fd_count == 1 ? "" : "s", fd_count < least ? least : most,
				  most > least ? fd_count < least ? " or more" : " or less" : "");
	if (ask->is_store && (ask->is_generated || ask->is_discarded || ask->file_len > 0))
		return fm_err_set(err, -EINVAL, "\"local_store\" leaves no room for another source or target");
	if (ask->is_tree && (ask->is_generated || ask->is_discarded || (ask->is_detached && !ask->is_store)))
		return fm_err_set(err, -EINVAL,
				  "a \"tree\" is a directory of the client, which cannot be detached, or of \"local_store\"");
	if (attended_check(ask, err) < 0)
		return err->code;
	if (ask->op == FM_API_PUT && ask->excludes_count > 0 && !ask->is_store && !ask->is_attended)
		return fm_err_set(err, -EINVAL, "\"exclude\" has no meaning for put without \"local_store\": leave them out");
	if (fm_api_op_is_transfer(ask->op) && !ask->is_tree && (ask->is_update || ask->has_checksums || ask->is_dry || ask->excludes_count > 0))
		return fm_err_set(err, -EINVAL,
				  "\"update\", \"checksum\", \"dry_run\" and \"exclude\" need \"tree\": true");
	if (ask->is_delete && (!ask->is_tree || (!ask->is_update && !ask->has_checksums)))
		return fm_err_set(err, -EINVAL, "\"delete\" needs \"update\": true");
	if (ask->op == FM_API_GET && ask->is_force && !ask->is_store && !ask->is_attended)
		return fm_err_set(err, -EINVAL, "\"force\" has no meaning for get without \"local_store\"");
	if (!ask->is_store && ask->local_path_len > 0)
		return fm_err_set(err, -EINVAL, "\"local_path\" needs \"local_store\"");
	if (c->owner.count >= FM_API_REQUESTS_MAX)
		return fm_err_full(err, "%d requests are under way on this connection, no more are allowed", FM_API_REQUESTS_MAX);
	if (fm_api_task_is(&c->owner, ask->id))
		return fm_err_set(err, -EINVAL,
				  "\"id\": %" PRIu64 " is that of a request which is under way",
				  ask->id);
	return 0;
}

/* Carry it out. Descriptors are taken over where they are set to -1. */
static int request_do(struct client *c, const struct fm_api_request *ask, int *fds, struct fm_holder *holder, struct fm_err *err)
{
	int task_fds[FM_API_TASK_FDS];
	char *tx = c->api->tasks.tx;

	memcpy(task_fds, fds, sizeof(task_fds));
	switch (ask->op) {
	case FM_API_PING:
		client_reply(c, fm_api_event_pong(tx, FM_API_MSG_MAX, ask->id, c->api->node));
		return 0;
	case FM_API_STATUS:
		client_reply(c, fm_api_event_status(tx, FM_API_MSG_MAX, ask->id,
						    c->api->tasks.engine));
		return 0;
	case FM_API_CANCEL:
		return cancel(c, ask, err);
	case FM_API_COMMIT:
		return commit(c, ask, err);
	case FM_API_JOBS:
		return jobs(c, ask, err);
	case FM_API_RESUME:
		fds[0] = -1;
		return resume(c, ask, task_fds[0], holder, err);
	default:
		for (unsigned i = 0; i < FM_API_TASK_FDS; i++)
			fds[i] = -1;
		return fm_api_task_start(&c->api->tasks, &c->owner, ask, task_fds, holder, err);
	}
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
		ret = fm_api_request_parse(msg->text, msg->len, ask, &err);
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

static int client_new(struct fm_api *api, int fd, const struct ucred *who, struct fm_err *err)
{
	static const struct fm_packet_events events = { client_message, client_closed };
	struct client *c;
	int ret;

	c = FM_FAULT("api.client") ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		fm_packet_close(&api->shared, fd, who->uid);
		return fm_err_set(err, -ENOMEM, "no memory for a client");
	}
	c->api = api;
	c->owner =
		(struct fm_api_owner){ .send = client_send, .is_slow = client_is_slow, .ctx = c };
	c->owner.who = (struct fm_who){ .uid = who->uid, .gid = who->gid };
	fm_list_init(&c->owner.tasks);
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
	return fm_packet_may_take(&((struct fm_api *)ctx)->shared);
}

static void client_accepted(void *ctx, int fd, const struct ucred *who)
{
	struct fm_api *api = ctx;
	struct fm_err err;

	if (api->is_stopped) {
		(void)fm_err_set(&err, -ECANCELED, "fmoved is stopping");
		refuse(api, fd, who->uid, &err);
		return;
	}
	if (fm_share_check(&api->conns, fm_share_user(who->uid), 1, &err) < 0) {
		refuse(api, fd, who->uid, &err);
		return;
	}
	if (client_new(api, fd, who, &err) < 0 && fm_log_may(&api->lines, fm_loop_now(api->loop)))
		fm_log_warn("local client refused: %s", err.text);
}

/* ---- new, stop, free ---- */

int fm_api_new(struct fm_loop *loop, const struct fm_api_opts *opts, struct fm_engine *engine,
	       struct fm_api **out, struct fm_err *err)
{
	struct fm_packet_listener_opts listening = { .path = opts->socket_path, .mode = opts->mode, .gid = opts->gid,
						     .backlog = FM_API_CONNS_MAX, .daemon = "fmoved",
						     .may_take = client_may_come, .accepted = client_accepted };
	struct fm_api *api;
	int ret = -ENOMEM;

	api = FM_FAULT("api.alloc") ? NULL : calloc(1, sizeof(*api));
	if (!api)
		return fm_err_set(err, -ENOMEM, "no memory for the local API");
	api->loop = loop;
	fm_list_init(&api->clients);
	fm_share_init(&api->conns, &conn_limits);
	fm_packet_shared_init(&api->shared, loop, &limits);
	api->shared.holders = opts->holders;
	api->tasks =
		(struct fm_api_tasks){ .loop = loop, .engine = engine, .queue = opts->queue };
	fm_share_init(&api->tasks.places, &task_limits);
	(void)snprintf(api->node, sizeof(api->node), "%s", opts->node);	/* has at most so many */
	api->shared.rx = FM_FAULT("api.rx") ? NULL : malloc(FM_API_REQUEST_BYTES_MAX);
	api->tasks.tx = FM_FAULT("api.tx") ? NULL : malloc(FM_API_MSG_MAX);
	if (!api->shared.rx || !api->tasks.tx) {
		(void)fm_err_set(err, -ENOMEM, "no memory for the local API");
		goto free_api;
	}
	listening.ctx = api;
	ret = fm_packet_listener_open(&api->listener, loop, &listening, err);
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
	fm_packet_listener_close(&api->listener);
	fm_list_each(at, next, &api->clients)
		client_free(fm_container_of(at, struct client, link));
	fm_packet_shared_end(&api->shared);
}

void fm_api_free(struct fm_api *api)
{
	if (!api)
		return;
	assert(api->is_stopped && fm_list_is_empty(&api->clients) && api->tasks.places.used == 0);
	free(api->shared.rx);
	free(api->tasks.tx);
	free(api);
}
