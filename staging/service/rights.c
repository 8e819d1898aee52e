/* SPDX-License-Identifier: MIT */
/* rights - see rights.h. */
#include "staging/service/rights.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/node/node.h"
#include "mover/store/access.h"
#include "mover/store/store.h"
#include "staging/cache.h"
#include "staging/key.h"
#include "staging/service/hub.h"

#define NSS_BUF_LEN (1u << 16)
#define NO_GROUP    ((gid_t)-1)

struct question {
	struct fm_cache *cache;
	uint64_t id;
	struct fm_store *store;
	uid_t refused;
};

/* Whether the user database has that user, and his primary group. */
static bool find_user(uid_t uid, gid_t *gid)
{
	struct passwd entry, *found = NULL;
	char *buf = FM_FAULT("stage.alloc") ? NULL : malloc(NSS_BUF_LEN);
	bool is_there = buf && getpwuid_r(uid, &entry, buf, NSS_BUF_LEN, &found) == 0 && found;

	*gid = is_there ? found->pw_gid : NO_GROUP;
	free(buf);
	return is_there;
}

bool fm_stage_rights_is_user(uid_t uid)
{
	gid_t gid;

	return find_user(uid, &gid);
}

const void *fm_stage_rights_may_await(void)
{
	return fm_access_user_database();
}

static bool asks_users(const struct fm_store *store)
{
	return store && store->ops->asks_users && store->ops->asks_users((struct fm_store *)store);
}

const void *fm_stage_rights_may_await_of(const struct fm_store *store)
{
	return asks_users(store) ? fm_stage_rights_may_await() : NULL;
}

const void *fm_stage_rights_to_look_up(const struct fm_store *store, const struct fm_who *who)
{
	return store && !fm_store_may_await(store) ? fm_access_may_await(store, who) : NULL;
}

bool fm_stage_rights_may_read(struct fm_store *store, const struct fm_who *who)
{
	bool may_read = true, may_write;

	if (store->ops->rights)
		store->ops->rights(store, who, &may_read, &may_write);
	return may_read;
}

bool fm_stage_rights_may_read_as(struct fm_store *store, uid_t uid)
{
	struct fm_who who = { .uid = uid, .gid = NO_GROUP };

	if (asks_users(store))
		(void)find_user(uid, &who.gid);
	return fm_stage_rights_may_read(store, &who);
}

/*
 * Only the rules are asked: one file system that does not answer would hold up all that is asked
 * behind it, and one that fails takes nobody's right.
 */
static bool may_still(void *ctx, uid_t uid)
{
	const struct question *q = ctx;

	return q->store ? fm_stage_rights_may_read_as(q->store, uid)
			: fm_cache_is_held_by(q->cache, q->id, uid);
}

int fm_stage_rights_agree(struct fm_cache *cache, uint64_t id, struct fm_store *store,
			  struct fm_err *err)
{
	struct question q = { .cache = cache, .id = id, .store = store };
	struct fm_cache_info info;

	/* the only one who may is its source, for good: no rules say so */
	if (fm_cache_look(cache, id, &info) && fm_hub_is_own(info.source))
		return 0;
	return fm_cache_allow_only(cache, id, may_still, &q, err);
}

bool fm_stage_rights_is_refusal(const struct fm_err *err)
{
	return err->code == -EACCES && err->is_rule;
}

/* ---- whom the rules name ---- */

struct naming {
	const struct fm_stage_everybody *everybody;
	struct fm_cache_readers readers;
};

void fm_stage_rights_add_reader(const struct fm_stage_everybody *everybody,
				enum fm_access_kind kind, uint32_t id, struct fm_cache_readers *r)
{
	if (kind == FM_ACCESS_USER)
		r->users[r->user_count++] = id;
	else if (kind == FM_ACCESS_GROUP)
		r->groups[r->group_count++] = id;
	else if (everybody->has_group)
		r->groups[r->group_count++] = everybody->group;
	else
		r->is_all = everybody->is_all;
}

static void add_reader(void *ctx, enum fm_access_kind kind, uint32_t id, const char *name)
{
	struct naming *n = ctx;

	(void)name;
	_Static_assert(FM_ACCESS_RULES_MAX <= FM_CACHE_READERS_MAX, "none is left out");
	fm_stage_rights_add_reader(n->everybody, kind, id, &n->readers);
}

bool fm_stage_rights_list(struct fm_cache *cache, uint64_t id,
			  const struct fm_cache_readers *readers)
{
	struct fm_err err;
	bool is_stale;

	if (fm_cache_allow_readers(cache, id, readers, &is_stale, &err) < 0)
		fm_log_warn("staging: whom the rules of its store let read a copy does not come "
			    "to it before staging it, too%s: %s",
			    is_stale ? "; who might before still does" : "", err.text);
	return !is_stale;
}

bool fm_stage_rights_name(struct fm_cache *cache, uint64_t id, struct fm_store *store,
			  const struct fm_stage_everybody *everybody)
{
	struct naming n = { .everybody = everybody };

	if (store && store->ops->readers)
		store->ops->readers(store, add_reader, &n);
	return fm_stage_rights_list(cache, id, &n.readers);
}

/* ---- one who was refused ---- */

static bool is_another(void *ctx, uid_t uid)
{
	return uid != ((const struct question *)ctx)->refused;
}

static uint64_t *list_all(struct fm_cache *cache, size_t *count)
{
	uint64_t *ids = FM_FAULT("stage.alloc") ? NULL
						: calloc(FM_CACHE_DATASETS_MAX, sizeof(*ids));

	*count = ids ? fm_cache_list(cache, ids, FM_CACHE_DATASETS_MAX) : 0;
	if (!ids)
		fm_log_error("staging: no memory to look who may read what is staged");
	return ids;
}

void fm_stage_rights_end(struct fm_cache *cache, const char *source, uid_t uid, bool is_far)
{
	struct question q = { .refused = uid };
	size_t count;
	uint64_t *ids = list_all(cache, &count);
	struct fm_cache_info info;
	struct fm_err err;

	for (size_t i = 0; i < count; i++) {
		if (!fm_cache_look(cache, ids[i], &info) || strcmp(info.source, source) != 0)
			continue;
		if (fm_cache_allow_only(cache, ids[i], is_another, &q, &err) < 0)
			fm_log_warn("staging: user %u may still read %s: %s", (unsigned)uid,
				    info.name, err.text);
		if (is_far)
			(void)fm_stage_rights_name(cache, ids[i], NULL, NULL);
	}
	free(ids);
}

/* ---- the store of a source ---- */

enum whose {
	OURS,				/* of a store of this node */
	SHARED,				/* its store has an ID */
	OTHERS				/* of another node, or of none */
};

static enum whose whose(const char *node, const char *source, struct fm_stage_source_parts *s)
{
	if (fm_stage_source_parse(source, s) < 0)
		return OTHERS;
	if (s->kind == FM_STAGE_SHARED_STORE)
		return SHARED;
	return strcmp(s->node, node) == 0 ? OURS : OTHERS;
}

bool fm_stage_rights_is_far(const char *node, const char *source)
{
	struct fm_stage_source_parts s;

	return whose(node, source, &s) == OTHERS;
}

struct fm_store_ref *fm_stage_rights_store(struct fm_engine *engine, const char *node,
					   const char *source)
{
	struct fm_stage_source_parts s;

	switch (whose(node, source, &s)) {
	case OURS:
		return fm_engine_store_rules(engine, s.store, strlen(s.store));
	case SHARED:
		return fm_engine_store_shared_rules(engine, s.store);
	case OTHERS:
		break;
	}
	return NULL;
}

bool fm_stage_rights_wait(struct fm_engine *engine, const char *node, const char *source)
{
	struct fm_store_ref *ref = fm_stage_rights_store(engine, node, source);
	bool is_silent = ref && ref->store->is_silent;
	struct fm_stage_source_parts s;

	if (ref)
		fm_engine_store_put(ref);
	if (ref)
		return is_silent;
	switch (whose(node, source, &s)) {
	case OURS:
		return fm_engine_volume_of(engine, s.store, strlen(s.store));
	case SHARED:
		return fm_engine_is_volume_away(engine, s.store);
	case OTHERS:
		break;
	}
	return false;
}

/* ---- all ---- */

/* Those that are asked about, each until it was. */
struct fm_stage_pass {
	bool is_again;			/* only what is in a store here, open or no more */
	size_t count;
	struct one {
		uint64_t id;
		bool is_left;			/* it is to be asked about, by a later run ... */
		bool is_now;			/* ... or the next one */
		bool is_told;			/* that it failed */
		struct fm_store_ref *store;	/* then; NULL: its rules are not known */
	} of[];
};

static struct fm_stage_pass *new_pass(const struct fm_stage_rights *r, bool is_again)
{
	size_t count;
	uint64_t *ids = list_all(r->cache, &count);
	struct fm_stage_pass *p = ids ? calloc(1, sizeof(*p) + count * sizeof(p->of[0])) : NULL;

	for (size_t i = 0; p && i < count; i++)
		p->of[p->count++].id = ids[i];
	if (p)
		p->is_again = is_again;
	free(ids);
	return p;
}

/*
 * After a reload: a store of this node that is not here, and is not waited for, was removed. Who
 * staged what was in it keeps that as long as he holds it, as he does after a start.
 */
static bool is_asked_again(const struct fm_stage_rights *r, const struct one *one,
			   const struct fm_cache_info *info)
{
	return one->store || !fm_stage_rights_is_far(r->node, info->source);
}

/* One that is being evicted goes, or is asked about when it is back. */
static void look_at(const struct fm_stage_rights *r, bool is_again, struct one *one,
		    const struct fm_cache_info *info)
{
	bool is_evicting = info->state == FM_CACHE_EVICTING;
	bool does_wait = fm_stage_rights_wait(r->engine, r->node, info->source);

	one->store = NULL;
	one->is_now = !is_evicting && !does_wait;
	if (one->is_now)
		one->store = fm_stage_rights_store(r->engine, r->node, info->source);
	if (one->is_now && is_again)
		one->is_now = is_asked_again(r, one, info);
	/* A store that opens begins the whole again. */
	one->is_left = !one->is_now && (is_evicting || !is_again);
}

static void look_all(const struct fm_stage_rights *r, struct fm_stage_pass *p)
{
	struct fm_cache_info info;

	for (size_t i = 0; p && i < p->count; i++) {
		if (fm_cache_look(r->cache, p->of[i].id, &info))
			look_at(r, p->is_again, &p->of[i], &info);
		else
			p->of[i--] = p->of[--p->count];	/* it has gone */
	}
}

void fm_stage_rights_look(struct fm_stage_rights *r)
{
	bool is_again = r->has_agreed || r->first;
	struct fm_stage_pass *p = NULL;

	if (!is_again || r->store_changes != r->engine->store_changes)
		p = new_pass(r, is_again);	/* NULL: the next look tries it */
	if (p)
		r->store_changes = r->engine->store_changes;
	if (p && is_again) {
		free(r->again);
		r->again = p;
	} else if (p) {
		r->first = p;
	}
	look_all(r, r->first);
	look_all(r, r->again);
}

/* What another node's rules say of users stays until it says it again. False: it failed. */
static bool agree(const struct fm_stage_rights *r, bool is_again, struct one *one)
{
	struct fm_store *store = one->store ? one->store->store : NULL;
	struct fm_cache_info info;
	struct fm_err err;
	int ret = 0;

	if (store || !is_again)
		ret = fm_stage_rights_agree(r->cache, one->id, store, &err);
	if (ret < 0 && ret != -ENOENT && ret != -EAGAIN && !one->is_told) {
		fm_log_warn("staging: who may read a copy is as it was: %s", err.text);
		one->is_told = true;
	}
	if (store || (fm_cache_look(r->cache, one->id, &info) &&
		      !fm_stage_rights_is_far(r->node, info.source)))
		return fm_stage_rights_name(r->cache, one->id, store, r->everybody) && ret == 0;
	return ret == 0;
}

static void run_all(const struct fm_stage_rights *r, struct fm_stage_pass *p)
{
	for (size_t i = 0; p && i < p->count; i++)
		if (p->of[i].is_now)
			p->of[i].is_left = !agree(r, p->is_again, &p->of[i]);
}

void fm_stage_rights_run(struct fm_stage_rights *r)
{
	run_all(r, r->first);
	run_all(r, r->again);
}

/* Whether all of them were asked; then there is nothing left of it. */
static bool end_round(struct fm_stage_pass **pass)
{
	struct fm_stage_pass *p = *pass;
	size_t left = 0;

	for (size_t i = 0; p && i < p->count; i++) {
		if (p->of[i].store)
			fm_engine_store_put(p->of[i].store);
		p->of[i].store = NULL;
		if (p->of[i].is_left)
			p->of[left++] = p->of[i];
	}
	if (p)
		p->count = left;
	if (!p || left > 0)
		return false;
	free(p);
	*pass = NULL;
	return true;
}

void fm_stage_rights_asked(struct fm_stage_rights *r)
{
	if (end_round(&r->first))
		r->has_agreed = true;
	(void)end_round(&r->again);
}

void fm_stage_rights_free(struct fm_stage_rights *r)
{
	fm_stage_rights_asked(r);
	free(r->first);
	free(r->again);
	r->first = r->again = NULL;
}
