/* SPDX-License-Identifier: MIT */
/* elsewhere - see elsewhere.h. */
#include "staging/service/elsewhere.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/node/node.h"
#include "mover/node/session.h"
#include "staging/cache.h"
#include "staging/service/hub.h"
#include "staging/service/there.h"
#include "staging/service/together.h"

struct node {
	char name[FM_WIRE_NAME_MAX + 1];
	bool is_awaited;
	bool has_answered;
	struct fm_stage_answer answer;	/* if it has */
};

struct fm_elsewhere_ask {
	struct fm_list at;
	struct fm_elsewhere *all;
	struct fm_timer timer;
	struct fm_share_held place;
	unsigned count;
	struct node *node;		/* FM_ELSEWHERE_NODES_MAX */
	struct fm_stage_question question;
	void (*done)(void *ctx, const struct fm_elsewhere_ask *a);
	void *ctx;
};

void fm_elsewhere_init(struct fm_elsewhere *e)
{
	static const struct fm_share_limits limits = { .what = "questions to other nodes",
						       .total = FM_ELSEWHERE_ASKS_MAX,
						       .root = FM_ELSEWHERE_ASKS_MAX / 8,
						       .times = 1 };

	fm_list_init(&e->asks);
	fm_share_init(&e->places, &limits);
	e->last_id = 0;
}

static void say(struct fm_session *session, enum fm_wire_stage_kind kind, const uint8_t *body,
		size_t len)
{
	struct fm_wire_msg m = { .type = FM_WIRE_STAGE,
				 .stage = { .kind = (uint8_t)kind, .body = body, .len = len } };

	if (len > 0)
		fm_session_send(session, &m);
}

/* ---- asked by another node ---- */

static void tell_of(struct fm_elsewhere *e, const struct fm_cache_key *key, uint8_t *state,
		    uint64_t *bytes)
{
	uint64_t id = fm_cache_find_listing(e->cache, key);
	struct fm_cache_info info;

	*state = FM_STAGE_ABSENT;
	*bytes = 0;
	if (id == 0 || !fm_cache_look(e->cache, id, &info) || info.state == FM_CACHE_EVICTING ||
	    fm_hub_is_own(info.source))
		return;
	*bytes = info.bytes;
	if (info.state == FM_CACHE_READY)
		*state = FM_STAGE_READY;
	else if (e->is_coming(e->ctx, &info.listing))
		*state = FM_STAGE_COMING;
	else
		*state = FM_STAGE_PARTIAL;
	if (*state != FM_STAGE_READY && info.extents > 0)
		*bytes = info.bytes / info.extents * info.extents_done;
}

static void on_ask(struct fm_elsewhere *e, struct fm_session *session,
		   const struct fm_wire_stage *m)
{
	uint8_t body[FM_WIRE_STAGE_MAX];
	struct fm_stage_question q;
	struct fm_stage_answer a = { .code = -EOPNOTSUPP };
	struct fm_err err;

	if (fm_stage_question_decode(m->body, m->len, &q) < 0) {
		fm_session_protocol_error(session, "a question about datasets that cannot be");
		return;
	}
	/* One that asks more than it reads is not answered: it takes us for silent. */
	if (!fm_session_has_room(session))
		return;
	a.id = q.id;
	if (e)
		a.code = fm_togethers_may(e->togethers, session->name, &err);
	a.count = a.code == 0 ? q.count : 0;
	for (unsigned i = 0; i < a.count; i++)
		tell_of(e, &q.key[i], &a.at[i].state, &a.at[i].bytes);
	say(session, FM_WIRE_STAGE_SAYS, body, fm_stage_answer_encode(&a, body));
}

/* ---- asking ---- */

static void ask_free(struct fm_elsewhere_ask *a)
{
	fm_timer_clear(a->all->loop, &a->timer);
	fm_list_del(&a->at);
	fm_share_give_all(&a->place);
	free(a->node);
	free(a);
}

static void end(struct fm_elsewhere_ask *a)
{
	a->done(a->ctx, a);
	ask_free(a);
}

static void fire(struct fm_timer *timer)
{
	end(fm_container_of(timer, struct fm_elsewhere_ask, timer));
}

static void end_if_done(struct fm_elsewhere_ask *a)
{
	for (unsigned n = 0; n < a->count; n++)
		if (a->node[n].is_awaited)
			return;
	/* from the loop, so that done() never comes within fm_elsewhere_ask() */
	fm_timer_set(a->all->loop, &a->timer, fm_loop_now(a->all->loop));
}

static struct node *awaited(struct fm_elsewhere_ask *a, const char *name)
{
	for (unsigned n = 0; n < a->count; n++)
		if (a->node[n].is_awaited && strcmp(a->node[n].name, name) == 0)
			return &a->node[n];
	return NULL;
}

static void on_says(struct fm_elsewhere *e, struct fm_session *session,
		    const struct fm_wire_stage *m)
{
	struct fm_stage_answer answer;

	if (fm_stage_answer_decode(m->body, m->len, &answer) < 0) {
		fm_session_protocol_error(session, "an answer about datasets that cannot be");
		return;
	}
	fm_list_each(at, next, &e->asks) {
		struct fm_elsewhere_ask *a = fm_container_of(at, struct fm_elsewhere_ask, at);
		struct node *n = a->question.id == answer.id ? awaited(a, session->name) : NULL;

		if (!n)
			continue;
		if (answer.code == 0 && answer.count != a->question.count) {
			fm_session_protocol_error(session, "an answer about other datasets");
			return;
		}
		n->is_awaited = false;
		n->has_answered = true;
		n->answer = answer;
		end_if_done(a);
	}
}

void fm_elsewhere_message(struct fm_elsewhere *e, struct fm_session *session,
			  const struct fm_wire_msg *m)
{
	if (m->stage.kind == FM_WIRE_STAGE_ASK)
		on_ask(e, session, &m->stage);
	else if (e)
		on_says(e, session, &m->stage);
}

void fm_elsewhere_session_lost(struct fm_elsewhere *e, const struct fm_session *session)
{
	fm_list_each(at, next, &e->asks) {
		struct fm_elsewhere_ask *a = fm_container_of(at, struct fm_elsewhere_ask, at);
		struct node *n = awaited(a, session->name);

		if (n) {
			n->is_awaited = false;
			end_if_done(a);
		}
	}
}

void fm_elsewhere_stop(struct fm_elsewhere *e)
{
	fm_list_each(at, next, &e->asks)
		end(fm_container_of(at, struct fm_elsewhere_ask, at));
}

/* Whether a list of names between commas has that one. */
static bool is_named(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (*list) {
		size_t here = strcspn(list, ",");

		if (here == len && strncmp(list, name, len) == 0)
			return true;
		list += here + (list[here] == ',');
	}
	return false;
}

bool fm_elsewhere_means(const struct fm_elsewhere *e, const char *nodes, const char *peer)
{
	struct fm_err err;

	return strcmp(nodes, "all") == 0 ? fm_togethers_may(e->togethers, peer, &err) == 0
					 : is_named(nodes, peer);
}

/*
 * Asks that node, if the list has it; "all" has those that this node stages with. One that does not
 * read what it is sent is not asked, and counts as silent: more would end its session.
 */
static void ask_node(struct fm_elsewhere_ask *a, const char *nodes, const struct fm_peer *peer)
{
	struct fm_err err;
	int may = fm_togethers_may(a->all->togethers, peer->name, &err);
	uint8_t body[FM_WIRE_STAGE_MAX];
	struct node *n;

	if (!fm_elsewhere_means(a->all, nodes, peer->name) ||
	    a->count == FM_ELSEWHERE_NODES_MAX)
		return;
	n = &a->node[a->count++];
	(void)snprintf(n->name, sizeof(n->name), "%s", peer->name);
	if (may < 0) {
		n->has_answered = true;
		n->answer.code = may;
	} else if (peer->session && fm_session_has_room(peer->session)) {
		n->is_awaited = true;
		say(peer->session, FM_WIRE_STAGE_ASK, body,
		    fm_stage_question_encode(&a->question, body));
	}
}

static int ask_new(struct fm_elsewhere *e, const struct fm_elsewhere_question *q,
		   struct fm_elsewhere_ask **out, struct fm_err *err)
{
	struct fm_share_held place = { 0 };
	struct fm_elsewhere_ask *a;
	int ret = fm_share_take(&e->places, q->who, 1, &place, err);

	if (ret < 0)
		return ret;
	a = FM_FAULT("stage.elsewhere") ? NULL : calloc(1, sizeof(*a));
	if (a)
		a->node = calloc(FM_ELSEWHERE_NODES_MAX, sizeof(*a->node));
	if (!a || !a->node) {
		free(a);
		fm_share_give_all(&place);
		return fm_err_set(err, -ENOMEM, "no memory to ask other nodes");
	}
	a->all = e;
	a->place = place;
	a->done = q->done;
	a->ctx = q->ctx;
	a->timer.fire = fire;
	a->question.id = ++e->last_id;
	a->question.count = q->count;
	memcpy(a->question.key, q->keys, q->count * sizeof(*q->keys));
	fm_list_append(&e->asks, &a->at);
	*out = a;
	return 0;
}

int fm_elsewhere_ask(struct fm_elsewhere *e, const struct fm_elsewhere_question *q,
		     struct fm_elsewhere_ask **out, struct fm_err *err)
{
	struct fm_elsewhere_ask *a = NULL;
	uint64_t set;
	int ret = 0;

	if (strcmp(q->nodes, "all") != 0)
		ret = fm_togethers_nodes(e->togethers, q->nodes, &set, err);
	if (ret == 0)
		ret = ask_new(e, q, &a, err);
	if (ret < 0)
		return ret;
	fm_timer_set(e->loop, &a->timer, fm_loop_now(e->loop) + FM_ELSEWHERE_NS);
	fm_list_each(at, next, &e->engine->peers)
		ask_node(a, q->nodes, fm_container_of(at, struct fm_peer, at));
	end_if_done(a);
	*out = a;
	return 0;
}

void fm_elsewhere_forget(struct fm_elsewhere_ask *a)
{
	ask_free(a);
}

unsigned fm_elsewhere_key(const struct fm_elsewhere_ask *a, const struct fm_cache_key *key)
{
	unsigned i = 0;

	while (i < a->question.count && memcmp(&a->question.key[i], key, sizeof(*key)) != 0)
		i++;
	return i;
}

unsigned fm_elsewhere_nodes(const struct fm_elsewhere_ask *a)
{
	return a->count;
}

void fm_elsewhere_look(const struct fm_elsewhere_ask *a, unsigned node, unsigned key,
		       struct fm_elsewhere_node *out)
{
	static const char *const words[] = { [FM_STAGE_ABSENT] = "absent",
					     [FM_STAGE_PARTIAL] = "partial",
					     [FM_STAGE_COMING] = "fetching",
					     [FM_STAGE_READY] = "ready" };
	const struct node *n = &a->node[node];

	_Static_assert(sizeof(words) / sizeof(words[0]) == FM_STAGE_THERE_STATES,
		       "a state has no word");
	*out = (struct fm_elsewhere_node){ .name = n->name, .state = "silent" };
	if (key >= a->question.count) {
		out->state = "unknown";
	} else if (n->has_answered && n->answer.code < 0) {
		out->state = "refused";
	} else if (n->has_answered) {
		out->state = words[n->answer.at[key].state];
		out->bytes = n->answer.at[key].bytes;
	}
}
