/* SPDX-License-Identifier: MIT */
/*
 * http - see http.h.
 *
 * libmicrohttpd does HTTP, without a thread of its own: ours waits at its epoll descriptor and at
 * the one that tells it to stop. The library ends a connection that is idle; ours ends one that
 * takes too long altogether, by shutting its socket down, which the library then sees.
 */
#include "mover/metrics/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

#define IDLE_S 5u			/* nothing comes, nothing is taken */
#define WHOLE_NS (10 * FM_NS_PER_S)	/* of a connection */
#define LOOK_MS 1000			/* at how long they are there, while there are any */
/* The oldest goes when fewer places than these are left: there is always one for the next. */
#define SPARE 4u

struct place {
	int fd;				/* -1: nobody is here */
	bool is_shut;
	uint64_t since_ns;
};

struct fm_http {
	struct MHD_Daemon *mhd;
	struct fm_http_page page;
	int epoll_fd;			/* the library's */
	int stop_fd;
	pthread_t thread;
	/* The thread's. */
	struct place place[FM_HTTP_CONNECTIONS_MAX];
	unsigned taken;			/* by connections that are not shut */
};

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

/* ---- connections ---- */

static void shut(struct fm_http *http, struct place *p)
{
	p->is_shut = true;
	http->taken--;
	(void)shutdown(p->fd, SHUT_RDWR);	/* it may have gone by itself */
}

static void shut_oldest(struct fm_http *http)
{
	struct place *oldest = NULL;

	for (unsigned i = 0; i < FM_HTTP_CONNECTIONS_MAX; i++) {
		struct place *p = &http->place[i];

		if (p->fd >= 0 && !p->is_shut && (!oldest || p->since_ns < oldest->since_ns))
			oldest = p;
	}
	if (oldest)
		shut(http, oldest);
}

static void shut_late(struct fm_http *http)
{
	uint64_t now = now_ns();

	for (unsigned i = 0; i < FM_HTTP_CONNECTIONS_MAX; i++) {
		struct place *p = &http->place[i];

		if (p->fd >= 0 && !p->is_shut && now - p->since_ns >= WHOLE_NS)
			shut(http, p);
	}
}

static void came(struct fm_http *http, struct MHD_Connection *connection, void **socket_ctx)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct place *p = http->place;

	if (!info)
		return;
	if (http->taken + SPARE >= FM_HTTP_CONNECTIONS_MAX)
		shut_oldest(http);
	while (p < http->place + FM_HTTP_CONNECTIONS_MAX && p->fd >= 0)
		p++;
	if (p == http->place + FM_HTTP_CONNECTIONS_MAX)
		return;		/* the library has no more than these */
	*p = (struct place){.fd = info->connect_fd, .since_ns = now_ns()};
	http->taken++;
	*socket_ctx = p;
}

static void connection_changed(void *cls, struct MHD_Connection *connection, void **socket_ctx,
			       enum MHD_ConnectionNotificationCode code)
{
	struct fm_http *http = cls;
	struct place *p = *socket_ctx;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		came(http, connection, socket_ctx);
	} else if (p) {
		http->taken -= !p->is_shut;
		p->fd = -1;
	}
}

/* ---- requests ---- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, char *body,
			      size_t len, enum MHD_ResponseMemoryMode mode, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(len, body, mode);
	enum MHD_Result ret;

	if (!response) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free(body);
		return MHD_NO;
	}
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	ret = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return ret;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned status, const char *text)
{
	return answer(connection, status, (char *)(uintptr_t)text, strlen(text),
		      MHD_RESPMEM_PERSISTENT, "text/plain; charset=utf-8");
}

static enum MHD_Result request(void *cls, struct MHD_Connection *connection, const char *url,
			       const char *method, const char *version, const char *upload,
			       size_t *upload_len, void **request_ctx)
{
	const struct fm_http *http = cls;
	const char *accept, *type;
	char *body;
	size_t len;

	(void)version;
	(void)upload;
	(void)upload_len;
	(void)request_ctx;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET /metrics\n");
	if (strcmp(url, "/metrics") != 0)
		return say(connection, MHD_HTTP_NOT_FOUND, "what there is: /metrics\n");
	accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	if (http->page.make(http->page.ctx, accept, &body, &len, &type) < 0)
		return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			   "the daemon does not answer just now\n");
	return answer(connection, MHD_HTTP_OK, body, len, MHD_RESPMEM_MUST_FREE, type);
}

/* What clients do wrong is theirs to see. */
static void log_nothing(void *cls, const char *format, va_list ap)
{
	(void)cls;
	(void)format;
	(void)ap;
}

/* ---- the thread ---- */

static int wait_ms(const struct fm_http *http)
{
	MHD_UNSIGNED_LONG_LONG ms;
	int most = http->taken > 0 ? LOOK_MS : -1;

	if (MHD_get_timeout(http->mhd, &ms) != MHD_YES || ms >= LOOK_MS)
		return most;
	return (int)ms;
}

static void *serve(void *arg)
{
	struct fm_http *http = arg;
	struct pollfd fds[] = {{.fd = http->epoll_fd, .events = POLLIN},
			       {.fd = http->stop_fd, .events = POLLIN}};

	while (fds[1].revents == 0) {
		(void)MHD_run(http->mhd);	/* fails only for what has no epoll */
		shut_late(http);
		(void)poll(fds, 2, wait_ms(http));
	}
	return NULL;
}

static int start_thread(struct fm_http *http)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);	/* they are the main thread's */
	ret = FM_FAULT("metrics.thread") ? EAGAIN
					 : pthread_create(&http->thread, NULL, serve, http);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret == 0)
		(void)pthread_setname_np(http->thread, "metrics");	/* for people only */
	return -ret;
}

static struct MHD_Daemon *start_library(struct fm_http *http, int fd)
{
	return MHD_start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, request, http, MHD_OPTION_EXTERNAL_LOGGER,
		log_nothing, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)FM_HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)FM_HTTP_REQUEST_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
		MHD_OPTION_NOTIFY_CONNECTION, connection_changed, http, MHD_OPTION_END);
}

int fm_http_new(int fd, const struct fm_http_page *page, struct fm_http **out, struct fm_err *err)
{
	struct fm_http *http = FM_FAULT("metrics.http") ? NULL : calloc(1, sizeof(*http));
	int ret;

	if (!http)
		return fm_err_set(err, -ENOMEM, "no memory to serve metrics");
	http->page = *page;
	for (unsigned i = 0; i < FM_HTTP_CONNECTIONS_MAX; i++)
		http->place[i].fd = -1;
	http->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (http->stop_fd < 0) {
		ret = fm_err_sys(err, -errno, "serve metrics");
		goto free_http;
	}
	http->mhd = start_library(http, fd);
	if (!http->mhd) {
		ret = fm_err_set(err, -EIO, "libmicrohttpd does not start");
		goto close_stop;
	}
	http->epoll_fd = MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	ret = start_thread(http);
	if (ret < 0) {
		ret = fm_err_sys(err, ret, "start a thread for metrics");
		goto stop_library;
	}
	*out = http;
	return 0;

stop_library:
	(void)MHD_quiesce_daemon(http->mhd);	/* the socket stays the caller's */
	MHD_stop_daemon(http->mhd);
close_stop:
	(void)close(http->stop_fd);
free_http:
	free(http);
	return ret;
}

void fm_http_free(struct fm_http *http)
{
	if (!http)
		return;
	(void)eventfd_write(http->stop_fd, 1);	/* cannot fail: it was 0 */
	(void)pthread_join(http->thread, NULL);
	MHD_stop_daemon(http->mhd);		/* and its connections, and the socket */
	(void)close(http->stop_fd);
	free(http);
}
