/* SPDX-License-Identifier: MIT */
/*
 * finding - see finding.h.
 *
 * Happy path: a socket on each link - the question, three times, since a datagram may be lost -
 * answers, until the time is over. A link that cannot be asked is an error, so that nobody takes
 * its silence for an answer.
 */
#include "client/cli/finding.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/transport/addr.h"
#include "mover/transport/net.h"

#define ASK_COUNT 3
#define ASK_MS 500
#define LAST_MS 1000		/* after the last question */

struct search {
	struct fm_finding *out;
	struct pollfd fds[FM_FIND_LINKS_MAX];
	unsigned open;
	uint8_t nonce[FM_FIND_NONCE_LEN];
};

/* ---- links ---- */

static int list_links(enum fm_find_where where, struct fm_finding *out, struct fm_err *err)
{
	struct fm_addr own[FM_ADDRS_MAX];
	struct fm_err no_rdma = {0};
	struct fm_loop *loop;
	int ret = fm_loop_new(&(struct fm_loop_opts){0}, &loop, err);
	size_t count;

	if (ret < 0)
		return ret;
	fm_log_set_level(FM_LOG_WARN);	/* why there is no RDMA is said below, where it matters */
	count = fm_net_list_addrs(loop, own, FM_ADDRS_MAX, &no_rdma);
	fm_loop_free(loop);
	out->link_count = (unsigned)fm_find_links(own, count, where, out->links);
	if (out->link_count > 0)
		return 0;
	if (where == FM_FIND_ANY)
		return fm_err_set(err, -ENODEV,
				  "no port here is up and has an IPv6 link-local address; ip -6 "
				  "address shows them, and fmove doctor what is wrong with one");
	return fm_err_set(err, -ENODEV,
			  "no RDMA port here is up and has an IPv6 link-local address%s%s; "
			  "--any-port asks on all other ports, too",
			  no_rdma.text[0] ? ": " : "", no_rdma.text);
}

static int open_all(struct search *s, struct fm_err *err)
{
	for (unsigned i = 0; i < s->out->link_count; i++) {
		struct pollfd *p = &s->fds[i];
		char text[FM_ADDR_TEXT_MAX];
		struct sockaddr_storage at = {0};

		if (fm_find_socket(&s->out->links[i], false, &p->fd, err) < 0) {
			memcpy(&at, &s->out->links[i], sizeof(s->out->links[i]));
			fm_addr_text(&at, text);
			return fm_err_wrap(err, "%s%s", text,
					   err->code == -EADDRINUSE
						   ? " (another fmove join --find runs here)"
						   : "");
		}
		p->events = POLLIN;
		s->open++;
	}
	return 0;
}

/* ---- questions and answers ---- */

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

static int ask(const struct search *s, struct fm_err *err)
{
	uint8_t buf[FM_FIND_LEN];

	fm_find_encode(s->nonce, buf);
	for (unsigned i = 0; i < s->open; i++) {
		struct sockaddr_in6 group = fm_find_group(&s->out->links[i]);

		if (sendto(s->fds[i].fd, buf, sizeof(buf), MSG_NOSIGNAL,
			   (const struct sockaddr *)&group, sizeof(group)) < 0 &&
		    errno != EAGAIN && errno != ENOBUFS)
			return fm_err_sys(err, -errno, "ask on UDP port %d", FM_FIND_PORT);
	}
	return 0;
}

/* Once each, however often it answers. */
static bool is_there(const struct fm_finding *out, const struct fm_finding_row *row)
{
	for (unsigned i = 0; i < out->count; i++)
		if (IN6_ARE_ADDR_EQUAL(&out->rows[i].from.sin6_addr, &row->from.sin6_addr) &&
		    out->rows[i].from.sin6_scope_id == row->from.sin6_scope_id &&
		    out->rows[i].said.port == row->said.port &&
		    strcmp(out->rows[i].said.name, row->said.name) == 0)
			return true;
	return false;
}

static void take(struct search *s, const uint8_t *buf, size_t len, const struct sockaddr_in6 *from)
{
	struct fm_finding_row row = {.from = *from};

	if (fm_find_found_decode(buf, len, &row.said) < 0 ||
	    memcmp(row.said.nonce, s->nonce, sizeof(s->nonce)) != 0 || is_there(s->out, &row))
		return;
	s->out->are_more |= s->out->count == FM_FINDING_MAX;
	if (s->out->count < FM_FINDING_MAX)
		s->out->rows[s->out->count++] = row;
}

static void hear(struct search *s, unsigned ms)
{
	uint64_t at_ns = now_ns(), end_ns = at_ns + ms * FM_NS_PER_MS;
	uint8_t buf[FM_FIND_LEN + 1];	/* one more shows that a datagram is too long */
	struct sockaddr_in6 from;

	for (; at_ns < end_ns; at_ns = now_ns()) {	/* however many strangers send */
		if (poll(s->fds, s->open, (int)((end_ns - at_ns) / FM_NS_PER_MS) + 1) <= 0)
			continue;
		for (unsigned i = 0; i < s->open; i++) {
			int len = s->fds[i].revents
					  ? fm_find_receive(s->fds[i].fd, buf, sizeof(buf), &from)
					  : 0;

			if (len > 0)
				take(s, buf, (size_t)len, &from);
		}
	}
}

static int search(struct search *s, struct fm_err *err)
{
	int ret = 0;

	if (getrandom(s->nonce, sizeof(s->nonce), 0) != sizeof(s->nonce))
		return fm_err_sys(err, -errno, "getrandom");
	for (unsigned i = 0; ret == 0 && i < ASK_COUNT; i++) {
		ret = ask(s, err);
		if (ret == 0)
			hear(s, i + 1 < ASK_COUNT ? ASK_MS : LAST_MS);
	}
	return ret;
}

int fm_finding_run(enum fm_find_where where, struct fm_finding *out, struct fm_err *err)
{
	struct search s = {.out = out};
	int ret;

	*out = (struct fm_finding){0};
	ret = list_links(where, out, err);
	if (ret == 0)
		ret = open_all(&s, err);
	if (ret == 0)
		ret = search(&s, err);
	for (unsigned i = 0; i < s.open; i++)
		(void)close(s.fds[i].fd);	/* nothing that waits to be sent matters */
	return ret;
}
