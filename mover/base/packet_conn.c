/* SPDX-License-Identifier: MIT */
/*
 * packet_conn - see packet_conn.h.
 *
 * Before a message is taken, it is looked at: has it descriptors beside it, the socket goes to the
 * holder of its user, which takes that one message. A socket in which such messages are left is
 * closed there, too, since that drops them.
 */
#include "mover/base/packet_conn.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/packet_shut.h"
#include "mover/base/worker.h"

#define STILL_NS FM_NS_PER_S	/* a timer that is later than this */

struct unsent {
	struct fm_list link;
	size_t len;
	char text[];
};

struct receiving;

struct fm_packet_conn {
	struct fm_packet_shared *shared;
	const struct fm_packet_events *events;
	void *ctx;
	struct fm_watch watch;
	uid_t uid;
	struct fm_list unsent;
	struct fm_share_held unsent_bytes;
	struct fm_timer unread;		/* fires when the client has read nothing for too long */
	struct fm_timer again;		/* when a holder could not be had */
	struct receiving *receiving;	/* the holder of its user reads a message */
	/* what closing may need: to end takes no memory; NULL: we close ourselves */
	struct fm_packet_shut *shut;
	struct fm_task breaking;	/* says closed(); posted once */
	const char *reason;
	bool is_broken;
	bool is_freed;			/* but for its memory, which goes when `breaking` has run */
};

#define AGAIN_NS (100 * FM_NS_PER_MS)	/* after a failure such as "no memory" */

static void set_passcred(int fd)
{
	int on = 1;

	/* every UNIX socket knows it */
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

/* ---- the end ---- */

static void conn_break(struct fm_packet_conn *c, const char *reason)
{
	if (c->is_broken)
		return;
	c->is_broken = true;
	c->reason = reason;
	fm_watch_del(c->shared->loop, &c->watch);
	fm_timer_clear(c->shared->loop, &c->again);	/* it would be watched again */
	fm_timer_clear(c->shared->loop, &c->unread);
	fm_loop_post(c->shared->loop, &c->breaking);
}

static void conn_break_run(struct fm_task *task)
{
	struct fm_packet_conn *c = fm_container_of(task, struct fm_packet_conn, breaking);

	if (c->is_freed)
		free(c);
	else
		c->events->closed(c->ctx, c->reason);
}

static void conn_unread(struct fm_timer *timer)
{
	struct fm_packet_conn *c = fm_container_of(timer, struct fm_packet_conn, unread);
	uint64_t now_ns = fm_loop_now(c->shared->loop), late_ns = now_ns - timer->at_ns;

	/* This process stood still, and so may the client have: it has as much longer. */
	if (late_ns > STILL_NS)
		fm_timer_set(c->shared->loop, timer, now_ns + late_ns);
	else
		conn_break(c, "reads nothing");
}

/* ---- out ---- */

/* 0, or -EAGAIN, or the connection is broken and -EPIPE. */
static int conn_send_now(struct fm_packet_conn *c, const char *text, size_t len)
{
	ssize_t n;

	do {
		n = FM_FAULT("packet.send")
			    ? (errno = EPIPE, -1)
			    : send(c->watch.fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
		return -EAGAIN;
	conn_break(c, errno == EPIPE || errno == ECONNRESET ? NULL : "cannot be written to");
	return -EPIPE;
}

static void conn_drop(struct fm_packet_conn *c, struct unsent *u)
{
	fm_list_del(&u->link);
	fm_share_give(&c->unsent_bytes, u->len);
	free(u);
}

static void conn_flush(struct fm_packet_conn *c)
{
	struct fm_loop *loop = c->shared->loop;

	while (!fm_list_is_empty(&c->unsent)) {
		struct unsent *u = fm_container_of(c->unsent.next, struct unsent, link);

		if (conn_send_now(c, u->text, u->len) < 0)
			return;
		conn_drop(c, u);
		fm_timer_set(loop, &c->unread,
			     fm_loop_now(loop) + c->shared->limits->unread_ms * FM_NS_PER_MS);
	}
	fm_timer_clear(loop, &c->unread);
	fm_watch_mod(loop, &c->watch, EPOLLIN);
}

static void conn_queue(struct fm_packet_conn *c, const char *text, size_t len)
{
	struct fm_loop *loop = c->shared->loop;
	struct unsent *u = NULL;

	if (c->unsent_bytes.count + len <= c->shared->limits->queue_max)
		u = FM_FAULT("packet.queue") ? NULL : malloc(sizeof(*u) + len);
	if (!u || fm_share_take(&c->shared->queued, fm_share_user(c->uid), len, &c->unsent_bytes,
				NULL) < 0) {
		free(u);
		conn_break(c, "leaves too much unread");
		return;
	}
	memcpy(u->text, text, len);
	u->len = len;
	if (fm_list_is_empty(&c->unsent)) {
		fm_timer_set(loop, &c->unread,
			     fm_loop_now(loop) + c->shared->limits->unread_ms * FM_NS_PER_MS);
		if (c->watch.is_added)
			/* and nothing is read meanwhile */
			fm_watch_mod(loop, &c->watch, EPOLLOUT);
	}
	fm_list_append(&c->unsent, &u->link);
}

void fm_packet_conn_send(struct fm_packet_conn *conn, const char *text, size_t len)
{
	assert(len > 0 && len <= conn->shared->limits->send_max);
	if (conn->is_broken)
		return;
	if (!fm_list_is_empty(&conn->unsent) || conn_send_now(conn, text, len) == -EAGAIN)
		conn_queue(conn, text, len);
}

bool fm_packet_conn_is_slow(const struct fm_packet_conn *conn)
{
	return !fm_list_is_empty(&conn->unsent);
}

/* ---- in ---- */

/*
 * Room for twice the descriptors that are allowed: who sends one too many is told so, who sends
 * hundreds has them dropped by the kernel.
 */
#define FDS_ROOM (2 * FM_PACKET_FDS_MAX)
#define CONTROL_ROOM (CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(FDS_ROOM * sizeof(int)))

static void fds_close(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		(void)close(fds[i]);	/* nothing was written through it by us */
}

/*
 * Take the descriptors out of hdr into *msg, at most FM_PACKET_FDS_MAX of them; the others are
 * closed.
 */
static void message_take_fds(struct msghdr *hdr, size_t receive_max, struct fm_packet *msg)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(hdr); at; at = CMSG_NXTHDR(hdr, at)) {
		unsigned count;
		int fds[CONTROL_ROOM / sizeof(int)];

		if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
			continue;
		count = (unsigned)((at->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		assert(count <= sizeof(fds) / sizeof(fds[0]));
		memcpy(fds, CMSG_DATA(at), count * sizeof(int));
		if (msg->fd_count + count > FM_PACKET_FDS_MAX) {
			strcpy(msg->why, "too many descriptors in one message");
			fds_close(fds, count);
			continue;
		}
		memcpy(msg->fds + msg->fd_count, fds, count * sizeof(int));
		msg->fd_count += count;
	}
	if (hdr->msg_flags & MSG_CTRUNC)
		strcpy(msg->why, "too many descriptors in one message");
	if (hdr->msg_flags & MSG_TRUNC)
		(void)snprintf(msg->why, sizeof(msg->why), "the message is longer than %zu KiB",
			       receive_max >> 10);
	if (msg->why[0]) {
		fds_close(msg->fds, msg->fd_count);
		msg->fd_count = 0;
		msg->len = 0;
	}
}

/* 1: a message, in text; 0: none now; -1: the end. Its descriptors are of the process that calls
 * this. */
static int receive(int fd, char *text, size_t max, struct fm_packet *msg)
{
	union {
		struct cmsghdr align;
		char room[CONTROL_ROOM];
	} control;
	struct iovec iov = { text, max };
	struct msghdr hdr = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	n = recvmsg(fd, &hdr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return -1;
	*msg = (struct fm_packet){ .text = text, .len = (size_t)n };
	message_take_fds(&hdr, max, msg);
	if (n > 0)
		return 1;
	/* an empty message is taken for the end, which looks the same */
	fds_close(msg->fds, msg->fd_count);
	return -1;
}

/* ---- what comes first ---- */

enum head {
	HEAD_NONE,	/* nothing now */
	HEAD_END,
	HEAD_PLAIN,	/* a message, nothing beside it */
	HEAD_FDS,	/* descriptors beside it */
};

/*
 * Without taking it: the kernel has it still, so letting go of what was seen is never the last that
 * somebody does with a descriptor. The room is for what SO_PASSCRED puts beside every message, and
 * tells it from the end; there is none for descriptors, of which MSG_CTRUNC tells.
 */
static enum head look(int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr hdr = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	if (recvmsg(fd, &hdr, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return errno == EAGAIN || errno == EINTR ? HEAD_NONE : HEAD_END;
	if (hdr.msg_flags & MSG_CTRUNC)
		return HEAD_FDS;
	return CMSG_FIRSTHDR(&hdr) ? HEAD_PLAIN : HEAD_END;
}

/* ---- closing: in what was not read there may be descriptors ---- */

/* *room may be used up. */
static void socket_close(struct fm_packet_shared *shared, int fd, uid_t uid,
			 struct fm_packet_shut **room)
{
	enum head head = HEAD_END;
	char byte;

	if (fm_packet_is_apart(shared)) {
		set_passcred(fd);
		(void)shutdown(fd, SHUT_RDWR);	/* nothing more comes */
		while ((head = look(fd)) == HEAD_PLAIN)
			/* its length does not matter */
			(void)!recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);
	}
	if (head == HEAD_FDS)
		fm_packet_shut(shared, fd, uid, room);
	else
		(void)close(fd);	/* every message was sent or given up */
}

void fm_packet_close(struct fm_packet_shared *shared, int fd, uid_t uid)
{
	socket_close(shared, fd, uid, &shared->spare);
}

/* ---- a message with descriptors: the holder of its user receives it ---- */

struct receiving {
	struct fm_work work;
	struct fm_packet_conn *conn;	/* NULL: it is gone */
	struct fm_holder *holder;
	struct fm_passed passed;
	struct fm_packet msg;
	size_t max;
	int ret;
	char text[];
};

/* There. */
static void receive_run(struct fm_work *work)
{
	struct receiving *r = fm_container_of(work, struct receiving, work);
	int fd = fm_holder_passed(r->holder, &r->passed);

	r->ret = fd < 0 ? -1 : receive(fd, r->text, r->max, &r->msg);
	if (fd >= 0)
		(void)close(fd);	/* ours is open still, or was handed over for good */
}

static void conn_watch(struct fm_packet_conn *c)
{
	struct fm_err err;

	assert(!c->is_broken);
	c->watch.events = fm_packet_conn_is_slow(c) ? EPOLLOUT : EPOLLIN;
	if (fm_watch_add(c->shared->loop, &c->watch, &err) < 0)
		conn_break(c, "cannot be watched");
}

static void receive_done(struct fm_work *work)
{
	struct receiving *r = fm_container_of(work, struct receiving, work);
	struct fm_packet_conn *c = r->conn;

	if (c)
		c->receiving = NULL;
	if (c && !c->is_broken)
		conn_watch(c);
	if (!c || c->is_broken || r->ret <= 0) {
		if (r->ret > 0)
			fm_holder_close(r->holder, r->msg.fds, r->msg.fd_count);
		if (c && r->ret < 0)
			conn_break(c, NULL);
	} else {
		r->msg.holder = r->holder;
		c->events->message(c->ctx, &r->msg);
	}
	fm_holder_put(r->holder);
	free(r);
}

static bool receive_there(struct fm_packet_conn *c)
{
	size_t max = c->shared->limits->receive_max;
	struct fm_holder *holder = fm_holder_get(c->shared->holders, c->uid);
	struct receiving *r =
		holder && !FM_FAULT("packet.receiving") ? malloc(sizeof(*r) + max) : NULL;

	if (r)
		memset(r, 0, sizeof(*r));
	if (!r || fm_holder_pass(holder, c->watch.fd, &r->passed) < 0) {
		free(r);
		fm_holder_put(holder);
		return false;
	}
	r->work.run = receive_run;
	r->work.done = receive_done;
	r->conn = c;
	r->holder = holder;
	r->max = max;
	c->receiving = r;
	fm_holder_work(holder, &r->work);
	return true;
}

static void conn_again(struct fm_timer *timer)
{
	conn_watch(fm_container_of(timer, struct fm_packet_conn, again));
}

/* Nothing is read from it, and its end is not looked for, until that is done, or could be tried
 * again. */
static void conn_hand_over(struct fm_packet_conn *c)
{
	fm_watch_del(c->shared->loop, &c->watch);
	if (!receive_there(c))
		fm_timer_set(c->shared->loop, &c->again, fm_loop_now(c->shared->loop) + AGAIN_NS);
}

/* ---- reading ---- */

static bool pass_has_room(struct fm_packet_shared *s)
{
	uint64_t now = fm_loop_now(s->loop);

	if (now != s->pass_ns) {
		s->pass_ns = now;
		s->pass_bytes = 0;
	}
	return s->pass_bytes < FM_PACKET_PASS_BYTES_MAX;
}

/* 1: a message; 0: none now, or the holder has it; -1: the end. */
static int conn_receive(struct fm_packet_conn *c, struct fm_packet *msg)
{
	enum head head = fm_packet_is_apart(c->shared) ? look(c->watch.fd) : HEAD_PLAIN;
	int ret;

	switch (head) {
	case HEAD_NONE:
		return 0;
	case HEAD_END:
		return -1;
	case HEAD_FDS:
		if (c->shared->limits->is_plain)
			conn_break(c, "sent a descriptor");
		else
			conn_hand_over(c);
		return 0;
	case HEAD_PLAIN:
		break;
	}
	ret = receive(c->watch.fd, c->shared->rx, c->shared->limits->receive_max, msg);
	if (ret > 0)
		c->shared->pass_bytes += msg->why[0] ? c->shared->limits->receive_max : msg->len;
	return ret;
}

static void conn_read(struct fm_packet_conn *c)
{
	struct fm_packet msg;
	int ret;

	for (unsigned i = 0; i < FM_PACKET_PASS_MESSAGES_MAX && pass_has_room(c->shared); i++) {
		ret = conn_receive(c, &msg);
		if (ret < 0)
			conn_break(c, NULL);
		if (ret <= 0)
			return;
		c->events->message(c->ctx, &msg);
		if (c->is_broken || fm_packet_conn_is_slow(c))
			return;
	}
}

static void conn_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_packet_conn *c = fm_container_of(watch, struct fm_packet_conn, watch);

	if (fm_packet_conn_is_slow(c)) {
		if (events & (EPOLLHUP | EPOLLERR))
			conn_break(c, NULL);
		else
			conn_flush(c);
		return;
	}
	conn_read(c);	/* finds the end by itself, after what came before it */
}

void fm_packet_shared_init(struct fm_packet_shared *shared, struct fm_loop *loop,
			   const struct fm_packet_limits *limits)
{
	*shared = (struct fm_packet_shared){ .loop = loop, .limits = limits };
	fm_share_init(&shared->queued, &limits->queue_total);
	fm_packet_shut_init(shared);
}

int fm_packet_conn_new(struct fm_packet_shared *shared, int fd, uid_t uid,
		       const struct fm_packet_events *events, void *ctx,
		       struct fm_packet_conn **out, struct fm_err *err)
{
	/* a message must fit the socket's buffer whole */
	int room = (int)(2 * shared->limits->send_max);
	struct fm_packet_conn *c;
	int ret;

	c = FM_FAULT("packet.conn") ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		fm_packet_close(shared, fd, uid);
		return fm_err_set(err, -ENOMEM, "no memory for a client");
	}
	c->shared = shared;
	c->uid = uid;
	c->events = events;
	c->ctx = ctx;
	c->watch = (struct fm_watch){ .ready = conn_ready, .fd = fd, .events = EPOLLIN };
	c->unread.fire = conn_unread;
	c->again.fire = conn_again;
	c->breaking.run = conn_break_run;
	fm_list_init(&c->unsent);
	if (fm_packet_is_apart(shared)) {
		set_passcred(fd);
		assert(shared->spare);	/* fm_packet_may_take() */
		c->shut = shared->spare;
		shared->spare = NULL;
	}
	/* As much as the system grants; it is only about how soon we have to wait. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	ret = fm_watch_add(shared->loop, &c->watch, err);
	if (ret < 0) {
		socket_close(shared, fd, uid, &c->shut);
		free(c->shut);
		free(c);
		return ret;
	}
	*out = c;
	return 0;
}

void fm_packet_conn_free(struct fm_packet_conn *conn)
{
	struct fm_packet_shared *shared;

	if (!conn)
		return;
	shared = conn->shared;
	if (!conn->is_broken)
		fm_watch_del(shared->loop, &conn->watch);
	fm_timer_clear(shared->loop, &conn->unread);
	fm_timer_clear(shared->loop, &conn->again);
	while (!fm_list_is_empty(&conn->unsent))
		conn_drop(conn, fm_container_of(conn->unsent.next, struct unsent, link));
	if (conn->receiving) {
		/* Two may not read at once: what is left is for the holder, too. */
		conn->receiving->conn = NULL;
		fm_packet_shut(shared, conn->watch.fd, conn->uid, &conn->shut);
	} else {
		socket_close(shared, conn->watch.fd, conn->uid, &conn->shut);
	}
	free(conn->shut);
	conn->is_freed = true;
	if (!conn->breaking.is_posted)
		free(conn);
}
