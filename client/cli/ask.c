/* SPDX-License-Identifier: MIT */
/* ask - see ask.h. */
#include "client/cli/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/glob.h"
#include "client/cli/interrupt.h"
#include "client/cli/next_step.h"
#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "client/cli/turn.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

int fm_ask_fail(const char *verb, const char *name, const struct fmove_error *why)
{
	bool is_cancelled = why->is_full && fm_is_interrupted();	/* it would wait still */

	return fm_fail_told(is_cancelled ? -ECANCELED : why->code, "%s: %s%s%s", verb,
			    name ? name : "", name ? ": " : "",
			    is_cancelled ? "cancelled" : why->text);
}

int fm_ask_fail_literal(const char *verb, const char *name, struct fmove_error *why)
{
	size_t len = strlen(why->text);

	if (why->code == -ENOENT && fm_glob_is_pattern(name))
		(void)snprintf(why->text + len, sizeof(why->text) - len,
			       "; only get, ls and rm take patterns");
	return fm_ask_fail(verb, name, why);
}

void fm_ask_error_json(struct fm_json_writer *w, const struct fmove_error *why)
{
	char text[2 * FMOVE_TEXT_MAX];

	(void)snprintf(text, sizeof(text), "%s%s", why->text,
		       fm_next_step_told(why->code, why->text));
	fm_jw_object(w, "error");
	fm_jw_text(w, "code", fm_api_errno_name(why->code));
	fm_jw_text(w, "text", text);
	fm_jw_object_end(w);
}

void fm_ask_outcome_json(const char *name, const char *key, const char *other, int status,
			 const struct fmove_error *why)
{
	struct fm_json_writer w;

	fm_jw_stream(&w, stdout); /* fm_stdout_end() looks for errors */
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "name", name, strnlen(name, FM_ASK_NAME_TEXT_MAX));
	if (key)
		fm_jw_name(&w, key, other, strnlen(other, FM_ASK_NAME_TEXT_MAX));
	fm_jw_u64(&w, "exit", (uint64_t)status);
	if (why)
		fm_ask_error_json(&w, why);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

int fm_ask_open(const char *verb, bool is_quiet, struct fmove **out, int *status)
{
	static struct fm_turn turn;
	struct fmove_error why;
	struct fm_err err;

	if (fm_interrupt_fd() < 0 && fm_interrupt_start(&err) < 0) {
		*status = fm_fail(verb, &err);
		return -1;
	}
	fm_turn_init(&turn, verb, is_quiet);
	if (fm_turn_connect(&turn, out, &why) == 0)
		return 0;
	*status = fm_ask_fail(verb, NULL, &why);
	return -1;
}

int fm_ask_status(struct fmove *c, struct fm_json **out, struct fmove_error *why)
{
	struct fm_err err;
	char *text;
	int ret = fmove_status(c, &text, why);

	if (ret < 0)
		return ret;
	ret = fm_json_parse(text, strlen(text), out, &err);
	free(text);
	if (ret < 0) {
		*why = (struct fmove_error){ .code = ret, .exit = FM_EXIT_FAILED };
		(void)snprintf(why->text, sizeof(why->text), "%s", err.text);
	}
	return ret;
}

/* ---- several operands ---- */

/* What is done to each operand: to a name, or to a job. */
struct each {
	const char *rows, *row;		/* members of the JSON */
	const struct fm_ask_names *names;	/* NULL: operands are jobs */
	int (*do_job)(struct fmove *c, const char *job, void *ctx, struct fmove_error *why);
	void *ctx;
};

/* All of them, and what became of those that are done. */
struct run {
	const struct each *each;
	const char *verb;
	struct fmove *c;
	struct fm_rows rows;
	bool is_json;
	int failed, done;
	bool is_cut;			/* of a pattern not all were tried */
	int status;			/* of the last that failed */
};

static void row_json(struct run *r, const char *operand, const struct fmove_error *why)
{
	const struct each *each = r->each;
	struct fm_json_writer *w = fm_rows_next(&r->rows);

	fm_jw_name(w, each->row, operand, strnlen(operand, FM_ASK_NAME_TEXT_MAX));
	fm_jw_u64(w, "exit", why ? (uint64_t)fm_api_exit(why->code) : 0);
	if (why)
		fm_ask_error_json(w, why);
	else if (each->names && each->names->row_json)
		each->names->row_json(w, each->names->ctx);
	fm_jw_object_end(w);
}

static void told(struct run *r, const char *operand, int ret, const struct fmove_error *why)
{
	r->failed += ret < 0;
	r->done += ret == 0;
	if (ret < 0)
		r->status = fm_ask_fail(r->verb, operand, why);
	if (r->is_json)
		row_json(r, operand, ret < 0 ? why : NULL);
}

static void do_name(struct run *r, const struct fm_name *name, const char *text)
{
	struct fmove_name parts = fm_name_parts(name);
	struct fmove_error why;

	told(r, text, r->each->names->do_one(r->c, &parts, r->each->names->ctx, &why), &why);
}

static void do_matches(struct run *r, const struct fm_name *pattern, const struct fm_glob *matches)
{
	char text[FM_ASK_NAME_TEXT_MAX];
	struct fm_name name = *pattern;

	for (size_t i = 0; i < matches->count; i++) {
		r->is_cut = fm_is_interrupted();
		if (r->is_cut)
			return;
		/* fits: it is no longer than a path may be */
		(void)snprintf(name.path, sizeof(name.path), "%s", matches->paths[i]);
		(void)fm_name_text(&name, text, sizeof(text));
		do_name(r, &name, text);
	}
}

/*
 * A name that exists stands for itself, even if it looks like a pattern, and if it is of a link
 * that leads nowhere: else rm would remove what it matches in its stead.
 */
static void do_operand(struct run *r, const char *operand)
{
	const struct fm_ask_names *names = r->each->names;
	struct fm_glob matches = {.count = 0};
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	char says[FMOVE_PATH_MAX + 1];
	struct fmove_name parts;
	struct fmove_error why;
	struct fm_name name;
	struct fm_err err;
	int ret;

	(void)fm_name_parse(operand, &name, &err);	/* it could be parsed before */
	parts = fm_name_parts(&name);
	if (!names->has_patterns || !fm_glob_is_pattern(name.path) ||
	    (ret = fmove_look(r->c, &parts, &entry, says, &why)) == 0) {
		do_name(r, &name, operand);
		return;
	}
	ret = fm_glob_instead(r->c, &name, ret, &matches, &why);
	if (ret == -ENOENT && names->may_match_nothing)
		do_name(r, &name, operand);
	else if (ret < 0)
		told(r, operand, ret, &why);
	else
		do_matches(r, &name, &matches);
	fm_glob_free(&matches);
}

static void do_job(struct run *r, const char *job)
{
	struct fmove_error why;

	told(r, job, r->each->do_job(r->c, job, r->each->ctx, &why), &why);
}

static int ask_each(const struct fm_args *args, bool is_json, const struct each *each)
{
	struct run r = {.each = each, .verb = args->cmd->name, .is_json = is_json};
	int i;

	if (fm_ask_open(r.verb, false, &r.c, &r.status) < 0)
		return r.status;
	if (is_json)
		fm_rows_begin(&r.rows, each->rows);
	for (i = 0; i < args->count && !fm_is_interrupted(); i++)
		if (each->names)
			do_operand(&r, args->operands[i]);
		else
			do_job(&r, args->operands[i]);
	fmove_close(r.c);
	if (fm_is_interrupted() && (i < args->count || r.failed > 0 || r.is_cut))
		r.status = FM_EXIT_CANCELLED;
	else if (r.failed > 0 && r.done > 0)
		r.status = FM_EXIT_PARTLY;
	if (is_json)
		fm_rows_end(&r.rows, r.status);
	return fm_stdout_end(r.verb, r.status);
}

int fm_ask_each_name(const struct fm_args *args, bool is_json, const struct fm_ask_names *names)
{
	struct fm_name name;
	struct fm_err err;

	for (int i = 0; i < args->count; i++)
		if (fm_name_parse(args->operands[i], &name, &err) < 0)
			return fm_usage(args, "%s", err.text);
	return ask_each(args, is_json,
			&(struct each){.rows = "names", .row = "name", .names = names});
}

int fm_ask_each_job(const struct fm_args *args, bool is_json,
		    int (*do_one)(struct fmove *c, const char *job, void *ctx,
				  struct fmove_error *why),
		    void *ctx)
{
	return ask_each(args, is_json,
			&(struct each){.rows = "jobs", .row = "job", .do_job = do_one, .ctx = ctx});
}

/* ---- entries ---- */

void fm_ask_entry_json(struct fm_json_writer *w, const struct fmove_entry *e)
{
	static const char *const types[] = { "file", "directory", "link", "other" };
	char mode[16];

	fm_jw_text(w, "type", types[e->type]);
	fm_jw_u64(w, "size", e->size);
	(void)snprintf(mode, sizeof(mode), "%04o", e->mode & 0777u);	/* fits */
	fm_jw_text(w, "mode", mode);
	fm_jw_i64(w, "mtime_ns", e->mtime_ns);
}

void fm_ask_says_json(struct fm_json_writer *w, const char *says)
{
	if (says[0])
		fm_jw_name(w, "leads_to", says, strlen(says));
}

void fm_ask_mode_text(const struct fmove_entry *e, char out[static 11])
{
	static const char letters[] = "rwxrwxrwx";

	out[0] = "-dl?"[e->type];
	for (unsigned i = 0; i < 9; i++)
		out[i + 1] = '-';
	for (unsigned i = 0; i < 9; i++)
		if (e->mode & 0400u >> i)
			out[i + 1] = letters[i];
	out[10] = '\0';
}

void fm_ask_time_text(const struct fmove_entry *e, char out[static 32])
{
	time_t seconds = (time_t)(e->mtime_ns / (int64_t)FM_NS_PER_S);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		/* a year beyond what time can say */
		(void)snprintf(out, 32, "%lld", (long long)seconds);
}
