/* SPDX-License-Identifier: MIT */
/* find - see find.h. */
#include "mover/join/find.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/join/find_msg.h"
#include "mover/transport/transport.h"

#define LOOK_NS (2 * FM_NS_PER_S)
#define READ_MAX 16		/* datagrams, before others have their turn */

struct ear {
	struct fm_find *find;
	struct fm_watch watch;		/* of the socket; fd -1: not in use */
	struct sockaddr_in6 link;
};

struct fm_find {
	struct fm_find_opts o;
	struct ear ears[FM_FIND_LINKS_MAX];
	struct fm_timer look;
	uint64_t second_ns;		/* when the second began ... */
	unsigned answers;		/* ... in which there were so many */
	struct fm_log_limit lines;
};

/* ---- questions ---- */

static bool may_answer(struct fm_find *find)
{
	uint64_t now_ns = fm_loop_now(find->o.loop);

	if (now_ns - find->second_ns >= FM_NS_PER_S) {
		find->second_ns = now_ns;
		find->answers = 0;
	}
	return find->answers++ < FM_FIND_ANSWERS_MAX;
}

static void answer(const struct ear *ear, const uint8_t *question, size_t len,
		   const struct sockaddr_in6 *to)
{
	struct fm_find *find = ear->find;
	struct fm_find_found found = {.port = find->o.port};
	uint8_t buf[FM_FIND_LEN];

	if (fm_find_decode(question, len, found.nonce) < 0 || !may_answer(find))
		return;
	(void)strncat(found.name, find->o.node, sizeof(found.name) - 1);
	/* One that is lost is asked for again. */
	(void)sendto(ear->watch.fd, buf, fm_find_found_encode(&found, buf), MSG_NOSIGNAL,
		     (const struct sockaddr *)to, sizeof(*to));
}

static void ear_ready(struct fm_watch *watch, uint32_t events)
{
	struct ear *ear = fm_container_of(watch, struct ear, watch);
	uint8_t buf[FM_FIND_LEN + 1];	/* one more shows that a datagram is too long */
	struct sockaddr_in6 from;

	(void)events;
	for (unsigned i = 0; i < READ_MAX; i++) {
		int len = fm_find_receive(watch->fd, buf, sizeof(buf), &from);

		if (len < 0)
			return;
		if (len > 0)
			answer(ear, buf, (size_t)len, &from);
	}
}

/* ---- sockets ---- */

static void ear_close(struct ear *ear)
{
	if (ear->watch.fd < 0)
		return;
	fm_watch_del(ear->find->o.loop, &ear->watch);
	(void)close(ear->watch.fd);	/* nothing that waits to be sent matters */
	ear->watch.fd = -1;
}

static void ear_open(struct fm_find *find, const struct sockaddr_in6 *link)
{
	struct fm_err err = {0};
	struct ear *ear = find->ears;
	int ret;

	/* There are as many as links, and those of others are closed. */
	while (ear->watch.fd >= 0)
		ear++;
	ear->link = *link;
	ear->watch = (struct fm_watch){.ready = ear_ready, .events = EPOLLIN, .fd = -1};
	ret = fm_find_socket(link, true, &ear->watch.fd, &err);
	if (ret == 0)
		ret = fm_watch_add(find->o.loop, &ear->watch, &err);
	if (ret == 0)
		return;
	fm_log_some(&find->lines, fm_loop_now(find->o.loop), FM_LOG_WARN,
		    "nodes that look for this one do not find it on interface %u: %s",
		    link->sin6_scope_id, err.text);
	if (ear->watch.fd >= 0)
		(void)close(ear->watch.fd);
	ear->watch.fd = -1;
}

static bool has_link(const struct ear *ear, const struct sockaddr_in6 *links, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (links[i].sin6_scope_id == ear->link.sin6_scope_id)
			return true;
	return false;
}

static bool is_heard(const struct fm_find *find, const struct sockaddr_in6 *link)
{
	for (unsigned i = 0; i < FM_FIND_LINKS_MAX; i++)
		if (find->ears[i].watch.fd >= 0 &&
		    find->ears[i].link.sin6_scope_id == link->sin6_scope_id)
			return true;
	return false;
}

/* Which links there are now. */
static void look(struct fm_timer *timer)
{
	struct fm_find *find = fm_container_of(timer, struct fm_find, look);
	struct sockaddr_in6 links[FM_FIND_LINKS_MAX];
	struct fm_addr own[FM_ADDRS_MAX];
	size_t count = find->o.net->ops->addrs(find->o.net, own, FM_ADDRS_MAX);

	count = fm_find_links(own, count, find->o.where, links);
	for (unsigned i = 0; i < FM_FIND_LINKS_MAX; i++)
		if (!has_link(&find->ears[i], links, count))
			ear_close(&find->ears[i]);
	for (size_t i = 0; i < count; i++)
		if (!is_heard(find, &links[i]))
			ear_open(find, &links[i]);
	fm_timer_set(find->o.loop, timer, fm_loop_now(find->o.loop) + LOOK_NS);
}

/* ---- the whole ---- */

int fm_find_new(const struct fm_find_opts *opts, struct fm_find **out, struct fm_err *err)
{
	struct fm_find *find = calloc(1, sizeof(*find));

	if (!find)
		return fm_err_set(err, -ENOMEM, "out of memory");
	find->o = *opts;
	find->look.fire = look;
	for (unsigned i = 0; i < FM_FIND_LINKS_MAX; i++)
		find->ears[i] = (struct ear){.find = find, .watch = {.fd = -1}};
	*out = find;
	return 0;
}

void fm_find_set(struct fm_find *find, bool is_open)
{
	if (is_open && find->o.where != FM_FIND_OFF) {
		look(&find->look);
		return;
	}
	fm_timer_clear(find->o.loop, &find->look);
	for (unsigned i = 0; i < FM_FIND_LINKS_MAX; i++)
		ear_close(&find->ears[i]);
}

void fm_find_free(struct fm_find *find)
{
	if (!find)
		return;
	assert(!fm_timer_is_set(&find->look));
	free(find);
}
