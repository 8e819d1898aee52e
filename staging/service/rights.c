/* SPDX-License-Identifier: MIT */
/* rights - see rights.h. */
#include "staging/service/rights.h"

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

static bool may_still(void *ctx, uid_t uid)
{
	const struct question *q = ctx;
	struct fm_who who = { .uid = uid };
	struct fm_attr attr;
	struct fm_err err;

	if (!q->store)
		return fm_cache_is_held_by(q->cache, q->id, uid);
	(void)find_user(uid, &who.gid); /* for rules that name groups; else he has none */
	return q->store->ops->stat(q->store, "", &who, &attr, &err) == 0;
}

int fm_stage_rights_agree(struct fm_cache *cache, uint64_t id, struct fm_store *store,
			  struct fm_err *err)
{
	struct question q = { .cache = cache, .id = id, .store = store };

	return fm_cache_allow_only(cache, id, may_still, &q, err);
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

void fm_stage_rights_list(struct fm_cache *cache, uint64_t id,
			  const struct fm_cache_readers *readers)
{
	struct fm_err err;

	if (fm_cache_allow_readers(cache, id, readers, &err) < 0)
		fm_log_warn("staging: whom the rules of its store let read a copy does not come "
			    "to it before staging it, too: %s", err.text);
}

void fm_stage_rights_name(struct fm_cache *cache, uint64_t id, struct fm_store *store,
			  const struct fm_stage_everybody *everybody)
{
	struct naming n = { .everybody = everybody };

	if (store && store->ops->readers)
		store->ops->readers(store, add_reader, &n);
	fm_stage_rights_list(cache, id, &n.readers);
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
			fm_stage_rights_name(cache, ids[i], NULL, NULL);
	}
	free(ids);
}

/* ---- all ---- */

struct fm_stage_rights {
	struct fm_cache *cache;
	struct fm_engine *engine;
	const char *node;
	const struct fm_stage_everybody *everybody;
	bool is_again;
	size_t count;
	struct {
		uint64_t id;
		bool is_now;			/* it is asked about by the next run */
		struct fm_store_ref *store;	/* then; NULL: its rules are not known */
	} of[];
};

/* In a store of this node, whose name it returns; NULL: it is another node's, or shared. */
static const char *own_store(const char *node, const char *source)
{
	size_t len = strlen(node);

	if (strncmp(source, FM_HUB_SOURCE, strlen(FM_HUB_SOURCE)) == 0)
		source += strlen(FM_HUB_SOURCE);
	return strncmp(source, node, len) == 0 && source[len] == ':' ? source + len + 1 : NULL;
}

static bool is_shared(const char *source)
{
	return strncmp(source, FM_STAGE_SHARED, strlen(FM_STAGE_SHARED)) == 0;
}

bool fm_stage_rights_is_far(const char *node, const char *source)
{
	return !is_shared(source) && !own_store(node, source);
}

/* NODE:STORE/PATH of this node, or shared ID/PATH. */
struct fm_store_ref *fm_stage_rights_store(struct fm_engine *engine, const char *node,
					   const char *source)
{
	char id[FM_SHARED_LEN_MAX + 1];
	const char *store;

	if (is_shared(source)) {
		source += strlen(FM_STAGE_SHARED);
		(void)snprintf(id, sizeof(id), "%.*s", (int)strcspn(source, "/"), source);
		return fm_engine_store_shared_rules(engine, id);
	}
	store = own_store(node, source);
	return store ? fm_engine_store_rules(engine, store, strcspn(store, "/")) : NULL;
}

bool fm_stage_rights_wait(struct fm_engine *engine, const char *node, const char *source)
{
	struct fm_store_ref *ref = fm_stage_rights_store(engine, node, source);
	const char *store = is_shared(source) ? NULL : own_store(node, source);
	bool is_silent = ref && ref->store->is_silent;
	char id[FM_SHARED_LEN_MAX + 1];

	if (ref)
		fm_engine_store_put(ref);
	if (ref)
		return is_silent;
	if (is_shared(source)) {
		(void)snprintf(id, sizeof(id), "%.*s",
			       (int)strcspn(source + strlen(FM_STAGE_SHARED), "/"),
			       source + strlen(FM_STAGE_SHARED));
		return fm_engine_is_volume_away(engine, id);
	}
	return store && fm_engine_volume_of(engine, store, strcspn(store, "/"));
}

struct fm_stage_rights *fm_stage_rights_new(struct fm_cache *cache, struct fm_engine *engine,
					    const char *node,
					    const struct fm_stage_everybody *everybody,
					    bool is_again)
{
	size_t count;
	uint64_t *ids = list_all(cache, &count);
	struct fm_stage_rights *r = ids ? calloc(1, sizeof(*r) + count * sizeof(r->of[0])) : NULL;

	for (size_t i = 0; r && i < count; i++)
		r->of[r->count++].id = ids[i];
	if (r) {
		r->cache = cache;
		r->engine = engine;
		r->node = node;
		r->everybody = everybody;
		r->is_again = is_again;
	}
	free(ids);
	return r;
}

void fm_stage_rights_look(struct fm_stage_rights *r)
{
	struct fm_cache_info info;

	for (size_t i = 0; r && i < r->count; i++) {
		if (!fm_cache_look(r->cache, r->of[i].id, &info)) {
			r->of[i--] = r->of[--r->count];	/* it has gone */
			continue;
		}
		r->of[i].store = NULL;
		r->of[i].is_now = !fm_stage_rights_wait(r->engine, r->node, info.source);
		if (r->of[i].is_now)
			r->of[i].store = fm_stage_rights_store(r->engine, r->node, info.source);
		/* One that is being changed is not there for a moment. */
		if (r->is_again && !r->of[i].store)
			r->of[i].is_now = false;
	}
}

/* What another node's rules say of users stays until it says it again. */
static void agree(const struct fm_stage_rights *r, uint64_t id, struct fm_store *store)
{
	struct fm_cache_info info;
	struct fm_err err;

	if (fm_stage_rights_agree(r->cache, id, store, &err) < 0)
		fm_log_warn("staging: who may read a copy is as it was: %s", err.text);
	if (store || (fm_cache_look(r->cache, id, &info) &&
		      !fm_stage_rights_is_far(r->node, info.source)))
		fm_stage_rights_name(r->cache, id, store, r->everybody);
}

void fm_stage_rights_run(struct fm_stage_rights *r)
{
	for (size_t i = 0; r && i < r->count; i++)
		if (r->of[i].is_now)
			agree(r, r->of[i].id, r->of[i].store ? r->of[i].store->store : NULL);
}

void fm_stage_rights_asked(struct fm_stage_rights *r)
{
	size_t left = 0;

	for (size_t i = 0; r && i < r->count; i++) {
		if (r->of[i].store)
			fm_engine_store_put(r->of[i].store);
		r->of[i].store = NULL;
		if (!r->of[i].is_now && !r->is_again)
			r->of[left++] = r->of[i];
	}
	if (r)
		r->count = left;
}

bool fm_stage_rights_are_over(const struct fm_stage_rights *r)
{
	return r->count == 0;
}

void fm_stage_rights_free(struct fm_stage_rights *r)
{
	free(r);
}
