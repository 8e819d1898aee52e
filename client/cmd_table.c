/* SPDX-License-Identifier: MIT */
/* cmd_table - every verb of fmove. Each one's options stand in its own file. See cmd.h. */
#include "client/cmd.h"

#include <string.h>

const struct fm_opt fm_opts_none[] = {
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_opt fm_opts_global[] = {
	{ "help", 'h', 1, NULL, "print this and end", NULL },
	{ "version", 0, 1, NULL, "print the version and end", NULL },
	{ "socket", 0, 1, "PATH", "fmoved's socket (FMOVE_SOCKET, else /run/fmove/fmoved.sock)",
	  "FILE" },
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_cmd fm_cmds[] = {
	{ "put", "SRC... NODE:STORE/PATH", "Send files to another node.",
	  "SRC is a file, or - for standard input. With several sources, or if PATH ends with / or "
	  "is a directory, the files go into it under their own names.\n"
	  "\n"
	  "A file appears under its name only when all of it has arrived and was checked; with "
	  "--durability disk, when it is on disk.",
	  fm_opts_put, true, fm_cmd_put },
	{ "get", "NODE:STORE/PATH DST", "Receive a file from another node.",
	  "DST is a file, a directory to put it into, or - for standard output. It appears under "
	  "its name only when all of it has arrived and was checked.",
	  fm_opts_get, true, fm_cmd_get },
	{ "ls", "NODE:STORE[/PATH]", "List a directory of a store.", NULL, fm_opts_ls, true,
	  fm_cmd_ls },
	{ "stat", "NODE:STORE/PATH", "Show size, mode and time of a file or directory.", NULL,
	  fm_opts_stat, true, fm_cmd_stat },
	{ "rm", "NODE:STORE/PATH...", "Remove files or directories.", NULL, fm_opts_rm, true,
	  fm_cmd_rm },
	{ "mkdir", "NODE:STORE/PATH...", "Make directories, with missing parents.", NULL,
	  fm_opts_mkdir, true, fm_cmd_mkdir },
	{ "status", "", "Show this node: peers, rails with state and rate, memory, transfers.",
	  NULL, fm_opts_status, true, fm_cmd_status },
	{ "init", "", "Write configuration and key of the first node, print the line for the next.",
	  NULL, fm_opts_init, false, fm_cmd_init },
	{ "invite", "", "Print the line with which one more node joins.", NULL, fm_opts_invite,
	  false, fm_cmd_invite },
	{ "join", "ADDRESS TOKEN", "Join the node that printed this line.", NULL, fm_opts_join,
	  false, fm_cmd_join },
	{ "keygen", "[FILE]", "Make a node's key pair, print the public key.", NULL, fm_opts_keygen,
	  false, fm_cmd_keygen },
	{ "config", "check [FILE] | options | example",
	  "Check a configuration, or show what can be configured.", NULL, fm_opts_config, false,
	  fm_cmd_config },
	{ "completion", "bash", "Print the completion of a shell, to be sourced by it.", NULL,
	  fm_opts_none, false, fm_cmd_completion },
	{ "help", "[COMMAND]", "Say what a command does.", NULL, fm_opts_none, false, fm_cmd_help },
	{ NULL, NULL, NULL, NULL, NULL, false, NULL },
};

const struct fm_cmd *fm_cmd_find(const char *name)
{
	for (const struct fm_cmd *c = fm_cmds; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}
