/* SPDX-License-Identifier: MIT */
/*
 * relay - somebody on the path between two nodes: passes on every TCP connection to its port, keeps
 * a copy of all bytes, and changes a bit when told.
 *
 *   relay ADDRESS PORT TARGET_ADDRESS TARGET_PORT COPY
 *
 * COPY gets the bytes of both directions of all connections. SIGUSR1: one bit of the next large
 * piece that comes by is changed. It says "ready" when it listens, and "changed" when it did that.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS_MAX 64
#define PIECE_MAX 65536
#define LARGE 4096		/* bytes: a piece of a file, no handshake */

/* One way of a connection: bytes that were read from one end wait here for the other. */
struct way {
	int from, to;
	size_t at, len;
	bool is_over;
	char buf[PIECE_MAX];
};

static struct way *ways[2 * PAIRS_MAX];
static unsigned way_count;
static volatile sig_atomic_t is_told;
static FILE *copy;
static struct sockaddr_in target;

static void tell(int signal)
{
	(void)signal;
	is_told = 1;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
		die(host);
	return in;
}

static void way_add(int from, int to)
{
	struct way *w = calloc(1, sizeof(*w));

	if (!w)
		die("calloc");
	w->from = from;
	w->to = to;
	ways[way_count++] = w;
}

static void take(int listen_fd)
{
	int near = accept(listen_fd, NULL, NULL), far, on = 1;

	if (near < 0)
		return;
	far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (far < 0 || way_count + 2 > 2 * PAIRS_MAX ||
	    connect(far, (struct sockaddr *)&target, sizeof(target)) < 0) {
		close(near);
		close(far);
		return;
	}
	(void)setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)fcntl(near, F_SETFL, O_NONBLOCK);
	(void)fcntl(far, F_SETFL, O_NONBLOCK);
	way_add(near, far);
	way_add(far, near);
}

static void way_read(struct way *w)
{
	ssize_t n = recv(w->from, w->buf, sizeof(w->buf), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		w->is_over = true;
		(void)shutdown(w->to, SHUT_WR);
		return;
	}
	if (is_told && n >= LARGE) {
		is_told = 0;
		w->buf[n / 2] ^= 0x10;
		puts("changed");
		fflush(stdout);
	}
	fwrite(w->buf, 1, (size_t)n, copy);
	fflush(copy);
	w->at = 0;
	w->len = (size_t)n;
}

static void way_write(struct way *w)
{
	ssize_t n = send(w->to, w->buf + w->at, w->len - w->at, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		w->is_over = true;
	if (n < 0)
		return;
	w->at += (size_t)n;
	if (w->at == w->len)
		w->at = w->len = 0;
}

/* Both ways of a connection stand beside each other: they go together. */
static void drop_ended(void)
{
	for (unsigned i = 0; i < way_count; i += 2) {
		if (!ways[i]->is_over || !ways[i + 1]->is_over)
			continue;
		close(ways[i]->from);
		close(ways[i]->to);
		free(ways[i]);
		free(ways[i + 1]);
		way_count -= 2;
		ways[i] = ways[way_count];
		ways[i + 1] = ways[way_count + 1];
		i -= 2;
	}
}

static void serve(int listen_fd)
{
	struct pollfd fds[2 * PAIRS_MAX + 1] = { { .fd = listen_fd, .events = POLLIN } };
	unsigned count = way_count;

	for (unsigned i = 0; i < count; i++)
		fds[i + 1] = (struct pollfd){.fd = ways[i]->is_over ? -1
						   : ways[i]->len   ? ways[i]->to
								    : ways[i]->from,
					     .events = ways[i]->len ? POLLOUT : POLLIN};
	if (poll(fds, count + 1, -1) < 0)
		return;
	for (unsigned i = 0; i < count; i++) {
		if (!fds[i + 1].revents)
			continue;
		if (ways[i]->len)
			way_write(ways[i]);
		else
			way_read(ways[i]);
	}
	if (fds[0].revents)
		take(listen_fd);
	drop_ended();
}

int main(int argc, char **argv)
{
	struct sockaddr_in in;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (argc != 6)
		return 2;
	in = address(argv[1], argv[2]);
	target = address(argv[3], argv[4]);
	copy = fopen(argv[5], "w");
	if (!copy || fd < 0)
		die(argv[5]);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, PAIRS_MAX) < 0)
		die("listen");
	(void)signal(SIGUSR1, tell);
	puts("ready");
	fflush(stdout);
	for (;;)
		serve(fd);
}
