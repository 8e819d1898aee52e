/* SPDX-License-Identifier: MIT */
/* invitation - see invitation.h. */
#include "client/cli/invitation.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/setup.h"
#include "config/config.h"
#include "config/files.h"
#include "config/keys.h"
#include "config/preflight.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

static bool lacks(const struct fm_config *cfg, const char *name)
{
	char path[PATH_MAX];

	return fm_path_join(cfg->dir, name, path, NULL) == 0 && access(path, F_OK) < 0 &&
	       errno == ENOENT;
}

/* What fmoved.service may write to below /etc is what was there when it started. */
static int make_dirs(const struct fm_config *cfg, struct fm_err *err)
{
	bool is_new = lacks(cfg, FM_CONFIG_INVITES_DIR) || lacks(cfg, FM_CONFIG_PEERS_DIR);
	int ret = fm_setup_daemons_dir(cfg, FM_CONFIG_INVITES_DIR, 0700, true, err);

	if (ret == 0)
		ret = fm_setup_daemons_dir(cfg, FM_CONFIG_PEERS_DIR, 0755, true, err);
	if (ret == 0 && is_new && strcmp(cfg->dir, FM_CONFIG_DIR) == 0 && fm_preflight_has_unit())
		fm_say("before the other node joins: systemctl restart fmoved (it may write to "
		       "%s/" FM_CONFIG_INVITES_DIR " and " FM_CONFIG_PEERS_DIR ", which were "
		       "just made, from then on)", cfg->dir);
	return ret;
}

static int make_for(const struct fm_config *cfg, const struct fm_addresses *said,
		    struct fm_invitation *out, struct fm_err *err)
{
	struct fm_invite invite;
	int ret = 0;

	out->addresses = *said;
	if (said->count == 0)
		ret = fm_address_of_node(&cfg->node, &out->addresses, err);
	if (ret == 0)
		ret = fm_key_read(cfg->node.key_file, invite.key, err);
	if (ret == 0)
		ret = make_dirs(cfg, err);
	if (ret == 0)
		ret = fm_invite_new(cfg->dir, &invite, err);
	if (ret < 0)
		return ret;
	fm_invite_print(&invite, out->token);
	return 0;
}

int fm_invitation_make(const char *dir, const struct fm_addresses *addresses,
		       struct fm_invitation *out, struct fm_err *err)
{
	char path[PATH_MAX];
	struct fm_config *cfg;
	int ret;

	ret = fm_path_join(dir, FM_CONFIG_FILE, path, err);
	if (ret == 0)
		ret = fm_config_load(path, &cfg, err);
	if (ret < 0)
		return ret;
	ret = make_for(cfg, addresses, out, err);
	fm_config_free(cfg);
	return ret;
}

void fm_invitation_print(const struct fm_invitation *invitation)
{
	const struct fm_addresses *addresses = &invitation->addresses;

	fm_say("On the next node, within %d minutes, while fmoved runs here (the token works "
	       "once):",
	       FM_INVITE_VALID_S / 60);
	(void)printf("fmove join ");
	for (unsigned i = 0; i < addresses->count; i++)
		(void)printf("%s%s", i ? "," : "", addresses->text[i]);
	(void)printf(" %s\n", invitation->token);
}

void fm_invitation_json(struct fm_json_writer *w, const struct fm_invitation *invitation)
{
	fm_jw_array(w, "addresses");
	for (unsigned i = 0; i < invitation->addresses.count; i++)
		fm_jw_text(w, NULL, invitation->addresses.text[i]);
	fm_jw_array_end(w);
	fm_jw_text(w, "token", invitation->token);
	fm_jw_u64(w, "valid_s", FM_INVITE_VALID_S);
}
