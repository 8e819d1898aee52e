/* SPDX-License-Identifier: MIT */
/*
 * fmoved - see fmoved.h. A connection for each question: connect, ask; "volumes" events, "done";
 * over. Whatever else happens ends it with a reason, which is all that anybody is told then.
 */
#include "nvmetcp/daemon/fmoved.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/files.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/json.h"
#include "mover/base/loop.h"
#include "mover/base/packet_conn.h"
#include "nvmetcp/peers.h"

#define FILE_NAME "volumes.json"	/* fmove-nvmed(8) */
#define ANSWER_MAX (256u << 10)		/* fmove-api(7) */
#define DEADLINE_NS (4 * FM_NS_PER_S)	/* fmoved gives its peers two, and looks twice a second */

static const struct fm_packet_limits limits = {
	.receive_max = ANSWER_MAX,
	.send_max = 256,
	.queue_max = 1024,
	.queue_total = {.what = "bytes", .total = 1024},
	.unread_ms = 4000,
	.is_plain = true,
};

struct fm_fmoved {
	struct fm_loop *loop;
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char file[PATH_MAX];
	void (*answered)(void *ctx, struct fm_peers *peers);
	void *ctx;
	struct fm_packet_shared shared;
	struct fm_packet_conn *conn;	/* NULL: none, or it could not be made */
	struct fm_timer deadline;
	struct fm_task over_task;
	bool is_asking, is_stopped;
	struct fm_peers peers;		/* what has been answered so far */
};

static void over_run(struct fm_task *task)
{
	struct fm_fmoved *f = fm_container_of(task, struct fm_fmoved, over_task);
	struct fm_peers peers = f->peers;

	fm_packet_conn_free(f->conn);
	f->conn = NULL;
	f->is_asking = false;
	f->peers = (struct fm_peers){ 0 };
	if (f->is_stopped)
		fm_peers_clear(&peers);
	else
		f->answered(f->ctx, &peers);
}

/* Later, since it may be the connection itself that calls. why "": all is said. */
static void over(struct fm_fmoved *f, const char *why)
{
	if (!f->is_asking || f->over_task.is_posted)
		return;
	fm_timer_clear(f->loop, &f->deadline);
	if (why[0])
		fm_peers_clear(&f->peers);
	(void)snprintf(f->peers.why, sizeof(f->peers.why), "%.*s", FM_PEERS_WHY_MAX - 1, why);
	fm_loop_post(f->loop, &f->over_task);
}

static void deadline_fired(struct fm_timer *timer)
{
	over(fm_container_of(timer, struct fm_fmoved, deadline), "fmoved does not answer in time");
}

/* ---- what it says ---- */

/* NULL: nothing that could be read. */
static void message_take(struct fm_fmoved *f, const struct fm_json *message)
{
	const char *event = "", *text = "what is not understood";
	char why[FM_PEERS_WHY_MAX];

	(void)fm_json_text(fm_json_get(message, "event"), &event);
	if (strcmp(event, "volumes") == 0) {
		if (fm_peers_add(&f->peers, message) < 0)
			over(f, "fmoved says what is not understood, or too much");
		return;
	}
	if (strcmp(event, "done") == 0) {
		over(f, "");
		return;
	}
	(void)fm_json_text(fm_json_get(message, "text"), &text);
	(void)snprintf(why, sizeof(why), "fmoved says: %s", text);
	over(f, why);
}

static void conn_message(void *ctx, const struct fm_packet *msg)
{
	struct fm_fmoved *f = ctx;
	struct fm_json *message = NULL;

	if (!f->is_asking || f->over_task.is_posted)
		return;
	(void)fm_json_parse(msg->text, msg->len, &message, NULL);
	message_take(f, message);
	fm_json_free(message);
}

static void conn_closed(void *ctx, const char *reason)
{
	over(ctx, reason ? "fmoved says what is not understood, or too much"
			 : "fmoved has closed the connection");
}

/* ---- asking ---- */

/* Whose descriptors those would be that come with an answer. */
static uid_t user_behind(int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 ? who.uid : geteuid();
}

/* A local socket takes a connection at once, or refuses it. */
static int connect_fmoved(struct fm_fmoved *f, struct fm_err *err)
{
	static const struct fm_packet_events events = { conn_message, conn_closed };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd, ret = 0;

	if (!fm_packet_may_take(&f->shared))
		return fm_err_set(err, -ENOMEM, "no memory to ask fmoved");
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	memcpy(addr.sun_path, f->socket_path, sizeof(addr.sun_path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		ret = fm_err_sys(err, -errno, "fmoved of this node does not answer: %s",
				 f->socket_path);
	if (ret == 0)
		return fm_packet_conn_new(&f->shared, fd, user_behind(fd), &events, f, &f->conn,
					  err);
	if (fd >= 0)
		close(fd);
	return ret;
}

void fm_fmoved_ask(struct fm_fmoved *f)
{
	struct fm_json_writer w;
	struct fm_err err = { 0 };
	char question[64];
	int len;

	f->is_asking = true;
	if (connect_fmoved(f, &err) < 0) {
		over(f, err.text);
		return;
	}
	fm_timer_set(f->loop, &f->deadline, fm_loop_now(f->loop) + DEADLINE_NS);
	fm_jw_begin(&w, question, sizeof(question));
	fm_jw_object(&w, NULL);
	fm_jw_u64(&w, "id", 1);
	fm_jw_text(&w, "op", "volumes");
	fm_jw_object_end(&w);
	len = fm_jw_end(&w);
	assert(len > 0);
	fm_packet_conn_send(f->conn, question, (size_t)len);
}

/* ---- what this node says ---- */

int fm_fmoved_publish(struct fm_fmoved *f, const char *text, struct fm_err *err)
{
	struct fm_file_write how = {
		.path = f->file, .mode = 0644, .may_replace = true, .is_volatile = true};

	return fm_file_write(&how, text, err);
}

/* ---- its life ---- */

static int set_paths(struct fm_fmoved *f, const struct fm_fmoved_opts *opts, struct fm_err *err)
{
	char dir[PATH_MAX];

	if (strlen(opts->socket_path) >= sizeof(f->socket_path) ||
	    strlen(opts->nvmed_socket_path) >= sizeof(dir))
		return fm_err_set(err, -ENAMETOOLONG, "%s: too long for a socket",
				  opts->socket_path);
	strcpy(f->socket_path, opts->socket_path);
	strcpy(dir, opts->nvmed_socket_path);
	*strrchr(dir, '/') = '\0';	/* the configuration takes absolute paths only */
	return fm_path_join(dir, FILE_NAME, f->file, err);
}

int fm_fmoved_new(const struct fm_fmoved_opts *opts, struct fm_fmoved **out, struct fm_err *err)
{
	struct fm_fmoved *f = FM_FAULT("fmoved.alloc") ? NULL : calloc(1, sizeof(*f));
	int ret;

	if (!f)
		return fm_err_set(err, -ENOMEM, "no memory to ask fmoved");
	f->loop = opts->loop;
	f->answered = opts->answered;
	f->ctx = opts->ctx;
	f->deadline.fire = deadline_fired;
	f->over_task.run = over_run;
	fm_packet_shared_init(&f->shared, opts->loop, &limits);
	f->shared.rx = malloc(ANSWER_MAX);
	ret = f->shared.rx ? set_paths(f, opts, err)
			   : fm_err_set(err, -ENOMEM, "no memory to ask fmoved");
	if (ret < 0) {
		free(f->shared.rx);
		free(f);
		return ret;
	}
	*out = f;
	return 0;
}

void fm_fmoved_stop(struct fm_fmoved *f)
{
	f->is_stopped = true;
	over(f, "stopped");
}

void fm_fmoved_free(struct fm_fmoved *f)
{
	if (!f)
		return;
	assert(f->is_stopped && !f->is_asking);
	fm_packet_shared_end(&f->shared);
	free(f->shared.rx);
	free(f);
}
