/* SPDX-License-Identifier: MIT */
/* cmd_stat - fmove stat NODE:STORE/PATH: of a symbolic link itself, as stat(1) does. */
#include "client/cli/ask.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/show.h"
#include "mover/base/json.h"
#include "mover/base/err.h"

const struct fm_opt fm_opts_stat[] = {
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

static void print_json(const char *name, const struct fmove_entry *e, const char *says)
{
	struct fm_json_writer w;

	fm_jw_stream(&w, stdout); /* fm_stdout_end() looks for errors */
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "name", name, strlen(name));
	fm_ask_entry_json(&w, e);
	fm_ask_says_json(&w, says);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

static void print_text(const char *name, const struct fmove_entry *e, const char *says)
{
	static const char *const types[] = { "file", "directory", "symbolic link",
					     "neither file nor directory" };
	char shown[4 * FM_ASK_NAME_TEXT_MAX], size[FM_SHOW_MAX], count[FM_SHOW_MAX], mode[11],
		time_text[32];

	fm_ask_mode_text(e, mode);
	fm_ask_time_text(e, time_text);
	/* fm_stdout_end() looks for errors */
	(void)printf("name      %s\n", fm_show(name, strlen(name), shown, sizeof(shown)));
	(void)printf("type      %s\n", types[e->type]);
	if (says[0])
		(void)printf("leads to  %s\n", fm_show(says, strlen(says), shown, sizeof(shown)));
	(void)printf("size      %s bytes (%s)\n", fm_show_count(e->size, count),
		     fm_show_bytes(e->size, size));
	(void)printf("mode      %04o (%s)\n", e->mode & 0777u, mode);
	(void)printf("modified  %s\n", time_text);
}

int fm_cmd_stat(int argc, char **argv)
{
	char says[FMOVE_PATH_MAX + 1];
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error why;
	struct fmove_name parts;
	struct fm_args args;
	struct fm_name name;
	bool is_json = false;
	struct fmove *c;
	struct fm_err err;
	int ret, status;

	fm_args_begin(&args, "stat", argc, argv);
	while (fm_args_next(&args) > 0)
		is_json = true;
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	if (fm_name_parse(args.operands[0], &name, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	if (fm_ask_open("stat", false, &c, &status) < 0)
		return status;
	parts = fm_name_parts(&name);
	ret = fmove_look(c, &parts, &entry, says, &why);
	fmove_close(c);
	if (ret < 0)
		return fm_ask_fail_literal("stat", args.operands[0], &why);
	if (is_json)
		print_json(args.operands[0], &entry, says);
	else
		print_text(args.operands[0], &entry, says);
	return fm_stdout_end("stat", FM_EXIT_DONE);
}
