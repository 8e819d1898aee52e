/* SPDX-License-Identifier: MIT */
/* verification - see verification.h. */
#include "mover/services/verification.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/node/session.h"
#include "mover/services/target.h"

/* What is found is called the same on the wire. */
_Static_assert((int)FM_FINDING_CORRUPT == (int)FM_WIRE_CORRUPT &&
		       (int)FM_FINDING_UNREADABLE == (int)FM_WIRE_UNREADABLE &&
		       (int)FM_FINDING_CHANGED == (int)FM_WIRE_CHANGED &&
		       (int)FM_FINDING_MISSING == (int)FM_WIRE_MISSING &&
		       (int)FM_FINDING_SWAPPED == (int)FM_WIRE_SWAPPED,
	       "one numbering");

#define CONNECT_NS (6 * FM_NS_PER_S)	/* waiting for a session */
#define SAY_NS FM_NS_PER_S
/* a peer that is asked says something about once a second, whatever its disk does */
#define SILENT_NS (60 * FM_NS_PER_S)

/*
 * Ours:             WAIT for the session -> VERIFY -> VERIFIED ... -> done()
 * Ours, own store:  a thread reads -> done()
 * A peer's:         a thread reads, VERIFIED about once a second -> is over -> VERIFIED as the
 *                   session has room -> the last VERIFIED
 */
struct fm_verification {
	struct fm_list at;		/* verifications.list */
	struct fm_engine *engine;
	/* asked, or asking; NULL: own store, waiting, lost, or all was said */
	struct fm_session *session;
	struct fm_peer *peer;		/* waiting for this one's session */
	bool is_ours;
	/* the user's or the peer's, until no thread reads for it any more */
	struct fm_share_held place;
	/* answered, or given up; a peer's: it may not have been told all of it yet */
	bool is_over;
	bool is_reported;		/* ours: done() was called */
	uint64_t id;
	uint64_t deadline_ns;		/* of waiting; 0: none */
	uint64_t said_ns;		/* by us; ours: by the peer */
	char store[FM_WIRE_NAME_MAX + 1];
	char *path;
	size_t path_len;
	struct fm_who who;
	char who_peer[FM_WIRE_NAME_MAX + 1];
	struct fm_store_ref *store_ref;
	struct fm_worker *worker;	/* one thread, of this verification */
	struct fm_work work;
	bool is_working;
	struct fm_err work_err;		/* the thread's, until it is done */
	struct fm_verify state;
	struct fm_verify_count count;	/* a peer's, as it said last */
	struct fm_task report_task;
	struct fm_task free_task;
	struct fm_verification_events events;
	void *ctx;
	struct fm_err err;
};

struct verifications {
	struct fm_list list;		/* fm_verification.at */
	unsigned count;
	struct fm_share places;		/* of local callers, by user */
	struct fm_share peer_places;	/* of all peers together */
};

static struct verifications *verifications_of(const struct fm_engine *e)
{
	return fm_service_state(e, &fm_verification_service);
}

static void free_run(struct fm_task *task)
{
	struct fm_verification *v = fm_container_of(task, struct fm_verification, free_task);
	struct fm_engine *e = v->engine;

	fm_worker_free(v->worker);	/* its thread has nothing left to do */
	fm_verify_destroy(&v->state);
	if (v->store_ref)
		fm_engine_store_put(v->store_ref);
	fm_list_del(&v->at);
	verifications_of(e)->count--;
	fm_share_give_all(&v->place);
	free(v->path);
	free(v);
	fm_engine_check_stopped(e);
}

static void free_later(struct fm_verification *v)
{
	if (!v->is_working && v->is_over && (v->is_ours ? v->is_reported : !v->session))
		fm_loop_post(v->engine->env.loop, &v->free_task);
}

/* ---- what was found, to whoever asked ---- */

static void report_findings(struct fm_verification *v)
{
	struct fm_finding *f;

	while ((f = fm_verify_take(&v->state)) != NULL) {
		v->events.finding(v->ctx, f->kind, f->offset, f->length, f->path);
		free(f);
	}
}

/* Sends one message. true: there are more findings. */
static bool send_some(struct fm_verification *v, bool is_last)
{
	struct fm_finding *taken[FM_WIRE_FINDINGS_MAX];
	struct fm_wire_msg m = { .type = FM_WIRE_VERIFIED };
	struct fm_wire_verified *w = &m.verified;
	struct fm_verify_count c;

	for (w->count = 0; w->count < FM_WIRE_FINDINGS_MAX; w->count++) {
		struct fm_finding *f = fm_verify_take(&v->state);
		size_t len;

		if (!f)
			break;
		taken[w->count] = f;
		len = strlen(f->path);
		w->finding[w->count] = (struct fm_wire_found_bad){
			.kind = (uint8_t)f->kind,
			.offset = f->offset,
			.length = f->length,
			.path = { f->path, len < FM_WIRE_PATH_MAX ? len : FM_WIRE_PATH_MAX },
		};
	}
	fm_verify_look(&v->state, &c);
	is_last = is_last && w->count < FM_WIRE_FINDINGS_MAX;
	w->flags = (uint16_t)(is_last ? 0 : FM_WIRE_VERIFIED_MORE);
	w->id = v->id;
	w->code = is_last ? (uint32_t)-v->err.code : 0;
	w->text = fm_wire_str(is_last ? v->err.text : "");
	w->files = c.files;
	w->bytes = c.bytes;
	w->corrupt = c.corrupt;
	w->unreadable = c.unreadable;
	w->changed = c.changed;
	w->missing = c.missing;
	w->swapped = c.swapped;
	w->without = c.without;
	w->unlisted = c.unlisted;
	fm_session_send(v->session, &m);
	for (unsigned i = 0; i < w->count; i++)
		free(taken[i]);
	return w->count == FM_WIRE_FINDINGS_MAX;
}

static void report_run(struct fm_task *task)
{
	struct fm_verification *v = fm_container_of(task, struct fm_verification, report_task);

	if (v->worker) {
		report_findings(v);
		fm_verify_look(&v->state, &v->count);
	}
	v->is_reported = true;
	v->events.done(v->ctx, &v->err, &v->count);
	free_later(v);
}

/*
 * Sends progress and findings, about once a second. If the session has no room for all of it, the
 * next tick sends the rest.
 */
static void say_so_far(struct fm_verification *v)
{
	while (v->session && fm_session_has_room(v->session))
		if (!send_some(v, false))
			return;
	v->said_ns = 0;
}

/*
 * Sends the remaining findings and the result. If the session has no room for all of it, the next
 * tick goes on.
 */
static void say_end(struct fm_verification *v)
{
	while (v->session && fm_session_has_room(v->session))
		if (!send_some(v, true))
			v->session = NULL;
	free_later(v);
}

/* Ends the verification, unless it has ended. The first outcome counts. */
static void finish(struct fm_verification *v, const struct fm_err *err)
{
	if (v->is_over)
		return;
	v->is_over = true;
	v->err = *err;
	fm_verify_stop(&v->state);
	if (!v->is_ours) {
		say_end(v);
		return;
	}
	fm_loop_post(v->engine->env.loop, &v->report_task);
	v->session = NULL;
}

/* ---- on our own store ---- */

static void work_run(struct fm_work *work)
{
	struct fm_verification *v = fm_container_of(work, struct fm_verification, work);
	struct fm_store *s = v->store_ref->store;

	fm_err_clear(&v->work_err);
	if (!s->ops->verify)
		(void)fm_err_set(&v->work_err, -EOPNOTSUPP,
				 "store %s keeps nothing to compare with", s->name);
	else
		(void)s->ops->verify(s, v->path, &v->who, &v->state, &v->work_err);
}

static void work_done(struct fm_work *work)
{
	struct fm_verification *v = fm_container_of(work, struct fm_verification, work);

	v->is_working = false;
	finish(v, &v->work_err);
	free_later(v);
}

static int start_work(struct fm_verification *v, struct fm_err *err)
{
	int ret = fm_worker_new(fm_worker_is_simulated(v->engine->env.worker) ? 0 : 1, &v->worker,
				err);

	if (ret < 0)
		return ret;
	v->is_working = true;
	v->work.run = work_run;
	v->work.done = work_done;
	fm_worker_submit(v->worker, &v->work, v->engine->env.loop);
	return 0;
}

/* ---- beginning ---- */

static struct fm_verification *verification_new(struct fm_engine *e, const char *path,
						size_t path_len)
{
	struct fm_verification *v = FM_FAULT("verification.new") ? NULL : calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->path = malloc(path_len + 1);
	if (!v->path) {
		free(v);
		return NULL;
	}
	memcpy(v->path, path, path_len);
	v->path[path_len] = '\0';
	v->path_len = path_len;
	v->engine = e;
	v->report_task.run = report_run;
	v->free_task.run = free_run;
	fm_verify_init(&v->state);
	fm_list_append(&verifications_of(e)->list, &v->at);
	verifications_of(e)->count++;
	return v;
}

static void refuse(struct fm_session *s, uint64_t id, const struct fm_err *why)
{
	struct fm_wire_msg m = { .type = FM_WIRE_VERIFIED };

	m.verified.flags = why->is_full && why->code == -EBUSY ? FM_WIRE_VERIFIED_FULL : 0;
	m.verified.id = id;
	m.verified.code = (uint32_t)-why->code;
	m.verified.text = fm_wire_str(why->text);
	fm_session_send(s, &m);
}

static void on_verify(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_verify *m = &msg->verify;
	struct fm_share_held place = { 0 };
	struct fm_engine *e = s->engine;
	struct fm_verification *v;
	struct fm_err err = { 0 };
	int ret;

	if (fm_share_take(&verifications_of(e)->peer_places, fm_share_name(s->name), 1, &place,
			  &err) < 0) {
		refuse(s, m->id, &err);
		return;
	}
	v = verification_new(e, m->path.at, m->path.len);
	if (!v) {
		fm_share_give_all(&place);
		(void)fm_err_set(&err, -ENOMEM, "out of memory");
		refuse(s, m->id, &err);
		return;
	}
	v->place = place;
	v->session = s;
	v->id = m->id;
	(void)snprintf(v->who_peer, sizeof(v->who_peer), "%s", s->name);
	v->who = (struct fm_who){ .peer = v->who_peer, .uid = m->uid, .gid = m->gid };
	ret = fm_target_store(e, m->store.at, m->store.len, &v->store_ref, &err);
	if (ret == 0)
		ret = start_work(v, &err);
	if (ret < 0)
		finish(v, &err);
}

static void send_verify(struct fm_verification *v, struct fm_session *s)
{
	struct fm_wire_msg m = { .type = FM_WIRE_VERIFY };

	v->session = s;
	v->peer = NULL;
	v->deadline_ns = 0;
	v->said_ns = fm_engine_now(v->engine);
	v->id = fm_session_new_id(s);
	m.verify = (struct fm_wire_verify){ .id = v->id,
					    .uid = v->who.uid,
					    .gid = v->who.gid,
					    .store = fm_wire_str(v->store),
					    .path = { v->path, v->path_len } };
	fm_session_send(s, &m);
}

static int check_opts(struct fm_engine *e, const struct fm_verification_opts *o, bool is_local,
		      struct fm_err *err)
{
	int ret = fm_target_check(e, is_local ? NULL : o->node, o->store, err);

	if (ret < 0)
		return ret;
	if (!fm_wire_is_good_path(o->path, o->path_len))
		return fm_err_set(err, -EINVAL,
				  "the path holds a NUL byte, or has more than %d bytes",
				  FM_PATH_LEN_MAX);
	return 0;
}

static int start(struct fm_verification *v, const struct fm_verification_opts *o, bool is_local,
		 struct fm_err *err)
{
	struct fm_engine *e = v->engine;

	if (is_local) {
		int ret = fm_target_store(e, o->store, strlen(o->store), &v->store_ref, err);

		return ret < 0 ? ret : start_work(v, err);
	}
	v->peer = fm_engine_peer(e, o->node);
	if (!v->peer->session)
		fm_peer_need(v->peer);
	else if (fm_session_is_lost(v->peer->session, err))
		return err->code;
	else
		send_verify(v, v->peer->session);
	return 0;
}

int fm_verification_start(struct fm_engine *e, const struct fm_verification_opts *o,
			  const struct fm_verification_events *events, void *ctx,
			  struct fm_verification **out, struct fm_err *err)
{
	bool is_local = !o->node || strcmp(o->node, e->name) == 0;
	struct fm_share_held place = { 0 };
	struct fm_verification *v;
	int ret = check_opts(e, o, is_local, err);

	if (ret == 0)
		ret = fm_share_take(&verifications_of(e)->places, fm_share_user(o->who.uid), 1,
				    &place, err);
	if (ret < 0)
		return ret;
	v = verification_new(e, o->path, o->path_len);
	if (!v) {
		fm_share_give_all(&place);
		return fm_err_sys(err, -ENOMEM, "allocate the verification");
	}
	v->place = place;
	v->is_ours = true;
	v->events = *events;
	v->ctx = ctx;
	v->who = o->who;
	v->who.peer = NULL;
	v->deadline_ns = fm_engine_now(e) + CONNECT_NS;
	(void)snprintf(v->store, sizeof(v->store), "%s", o->store);
	ret = start(v, o, is_local, err);
	if (ret < 0) {
		v->is_over = v->is_reported = true;
		free_later(v);
		return ret;
	}
	*out = v;
	return 0;
}

/* Ends a verification that we asked for, and tells the node that does it. */
static void give_up(struct fm_verification *v, const struct fm_err *err)
{
	struct fm_wire_msg m = { .type = FM_WIRE_ABORT };
	struct fm_session *s = v->session;

	finish(v, err);
	if (!s)
		return;
	m.abort.xfer = v->id;
	m.abort.code = (uint32_t)-err->code;
	m.abort.text = fm_wire_str(err->text);
	fm_session_send(s, &m);
}

void fm_verification_cancel(struct fm_verification *v)
{
	struct fm_err err;

	assert(v->is_ours);
	if (v->is_over)
		return;
	(void)fm_err_set(&err, -ECANCELED, "cancelled");
	give_up(v, &err);
}

/* ---- what happens around it ---- */

static struct fm_verification *find(struct fm_session *s, uint64_t id, bool is_ours)
{
	fm_list_each(at, next, &verifications_of(s->engine)->list) {
		struct fm_verification *v = fm_container_of(at, struct fm_verification, at);

		if (v->is_ours == is_ours && v->session == s && v->id == id)
			return v;
	}
	return NULL;
}

static void on_verified(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_verified *m = &msg->verified;
	struct fm_verification *v = find(s, m->id, true);
	char path[FM_WIRE_PATH_MAX + 1];
	struct fm_err err = { 0 };

	if (!v)
		return;		/* it crossed our ABORT */
	v->said_ns = fm_engine_now(s->engine);
	v->count = (struct fm_verify_count){ .files = m->files,
					     .bytes = m->bytes,
					     .corrupt = m->corrupt,
					     .unreadable = m->unreadable,
					     .changed = m->changed,
					     .missing = m->missing,
					     .swapped = m->swapped,
					     .without = m->without,
					     .unlisted = m->unlisted };
	for (unsigned i = 0; i < m->count; i++) {
		const struct fm_wire_found_bad *f = &m->finding[i];

		(void)snprintf(path, sizeof(path), "%.*s", (int)f->path.len, f->path.at);
		v->events.finding(v->ctx, (enum fm_finding_kind)f->kind, f->offset, f->length,
				  path);
	}
	if (m->flags & FM_WIRE_VERIFIED_MORE) {
		v->events.progress(v->ctx, &v->count);
		return;
	}
	if (m->code)
		(void)fm_err_set(&err, -(int)m->code, "%s: %.*s", s->name, (int)m->text.len,
				 m->text.at);
	err.is_full = m->flags & FM_WIRE_VERIFIED_FULL;
	finish(v, &err);
}

static void on_abort(struct fm_session *s, const struct fm_wire_msg *msg)
{
	struct fm_verification *v = find(s, msg->abort.xfer, false);
	struct fm_err err;

	if (!v)
		return;		/* a transfer's, or it crossed our own end */
	v->session = NULL;	/* who aborts wants no answer */
	(void)fm_err_set(&err, -ECANCELED, "cancelled");
	finish(v, &err);
	free_later(v);
}

static bool verification_is_on(const struct fm_session *s)
{
	fm_list_each(at, next, &verifications_of(s->engine)->list)
		if (fm_container_of(at, struct fm_verification, at)->session == s)
			return true;
	return false;
}

static void verification_session_lost(struct fm_session *s, const struct fm_err *err)
{
	fm_list_each(at, next, &verifications_of(s->engine)->list) {
		struct fm_verification *v = fm_container_of(at, struct fm_verification, at);

		if (v->session != s)
			continue;
		v->session = NULL;
		finish(v, err);
		free_later(v);
	}
}

static void verification_peer_unreachable(struct fm_peer *p, const struct fm_err *err)
{
	fm_list_each(at, next, &verifications_of(p->engine)->list) {
		struct fm_verification *v = fm_container_of(at, struct fm_verification, at);

		if (v->peer == p)
			finish(v, err);
	}
}

static void verification_peer_up(struct fm_peer *p)
{
	fm_list_each(at, next, &verifications_of(p->engine)->list) {
		struct fm_verification *v = fm_container_of(at, struct fm_verification, at);

		if (v->peer == p && !v->is_over && p->session)
			send_verify(v, p->session);
	}
}

static void verification_stop(struct fm_engine *e)
{
	struct fm_err err;

	(void)fm_err_set(&err, -EHOSTDOWN, "fmoved at %s is stopping", e->name);
	fm_list_each(at, next, &verifications_of(e)->list)
		finish(fm_container_of(at, struct fm_verification, at), &err);
}

static void tick(struct fm_verification *v, uint64_t now_ns)
{
	struct fm_err err;

	if (v->peer && now_ns >= v->deadline_ns) {
		(void)fm_err_set(&err, -EHOSTUNREACH, "%s is not connected%s%s", v->peer->name,
				 v->peer->last_error[0] ? ": " : "", v->peer->last_error);
		finish(v, &err);
	} else if (v->is_ours && v->session && now_ns >= v->said_ns + SILENT_NS) {
		(void)fm_err_set(&err, -ETIMEDOUT, "%s has said nothing of it for %llu s",
				 v->session->name, (unsigned long long)(SILENT_NS / FM_NS_PER_S));
		give_up(v, &err);
	} else if (v->worker && now_ns >= v->said_ns + SAY_NS) {
		v->said_ns = now_ns;
		if (!v->is_ours) {
			say_so_far(v);
			return;
		}
		report_findings(v);
		fm_verify_look(&v->state, &v->count);
		v->events.progress(v->ctx, &v->count);
	}
}

static void verification_tick(struct fm_engine *e, uint64_t now_ns)
{
	fm_list_each(at, next, &verifications_of(e)->list) {
		struct fm_verification *v = fm_container_of(at, struct fm_verification, at);

		if (v->is_over && v->session)
			say_end(v);
		else if (!v->is_over && (v->is_ours || v->session))
			tick(v, now_ns);
	}
}

static bool verification_is_idle(const struct fm_engine *e)
{
	return verifications_of(e)->count == 0;
}

static bool verification_is_working(const struct fm_engine *e)
{
	return !verification_is_idle(e);
}

static void verification_init(void *state)
{
	struct verifications *all = state;

	fm_list_init(&all->list);
	fm_share_init(&all->places, &(struct fm_share_limits){"places for verifications",
							      FM_VERIFICATIONS_LOCAL_MAX,
							      FM_VERIFICATIONS_LOCAL_ROOT, 0, 1});
	fm_share_init(&all->peer_places,
		      &(struct fm_share_limits){ "places for verifications of peers",
						 FM_VERIFICATIONS_PEERS_MAX, 0, 0, 1 });
}

static const struct fm_service_message messages[] = {
	{ FM_WIRE_VERIFY, on_verify },
	{ FM_WIRE_VERIFIED, on_verified },
	{ FM_WIRE_ABORT, on_abort },
};

const struct fm_service fm_verification_service = {
	.name = "verification",
	.messages = messages,
	.message_count = sizeof(messages) / sizeof(messages[0]),
	.state_bytes = sizeof(struct verifications),
	.init = verification_init,
	.peer_up = verification_peer_up,
	.peer_unreachable = verification_peer_unreachable,
	.session_lost = verification_session_lost,
	.is_on = verification_is_on,
	.tick = verification_tick,
	.stop = verification_stop,
	.is_idle = verification_is_idle,
	.is_working = verification_is_working,
};
