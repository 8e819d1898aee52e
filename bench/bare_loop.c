/* SPDX-License-Identifier: MIT */
/*
 * bare_loop - the least that a verified copy over TCP can do: read, CRC, send | receive, CRC,
 * write. Nothing else.
 *
 *   bare_loop SOURCE TARGET CHUNK_BYTES THREADS
 *
 * What fmove is measured against. Two processes, as two nodes are; each thread has one connection
 * and every THREADS-th chunk. Prints seconds, CPU seconds of both processes, and bytes.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/crc32c.h"

#define THREADS_MAX 64

struct header {
	uint64_t offset;
	uint32_t len;
	uint32_t crc;
};

struct stripe {
	int file;
	int sock;
	unsigned index;
};

static size_t chunk_bytes;
static unsigned threads;
static uint64_t size;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void send_all(int sock, const void *buf, size_t len, int flags)
{
	const char *at = buf;

	while (len > 0) {
		ssize_t n = send(sock, at, len, flags);

		if (n <= 0)
			die("send");
		at += n;
		len -= (size_t)n;
	}
}

static void recv_all(int sock, void *buf, size_t len)
{
	char *at = buf;

	while (len > 0) {
		ssize_t n = recv(sock, at, len, MSG_WAITALL);

		if (n <= 0)
			die("recv");
		at += n;
		len -= (size_t)n;
	}
}

static void *sender(void *arg)
{
	struct stripe *s = arg;
	char *buf = aligned_alloc(4096, chunk_bytes);
	struct header h;

	if (!buf)
		die("memory");
	for (uint64_t at = s->index * chunk_bytes; at < size; at += threads * chunk_bytes) {
		ssize_t n = pread(s->file, buf, chunk_bytes, (off_t)at);

		if (n <= 0)
			die("read");
		h = (struct header){ at, (uint32_t)n, fm_crc32c(0, buf, (size_t)n) };
		send_all(s->sock, &h, sizeof(h), MSG_MORE);
		send_all(s->sock, buf, (size_t)n, 0);
	}
	h = (struct header){ 0, 0, 0 };
	send_all(s->sock, &h, sizeof(h), 0);
	free(buf);
	return NULL;
}

static void *receiver(void *arg)
{
	struct stripe *s = arg;
	char *buf = aligned_alloc(4096, chunk_bytes);
	struct header h;

	if (!buf)
		die("memory");
	for (;;) {
		recv_all(s->sock, &h, sizeof(h));
		if (h.len == 0)
			break;
		recv_all(s->sock, buf, h.len);
		if (fm_crc32c(0, buf, h.len) != h.crc)
			die("the CRC differs");
		if (pwrite(s->file, buf, h.len, (off_t)h.offset) != (ssize_t)h.len)
			die("write");
	}
	free(buf);
	return NULL;
}

static void run(void *(*body)(void *), int file, const int *socks)
{
	struct stripe stripes[THREADS_MAX];
	pthread_t ids[THREADS_MAX];

	for (unsigned i = 0; i < threads; i++) {
		stripes[i] = (struct stripe){ file, socks[i], i };
		if (pthread_create(&ids[i], NULL, body, &stripes[i]))
			die("thread");
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
}

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_of(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void connect_pairs(int *here, int *there)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (listener < 0 || bind(listener, (struct sockaddr *)&sa, sizeof(sa)) ||
	    listen(listener, THREADS_MAX) || getsockname(listener, (struct sockaddr *)&sa, &len))
		die("listen");
	for (unsigned i = 0; i < threads; i++) {
		here[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (here[i] < 0 || connect(here[i], (struct sockaddr *)&sa, sizeof(sa)))
			die("connect");
		setsockopt(here[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		there[i] = accept(listener, NULL, NULL);
		if (there[i] < 0)
			die("accept");
	}
	close(listener);
}

int main(int argc, char **argv)
{
	int here[THREADS_MAX], there[THREADS_MAX], source, target, status;
	struct stat st;
	double start;
	pid_t child;

	if (argc != 5) {
		fprintf(stderr, "usage: bare_loop SOURCE TARGET CHUNK_BYTES THREADS\n");
		return 2;
	}
	chunk_bytes = strtoull(argv[3], NULL, 0);
	threads = (unsigned)strtoul(argv[4], NULL, 0);
	if (chunk_bytes < 4096 || chunk_bytes % 4096 || threads < 1 || threads > THREADS_MAX)
		die("bad chunk or thread count");
	source = open(argv[1], O_RDONLY);
	target = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (source < 0 || target < 0 || fstat(source, &st))
		die("open");
	size = (uint64_t)st.st_size;
	connect_pairs(here, there);
	start = seconds(CLOCK_MONOTONIC);
	child = fork();
	if (child == 0) {
		run(receiver, target, there);
		_exit(0);
	}
	run(sender, source, here);
	if (waitpid(child, &status, 0) != child || status != 0)
		die("receiver");
	printf("%.6f %.6f %llu\n", seconds(CLOCK_MONOTONIC) - start,
	       cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN), (unsigned long long)size);
	return 0;
}
