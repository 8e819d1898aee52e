/* SPDX-License-Identifier: MIT */
/*
 * tcp - setting data connections up: TLS or not, hello, token, answer.
 *
 * Dialled:   START - CONNECT - HANDSHAKE (unless plain) - ANSWER, then done() with the connection
 * Accepted:  HELLO (half-open; its handshake was ctl.c's) - token() - arrived() with the connection
 * Failure:   done() with the error, in a later pass; an accepted one is logged and closed.
 *
 * A set-up is an object of its own, on the control loop. When it is through, it hands its socket to
 * a tcp_conn and is gone, so the two threads share nothing.
 */
#include "mover/transport/tcp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/base/bytes.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/base/network.h"
#include "mover/transport/addr.h"
#include "mover/transport/listen.h"
#include "mover/transport/tcp_conn.h"
#include "mover/transport/tls.h"

#define TCP_MAGIC "FMDATA\r\n"
#define MAGIC_LEN 8
#define TCP_VERSION 1
#define TCP_HELLO_LEN 64
#define TCP_ANSWER_LEN 16
/* the engine's PING is faster; this is for when even that thread hangs */
#define USER_TIMEOUT_MS 30000u
/* So a network that is well answers every second, and tcp_conn.c sees when it does not. */
#define KEEPALIVE_IDLE_S 1
#define KEEPALIVE_EVERY_S 1

_Static_assert(TCP_HELLO_LEN == MAGIC_LEN + 2 + 2 + 4 + FM_TOKEN_LEN + 32,
	       "the hello and the table in tcp.h disagree");
_Static_assert(TCP_ANSWER_LEN == MAGIC_LEN + 2 + 2 + 4,
	       "the answer and the table in tcp.h disagree");

enum answer { ANSWER_TAKEN = 0, ANSWER_TOKEN = 1, ANSWER_VERSION = 2, ANSWER_TLS = 3 };
enum setup_state { SETUP_START, SETUP_CONNECT, SETUP_HANDSHAKE, SETUP_ANSWER, SETUP_HELLO };

struct fm_tcp {
	struct fm_tcp_opts opts;
	const struct fm_net_events *events;	/* NULL: not started, or stopped */
	void *ctx;
	bool is_stopped;
	struct fm_list dials;
	atomic_uint live;			/* struct tcp_conn, on any thread */
};

struct setup {
	struct fm_tcp *tcp;
	enum setup_state state;
	struct fm_list link;			/* dialled */
	struct fm_half half;			/* accepted */
	struct fm_watch watch;			/* fd -1: no socket yet */
	struct fm_tls *tls;			/* NULL: plain, or not begun */
	/* dialled: begin; then the deadline; after fm_tcp_stop() the end */
	struct fm_timer timer;
	struct fm_data_dial dial;
	struct sockaddr_storage peer;
	uint8_t buf[TCP_HELLO_LEN];		/* of the hello or of the answer */
	size_t len;
};

/* ---- hello and answer ---- */

static void hello_put(const uint8_t token[FM_TOKEN_LEN], uint8_t out[TCP_HELLO_LEN])
{
	struct fm_writer w = { .at = out, .end = out + TCP_HELLO_LEN };

	memset(out, 0, TCP_HELLO_LEN);
	fm_put_bytes(&w, TCP_MAGIC, MAGIC_LEN);
	fm_put_le16(&w, TCP_VERSION);
	fm_put_le16(&w, FM_KIND_TCP);
	fm_put_le32(&w, 0);
	fm_put_bytes(&w, token, FM_TOKEN_LEN);
	assert(!w.failed);
}

/* -EPROTO: not a hello. -EPROTONOSUPPORT: of a version that we do not speak; nothing else of it was
 * looked at. */
static int hello_get(const uint8_t buf[TCP_HELLO_LEN], uint8_t token[FM_TOKEN_LEN])
{
	struct fm_reader r = { .at = buf, .end = buf + TCP_HELLO_LEN };
	const uint8_t *magic = fm_get_span(&r, MAGIC_LEN);
	uint8_t rest = 0;

	if (memcmp(magic, TCP_MAGIC, MAGIC_LEN) != 0)
		return -EPROTO;
	if (fm_get_le16(&r) != TCP_VERSION)
		return -EPROTONOSUPPORT;
	if (fm_get_le16(&r) != FM_KIND_TCP || fm_get_le32(&r) != 0)
		return -EPROTO;
	fm_get_bytes(&r, token, FM_TOKEN_LEN);
	while (fm_reader_left(&r) > 0)
		rest |= fm_get_u8(&r);
	return rest ? -EPROTO : 0;
}

static void answer_put(enum answer result, uint8_t out[TCP_ANSWER_LEN])
{
	struct fm_writer w = { .at = out, .end = out + TCP_ANSWER_LEN };

	fm_put_bytes(&w, TCP_MAGIC, MAGIC_LEN);
	fm_put_le16(&w, TCP_VERSION);
	fm_put_le16(&w, (uint16_t)result);
	fm_put_le32(&w, 0);
	assert(!w.failed);
}

static int answer_get(const uint8_t buf[TCP_ANSWER_LEN], struct fm_err *err)
{
	struct fm_reader r = { .at = buf, .end = buf + TCP_ANSWER_LEN };
	const uint8_t *magic = fm_get_span(&r, MAGIC_LEN);
	uint16_t version, result;

	if (memcmp(magic, TCP_MAGIC, MAGIC_LEN) != 0)
		return fm_err_set(err, -EPROTO, "not an fmove node");
	version = fm_get_le16(&r);
	result = fm_get_le16(&r);
	if (result == ANSWER_TLS)
		return fm_err_set(err, -EOPNOTSUPP,
				  "it takes no plain TCP between these addresses "
				  "(mover.private_networks there): TLS is next");
	if (result == ANSWER_TOKEN)
		return fm_err_set(err, -EACCES,
				  "the connection's token is not good there (any more), or there "
				  "is no room for it (the log there says which)");
	if (version != TCP_VERSION || result == ANSWER_VERSION)
		return fm_err_set(err, -EPROTONOSUPPORT,
				  "it speaks another version of fmove's protocol (%u, not %u)",
				  version, TCP_VERSION);
	if (result != ANSWER_TAKEN || fm_get_le32(&r) != 0)
		return fm_err_set(err, -EPROTO, "its answer makes no sense");
	return 0;
}

/* ---- sockets ---- */

/* None is needed: a network may ignore DSCP anyway, and the rest is for speed and for seeing
 * trouble sooner. */
static void fd_set_options(const struct fm_tcp *tcp, int fd)
{
	const int on = 1, idle_s = KEEPALIVE_IDLE_S, every_s = KEEPALIVE_EVERY_S,
		  tos = tcp->opts.dscp << 2;
	const unsigned user_timeout_ms = USER_TIMEOUT_MS;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms,
			 sizeof(user_timeout_ms));
	if (!tos)
		return;
	/* Both: an IPv6 socket may carry IPv4. */
	(void)setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
}

/* Bind to the rail, so that two rails of one subnet are two, then connect. */
static int fd_connect(int fd, const struct sockaddr_storage *from,
		      const struct sockaddr_storage *to, struct fm_err *err)
{
	struct sockaddr_storage local = *from;
	const int on = 1;
	int ret = 0;

	fm_addr_set_port(&local, 0);
	/* Without it every connection takes a port of the whole node, not one of this pair of
	 * addresses. */
	(void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (local.ss_family != AF_UNSPEC)
		ret = FM_FAULT("tcp.bind")
			      ? (errno = EADDRNOTAVAIL, -1)
			      : bind(fd, (const struct sockaddr *)&local, fm_addr_len(&local));
	if (ret == 0)
		ret = FM_FAULT("tcp.connect")
			      ? (errno = ECONNREFUSED, -1)
			      : connect(fd, (const struct sockaddr *)to, fm_addr_len(to));
	if (ret < 0 && errno != EINPROGRESS)
		return fm_addr_connect_err(err, -errno);
	return 0;
}

static ssize_t setup_recv(struct setup *s, uint8_t *buf, size_t len, struct fm_err *err)
{
	ssize_t n;

	if (s->tls)
		return fm_tls_read(s->tls, buf, len, err);
	n = FM_FAULT("tcp.recv") ? (errno = ECONNRESET, -1)
				 : recv(s->watch.fd, buf, len, MSG_DONTWAIT);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? -EAGAIN
							 : fm_err_sys(err, -errno, "receive");
	return n;
}

/* 0 when `want` bytes are there; -EAGAIN; else it is over. */
static int setup_receive(struct setup *s, size_t want, struct fm_err *err)
{
	ssize_t n = setup_recv(s, s->buf + s->len, want - s->len, err);

	if (n < 0)
		return (int)n;
	if (n == 0)
		return fm_err_set(err, -ECONNRESET, "it closed the connection without an answer");
	s->len += (size_t)n;
	return s->len == want ? 0 : -EAGAIN;
}

/* The first few bytes on a connection: there is always room for them, unless it is dead. */
static int setup_send(struct setup *s, const uint8_t *buf, size_t len)
{
	ssize_t n;

	if (s->tls)
		n = fm_tls_write(s->tls, buf, len, NULL);
	else
		n = FM_FAULT("tcp.send") || send(s->watch.fd, buf, len,
						 MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)len
			    ? -ECONNRESET
			    : (ssize_t)len;
	if (n < 0)
		return n == -EAGAIN ? -ECONNRESET : (int)n;
	return (size_t)n == len ? 0 : -ECONNRESET;
}

/*
 * Whatever becomes of routes, what this connection sends goes through that interface, or nowhere;
 * and only what comes through it is taken. Else a cable that is pulled would send what is meant for
 * it to the default gateway.
 */
static bool fd_pin(int fd, const struct sockaddr_storage *local)
{
	int index = FM_FAULT("tcp.pin") ? 0 : (int)fm_addr_interface(local);

	return index > 0 &&
	       setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index)) == 0;
}

/* Whether this end takes the connection as it is, unencrypted: see tcp.h. */
static bool fd_may_be_plain(const struct fm_tcp *tcp, int fd)
{
	struct sockaddr_storage local, remote;
	uint8_t bits;

	if (fm_addr_of_socket(fd, &local, &remote) < 0)
		return false;
	if (fm_network_is_loopback(&local) && fm_network_is_loopback(&remote))
		return true;
	bits = fm_networks_bits(tcp->opts.private_networks, &local);
	return bits > 0 && fm_network_is_shared(&local, &remote, bits) && fd_pin(fd, &local);
}

static void info_fill(int fd, struct fm_conn_info *info)
{
	struct fm_addr local = { 0 };
	struct sockaddr_storage remote;

	memset(info, 0, sizeof(*info));
	info->kind = FM_KIND_TCP;
	info->note = "TCP";
	if (fm_addr_of_socket(fd, &local.sa, &remote) < 0)
		return;		/* it is dead already: whoever reads it will see */
	fm_addr_text(&local.sa, info->local_addr);
	fm_addr_text(&remote, info->remote_addr);
	info->is_loopback = fm_network_is_loopback(&local.sa) && fm_network_is_loopback(&remote);
	fm_addr_describe(&local, NULL, &info->mtu);
	info->speed_mbps = local.speed_mbps;
	snprintf(info->local, sizeof(info->local), "%s", local.name);
}

/* ---- the end of a set-up ---- */

static void setup_free(struct setup *s)
{
	struct fm_loop *loop = s->tcp->opts.loop;

	fm_list_del(&s->link);
	fm_half_leave(&s->half);
	fm_timer_clear(loop, &s->timer);
	fm_watch_del(loop, &s->watch);
	fm_tls_free(s->tls);
	if (s->watch.fd >= 0)
		close(s->watch.fd);
	free(s);
}

/* The socket becomes a connection; the set-up is left without one. */
static int setup_conn(struct setup *s, struct fm_conn **out, struct fm_err *err)
{
	struct fm_conn_info info;
	int ret;

	info_fill(s->watch.fd, &info);
	fm_watch_del(s->tcp->opts.loop, &s->watch);
	ret = s->tls ? fm_tls_begin_data(s->tls, err) : 0;
	if (ret < 0)
		return ret;
	if (fm_tcp_conn_new(s->watch.fd, s->tls, &info, &s->tcp->live, out) < 0)
		return fm_err_set(err, -ENOMEM, "no memory for a connection");
	s->watch.fd = -1;
	s->tls = NULL;
	return 0;
}

/* ---- dialling ---- */

static void dial_end(struct setup *s, int res, struct fm_conn *conn, struct fm_err *err)
{
	char local[FM_ADDR_TEXT_MAX], remote[FM_ADDR_PORT_TEXT_MAX];
	struct fm_data_dial dial = s->dial;

	if (res < 0) {
		fm_addr_text(&dial.local.sa, local);
		fm_addr_port_text(&s->peer, remote);
		fm_err_wrap(err, "TCP %s to %s", local, remote);
	}
	setup_free(s);
	dial.done(dial.ctx, res, conn, err);
}

static int dial_start(struct setup *s, struct fm_err *err)
{
	const struct fm_tcp *tcp = s->tcp;
	int fd, ret;

	if (s->peer.ss_family != s->dial.local.sa.ss_family &&
	    s->dial.local.sa.ss_family != AF_UNSPEC)
		return fm_err_set(err, -EAFNOSUPPORT, "one address is IPv4, the other IPv6");
	fd = FM_FAULT("tcp.socket")
		     ? (errno = EMFILE, -1)
		     : socket(s->peer.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fm_err_sys(err, -errno, "socket");
	s->watch.fd = fd;
	s->watch.events = EPOLLOUT;
	fd_set_options(tcp, fd);
	ret = fd_connect(fd, &s->dial.local.sa, &s->peer, err);
	if (ret < 0)
		return ret;
	s->state = SETUP_CONNECT;
	fm_timer_set(tcp->opts.loop, &s->timer, fm_loop_now(tcp->opts.loop) + s->dial.timeout_ns);
	return fm_watch_add(tcp->opts.loop, &s->watch, err);
}

static int dial_hello(struct setup *s, struct fm_err *err)
{
	uint8_t hello[TCP_HELLO_LEN];
	int ret;

	hello_put(s->dial.token, hello);
	ret = setup_send(s, hello, sizeof(hello));
	if (ret < 0)
		return fm_err_sys(err, ret, "say hello");
	s->state = SETUP_ANSWER;
	fm_watch_mod(s->tcp->opts.loop, &s->watch, EPOLLIN);
	return 0;
}

/* Until it is done, again when the socket is ready. */
static int dial_handshake(struct setup *s, struct fm_err *err)
{
	int ret = fm_tls_handshake(s->tls, err);

	if (ret == 0)
		return dial_hello(s, err);
	if (ret != -EAGAIN)
		return ret;
	fm_watch_mod(s->tcp->opts.loop, &s->watch, fm_tls_wants(s->tls));
	return 0;
}

static bool dial_may_be_plain(const struct setup *s)
{
	const struct sockaddr_storage *local = &s->dial.local.sa;

	if (s->dial.needs_tls)
		return false;
	if (!s->dial.is_plain_there &&
	    !(fm_network_is_loopback(&s->peer) && fm_network_is_loopback(local)))
		return false;
	return fd_may_be_plain(s->tcp, s->watch.fd);
}

static int dial_connected(struct setup *s, struct fm_err *err)
{
	struct fm_tls_opts opts = { .fd = s->watch.fd, .is_dialled = true, .is_data = true };
	socklen_t len = sizeof(int);
	int code = 0, ret;

	if (FM_FAULT("tcp.connected"))
		code = ECONNREFUSED;
	else if (getsockopt(s->watch.fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	if (code)
		return fm_addr_connect_err(err, -code);
	if (dial_may_be_plain(s))
		return dial_hello(s, err);
	memcpy(opts.key, s->dial.key, FM_KEY_LEN);
	ret = fm_tls_new(s->tcp->opts.node, &opts, &s->tls, err);
	if (ret < 0)
		return ret;
	s->state = SETUP_HANDSHAKE;
	return dial_handshake(s, err);
}

static void dial_answer(struct setup *s)
{
	struct fm_conn *conn = NULL;
	struct fm_err err = { 0 };
	int ret;

	ret = setup_receive(s, TCP_ANSWER_LEN, &err);
	if (ret == -EAGAIN)
		return;
	if (ret == 0)
		ret = answer_get(s->buf, &err);
	if (ret == 0)
		ret = setup_conn(s, &conn, &err);
	dial_end(s, ret, conn, &err);
}

static void dial_ready(struct fm_watch *watch, uint32_t events)
{
	struct setup *s = fm_container_of(watch, struct setup, watch);
	struct fm_err err = { 0 };
	int ret;

	(void)events;	/* what it is will show when it is used */
	if (s->state == SETUP_ANSWER) {
		dial_answer(s);
		return;
	}
	ret = s->state == SETUP_HANDSHAKE ? dial_handshake(s, &err) : dial_connected(s, &err);
	if (ret < 0)
		dial_end(s, ret, NULL, &err);
}

static void dial_timer(struct fm_timer *timer)
{
	struct setup *s = fm_container_of(timer, struct setup, timer);
	struct fm_err err = { 0 };
	int ret;

	if (s->tcp->is_stopped)
		ret = fm_err_set(&err, -ECANCELED, "this node is going down");
	else if (s->state == SETUP_START)
		ret = dial_start(s, &err);
	else if (s->state == SETUP_CONNECT)
		ret = fm_addr_connect_err(&err, -ETIMEDOUT);
	else if (s->state == SETUP_ANSWER && !s->tls && s->dial.is_plain_there)
		ret = fm_err_set(
			&err, -EOPNOTSUPP,
			"it takes the connection but does not answer in plain: TLS is next");
	else
		ret = fm_err_set(&err, -ETIMEDOUT,
				 "it takes the connection but does not answer: is it overloaded?");
	if (ret < 0)
		dial_end(s, ret, NULL, &err);
}

int fm_tcp_dial(struct fm_tcp *tcp, const struct fm_data_dial *dial)
{
	struct setup *s = FM_FAULT("tcp.alloc_dial") ? NULL : calloc(1, sizeof(*s));
	struct sockaddr_in6 *six;

	assert(dial->done);
	if (!s)
		return -ENOMEM;
	s->tcp = tcp;
	s->state = SETUP_START;
	s->dial = *dial;
	s->watch.fd = -1;
	s->watch.ready = dial_ready;
	s->timer.fire = dial_timer;
	s->peer = dial->remote.sa;
	fm_addr_set_port(&s->peer, dial->port);
	six = (struct sockaddr_in6 *)(void *)&s->peer;
	if (fm_addr_is_link_local(&s->peer) && s->peer.ss_family == AF_INET6 && !six->sin6_scope_id)
		six->sin6_scope_id =
			((const struct sockaddr_in6 *)(const void *)&dial->local.sa)->sin6_scope_id;
	fm_list_append(&tcp->dials, &s->link);
	fm_timer_set(tcp->opts.loop, &s->timer, fm_loop_now(tcp->opts.loop));
	return 0;
}

/* ---- accepting ---- */

static void accept_refuse(struct setup *s, const char *why)
{
	fm_listener_refused(s->tcp->opts.listener, &s->peer, why);
	setup_free(s);
}

static void half_drop(struct fm_half *half, const char *why)
{
	accept_refuse(fm_container_of(half, struct setup, half), why);
}

static void accept_answer_no(struct setup *s, enum answer result, const char *why)
{
	uint8_t answer[TCP_ANSWER_LEN];

	answer_put(result, answer);
	/* it may be gone by now: then it need not know */
	(void)setup_send(s, answer, sizeof(answer));
	accept_refuse(s, why);
}

/* The token was good. From here on arrived() is owed. */
static void accept_take(struct setup *s, void *tag)
{
	struct fm_tcp *tcp = s->tcp;
	uint8_t answer[TCP_ANSWER_LEN];
	struct fm_conn *conn = NULL;

	answer_put(ANSWER_TAKEN, answer);
	if (setup_send(s, answer, sizeof(answer)) == 0)
		/* without memory it is closed: the dialler will see */
		(void)setup_conn(s, &conn, NULL);
	setup_free(s);
	if (tcp->events)
		tcp->events->arrived(tcp->ctx, tag, conn);
	else if (conn)
		conn->ops->close(conn);		/* token() stopped the net */
}

/* The dialler believes that this network is private to both ends, and this end does not. From here
 * on arrived() is owed. */
static void accept_not_plain(struct setup *s, void *tag)
{
	struct fm_tcp *tcp = s->tcp;

	accept_answer_no(s, ANSWER_TLS,
			 "plain TCP, but mover.private_networks here has no network with both "
			 "addresses: it must use TLS");
	if (tcp->events)
		tcp->events->arrived(tcp->ctx, tag, NULL);
}

/*
 * The hello is here. A token that was shown where others could read it is used up all the same.
 */
static void accept_hello(struct setup *s)
{
	struct fm_tcp *tcp = s->tcp;
	struct fm_err why = { .text = "a data connection with a token that is not good "
				      "(any more)" };
	uint8_t token[FM_TOKEN_LEN];
	void *tag = NULL;
	int ret = hello_get(s->buf, token);

	if (ret == -EPROTONOSUPPORT)
		accept_answer_no(s, ANSWER_VERSION,
				 "it speaks another version of fmove's protocol");
	else if (ret < 0)
		accept_refuse(s, "not an fmove node (neither TLS nor our data protocol)");
	else if (!tcp->events || !tcp->events->token(tcp->ctx, token, FM_KIND_TCP,
						     s->tls ? fm_tls_peer_key(s->tls) : NULL, &tag,
						     &why))
		accept_answer_no(s, ANSWER_TOKEN, why.text);
	else if (s->tls || fd_may_be_plain(s->tcp, s->watch.fd))
		accept_take(s, tag);
	else
		accept_not_plain(s, tag);
}

static void accept_ready(struct fm_watch *watch, uint32_t events)
{
	struct setup *s = fm_container_of(watch, struct setup, watch);
	struct fm_err err = { 0 };
	int ret;

	(void)events;
	ret = setup_receive(s, TCP_HELLO_LEN, &err);
	/* A web browser need not wait for the deadline to hear that it is wrong here. */
	if (ret == -EAGAIN &&
	    memcmp(s->buf, TCP_MAGIC, s->len < MAGIC_LEN ? s->len : MAGIC_LEN) != 0)
		ret = -EPROTO;
	if (ret == -EAGAIN)
		return;
	fm_half_leave(&s->half);	/* from here on it is nobody's business but ours */
	if (ret == 0)
		accept_hello(s);
	else
		accept_refuse(s, ret == -EPROTO && !s->tls
					 ? "not an fmove node (neither TLS nor our data protocol)"
					 : fm_err_name(ret));
}

void fm_tcp_accept(struct fm_tcp *tcp, int fd, struct fm_tls *tls,
		   const struct sockaddr_storage *peer)
{
	struct setup *s = FM_FAULT("tcp.alloc_setup") ? NULL : calloc(1, sizeof(*s));

	if (!s) {
		fm_tls_free(tls);
		close(fd);
		return;
	}
	s->tls = tls;
	s->tcp = tcp;
	s->state = SETUP_HELLO;
	s->peer = *peer;
	s->watch = (struct fm_watch){ .ready = accept_ready, .fd = fd, .events = EPOLLIN };
	s->half.drop = half_drop;
	fm_list_init(&s->link);
	fd_set_options(tcp, fd);
	if (fm_watch_add(tcp->opts.loop, &s->watch, NULL) < 0) {
		setup_free(s);
		return;
	}
	fm_half_enter(tcp->opts.listener, &s->half, peer);
	/* its first byte is here, so the rest is most likely, too */
	accept_ready(&s->watch, EPOLLIN);
}

/* ---- the whole ---- */

int fm_tcp_new(const struct fm_tcp_opts *opts, struct fm_tcp **out, struct fm_err *err)
{
	struct fm_tcp *tcp = FM_FAULT("tcp.alloc") ? NULL : calloc(1, sizeof(*tcp));

	if (!tcp)
		return fm_err_set(err, -ENOMEM, "allocate the TCP transport");
	tcp->opts = *opts;
	fm_list_init(&tcp->dials);
	*out = tcp;
	return 0;
}

void fm_tcp_free(struct fm_tcp *tcp)
{
	if (!tcp)
		return;
	fm_list_each(at, next, &tcp->dials)
		setup_free(fm_container_of(at, struct setup, link));
	assert(atomic_load(&tcp->live) == 0);
	free(tcp);
}

void fm_tcp_start(struct fm_tcp *tcp, const struct fm_net_events *events, void *ctx)
{
	tcp->events = events;
	tcp->ctx = ctx;
}

void fm_tcp_stop(struct fm_tcp *tcp)
{
	tcp->events = NULL;
	tcp->is_stopped = true;
	fm_list_each(at, next, &tcp->dials) {
		struct setup *s = fm_container_of(at, struct setup, link);

		fm_watch_del(tcp->opts.loop, &s->watch);
		fm_timer_set(tcp->opts.loop, &s->timer, fm_loop_now(tcp->opts.loop));
	}
}
