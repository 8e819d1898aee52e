/* SPDX-License-Identifier: MIT */
/*
 * cmd_purge - fmove purge NODE:STORE: what was replaced and is kept aside goes. It is named as it goes, so there may be any number.
 */
#include "client/ask.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/show.h"
#include "mover/api_json.h"
#include "mover/base/err.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_DRY };

const struct fm_opt fm_opts_purge[] = {
	{ "dry-run", 'n', OPT_DRY, NULL, "only say what would go", NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

struct purge {
	bool is_json;
	bool is_dry;
	bool is_raw;		/* names as they are: nobody looks at them on a terminal */
	uint64_t count;
	uint64_t bytes;
};

static void print_json(const struct purge *p, const struct fmove_aside *a)
{
	static char buf[FMOVE_PATH_MAX * 6 + 256];	/* one thread prints */
	struct fm_json_writer w;

	fm_jw_begin(&w, buf, sizeof(buf));
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "path", a->path, strlen(a->path));
	fm_jw_u64(&w, "bytes", a->bytes);
	fm_jw_i64(&w, "since_ns", a->since_ns);
	fm_jw_object_end(&w);
	if (fm_jw_end(&w) > 0)
		(void)printf("%s%s", p->count > 0 ? ",\n" : "", buf);	/* fm_stdout_end() looks for errors */
}

static void print_text(const struct purge *p, const struct fmove_aside *a)
{
	static char shown[4 * FMOVE_PATH_MAX + 8];
	const struct fmove_entry when = { .mtime_ns = a->since_ns };
	char bytes[FM_SHOW_MAX], time_text[32];

	fm_ask_time_text(&when, time_text);
	(void)printf("%10s replaced %s %s\n", fm_show_bytes(a->bytes, bytes), time_text,
		     p->is_raw ? a->path : fm_show(a->path, strlen(a->path), shown, sizeof(shown)));
}

static void print(void *ctx, const struct fmove_aside *a)
{
	struct purge *p = ctx;

	if (p->is_json)
		print_json(p, a);
	else
		print_text(p, a);
	p->count++;
	p->bytes += a->bytes;
}

static int purge(const struct fm_name *name, const char *text, struct purge *p)
{
	struct fmove_name parts = fm_name_parts(name);
	int ret, status = FM_EXIT_DONE;
	struct fmove_error why;
	char bytes[FM_SHOW_MAX];
	struct fmove *c;

	if (fm_ask_open("purge", false, &c, &status) < 0)
		return status;
	if (p->is_json)
		(void)printf("{\"aside\":[");
	ret = fmove_purge(c, &parts, p->is_dry, print, p, &why);
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail("purge", text, &why);
	if (ret < 0 && p->count > 0)
		status = FM_EXIT_PARTLY;
	if (p->is_json)
		(void)printf("],\"bytes\":%" PRIu64 ",\"dry_run\":%s,\"exit\":%d}\n", p->bytes, p->is_dry ? "true" : "false", status);
	else if (ret == 0 || p->count > 0)
		(void)printf("%s: %s %" PRIu64 " %s, %s%s\n", text, p->is_dry ? "would remove" : "removed", p->count,
			     fm_show_directories(p->count), fm_show_bytes(p->bytes, bytes),
			     p->is_dry && p->count > 1 ? " at least" : "");	/* what they share goes with the last of them */
	return fm_stdout_end("purge", status);
}

int fm_cmd_purge(int argc, char **argv)
{
	struct purge p = { .is_raw = !isatty(STDOUT_FILENO) };
	struct fm_args args;
	struct fm_name name;
	struct fm_err err;
	int key;

	fm_args_begin(&args, "purge", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		p.is_json |= key == OPT_JSON;
		p.is_dry |= key == OPT_DRY;
	}
	if (p.is_raw)
		fm_stdout_raw();
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	if (!strchr(args.operands[0], ':'))
		return fm_usage(&args, "\"%.200s\" names no store, as NODE:STORE does; \"fmove df\" lists them",
				args.operands[0]);
	if (fm_name_parse(args.operands[0], &name, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	if (name.path[0])
		return fm_usage(&args, "\"%.200s\": what is kept aside is a store's; leave out the path", args.operands[0]);
	return purge(&name, args.operands[0], &p);
}
