/* SPDX-License-Identifier: MIT */
/* request - see request.h. */
#include "mover/services/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/services/request_priv.h"
#include "mover/store/access.h"

_Static_assert(FM_SPACE_ASIDE_MAX == FM_WIRE_ASIDE_MAX, "a page is one message");
_Static_assert(FM_ROTATED_MAX == FM_WIRE_ENTRIES_MAX && FM_KEEP_LAST_MAX == FM_WIRE_KEEP_MAX &&
		       FM_ERR_TEXT_MAX <= FM_WIRE_TEXT_MAX,
	       "what a rotation removed, and what stays, is one message");

#define TIMEOUT_NS (30 * FM_NS_PER_S)

struct fm_requests *fm_requests_of(const struct fm_engine *e)
{
	return fm_service_state(e, &fm_request_service);
}

bool fm_verb_is_purge(enum fm_verb verb)
{
	return verb == FM_VERB_PURGE || verb == FM_VERB_PURGE_PARTIALS;
}

bool fm_verb_is_naming(enum fm_verb verb)
{
	return verb == FM_VERB_MOVE || verb == FM_VERB_LINK;
}

bool fm_request_is_about_space(const struct fm_request *r)
{
	return r->verb == FM_VERB_FREE || fm_verb_is_purge(r->verb);
}

static void free_run(struct fm_task *task)
{
	struct fm_request *r = fm_container_of(task, struct fm_request, free_task);
	struct fm_engine *e = r->engine;

	if (r->store_ref)
		fm_engine_store_put(r->store_ref);
	fm_list_del(&r->at);
	fm_requests_of(e)->count--;
	fm_share_give_all(&r->place);
	free(r->path);
	free(r->to);
	free(r->group);
	fm_budget_free(r);
	fm_engine_check_stopped(e);
}

void fm_request_free_later(struct fm_request *r)
{
	if (!r->is_working && (!r->is_ours || r->is_reported))
		fm_loop_post(r->engine->env.loop, &r->free_task);
}

static void report_run(struct fm_task *task)
{
	struct fm_request *r = fm_container_of(task, struct fm_request, report_task);
	struct fm_request_result result = { .code = r->code };

	if (r->has_missing)
		result.missing = &r->missing;
	/* After a failure the worker may still be filling the entries. */
	if (r->code)
		result.err = r->err;
	else if (fm_request_is_about_space(r))
		result = (struct fm_request_result){
			.page = &r->page, .is_more = r->page.is_more, .store = r->store};
	else if (r->verb == FM_VERB_GROUP_LIST)
		result = (struct fm_request_result){.groups = &r->groups};
	else
		result = (struct fm_request_result){.entries = r->entries,
						    .count = r->count,
						    .is_more = r->is_more,
						    .shared = r->shared,
						    .is_sealed = r->is_sealed,
						    .written_by = r->written_by,
						    .says = r->says,
						    .stays = r->stays};
	r->is_reported = true;
	r->done(r->ctx, &result);
	fm_request_free_later(r);
}

void fm_request_finish(struct fm_request *r)
{
	if (r->is_over)
		return;
	r->is_over = true;
	if (r->is_ours)
		fm_loop_post(r->engine->env.loop, &r->report_task);
	else if (r->session)
		fm_request_answer(r);
	r->session = NULL;
	fm_request_free_later(r);
}

void fm_request_fail(struct fm_request *r, const struct fm_err *err)
{
	if (r->is_over)
		return;
	r->code = err->code;
	r->err = *err;
	fm_request_finish(r);
}

struct fm_request *fm_request_new(struct fm_engine *e, const char *path, size_t path_len,
				  const char *to, size_t to_len)
{
	struct fm_request *r = FM_FAULT("request.new") ? NULL : fm_budget_alloc(sizeof(*r));

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
	fm_list_append(&fm_requests_of(e)->list, &r->at);
	fm_requests_of(e)->count++;
	return r;
}

struct fm_request *fm_request_asked(const struct fm_session *s, uint64_t id)
{
	fm_list_each(at, next, &fm_requests_of(s->engine)->list) {
		struct fm_request *r = fm_container_of(at, struct fm_request, at);

		if (r->is_ours && !r->is_over && r->session == s && r->id == id)
			return r;
	}
	return NULL;
}

/* ---- what happens around it ---- */

/* What may have happened though no answer came. "": nothing that matters. */
static const char *may_go_on(const struct fm_request *r)
{
	if (r->verb == FM_VERB_REMOVE || r->keep > 0 || (fm_verb_is_purge(r->verb) && !r->is_dry))
		return "; it may still be removing";
	switch (r->verb) {
	case FM_VERB_GROUP_COMMIT:
		return "; it may have been committed all the same, which committing again tells";
	case FM_VERB_GROUP_DISCARD:
		return "; it may have been discarded all the same";
	case FM_VERB_MOVE:
		return "; it may have been moved all the same";
	case FM_VERB_LINK:
		return "; the link may have been made all the same";
	case FM_VERB_MKDIR:
		return "; it may have been made all the same";
	default:
		return "";
	}
}

/* Of one that was sent, or begun here, the answer to which will not come any more. */
static void fail_sent(struct fm_request *r, const struct fm_err *why)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, why->code, "%s%s", why->text, may_go_on(r));
	err.is_full = why->is_full;
	fm_request_fail(r, &err);
}

static bool request_is_on(const struct fm_session *s)
{
	fm_list_each(at, next, &fm_requests_of(s->engine)->list)
		if (fm_container_of(at, struct fm_request, at)->session == s)
			return true;
	return false;
}

static void request_session_lost(struct fm_session *s, const struct fm_err *err)
{
	fm_list_each(at, next, &fm_requests_of(s->engine)->list) {
		struct fm_request *r = fm_container_of(at, struct fm_request, at);

		if (r->session != s)
			continue;
		r->session = NULL;
		if (r->is_ours)
			fail_sent(r, err);
		else
			fm_request_fail(r, err);
	}
}

static void request_peer_unreachable(struct fm_peer *p, const struct fm_err *err)
{
	fm_list_each(at, next, &fm_requests_of(p->engine)->list) {
		struct fm_request *r = fm_container_of(at, struct fm_request, at);

		if (r->peer == p)
			fm_request_fail(r, err);
	}
}

static void request_peer_up(struct fm_peer *p)
{
	fm_list_each(at, next, &fm_requests_of(p->engine)->list) {
		struct fm_request *r = fm_container_of(at, struct fm_request, at);

		if (r->peer == p && !r->is_over && p->session)
			fm_request_send(r, p->session);
	}
}

static void request_stop(struct fm_engine *e)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -EHOSTDOWN, "fmoved at %s is stopping", e->name);
	fm_list_each(at, next, &fm_requests_of(e)->list) {
		struct fm_request *r = fm_container_of(at, struct fm_request, at);

		if (r->is_ours && !r->peer)
			fail_sent(r, &err);
		else
			fm_request_fail(r, &err);
	}
}

static void request_tick(struct fm_engine *e, uint64_t now_ns)
{
	struct fm_err err = { 0 };

	fm_list_each(at, next, &fm_requests_of(e)->list) {
		struct fm_request *r = fm_container_of(at, struct fm_request, at);

		fm_request_check_room(r);
		if (!r->is_ours || r->is_over || now_ns < r->deadline_ns)
			continue;
		if (r->peer) {
			(void)fm_err_set(&err, -EHOSTUNREACH, "%s is not connected%s%s",
					 r->peer->name, r->peer->last_error[0] ? ": " : "",
					 r->peer->last_error);
			fm_request_fail(r, &err);
			continue;
		}
		(void)fm_err_set(&err, -ETIMEDOUT, "%s did not answer in time",
				 r->session ? r->session->name : e->name);
		fail_sent(r, &err);
	}
}

static bool request_is_idle(const struct fm_engine *e)
{
	return fm_requests_of(e)->count == 0;
}

static bool request_is_working(const struct fm_engine *e)
{
	return !request_is_idle(e);
}

/* Whether all that are left have been answered, and only wait for the user database. */
static bool request_awaits_users(const struct fm_engine *e)
{
	fm_list_each(at, next, &fm_requests_of(e)->list) {
		const struct fm_request *r = fm_container_of(at, struct fm_request, at);

		if (!r->is_over || !r->is_working || (r->is_ours && !r->is_reported) ||
		    r->work.may_await != fm_access_user_database())
			return false;
	}
	return true;
}

static void request_init(void *state)
{
	struct fm_requests *all = state;

	fm_list_init(&all->list);
	fm_share_init(&all->places,
		      &(struct fm_share_limits){ "places for requests", FM_REQUESTS_LOCAL_MAX,
						 FM_REQUESTS_LOCAL_ROOT, 0, 1 });
	fm_share_init(&all->peer_places,
		      &(struct fm_share_limits){ "places for requests of peers",
						 FM_REQUESTS_PEERS_MAX, 0, 0, 1 });
}

static const struct fm_service_message messages[] = {
	{ FM_WIRE_REQUEST, fm_request_on_request },
	{ FM_WIRE_REPLY, fm_request_on_reply },
	{ FM_WIRE_SPACE, fm_request_on_space },
	{ FM_WIRE_GROUPS, fm_request_on_groups },
};

const struct fm_service fm_request_service = {
	.name = "request",
	.messages = messages,
	.message_count = sizeof(messages) / sizeof(messages[0]),
	.state_bytes = sizeof(struct fm_requests),
	.init = request_init,
	.peer_up = request_peer_up,
	.peer_unreachable = request_peer_unreachable,
	.session_lost = request_session_lost,
	.is_on = request_is_on,
	.tick = request_tick,
	.stop = request_stop,
	.is_idle = request_is_idle,
	.is_working = request_is_working,
	.awaits_callers = request_awaits_users,
};
