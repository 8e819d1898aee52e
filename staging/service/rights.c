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

void fm_stage_rights_end(struct fm_cache *cache, const char *source, uid_t uid)
{
	struct question q = { .refused = uid };
	size_t count;
	uint64_t *ids = list_all(cache, &count);
	struct fm_cache_info info;
	struct fm_err err;

	for (size_t i = 0; i < count; i++)
		if (fm_cache_look(cache, ids[i], &info) && strcmp(info.source, source) == 0 &&
		    fm_cache_allow_only(cache, ids[i], is_another, &q, &err) < 0)
			fm_log_warn("staging: user %u may still read %s: %s", (unsigned)uid,
				    info.name, err.text);
	free(ids);
}

/* ---- all ---- */

struct fm_stage_rights {
	struct fm_cache *cache;
	size_t count;
	struct {
		uint64_t id;
		struct fm_store_ref *store;
	} of[];
};

static struct fm_store_ref *shared_store(struct fm_engine *engine, const char *source)
{
	const char *id = source + strlen(FM_STAGE_SHARED);
	char name[FM_SHARED_LEN_MAX + 1];

	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(id, "/"), id);
	return fm_engine_store_shared(engine, name);
}

/* NODE:STORE/PATH of this node, or shared ID/PATH. */
struct fm_store_ref *fm_stage_rights_store(struct fm_engine *engine, const char *node,
					   const char *source)
{
	size_t len = strlen(node);
	const char *store;

	if (strncmp(source, FM_STAGE_SHARED, strlen(FM_STAGE_SHARED)) == 0)
		return shared_store(engine, source);
	if (strncmp(source, FM_HUB_SOURCE, strlen(FM_HUB_SOURCE)) == 0)
		source += strlen(FM_HUB_SOURCE);
	if (strncmp(source, node, len) != 0 || source[len] != ':')
		return NULL;
	store = source + len + 1;
	return fm_engine_store_get(engine, store, strcspn(store, "/"));
}

struct fm_stage_rights *fm_stage_rights_begin(struct fm_cache *cache, struct fm_engine *engine,
					      const char *node)
{
	size_t count;
	uint64_t *ids = list_all(cache, &count);
	struct fm_stage_rights *r = ids ? calloc(1, sizeof(*r) + count * sizeof(r->of[0])) : NULL;
	struct fm_cache_info info;

	for (size_t i = 0; r && i < count; i++) {
		if (!fm_cache_look(cache, ids[i], &info))
			continue;
		r->of[r->count].id = ids[i];
		r->of[r->count++].store = fm_stage_rights_store(engine, node, info.source);
	}
	if (r)
		r->cache = cache;
	free(ids);
	return r;
}

void fm_stage_rights_run(struct fm_stage_rights *r)
{
	struct fm_err err;

	for (size_t i = 0; r && i < r->count; i++) {
		struct fm_store_ref *ref = r->of[i].store;

		if (fm_stage_rights_agree(r->cache, r->of[i].id, ref ? ref->store : NULL, &err) < 0)
			fm_log_warn("staging: who may read a copy is as it was: %s", err.text);
	}
}

void fm_stage_rights_free(struct fm_stage_rights *r)
{
	for (size_t i = 0; r && i < r->count; i++)
		if (r->of[i].store)
			fm_engine_store_put(r->of[i].store);
	free(r);
}
