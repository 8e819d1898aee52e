/* SPDX-License-Identifier: MIT */
/* request_group - what is asked of a publication group. See request_priv.h. */
#include "mover/services/request_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/fault.h"

_Static_assert(FM_GROUP_PAGE_MAX == FM_WIRE_GROUPS_MAX &&
		       FM_GROUP_NAMES_LEN == FM_WIRE_GROUP_NAMES_MAX &&
		       FM_GROUP_PEER_MAX >= FM_WIRE_NAME_MAX,
	       "a page of groups is one message");
_Static_assert(FM_GROUP_ID_LEN == FM_WIRE_GROUP_LEN && FM_GROUP_EXPECT_MAX == FM_WIRE_EXPECT_MAX,
	       "what is asked of a group is one message");

bool fm_verb_is_of_group(enum fm_verb verb)
{
	return verb >= FM_VERB_GROUP_BEGIN && verb <= FM_VERB_GROUP_DISCARD;
}

int fm_request_check_group(const struct fm_request_opts *o, struct fm_err *err)
{
	const struct fm_group_ask *g = o->group;
	bool is_discard = o->verb == FM_VERB_GROUP_DISCARD;

	if (o->path_len == 0)
		return fm_err_set(err, -EISDIR,
				  "the store itself is no group's; name a directory in it");
	if (g->expect_len > FM_GROUP_EXPECT_MAX)
		return fm_err_set(err, -EINVAL, "the names expected have more than %d bytes",
				  FM_GROUP_EXPECT_MAX);
	if (g->expires_s > FM_WIRE_EXPIRES_MAX)
		return fm_err_set(err, -EINVAL, "a group ends after a year at most");
	if ((g->expires_s > 0 && o->verb != FM_VERB_GROUP_BEGIN) ||
	    (is_discard && (o->may_replace || g->members > 0 || g->expect_len > 0)))
		return fm_err_set(err, -EINVAL,
				  "`expires_s` is for GROUP_BEGIN, and GROUP_DISCARD expects "
				  "nothing");
	return g->expect_len > 0 && memchr(g->expect, '\0', g->expect_len)
		       ? fm_err_set(err, -EINVAL, "the names expected hold a NUL byte")
		       : 0;
}

int fm_request_set_group(struct fm_request *r, const struct fm_group_ask *ask)
{
	struct fm_group_ask *g = FM_FAULT("request.group") ? NULL
							   : malloc(sizeof(*g) + ask->expect_len);

	if (!g)
		return -ENOMEM;
	*g = *ask;
	g->op = (enum fm_group_op)(r->verb - FM_VERB_GROUP_BEGIN);
	g->may_replace = r->may_replace;
	/* the names stand behind it */
	g->expect = ask->expect_len > 0 ? memcpy(g + 1, ask->expect, ask->expect_len) : NULL;
	r->group = g;
	return 0;
}

int fm_request_set_peers_group(struct fm_request *r, const struct fm_wire_request *m)
{
	struct fm_group_ask ask = { .expires_s = m->expires_s,
				    .members = m->members,
				    .expect = m->expect.at,
				    .expect_len = m->expect.len };

	memcpy(ask.id, m->group, sizeof(ask.id));
	return fm_request_set_group(r, &ask) < 0 ? fm_err_set(&r->err, -ENOMEM, "out of memory")
						 : 0;
}

void fm_request_fill_group(const struct fm_request *r, struct fm_wire_request *m)
{
	const struct fm_group_ask *g = r->group;

	memcpy(m->group, g->id, sizeof(m->group));
	m->expires_s = g->expires_s;
	m->members = g->members;
	m->expect = (struct fm_wire_str){ g->expect, g->expect_len };
}

int fm_request_run_group(struct fm_request *r, struct fm_store *s)
{
	if (!s->ops->group)
		return fm_err_set(&r->work_err, -ENOTSUP, "store %s has no groups", s->name);
	r->missing = (struct fm_group_names){.count = 0};
	r->group->missing = &r->missing;
	return s->ops->group(s, r->path, &r->who, r->group, &r->work_err);
}

/* ---- the members that are missing ---- */

void fm_request_note_missing(struct fm_request *r)
{
	const struct fm_group_names *m = &r->missing;

	(void)snprintf(r->says, sizeof(r->says), "%" PRIu32 "%s%s", m->count,
		       m->text[0] ? "\n" : "", m->text);	/* fits */
	r->has_missing = true;
}

void fm_request_take_missing(struct fm_request *r, const struct fm_wire_str *says)
{
	struct fm_group_names *m = &r->missing;
	char text[FM_WIRE_MISSING_MAX + 1], *end;
	unsigned long count;

	*m = (struct fm_group_names){.count = 0};
	r->has_missing = true;
	(void)snprintf(text, sizeof(text), "%.*s", (int)says->len, says->at);
	count = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || (*end && *end != '\n') || count > UINT32_MAX)
		return;
	m->count = (uint32_t)count;
	if (*end)
		(void)snprintf(m->text, sizeof(m->text), "%.*s", FM_GROUP_NAMES_LEN, end + 1);
}

/* ---- those that are open ---- */

int fm_request_run_group_list(struct fm_request *r, struct fm_store *s)
{
	r->groups.count = 0;
	r->groups.is_more = false;
	return s->ops->groups ? s->ops->groups(s, r->path, &r->who, &r->groups, &r->work_err) : 0;
}

static struct fm_wire_group wire_of(const struct fm_group_view *v)
{
	return (struct fm_wire_group){
		.begun_ns = v->begun_ns,
		.expires_ns = v->expires_ns,
		.uid = v->uid,
		.expected = v->expected,
		.may_replace = v->may_replace,
		.count = {v->there.count, v->coming.count, v->missing.count},
		.path = fm_wire_str(v->path),
		.peer = fm_wire_str(v->peer),
		.names = {fm_wire_str(v->there.text), fm_wire_str(v->coming.text),
			  fm_wire_str(v->missing.text)}};
}

void fm_request_fill_groups(const struct fm_request *r, struct fm_wire_msg *m)
{
	m->type = FM_WIRE_GROUPS;
	m->groups = (struct fm_wire_groups){.flags = r->groups.is_more ? FM_WIRE_GROUPS_MORE : 0,
					    .id = r->id,
					    .count = (uint16_t)r->groups.count};
	for (size_t i = 0; i < r->groups.count; i++)
		m->groups.group[i] = wire_of(&r->groups.group[i]);
}

static void take_names(const struct fm_wire_group *g, enum fm_wire_members kind,
		       struct fm_group_names *out)
{
	out->count = g->count[kind];
	(void)snprintf(out->text, sizeof(out->text), "%.*s", (int)g->names[kind].len,
		       g->names[kind].at);
}

static void take_group(const struct fm_wire_group *g, struct fm_group_view *v)
{
	v->begun_ns = g->begun_ns;
	v->expires_ns = g->expires_ns;
	v->uid = g->uid;
	v->expected = g->expected;
	v->may_replace = g->may_replace;
	(void)snprintf(v->path, sizeof(v->path), "%.*s", (int)g->path.len, g->path.at);
	(void)snprintf(v->peer, sizeof(v->peer), "%.*s", (int)g->peer.len, g->peer.at);
	take_names(g, FM_WIRE_THERE, &v->there);
	take_names(g, FM_WIRE_COMING, &v->coming);
	take_names(g, FM_WIRE_ABSENT, &v->missing);
}

/*
 * Takes a page of groups, each behind the last one: otherwise a peer could send groups without end.
 */
void fm_request_on_groups(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_groups *m = &msg->groups;
	struct fm_request *r = fm_request_asked(s, m->id);
	bool is_asked = r && r->verb == FM_VERB_GROUP_LIST;
	const char *last;

	if (!r)
		return;
	last = r->path;
	for (unsigned i = 0; i < m->count && is_asked; i++) {
		take_group(&m->group[i], &r->groups.group[i]);
		is_asked = strcmp(r->groups.group[i].path, last) > 0;
		last = r->groups.group[i].path;
	}
	r->groups.count = is_asked ? m->count : 0;
	r->groups.is_more = m->flags & FM_WIRE_GROUPS_MORE;
	if (!is_asked)
		r->code = fm_err_set(&r->err, -EPROTO, "%s: an answer to what was not asked",
				     s->name);
	fm_request_finish(r);
}
