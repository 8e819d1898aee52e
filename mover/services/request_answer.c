/* SPDX-License-Identifier: MIT */
/* request_answer - what a peer asks of this node. See request_priv.h. */
#include "mover/services/request_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "mover/services/target.h"

static uint16_t reply_full(const struct fm_err *why)
{
	return why->is_full && why->code == -EBUSY ? FM_WIRE_REPLY_FULL : 0;
}

static uint16_t reply_flags(const struct fm_request *r)
{
	if (r->code)
		return reply_full(&r->err);
	return (uint16_t)((r->is_more ? FM_WIRE_REPLY_MORE : 0) |
			  (r->is_sealed ? FM_WIRE_REPLY_SEALED : 0) |
			  (r->written_by[0] ? FM_WIRE_REPLY_WRITTEN : 0));
}

static const char *text_of(const struct fm_request *r)
{
	if (r->code)
		return r->err.text;
	if (r->verb == FM_VERB_LINK)
		return r->stays;
	return r->written_by[0] ? r->written_by : r->shared;
}

static const char *says_of(const struct fm_request *r)
{
	return r->code == 0 || r->has_missing ? r->says : "";
}

void fm_request_answer(struct fm_request *r)
{
	struct fm_wire_msg *m = malloc(sizeof(*m));

	if (!m)
		return;		/* the asker's own deadline tells it */
	if (r->code == 0 && fm_request_is_about_space(r)) {
		fm_request_fill_space(r, m);
		fm_session_send(r->session, m);
		free(m);
		return;
	}
	if (r->code == 0 && r->verb == FM_VERB_GROUP_LIST) {
		fm_request_fill_groups(r, m);
		fm_session_send(r->session, m);
		free(m);
		return;
	}
	m->type = FM_WIRE_REPLY;
	m->reply = (struct fm_wire_reply){.flags = reply_flags(r),
					  .id = r->id,
					  .code = (uint32_t)(r->code ? -fm_err_told(&r->err) : 0),
					  .count = (uint16_t)(r->code ? 0 : r->count),
					  .text = fm_wire_str(text_of(r)),
					  .says = fm_wire_str(says_of(r))};
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

static void refuse(struct fm_session *s, uint64_t id, const struct fm_err *why)
{
	struct fm_wire_msg m = { .type = FM_WIRE_REPLY };

	m.reply = (struct fm_wire_reply){ .flags = reply_full(why),
					  .id = id,
					  .code = (uint32_t)-fm_err_told(why),
					  .text = fm_wire_str(why->text) };
	fm_session_send(s, &m);
}

void fm_request_on_request(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_request *m = &msg->request;
	struct fm_share_held place = { 0 };
	struct fm_engine *e = s->engine;
	struct fm_err err = { 0 };
	struct fm_request *r;
	int ret = fm_share_take(&fm_requests_of(e)->peer_places, fm_share_name(s->name), 1, &place,
				&err);

	if (ret < 0) {
		refuse(s, m->id, &err);
		return;
	}
	r = fm_request_new(e, m->path.at, m->path.len, m->to.len > 0 ? m->to.at : NULL, m->to.len);
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
	r->is_later = m->flags & FM_WIRE_REQUEST_LATER;
	r->keep = m->keep;
	(void)snprintf(r->after, sizeof(r->after), "%.*s", (int)m->after.len, m->after.at);
	(void)snprintf(r->who_peer, sizeof(r->who_peer), "%s", s->name);
	r->who = (struct fm_who){ .peer = r->who_peer, .uid = m->uid, .gid = m->gid };
	if (m->store.len == 0) {
		r->is_any_store = true;
		fm_request_next_store(r);
		return;
	}
	(void)snprintf(r->store, sizeof(r->store), "%.*s", (int)m->store.len, m->store.at);
	r->code = fm_target_store(e, m->store.at, m->store.len, &r->store_ref, &r->err);
	if (r->code == 0 && fm_verb_is_of_group(r->verb))
		r->code = fm_request_set_peers_group(r, m);
	if (r->code < 0)
		fm_request_finish(r);
	else
		fm_request_start_work(r);
}
