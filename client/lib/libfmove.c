/* SPDX-License-Identifier: MIT */
/* libfmove - see fmove.h: connecting, and what each request needs; see libfmove_request.h. */
#include "client/lib/libfmove_request.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/exit_code.h"
#include "mover/base/words.h"

#define REQUEST_WAIT_MS 60000 /* longer than the daemon itself waits for a peer */
/* For the daemon's word that a cancelled transfer ended: longer than it waits for its journal
 * (KEEP_NS in mover/services/transfer/job.c). */
#define CANCEL_WAIT_MS 8000
_Static_assert(FMOVE_TEXT_MAX == FM_ERR_TEXT_MAX, "errors of the daemon fit those of the library");

/* ---- errors ---- */

int fm_lib_fail(struct fmove_error *err, int code, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	err->exit = (int)fm_api_exit(code);
	err->is_kept = err->is_full = false;
	err->bytes = 0;
	va_start(args, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, args); /* cut if it is too long */
	va_end(args);
	return code;
}

int fm_lib_fail_fd(struct fmove_error *err)
{
	return fm_lib_fail(err, -EBADF, "the descriptor of the file is below zero: it is not open");
}

static int fail_gone(struct fmove_error *err)
{
	int ret = fm_lib_fail(err, -ECONNRESET,
			      "fmoved closed the connection: it was stopped or restarted");

	if (err)
		err->is_kept = true; /* nobody removed it */
	return ret;
}

/* ---- connecting ---- */

/* The socket may not be opened. Names the group to join, if one has access and can be found out. */
static int fail_rights(struct fmove_error *err, const char *path)
{
	const struct group *group = NULL;
	struct stat st;

	if (stat(path, &st) == 0 && st.st_mode & S_IWGRP && st.st_gid != 0)
		group = getgrgid(st.st_gid);
	if (group)
		return fm_lib_fail(err, -EACCES,
				   "%s may not be used by you: join the group %s (as root: usermod "
				   "-aG %s USER; it counts from the next login), or ask who runs "
				   "fmoved",
				   path, group->gr_name, group->gr_name);
	return fm_lib_fail(err, -EACCES,
			   "%s may not be used by you: join the group that owns it (ls -l shows "
			   "it), or ask who runs fmoved",
			   path);
}

static int fail_connect(struct fmove_error *err, int code, const char *path)
{
	switch (-code) {
	case ENOENT:
	case ECONNREFUSED:
		return fm_lib_fail(
			err, -ECONNREFUSED,
			"no fmoved listens at %s; start it (systemctl start fmoved, or fmoved "
			"--config FILE), "
			"or name its socket with --socket or FMOVE_SOCKET",
			path);
	case EACCES:
	case EPERM:
		return fail_rights(err, path);
	case EAGAIN:
		(void)fm_lib_fail(
			err, -EBUSY,
			"%s: too many programs wait for fmoved already; if that lasts, it hangs "
			"or is stopped",
			path);
		if (err)
			err->is_full = true;
		return -EBUSY;
	default:
		return fm_lib_fail(err, code, "connect to %s: %s", path, fm_err_name(code));
	}
}

static int address_of(const char *path, struct sockaddr_un *out, struct fmove_error *err)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(out->sun_path))
		return fm_lib_fail(err, -ENAMETOOLONG,
				   "socket %s: longer than the %zu bytes a socket's path may have",
				   path, sizeof(out->sun_path) - 1);
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
		return fm_lib_fail(err, -errno, "make a socket: %s", fm_err_name(errno));
	/* as much as is granted */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
	    fcntl(fd, F_SETFL, 0) == 0)
		return fd;
	code = -errno;
	(void)close(fd); /* unused */
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
		(void)close(fd); /* unused */
		return fm_lib_fail(err, -ENOMEM, "no memory for a connection");
	}
	c->fd = fd;
	c->address = address;
	c->id = c->limit_ms = c->timeout_ms = 0;
	c->cancel_fd = 0;
	c->is_lost = false;
	c->again = NULL;
	c->again_ctx = NULL;
	*out = c;
	return 0;
}

static void connection_drop(struct fmove *c)
{
	if (c->fd >= 0)
		(void)close(c->fd); /* what was to be heard was */
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
	connection_drop(c); /* every request was answered, or is to be dropped */
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

void fmove_set_cancel(struct fmove *c, int fd)
{
	c->cancel_fd = fd;
}

/* ---- messages ---- */

void fm_lib_begin(struct fmove *c, struct fm_json_writer *w, const char *op)
{
	fm_jw_begin(w, c->tx, sizeof(c->tx));
	fm_jw_object(w, NULL);
	fm_jw_text(w, "op", op);
	fm_jw_u64(w, "id", ++c->id);
	c->limit_ms = 0;
}

void fm_lib_add_parts(struct fm_json_writer *w, const char *store_key, const char *store,
		      const char *path_key, const char *path)
{
	if (store)
		fm_jw_text(w, store_key, store);
	else
		fm_jw_null(w, store_key);
	if (path)
		fm_jw_name(w, path_key, path, strlen(path));
	else
		fm_jw_null(w, path_key);
}

void fm_lib_add_name(struct fm_json_writer *w, const struct fmove_name *name)
{
	if (name->node)
		fm_jw_text(w, "node", name->node);
	fm_lib_add_parts(w, "store", name->store, "path", name->path);
}

static int event_error(const struct fm_json *event, struct fmove_error *err)
{
	const char *code = "EIO", *text = "";
	uint64_t exit_status;
	int ret;

	(void)fm_json_text(fm_json_get(event, "code"), &code); /* the defaults stay */
	(void)fm_json_text(fm_json_get(event, "text"), &text);
	ret = fm_lib_fail(err, fm_api_errno(code), "%s", text);
	if (!err)
		return ret;
	(void)fm_json_bool(fm_json_get(event, "kept"), &err->is_kept); /* of a transfer only */
	(void)fm_json_u64(fm_json_get(event, "bytes"), &err->bytes);   /* the same */
	(void)fm_json_bool(fm_json_get(event, "full"), &err->is_full);
	if (fm_json_u64(fm_json_get(event, "exit"), &exit_status) == 0 && exit_status < 256)
		err->exit = (int)exit_status;
	return ret;
}

/*
 * Ends a request on a closed connection. What the daemon said before is the reason. (recv(2)
 * reports a reset first, once.)
 */
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

struct fm_lib_parcel fm_lib_parcel_of(const int *fd)
{
	return (struct fm_lib_parcel){.fds = fd, .count = *fd >= 0 ? 1 : 0};
}

/*
 * Adds what is left of the timeout (UINT64_MAX: there is none) and ends the request. The writer of
 * the caller is not changed, so that the request can be sent again with less time left.
 */
static int request_finish(const struct fm_json_writer *begun, uint64_t left_ms, size_t *len,
			  struct fmove_error *err)
{
	struct fm_json_writer w = *begun;

	if (left_ms != UINT64_MAX)
		fm_jw_u64(&w, "timeout_ms", left_ms);
	fm_jw_object_end(&w);
	if (fm_jw_end(&w) < 0)
		return fm_lib_fail(
			err, -ENAMETOOLONG,
			"the paths, ranges and patterns to exclude are together longer than a "
			"request may be (%u "
			"bytes, of which a character that must be escaped takes up to six)",
			FM_LIB_REQUEST_MAX);
	*len = w.len;
	return 0;
}

/* Completes the request and sends it with its descriptors. */
static int request_send_with(struct fmove *c, const struct fm_json_writer *w, uint64_t left_ms,
			     const struct fm_lib_parcel *with, struct fmove_error *err)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(FM_API_FDS_MAX * sizeof(int))];
	} control = {.room = {0}};
	struct iovec iov = {.iov_base = c->tx};
	struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};
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
		return fm_lib_fail(err, -EBADF, "the descriptor is not open");
	return errno == EPIPE || errno == ECONNRESET
		       ? fail_closed(c, err)
		       : fm_lib_fail(err, -errno, "ask fmoved: %s", fm_err_name(errno));
}

/* Sends a request about another one, such as "cancel". Its own answer is not waited for. */
static int request_send(struct fmove *c, const struct fm_json_writer *w, struct fmove_error *err)
{
	static const struct fm_lib_parcel nothing;

	return request_send_with(c, w, UINT64_MAX, &nothing, err);
}

/* Receives one message and parses it. */
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
		return fm_lib_fail(err, -errno, "hear from fmoved: %s", fm_err_name(errno));
	if (n > FM_API_MSG_MAX)
		n = 0;
	c->rx[n] = '\0';
	if (fm_json_parse(c->rx, (size_t)n, out, &why) < 0)
		return fm_lib_fail(err, -EPROTO,
				   "fmoved's answer is not understood: another version?");
	return 0;
}

/* ---- waiting for the end of a request ---- */

static int cancel_send(struct fmove *c, uint64_t job, bool is_kept, struct fmove_error *err)
{
	struct fm_json_writer w;

	fm_lib_begin(c, &w, "cancel");
	fm_jw_u64(&w, "job", job);
	if (is_kept)
		fm_jw_bool(&w, "keep", true);
	return request_send(c, &w, err);
}

/*
 * Tells the daemon whether the received file has its name. why: it could not be given its name;
 * NULL: it has, or may have it.
 */
static int commit_send(struct fmove *c, uint64_t job, const struct fmove_error *why,
		       struct fmove_error *err)
{
	struct fm_json_writer w;

	fm_lib_begin(c, &w, "commit");
	fm_jw_u64(&w, "job", job);
	if (why) {
		fm_jw_text(&w, "code", fm_api_errno_name(why->code));
		fm_jw_text(&w, "text", why->text);
	}
	return request_send(c, &w, err);
}

static int cancel_now(struct fmove *c, struct fm_lib_waiting *w, bool is_kept,
		      struct fmove_error *err)
{
	w->is_cancelled = true;
	return cancel_send(c, w->id, is_kept, err);
}

/* The holder of a held put has decided: commit or cancel. Whoever asked is called once. */
static int decide(struct fmove *c, struct fm_lib_waiting *w, struct fmove_error *err)
{
	w->is_decided = true;
	if (!w->opts->decide(w->opts->ctx))
		return cancel_now(c, w, true, err);
	return w->is_prepared ? commit_send(c, w->id, NULL, err) : 0;
}

static int event_prepared(struct fmove *c, struct fm_lib_waiting *w, struct fmove_error *err)
{
	w->is_prepared = true;
	if (w->opts->prepared)
		w->opts->prepared(w->opts->ctx);
	return w->is_decided && !w->is_cancelled ? commit_send(c, w->id, NULL, err) : 0;
}

/* How long the daemon may say nothing; -1: for ever. */
static int wait_ms(const struct fm_lib_waiting *w)
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

static int fail_silent(const struct fm_lib_waiting *w, struct fmove_error *err)
{
	if (w->is_cancelled)
		return fm_lib_fail(err, -ECANCELED, "cancelled; fmoved did not confirm it");
	return fm_lib_fail(err, -ETIMEDOUT, "fmoved does not answer");
}

/*
 * The caller's descriptor for poll(), or -1, which poll() skips, if there is none or the request
 * was cancelled.
 */
static int caller_fd(const struct fm_lib_waiting *w, int fd)
{
	return fd > 0 && !w->is_cancelled ? fd : -1;
}

static bool has_own_cancel(const struct fm_lib_waiting *w)
{
	return w->opts && w->opts->cancel_fd > 0;
}

/*
 * Ends a request that the daemon cannot take back: only the client stops waiting. The connection is
 * dropped.
 */
static int fail_cancelled(struct fmove *c, struct fmove_error *err)
{
	connection_drop(c); /* its answer is nobody's */
	return fm_lib_fail(err, -ECANCELED, "cancelled");
}

static bool is_cancelled(const struct fmove *c)
{
	struct pollfd fd = {c->cancel_fd > 0 ? c->cancel_fd : -1, POLLIN, 0};

	return poll(&fd, 1, 0) > 0;
}

/* Waits for a message. It cancels when cancel_fd says so, and decides when hold_fd does. */
static int message_wait(struct fmove *c, struct fm_lib_waiting *w, struct fmove_error *err)
{
	static const struct fmove_options none;
	const struct fmove_options *o = w->opts ? w->opts : &none;
	struct pollfd fds[3] = {{c->fd, POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}};
	int n, ret = 0;

	for (;;) {
		fds[1].fd = caller_fd(w, has_own_cancel(w) ? o->cancel_fd : c->cancel_fd);
		fds[2].fd = w->is_decided ? -1 : caller_fd(w, o->hold_fd);
		n = poll(fds, 3, wait_ms(w));
		if (n < 0 && errno != EINTR)
			return fm_lib_fail(err, -errno, "wait for fmoved: %s", fm_err_name(errno));
		if (n == 0)
			return fail_silent(w, err);
		if (n > 0 && fds[0].revents)
			return 0;
		if (n > 0 && fds[1].revents && !has_own_cancel(w))
			return fail_cancelled(c, err);
		if (n > 0 && fds[1].revents)
			ret = cancel_now(c, w, o->keep_partial, err);
		else if (n > 0)
			ret = decide(c, w, err);
		if (ret < 0)
			return ret;
	}
}

static void event_progress(struct fm_lib_waiting *w, const struct fm_json *event)
{
	const struct fmove_options *opts = w->opts;
	struct fmove_progress p = {.state = "", .size = UINT64_MAX};
	uint64_t corrupt = 0, connections = 0;

	p.text = "";
	/* What is missing or of another type keeps its default. */
	(void)fm_json_text(fm_json_get(event, "state"), &p.state);
	(void)fm_json_u64(fm_json_get(event, "size"), &p.size);
	(void)fm_json_u64(fm_json_get(event, "bytes"), &p.bytes);
	(void)fm_json_u64(fm_json_get(event, "files"), &p.files);
	(void)fm_json_u64(fm_json_get(event, "resumed_bytes"), &p.resumed_bytes);
	(void)fm_json_u64(fm_json_get(event, "resent_bytes"), &p.resent_bytes);
	(void)fm_json_u64(fm_json_get(event, "corrupt_chunks"), &corrupt);
	(void)fm_json_u64(fm_json_get(event, "connections"), &connections);
	(void)fm_json_u64(fm_json_get(event, "before"), &p.before);
	(void)fm_json_u64(fm_json_get(event, "again_ms"), &p.again_ms);
	(void)fm_json_text(fm_json_get(event, "text"), &p.text);
	p.corrupt_chunks = (unsigned)corrupt;
	p.connections = (unsigned)connections;
	w->bytes = p.bytes;
	if (opts->progress)
		opts->progress(opts->ctx, &p);
}

/* Tells the caller which files a tree changed. An entry that is not understood is skipped. */
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

	(void)fm_json_text(fm_json_get(event, "job"), &job); /* "" if it is missing */
	if (opts->accepted)
		opts->accepted(opts->ctx, job);
}

/* Has the caller give a received file its name, and tells the daemon. */
static int event_complete(struct fmove *c, struct fm_lib_waiting *w, const struct fm_json *event,
			  struct fmove_error *err)
{
	struct fmove_result result;
	struct fmove_error why = {.code = 0};

	if (w->is_cancelled)
		return 0;
	w->is_prepared = true;
	fm_lib_result_read(event, &result);
	return w->opts->publish(w->opts->ctx, &result, &why) < 0 ? commit_send(c, w->id, &why, err)
								 : commit_send(c, w->id, NULL, err);
}

/* Handles an event that comes before the last one, by its name. */
static int event_between(struct fmove *c, struct fm_lib_waiting *w, const char *name,
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

/* Waits for the answer. 0: *out is the "done" event. Negative: the error, in err. */
static int request_wait_for(struct fmove *c, struct fm_lib_waiting *w, struct fm_json **out,
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
	(void)fm_lib_fail(err, -ETIMEDOUT, "not begun within %.9g s: %s",
			  (double)t->limit_ms / 1000, text);
	return false;
}

/*
 * What is left of the time limit, for a request to say. At least 1, because 0 would mean no limit.
 */
static uint64_t limit_left_ms(const struct fm_lib_turns *t)
{
	uint64_t ms = left_ms(t);

	return ms > 0 ? ms : 1;
}

int fm_lib_try(struct fmove *c, const struct fm_json_writer *begun,
	       const struct fm_lib_parcel *with, struct fm_lib_waiting *w,
	       struct fm_lib_turns *turns, struct fm_json **out, struct fmove_error *err)
{
	int ret;

	w->id = c->id;
	if (turns->refused == 0) {
		turns->limit_ms = c->limit_ms;
		turns->since_ms = now_ms();
	}
	if (!has_own_cancel(w) && is_cancelled(c))
		ret = fail_cancelled(c, err);
	else
		ret = request_send_with(c, begun, limit_left_ms(turns), with, err);
	if (with->passed)
		with->passed(with->ctx);
	if (ret == 0)
		ret = request_wait_for(c, w, out, err);
	turns->is_over = w->is_cancelled || w->is_decided;
	return ret;
}

int fm_lib_run(struct fmove *c, const struct fm_json_writer *begun,
	       const struct fm_lib_parcel *with, struct fm_lib_waiting *w, struct fm_json **out,
	       struct fmove_error *err)
{
	struct fm_lib_turns turns = {.refused = 0};
	struct fmove_error own;
	int ret;

	err = err ? err : &own;
	do {
		ret = fm_lib_try(c, begun, with, w, &turns, out, err);
	} while (ret < 0 && fm_lib_asks_again(c, &turns, err));
	return ret < 0 ? err->code : ret;
}

int fm_lib_run_with(struct fmove *c, const struct fm_json_writer *begun, int fd,
		    struct fm_json **out, struct fmove_error *err)
{
	struct fm_lib_parcel with = fm_lib_parcel_of(&fd);
	struct fm_lib_waiting w = {.opts = NULL};

	return fm_lib_run(c, begun, &with, &w, out, err);
}

int fm_lib_do(struct fmove *c, const struct fm_json_writer *begun, struct fm_json **out,
	      struct fmove_error *err)
{
	return fm_lib_run_with(c, begun, -1, out, err);
}

int fm_lib_do_simple(struct fmove *c, struct fm_json_writer *w, struct fmove_error *err)
{
	struct fm_json *done;
	int ret;

	ret = fm_lib_do(c, w, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}

/* ---- what an answer says ---- */

void fm_lib_text(const struct fm_json *json, const char *key, char *out, size_t cap)
{
	const char *text = "";

	(void)fm_json_text(fm_json_get(json, key), &text); /* "" if it is missing */
	(void)snprintf(out, cap, "%s", text);		   /* cut if it is too long */
}

unsigned fm_lib_mode(const struct fm_json *json)
{
	char text[8];

	fm_lib_text(json, "mode", text, sizeof(text));
	return (unsigned)strtoul(text, NULL, 8) & 0777;
}

int fm_lib_word(const struct fm_json *json, const char *key, const char *const *words, int other)
{
	const char *text = "";
	int place;

	(void)fm_json_text(fm_json_get(json, key), &text); /* "" if it is missing */
	place = fm_word_parse(words, text);
	return place < 0 ? other : place;
}
