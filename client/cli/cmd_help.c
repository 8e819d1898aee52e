/* SPDX-License-Identifier: MIT */
/* cmd_help - fmove help [COMMAND]: the same as --help. */
#include "client/cli/cmd.h"

#include <stdio.h>

int fm_cmd_help(int argc, char **argv)
{
	const struct fm_cmd *cmd;
	struct fm_args args;
	char name[64];

	fm_args_begin(&args, "help", argc, argv);
	while (fm_args_next(&args) > 0)
		;
	if (fm_args_end(&args, 0, 2) < 0)
		return args.status;
	if (args.count > 0)
		/* one that does not fit is no command's */
		(void)snprintf(name, sizeof(name), "%s%s%s", args.operands[0],
			       args.count > 1 ? " " : "", args.count > 1 ? args.operands[1] : "");
	cmd = args.count > 0 ? fm_cmd_find(name) : NULL;
	if (args.count > 0 && !cmd)
		return fm_usage(&args, "unknown command \"%s\"", name);
	if (cmd)
		fm_help_cmd(cmd);
	else
		fm_help_all();
	return fm_stdout_end("help", FM_EXIT_DONE);
}
