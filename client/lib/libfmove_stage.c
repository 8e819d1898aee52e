/* SPDX-License-Identifier: MIT */
/* libfmove_stage - what is staged on this node. See fmove.h. */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/own_hub.h"
#include "mover/base/err.h"
#include "mover/base/words.h"

#define NODES_MAX 64u	/* of which something is said */

_Static_assert(FMOVE_BY_LISTING == 0 && FMOVE_UNASKED == 1 && FMOVE_BY_CONTENT == 2 &&
		       FMOVE_BY_SEAL == 3,
	       "order of fm_words_freshness");

static void holders_read(const struct fm_json *list, struct fmove_dataset *d)
{
	size_t count = list ? fm_json_count(list) : 0;
	uint64_t pid, uid;

	for (size_t i = 0; i < count && i < FMOVE_HOLDERS_MAX; i++) {
		const struct fm_json *one = fm_json_at(list, i);

		if (fm_json_u64(fm_json_get(one, "pid"), &pid) < 0 ||
		    fm_json_u64(fm_json_get(one, "uid"), &uid) < 0)
			continue;
		fm_lib_text(one, "node", d->holder_nodes[d->holder_count],
			    sizeof(d->holder_nodes[0]));
		d->holders[d->holder_count].pid = (pid_t)pid;
		d->holders[d->holder_count++].uid = (uid_t)uid;
	}
}

static void dataset_read(const struct fm_json *json, struct fmove_dataset *d)
{
	size_t len;

	memset(d, 0, sizeof(*d));
	d->struct_size = sizeof(*d);
	(void)fm_json_name(fm_json_get(json, "name"), d->name, sizeof(d->name), &len);
	(void)fm_json_name(fm_json_get(json, "source"), d->source, sizeof(d->source), &len);
	(void)fm_json_name(fm_json_get(json, "path"), d->path, sizeof(d->path), &len);
	fm_lib_text(json, "state", d->state, sizeof(d->state));
	fm_lib_text(json, "version", d->version, sizeof(d->version));
	(void)fm_json_u64(fm_json_get(json, "bytes"), &d->bytes);
	(void)fm_json_u64(fm_json_get(json, "holds"), &d->holds);
	(void)fm_json_u64(fm_json_get(json, "pins"), &d->pins);
	(void)fm_json_i64(fm_json_get(json, "created_ms"), &d->created_ms);
	(void)fm_json_i64(fm_json_get(json, "requested_ms"), &d->requested_ms);
	(void)fm_json_i64(fm_json_get(json, "used_ms"), &d->used_ms);
	(void)fm_json_i64(fm_json_get(json, "verified_ms"), &d->verified_ms);
	holders_read(fm_json_get(json, "holders"), d);
}

static const char *text_or_none(const struct fm_json *json, const char *key)
{
	const char *text;

	return fm_json_text(fm_json_get(json, key), &text) < 0 ? "" : text;
}

static void stage_nodes(const struct fmove_stage_options *o, const struct fm_json *json,
			bool is_end)
{
	const struct fm_json *list = fm_json_get(json, "nodes");
	char name[FMOVE_NAME_MAX + 1], path[FMOVE_PATH_MAX + 1];
	size_t len;

	for (size_t i = 0; o->node && i < fm_json_count(list); i++) {
		const struct fm_json *one = fm_json_at(list, i);
		struct fmove_stage_node n = {.struct_size = sizeof(n),
					     .node = name,
					     .path = path,
					     .state = text_or_none(one, "state"),
					     .code = text_or_none(one, "code"),
					     .text = text_or_none(one, "text")};

		name[0] = path[0] = '\0';
		(void)fm_json_name(fm_json_get(one, "node"), name, sizeof(name), &len);
		(void)fm_json_name(fm_json_get(one, "path"), path, sizeof(path), &len);
		(void)fm_json_bool(fm_json_get(one, "wanted"), &n.is_wanted);
		(void)fm_json_u64(fm_json_get(one, "bytes"), &n.bytes);
		(void)fm_json_u64(fm_json_get(one, "read"), &n.read);
		o->node(o->ctx, &n, is_end);
	}
}

static void stage_between(void *ctx, const char *event, const struct fm_json *json)
{
	const struct fmove_stage_options *o = ctx;
	uint64_t bytes = 0, size = 0;
	const char *phase;

	if (strcmp(event, "accepted") == 0 && o->accepted)
		o->accepted(o->ctx, text_or_none(json, "job"));
	if (strcmp(event, "progress") != 0 || fm_json_text(fm_json_get(json, "phase"), &phase) < 0)
		return;
	(void)fm_json_u64(fm_json_get(json, "bytes"), &bytes);
	(void)fm_json_u64(fm_json_get(json, "size"), &size);
	stage_nodes(o, json, false);
	if (o->progress)
		o->progress(o->ctx, phase, bytes, size);
}

/* What a call is given, as large as it is here. */
static int stage_take(struct fmove_stage_options *o, const struct fmove_stage_options *opts,
		      const struct fmove_dataset *out, struct fmove_error *err)
{
	int ret = fm_sized_check(out, sizeof(*out), "fmove_dataset", err);

	return ret < 0 ? ret : fm_sized_take(o, sizeof(*o), opts, "fmove_stage_options", err);
}

/*
 * Adds the options to the request in w, runs it, and reads the dataset. The caller frees *done.
 * turns: of a request that is tried once, since what comes with it is passed once; NULL: as often
 * as it takes.
 */
static int stage_run(struct fm_lib_request *req, const struct fm_lib_parcel *with,
		     struct fm_lib_turns *turns, struct fmove_stage_options *o,
		     struct fmove_dataset *out, bool *is_fetched, struct fm_json **done,
		     struct fmove_error *err)
{
	struct fmove_options waits = {.cancel_fd = o->cancel_fd};
	struct fm_lib_waiting waiting = {
		.opts = &waits, .is_cancellable = true, .between = stage_between, .ctx = o};
	struct fmove_dataset d;
	int ret;

	if (o->name)
		fm_jw_text(&req->json, "name", o->name);
	if (o->pid > 0)
		fm_jw_u64(&req->json, "pid", (uint64_t)o->pid);
	if (o->is_pinned)
		fm_jw_bool(&req->json, "pin", true);
	if (o->check != FMOVE_BY_LISTING)
		fm_jw_text(&req->json, "check", fm_lib_word_of(fm_words_freshness, o->check));
	if (o->is_live)
		fm_jw_bool(&req->json, "force", true);
	if (o->nodes)
		fm_jw_text(&req->json, "nodes", o->nodes);
	if (o->progress || o->accepted)
		fm_jw_u64(&req->json, "progress_ms", 500);
	ret = turns ? fm_lib_try(req, with, &waiting, turns, done, err)
		    : fm_lib_ask(req, with, &waiting, done, err);
	fm_lib_end(req);
	if (ret < 0)
		return ret;
	dataset_read(*done, &d);
	d.check = (enum fmove_freshness)fm_lib_word(*done, "check", fm_words_freshness,
						    FMOVE_BY_LISTING);
	(void)fm_json_bool(fm_json_get(*done, "same_disk"), &d.is_same_disk);
	fm_lib_text(*done, "note", d.note, sizeof(d.note));
	fm_lib_text(*done, "job", d.job, sizeof(d.job));
	fm_sized_give(out, &d, sizeof(d));
	*is_fetched = false;
	(void)fm_json_bool(fm_json_get(*done, "fetched"), is_fetched);
	stage_nodes(o, *done, true);
	return 0;
}

static const struct fm_lib_parcel no_parcel;

int fmove_stage(struct fmove *c, const struct fmove_name *source,
		const struct fmove_stage_options *opts, struct fmove_dataset *out, bool *is_fetched,
		struct fmove_error *err)
{
	struct fmove_stage_options o;
	struct fm_lib_request req;
	struct fm_json *done;
	int ret = stage_take(&o, opts, out, err);

	if (ret < 0)
		return ret;
	fm_lib_begin(c, &req, "stage");
	fm_lib_add_name(&req, source);
	ret = stage_run(&req, &no_parcel, NULL, &o, out, is_fetched, &done, err);
	if (ret == 0)
		fm_json_free(done);
	return ret;
}

static void take_home(struct fm_json *done, char *hf_home)
{
	size_t len;

	hf_home[0] = '\0';
	(void)fm_json_name(fm_json_get(done, "hf_home"), hf_home, FMOVE_PATH_MAX + 1, &len);
	fm_json_free(done);
}

int fmove_stage_hub(struct fmove *c, const char *repository, const char *revision,
		    const struct fmove_stage_options *opts, struct fmove_dataset *out,
		    char hf_home[FMOVE_PATH_MAX + 1], bool *is_fetched, struct fmove_error *err)
{
	struct fmove_stage_options o;
	char path[FMOVE_PATH_MAX + 1];
	struct fm_lib_request req;
	struct fm_json *done;
	int ret = stage_take(&o, opts, out, err);

	if (ret < 0)
		return ret;
	ret = snprintf(path, sizeof(path), "%s@%s", repository, revision);
	if (ret < 0 || (size_t)ret >= sizeof(path))
		return fm_lib_fail(err, -ENAMETOOLONG, "the revision is too long");
	fm_lib_begin(c, &req, "stage_hub");
	fm_jw_name(&req.json, "path", path, strlen(path));
	ret = stage_run(&req, &no_parcel, NULL, &o, out, is_fetched, &done, err);
	if (ret == 0)
		take_home(done, hf_home);
	return ret;
}

/* What one call is about, of a caller's own cache. */
struct own_call {
	int hub_fd;
	const struct fm_hub_name *name;
	struct fmove_stage_options *opts;
	struct fm_lib_turns turns;
};

/* Asks for what is served, with the options that a caller's own cache has. */
static int ask_own(struct fmove *c, struct fm_own_hub *own, struct own_call *call,
		   struct fmove_dataset *out, char *hf_home, bool *is_fetched,
		   struct fmove_error *err)
{
	const struct fm_lib_parcel with = {.fds = fm_own_hub_fds(own),
					   .count = FM_OWN_HUB_FDS,
					   .passed = fm_own_hub_passed,
					   .ctx = own};
	const struct fm_hub_name *name = call->name;
	char path[sizeof(name->dir) + FM_HUB_COMMIT_LEN + 1];
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	(void)snprintf(path, sizeof(path), "%s@%s", name->dir, fm_own_hub_commit(own));
	fm_lib_begin(c, &req, "stage_own");
	fm_jw_name(&req.json, "path", path, strlen(path));
	fm_jw_name(&req.json, "to", name->revision, strlen(name->revision));
	ret = stage_run(&req, &with, &call->turns, call->opts, out, is_fetched, &done, err);
	if (ret == 0)
		take_home(done, hf_home);
	return ret;
}

/*
 * What is passed is closed here when it was, also by a daemon that refuses: each request serves the
 * cache anew.
 */
static int stage_own(struct fmove *c, struct own_call *call, struct fmove_dataset *out,
		     char *hf_home, bool *is_fetched, struct fmove_error *err)
{
	struct fm_own_hub *own;
	struct fm_err why;
	int ret;

	do {
		ret = fm_own_hub_new(call->hub_fd, call->name, &own, &why);
		if (ret < 0)
			return fm_lib_fail(err, ret, "%s", why.text);
		ret = ask_own(c, own, call, out, hf_home, is_fetched, err);
		fm_own_hub_free(own);
	} while (ret < 0 && fm_lib_asks_again(c, &call->turns, err));
	return ret < 0 ? err->code : ret;
}

int fmove_stage_own(struct fmove *c, int hub_fd, const char *repository, const char *revision,
		    const struct fmove_stage_options *opts, struct fmove_dataset *out,
		    char hf_home[FMOVE_PATH_MAX + 1], bool *is_fetched, struct fmove_error *err)
{
	struct fmove_stage_options o;
	char path[FMOVE_PATH_MAX + 1];
	struct fm_hub_name name;
	struct own_call call = {.hub_fd = hub_fd, .name = &name, .opts = &o};
	struct fmove_error unread;
	int ret = stage_take(&o, opts, out, err);

	if (ret < 0)
		return ret;
	if (o.nodes || o.check != FMOVE_BY_LISTING)
		return fm_lib_fail(err, -EINVAL, "of an own cache only this node has a copy, and "
						 "it is compared by its listing");
	(void)snprintf(path, sizeof(path), "%s@%s", repository, revision);
	if (fm_hub_path_parse(path, &name) < 0)
		return fm_lib_fail(err, -EINVAL, "%s is no revision of a repository", path);
	return stage_own(c, &call, out, hf_home, is_fetched, err ? err : &unread);
}

int fmove_locate(struct fmove *c, const char *path, struct fmove_place *out,
		 struct fmove_error *err)
{
	struct fmove_place place = {.struct_size = sizeof(place)};
	struct fm_lib_request req;
	struct fm_json *done;
	size_t len;
	int ret = fm_sized_check(out, sizeof(*out), "fmove_place", err);

	if (ret < 0)
		return ret;
	fm_lib_begin(c, &req, "locate");
	fm_jw_name(&req.json, "path", path, strlen(path));
	ret = fm_lib_do(&req, &done, err);
	if (ret < 0)
		return ret;
	fm_lib_text(done, "node", place.node, sizeof(place.node));
	fm_lib_text(done, "store", place.store, sizeof(place.store));
	(void)fm_json_name(fm_json_get(done, "path"), place.path, sizeof(place.path), &len);
	fm_json_free(done);
	fm_sized_give(out, &place, sizeof(place));
	return 0;
}

/* Reads what other nodes have of a dataset. */
static void dataset_nodes_read(const struct fm_json *list, struct fmove_dataset_node *nodes,
			       struct fmove_dataset *d)
{
	size_t len;

	d->nodes = nodes;
	for (size_t i = 0; i < fm_json_count(list) && i < NODES_MAX; i++) {
		const struct fm_json *one = fm_json_at(list, i);
		struct fmove_dataset_node *n = &nodes[d->node_count++];

		memset(n, 0, sizeof(*n));
		(void)fm_json_name(fm_json_get(one, "node"), n->node, sizeof(n->node), &len);
		fm_lib_text(one, "state", n->state, sizeof(n->state));
		(void)fm_json_u64(fm_json_get(one, "bytes"), &n->bytes);
	}
}

/* Tells one page of datasets. Returns whether there are more, and where they begin. */
static bool datasets_show(const struct fm_json *done,
			  bool (*each)(void *ctx, const struct fmove_dataset *d), void *ctx,
			  struct fmove_dataset *d, uint64_t *next)
{
	const struct fm_json *list = fm_json_get(done, "datasets");
	struct fmove_dataset_node nodes[NODES_MAX];
	bool is_more = false;

	(void)fm_json_bool(fm_json_get(done, "more"), &is_more); /* false if it is missing */
	for (size_t i = 0; i < fm_json_count(list); i++) {
		dataset_read(fm_json_at(list, i), d);
		dataset_nodes_read(fm_json_get(fm_json_at(list, i), "nodes"), nodes, d);
		if (!each(ctx, d))
			return false;
	}
	return is_more && fm_json_u64(fm_json_get(done, "next"), next) == 0;
}

int fmove_datasets_of(struct fmove *c, const char *nodes,
		      bool (*each)(void *ctx, const struct fmove_dataset *d), void *ctx,
		      struct fmove_error *err)
{
	struct fmove_dataset d;
	struct fm_lib_request req;
	struct fm_json *done;
	uint64_t next = 0, before;
	bool is_more;
	int ret;

	do {
		before = next;
		fm_lib_begin(c, &req, "datasets");
		fm_jw_u64(&req.json, "seq", next);
		if (nodes)
			fm_jw_text(&req.json, "nodes", nodes);
		ret = fm_lib_do(&req, &done, err);
		if (ret < 0)
			return ret;
		is_more = datasets_show(done, each, ctx, &d, &next);
		fm_json_free(done);
	} while (is_more && next > before);
	return is_more ? fm_lib_fail_again(err) : 0;
}

int fmove_datasets(struct fmove *c, bool (*each)(void *ctx, const struct fmove_dataset *d),
		   void *ctx, struct fmove_error *err)
{
	return fmove_datasets_of(c, NULL, each, ctx, err);
}

/* Asks for none of the datasets: only for the sums. The caller frees *done. */
static int sums_ask(struct fmove *c, struct fm_json **done, struct fmove_error *err)
{
	struct fm_lib_request req;

	fm_lib_begin(c, &req, "datasets");
	fm_jw_u64(&req.json, "seq", INT32_MAX);
	return fm_lib_do(&req, done, err);
}

int fmove_cache(struct fmove *c, struct fmove_cache *out, struct fmove_error *err)
{
	struct fmove_cache cache = {.struct_size = sizeof(cache)};
	struct fm_json *done;
	int ret = fm_sized_check(out, sizeof(*out), "fmove_cache", err);

	if (ret == 0)
		ret = sums_ask(c, &done, err);
	if (ret < 0)
		return ret;
	/* 0 if one is missing */
	(void)fm_json_u64(fm_json_get(done, "size"), &cache.size);
	(void)fm_json_u64(fm_json_get(done, "used"), &cache.used);
	(void)fm_json_u64(fm_json_get(done, "promised"), &cache.promised);
	fm_json_free(done);
	fm_sized_give(out, &cache, sizeof(cache));
	return 0;
}

int fmove_source_bytes(struct fmove *c, uint64_t *out, struct fmove_error *err)
{
	struct fm_json *done;
	int ret = sums_ask(c, &done, err);

	if (ret < 0)
		return ret;
	*out = 0;
	(void)fm_json_u64(fm_json_get(done, "source_bytes"), out);
	fm_json_free(done);
	return 0;
}

static void check_between(void *ctx, const char *event, const struct fm_json *json)
{
	const struct fmove_check_options *o = ctx;
	struct fmove_dataset_finding f = {.struct_size = sizeof(f)};
	uint64_t bytes = 0, size = 0;
	size_t len;

	if (strcmp(event, "accepted") == 0 && o->accepted) {
		o->accepted(o->ctx, text_or_none(json, "job"));
	} else if (strcmp(event, "progress") == 0 && o->progress) {
		(void)fm_json_u64(fm_json_get(json, "bytes"), &bytes);
		(void)fm_json_u64(fm_json_get(json, "size"), &size);
		o->progress(o->ctx, bytes, size);
	} else if (strcmp(event, "finding") == 0 && o->finding) {
		fm_lib_text(json, "kind", f.kind, sizeof(f.kind));
		(void)fm_json_name(fm_json_get(json, "path"), f.path, sizeof(f.path), &len);
		(void)fm_json_u64(fm_json_get(json, "offset"), &f.offset);
		(void)fm_json_u64(fm_json_get(json, "length"), &f.length);
		(void)fm_json_bool(fm_json_get(json, "mended"), &f.is_mended);
		fm_lib_text(json, "from", f.from, sizeof(f.from));
		o->finding(o->ctx, &f);
	}
}

int fmove_dataset_check(struct fmove *c, const char *name, const struct fmove_check_options *opts,
			struct fmove_checked *out, struct fmove_error *err)
{
	struct fmove_checked checked = {.struct_size = sizeof(checked)};
	struct fmove_check_options o;
	struct fmove_options waits = {.timeout_ms = 0};
	struct fm_lib_waiting waiting = {.opts = &waits, .between = check_between, .ctx = &o};
	static const struct fm_lib_parcel nothing;
	struct fm_lib_request req;
	struct fm_json *done;
	int ret = fm_sized_check(out, sizeof(*out), "fmove_checked", err);

	if (ret == 0)
		ret = fm_sized_take(&o, sizeof(o), opts, "fmove_check_options", err);
	if (ret < 0)
		return ret;
	fm_lib_begin(c, &req, "check");
	fm_jw_text(&req.json, "name", name);
	if (o.progress || o.accepted)
		fm_jw_u64(&req.json, "progress_ms", 500);
	ret = fm_lib_run(&req, &nothing, &waiting, &done, err);
	if (ret < 0)
		return ret;
	(void)fm_json_u64(fm_json_get(done, "bytes"), &checked.bytes);
	(void)fm_json_u64(fm_json_get(done, "findings"), &checked.findings);
	(void)fm_json_u64(fm_json_get(done, "mended"), &checked.mended);
	fm_lib_text(done, "text", checked.why, sizeof(checked.why));
	fm_lib_text(done, "job", checked.job, sizeof(checked.job));
	fm_json_free(done);
	fm_sized_give(out, &checked, sizeof(checked));
	return 0;
}

static int dataset_do(struct fmove *c, const char *op, const char *name, struct fmove_error *err)
{
	struct fm_lib_request req;

	fm_lib_begin(c, &req, op);
	fm_jw_text(&req.json, "name", name);
	return fm_lib_do_simple(&req, err);
}

int fmove_pin(struct fmove *c, const char *name, struct fmove_error *err)
{
	return dataset_do(c, "pin", name, err);
}

int fmove_unpin(struct fmove *c, const char *name, struct fmove_error *err)
{
	return dataset_do(c, "unpin", name, err);
}

int fmove_unstage(struct fmove *c, const char *name, struct fmove_error *err)
{
	return dataset_do(c, "unstage", name, err);
}

static int dataset_do_on(struct fmove *c, const char *op, const char *nodes, const char *name,
			 void (*each)(void *ctx, const struct fmove_kept_node *n), void *ctx,
			 struct fmove_error *err)
{
	struct fm_lib_request req;
	const struct fm_json *list;
	struct fm_json *done;
	int ret;

	if (!nodes || !nodes[0])
		return fm_lib_fail(err, -EINVAL, "no nodes are named");
	fm_lib_begin(c, &req, op);
	fm_jw_text(&req.json, "name", name);
	fm_jw_text(&req.json, "nodes", nodes);
	ret = fm_lib_do(&req, &done, err);
	if (ret < 0)
		return ret;
	list = fm_json_get(done, "nodes");
	for (size_t i = 0; i < fm_json_count(list); i++) {
		const struct fm_json *one = fm_json_at(list, i);
		const struct fmove_kept_node n = {.struct_size = sizeof(n),
						  .node = text_or_none(one, "node"),
						  .code = text_or_none(one, "code"),
						  .text = text_or_none(one, "text"),
						  .job = text_or_none(done, "job")};

		each(ctx, &n);
	}
	fm_json_free(done);
	return 0;
}

int fmove_pin_on(struct fmove *c, const char *nodes, const char *name,
		 void (*each)(void *ctx, const struct fmove_kept_node *n), void *ctx,
		 struct fmove_error *err)
{
	return dataset_do_on(c, "pin", nodes, name, each, ctx, err);
}

int fmove_unpin_on(struct fmove *c, const char *nodes, const char *name,
		   void (*each)(void *ctx, const struct fmove_kept_node *n), void *ctx,
		   struct fmove_error *err)
{
	return dataset_do_on(c, "unpin", nodes, name, each, ctx, err);
}

int fmove_unstage_on(struct fmove *c, const char *nodes, const char *name,
		     void (*each)(void *ctx, const struct fmove_kept_node *n), void *ctx,
		     struct fmove_error *err)
{
	return dataset_do_on(c, "unstage", nodes, name, each, ctx, err);
}

int fmove_unstage_try(struct fmove *c, const char *name, uint64_t *bytes, struct fmove_error *err)
{
	struct fm_lib_request req;
	struct fm_json *done;
	int ret;

	fm_lib_begin(c, &req, "unstage");
	fm_jw_text(&req.json, "name", name);
	fm_jw_bool(&req.json, "dry_run", true);
	ret = fm_lib_do(&req, &done, err);
	if (ret < 0)
		return ret;
	*bytes = 0; /* if it is missing */
	(void)fm_json_u64(fm_json_get(done, "bytes"), bytes);
	fm_json_free(done);
	return 0;
}
