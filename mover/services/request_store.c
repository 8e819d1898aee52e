/* SPDX-License-Identifier: MIT */
/* request_store - a request at a store of this node. See request_priv.h. */
#include "mover/services/request_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/store/access.h"

static int list_run(struct fm_request *r, struct fm_store *s)
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

/* A store without links has nothing that a look could follow. */
static int look_run(struct fm_request *r, struct fm_store *s)
{
	struct fm_entry *e = &r->entries[0];

	e->name[0] = '\0';
	r->count = 1;
	return s->ops->look ? s->ops->look(s, r->path, &r->who, &e->attr, r->says, &r->work_err)
			    : s->ops->stat(s, r->path, &r->who, &e->attr, &r->work_err);
}

/*
 * The link leads there, so that what of it could not be rotated is no error: the next rotation
 * tries again.
 */
static void rotate(struct fm_request *r, struct fm_store *s)
{
	struct fm_err why = {0};

	if (!s->ops->rotate ||
	    s->ops->rotate(s, r->path, r->to, &r->who, r->keep, r->entries, &r->count, &why) == 0)
		return;
	(void)snprintf(r->stays, sizeof(r->stays), "%s", why.text);
}

/* Moves or links a name. A store that keeps nothing has no names. */
static int name_run(struct fm_request *r, struct fm_store *s)
{
	bool is_move = r->verb == FM_VERB_MOVE;
	int ret;

	if (is_move ? !s->ops->move : !s->ops->link)
		return fm_err_set(&r->work_err, -ENOTSUP, "store %s: it keeps no names", s->name);
	if (r->is_later && s->ops->lead)
		ret = s->ops->lead(s, r->path, r->to, &r->who, &r->work_err);
	else
		ret = (is_move ? s->ops->move : s->ops->link)(s, r->path, r->to, &r->who,
							      r->may_replace, &r->work_err);
	if (ret == 0 && r->keep > 0)
		rotate(r, s);
	return ret;
}

static void work_run(struct fm_work *work)
{
	struct fm_request *r = fm_container_of(work, struct fm_request, work);
	struct fm_store *s = r->store_ref->store;

	switch (r->verb) {
	case FM_VERB_STAT:
		r->entries[0].name[0] = '\0';
		(void)snprintf(r->shared, sizeof(r->shared), "%s", s->shared);
		r->is_sealed = s->is_sealed;
		(void)snprintf(r->written_by, sizeof(r->written_by), "%s", s->written_by);
		r->work_ret = s->ops->stat(s, r->path, &r->who, &r->entries[0].attr, &r->work_err);
		r->count = 1;
		break;
	case FM_VERB_LOOK:
		r->work_ret = look_run(r, s);
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
	case FM_VERB_GROUP_BEGIN:
	case FM_VERB_GROUP_CHECK:
	case FM_VERB_GROUP_COMMIT:
	case FM_VERB_GROUP_DISCARD:
		r->work_ret = fm_request_run_group(r, s);
		break;
	case FM_VERB_GROUP_LIST:
		r->work_ret = fm_request_run_group_list(r, s);
		break;
	case FM_VERB_FREE:
	case FM_VERB_PURGE:
	case FM_VERB_PURGE_PARTIALS:
		r->work_ret = fm_request_run_space(r, s);
		break;
	}
}

static bool changes_names(enum fm_verb verb)
{
	switch (verb) {
	case FM_VERB_REMOVE:
	case FM_VERB_MKDIR:
	case FM_VERB_MOVE:
	case FM_VERB_LINK:
	case FM_VERB_GROUP_BEGIN:
	case FM_VERB_GROUP_COMMIT:
	case FM_VERB_GROUP_DISCARD:
		return true;
	default:
		return false;
	}
}

/* What was done where nobody looks for it is not told to be done: nobody undoes it, either. */
static void fail_if_left(struct fm_request *r)
{
	const char *store = r->store_ref->store->name;

	if (!changes_names(r->verb) || r->work_ret < 0 || !r->store_ref->is_left)
		return;
	if (r->verb == FM_VERB_GROUP_COMMIT)
		r->work_ret = fm_err_set(&r->work_err, -EAGAIN,
					 "store %s: its path leads to another directory than the "
					 "one that this group was in; put what is in it again",
					 store);
	else
		r->work_ret = fm_err_set(&r->work_err, -EAGAIN,
					 "store %s: its path leads to another directory than the "
					 "one that this was done in; do it again, if it is wanted "
					 "there, too",
					 store);
}

static void work_done(struct fm_work *work)
{
	struct fm_request *r = fm_container_of(work, struct fm_request, work);
	bool was_at_room = r->is_at_room;

	r->is_working = false;
	fail_if_left(r);
	if (was_at_room)
		fm_request_take_room(r);
	if (r->is_over) {	/* given up meanwhile */
		fm_request_free_later(r);
		return;
	}
	if (!was_at_room && fm_request_goes_on(r))
		return;
	if (r->is_any_store && r->work_ret == -EACCES) {
		fm_request_next_store(r);
		return;
	}
	if (fm_request_say_failed(r))
		return;
	r->err = r->work_err;
	r->err.code = r->work_ret;
	if (r->work_ret == -ENODATA && fm_verb_is_of_group(r->verb))
		fm_request_note_missing(r);
	r->code = fm_err_not_begun(&r->err);
	fm_request_finish(r);
}

/* What may be done with a store is known without its file system. */
static bool asks_no_store(const struct fm_request *r)
{
	return r->verb == FM_VERB_FREE && !r->is_at_room;
}

static void submit(struct fm_request *r, void (*run)(struct fm_work *work),
		   void (*done)(struct fm_work *work), const void *may_await)
{
	r->is_working = true;
	r->work.who = r->who.peer ? fm_share_name(r->who.peer) : fm_share_user(r->who.uid);
	r->work.user = r->who.uid;
	r->work.may_await = may_await;
	r->work.run = run;
	r->work.done = done;
	fm_worker_submit(r->engine->env.worker, &r->work, r->engine->env.loop);
}

static void look_up_run(struct fm_work *work)
{
	struct fm_request *r = fm_container_of(work, struct fm_request, work);
	struct fm_store *s = r->store_ref->store;
	bool may_read, may_write;

	if (s->ops->rights)	/* the request itself says who may not */
		s->ops->rights(s, &r->who, &may_read, &may_write);
}

static void looked_up(struct fm_work *work)
{
	struct fm_request *r = fm_container_of(work, struct fm_request, work);

	if (r->is_over)
		work_done(work);
	else
		submit(r, work_run, work_done, NULL);
}

/*
 * What it may wait for without end: the store, else the user database by its rules. That is waited
 * for apart: who removes a large tree is not to keep its threads from those who only ask who they
 * are.
 */
void fm_request_start_work(struct fm_request *r)
{
	const struct fm_store *s = r->store_ref->store;
	const void *users = fm_access_may_await(s, &r->who);
	const void *at = asks_no_store(r) ? NULL : fm_store_may_await(s);

	if (users && !at && !asks_no_store(r))
		submit(r, look_up_run, looked_up, users);
	else
		submit(r, work_run, work_done, at ? at : users);
}

void fm_request_next_store(struct fm_request *r)
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
		best->refs++;
	r->store_ref = best;	/* also of one that is not open, of which this is said */
	if (!best) {
		r->page = (struct fm_space_page){ .count = 0 };
		fm_request_finish(r);
		return;
	}
	(void)snprintf(r->store, sizeof(r->store), "%.*s", FM_WIRE_NAME_MAX,
		       r->store_ref->store->name);
	(void)snprintf(r->after, sizeof(r->after), "%s", r->store);
	fm_request_start_work(r);
}
