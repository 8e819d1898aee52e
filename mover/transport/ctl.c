/* SPDX-License-Identifier: MIT */
/*
 * ctl - control connections.
 *
 * Dialled:   START - LOOKUP - CONNECT (each address in turn) - HANDSHAKE - WELCOME - OPEN
 * Accepted:  HANDSHAKE (half-open, nobody's) - OPEN (the engine's, if it wants it); a data
 * connection is handed over instead Failure:   from any state to BROKEN: socket and timers are
 * gone, closed() is called, the owner's close frees it. A half-open one is logged and freed.
 *
 * Every entry from the loop is between ctl_enter() and ctl_exit(): the owner may close the
 * connection in any callback, and it is freed when the last entry ends.
 */
#include "mover/transport/ctl.h"

#include <assert.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/bytes.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/transport/addr.h"
#include "mover/transport/listen.h"
#include "mover/transport/resolve.h"
#include "mover/transport/tls.h"

#define TIMEOUT_DEFAULT_NS (5 * FM_NS_PER_S)
#define USER_TIMEOUT_MS 10000u	/* unacknowledged data for so long: the peer is gone */
/* and so it is after 4 + 3 * 2 s without an answer when there is no data */
#define KEEPALIVE_IDLE_S 4
#define KEEPALIVE_EVERY_S 2
#define KEEPALIVE_PROBES 3
/* over a port that carries nothing nobody answers: a way that works does so in this time */
#define DEAD_CONNECT_NS (500 * FM_NS_PER_MS)
/* in a row: after a second and a half on a cable, later where a round trip takes long */
#define STUCK_RETRANSMITS 3
/* Where the kernel repeats rarely, since round trips took long or cables came and went. */
#define STUCK_NS (2 * FM_NS_PER_S)
#define FRAME_HEAD 4
/* the read buffer grows to FRAME_HEAD + FM_CTL_MSG_MAX when a message needs it */
#define IN_FIRST 4096u
#define OUT_FIRST 4096u
#define OUT_KEPT 65536u		/* a bigger write buffer is freed once it is empty */
#define READS_MAX 16		/* of at most a buffer each, in one pass */
#define HOST_MAX 1100		/* a longer one is cut, and then not found */
#define DRAIN_MAX 65536		/* bytes read for nothing before closing */

enum ctl_state {
	CTL_START,
	CTL_LOOKUP,
	CTL_CONNECT,
	CTL_HANDSHAKE,
	CTL_WELCOME,
	CTL_OPEN,
	CTL_BROKEN
};

struct fm_ctl {
	struct fm_ctls *ctls;
	struct fm_list link;
	enum ctl_state state;
	bool is_dialled;
	bool is_join;			/* dialled so */
	/* by its owner, or it has none: free it when the last entry ends */
	bool is_closed;
	bool is_blocked;		/* the socket takes no more for now */
	unsigned entries;
	const struct fm_ctl_events *events;	/* NULL: half-open */
	void *ctx;

	struct fm_half half;
	struct fm_watch watch;		/* fd -1: no socket */
	struct fm_timer deadline;	/* of the whole dial, or of one address of it */
	struct fm_timer kick;		/* due work: begin, write, read on */
	struct fm_tls *tls;

	uint64_t timeout_ns;
	uint64_t connect_ns;
	uint64_t give_up_ns;
	struct sockaddr_storage from;	/* what the socket is bound to; ss_family 0: nothing */
	char from_name[FM_RAIL_NAME_MAX];
	uint8_t key[FM_KEY_LEN];
	struct fm_resolve *resolve;
	struct sockaddr_storage addrs[FM_RESOLVE_ADDRS_MAX];
	unsigned addr_count, addr_at;
	struct fm_err connect_err;	/* of the address tried last */

	struct sockaddr_storage local, remote;
	char peer[FM_ADDR_PORT_TEXT_MAX];	/* "" until connected */

	uint8_t *in;
	size_t in_len, in_cap;
	uint8_t *out;			/* [out_at, out_len) waits to be sent */
	size_t out_at, out_len, out_cap;

	uint64_t acked;			/* bytes, when they were looked at last */
	uint64_t unacked_ns;		/* since then no more, though some wait for it; 0: none */

	uint16_t port;
	char name[];			/* the host that was dialled, ":", the port */
};

static bool is_live(const struct fm_ctl *ctl)
{
	return !ctl->is_closed && (ctl->state == CTL_WELCOME || ctl->state == CTL_OPEN);
}

/* ctl->name without the port, and without the brackets of an IPv6 address. */
static void host_of(const struct fm_ctl *ctl, char out[HOST_MAX])
{
	bool is_bracketed = ctl->name[0] == '[';
	size_t len = (size_t)(strrchr(ctl->name, ':') - ctl->name);

	snprintf(out, HOST_MAX, "%.*s", (int)(is_bracketed ? len - 2 : len),
		 ctl->name + is_bracketed);
}

/* ---- the end ---- */

/*
 * If bytes that came lie unread when the socket is closed, the kernel sends a reset, which may
 * overtake what we sent last: the peer would see "reset" where the TLS alert said why.
 */
static void fd_close(int fd)
{
	uint8_t waste[4096];

	for (unsigned n = 0; n < DRAIN_MAX / sizeof(waste); n++)
		if (recv(fd, waste, sizeof(waste), MSG_DONTWAIT) <= 0)
			break;
	/* not connected, perhaps: then there is nothing to shut down */
	(void)shutdown(fd, SHUT_WR);
	close(fd);
}

static void ctl_drop_socket(struct fm_ctl *ctl)
{
	if (ctl->tls)
		fm_tls_end(ctl->tls);
	fm_tls_free(ctl->tls);
	ctl->tls = NULL;
	if (ctl->watch.fd < 0)
		return;
	fm_watch_del(ctl->ctls->loop, &ctl->watch);
	fd_close(ctl->watch.fd);
	ctl->watch.fd = -1;
}

/* Everything but memory. */
static void ctl_break(struct fm_ctl *ctl)
{
	ctl->state = CTL_BROKEN;
	fm_half_leave(&ctl->half);
	fm_resolve_cancel(ctl->resolve);
	ctl->resolve = NULL;
	fm_timer_clear(ctl->ctls->loop, &ctl->deadline);
	fm_timer_clear(ctl->ctls->loop, &ctl->kick);
	ctl_drop_socket(ctl);
}

static void ctl_free(struct fm_ctl *ctl)
{
	assert(ctl->state == CTL_BROKEN && ctl->entries == 0);
	fm_list_del(&ctl->link);
	fm_budget_free(ctl->in);
	fm_budget_free(ctl->out);
	free(ctl);
}

static void ctl_enter(struct fm_ctl *ctl)
{
	ctl->entries++;
}

static void ctl_exit(struct fm_ctl *ctl)
{
	assert(ctl->entries > 0);
	if (--ctl->entries == 0 && ctl->is_closed)
		ctl_free(ctl);
}

/* What tells our port of a dial: its address, else that of the far end. NULL: it did not come so
 * far. */
static const struct sockaddr_storage *port_of(const struct fm_ctl *ctl)
{
	if (ctl->from.ss_family)
		return &ctl->from;
	if (ctl->local.ss_family)	/* connected, perhaps past a port that carries nothing */
		return &ctl->local;
	return ctl->addr_at > 0 ? &ctl->addrs[ctl->addr_at - 1] : NULL;
}

/*
 * Of a dial that fails, over which of our ports it went: that is the cable to look at. Where the
 * kernel chose no port, perhaps since none carries anything, it is one of those that could have
 * been taken.
 */
static void name_port(const struct fm_ctl *ctl, struct fm_err *err)
{
	const struct sockaddr_storage *in = port_of(ctl);
	struct fm_err why = *err;
	struct fm_addr dead;
	char ip[FM_ADDR_TEXT_MAX];

	if (in && fm_addr_find_dead(in, &dead)) {
		fm_addr_text(&dead.sa, ip);
		fm_err_set(err, why.code,
			   "from %s over %s, which carries nothing: %s; look at that cable, or "
			   "name another address of the peer",
			   ip, dead.name, why.text);
	} else if (ctl->from.ss_family) {
		fm_addr_text(&ctl->from, ip);
		(void)fm_err_wrap(err, "from %s over %s", ip, ctl->from_name);
	}
}

/* Inside an entry. The text gets who it is about. */
static void ctl_fail(struct fm_ctl *ctl, const struct fm_err *cause)
{
	bool is_dial = ctl->is_dialled && ctl->state < CTL_OPEN;
	struct fm_err err = *cause;
	char host[HOST_MAX];

	assert(ctl->entries > 0 && ctl->state != CTL_BROKEN);
	ctl_break(ctl);
	if (!ctl->events) {
		fm_listener_refused(ctl->ctls->listener, &ctl->remote, cause->text);
		ctl->is_closed = true;
		return;
	}
	host_of(ctl, host);
	if (!ctl->is_dialled || strcmp(ctl->name, ctl->peer) == 0)
		fm_err_wrap(&err, "%s", ctl->peer);
	else if (!ctl->peer[0])
		fm_err_wrap(&err, "%s", ctl->name);
	else
		fm_err_wrap(&err, "%s (%s)", host, ctl->peer);
	if (is_dial)
		name_port(ctl, &err);
	ctl->events->closed(ctl->ctx, &err);
}

static void ctl_fail_with(struct fm_ctl *ctl, int code, const char *text)
{
	struct fm_err err;

	fm_err_set(&err, code, "%s", text);
	ctl_fail(ctl, &err);
}

/* ---- sending ---- */

static void ctl_kick(struct fm_ctl *ctl)
{
	if (!fm_timer_is_set(&ctl->kick))
		fm_timer_set(ctl->ctls->loop, &ctl->kick, fm_loop_now(ctl->ctls->loop));
}

/* Make room for len more bytes behind out_len. */
static int out_reserve(struct fm_ctl *ctl, size_t len)
{
	size_t cap = ctl->out_cap ? ctl->out_cap : OUT_FIRST;
	uint8_t *bigger;

	if (ctl->out_at > 0) {
		memmove(ctl->out, ctl->out + ctl->out_at, ctl->out_len - ctl->out_at);
		ctl->out_len -= ctl->out_at;
		ctl->out_at = 0;
	}
	while (cap < ctl->out_len + len)
		cap *= 2;
	if (cap == ctl->out_cap)
		return 0;
	bigger = FM_FAULT("ctl.alloc_out") ? NULL : fm_budget_realloc_link(ctl->out, cap);
	if (!bigger)
		return -ENOMEM;
	ctl->out = bigger;
	ctl->out_cap = cap;
	return 0;
}

/* len 0: the welcome. */
static int out_frame(struct fm_ctl *ctl, const uint8_t *msg, size_t len)
{
	struct fm_writer w;

	if (ctl->out_cap - ctl->out_len < FRAME_HEAD + len &&
	    out_reserve(ctl, FRAME_HEAD + len) < 0)
		return -ENOMEM;
	w = (struct fm_writer){ .at = ctl->out + ctl->out_len, .end = ctl->out + ctl->out_cap };
	fm_put_le32(&w, (uint32_t)len);
	if (len > 0)
		fm_put_bytes(&w, msg, len);
	assert(!w.failed);
	ctl->out_len += FRAME_HEAD + len;
	return 0;
}

/* 0 also when the socket takes no more. */
static int ctl_write(struct fm_ctl *ctl, struct fm_err *err)
{
	ssize_t n;

	while (ctl->out_at < ctl->out_len) {
		n = fm_tls_write(ctl->tls, ctl->out + ctl->out_at, ctl->out_len - ctl->out_at, err);
		if (n == -EAGAIN) {
			ctl->is_blocked = fm_tls_wants(ctl->tls) == EPOLLOUT;
			return 0;
		}
		if (n < 0)
			return (int)n;
		ctl->out_at += (size_t)n;
	}
	ctl->out_at = ctl->out_len = 0;
	if (ctl->out_cap > OUT_KEPT) {
		fm_budget_free(ctl->out);
		ctl->out = NULL;
		ctl->out_cap = 0;
	}
	return 0;
}

/*
 * Whether what was sent waits for an acknowledgement, and for a while none has come that says more.
 * A kernel that repeats every few seconds, by chance whenever the cable is out, would count no
 * repeats; and what still comes from the peer says nothing of what goes there.
 */
static bool waits_long(struct fm_ctl *ctl, const struct tcp_info *info)
{
	uint64_t now_ns = fm_loop_now(ctl->ctls->loop);

	if (info->tcpi_unacked == 0 || info->tcpi_bytes_acked != ctl->acked)
		ctl->unacked_ns = 0;
	else if (ctl->unacked_ns == 0)
		ctl->unacked_ns = now_ns;
	ctl->acked = info->tcpi_bytes_acked;
	return ctl->unacked_ns > 0 && now_ns - ctl->unacked_ns >= STUCK_NS;
}

/*
 * By the kernels of both ends alone: how busy the daemons are does not matter. Probes are of a peer
 * that has no room, which answers them, or of what cannot even leave: the interface is down.
 */
bool fm_ctl_is_stuck(struct fm_ctl *ctl)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (ctl->state != CTL_OPEN ||
	    getsockopt(ctl->watch.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return false;
	return waits_long(ctl, &info) || info.tcpi_retransmits >= STUCK_RETRANSMITS ||
	       info.tcpi_probes >= STUCK_RETRANSMITS;
}

size_t fm_ctl_queued(const struct fm_ctl *ctl)
{
	return ctl->out_len - ctl->out_at;
}

int fm_ctl_send(struct fm_ctl *ctl, const uint8_t *msg, size_t len)
{
	int ret;

	assert(len > 0 && len <= FM_CTL_MSG_MAX && !ctl->is_closed);
	if (ctl->state == CTL_BROKEN)
		return -EPIPE;
	if (fm_ctl_queued(ctl) + FRAME_HEAD + len > FM_CTL_QUEUE_MAX)
		return -ENOBUFS;
	ret = out_frame(ctl, msg, len);
	/* Written in a later pass, together with what is sent until then. */
	if (ret == 0 && ctl->state == CTL_OPEN && !ctl->is_blocked)
		ctl_kick(ctl);
	return ret;
}

/* ---- receiving ---- */

/* Make room for the rest of the message whose beginning is there. */
static int in_reserve(struct fm_ctl *ctl)
{
	struct fm_reader r;
	size_t cap = IN_FIRST, need;
	uint8_t *bigger;

	if (ctl->in_len >= FRAME_HEAD) {
		r = (struct fm_reader){ .at = ctl->in, .end = ctl->in + ctl->in_len };
		need = FRAME_HEAD + fm_get_le32(&r);	/* checked already, see in_frame() */
		cap = need > cap ? need : cap;
	}
	if (cap <= ctl->in_cap)
		return 0;
	bigger = FM_FAULT("ctl.alloc_in") ? NULL : fm_budget_realloc_link(ctl->in, cap);
	if (!bigger)
		return -ENOMEM;
	ctl->in = bigger;
	ctl->in_cap = cap;
	return 0;
}

/* One frame from the front of [at, len): the bytes it took; 0 if it is not complete, or if it was
 * the last. */
static size_t in_frame(struct fm_ctl *ctl, const uint8_t *at, size_t len)
{
	struct fm_reader r = { .at = at, .end = at + len };
	uint32_t msg_len;

	if (len < FRAME_HEAD)
		return 0;
	msg_len = fm_get_le32(&r);
	if (ctl->state == CTL_WELCOME && msg_len == 0) {
		ctl->state = CTL_OPEN;
		fm_timer_clear(ctl->ctls->loop, &ctl->deadline);
		ctl->events->opened(ctl->ctx);
		return FRAME_HEAD;
	}
	if (ctl->state == CTL_WELCOME || msg_len == 0 || msg_len > FM_CTL_MSG_MAX) {
		ctl_fail_with(ctl, -EPROTO, "it sent a message of a size that is not allowed");
		return 0;
	}
	if (len - FRAME_HEAD < msg_len)
		return 0;
	ctl->events->message(ctl->ctx, at + FRAME_HEAD, msg_len);
	return FRAME_HEAD + msg_len;
}

static void in_parse(struct fm_ctl *ctl)
{
	size_t at = 0, took;

	do {
		took = in_frame(ctl, ctl->in + at, ctl->in_len - at);
		at += took;
	} while (took > 0 && is_live(ctl));
	memmove(ctl->in, ctl->in + at, ctl->in_len - at);
	ctl->in_len -= at;
}

static void ctl_read_end(struct fm_ctl *ctl, ssize_t n, const struct fm_err *err)
{
	if (n < 0)
		ctl_fail(ctl, err);
	else if (ctl->state == CTL_WELCOME)
		ctl_fail_with(ctl, -ECONNREFUSED, "it does not want the connection");
	else
		ctl_fail_with(ctl, -ECONNRESET, "it closed the connection");
}

static void ctl_read(struct fm_ctl *ctl)
{
	struct fm_err err = { 0 };
	ssize_t n;

	for (unsigned i = 0; i < READS_MAX && is_live(ctl); i++) {
		if (in_reserve(ctl) < 0) {
			ctl_fail_with(ctl, -ENOMEM, "no memory for its message");
			return;
		}
		n = fm_tls_read(ctl->tls, ctl->in + ctl->in_len, ctl->in_cap - ctl->in_len, &err);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			ctl_read_end(ctl, n, &err);
			return;
		}
		ctl->in_len += (size_t)n;
		in_parse(ctl);
	}
	/* Others have their turn; what TLS has decrypted already no epoll tells of. */
	if (is_live(ctl) && fm_tls_has_pending(ctl->tls))
		ctl_kick(ctl);
}

/* Write what waits, then watch for what is missing. The last step of an entry on a live
 * connection. */
static void ctl_settle(struct fm_ctl *ctl)
{
	struct fm_err err = { 0 };

	if (!is_live(ctl))
		return;
	if (ctl->state == CTL_OPEN && !ctl->is_blocked && ctl_write(ctl, &err) < 0) {
		ctl_fail(ctl, &err);
		return;
	}
	fm_watch_mod(ctl->ctls->loop, &ctl->watch, ctl->is_blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* ---- the handshake ---- */

static bool ctls_is_known(void *ctx, const uint8_t key[FM_KEY_LEN])
{
	struct fm_ctls *ctls = ctx;

	return ctls->events && ctls->events->is_known(ctls->ctx, key);
}

static int ctl_begin_tls(struct fm_ctl *ctl, struct fm_err *err)
{
	struct fm_tls_opts opts = {
		.fd = ctl->watch.fd,
		.is_dialled = ctl->is_dialled,
		.is_join = ctl->is_dialled ? ctl->is_join : ctl->ctls->join != NULL,
		.is_known = ctls_is_known,
		.ctx = ctl->ctls,
	};

	memcpy(opts.key, ctl->key, FM_KEY_LEN);
	ctl->state = CTL_HANDSHAKE;
	return fm_tls_new(ctl->ctls->node, &opts, &ctl->tls, err);
}

/* It carries data, not messages: what is left here is only memory. */
static void ctl_hand_over(struct fm_ctl *ctl)
{
	struct fm_ctls *ctls = ctl->ctls;
	struct sockaddr_storage peer = ctl->remote;
	struct fm_tls *tls = ctl->tls;
	int fd = ctl->watch.fd;

	fm_watch_del(ctls->loop, &ctl->watch);
	ctl->watch.fd = -1;
	ctl->tls = NULL;
	ctl_break(ctl);
	ctl->is_closed = true;
	ctls->data(ctls->data_ctx, fd, tls, &peer);
}

/* The handshake of an accepted connection is done. Whose is it? */
static void ctl_accepted(struct fm_ctl *ctl)
{
	const uint8_t *key = fm_tls_peer_key(ctl->tls);
	const struct fm_ctl_events *events = NULL;
	struct fm_ctls *ctls = ctl->ctls;
	bool is_wanted;
	void *ctx = NULL;

	fm_half_leave(&ctl->half);
	if (fm_tls_is_data(ctl->tls)) {
		ctl_hand_over(ctl);
		return;
	}
	if (out_frame(ctl, NULL, 0) < 0) {
		ctl_fail_with(ctl, -ENOMEM, "no memory for the connection");
		return;
	}
	ctl->state = CTL_OPEN;
	if (fm_tls_is_join(ctl->tls))
		is_wanted =
			ctls->join && ctls->join->accepted(ctls->join_ctx, ctl, key, &events, &ctx);
	else
		is_wanted =
			ctls->events && ctls->events->accepted(ctls->ctx, ctl, key, &events, &ctx);
	if (ctl->is_closed)
		return;
	if (!is_wanted) {
		ctl_break(ctl);
		ctl->is_closed = true;
		return;
	}
	assert(events);
	ctl->events = events;
	ctl->ctx = ctx;
}

static void ctl_handshake(struct fm_ctl *ctl)
{
	struct fm_err err = { 0 };
	int ret;

	ret = fm_tls_handshake(ctl->tls, &err);
	if (ret == -EAGAIN) {
		fm_watch_mod(ctl->ctls->loop, &ctl->watch, fm_tls_wants(ctl->tls));
		return;
	}
	if (ret < 0) {
		ctl_fail(ctl, &err);
		return;
	}
	if (ctl->is_dialled)
		ctl->state = CTL_WELCOME;
	else
		ctl_accepted(ctl);
	/* Its first messages may have come in the same record as the end of the handshake. */
	if (is_live(ctl))
		ctl_read(ctl);
}

/* ---- connecting ---- */

/* All of them only make trouble show sooner: a connection without them works. */
static void fd_set_options(int fd)
{
	const unsigned user_timeout_ms = USER_TIMEOUT_MS;
	const int on = 1, idle_s = KEEPALIVE_IDLE_S, every_s = KEEPALIVE_EVERY_S,
		  probes = KEEPALIVE_PROBES;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms,
			 sizeof(user_timeout_ms));
}

/* Whether the port that the kernel chose carries nothing, as far as its address says that: a route
 * may name one of another port. */
static bool is_port_dead(const struct fm_ctl *ctl)
{
	struct sockaddr_storage local = { 0 };
	socklen_t len = sizeof(local);
	struct fm_addr dead;

	return getsockname(ctl->watch.fd, (struct sockaddr *)&local, &len) == 0 &&
	       fm_addr_find_dead(&local, &dead);
}

static int connect_start(struct fm_ctl *ctl, const struct sockaddr_storage *sa, struct fm_err *err)
{
	int fd, ret;

	fd = FM_FAULT("ctl.socket")
		     ? (errno = EMFILE, -1)
		     : socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fm_err_sys(err, -errno, "socket");
	fd_set_options(fd);
	ctl->watch.fd = fd;
	ctl->watch.events = EPOLLOUT;
	if (ctl->from.ss_family == sa->ss_family &&
	    bind(fd, (const struct sockaddr *)&ctl->from, fm_addr_len(&ctl->from)) < 0) {
		ret = fm_addr_connect_err(err, -errno);
		ctl->watch.fd = -1;
		close(fd);
		return ret;
	}
	ret = FM_FAULT("ctl.connect") ? (errno = ENETUNREACH, -1)
				      : connect(fd, (const struct sockaddr *)sa, fm_addr_len(sa));
	if (ret < 0 && errno != EINPROGRESS)
		ret = fm_addr_connect_err(err, -errno);
	else
		ret = fm_watch_add(ctl->ctls->loop, &ctl->watch, err);
	if (ret < 0)
		ctl_drop_socket(ctl);
	return ret;
}

/* The next address, each with its share of the time that is left. */
static void connect_next(struct fm_ctl *ctl)
{
	uint64_t now_ns = fm_loop_now(ctl->ctls->loop);
	uint64_t left_ns = ctl->give_up_ns > now_ns ? ctl->give_up_ns - now_ns : 0;

	ctl->state = CTL_CONNECT;
	while (ctl->addr_at < ctl->addr_count) {
		const struct sockaddr_storage *sa = &ctl->addrs[ctl->addr_at];
		unsigned to_try = ctl->addr_count - ctl->addr_at;
		uint64_t share_ns =
			left_ns / to_try < ctl->connect_ns ? left_ns / to_try : ctl->connect_ns;

		ctl->addr_at++;
		fm_addr_port_text(sa, ctl->peer);
		if (connect_start(ctl, sa, &ctl->connect_err) == 0) {
			if (share_ns > DEAD_CONNECT_NS && is_port_dead(ctl))
				share_ns = DEAD_CONNECT_NS;
			fm_timer_set(ctl->ctls->loop, &ctl->deadline, now_ns + share_ns);
			return;
		}
	}
	ctl_fail(ctl, &ctl->connect_err);
}

static void connect_done(struct fm_ctl *ctl)
{
	socklen_t len = sizeof(int);
	int code = 0, ret;

	if (FM_FAULT("ctl.connect_done"))
		code = ECONNREFUSED;
	else if (getsockopt(ctl->watch.fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	if (code == 0)
		code = -fm_addr_of_socket(ctl->watch.fd, &ctl->local, &ctl->remote);
	if (code) {
		fm_addr_connect_err(&ctl->connect_err, -code);
		ctl_drop_socket(ctl);
		connect_next(ctl);
		return;
	}
	fm_timer_set(ctl->ctls->loop, &ctl->deadline, ctl->give_up_ns);
	ret = ctl_begin_tls(ctl, &ctl->connect_err);
	if (ret < 0)
		ctl_fail(ctl, &ctl->connect_err);
	else
		ctl_handshake(ctl);
}

static void resolve_done(void *ctx, const struct sockaddr_storage *addrs, unsigned count,
			 const struct fm_err *err)
{
	struct fm_ctl *ctl = ctx;

	ctl_enter(ctl);
	ctl->resolve = NULL;
	memcpy(ctl->addrs, addrs, count * sizeof(*addrs));
	ctl->addr_count = count;
	if (count == 0)
		ctl_fail(ctl, err);
	else
		connect_next(ctl);
	ctl_exit(ctl);
}

static void ctl_begin(struct fm_ctl *ctl)
{
	struct fm_err err = { 0 };
	char host[HOST_MAX];
	int ret;

	host_of(ctl, host);
	ctl->give_up_ns = fm_loop_now(ctl->ctls->loop) + ctl->timeout_ns;
	fm_timer_set(ctl->ctls->loop, &ctl->deadline, ctl->give_up_ns);
	if (fm_resolve_numeric(host, ctl->port, &ctl->addrs[0]) == 0) {
		ctl->addr_count = 1;
		connect_next(ctl);
		return;
	}
	ctl->state = CTL_LOOKUP;
	ret = fm_resolve_start(ctl->ctls->loop, host, ctl->port, resolve_done, ctl, &ctl->resolve,
			       &err);
	if (ret < 0)
		ctl_fail(ctl, &err);
}

/* ---- what the loop calls ---- */

static void ctl_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_ctl *ctl = fm_container_of(watch, struct fm_ctl, watch);

	ctl_enter(ctl);
	if (events & EPOLLOUT)
		ctl->is_blocked = false;
	if (ctl->state == CTL_CONNECT)
		connect_done(ctl);
	else if (ctl->state == CTL_HANDSHAKE)
		ctl_handshake(ctl);
	else if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		ctl_read(ctl);
	ctl_settle(ctl);
	ctl_exit(ctl);
}

static void ctl_kicked(struct fm_timer *timer)
{
	struct fm_ctl *ctl = fm_container_of(timer, struct fm_ctl, kick);

	ctl_enter(ctl);
	if (ctl->state == CTL_START)
		ctl_begin(ctl);
	else if (is_live(ctl) && fm_tls_has_pending(ctl->tls))
		ctl_read(ctl);
	ctl_settle(ctl);
	ctl_exit(ctl);
}

static void ctl_too_late(struct fm_timer *timer)
{
	struct fm_ctl *ctl = fm_container_of(timer, struct fm_ctl, deadline);

	ctl_enter(ctl);
	switch (ctl->state) {
	case CTL_LOOKUP:
		ctl_fail_with(ctl, -ETIMEDOUT, "the name server does not answer");
		break;
	case CTL_CONNECT:
		fm_addr_connect_err(&ctl->connect_err, -ETIMEDOUT);
		ctl_drop_socket(ctl);
		connect_next(ctl);
		break;
	case CTL_HANDSHAKE:
		ctl_fail_with(ctl, -ETIMEDOUT,
			      "it takes the connection but does not answer: is it fmoved, is it "
			      "overloaded?");
		break;
	default:
		ctl_fail_with(ctl, -ETIMEDOUT,
			      "it does not answer after the handshake: is it overloaded?");
		break;
	}
	ctl_exit(ctl);
}

/* ---- new ones ---- */

static struct fm_ctl *ctl_new(struct fm_ctls *ctls, const char *host, uint16_t port)
{
	bool is_six = strchr(host, ':') != NULL;
	size_t size = strlen(host) + sizeof("[]:65535");
	struct fm_ctl *ctl = calloc(1, sizeof(*ctl) + size);

	if (!ctl)
		return NULL;
	/* An accepted one has no host; its name ":0" is not shown. */
	snprintf(ctl->name, size, "%s%s%s:%u", is_six ? "[" : "", host, is_six ? "]" : "",
		 (unsigned)port);
	ctl->ctls = ctls;
	ctl->port = port;
	ctl->watch.fd = -1;
	ctl->watch.ready = ctl_ready;
	ctl->deadline.fire = ctl_too_late;
	ctl->kick.fire = ctl_kicked;
	fm_list_append(&ctls->all, &ctl->link);
	return ctl;
}

/* No fault point: with NULL there is no error to look at, and these few bytes are there or nothing
 * works any more. */
struct fm_ctl *fm_ctl_dial(struct fm_ctls *ctls, const struct fm_ctl_dial *dial, bool is_join)
{
	struct fm_ctl *ctl;

	assert(dial->host && dial->events);
	ctl = ctl_new(ctls, dial->host, dial->port);
	if (!ctl)
		return NULL;
	ctl->is_dialled = true;
	ctl->is_join = is_join;
	ctl->events = dial->events;
	ctl->ctx = dial->ctx;
	ctl->timeout_ns = dial->timeout_ns ? dial->timeout_ns : TIMEOUT_DEFAULT_NS;
	ctl->connect_ns = dial->connect_ns ? dial->connect_ns : ctl->timeout_ns;
	ctl->from = dial->local.sa;
	memcpy(ctl->from_name, dial->local.name, sizeof(ctl->from_name));
	fm_addr_set_port(&ctl->from, 0);
	memcpy(ctl->key, dial->key, FM_KEY_LEN);
	ctl_kick(ctl);
	return ctl;
}

static void ctl_half_drop(struct fm_half *half, const char *why)
{
	struct fm_ctl *ctl = fm_container_of(half, struct fm_ctl, half);

	ctl_enter(ctl);
	ctl_fail_with(ctl, -ETIMEDOUT, why);
	ctl_exit(ctl);
}

void fm_ctls_accept(struct fm_ctls *ctls, int fd, const struct sockaddr_storage *peer)
{
	struct fm_ctl *ctl = FM_FAULT("ctl.alloc") ? NULL : ctl_new(ctls, "", 0);
	struct fm_err err = { 0 };
	int ret;

	if (!ctl) {
		close(fd);
		return;
	}
	ctl_enter(ctl);
	ctl->half.drop = ctl_half_drop;
	ctl->remote = *peer;
	fm_addr_port_text(peer, ctl->peer);
	fd_set_options(fd);
	ctl->watch.fd = fd;
	ctl->watch.events = EPOLLIN;
	ret = fm_addr_of_socket(fd, &ctl->local, &ctl->remote);
	if (ret < 0)
		fm_err_sys(&err, ret, "connection");
	if (ret == 0)
		ret = ctl_begin_tls(ctl, &err);
	if (ret == 0)
		ret = fm_watch_add(ctls->loop, &ctl->watch, &err);
	if (ret < 0)
		ctl_fail(ctl, &err);
	else
		fm_half_enter(ctls->listener, &ctl->half, peer);
	ctl_exit(ctl);
}

void fm_ctl_close(struct fm_ctl *ctl)
{
	if (!ctl)
		return;
	assert(!ctl->is_closed);
	if (ctl->state == CTL_OPEN)
		/* what goes without waiting; nobody is left to hear of an error */
		(void)ctl_write(ctl, NULL);
	if (ctl->state != CTL_BROKEN)
		ctl_break(ctl);
	ctl->is_closed = true;
	if (ctl->entries == 0)
		ctl_free(ctl);
}

const char *fm_ctl_peer(const struct fm_ctl *ctl)
{
	return ctl->peer[0] ? ctl->peer : ctl->name;
}

void fm_ctl_addrs(const struct fm_ctl *ctl, struct fm_addr *local, struct fm_addr *remote)
{
	*local = (struct fm_addr){ .sa = ctl->local };
	*remote = (struct fm_addr){ .sa = ctl->remote };
	fm_addr_set_port(&local->sa, 0);
	fm_addr_set_port(&remote->sa, 0);
	fm_addr_describe(local, ctl->ctls->rdma, NULL);
}
