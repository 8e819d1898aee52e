/* SPDX-License-Identifier: MIT */
/* cmd_help - fmove help [COMMAND]: the same as --help; fmove help TOPIC. */
#include "client/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/topics.h"

static const struct fm_topic *find_topic(const char *name)
{
	for (const struct fm_topic *t = fm_topics; t->name; t++)
		if (strcmp(t->name, name) == 0)
			return t;
	return NULL;
}

int fm_cmd_help(int argc, char **argv)
{
	const struct fm_topic *topic;
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
	topic = args.count > 0 && !cmd ? find_topic(name) : NULL;
	if (args.count > 0 && !cmd && !topic)
		return fm_usage(&args, "unknown command or topic \"%s\"", name);
	if (topic)
		fm_help_text(topic->text);
	else if (cmd)
		fm_help_cmd(cmd);
	else
		fm_help_all();
	return fm_stdout_end("help", FM_EXIT_DONE);
}
