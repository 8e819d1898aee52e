/* SPDX-License-Identifier: MIT */
/*
 * libfmove - see fmove.h: messages of the local API for those who would rather call a function.
 *
 * One request at a time: it is sent, then messages are read until its "done" or "error". Requests
 * are numbered; what answers another number is late and skipped.
 */
#include "client/fmove.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mover/api.h"
#include "mover/api_exit.h"
#include "mover/api_json.h"
#include "mover/base/err.h"

/* a path of 4095 bytes, each escaped as six, and the rest */
#define REQUEST_MAX (32u << 10)
#define REQUEST_WAIT_MS 60000		/* longer than the daemon itself waits for a peer */
#define CANCEL_WAIT_MS 3000		/* for the daemon's word that a cancelled transfer ended */
_Static_assert(FMOVE_TEXT_MAX == FM_ERR_TEXT_MAX, "errors of the daemon fit those of the library");

struct fmove {
	int fd;
	uint64_t id;			/* of the last request */
	uint64_t timeout_ms;		/* of requests about stores; 0: the daemon's */
	char tx[REQUEST_MAX];
	char rx[FM_API_MSG_MAX + 1];
};

/* ---- errors ---- */

__attribute__((format(printf, 3, 4))) static int fail(struct fmove_error *err, int code,
						      const char *fmt, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	err->exit = (int)fm_api_exit(code);
	va_start(args, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, args);	/* cut if it is too long */
	va_end(args);
	return code;
}

static int fail_gone(struct fmove_error *err)
{
	return fail(err, -ECONNRESET, "fmoved closed the connection: it was stopped or restarted");
}

/* ---- connecting ---- */

static int fail_connect(struct fmove_error *err, int code, const char *path)
{
	switch (-code) {
	case ENOENT:
	case ECONNREFUSED:
		return fail(err, -ECONNREFUSED,
			    "no fmoved listens at %s; start it (systemctl start fmoved, or fmoved "
			    "--config FILE), "
			    "or name its socket with --socket or FMOVE_SOCKET",
			    path);
	case EACCES:
	case EPERM:
		return fail(
			err, -EACCES,
			"%s may not be used by you: join the group that owns it (ls -l shows it), "
			"or ask who runs fmoved",
			path);
	case EAGAIN:
		return fail(err, -EBUSY, "%s: too many programs wait for fmoved already", path);
	default:
		return fail(err, code, "connect to %s: %s", path, fm_err_name(code));
	}
}

static int socket_connect(const char *path, struct fmove_error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int size = 2 * FM_API_MSG_MAX;
	int fd, code;

	if (strlen(path) >= sizeof(address.sun_path))
		return fail(err, -ENAMETOOLONG,
			    "socket %s: longer than the %zu bytes a socket's path may have", path,
			    sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(err, -errno, "make a socket: %s", fm_err_name(errno));
	/* as much as is granted */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	code = -errno;
	(void)close(fd);	/* unused */
	return fail_connect(err, code, path);
}

int fmove_connect(const char *socket_path, struct fmove **out, struct fmove_error *err)
{
	struct fmove *c;
	int fd;

	if (!socket_path || !*socket_path)
		socket_path = getenv("FMOVE_SOCKET");
	if (!socket_path || !*socket_path)
		socket_path = FM_API_SOCKET;
	fd = socket_connect(socket_path, err);
	if (fd < 0)
		return fd;
	c = malloc(sizeof(*c));
	if (!c) {
		(void)close(fd);	/* unused */
		return fail(err, -ENOMEM, "no memory for a connection");
	}
	c->fd = fd;
	c->id = 0;
	c->timeout_ms = 0;
	*out = c;
	return 0;
}

void fmove_close(struct fmove *c)
{
	if (!c)
		return;
	(void)close(c->fd);	/* every request was answered, or is to be dropped */
	free(c);
}

void fmove_set_timeout(struct fmove *c, uint64_t ms)
{
	c->timeout_ms = ms;
}

/* ---- messages ---- */

static void request_begin(struct fmove *c, struct fm_json_writer *w, const char *op)
{
	fm_jw_begin(w, c->tx, sizeof(c->tx));
	fm_jw_object(w, NULL);
	fm_jw_text(w, "op", op);
	fm_jw_u64(w, "id", ++c->id);
}

static void request_name(struct fm_json_writer *w, const struct fmove_name *name)
{
	if (name->node)
		fm_jw_text(w, "node", name->node);
	fm_jw_text(w, "store", name->store);
	fm_jw_name(w, "path", name->path, strlen(name->path));
}

/* Close the object and send it, fd (or -1) beside it. */
static int request_send(struct fmove *c, struct fm_json_writer *w, int fd, struct fmove_error *err)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec iov = { .iov_base = c->tx };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	fm_jw_object_end(w);
	if (fm_jw_end(w) < 0)
		return fail(err, -ENAMETOOLONG, "the path is longer than %d bytes", FMOVE_PATH_MAX);
	iov.iov_len = w->len;
	if (fd >= 0) {
		hdr.msg_control = &control;
		hdr.msg_controllen = sizeof(control);
		control.align = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	do {
		n = sendmsg(c->fd, &hdr, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	if (errno == EBADF)
		return fail(err, -EBADF, "the descriptor is not open");
	return errno == EPIPE || errno == ECONNRESET
		       ? fail_gone(err)
		       : fail(err, -errno, "ask fmoved: %s", fm_err_name(errno));
}

/* One message, parsed. */
static int event_receive(struct fmove *c, struct fm_json **out, struct fmove_error *err)
{
	struct fm_err why;
	ssize_t n;

	do {
		n = recv(c->fd, c->rx, FM_API_MSG_MAX, MSG_TRUNC);
	} while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return fail_gone(err);
	if (n < 0)
		return fail(err, -errno, "hear from fmoved: %s", fm_err_name(errno));
	if (n > FM_API_MSG_MAX)
		n = 0;
	c->rx[n] = '\0';
	if (fm_json_parse(c->rx, (size_t)n, out, &why) < 0)
		return fail(err, -EPROTO, "fmoved's answer is not understood: another version?");
	return 0;
}

static int event_error(const struct fm_json *event, struct fmove_error *err)
{
	const char *code = "EIO", *text = "";
	uint64_t exit_status;
	int ret;

	(void)fm_json_text(fm_json_get(event, "code"), &code);	/* the defaults stay */
	(void)fm_json_text(fm_json_get(event, "text"), &text);
	ret = fail(err, fm_api_errno(code), "%s", text);
	if (err && fm_json_u64(fm_json_get(event, "exit"), &exit_status) == 0 && exit_status < 256)
		err->exit = (int)exit_status;
	return ret;
}

/* ---- waiting for the end of a request ---- */

struct waiting {
	uint64_t id;
	const struct fmove_options *opts;	/* may be NULL */
	bool is_cancelled;
};

static int cancel_send(struct fmove *c, uint64_t job, struct fmove_error *err)
{
	struct fm_json_writer w;

	request_begin(c, &w, "cancel");
	fm_jw_u64(&w, "job", job);
	return request_send(c, &w, -1, err);	/* its own answer is not waited for */
}

/* How long the daemon may say nothing; -1: for ever. */
static int wait_ms(const struct waiting *w)
{
	if (w->is_cancelled)
		return CANCEL_WAIT_MS;
	if (!w->opts)
		return REQUEST_WAIT_MS;
	if (w->opts->timeout_ms == 0 || w->opts->timeout_ms > INT_MAX - REQUEST_WAIT_MS)
		return -1;
	/* the daemon should have said it first */
	return (int)w->opts->timeout_ms + REQUEST_WAIT_MS;
}

static int fail_silent(const struct waiting *w, struct fmove_error *err)
{
	if (w->is_cancelled)
		return fail(err, -ECANCELED, "cancelled; fmoved did not confirm it");
	return fail(err, -ETIMEDOUT, "fmoved does not answer");
}

/* Until there is a message to read; cancels when cancel_fd says so. */
static int message_wait(struct fmove *c, struct waiting *w, struct fmove_error *err)
{
	/* poll() skips what is -1 */
	struct pollfd fds[2] = { { c->fd, POLLIN, 0 }, { -1, POLLIN, 0 } };
	int n, ret;

	for (;;) {
		fds[1].fd = w->opts && w->opts->cancel_fd > 0 && !w->is_cancelled
				    ? w->opts->cancel_fd
				    : -1;
		n = poll(fds, 2, wait_ms(w));
		if (n < 0 && errno != EINTR)
			return fail(err, -errno, "wait for fmoved: %s", fm_err_name(errno));
		if (n == 0)
			return fail_silent(w, err);
		if (n > 0 && fds[0].revents)
			return 0;
		if (n > 0 && fds[1].revents) {
			w->is_cancelled = true;
			ret = cancel_send(c, w->id, err);
			if (ret < 0)
				return ret;
		}
	}
}

static void event_progress(const struct fm_json *event, const struct fmove_options *opts)
{
	struct fmove_progress p = { .state = "", .size = UINT64_MAX };
	uint64_t corrupt = 0, rails = 0;

	/* What is missing or of another type keeps its default. */
	(void)fm_json_text(fm_json_get(event, "state"), &p.state);
	(void)fm_json_u64(fm_json_get(event, "size"), &p.size);
	(void)fm_json_u64(fm_json_get(event, "bytes"), &p.bytes);
	(void)fm_json_u64(fm_json_get(event, "resent_bytes"), &p.resent_bytes);
	(void)fm_json_u64(fm_json_get(event, "corrupt_chunks"), &corrupt);
	(void)fm_json_u64(fm_json_get(event, "rails"), &rails);
	p.corrupt_chunks = (unsigned)corrupt;
	p.rails = (unsigned)rails;
	if (opts->progress)
		opts->progress(opts->ctx, &p);
}

/* The "done" of the request sent last into *out, or its error. opts may be NULL. */
static int request_wait(struct fmove *c, const struct fmove_options *opts, struct fm_json **out,
			struct fmove_error *err)
{
	struct waiting w = { .id = c->id, .opts = opts };
	const char *name;
	uint64_t id;
	int ret;

	for (;;) {
		ret = message_wait(c, &w, err);
		if (ret == 0)
			ret = event_receive(c, out, err);
		if (ret < 0)
			return ret;
		if (fm_json_text(fm_json_get(*out, "event"), &name) < 0)
			name = "";
		/*
		 * An error without id is about the connection, or about a request of ours that
		 * could not be read.
		 */
		if (fm_json_u64(fm_json_get(*out, "id"), &id) < 0)
			id = strcmp(name, "error") == 0 ? w.id : 0;
		if (id == w.id && strcmp(name, "done") == 0)
			return 0;
		if (id == w.id && strcmp(name, "error") == 0)
			ret = event_error(*out, err);
		else if (id == w.id && strcmp(name, "progress") == 0 && opts)
			event_progress(*out, opts);
		fm_json_free(*out);
		if (ret < 0)
			return ret;
	}
}

/* Send what was begun, and wait. */
static int request_do(struct fmove *c, struct fm_json_writer *w, struct fm_json **out,
		      struct fmove_error *err)
{
	int ret;

	ret = request_send(c, w, -1, err);
	if (ret == 0)
		ret = request_wait(c, NULL, out, err);
	return ret;
}

/* The same for a request whose "done" says nothing more. */
static int request_do_simple(struct fmove *c, struct fm_json_writer *w, struct fmove_error *err)
{
	struct fm_json *done;
	int ret;

	ret = request_do(c, w, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}

/* ---- transfers ---- */

static void transfer_options(struct fm_json_writer *w, const struct fmove_options *o)
{
	static const char *const transports[] = { "auto", "rdma", "tcp" };
	static const char *const durabilities[] = { "default", "disk", "memory" };

	if (!o)
		return;
	fm_jw_text(w, "transport", transports[o->transport]);
	fm_jw_text(w, "durability", durabilities[o->durability]);
	if (o->rate_bytes > 0)
		fm_jw_u64(w, "limit", o->rate_bytes);
	if (o->timeout_ms > 0)
		fm_jw_u64(w, "timeout_ms", o->timeout_ms);
	if (o->progress_ms > 0 && o->progress)
		fm_jw_u64(w, "progress_ms", o->progress_ms);
}

static void text_copy(const struct fm_json *json, const char *key, char *out, size_t cap)
{
	const char *text = "";

	(void)fm_json_text(fm_json_get(json, key), &text);	/* "" if it is missing */
	(void)snprintf(out, cap, "%s", text);			/* cut if it is too long */
}

static unsigned mode_read(const struct fm_json *json)
{
	char text[8];

	text_copy(json, "mode", text, sizeof(text));
	return (unsigned)strtoul(text, NULL, 8) & 0777;
}

/* A key that is missing leaves its zero. */
static void result_read(const struct fm_json *done, struct fmove_result *r)
{
	uint64_t connections = 0, corrupt = 0;
	char crc[16];

	*r = (struct fmove_result){ .bytes = 0 };
	(void)fm_json_u64(fm_json_get(done, "bytes"), &r->bytes);
	(void)fm_json_u64(fm_json_get(done, "data_bytes"), &r->data_bytes);
	(void)fm_json_real(fm_json_get(done, "seconds"), &r->seconds);
	(void)fm_json_real(fm_json_get(done, "gb_per_s"), &r->gb_per_s);
	(void)fm_json_u64(fm_json_get(done, "connections"), &connections);
	(void)fm_json_bool(fm_json_get(done, "durable"), &r->is_durable);
	(void)fm_json_bool(fm_json_get(done, "checked"), &r->is_checked);
	(void)fm_json_u64(fm_json_get(done, "resent_bytes"), &r->resent_bytes);
	(void)fm_json_u64(fm_json_get(done, "corrupt_chunks"), &corrupt);
	(void)fm_json_i64(fm_json_get(done, "mtime_ns"), &r->mtime_ns);
	text_copy(done, "transport", r->transport, sizeof(r->transport));
	text_copy(done, "why", r->why, sizeof(r->why));
	text_copy(done, "note", r->note, sizeof(r->note));
	text_copy(done, "crc32c", crc, sizeof(crc));
	r->crc32c = (uint32_t)strtoul(crc, NULL, 16);
	r->mode = mode_read(done);
	r->connections = (unsigned)connections;
	r->corrupt_chunks = (unsigned)corrupt;
}

static int transfer_do(struct fmove *c, struct fm_json_writer *w, int fd,
		       const struct fmove_options *opts, struct fmove_result *result,
		       struct fmove_error *err)
{
	static const struct fmove_options none;
	struct fm_json *done;
	int ret;

	ret = request_send(c, w, fd, err);
	if (ret == 0)
		ret = request_wait(c, opts ? opts : &none, &done, err);
	if (ret < 0)
		return ret;
	result_read(done, result);
	fm_json_free(done);
	return 0;
}

static void put_begin(struct fmove *c, struct fm_json_writer *w, const struct fmove_name *name,
		      const struct fmove_options *opts)
{
	request_begin(c, w, "put");
	request_name(w, name);
	transfer_options(w, opts);
	if (opts && opts->may_replace)
		fm_jw_bool(w, "force", true);
}

static void get_begin(struct fmove *c, struct fm_json_writer *w, const struct fmove_name *name,
		      const struct fmove_options *opts)
{
	request_begin(c, w, "get");
	request_name(w, name);
	transfer_options(w, opts);
}

int fmove_put(struct fmove *c, int fd, const struct fmove_name *name,
	      const struct fmove_options *opts, struct fmove_result *result,
	      struct fmove_error *err)
{
	struct fm_json_writer w;

	assert(fd >= 0);
	put_begin(c, &w, name, opts);
	return transfer_do(c, &w, fd, opts, result, err);
}

int fmove_get(struct fmove *c, int fd, const struct fmove_name *name,
	      const struct fmove_options *opts, struct fmove_result *result,
	      struct fmove_error *err)
{
	struct fm_json_writer w;

	assert(fd >= 0);
	get_begin(c, &w, name, opts);
	return transfer_do(c, &w, fd, opts, result, err);
}

int fmove_put_generated(struct fmove *c, uint64_t bytes, const struct fmove_name *name,
			const struct fmove_options *opts, struct fmove_result *result,
			struct fmove_error *err)
{
	struct fm_json_writer w;

	put_begin(c, &w, name, opts);
	fm_jw_u64(&w, "generate", bytes);
	return transfer_do(c, &w, -1, opts, result, err);
}

int fmove_get_discarded(struct fmove *c, const struct fmove_name *name,
			const struct fmove_options *opts, struct fmove_result *result,
			struct fmove_error *err)
{
	struct fm_json_writer w;

	get_begin(c, &w, name, opts);
	fm_jw_bool(&w, "discard", true);
	return transfer_do(c, &w, -1, opts, result, err);
}

/* ---- requests about stores ---- */

static void store_begin(struct fmove *c, struct fm_json_writer *w, const char *op,
			const struct fmove_name *name)
{
	request_begin(c, w, op);
	request_name(w, name);
	if (c->timeout_ms > 0)
		fm_jw_u64(w, "timeout_ms", c->timeout_ms);
}

static void entry_read(const struct fm_json *json, struct fmove_entry *e)
{
	static const char *const types[] = { "file", "directory", "link" };
	char type[16];
	size_t len;

	*e = (struct fmove_entry){ .type = FMOVE_OTHER };
	text_copy(json, "type", type, sizeof(type));
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(types[i], type) == 0)
			e->type = (enum fmove_type)i;
	/* What is missing keeps its zero. */
	(void)fm_json_name(fm_json_get(json, "name"), e->name, sizeof(e->name), &len);
	(void)fm_json_u64(fm_json_get(json, "size"), &e->size);
	(void)fm_json_i64(fm_json_get(json, "mtime_ns"), &e->mtime_ns);
	e->mode = mode_read(json);
}

int fmove_stat(struct fmove *c, const struct fmove_name *name, struct fmove_entry *out,
	       struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	store_begin(c, &w, "stat", name);
	ret = request_do(c, &w, &done, err);
	if (ret < 0)
		return ret;
	entry_read(done, out);
	fm_json_free(done);
	return 0;
}

struct page {
	bool (*each)(void *ctx, const struct fmove_entry *entry);
	void *ctx;
	struct fmove_entry last;
	bool is_more;
};

static void page_show(struct page *p, const struct fm_json *done)
{
	const struct fm_json *entries = fm_json_get(done, "entries");
	size_t count = fm_json_count(entries);

	if (fm_json_bool(fm_json_get(done, "more"), &p->is_more) < 0 || count == 0)
		p->is_more = false;
	for (size_t i = 0; i < count; i++) {
		entry_read(fm_json_at(entries, i), &p->last);
		if (!p->each(p->ctx, &p->last)) {
			p->is_more = false;
			return;
		}
	}
}

int fmove_list(struct fmove *c, const struct fmove_name *name, const char *after,
	       bool (*each)(void *ctx, const struct fmove_entry *entry), void *ctx,
	       struct fmove_error *err)
{
	struct page page = { .each = each, .ctx = ctx };
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	if (strlen(after) > FMOVE_NAME_MAX)
		return fail(err, -ENAMETOOLONG, "a name has at most %d bytes", FMOVE_NAME_MAX);
	memcpy(page.last.name, after, strlen(after) + 1);
	do {
		store_begin(c, &w, "list", name);
		fm_jw_name(&w, "after", page.last.name, strlen(page.last.name));
		ret = request_do(c, &w, &done, err);
		if (ret < 0)
			return ret;
		page_show(&page, done);
		fm_json_free(done);
	} while (page.is_more);
	return 0;
}

int fmove_remove(struct fmove *c, const struct fmove_name *name, bool is_recursive,
		 struct fmove_error *err)
{
	struct fm_json_writer w;

	store_begin(c, &w, "remove", name);
	if (is_recursive)
		fm_jw_bool(&w, "recursive", true);
	return request_do_simple(c, &w, err);
}

int fmove_mkdir(struct fmove *c, const struct fmove_name *name, struct fmove_error *err)
{
	struct fm_json_writer w;

	store_begin(c, &w, "mkdir", name);
	return request_do_simple(c, &w, err);
}

/* ---- about the daemon ---- */

int fmove_version(struct fmove *c, char *out, size_t cap, struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	request_begin(c, &w, "ping");
	ret = request_do(c, &w, &done, err);
	if (ret < 0)
		return ret;
	text_copy(done, "version", out, cap);
	fm_json_free(done);
	return 0;
}

int fmove_status(struct fmove *c, char **json, struct fmove_error *err)
{
	struct fm_json_writer w;
	int ret;

	request_begin(c, &w, "status");
	ret = request_do_simple(c, &w, err);
	if (ret < 0)
		return ret;
	*json = strdup(c->rx);	/* the text of the message that was waited for */
	return *json ? 0 : fail(err, -ENOMEM, "no memory for the status");
}
