/* SPDX-License-Identifier: MIT */
/* nvmed - see nvmed.h. */
#include "client/cli/nvmed.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/cli/fields.h"
#include "client/cli/interrupt.h"
#include "mover/base/exit_code.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

#define REQUEST_MAX (16u << 10)

struct fm_nvmed {
	int fd;
	uint64_t id;				/* of the last request */
	char request[REQUEST_MAX];
	char answer[FM_NVMED_MESSAGE_MAX + 1];	/* terminated */
	char not_remembered[FM_ERR_TEXT_MAX];	/* of the last request */
};

/* ---- connecting ---- */

static int fail_connect(struct fm_err *err, int code, const char *path)
{
	switch (-code) {
	case ENOENT:
	case ECONNREFUSED:
		return fm_err_set(
			err, -ECONNREFUSED,
			"nobody listens at %s: is fmove-nvmed running? systemctl start fmove-nvmed",
			path);
	case EACCES:
	case EPERM:
		return fm_err_set(err, -EACCES,
				  "%s may not be used by you: join the group that owns it (ls -l "
				  "shows it), or be root",
				  path);
	case EAGAIN:
		return fm_err_set(err, -EBUSY,
				  "%s: too many programs wait for fmove-nvmed already; run it "
				  "again in a moment, and if "
				  "that lasts look at systemctl status fmove-nvmed: it hangs or is "
				  "stopped",
				  path);
	default:
		return fm_err_sys(err, code, "connect to %s", path);
	}
}

static int socket_connect(const char *path, struct fm_err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, code;

	if (strlen(path) >= sizeof(address.sun_path))
		return fm_err_set(err, -ENAMETOOLONG,
				  "socket %s: longer than the %zu bytes a socket's path may have",
				  path, sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path) + 1);
	/* Not blocking: with a full backlog connect() would wait for ever. */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fm_err_sys(err, -errno, "make a socket");
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	code = -errno;
	(void)close(fd);	/* unused */
	return fail_connect(err, code, path);
}

int fm_nvmed_connect(const char *path, struct fm_nvmed **out, struct fm_err *err)
{
	struct fm_nvmed *nvmed;
	int fd;

	if (!path || !*path)
		path = getenv("FMOVE_NVMED_SOCKET");
	if (!path || !*path)
		path = FM_NVMED_SOCKET;
	fd = socket_connect(path, err);
	if (fd < 0)
		return fd;
	nvmed = malloc(sizeof(*nvmed));
	if (!nvmed) {
		(void)close(fd);	/* unused */
		return fm_err_set(err, -ENOMEM, "no memory for a connection");
	}
	nvmed->fd = fd;
	nvmed->id = 0;
	nvmed->answer[0] = '\0';
	nvmed->not_remembered[0] = '\0';
	*out = nvmed;
	return 0;
}

void fm_nvmed_close(struct fm_nvmed *nvmed)
{
	if (!nvmed)
		return;
	(void)close(nvmed->fd);	/* nothing is on its way that we wait for */
	free(nvmed);
}

const char *fm_nvmed_answer(const struct fm_nvmed *nvmed)
{
	return nvmed->answer;
}

const char *fm_nvmed_not_remembered(const struct fm_nvmed *nvmed)
{
	return nvmed->not_remembered;
}

/* ---- asking ---- */

static uint64_t now_ms(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx) / FM_NS_PER_MS;
}

static void write_text(struct fm_json_writer *w, const char *key, const char *text)
{
	if (text)
		fm_jw_text(w, key, text);
}

/* Writes the request. Returns its length, or -EMSGSIZE. */
static int write_request(struct fm_nvmed *nvmed, const struct fm_nvmed_request *r)
{
	struct fm_json_writer w;

	fm_jw_begin(&w, nvmed->request, sizeof(nvmed->request));
	fm_jw_object(&w, NULL);
	fm_jw_u64(&w, "id", ++nvmed->id);
	fm_jw_text(&w, "op", r->op);
	write_text(&w, "volume", r->volume);
	write_text(&w, "node", r->node);
	write_text(&w, "address", r->address);
	write_text(&w, "port", r->port);
	write_text(&w, "host_address", r->host_address);
	write_text(&w, "host_interface", r->host_interface);
	if (r->has_timeout)
		fm_jw_u64(&w, "timeout_ms", r->timeout_ms);
	if (r->is_forced)
		fm_jw_bool(&w, "force", true);
	if (r->is_for_unit)
		fm_jw_bool(&w, "for_unit", true);
	if (r->is_all)
		fm_jw_bool(&w, "all", true);
	if (r->has_force_after)
		fm_jw_u64(&w, "force_ms", r->force_after_ms);
	fm_jw_object_end(&w);
	return fm_jw_end(&w);
}

/* Waits until the socket can do that, or the deadline has passed, or what interrupt.h catches. */
static int wait_for(struct fm_nvmed *nvmed, short events, uint64_t deadline_ms, struct fm_err *err)
{
	struct pollfd p[] = {{nvmed->fd, events, 0}, {fm_interrupt_fd(), POLLIN, 0}};

	for (;;) {
		uint64_t now = now_ms();
		uint64_t left = deadline_ms > now ? deadline_ms - now : 0;
		int ret = poll(p, 2, left < INT_MAX ? (int)left : INT_MAX);

		if (ret > 0)
			return p[0].revents ? 0 : fm_err_set(err, -ECANCELED, "cancelled");
		if (ret < 0 && errno != EINTR)
			return fm_err_sys(err, -errno, "wait for fmove-nvmed");
		if (ret == 0 && left < INT_MAX)
			return fm_err_set(err, -ETIMEDOUT,
					  "fmove-nvmed does not answer (journalctl -u fmove-nvmed "
					  "may say why)");
	}
}

static int fail_gone(struct fm_err *err)
{
	return fm_err_set(err, -ECONNRESET,
			  "fmove-nvmed closed the connection: it was stopped or restarted, or too "
			  "many programs ask");
}

static int send_request(struct fm_nvmed *nvmed, size_t len, uint64_t deadline_ms,
			struct fm_err *err)
{
	for (;;) {
		int ret;

		/* A message of this kind goes as a whole or not at all. */
		if (send(nvmed->fd, nvmed->request, len, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == EPIPE || errno == ECONNRESET)
			return fail_gone(err);
		if (errno != EAGAIN && errno != EINTR)
			return fm_err_sys(err, -errno, "ask fmove-nvmed");
		ret = wait_for(nvmed, POLLOUT, deadline_ms, err);
		if (ret < 0)
			return ret;
	}
}

/* Receives one message. Returns its length. */
static int receive(struct fm_nvmed *nvmed, uint64_t deadline_ms, struct fm_err *err)
{
	for (;;) {
		int ret = wait_for(nvmed, POLLIN, deadline_ms, err);
		ssize_t got;

		if (ret < 0)
			return ret;
		/* MSG_TRUNC: the whole length, even of one that does not fit. */
		got = recv(nvmed->fd, nvmed->answer, FM_NVMED_MESSAGE_MAX, MSG_TRUNC);
		if (got == 0 || (got < 0 && errno == ECONNRESET))
			return fail_gone(err);
		if (got > (ssize_t)FM_NVMED_MESSAGE_MAX)
			return fm_err_set(err, -EMSGSIZE,
					  "fmove-nvmed's answer is longer than %u bytes",
					  FM_NVMED_MESSAGE_MAX);
		if (got > 0) {
			nvmed->answer[got] = '\0';
			return (int)got;
		}
		if (errno != EAGAIN && errno != EINTR)
			return fm_err_sys(err, -errno, "hear from fmove-nvmed");
	}
}

/*
 * Takes an answer. 0: *done is it. 1: it answers another request, which nobody waits for any more.
 */
static int take_answer(struct fm_nvmed *nvmed, size_t len, struct fm_json **done,
		       struct fm_err *err)
{
	struct fm_json *json;
	const char *event;
	uint64_t id;
	int ret;

	ret = fm_json_parse(nvmed->answer, len, &json, err);
	if (ret < 0)
		return fm_err_set(
			err, ret == -ENOMEM ? ret : -EPROTO,
			"fmove-nvmed's answer is no JSON object; is it of another version?");
	event = fm_field_text(json, "event");
	id = fm_field_u64(json, "id");
	if (id == nvmed->id)
		(void)snprintf(nvmed->not_remembered, sizeof(nvmed->not_remembered), "%s",
			       fm_field_text(json, "not_remembered"));
	if (strcmp(event, "done") == 0 && id == nvmed->id) {
		*done = json;
		return 0;
	}
	/* 0: it could not even read the number */
	if (strcmp(event, "error") == 0 && (id == nvmed->id || id == 0))
		ret = fm_err_set(err, fm_api_errno(fm_field_text(json, "code")), "%s",
				 *fm_field_text(json, "text") ? fm_field_text(json, "text")
							      : "fmove-nvmed gives no reason");
	else if (id != nvmed->id)
		ret = 1;
	else
		ret = fm_err_set(
			err, -EPROTO,
			"fmove-nvmed's answer is not known here; is it of another version?");
	fm_json_free(json);
	return ret;
}

int fm_nvmed_ask(struct fm_nvmed *nvmed, const struct fm_nvmed_request *request, uint64_t wait_ms,
		 struct fm_json **done, struct fm_err *err)
{
	uint64_t deadline_ms = now_ms() + wait_ms;
	int ret;

	nvmed->not_remembered[0] = '\0';
	ret = write_request(nvmed, request);
	if (ret < 0)
		return fm_err_set(err, ret, "what is asked is longer than %u bytes", REQUEST_MAX);
	ret = send_request(nvmed, (size_t)ret, deadline_ms, err);
	if (ret < 0)
		return ret;
	do {
		ret = receive(nvmed, deadline_ms, err);
		if (ret >= 0)
			ret = take_answer(nvmed, (size_t)ret, done, err);
	} while (ret > 0);
	return ret;
}
