/* SPDX-License-Identifier: MIT */
/*
 * tcp_conn - the data path over TCP.
 *
 * Sending: no copy in user space and no system call per message. send() queues; what is queued
 * until the next pass goes out with one sendmsg(2) of headers (made on the stack), messages and
 * payloads where they lie.
 *
 * Receiving: recvmsg(2) fills the rest of the current payload in place and, behind it, a small
 * buffer with the headers that follow, so a chunk costs one system call, not two, and short
 * messages come many to a call. What of the next payload got into that buffer is copied: at most
 * AHEAD_MAX bytes of a chunk of megabytes. A payload comes to the memory lent, or to where place()
 * says: then divert() sends the rest of it to the memory lent.
 *
 * With TLS the same buffers go to fm_tls_sendv() and fm_tls_recvv() instead, or to the same system
 * calls where the kernel seals and opens. What the library has read and not opened yet no epoll
 * tells of: then the next pass goes on by itself.
 *
 * Fencing: one thread does it all, so memory that was taken back is written by nobody; if a payload
 * for it is just coming in, the connection breaks.
 *
 * Everything that fails only marks the connection; callbacks come from conn_kicked(), in a later
 * pass. So an entry can go on after any callback, looking at the state, and the memory goes only in
 * conn_kicked().
 */
#include "mover/transport/tcp_conn.h"

#include <assert.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/bytes.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/transport/tls.h"

#define PREFIX_LEN 16u				/* of a header: what is not the message */
#define HEAD_LEN (PREFIX_LEN + FM_DATA_MSG_LEN)
#define AHEAD_MAX 4096u				/* bytes read ahead: 51 headers */
#define BATCH_MAX 32u				/* messages in one sendmsg(2) */
/* each way in one pass, so that a lane's other connections have their turn */
#define PASS_BYTES_MAX (4u << 20)
#define PAYLOAD_MAX (1u << 30)
/* a lossy network loses a keepalive now and then, and there is only one a second */
#define IDLE_PATIENCE 3u
#define RTT_PATIENCE 4u		/* round trips: of a retransmission, with its time-out */
#define OFFSET_BITS 40				/* of `remote` */
#define OFFSET_MASK ((UINT64_C(1) << OFFSET_BITS) - 1)

_Static_assert(HEAD_LEN == 4 + 4 + 8 + 64, "a header and the table in tcp.h disagree");
_Static_assert(FM_TCP_REGIONS_MAX < 1u << (64 - OFFSET_BITS),
	       "a region's place must fit beside the offset");
_Static_assert(3 * BATCH_MAX <= 1024, "UIO_MAXIOV");

enum conn_state { CONN_READY, CONN_OPEN, CONN_BROKEN, CONN_CLOSING };

struct lent {
	uint8_t *memory;	/* NULL: the place is free */
	size_t len;
	uint32_t rkey;
};

struct tcp_conn {
	struct fm_conn base;
	enum conn_state state;
	bool is_ready_running;		/* what is sent now goes out at the end of conn_ready() */
	bool is_blocked;		/* the socket takes no more; epoll will tell */
	bool has_unread;		/* the library may have read more than was taken */
	struct fm_tls *tls;		/* NULL: plain, or shut */
	/* by the library; else the socket is used as if it were plain */
	bool is_sealing, is_opening;
	uint32_t records;		/* sealed so far, at most */
	struct fm_loop *loop;
	const struct fm_conn_events *events;
	void *ctx;
	struct fm_watch watch;
	struct fm_timer kick;
	struct fm_err err;		/* why it broke; code 0: told already */

	struct fm_send *head, **tail;
	unsigned queued;

	uint8_t ahead[AHEAD_MAX];	/* never a whole header, except inside in_parse() */
	size_t ahead_len;
	uint8_t msg[FM_DATA_MSG_LEN];	/* of the frame whose payload is coming in */
	uint8_t *payload_at;
	uint8_t *payload_lent;	/* where that is in the memory lent; payload_at may be elsewhere */
	uint32_t payload_left;
	uint32_t payload_place;		/* in the table: the memory it goes to */

	struct lent *lent;
	uint32_t lent_cap;
	uint32_t rkey_last;

	atomic_uint *live;
	struct fm_conn_info info;
};

static struct tcp_conn *conn_of(struct fm_conn *conn)
{
	return fm_container_of(conn, struct tcp_conn, base);
}

static void conn_kick(struct tcp_conn *c)
{
	if (!fm_timer_is_set(&c->kick))
		fm_timer_set(c->loop, &c->kick, fm_loop_now(c->loop));
}

/* ---- the end ---- */

/* From here on nothing of the peer gets into memory. */
static void conn_shut(struct tcp_conn *c)
{
	if (c->watch.fd < 0)
		return;
	if (c->loop)
		fm_watch_del(c->loop, &c->watch);
	fm_tls_free(c->tls);
	c->tls = NULL;
	close(c->watch.fd);
	c->watch.fd = -1;
	c->payload_left = 0;
	c->ahead_len = 0;
}

static void conn_free(struct tcp_conn *c)
{
	atomic_uint *live = c->live;

	assert(!c->head);
	conn_shut(c);
	if (c->info.encryption != FM_PLAIN)
		fm_budget_give(FM_TLS_DATA_BYTES);
	free(c->lent);
	free(c);
	atomic_fetch_sub(live, 1);
}

__attribute__((format(printf, 3, 4))) static void conn_fail(struct tcp_conn *c, int code,
							    const char *fmt, ...)
{
	char text[200];
	va_list args;

	if (c->state != CONN_OPEN)
		return;
	conn_shut(c);
	c->state = CONN_BROKEN;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fm_err_set(&c->err, code, "TCP %s to %s: %s", c->info.local_addr, c->info.remote_addr,
		   text);
	conn_kick(c);
}

/* Errors of recvmsg(2) and sendmsg(2), or of the library, which says more in err. */
static void conn_fail_with(struct tcp_conn *c, int code, const struct fm_err *err)
{
	if (err->code)
		conn_fail(c, code, "%s", err->text);
	else if (code == -ECONNRESET || code == -EPIPE)
		conn_fail(c, -ECONNRESET, "the peer reset the connection");
	else if (code == -EBADMSG && c->tls)
		conn_fail(c, code, FM_TLS_BROKEN_SEAL);
	else if (code == -EIO && c->tls)
		conn_fail(c, -EPROTO, "the peer sent what no data connection sends, or ended it");
	else if (code == -ETIMEDOUT)
		conn_fail(c, code, "the peer does not answer any more");
	else
		conn_fail(c, code, "%s", fm_err_name(code));
}

/* Those that done() sends anew are left to the next kick. */
static void conn_cancel_sends(struct tcp_conn *c)
{
	struct fm_send *send = c->head, *next;

	c->head = NULL;
	c->tail = &c->head;
	c->queued = 0;
	for (; send; send = next) {
		next = send->next;
		send->done(send, -ECANCELED);
	}
}

/* ---- sending ---- */

static void iov_add(struct iovec *iov, unsigned *count, const void *base, size_t len, size_t *skip)
{
	if (*skip >= len) {
		*skip -= len;
		return;
	}
	/* sendmsg(2) only reads, though its pointer is not const. */
	iov[*count].iov_base = (char *)(uintptr_t)base + *skip;
	iov[*count].iov_len = len - *skip;
	*skip = 0;
	(*count)++;
}

static void prefix_put(const struct fm_send *send, uint8_t prefix[PREFIX_LEN])
{
	struct fm_writer w = { .at = prefix, .end = prefix + PREFIX_LEN };

	fm_put_le32(&w, send->payload_len);
	fm_put_le32(&w, send->payload_len ? send->rkey : 0);
	fm_put_le64(&w, send->payload_len ? send->remote : 0);
}

/* One sendmsg(2) of what is queued. Bytes that left, or a negative errno. */
static ssize_t out_push(struct tcp_conn *c, size_t *wanted, struct fm_err *err)
{
	uint8_t prefix[BATCH_MAX][PREFIX_LEN];
	struct iovec iov[3 * BATCH_MAX];
	struct msghdr msg = { .msg_iov = iov };
	unsigned count = 0, sends = 0;
	size_t skip;
	ssize_t n;

	*wanted = 0;
	for (struct fm_send *s = c->head; s && sends < BATCH_MAX && *wanted < PASS_BYTES_MAX;
	     s = s->next, sends++) {
		prefix_put(s, prefix[sends]);
		skip = s->sent;
		iov_add(iov, &count, prefix[sends], PREFIX_LEN, &skip);
		iov_add(iov, &count, s->msg, FM_DATA_MSG_LEN, &skip);
		iov_add(iov, &count, s->payload, s->payload_len, &skip);
		*wanted += HEAD_LEN + s->payload_len - s->sent;
	}
	/* One for each head, one for each piece of a payload. */
	c->records += (uint32_t)(2 * sends + *wanted / FM_TLS_RECORD_MAX);
	if (c->is_sealing)
		return fm_tls_sendv(c->tls, iov, count, err);
	msg.msg_iovlen = count;
	n = FM_FAULT("tcp.sendmsg") ? (errno = ECONNRESET, -1)
				    : sendmsg(c->watch.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

/* n more bytes of the queue left. done() may do anything, close included. */
static void out_left(struct tcp_conn *c, size_t n)
{
	c->base.left += n;
	while (n > 0 && c->state == CONN_OPEN) {
		struct fm_send *send = c->head;
		size_t left = HEAD_LEN + send->payload_len - send->sent;

		if (n < left) {
			send->sent += (uint32_t)n;
			return;
		}
		n -= left;
		c->head = send->next;
		if (!c->head)
			c->tail = &c->head;
		c->queued--;
		send->done(send, 0);
	}
}

static void in_read(struct tcp_conn *c, size_t bytes_max);

/* The peer is gone, but its last messages may be here, and among them the one that says why:
 * deliver them first. */
static void out_fail(struct tcp_conn *c, int code, const struct fm_err *err)
{
	in_read(c, SIZE_MAX);
	conn_fail_with(c, code, err);
}

static bool out_is_worn(const struct tcp_conn *c)
{
	return c->tls && (c->records >= FM_TLS_RECORDS_MAX || FM_FAULT("tcp.worn"));
}

static void out_flush(struct tcp_conn *c)
{
	struct fm_err err = { 0 };
	size_t bytes = 0, wanted;
	ssize_t n;

	if (c->state == CONN_OPEN && c->is_sealing && !c->is_blocked) {
		n = fm_tls_flush(c->tls, &err);		/* what was sealed before */
		c->is_blocked = n == -EAGAIN;
		if (n < 0 && n != -EAGAIN) {
			out_fail(c, (int)n, &err);
			return;
		}
	}
	if (c->head && out_is_worn(c))
		conn_fail(c, -ESTALE,
			  "its keys have sealed as much as they should: a new connection takes its "
			  "place");
	while (c->state == CONN_OPEN && c->head && !c->is_blocked && bytes < PASS_BYTES_MAX) {
		n = out_push(c, &wanted, &err);
		if (n == -EINTR)
			continue;
		if (n < 0 && n != -EAGAIN) {
			out_fail(c, (int)n, &err);
			return;
		}
		c->is_blocked = n < 0 || (size_t)n < wanted;
		if (n > 0) {
			bytes += (size_t)n;
			out_left(c, (size_t)n);
		}
	}
	if (c->state != CONN_OPEN)
		return;
	c->is_blocked |= c->is_sealing && fm_tls_has_unsent(c->tls);
	fm_watch_mod(c->loop, &c->watch, c->is_blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
	if (c->head && !c->is_blocked)
		conn_kick(c);
}

/* ---- receiving ---- */

/* Where the payload goes, or NULL if that is not lent to this connection. */
static uint8_t *in_target(struct tcp_conn *c, uint32_t len, uint32_t rkey, uint64_t remote)
{
	uint64_t place = remote >> OFFSET_BITS, offset = remote & OFFSET_MASK;
	const struct lent *lent;

	if (place >= c->lent_cap)
		return NULL;
	lent = &c->lent[place];
	if (!lent->memory || lent->rkey != rkey || offset > lent->len || len > lent->len - offset)
		return NULL;
	c->payload_place = (uint32_t)place;
	return lent->memory + offset;
}

/* A payload begins that may go to payload_at. */
static void in_begin(struct tcp_conn *c, uint32_t len)
{
	uint8_t *at = NULL;

	c->payload_left = len;
	c->payload_lent = c->payload_at;
	if (len > 0 && c->events->place)
		at = c->events->place(c->ctx, c->msg, len);
	if (at)
		c->payload_at = at;
}

static void in_refuse(struct tcp_conn *c, uint32_t len, uint64_t remote)
{
	if (len == 0)
		conn_fail(c, -EPROTO, "the peer sent a chunk without its bytes");
	else
		conn_fail(c, -EPROTO,
			  "the peer wrote to a slot that is in use, or is not the one of its "
			  "message (%u bytes at offset %llu)",
			  len, (unsigned long long)(remote & OFFSET_MASK));
}

static bool in_head(struct tcp_conn *c, const uint8_t *head)
{
	struct fm_reader r = { .at = head, .end = head + HEAD_LEN };
	uint32_t len = fm_get_le32(&r), rkey = fm_get_le32(&r);
	uint64_t remote = fm_get_le64(&r);

	fm_get_bytes(&r, c->msg, FM_DATA_MSG_LEN);
	assert(!r.failed);
	if (len == 0 && (rkey || remote)) {
		conn_fail(c, -EPROTO, "the peer sent a header that makes no sense");
		return false;
	}
	c->payload_at = NULL;
	if (len > 0)
		c->payload_at = in_target(c, len, rkey, remote);
	if (len > 0 && !c->payload_at) {
		conn_fail(c, -EPROTO,
			  "the peer wrote outside the memory lent to it (%u bytes to place %llu, "
			  "offset %llu)",
			  len, (unsigned long long)(remote >> OFFSET_BITS),
			  (unsigned long long)(remote & OFFSET_MASK));
		return false;
	}
	if (c->events->may_write && !c->events->may_write(c->ctx, c->msg, remote, len)) {
		in_refuse(c, len, remote);
		return false;
	}
	in_begin(c, len);
	return true;
}

static void in_payload_came(struct tcp_conn *c, size_t len)
{
	assert(len <= c->payload_left);
	c->base.came += len;
	c->payload_at += len;
	c->payload_lent += len;
	c->payload_left -= (uint32_t)len;
}

/* Every whole frame that was read ahead, and the beginning of the payload of one that is not
 * whole. */
static void in_parse(struct tcp_conn *c)
{
	size_t at = 0, take;

	while (c->ahead_len - at >= HEAD_LEN) {
		if (!in_head(c, c->ahead + at))
			return;
		at += HEAD_LEN;
		take = c->ahead_len - at < c->payload_left ? c->ahead_len - at : c->payload_left;
		if (take > 0) {
			memcpy(c->payload_at, c->ahead + at, take);
			in_payload_came(c, take);
			at += take;
		}
		if (c->payload_left > 0)
			break;
		c->events->message(c->ctx, c->msg);
		if (c->state != CONN_OPEN)
			return;
	}
	memmove(c->ahead, c->ahead + at, c->ahead_len - at);
	c->ahead_len -= at;
}

/* One recvmsg(2): as much of the payload as is due, then headers. Bytes, 0 at the end, or a
 * negative errno. */
static ssize_t in_pull(struct tcp_conn *c, size_t *wanted, struct fm_err *err)
{
	struct iovec iov[2];
	struct msghdr msg = { .msg_iov = iov };
	size_t payload = c->payload_left < PASS_BYTES_MAX ? c->payload_left : PASS_BYTES_MAX;
	ssize_t n;

	if (payload > 0)
		iov[msg.msg_iovlen++] =
			(struct iovec){.iov_base = c->payload_at, .iov_len = payload};
	if (payload == c->payload_left)
		iov[msg.msg_iovlen++] = (struct iovec){ .iov_base = c->ahead + c->ahead_len,
							.iov_len = AHEAD_MAX - c->ahead_len };
	*wanted = iov[0].iov_len + (msg.msg_iovlen > 1 ? iov[1].iov_len : 0);
	if (c->is_opening)
		return fm_tls_recvv(c->tls, iov, (unsigned)msg.msg_iovlen, err);
	n = FM_FAULT("tcp.recvmsg") ? (errno = ECONNRESET, -1)
				    : recvmsg(c->watch.fd, &msg, MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

static void in_came(struct tcp_conn *c, size_t n)
{
	size_t payload = n < c->payload_left ? n : c->payload_left;

	if (payload > 0) {
		in_payload_came(c, payload);
		if (c->payload_left > 0)
			return;
		/* before the callback, which may break the connection */
		c->ahead_len = n - payload;
		c->events->message(c->ctx, c->msg);
		if (c->state != CONN_OPEN)
			return;
	} else {
		c->ahead_len += n;
	}
	in_parse(c);
}

/* Until the socket is empty, or bytes_max (about). */
static void in_read(struct tcp_conn *c, size_t bytes_max)
{
	struct fm_err err = { 0 };
	size_t bytes = 0, wanted = 0;
	ssize_t n;

	c->has_unread = false;
	while (c->state == CONN_OPEN && bytes < bytes_max) {
		n = in_pull(c, &wanted, &err);
		if (n == -EAGAIN)
			return;
		if (n == -EINTR)
			continue;
		if (n == 0)
			conn_fail(c, -ECONNRESET, "%s", c->payload_left > 0 || c->ahead_len > 0 ?
				  "the peer closed the connection in the middle of a message" :
				  "the peer closed the connection");
		else if (n < 0)
			conn_fail_with(c, (int)n, &err);
		else
			in_came(c, (size_t)n);
		/* A short read emptied the socket: do not ask again only to hear EAGAIN. */
		if (n > 0 && (size_t)n < wanted && bytes_max != SIZE_MAX)
			return;
		bytes += n > 0 ? (size_t)n : 0;
	}
	c->has_unread = c->is_opening;
}

/* ---- what the loop calls ---- */

static void conn_run(struct tcp_conn *c, bool is_readable)
{
	c->is_ready_running = true;
	if (is_readable)
		in_read(c, PASS_BYTES_MAX);
	out_flush(c);
	c->is_ready_running = false;
	if (c->state == CONN_OPEN && c->has_unread)
		conn_kick(c);
}

static void conn_ready(struct fm_watch *watch, uint32_t events)
{
	struct tcp_conn *c = fm_container_of(watch, struct tcp_conn, watch);

	if (events & EPOLLOUT)
		c->is_blocked = false;
	conn_run(c, events & (EPOLLIN | EPOLLERR | EPOLLHUP));
}

static void conn_kicked(struct fm_timer *timer)
{
	struct tcp_conn *c = fm_container_of(timer, struct tcp_conn, kick);
	const struct fm_conn_events *events = c->events;
	void *ctx = c->ctx;
	struct fm_err err;

	if (c->state == CONN_OPEN) {
		conn_run(c, c->has_unread);
		return;
	}
	do {
		conn_cancel_sends(c);
	} while (c->state == CONN_CLOSING &&
		 c->head); /* a done() sent again, the next one closed */
	if (c->state == CONN_CLOSING) {
		/* close() may have come from a done() just now */
		fm_timer_clear(c->loop, &c->kick);
		conn_free(c);
		events->closed(ctx);
	} else if (c->err.code) {
		err = c->err;
		c->err.code = 0;
		events->failed(ctx, &err);
	}
}

/* ---- what the engine calls ---- */

static void tcp_attach(struct fm_conn *conn, struct fm_loop *loop,
		       const struct fm_conn_events *events, void *ctx)
{
	struct tcp_conn *c = conn_of(conn);
	struct fm_err err = { 0 };

	assert(c->state == CONN_READY && events);
	c->state = CONN_OPEN;
	c->loop = loop;
	c->events = events;
	c->ctx = ctx;
	if (fm_watch_add(loop, &c->watch, &err) < 0)
		conn_fail(c, err.code, "%s", err.text);
	else if (c->head || c->has_unread)
		conn_kick(c);
}

/* A free place in the table, which grows. -ENOSPC, -ENOMEM. */
static int lent_find(struct tcp_conn *c, uint32_t *out)
{
	uint32_t place, cap = c->lent_cap ? 2 * c->lent_cap : 16;
	struct lent *bigger;

	for (place = 0; place < c->lent_cap; place++)
		if (!c->lent[place].memory)
			break;
	*out = place;
	if (place < c->lent_cap)
		return 0;
	if (cap > FM_TCP_REGIONS_MAX)
		return -ENOSPC;
	bigger = FM_FAULT("tcp.alloc_lent") ? NULL : realloc(c->lent, cap * sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	memset(bigger + c->lent_cap, 0, (cap - c->lent_cap) * sizeof(*bigger));
	c->lent = bigger;
	c->lent_cap = cap;
	return 0;
}

static int tcp_lend(struct fm_conn *conn, void *memory, size_t len, bool is_rx,
		    struct fm_region *out, struct fm_err *err)
{
	struct tcp_conn *c = conn_of(conn);
	uint32_t place;
	int ret;

	assert(memory && len > 0 && len <= OFFSET_MASK);
	memset(out, 0, sizeof(*out));
	out->memory = memory;
	out->len = len;
	if (!is_rx)
		return 0;
	ret = FM_FAULT("tcp.lend") ? -ENOMEM : lent_find(c, &place);
	if (ret < 0)
		return fm_err_sys(err, ret, "lend memory to a TCP connection");
	if (++c->rkey_last == 0)
		c->rkey_last = 1;
	c->lent[place] = (struct lent){ .memory = memory, .len = len, .rkey = c->rkey_last };
	out->remote = (uint64_t)place << OFFSET_BITS;
	out->rkey = c->rkey_last;
	out->handle = c;	/* tells it from memory to send from */
	return 0;
}

static void tcp_take_back(struct fm_conn *conn, struct fm_region *region)
{
	struct tcp_conn *c = conn_of(conn);
	uint64_t place = region->remote >> OFFSET_BITS;

	for (const struct fm_send *s = c->head; s; s = s->next)
		assert(s->region != region || !s->payload_len);
	if (!region->handle)
		return;
	assert(region->handle == c && place < c->lent_cap && c->lent[place].rkey == region->rkey);
	c->lent[place].memory = NULL;
	region->handle = NULL;
	if (c->payload_left > 0 && c->payload_place == place)
		conn_fail(c, -EPROTO,
			  "the peer was writing to memory that it was asked to give back");
}

static void tcp_divert(struct fm_conn *conn)
{
	struct tcp_conn *c = conn_of(conn);

	c->payload_at = c->payload_lent;
}

static bool is_inside(const struct fm_send *send)
{
	const char *from, *at = send->payload;

	if (!send->region)
		return true;
	from = send->region->memory;
	return at >= from && (size_t)(at - from) <= send->region->len &&
	       send->payload_len <= send->region->len - (size_t)(at - from);
}

static void tcp_send(struct fm_conn *conn, struct fm_send *send)
{
	struct tcp_conn *c = conn_of(conn);

	assert(c->state != CONN_CLOSING && send->done && c->queued < FM_DATA_MSGS_MAX);
	assert(send->payload_len <= PAYLOAD_MAX && (send->payload_len == 0 || is_inside(send)));
	send->sent = 0;
	send->next = NULL;
	*c->tail = send;
	c->tail = &send->next;
	c->queued++;
	if (c->loop && (c->state == CONN_BROKEN || (!c->is_blocked && !c->is_ready_running)))
		conn_kick(c);
}

static void tcp_close(struct fm_conn *conn)
{
	struct tcp_conn *c = conn_of(conn);

	assert(c->state != CONN_CLOSING);
	if (c->state == CONN_READY) {
		conn_free(c);
		return;
	}
	if (c->state == CONN_OPEN && c->is_sealing)
		/* its last words, if they go without waiting */
		(void)fm_tls_flush(c->tls, NULL);
	conn_shut(c);
	c->state = CONN_CLOSING;
	conn_kick(c);
}

/*
 * An idle connection has its keepalive (tcp.c), and one that sends has acknowledgements. One over
 * which data comes has neither: the kernel counts no acknowledgement that says nothing new, and
 * does not probe. A far end that takes nothing just now (its window is shut) is asked ever more
 * rarely, which says nothing of the network. A slow network answers late, and later after a loss.
 */
static bool tcp_is_silent(const struct fm_conn *conn, uint64_t for_ns)
{
	const struct tcp_conn *c = fm_container_of(conn, const struct tcp_conn, base);
	struct tcp_info info;
	socklen_t len = sizeof(info);
	uint64_t silent_ms;

	if (c->state != CONN_OPEN ||
	    getsockopt(c->watch.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return false;
	if (info.tcpi_unacked == 0)
		for_ns *= IDLE_PATIENCE;
	for_ns += (uint64_t)info.tcpi_rtt * 1000 * RTT_PATIENCE;
	silent_ms = info.tcpi_last_data_recv < info.tcpi_last_ack_recv ? info.tcpi_last_data_recv
								       : info.tcpi_last_ack_recv;
	return silent_ms * FM_NS_PER_MS >= for_ns && info.tcpi_snd_wnd > 0;
}

static const struct fm_conn_info *tcp_info(const struct fm_conn *conn)
{
	return &fm_container_of(conn, const struct tcp_conn, base)->info;
}

static const struct fm_conn_ops conn_ops = {
	.attach = tcp_attach,
	.lend = tcp_lend,
	.take_back = tcp_take_back,
	.divert = tcp_divert,
	.send = tcp_send,
	.close = tcp_close,
	.is_silent = tcp_is_silent,
	.info = tcp_info,
};

static enum fm_encryption encryption_of(const struct fm_tls *tls)
{
	if (!tls)
		return FM_PLAIN;
	return fm_tls_is_kernel_sending(tls) || fm_tls_is_kernel_receiving(tls) ? FM_TLS_KERNEL
										: FM_TLS;
}

int fm_tcp_conn_new(int fd, struct fm_tls *tls, const struct fm_conn_info *info, atomic_uint *live,
		    struct fm_conn **out)
{
	struct tcp_conn *c;

	if (tls && !fm_budget_take(FM_TLS_DATA_BYTES))
		return -ENOMEM;
	c = FM_FAULT("tcp.alloc_conn") ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		if (tls)
			fm_budget_give(FM_TLS_DATA_BYTES);
		return -ENOMEM;
	}
	c->base.ops = &conn_ops;
	c->state = CONN_READY;
	c->watch = (struct fm_watch){ .ready = conn_ready, .fd = fd, .events = EPOLLIN };
	c->kick.fire = conn_kicked;
	c->tail = &c->head;
	c->info = *info;
	c->info.encryption = encryption_of(tls);
	c->tls = tls;
	c->is_sealing = tls && !fm_tls_is_kernel_sending(tls);
	c->is_opening = tls && !fm_tls_is_kernel_receiving(tls);
	c->has_unread = c->is_opening;
	c->live = live;
	atomic_fetch_add(live, 1);
	*out = &c->base;
	return 0;
}
