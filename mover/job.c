/* SPDX-License-Identifier: MIT */
#include "mover/job_priv.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"

#define CONNECT_NS (6 * FM_NS_PER_S)	/* waiting for a session */
#define OPEN_NS (60 * FM_NS_PER_S)	/* the far end opens a file: its disk may be slow */
#define STALL_NS (300 * FM_NS_PER_S)	/* no byte moved: longer than any disk that recovers */
#define COMMIT_NS (3600 * FM_NS_PER_S)	/* syncing what a slow disk has in its cache */
#define ABORT_NS (2 * FM_NS_PER_S)	/* the reason follows on the control connection */

/* ---- the end ---- */

static void free_run(struct fm_task *task)
{
	struct fm_job *j = fm_container_of(task, struct fm_job, free_task);
	struct fm_engine *e = j->engine;

	assert(!j->is_working && !j->x && !j->file);
	if (j->store_ref)
		fm_engine_store_put(j->store_ref);
	fm_list_del(&j->at);
	fm_list_del(&j->session_at);
	e->job_count--;
	free(j->path);
	free(j);
	fm_engine_check_stopped(e);
}

static void clean_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (!j->is_source && !j->is_published)
		j->file->ops->discard(j->file);
	j->file->ops->close(j->file);
}

static void clean(struct fm_job *j);

static void clean_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	j->is_working = false;
	j->file = NULL;
	clean(j);
}

/* After the end: as soon as nobody uses the file, close it; then free the job. */
static void clean(struct fm_job *j)
{
	assert(j->state == FM_JOB_ENDED);
	if (j->is_working || j->x || (j->is_ours && !j->is_reported))
		return;
	if (j->file)
		fm_job_work(j, clean_run, clean_done);
	else
		fm_loop_post(j->engine->env.loop, &j->free_task);	/* later: lists of jobs are being walked */
}

bool fm_job_is_over(struct fm_job *j)
{
	j->is_working = false;
	if (j->state != FM_JOB_ENDED)
		return false;
	clean(j);
	return true;
}

static void fill_result(struct fm_job *j)
{
	struct fm_job_result *r = &j->result;

	r->elapsed_ns = fm_engine_now(j->engine) - j->started_ns;
	r->attr = j->attr;
	r->is_durable = j->is_durable && r->code == 0;
	r->is_checked = !j->engine->o.is_unchecked;
	if (!j->x)
		return;
	pthread_mutex_lock(&j->session->link->lock);
	r->data_bytes = j->x->data_bytes;
	r->bytes_resent = j->x->resent_bytes;
	r->corrupt_chunks = j->x->corrupt_chunks;
	if (j->x->kinds_used)
		r->kind = j->x->kinds_used & 1u << FM_KIND_RDMA ? FM_KIND_RDMA : FM_KIND_TCP;
	pthread_mutex_unlock(&j->session->link->lock);
}

static void report_run(struct fm_task *task)
{
	struct fm_job *j = fm_container_of(task, struct fm_job, report_task);

	j->is_reported = true;
	j->events.done(j->ctx, &j->result);
	clean(j);
}

static void tell_far_end(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_ABORT };

	if (!j->session || j->is_far_end_told || j->result.code == 0)
		return;
	m.abort.xfer = j->id;
	m.abort.code = (uint32_t)-j->result.code;
	m.abort.text = fm_wire_str(j->result.err.text);
	fm_session_send(j->session, &m);
}

static void free_xfer(struct fm_job *j)
{
	fm_xfer_free(j->x);
	j->x = NULL;
}

void fm_job_end(struct fm_job *j, int code, const char *fmt, ...)
{
	va_list ap;

	if (j->state == FM_JOB_ENDED)
		return;
	j->state = FM_JOB_ENDED;
	j->result.code = code;
	j->result.err.code = code;
	va_start(ap, fmt);
	(void)vsnprintf(j->result.err.text, sizeof(j->result.err.text), fmt, ap);	/* a cut text is still a text */
	va_end(ap);
	if (j->session)
		fill_result(j);
	if (!j->is_ours && code)
		fm_log_info("%s of %s:%s for %s ended: %s", j->is_source ? "get" : "put", j->engine->name, j->store, j->peer_name,
			    j->result.err.text);
	fm_list_del(&j->session_at);	/* before anything is sent: that can end the session, and with it the jobs on this list */
	tell_far_end(j);
	if (j->is_drained)
		free_xfer(j);
	if (j->x && !j->x->is_removed) {
		fm_link_remove(j->x->link, j->x);
		if (j->session)
			fm_session_wake(j->session, UINT_MAX, UINT64_MAX);	/* reads that wait for ever are given up */
	}
	j->session = NULL;
	if (j->is_ours)
		fm_loop_post(j->engine->env.loop, &j->report_task);
	clean(j);
}

/* ---- the middle ---- */

void fm_job_work(struct fm_job *j, void (*run)(struct fm_work *work), void (*done)(struct fm_work *work))
{
	assert(!j->is_working);
	j->is_working = true;
	j->work.run = run;
	j->work.done = done;
	fm_worker_submit(j->engine->env.worker, &j->work, j->engine->env.loop);
}

void fm_job_set_note(struct fm_job *j, const char *text, size_t len)
{
	size_t have = strlen(j->result.note);

	if (len > 0)
		(void)snprintf(j->result.note + have, sizeof(j->result.note) - have, "%s%.*s", have ? "; " : "", (int)len, text);
}

static struct fm_job *job_of(struct fm_task *task, size_t offset)
{
	struct fm_xfer *x = (struct fm_xfer *)(void *)((char *)task - offset);

	return fm_container_of(x->o.owner, struct fm_job, at);
}

static void xfer_progressed(struct fm_task *task)
{
	struct fm_job *j = job_of(task, offsetof(struct fm_xfer, notify));
	struct fm_err err;

	if (j->state == FM_JOB_ENDED || !j->session)
		return;
	pthread_mutex_lock(&j->session->link->lock);
	err = j->x->err;
	pthread_mutex_unlock(&j->session->link->lock);
	if (err.code == -ECONNABORTED) {
		j->is_given_up = true;
		j->deadline_ns = fm_engine_now(j->engine) + ABORT_NS;	/* its ABORT with the reason is on the way */
	} else if (err.code)
		fm_job_end(j, err.code, "%s", err.text);
	else if (j->is_source)
		fm_job_source_progressed(j);
}

static void xfer_drained(struct fm_task *task)
{
	struct fm_job *j = job_of(task, offsetof(struct fm_xfer, ended));

	/* `notify` may still be on its way; it was posted before, so it runs before a task posted now. */
	if (j->x->notify.is_posted) {
		fm_loop_post(j->engine->env.loop, task);
		return;
	}
	j->is_drained = true;
	if (j->state == FM_JOB_ENDED) {
		free_xfer(j);
		clean(j);
	} else {
		fm_job_sink_drained(j);
	}
}

int fm_job_make_xfer(struct fm_job *j)
{
	struct fm_xfer_opts o = { .id = j->id,
				  .is_source = j->is_source,
				  .file = j->file,
				  .size = j->is_source || !j->is_ours ? j->attr.size : FM_SIZE_UNKNOWN,
				  .chunk_bytes = j->chunk,
				  .is_ordered = j->is_ordered,
				  .rate_bytes = j->rate_bytes,
				  .control = j->engine->env.loop,
				  .owner = &j->at,
				  .progressed = xfer_progressed,
				  .drained = xfer_drained };
	struct fm_err err = { 0 };
	int ret;

	if (j->is_source)
		o.kinds = fm_job_choose(j);
	ret = fm_xfer_new(&o, &j->x, &err);
	if (ret < 0) {
		j->x = NULL;
		fm_job_end(j, ret, "%s", err.text);
		return ret;
	}
	ret = fm_link_add(j->session->link, j->x);
	assert(ret == 0);	/* fm_job_find() was asked */
	(void)ret;
	return 0;
}

unsigned fm_job_kinds(const struct fm_job *j)
{
	const struct fm_session *s = j->session;

	if (j->want != FM_WANT_TCP && s->up[FM_KIND_RDMA] > 0)
		return 1u << FM_KIND_RDMA;
	return j->want != FM_WANT_RDMA && s->up[FM_KIND_TCP] > 0 ? 1u << FM_KIND_TCP : 0;
}

unsigned fm_job_choose(struct fm_job *j)
{
	unsigned kinds = fm_job_kinds(j);
	struct fm_job_result *r = &j->result;

	if (kinds == 0)
		return 0;
	r->kind = kinds == 1u << FM_KIND_RDMA ? FM_KIND_RDMA : FM_KIND_TCP;
	r->conns = j->session->up[r->kind];
	if (r->kind == FM_KIND_RDMA)
		(void)snprintf(r->why, sizeof(r->why), "%u RDMA connection%s", r->conns, r->conns == 1 ? "" : "s");
	else if (j->want == FM_WANT_TCP)
		(void)snprintf(r->why, sizeof(r->why), "asked for");
	else
		fm_rail_why_not(j->session, FM_KIND_RDMA, r->why, sizeof(r->why));
	return kinds;
}

struct fm_job *fm_job_find(struct fm_session *s, uint64_t id)
{
	fm_list_each(at, next, &s->jobs) {
		struct fm_job *j = fm_container_of(at, struct fm_job, session_at);

		if (j->id == id && j->state != FM_JOB_WAIT)	/* who waits has no number yet */
			return j;
	}
	return NULL;
}

/* ---- the beginning ---- */

static struct fm_job *job_new(struct fm_engine *e, const char *path, size_t path_len)
{
	struct fm_job *j = FM_FAULT("job.new") ? NULL : calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->path = malloc(path_len + 1);
	if (!j->path) {
		free(j);
		return NULL;
	}
	memcpy(j->path, path, path_len);
	j->path[path_len] = '\0';
	j->path_len = path_len;
	j->engine = e;
	j->chunk = e->o.chunk_bytes;
	j->started_ns = fm_engine_now(e);
	j->report_task.run = report_run;
	j->free_task.run = free_run;
	fm_list_init(&j->session_at);
	fm_list_append(&e->jobs, &j->at);
	e->job_count++;
	return j;
}

static void refuse(struct fm_session *s, uint64_t id, int code, const char *text)
{
	struct fm_wire_msg m = { .type = FM_WIRE_ABORT };

	m.abort.xfer = id;
	m.abort.code = (uint32_t)-code;
	m.abort.text = fm_wire_str(text);
	fm_session_send(s, &m);
}

static unsigned jobs_for(const struct fm_session *s)
{
	unsigned n = 0;

	fm_list_each(at, next, &s->jobs)
		n += !fm_container_of(at, struct fm_job, session_at)->is_ours;
	return n;
}

struct fm_job *fm_job_new_for_peer(struct fm_session *s, uint64_t id, const struct fm_wire_str *store, const struct fm_wire_str *path,
				   uint32_t uid, uint32_t gid, bool is_source)
{
	struct fm_engine *e = s->engine;
	struct fm_job *j;

	if (!fm_session_is_peers_id(s, id) || fm_job_find(s, id)) {
		fm_session_protocol_error(s, "a transfer number that is not its to use");
		return NULL;
	}
	/* Local callers keep some places, and so do other peers. */
	if (e->job_count >= FM_JOBS_MAX - FM_JOBS_LOCAL || jobs_for(s) >= FM_JOBS_PER_PEER_MAX) {
		refuse(s, id, -EBUSY, "too many transfers at once: try again later");
		return NULL;
	}
	j = job_new(e, path->at, path->len);
	if (!j) {
		refuse(s, id, -ENOMEM, "out of memory");
		return NULL;
	}
	j->id = id;
	j->session = s;
	fm_list_append(&s->jobs, &j->session_at);
	j->is_source = is_source;
	j->state = FM_JOB_OPENING;
	j->deadline_ns = j->started_ns + OPEN_NS;
	(void)snprintf(j->peer_name, sizeof(j->peer_name), "%s", s->name);
	(void)snprintf(j->store, sizeof(j->store), "%.*s", (int)store->len, store->at);
	(void)snprintf(j->who_peer, sizeof(j->who_peer), "%s", s->name);
	j->who = (struct fm_who){ .peer = j->who_peer, .uid = uid, .gid = gid };
	j->store_ref = fm_engine_store_get(e, store->at, store->len);
	if (!j->store_ref) {
		fm_job_end(j, -ENOENT, "there is no store %s", j->store);
		return NULL;
	}
	return j;
}

/* The session is there: go on as soon as there is a connection that may carry it. */
static void go(struct fm_job *j)
{
	struct fm_session *s = j->session;
	enum fm_kind first = j->want == FM_WANT_TCP ? FM_KIND_TCP : FM_KIND_RDMA;
	char why[FM_ERR_TEXT_MAX];

	if (s->up[first] == 0 && fm_rail_may_come(s, first))
		return;
	if (fm_job_choose(j) == 0) {
		if (j->want == FM_WANT_AUTO && fm_rail_may_come(s, FM_KIND_TCP))
			return;
		fm_rail_why_not(s, j->want == FM_WANT_RDMA ? FM_KIND_RDMA : FM_KIND_TCP, why, sizeof(why));
		fm_job_end(j, -EHOSTUNREACH, "%s: no connection for the data: %s", j->peer_name, why);
		return;
	}
	j->id = fm_session_new_id(s);
	j->state = FM_JOB_OPENING;
	j->deadline_ns = fm_engine_now(j->engine) + OPEN_NS;
	if (j->is_source)
		fm_job_source_start(j);
	else
		fm_job_sink_start(j);
}

static void bind_session(struct fm_job *j, struct fm_session *s)
{
	j->session = s;
	j->peer = NULL;
	j->is_far_end_told = true;	/* nothing was asked of it yet */
	fm_list_append(&s->jobs, &j->session_at);
	go(j);
}

static int check_opts(struct fm_engine *e, const struct fm_job_opts *o, struct fm_peer **peer, struct fm_err *err)
{
	if (e->is_stopping)
		return fm_err_set(err, -ECANCELED, "fmoved is stopping");
	if (strcmp(o->node, e->name) == 0)
		return fm_err_set(err, -EINVAL, "%s is this node: copy the file with cp", o->node);
	*peer = fm_engine_peer(e, o->node);
	if (!*peer)
		return fm_err_set(err, -ENOENT, "no node %s in the configuration of %s", o->node, e->name);
	if (!fm_wire_is_good_name(o->store, strlen(o->store)))
		return fm_err_set(err, -EINVAL, "'%s' is no name of a store: 1 to %d bytes without '/'", o->store, FM_WIRE_NAME_MAX);
	if (o->path_len > FM_PATH_LEN_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "the path has %zu bytes, %d are allowed", o->path_len, FM_PATH_LEN_MAX);
	if (memchr(o->path, '\0', o->path_len))
		return fm_err_set(err, -EINVAL, "the path holds a NUL byte");
	if (e->job_count >= FM_JOBS_MAX)
		return fm_err_set(err, -EBUSY, "%d transfers are running, no more are allowed: try again later", FM_JOBS_MAX);
	return 0;
}

int fm_job_start(struct fm_engine *e, const struct fm_job_opts *o, const struct fm_job_events *events, void *ctx, struct fm_job **out,
		 struct fm_err *err)
{
	struct fm_peer *peer = NULL;
	struct fm_job *j;
	int ret = check_opts(e, o, &peer, err);

	j = ret < 0 ? NULL : job_new(e, o->path, o->path_len);
	if (!j) {
		/* It did nothing yet: closing it does not wait for a disk. */
		o->file->ops->close(o->file);
		return ret < 0 ? ret : fm_err_sys(err, -ENOMEM, "allocate the transfer");
	}
	j->is_ours = true;
	j->is_source = o->is_put;
	j->peer = peer;
	(void)snprintf(j->peer_name, sizeof(j->peer_name), "%s", peer->name);
	(void)snprintf(j->store, sizeof(j->store), "%s", o->store);
	j->file = o->file;
	j->attr = o->attr;
	if (!o->is_put)
		j->attr = (struct fm_attr){ .size = FM_SIZE_UNKNOWN };
	j->is_ordered = !o->is_put && o->file->is_stream;
	j->who = o->who;
	j->who.peer = NULL;
	j->want = o->transport;
	j->durability = o->durability;
	j->may_replace = o->may_replace;
	j->rate_bytes = o->rate_bytes;
	j->events = *events;
	j->ctx = ctx;
	j->state = FM_JOB_WAIT;
	if (o->timeout_ns)
		j->timeout_ns = j->started_ns + o->timeout_ns;
	j->deadline_ns = j->started_ns + CONNECT_NS;
	if (o->file->note)
		fm_job_set_note(j, o->file->note, strlen(o->file->note));
	*out = j;
	if (peer->session)
		bind_session(j, peer->session);
	else
		fm_peer_need(peer);
	return 0;
}

void fm_job_cancel(struct fm_job *j, int code, const char *reason)
{
	assert(j->is_ours && code < 0);
	fm_job_end(j, code, "%s", reason);
}

/* ---- what happens around it ---- */

static void choose_again(struct fm_job *j)
{
	unsigned kinds;

	if (!j->x || !j->is_source || j->x->is_removed)
		return;
	kinds = fm_job_choose(j);
	if (kinds == 0)
		return;		/* what there was may come back; the tick watches */
	pthread_mutex_lock(&j->session->link->lock);
	j->x->o.kinds = kinds;
	pthread_mutex_unlock(&j->session->link->lock);
}

void fm_job_session_changed(struct fm_session *s)
{
	fm_list_each(at, next, &s->jobs) {
		struct fm_job *j = fm_container_of(at, struct fm_job, session_at);

		if (j->state == FM_JOB_WAIT)
			go(j);
		else
			choose_again(j);
		if (s->is_closed)
			return;
	}
}

void fm_job_peer_up(struct fm_peer *p)
{
	fm_list_each(at, next, &p->engine->jobs) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);

		if (j->state == FM_JOB_WAIT && j->peer == p && p->session)
			bind_session(j, p->session);
	}
}

void fm_job_peer_unreachable(struct fm_peer *p, const struct fm_err *err)
{
	fm_list_each(at, next, &p->engine->jobs) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);

		if (j->state == FM_JOB_WAIT && j->peer == p)
			fm_job_end(j, err->code, "%s", err->text);
	}
}

void fm_job_session_lost(struct fm_session *s, const struct fm_err *err)
{
	struct fm_list *at;

	while (!fm_list_is_empty(&s->jobs)) {
		at = s->jobs.next;
		fm_job_end(fm_container_of(at, struct fm_job, session_at), err->code, "%s", err->text);
		assert(s->jobs.next != at);	/* ending takes it off the list */
	}
}

void fm_job_stop_all(struct fm_engine *e)
{
	fm_list_each(at, next, &e->jobs)
		fm_job_end(fm_container_of(at, struct fm_job, at), -ECANCELED, "fmoved at %s is stopping", e->name);
}

/* Copying with no connection left to copy over. */
static bool is_stranded(const struct fm_job *j)
{
	const struct fm_session *s = j->session;

	if (j->state != FM_JOB_COPYING)
		return false;
	return j->is_source ? fm_job_kinds(j) == 0 : s->up[FM_KIND_TCP] + s->up[FM_KIND_RDMA] == 0;
}

/* A pipe may be slow for ever; a file may not. */
static bool is_stalled(struct fm_job *j, uint64_t now_ns)
{
	uint64_t bytes;

	if (j->state != FM_JOB_COPYING || !j->x || j->is_ordered || j->attr.size == FM_SIZE_UNKNOWN)
		return false;
	pthread_mutex_lock(&j->session->link->lock);
	bytes = j->x->data_bytes;
	pthread_mutex_unlock(&j->session->link->lock);
	if (bytes != j->moved_bytes || !j->moved_ns) {
		j->moved_bytes = bytes;
		j->moved_ns = now_ns;
	}
	return now_ns > j->moved_ns + STALL_NS;
}

/* Connections may come and go while it copies; without any it has a deadline. */
static void watch_connections(struct fm_job *j, uint64_t now_ns)
{
	if (j->state != FM_JOB_COPYING)
		return;
	if (is_stranded(j) && j->deadline_ns == 0)
		j->deadline_ns = now_ns + j->engine->o.stall_ns;
	else if (!is_stranded(j) && !j->is_given_up)
		j->deadline_ns = 0;
}

static void deadline_passed(struct fm_job *j)
{
	switch (j->state) {
	case FM_JOB_WAIT:
		fm_job_end(j, -EHOSTUNREACH, "%s is not connected%s%s", j->peer_name, j->peer && j->peer->last_error[0] ? ": " : "",
			   j->peer ? j->peer->last_error : "");
		break;
	case FM_JOB_OPENING:
		fm_job_end(j, -ETIMEDOUT, "%s did not open the file in time", j->is_ours ? j->peer_name : j->engine->name);
		break;
	case FM_JOB_COPYING:
		fm_job_end(j, -ECONNRESET, "%s: no data connection is left, or it gave the transfer up", j->peer_name);
		break;
	default:
		fm_job_end(j, -ETIMEDOUT, "not committed within an hour: a disk or %s hangs", j->peer_name);
		break;
	}
}

static void tick(struct fm_job *j, uint64_t now_ns)
{
	if (j->timeout_ns && now_ns > j->timeout_ns) {
		fm_job_end(j, -ETIMEDOUT, "not done within %.9g s, as --timeout asked",
			   (double)(j->timeout_ns - j->started_ns) / FM_NS_PER_S);
		return;
	}
	if (j->state == FM_JOB_WAIT && j->session) {
		go(j);
		return;
	}
	if (j->session && is_stalled(j, now_ns)) {
		fm_job_end(j, -ETIMEDOUT, "not a byte was moved for %llu s: a disk or %s hangs",
			   (unsigned long long)(STALL_NS / FM_NS_PER_S), j->peer_name);
		return;
	}
	if (j->session)
		watch_connections(j, now_ns);
	if (j->state > FM_JOB_COPYING && j->deadline_ns == 0)
		j->deadline_ns = now_ns + COMMIT_NS;
	if (j->deadline_ns && now_ns >= j->deadline_ns)
		deadline_passed(j);
}

void fm_job_tick(struct fm_engine *e, uint64_t now_ns)
{
	fm_list_each(at, next, &e->jobs) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);

		if (j->state != FM_JOB_ENDED)
			tick(j, now_ns);
	}
}

void fm_job_abort(struct fm_session *s, const struct fm_wire_abort *m)
{
	struct fm_job *j = fm_job_find(s, m->xfer);

	if (!j)
		return;		/* it crossed our own end */
	j->is_far_end_told = true;
	fm_job_end(j, -(int)m->code, "%s: %.*s", s->name, (int)m->text.len, m->text.at);
}

void fm_job_progress(struct fm_job *j, struct fm_job_progress *out)
{
	static const char *const names[] = {
		[FM_JOB_WAIT] = "connecting", [FM_JOB_OPENING] = "opening",	  [FM_JOB_COPYING] = "copying",
		[FM_JOB_CHECKING] = "committing", [FM_JOB_FINISHING] = "committing", [FM_JOB_DRAINING] = "committing",
		[FM_JOB_PUBLISHING] = "committing", [FM_JOB_ENDED] = "ending",
	};

	*out = (struct fm_job_progress){ .size = j->attr.size, .state = names[j->state] };
	if (!j->x || !j->session)
		return;
	pthread_mutex_lock(&j->session->link->lock);
	out->bytes_done = j->x->data_bytes;
	out->bytes_resent = j->x->resent_bytes;
	out->corrupt_chunks = j->x->corrupt_chunks;
	pthread_mutex_unlock(&j->session->link->lock);
	out->rails = j->result.conns;
}

void fm_job_visit(struct fm_engine *e, const struct fm_status_visitor *v, void *ctx)
{
	fm_list_each(at, next, &e->jobs) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);
		struct fm_job_status st = { .is_put = j->is_source == j->is_ours,
					    .is_ours = j->is_ours,
					    .peer = j->peer_name,
					    .store = j->store,
					    .path = j->path,
					    .elapsed_ns = fm_engine_now(e) - j->started_ns };

		if (j->state == FM_JOB_ENDED)
			continue;
		fm_job_progress(j, &st.progress);
		v->job(ctx, &st);
	}
}
