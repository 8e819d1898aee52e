/* SPDX-License-Identifier: MIT */
/* request - see request.h. */
#include "mover/services/request.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/node/session.h"
#include "mover/services/target.h"

_Static_assert(FM_SPACE_ASIDE_MAX == FM_WIRE_ASIDE_MAX, "a page is one message");

#define TIMEOUT_NS (30 * FM_NS_PER_S)

/*
 * Ours: WAIT for the session -> REQUEST -> REPLY -> done().  Ours, own store: worker -> done().  A
 * peer's: worker -> REPLY.
 */
struct request {
	struct fm_list at;		/* requests.list */
	struct fm_engine *engine;
	struct fm_session *session;	/* asked, or asking; NULL: own store, waiting, or lost */
	struct fm_peer *peer;		/* waiting for this one's session */
	bool is_ours;
	/* the user's or the peer's, until no worker has it any more */
	struct fm_share_held place;
	bool is_over;			/* answered, or given up */
	bool is_reported;		/* ours: done() was called */
	uint64_t id;
	uint64_t deadline_ns;
	enum fm_verb verb;
	bool is_recursive;
	bool may_replace;
	bool is_dry;
	bool is_any_store;		/* FREE: the next one that may be read */
	char store[FM_WIRE_NAME_MAX + 1];
	char *path;
	size_t path_len;
	char *to;			/* MOVE, LINK; else NULL */
	size_t to_len;
	char after[FM_NAME_LEN_MAX + 1];
	struct fm_who who;
	char who_peer[FM_WIRE_NAME_MAX + 1];
	struct fm_store_ref *store_ref;
	struct fm_work work;
	bool is_working;
	int work_ret;			/* the worker's, until it is done */
	struct fm_err work_err;
	struct fm_task report_task;
	struct fm_task free_task;
	void (*done)(void *ctx, const struct fm_request_result *result);
	void *ctx;
	int code;
	struct fm_err err;
	size_t count;
	bool is_more;
	char shared[FM_SHARED_LEN_MAX + 1];	/* STAT */
	union {
		struct fm_entry entries[FM_WIRE_ENTRIES_MAX];
		struct fm_space_page page;	/* FREE, PURGE */
	};
};

struct requests {
	struct fm_list list;		/* request.at */
	unsigned count;
	struct fm_share places;		/* of local callers, by user */
	struct fm_share peer_places;	/* of all peers together */
};

static struct requests *requests_of(const struct fm_engine *e)
{
	return fm_service_state(e, &fm_request_service);
}

static bool is_purge(enum fm_verb verb)
{
	return verb == FM_VERB_PURGE || verb == FM_VERB_PURGE_PARTIALS;
}

/* Whether the request has a second name. */
static bool is_naming(enum fm_verb verb)
{
	return verb == FM_VERB_MOVE || verb == FM_VERB_LINK;
}

static bool is_about_space(const struct request *r)
{
	return r->verb == FM_VERB_FREE || is_purge(r->verb);
}

static void free_run(struct fm_task *task)
{
	struct request *r = fm_container_of(task, struct request, free_task);
	struct fm_engine *e = r->engine;

	if (r->store_ref)
		fm_engine_store_put(r->store_ref);
	fm_list_del(&r->at);
	requests_of(e)->count--;
	fm_share_give_all(&r->place);
	free(r->path);
	free(r->to);
	fm_budget_free(r);
	fm_engine_check_stopped(e);
}

static void free_later(struct request *r)
{
	if (!r->is_working && (!r->is_ours || r->is_reported))
		fm_loop_post(r->engine->env.loop, &r->free_task);
}

static void report_run(struct fm_task *task)
{
	struct request *r = fm_container_of(task, struct request, report_task);
	struct fm_request_result result = { .code = r->code };

	/* After a failure the worker may still be filling the entries. */
	if (r->code)
		result.err = r->err;
	else if (is_about_space(r))
		result = (struct fm_request_result){
			.page = &r->page, .is_more = r->page.is_more, .store = r->store};
	else
		result = (struct fm_request_result){
			.entries = r->entries, .count = r->count, .is_more = r->is_more,
			.shared = r->shared};
	r->is_reported = true;
	r->done(r->ctx, &result);
	free_later(r);
}

static void fill_space(const struct request *r, struct fm_wire_msg *m)
{
	const struct fm_space_page *p = &r->page;
	bool is_page = is_purge(r->verb);

	m->type = FM_WIRE_SPACE;
	m->space = (struct fm_wire_space){
		.flags = (uint16_t)((is_page && p->is_more ? FM_WIRE_SPACE_MORE : 0) |
				    (p->space.is_counting ? FM_WIRE_SPACE_COUNTING : 0) |
				    (p->space.may_read ? FM_WIRE_SPACE_READ : 0) |
				    (p->space.may_write ? FM_WIRE_SPACE_WRITE : 0)),
		.id = r->id,
		.size = p->space.size,
		.free = p->space.free,
		.used = p->space.used,
		.quota = p->space.quota,
		.promised = p->space.promised,
		.aside = p->space.aside,
		.trees = p->space.trees,
		.count = (uint16_t)(is_page ? p->count : 0),
		.store = fm_wire_str(r->store)};
	for (size_t i = 0; i < m->space.count; i++)
		m->space.tree[i] = (struct fm_wire_aside){ .bytes = p->aside[i].bytes,
							   .since_ns = p->aside[i].since_ns,
							   .path = fm_wire_str(p->aside[i].path) };
}

static uint16_t reply_full(const struct fm_err *why)
{
	return why->is_full && why->code == -EBUSY ? FM_WIRE_REPLY_FULL : 0;
}

static void send_reply(struct request *r)
{
	struct fm_wire_msg *m = malloc(sizeof(*m));

	if (!m)
		return;		/* the asker's own deadline tells it */
	if (r->code == 0 && is_about_space(r)) {
		fill_space(r, m);
		fm_session_send(r->session, m);
		free(m);
		return;
	}
	m->type = FM_WIRE_REPLY;
	m->reply = (struct fm_wire_reply){.flags = r->is_more && r->code == 0 ? FM_WIRE_REPLY_MORE
									      : reply_full(&r->err),
					  .id = r->id,
					  .code = (uint32_t)-r->code,
					  .count = (uint16_t)(r->code ? 0 : r->count),
					  .text = fm_wire_str(r->code ? r->err.text : r->shared)};
	for (size_t i = 0; i < m->reply.count; i++) {
		const struct fm_entry *en = &r->entries[i];

		m->reply.entry[i] = (struct fm_wire_entry){ .type = (uint8_t)en->attr.type,
							    .mode = en->attr.mode & 0777,
							    .size = en->attr.size,
							    .mtime_ns = en->attr.mtime_ns,
							    .whole = en->whole,
							    .name = fm_wire_str(en->name) };
	}
	fm_session_send(r->session, m);
	free(m);
}

/* Ends the request, unless it has ended. The first outcome counts. */
static void finish(struct request *r)
{
	if (r->is_over)
		return;
	r->is_over = true;
	if (r->is_ours)
		fm_loop_post(r->engine->env.loop, &r->report_task);
	else if (r->session)
		send_reply(r);
	r->session = NULL;
	free_later(r);
}

static void fail(struct request *r, const struct fm_err *err)
{
	if (r->is_over)
		return;
	r->code = err->code;
	r->err = *err;
	finish(r);
}

/* ---- on our own store ---- */

static int list_run(struct request *r, struct fm_store *s)
{
	struct fm_list_opts o = { .after = r->after, .max = FM_WIRE_ENTRIES_MAX };
	bool is_partials = r->verb == FM_VERB_PARTIALS;
	int ret;

	r->count = 0;
	if (is_partials && !s->ops->partials)
		return 0;	/* nothing is ever unfinished there */
	ret = (is_partials ? s->ops->partials : s->ops->list)(s, r->path, &r->who, &o, r->entries,
							      &r->count, &r->work_err);
	r->is_more = ret == 0 && r->count == o.max;
	return ret;
}

/*
 * Asks a store for its room and rights. Who asks for all stores hears also of a store that he may
 * only write to, but not what is in it. A store that has no limit has no numbers.
 */
static int room_run(struct request *r, struct fm_store *s)
{
	struct fm_store_space *space = &r->page.space;
	bool may_read = true, may_write = true;
	int ret = 0;

	if (s->ops->rights)
		s->ops->rights(s, &r->who, &may_read, &may_write);
	if (r->is_any_store && !may_read && !may_write)
		return -EACCES;
	if (s->ops->space && (may_read || !r->is_any_store))
		ret = s->ops->space(s, &r->who, space, &r->work_err);
	space->may_read = may_read;
	space->may_write = may_write;
	return ret;
}

static int space_run(struct request *r, struct fm_store *s)
{
	struct fm_space_page *p = &r->page;
	fm_store_purge *purge;

	*p = (struct fm_space_page){.space = {.size = FM_SIZE_UNKNOWN, .free = FM_SIZE_UNKNOWN}};
	if (r->verb == FM_VERB_FREE)
		return room_run(r, s);
	purge = r->verb == FM_VERB_PURGE ? s->ops->purge : s->ops->purge_partials;
	return purge ? purge(s, r->path, &r->who, r->is_dry, p, &r->work_err) : 0;
}

/* Moves or links a name. A store that keeps nothing has no names. */
static int name_run(struct request *r, struct fm_store *s)
{
	bool is_move = r->verb == FM_VERB_MOVE;

	if (is_move ? !s->ops->move : !s->ops->link)
		return fm_err_set(&r->work_err, -ENOTSUP, "store %s: it keeps no names", s->name);
	return (is_move ? s->ops->move : s->ops->link)(s, r->path, r->to, &r->who, r->may_replace,
						       &r->work_err);
}

static void work_run(struct fm_work *work)
{
	struct request *r = fm_container_of(work, struct request, work);
	struct fm_store *s = r->store_ref->store;

	switch (r->verb) {
	case FM_VERB_STAT:
		r->entries[0].name[0] = '\0';
		(void)snprintf(r->shared, sizeof(r->shared), "%s", s->shared);
		r->work_ret = s->ops->stat(s, r->path, &r->who, &r->entries[0].attr, &r->work_err);
		r->count = 1;
		break;
	case FM_VERB_LIST:
	case FM_VERB_PARTIALS:
		r->work_ret = list_run(r, s);
		break;
	case FM_VERB_REMOVE:
		r->work_ret = s->ops->remove(s, r->path, &r->who, r->is_recursive, &r->work_err);
		break;
	case FM_VERB_MKDIR:
		r->work_ret = s->ops->mkdir(s, r->path, &r->who, &r->work_err);
		break;
	case FM_VERB_MOVE:
	case FM_VERB_LINK:
		r->work_ret = name_run(r, s);
		break;
	case FM_VERB_FREE:
	case FM_VERB_PURGE:
	case FM_VERB_PURGE_PARTIALS:
		r->work_ret = space_run(r, s);
		break;
	}
}

static void start_next_store(struct request *r);

static void work_done(struct fm_work *work)
{
	struct request *r = fm_container_of(work, struct request, work);

	r->is_working = false;
	if (r->is_over) {	/* given up meanwhile */
		free_later(r);
		return;
	}
	if (r->is_any_store && r->work_ret == -EACCES) {
		start_next_store(r);
		return;
	}
	r->err = r->work_err;
	r->err.code = r->work_ret;
	r->code = fm_err_not_begun(&r->err);
	finish(r);
}

static void start_work(struct request *r)
{
	r->is_working = true;
	r->work.who = r->is_ours ? fm_share_user(r->who.uid) : fm_share_name(r->who_peer);
	r->work.user = r->who.uid;
	r->work.run = work_run;
	r->work.done = work_done;
	fm_worker_submit(r->engine->env.worker, &r->work, r->engine->env.loop);
}

/*
 * Goes on with the first store behind r->after, in the order of names. If there is none, the answer
 * says that the list has ended.
 */
static void start_next_store(struct request *r)
{
	struct fm_store_ref *best = NULL;

	if (r->store_ref)
		fm_engine_store_put(r->store_ref);
	r->store_ref = NULL;
	fm_list_each(at, next, &r->engine->stores) {
		struct fm_store_ref *ref = fm_container_of(at, struct fm_store_ref, at);

		if (strcmp(ref->store->name, r->after) > 0 &&
		    (!best || strcmp(ref->store->name, best->store->name) < 0))
			best = ref;
	}
	r->store[0] = '\0';
	if (best)
		r->store_ref = fm_engine_store_get(r->engine, best->store->name,
						   strlen(best->store->name));
	if (!r->store_ref) {
		r->page = (struct fm_space_page){ .count = 0 };
		finish(r);
		return;
	}
	(void)snprintf(r->store, sizeof(r->store), "%.*s", FM_WIRE_NAME_MAX,
		       r->store_ref->store->name);
	(void)snprintf(r->after, sizeof(r->after), "%s", r->store);
	start_work(r);
}

/* ---- beginning ---- */

/* Makes a request. to may be NULL: it has no second name. */
static struct request *request_new(struct fm_engine *e, const char *path, size_t path_len,
				   const char *to, size_t to_len)
{
	struct request *r = FM_FAULT("request.new") ? NULL : fm_budget_alloc(sizeof(*r));

	if (!r)
		return NULL;
	r->path = strndup(path, path_len);
	r->to = to ? strndup(to, to_len) : NULL;
	if (!r->path || (to && !r->to)) {
		free(r->path);
		free(r->to);
		fm_budget_free(r);
		return NULL;
	}
	r->path_len = path_len;
	r->to_len = to_len;
	r->engine = e;
	r->report_task.run = report_run;
	r->free_task.run = free_run;
	r->deadline_ns = fm_engine_now(e) + TIMEOUT_NS;
	fm_list_append(&requests_of(e)->list, &r->at);
	requests_of(e)->count++;
	return r;
}

static void refuse(struct fm_session *s, uint64_t id, const struct fm_err *why)
{
	struct fm_wire_msg m = { .type = FM_WIRE_REPLY };

	m.reply = (struct fm_wire_reply){ .flags = reply_full(why),
					  .id = id,
					  .code = (uint32_t)-why->code,
					  .text = fm_wire_str(why->text) };
	fm_session_send(s, &m);
}

static void on_request(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_request *m = &msg->request;
	struct fm_share_held place = { 0 };
	struct fm_engine *e = s->engine;
	struct fm_err err = { 0 };
	struct request *r;

	if (fm_share_take(&requests_of(e)->peer_places, fm_share_name(s->name), 1, &place, &err) <
	    0) {
		refuse(s, m->id, &err);
		return;
	}
	r = request_new(e, m->path.at, m->path.len, m->to.len > 0 ? m->to.at : NULL, m->to.len);
	if (!r) {
		fm_share_give_all(&place);
		(void)fm_err_set(&err, -ENOMEM, "out of memory");
		refuse(s, m->id, &err);
		return;
	}
	r->place = place;
	r->session = s;
	r->id = m->id;
	r->verb = (enum fm_verb)m->verb;
	r->is_recursive = m->flags & FM_WIRE_REQUEST_RECURSIVE;
	r->is_dry = m->flags & FM_WIRE_REQUEST_DRY;
	r->may_replace = m->flags & FM_WIRE_REQUEST_REPLACE;
	(void)snprintf(r->after, sizeof(r->after), "%.*s", (int)m->after.len, m->after.at);
	(void)snprintf(r->who_peer, sizeof(r->who_peer), "%s", s->name);
	r->who = (struct fm_who){ .peer = r->who_peer, .uid = m->uid, .gid = m->gid };
	if (m->store.len == 0) {
		r->is_any_store = true;
		start_next_store(r);
		return;
	}
	(void)snprintf(r->store, sizeof(r->store), "%.*s", (int)m->store.len, m->store.at);
	r->code = fm_target_store(e, m->store.at, m->store.len, &r->store_ref, &r->err);
	if (r->code < 0)
		finish(r);
	else
		start_work(r);
}

static void send_request(struct request *r, struct fm_session *s)
{
	struct fm_wire_msg m = { .type = FM_WIRE_REQUEST };

	r->session = s;
	r->peer = NULL;
	r->id = fm_session_new_id(s);
	m.request = (struct fm_wire_request){
		.flags = (uint16_t)((r->is_recursive ? FM_WIRE_REQUEST_RECURSIVE : 0) |
				    (r->is_dry ? FM_WIRE_REQUEST_DRY : 0) |
				    (r->may_replace ? FM_WIRE_REQUEST_REPLACE : 0)),
		.id = r->id,
		.verb = (uint8_t)r->verb,
		.uid = r->who.uid,
		.gid = r->who.gid,
		.store = fm_wire_str(r->store),
		.path = {r->path, r->path_len},
		.after = fm_wire_str(r->after),
		.to = {r->to, r->to_len}};
	fm_session_send(s, &m);
}

/* Checks the second name of MOVE and LINK. */
static int check_second(const struct fm_request_opts *o, struct fm_err *err)
{
	if (o->is_dry)
		return fm_err_set(err, -EINVAL, "`is_dry` is for purges");
	if (o->to_len == 0)
		return fm_err_set(err, -EINVAL, "%s is empty",
				  o->verb == FM_VERB_MOVE ? "the new name"
							  : "what the link is to lead to");
	if (o->to_len > FM_PATH_LEN_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "the path has more than %d bytes",
				  FM_PATH_LEN_MAX);
	if (memchr(o->to, '\0', o->to_len))
		return fm_err_set(err, -EINVAL, "the path holds a NUL byte");
	return 0;
}

static int check_opts(struct fm_engine *e, const struct fm_request_opts *o, bool is_local,
		      struct fm_err *err)
{
	struct fm_peer *peer;
	int ret = 0;

	if (e->is_stopping)
		return fm_err_set(err, -ECANCELED, "fmoved is stopping");
	if (!is_local)
		ret = fm_target_peer(e, o->node, &peer, err);
	if (ret == 0 && (o->verb != FM_VERB_FREE || o->store[0]))
		ret = fm_target_check_store(o->store, err);
	if (ret < 0)
		return ret;
	if (o->path_len > FM_PATH_LEN_MAX || (o->after && strlen(o->after) > FM_NAME_LEN_MAX))
		return fm_err_set(err, -ENAMETOOLONG, "the path has more than %d bytes",
				  FM_PATH_LEN_MAX);
	if (memchr(o->path, '\0', o->path_len))
		return fm_err_set(err, -EINVAL, "the path holds a NUL byte");
	if (o->after && strchr(o->after, '/'))
		return fm_err_set(err, -EINVAL, "'%s' is no name in a directory", o->after);
	if ((o->after && o->after[0] && o->verb != FM_VERB_LIST && o->verb != FM_VERB_PARTIALS &&
	     (o->verb != FM_VERB_FREE || o->store[0] || strlen(o->after) > FM_WIRE_NAME_MAX)) ||
	    (o->is_recursive && o->verb != FM_VERB_REMOVE))
		return fm_err_set(err, -EINVAL,
				  "`after` is for LIST, PARTIALS and FREE of every store, "
				  "`is_recursive` for REMOVE");
	if (is_naming(o->verb))
		return check_second(o, err);
	if (o->may_replace)
		return fm_err_set(err, -EINVAL, "`may_replace` is for MOVE and LINK");
	if ((o->is_dry && !is_purge(o->verb)) ||
	    (o->path_len > 0 &&
	     (o->verb == FM_VERB_FREE || (is_purge(o->verb) && !o->is_dry))))
		return fm_err_set(err, -EINVAL,
				  "`is_dry` is for purges; neither they nor FREE have a path");
	return 0;
}

static void take_opts(struct request *r, const struct fm_request_opts *o)
{
	r->is_ours = true;
	r->verb = o->verb;
	r->is_recursive = o->is_recursive;
	r->is_dry = o->is_dry;
	r->may_replace = o->may_replace;
	(void)snprintf(r->store, sizeof(r->store), "%s", o->store);
	(void)snprintf(r->after, sizeof(r->after), "%s", o->after ? o->after : "");
	r->who = o->who;
	r->who.peer = NULL;
	if (o->timeout_ns)
		r->deadline_ns = fm_engine_now(r->engine) + o->timeout_ns;
}

int fm_request_start(struct fm_engine *e, const struct fm_request_opts *o,
		     void (*done)(void *ctx, const struct fm_request_result *result), void *ctx,
		     struct fm_err *err)
{
	bool is_local = !o->node || strcmp(o->node, e->name) == 0,
	     is_any_store = o->store[0] == '\0';
	struct fm_share_held place = { 0 };
	struct fm_store_ref *ref = NULL;
	struct request *r = NULL;
	struct fm_err lost = { 0 };
	int ret = check_opts(e, o, is_local, err);

	if (ret < 0)
		return ret;
	if (is_local && !is_any_store)
		ret = fm_target_store(e, o->store, strlen(o->store), &ref, err);
	if (ret < 0)
		return ret;
	ret = fm_share_take(&requests_of(e)->places, fm_share_user(o->who.uid), 1, &place, err);
	if (ret == 0)
		r = request_new(e, o->path, o->path_len, is_naming(o->verb) ? o->to : NULL,
				is_naming(o->verb) ? o->to_len : 0);
	if (!r) {
		fm_share_give_all(&place);
		if (ref)
			fm_engine_store_put(ref);
		return ret < 0 ? ret : fm_err_sys(err, -ENOMEM, "allocate the request");
	}
	r->place = place;
	take_opts(r, o);
	r->done = done;
	r->ctx = ctx;
	if (is_local && is_any_store) {
		r->is_any_store = true;
		start_next_store(r);
		return 0;
	}
	if (is_local) {
		r->store_ref = ref;
		start_work(r);
		return 0;
	}
	r->peer = fm_engine_peer(e, o->node);
	if (!r->peer->session)
		fm_peer_need(r->peer);
	else if (fm_session_is_lost(r->peer->session, &lost))
		fail(r, &lost);
	else
		send_request(r, r->peer->session);
	return 0;
}

/* ---- what happens around it ---- */

static struct fm_entry entry_of(const struct fm_wire_entry *w)
{
	struct fm_entry en = { .attr = { .type = (enum fm_node_type)w->type,
					 .size = w->size,
					 .mode = w->mode,
					 .mtime_ns = w->mtime_ns },
			       .whole = w->whole };

	(void)snprintf(en.name, sizeof(en.name), "%.*s", (int)w->name.len, w->name.at);
	return en;
}

/* Takes the ID of a shared store, which must have the form of a name. */
static void take_shared(struct request *r, const struct fm_wire_str *id)
{
	if (id->len > FM_SHARED_LEN_MAX || !fm_wire_is_good_name(id->at, id->len))
		r->code = fm_err_set(&r->err, -EPROTO, "an ID of a shared store that cannot be");
	else
		(void)snprintf(r->shared, sizeof(r->shared), "%.*s", (int)id->len, id->at);
}

/* Names go upwards, from behind the last one on: else a peer could list without end. Two unfinished
 * transfers may be of one name. */
static void check_list(struct request *r, const char *peer)
{
	bool is_listed = r->count == 0 || strcmp(r->entries[0].name, r->after) > 0;

	for (size_t i = 1; i < r->count && is_listed; i++)
		is_listed = strcmp(r->entries[i].name, r->entries[i - 1].name) >= 0;
	if (!is_listed)
		r->code = fm_err_set(&r->err, -EPROTO, "%s: a list that is in no order", peer);
}

static void on_reply(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_reply *m = &msg->reply;
	fm_list_each(at, next, &requests_of(s->engine)->list) {
		struct request *r = fm_container_of(at, struct request, at);

		if (!r->is_ours || r->is_over || r->session != s || r->id != m->id)
			continue;
		r->code = -(int)m->code;
		if (m->code)
			(void)fm_err_set(&r->err, r->code, "%s: %.*s", s->name, (int)m->text.len,
					 m->text.at);
		else if ((r->verb == FM_VERB_STAT && m->count != 1) || is_about_space(r))
			r->code = fm_err_set(&r->err, -EPROTO,
					     "%s: an answer without what was asked for", s->name);
		else if (r->verb == FM_VERB_STAT && m->text.len > 0)
			take_shared(r, &m->text);
		r->err.is_full = m->flags & FM_WIRE_REPLY_FULL;
		r->count = m->count;
		for (unsigned i = 0; i < m->count; i++)
			r->entries[i] = entry_of(&m->entry[i]);
		if (r->code == 0 && (r->verb == FM_VERB_LIST || r->verb == FM_VERB_PARTIALS))
			check_list(r, s->name);
		r->is_more = m->flags & FM_WIRE_REPLY_MORE;
		finish(r);
		return;
	}
}

/*
 * Whether an answer about room is about what was asked. When all stores are asked for, each name
 * must be behind the last one: otherwise a peer could send stores without end.
 */
static bool is_space_asked(const struct request *r, const struct fm_wire_space *m)
{
	char name[FM_WIRE_NAME_MAX + 1];

	(void)snprintf(name, sizeof(name), "%.*s", (int)m->store.len, m->store.at);
	if (!is_about_space(r))
		return false;
	return r->store[0] ? strcmp(name, r->store) == 0 : !name[0] || strcmp(name, r->after) > 0;
}

static void take_space(struct request *r, const struct fm_wire_space *m)
{
	struct fm_space_page *p = &r->page;

	*p = (struct fm_space_page){ .space = { .size = m->size,
						.free = m->free,
						.used = m->used,
						.quota = m->quota,
						.promised = m->promised,
						.aside = m->aside,
						.trees = m->trees,
						.is_counting = m->flags & FM_WIRE_SPACE_COUNTING,
						.may_read = m->flags & FM_WIRE_SPACE_READ,
						.may_write = m->flags & FM_WIRE_SPACE_WRITE },
				     .count = m->count,
				     .is_more = m->flags & FM_WIRE_SPACE_MORE };
	for (unsigned i = 0; i < m->count; i++) {
		p->aside[i].bytes = m->tree[i].bytes;
		p->aside[i].since_ns = m->tree[i].since_ns;
		(void)snprintf(p->aside[i].path, sizeof(p->aside[i].path), "%.*s",
			       (int)m->tree[i].path.len, m->tree[i].path.at);
	}
	(void)snprintf(r->store, sizeof(r->store), "%.*s", (int)m->store.len, m->store.at);
}

static void on_space(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_space *m = &msg->space;
	fm_list_each(at, next, &requests_of(s->engine)->list) {
		struct request *r = fm_container_of(at, struct request, at);

		if (!r->is_ours || r->is_over || r->session != s || r->id != m->id)
			continue;
		if (is_space_asked(r, m))
			take_space(r, m);
		else
			r->code = fm_err_set(&r->err, -EPROTO,
					     "%s: an answer to what was not asked", s->name);
		finish(r);
		return;
	}
}

static bool request_is_on(const struct fm_session *s)
{
	fm_list_each(at, next, &requests_of(s->engine)->list)
		if (fm_container_of(at, struct request, at)->session == s)
			return true;
	return false;
}

static void request_session_lost(struct fm_session *s, const struct fm_err *err)
{
	fm_list_each(at, next, &requests_of(s->engine)->list) {
		struct request *r = fm_container_of(at, struct request, at);

		if (r->session != s)
			continue;
		r->session = NULL;
		fail(r, err);
	}
}

static void request_peer_unreachable(struct fm_peer *p, const struct fm_err *err)
{
	fm_list_each(at, next, &requests_of(p->engine)->list) {
		struct request *r = fm_container_of(at, struct request, at);

		if (r->peer == p)
			fail(r, err);
	}
}

static void request_peer_up(struct fm_peer *p)
{
	fm_list_each(at, next, &requests_of(p->engine)->list) {
		struct request *r = fm_container_of(at, struct request, at);

		if (r->peer == p && !r->is_over && p->session)
			send_request(r, p->session);
	}
}

static void request_stop(struct fm_engine *e)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -ECANCELED, "fmoved at %s is stopping", e->name);
	fm_list_each(at, next, &requests_of(e)->list)
		fail(fm_container_of(at, struct request, at), &err);
}

static const char *may_go_on(const struct request *r)
{
	if (r->verb == FM_VERB_REMOVE || (is_purge(r->verb) && !r->is_dry))
		return "; it may still be removing";
	return r->verb == FM_VERB_MOVE ? "; it may have been moved all the same" : "";
}

static void request_tick(struct fm_engine *e, uint64_t now_ns)
{
	struct fm_err err = { 0 };

	fm_list_each(at, next, &requests_of(e)->list) {
		struct request *r = fm_container_of(at, struct request, at);

		if (!r->is_ours || r->is_over || now_ns < r->deadline_ns)
			continue;
		if (r->peer)
			(void)fm_err_set(&err, -EHOSTUNREACH, "%s is not connected%s%s",
					 r->peer->name, r->peer->last_error[0] ? ": " : "",
					 r->peer->last_error);
		else
			(void)fm_err_set(&err, -ETIMEDOUT, "%s did not answer in time%s",
					 r->session ? r->session->name : e->name,
					 may_go_on(r));
		fail(r, &err);
	}
}

static bool request_is_idle(const struct fm_engine *e)
{
	return requests_of(e)->count == 0;
}

static void request_init(void *state)
{
	struct requests *all = state;

	fm_list_init(&all->list);
	fm_share_init(&all->places,
		      &(struct fm_share_limits){ "places for requests", FM_REQUESTS_LOCAL_MAX,
						 FM_REQUESTS_LOCAL_ROOT, 0, 1 });
	fm_share_init(&all->peer_places,
		      &(struct fm_share_limits){ "places for requests of peers",
						 FM_REQUESTS_PEERS_MAX, 0, 0, 1 });
}

static const struct fm_service_message messages[] = {
	{ FM_WIRE_REQUEST, on_request },
	{ FM_WIRE_REPLY, on_reply },
	{ FM_WIRE_SPACE, on_space },
};

const struct fm_service fm_request_service = {
	.name = "request",
	.messages = messages,
	.message_count = sizeof(messages) / sizeof(messages[0]),
	.state_bytes = sizeof(struct requests),
	.init = request_init,
	.peer_up = request_peer_up,
	.peer_unreachable = request_peer_unreachable,
	.session_lost = request_session_lost,
	.is_on = request_is_on,
	.tick = request_tick,
	.stop = request_stop,
	.is_idle = request_is_idle,
};
