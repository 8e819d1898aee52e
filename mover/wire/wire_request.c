/* SPDX-License-Identifier: MIT */
/*
 * wire_request - the messages about stores: REQUEST, REPLY, SPACE, GROUPS.
 */
#include <errno.h>
#include <string.h>

#include "mover/wire/codec.h"

/* enum fm_node_type; the store's header is not ours to include */
#define ENTRY_TYPE_MAX 4
#define REPLY_HEAD_LEN (4 + 8 + 4 + 2)
#define ENTRY_HEAD_LEN (1 + 3 + 4 + 8 + 8 + 8)
_Static_assert(REPLY_HEAD_LEN + 2 + FM_WIRE_TEXT_MAX + 2 +
			       FM_WIRE_ENTRIES_MAX *
				       (ENTRY_HEAD_LEN + 2 + FM_WIRE_ENTRY_NAME_MAX) <=
		       FM_WIRE_MSG_MAX,
	       "the largest REPLY fits a message");

static bool is_of_group(unsigned verb)
{
	return verb >= FM_WIRE_GROUP_BEGIN && verb <= FM_WIRE_GROUP_DISCARD;
}

static void put_request(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->request.id);
	fm_put_u8(w, m->request.verb);
	fm_wire_put_zeros(w, 3);
	fm_put_le32(w, m->request.uid);
	fm_put_le32(w, m->request.gid);
	fm_wire_put_str(w, &m->request.store);
	fm_wire_put_str(w, &m->request.path);
	fm_wire_put_str(w, &m->request.after);
	fm_wire_put_str(w, &m->request.to);
	if (m->request.verb == FM_WIRE_LINK)
		fm_put_le32(w, m->request.keep);
	if (!is_of_group(m->request.verb))
		return;
	fm_put_bytes(w, m->request.group, FM_WIRE_GROUP_LEN);
	fm_put_le64(w, m->request.expires_s);
	fm_put_le32(w, m->request.members);
	fm_wire_put_str(w, &m->request.expect);
}

static void get_group(struct fm_reader *r, struct fm_wire_request *q)
{
	memset(q->group, 0, FM_WIRE_GROUP_LEN);
	q->expires_s = q->members = 0;
	q->expect = (struct fm_wire_str){ .len = 0 };
	if (!is_of_group(q->verb))
		return;
	fm_get_bytes(r, q->group, FM_WIRE_GROUP_LEN);
	q->expires_s = fm_get_le64(r);
	q->members = fm_get_le32(r);
	fm_wire_get_str(r, &q->expect);
}

static int get_request(struct fm_reader *r, struct fm_wire_msg *m)
{
	int ret;

	m->request.id = fm_get_le64(r);
	m->request.verb = fm_get_u8(r);
	ret = fm_wire_get_zeros(r, 3);
	m->request.uid = fm_get_le32(r);
	m->request.gid = fm_get_le32(r);
	fm_wire_get_str(r, &m->request.store);
	fm_wire_get_str(r, &m->request.path);
	fm_wire_get_str(r, &m->request.after);
	fm_wire_get_str(r, &m->request.to);
	m->request.keep = m->request.verb == FM_WIRE_LINK ? fm_get_le32(r) : 0;
	get_group(r, &m->request);
	return ret;
}

static size_t after_max(const struct fm_wire_request *q)
{
	switch (q->verb) {
	case FM_WIRE_LIST:
	case FM_WIRE_PARTIALS:
		return FM_WIRE_ENTRY_NAME_MAX;
	case FM_WIRE_FREE:
		return q->store.len == 0 ? FM_WIRE_NAME_MAX : 0;
	default:
		return 0;
	}
}

static int check_group(const struct fm_wire_request *q)
{
	bool is_begin = q->verb == FM_WIRE_GROUP_BEGIN,
	     is_discard = q->verb == FM_WIRE_GROUP_DISCARD;

	if (q->path.len == 0 || !fm_wire_is_text(&q->expect, FM_WIRE_EXPECT_MAX))
		return -ERANGE;
	if (q->expires_s > FM_WIRE_EXPIRES_MAX || (q->expires_s > 0 && !is_begin))
		return -ERANGE;
	return is_discard && (q->members > 0 || q->expect.len > 0) ? -ERANGE : 0;
}

/* What is kept, and what was published later, is told by names in one directory. */
static bool is_lead_good(const struct fm_wire_request *q)
{
	bool is_later = q->flags & FM_WIRE_REQUEST_LATER;

	return (q->keep == 0 && !is_later) ||
	       (q->keep <= FM_WIRE_KEEP_MAX && !memchr(q->to.at, '/', q->to.len));
}

static int check_request(const struct fm_wire_msg *m)
{
	const struct fm_wire_request *q = &m->request;
	bool is_purge = q->verb == FM_WIRE_PURGE || q->verb == FM_WIRE_PURGE_PARTIALS;
	bool is_free = q->verb == FM_WIRE_FREE;
	bool has_to = q->verb == FM_WIRE_MOVE || q->verb == FM_WIRE_LINK;

	if (q->verb < FM_WIRE_STAT || q->verb > FM_WIRE_LOOK)
		return -ERANGE;
	if ((q->flags & FM_WIRE_REQUEST_RECURSIVE) && q->verb != FM_WIRE_REMOVE)
		return -EPROTO;
	if ((q->flags & FM_WIRE_REQUEST_DRY) && !is_purge)
		return -EPROTO;
	if ((q->flags & FM_WIRE_REQUEST_REPLACE) && !has_to &&
	    (!is_of_group(q->verb) || q->verb == FM_WIRE_GROUP_DISCARD))
		return -EPROTO;
	if ((q->flags & FM_WIRE_REQUEST_LATER) &&
	    (q->verb != FM_WIRE_LINK || !(q->flags & FM_WIRE_REQUEST_REPLACE)))
		return -EPROTO;
	if (is_of_group(q->verb) && check_group(q) < 0)
		return -ERANGE;
	if (!fm_wire_is_name(&q->store, is_free ? 0 : 1, FM_WIRE_NAME_MAX) ||
	    !fm_wire_is_text(&q->path, FM_WIRE_PATH_MAX))
		return -ERANGE;
	if (q->path.len > 0 && (is_free || (is_purge && !(q->flags & FM_WIRE_REQUEST_DRY))))
		return -ERANGE;
	if (has_to != (q->to.len > 0) || !fm_wire_is_text(&q->to, FM_WIRE_PATH_MAX))
		return -ERANGE;
	if (!is_lead_good(q))
		return -ERANGE;
	return fm_wire_is_name(&q->after, 0, after_max(q)) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_request = {
	.name = "REQUEST",
	.flags = FM_WIRE_REQUEST_FLAGS,
	.put = put_request,
	.get = get_request,
	.check = check_request,
};

static void put_entry(struct fm_writer *w, const struct fm_wire_entry *e)
{
	fm_put_u8(w, e->type);
	fm_wire_put_zeros(w, 3);
	fm_put_le32(w, e->mode);
	fm_put_le64(w, e->size);
	fm_put_le64(w, (uint64_t)e->mtime_ns);
	fm_put_le64(w, e->whole);
	fm_wire_put_str(w, &e->name);
}

static int get_entry(struct fm_reader *r, struct fm_wire_entry *e)
{
	int ret;

	e->type = fm_get_u8(r);
	ret = fm_wire_get_zeros(r, 3);
	e->mode = fm_get_le32(r);
	e->size = fm_get_le64(r);
	e->mtime_ns = (int64_t)fm_get_le64(r);
	e->whole = fm_get_le64(r);
	fm_wire_get_str(r, &e->name);
	return ret;
}

/* "." and ".." are refused: whoever walks a tree by these names must never be led out of it. */
static int check_entry(const struct fm_wire_entry *e)
{
	const struct fm_wire_str *n = &e->name;

	if (e->type < 1 || e->type > ENTRY_TYPE_MAX || e->mode > FM_WIRE_MODE_MAX ||
	    e->size > FM_WIRE_SIZE_MAX)
		return -ERANGE;
	if (e->whole > FM_WIRE_SIZE_MAX && e->whole != FM_WIRE_SIZE_UNKNOWN)
		return -ERANGE;
	if ((n->len == 1 || n->len == 2) && memcmp(n->at, "..", n->len) == 0)
		return -ERANGE;
	return fm_wire_is_name(n, 0, FM_WIRE_ENTRY_NAME_MAX) ? 0 : -ERANGE;
}

static void put_reply(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->reply.id);
	fm_put_le32(w, m->reply.code);
	fm_put_le16(w, m->reply.count);
	fm_wire_put_str(w, &m->reply.text);
	fm_wire_put_str(w, &m->reply.says);
	for (unsigned i = 0; i < m->reply.count; i++)
		put_entry(w, &m->reply.entry[i]);
}

static int get_reply(struct fm_reader *r, struct fm_wire_msg *m)
{
	int ret = 0;

	m->reply.id = fm_get_le64(r);
	m->reply.code = fm_get_le32(r);
	m->reply.count = fm_get_le16(r);
	fm_wire_get_str(r, &m->reply.text);
	fm_wire_get_str(r, &m->reply.says);
	if (m->reply.count > FM_WIRE_ENTRIES_MAX)
		return -ERANGE;
	for (unsigned i = 0; i < m->reply.count && ret == 0; i++)
		ret = get_entry(r, &m->reply.entry[i]);
	return ret;
}

/* How long what `says` has may be. */
static size_t says_max(const struct fm_wire_reply *p)
{
	if (p->code == ENODATA)
		return FM_WIRE_MISSING_MAX;
	return p->count == 1 ? FM_WIRE_PATH_MAX : 0;
}

/* MORE without an entry would have the other side ask the same again for ever. */
static int check_reply(const struct fm_wire_msg *m)
{
	const struct fm_wire_reply *p = &m->reply;
	int ret = 0;

	if (p->code > FM_WIRE_CODE_MAX || p->count > FM_WIRE_ENTRIES_MAX ||
	    (p->code != 0 && p->count != 0))
		return -ERANGE;
	if ((p->flags & FM_WIRE_REPLY_MORE) && p->count == 0)
		return -EPROTO;
	if ((p->flags & FM_WIRE_REPLY_FULL) && p->code != EBUSY)
		return -EPROTO;
	if ((p->flags & FM_WIRE_REPLY_SEALED) && (p->flags & FM_WIRE_REPLY_WRITTEN))
		return -EPROTO;
	if ((p->flags & (FM_WIRE_REPLY_SEALED | FM_WIRE_REPLY_WRITTEN)) &&
	    (p->code != 0 || p->text.len == 0))
		return -EPROTO;
	if (!fm_wire_is_text(&p->text, FM_WIRE_TEXT_MAX))
		return -ERANGE;
	if (!fm_wire_is_text(&p->says, says_max(p)))
		return -ERANGE;
	for (unsigned i = 0; i < p->count && ret == 0; i++)
		ret = check_entry(&p->entry[i]);
	return ret;
}

const struct fm_wire_codec fm_wire_codec_reply = {
	.name = "REPLY",
	.flags = FM_WIRE_REPLY_FLAGS,
	.put = put_reply,
	.get = get_reply,
	.check = check_reply,
};

static void put_space(struct fm_writer *w, const struct fm_wire_msg *m)
{
	const struct fm_wire_space *p = &m->space;

	fm_put_le64(w, p->id);
	fm_put_le64(w, p->size);
	fm_put_le64(w, p->free);
	fm_put_le64(w, p->used);
	fm_put_le64(w, p->quota);
	fm_put_le64(w, p->promised);
	fm_put_le64(w, p->aside);
	fm_put_le32(w, p->trees);
	fm_put_le16(w, p->count);
	fm_put_le16(w, p->code);
	fm_put_le64(w, p->silent_ns);
	fm_wire_put_str(w, &p->store);
	for (unsigned i = 0; i < p->count; i++) {
		fm_put_le64(w, p->tree[i].bytes);
		fm_put_le64(w, (uint64_t)p->tree[i].since_ns);
		fm_wire_put_str(w, &p->tree[i].path);
	}
}

static int get_space(struct fm_reader *r, struct fm_wire_msg *m)
{
	struct fm_wire_space *p = &m->space;

	p->id = fm_get_le64(r);
	p->size = fm_get_le64(r);
	p->free = fm_get_le64(r);
	p->used = fm_get_le64(r);
	p->quota = fm_get_le64(r);
	p->promised = fm_get_le64(r);
	p->aside = fm_get_le64(r);
	p->trees = fm_get_le32(r);
	p->count = fm_get_le16(r);
	if (p->count > FM_WIRE_ASIDE_MAX)
		return -ERANGE;
	p->code = fm_get_le16(r);
	p->silent_ns = fm_get_le64(r);
	fm_wire_get_str(r, &p->store);
	for (unsigned i = 0; i < p->count; i++) {
		p->tree[i].bytes = fm_get_le64(r);
		p->tree[i].since_ns = (int64_t)fm_get_le64(r);
		fm_wire_get_str(r, &p->tree[i].path);
	}
	return 0;
}

/* MORE without one would have the other side ask the same again for ever. */
static int check_space(const struct fm_wire_msg *m)
{
	const struct fm_wire_space *p = &m->space;

	if (p->count > FM_WIRE_ASIDE_MAX || p->code > FM_WIRE_CODE_MAX ||
	    !fm_wire_is_name(&p->store, 0, FM_WIRE_NAME_MAX))
		return -ERANGE;
	if ((p->flags & FM_WIRE_SPACE_MORE) && p->count == 0)
		return -EPROTO;
	for (unsigned i = 0; i < p->count; i++)
		if (p->tree[i].path.len == 0 ||
		    !fm_wire_is_text(&p->tree[i].path, FM_WIRE_PATH_MAX))
			return -ERANGE;
	return 0;
}

const struct fm_wire_codec fm_wire_codec_space = {
	.name = "SPACE",
	.flags = FM_WIRE_SPACE_FLAGS,
	.put = put_space,
	.get = get_space,
	.check = check_space,
};

static void put_groups(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->groups.id);
	fm_put_le16(w, m->groups.count);
	fm_wire_put_zeros(w, 2);
	for (unsigned i = 0; i < m->groups.count; i++) {
		const struct fm_wire_group *g = &m->groups.group[i];

		fm_put_le64(w, (uint64_t)g->begun_ns);
		fm_put_le64(w, (uint64_t)g->expires_ns);
		fm_put_le32(w, g->uid);
		fm_put_le32(w, g->expected);
		fm_put_le32(w, g->may_replace);
		for (unsigned k = 0; k < FM_WIRE_MEMBERS_COUNT; k++)
			fm_put_le32(w, g->count[k]);
		fm_wire_put_str(w, &g->path);
		fm_wire_put_str(w, &g->peer);
		for (unsigned k = 0; k < FM_WIRE_MEMBERS_COUNT; k++)
			fm_wire_put_str(w, &g->names[k]);
	}
}

static int get_groups(struct fm_reader *r, struct fm_wire_msg *m)
{
	int ret;

	m->groups.id = fm_get_le64(r);
	m->groups.count = fm_get_le16(r);
	if (m->groups.count > FM_WIRE_GROUPS_MAX)
		return -ERANGE;
	ret = fm_wire_get_zeros(r, 2);
	for (unsigned i = 0; i < m->groups.count; i++) {
		struct fm_wire_group *g = &m->groups.group[i];

		g->begun_ns = (int64_t)fm_get_le64(r);
		g->expires_ns = (int64_t)fm_get_le64(r);
		g->uid = fm_get_le32(r);
		g->expected = fm_get_le32(r);
		g->may_replace = fm_get_le32(r);
		for (unsigned k = 0; k < FM_WIRE_MEMBERS_COUNT; k++)
			g->count[k] = fm_get_le32(r);
		fm_wire_get_str(r, &g->path);
		fm_wire_get_str(r, &g->peer);
		for (unsigned k = 0; k < FM_WIRE_MEMBERS_COUNT; k++)
			fm_wire_get_str(r, &g->names[k]);
	}
	return ret;
}

/* Times before 1970 are refused: their age could not be said. */
static int check_group_of_list(const struct fm_wire_group *g)
{
	if (g->begun_ns < 0 || g->expires_ns < 0 || g->may_replace > 1)
		return -ERANGE;
	if (g->path.len == 0 || !fm_wire_is_text(&g->path, FM_WIRE_PATH_MAX) ||
	    !fm_wire_is_name(&g->peer, 0, FM_WIRE_NAME_MAX))
		return -ERANGE;
	for (unsigned k = 0; k < FM_WIRE_MEMBERS_COUNT; k++)
		if (!fm_wire_is_text(&g->names[k], FM_WIRE_GROUP_NAMES_MAX))
			return -ERANGE;
	return 0;
}

/* MORE without one would have the other side ask the same again for ever. */
static int check_groups(const struct fm_wire_msg *m)
{
	const struct fm_wire_groups *p = &m->groups;
	int ret = p->count > FM_WIRE_GROUPS_MAX ? -ERANGE : 0;

	if ((p->flags & FM_WIRE_GROUPS_MORE) && p->count == 0)
		return -EPROTO;
	for (unsigned i = 0; i < p->count && ret == 0; i++)
		ret = check_group_of_list(&p->group[i]);
	return ret;
}

const struct fm_wire_codec fm_wire_codec_groups = {
	.name = "GROUPS",
	.flags = FM_WIRE_GROUPS_FLAGS,
	.put = put_groups,
	.get = get_groups,
	.check = check_groups,
};
