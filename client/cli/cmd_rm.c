/* SPDX-License-Identifier: MIT */
/* cmd_rm - fmove rm [--recursive] NODE:STORE/PATH... */
#include "client/cli/ask.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_RECURSIVE };

const struct fm_opt fm_opts_rm[] = {
	{ "recursive", 'r', OPT_RECURSIVE, NULL, "directories too, with all that is in them",
	  NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

static int remove_one(struct fmove *c, const struct fmove_name *name, void *ctx,
		      struct fmove_error *why)
{
	return fmove_remove(c, name, *(const bool *)ctx, why);
}

int fm_cmd_rm(int argc, char **argv)
{
	bool is_recursive = false, is_json = false;
	struct fm_args args;
	int key;

	fm_args_begin(&args, "rm", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		is_recursive |= key == OPT_RECURSIVE;
		is_json |= key == OPT_JSON;
	}
	if (fm_args_end(&args, 1, -1) < 0)
		return args.status;
	return fm_ask_each_name(&args, is_json, remove_one, &is_recursive);
}
