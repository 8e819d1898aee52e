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

static void print_line(const struct fm_addresses *addresses, const char *token)
{
	fm_say("On the next node, within %d minutes, while fmoved runs here (the token works "
	       "once):",
	       FM_INVITE_VALID_S / 60);
	printf("fmove join ");
	for (unsigned i = 0; i < addresses->count; i++)
		printf("%s%s", i ? "," : "", addresses->text[i]);
	printf(" %s\n", token);
}

static int print_for(const struct fm_config *cfg, const struct fm_addresses *said,
		     struct fm_err *err)
{
	struct fm_addresses found;
	char token[FM_INVITE_TEXT_MAX];
	struct fm_invite invite;
	int ret = 0;

	if (said->count == 0)
		ret = fm_address_of_node(&cfg->node, &found, err);
	if (ret == 0)
		ret = fm_key_read(cfg->node.key_file, invite.key, err);
	if (ret == 0)
		ret = fm_invite_new(cfg->dir, &invite, err);
	if (ret < 0)
		return ret;
	fm_invite_print(&invite, token);
	print_line(said->count ? said : &found, token);
	return 0;
}

int fm_invitation_print(const char *dir, const struct fm_addresses *addresses, struct fm_err *err)
{
	char path[PATH_MAX];
	struct fm_config *cfg;
	int ret;

	ret = fm_path_join(dir, FM_CONFIG_FILE, path, err);
	if (ret == 0)
		ret = fm_config_load(path, &cfg, err);
	if (ret < 0)
		return ret;
	ret = print_for(cfg, addresses, err);
	fm_config_free(cfg);
	return ret;
}
