/* SPDX-License-Identifier: MIT */
/* cmd_init - fmove init: the first node's configuration and key, and the line for the next node. */
#include "client/cli/cmd.h"

#include <stdio.h>

#include "client/cli/cables.h"
#include "client/cli/invitation.h"
#include "client/cli/setup.h"
#include "config/config.h"
#include "mover/base/err.h"

const struct fm_opt fm_opts_init[] = {
	FM_SETUP_OPTS,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

int fm_cmd_init(int argc, char **argv)
{
	uint8_t key[FM_CONFIG_KEY_LEN];
	char start[PATH_MAX + 32];
	struct fm_setup setup = { 0 };
	struct fm_err err = { 0 };
	struct fm_networks cables;
	struct fm_config *cfg;
	struct fm_args args;
	int ret;

	fm_args_begin(&args, "init", argc, argv);
	if (fm_setup_parse(&setup, &args, 0, 0) < 0)
		return args.status;
	if (fm_setup_write(&setup, &cfg, key, &err) < 0)
		return fm_fail("init", &err);
	fm_say("Wrote %s and %s.", cfg->file, cfg->node.key_file);
	fm_cables_find(&cables);
	if (cables.count > 0)
		fm_say("It proposes private_networks: the cables of RDMA ports, where TCP need not "
		       "be encrypted if both nodes say so.");
	fm_setup_start_line(cfg, start, sizeof(start));
	fm_say("Start the daemon: %s", start);
	ret = fm_invitation_print(cfg->dir, &err);
	if (ret < 0)
		fm_err_wrap(&err, "the configuration is written, but no invitation (when this is "
				  "mended: fmove invite)");
	fm_config_free(cfg);
	return ret < 0 ? fm_fail("init", &err) : fm_stdout_end("init", FM_EXIT_DONE);
}
