/* SPDX-License-Identifier: MIT */
/* request_group - what is asked of a publication group. See request_priv.h. */
#include "mover/services/request_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/fault.h"

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
	return s->ops->group(s, r->path, &r->who, r->group, &r->work_err);
}
