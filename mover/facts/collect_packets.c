/* SPDX-License-Identifier: MIT */
/*
 * collect_packets - whether the largest packet of a rail's interface arrives at the other end. See
 * collect_priv.h.
 *
 * A datagram of that size, which may not be cut into pieces, goes to a port of the peer at which
 * nobody listens, as traceroute does it: its kernel says so, if it comes. If it is silent, it is
 * sent again, and behind it a small one from a port of its own. Only if small ones are answered and
 * no large one is, something between the two drops what is large; a peer that answers none says
 * nothing. A kernel answers one sender some six times at once and then once a second, so the large
 * one goes first, and of the rails to one address only a few are tried.
 */
#include "mover/facts/collect_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/env.h"

#define CLOSED_PORT    33434u /* traceroute's first */
#define TRIES	       4u /* the first without a small one */
#define ENOUGH	       2u /* small ones that were answered */
#define TRY_MS	       200u
#define PROBES_MAX     64u
#define OF_ADDRESS_MAX 3u
#define DATAGRAM_MAX   65507u
#define SMALL_BYTES    64u
#define HEADERS_V4     28u /* of IP and UDP */
#define HEADERS_V6     48u

struct probe {
	struct fm_facts_rail *rail;
	int large_fd, small_fd;
	size_t bytes;
	bool is_answered; /* the large one */
	unsigned small_answers;
};

static const char within[] = "a daemon sends nothing for a peer that asks";

/* Any error is an answer, but the one that says: too large. */
static bool is_answer(int code)
{
	return code != 0 && code != EMSGSIZE && code != EAGAIN && code != EINTR;
}

static int address_of(const struct fm_fact *fact, uint16_t port, struct sockaddr_storage *out,
		      socklen_t *len)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, fm_text_of(fact), &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		*len = sizeof(*v4);
		return AF_INET;
	}
	if (inet_pton(AF_INET6, fm_text_of(fact), &v6->sin6_addr) != 1 ||
	    IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		return -EAFNOSUPPORT; /* a link-local one needs an interface beside it */
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	*len = sizeof(*v6);
	return AF_INET6;
}

static int connected(const struct fm_facts_rail *r, int *family)
{
	const int probe = IP_PMTUDISC_PROBE, probe6 = IPV6_PMTUDISC_PROBE;
	struct sockaddr_storage from, to;
	socklen_t from_len, to_len;
	int fd, ret;

	*family = address_of(&r->local, 0, &from, &from_len);
	if (*family < 0 || *family != address_of(&r->remote, CLOSED_PORT, &to, &to_len))
		return -EAFNOSUPPORT;
	fd = socket(*family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if ((*family == AF_INET
		     ? setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe))
		     : setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe6, sizeof(probe6))) <
		    0 ||
	    bind(fd, (const struct sockaddr *)&from, from_len) < 0 ||
	    connect(fd, (const struct sockaddr *)&to, to_len) < 0) {
		ret = -errno;
		(void)close(fd);
		return ret;
	}
	return fd;
}

/* The MTU of the interface that has its local address; 0: not known. */
static uint64_t mtu_of(const struct fm_facts *f, const struct fm_facts_rail *r)
{
	for (size_t i = 0; i < f->addresses_count; i++) {
		if (!fm_fact_is_same(&f->addresses[i].address, &r->local))
			continue;
		for (size_t k = 0; k < f->interfaces_count; k++)
			if (fm_fact_is_same(&f->interfaces[k].name, &f->addresses[i].interface))
				return f->interfaces[k].mtu.is_known ? f->interfaces[k].mtu.n : 0;
	}
	return 0;
}

/* Both transports may have a rail between the same two addresses. */
static bool is_tried(const struct probe *probes, size_t count, const struct fm_facts_rail *r)
{
	size_t same = 0;

	for (size_t i = 0; i < count; i++) {
		bool is_same = fm_fact_is_same(&probes[i].rail->remote, &r->remote);

		if (is_same && fm_fact_is_same(&probes[i].rail->local, &r->local))
			return true;
		same += is_same;
	}
	return same >= OF_ADDRESS_MAX;
}

static void begin(struct fm_collect *c, struct fm_facts_rail *r, struct probe *probes,
		  size_t *count)
{
	uint64_t mtu = mtu_of(c->facts, r);
	struct probe *p;
	int family;

	if (mtu == 0) {
		fm_fact_unknown(&r->packet_passes, "the MTU of its interface is not known");
		return;
	}
	if (*count == PROBES_MAX || is_tried(probes, *count, r)) {
		fm_fact_unknown(&r->packet_passes, "another rail to that address was tried");
		return;
	}
	p = &probes[*count];
	*p = (struct probe){.rail = r, .large_fd = connected(r, &family)};
	p->small_fd = p->large_fd < 0 ? -1 : connected(r, &family);
	if (p->small_fd < 0) {
		fm_collect_failed(&r->packet_passes, p->large_fd < 0 ? p->large_fd : p->small_fd,
				  "a datagram to its peer");
		if (p->large_fd >= 0)
			(void)close(p->large_fd); /* nothing was sent */
		return;
	}
	p->bytes = mtu - (family == AF_INET ? HEADERS_V4 : HEADERS_V6);
	if (p->bytes > DATAGRAM_MAX)
		p->bytes = DATAGRAM_MAX;
	fm_fact_number(&r->packet_bytes, mtu);
	++*count;
}

/* Whether what was sent there was answered; a second time: another answer. */
static bool has_answer(int fd)
{
	char unused;

	return recv(fd, &unused, 1, 0) < 0 && is_answer(errno);
}

/* An answer to what was sent before may be told in place of sending. */
static bool is_sent_to_nobody(int fd, size_t bytes)
{
	static const char data[DATAGRAM_MAX];

	return send(fd, data, bytes, MSG_NOSIGNAL) < 0 && is_answer(errno);
}

static void send_to(struct probe *p, bool is_first)
{
	if (p->is_answered)
		return;
	p->is_answered = is_sent_to_nobody(p->large_fd, p->bytes);
	if (!p->is_answered && !is_first && is_sent_to_nobody(p->small_fd, SMALL_BYTES))
		p->small_answers++;
}

/* How many are silent. */
static size_t listen_to(struct probe *probes, size_t count)
{
	size_t silent = 0;

	for (size_t i = 0; i < count; i++) {
		struct probe *p = &probes[i];

		if (!p->is_answered && has_answer(p->large_fd))
			p->is_answered = true;
		if (!p->is_answered && has_answer(p->small_fd))
			p->small_answers++;
		silent += !p->is_answered;
	}
	return silent;
}

/* Send to those that were silent, and listen for a while. */
static void try(struct probe *probes, size_t count, bool is_first)
{
	struct pollfd fds[PROBES_MAX] = {0}; /* an answer is an error, which is always told */
	uint64_t now_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	const uint64_t end_ns = now_ns + TRY_MS * FM_NS_PER_MS;

	for (size_t i = 0; i < count; i++)
		send_to(&probes[i], is_first);
	while (listen_to(probes, count) > 0 && now_ns < end_ns) {
		for (size_t i = 0; i < count; i++)
			fds[i].fd = probes[i].is_answered ? -1 : probes[i].large_fd;
		(void)poll(fds, count, (int)((end_ns - now_ns) / FM_NS_PER_MS) + 1);
		now_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	}
}

static void conclude(struct probe *p)
{
	struct fm_fact *passes = &p->rail->packet_passes;

	if (p->is_answered)
		fm_fact_number(passes, true);
	else if (p->small_answers >= ENOUGH)
		fm_fact_number(passes, false);
	else
		fm_fact_unknown(passes, "its peer answers no datagram to UDP port %u, not a small "
					"one: a firewall, or a program that listens there",
				CLOSED_PORT);
	(void)close(p->large_fd); /* nothing is left to be sent */
	(void)close(p->small_fd);
}

void fm_collect_packets(struct fm_collect *c)
{
	struct probe probes[PROBES_MAX];
	size_t count = 0;

	for (size_t i = 0; i < c->facts->rails_count; i++) {
		struct fm_facts_rail *r = &c->facts->rails[i];

		if (c->options->is_within_daemon)
			fm_fact_unknown(&r->packet_passes, within);
		else if (*c->root)
			fm_fact_unknown(&r->packet_passes, "read from files");
		else if (fm_fact_is_true(&r->up))
			begin(c, r, probes, &count);
		else
			fm_fact_unknown(&r->packet_passes, "it is down");
	}
	for (unsigned i = 0; count > 0 && i < TRIES; i++)
		try(probes, count, i == 0);
	for (size_t i = 0; i < count; i++)
		conclude(&probes[i]);
}
