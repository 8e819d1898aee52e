/* SPDX-License-Identifier: MIT */
/* libfmove_group - groups: what many put gets its place in one step. See fmove.h. */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/group_id.h"

#define COMMIT_MS (3600u * 1000) /* all that came may have to get to the disk */

_Static_assert(FMOVE_GROUP_ID_LEN == FM_GROUP_ID_TEXT_LEN, "an ID is one text for all");

void fmove_group_id(char id[FMOVE_GROUP_ID_LEN + 1])
{
	uint8_t bytes[FM_GROUP_ID_LEN];

	fm_random_real.fill(fm_random_real.ctx, bytes, sizeof(bytes));
	fm_group_id_print(bytes, id);
}

static void options_add(struct fm_json_writer *w, const struct fmove_group_options *o)
{
	if (o->may_replace)
		fm_jw_bool(w, "force", true);
	if (o->members > 0)
		fm_jw_u64(w, "members", o->members);
	if (o->expect)
		fm_jw_name(w, "expect", o->expect, strlen(o->expect));
	if (o->expires_ms > 0)
		fm_jw_u64(w, "expires_ms", o->expires_ms);
}

/* What is missing keeps its zero. */
static void members_read(const struct fm_json *json, struct fmove_group_members *m)
{
	uint64_t count = 0;
	size_t len;

	(void)fm_json_u64(fm_json_get(json, "count"), &count);
	(void)fm_json_name(fm_json_get(json, "names"), m->names, sizeof(m->names), &len);
	m->count = (uint32_t)count;
}

static void failed(void *ctx, const struct fm_json *event)
{
	if (ctx)
		members_read(fm_json_get(event, "missing"), ctx);
}

/* Asks for something that may take its time. missing: of its members; NULL: not asked for. */
static int ask(struct fmove *c, const char *op, const struct fmove_name *name, const char *id,
	       const struct fmove_group_options *o, bool is_check,
	       struct fmove_group_members *missing, struct fmove_error *err)
{
	const struct fmove_options opts = {.timeout_ms = c->timeout_ms ? c->timeout_ms : COMMIT_MS};
	const struct fm_lib_parcel with = {.count = 0};
	struct fm_lib_waiting waiting = {.opts = &opts, .failed = failed, .ctx = missing};
	struct fmove_group_options asked;
	struct fm_lib_request req;
	struct fm_json *done;
	int ret = fm_sized_take(&asked, sizeof(asked), o, "fmove_group_options", err);

	if (ret < 0)
		return ret;
	if (missing)
		*missing = (struct fmove_group_members){.count = 0};
	fm_lib_begin(c, &req, op);
	fm_lib_add_name(&req, name);
	fm_jw_text(&req.json, "group", id);
	options_add(&req.json, &asked);
	if (is_check)
		fm_jw_bool(&req.json, "check_only", true);
	req.limit_ms = opts.timeout_ms;
	ret = fm_lib_run(&req, &with, &waiting, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}

int fmove_group_begin(struct fmove *c, const struct fmove_name *name, const char *id,
		      const struct fmove_group_options *opts, struct fmove_error *err)
{
	return ask(c, "group_begin", name, id, opts, false, NULL, err);
}

int fmove_group_check(struct fmove *c, const struct fmove_name *name, const char *id,
		      const struct fmove_group_options *opts, struct fmove_group_members *missing,
		      struct fmove_error *err)
{
	return ask(c, "group_commit", name, id, opts, true, missing, err);
}

int fmove_group_commit(struct fmove *c, const struct fmove_name *name, const char *id,
		       const struct fmove_group_options *opts, struct fmove_group_members *missing,
		       struct fmove_error *err)
{
	return ask(c, "group_commit", name, id, opts, false, missing, err);
}

int fmove_group_discard(struct fmove *c, const struct fmove_name *name, const char *id,
			struct fmove_error *err)
{
	return ask(c, "group_discard", name, id, NULL, false, NULL, err);
}

/* ---- those that are open ---- */

static void group_read(const struct fm_json *json, struct fmove_group *g)
{
	uint64_t uid = 0, members = 0;
	size_t len;

	*g = (struct fmove_group){.struct_size = sizeof(*g)};
	(void)fm_json_name(fm_json_get(json, "path"), g->path, sizeof(g->path), &len);
	fm_lib_text(json, "peer", g->peer, sizeof(g->peer));
	(void)fm_json_u64(fm_json_get(json, "uid"), &uid);
	(void)fm_json_i64(fm_json_get(json, "begun_ns"), &g->begun_ns);
	(void)fm_json_i64(fm_json_get(json, "expires_ns"), &g->expires_ns);
	(void)fm_json_bool(fm_json_get(json, "force"), &g->may_replace);
	(void)fm_json_u64(fm_json_get(json, "members"), &members);
	g->uid = (uint32_t)uid;
	g->members = (uint32_t)members;
	members_read(fm_json_get(json, "there"), &g->there);
	members_read(fm_json_get(json, "coming"), &g->coming);
	members_read(fm_json_get(json, "missing"), &g->missing);
}

/*
 * Tells one page. Returns whether there are more that are wanted; *last is the last one's path,
 * *told counts them.
 */
static bool groups_show(const struct fm_json *done, char last[static FMOVE_PATH_MAX + 1],
			size_t *told, bool (*each)(void *ctx, const struct fmove_group *group),
			void *ctx)
{
	const struct fm_json *groups = fm_json_get(done, "groups");
	size_t count = fm_json_count(groups);
	bool is_more = false, goes_on = count > 0;
	struct fmove_group g;

	for (size_t i = 0; i < count && goes_on; i++) {
		group_read(fm_json_at(groups, i), &g);
		goes_on = strcmp(g.path, last) > 0 && each(ctx, &g);
		(void)snprintf(last, FMOVE_PATH_MAX + 1, "%s", g.path);
	}
	*told += count;
	return goes_on && fm_json_bool(fm_json_get(done, "more"), &is_more) == 0 && is_more;
}

int fmove_groups(struct fmove *c, const struct fmove_name *name,
		 bool (*each)(void *ctx, const struct fmove_group *group), void *ctx,
		 struct fmove_error *err)
{
	const struct fmove_options opts = {.timeout_ms = c->timeout_ms ? c->timeout_ms : COMMIT_MS};
	const struct fm_lib_parcel with = {.count = 0};
	struct fm_lib_waiting waiting = {.opts = &opts};
	char last[FMOVE_PATH_MAX + 1] = "";
	struct fm_lib_request req;
	struct fm_json *done;
	size_t told = 0;
	bool is_more;
	int ret;

	do {
		const struct fmove_name from = {name->node, name->store, last};

		fm_lib_begin(c, &req, "group_list");
		fm_lib_add_name(&req, &from);
		req.limit_ms = opts.timeout_ms;
		ret = fm_lib_run(&req, &with, &waiting, &done, err);
		if (ret < 0)
			return ret;
		is_more = groups_show(done, last, &told, each, ctx);
		fm_json_free(done);
	} while (is_more && told < FMOVE_GROUPS_MAX);
	return is_more ? fm_lib_fail(err, -EPROTO,
				     "the node tells of %d open groups, and of more than those",
				     FMOVE_GROUPS_MAX)
		       : 0;
}
