/* SPDX-License-Identifier: MIT */
/* libfmove_store - what is in a store: looked at, changed, counted, read again. See fmove.h. */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/exit_code.h"
#include "mover/tree/staging.h"

#define REMOVE_MS (3600u * 1000) /* to remove directories: millions of files may be in one */

static void store_begin(struct fmove *c, struct fm_lib_request *req, const char *op,
			const struct fmove_name *name)
{
	fm_lib_begin(c, req, op);
	fm_lib_add_name(req, name);
	req->limit_ms = c->timeout_ms;
}

static void entry_read(const struct fm_json *json, struct fmove_entry *e)
{
	static const char *const types[] = {"file", "directory", "link"};
	char type[16];
	size_t len;

	*e = (struct fmove_entry){.struct_size = sizeof(*e), .type = FMOVE_OTHER};
	fm_lib_text(json, "type", type, sizeof(type));
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(types[i], type) == 0)
			e->type = (enum fmove_type)i;
	/* What is missing keeps its zero. */
	(void)fm_json_name(fm_json_get(json, "name"), e->name, sizeof(e->name), &len);
	(void)fm_json_u64(fm_json_get(json, "size"), &e->size);
	(void)fm_json_i64(fm_json_get(json, "mtime_ns"), &e->mtime_ns);
	e->mode = fm_lib_mode(json);
	if (fm_json_get(json, "whole") && fm_json_u64(fm_json_get(json, "whole"), &e->whole) < 0)
		e->whole = UINT64_MAX;
}

int fmove_stat(struct fmove *c, const struct fmove_name *name, struct fmove_entry *out,
	       struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fmove_entry entry;
	struct fm_json *done;
	int ret = fm_sized_check(out, sizeof(*out), "fmove_entry", err);

	if (ret < 0)
		return ret;
	store_begin(c, &req, "stat", name);
	ret = fm_lib_do(&req, &done, err);
	if (ret < 0)
		return ret;
	entry_read(done, &entry);
	fm_json_free(done);
	fm_sized_give(out, &entry, sizeof(entry));
	return 0;
}

int fmove_look(struct fmove *c, const struct fmove_name *name, struct fmove_entry *out,
	       char says[FMOVE_PATH_MAX + 1], struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fmove_entry entry;
	struct fm_json *done;
	size_t len;
	int ret = fm_sized_check(out, sizeof(*out), "fmove_entry", err);

	says[0] = '\0';
	if (ret < 0)
		return ret;
	store_begin(c, &req, "look", name);
	ret = fm_lib_do(&req, &done, err);
	if (ret < 0)
		return ret;
	entry_read(done, &entry);
	fm_sized_give(out, &entry, sizeof(entry));
	/* What is missing says nothing. */
	(void)fm_json_name(fm_json_get(done, "says"), says, FMOVE_PATH_MAX + 1, &len);
	fm_json_free(done);
	return 0;
}

struct page {
	bool (*each)(void *ctx, const struct fmove_entry *entry);
	void *ctx;
	struct fmove_entry last;
	size_t told;			/* entries of all pages */
	bool is_more;
};

static void page_show(struct page *p, const struct fm_json *done)
{
	const struct fm_json *entries = fm_json_get(done, "entries");
	size_t count = fm_json_count(entries);

	if (fm_json_bool(fm_json_get(done, "more"), &p->is_more) < 0 || count == 0)
		p->is_more = false;
	for (size_t i = 0; i < count; i++) {
		entry_read(fm_json_at(entries, i), &p->last);
		if (!p->each(p->ctx, &p->last)) {
			p->is_more = false;
			return;
		}
	}
	p->told += count;
}

static int list_pages(struct fmove *c, const struct fmove_name *name, bool is_partial,
		      const char *after, bool (*each)(void *ctx, const struct fmove_entry *entry),
		      void *ctx, struct fmove_error *err)
{
	struct page page = {.each = each, .ctx = ctx};
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	if (strlen(after) > FMOVE_NAME_MAX)
		return fm_lib_fail(err, -ENAMETOOLONG, "a name has at most %d bytes",
				   FMOVE_NAME_MAX);
	memcpy(page.last.name, after, strlen(after) + 1);
	do {
		store_begin(c, &req, "list", name);
		if (is_partial)
			fm_jw_bool(&req.json, "partial", true);
		fm_jw_name(&req.json, "after", page.last.name, strlen(page.last.name));
		ret = fm_lib_do(&req, &done, err);
		if (ret < 0)
			return ret;
		page_show(&page, done);
		fm_json_free(done);
	} while (page.is_more && page.told < FMOVE_ENTRIES_MAX);
	return page.is_more ? fm_lib_fail(err, -EPROTO,
					  "the node tells of %d names, and of more than those",
					  FMOVE_ENTRIES_MAX)
			    : 0;
}

int fmove_list(struct fmove *c, const struct fmove_name *name, const char *after,
	       bool (*each)(void *ctx, const struct fmove_entry *entry), void *ctx,
	       struct fmove_error *err)
{
	return list_pages(c, name, false, after, each, ctx, err);
}

int fmove_partials(struct fmove *c, const struct fmove_name *name, const char *after,
		   bool (*each)(void *ctx, const struct fmove_entry *entry), void *ctx,
		   struct fmove_error *err)
{
	return list_pages(c, name, true, after, each, ctx, err);
}

int fmove_remove(struct fmove *c, const struct fmove_name *name, bool is_recursive,
		 struct fmove_error *err)
{
	const struct fmove_options opts = {.timeout_ms = c->timeout_ms ? c->timeout_ms : REMOVE_MS};
	const struct fm_lib_parcel with = {.count = 0};
	struct fm_lib_waiting waiting = {.opts = &opts};
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	store_begin(c, &req, "remove", name);
	if (!is_recursive)
		return fm_lib_do_simple(&req, err);
	fm_jw_bool(&req.json, "recursive", true);
	req.limit_ms = opts.timeout_ms;
	ret = fm_lib_run(&req, &with, &waiting, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}

int fmove_mkdir(struct fmove *c, const struct fmove_name *name, struct fmove_error *err)
{
	struct fm_lib_request req;

	store_begin(c, &req, "mkdir", name);
	return fm_lib_do_simple(&req, err);
}

/* Sends a request that gives `name` another name. to may be NULL: the daemon refuses that. */
static int name_it(struct fmove *c, const char *op, const struct fmove_name *name, const char *to,
		   bool may_replace, struct fmove_error *err)
{
	struct fm_lib_request req;

	if (to && strlen(to) > FMOVE_PATH_MAX)
		return fm_lib_fail(err, -ENAMETOOLONG, "a path has at most %d bytes",
				   FMOVE_PATH_MAX);
	store_begin(c, &req, op, name);
	if (to)
		fm_jw_name(&req.json, "to", to, strlen(to));
	if (may_replace)
		fm_jw_bool(&req.json, "force", true);
	return fm_lib_do_simple(&req, err);
}

int fmove_move(struct fmove *c, const struct fmove_name *name, const char *to, bool may_replace,
	       struct fmove_error *err)
{
	return name_it(c, "move", name, to, may_replace, err);
}

int fmove_symlink(struct fmove *c, const char *target, const struct fmove_name *name,
		  bool may_replace, struct fmove_error *err)
{
	return name_it(c, "link", name, target, may_replace, err);
}

static void rotated_read(const struct fm_json *done, struct fmove_rotated *out)
{
	const struct fm_json *gone = fm_json_get(done, "gone");
	char name[sizeof(((struct fmove_entry *)NULL)->name)];
	size_t used = 0, len;

	*out = (struct fmove_rotated){.struct_size = sizeof(*out),
				      .gone = (uint32_t)fm_json_count(gone)};
	fm_lib_text(done, "stays", out->stays, sizeof(out->stays));
	for (size_t i = 0; i < out->gone; i++) {
		if (fm_json_name(fm_json_at(gone, i), name, sizeof(name), &len) < 0 ||
		    used + len + 2 > sizeof(out->names))
			break;
		if (strchr(name, '\n'))
			continue;	/* it would be two */
		used += (size_t)snprintf(out->names + used, sizeof(out->names) - used, "%s%s",
					 used > 0 ? "\n" : "", name);
	}
}

static int lead(struct fmove *c, const char *target, const struct fmove_name *name, uint32_t keep,
		bool is_later, struct fmove_rotated *out, struct fmove_error *err)
{
	const struct fmove_options opts = {.timeout_ms = c->timeout_ms ? c->timeout_ms : REMOVE_MS};
	const struct fm_lib_parcel with = {.count = 0};
	struct fm_lib_waiting waiting = {.opts = &opts};
	struct fmove_rotated rotated;
	struct fm_lib_request req;
	struct fm_json *done;
	int ret = fm_sized_check(out, sizeof(*out), "fmove_rotated", err);

	if (ret < 0)
		return ret;
	if (!target)
		return fm_lib_fail(err, -EINVAL, "say what the link leads to");
	if (strlen(target) > FMOVE_PATH_MAX)
		return fm_lib_fail(err, -ENAMETOOLONG, "a path has at most %d bytes",
				   FMOVE_PATH_MAX);
	store_begin(c, &req, "link", name);
	fm_jw_name(&req.json, "to", target, strlen(target));
	fm_jw_bool(&req.json, "force", true);
	if (is_later)
		fm_jw_bool(&req.json, "later", true);
	if (keep > 0)
		fm_jw_u64(&req.json, "keep_last", keep);
	req.limit_ms = opts.timeout_ms;
	ret = fm_lib_run(&req, &with, &waiting, &done, err);
	if (ret < 0)
		return ret;
	rotated_read(done, &rotated);
	fm_json_free(done);
	fm_sized_give(out, &rotated, sizeof(rotated));
	return 0;
}

int fmove_rotate(struct fmove *c, const char *target, const struct fmove_name *name, uint32_t keep,
		 struct fmove_rotated *out, struct fmove_error *err)
{
	return keep > 0 ? lead(c, target, name, keep, false, out, err)
			: fm_lib_fail(err, -EINVAL, "at least what the link leads to stays");
}

int fmove_lead(struct fmove *c, const char *target, const struct fmove_name *name, uint32_t keep,
	       struct fmove_rotated *out, struct fmove_error *err)
{
	return lead(c, target, name, keep, true, out, err);
}

/* ---- space ---- */

/* A number of bytes. UINT64_MAX if the key is null or missing: there is no limit. */
static uint64_t bytes_read(const struct fm_json *json, const char *key)
{
	uint64_t bytes;

	return fm_json_u64(fm_json_get(json, key), &bytes) == 0 ? bytes : UINT64_MAX;
}

static void space_read(const struct fm_json *json, struct fmove_space *s)
{
	const char *code;

	*s = (struct fmove_space){.struct_size = sizeof(*s),
				  .size = bytes_read(json, "size"),
				  .free = bytes_read(json, "free"),
				  .used = bytes_read(json, "used"),
				  .quota = bytes_read(json, "quota"),
				  .promised = bytes_read(json, "promised"),
				  .aside = bytes_read(json, "aside"),
				  .trees = bytes_read(json, "aside_trees")};
	fm_lib_text(json, "store", s->store, sizeof(s->store));
	/* false if it is missing */
	(void)fm_json_bool(fm_json_get(json, "counting"), &s->is_counting);
	(void)fm_json_u64(fm_json_get(json, "silent_ms"), &s->silent_ms);
	if (fm_json_text(fm_json_get(json, "code"), &code) == 0)
		s->code = fm_api_errno(code);
	(void)fm_json_bool(fm_json_get(json, "read"), &s->may_read);
	(void)fm_json_bool(fm_json_get(json, "write"), &s->may_write);
}

static int space_of(struct fmove *c, const struct fmove_name *name, const char *after,
		    struct fmove_space *out, struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	store_begin(c, &req, "space", name);
	if (!name->store || !name->store[0])
		fm_jw_name(&req.json, "after", after, strlen(after));
	ret = fm_lib_do(&req, &done, err);
	if (ret < 0)
		return ret;
	space_read(done, out);
	fm_json_free(done);
	return 0;
}

int fmove_space(struct fmove *c, const struct fmove_name *name,
		bool (*each)(void *ctx, const struct fmove_space *space), void *ctx,
		struct fmove_error *err)
{
	const struct fmove_name whole = {name->node, name->store, ""};
	struct fmove_space s = {.store = ""};
	unsigned told = 0;
	int ret;

	do {
		ret = space_of(c, &whole, s.store, &s, err);
		if (ret == 0 && s.store[0] && told++ == FMOVE_STORES_MAX)
			return fm_lib_fail(err, -EPROTO,
					   "the node tells of more than %d stores, which none has",
					   FMOVE_STORES_MAX);
	} while (ret == 0 && s.store[0] && each(ctx, &s) && !whole.store[0]);
	return ret;
}

/*
 * Splits the path DIRECTORY/.fmove.HASH.old/NAME into the stash and the name that its content had.
 */
static void aside_split(struct fmove_aside *a)
{
	char *last = strrchr(a->path, '/'), *stash = last;
	char part[FM_STAGING_NAME_LEN + 1];
	size_t len;

	while (stash && stash > a->path && stash[-1] != '/')
		stash--;
	if (!last || stash == last)
		return;
	len = (size_t)(last - stash);
	(void)snprintf(part, sizeof(part), "%.*s", (int)(len < sizeof(part) ? len : sizeof(part)),
		       stash);
	if (!fm_staging_is_ours(part))
		return;
	/* shorter */
	(void)snprintf(a->name, sizeof(a->name), "%.*s%s", (int)(stash - a->path), a->path,
		       last + 1);
	*last = '\0';
}

/*
 * Tells one page of stashes. *last: the last one; *told counts them. Returns whether there are
 * more.
 */
static bool aside_show(const struct fm_json *done, struct fmove_aside *last, size_t *told,
		       void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx)
{
	const struct fm_json *trees = fm_json_get(done, "aside");
	size_t count = fm_json_count(trees), len;
	bool is_more;

	for (size_t i = 0; i < count; i++) {
		const struct fm_json *at = fm_json_at(trees, i);

		*last = (struct fmove_aside){.struct_size = sizeof(*last),
					     .bytes = bytes_read(at, "bytes")};
		/* What is missing keeps its zero. */
		(void)fm_json_i64(fm_json_get(at, "since_ns"), &last->since_ns);
		(void)fm_json_name(fm_json_get(at, "path"), last->path, sizeof(last->path), &len);
		aside_split(last);
		each(ctx, last);
	}
	*told += count;
	return count > 0 && fm_json_bool(fm_json_get(done, "more"), &is_more) == 0 && is_more;
}

static int purge(struct fmove *c, const struct fmove_name *name, bool is_partial, bool is_dry,
		 void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
		 struct fmove_error *err)
{
	const struct fmove_options opts = {.timeout_ms = REMOVE_MS};
	const struct fm_lib_parcel with = {.count = 0};
	struct fm_lib_waiting waiting = {.opts = &opts};
	struct fmove_aside last = {.path = ""};
	struct fm_lib_request req;
	struct fm_json *done;
	size_t told = 0;
	bool is_more;
	int ret;

	do {
		const struct fmove_name from = {name->node, name->store, is_dry ? last.path : ""};

		store_begin(c, &req, "purge", &from);
		req.limit_ms = opts.timeout_ms;
		if (is_dry)
			fm_jw_bool(&req.json, "dry_run", true);
		if (is_partial)
			fm_jw_bool(&req.json, "partial", true);
		ret = fm_lib_run(&req, &with, &waiting, &done, err);
		if (ret < 0)
			return ret;
		is_more = aside_show(done, &last, &told, each, ctx);
		fm_json_free(done);
	} while (is_more && told < FMOVE_ASIDE_MAX);
	if (is_more)
		return fm_lib_fail(err, -EPROTO,
				   "the node tells of more than %d, which no store keeps aside",
				   FMOVE_ASIDE_MAX);
	return 0;
}

int fmove_purge(struct fmove *c, const struct fmove_name *name, bool is_dry,
		void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
		struct fmove_error *err)
{
	return purge(c, name, false, is_dry, each, ctx, err);
}

int fmove_purge_partials(struct fmove *c, const struct fmove_name *name, bool is_dry,
			 void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
			 struct fmove_error *err)
{
	return purge(c, name, true, is_dry, each, ctx, err);
}

/* ---- verifying ---- */

static void verified_read(const struct fm_json *json, struct fmove_verified *v)
{
	*v = (struct fmove_verified){.struct_size = sizeof(*v)};
	/* What is missing keeps its zero. */
	(void)fm_json_u64(fm_json_get(json, "files"), &v->files);
	(void)fm_json_u64(fm_json_get(json, "bytes"), &v->bytes);
	(void)fm_json_u64(fm_json_get(json, "corrupt"), &v->corrupt);
	(void)fm_json_u64(fm_json_get(json, "unreadable"), &v->unreadable);
	(void)fm_json_u64(fm_json_get(json, "changed"), &v->changed);
	(void)fm_json_u64(fm_json_get(json, "missing"), &v->missing);
	(void)fm_json_u64(fm_json_get(json, "swapped"), &v->swapped);
	(void)fm_json_u64(fm_json_get(json, "without"), &v->without);
	(void)fm_json_u64(fm_json_get(json, "unlisted"), &v->unlisted);
}

static const char *const kinds[] = {"corrupt", "unreadable", "changed", "missing", "swapped", NULL};

struct verifying {
	struct fmove_verify_options o;
	/* findings whose kind is not known here, and so not what counter they are in */
	uint64_t other;
};

static void finding_read(const struct fm_json *json, struct verifying *v)
{
	struct fmove_finding f = {.struct_size = sizeof(f)};
	size_t len;

	f.kind = (enum fmove_finding_kind)fm_lib_word(json, "kind", kinds, FMOVE_FINDING_OTHER);
	(void)fm_json_u64(fm_json_get(json, "offset"), &f.offset); /* 0 if it is missing */
	(void)fm_json_u64(fm_json_get(json, "length"), &f.length);
	(void)fm_json_name(fm_json_get(json, "path"), f.path, sizeof(f.path), &len);
	v->other += f.kind == FMOVE_FINDING_OTHER;
	if (v->o.finding)
		v->o.finding(v->o.ctx, &f);
}

static void verify_between(void *ctx, const char *event, const struct fm_json *json)
{
	struct verifying *v = ctx;
	struct fmove_verified so_far;

	if (strcmp(event, "progress") == 0 && v->o.progress) {
		verified_read(json, &so_far);
		v->o.progress(v->o.ctx, &so_far);
	} else if (strcmp(event, "finding") == 0) {
		finding_read(json, v);
	}
}

int fmove_verify(struct fmove *c, const struct fmove_name *name,
		 const struct fmove_verify_options *opts, struct fmove_verified *out,
		 struct fmove_error *err)
{
	struct verifying v = {.other = 0};
	struct fmove_options waits = {.cancel_fd = 0};
	struct fm_lib_waiting waiting = {
		.opts = &waits, .is_cancellable = true, .between = verify_between, .ctx = &v};
	static const struct fm_lib_parcel nothing;
	struct fmove_verified verified;
	struct fm_lib_request req;
	struct fm_json *done;
	int ret = fm_sized_check(out, sizeof(*out), "fmove_verified", err);

	if (ret == 0)
		ret = fm_sized_take(&v.o, sizeof(v.o), opts, "fmove_verify_options", err);
	if (ret < 0)
		return ret;
	waits.cancel_fd = v.o.cancel_fd;
	fm_lib_begin(c, &req, "verify");
	fm_lib_add_name(&req, name);
	if (v.o.progress)
		fm_jw_u64(&req.json, "progress_ms", 1000);
	ret = fm_lib_run(&req, &nothing, &waiting, &done, err);
	if (ret < 0)
		return ret;
	verified_read(done, &verified);
	verified.other = v.other;
	fm_json_free(done);
	fm_sized_give(out, &verified, sizeof(verified));
	return 0;
}
