/* SPDX-License-Identifier: MIT */
/* cmd_datasets - fmove datasets, pin, unpin and unstage: what is staged on this node. */
#include "client/cli/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/dataset_show.h"
#include "client/cli/progress.h"
#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "mover/base/json.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_QUIET, OPT_DRY, OPT_NODES };

const struct fm_opt fm_opts_datasets[] = {
	{ "quiet", 'q', OPT_QUIET, NULL, "only their names", NULL },
	{ "nodes", 0, OPT_NODES, "LIST",
	  "what they have of each, too: all (default) that this one stages with, names "
	  "between commas, or none", NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define NODES_OPT                                                                                  \
	{ "nodes", 0, OPT_NODES, "LIST",                                                           \
	  "on which: all that this one stages with and itself, or names between commas", NULL }

const struct fm_opt fm_opts_pin[] = {
	NODES_OPT,
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_opt fm_opts_unstage[] = {
	{ "dry-run", 'n', OPT_DRY, NULL, "only say whether it would go, and how much that is",
	  NULL },
	NODES_OPT,
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

struct shown {
	struct fm_rows rows;
	bool is_json, is_quiet;
	const char *name;		/* only of that name or source; NULL: all */
	char job[FMOVE_JOB_MAX];	/* check: what it is logged under; "": it was not begun */
	int64_t now_ms;
	unsigned count;
};

static void print_line(const struct shown *s, const struct fmove_dataset *d)
{
	char name[1024];

	fm_show(d->name, strlen(d->name), name, sizeof(name));
	if (s->is_quiet) {
		(void)printf("%s\n", name);	/* fm_stdout_end() looks for errors */
	} else if (s->name) {
		if (s->count > 0)
			(void)printf("\n");
		fm_dataset_whole(d, s->now_ms);
	} else {
		fm_dataset_line(d, s->now_ms);
	}
}

static void holders_json(struct fm_json_writer *w, const struct fmove_dataset *d)
{
	fm_jw_array(w, "holders");
	for (unsigned i = 0; i < d->holder_count; i++) {
		fm_jw_object(w, NULL);
		fm_jw_u64(w, "pid", (uint64_t)d->holders[i].pid);
		fm_jw_u64(w, "uid", d->holders[i].uid);
		if (d->holder_nodes[i][0])
			fm_jw_text(w, "node", d->holder_nodes[i]);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

static void nodes_json(struct fm_json_writer *w, const struct fmove_dataset *d)
{
	fm_jw_array(w, "nodes");
	for (unsigned i = 0; i < d->node_count; i++) {
		fm_jw_object(w, NULL);
		fm_jw_text(w, "node", d->nodes[i].node);
		fm_jw_text(w, "state", d->nodes[i].state);
		fm_jw_u64(w, "bytes", d->nodes[i].bytes);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

static void print_json(struct shown *s, const struct fmove_dataset *d)
{
	struct fm_json_writer *w = fm_rows_next(&s->rows);

	fm_jw_name(w, "name", d->name, strlen(d->name));
	fm_jw_text(w, "state", d->state);
	fm_jw_text(w, "version", d->version);
	fm_jw_name(w, "source", d->source, strlen(d->source));
	fm_jw_name(w, "path", d->path, strlen(d->path));
	fm_jw_u64(w, "bytes", d->bytes);
	fm_jw_u64(w, "holds", d->holds);
	fm_jw_u64(w, "pins", d->pins);
	fm_jw_i64(w, "created_ms", d->created_ms);
	fm_jw_i64(w, "requested_ms", d->requested_ms);
	fm_jw_i64(w, "used_ms", d->used_ms);
	fm_jw_i64(w, "verified_ms", d->verified_ms);
	holders_json(w, d);
	nodes_json(w, d);
	fm_jw_object_end(w);
}

static bool print_one(void *ctx, const struct fmove_dataset *d)
{
	struct shown *s = ctx;

	if (s->name && strcmp(s->name, d->name) != 0 && strcmp(s->name, d->source) != 0)
		return true;
	if (s->is_json)
		print_json(s, d);
	else
		print_line(s, d);
	s->count++;
	return true;
}

static void print_sums(struct shown *s, const struct fmove_cache *cache, uint64_t read, int status)
{
	char bytes[FM_SHOW_MAX];
	struct fm_json_writer *w;

	if (s->is_json) {
		w = fm_rows_over(&s->rows);
		fm_jw_u64(w, "size", cache->size);
		fm_jw_u64(w, "used", cache->used);
		fm_jw_u64(w, "promised", cache->promised);
		fm_jw_u64(w, "source_bytes", read);
		fm_rows_end(&s->rows, status);
	} else if (!s->is_quiet && !s->name && read > 0) {
		fm_say("%s read here from sources, for nodes that stage together",
		       fm_show_bytes(read, bytes));
	}
}

/* ---- datasets check ---- */

static void check_progress(void *ctx, uint64_t bytes, uint64_t size)
{
	char done[FM_SHOW_MAX], all[FM_SHOW_MAX], text[64];

	(void)ctx;
	(void)snprintf(text, sizeof(text), "reading %s of %s", fm_show_bytes(bytes, done),
		       fm_show_bytes(size, all));
	fm_progress_put(text);
}

static void accepted(void *ctx, const char *job)
{
	struct shown *s = ctx;

	(void)snprintf(s->job, sizeof(s->job), "%s", job);
}

static void print_finding_json(struct shown *s, const struct fmove_dataset_finding *f)
{
	struct fm_json_writer *w = fm_rows_next(&s->rows);

	fm_jw_text(w, "kind", f->kind);
	fm_jw_name(w, "path", f->path, strlen(f->path));
	fm_jw_u64(w, "offset", f->offset);
	fm_jw_u64(w, "length", f->length);
	fm_jw_bool(w, "mended", f->is_mended);
	if (f->is_mended)
		fm_jw_text(w, "from", f->from);
	fm_jw_object_end(w);
}

static void print_finding(void *ctx, const struct fmove_dataset_finding *f)
{
	char path[4 * sizeof(f->path)], offset[FM_SHOW_MAX], length[FM_SHOW_MAX];
	struct shown *s = ctx;

	if (s->is_json) {
		print_finding_json(s, f);
	} else {
		fm_show(f->path, strlen(f->path), path, sizeof(path));
		(void)printf("%s: %s", f->kind, path);
		if (f->length > 0)
			(void)printf(" at byte %s, %s bytes", fm_show_count(f->offset, offset),
				     fm_show_count(f->length, length));
		/* fm_stdout_end() looks for errors */
		(void)printf("%s%s\n", f->is_mended ? ", mended from " : "", f->from);
	}
	s->count++;
}

static int say_damaged(const struct shown *s, const char *name, const struct fmove_checked *r)
{
	char more[64] = "", why[4 * FMOVE_TEXT_MAX] = "", mended[48] = "";
	const char *divider = r->why[0] ? ": " : "";

	if (r->findings > s->count)
		(void)snprintf(more, sizeof(more), ", of which the first %u are named", s->count);
	if (r->mended > 0)
		(void)snprintf(mended, sizeof(mended), ", %" PRIu64 " are mended", r->mended);
	fm_show(r->why, strlen(r->why), why, sizeof(why));
	fm_say("datasets: %s: %" PRIu64 " places were not as its manifest says%s%s%s%s; fmove "
	       "unstage %s, and stage it again (fmove logs %s: what was tried)",
	       name, r->findings, more, mended, divider, why, name, r->job);
	return FM_EXIT_CORRUPT;
}

static int say_checked(const struct shown *s, const char *name, const struct fmove_checked *r)
{
	char bytes[FM_SHOW_MAX];

	if (r->findings > r->mended)
		return say_damaged(s, name, r);
	if (r->findings == 0)
		fm_say("datasets: %s: %s read again: all as its manifest says", name,
		       fm_show_bytes(r->bytes, bytes));
	else
		fm_say("datasets: %s: %" PRIu64 " places were damaged, and came again: all as "
		       "its manifest says (fmove logs %s: how)",
		       name, r->findings, r->job);
	return FM_EXIT_DONE;
}

static int check(const struct fm_args *args, struct shown *s)
{
	struct fmove_check_options opts = {
		.struct_size = sizeof(opts), .finding = print_finding, .ctx = s,
		.accepted = accepted};
	struct fmove_checked result = {.struct_size = sizeof(result)};
	struct fmove_error why;
	struct fmove *c;
	int ret, status;

	if (fm_ask_open("datasets", false, &c, &status) < 0)
		return status;
	if (isatty(STDERR_FILENO))
		opts.progress = check_progress;
	if (s->is_json)
		fm_rows_begin(&s->rows, "findings");
	ret = fmove_dataset_check(c, args->operands[1], &opts, &result, &why);
	fmove_close(c);
	if (opts.progress)
		(void)fputs("\r\033[K", stderr);
	status = ret < 0 ? fm_ask_fail("datasets", args->operands[1], &why)
			 : say_checked(s, args->operands[1], &result);
	if (s->is_json && s->job[0])
		fm_jw_text(fm_rows_over(&s->rows), "job", s->job);
	if (s->is_json)
		fm_rows_end(&s->rows, status);
	return fm_stdout_end("datasets", status);
}

/* One that is not here is an error, as for whoever wants to remove it. */
static int find_none(const struct shown *s)
{
	const struct fmove_error why = {
		.code = -ENOENT,
		.text = "no dataset here is called so, or from there, that you may see: fmove "
			"datasets lists them"
	};

	return fm_ask_fail("datasets", s->name, &why);
}

/* The operands: none, NAME, or check NAME. False: *status is the exit status. */
static bool take_operands(const struct fm_args *args, const char *nodes, struct shown *s,
			  int *status)
{
	bool is_check = args->count > 0 && strcmp(args->operands[0], "check") == 0;

	*status = FM_EXIT_DONE;
	if (is_check && args->count == 1)
		*status = fm_usage(args, "what may follow is NAME, or \"check NAME\"; one that is "
					 "called check is named by its source");
	else if (args->count == 2 && !is_check)
		*status = fm_usage(args, "what may follow is NAME, or \"check NAME\"");
	else if (is_check && nodes)
		*status = fm_usage(args, "--nodes is for the list: check reads the copy of this "
					 "node (on another one, run it there)");
	else if (is_check)
		*status = check(args, s);
	else if (args->count == 1)
		s->name = args->operands[0];
	return *status == FM_EXIT_DONE && !is_check;
}

int fm_cmd_datasets(int argc, char **argv)
{
	struct fmove_cache cache = {.struct_size = sizeof(cache)};
	struct shown s = { .count = 0 };
	const char *nodes = NULL;
	uint64_t read = 0;
	struct fmove_error why;
	struct fm_args args;
	struct fmove *c;
	int key, ret, status = FM_EXIT_DONE;

	fm_args_begin(&args, "datasets", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		if (key == OPT_NODES)
			nodes = args.value;
		s.is_json |= key == OPT_JSON;
		s.is_quiet |= key == OPT_QUIET;
	}
	if (fm_args_end(&args, 0, 2) < 0)
		return args.status;
	if (!take_operands(&args, nodes, &s, &status))
		return status;
	s.now_ms = (int64_t)time(NULL) * 1000;
	if (!nodes)
		nodes = "all";
	if (fm_ask_open("datasets", false, &c, &status) < 0)
		return status;
	if (s.is_json)
		fm_rows_begin(&s.rows, "datasets");
	if (s.is_quiet || strcmp(nodes, "none") == 0)
		nodes = NULL;
	ret = fmove_datasets_of(c, nodes, print_one, &s, &why);
	if (ret == 0)
		ret = fmove_source_bytes(c, &read, &why);
	if (ret == 0)
		ret = fmove_cache(c, &cache, &why);
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail("datasets", NULL, &why);
	else if (s.name && s.count == 0)
		status = find_none(&s);
	print_sums(&s, &cache, read, status);
	return fm_stdout_end("datasets", status);
}

/* ---- pin, unpin, unstage ---- */

struct verb {
	const char *name;
	int (*here)(struct fmove *c, const char *name, struct fmove_error *err);
	int (*on)(struct fmove *c, const char *nodes, const char *name,
		  void (*each)(void *ctx, const struct fmove_kept_node *n), void *ctx,
		  struct fmove_error *err);
};

struct change {
	const char *name;
	const char *nodes;		/* NULL: here */
	bool is_json;
	char job[FMOVE_JOB_MAX];	/* with nodes: what they log it under */
	struct fm_rows rows;		/* with nodes: one for each, and how many of them ... */
	unsigned done, failed;
	bool is_dry;			/* only whether it would be made, and ... */
	uint64_t bytes;			/* ... what would go */
};

static void print_dry(const struct change *h)
{
	char name[4 * FMOVE_NAME_MAX + 8], bytes[FM_SHOW_MAX];
	struct fm_json_writer w;

	if (!h->is_json) {
		fm_show(h->name, strlen(h->name), name, sizeof(name));
		(void)printf("would remove %s, %s\n", name, fm_show_bytes(h->bytes, bytes));
		return;
	}
	fm_jw_stream(&w, stdout); /* fm_stdout_end() looks for errors */
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "name", h->name, strnlen(h->name, FMOVE_PATH_MAX));
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	fm_jw_bool(&w, "dry_run", true);
	fm_jw_u64(&w, "bytes", h->bytes);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

static void print_node(void *ctx, const struct fmove_kept_node *n)
{
	char node[4 * FMOVE_NAME_MAX + 8], text[4 * 256];
	struct change *h = ctx;
	struct fm_json_writer *w;

	h->done += !n->code[0];
	h->failed += n->code[0] != '\0';
	(void)snprintf(h->job, sizeof(h->job), "%s", n->job);
	if (h->is_json) {
		w = fm_rows_next(&h->rows);
		fm_jw_text(w, "node", n->node);
		if (n->code[0]) {
			fm_jw_object(w, "error");
			fm_jw_text(w, "code", n->code);
			fm_jw_text(w, "text", n->text);
			fm_jw_object_end(w);
		}
		fm_jw_object_end(w);
	} else if (n->code[0]) {
		fm_show(n->node, strlen(n->node), node, sizeof(node));
		fm_show(n->text, strlen(n->text), text, sizeof(text));
		fm_say("%s: %s", node, text);
	}
}

static int change_nodes(struct change *h, struct fmove *c, const struct verb *verb)
{
	int status = FM_EXIT_DONE;
	struct fmove_error why;

	if (h->is_json)
		fm_rows_begin(&h->rows, "nodes");
	if (verb->on(c, h->nodes, h->name, print_node, h, &why) < 0)
		status = fm_ask_fail(verb->name, h->name, &why);
	else if (h->failed > 0)
		status = h->done > 0 ? FM_EXIT_PARTLY : FM_EXIT_FAILED;
	fmove_close(c);
	if (h->is_json && h->job[0])
		fm_jw_text(fm_rows_over(&h->rows), "job", h->job);
	if (h->is_json)
		fm_rows_end(&h->rows, status);
	return fm_stdout_end(verb->name, status);
}

static int change(int argc, char **argv, const struct verb *verb)
{
	struct change h = {.name = NULL};
	int key, ret, status = FM_EXIT_DONE;
	struct fmove_error why;
	struct fm_args args;
	struct fmove *c;

	fm_args_begin(&args, verb->name, argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		h.is_json |= key == OPT_JSON;
		h.is_dry |= key == OPT_DRY;
		if (key == OPT_NODES)
			h.nodes = args.value;
	}
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	if (h.nodes && !h.nodes[0])
		return fm_usage(&args, "--nodes: an empty list: all, or names between commas");
	if (h.nodes && h.is_dry)
		return fm_usage(&args, "--dry-run is for this node, without --nodes");
	h.name = args.operands[0];
	if (fm_ask_open(verb->name, false, &c, &status) < 0)
		return status;
	if (h.nodes)
		return change_nodes(&h, c, verb);
	ret = h.is_dry ? fmove_unstage_try(c, h.name, &h.bytes, &why)
		       : verb->here(c, h.name, &why);
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail(verb->name, h.name, &why);
	if (h.is_dry && ret == 0)
		print_dry(&h);
	else if (h.is_json)
		fm_ask_outcome_json(h.name, NULL, NULL, status, ret < 0 ? &why : NULL);
	return fm_stdout_end(verb->name, status);
}

int fm_cmd_pin(int argc, char **argv)
{
	static const struct verb verb = {"pin", fmove_pin, fmove_pin_on};

	return change(argc, argv, &verb);
}

int fm_cmd_unpin(int argc, char **argv)
{
	static const struct verb verb = {"unpin", fmove_unpin, fmove_unpin_on};

	return change(argc, argv, &verb);
}

int fm_cmd_unstage(int argc, char **argv)
{
	static const struct verb verb = {"unstage", fmove_unstage, fmove_unstage_on};

	return change(argc, argv, &verb);
}
