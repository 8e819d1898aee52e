/* SPDX-License-Identifier: MIT */
/* units - see units.h. */
#include "client/cli/units.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/unit_name.h"

/* ---- the mode, as nvmetcp/guard.c decides it: a test holds the two together ---- */

static bool is_writer(const struct fm_config *cfg, const struct fm_config_volume *v)
{
	return v->mode != FM_CONFIG_VOLUME_READ_ONLY && strcmp(v->writer, cfg->node.name) == 0;
}

static const char *options_of_reader(const char *type)
{
	if (strcmp(type, "ext4") == 0 || strcmp(type, "ext3") == 0)
		return "ro,noload";
	if (strcmp(type, "xfs") == 0)
		return "ro,norecovery";
	return "ro";
}

/* ---- the text ---- */

static int refuse(const struct fm_config_volume *v, struct fm_err *err, const char *what)
{
	return fm_err_set(err, -EINVAL, "%.200s:%u: volumes.%s", v->file, v->line, what);
}

/* Checks what a unit needs beyond what a volume needs. */
static int check(const struct fm_config *cfg, const struct fm_config_volume *v, struct fm_err *err)
{
	if (!v->uuid[0] && !v->nguid[0])
		return refuse(v, err,
			      "uuid: missing; a unit needs it, or nguid, to name the device (fmove "
			      "nvme status shows both)");
	if (!v->fs_type[0] && !is_writer(cfg, v))
		return refuse(v, err,
			      "type: missing; how a unit mounts without a replay of the journal "
			      "depends on it");
	/* systemd would cut the blank off, or read the next line with it. */
	if (strchr(" \\", v->mount_point[strlen(v->mount_point) - 1]))
		return refuse(
			v, err,
			"mount: a unit's mount point must not end with a blank or a backslash");
	return 0;
}

/* Prints a value of a unit, where '%' would begin a specifier. */
static void print_value(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '%')
			(void)fputc('%', to);
		(void)fputc(*text, to);
	}
}

static void print_unit(FILE *to, const struct fm_config *cfg, const struct fm_config_volume *v)
{
	(void)fprintf(to,
		      FM_UNIT_MARK
		      " for volume %s; what is changed here is lost when it runs again.\n"
		      "[Unit]\n"
		      "Description=Volume %s (NVMe-TCP)\n"
		      "Documentation=man:fmove-nvme(1)\n"
		      "Requires=fmove-nvme@%s.service fmove-nvme-ask@%s.service\n"
		      "After=fmove-nvme@%s.service fmove-nvme-ask@%s.service\n"
		      "\n[Mount]\n"
		      "What=/dev/disk/by-id/nvme-%s%s\n"
		      "Where=",
		      v->name, v->name, v->name, v->name, v->name, v->name,
		      v->uuid[0] ? "uuid." : "eui.", v->uuid[0] ? v->uuid : v->nguid);
	print_value(to, v->mount_point);
	if (v->fs_type[0])
		(void)fprintf(to, "\nType=%s", v->fs_type);
	(void)fprintf(to, "\nOptions=_netdev,nofail,%s%s",
		      is_writer(cfg, v) ? "rw" : options_of_reader(v->fs_type),
		      v->mount_options[0] ? "," : "");
	print_value(to, v->mount_options);
	(void)fprintf(to, "\n\n[Install]\nWantedBy=remote-fs.target\n");
}

static int make_text(const struct fm_config *cfg, const struct fm_config_volume *v, char **out)
{
	size_t len = 0;
	FILE *to = FM_FAULT("units.alloc") ? NULL : open_memstream(out, &len);
	bool failed;

	if (!to)
		return -ENOMEM;
	print_unit(to, cfg, v);
	failed = ferror(to) != 0;
	if (fclose(to) == 0 && !failed)
		return 0;
	free(*out);
	*out = NULL;
	return -ENOMEM;
}

const char *fm_unit_why_none(const struct fm_config *cfg, const struct fm_config_volume *volume)
{
	if (!volume->mount_point[0])
		return "it has no mount point";
	if (volume->mode == FM_CONFIG_VOLUME_EXCLUSIVE && !is_writer(cfg, volume))
		return "it is exclusive to another node";
	return NULL;
}

int fm_unit_make(const struct fm_config *cfg, const struct fm_config_volume *volume,
		 struct fm_unit *out, struct fm_err *err)
{
	int ret, len;

	assert(!fm_unit_why_none(cfg, volume));
	*out = (struct fm_unit){ .text = NULL };
	ret = check(cfg, volume, err);
	if (ret < 0)
		return ret;
	len = fm_unit_escape_path(volume->mount_point, out->name,
				  sizeof(out->name) - strlen(".mount"));
	if (len < 0)
		return fm_err_set(err, len,
				  "%.200s:%u: volumes.mount: a unit's name would be longer than "
				  "systemd allows; choose a "
				  "shorter one",
				  volume->file, volume->line);
	memcpy(out->name + len, ".mount", sizeof(".mount"));
	ret = make_text(cfg, volume, &out->text);
	return ret < 0 ? fm_err_set(err, ret, "no memory for the unit of %s", volume->name) : 0;
}

void fm_unit_clear(struct fm_unit *unit)
{
	free(unit->text);
	*unit = (struct fm_unit){ .text = NULL };
}
