/* SPDX-License-Identifier: MIT */
/*
 * listen - the port where peers knock.
 *
 * A connection is a knock until its first byte is there, then it belongs to ctl.c (TLS) or tcp.c
 * (data), which enter it as half-open again. Most skip the knock: their first byte comes with the
 * connection.
 */
#include "mover/transport/listen.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/network.h"
#include "mover/transport/addr.h"

#define SOCKETS_MAX 8			/* addresses listened on */
#define BACKLOG 512			/* hundreds of nodes come back at once after a power cut */
#define ACCEPTS_MAX 32			/* in one pass */
/* a half-open connection may stay so long even when others wait */
#define FAIR_NS (500 * FM_NS_PER_MS)
/* after accept(2) failed for want of descriptors or memory */
#define RETRY_NS (100 * FM_NS_PER_MS)
#define TLS_HANDSHAKE 0x16		/* the first byte of every TLS connection (RFC 8446, 5.1) */

struct socket {
	struct fm_watch watch;
	struct fm_listener *listener;
};

/* Accepted, and not looked at yet: its source is crowding. */
struct waiting {
	int fd;
	struct sockaddr_storage peer;
};

struct fm_listener {
	struct fm_loop *loop;
	struct socket sockets[SOCKETS_MAX];
	unsigned socket_count;
	uint16_t port;
	bool is_started;
	/* not accepting until the timer, or until a half-open connection leaves */
	bool is_paused;
	uint64_t resume_ns;
	const struct fm_listener_events *events;
	void *ctx;
	struct fm_list halves;		/* oldest first */
	unsigned half_count;
	/* the oldest, at its address that has most, of whoever is crowding most; NULL: nobody */
	struct fm_half *crowd;
	bool is_crowd_known;		/* it is so still */
	struct fm_timer timer;
	struct fm_log_limit lines;	/* of those that were turned away */
	unsigned waiting_first, waiting_count;
	struct waiting waiting[FM_WAITING_MAX];		/* in the order in which they came */
};

/* A connection whose first byte has not come. */
struct knock {
	struct fm_half half;
	struct fm_listener *listener;
	struct fm_watch watch;
	struct sockaddr_storage peer;
};

/* ---- binding ---- */

/* "[::1]:7471" -> "::1", "7471". An IPv6 address needs its brackets: "::1:7471" could be read in
 * two ways. */
static int where_split(const char *where, char host[NI_MAXHOST], char port[NI_MAXSERV],
		       struct fm_err *err)
{
	const char *colon = strrchr(where, ':');
	size_t len = colon ? (size_t)(colon - where) : 0;
	bool is_bracketed = len >= 2 && where[0] == '[' && where[len - 1] == ']';
	char *end;
	unsigned long value;

	if (is_bracketed) {
		where++;
		len -= 2;
	}
	if (!colon || len >= NI_MAXHOST || (!is_bracketed && memchr(where, ':', len)))
		return fm_err_set(err, -EINVAL, "not of the form ADDRESS:PORT, such as [::]:7471");
	value = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || value > UINT16_MAX)
		return fm_err_set(err, -EINVAL, "\"%s\" is not a port (0 to 65535)", colon + 1);
	memcpy(host, where, len);
	host[len] = '\0';
	snprintf(port, NI_MAXSERV, "%lu", value);
	return 0;
}

static int socket_bind(int fd, const struct sockaddr_storage *sa, struct fm_err *err)
{
	const int on = 1, off = 0;
	int ret;

	ret = FM_FAULT("listen.option") ? (errno = ENOBUFS, -1)
					: setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (ret == 0 && sa->ss_family == AF_INET6)
		ret = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (ret < 0)
		return fm_err_sys(err, -errno, "set a socket option");
	ret = FM_FAULT("listen.bind") ? (errno = EADDRINUSE, -1)
				      : bind(fd, (const struct sockaddr *)sa, fm_addr_len(sa));
	/* At bind() another's port need not show yet: with SO_REUSEADDR it can show only at
	 * listen(). */
	if (ret == 0)
		ret = FM_FAULT("listen.listen") ? (errno = EADDRINUSE, -1) : listen(fd, BACKLOG);
	if (ret < 0 && errno == EADDRINUSE)
		return fm_err_set(err, -EADDRINUSE,
				  "the port is in use: is another fmoved running? Who has it, as "
				  "root: ss -ltnp 'sport = :%u'",
				  (unsigned)fm_addr_port(sa));
	if (ret < 0 && errno == EADDRNOTAVAIL)
		return fm_err_set(err, -EADDRNOTAVAIL, "the address is not one of this node's");
	if (ret < 0)
		return fm_err_sys(err, -errno, "bind");
	return 0;
}

static int socket_add(struct fm_listener *l, struct sockaddr_storage *sa, struct fm_err *err)
{
	struct socket *s = &l->sockets[l->socket_count];
	socklen_t len = sizeof(*sa);
	int fd, ret;

	if (l->port)
		/* with port 0 every address gets the port that the first one got */
		fm_addr_set_port(sa, l->port);
	fd = FM_FAULT("listen.socket")
		     ? (errno = EMFILE, -1)
		     : socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fm_err_sys(err, -errno, "socket");
	ret = socket_bind(fd, sa, err);
	if (ret == 0 &&
	    (FM_FAULT("listen.getsockname") || getsockname(fd, (struct sockaddr *)sa, &len) < 0))
		ret = fm_err_set(err, -ENOBUFS, "getsockname failed");
	if (ret < 0) {
		close(fd);
		return ret;
	}
	l->port = fm_addr_port(sa);
	s->watch.fd = fd;
	s->listener = l;
	l->socket_count++;
	return 0;
}

/* Every address of every family, or of IPv4 where there is no IPv6. */
static int bind_any(struct fm_listener *l, const char *port, struct fm_err *err)
{
	struct sockaddr_storage sa = { .ss_family = AF_INET6 };
	uint16_t number = (uint16_t)strtoul(port, NULL, 10);
	int ret;

	fm_addr_set_port(&sa, number);
	ret = socket_add(l, &sa, err);
	if (ret != -EAFNOSUPPORT && ret != -EADDRNOTAVAIL)
		return ret;
	memset(&sa, 0, sizeof(sa));
	sa.ss_family = AF_INET;
	fm_addr_set_port(&sa, number);
	return socket_add(l, &sa, err);
}

/* Whether one before it in the list is the same: /etc/hosts may have a name twice. */
static bool is_again(const struct addrinfo *list, const struct addrinfo *ai)
{
	for (const struct addrinfo *a = list; a != ai; a = a->ai_next)
		if (a->ai_addrlen == ai->ai_addrlen &&
		    memcmp(a->ai_addr, ai->ai_addr, ai->ai_addrlen) == 0)
			return true;
	return false;
}

static int bind_all(struct fm_listener *l, const char *where, struct fm_err *err)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICSERV };
	char host[NI_MAXHOST], port[NI_MAXSERV];
	struct sockaddr_storage sa;
	struct addrinfo *list;
	int ret;

	ret = where_split(where, host, port, err);
	if (ret < 0)
		return ret;
	if (!host[0] || strcmp(host, "::") == 0)
		return bind_any(l, port, err);
	ret = FM_FAULT("listen.getaddrinfo") ? EAI_MEMORY : getaddrinfo(host, port, &hints, &list);
	if (ret)
		return fm_err_set(err, -EADDRNOTAVAIL, "address of \"%s\": %s", host,
				  gai_strerror(ret));
	for (struct addrinfo *ai = list; ai && ret == 0 && l->socket_count < SOCKETS_MAX;
	     ai = ai->ai_next) {
		if (is_again(list, ai))
			continue;
		memset(&sa, 0, sizeof(sa));
		memcpy(&sa, ai->ai_addr, ai->ai_addrlen);
		ret = socket_add(l, &sa, err);
	}
	freeaddrinfo(list);
	return ret;
}

static void listener_close(struct fm_listener *l)
{
	for (unsigned i = 0; i < l->socket_count; i++) {
		fm_watch_del(l->loop, &l->sockets[i].watch);
		close(l->sockets[i].watch.fd);
	}
	l->socket_count = 0;
}

static void listener_timer(struct fm_timer *timer);

int fm_listener_new(struct fm_loop *loop, const char *where, struct fm_listener **out,
		    struct fm_err *err)
{
	struct fm_listener *l;
	int ret;

	assert(where && out);
	l = FM_FAULT("listen.alloc") ? NULL : calloc(1, sizeof(*l));
	if (!l)
		return fm_err_set(err, -ENOMEM, "allocate the listener");
	l->loop = loop;
	l->timer.fire = listener_timer;
	fm_list_init(&l->halves);
	ret = bind_all(l, where, err);
	if (ret < 0) {
		listener_close(l);
		free(l);
		fm_err_wrap(err, "listen on %s", where);
		return ret;
	}
	*out = l;
	return 0;
}

void fm_listener_free(struct fm_listener *l)
{
	if (!l)
		return;
	assert(!l->is_started && l->half_count == 0);
	listener_close(l);
	free(l);
}

uint16_t fm_listener_port(const struct fm_listener *l)
{
	return l->port;
}

/* ---- half-open connections ---- */

static struct fm_half *oldest(struct fm_listener *l)
{
	return fm_container_of(l->halves.next, struct fm_half, link);
}

static void listener_arm(struct fm_listener *l);

static void listener_pause(struct fm_listener *l, uint64_t until_ns)
{
	l->is_paused = true;
	l->resume_ns = until_ns;
	for (unsigned i = 0; i < l->socket_count; i++)
		fm_watch_mod(l->loop, &l->sockets[i].watch, 0);
	listener_arm(l);
}

static void listener_resume(struct fm_listener *l)
{
	l->is_paused = false;
	for (unsigned i = 0; i < l->socket_count; i++)
		fm_watch_mod(l->loop, &l->sockets[i].watch, EPOLLIN);
}

/* Where it is from: of IPv6 one may have all addresses of a network. Link-local ones are of a
 * link, and all links have the same network. */
static struct fm_half_from from_of(const struct sockaddr_storage *peer)
{
	struct fm_half_from from = { { 0 }, { 0 } };
	size_t len = 0;
	const uint8_t *ip = fm_network_ip(peer, &len);
	uint32_t link;

	if (len == 4)	/* what no network of IPv6 ends with */
		memcpy(from.source + 12, ip, 4);
	else if (ip)
		memcpy(from.source, ip, 8);
	if (ip)
		memcpy(from.address + 16 - len, ip, len);
	if (len == 16) {	/* 0, unless it is link-local */
		link = ((const struct sockaddr_in6 *)(const void *)peer)->sin6_scope_id;
		memcpy(from.source + 16, &link, sizeof(link));
		memcpy(from.address + 16, &link, sizeof(link));
	}
	return from;
}

static bool is_source(const struct fm_half *half, const struct fm_half_from *from)
{
	return memcmp(half->from.source, from->source, sizeof(from->source)) == 0;
}

static bool is_address(const struct fm_half *half, const struct fm_half_from *from)
{
	return memcmp(half->from.address, from->address, sizeof(from->address)) == 0;
}

typedef bool is_alike(const struct fm_half *half, const struct fm_half_from *from);

static unsigned count_alike(const struct fm_listener *l, is_alike *is, const struct fm_half_from *a)
{
	unsigned count = 0;

	fm_list_each (at, next, &((struct fm_listener *)l)->halves)
		count += is(fm_container_of(at, struct fm_half, link), a);
	return count;
}

/* The oldest of those alike of which there are most, if they are more than that. of: of this
 * source alone; NULL: of any. */
static struct fm_half *find_most(struct fm_listener *l, is_alike *is, unsigned most,
				 const struct fm_half_from *of)
{
	struct fm_half *worst = NULL;

	fm_list_each (at, next, &l->halves) {
		struct fm_half *half = fm_container_of(at, struct fm_half, link);
		unsigned count = !of || is_source(half, of) ? count_alike(l, is, &half->from) : 0;

		if (count <= most)
			continue;
		most = count;
		worst = half;
	}
	return worst;
}

static struct fm_half *find_crowd(struct fm_listener *l)
{
	const struct fm_half *half = find_most(l, is_source, FM_HALF_CROWD_MAX, NULL);

	return half ? find_most(l, is_address, 0, &half->from) : NULL;
}

/* It is asked for at each connection of a flood, which mostly changes nothing. */
static struct fm_half *crowd(struct fm_listener *l)
{
	if (!l->is_crowd_known)
		l->crowd = find_crowd(l);
	l->is_crowd_known = true;
	return l->crowd;
}

/* The oldest of a source that has some; NULL: of all. */
static struct fm_half *oldest_of(struct fm_listener *l, const struct fm_half *crowd)
{
	fm_list_each (at, next, &l->halves)
		if (!crowd || is_source(fm_container_of(at, struct fm_half, link), &crowd->from))
			return fm_container_of(at, struct fm_half, link);
	return NULL;
}

/* When there may be room for the first one that waits. */
static uint64_t waiting_until(struct fm_listener *l)
{
	if (l->waiting_count == 0)
		return FM_NEVER;
	if (l->half_count < FM_HALF_OPEN_MAX)
		return fm_loop_now(l->loop);
	return oldest_of(l, crowd(l))->since_ns + FAIR_NS;
}

/* The timer may fire too early, after some have left; it then finds nothing to do and is set
 * again. */
static void listener_arm(struct fm_listener *l)
{
	uint64_t at_ns = waiting_until(l);

	if (l->half_count > 0 && oldest(l)->since_ns + FM_HALF_OPEN_NS < at_ns)
		at_ns = oldest(l)->since_ns + FM_HALF_OPEN_NS;
	if (l->is_paused && l->resume_ns < at_ns)
		at_ns = l->resume_ns;
	if (at_ns == FM_NEVER)
		fm_timer_clear(l->loop, &l->timer);
	else if (!fm_timer_is_set(&l->timer) || at_ns < l->timer.at_ns)
		fm_timer_set(l->loop, &l->timer, at_ns);
}

void fm_half_enter(struct fm_listener *l, struct fm_half *half, const struct sockaddr_storage *peer)
{
	assert(l->is_started && !half->listener && half->drop && l->half_count < FM_HALF_OPEN_MAX);
	half->from = from_of(peer);
	l->is_crowd_known = false;
	half->listener = l;
	half->since_ns = fm_loop_now(l->loop);
	fm_list_append(&l->halves, &half->link);
	l->half_count++;
	listener_arm(l);
}

void fm_half_leave(struct fm_half *half)
{
	struct fm_listener *l = half->listener;

	if (!l)
		return;
	fm_list_del(&half->link);
	half->listener = NULL;
	l->half_count--;
	l->is_crowd_known = false;
	/* Not when accept(2) itself failed: that one waits for its time. */
	if (l->is_paused && l->is_started && l->half_count == FM_HALF_OPEN_MAX - 1)
		listener_resume(l);
	if (l->is_started && l->waiting_count > 0)
		listener_arm(l);
}

static void half_drop(struct fm_half *half, const char *why)
{
	fm_half_leave(half);
	half->drop(half, why);
}

static bool had_its_time(const struct fm_listener *l, const struct fm_half *half)
{
	return half->since_ns + FAIR_NS <= fm_loop_now(l->loop);
}

/* Whether to look who is next; if not, accepting pauses until there is room. Who is crowding never
 * keeps others waiting. */
static bool listener_may_accept(struct fm_listener *l)
{
	if (l->half_count < FM_HALF_OPEN_MAX || crowd(l) || had_its_time(l, oldest(l)))
		return true;
	listener_pause(l, oldest(l)->since_ns + FAIR_NS);
	return false;
}

static struct waiting *waiting_at(struct fm_listener *l, unsigned i)
{
	return &l->waiting[(l->waiting_first + i) % FM_WAITING_MAX];
}

static unsigned count_waiting(struct fm_listener *l, const struct fm_half_from *from)
{
	unsigned count = 0;

	for (unsigned i = 0; i < l->waiting_count; i++) {
		const struct fm_half half = { .from = from_of(&waiting_at(l, i)->peer) };

		count += is_address(&half, from);
	}
	return count;
}

enum room { ROOM, ROOM_LATER, ROOM_NEVER };

/*
 * Of a source that crowds: who there has most goes for who has fewer, and after a fair time. Those
 * that wait count as an address's, too: else one could have all of these places.
 */
static enum room room_in_crowd(struct fm_listener *l, const struct fm_half_from *from,
			       struct fm_half **goes)
{
	unsigned mine = count_alike(l, is_address, from);
	struct fm_half *crowded = crowd(l), *first = oldest_of(l, crowded);

	*goes = crowded;
	if (mine + 1 < count_alike(l, is_address, &crowded->from) || had_its_time(l, crowded))
		return ROOM;
	if (mine + count_waiting(l, from) > FM_HALF_CROWD_MAX)
		return ROOM_NEVER;
	*goes = first;
	return had_its_time(l, first) ? ROOM : ROOM_LATER;
}

/* Makes room for one from there. */
static enum room listener_make_room(struct fm_listener *l, const struct sockaddr_storage *peer)
{
	const struct fm_half_from from = from_of(peer);
	struct fm_half *goes;
	enum room room;

	if (l->half_count < FM_HALF_OPEN_MAX)
		return ROOM;
	goes = crowd(l) ? crowd(l) : oldest(l);
	if (crowd(l) && is_source(goes, &from))
		room = room_in_crowd(l, &from, &goes);
	else
		room = crowd(l) || had_its_time(l, goes) ? ROOM : ROOM_LATER;
	if (room == ROOM)
		half_drop(goes, "it did not say who it is, and others wait");
	return room;
}

/* ---- the first byte ---- */

/* Hand the connection on if its first byte is there: 0. -EAGAIN if not yet. Else it is of no use:
 * another errno. */
static int knock_try(struct fm_listener *l, int fd, const struct sockaddr_storage *peer)
{
	uint8_t first;
	ssize_t n;

	n = FM_FAULT("listen.peek") ? (errno = ECONNRESET, -1)
				    : recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ECONNRESET;
	if (first == TLS_HANDSHAKE)
		l->events->tls(l->ctx, fd, peer);
	else
		l->events->data(l->ctx, fd, peer);
	return 0;
}

static void knock_drop(struct fm_half *half, const char *why)
{
	struct knock *k = fm_container_of(half, struct knock, half);

	(void)why;	/* it never said a word: not worth a line */
	fm_watch_del(k->listener->loop, &k->watch);
	close(k->watch.fd);
	free(k);
}

static void knock_ready(struct fm_watch *watch, uint32_t events)
{
	struct knock *k = fm_container_of(watch, struct knock, watch);
	struct fm_listener *l = k->listener;
	int ret;

	(void)events;
	fm_watch_del(l->loop, &k->watch);
	fm_half_leave(&k->half);	/* whoever takes it enters anew */
	ret = knock_try(l, k->watch.fd, &k->peer);
	if (ret < 0)
		close(k->watch.fd);
	free(k);
}

static void knock_wait(struct fm_listener *l, int fd, const struct sockaddr_storage *peer)
{
	struct knock *k = FM_FAULT("listen.knock") ? NULL : calloc(1, sizeof(*k));

	if (!k) {
		close(fd);
		return;
	}
	k->listener = l;
	k->half.drop = knock_drop;
	k->watch = (struct fm_watch){ .ready = knock_ready, .fd = fd, .events = EPOLLIN };
	k->peer = *peer;
	if (fm_watch_add(l->loop, &k->watch, NULL) < 0) {
		close(fd);
		free(k);
		return;
	}
	fm_half_enter(l, &k->half, peer);
}

/* ---- accepting ---- */

static void knock(struct fm_listener *l, int fd, const struct sockaddr_storage *peer)
{
	int ret = knock_try(l, fd, peer);

	if (ret == -EAGAIN)
		knock_wait(l, fd, peer);
	else if (ret < 0)
		close(fd);
}

static void let_wait(struct fm_listener *l, int fd, const struct sockaddr_storage *peer)
{
	if (l->waiting_count == FM_WAITING_MAX) {
		close(fd);
		return;
	}
	*waiting_at(l, l->waiting_count) = (struct waiting){ fd, *peer };
	l->waiting_count++;
	listener_arm(l);
}

/* Takes those for whom there is room. */
static void serve_waiting(struct fm_listener *l)
{
	while (l->is_started && l->waiting_count > 0) {
		const struct waiting w = *waiting_at(l, 0);
		unsigned first = l->waiting_first;
		enum room room;

		/* the others that wait are those that count against it */
		l->waiting_first = (first + 1) % FM_WAITING_MAX;
		l->waiting_count--;
		room = listener_make_room(l, &w.peer);
		if (room == ROOM_LATER) {
			l->waiting_first = first;
			l->waiting_count++;
			return;
		}
		if (room == ROOM)
			knock(l, w.fd, &w.peer);
		else
			close(w.fd);
	}
}

static void close_waiting(struct fm_listener *l)
{
	for (; l->waiting_count > 0; l->waiting_count--) {
		close(waiting_at(l, 0)->fd);
		l->waiting_first = (l->waiting_first + 1) % FM_WAITING_MAX;
	}
}

static void listener_timer(struct fm_timer *timer)
{
	struct fm_listener *l = fm_container_of(timer, struct fm_listener, timer);
	uint64_t now_ns = fm_loop_now(l->loop);

	while (l->half_count > 0 && oldest(l)->since_ns + FM_HALF_OPEN_NS <= now_ns)
		half_drop(oldest(l), "it did not say who it is in time");
	serve_waiting(l);
	if (l->is_paused && l->resume_ns <= now_ns)
		listener_resume(l);
	listener_arm(l);
}


static bool listener_may_log(struct fm_listener *l)
{
	return fm_log_may(&l->lines, fm_loop_now(l->loop));
}

/* A descriptor, or a negative errno: -EAGAIN when there is none to accept. */
static int accept_one(int listen_fd, struct sockaddr_storage *peer)
{
	socklen_t len = sizeof(*peer);
	int fd;

	memset(peer, 0, sizeof(*peer));
	fd = FM_FAULT("listen.accept") ? (errno = EMFILE, -1)
				       : accept4(listen_fd, (struct sockaddr *)peer, &len,
						 SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return -errno;
	fm_addr_unmap(peer);
	return fd;
}

/*
 * Whether accept(2) fails for a reason that waiting may cure; other errors are of the one
 * connection, and the next may be well.
 */
static bool is_shortage(int code)
{
	return code == -EMFILE || code == -ENFILE || code == -ENOBUFS || code == -ENOMEM;
}

static void socket_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_listener *l = fm_container_of(watch, struct socket, watch)->listener;
	struct sockaddr_storage peer;
	enum room room;
	int fd;

	(void)events;
	serve_waiting(l);
	for (unsigned i = 0; i < ACCEPTS_MAX && l->is_started && listener_may_accept(l); i++) {
		fd = accept_one(watch->fd, &peer);
		if (fd == -EAGAIN)
			return;
		if (is_shortage(fd)) {
			if (listener_may_log(l))
				fm_log_warn("cannot accept connections: %s", fm_err_name(fd));
			listener_pause(l, fm_loop_now(l->loop) + RETRY_NS);
			return;
		}
		if (fd < 0)
			continue;
		room = listener_make_room(l, &peer);
		if (room == ROOM)
			knock(l, fd, &peer);
		else if (room == ROOM_LATER)
			let_wait(l, fd, &peer);
		else
			close(fd);
	}
}

int fm_listener_start(struct fm_listener *l, const struct fm_listener_events *events, void *ctx,
		      struct fm_err *err)
{
	int ret;

	assert(!l->is_started && l->socket_count > 0);
	for (unsigned i = 0; i < l->socket_count; i++) {
		struct fm_watch *watch = &l->sockets[i].watch;

		watch->ready = socket_ready;
		watch->events = EPOLLIN;
		ret = fm_watch_add(l->loop, watch, err);
		if (ret < 0)
			goto del_watches;
	}
	l->events = events;
	l->ctx = ctx;
	l->is_started = true;
	return 0;

del_watches:
	for (unsigned i = 0; i < l->socket_count; i++)
		fm_watch_del(l->loop, &l->sockets[i].watch);
	return ret;
}

void fm_listener_stop(struct fm_listener *l)
{
	if (!l->is_started)
		return;
	l->is_started = false;
	close_waiting(l);
	while (l->half_count > 0)
		half_drop(oldest(l), "this node is going down");
	fm_timer_clear(l->loop, &l->timer);
	listener_close(l);
}

void fm_listener_refused(struct fm_listener *l, const struct sockaddr_storage *peer,
			 const char *why)
{
	char text[FM_ADDR_PORT_TEXT_MAX];

	if (!l->is_started || !listener_may_log(l))
		return;
	fm_addr_port_text(peer, text);
	fm_log_warn("refused %s: %s", text, why);
}
