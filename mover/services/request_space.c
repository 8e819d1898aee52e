/* SPDX-License-Identifier: MIT */
/* request_space - room and rights of a store; what purge removes. See request_priv.h. */
#include "mover/services/request_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Asks a store for its room and rights. Who asks for all stores hears also of a store that he may
 * only write to, but not what is in it. A store that has no limit has no numbers.
 */
static int room_run(struct fm_request *r, struct fm_store *s)
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

int fm_request_run_space(struct fm_request *r, struct fm_store *s)
{
	struct fm_space_page *p = &r->page;
	fm_store_purge *purge;

	*p = (struct fm_space_page){.space = {.size = FM_SIZE_UNKNOWN, .free = FM_SIZE_UNKNOWN}};
	if (r->verb == FM_VERB_FREE)
		return room_run(r, s);
	purge = r->verb == FM_VERB_PURGE ? s->ops->purge : s->ops->purge_partials;
	return purge ? purge(s, r->path, &r->who, r->is_dry, p, &r->work_err) : 0;
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
