/* SPDX-License-Identifier: MIT */
/* cmd_mkdir - fmove mkdir [--parents] NODE:STORE/PATH... */
#include "client/cli/ask.h"

#include <errno.h>

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_PARENTS };

const struct fm_opt fm_opts_mkdir[] = {
	{ "parents", 'p', OPT_PARENTS, NULL, "a directory that is there already is no error",
	  NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

static bool is_directory(struct fmove *c, const struct fmove_name *name)
{
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error why;

	return fmove_stat(c, name, &entry, &why) == 0 && entry.type == FMOVE_DIRECTORY;
}

static int mkdir_one(struct fmove *c, const struct fmove_name *name, void *ctx,
		     struct fmove_error *why)
{
	const bool *may_exist = ctx;
	int ret = fmove_mkdir(c, name, why);

	return ret == -EEXIST && *may_exist && is_directory(c, name) ? 0 : ret;
}

int fm_cmd_mkdir(int argc, char **argv)
{
	bool is_json = false, may_exist = false;
	struct fm_args args;
	int key;

	fm_args_begin(&args, "mkdir", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		is_json |= key == OPT_JSON;
		may_exist |= key == OPT_PARENTS;
	}
	if (fm_args_end(&args, 1, -1) < 0)
		return args.status;
	return fm_ask_each_name(
		&args, is_json, &(struct fm_ask_names){.do_one = mkdir_one, .ctx = &may_exist});
}
