/* SPDX-License-Identifier: MIT */
/* request_ask - what local callers ask, of this node or another. See request_priv.h. */
#include "mover/services/request_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/services/target.h"

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
	if ((o->keep > 0 || o->is_later) &&
	    (o->verb != FM_VERB_LINK || memchr(o->to, '/', o->to_len)))
		return fm_err_set(err, -EINVAL,
				  "what is kept, or published later, is what a link leads to "
				  "beside it: say a name");
	if (o->is_later && !o->may_replace)
		return fm_err_set(err, -EINVAL, "`is_later` is for a link that may be replaced");
	return o->keep > FM_WIRE_KEEP_MAX
		       ? fm_err_set(err, -EINVAL, "no more than the last %d can be kept",
				    FM_WIRE_KEEP_MAX)
		       : 0;
}

static int check_opts(struct fm_engine *e, const struct fm_request_opts *o, bool is_local,
		      struct fm_err *err)
{
	bool has_store = o->verb != FM_VERB_FREE || o->store[0];
	int ret = fm_target_check(e, is_local ? NULL : o->node, has_store ? o->store : NULL, err);

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
	if (fm_verb_is_naming(o->verb))
		return check_second(o, err);
	if (fm_verb_is_of_group(o->verb))
		return fm_request_check_group(o, err);
	if (o->may_replace)
		return fm_err_set(err, -EINVAL,
				  "`may_replace` is for MOVE, LINK and what publishes a group");
	if ((o->is_dry && !fm_verb_is_purge(o->verb)) ||
	    (o->path_len > 0 &&
	     (o->verb == FM_VERB_FREE || (fm_verb_is_purge(o->verb) && !o->is_dry))))
		return fm_err_set(err, -EINVAL,
				  "`is_dry` is for purges; neither they nor FREE have a path");
	return 0;
}

static void take_opts(struct fm_request *r, const struct fm_request_opts *o)
{
	r->is_ours = true;
	r->verb = o->verb;
	r->is_recursive = o->is_recursive;
	r->is_dry = o->is_dry;
	r->may_replace = o->may_replace;
	r->is_later = o->is_later;
	r->keep = o->keep;
	(void)snprintf(r->store, sizeof(r->store), "%s", o->store);
	(void)snprintf(r->after, sizeof(r->after), "%s", o->after ? o->after : "");
	r->who = o->who;
	if (o->who.peer) {
		(void)snprintf(r->who_peer, sizeof(r->who_peer), "%s", o->who.peer);
		r->who.peer = r->who_peer;
	}
	if (o->timeout_ns)
		r->deadline_ns = fm_engine_now(r->engine) + o->timeout_ns;
}

static int take_place(struct fm_requests *all, const struct fm_who *who,
		      struct fm_share_held *place, struct fm_err *err)
{
	if (who->peer)
		return fm_share_take(&all->peer_places, fm_share_name(who->peer), 1, place, err);
	return fm_share_take(&all->places, fm_share_user(who->uid), 1, place, err);
}

int fm_request_start(struct fm_engine *e, const struct fm_request_opts *o,
		     void (*done)(void *ctx, const struct fm_request_result *result), void *ctx,
		     struct fm_err *err)
{
	bool is_local = !o->node || strcmp(o->node, e->name) == 0,
	     is_any_store = o->store[0] == '\0';
	struct fm_share_held place = { 0 };
	struct fm_store_ref *ref = NULL;
	struct fm_request *r = NULL;
	struct fm_err lost = { 0 };
	int ret = check_opts(e, o, is_local, err);

	if (ret < 0)
		return ret;
	if (is_local && !is_any_store)
		ret = fm_target_store(e, o->store, strlen(o->store), &ref, err);
	if (ret < 0)
		return ret;
	ret = take_place(fm_requests_of(e), &o->who, &place, err);
	if (ret == 0)
		r = fm_request_new(e, o->path, o->path_len,
				   fm_verb_is_naming(o->verb) ? o->to : NULL,
				   fm_verb_is_naming(o->verb) ? o->to_len : 0);
	if (!r) {
		fm_share_give_all(&place);
		if (ref)
			fm_engine_store_put(ref);
		return ret < 0 ? ret : fm_err_sys(err, -ENOMEM, "allocate the request");
	}
	r->place = place;
	take_opts(r, o);
	if (o->group && fm_request_set_group(r, o->group) < 0) {
		r->is_reported = true;	/* by the code here */
		r->store_ref = ref;
		fm_request_free_later(r);
		return fm_err_sys(err, -ENOMEM, "allocate the request");
	}
	r->done = done;
	r->ctx = ctx;
	if (is_local && is_any_store) {
		r->is_any_store = true;
		fm_request_next_store(r);
		return 0;
	}
	if (is_local) {
		r->store_ref = ref;
		fm_request_start_work(r);
		return 0;
	}
	r->peer = fm_engine_peer(e, o->node);
	if (!r->peer->session)
		fm_peer_need(r->peer);
	else if (fm_session_is_lost(r->peer->session, &lost))
		fm_request_fail(r, &lost);
	else
		fm_request_send(r, r->peer->session);
	return 0;
}

void fm_request_send(struct fm_request *r, struct fm_session *s)
{
	struct fm_wire_msg m = { .type = FM_WIRE_REQUEST };

	r->session = s;
	r->peer = NULL;
	r->id = fm_session_new_id(s);
	m.request = (struct fm_wire_request){
		.flags = (uint16_t)((r->is_recursive ? FM_WIRE_REQUEST_RECURSIVE : 0) |
				    (r->is_dry ? FM_WIRE_REQUEST_DRY : 0) |
				    (r->may_replace ? FM_WIRE_REQUEST_REPLACE : 0) |
				    (r->is_later ? FM_WIRE_REQUEST_LATER : 0)),
		.id = r->id,
		.verb = (uint8_t)r->verb,
		.uid = r->who.uid,
		.gid = r->who.gid,
		.store = fm_wire_str(r->store),
		.path = {r->path, r->path_len},
		.after = fm_wire_str(r->after),
		.to = {r->to, r->to_len},
		.keep = r->keep};
	if (r->group)
		fm_request_fill_group(r, &m.request);
	fm_session_send(s, &m);
}

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

/*
 * Takes the ID of a shared store, or the name of the node that writes to its volume. Both must have
 * the form of a name.
 */
static void take_shared(struct fm_request *r, const struct fm_wire_reply *m)
{
	const struct fm_wire_str *id = &m->text;

	if (id->len > FM_SHARED_LEN_MAX || !fm_wire_is_good_name(id->at, id->len)) {
		r->code = fm_err_set(&r->err, -EPROTO, "an ID of a shared store that cannot be");
		return;
	}
	r->is_sealed = m->flags & FM_WIRE_REPLY_SEALED;
	(void)snprintf(m->flags & FM_WIRE_REPLY_WRITTEN ? r->written_by : r->shared,
		       sizeof(r->shared), "%.*s", (int)id->len, id->at);
}

/* Names go upwards, from behind the last one on: else a peer could list without end. Two unfinished
 * transfers may be of one name. */
static void check_list(struct fm_request *r, const char *peer)
{
	bool is_listed = r->count == 0 || strcmp(r->entries[0].name, r->after) > 0;

	for (size_t i = 1; i < r->count && is_listed; i++)
		is_listed = strcmp(r->entries[i].name, r->entries[i - 1].name) >= 0;
	if (!is_listed)
		r->code = fm_err_set(&r->err, -EPROTO, "%s: a list that is in no order", peer);
}

static void take_error(struct fm_request *r, const char *peer, const struct fm_wire_reply *m)
{
	(void)fm_err_set(&r->err, r->code, "%s: %.*s", peer, (int)m->text.len, m->text.at);
	r->err.is_rule = r->code == -EACCES;
	if (r->code == -ENODATA && fm_verb_is_of_group(r->verb))
		fm_request_take_missing(r, &m->says);
}

static bool is_of_one(const struct fm_request *r)
{
	return r->verb == FM_VERB_STAT || r->verb == FM_VERB_LOOK;
}

void fm_request_on_reply(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_reply *m = &msg->reply;
	struct fm_request *r = fm_request_asked(s, m->id);

	if (!r)
		return;
	r->code = -(int)m->code;
	if (m->code)
		take_error(r, s->name, m);
	else if ((is_of_one(r) && m->count != 1) || fm_request_is_about_space(r) ||
		 r->verb == FM_VERB_GROUP_LIST)
		r->code = fm_err_set(&r->err, -EPROTO, "%s: an answer without what was asked for",
				     s->name);
	else if (r->verb == FM_VERB_STAT && m->text.len > 0)
		take_shared(r, m);
	else if (r->keep > 0)
		(void)snprintf(r->stays, sizeof(r->stays), "%.*s", (int)m->text.len, m->text.at);
	if (r->verb == FM_VERB_LOOK)
		/* fits: it was checked */
		(void)snprintf(r->says, sizeof(r->says), "%.*s", (int)m->says.len, m->says.at);
	r->err.is_full = m->flags & FM_WIRE_REPLY_FULL;
	r->count = m->count;
	for (unsigned i = 0; i < m->count; i++)
		r->entries[i] = entry_of(&m->entry[i]);
	if (r->code == 0 && (r->verb == FM_VERB_LIST || r->verb == FM_VERB_PARTIALS))
		check_list(r, s->name);
	r->is_more = m->flags & FM_WIRE_REPLY_MORE;
	fm_request_finish(r);
}
