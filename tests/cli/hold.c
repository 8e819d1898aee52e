/* SPDX-License-Identifier: MIT */
/*
 * hold - asks a daemon for as many of one thing as it gives, over the local API, and keeps them.
 *
 *   hold SOCKET CONNECTIONS REQUESTS TEXT [FILE]
 *
 * Makes up to so many connections, one after another; on each so many requests TEXT, in which # is
 * the number of the request, each with a descriptor of FILE beside it. Stops at the first
 * connection on which something was refused, prints how much it has and why there was no more, and
 * keeps it until it is killed.
 *
 *   hold SOCKET -CONNECTIONS 0 TEXT FILE GO
 *
 * Opens FILE; when there is a file GO, makes so many connections and leaves each at once, with a
 * request behind it that nobody has read yet. Prints "open", then "left".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAX (256u << 10)

static char why[512];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int dial(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
		die(path);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		die(path);
	return fd;
}

static void send_message(int fd, const char *text, int file)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS}};
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (file >= 0) {
		memcpy(CMSG_DATA(&control.header), &file, sizeof(file));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control.room);
	}
	(void)sendmsg(fd, &msg, MSG_NOSIGNAL);	/* who hung up is heard of */
}

static void send_request(int fd, const char *format, unsigned number, int file)
{
	char text[1024];
	size_t len = 0;

	for (; *format && len < sizeof(text) - 16; format++)
		len += (size_t)sprintf(text + len, *format == '#' ? "%u" : "%c",
				       *format == '#' ? number : (unsigned)*format);
	text[len] = '\0';
	send_message(fd, text, file);
}

/* The next event; an error is kept. False: the connection is over. */
static bool hear(int fd, bool *is_error, bool *is_pong)
{
	static char text[MESSAGE_MAX + 1];
	ssize_t len = recv(fd, text, MESSAGE_MAX, 0);

	if (len < 0 && errno == ECONNRESET)
		len = recv(fd, text, MESSAGE_MAX, 0);	/* what was said before it was closed */
	if (len <= 0)
		return false;
	text[len] = '\0';
	*is_error = strstr(text, "\"event\":\"error\"") != NULL;
	*is_pong = strstr(text, "\"version\"") != NULL;
	if (*is_error)
		(void)snprintf(why, sizeof(why), "%.500s", text);
	return true;
}

/* How many of its requests were refused; -1: the connection was. */
static int refused(int fd, const char *format, unsigned requests, int file)
{
	bool is_error, is_pong = false;
	int count = 0;

	send_message(fd, "{\"op\":\"ping\",\"id\":900000}", -1);
	if (!hear(fd, &is_error, &is_pong) || is_error)
		return -1;
	for (unsigned i = 1; i <= requests; i++) {
		send_request(fd, format, i, file);
		send_message(fd, "{\"op\":\"ping\",\"id\":900000}", -1);
		for (is_pong = false; !is_pong;) {
			if (!hear(fd, &is_error, &is_pong))
				die("the connection ended");
			count += is_error;
		}
	}
	return count;
}

/* It ends when FILE can be closed. */
static int leave(const char *socket, unsigned conns, const char *text, const char *path,
		 const char *go)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		die(path);
	puts("open");
	fflush(stdout);
	while (access(go, F_OK) < 0)
		usleep(10000);
	for (unsigned i = 0; i < conns; i++) {
		int fd = dial(socket);

		send_message(fd, text, file);
		close(fd);
	}
	puts("left");
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned held = 0, conns, requests;
	int file = -1, bad = 0;

	if (argc < 5)
		return 2;
	if (argv[2][0] == '-')
		return leave(argv[1], (unsigned)atoi(argv[2] + 1), argv[4], argv[5], argv[6]);
	conns = (unsigned)atoi(argv[2]);
	requests = (unsigned)atoi(argv[3]);
	if (argc > 5 && (file = open(argv[5], O_RDWR | O_CLOEXEC)) < 0)
		die(argv[5]);
	for (unsigned i = 0; i < conns && bad == 0; i++) {
		bad = refused(dial(argv[1]), argv[4], requests, file);
		if (bad >= 0)
			held += requests ? requests - (unsigned)bad : 1;
	}
	printf("%u %s\n", held, why);
	fflush(stdout);
	(void)pause();
	return 0;
}
