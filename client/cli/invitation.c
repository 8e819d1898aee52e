/* SPDX-License-Identifier: MIT */
/* invitation - see invitation.h. */
#include "client/cli/invitation.h"

#include <limits.h>
#include <stdio.h>

#include "client/cli/cmd.h"
#include "config/address.h"
#include "config/config.h"
#include "config/files.h"
#include "config/invite.h"
#include "config/keys.h"
#include "mover/base/err.h"

static int print_for(const struct fm_config *cfg, struct fm_err *err)
{
	char address[FM_ADDRESS_TEXT_MAX], others[1024], token[FM_INVITE_TEXT_MAX];
	struct fm_invite invite;
	int ret = fm_address_of_node(&cfg->node, address, sizeof(address), err);

	if (ret == 0)
		ret = fm_key_read(cfg->node.key_file, invite.key, err);
	if (ret == 0)
		ret = fm_invite_new(cfg->dir, &invite, err);
	if (ret < 0)
		return ret;
	fm_invite_print(&invite, token);
	fm_address_others(&cfg->node, others, sizeof(others));
	if (others[0])
		fm_say("A node that does not reach %s takes another address of this one: %s",
		       address, others);
	fm_say("On the next node, within %d minutes, while fmoved runs here (the token works "
	       "once):",
	       FM_INVITE_VALID_S / 60);
	printf("fmove join %s %s\n", address, token);
	return 0;
}

int fm_invitation_print(const char *dir, struct fm_err *err)
{
	char path[PATH_MAX];
	struct fm_config *cfg;
	int ret;

	ret = fm_path_join(dir, FM_CONFIG_FILE, path, err);
	if (ret == 0)
		ret = fm_config_load(path, &cfg, err);
	if (ret < 0)
		return ret;
	ret = print_for(cfg, err);
	fm_config_free(cfg);
	return ret;
}
