/* SPDX-License-Identifier: MIT */
/* far_rules - see far_rules.h. */
#include "staging/service/far_rules.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "mover/node/session.h"
#include "staging/cache.h"
#include "staging/key.h"
#include "staging/service/named.h"
#include "staging/service/together.h"

#define LOOK_NS	 (60 * FM_NS_PER_S)
#define AWAIT_NS (10 * FM_NS_PER_S)	/* an answer, before it is asked for again */

/* What is known of one store. Its place in the list and its readers change under the lock. */
struct word {
	struct fm_list at;
	struct fm_far_rules *all;
	struct fm_work work;
	char node[FM_WIRE_NAME_MAX + 1];
	char store[FM_WIRE_NAME_MAX + 1];
	bool is_needed;			/* a copy is here; fm_far_rules_look() says so */
	bool is_awaited;		/* the node is asked, since: */
	uint64_t asked_ns;
	bool is_working;		/* names are looked up, lists are written */
	struct fm_stage_named *said;	/* then; NULL: nobody is named */
	bool is_known;
	uint64_t times;			/* that readers were changed */
	struct fm_cache_readers readers;
};

struct fm_far_rules {
	struct fm_far_rules_opts o;
	pthread_mutex_t lock;
	struct fm_list words;
	unsigned count;
	uint64_t looked_ns;		/* 0: never */
};

int fm_far_rules_new(const struct fm_far_rules_opts *opts, struct fm_far_rules **out,
		     struct fm_err *err)
{
	struct fm_far_rules *f = FM_FAULT("stage.far_rules") ? NULL : calloc(1, sizeof(*f));

	if (!f)
		return fm_err_set(err, -ENOMEM, "allocate the rules of other nodes");
	f->o = *opts;
	pthread_mutex_init(&f->lock, NULL);
	fm_list_init(&f->words);
	*out = f;
	return 0;
}

static void free_word(struct word *w)
{
	assert(!w->is_working);
	pthread_mutex_lock(&w->all->lock);
	fm_list_del(&w->at);
	pthread_mutex_unlock(&w->all->lock);
	w->all->count--;
	free(w);
}

void fm_far_rules_free(struct fm_far_rules *f)
{
	if (!f)
		return;
	fm_list_each (at, next, &f->words)
		free_word(fm_container_of(at, struct word, at));
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static struct word *find_word(struct fm_far_rules *f, const char *node, const char *store)
{
	fm_list_each (at, next, &f->words) {
		struct word *w = fm_container_of(at, struct word, at);

		if (strcmp(w->node, node) == 0 && strcmp(w->store, store) == 0)
			return w;
	}
	return NULL;
}

/* Somebody may have asked for many stores of which nothing came: one of these makes room. */
static void make_room(struct fm_far_rules *f)
{
	fm_list_each (at, next, &f->words) {
		struct word *w = fm_container_of(at, struct word, at);

		if (f->count == FM_FAR_RULES_MAX && !w->is_needed && !w->is_working)
			free_word(w);
	}
}

static struct word *get_word(struct fm_far_rules *f, const char *node, const char *store)
{
	struct word *w = find_word(f, node, store);

	if (w)
		return w;
	make_room(f);
	if (f->count == FM_FAR_RULES_MAX)
		return NULL;
	w = FM_FAULT("stage.far_rules") ? NULL : calloc(1, sizeof(*w));
	if (!w)
		return NULL;	/* the lists stay as they are */
	w->all = f;
	(void)snprintf(w->node, sizeof(w->node), "%s", node);
	(void)snprintf(w->store, sizeof(w->store), "%s", store);
	pthread_mutex_lock(&f->lock);
	fm_list_append(&f->words, &w->at);
	pthread_mutex_unlock(&f->lock);
	f->count++;
	return w;
}

/* Node and store of a source that another node has; false: it is none, or has no good names. */
static bool split(const struct fm_far_rules *f, const char *source,
		  char node[static FM_WIRE_NAME_MAX + 1], char store[static FM_WIRE_NAME_MAX + 1])
{
	struct fm_stage_source_parts s;

	_Static_assert(sizeof(s.node) == FM_WIRE_NAME_MAX + 1 && sizeof(s.store) == sizeof(s.node),
		       "whole names");
	if (fm_stage_source_parse(source, &s) < 0 || !s.node[0] || strcmp(s.node, f->o.node) == 0)
		return false;
	memcpy(node, s.node, sizeof(s.node));
	memcpy(store, s.store, sizeof(s.store));
	return true;
}

/* ---- the lists ---- */

static bool copy_readers(struct fm_far_rules *f, const char *node, const char *store,
			 struct fm_cache_readers *out, uint64_t *times)
{
	const struct word *w;
	bool is_new;

	pthread_mutex_lock(&f->lock);
	w = find_word(f, node, store);
	is_new = w && w->is_known && w->times != *times;
	if (is_new) {
		*out = w->readers;
		*times = w->times;
	}
	pthread_mutex_unlock(&f->lock);
	return is_new;
}

/* Once more if they changed meanwhile: of two who write, the later one may have the older list. */
void fm_far_rules_name(struct fm_far_rules *f, uint64_t id, const char *source)
{
	char node[FM_WIRE_NAME_MAX + 1], store[FM_WIRE_NAME_MAX + 1];
	struct fm_cache_readers readers;
	uint64_t times = 0;

	if (!split(f, source, node, store))
		return;
	while (copy_readers(f, node, store, &readers, &times))
		(void)fm_stage_rights_list(f->o.cache, id, &readers);	/* within a minute, again */
}

static void name_all(struct word *w)
{
	struct fm_far_rules *f = w->all;
	uint64_t *ids = FM_FAULT("stage.alloc") ? NULL
						: calloc(FM_CACHE_DATASETS_MAX, sizeof(*ids));
	size_t count = ids ? fm_cache_list(f->o.cache, ids, FM_CACHE_DATASETS_MAX) : 0;
	char node[FM_WIRE_NAME_MAX + 1], store[FM_WIRE_NAME_MAX + 1];
	struct fm_cache_info info;

	if (!ids)
		fm_log_error("staging: no memory to look who may read what is staged");
	for (size_t i = 0; i < count; i++)
		if (fm_cache_look(f->o.cache, ids[i], &info) &&
		    split(f, info.source, node, store) && strcmp(node, w->node) == 0 &&
		    strcmp(store, w->store) == 0)
			fm_far_rules_name(f, ids[i], info.source);
	free(ids);
}

/* -ENOENT: nobody of that name is here, which is no error of a list. */
static int add_reader(const struct fm_far_rules *f, unsigned kind, const char *name,
		      struct fm_cache_readers *r)
{
	uint32_t id = 0;
	int ret = 0;

	_Static_assert(FM_STAGE_NAMED_MAX <= FM_CACHE_READERS_MAX, "none is left out");
	if (kind == FM_ACCESS_USER)
		ret = fm_access_find_user(name, &id);
	else if (kind == FM_ACCESS_GROUP)
		ret = fm_access_find_group(name, &id);
	if (ret < 0)
		return ret == -ENOENT || ret == -ESRCH ? 0 : ret;
	fm_stage_rights_add_reader(&f->o.everybody, kind, id, r);
	return 0;
}

static void resolve_run(struct fm_work *work)
{
	struct word *w = fm_container_of(work, struct word, work);
	struct fm_cache_readers readers = { 0 };
	int ret = 0;

	for (unsigned i = 0; ret == 0 && w->said && i < w->said->count; i++)
		ret = add_reader(w->all, w->said->at[i].kind, w->said->at[i].name, &readers);
	if (ret < 0)	/* by the next answer */
		return;
	pthread_mutex_lock(&w->all->lock);
	w->readers = readers;
	w->is_known = true;
	w->times++;
	pthread_mutex_unlock(&w->all->lock);
	name_all(w);
}

static void resolve_done(struct fm_work *work)
{
	struct word *w = fm_container_of(work, struct word, work);

	free(w->said);
	w->said = NULL;
	w->is_working = false;
}

/*
 * said: taken over. All of them may wait for the user database without end: so they take no threads
 * from what else their nodes ask for.
 */
static void take(struct word *w, struct fm_stage_named *said)
{
	w->said = said;
	w->is_working = true;
	w->work = (struct fm_work){ .run = resolve_run, .done = resolve_done,
				    .who = fm_share_name(w->node),
				    .may_await = fm_stage_rights_may_await() };
	fm_worker_submit(w->all->o.worker, &w->work, w->all->o.loop);
}

/* ---- asking ---- */

static void say(struct fm_session *session, enum fm_wire_stage_kind kind, const uint8_t *body,
		size_t len)
{
	struct fm_wire_msg m = { .type = FM_WIRE_STAGE,
				 .stage = { .kind = (uint8_t)kind, .body = body, .len = len } };

	if (len > 0)
		fm_session_send(session, &m);
}

/* One that this node does not stage with names nobody, also no more. */
static void ask(struct word *w)
{
	struct fm_far_rules *f = w->all;
	struct fm_peer *peer = fm_engine_peer(f->o.engine, w->node);
	uint64_t now_ns = fm_loop_now(f->o.loop);
	uint8_t body[FM_WIRE_STAGE_MAX];
	struct fm_err err;

	if ((w->is_awaited && now_ns - w->asked_ns < AWAIT_NS) || w->is_working ||
	    f->o.engine->is_stopping)
		return;
	if (fm_togethers_may(f->o.togethers, w->node, &err) < 0) {
		if (!w->is_known)
			take(w, NULL);
		return;
	}
	if (!peer || !peer->session || !fm_session_has_room(peer->session))
		return;
	w->is_awaited = true;
	w->asked_ns = now_ns;
	say(peer->session, FM_WIRE_STAGE_WHO, body, fm_stage_who_encode(w->store, body));
}

void fm_far_rules_ask(struct fm_far_rules *f, const char *node, const char *store)
{
	struct word *w = strcmp(node, f->o.node) == 0 ? NULL : get_word(f, node, store);

	if (w)
		ask(w);
}

/* Notes which stores copies are of, and forgets the others. */
static void find_needed(struct fm_far_rules *f)
{
	uint64_t *ids = calloc(FM_CACHE_DATASETS_MAX, sizeof(*ids));
	size_t count = ids ? fm_cache_list(f->o.cache, ids, FM_CACHE_DATASETS_MAX) : 0;
	char node[FM_WIRE_NAME_MAX + 1], store[FM_WIRE_NAME_MAX + 1];
	struct fm_cache_info info;

	if (!ids)
		return;
	fm_list_each (at, next, &f->words)
		fm_container_of(at, struct word, at)->is_needed = false;
	for (size_t i = 0; i < count; i++) {
		struct word *w = NULL;

		if (fm_cache_look(f->o.cache, ids[i], &info) &&
		    split(f, info.source, node, store))
			w = get_word(f, node, store);
		if (w)
			w->is_needed = true;
	}
	free(ids);
	fm_list_each (at, next, &f->words) {
		struct word *w = fm_container_of(at, struct word, at);

		if (!w->is_needed && !w->is_working)
			free_word(w);
	}
}

void fm_far_rules_look(struct fm_far_rules *f)
{
	uint64_t now_ns = fm_loop_now(f->o.loop);

	if (f->looked_ns > 0 && now_ns - f->looked_ns < LOOK_NS)
		return;
	f->looked_ns = now_ns;
	find_needed(f);
	fm_list_each (at, next, &f->words)
		ask(fm_container_of(at, struct word, at));
}

void fm_far_rules_peer_up(struct fm_far_rules *f, const struct fm_peer *peer)
{
	fm_list_each (at, next, &f->words) {
		struct word *w = fm_container_of(at, struct word, at);

		if (strcmp(w->node, peer->name) == 0)
			ask(w);
	}
}

void fm_far_rules_session_lost(struct fm_far_rules *f, const struct fm_session *session)
{
	fm_list_each (at, next, &f->words) {
		struct word *w = fm_container_of(at, struct word, at);

		if (strcmp(w->node, session->name) == 0)
			w->is_awaited = false;
	}
}

/* An answer that nobody awaits is dropped: it would have names looked up as often as it comes. */
static void on_named(struct fm_far_rules *f, struct fm_session *session,
		     const struct fm_wire_stage *m)
{
	struct fm_stage_named *said = malloc(sizeof(*said));
	struct word *w;

	if (said && fm_stage_named_decode(m->body, m->len, said) < 0) {
		free(said);
		fm_session_protocol_error(session, "names of readers that cannot be");
		return;
	}
	w = said ? find_word(f, session->name, said->store) : NULL;
	if (!w || !w->is_awaited) {
		free(said);
		return;
	}
	w->is_awaited = false;
	if (said->code == -EAGAIN || f->o.engine->is_stopping)
		free(said);
	else
		take(w, said);
}

/* ---- asked by another node ---- */

/* A rule for peers lets it read; those for users are told then. */
static int tell_of(struct fm_far_rules *f, const char *peer, struct fm_stage_named *out)
{
	size_t len = strlen(out->store);
	struct fm_store_ref *ref = fm_engine_store_rules(f->o.engine, out->store, len);
	const struct fm_store_ops *ops = ref ? ref->store->ops : NULL;
	struct fm_err err;
	int ret = fm_togethers_may(f->o.togethers, peer, &err);

	if (ret == 0 && !ref)
		ret = fm_engine_volume_of(f->o.engine, out->store, len) ? -EAGAIN : -ENOENT;
	else if (ret == 0 && !(ops->lets_peer && ops->lets_peer(ref->store, peer)))
		ret = -EACCES;
	else if (ret == 0 && ref->store->is_silent)
		ret = -EAGAIN;
	if (ret == 0 && ops->readers)
		ops->readers(ref->store, fm_stage_named_add, out);
	if (ref)
		fm_engine_store_put(ref);
	return ret;
}

static void on_who(struct fm_far_rules *f, struct fm_session *session,
		   const struct fm_wire_stage *m)
{
	struct fm_stage_named *n = calloc(1, sizeof(*n));
	uint8_t body[FM_WIRE_STAGE_MAX];

	if (n && fm_stage_who_decode(m->body, m->len, n->store) < 0)
		fm_session_protocol_error(session, "a question about readers that cannot be");
	else if (n && fm_session_has_room(session)) {
		n->code = f ? tell_of(f, session->name, n) : -EOPNOTSUPP;
		say(session, FM_WIRE_STAGE_NAMED, body, fm_stage_named_encode(n, body));
	}
	free(n);
}

void fm_far_rules_message(struct fm_far_rules *f, struct fm_session *session,
			  const struct fm_wire_stage *m)
{
	if (m->kind == FM_WIRE_STAGE_WHO)
		on_who(f, session, m);
	else if (f)
		on_named(f, session, m);
}
