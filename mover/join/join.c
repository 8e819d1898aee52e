/* SPDX-License-Identifier: MIT */
/*
 * join - see join.h.
 *
 * Happy path:  WAIT (for the message) - QUEUED (for those before it) - ADMIT (on a worker's thread)
 * - the engine gets the peer - the answer - gone. Failure:     a message that is none, a deadline,
 * or others who crowd: closed without a word. A wrong token or name: an answer that says so. The
 * connection lost while ADMIT runs: the peer stays admitted, since its file may be written; it can
 * join again.
 */
#include "mover/join/join.h"

#include <arpa/inet.h>
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
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/node/engine.h"
#include "mover/join/find.h"
#include "mover/join/join_addrs.h"
#include "mover/transport/net.h"

enum conn_state { CONN_WAIT, CONN_QUEUED, CONN_ADMIT };

struct conn {
	struct fm_join *join;
	struct fm_list link;
	enum conn_state state;
	struct fm_ctl *ctl;		/* NULL: lost, or closed by us */
	struct fm_timer deadline;
	char from[FM_JOIN_ADDRESS_MAX + 1];
	char source[FM_JOIN_ADDRESS_MAX + 1];
	struct fm_share_held place;	/* of its source */
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
	struct fm_share places;		/* by address */
	struct fm_find *find;
	struct fm_timer shut;		/* when no invitation is open any more */
	struct fm_log_limit lines;	/* of those who are refused */
	unsigned admitted;
	bool is_admitting;
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
	fm_share_give_all(&c->place);
	free(c);
}

/* ---- the answer ---- */

static size_t own_addrs(const struct fm_join *join, struct fm_addr own[static FM_ADDRS_MAX])
{
	return join->opts.net->ops->addrs(join->opts.net, own, FM_ADDRS_MAX);
}

static void say_who_we_are(const struct fm_join *join, struct fm_join_answer *answer)
{
	struct fm_addr own[FM_ADDRS_MAX];

	snprintf(answer->name, sizeof(answer->name), "%s", join->node);
	snprintf(answer->address, sizeof(answer->address), "%s", join->address);
	fm_join_addrs_own(own, own_addrs(join, own), join->opts.port, &answer->further);
}

static void conn_answer(struct conn *c, const struct fm_err *err)
{
	struct fm_join_answer answer = { .code = err ? (uint32_t)-err->code : 0 };
	uint8_t buf[FM_JOIN_MSG_MAX];

	if (!c->ctl)
		return;
	if (err)
		snprintf(answer.text, sizeof(answer.text), "%s", err->text);
	else
		say_who_we_are(c->join, &answer);
	/* If it cannot be sent the far end sees the connection close, and says so. */
	(void)c->join->opts.net->ops->ctl_send(c->ctl, buf, fm_join_answer_encode(&answer, buf));
}

static bool may_log(struct fm_join *join)
{
	return fm_log_may(&join->lines, fm_loop_now(join->opts.loop));
}

static void conn_refuse(struct conn *c, const struct fm_err *err)
{
	if (may_log(c->join))
		fm_log_warn("join: %s, as \"%s\": refused: %s", c->from, c->who.request.name,
			    err->text);
	conn_answer(c, err);
	conn_free(c);
}

/* ---- who has the places ---- */

/* For counting: an address; of IPv6 its network, of which one may have all addresses. */
static void source_of(const char *from, char out[static FM_JOIN_ADDRESS_MAX + 1])
{
	const char *colon = strrchr(from, ':');
	struct in6_addr in6;

	snprintf(out, FM_JOIN_ADDRESS_MAX + 1, "%.*s", (int)(colon ? colon - from : 0), from);
	if (out[0] != '[')
		return;
	memmove(out, out + 1, strlen(out));
	out[strcspn(out, "]%")] = '\0';
	if (inet_pton(AF_INET6, out, &in6) != 1)
		return;
	memset(&in6.s6_addr[8], 0, 8);
	(void)inet_ntop(AF_INET6, &in6, out, FM_JOIN_ADDRESS_MAX + 1);	/* it has room */
}

static struct fm_share_id source(const struct conn *c)
{
	return fm_share_name(c->source);
}

/* Whether they are from one address; "[fe80::1%eth0]:7471" says the link, too. */
static bool is_address(const struct conn *a, const struct conn *b)
{
	const char *colon = strrchr(a->from, ':');
	size_t len = colon ? (size_t)(colon - a->from) + 1 : sizeof(a->from);

	return strncmp(a->from, b->from, len) == 0;
}

static unsigned count_address(const struct fm_join *join, const struct conn *c)
{
	const struct fm_list *head = &join->conns;
	unsigned count = 0;

	for (const struct fm_list *at = head->next; at != head; at = at->next)
		count += is_address(c, fm_container_of(at, const struct conn, link));
	return count;
}

/*
 * Of a source: the first of its address that has most. Nodes of one network of IPv6, which come
 * with one connection each, do not go for who floods from one address of it.
 */
static struct conn *first_of_most(struct fm_join *join, const struct conn *source)
{
	struct conn *worst = NULL;
	unsigned most = 0;

	fm_list_each(at, next, &join->conns) {
		struct conn *c = fm_container_of(at, struct conn, link);
		unsigned has = count_address(join, c);

		if (c->state == CONN_ADMIT || strcmp(c->source, source->source) != 0 || has <= most)
			continue;
		most = has;
		worst = c;
	}
	return worst;
}

/* Who makes room, of whoever has most. NULL: nobody can. */
static struct conn *crowding(struct fm_join *join)
{
	struct conn *worst = NULL;
	uint64_t most = 0;

	fm_list_each(at, next, &join->conns) {
		struct conn *c = fm_container_of(at, struct conn, link);
		uint64_t has = fm_share_of(&join->places, source(c));

		if (c->state == CONN_ADMIT || has <= most)
			continue;
		most = has;
		worst = c;
	}
	return worst ? first_of_most(join, worst) : NULL;
}

static bool make_room(struct fm_join *join)
{
	struct conn *c = join->places.used < FM_JOIN_CONNS_MAX ? NULL : crowding(join);

	if (c)
		conn_free(c);
	return join->places.used < FM_JOIN_CONNS_MAX;
}

/* ---- admitting ---- */

_Static_assert(1 + FM_JOIN_ADDRS_MAX <= FM_PEER_ADDRS_MAX,
	       "a peer may have as many addresses as it tells");

static unsigned further_of(const struct fm_join_request *r,
			   struct fm_endpoint out[static FM_JOIN_ADDRS_MAX])
{
	for (unsigned i = 0; i < r->further.count; i++) {
		fm_join_addr_host(&r->further.addr[i], out[i].host);
		out[i].port = r->further.addr[i].port;
	}
	return r->further.count;
}

static int make_peer(struct fm_engine *engine, const struct fm_join_candidate *who,
		     struct fm_err *err)
{
	struct fm_peer_opts peer = { .name = who->request.name };
	struct fm_endpoint more[FM_JOIN_ADDRS_MAX];
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
	peer.more = more;
	peer.more_count = further_of(&who->request, more);
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

static void admit_next(struct fm_join *join);

static void admit_done(struct fm_work *work)
{
	struct conn *c = fm_container_of(work, struct conn, work);
	struct fm_join *join = c->join;

	assert(c->state == CONN_ADMIT && join->is_admitting);
	join->is_admitting = false;
	admit_next(join);
	if (c->ret == -ENOENT || c->ret == -ETIME)
		/* what it is to the far end: nothing is missing there, and nothing was slow */
		c->err.code = -EACCES;
	if (c->ret < 0) {
		conn_refuse(c, &c->err);
		return;
	}
	if (join->is_stopped) {		/* it is in the files: the next start takes it from there */
		conn_free(c);
		return;
	}
	join->admitted++;
	if (make_peer(join->opts.engine, &c->who, &c->err) < 0) {
		fm_log_warn("join: %s, as \"%s\": %s", c->from, c->who.request.name, c->err.text);
		conn_answer(c, &c->err);
		if (c->ret > 0) {	/* one that is a peer stays one: its entry is not ours */
			conn_free(c);
			return;
		}
		conn_close(c);
		c->work = (struct fm_work){ .run = retract_run, .done = retract_done };
		fm_worker_submit(join->opts.worker, &c->work, join->opts.loop);
		return;
	}
	fm_log_info("join: \"%s\" at %s is a peer now", c->who.request.name,
		    c->who.request.address[0] ? c->who.request.address
					      : "an address that it dials from");
	conn_answer(c, NULL);
	conn_free(c);
}

/* One at a time: however many there are, they take one worker. */
static void admit_next(struct fm_join *join)
{
	fm_list_each(at, next, &join->conns) {
		struct conn *c = fm_container_of(at, struct conn, link);

		if (join->is_admitting || join->is_stopped || c->state != CONN_QUEUED)
			continue;
		join->is_admitting = true;
		c->state = CONN_ADMIT;
		fm_timer_clear(join->opts.loop, &c->deadline);
		c->work = (struct fm_work){ .run = admit_run, .done = admit_done };
		fm_worker_submit(join->opts.worker, &c->work, join->opts.loop);
	}
}

/* ---- the connection ---- */

/* The new node said where it listens, or at least the port: then it is dialled where it came
 * from. */
static void complete_address(struct conn *c)
{
	struct fm_join_request *r = &c->who.request;
	const char *colon = strrchr(c->from, ':');

	if (r->address[0] || r->port == 0 || !colon)
		return;
	snprintf(r->address, sizeof(r->address), "%.*s:%u", (int)(colon - c->from), c->from,
		 r->port);
}

static void conn_message(void *ctx, const uint8_t *msg, size_t len)
{
	struct conn *c = ctx;
	struct fm_addr own[FM_ADDRS_MAX];

	if (c->state != CONN_WAIT)
		return;		/* a second message; the first one's answer ends this connection */
	if (fm_join_request_decode(msg, len, &c->who.request) < 0) {
		if (may_log(c->join))
			fm_log_warn("join: %s: no message of ours", c->from);
		conn_free(c);
		return;
	}
	complete_address(c);
	fm_join_addrs_keep(&c->who.request.further, own, own_addrs(c->join, own));
	c->state = CONN_QUEUED;
	admit_next(c->join);
}

static void conn_closed(void *ctx, const struct fm_err *err)
{
	struct conn *c = ctx;

	(void)err;	/* whoever tries to join learns it at the other end */
	if (c->state == CONN_ADMIT)
		conn_close(c);
	else
		conn_free(c);
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

	if (join->is_stopped || !make_room(join))
		return false;
	c = calloc(1, sizeof(*c));
	if (!c)
		return false;
	c->join = join;
	c->ctl = ctl;
	memcpy(c->who.key, key, FM_KEY_LEN);
	snprintf(c->from, sizeof(c->from), "%s", join->opts.net->ops->ctl_peer(ctl));
	source_of(c->from, c->source);
	if (fm_share_take(&join->places, source(c), 1, &c->place, NULL) < 0) {
		free(c);
		return false;
	}
	c->deadline.fire = conn_deadline;
	fm_timer_set(join->opts.loop, &c->deadline,
		     fm_loop_now(join->opts.loop) + FM_JOIN_DEADLINE_MS * FM_NS_PER_MS);
	fm_list_append(&join->conns, &c->link);
	*events = &conn_events;
	*ctl_ctx = c;
	return true;
}

static const struct fm_tls_join_events join_events = { .accepted = join_accepted };

/* ---- the whole ---- */

static void shut_fire(struct fm_timer *timer)
{
	fm_join_open(fm_container_of(timer, struct fm_join, shut), 0);
}

static int make_find(struct fm_join *join, struct fm_err *err)
{
	struct fm_find_opts opts = {.loop = join->opts.loop,
				    .net = join->opts.net,
				    .where = join->opts.find,
				    .node = join->node,
				    .port = join->opts.port};

	return fm_find_new(&opts, &join->find, err);
}

int fm_join_new(const struct fm_join_opts *opts, struct fm_join **out, struct fm_err *err)
{
	struct fm_join *join = calloc(1, sizeof(*join));

	assert(opts->admit && opts->retract && strlen(opts->node) <= FM_JOIN_NAME_MAX);
	if (!join)
		return fm_err_set(err, -ENOMEM, "out of memory");
	join->opts = *opts;
	fm_list_init(&join->conns);
	fm_share_init(&join->places, &(struct fm_share_limits){"connections of nodes that join",
							       FM_JOIN_CONNS_MAX, 0, 0, 0});
	join->shut.fire = shut_fire;
	join->node = strdup(opts->node);
	join->address = strdup(opts->address);
	if (!join->node || !join->address) {
		fm_join_free(join);
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	if (make_find(join, err) < 0) {
		fm_join_free(join);
		return err->code;
	}
	*out = join;
	return 0;
}

void fm_join_open(struct fm_join *join, uint64_t until_ns)
{
	bool is_open = !join->is_stopped && until_ns > fm_loop_now(join->opts.loop);

	fm_net_set_join(join->opts.net, is_open ? &join_events : NULL, join);
	fm_find_set(join->find, is_open);
	if (is_open)
		fm_timer_set(join->opts.loop, &join->shut, until_ns);
	else
		fm_timer_clear(join->opts.loop, &join->shut);
}

unsigned fm_join_count(const struct fm_join *join)
{
	return join->admitted;
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
	fm_join_open(join, 0);
	fm_list_each(at, next, &join->conns) {
		struct conn *c = fm_container_of(at, struct conn, link);

		if (c->state == CONN_ADMIT)
			conn_close(c);
		else
			conn_free(c);
	}
}

void fm_join_free(struct fm_join *join)
{
	if (!join)
		return;
	assert(join->places.used == 0);
	fm_find_free(join->find);
	free(join->address);
	free(join->node);
	free(join);
}
