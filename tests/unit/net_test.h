/* SPDX-License-Identifier: MIT */
/*
 * net_test - what the tests of the transport share: nodes with keys on 127.0.0.1, a clock that can
 * be moved on, and waiting for something while one loop runs both ends.
 */
#ifndef FM_NET_TEST_H
#define FM_NET_TEST_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/transport/net.h"
#include "mover/transport/transport.h"
#include "tests/fm_test.h"
#include "tests/unit/port.h"
#include "tests/unit/remove_all.h"

#define WAIT_NS (FM_TEST_HANG_S * FM_NS_PER_S)

/*
 * The clock of what is tested: real time plus what a test adds to it, so that deadlines pass
 * without waiting. Between two looks at it at most CLOCK_STEP_NS go by: on a machine that is too
 * busy to let us run, no deadline of ten seconds comes before the passes of a loop that it is for.
 */
#define CLOCK_STEP_NS (20 * FM_NS_PER_MS)

static pthread_mutex_t clock_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t clock_ns = FM_NS_PER_S, clock_looked_ns;
static bool is_clock_still;		/* it goes on by clock_skip() alone */

static inline uint64_t test_clock_now(void *ctx)
{
	uint64_t real_ns, step_ns, now_ns;

	(void)ctx;
	pthread_mutex_lock(&clock_lock);
	real_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	step_ns = clock_looked_ns ? real_ns - clock_looked_ns : 0;
	clock_looked_ns = real_ns;
	if (!is_clock_still)
		clock_ns += step_ns < CLOCK_STEP_NS ? step_ns : CLOCK_STEP_NS;
	now_ns = clock_ns;
	pthread_mutex_unlock(&clock_lock);
	return now_ns;
}

static const struct fm_clock test_clock = { .now_ns = test_clock_now };

static inline void clock_skip(uint64_t ns)
{
	pthread_mutex_lock(&clock_lock);
	clock_ns += ns;
	pthread_mutex_unlock(&clock_lock);
}

/* NULL: a fault point was armed. */
static inline struct fm_loop *loop_new_or_null(void)
{
	const struct fm_loop_opts opts = { .clock = &test_clock };
	struct fm_loop *loop = NULL;

	return fm_loop_new(&opts, &loop, NULL) < 0 ? NULL : loop;
}

static inline struct fm_loop *loop_new(void)
{
	struct fm_loop *loop = loop_new_or_null();

	if (!loop)
		abort();
	return loop;
}

/* Run the loop until cond holds, which is looked at no more then. False after WAIT_NS. */
#define WAIT_FOR(loop, cond) WAIT_FOR_MS(loop, WAIT_NS / FM_NS_PER_MS, cond)

#define WAIT_FOR_MS(loop, ms, cond) \
	({ \
		uint64_t wait_end_ = fm_clock_real.now_ns(NULL) + (ms) * FM_NS_PER_MS; \
		bool wait_is_met_ = (cond); \
\
		while (!wait_is_met_ && fm_clock_real.now_ns(NULL) < wait_end_) { \
			fm_loop_step(loop, FM_NS_PER_MS); \
			wait_is_met_ = (cond); \
		} \
		wait_is_met_; \
	})

/* Let things happen that should not. */
static inline void loop_idle(struct fm_loop *loop, unsigned ms)
{
	uint64_t end_ns = fm_clock_real.now_ns(NULL) + ms * FM_NS_PER_MS;

	/* Steps count as well: on a busy machine all of the time may pass in one of them. */
	for (unsigned steps = 0; steps < ms || fm_clock_real.now_ns(NULL) < end_ns; steps++)
		fm_loop_step(loop, FM_NS_PER_MS);
}

/* ---- files ---- */

static inline const char *test_dir(void)
{
	static char dir[64];

	if (!dir[0]) {
		snprintf(dir, sizeof(dir), "/tmp/fmove-test-XXXXXX");
		if (!mkdtemp(dir))
			abort();
	}
	return dir;
}

/* A file of the test's directory, made new. The path is static, eight of them in turn. */
static inline const char *test_file(const char *name, const char *text, mode_t mode)
{
	static char paths[8][128];
	static unsigned at;
	char *path = paths[at++ % 8];
	FILE *f;

	snprintf(path, sizeof(paths[0]), "%s/%s", test_dir(), name);
	unlink(path);
	f = fopen(path, "w");
	if (!f)
		abort();
	fputs(text, f);
	fclose(f);
	chmod(path, mode);
	return path;
}

/* An Ed25519 key in PKCS#8 is sixteen fixed bytes and a seed (RFC 8410, section 7): here 32 times
 * the same byte. */
static inline const char *key_file(uint8_t seed)
{
	static const char base64[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint8_t der[48] = {0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20};
	char text[200], name[32];
	size_t len;

	memset(der + 16, seed, 32);
	len = (size_t)snprintf(text, sizeof(text), "-----BEGIN PRIVATE KEY-----\n");
	for (unsigned i = 0; i < sizeof(der); i += 3) {
		uint32_t bits = (uint32_t)der[i] << 16 | (uint32_t)der[i + 1] << 8 | der[i + 2];

		for (int shift = 18; shift >= 0; shift -= 6)
			text[len++] = base64[bits >> shift & 63];
	}
	snprintf(text + len, sizeof(text) - len, "\n-----END PRIVATE KEY-----\n");
	snprintf(name, sizeof(name), "key%u", seed);
	return test_file(name, text, 0400);
}

static inline void test_dir_remove(void)
{
	remove_all(test_dir());
}

/* ---- sockets that do not know our protocol ---- */

static inline struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* From 127.0.0.1, and so many addresses behind it. */
static inline int raw_connect_from(unsigned further, uint16_t port)
{
	struct sockaddr_in in = loopback(port), from = loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + further);
	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0 ||
	    connect(fd, (struct sockaddr *)&in, sizeof(in)) < 0)
		abort();
	return fd;
}

static inline int raw_connect(uint16_t port)
{
	return raw_connect_from(0, port);
}

static inline int raw_listen(uint16_t *port)
{
	int fd = raw_bind(port);

	if (listen(fd, 16) < 0)
		abort();
	return fd;
}

/* A listener whose backlog is full: connecting to it hangs, as to an address behind a firewall that
 * drops. */
#define RAW_FULL 8

static inline int raw_listen_full(uint16_t *port, int fds[RAW_FULL])
{
	int fd = raw_listen(port);
	struct sockaddr_in in = loopback(*port);

	if (listen(fd, 0) < 0)
		abort();
	for (unsigned i = 0; i < RAW_FULL; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)!connect(fds[i], (struct sockaddr *)&in, sizeof(in));
	}
	return fd;
}

static inline void raw_close_full(int fd, int fds[RAW_FULL])
{
	for (unsigned i = 0; i < RAW_FULL; i++)
		close(fds[i]);
	close(fd);
}

static inline void raw_send(int fd, const void *buf, size_t len)
{
	if (send(fd, buf, len, MSG_NOSIGNAL) != (ssize_t)len)
		abort();
}

/* Whether the other side has closed, or reset, the connection. Throws away what it sent. */
static inline bool raw_is_closed(int fd)
{
	char waste[4096];
	ssize_t n;

	do {
		n = recv(fd, waste, sizeof(waste), MSG_DONTWAIT);
	} while (n > 0);
	return n == 0 || (errno != EAGAIN && errno != EINTR);
}

#endif
