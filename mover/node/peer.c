/* SPDX-License-Identifier: MIT */
/*
 * peer - a node that the configuration names: who dials, how often, and which of two sessions is
 * kept.
 *
 * Both nodes dial, so that either end's "why not" is known there; the one with the lower key at
 * once, the other a second later, so that they rarely meet. When they do, both keep the session
 * that the lower key dialled and retire the other one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/node/service.h"
#include "mover/node/session.h"

#define BACKOFF_MIN_NS FM_NS_PER_S
#define BACKOFF_MAX_NS (30 * FM_NS_PER_S)
/*
 * A change of our network is soon followed by others: the link, its address, its route. So the peer
 * is dialled a moment later, and where changes do not end, no more often than this.
 */
#define WAKE_NS (200 * FM_NS_PER_MS)
#define WAKE_AGAIN_NS (5 * FM_NS_PER_S)
/* A session that was silent this long loses against a new one of the same run of the peer. */
#define SILENT_NS (2 * FM_NS_PER_S)

static bool is_lower(const struct fm_peer *p)
{
	return memcmp(p->engine->key, p->key, FM_KEY_LEN) < 0;
}

static void dial_later(struct fm_peer *p, uint64_t pause_ns);

/* Dials the next address of this round. false: there is none. */
static bool dial_next(struct fm_peer *p)
{
	struct fm_net *net = p->engine->env.net;
	struct fm_addr own[FM_ADDRS_MAX];
	struct fm_reach_dial to;

	if (!fm_reach_next(&p->reach, own, net->ops->addrs(net, own, FM_ADDRS_MAX), &to))
		return false;
	p->dialling = fm_session_dial(p, &to);
	if (!p->dialling)
		dial_later(p, BACKOFF_MAX_NS);	/* no memory */
	return true;
}

static void dial(struct fm_peer *p)
{
	if (p->session || p->dialling || p->reach.count == 0 || p->engine->is_stopping)
		return;
	fm_timer_clear(p->engine->env.loop, &p->dial_timer);
	p->round_err.code = 0;
	if (!dial_next(p))
		/* of what it said nothing is near: it may be, later */
		dial_later(p, BACKOFF_MAX_NS);
}

static void dial_later(struct fm_peer *p, uint64_t pause_ns)
{
	uint32_t r;

	if (p->reach.count == 0 || p->engine->is_stopping)
		return;
	p->engine->env.random->fill(p->engine->env.random->ctx, &r, sizeof(r));
	/* so that nodes which lost each other do not dial in step */
	pause_ns += pause_ns / 4 * (r % 256) / 256;
	fm_timer_set(p->engine->env.loop, &p->dial_timer, fm_engine_now(p->engine) + pause_ns);
}

static void dial_timer_fire(struct fm_timer *timer)
{
	dial(fm_container_of(timer, struct fm_peer, dial_timer));
}

int fm_peer_new(struct fm_engine *e, const struct fm_peer_opts *o, struct fm_peer **out,
		struct fm_err *err)
{
	struct fm_peer *p;

	int ret;

	if (strlen(o->name) > FM_WIRE_NAME_MAX)
		return fm_err_set(err, -EINVAL, "peer %s: its name is too long", o->name);
	p = FM_FAULT("peer.new") ? NULL : calloc(1, sizeof(*p));
	if (!p)
		return fm_err_sys(err, -ENOMEM, "allocate peer %s", o->name);
	ret = fm_reach_init(&p->reach, o, err);
	if (ret < 0) {
		fm_err_wrap(err, "peer %s", o->name);
		free(p);
		return ret;
	}
	p->engine = e;
	p->lines.most = FM_PEER_LINES;
	p->job_lines.most = FM_PEER_JOB_LINES;
	fm_list_init(&p->at);
	(void)snprintf(p->name, sizeof(p->name), "%s", o->name);
	memcpy(p->key, o->key, FM_KEY_LEN);
	p->dial_timer.fire = dial_timer_fire;
	p->backoff_ns = BACKOFF_MIN_NS;
	p->since_ns = fm_engine_now(e);
	*out = p;
	return 0;
}

void fm_peer_free(struct fm_peer *p)
{
	fm_timer_clear(p->engine->env.loop, &p->dial_timer);
	fm_list_del(&p->at);
	free(p);
}

void fm_peer_start(struct fm_peer *p)
{
	if (is_lower(p))
		dial(p);
	else
		dial_later(p, BACKOFF_MIN_NS);
}

void fm_peer_need(struct fm_peer *p)
{
	if (!p->session)
		dial(p);
}

/*
 * Whether the next dial is due only after at_ns. If a dial is under way, its pause begins when it
 * fails.
 */
static bool is_later(const struct fm_peer *p, uint64_t at_ns)
{
	if (p->dialling)
		return fm_engine_now(p->engine) + p->backoff_ns > at_ns;
	return fm_timer_is_set(&p->dial_timer) && p->dial_timer.at_ns > at_ns;
}

/*
 * Dials soon, because the network changed. If a dial follows soon anyway, it may come before the
 * change has taken effect, so the pause after it is made short as well.
 */
void fm_peer_network_changed(struct fm_peer *p)
{
	uint64_t now_ns = fm_engine_now(p->engine), at_ns = now_ns + WAKE_NS;
	bool is_again = p->woken_ns && at_ns < p->woken_ns + WAKE_AGAIN_NS, is_too_late;

	if (is_again)
		at_ns = p->woken_ns + WAKE_AGAIN_NS;
	is_too_late = is_later(p, at_ns);
	if (p->session || (is_again && !is_too_late))
		return;
	p->woken_ns = at_ns;
	p->backoff_ns = BACKOFF_MIN_NS;
	if (is_too_late && !p->dialling)
		dial_later(p, at_ns - now_ns);
}

void fm_peer_drop(struct fm_peer *p, const char *why)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -ECONNRESET, "%s: %s", p->name, why);
	fm_list_each(at, next, &p->engine->sessions) {
		struct fm_session *s = fm_container_of(at, struct fm_session, at);

		if (s->peer != p)
			continue;
		fm_session_add_moved(s, &p->bytes_sent, &p->bytes_received, &p->ports);
		s->peer = NULL;		/* so that it is not dialled again */
		fm_session_close(s, &err, why);
	}
	p->session = NULL;
	p->dialling = NULL;
	fm_services_peer_unreachable(p, &err);
	fm_timer_clear(p->engine->env.loop, &p->dial_timer);
}

static bool is_of_same_run(const struct fm_session *a, const struct fm_session *b)
{
	return memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0;
}

/* Whether the old session leads nowhere: the peer was restarted, or has not been heard for long. */
static bool is_dead(const struct fm_peer *p, const struct fm_session *new,
		    const struct fm_session *old)
{
	return !is_of_same_run(new, old) || fm_engine_now(p->engine) > old->heard_ns + SILENT_NS;
}

/*
 * Closes the sessions of earlier runs of the peer, retired ones too: the new run may reuse their
 * numbers.
 */
static void close_earlier_runs(struct fm_peer *p, const struct fm_session *new)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, -ECONNRESET, "%s connected anew", p->name);
	fm_list_each(at, next, &p->engine->sessions) {
		struct fm_session *s = fm_container_of(at, struct fm_session, at);

		if (s->peer == p && s->is_up && !is_of_same_run(new, s))
			fm_session_close(s, &err, "replaced by a newer connection");
	}
}

void fm_peer_offer(struct fm_peer *p, struct fm_session *s)
{
	struct fm_session *old = p->session;
	struct fm_err err = { 0 };

	if (p->dialling == s)
		p->dialling = NULL;
	if (old && is_dead(p, s, old)) {
		(void)fm_err_set(&err, -ECONNRESET, "%s connected anew", p->name);
		p->session = NULL;
		fm_session_close(old, &err, "replaced by a newer connection");
		close_earlier_runs(p, s);
	} else if (old && s->is_dialler != is_lower(p)) {
		s->retired_ns = fm_engine_now(p->engine);
		return;
	} else if (old) {
		/* What was begun on it ends there: the peer may have chosen later than we did. */
		old->retired_ns = fm_engine_now(p->engine);
	}
	p->session = s;
	p->backoff_ns = BACKOFF_MIN_NS;
	p->since_ns = fm_engine_now(p->engine);
	p->last_error[0] = '\0';
	fm_timer_clear(p->engine->env.loop, &p->dial_timer);
}

/* Finds another session that works, retired or not, to take the place of a lost one. */
static struct fm_session *find_other(const struct fm_peer *p, const struct fm_session *lost)
{
	fm_list_each(at, next, &p->engine->sessions) {
		struct fm_session *s = fm_container_of(at, struct fm_session, at);

		if (s != lost && s->peer == p && s->is_up && !s->is_closed)
			return s;
	}
	return NULL;
}

void fm_peer_learn(struct fm_peer *p, const struct fm_wire_addrs *said)
{
	const struct fm_peer_keeper *keeper = p->engine->env.keeper;
	struct fm_endpoint learned[FM_PEER_ADDRS_MAX];
	unsigned count = 0;

	if (!fm_reach_learn(&p->reach, said) || !keeper)
		return;
	for (unsigned i = 0; i < p->reach.count; i++)
		if (p->reach.way[i].is_learned)
			learned[count++] = p->reach.way[i].to;
	keeper->told(keeper->ctx, p->name, p->key, learned, count);
}

/*
 * Adds an error to that of the round, which names every address that was tried: each is a cable to
 * look at.
 */
static void add_to_round(struct fm_peer *p, const struct fm_err *err)
{
	struct fm_err *all = &p->round_err;
	size_t len = strlen(all->text), name = strlen(p->name);

	if (!all->code) {
		*all = *err;
		return;
	}
	/* "n2: 10.0.0.2:7471: why; 10.0.1.2:7471: why not" */
	if (strncmp(err->text, p->name, name) != 0 || strncmp(err->text + name, ": ", 2) != 0)
		name = 0;
	/* cut is fine */
	(void)snprintf(all->text + len, sizeof(all->text) - len, "; %s",
		       err->text + (name ? name + 2 : 0));
}

static void remember(struct fm_peer *p, const struct fm_err *err)
{
	if (!p->engine->is_stopping && strcmp(p->last_error, err->text) != 0)
		fm_peer_log(p->engine, p, FM_LOG_WARN, "%s", err->text);
	(void)snprintf(p->last_error, sizeof(p->last_error), "%s", err->text);
}

static void dial_failed(struct fm_peer *p, const struct fm_err *err)
{
	add_to_round(p, err);
	if (!p->engine->is_stopping && dial_next(p))
		return;
	remember(p, &p->round_err);
	fm_services_peer_unreachable(p, &p->round_err);
	dial_later(p, p->backoff_ns);
	p->backoff_ns = p->backoff_ns * 2 < BACKOFF_MAX_NS ? p->backoff_ns * 2 : BACKOFF_MAX_NS;
}

void fm_peer_lost(struct fm_peer *p, struct fm_session *s, const struct fm_err *err)
{
	bool was_up = p->session == s, was_dialled = p->dialling == s;

	if (was_up) {
		p->session = find_other(p, s);
		if (p->session)
			p->session->retired_ns = 0;
		p->since_ns = fm_engine_now(p->engine);
		p->backoff_ns = BACKOFF_MIN_NS;
	}
	if (was_dialled)
		p->dialling = NULL;
	if (p->session || !(was_up || was_dialled))
		return;
	if (was_dialled) {
		dial_failed(p, err);
		return;
	}
	remember(p, err);
	fm_reach_begin(&p->reach);
	dial_later(p, p->backoff_ns);
	p->backoff_ns = p->backoff_ns * 2 < BACKOFF_MAX_NS ? p->backoff_ns * 2 : BACKOFF_MAX_NS;
}
