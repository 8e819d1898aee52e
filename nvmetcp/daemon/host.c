/* SPDX-License-Identifier: MIT */
/* host - see host.h. */
#include "nvmetcp/daemon/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/log.h"

#define UUID_LEN 36
#define NQN_UUID ":uuid:"

/* Its first line, without blanks at the end. -ENOENT, -EINVAL. */
static int read_line(const char *path, char *out, size_t size, struct fm_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t got;

	out[0] = '\0';
	if (fd < 0)
		return fm_err_sys(err, -errno, "%s", path);
	got = read(fd, out, size - 1);
	close(fd);
	if (got < 0)
		return fm_err_sys(err, -errno, "read %s", path);
	out[got] = '\0';
	if (!strpbrk(out, "\r\n") && (size_t)got == size - 1)
		return fm_err_set(err, -EINVAL, "%s: its first line is longer than %zu bytes", path,
				  size - 2);
	out[strcspn(out, " \t\r\n")] = '\0';
	return out[0] ? 0 : fm_err_set(err, -EINVAL, "%s: its first line is empty", path);
}

static bool is_uuid(const char *text)
{
	if (strlen(text) != UUID_LEN)
		return false;
	for (unsigned i = 0; i < UUID_LEN; i++)
		if ((i == 8 || i == 13 || i == 18 || i == 23)
			    ? text[i] != '-'
			    : !strchr("0123456789abcdefABCDEF", text[i]))
			return false;
	return true;
}

static int read_nqn(const struct fm_config_nvme *cfg, char nqn[static 224 + 2], struct fm_err *err)
{
	int ret;

	if (cfg->host_nqn[0]) {
		(void)snprintf(nqn, 224 + 2, "%s", cfg->host_nqn);
		return 0;
	}
	ret = read_line(cfg->host_nqn_file, nqn, 224 + 2, err);
	if (ret == -ENOENT)
		return fm_err_set(
			err, ret,
			"this node has no name for targets in %s: say nvme.host_nqn, or have one "
			"made: fmove nvme discover --system ADDRESS",
			cfg->host_nqn_file);
	if (ret == 0 && strlen(nqn) > 223)
		return fm_err_set(err, -EINVAL, "%s: a name has at most 223 bytes",
				  cfg->host_nqn_file);
	return ret;
}

/*
 * Warns if the host id file has another UUID than this host's NQN. Other tools would then connect
 * with the same NQN and another UUID, and newer kernels refuse the second of two such connects.
 */
static void warn_of_file(const struct fm_config_nvme *cfg, const char *id)
{
	char line[64];

	if (read_line(cfg->host_id_file, line, sizeof(line), NULL) == 0 &&
	    strcasecmp(line, id) != 0)
		fm_log_warn("%s says %s, and the name of this host %s: other NVMe tools may fail "
			    "to connect; make them the same",
			    cfg->host_id_file, line, id);
}

static int read_id(const struct fm_config_nvme *cfg, const char *nqn, char id[static 64],
		   struct fm_err *err)
{
	const char *in_name = strstr(nqn, NQN_UUID);
	int ret;

	in_name =
		in_name && is_uuid(in_name + strlen(NQN_UUID)) ? in_name + strlen(NQN_UUID) : NULL;
	if (cfg->host_id[0] && in_name && strcasecmp(cfg->host_id, in_name) != 0)
		return fm_err_set(err, -EINVAL,
				  "nvme.host_id is %s, and the name of this host ends in %s: they "
				  "must be the same",
				  cfg->host_id, in_name);
	if (cfg->host_id[0] || in_name) {
		(void)snprintf(id, 64, "%s", cfg->host_id[0] ? cfg->host_id : in_name);
		if (!cfg->host_id[0])
			warn_of_file(cfg, id);
		return 0;
	}
	ret = read_line(cfg->host_id_file, id, 64, err);
	if (ret < 0)
		return fm_err_set(err, ret,
				  "the name of this host has no UUID in it, and %s has none: say "
				  "nvme.host_id, or make one: "
				  "uuidgen > %s",
				  cfg->host_id_file, cfg->host_id_file);
	return is_uuid(id) ? 0
			   : fm_err_set(err, -EINVAL, "%s: its first line is no UUID",
					cfg->host_id_file);
}

int fm_host_read(const struct fm_config_nvme *cfg, struct fm_host *out, struct fm_err *err)
{
	char nqn[224 + 2], id[64];
	int ret = read_nqn(cfg, nqn, err);

	if (ret == 0)
		ret = read_id(cfg, nqn, id, err);
	if (ret < 0)
		return ret;
	(void)snprintf(out->nqn, sizeof(out->nqn), "%.223s", nqn);
	(void)snprintf(out->id, sizeof(out->id), "%.36s", id);
	return 0;
}
