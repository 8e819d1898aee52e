/* SPDX-License-Identifier: MIT */
/* nvme_ready - see nvme_ready.h. */
#include "client/cli/nvme_ready.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/nvmed.h"
#include "client/cli/system.h"
#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/shell.h"

#define CONFIG FM_CONFIG_DIR "/" FM_CONFIG_FILE
#define FABRICS "/dev/nvme-fabrics"
#define COMMAND_MAX (6 * PATH_MAX)

struct missing {
	const char *what;
	char command[COMMAND_MAX];
};

static bool is_empty(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 || st.st_size == 0;
}

/*
 * Makes the command that writes a host NQN: with the host id that exists, as other NVMe tools
 * expect, or with a new UUID.
 */
static void make_nqn(const struct fm_config_nvme *nvme, struct missing *out)
{
	char nqn[PATH_MAX], id[PATH_MAX];

	fm_shell_quote(nvme->host_nqn_file, nqn, sizeof(nqn));
	fm_shell_quote(nvme->host_id_file, id, sizeof(id));
	(void)snprintf(out->command, sizeof(out->command),
		       "mkdir -p \"$(dirname %s)\" && { [ -s %s ] || cat "
		       "/proc/sys/kernel/random/uuid > %s; } && echo "
		       "\"nqn.2014-08.org.nvmexpress:uuid:$(cat %s)\" > %s",
		       nqn, id, id, id, nqn);	/* fits */
}

static bool has_no_nqn(const struct fm_config *cfg, struct missing *out)
{
	if (cfg->nvme.host_nqn[0] || !is_empty(cfg->nvme.host_nqn_file))
		return false;
	out->what = "this node has no host NQN, the name that targets know it by";
	make_nqn(&cfg->nvme, out);
	return true;
}

static bool does_not_listen(struct missing *out)
{
	struct fm_nvmed *nvmed;
	struct fm_err err = { 0 };
	int ret = fm_nvmed_connect(NULL, &nvmed, &err);

	if (ret == 0)
		fm_nvmed_close(nvmed);
	if (ret != -ECONNREFUSED)
		return false;	/* what else is wrong, the request says */
	out->what = "fmove-nvmed does not run";
	(void)snprintf(out->command, sizeof(out->command), "systemctl enable --now fmove-nvmed");
	return true;
}

/*
 * Finds the first step that is still to be done; each needs those before it. out->what is NULL if
 * the supervisor listens: then nothing is missing.
 */
static int find_missing(struct missing *out, struct fm_err *err)
{
	struct fm_config *cfg;
	bool is_found;
	int ret;

	out->what = NULL;
	if (!does_not_listen(out))
		return 0;
	if (access(CONFIG, F_OK) < 0 && errno == ENOENT) {
		out->what = "this node has no configuration (" CONFIG ")";
		(void)snprintf(out->command, sizeof(out->command), "fmove init --system");
		return 0;
	}
	ret = fm_config_load_alone(CONFIG, &cfg, err);
	if (ret < 0)
		return ret;
	is_found = has_no_nqn(cfg, out);
	fm_config_free(cfg);
	if (is_found)
		return 0;
	if (access(FABRICS, F_OK) < 0) {
		out->what = "the kernel has no NVMe-TCP loaded (" FABRICS ")";
		(void)snprintf(out->command, sizeof(out->command), "modprobe nvme_tcp");
	}
	return 0;
}

int fm_nvme_ready(bool is_system, struct fm_err *err)
{
	const char *before = NULL;
	struct missing missing;
	int ret;

	for (;;) {
		ret = find_missing(&missing, err);
		if (ret < 0 || !missing.what)
			return ret;
		if (!is_system)
			return fm_err_set(err, -ECONNREFUSED,
					  "%s. To mend it, as root: %s; or say --system here, "
					  "which makes all that is missing",
					  missing.what, missing.command);
		if (geteuid() != 0)
			return fm_err_set(err, -EPERM, "--system takes root: sudo fmove ...");
		if (missing.what == before)
			return fm_err_set(err, -EIO, "%s, after %s", missing.what,
					  missing.command);
		fm_say("%s: %s", missing.what, missing.command);
		ret = fm_system_run(missing.command, err);
		if (ret < 0)
			return ret;
		before = missing.what;
	}
}
