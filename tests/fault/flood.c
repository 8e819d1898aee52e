/* SPDX-License-Identifier: MIT */
/*
 * flood - asks a daemon for very many puts at once, over the local API, and holds them open.
 *
 *   flood SOCKET FILE COUNT OPEN_MAX NODE STORE
 *
 * Every put is of FILE, a kilobyte a second, so that few are done soon. Passes if all that the
 * daemon did not take were refused with EBUSY and a text, some were, at most OPEN_MAX were taken,
 * and it still answers. Then the connections are closed, which cancels what is open.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CONNS_MAX 90			/* below what one user may have */
#define PER_CONN_MAX 250		/* below what one connection may have under way */
#define MSG_MAX_BYTES 262144
#define WAIT_S 400			/* when to give up: HANG_S of tests/hang.sh */
#define PING_ID 1000000u

struct conn {
	int fd;
	unsigned sent;			/* puts; after these a ping */
	unsigned refused;
	bool is_pinged, is_ponged;
};

struct flood {
	struct conn conns[CONNS_MAX];
	unsigned conn_count;
	unsigned per_conn;
	unsigned count, open_max;
	unsigned refused;
	int file;
	const char *node, *store;
	char text[256];			/* of one refusal */
};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)fprintf(stderr, "flood: ");
	(void)vfprintf(stderr, format, args);
	(void)fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static int dial(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
		die("%s: no socket for that", path);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

/* ---- asking ---- */

/* false: not now. */
static bool send_message(int fd, const char *text, int file)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (file >= 0) {
		memcpy(CMSG_DATA(&control.header), &file, sizeof(file));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control.room);
	}
	if (sendmsg(fd, &msg, MSG_NOSIGNAL) >= 0)
		return true;
	/* Descriptors that nobody has taken yet are limited too, by user. */
	if (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS || errno == ENOBUFS)
		return false;
	die("sending a request: %s", strerror(errno));
}

static bool ask_put(struct flood *f, struct conn *c)
{
	char text[512];
	unsigned number = (unsigned)(c - f->conns) * f->per_conn + c->sent;

	(void)snprintf(text, sizeof(text),
		       "{\"op\":\"put\",\"id\":%u,\"node\":\"%s\",\"store\":\"%s\","
		       "\"path\":\"flood/%u\",\"limit\":1024}",
		       c->sent + 1, f->node, f->store, number);
	return send_message(c->fd, text, f->file);
}

static bool is_put_left(const struct flood *f, const struct conn *c)
{
	return c->sent < f->per_conn &&
	       (unsigned)(c - f->conns) * f->per_conn + c->sent < f->count;
}

static void ask_more(struct flood *f, struct conn *c)
{
	char text[64];

	while (is_put_left(f, c)) {
		if (!ask_put(f, c))
			return;
		c->sent++;
	}
	if (!c->is_pinged) {
		(void)snprintf(text, sizeof(text), "{\"op\":\"ping\",\"id\":%u}", PING_ID);
		c->is_pinged = send_message(c->fd, text, -1);
	}
}

/* ---- listening ---- */

/* Of an object that the daemon made: the text behind a key, up to its quote. */
static void string_of(const char *json, const char *key, char *out, size_t cap)
{
	const char *at = strstr(json, key);
	size_t len = 0;

	out[0] = '\0';
	if (at == NULL)
		return;
	at += strlen(key);
	at += strspn(at, "\": ");
	while (at[len] != '\0' && at[len] != '"' && len < cap - 1)
		len++;
	memcpy(out, at, len);
	out[len] = '\0';
}

static void take(struct flood *f, struct conn *c, const char *json)
{
	char event[16], code[32], text[256];

	string_of(json, "\"event\"", event, sizeof(event));
	if (strcmp(event, "done") == 0) {
		c->is_ponged |= strstr(json, "\"version\"") != NULL;
		return;
	}
	if (strcmp(event, "error") != 0)
		die("what is that: %.200s", json);
	string_of(json, "\"code\"", code, sizeof(code));
	string_of(json, "\"text\"", text, sizeof(text));
	if (strcmp(code, "EBUSY") != 0 || text[0] == '\0')
		die("refused otherwise than politely: %.300s", json);
	memcpy(f->text, text, sizeof(f->text));
	c->refused++;
	f->refused++;
}

static void listen_to(struct flood *f, struct conn *c)
{
	static char text[MSG_MAX_BYTES + 1];
	ssize_t n;

	while ((n = recv(c->fd, text, MSG_MAX_BYTES, 0)) > 0) {
		text[n] = '\0';
		take(f, c, text);
	}
	if (n == 0)
		die("the daemon closed a connection after %u answers", f->refused);
	if (errno != EAGAIN && errno != EINTR)
		die("receiving: %s", strerror(errno));
}

/* ---- the whole ---- */

/* Everything is asked, every connection is answered, and what was taken is little enough. */
static bool is_over(const struct flood *f)
{
	for (unsigned i = 0; i < f->conn_count; i++)
		if (!f->conns[i].is_ponged || is_put_left(f, &f->conns[i]))
			return false;
	return f->count - f->refused <= f->open_max;
}

static void flood_run(struct flood *f)
{
	struct pollfd polls[CONNS_MAX];
	time_t end = time(NULL) + WAIT_S;

	while (!is_over(f)) {
		if (time(NULL) > end)
			die("after %d s %u of %u were refused, and that leaves more than %u",
			    WAIT_S, f->refused, f->count, f->open_max);
		for (unsigned i = 0; i < f->conn_count; i++) {
			struct conn *c = &f->conns[i];
			bool wants = is_put_left(f, c) || !c->is_pinged;

			polls[i] =
				(struct pollfd){c->fd, (short)(POLLIN | (wants ? POLLOUT : 0)), 0};
		}
		(void)poll(polls, f->conn_count, 100);
		for (unsigned i = 0; i < f->conn_count; i++) {
			listen_to(f, &f->conns[i]);
			ask_more(f, &f->conns[i]);
		}
	}
}

static unsigned number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end != '\0' || n == 0 || n > CONNS_MAX * PER_CONN_MAX)
		die("%s: a number from 1 to %d", text, CONNS_MAX * PER_CONN_MAX);
	return (unsigned)n;
}

int main(int argc, char **argv)
{
	static struct flood f;

	if (argc != 7) {
		(void)fprintf(stderr, "usage: flood SOCKET FILE COUNT OPEN_MAX NODE STORE\n");
		return 2;
	}
	f.file = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (f.file < 0)
		die("%s: %s", argv[2], strerror(errno));
	f.count = number(argv[3]);
	f.open_max = number(argv[4]);
	f.node = argv[5];
	f.store = argv[6];
	f.per_conn = (f.count + CONNS_MAX - 1) / CONNS_MAX;
	f.conn_count = (f.count + f.per_conn - 1) / f.per_conn;
	for (unsigned i = 0; i < f.conn_count; i++)
		f.conns[i].fd = dial(argv[1]);
	flood_run(&f);
	if (f.refused == 0)
		die("not one of %u was refused", f.count);
	(void)printf("%u puts asked for at once: %u taken, %u refused: %s\n", f.count,
		     f.count - f.refused, f.refused, f.text);
	return 0;
}
