/* SPDX-License-Identifier: MIT */
/* cmd_invite - fmove invite: the line that lets one more node join this one. */
#include "client/cli/cmd.h"

#include <stdio.h>

#include "client/cli/invitation.h"
#include "client/cli/setup.h"
#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

enum { OPT_DIR = 1, OPT_ADDRESS, OPT_JSON };

const struct fm_opt fm_opts_invite[] = {
	{"dir", 0, OPT_DIR, "DIR", "where this node's configuration is (" FM_CONFIG_DIR ")",
	 "FILE"},
	{"address", 0, OPT_ADDRESS, "HOST[:PORT]",
	 "where that node reaches this one, may be said again (node.address, or found by itself)",
	 NULL},
	{"json", 0, OPT_JSON, NULL, "the answer as one JSON object on standard output", NULL},
	{NULL, 0, 0, NULL, NULL, NULL},
};

static void print_json(const struct fm_invitation *invitation)
{
	struct fm_json_writer w;

	fm_jw_stream(&w, stdout);	/* fm_stdout_end() looks for errors */
	fm_jw_object(&w, NULL);
	fm_invitation_json(&w, invitation);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

int fm_cmd_invite(int argc, char **argv)
{
	const char *dir = FM_CONFIG_DIR;
	struct fm_addresses addresses = { 0 };
	struct fm_invitation invitation;
	struct fm_err err = { 0 };
	bool is_json = false;
	struct fm_args args;
	int key;

	fm_args_begin(&args, "invite", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		is_json |= key == OPT_JSON;
		if (key == OPT_DIR)
			dir = args.value;
		if (key != OPT_ADDRESS)
			continue;
		args.status = fm_setup_add_address(&addresses, &args);
		if (args.status != 0)
			return args.status;
	}
	if (fm_args_end(&args, 0, 0) < 0)
		return args.status;
	if (fm_invitation_make(dir, &addresses, &invitation, &err) < 0)
		return fm_fail("invite", &err);
	(is_json ? print_json : fm_invitation_print)(&invitation);
	return fm_stdout_end("invite", FM_EXIT_DONE);
}
