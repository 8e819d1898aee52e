/* SPDX-License-Identifier: MIT */
/*
 * hostile_client - a local user with bad manners, over the socket of the local API and the channels
 * of trees.
 *
 *   hostile_client --socket PATH --dir DIR [--user UID] [--seed N] [--messages N] [--seconds N]
 *
 * It asks for anything with any keys and values, passes descriptors of every kind (ends of pipes,
 * directories, O_PATH, /proc, the daemon's own socket), answers what the daemon asks over the
 * channels of its trees with anything, rewrites the memory that it shares, reads or does not, and
 * vanishes in the midst.
 *
 * It ends after so many messages or seconds and prints what it did. What becomes of the daemon,
 * hostile.sh judges.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/hostile/client.h"

#define CONNS_MAX 24
#define EVENT_MAX (256u << 10)
#define POLLS_MAX 256

struct conn {
	int fd;	    /* -1: none */
	bool reads; /* one that does not is closed by the daemon at last */
};

#define CODES_MAX 64

/* How often each code of an error came. */
struct code {
	char name[24];
	uint64_t count;
};

struct client {
	struct odds odds;
	const char *socket_path;
	struct conn conns[CONNS_MAX];
	uint64_t messages, answers, events, errors, conns_made, refused;
	struct code codes[CODES_MAX];
	uint64_t messages_max;
	time_t until;
};

__attribute__((noreturn)) static void die(const char *what)
{
	(void)fprintf(stderr, "hostile_client: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void conn_end(struct conn *c)
{
	if (c->fd >= 0)
		(void)close(c->fd);
	c->fd = -1;
}

static void conn_begin(struct client *cl, struct conn *c)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", cl->socket_path);
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd >= 0 && connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno != EAGAIN)
			die("the daemon cannot be reached any more");
		conn_end(c);
		return;
	}
	cl->conns_made += c->fd >= 0;
	c->reads = !one_in(&cl->odds, 8);
}

/* ---- asking ---- */

static bool send_request(int fd, const struct request *r)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(r->fd_count * sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)r->text, .iov_len = r->len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (r->fd_count > 0) {
		memcpy(CMSG_DATA(&control.head), r->fds, r->fd_count * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(r->fd_count * sizeof(int));
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN ||
	       errno == ETOOMANYREFS || errno == ENOBUFS || errno == EMSGSIZE;
}

static void ask(struct client *cl, struct conn *c)
{
	static struct request r;
	unsigned count = 1 + (unsigned)below(&cl->odds, 4);

	while (count-- > 0 && c->fd >= 0) {
		request_make(&cl->odds, c->fd, &r);
		if (!send_request(c->fd, &r))
			conn_end(c);
		cl->messages++;
		for (unsigned i = 0; i < r.fd_count; i++)
			(void)close(r.fds[i]);
	}
}

static void count_error(struct client *cl, const char *event)
{
	const char *at = strstr(event, "\"code\"");
	char name[24] = "?";

	cl->errors++;
	if (at)
		(void)sscanf(at, "\"code\"%*[: ]\"%23[^\"]", name);
	for (unsigned i = 0; i < CODES_MAX; i++) {
		struct code *c = &cl->codes[i];

		if (c->count > 0 && strcmp(c->name, name) != 0)
			continue;
		memcpy(c->name, name, sizeof(name));
		c->count++;
		return;
	}
}

static void listen_to(struct client *cl, struct conn *c)
{
	static char text[EVENT_MAX + 1];
	ssize_t n;

	while ((n = recv(c->fd, text, EVENT_MAX, MSG_DONTWAIT)) > 0) {
		text[n] = '\0';
		cl->events++;
		if (strstr(text, "\"error\""))
			count_error(cl, text);
		request_heard(&cl->odds, text);
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		cl->refused++;
		conn_end(c);
	}
}

/* ---- the whole ---- */

static void one_pass(struct client *cl)
{
	struct pollfd polls[POLLS_MAX];
	unsigned count = channels_poll(polls, POLLS_MAX - CONNS_MAX);

	for (unsigned i = 0; i < CONNS_MAX; i++)
		if (cl->conns[i].fd >= 0 && cl->conns[i].reads)
			polls[count++] = (struct pollfd){.fd = cl->conns[i].fd, .events = POLLIN};
	(void)poll(polls, count, 2);
	cl->answers += channels_serve(&cl->odds);
	for (unsigned i = 0; i < CONNS_MAX; i++) {
		struct conn *c = &cl->conns[i];

		if (c->fd >= 0 && c->reads)
			listen_to(cl, c);
		if (c->fd < 0 && one_in(&cl->odds, 4))
			conn_begin(cl, c);
		if (c->fd >= 0 && one_in(&cl->odds, 60))
			conn_end(c);
		if (c->fd >= 0 && one_in(&cl->odds, 6))
			ask(cl, c);
	}
}

static void become(uint64_t uid)
{
	struct rlimit files = {4096, 4096};

	(void)setrlimit(RLIMIT_NOFILE, &files);
	if (uid == 0 || geteuid() != 0)
		return;
	if (setgroups(0, NULL) < 0 || setgid((gid_t)uid) < 0 || setuid((uid_t)uid) < 0)
		die("becoming another user");
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	if (*text == '\0' || *end != '\0') {
		(void)fprintf(stderr, "hostile_client: %s is no number\n", text);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv, struct client *cl)
{
	static const struct option longs[] = {
		{"socket", 1, NULL, 'k'}, {"dir", 1, NULL, 'd'},      {"user", 1, NULL, 'u'},
		{"seed", 1, NULL, 's'},	  {"messages", 1, NULL, 'm'}, {"seconds", 1, NULL, 'S'},
		{NULL, 0, NULL, 0},
	};
	const char *dir = NULL;
	uint64_t uid = 0;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'k':
			cl->socket_path = optarg;
			break;
		case 'd':
			dir = optarg;
			break;
		case 'u':
			uid = number(optarg);
			break;
		case 's':
			cl->odds.state = number(optarg);
			break;
		case 'm':
			cl->messages_max = number(optarg);
			break;
		case 'S':
			cl->until = time(NULL) + (time_t)number(optarg);
			break;
		default:
			exit(2);
		}
	}
	if (!cl->socket_path || !dir || chdir(dir) < 0)
		die("--socket and --dir are needed");
	become(uid);
}

int main(int argc, char **argv)
{
	static struct client cl = {.messages_max = UINT64_MAX};

	cl.until = time(NULL) + 3600;
	(void)signal(SIGPIPE, SIG_IGN);
	parse(argc, argv, &cl);
	for (unsigned i = 0; i < CONNS_MAX; i++)
		cl.conns[i].fd = -1;
	while (cl.messages + cl.answers < cl.messages_max && time(NULL) < cl.until)
		one_pass(&cl);
	(void)printf("client: %" PRIu64 " requests and %" PRIu64 " answers for trees over %" PRIu64
		     " connections, %" PRIu64 " ended by the daemon; %" PRIu64 " events, %" PRIu64
		     " errors; %" PRIu64 " trees walked or published\n",
		     cl.messages, cl.answers, cl.conns_made, cl.refused, cl.events, cl.errors,
		     channel_trees);
	for (unsigned i = 0; i < CODES_MAX && cl.codes[i].count > 0; i++)
		(void)printf("%s%s %" PRIu64, i > 0 ? ", " : "errors: ", cl.codes[i].name,
			     cl.codes[i].count);
	(void)printf("\n");
	(void)fflush(stdout);
	_exit(0);
}
