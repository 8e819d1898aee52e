/* SPDX-License-Identifier: MIT */
/* units - see units.h. */
#include "client/units.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "mover/api_json.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

/* ---- names ---- */

/* At most cap bytes with the terminator; len may have passed it already. */
static void put(char *out, size_t cap, size_t *len, const char *bytes, size_t count)
{
	if (*len + count < cap)
		memcpy(out + *len, bytes, count);
	*len += count;
}

/* One part of a path: what a unit's name cannot hold, and the '-' that stands for '/', as \xNN; so a leading dot. */
static void put_part(char *out, size_t cap, size_t *len, const char *part, size_t count)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.";

	if (*len > 0)
		put(out, cap, len, "-", 1);
	for (size_t i = 0; i < count; i++) {
		char hex[5];

		if (strchr(plain, part[i]) && !(part[i] == '.' && *len == 0)) {
			put(out, cap, len, &part[i], 1);
			continue;
		}
		(void)snprintf(hex, sizeof(hex), "\\x%02x", (unsigned)(unsigned char)part[i]);	/* fits */
		put(out, cap, len, hex, 4);
	}
}

int fm_unit_escape_path(const char *path, char *out, size_t cap)
{
	size_t len = 0;

	for (const char *at = path; *at;) {
		size_t count = strcspn(at, "/");

		if (count == 2 && memcmp(at, "..", 2) == 0)
			return -EINVAL;
		if (count > 0 && !(count == 1 && at[0] == '.'))
			put_part(out, cap, &len, at, count);
		at += count + (at[count] == '/');
	}
	if (len == 0)
		put(out, cap, &len, "-", 1);
	if (len >= cap)
		return -ENAMETOOLONG;
	out[len] = '\0';
	return (int)len;
}

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

/* What a unit needs beyond what a volume needs. */
static int check(const struct fm_config *cfg, const struct fm_config_volume *v, struct fm_err *err)
{
	size_t len = strlen(v->mount_point);

	if (!v->uuid[0] && !v->nguid[0])
		return refuse(v, err, "uuid: missing; a unit needs it, or nguid, to name the device (fmove nvme status shows both)");
	if (!v->fs_type[0] && !is_writer(cfg, v))
		return refuse(v, err, "type: missing; how a unit mounts without a replay of the journal depends on it");
	/* systemd would ignore the line, cut the blank off or read the next line with it. */
	if (!fm_is_utf8(v->mount_point, len) || strchr(" \\", v->mount_point[len - 1]))
		return refuse(v, err, "mount: a unit's mount point must be UTF-8 and not end with a blank or a backslash");
	return 0;
}

/* '%' begins a specifier in a unit. */
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
		      FM_UNIT_MARK " for volume %s; what is changed here is lost when it runs again.\n"
		      "[Unit]\n"
		      "Description=Volume %s (NVMe-TCP)\n"
		      "Documentation=man:fmove-nvme(1)\n"
		      "Requires=fmove-nvme@%s.service\n"
		      "After=fmove-nvme@%s.service\n"
		      "\n[Mount]\n"
		      "What=/dev/disk/by-id/nvme-%s%s\n"
		      "Where=",
		      v->name, v->name, v->name, v->name, v->uuid[0] ? "uuid." : "eui.", v->uuid[0] ? v->uuid : v->nguid);
	print_value(to, v->mount_point);
	if (v->fs_type[0])
		(void)fprintf(to, "\nType=%s", v->fs_type);
	(void)fprintf(to, "\nOptions=_netdev,nofail,%s%s", is_writer(cfg, v) ? "rw" : options_of_reader(v->fs_type),
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

int fm_unit_make(const struct fm_config *cfg, const struct fm_config_volume *volume, struct fm_unit *out, struct fm_err *err)
{
	int ret, len;

	assert(!fm_unit_why_none(cfg, volume));
	*out = (struct fm_unit){ .text = NULL };
	ret = check(cfg, volume, err);
	if (ret < 0)
		return ret;
	len = fm_unit_escape_path(volume->mount_point, out->name, sizeof(out->name) - strlen(".mount"));
	if (len < 0)
		return fm_err_set(err, len, "%.200s:%u: volumes.mount: a unit's name would be longer than systemd allows; choose a "
				  "shorter one", volume->file, volume->line);
	memcpy(out->name + len, ".mount", sizeof(".mount"));
	ret = make_text(cfg, volume, &out->text);
	return ret < 0 ? fm_err_set(err, ret, "no memory for the unit of %s", volume->name) : 0;
}

void fm_unit_clear(struct fm_unit *unit)
{
	free(unit->text);
	*unit = (struct fm_unit){ .text = NULL };
}
