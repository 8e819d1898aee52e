/* SPDX-License-Identifier: MIT */
/* dispatch - from the words of the command line to the verb's row. See cmd.h. */
#include "client/cli/cmd.h"

#include <string.h>

#define VERBS_MAX 64 /* of one group */

/* Reports an unknown verb, with "fmove: nvme: " or "fmove: " before it. */
static int unknown_verb(const char *group, const char *word)
{
	const char *gap = *group ? " " : "", *colon = *group ? ": " : "";
	const char *names[VERBS_MAX + 1];
	const char *nearest, *other = *group ? NULL : fm_other_word(word);
	size_t n = 0;

	for (const struct fm_cmd *c = fm_cmds; c->name && n < VERBS_MAX; c++) {
		names[n] = fm_cmd_word(c, group);
		n += names[n] != NULL;
	}
	names[n] = NULL;
	nearest = fm_nearest(word, names);
	if (other)
		fm_say("unknown command \"%s\": %s (fmove --help)", word, other);
	else if (nearest)
		fm_say("%s%sunknown command \"%s\", did you mean \"%s\"? (fmove%s%s --help)", group,
		       colon, word, nearest, gap, group);
	else
		fm_say("%s%sunknown command \"%s\" (fmove%s%s --help)", group, colon, word, gap,
		       group);
	return FM_EXIT_USAGE;
}

/* Handles a group without a verb: --help, or a mistake. */
static int group_itself(const struct fm_cmd *cmd, int argc, char **argv)
{
	if (argc < 2) {
		fm_say("%s: a command is missing (fmove %s --help)", cmd->name, cmd->name);
		return FM_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0) {
		fm_say("%s: options come behind its command, not %s (fmove %s --help)", cmd->name,
		       argv[1], cmd->name);
		return FM_EXIT_USAGE;
	}
	fm_help_cmd(cmd);
	return fm_stdout_end(cmd->name, FM_EXIT_DONE);
}

int fm_dispatch(const char *group, int argc, char **argv)
{
	const struct fm_cmd *cmd = NULL;

	for (const struct fm_cmd *c = fm_cmds; c->name && !cmd; c++) {
		const char *word = fm_cmd_word(c, group);

		if (word && strcmp(word, argv[0]) == 0)
			cmd = c;
	}
	if (!cmd)
		return unknown_verb(group, argv[0]);
	if (cmd->run)
		return cmd->run(argc, argv);
	if (argc < 2 || argv[1][0] == '-')
		return group_itself(cmd, argc, argv);
	return fm_dispatch(cmd->name, argc - 1, argv + 1);
}
