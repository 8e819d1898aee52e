/* SPDX-License-Identifier: MIT */
/* libfmove - see fmove.h: what each request needs; see libfmove_request.h. */
#include "client/lib/libfmove_request.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/exit_code.h"
#include "mover/base/words.h"
#include "mover/tree/tree.h"

#define REQUEST_WAIT_MS 60000 /* longer than the daemon itself waits for a peer */
/* For the daemon's word that a cancelled transfer ended: longer than it waits for its journal
 * (KEEP_NS in mover/services/transfer/job.c). */
#define CANCEL_WAIT_MS 8000
#define LATE_WAIT_MS 2000	/* the same of a wait for a job: whether that has just ended */

uint64_t fm_lib_now_ms(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx) / FM_NS_PER_MS;
}

static int fail_gone(struct fmove_error *err)
{
	int ret = fm_lib_fail(err, -ECONNRESET,
			      "fmoved closed the connection: it was stopped or restarted");

	if (err)
		err->is_kept = true; /* nobody removed it */
	return ret;
}

/* ---- messages ---- */

static void message_begin(struct fm_json_writer *w, struct fm_lib_talk *talk, uint64_t id,
			  const char *op)
{
	fm_jw_begin(w, talk->tx, sizeof(talk->tx));
	fm_jw_object(w, NULL);
	fm_jw_text(w, "op", op);
	fm_jw_u64(w, "id", id);
}

static uint64_t next_id(struct fmove *c)
{
	return atomic_fetch_add(&c->id, 1) + 1;
}

/* Without memory nothing fits into what is written. */
void fm_lib_begin(struct fmove *c, struct fm_lib_request *req, const char *op)
{
	*req = (struct fm_lib_request){.c = c, .talk = malloc(sizeof(*req->talk))};
	fm_jw_begin(&req->json, &req->no_room, 1);
	if (!req->talk)
		return;
	fm_connection_begin(&c->connections, &req->talk->connection);
	req->id = next_id(c);
	message_begin(&req->json, req->talk, req->id, op);
}

void fm_lib_end(struct fm_lib_request *req)
{
	if (!req->talk)
		return;
	fm_connection_end(&req->talk->connection);
	free(req->talk);
	req->talk = NULL;
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

void fm_lib_add_name(struct fm_lib_request *req, const struct fmove_name *name)
{
	req->about = *name;
	if (name->node)
		fm_jw_text(&req->json, "node", name->node);
	fm_lib_add_parts(&req->json, "store", name->store, "path", name->path);
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
static int fail_closed(struct fm_lib_request *req, struct fmove_error *err)
{
	struct fm_lib_talk *talk = req->talk;
	struct fm_json *event;
	const char *name;
	struct fm_err why;
	uint64_t id;
	int ret = 0;

	for (unsigned errors = 0; ret == 0 && errors < 2;) {
		ssize_t n = recv(talk->connection.fd, talk->rx, FM_API_MSG_MAX, MSG_DONTWAIT);

		errors += n <= 0;
		if (n <= 0 || fm_json_parse(talk->rx, (size_t)n, &event, &why) < 0)
			continue;
		if (fm_json_u64(fm_json_get(event, "id"), &id) < 0 &&
		    fm_json_text(fm_json_get(event, "event"), &name) == 0 &&
		    strcmp(name, "error") == 0)
			ret = event_error(event, err);
		fm_json_free(event);
	}
	req->is_lost = ret == 0;
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

/* Sends a message with its descriptors. */
static int message_send(struct fm_lib_request *req, size_t len, const struct fm_lib_parcel *with,
			struct fmove_error *err)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(FM_API_FDS_MAX * sizeof(int))];
	} control = {.room = {0}};
	struct iovec iov = {.iov_base = req->talk->tx, .iov_len = len};
	struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	assert(with->count <= FM_API_FDS_MAX);
	if (req->talk->connection.fd < 0)	/* a function of the caller came back in a child */
		return fm_lib_fail_forked(err);
	if (with->count > 0) {
		hdr.msg_control = &control;
		hdr.msg_controllen = CMSG_SPACE(with->count * sizeof(int));
		control.align = (struct cmsghdr){CMSG_LEN(with->count * sizeof(int)), SOL_SOCKET,
						 SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.align), with->fds, with->count * sizeof(int));
	}
	do {
		n = sendmsg(req->talk->connection.fd, &hdr, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	if (errno == EBADF)
		return fm_lib_fail(err, -EBADF, "the descriptor is not open");
	return errno == EPIPE || errno == ECONNRESET
		       ? fail_closed(req, err)
		       : fm_lib_fail(err, -errno, "ask fmoved: %s", fm_err_name(errno));
}

/* Sends what was begun about the request, such as "cancel". Its own answer is not waited for. */
static int send_about(struct fm_lib_request *req, const struct fm_json_writer *w,
		      struct fmove_error *err)
{
	static const struct fm_lib_parcel nothing;
	size_t len = 0;
	int ret = request_finish(w, UINT64_MAX, &len, err);

	return ret < 0 ? ret : message_send(req, len, &nothing, err);
}

/* Receives one message and parses it. */
static int event_receive(struct fm_lib_request *req, struct fm_json **out, struct fmove_error *err)
{
	struct fm_err why;
	ssize_t n;

	do {
		n = recv(req->talk->connection.fd, req->talk->rx, FM_API_MSG_MAX, MSG_TRUNC);
	} while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return fail_closed(req, err);
	if (n < 0)
		return fm_lib_fail(err, -errno, "hear from fmoved: %s", fm_err_name(errno));
	if (n > FM_API_MSG_MAX)
		n = 0;
	req->talk->rx[n] = '\0';
	if (fm_json_parse(req->talk->rx, (size_t)n, out, &why) < 0)
		return fm_lib_fail(err, -EPROTO,
				   "fmoved's answer is not understood: another version?");
	return 0;
}

/* ---- waiting for the end of a request ---- */

static void about_begin(struct fm_lib_request *req, struct fm_json_writer *w, const char *op)
{
	message_begin(w, req->talk, next_id(req->c), op);
}

static int cancel_send(struct fm_lib_request *req, uint64_t job, bool is_kept,
		       struct fmove_error *err)
{
	struct fm_json_writer w;

	about_begin(req, &w, "cancel");
	fm_jw_u64(&w, "job", job);
	if (is_kept)
		fm_jw_bool(&w, "keep", true);
	return send_about(req, &w, err);
}

/*
 * Tells the daemon whether the received file has its name. why: it could not be given its name;
 * NULL: it has, or may have it.
 */
static int commit_send(struct fm_lib_request *req, uint64_t job, const struct fmove_error *why,
		       struct fmove_error *err)
{
	struct fm_json_writer w;

	about_begin(req, &w, "commit");
	fm_jw_u64(&w, "job", job);
	if (why) {
		fm_jw_text(&w, "code", fm_api_errno_name(why->code));
		fm_jw_text(&w, "text", why->text);
	}
	return send_about(req, &w, err);
}

static int cancel_now(struct fm_lib_request *req, struct fm_lib_waiting *w, bool is_kept,
		      struct fmove_error *err)
{
	w->is_cancelled = true;
	return cancel_send(req, w->id, is_kept, err);
}

/* The holder of a held put has decided: commit or cancel. Whoever asked is called once. */
static int decide(struct fm_lib_request *req, struct fm_lib_waiting *w, struct fmove_error *err)
{
	w->is_decided = true;
	if (!w->opts->decide(w->opts->ctx))
		return cancel_now(req, w, true, err);
	return w->is_prepared ? commit_send(req, w->id, NULL, err) : 0;
}

/* Tells with it what was sent, which of a tree that we read is known here. */
static void tell_prepared(const struct fm_lib_waiting *w, const struct fm_json *event)
{
	struct fm_tree_count count;
	char sent[32];

	if (w->source) {
		w->source->ops->count(w->source, &count);
		(void)snprintf(sent, sizeof(sent), "%016" PRIx64, count.seen);	/* fits */
	} else {
		fm_lib_text(event, "sent", sent, sizeof(sent));
	}
	w->opts->prepared_as(w->opts->ctx, sent);
}

static int event_prepared(struct fm_lib_request *req, struct fm_lib_waiting *w,
			  const struct fm_json *event, struct fmove_error *err)
{
	w->is_prepared = true;
	if (w->opts->prepared_as)
		tell_prepared(w, event);
	else if (w->opts->prepared)
		w->opts->prepared(w->opts->ctx);
	return w->is_decided && !w->is_cancelled ? commit_send(req, w->id, NULL, err) : 0;
}

/* How long the daemon may say nothing; -1: for ever. */
static int wait_ms(const struct fm_lib_waiting *w)
{
	if (w->is_cancelled)
		return w->is_wait ? LATE_WAIT_MS : CANCEL_WAIT_MS;
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

static bool has_own_cancel(const struct fm_lib_waiting *w)
{
	return w->opts && w->opts->cancel_fd > 0;
}

/* The descriptor that ends the request when it is readable; -1: there is none. */
static int cancel_fd_of(const struct fm_lib_request *req, const struct fm_lib_waiting *w)
{
	int fd = has_own_cancel(w) ? w->opts->cancel_fd : req->c->cancel_fd;

	return fd > 0 ? fd : -1;
}

/*
 * Ends a request that the daemon cannot take back: only the client stops waiting. Its answer, which
 * is nobody's, goes with the connection.
 */
static int fail_cancelled(struct fmove_error *err)
{
	return fm_lib_fail(err, -ECANCELED, "cancelled");
}

static bool is_readable(int fd)
{
	struct pollfd look = {fd, POLLIN, 0};

	return poll(&look, 1, 0) > 0;
}

/* How long poll() may wait until then. Signals do not make it longer. */
static int poll_ms(uint64_t since_ms, int limit_ms)
{
	uint64_t gone_ms = fm_lib_now_ms() - since_ms;

	if (limit_ms < 0)
		return -1;
	return gone_ms < (uint64_t)limit_ms ? limit_ms - (int)gone_ms : 0;
}

/* Waits for a message. It cancels when cancel_fd says so, and decides when hold_fd does. */
static int message_wait(struct fm_lib_request *req, struct fm_lib_waiting *w,
			struct fmove_error *err)
{
	static const struct fmove_options none;
	const struct fmove_options *o = w->opts ? w->opts : &none;
	struct pollfd fds[] = {{-1, POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}};
	uint64_t since_ms = fm_lib_now_ms();
	int n, ret = 0;

	for (;;) {
		fds[0].fd = req->talk->connection.fd;
		fds[1].fd = w->is_cancelled ? -1 : cancel_fd_of(req, w);
		fds[2].fd = w->is_cancelled ? -1 : fm_op_cancel_fd();
		fds[3].fd = w->is_decided || w->is_cancelled || o->hold_fd <= 0 ? -1 : o->hold_fd;
		if (fds[0].fd < 0)
			return fm_lib_fail_forked(err);
		n = poll(fds, 4, poll_ms(since_ms, wait_ms(w)));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fm_lib_fail(err, -errno, "wait for fmoved: %s", fm_err_name(errno));
		if (n == 0)
			return fail_silent(w, err);
		if (fds[0].revents)
			return 0;
		if (fds[1].revents || fds[2].revents)
			ret = has_own_cancel(w) || (fds[2].revents && w->is_cancellable)
				      ? cancel_now(req, w, o->keep_partial, err)
				      : fail_cancelled(err);
		else
			ret = decide(req, w, err);
		if (ret < 0)
			return ret;
		since_ms = fm_lib_now_ms();
	}
}

static void event_progress(struct fm_lib_waiting *w, const struct fm_json *event)
{
	const struct fmove_options *opts = w->opts;
	struct fmove_progress p = {
		.struct_size = sizeof(p), .state = "", .size = UINT64_MAX};
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
static int event_complete(struct fm_lib_request *req, struct fm_lib_waiting *w,
			  const struct fm_json *event, struct fmove_error *err)
{
	struct fmove_result result;
	struct fmove_error why = {.code = 0};

	if (w->is_cancelled)
		return 0;
	w->is_prepared = true;
	fm_lib_result_read(event, &result);
	return w->opts->publish(w->opts->ctx, &result, &why) < 0
		       ? commit_send(req, w->id, &why, err)
		       : commit_send(req, w->id, NULL, err);
}

/* Handles an event that comes before the last one, by its name. */
static int event_between(struct fm_lib_request *req, struct fm_lib_waiting *w, const char *name,
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
		return event_complete(req, w, event, err);
	else if (strcmp(name, "prepared") == 0 && w->opts && w->opts->hold_fd > 0)
		return event_prepared(req, w, event, err);
	return 0;
}

/* An error without id is about the connection, which serves no other request. */
static int answer_error(struct fm_lib_request *req, const struct fm_lib_waiting *w,
			const struct fm_json *event, struct fmove_error *err)
{
	uint64_t id;

	if (w->failed)
		w->failed(w->ctx, event);
	req->is_answered = fm_json_u64(fm_json_get(event, "id"), &id) == 0;
	return event_error(event, err);
}

/* Waits for the answer. 0: *out is the "done" event. Negative: the error, in err. */
static int request_wait_for(struct fm_lib_request *req, struct fm_lib_waiting *w,
			    struct fm_json **out, struct fmove_error *err)
{
	const char *name;
	uint64_t id;
	int ret;

	for (;;) {
		ret = message_wait(req, w, err);
		if (ret == 0)
			ret = event_receive(req, out, err);
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
		req->is_answered = id == w->id && strcmp(name, "done") == 0;
		if (req->is_answered)
			return 0;
		if (id == w->id && strcmp(name, "error") == 0)
			ret = answer_error(req, w, *out, err);
		else if (id == w->id)
			ret = event_between(req, w, name, *out, err);
		fm_json_free(*out);
		if (ret < 0)
			return ret;
	}
}

/* ---- as often as it takes ---- */

static uint64_t left_ms(const struct fm_lib_turns *t)
{
	uint64_t gone_ms = fm_lib_now_ms() - t->since_ms;

	if (t->limit_ms == 0)
		return UINT64_MAX;
	return gone_ms < t->limit_ms ? t->limit_ms - gone_ms : 0;
}

/* *err says why it was refused, so far. */
static bool time_is_up(const struct fm_lib_turns *t, struct fmove_error *err)
{
	char text[FMOVE_TEXT_MAX];

	memcpy(text, err->text, sizeof(text));
	(void)fm_lib_fail(err, -ETIMEDOUT, "not begun within %.9g s: %s",
			  (double)t->limit_ms / 1000, text);
	return false;
}

static struct fm_line_limits line_limits(const struct fm_lib_turns *t)
{
	return (struct fm_line_limits){.ms = left_ms(t),
				       .cancel_fds = {t->cancel_fd, fm_op_cancel_fd()}};
}

bool fm_lib_asks_again(struct fmove *c, struct fm_lib_turns *t, struct fmove_error *err)
{
	struct fm_line_limits limits;
	uint64_t ms;
	int ret;

	if (!err->is_full || t->is_over)
		return false;
	t->refused++;
	limits = line_limits(t);
	ret = fm_connections_wait_end(&c->connections, &limits);
	if (ret == -ECANCELED)
		return fm_lib_fail(err, ret, "cancelled"), false;
	ms = left_ms(t);
	if (ret == 0 && (!c->again || (ms > 0 && !c->again(c->again_ctx, err, ++t->asked, ms))))
		return false;
	if (t->forks != fm_forks())
		return fm_lib_fail_forked(err), false;
	return left_ms(t) > 0 || time_is_up(t, err);
}

/*
 * What is left of the time limit, for a request to say. At least 1, because 0 would mean no limit.
 */
static uint64_t limit_left_ms(const struct fm_lib_turns *t)
{
	uint64_t ms = left_ms(t);

	return ms > 0 ? ms : 1;
}

/* Sends the request over a connection of its own, and waits for its end. */
static int talk(struct fm_lib_request *req, const struct fm_lib_parcel *with,
		struct fm_lib_waiting *w, struct fm_lib_turns *turns, struct fm_json **out,
		struct fmove_error *err)
{
	struct fm_line_limits limits = line_limits(turns);
	size_t len = 0;
	int ret;

	if ((!has_own_cancel(w) && is_readable(turns->cancel_fd)) || is_readable(fm_op_cancel_fd()))
		return fail_cancelled(err);
	ret = fm_connection_enter(&req->talk->connection, turns->refused > 0, &limits, err);
	req->is_lost = ret < 0 && ret != -ECANCELED && ret != -ETIMEDOUT;
	if (ret == 0)
		ret = request_finish(&req->json, limit_left_ms(turns), &len, err);
	if (ret == 0)
		ret = message_send(req, len, with, err);
	if (with->passed)
		with->passed(with->ctx);
	return ret < 0 ? ret : request_wait_for(req, w, out, err);
}

int fm_lib_try(struct fm_lib_request *req, const struct fm_lib_parcel *with,
	       struct fm_lib_waiting *w, struct fm_lib_turns *turns, struct fm_json **out,
	       struct fmove_error *err)
{
	enum fm_leave how;
	int ret;

	if (!req->talk)
		return fm_lib_fail(err, -ENOMEM, "no memory for a request");
	w->id = req->id;
	req->is_answered = false;
	if (turns->refused == 0) {
		turns->limit_ms = req->limit_ms;
		turns->since_ms = turns->since_ms > 0 ? turns->since_ms : fm_lib_now_ms();
		turns->forks = fm_forks();
	}
	turns->cancel_fd = cancel_fd_of(req, w);
	ret = talk(req, with, w, turns, out, err);
	turns->is_over = w->is_cancelled || w->is_decided;
	how = ret < 0 && err->is_full ? FM_LEAVE_REFUSED
	      : req->is_answered      ? FM_LEAVE_OPEN
				      : FM_LEAVE_CLOSED;
	fm_connection_leave(&req->talk->connection, how);
	return ret;
}

int fm_lib_ask(struct fm_lib_request *req, const struct fm_lib_parcel *with,
	       struct fm_lib_waiting *w, struct fm_json **out, struct fmove_error *err)
{
	struct fm_lib_turns turns = {.refused = 0};
	struct fmove_error own;
	int ret;

	err = err ? err : &own;
	do {
		ret = fm_lib_try(req, with, w, &turns, out, err);
	} while (ret < 0 && fm_lib_asks_again(req->c, &turns, err));
	if (ret == 0)
		return 0;
	fm_lib_about(err, &req->about);
	return err->code;
}

int fm_lib_run(struct fm_lib_request *req, const struct fm_lib_parcel *with,
	       struct fm_lib_waiting *w, struct fm_json **out, struct fmove_error *err)
{
	int ret = fm_lib_ask(req, with, w, out, err);

	fm_lib_end(req);
	return ret;
}

int fm_lib_run_with(struct fm_lib_request *req, int fd, struct fm_json **out,
		    struct fmove_error *err)
{
	struct fm_lib_parcel with = fm_lib_parcel_of(&fd);
	struct fm_lib_waiting w = {.opts = NULL};

	return fm_lib_run(req, &with, &w, out, err);
}

int fm_lib_do(struct fm_lib_request *req, struct fm_json **out, struct fmove_error *err)
{
	return fm_lib_run_with(req, -1, out, err);
}

int fm_lib_do_simple(struct fm_lib_request *req, struct fmove_error *err)
{
	struct fm_json *done;
	int ret;

	ret = fm_lib_do(req, &done, err);
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

const char *fm_lib_word_of(const char *const words[], unsigned value)
{
	for (unsigned i = 0; words[i]; i++)
		if (i == value)
			return words[i];
	return "";
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
