/* SPDX-License-Identifier: MIT */
/*
 * channels - directories of the hostile client, as the daemon sees them: over sockets and a memory
 * file, which it reads and the client rewrites. See client.c and mover/tree/channel.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/tree/channel_msg.h"
#include "mover/tree/pack.h"
#include "tests/hostile/client.h"

#define CHANNELS_MAX 24
#define LARGES_MAX   4

uint64_t channel_trees;
static struct channel channels[CHANNELS_MAX];
static bool is_set_up;

/* ---- beginning and end ---- */

static void channel_end(struct channel *c)
{
	for (unsigned i = 0; i < FM_CHANNEL_SOCKETS_MAX; i++)
		if (c->sockets[i] >= 0)
			(void)close(c->sockets[i]);
	if (c->memory >= 0)
		(void)close(c->memory);
	memset(c, 0, sizeof(*c));
	memset(c->sockets, 0xff, sizeof(c->sockets));
	c->memory = -1;
}

static struct channel *place(void)
{
	for (unsigned i = 0; i < CHANNELS_MAX && !is_set_up; i++)
		channels[i].memory = -1;
	is_set_up = true;
	for (unsigned i = 0; i < CHANNELS_MAX; i++)
		if (channels[i].memory < 0)
			return &channels[i];
	return NULL;
}

unsigned channel_begin(struct odds *o, int fds[static FDS_MAX])
{
	struct channel *c = place();
	unsigned sockets = FM_CHANNEL_SOCKETS_MIN +
			   (unsigned)below(o, FM_CHANNEL_SOCKETS_MAX - FM_CHANNEL_SOCKETS_MIN + 1),
		 count = 0;
	int pair[2];

	if (!c)
		return 0;
	channel_end(c);
	c->memory = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (c->memory < 0)
		return 0;
	if (!one_in(o, 20))
		(void)!ftruncate(c->memory, (off_t)FM_CHANNEL_PULSE_AT + 8);
	c->manners = 1u << below(o, 8);
	c->is_alive = !one_in(o, 8);
	c->is_mute = one_in(o, 16);
	fds[count++] = dup(c->memory);
	for (unsigned i = 0; i < sockets && count < FDS_MAX; i++) {
		if (socketpair(AF_UNIX, one_in(o, 200) ? SOCK_STREAM : SOCK_SEQPACKET, 0, pair) < 0)
			break;
		c->sockets[i] = pair[0];
		fds[count++] = pair[1];
	}
	return count;
}

unsigned channels_poll(struct pollfd *polls, unsigned max)
{
	unsigned count = 0;

	for (unsigned i = 0; i < CHANNELS_MAX && is_set_up; i++)
		for (unsigned k = 0; k < FM_CHANNEL_SOCKETS_MAX && channels[i].memory >= 0; k++)
			if (channels[i].sockets[k] >= 0 && count < max)
				polls[count++] = (struct pollfd){.fd = channels[i].sockets[k],
								 .events = POLLIN};
	return count;
}

/* ---- answers ---- */

static void add_entry(struct odds *o, struct fm_pack_writer *w)
{
	struct fm_pack_entry e = {.type = FM_PACK_FILE,
				  .mode = 0644,
				  .size = 4,
				  .path = "d/f",
				  .path_len = 3,
				  .data_len = 4,
				  .identity = 3};
	uint8_t *data;

	if (one_in(o, 3))
		e = (struct fm_pack_entry){
			.type = FM_PACK_DIR, .mode = 0755, .path = "d", .path_len = 1};
	else if (one_in(o, 3))
		e = (struct fm_pack_entry){.type = FM_PACK_LINK,
					   .path = "d/l",
					   .path_len = 3,
					   .target = "/etc",
					   .target_len = 4};
	else if (w->flags & FM_PACK_OFFER)
		e.data_len = 0;
	else
		e.crc = fm_crc32c_part(fm_crc32c(0, "hstl", 4), 0, 4);
	e.uid = one_in(o, 3) ? 0 : 65534;
	e.gid = e.uid;
	data = fm_pack_add(w, &e);
	if (e.data_len > 0)
		memcpy(data, "hstl", 4);
}

/* Into the line's part of the memory file; returns its length. */
static int64_t make_pack(struct odds *o, struct channel *c, unsigned line)
{
	static _Alignas(8) uint8_t buf[65536];
	struct fm_pack_writer w;
	size_t len;

	fm_pack_begin(&w, buf, sizeof(buf), one_in(o, 3) ? FM_PACK_OFFER : 0);
	for (unsigned n = 1 + (unsigned)below(o, 8); n > 0; n--)
		add_entry(o, &w);
	len = fm_pack_end(&w);
	for (unsigned n = one_in(o, c->manners) ? (unsigned)below(o, 5) : 0; n > 0; n--)
		buf[below(o, len)] = (uint8_t)any_number(o);
	(void)!pwrite(c->memory, buf, len, (off_t)line * FM_CHANNEL_PACK_MAX);
	return (int64_t)len;
}

static void answer_fill(struct odds *o, struct channel *c, unsigned line,
			const struct fm_channel_ask *ask, struct fm_channel_answer *a,
			int fds[static FM_CHANNEL_LARGES_MAX])
{
	static struct fm_tree_large larges[LARGES_MAX];

	a->ret = one_in(o, 20) ? -EAGAIN : c->fills++ < 6 ? make_pack(o, c, line) : 0;
	channel_trees += a->ret == 0;
	if (ask->larges == 0 || c->larges >= 2 || !one_in(o, 4))
		return;
	c->larges++;
	larges[0] = (struct fm_tree_large){.size = below(o, 1u << 22), .mode = 0600, .fd = -1};
	(void)snprintf(larges[0].path, sizeof(larges[0].path), one_in(o, 8) ? "../hstl" : "d/big%u",
		       (unsigned)c->larges);
	a->larges = larges;
	a->larges_count = 1;
	fds[0] = one_in(o, 3) ? fd_any(o, c->memory) : fd_source(o);
}

/* Pieces that are not there, side by side, in each other, or nowhere in the file. */
static void answer_create(struct odds *o, struct fm_channel_answer *a)
{
	static _Thread_local struct fm_written pieces[3];

	a->have.pieces = pieces;
	a->have.count = one_in(o, 3) ? 1 + below(o, 3) : 0;
	for (size_t i = 0; i < a->have.count; i++)
		pieces[i] =
			(struct fm_written){.offset = below(o, 8) * (one_in(o, 8) ? 4095 : 4096),
					    .len = below(o, one_in(o, 4) ? 100000 : 8193),
					    .crc = (uint32_t)odds_next(o)};
}

static unsigned make_answer(struct odds *o, struct channel *c, unsigned line,
			    const struct fm_channel_ask *ask, uint8_t *buf,
			    int fds[static FM_CHANNEL_LARGES_MAX])
{
	struct fm_channel_answer a = {.op = ask->op,
				      .tag = ask->tag,
				      .serial = odds_next(o) >> 2,
				      .text = "",
				      .note = ""};

	switch (ask->op) {
	case FM_CHANNEL_FILL:
		answer_fill(o, c, line, ask, &a, fds);
		break;
	case FM_CHANNEL_APPLY:
		a.need.count = one_in(o, 2) ? 0 : (uint16_t)(1 + below(o, 8));
		break;
	case FM_CHANNEL_CREATE_LARGE:
		answer_create(o, &a);
		fds[0] = one_in(o, 3) ? fd_any(o, c->memory) : fd_target(o);
		break;
	default:
		break;
	}
	channel_trees += ask->op == FM_CHANNEL_PUBLISH;
	if (one_in(o, 10 * c->manners)) {
		a.ret = -(int64_t)below(o, 4096);
		a.larges_count = 0;
		a.need.count = 0;
		a.text = "for no reason \033[2J\r";
		a.text_len = strlen(a.text);
	}
	if (one_in(o, 6))
		a.flags = (unsigned)below(o, 256) &
			  (FM_CHANNEL_OWNERS | FM_CHANNEL_PARTIAL | FM_CHANNEL_MORE);
	if (one_in(o, 10 * c->manners)) {
		a.count.bytes = any_number(o);
		a.count.files = any_number(o);
	}
	return (unsigned)fm_channel_put_answer(&a, buf);
}

static unsigned send_answer(struct odds *o, struct channel *c, unsigned line, const uint8_t *buf,
			    size_t len, const int *fds)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fds[0] >= 0 && !one_in(o, 20 * c->manners)) {
		memcpy(CMSG_DATA(&control.head), &fds[0], sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control.room);
	}
	return sendmsg(c->sockets[line], &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* While the daemon looks at what was said: another pack, another number, a shorter file. */
static void rewrite(struct odds *o, struct channel *c, unsigned line)
{
	uint64_t noise = odds_next(o);

	if (one_in(o, 2 * c->manners))
		(void)!pwrite(c->memory, &noise, sizeof(noise),
			      (off_t)line * FM_CHANNEL_PACK_MAX + (off_t)below(o, 512));
	if (one_in(o, 200 * c->manners))
		(void)!ftruncate(c->memory, (off_t)below(o, FM_CHANNEL_PULSE_AT + 8));
	if (!c->is_alive)
		return;
	c->pulse++;
	(void)!pwrite(c->memory, &c->pulse, sizeof(c->pulse), FM_CHANNEL_PULSE_AT);
}

static unsigned answer(struct odds *o, struct channel *c, unsigned line, const uint8_t *in,
		       size_t in_len)
{
	static uint8_t buf[FM_CHANNEL_ANSWER_MAX + 1024];
	static struct fm_channel_ask ask;
	int fds[FM_CHANNEL_LARGES_MAX] = {-1};
	size_t len;
	unsigned sent;

	if (c->is_mute || fm_channel_get_ask(in, in_len, &ask) < 0)
		return 0;
	len = make_answer(o, c, line, &ask, buf, fds);
	if (one_in(o, 10 * c->manners))
		buf[below(o, len)] = (uint8_t)any_number(o);
	if (one_in(o, 20 * c->manners))
		len = below(o, sizeof(buf));
	sent = send_answer(o, c, line, buf, len, fds);
	if (one_in(o, 20 * c->manners)) /* one that nobody asked for */
		sent += send_answer(o, c, line, buf, len, fds);
	rewrite(o, c, line);
	if (fds[0] >= 0)
		(void)close(fds[0]);
	return sent;
}

/* ---- serving ---- */

static unsigned serve_line(struct odds *o, struct channel *c, unsigned line)
{
	static uint8_t in[FM_CHANNEL_ASK_MAX];
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(8 * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = in, .iov_len = sizeof(in)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control.room)};
	ssize_t n = recvmsg(c->sockets[line], &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fd;

	if (n <= 0) {
		if (n == 0 || errno != EAGAIN) {
			(void)close(c->sockets[line]);
			c->sockets[line] = -1;
		}
		return 0;
	}
	for (struct cmsghdr *at = CMSG_FIRSTHDR(&msg); at; at = CMSG_NXTHDR(&msg, at))
		for (size_t i = 0;
		     at->cmsg_type == SCM_RIGHTS && i < (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		     i++) {
			memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
			(void)close(fd);
		}
	return answer(o, c, line, in, (size_t)n);
}

unsigned channels_serve(struct odds *o)
{
	unsigned sent = 0, open;

	for (unsigned i = 0; i < CHANNELS_MAX && is_set_up; i++) {
		struct channel *c = &channels[i];

		if (c->memory < 0)
			continue;
		open = 0;
		for (unsigned k = 0; k < FM_CHANNEL_SOCKETS_MAX; k++) {
			if (c->sockets[k] >= 0)
				sent += serve_line(o, c, k);
			open += c->sockets[k] >= 0;
		}
		rewrite(o, c, (unsigned)below(o, FM_CHANNEL_SOCKETS_MAX));
		if (open == 0 || one_in(o, 3000))
			channel_end(c);
	}
	return sent;
}
