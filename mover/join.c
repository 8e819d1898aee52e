/* SPDX-License-Identifier: MIT */
/*
 * join - see join.h.
 *
 * Happy path:  WAIT (for the message) - ADMIT (on a worker's thread) - the engine gets the peer - the answer - gone.
 * Failure:     a message that is none, or a deadline: closed without a word. A wrong token or name: an answer that
 *              says so. The connection lost while ADMIT runs: the peer stays admitted, since its file may be
 *              written; it can join again.
 */
#include "mover/join.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/engine.h"
#include "mover/transport/net.h"

enum conn_state { CONN_WAIT, CONN_ADMIT };

struct conn {
	struct fm_join *join;
	struct fm_list link;
	enum conn_state state;
	struct fm_ctl *ctl;		/* NULL: lost, or closed by us */
	struct fm_timer deadline;
	char from[FM_JOIN_ADDRESS_MAX + 1];
	struct fm_work work;
	struct fm_join_candidate who;
	struct fm_err err;		/* of admit */
	int ret;
};

struct fm_join {
	struct fm_join_opts opts;
	char *node;
	char *address;
	struct fm_list conns;
	unsigned count;
	unsigned wrong;			/* tokens, since the last pause or success */
	uint64_t pause_ends_ns;		/* 0: none */
	bool is_stopped;
};

static void conn_close(struct conn *c)
{
	fm_timer_clear(c->join->opts.loop, &c->deadline);
	if (c->ctl)
		c->join->opts.net->ops->ctl_close(c->ctl);
	c->ctl = NULL;
}

static void conn_free(struct conn *c)
{
	conn_close(c);
	fm_list_del(&c->link);
	c->join->count--;
	free(c);
}

/* ---- the answer ---- */

static void conn_answer(struct conn *c, const struct fm_err *err)
{
	struct fm_join_answer answer = { .code = err ? (uint32_t)-err->code : 0 };
	uint8_t buf[FM_JOIN_MSG_MAX];

	if (!c->ctl)
		return;
	if (err) {
		snprintf(answer.text, sizeof(answer.text), "%s", err->text);
	} else {
		snprintf(answer.name, sizeof(answer.name), "%s", c->join->node);
		snprintf(answer.address, sizeof(answer.address), "%s", c->join->address);
	}
	/* If it cannot be sent the far end sees the connection close, and says so. */
	(void)c->join->opts.net->ops->ctl_send(c->ctl, buf, fm_join_answer_encode(&answer, buf));
}

static void conn_refuse(struct conn *c, const struct fm_err *err)
{
	fm_log_warn("join: %s, as \"%s\": refused: %s", c->from, c->who.request.name, err->text);
	conn_answer(c, err);
	conn_free(c);
}

/* ---- guessers ---- */

static void count_wrong(struct fm_join *join)
{
	uint64_t now = join->opts.clock->now_ns(join->opts.clock->ctx);

	if (++join->wrong < FM_JOIN_WRONG_MAX)
		return;
	join->wrong = 0;
	join->pause_ends_ns = now + FM_JOIN_PAUSE_S * FM_NS_PER_S;
	fm_log_warn("join: %d wrong tokens; nobody can join for %d s", FM_JOIN_WRONG_MAX, FM_JOIN_PAUSE_S);
}

static int check_pause(struct fm_join *join, struct fm_err *err)
{
	uint64_t now = join->opts.clock->now_ns(join->opts.clock->ctx);

	if (now >= join->pause_ends_ns)
		return 0;
	return fm_err_set(err, -EACCES, "too many wrong tokens were tried: wait %u s, then try again",
			  (unsigned)((join->pause_ends_ns - now) / FM_NS_PER_S) + 1);
}

/* ---- admitting ---- */

static int make_peer(struct fm_engine *engine, const struct fm_join_candidate *who, struct fm_err *err)
{
	struct fm_peer_opts peer = { .name = who->request.name };
	char host[FM_JOIN_ADDRESS_MAX + 1];
	char *colon;

	memcpy(peer.key, who->key, FM_KEY_LEN);
	snprintf(host, sizeof(host), "%s", who->request.address);
	colon = strrchr(host, ':');
	if (colon) {
		*colon = '\0';
		peer.port = (uint16_t)atoi(colon + 1);
		peer.host = host;
		if (host[0] == '[') {
			colon[-1] = '\0';
			peer.host = host + 1;
		}
	}
	return fm_engine_set_peer(engine, &peer, err);
}

static void admit_run(struct fm_work *work)
{
	struct conn *c = fm_container_of(work, struct conn, work);

	c->ret = c->join->opts.admit(c->join->opts.ctx, &c->who, &c->err);
}

/* What admit wrote is to be undone; nobody waits for the end of it but the memory. */
static void retract_run(struct fm_work *work)
{
	struct conn *c = fm_container_of(work, struct conn, work);

	c->join->opts.retract(c->join->opts.ctx, &c->who);
}

static void retract_done(struct fm_work *work)
{
	conn_free(fm_container_of(work, struct conn, work));
}

static void admit_done(struct fm_work *work)
{
	struct conn *c = fm_container_of(work, struct conn, work);
	struct fm_join *join = c->join;

	assert(c->state == CONN_ADMIT);
	if (c->ret == -ENOENT)
		count_wrong(join);
	if (c->ret == -ENOENT || c->ret == -ETIME)
		c->err.code = -EACCES;	/* what it is to the far end: nothing is missing there, and nothing was slow */
	if (c->ret < 0) {
		conn_refuse(c, &c->err);
		return;
	}
	join->wrong = 0;
	if (join->is_stopped) {		/* it is in the files: the next start takes it from there */
		conn_free(c);
		return;
	}
	if (make_peer(join->opts.engine, &c->who, &c->err) < 0) {
		fm_log_warn("join: %s, as \"%s\": %s", c->from, c->who.request.name, c->err.text);
		conn_answer(c, &c->err);
		conn_close(c);
		c->work = (struct fm_work){ .run = retract_run, .done = retract_done };
		fm_worker_submit(join->opts.worker, &c->work, join->opts.loop);
		return;
	}
	fm_log_info("join: \"%s\" at %s is a peer now", c->who.request.name,
		    c->who.request.address[0] ? c->who.request.address : "an address that it dials from");
	conn_answer(c, NULL);
	conn_free(c);
}

/* ---- the connection ---- */

/* The new node said where it listens, or at least the port: then it is dialled where it came from. */
static void complete_address(struct conn *c)
{
	struct fm_join_request *r = &c->who.request;
	const char *colon = strrchr(c->from, ':');

	if (r->address[0] || r->port == 0 || !colon)
		return;
	snprintf(r->address, sizeof(r->address), "%.*s:%u", (int)(colon - c->from), c->from, r->port);
}

static void conn_message(void *ctx, const uint8_t *msg, size_t len)
{
	struct conn *c = ctx;
	struct fm_err err = { 0 };

	if (c->state != CONN_WAIT)
		return;		/* a second message; the first one's answer ends this connection */
	if (fm_join_request_decode(msg, len, &c->who.request) < 0) {
		fm_log_warn("join: %s: no message of ours", c->from);
		conn_free(c);
		return;
	}
	if (check_pause(c->join, &err) < 0) {
		conn_refuse(c, &err);
		return;
	}
	complete_address(c);
	c->state = CONN_ADMIT;
	fm_timer_clear(c->join->opts.loop, &c->deadline);
	c->work = (struct fm_work){ .run = admit_run, .done = admit_done };
	fm_worker_submit(c->join->opts.worker, &c->work, c->join->opts.loop);
}

static void conn_closed(void *ctx, const struct fm_err *err)
{
	struct conn *c = ctx;

	(void)err;	/* whoever tries to join learns it at the other end */
	if (c->state == CONN_WAIT)
		conn_free(c);
	else
		conn_close(c);
}

static const struct fm_ctl_events conn_events = { .message = conn_message, .closed = conn_closed };

static void conn_deadline(struct fm_timer *timer)
{
	conn_free(fm_container_of(timer, struct conn, deadline));
}

static bool join_accepted(void *ctx, struct fm_ctl *ctl, const uint8_t key[FM_KEY_LEN],
			  const struct fm_ctl_events **events, void **ctl_ctx)
{
	struct fm_join *join = ctx;
	struct conn *c;

	if (join->is_stopped || join->count == FM_JOIN_CONNS_MAX)
		return false;
	c = calloc(1, sizeof(*c));
	if (!c)
		return false;
	c->join = join;
	c->ctl = ctl;
	memcpy(c->who.key, key, FM_KEY_LEN);
	snprintf(c->from, sizeof(c->from), "%s", join->opts.net->ops->ctl_peer(ctl));
	c->deadline.fire = conn_deadline;
	fm_timer_set(join->opts.loop, &c->deadline, fm_loop_now(join->opts.loop) + FM_JOIN_DEADLINE_MS * FM_NS_PER_MS);
	fm_list_append(&join->conns, &c->link);
	join->count++;
	*events = &conn_events;
	*ctl_ctx = c;
	return true;
}

static const struct fm_tls_join_events join_events = { .accepted = join_accepted };

/* ---- the whole ---- */

int fm_join_new(const struct fm_join_opts *opts, struct fm_join **out, struct fm_err *err)
{
	struct fm_join *join = calloc(1, sizeof(*join));

	assert(opts->admit && opts->retract && strlen(opts->node) <= FM_JOIN_NAME_MAX);
	if (!join)
		return fm_err_set(err, -ENOMEM, "out of memory");
	join->opts = *opts;
	fm_list_init(&join->conns);
	join->node = strdup(opts->node);
	join->address = strdup(opts->address);
	if (!join->node || !join->address) {
		fm_join_free(join);
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	fm_net_set_join(opts->net, &join_events, join);
	*out = join;
	return 0;
}

void fm_join_set_address(struct fm_join *join, const char *address)
{
	char *copy = strdup(address);

	if (!copy)
		return;		/* the old one may still do */
	free(join->address);
	join->address = copy;
}

void fm_join_stop(struct fm_join *join)
{
	join->is_stopped = true;
	fm_net_set_join(join->opts.net, NULL, NULL);
	fm_list_each(at, next, &join->conns) {
		struct conn *c = fm_container_of(at, struct conn, link);

		if (c->state == CONN_WAIT)
			conn_free(c);
		else
			conn_close(c);
	}
}

void fm_join_free(struct fm_join *join)
{
	if (!join)
		return;
	assert(join->count == 0);
	free(join->address);
	free(join->node);
	free(join);
}
