/* SPDX-License-Identifier: MIT */
/*
 * http - see http.h.
 *
 * libmicrohttpd does HTTP, and has an epoll descriptor of its own that says when there is work. The
 * library ends a connection that is idle; we end one that takes too long altogether, by shutting
 * its socket down, which the library then sees.
 */
#include "mover/metrics/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/metrics/listen.h"

#define BACKLOG (4 * FM_HTTP_CONNECTIONS_MAX)
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
	struct place place[FM_HTTP_CONNECTIONS_MAX];
	unsigned taken;			/* by connections that are not shut */
	struct sockaddr_un file;	/* that we listen at; its path is "": none */
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

/* ---- the server ---- */

static void remove_file(const struct fm_http *http)
{
	if (http->file.sun_path[0])
		(void)unlink(http->file.sun_path);	/* left, the next start replaces it */
}

static struct MHD_Daemon *start_library(struct fm_http *http, int fd)
{
	if (FM_FAULT("metrics.library"))
		return NULL;
	return MHD_start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, request, http, MHD_OPTION_EXTERNAL_LOGGER,
		log_nothing, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)FM_HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)FM_HTTP_REQUEST_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
		MHD_OPTION_NOTIFY_CONNECTION, connection_changed, http, MHD_OPTION_END);
}

int fm_http_new(const struct fm_metrics_at *at, const struct fm_http_page *page,
		struct fm_http **out, struct fm_err *err)
{
	struct fm_http *http = FM_FAULT("metrics.http") ? NULL : calloc(1, sizeof(*http));
	int fd;

	if (!http)
		return fm_err_set(err, -ENOMEM, "no memory to serve metrics");
	http->page = *page;
	for (unsigned i = 0; i < FM_HTTP_CONNECTIONS_MAX; i++)
		http->place[i].fd = -1;
	fd = fm_metrics_listen(at, BACKLOG, &http->file, err);
	if (fd < 0) {
		free(http);
		return fd;
	}
	http->mhd = start_library(http, fd);
	if (!http->mhd) {
		remove_file(http);
		(void)close(fd);	/* nothing was written to it */
		free(http);
		return fm_err_set(err, -EIO, "libmicrohttpd does not start");
	}
	*out = http;
	return 0;
}

int fm_http_fd(const struct fm_http *http)
{
	return MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int fm_http_run(struct fm_http *http)
{
	MHD_UNSIGNED_LONG_LONG ms;

	(void)MHD_run(http->mhd);	/* fails only for what has no epoll */
	shut_late(http);
	if (MHD_get_timeout(http->mhd, &ms) != MHD_YES || ms >= LOOK_MS)
		return http->taken > 0 ? LOOK_MS : -1;
	return (int)ms;
}

void fm_http_free(struct fm_http *http)
{
	if (!http)
		return;
	remove_file(http);
	MHD_stop_daemon(http->mhd);		/* and its connections, and the socket */
	free(http);
}
