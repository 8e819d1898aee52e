/* SPDX-License-Identifier: MIT */
/*
 * libfmove - see fmove.h: messages of the local API for those who would rather call a function.
 *
 * One request at a time: it is sent, then messages are read until its "done" or "error". Requests
 * are numbered; what answers another number is late and skipped. One that is refused since no place
 * is free is sent again if the caller has patience; the connection, which is one of the places, is
 * given back meanwhile.
 */
#include "client/lib/fmove.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/libfmove_tree.h"
#include "client/lib/tries.h"
#include "mover/api/api.h"
#include "mover/base/exit_code.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/words.h"
#include "mover/tree/staging.h"

/* two paths of 4095 bytes, each escaped as six, and the rest */
#define REQUEST_MAX (60u << 10)
#define REQUEST_WAIT_MS 60000		/* longer than the daemon itself waits for a peer */
/* For the daemon's word that a cancelled transfer ended: longer than it waits for its journal
 * (KEEP_NS in mover/services/transfer/job.c). */
#define REMOVE_MS (3600u * 1000)	/* to remove directories: millions of files may be in one */
#define CANCEL_WAIT_MS 8000
_Static_assert(FMOVE_TEXT_MAX == FM_ERR_TEXT_MAX, "errors of the daemon fit those of the library");

struct fmove {
	int fd;				/* -1: given back, for the next request to connect again */
	struct sockaddr_un address;
	uint64_t id;			/* of the last request ... */
	uint64_t limit_ms;		/* ... and its timeout; 0: none is said */
	uint64_t timeout_ms;		/* of requests about stores; 0: the daemon's */
	/* the last request: the daemon went away, or was not there */
	bool is_lost;
	bool (*again)(void *ctx, const struct fmove_error *why, unsigned refused, uint64_t left_ms);
	void *again_ctx;
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
	err->is_kept = err->is_full = false;
	err->bytes = 0;
	va_start(args, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, args);	/* cut if it is too long */
	va_end(args);
	return code;
}

static int fail_gone(struct fmove_error *err)
{
	int ret =
		fail(err, -ECONNRESET, "fmoved closed the connection: it was stopped or restarted");

	if (err)
		err->is_kept = true;	/* nobody removed it */
	return ret;
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
		(void)fail(err, -EBUSY,
			   "%s: too many programs wait for fmoved already; if that lasts, it hangs "
			   "or is stopped",
			   path);
		if (err)
			err->is_full = true;
		return -EBUSY;
	default:
		return fail(err, code, "connect to %s: %s", path, fm_err_name(code));
	}
}

static int address_of(const char *path, struct sockaddr_un *out, struct fmove_error *err)
{
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(out->sun_path))
		return fail(err, -ENAMETOOLONG,
			    "socket %s: longer than the %zu bytes a socket's path may have", path,
			    sizeof(out->sun_path) - 1);
	memcpy(out->sun_path, path, strlen(path) + 1);
	return 0;
}

static int socket_connect(const struct sockaddr_un *address, struct fmove_error *err)
{
	int size = 2 * FM_API_MSG_MAX;
	int fd, code;

	/* Not blocking: with a full backlog connect() would wait for ever. */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail(err, -errno, "make a socket: %s", fm_err_name(errno));
	/* as much as is granted */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
	    fcntl(fd, F_SETFL, 0) == 0)
		return fd;
	code = -errno;
	(void)close(fd);	/* unused */
	return fail_connect(err, code, address->sun_path);
}

int fmove_connect(const char *socket_path, struct fmove **out, struct fmove_error *err)
{
	struct sockaddr_un address;
	struct fmove *c;
	int fd;

	if (!socket_path || !*socket_path)
		socket_path = getenv("FMOVE_SOCKET");
	if (!socket_path || !*socket_path)
		socket_path = FM_API_SOCKET;
	fd = address_of(socket_path, &address, err);
	if (fd == 0)
		fd = socket_connect(&address, err);
	if (fd < 0)
		return fd;
	c = malloc(sizeof(*c));
	if (!c) {
		(void)close(fd);	/* unused */
		return fail(err, -ENOMEM, "no memory for a connection");
	}
	c->fd = fd;
	c->address = address;
	c->id = c->limit_ms = c->timeout_ms = 0;
	c->is_lost = false;
	c->again = NULL;
	c->again_ctx = NULL;
	*out = c;
	return 0;
}

static void connection_drop(struct fmove *c)
{
	if (c->fd >= 0)
		(void)close(c->fd);	/* what was to be heard was */
	c->fd = -1;
}

static int connection_ready(struct fmove *c, struct fmove_error *err)
{
	if (c->fd < 0)
		c->fd = socket_connect(&c->address, err);
	c->is_lost = c->fd < 0;
	return c->fd < 0 ? c->fd : 0;
}

void fmove_disconnect(struct fmove *c)
{
	connection_drop(c);
}

void fmove_close(struct fmove *c)
{
	if (!c)
		return;
	connection_drop(c);	/* every request was answered, or is to be dropped */
	free(c);
}

void fmove_set_again(struct fmove *c,
		     bool (*again)(void *ctx, const struct fmove_error *why, unsigned refused,
				   uint64_t left_ms),
		     void *ctx)
{
	c->again = again;
	c->again_ctx = ctx;
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
	c->limit_ms = 0;
}

static void request_name(struct fm_json_writer *w, const struct fmove_name *name)
{
	if (name->node)
		fm_jw_text(w, "node", name->node);
	fm_jw_text(w, "store", name->store);
	fm_jw_name(w, "path", name->path, strlen(name->path));
}

static int event_error(const struct fm_json *event, struct fmove_error *err)
{
	const char *code = "EIO", *text = "";
	uint64_t exit_status;
	int ret;

	(void)fm_json_text(fm_json_get(event, "code"), &code);	/* the defaults stay */
	(void)fm_json_text(fm_json_get(event, "text"), &text);
	ret = fail(err, fm_api_errno(code), "%s", text);
	if (!err)
		return ret;
	(void)fm_json_bool(fm_json_get(event, "kept"), &err->is_kept);	/* of a transfer only */
	(void)fm_json_u64(fm_json_get(event, "bytes"), &err->bytes);	/* the same */
	(void)fm_json_bool(fm_json_get(event, "full"), &err->is_full);
	if (fm_json_u64(fm_json_get(event, "exit"), &exit_status) == 0 && exit_status < 256)
		err->exit = (int)exit_status;
	return ret;
}

/* The connection is closed: what the daemon said before that is why. (recv(2) tells of a reset
 * first, once.) */
static int fail_closed(struct fmove *c, struct fmove_error *err)
{
	struct fm_json *event;
	const char *name;
	struct fm_err why;
	uint64_t id;
	int ret = 0;

	for (unsigned errors = 0; ret == 0 && errors < 2;) {
		ssize_t n = recv(c->fd, c->rx, FM_API_MSG_MAX, MSG_DONTWAIT);

		errors += n <= 0;
		if (n <= 0 || fm_json_parse(c->rx, (size_t)n, &event, &why) < 0)
			continue;
		if (fm_json_u64(fm_json_get(event, "id"), &id) < 0 &&
		    fm_json_text(fm_json_get(event, "event"), &name) == 0 &&
		    strcmp(name, "error") == 0)
			ret = event_error(event, err);
		fm_json_free(event);
	}
	c->is_lost = ret == 0;
	return ret < 0 ? ret : fail_gone(err);
}

/* What comes with a request. */
struct parcel {
	const int *fds;
	unsigned count;
	/* it was sent, or could not be; NULL: nobody wants to know */
	void (*passed)(void *ctx);
	void *ctx;
};

static struct parcel parcel_of(const int *fd)
{
	return (struct parcel){ .fds = fd, .count = *fd >= 0 ? 1 : 0 };
}

/* left_ms: of its timeout; UINT64_MAX: none. What was begun stays as it is, so that it can be
 * finished again with less time. */
static int request_finish(const struct fm_json_writer *begun, uint64_t left_ms, size_t *len,
			  struct fmove_error *err)
{
	struct fm_json_writer w = *begun;

	if (left_ms != UINT64_MAX)
		fm_jw_u64(&w, "timeout_ms", left_ms);
	fm_jw_object_end(&w);
	if (fm_jw_end(&w) < 0)
		return fail(err, -ENAMETOOLONG,
			    "the paths and the patterns to exclude are together longer than a "
			    "request may be (%u "
			    "bytes, of which a character that must be escaped takes up to six)",
			    REQUEST_MAX);
	*len = w.len;
	return 0;
}

/* Close the object and send it, descriptors beside it. */
static int request_send_with(struct fmove *c, const struct fm_json_writer *w, uint64_t left_ms,
			     const struct parcel *with, struct fmove_error *err)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(FM_API_FDS_MAX * sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec iov = { .iov_base = c->tx };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;
	int ret = connection_ready(c, err);

	assert(with->count <= FM_API_FDS_MAX);
	if (ret == 0)
		ret = request_finish(w, left_ms, &iov.iov_len, err);
	if (ret < 0)
		return ret;
	if (with->count > 0) {
		hdr.msg_control = &control;
		hdr.msg_controllen = CMSG_SPACE(with->count * sizeof(int));
		control.align = (struct cmsghdr){CMSG_LEN(with->count * sizeof(int)), SOL_SOCKET,
						 SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.align), with->fds, with->count * sizeof(int));
	}
	do {
		n = sendmsg(c->fd, &hdr, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	if (errno == EBADF)
		return fail(err, -EBADF, "the descriptor is not open");
	return errno == EPIPE || errno == ECONNRESET
		       ? fail_closed(c, err)
		       : fail(err, -errno, "ask fmoved: %s", fm_err_name(errno));
}

/* The same about another request, which is waited for: its own answer is not. */
static int request_send(struct fmove *c, const struct fm_json_writer *w, struct fmove_error *err)
{
	static const struct parcel nothing;

	return request_send_with(c, w, UINT64_MAX, &nothing, err);
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
		return fail_closed(c, err);
	if (n < 0)
		return fail(err, -errno, "hear from fmoved: %s", fm_err_name(errno));
	if (n > FM_API_MSG_MAX)
		n = 0;
	c->rx[n] = '\0';
	if (fm_json_parse(c->rx, (size_t)n, out, &why) < 0)
		return fail(err, -EPROTO, "fmoved's answer is not understood: another version?");
	return 0;
}

/* ---- waiting for the end of a request ---- */

struct waiting {
	uint64_t id;
	const struct fmove_options *opts;	/* may be NULL */
	bool is_cancelled;
	/* a put that is held, an attended get: only its name is missing */
	bool is_prepared;
	bool is_decided;			/* what becomes of it */
	uint64_t bytes;				/* how far the last progress said it was */
	const struct fmove_tree_options *tree;	/* a transfer of one; NULL: none */
	/* Events between the first and the last, if the request is no transfer. */
	void (*between)(void *ctx, const char *event, const struct fm_json *json);
	void *ctx;
};

static int cancel_send(struct fmove *c, uint64_t job, bool is_kept, struct fmove_error *err)
{
	struct fm_json_writer w;

	request_begin(c, &w, "cancel");
	fm_jw_u64(&w, "job", job);
	if (is_kept)
		fm_jw_bool(&w, "keep", true);
	return request_send(c, &w, err);
}

/* why: it could not be given its name; NULL: it may have it, or has it. */
static int commit_send(struct fmove *c, uint64_t job, const struct fmove_error *why,
		       struct fmove_error *err)
{
	struct fm_json_writer w;

	request_begin(c, &w, "commit");
	fm_jw_u64(&w, "job", job);
	if (why) {
		fm_jw_text(&w, "code", fm_api_errno_name(why->code));
		fm_jw_text(&w, "text", why->text);
	}
	return request_send(c, &w, err);
}

static int cancel_now(struct fmove *c, struct waiting *w, bool is_kept, struct fmove_error *err)
{
	w->is_cancelled = true;
	return cancel_send(c, w->id, is_kept, err);
}

/* Whoever holds the put knows now. */
static int decide(struct fmove *c, struct waiting *w, struct fmove_error *err)
{
	w->is_decided = true;
	if (!w->opts->decide(w->opts->ctx))
		return cancel_now(c, w, true, err);
	return w->is_prepared ? commit_send(c, w->id, NULL, err) : 0;
}

static int event_prepared(struct fmove *c, struct waiting *w, struct fmove_error *err)
{
	w->is_prepared = true;
	if (w->opts->prepared)
		w->opts->prepared(w->opts->ctx);
	return w->is_decided && !w->is_cancelled ? commit_send(c, w->id, NULL, err) : 0;
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

/* A descriptor of the caller's that is waited for, or what poll() skips. */
static int caller_fd(const struct waiting *w, int fd)
{
	return fd > 0 && !w->is_cancelled ? fd : -1;
}

/* Until there is a message to read; cancels when cancel_fd says so, decides when hold_fd does. */
static int message_wait(struct fmove *c, struct waiting *w, struct fmove_error *err)
{
	static const struct fmove_options none;
	const struct fmove_options *o = w->opts ? w->opts : &none;
	struct pollfd fds[3] = { { c->fd, POLLIN, 0 }, { -1, POLLIN, 0 }, { -1, POLLIN, 0 } };
	int n, ret = 0;

	for (;;) {
		fds[1].fd = caller_fd(w, o->cancel_fd);
		fds[2].fd = w->is_decided ? -1 : caller_fd(w, o->hold_fd);
		n = poll(fds, 3, wait_ms(w));
		if (n < 0 && errno != EINTR)
			return fail(err, -errno, "wait for fmoved: %s", fm_err_name(errno));
		if (n == 0)
			return fail_silent(w, err);
		if (n > 0 && fds[0].revents)
			return 0;
		if (n > 0 && fds[1].revents)
			ret = cancel_now(c, w, o->keep_partial, err);
		else if (n > 0)
			ret = decide(c, w, err);
		if (ret < 0)
			return ret;
	}
}

static void event_progress(struct waiting *w, const struct fm_json *event)
{
	const struct fmove_options *opts = w->opts;
	struct fmove_progress p = { .state = "", .size = UINT64_MAX };
	uint64_t corrupt = 0, rails = 0;

	p.text = "";
	/* What is missing or of another type keeps its default. */
	(void)fm_json_text(fm_json_get(event, "state"), &p.state);
	(void)fm_json_u64(fm_json_get(event, "size"), &p.size);
	(void)fm_json_u64(fm_json_get(event, "bytes"), &p.bytes);
	(void)fm_json_u64(fm_json_get(event, "files"), &p.files);
	(void)fm_json_u64(fm_json_get(event, "resumed_bytes"), &p.resumed_bytes);
	(void)fm_json_u64(fm_json_get(event, "resent_bytes"), &p.resent_bytes);
	(void)fm_json_u64(fm_json_get(event, "corrupt_chunks"), &corrupt);
	(void)fm_json_u64(fm_json_get(event, "rails"), &rails);
	(void)fm_json_u64(fm_json_get(event, "before"), &p.before);
	(void)fm_json_u64(fm_json_get(event, "again_ms"), &p.again_ms);
	(void)fm_json_text(fm_json_get(event, "text"), &p.text);
	p.corrupt_chunks = (unsigned)corrupt;
	p.rails = (unsigned)rails;
	w->bytes = p.bytes;
	if (opts->progress)
		opts->progress(opts->ctx, &p);
}

/* What is no name of a change is passed over. */
static void event_names(const struct fm_json *event, const struct fmove_tree_options *o)
{
	static const char *const words[] = {[FMOVE_ADDED] = "added",
					    [FMOVE_REPLACED] = "replaced",
					    [FMOVE_REMOVED] = "removed"};
	const struct fm_json *names = fm_json_get(event, "names");
	size_t count = names ? fm_json_count(names) : 0, len;
	char path[FMOVE_PATH_MAX + 1];
	const char *word;

	for (size_t i = 0; i < count; i++) {
		const struct fm_json *at = fm_json_at(names, i);

		word = "";
		if (fm_json_name(fm_json_get(at, "path"), path, sizeof(path), &len) < 0 ||
		    fm_json_text(fm_json_get(at, "change"), &word) < 0)
			continue;
		for (unsigned c = FMOVE_ADDED; c <= FMOVE_REMOVED; c++)
			if (strcmp(word, words[c]) == 0)
				o->named(o->ctx, (enum fmove_change)c, path);
	}
}

static void event_accepted(const struct fm_json *event, const struct fmove_options *opts)
{
	const char *job = "";

	(void)fm_json_text(fm_json_get(event, "job"), &job);	/* "" if it is missing */
	if (opts->accepted)
		opts->accepted(opts->ctx, job);
}

static void result_read(const struct fm_json *done, struct fmove_result *r);

/* An attended get has come: the caller gives it its name, and the daemon is told. */
static int event_complete(struct fmove *c, struct waiting *w, const struct fm_json *event,
			  struct fmove_error *err)
{
	struct fmove_result result;
	struct fmove_error why = { .code = 0 };

	if (w->is_cancelled)
		return 0;
	w->is_prepared = true;
	result_read(event, &result);
	return w->opts->publish(w->opts->ctx, &result, &why) < 0 ? commit_send(c, w->id, &why, err)
								 : commit_send(c, w->id, NULL, err);
}

/* Neither the first nor the last of them. */
static int event_between(struct fmove *c, struct waiting *w, const char *name,
			 const struct fm_json *event, struct fmove_error *err)
{
	if (w->between)
		w->between(w->ctx, name, event);
	else if (strcmp(name, "progress") == 0 && w->opts)
		event_progress(w, event);
	else if (strcmp(name, "names") == 0 && w->tree && w->tree->named)
		event_names(event, w->tree);
	else if (strcmp(name, "accepted") == 0 && w->opts)
		event_accepted(event, w->opts);
	else if (strcmp(name, "prepared") == 0 && w->opts && w->opts->is_attended)
		return event_complete(c, w, event, err);
	else if (strcmp(name, "prepared") == 0 && w->opts && w->opts->hold_fd > 0)
		return event_prepared(c, w, err);
	return 0;
}

/* The "done" of the request that is waited for into *out, or its error. */
static int request_wait_for(struct fmove *c, struct waiting *w, struct fm_json **out,
			    struct fmove_error *err)
{
	const char *name;
	uint64_t id;
	int ret;

	for (;;) {
		ret = message_wait(c, w, err);
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
			id = strcmp(name, "error") == 0 ? w->id : 0;
		if (id == w->id && strcmp(name, "done") == 0)
			return 0;
		if (id == w->id && strcmp(name, "error") == 0)
			ret = event_error(*out, err);
		else if (id == w->id)
			ret = event_between(c, w, name, *out, err);
		fm_json_free(*out);
		if (ret < 0)
			return ret;
	}
}

/* ---- as often as it takes ---- */

static uint64_t now_ms(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx) / FM_NS_PER_MS;
}

static uint64_t left_ms(const struct fm_lib_turns *t)
{
	uint64_t gone_ms = now_ms() - t->since_ms;

	if (t->limit_ms == 0)
		return UINT64_MAX;
	if (t->refused == 0)
		return t->limit_ms;
	return gone_ms < t->limit_ms ? t->limit_ms - gone_ms : 0;
}

bool fm_lib_asks_again(struct fmove *c, struct fm_lib_turns *t, struct fmove_error *err)
{
	char text[FMOVE_TEXT_MAX];
	uint64_t ms;

	if (!err->is_full || !c->again || t->is_over)
		return false;
	connection_drop(c);
	ms = left_ms(t);
	if (ms > 0 && !c->again(c->again_ctx, err, ++t->refused, ms))
		return false;
	if (left_ms(t) > 0)
		return true;
	memcpy(text, err->text, sizeof(text));
	(void)fail(err, -ETIMEDOUT, "not begun within %.9g s: %s", (double)t->limit_ms / 1000,
		   text);
	return false;
}

/* What a request says is left. 0 would be no limit, and the last of it may have gone since it was
 * looked at. */
static uint64_t limit_left_ms(const struct fm_lib_turns *t)
{
	uint64_t ms = left_ms(t);

	return ms > 0 ? ms : 1;
}

/* Send what was begun, and wait. */
static int request_try(struct fmove *c, const struct fm_json_writer *begun,
		       const struct parcel *with, struct waiting *w, struct fm_lib_turns *turns,
		       struct fm_json **out, struct fmove_error *err)
{
	int ret;

	w->id = c->id;
	if (turns->refused == 0) {
		turns->limit_ms = c->limit_ms;
		turns->since_ms = now_ms();
	}
	ret = request_send_with(c, begun, limit_left_ms(turns), with, err);
	if (with->passed)
		with->passed(with->ctx);
	if (ret == 0)
		ret = request_wait_for(c, w, out, err);
	turns->is_over = w->is_cancelled || w->is_decided;
	return ret;
}

/* The same until it is taken. */
static int request_run(struct fmove *c, const struct fm_json_writer *begun,
		       const struct parcel *with, struct waiting *w, struct fm_json **out,
		       struct fmove_error *err)
{
	struct fm_lib_turns turns = { .refused = 0 };
	struct fmove_error own;
	int ret;

	err = err ? err : &own;
	do {
		ret = request_try(c, begun, with, w, &turns, out, err);
	} while (ret < 0 && fm_lib_asks_again(c, &turns, err));
	return ret < 0 ? err->code : ret;
}

/* The same without options, with fd (or -1). */
static int request_run_with(struct fmove *c, const struct fm_json_writer *begun, int fd,
			    struct fm_json **out, struct fmove_error *err)
{
	struct parcel with = parcel_of(&fd);
	struct waiting w = { .opts = NULL };

	return request_run(c, begun, &with, &w, out, err);
}

static int request_do(struct fmove *c, const struct fm_json_writer *begun, struct fm_json **out,
		      struct fmove_error *err)
{
	return request_run_with(c, begun, -1, out, err);
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

_Static_assert(FMOVE_NORMAL == 0 && FMOVE_LOW == 1 && FMOVE_HIGH == 2,
	       "order of fm_words_priority");
_Static_assert(FMOVE_AUTO == 0 && FMOVE_RDMA == 1 && FMOVE_TCP == 2, "order of fm_words_transport");
_Static_assert(FMOVE_DEFAULT == 0 && FMOVE_DISK == 1 && FMOVE_MEMORY == 2,
	       "order of fm_words_durability");
_Static_assert(FMOVE_JOB_QUEUED == 0 && FMOVE_JOB_CANCELLED + 1 == FMOVE_JOB_OTHER &&
		       FMOVE_JOB_OTHER == 7,
	       "order of fm_words_state");

static void transfer_options(struct fm_json_writer *w, const struct fmove_options *o)
{
	if (!o)
		return;
	fm_jw_text(w, "priority", fm_words_priority[o->priority]);
	if (o->retry_ms > 0)
		fm_jw_u64(w, "retry_ms", o->retry_ms);
	if (o->file)
		fm_jw_name(w, "file", o->file, strlen(o->file));
	fm_jw_text(w, "transport", fm_words_transport[o->transport]);
	fm_jw_text(w, "durability", fm_words_durability[o->durability]);
	if (o->accepts_corrupt)
		fm_jw_bool(w, "accept_corrupt", true);
	if (o->rate_bytes > 0)
		fm_jw_u64(w, "limit", o->rate_bytes);
	if (o->progress_ms > 0)
		fm_jw_u64(w, "progress_ms", o->progress_ms);
	if (o->is_attended)
		fm_jw_bool(w, "attended", true);
	if (o->is_attended && o->again)
		fm_jw_text(w, "job", o->again);
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

static void tree_read(const struct fm_json *done, struct fmove_result *r)
{
	(void)fm_json_bool(fm_json_get(done, "tree"), &r->is_tree);
	(void)fm_json_u64(fm_json_get(done, "files"), &r->files);
	(void)fm_json_u64(fm_json_get(done, "dirs"), &r->dirs);
	(void)fm_json_u64(fm_json_get(done, "links"), &r->links);
	(void)fm_json_u64(fm_json_get(done, "hard_links"), &r->hard_links);
	(void)fm_json_u64(fm_json_get(done, "reused_files"), &r->reused_files);
	(void)fm_json_u64(fm_json_get(done, "reused_bytes"), &r->reused_bytes);
	(void)fm_json_bool(fm_json_get(done, "reflinked"), &r->is_reflinked);
	(void)fm_json_u64(fm_json_get(done, "resumed_files"), &r->resumed_files);
	(void)fm_json_u64(fm_json_get(done, "added"), &r->added);
	(void)fm_json_u64(fm_json_get(done, "replaced"), &r->replaced);
	(void)fm_json_u64(fm_json_get(done, "removed"), &r->removed);
	(void)fm_json_u64(fm_json_get(done, "kept"), &r->kept);
	(void)fm_json_u64(fm_json_get(done, "wanted_files"), &r->wanted_files);
	(void)fm_json_u64(fm_json_get(done, "wanted_bytes"), &r->wanted_bytes);
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
	(void)fm_json_u64(fm_json_get(done, "resumed_bytes"), &r->resumed_bytes);
	(void)fm_json_u64(fm_json_get(done, "damaged_bytes"), &r->damaged_bytes);
	tree_read(done, r);
	(void)fm_json_u64(fm_json_get(done, "corrupt_chunks"), &corrupt);
	(void)fm_json_i64(fm_json_get(done, "mtime_ns"), &r->mtime_ns);
	text_copy(done, "transport", r->transport, sizeof(r->transport));
	(void)fm_json_u64(fm_json_get(done, "rdma_bytes"), &r->rdma_bytes);
	(void)fm_json_u64(fm_json_get(done, "tcp_bytes"), &r->tcp_bytes);
	text_copy(done, "encryption", r->encryption, sizeof(r->encryption));
	text_copy(done, "why", r->why, sizeof(r->why));
	text_copy(done, "note", r->note, sizeof(r->note));
	text_copy(done, "crc32c", crc, sizeof(crc));
	r->crc32c = (uint32_t)strtoul(crc, NULL, 16);
	r->mode = mode_read(done);
	r->connections = (unsigned)connections;
	r->corrupt_chunks = (unsigned)corrupt;
}

static const struct fmove_options no_options;

static int transfer_do_with(struct fmove *c, const struct fm_json_writer *begun,
			    const struct parcel *with, const struct fmove_options *opts,
			    struct fmove_result *result, struct fmove_error *err)
{
	struct waiting w = { .opts = opts ? opts : &no_options, .tree = opts ? opts->tree : NULL };
	struct fm_json *done;
	int ret = request_run(c, begun, with, &w, &done, err);

	if (ret < 0 && err && err->bytes < w.bytes)
		err->bytes = w.bytes;	/* the daemon is gone, and cannot say it */
	if (ret < 0)
		return ret;
	result_read(done, result);
	fm_json_free(done);
	return 0;
}

static int transfer_do(struct fmove *c, const struct fm_json_writer *begun, int fd,
		       const struct fmove_options *opts, struct fmove_result *result,
		       struct fmove_error *err)
{
	struct parcel with = parcel_of(&fd);

	return transfer_do_with(c, begun, &with, opts, result, err);
}

static void put_begin(struct fmove *c, struct fm_json_writer *w, const struct fmove_name *name,
		      const struct fmove_options *opts)
{
	request_begin(c, w, "put");
	request_name(w, name);
	transfer_options(w, opts);
	c->limit_ms = opts ? opts->timeout_ms : 0;
	if (opts && opts->may_replace)
		fm_jw_bool(w, "force", true);
	if (opts && opts->is_readback)
		fm_jw_text(w, "verify", "readback");
	if (opts && opts->is_buffered)
		fm_jw_bool(w, "buffered", true);
	if (opts && opts->hold_fd > 0)
		fm_jw_bool(w, "hold", true);
}

static void get_begin(struct fmove *c, struct fm_json_writer *w, const struct fmove_name *name,
		      const struct fmove_options *opts)
{
	request_begin(c, w, "get");
	request_name(w, name);
	transfer_options(w, opts);
	c->limit_ms = opts ? opts->timeout_ms : 0;
	if (opts && opts->is_attended && opts->may_replace)
		/* our own affair, but what it is begun again with */
		fm_jw_bool(w, "force", true);
}

static void excludes_add(struct fm_json_writer *w, const char *const *excludes)
{
	fm_jw_array(w, "exclude");
	for (; *excludes; excludes++)
		fm_jw_name(w, NULL, *excludes, strlen(*excludes));
	fm_jw_array_end(w);
}

static void tree_add(struct fm_json_writer *w, const struct fmove_tree_options *o)
{
	fm_jw_bool(w, "tree", true);
	if (o && o->is_update)
		fm_jw_bool(w, "update", true);
	if (o && o->is_delete)
		fm_jw_bool(w, "delete", true);
	if (o && o->has_checksums)
		fm_jw_bool(w, "checksum", true);
	if (o && o->is_dry_run)
		fm_jw_bool(w, "dry_run", true);
	if (o && o->named)
		fm_jw_bool(w, "names", true);
}

static void tree_begin(struct fmove *c, struct fm_json_writer *w, const struct fm_lib_tree *t)
{
	const struct fmove_tree_options *o = t->tree;

	if (t->is_put) {
		put_begin(c, w, t->name, t->opts);
		fm_jw_u64(w, "dev", t->dev);
		fm_jw_u64(w, "ino", t->ino);
		if (t->bytes > 0)
			fm_jw_u64(w, "tree_bytes", t->bytes);
	} else {
		get_begin(c, w, t->name, t->opts);
	}
	/* What is put leaves them out by itself; a job remembers them. */
	if (o && o->excludes && (!t->is_put || (t->opts && t->opts->is_attended)))
		excludes_add(w, o->excludes);
	tree_add(w, o);
}

int fm_lib_tree_do(struct fmove *c, struct fm_lib_tree *t, struct fmove_result *result,
		   struct fmove_error *err)
{
	struct parcel with = {
		.fds = t->fds, .count = t->fds_count, .passed = t->passed, .ctx = t->ctx};
	struct waiting waiting = { .opts = t->opts ? t->opts : &no_options, .tree = t->tree };
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	tree_begin(c, &w, t);
	ret = request_try(c, &w, &with, &waiting, &t->turns, &done, err);
	if (ret < 0) {
		if (err->bytes < waiting.bytes)
			err->bytes = waiting.bytes;	/* the daemon is gone, and cannot say it */
		return ret;
	}
	result_read(done, result);
	fm_json_free(done);
	return 0;
}

static void own_add(struct fm_json_writer *w, const struct fmove_name *own,
		    const struct fmove_options *opts)
{
	fm_jw_text(w, "local_store", own->store);
	fm_jw_name(w, "local_path", own->path, strlen(own->path));
	if (!opts || !opts->tree)
		return;
	tree_add(w, opts->tree);
	if (opts->tree->excludes)
		excludes_add(w, opts->tree->excludes);
}

/* A transfer that the daemon does by itself. */
struct move {
	bool is_put;
	const struct fmove_name *name;
	const struct fmove_name *own;	/* in a store of this node; NULL: the first of fds */
	int fds[2];
	unsigned fds_count;
};

static void move_begin(struct fmove *c, struct fm_json_writer *w, const struct move *m,
		       const struct fmove_options *opts)
{
	if (m->is_put)
		put_begin(c, w, m->name, opts);
	else
		get_begin(c, w, m->name, opts);
	if (m->own)
		own_add(w, m->own, opts);
	if (m->own && !m->is_put && opts->may_replace)
		fm_jw_bool(w, "force", true);
}

/*
 * What a pipe gave or took is gone, and so is what was read of a file that did not stand at its
 * beginning. The daemon moves the position of a file that it looks for holes in.
 */
static bool can_move_again(const struct move *m)
{
	struct stat st;

	return m->own || (fstat(m->fds[0], &st) == 0 && S_ISREG(st.st_mode) &&
			  (!m->is_put || lseek(m->fds[0], 0, SEEK_CUR) == 0));
}

static bool begin_again(const struct move *m)
{
	return m->own || !m->is_put || lseek(m->fds[0], 0, SEEK_SET) == 0;
}

static int stat_own(struct fmove *c, const struct move *m, struct fmove_entry *out)
{
	struct fmove_error err;
	struct stat st;

	if (m->own)
		return fmove_stat(c, m->own, out, &err);
	if (fstat(m->fds[0], &st) < 0)
		return -errno;
	*out = (struct fmove_entry){.type = S_ISREG(st.st_mode) ? FMOVE_FILE : FMOVE_OTHER,
				    .size = (uint64_t)st.st_size};
	out->mtime_ns = (int64_t)st.st_mtim.tv_sec * (int64_t)FM_NS_PER_S + st.st_mtim.tv_nsec;
	return 0;
}

/* The name is taken: by an earlier try, whose answer was lost, if size and time are those of the
 * source. So the daemon judges, too. */
static bool was_moved(struct fmove *c, const struct move *m, const struct fmove_options *opts,
		      struct fmove_result *result)
{
	struct fmove_entry own, far;
	struct fmove_error err;

	if (opts->tree || stat_own(c, m, &own) < 0 || fmove_stat(c, m->name, &far, &err) < 0 ||
	    own.type != FMOVE_FILE || far.type != FMOVE_FILE || own.size != far.size ||
	    own.mtime_ns != far.mtime_ns)
		return false;
	*result = (struct fmove_result){
		.bytes = far.size, .data_bytes = far.size, .resumed_bytes = far.size};
	result->mode = far.mode;
	result->mtime_ns = far.mtime_ns;
	result->is_checked = true;
	result->is_durable = opts->durability == FMOVE_DISK;
	(void)snprintf(result->note, sizeof(result->note),
		       "an earlier try, of which no answer came, had got it there");
	return true;
}

/* What fails there the daemon tries again. That the daemon itself went away only we can see. */
static int move(struct fmove *c, const struct move *m, const struct fmove_options *opts,
		struct fmove_result *result, struct fmove_error *err)
{
	struct parcel with = { .fds = m->fds, .count = m->fds_count };
	struct fm_json_writer w;
	struct fmove_error own;
	struct fm_tries tries;
	bool can_again = can_move_again(m), is_again = false;
	int ret;

	err = err ? err : &own;
	fm_tries_begin(&tries, opts ? opts : &no_options);
	for (;; is_again = true) {
		move_begin(c, &w, m, &tries.opts);
		ret = transfer_do_with(c, &w, &with, &tries.opts, result, err);
		if (ret == -EEXIST && is_again && was_moved(c, m, &tries.opts, result))
			return 0;
		if (ret == 0 || !c->is_lost || !can_again || !fm_tries_again(&tries, c, err) ||
		    !begin_again(m))
			return ret < 0 ? err->code : ret;
	}
}

int fmove_put(struct fmove *c, int fd, const struct fmove_name *name,
	      const struct fmove_options *opts, struct fmove_result *result,
	      struct fmove_error *err)
{
	const struct move m = { .is_put = true, .name = name, .fds = { fd }, .fds_count = 1 };

	assert(fd >= 0);
	return move(c, &m, opts, result, err);
}

int fmove_get(struct fmove *c, int fd, const struct fmove_name *name,
	      const struct fmove_options *opts, struct fmove_result *result,
	      struct fmove_error *err)
{
	int journal = opts ? opts->journal_fd : 0;
	const struct move m = {
		.name = name, .fds = {fd, journal}, .fds_count = journal > 0 ? 2 : 1};

	assert(fd >= 0);
	return move(c, &m, opts, result, err);
}

int fmove_put_store(struct fmove *c, const struct fmove_name *own, const struct fmove_name *name,
		    const struct fmove_options *opts, struct fmove_result *result,
		    struct fmove_error *err)
{
	const struct move m = { .is_put = true, .name = name, .own = own };

	return move(c, &m, opts, result, err);
}

int fmove_get_store(struct fmove *c, const struct fmove_name *name, const struct fmove_name *own,
		    const struct fmove_options *opts, struct fmove_result *result,
		    struct fmove_error *err)
{
	const struct move m = { .name = name, .own = own };

	return move(c, &m, opts, result, err);
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

/* ---- jobs ---- */

static int detach(struct fmove *c, struct fm_json_writer *w, int fd, char job[FMOVE_JOB_MAX],
		  struct fmove_error *err)
{
	struct fm_json *done;
	int ret;

	fm_jw_bool(w, "detach", true);
	ret = request_run_with(c, w, fd, &done, err);
	if (ret < 0)
		return ret;
	text_copy(done, "job", job, FMOVE_JOB_MAX);
	fm_json_free(done);
	return 0;
}

int fmove_put_detached(struct fmove *c, int fd, const struct fmove_name *name,
		       const struct fmove_options *opts, char job[FMOVE_JOB_MAX],
		       struct fmove_error *err)
{
	struct fm_json_writer w;

	assert(fd >= 0);
	put_begin(c, &w, name, opts);
	return detach(c, &w, fd, job, err);
}

int fmove_put_store_detached(struct fmove *c, const struct fmove_name *own,
			     const struct fmove_name *name, const struct fmove_options *opts,
			     char job[FMOVE_JOB_MAX], struct fmove_error *err)
{
	struct fm_json_writer w;

	put_begin(c, &w, name, opts);
	own_add(&w, own, opts);
	return detach(c, &w, -1, job, err);
}

int fmove_get_store_detached(struct fmove *c, const struct fmove_name *name,
			     const struct fmove_name *own, const struct fmove_options *opts,
			     char job[FMOVE_JOB_MAX], struct fmove_error *err)
{
	struct fm_json_writer w;

	get_begin(c, &w, name, opts);
	own_add(&w, own, opts);
	if (opts && opts->may_replace)
		fm_jw_bool(&w, "force", true);
	return detach(c, &w, -1, job, err);
}

/* The place of the text under that key in words; `other` if it is none of them, or the key is
 * missing. */
static int word_read(const struct fm_json *json, const char *key, const char *const *words,
		     int other)
{
	const char *text = "";
	int place;

	(void)fm_json_text(fm_json_get(json, key), &text);	/* "" if it is missing */
	place = fm_word_parse(words, text);
	return place < 0 ? other : place;
}

/* The same of what an attended job was asked for with. */
static void job_options_read(const struct fm_json *json, struct fmove_job *j)
{
	const struct fm_json *o = fm_json_get(json, "options");
	const struct fm_json *excludes = fm_json_get(o, "exclude");
	size_t count = excludes ? fm_json_count(excludes) : 0, len;

	j->transport =
		(enum fmove_transport)word_read(o, "transport", fm_words_transport, FMOVE_AUTO);
	j->durability = (enum fmove_durability)word_read(o, "durability", fm_words_durability,
							 FMOVE_DEFAULT);
	(void)fm_json_bool(fm_json_get(o, "force"), &j->may_replace);
	j->is_readback = word_read(o, "verify", fm_words_readback, 0) > 0;
	(void)fm_json_bool(fm_json_get(o, "accept_corrupt"), &j->accepts_corrupt);
	(void)fm_json_bool(fm_json_get(o, "update"), &j->is_update);
	(void)fm_json_bool(fm_json_get(o, "delete"), &j->is_delete);
	(void)fm_json_bool(fm_json_get(o, "checksum"), &j->has_checksums);
	(void)fm_json_bool(fm_json_get(o, "dry_run"), &j->is_dry_run);
	(void)fm_json_u64(fm_json_get(o, "limit"), &j->rate_bytes);
	(void)fm_json_u64(fm_json_get(o, "timeout_ms"), &j->timeout_ms);
	(void)fm_json_u64(fm_json_get(o, "retry_ms"), &j->retry_ms);
	for (size_t i = 0; i < count && i < FMOVE_EXCLUDES_MAX; i++)
		if (fm_json_name(fm_json_at(excludes, i), j->excludes[j->excludes_count],
				 sizeof(j->excludes[0]), &len) == 0)
			j->excludes_count++;
}

/* A key that is missing leaves its zero. */
static void job_read(const struct fm_json *json, struct fmove_job *j, uint64_t *seq)
{
	uint64_t user = 0, exit_status = 0;
	const char *op = "";
	size_t len;

	memset(j, 0, sizeof(*j));
	j->size = UINT64_MAX;
	text_copy(json, "job", j->id, sizeof(j->id));
	(void)fm_json_u64(fm_json_get(json, "seq"), seq);
	(void)fm_json_u64(fm_json_get(json, "user"), &user);
	(void)fm_json_text(fm_json_get(json, "op"), &op);
	j->user = (unsigned)user;
	j->is_put = strcmp(op, "put") == 0;
	(void)fm_json_bool(fm_json_get(json, "detached"), &j->is_detached);
	(void)fm_json_bool(fm_json_get(json, "attended"), &j->is_attended);
	(void)fm_json_bool(fm_json_get(json, "tree"), &j->is_tree);
	if (fm_json_get(json, "options"))
		job_options_read(json, j);
	j->state = (enum fmove_job_state)word_read(json, "state", fm_words_state, FMOVE_JOB_OTHER);
	j->priority =
		(enum fmove_priority)word_read(json, "priority", fm_words_priority, FMOVE_NORMAL);
	text_copy(json, "phase", j->phase, sizeof(j->phase));
	text_copy(json, "node", j->node, sizeof(j->node));
	text_copy(json, "store", j->store, sizeof(j->store));
	text_copy(json, "local_node", j->local_node, sizeof(j->local_node));
	text_copy(json, "local_store", j->local_store, sizeof(j->local_store));
	text_copy(json, "text", j->text, sizeof(j->text));
	(void)fm_json_name(fm_json_get(json, "path"), j->path, sizeof(j->path), &len);
	(void)fm_json_name(fm_json_get(json, j->local_store[0] ? "local_path" : "file"),
			   j->local_path, sizeof(j->local_path), &len);
	(void)fm_json_u64(fm_json_get(json, "size"), &j->size);
	(void)fm_json_u64(fm_json_get(json, "bytes"), &j->bytes);
	(void)fm_json_u64(fm_json_get(json, "before"), &j->before);
	(void)fm_json_u64(fm_json_get(json, "again_ms"), &j->again_ms);
	(void)fm_json_u64(fm_json_get(json, "tries"), &j->tries);
	(void)fm_json_i64(fm_json_get(json, "created_ms"), &j->created_ms);
	(void)fm_json_i64(fm_json_get(json, "ended_ms"), &j->ended_ms);
	(void)fm_json_u64(fm_json_get(json, "exit"), &exit_status);
	j->exit = (int)exit_status;
}

/* One page; whether there are more, and the last one's number. */
static bool jobs_show(const struct fm_json *done,
		      bool (*each)(void *ctx, const struct fmove_job *job), void *ctx,
		      struct fmove_job *job, uint64_t *seq)
{
	const struct fm_json *list = fm_json_get(done, "jobs");
	size_t count = fm_json_count(list);
	bool is_more = false;

	(void)fm_json_bool(fm_json_get(done, "more"), &is_more);	/* false if it is missing */
	for (size_t i = 0; i < count; i++) {
		job_read(fm_json_at(list, i), job, seq);
		if (!each(ctx, job))
			return false;
	}
	return is_more && count > 0;
}

int fmove_jobs(struct fmove *c, bool is_all, bool (*each)(void *ctx, const struct fmove_job *job),
	       void *ctx, struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fmove_job job;
	struct fm_json *done;
	uint64_t seq = 0;
	bool is_more;
	int ret;

	do {
		request_begin(c, &w, "jobs");
		fm_jw_u64(&w, "seq", seq);
		if (is_all)
			fm_jw_bool(&w, "all", true);
		ret = request_do(c, &w, &done, err);
		if (ret < 0)
			return ret;
		is_more = jobs_show(done, each, ctx, &job, &seq);
		fm_json_free(done);
	} while (is_more);
	return 0;
}

static void job_begin(struct fmove *c, struct fm_json_writer *w, const char *op, const char *job)
{
	request_begin(c, w, op);
	fm_jw_text(w, "job", job);
}

int fmove_find_job(struct fmove *c, const char *job, struct fmove_job *out, struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fm_json *done;
	uint64_t seq;
	int ret;

	job_begin(c, &w, "jobs", job);
	ret = request_do(c, &w, &done, err);
	if (ret < 0)
		return ret;
	job_read(fm_json_at(fm_json_get(done, "jobs"), 0), out, &seq);
	fm_json_free(done);
	return 0;
}

int fmove_wait(struct fmove *c, const char *job, const struct fmove_options *opts,
	       struct fmove_result *result, struct fmove_error *err)
{
	struct fm_json_writer w;

	job_begin(c, &w, "wait", job);
	if (opts && opts->progress_ms > 0 && opts->progress)
		fm_jw_u64(&w, "progress_ms", opts->progress_ms);
	return transfer_do(c, &w, -1, opts, result, err);
}

int fmove_cancel(struct fmove *c, const char *job, bool is_kept, struct fmove_error *err)
{
	struct fm_json_writer w;

	job_begin(c, &w, "cancel", job);
	if (is_kept)
		fm_jw_bool(&w, "keep", true);
	return request_do_simple(c, &w, err);
}

int fmove_resume(struct fmove *c, const char *job, int fd, struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	job_begin(c, &w, "resume", job);
	ret = request_run_with(c, &w, fd, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}

/* ---- requests about stores ---- */

static void store_begin(struct fmove *c, struct fm_json_writer *w, const char *op,
			const struct fmove_name *name)
{
	request_begin(c, w, op);
	request_name(w, name);
	c->limit_ms = c->timeout_ms;
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
	if (fm_json_get(json, "whole") && fm_json_u64(fm_json_get(json, "whole"), &e->whole) < 0)
		e->whole = UINT64_MAX;
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

static int list_pages(struct fmove *c, const struct fmove_name *name, bool is_partial,
		      const char *after, bool (*each)(void *ctx, const struct fmove_entry *entry),
		      void *ctx, struct fmove_error *err)
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
		if (is_partial)
			fm_jw_bool(&w, "partial", true);
		fm_jw_name(&w, "after", page.last.name, strlen(page.last.name));
		ret = request_do(c, &w, &done, err);
		if (ret < 0)
			return ret;
		page_show(&page, done);
		fm_json_free(done);
	} while (page.is_more);
	return 0;
}

int fmove_list(struct fmove *c, const struct fmove_name *name, const char *after,
	       bool (*each)(void *ctx, const struct fmove_entry *entry), void *ctx,
	       struct fmove_error *err)
{
	return list_pages(c, name, false, after, each, ctx, err);
}

int fmove_partials(struct fmove *c, const struct fmove_name *name, const char *after,
		   bool (*each)(void *ctx, const struct fmove_entry *entry), void *ctx,
		   struct fmove_error *err)
{
	return list_pages(c, name, true, after, each, ctx, err);
}

int fmove_remove(struct fmove *c, const struct fmove_name *name, bool is_recursive,
		 struct fmove_error *err)
{
	const struct fmove_options opts = {.timeout_ms = c->timeout_ms ? c->timeout_ms : REMOVE_MS};
	const struct parcel with = { .count = 0 };
	struct waiting waiting = { .opts = &opts };
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	store_begin(c, &w, "remove", name);
	if (!is_recursive)
		return request_do_simple(c, &w, err);
	fm_jw_bool(&w, "recursive", true);
	c->limit_ms = opts.timeout_ms;
	ret = request_run(c, &w, &with, &waiting, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}

int fmove_mkdir(struct fmove *c, const struct fmove_name *name, struct fmove_error *err)
{
	struct fm_json_writer w;

	store_begin(c, &w, "mkdir", name);
	return request_do_simple(c, &w, err);
}

/* ---- space ---- */

/* null: no limit */
static uint64_t bytes_read(const struct fm_json *json, const char *key)
{
	uint64_t bytes;

	return fm_json_u64(fm_json_get(json, key), &bytes) == 0 ? bytes : UINT64_MAX;
}

static void space_read(const struct fm_json *json, struct fmove_space *s)
{
	*s = (struct fmove_space){ .size = bytes_read(json, "size"),
				   .free = bytes_read(json, "free"),
				   .used = bytes_read(json, "used"),
				   .quota = bytes_read(json, "quota"),
				   .promised = bytes_read(json, "promised"),
				   .aside = bytes_read(json, "aside"),
				   .trees = bytes_read(json, "aside_trees") };
	text_copy(json, "store", s->store, sizeof(s->store));
	/* false if it is missing */
	(void)fm_json_bool(fm_json_get(json, "counting"), &s->is_counting);
}

static int space_of(struct fmove *c, const struct fmove_name *name, const char *after,
		    struct fmove_space *out, struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	store_begin(c, &w, "space", name);
	if (!name->store[0])
		fm_jw_name(&w, "after", after, strlen(after));
	ret = request_do(c, &w, &done, err);
	if (ret < 0)
		return ret;
	space_read(done, out);
	fm_json_free(done);
	return 0;
}

int fmove_space(struct fmove *c, const struct fmove_name *name,
		bool (*each)(void *ctx, const struct fmove_space *space), void *ctx,
		struct fmove_error *err)
{
	const struct fmove_name whole = { name->node, name->store, "" };
	struct fmove_space s = { .store = "" };
	int ret;

	do
		ret = space_of(c, &whole, s.store, &s, err);
	while (ret == 0 && s.store[0] && each(ctx, &s) && !whole.store[0]);
	return ret;
}

/* path: DIRECTORY/.fmove.HASH.old, and behind it the name that it had there. */
static void aside_split(struct fmove_aside *a)
{
	char *last = strrchr(a->path, '/'), *stash = last;
	char part[FM_STAGING_NAME_LEN + 1];
	size_t len;

	while (stash && stash > a->path && stash[-1] != '/')
		stash--;
	if (!last || stash == last)
		return;
	len = (size_t)(last - stash);
	(void)snprintf(part, sizeof(part), "%.*s", (int)(len < sizeof(part) ? len : sizeof(part)),
		       stash);
	if (!fm_staging_is_ours(part))
		return;
	/* shorter */
	(void)snprintf(a->name, sizeof(a->name), "%.*s%s", (int)(stash - a->path), a->path,
		       last + 1);
	*last = '\0';
}

/* The last path that was told stays in *last; *told counts them. Whether there are more. */
static bool aside_show(const struct fm_json *done, struct fmove_aside *last, size_t *told,
		       void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx)
{
	const struct fm_json *trees = fm_json_get(done, "aside");
	size_t count = fm_json_count(trees), len;
	bool is_more;

	for (size_t i = 0; i < count; i++) {
		const struct fm_json *at = fm_json_at(trees, i);

		*last = (struct fmove_aside){ .bytes = bytes_read(at, "bytes") };
		/* What is missing keeps its zero. */
		(void)fm_json_i64(fm_json_get(at, "since_ns"), &last->since_ns);
		(void)fm_json_name(fm_json_get(at, "path"), last->path, sizeof(last->path), &len);
		aside_split(last);
		each(ctx, last);
	}
	*told += count;
	return count > 0 && fm_json_bool(fm_json_get(done, "more"), &is_more) == 0 && is_more;
}

static int purge(struct fmove *c, const struct fmove_name *name, bool is_partial, bool is_dry,
		 void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
		 struct fmove_error *err)
{
	const struct fmove_options opts = { .timeout_ms = REMOVE_MS };
	const struct parcel with = { .count = 0 };
	struct waiting waiting = { .opts = &opts };
	struct fmove_aside last = { .path = "" };
	struct fm_json_writer w;
	struct fm_json *done;
	size_t told = 0;
	bool is_more;
	int ret;

	do {
		const struct fmove_name from = { name->node, name->store, is_dry ? last.path : "" };

		store_begin(c, &w, "purge", &from);
		c->limit_ms = opts.timeout_ms;
		if (is_dry)
			fm_jw_bool(&w, "dry_run", true);
		if (is_partial)
			fm_jw_bool(&w, "partial", true);
		ret = request_run(c, &w, &with, &waiting, &done, err);
		if (ret < 0)
			return ret;
		is_more = aside_show(done, &last, &told, each, ctx);
		fm_json_free(done);
	} while (is_more && told < FMOVE_ASIDE_MAX);
	if (is_more)
		return fail(
			err, -EPROTO,
			"the node tells of more than %d, which no store keeps aside",
			FMOVE_ASIDE_MAX);
	return 0;
}

int fmove_purge(struct fmove *c, const struct fmove_name *name, bool is_dry,
		void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
		struct fmove_error *err)
{
	return purge(c, name, false, is_dry, each, ctx, err);
}

int fmove_purge_partials(struct fmove *c, const struct fmove_name *name, bool is_dry,
			 void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
			 struct fmove_error *err)
{
	return purge(c, name, true, is_dry, each, ctx, err);
}

/* ---- verifying ---- */

static void verified_read(const struct fm_json *json, struct fmove_verified *v)
{
	*v = (struct fmove_verified){ .files = 0 };
	/* What is missing keeps its zero. */
	(void)fm_json_u64(fm_json_get(json, "files"), &v->files);
	(void)fm_json_u64(fm_json_get(json, "bytes"), &v->bytes);
	(void)fm_json_u64(fm_json_get(json, "corrupt"), &v->corrupt);
	(void)fm_json_u64(fm_json_get(json, "unreadable"), &v->unreadable);
	(void)fm_json_u64(fm_json_get(json, "changed"), &v->changed);
	(void)fm_json_u64(fm_json_get(json, "missing"), &v->missing);
	(void)fm_json_u64(fm_json_get(json, "swapped"), &v->swapped);
	(void)fm_json_u64(fm_json_get(json, "without"), &v->without);
}

static const char *const kinds[] = {"corrupt", "unreadable", "changed", "missing", "swapped", NULL};

struct verifying {
	struct fmove_verify_options o;
	/* findings whose kind is not known here, and so not what counter they are in */
	uint64_t other;
};

static void finding_read(const struct fm_json *json, struct verifying *v)
{
	struct fmove_finding f = { .offset = 0 };
	size_t len;

	f.kind = (enum fmove_finding_kind)word_read(json, "kind", kinds, FMOVE_FINDING_OTHER);
	(void)fm_json_u64(fm_json_get(json, "offset"), &f.offset);	/* 0 if it is missing */
	(void)fm_json_u64(fm_json_get(json, "length"), &f.length);
	(void)fm_json_name(fm_json_get(json, "path"), f.path, sizeof(f.path), &len);
	v->other += f.kind == FMOVE_FINDING_OTHER;
	if (v->o.finding)
		v->o.finding(v->o.ctx, &f);
}

static void verify_between(void *ctx, const char *event, const struct fm_json *json)
{
	struct verifying *v = ctx;
	struct fmove_verified so_far;

	if (strcmp(event, "progress") == 0 && v->o.progress) {
		verified_read(json, &so_far);
		v->o.progress(v->o.ctx, &so_far);
	} else if (strcmp(event, "finding") == 0) {
		finding_read(json, v);
	}
}

int fmove_verify(struct fmove *c, const struct fmove_name *name,
		 const struct fmove_verify_options *opts, struct fmove_verified *out,
		 struct fmove_error *err)
{
	struct verifying v = { .o = opts ? *opts : (struct fmove_verify_options){ .ctx = NULL } };
	struct fmove_options waits = { .cancel_fd = v.o.cancel_fd };
	struct waiting waiting = { .opts = &waits, .between = verify_between, .ctx = &v };
	static const struct parcel nothing;
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	request_begin(c, &w, "verify");
	request_name(&w, name);
	if (v.o.progress)
		fm_jw_u64(&w, "progress_ms", 1000);
	ret = request_run(c, &w, &nothing, &waiting, &done, err);
	if (ret < 0)
		return ret;
	verified_read(done, out);
	out->other = v.other;
	fm_json_free(done);
	return 0;
}

/* ---- what is staged ---- */

static void holders_read(const struct fm_json *list, struct fmove_dataset *d)
{
	size_t count = list ? fm_json_count(list) : 0;
	uint64_t pid, uid;

	for (size_t i = 0; i < count && i < FMOVE_HOLDERS_MAX; i++) {
		const struct fm_json *one = fm_json_at(list, i);

		if (fm_json_u64(fm_json_get(one, "pid"), &pid) < 0 ||
		    fm_json_u64(fm_json_get(one, "uid"), &uid) < 0)
			continue;
		d->holders[d->holder_count].pid = (pid_t)pid;
		d->holders[d->holder_count++].uid = (uid_t)uid;
	}
}

static void dataset_read(const struct fm_json *json, struct fmove_dataset *d)
{
	size_t len;

	memset(d, 0, sizeof(*d));
	(void)fm_json_name(fm_json_get(json, "name"), d->name, sizeof(d->name), &len);
	(void)fm_json_name(fm_json_get(json, "source"), d->source, sizeof(d->source), &len);
	(void)fm_json_name(fm_json_get(json, "path"), d->path, sizeof(d->path), &len);
	text_copy(json, "state", d->state, sizeof(d->state));
	text_copy(json, "version", d->version, sizeof(d->version));
	(void)fm_json_u64(fm_json_get(json, "bytes"), &d->bytes);
	(void)fm_json_u64(fm_json_get(json, "holds"), &d->holds);
	(void)fm_json_u64(fm_json_get(json, "pins"), &d->pins);
	(void)fm_json_i64(fm_json_get(json, "created_ms"), &d->created_ms);
	(void)fm_json_i64(fm_json_get(json, "requested_ms"), &d->requested_ms);
	(void)fm_json_i64(fm_json_get(json, "used_ms"), &d->used_ms);
	(void)fm_json_i64(fm_json_get(json, "verified_ms"), &d->verified_ms);
	holders_read(fm_json_get(json, "holders"), d);
}

static const char *text_or_none(const struct fm_json *json, const char *key)
{
	const char *text;

	return fm_json_text(fm_json_get(json, key), &text) < 0 ? "" : text;
}

static void stage_nodes(const struct fmove_stage_options *o, const struct fm_json *json,
			bool is_end)
{
	const struct fm_json *list = fm_json_get(json, "nodes");
	char name[FMOVE_NAME_MAX + 1], path[FMOVE_PATH_MAX + 1];
	size_t len;

	for (size_t i = 0; o->node && i < fm_json_count(list); i++) {
		const struct fm_json *one = fm_json_at(list, i);
		struct fmove_stage_node n = { .node = name, .path = path,
					      .state = text_or_none(one, "state"),
					      .code = text_or_none(one, "code"),
					      .text = text_or_none(one, "text") };

		name[0] = path[0] = '\0';
		(void)fm_json_name(fm_json_get(one, "node"), name, sizeof(name), &len);
		(void)fm_json_name(fm_json_get(one, "path"), path, sizeof(path), &len);
		(void)fm_json_bool(fm_json_get(one, "wanted"), &n.is_wanted);
		(void)fm_json_u64(fm_json_get(one, "bytes"), &n.bytes);
		(void)fm_json_u64(fm_json_get(one, "read"), &n.read);
		o->node(o->ctx, &n, is_end);
	}
}

static void stage_between(void *ctx, const char *event, const struct fm_json *json)
{
	const struct fmove_stage_options *o = ctx;
	uint64_t bytes = 0, size = 0;
	const char *phase;

	if (strcmp(event, "progress") != 0 || fm_json_text(fm_json_get(json, "phase"), &phase) < 0)
		return;
	(void)fm_json_u64(fm_json_get(json, "bytes"), &bytes);
	(void)fm_json_u64(fm_json_get(json, "size"), &size);
	stage_nodes(o, json, false);
	o->progress(o->ctx, phase, bytes, size);
}

/* What is staged is in w already; done: the caller's to free. */
static int stage_run(struct fmove *c, struct fm_json_writer *w,
		     const struct fmove_stage_options *opts, struct fmove_dataset *out,
		     bool *is_fetched, struct fm_json **done, struct fmove_error *err)
{
	struct fmove_stage_options o = opts ? *opts : (struct fmove_stage_options){ .name = NULL };
	struct fmove_options waits = { .cancel_fd = o.cancel_fd };
	struct waiting waiting = { .opts = &waits, .between = stage_between, .ctx = &o };
	static const struct parcel nothing;
	int ret;

	if (o.name)
		fm_jw_text(w, "name", o.name);
	if (o.pid > 0)
		fm_jw_u64(w, "pid", (uint64_t)o.pid);
	if (o.is_pinned)
		fm_jw_bool(w, "pin", true);
	if (o.is_trusted)
		fm_jw_text(w, "check", "none");
	if (o.nodes)
		fm_jw_text(w, "nodes", o.nodes);
	if (o.progress)
		fm_jw_u64(w, "progress_ms", 500);
	ret = request_run(c, w, &nothing, &waiting, done, err);
	if (ret < 0)
		return ret;
	dataset_read(*done, out);
	out->is_trusted = word_read(*done, "check", fm_words_check, 0) == 1;
	*is_fetched = false;
	(void)fm_json_bool(fm_json_get(*done, "fetched"), is_fetched);
	stage_nodes(&o, *done, true);
	return 0;
}

int fmove_stage(struct fmove *c, const struct fmove_name *source,
		const struct fmove_stage_options *opts, struct fmove_dataset *out, bool *is_fetched,
		struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	request_begin(c, &w, "stage");
	request_name(&w, source);
	ret = stage_run(c, &w, opts, out, is_fetched, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}

int fmove_stage_hub(struct fmove *c, const char *repository, const char *revision,
		    const struct fmove_stage_options *opts, struct fmove_dataset *out,
		    char hf_home[FMOVE_PATH_MAX + 1], bool *is_fetched, struct fmove_error *err)
{
	char path[FMOVE_PATH_MAX + 1];
	struct fm_json_writer w;
	struct fm_json *done;
	size_t len;
	int ret = snprintf(path, sizeof(path), "%s@%s", repository, revision);

	if (ret < 0 || (size_t)ret >= sizeof(path))
		return fail(err, -ENAMETOOLONG, "the revision is too long");
	request_begin(c, &w, "stage_hub");
	fm_jw_name(&w, "path", path, strlen(path));
	ret = stage_run(c, &w, opts, out, is_fetched, &done, err);
	if (ret < 0)
		return ret;
	hf_home[0] = '\0';
	(void)fm_json_name(fm_json_get(done, "hf_home"), hf_home, FMOVE_PATH_MAX + 1, &len);
	fm_json_free(done);
	return 0;
}

int fmove_locate(struct fmove *c, const char *path, struct fmove_place *out,
		 struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fm_json *done;
	size_t len;
	int ret;

	request_begin(c, &w, "locate");
	fm_jw_name(&w, "path", path, strlen(path));
	ret = request_do(c, &w, &done, err);
	if (ret < 0)
		return ret;
	memset(out, 0, sizeof(*out));
	text_copy(done, "node", out->node, sizeof(out->node));
	text_copy(done, "store", out->store, sizeof(out->store));
	(void)fm_json_name(fm_json_get(done, "path"), out->path, sizeof(out->path), &len);
	fm_json_free(done);
	return 0;
}

/* One page; whether there are more, and where they begin. */
static bool datasets_show(const struct fm_json *done,
			  bool (*each)(void *ctx, const struct fmove_dataset *d), void *ctx,
			  struct fmove_dataset *d, uint64_t *next)
{
	const struct fm_json *list = fm_json_get(done, "datasets");
	bool is_more = false;

	(void)fm_json_bool(fm_json_get(done, "more"), &is_more);	/* false if it is missing */
	for (size_t i = 0; i < fm_json_count(list); i++) {
		dataset_read(fm_json_at(list, i), d);
		if (!each(ctx, d))
			return false;
	}
	return is_more && fm_json_u64(fm_json_get(done, "next"), next) == 0;
}

int fmove_datasets(struct fmove *c, bool (*each)(void *ctx, const struct fmove_dataset *d),
		   void *ctx, struct fmove_error *err)
{
	struct fmove_dataset d;
	struct fm_json_writer w;
	struct fm_json *done;
	uint64_t next = 0;
	bool is_more;
	int ret;

	do {
		request_begin(c, &w, "datasets");
		fm_jw_u64(&w, "seq", next);
		ret = request_do(c, &w, &done, err);
		if (ret < 0)
			return ret;
		is_more = datasets_show(done, each, ctx, &d, &next);
		fm_json_free(done);
	} while (is_more);
	return 0;
}

int fmove_source_bytes(struct fmove *c, uint64_t *out, struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	request_begin(c, &w, "datasets");
	fm_jw_u64(&w, "seq", INT32_MAX);	/* none of them: only the sums */
	ret = request_do(c, &w, &done, err);
	if (ret < 0)
		return ret;
	*out = 0;
	(void)fm_json_u64(fm_json_get(done, "source_bytes"), out);
	fm_json_free(done);
	return 0;
}

static void check_between(void *ctx, const char *event, const struct fm_json *json)
{
	const struct fmove_check_options *o = ctx;
	struct fmove_dataset_finding f = { .offset = 0 };
	uint64_t bytes = 0, size = 0;
	size_t len;

	if (strcmp(event, "progress") == 0 && o->progress) {
		(void)fm_json_u64(fm_json_get(json, "bytes"), &bytes);
		(void)fm_json_u64(fm_json_get(json, "size"), &size);
		o->progress(o->ctx, bytes, size);
	} else if (strcmp(event, "finding") == 0 && o->finding) {
		text_copy(json, "kind", f.kind, sizeof(f.kind));
		(void)fm_json_name(fm_json_get(json, "path"), f.path, sizeof(f.path), &len);
		(void)fm_json_u64(fm_json_get(json, "offset"), &f.offset);
		(void)fm_json_u64(fm_json_get(json, "length"), &f.length);
		(void)fm_json_bool(fm_json_get(json, "mended"), &f.is_mended);
		o->finding(o->ctx, &f);
	}
}

int fmove_dataset_check(struct fmove *c, const char *name, const struct fmove_check_options *opts,
			struct fmove_checked *out, struct fmove_error *err)
{
	struct fmove_check_options o = opts ? *opts : (struct fmove_check_options){ .ctx = NULL };
	struct fmove_options waits = { .timeout_ms = 0 };
	struct waiting waiting = { .opts = &waits, .between = check_between, .ctx = &o };
	static const struct parcel nothing;
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	request_begin(c, &w, "check");
	fm_jw_text(&w, "name", name);
	if (o.progress)
		fm_jw_u64(&w, "progress_ms", 500);
	ret = request_run(c, &w, &nothing, &waiting, &done, err);
	if (ret < 0)
		return ret;
	*out = (struct fmove_checked){ .bytes = 0 };
	(void)fm_json_u64(fm_json_get(done, "bytes"), &out->bytes);
	(void)fm_json_u64(fm_json_get(done, "findings"), &out->findings);
	(void)fm_json_u64(fm_json_get(done, "mended"), &out->mended);
	text_copy(done, "text", out->why, sizeof(out->why));
	fm_json_free(done);
	return 0;
}

static int dataset_do(struct fmove *c, const char *op, const char *name, struct fmove_error *err)
{
	struct fm_json_writer w;

	request_begin(c, &w, op);
	fm_jw_text(&w, "name", name);
	return request_do_simple(c, &w, err);
}

int fmove_pin(struct fmove *c, const char *name, struct fmove_error *err)
{
	return dataset_do(c, "pin", name, err);
}

int fmove_unpin(struct fmove *c, const char *name, struct fmove_error *err)
{
	return dataset_do(c, "unpin", name, err);
}

int fmove_unstage(struct fmove *c, const char *name, struct fmove_error *err)
{
	return dataset_do(c, "unstage", name, err);
}

/* ---- about the daemon ---- */

static int ping(struct fmove *c, const char *key, char *out, size_t cap, struct fmove_error *err)
{
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	request_begin(c, &w, "ping");
	ret = request_do(c, &w, &done, err);
	if (ret < 0)
		return ret;
	text_copy(done, key, out, cap);
	fm_json_free(done);
	return 0;
}

int fmove_version(struct fmove *c, char *out, size_t cap, struct fmove_error *err)
{
	return ping(c, "version", out, cap, err);
}

int fmove_node(struct fmove *c, char *out, size_t cap, struct fmove_error *err)
{
	return ping(c, "node", out, cap, err);
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

/* ---- facts of peers ---- */

#define FACTS_BYTES_MAX (512u << 10)	/* of one node, as nodes send them */
#define FACTS_NODES_MAX 256

/* One node's, as far as it came. */
struct told {
	char node[FMOVE_NAME_MAX + 1];
	char *text;
	size_t len;
};

struct telling {
	void (*each)(void *ctx, const struct fmove_facts *facts);
	void *ctx;
	struct told told[FACTS_NODES_MAX];
};

static void told_end(struct telling *t, struct told *n, int code, const char *why)
{
	const struct fmove_facts facts = { n->node, code == 0 ? n->text : NULL, n->len, code, why };

	t->each(t->ctx, &facts);
	free(n->text);
	*n = (struct told){ .text = NULL };
}

/* That node's, or a free place. NULL: there is none. */
static struct told *told_of(struct telling *t, const char *node)
{
	struct told *place = NULL;

	for (size_t i = 0; i < FACTS_NODES_MAX; i++) {
		if (strcmp(t->told[i].node, node) == 0)
			return &t->told[i];
		if (!t->told[i].node[0] && !place)
			place = &t->told[i];
	}
	if (place)
		(void)snprintf(place->node, sizeof(place->node), "%s", node);
	return place;
}

/* -errno; what is behind it is not looked at any more. */
static int told_piece(struct told *n, const struct fm_json *json)
{
	size_t len;
	int ret;

	if (!n->text)
		n->text = malloc(FACTS_BYTES_MAX + 1);
	if (!n->text)
		return -ENOMEM;
	ret = fm_json_name(fm_json_get(json, "piece"), n->text + n->len,
			   FACTS_BYTES_MAX + 1 - n->len, &len);
	if (ret == 0)
		n->len += len;
	return ret;
}

static void facts_between(void *ctx, const char *event, const struct fm_json *json)
{
	const char *node = "", *code = "", *text = "";
	struct telling *t = ctx;
	struct told *n;
	bool is_more = false;
	int ret;

	(void)fm_json_text(fm_json_get(json, "node"), &node);	/* the defaults stay */
	(void)fm_json_text(fm_json_get(json, "code"), &code);
	(void)fm_json_text(fm_json_get(json, "text"), &text);
	(void)fm_json_bool(fm_json_get(json, "more"), &is_more);
	if (strcmp(event, "facts") != 0 || !*node || !(n = told_of(t, node)))
		return;
	if (*code) {
		told_end(t, n, fm_api_errno(code), text);
		return;
	}
	ret = told_piece(n, json);
	if (ret < 0)
		told_end(t, n, ret, fm_err_name(ret));
	else if (!is_more)
		told_end(t, n, 0, "");
}

int fmove_facts(struct fmove *c, const char *node,
		void (*each)(void *ctx, const struct fmove_facts *facts), void *ctx,
		struct fmove_error *err)
{
	struct telling *t = calloc(1, sizeof(*t));
	struct waiting waiting = { .between = facts_between, .ctx = t };
	static const struct parcel nothing;
	struct fm_json_writer w;
	struct fm_json *done;
	int ret;

	if (!t)
		return fail(err, -ENOMEM, "no memory for facts");
	t->each = each;
	t->ctx = ctx;
	request_begin(c, &w, "facts");
	if (node)
		fm_jw_text(&w, "node", node);
	ret = request_run(c, &w, &nothing, &waiting, &done, err);
	if (ret == 0)
		fm_json_free(done);
	for (size_t i = 0; i < FACTS_NODES_MAX; i++)
		free(t->told[i].text);
	free(t);
	return ret;
}
