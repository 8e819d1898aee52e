/* SPDX-License-Identifier: MIT */
/* request_space - room and rights of a store; what purge removes. See request_priv.h. */
#include "mover/services/request_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/env.h"

/* For so long a file system may be asked for its room before it is said that it does not answer. */
#define PATIENCE_NS (2 * FM_NS_PER_S)

/*
 * What the caller may do with a store. Who asks for all stores hears also of a store that he may
 * only write to, but not what is in it.
 */
static int rights_run(struct fm_request *r, struct fm_store *s)
{
	struct fm_store_space *space = &r->page.space;

	space->may_read = space->may_write = true;
	if (s->ops->rights)
		s->ops->rights(s, &r->who, &space->may_read, &space->may_write);
	return r->is_any_store && !space->may_read && !space->may_write ? -EACCES : 0;
}

int fm_request_run_space(struct fm_request *r, struct fm_store *s)
{
	struct fm_space_page *p = &r->page;
	fm_store_purge *purge;

	if (r->is_at_room)
		return s->ops->space(s, &r->who, &r->room, &r->work_err);
	*p = (struct fm_space_page){.space = {.size = FM_SIZE_UNKNOWN, .free = FM_SIZE_UNKNOWN}};
	if (r->verb == FM_VERB_FREE)
		return rights_run(r, s);
	purge = r->verb == FM_VERB_PURGE ? s->ops->purge : s->ops->purge_partials;
	return purge ? purge(s, r->path, &r->who, r->is_dry, p, &r->work_err) : 0;
}

static uint64_t asked_since_ns(const struct fm_request *r)
{
	const struct fm_store_ref *ref = r->store_ref;

	return ref->room_asked > 0 ? fm_engine_now(r->engine) - ref->room_asked_ns : 0;
}

/* For how long the file system of that store has been silent; 0: it answers, or may yet. */
static uint64_t silent_ns(const struct fm_request *r)
{
	uint64_t ns = asked_since_ns(r);

	if (r->store_ref->store->is_silent)
		return ns > 0 ? ns : 1;
	return r->store_ref->is_room_late ? ns : 0;
}

static void forget_numbers(struct fm_store_space *space)
{
	space->size = space->free = space->used = FM_SIZE_UNKNOWN;
	space->aside = space->promised = FM_SIZE_UNKNOWN;
	space->quota = space->trees = 0;
	space->is_counting = false;
}

/* One that is open has asked the user database already. */
static const char *silent_what(const struct fm_request *r)
{
	const struct fm_store *store = r->store_ref->store;

	return store->is_silent ? fm_store_silent_what(store) : "its file system";
}

/* One of several stores has no numbers. Who asked for this one alone has an error: no program takes
 * it for a store without a limit. */
static void say_silent(struct fm_request *r, uint64_t ns)
{
	if (!r->is_any_store) {
		r->code = fm_err_set(&r->err, -ETIMEDOUT,
				     "store %s: %s has not answered for %llu s",
				     r->store_ref->store->name, silent_what(r),
				     (unsigned long long)(ns / FM_NS_PER_S));
	} else {
		forget_numbers(&r->page.space);
		r->page.space.silent_ns = ns;
	}
	fm_request_finish(r);
}

bool fm_request_say_failed(struct fm_request *r)
{
	if (r->verb != FM_VERB_FREE || !r->is_any_store || r->work_ret >= 0)
		return false;
	forget_numbers(&r->page.space);
	r->page.space.code = (uint16_t)-r->work_ret;
	fm_request_finish(r);
	return true;
}

bool fm_request_goes_on(struct fm_request *r)
{
	struct fm_store_ref *ref = r->store_ref;
	bool is_asked = ref->store->ops->space || ref->store->is_silent;

	if (r->verb == FM_VERB_FREE && r->work_ret == 0 && ref->store->silent_code < 0) {
		r->work_ret = ref->store->silent_code;
		if (ref->store->silent_why[0])
			(void)fm_err_set(&r->work_err, r->work_ret, "store %s: %s",
					 ref->store->name, ref->store->silent_why);
	}
	if (r->verb != FM_VERB_FREE || r->is_at_room || r->work_ret < 0 ||
	    !is_asked || (r->is_any_store && !r->page.space.may_read))
		return false;
	if (silent_ns(r) > 0) {
		say_silent(r, silent_ns(r));
		return true;
	}
	if (ref->room_asked++ == 0)
		ref->room_asked_ns = fm_engine_now(r->engine);
	r->is_at_room = true;
	fm_request_start_work(r);
	return true;
}

void fm_request_take_room(struct fm_request *r)
{
	struct fm_store_space *space = &r->page.space;

	r->is_at_room = false;
	r->store_ref->room_asked--;
	r->store_ref->room_asked_ns = fm_engine_now(r->engine);
	r->store_ref->is_room_late = false;
	if (r->is_over)		/* what was said is being sent */
		return;
	r->room.may_read = space->may_read;
	r->room.may_write = space->may_write;
	*space = r->room;
}

/* Only the tick judges: it knows whether this process stood still, and the file system did not. */
void fm_request_check_room(struct fm_request *r)
{
	if (!r->is_at_room)
		return;
	if (asked_since_ns(r) >= PATIENCE_NS)
		r->store_ref->is_room_late = true;
	if (!r->is_over && silent_ns(r) > 0)
		say_silent(r, silent_ns(r));
}

void fm_request_fill_space(const struct fm_request *r, struct fm_wire_msg *m)
{
	const struct fm_space_page *p = &r->page;
	bool is_page = fm_verb_is_purge(r->verb);

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
		.code = p->space.code,
		.silent_ns = p->space.silent_ns,
		.count = (uint16_t)(is_page ? p->count : 0),
		.store = fm_wire_str(r->store)};
	for (size_t i = 0; i < m->space.count; i++)
		m->space.tree[i] = (struct fm_wire_aside){ .bytes = p->aside[i].bytes,
							   .since_ns = p->aside[i].since_ns,
							   .path = fm_wire_str(p->aside[i].path) };
}

/*
 * Whether an answer about room is about what was asked. When all stores are asked for, each name
 * must be behind the last one: otherwise a peer could send stores without end.
 */
static bool is_space_asked(const struct fm_request *r, const struct fm_wire_space *m)
{
	char name[FM_WIRE_NAME_MAX + 1];

	(void)snprintf(name, sizeof(name), "%.*s", (int)m->store.len, m->store.at);
	if (!fm_request_is_about_space(r))
		return false;
	return r->store[0] ? strcmp(name, r->store) == 0 : !name[0] || strcmp(name, r->after) > 0;
}

static void take_space(struct fm_request *r, const struct fm_wire_space *m)
{
	struct fm_space_page *p = &r->page;

	*p = (struct fm_space_page){ .space = { .size = m->size,
						.free = m->free,
						.used = m->used,
						.quota = m->quota,
						.promised = m->promised,
						.aside = m->aside,
						.trees = m->trees,
						.silent_ns = m->silent_ns,
						.code = m->code,
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

void fm_request_on_space(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_space *m = &msg->space;
	struct fm_request *r = fm_request_asked(s, m->id);

	if (!r)
		return;
	if (is_space_asked(r, m))
		take_space(r, m);
	else
		r->code = fm_err_set(&r->err, -EPROTO, "%s: an answer to what was not asked",
				     s->name);
	fm_request_finish(r);
}
