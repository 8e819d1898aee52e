/* SPDX-License-Identifier: MIT */
/*
 * test_metrics_server - how many connections the server of metrics has, what one is answered, on a
 * loop and without any thread; and that each failure of a start leaves nothing open.
 * links: fm_metrics
 */
#include "mover/metrics/loop_exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/metrics/listen.h"
#include "mover/metrics/process.h"
#include "tests/fm_test.h"
#include "tests/unit/port.h"

#define SERVED 28		/* fmove-metrics(7): "At most 28 connections are served" */
#define CLIENTS 40
#define FDS_MAX 256

enum { ASKED, PROCESS, METRICS = PROCESS + FM_PROCESS_COUNT };

static const struct fm_metric table[] = {
	[ASKED] = {"t_asked", FM_METRIC_COUNTER, "How often."},
	[PROCESS] = FM_METRICS_PROCESS_ROWS,
};

static struct fm_loop *loop;
static struct fm_loop_exporter *exporter;
static struct fm_err err;
static uint16_t port;
static unsigned asked;

static void collect(void *ctx, struct fm_metrics *m)
{
	(void)ctx;
	fm_metrics_add(m, ASKED, ++asked, NULL);
}

static int start(void)
{
	const struct fm_exporter_opts opts = {.loop = loop,
					      .at = {.host = "127.0.0.1", .port = port},
					      .table = table,
					      .count = METRICS,
					      .process = PROCESS,
					      .collect = collect};

	return fm_loop_exporter_new(&opts, &exporter, &err);
}

/* A port that is free as long as nobody asks the kernel for one: another one if it is not. */
static void begin(void)
{
	const struct fm_loop_opts opts = {.clock = NULL};
	int ret = -EADDRINUSE;

	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &loop, &err), 0);
	for (unsigned i = 0; i < 100 && ret == -EADDRINUSE; i++) {
		close(raw_bind(&port));
		ret = start();
	}
	CU_ASSERT_EQUAL_FATAL(ret, 0);
	asked = 0;
}

static void end(void)
{
	fm_loop_exporter_free(exporter);
	exporter = NULL;
	fm_loop_free(loop);
}

static int client(void)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				       .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CU_ASSERT_TRUE_FATAL(fd >= 0 && connect(fd, (const void *)&to, sizeof(to)) == 0);
	CU_ASSERT_EQUAL_FATAL(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

static bool is_ended(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK) == 0;
}

static void await_end(int fd)
{
	uint64_t until = fm_clock_real.now_ns(NULL) + FM_TEST_HANG_S * FM_NS_PER_S;

	while (!is_ended(fd) && fm_clock_real.now_ns(NULL) < until)
		(void)fm_loop_step(loop, 10 * FM_NS_PER_MS);
	CU_ASSERT_TRUE(is_ended(fd));
}

/*
 * The first that came go for the last. Whether the others stay; the server ends who says nothing
 * for 5 s, so that is not known if this took longer.
 */
static bool fill_places(void)
{
	uint64_t began = fm_clock_real.now_ns(NULL);
	unsigned ended = 0;
	int fd[CLIENTS];

	for (unsigned i = 0; i < CLIENTS; i++) {
		fd[i] = client();
		if (i >= SERVED)
			await_end(fd[i - SERVED]);
	}
	for (unsigned i = CLIENTS - SERVED; i < CLIENTS; i++)
		ended += is_ended(fd[i]);
	for (unsigned i = 0; i < CLIENTS; i++)
		close(fd[i]);
	if (fm_clock_real.now_ns(NULL) - began >= 4 * FM_NS_PER_S)
		return false;
	CU_ASSERT_EQUAL(ended, 0);
	return true;
}

static void test_places(void)
{
	bool is_known = false;

	for (unsigned i = 0; i < 20 && !is_known; i++) {
		begin();
		is_known = fill_places();
		end();
	}
	CU_ASSERT_TRUE(is_known);
}

/* What one gets who sends this; until the server ends the connection. */
static void exchange(const char *request, char *answer, size_t size)
{
	uint64_t until = fm_clock_real.now_ns(NULL) + FM_TEST_HANG_S * FM_NS_PER_S;
	int fd = client();
	size_t len = 0;
	ssize_t got = -1;

	CU_ASSERT_EQUAL(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
	while (got != 0 && len < size - 1 && fm_clock_real.now_ns(NULL) < until) {
		(void)fm_loop_step(loop, 10 * FM_NS_PER_MS);
		got = recv(fd, answer + len, size - 1 - len, 0);
		len += got > 0 ? (size_t)got : 0;
	}
	answer[len] = '\0';
	close(fd);
}

static void test_answers(void)
{
	static char answer[16384];

	begin();
	exchange("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", answer, sizeof(answer));
	CU_ASSERT_EQUAL(strncmp(answer, "HTTP/1.1 200 ", 13), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(answer, "\nt_asked_total 1\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(answer, "\nprocess_open_fds "));
	exchange("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", answer, sizeof(answer));
	CU_ASSERT_PTR_NOT_NULL(strstr(answer, "\nt_asked_total 2\n"));
	exchange("GET /other HTTP/1.1\r\nHost: a\r\n\r\n", answer, sizeof(answer));
	CU_ASSERT_EQUAL(strncmp(answer, "HTTP/1.1 404 ", 13), 0);
	exchange("DELETE /metrics HTTP/1.1\r\nHost: a\r\n\r\n", answer, sizeof(answer));
	CU_ASSERT_EQUAL(strncmp(answer, "HTTP/1.1 405 ", 13), 0);
	CU_ASSERT_EQUAL(asked, 2);
#ifdef FM_FAULTS
	fm_fault_arm("metrics.page", 1);
	exchange("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", answer, sizeof(answer));
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(strncmp(answer, "HTTP/1.1 503 ", 13), 0);
#endif
	end();
}

static unsigned fds_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < FDS_MAX; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Each point of a start fails once; the next one is as good as the first. */
static void test_starts_that_fail(void)
{
	unsigned n = 1, fds;
	int ret = -1;

	if (fm_test_lacks_faults())
		return;
	begin();
	fm_loop_exporter_free(exporter);
	fds = fds_open();
	for (; n < 20 && ret < 0; n++) {
		fm_err_clear(&err);
		fm_fault_arm(NULL, n);
		ret = start();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(ret, ret < 0 ? err.code : 0);
		if (ret < 0)
			CU_ASSERT_EQUAL(fds_open(), fds);
	}
	CU_ASSERT_TRUE(n > 4 && ret == 0);
	end();
}

/* Goal: a kernel that lets descriptors through, as all before 6.16, lets in the owner and root. */
static void test_socket_modes(void)
{
	char path[64];
	const struct fm_metrics_at at = {.path = path, .daemon = "test"};
	struct sockaddr_un file;
	struct stat st;
	int fd;

	if (fm_test_lacks_faults())
		return;
	(void)snprintf(path, sizeof(path), "/tmp/fm-metrics.%d", (int)getpid());
	for (unsigned old = 0; old < 2; old++) {
		fm_fault_arm(old ? "metrics.rights" : NULL, old);
		fd = fm_metrics_listen(&at, 1, &file, &err);
		fm_fault_arm(NULL, 0);
		CU_ASSERT_TRUE_FATAL(fd >= 0);
		CU_ASSERT_EQUAL_FATAL(stat(file.sun_path, &st), 0);
		if (old || (st.st_mode & 0777) != FM_METRICS_SOCKET_MODE)
			CU_ASSERT_EQUAL(st.st_mode & 0777, FM_METRICS_SOCKET_MODE_ALONE);
		CU_ASSERT_EQUAL(unlink(file.sun_path), 0);
		close(fd);
	}
}

static const struct fm_test tests[] = {
	{"who comes when 28 are there gets the place of the oldest", test_places},
	{"a page, and what is no page", test_answers},
	{"a start that fails leaves nothing", test_starts_that_fail},
	{"who may use a UNIX socket", test_socket_modes},
};

int main(void)
{
	return fm_test_main("metrics_server", tests, sizeof(tests) / sizeof(tests[0]));
}
