/* SPDX-License-Identifier: MIT */
/* cmd_help - fmove help [COMMAND]: the same as --help. */
#include "client/cmd.h"

int fm_cmd_help(int argc, char **argv)
{
	const struct fm_cmd *cmd;
	struct fm_args args;

	fm_args_begin(&args, "help", argc, argv);
	while (fm_args_next(&args) > 0)
		;
	if (fm_args_end(&args, 0, 1) < 0)
		return args.status;
	cmd = args.count > 0 ? fm_cmd_find(args.operands[0]) : NULL;
	if (args.count > 0 && !cmd)
		return fm_usage(&args, "unknown command \"%s\"", args.operands[0]);
	if (cmd)
		fm_help_cmd(cmd);
	else
		fm_help_all();
	return fm_stdout_end("help", FM_EXIT_DONE);
}
