/* SPDX-License-Identifier: MIT */
/* cmd_invite - fmove invite: the line that lets one more node join this one. */
#include "client/cli/cmd.h"

#include <stdio.h>

#include "client/cli/invitation.h"
#include "client/cli/setup.h"
#include "config/config.h"
#include "mover/base/err.h"

enum { OPT_DIR = 1, OPT_ADDRESS };

const struct fm_opt fm_opts_invite[] = {
	{"dir", 0, OPT_DIR, "DIR", "where this node's configuration is (" FM_CONFIG_DIR ")",
	 "FILE"},
	{"address", 0, OPT_ADDRESS, "HOST[:PORT]",
	 "where that node reaches this one, may be said again (node.address, or found by itself)",
	 NULL},
	{NULL, 0, 0, NULL, NULL, NULL},
};

int fm_cmd_invite(int argc, char **argv)
{
	const char *dir = FM_CONFIG_DIR;
	struct fm_addresses addresses = { 0 };
	struct fm_err err = { 0 };
	struct fm_args args;
	int key;

	fm_args_begin(&args, "invite", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		if (key == OPT_DIR) {
			dir = args.value;
			continue;
		}
		args.status = fm_setup_add_address(&addresses, &args);
		if (args.status != 0)
			return args.status;
	}
	if (fm_args_end(&args, 0, 0) < 0)
		return args.status;
	if (fm_invitation_print(dir, &addresses, &err) < 0)
		return fm_fail("invite", &err);
	return fm_stdout_end("invite", FM_EXIT_DONE);
}
