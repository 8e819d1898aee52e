/* SPDX-License-Identifier: MIT */
/* cmd_mkdir - fmove mkdir NODE:STORE/PATH... */
#include "client/cli/ask.h"

const struct fm_opt fm_opts_mkdir[] = {
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

static int mkdir_one(struct fmove *c, const struct fmove_name *name, void *ctx,
		     struct fmove_error *why)
{
	(void)ctx;
	return fmove_mkdir(c, name, why);
}

int fm_cmd_mkdir(int argc, char **argv)
{
	bool is_json = false;
	struct fm_args args;

	fm_args_begin(&args, "mkdir", argc, argv);
	while (fm_args_next(&args) > 0)
		is_json = true;
	if (fm_args_end(&args, 1, -1) < 0)
		return args.status;
	return fm_ask_each_name(&args, is_json, mkdir_one, NULL);
}
