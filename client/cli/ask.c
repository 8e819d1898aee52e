/* SPDX-License-Identifier: MIT */
/* ask - see ask.h. */
#include "client/cli/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/cli/interrupt.h"
#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "client/cli/turn.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

int fm_ask_fail(const char *verb, const char *name, const struct fmove_error *why)
{
	bool is_cancelled = why->is_full && fm_is_interrupted();	/* it would wait still */

	return fm_fail_text(is_cancelled ? -ECANCELED : why->code, "%s: %s%s%s", verb,
			    name ? name : "", name ? ": " : "",
			    is_cancelled ? "cancelled" : why->text);
}

void fm_ask_error_json(struct fm_json_writer *w, const struct fmove_error *why)
{
	fm_jw_object(w, "error");
	fm_jw_text(w, "code", fm_api_errno_name(why->code));
	fm_jw_text(w, "text", why->text);
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

/* ---- several operands ---- */

/* What is done to each operand: to a name, or to a job. */
struct each {
	const char *rows, *row;		/* members of the JSON */
	int (*do_name)(struct fmove *c, const struct fmove_name *name, void *ctx,
		       struct fmove_error *why);
	int (*do_job)(struct fmove *c, const char *job, void *ctx, struct fmove_error *why);
	void *ctx;
};

static void each_json(const struct each *each, struct fm_rows *rows, const char *operand,
		      const struct fmove_error *why)
{
	struct fm_json_writer *w = fm_rows_next(rows);

	fm_jw_name(w, each->row, operand, strnlen(operand, FM_ASK_NAME_TEXT_MAX));
	fm_jw_u64(w, "exit", why ? (uint64_t)fm_api_exit(why->code) : 0);
	if (why)
		fm_ask_error_json(w, why);
	fm_jw_object_end(w);
}

static int each_do(const struct each *each, struct fmove *c, const char *operand,
		   struct fmove_error *why)
{
	struct fmove_name parts;
	struct fm_name name;
	struct fm_err err;

	if (each->do_job)
		return each->do_job(c, operand, each->ctx, why);
	/* it could be parsed before */
	(void)fm_name_parse(operand, &name, &err);
	parts = fm_name_parts(&name);
	return each->do_name(c, &parts, each->ctx, why);
}

static int ask_each(const struct fm_args *args, bool is_json, const struct each *each)
{
	int failed = 0, done = 0, status = FM_EXIT_DONE;
	struct fmove_error why;
	struct fm_rows rows;
	struct fmove *c;

	if (fm_ask_open(args->cmd->name, false, &c, &status) < 0)
		return status;
	if (is_json)
		fm_rows_begin(&rows, each->rows);
	for (int i = 0; i < args->count && !fm_is_interrupted(); i++) {
		int ret = each_do(each, c, args->operands[i], &why);

		failed += ret < 0;
		done += ret == 0;
		if (ret < 0)
			status = fm_ask_fail(args->cmd->name, args->operands[i], &why);
		if (is_json)
			each_json(each, &rows, args->operands[i], ret < 0 ? &why : NULL);
	}
	fmove_close(c);
	if (fm_is_interrupted() && done < args->count)
		status = FM_EXIT_CANCELLED;
	else if (failed > 0 && done > 0)
		status = FM_EXIT_PARTLY;
	if (is_json)
		fm_rows_end(&rows, status);
	return fm_stdout_end(args->cmd->name, status);
}

int fm_ask_each_name(const struct fm_args *args, bool is_json,
		     int (*do_one)(struct fmove *c, const struct fmove_name *name, void *ctx,
				   struct fmove_error *why),
		     void *ctx)
{
	struct fm_name name;
	struct fm_err err;

	for (int i = 0; i < args->count; i++)
		if (fm_name_parse(args->operands[i], &name, &err) < 0)
			return fm_usage(args, "%s", err.text);
	return ask_each(
		args, is_json,
		&(struct each){.rows = "names", .row = "name", .do_name = do_one, .ctx = ctx});
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
