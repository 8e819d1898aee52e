/* SPDX-License-Identifier: MIT */
/* cmd_datasets - fmove datasets, pin, unpin and unstage: what is staged on this node. */
#include "client/cli/ask.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "mover/base/json.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_QUIET };

const struct fm_opt fm_opts_datasets[] = {
	{ "quiet", 'q', OPT_QUIET, NULL, "only their names", NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};
const struct fm_opt fm_opts_pin[] = {
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define JSON_MAX (128u << 10)

struct shown {
	bool is_json, is_quiet;
	unsigned count;
};

static void print_line(const struct shown *s, const struct fmove_dataset *d)
{
	char bytes[FM_SHOW_MAX], name[1024], source[4 * 1024];

	fm_show(d->name, strlen(d->name), name, sizeof(name));
	if (s->is_quiet) {
		(void)printf("%s\n", name);	/* fm_stdout_end() looks for errors */
		return;
	}
	fm_show(d->source, strlen(d->source), source, sizeof(source));
	(void)printf("%-9s  %-12.12s  %10s  %3" PRIu64 " held  %3" PRIu64 " pinned  %s  %s\n",
		     d->state, d->version[0] ? d->version : "-", fm_show_bytes(d->bytes, bytes),
		     d->holds, d->pins, name, source);
}

static void print_json(const struct shown *s, const struct fmove_dataset *d)
{
	static char buf[JSON_MAX];	/* one thread prints */
	struct fm_json_writer w;

	fm_jw_begin(&w, buf, sizeof(buf));
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "name", d->name, strlen(d->name));
	fm_jw_text(&w, "state", d->state);
	fm_jw_text(&w, "version", d->version);
	fm_jw_name(&w, "source", d->source, strlen(d->source));
	fm_jw_name(&w, "path", d->path, strlen(d->path));
	fm_jw_u64(&w, "bytes", d->bytes);
	fm_jw_u64(&w, "holds", d->holds);
	fm_jw_u64(&w, "pins", d->pins);
	fm_jw_i64(&w, "created_ms", d->created_ms);
	fm_jw_i64(&w, "requested_ms", d->requested_ms);
	fm_jw_i64(&w, "used_ms", d->used_ms);
	fm_jw_object_end(&w);
	fm_rows_add(&w, s->count == 0);
}

static bool print_one(void *ctx, const struct fmove_dataset *d)
{
	struct shown *s = ctx;

	if (s->is_json)
		print_json(s, d);
	else
		print_line(s, d);
	s->count++;
	return true;
}

int fm_cmd_datasets(int argc, char **argv)
{
	struct shown s = { .count = 0 };
	struct fmove_error why;
	struct fm_args args;
	struct fmove *c;
	int key, ret, status = FM_EXIT_DONE;

	fm_args_begin(&args, "datasets", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		s.is_json |= key == OPT_JSON;
		s.is_quiet |= key == OPT_QUIET;
	}
	if (fm_args_end(&args, 0, 0) < 0)
		return args.status;
	if (fm_ask_open("datasets", false, &c, &status) < 0)
		return status;
	if (s.is_json)
		fm_rows_begin("datasets");
	ret = fmove_datasets(c, print_one, &s, &why);
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail("datasets", NULL, &why);
	if (s.is_json)
		fm_rows_end(NULL, status);
	return fm_stdout_end("datasets", status);
}

static int change(int argc, char **argv, const char *verb,
		  int (*make)(struct fmove *c, const char *name, struct fmove_error *err))
{
	struct fmove_error why;
	struct fm_args args;
	struct fmove *c;
	int ret, status;

	fm_args_begin(&args, verb, argc, argv);
	while (fm_args_next(&args) > 0)
		;	/* there are none */
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	if (fm_ask_open(verb, false, &c, &status) < 0)
		return status;
	ret = make(c, args.operands[0], &why);
	fmove_close(c);
	return ret < 0 ? fm_ask_fail(verb, args.operands[0], &why) : FM_EXIT_DONE;
}

int fm_cmd_pin(int argc, char **argv)
{
	return change(argc, argv, "pin", fmove_pin);
}

int fm_cmd_unpin(int argc, char **argv)
{
	return change(argc, argv, "unpin", fmove_unpin);
}

int fm_cmd_unstage(int argc, char **argv)
{
	return change(argc, argv, "unstage", fmove_unstage);
}
