/* SPDX-License-Identifier: MIT */
/*
 * cmd_nvme_units - fmove nvme units: systemd mount units of the configuration's volumes.
 *
 * All are made and all that is in the way is looked at before the first is written: a mistake
 * changes nothing.
 */
#include "client/cli/nvme.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/rows.h"
#include "client/cli/unit_files.h"
#include "client/cli/units.h"
#include "config/config.h"
#include "config/files.h"
#include "mover/base/err.h"

#define VERB "nvme units"
#define DIRECTORY "/etc/systemd/system"

enum { OPT_CONFIG = 1, OPT_DIRECTORY, OPT_REMOVE, OPT_STDOUT, OPT_JSON };

const struct fm_opt fm_opts_nvme_units[] = {
	{"config", 0, OPT_CONFIG, "FILE", "the configuration (/etc/fmove/fmove.conf)", "FILE"},
	{"directory", 0, OPT_DIRECTORY, "DIR", "where the units go (/etc/systemd/system)", "FILE"},
	{"remove", 0, OPT_REMOVE, NULL, "remove those that were written there", NULL},
	{"stdout", 0, OPT_STDOUT, NULL, "print them and write nothing", NULL},
	{"json", 0, OPT_JSON, NULL, "the answer as one JSON object on standard output", NULL},
	{NULL, 0, 0, NULL, NULL, NULL},
};

struct units {
	const char *directory;
	int dir;
	struct fm_unit *unit;
	unsigned count;
	unsigned changed;
	bool is_json;
	struct fm_rows rows;
	struct fm_err err;
};

/* ---- from the configuration ---- */

/* fm_stdout_end() looks for errors, as of all that is printed. */
static void say_none(struct units *u, const char *volume, const char *note, const char *why)
{
	struct fm_json_writer *w;

	if (!u->is_json) {
		(void)printf("%s%s: no unit here: %s\n", note, volume, why);
		return;
	}
	w = fm_rows_next(&u->rows);
	fm_jw_text(w, "volume", volume);
	fm_jw_text(w, "did", "none");
	fm_jw_text(w, "why", why);
	fm_jw_object_end(w);
}

/* Makes the text of all units. note: "# " before a remark where a program reads the output. */
static int make_all(struct units *u, const struct fm_config *cfg, const char *note)
{
	u->unit = calloc(cfg->volume_count ? cfg->volume_count : 1, sizeof(*u->unit));
	if (!u->unit)
		return fm_err_set(&u->err, -ENOMEM, "no memory for the units");
	if (cfg->volume_count == 0 && !u->is_json)
		(void)printf("%sno volumes are configured\n", note);
	for (unsigned i = 0; i < cfg->volume_count; i++) {
		const char *why = fm_unit_why_none(cfg, &cfg->volumes[i]);
		int ret;

		if (why) {
			say_none(u, cfg->volumes[i].name, note, why);
			continue;
		}
		ret = fm_unit_make(cfg, &cfg->volumes[i], &u->unit[u->count], &u->err);
		if (ret < 0)
			return ret;
		u->count++;
	}
	return 0;
}

static void print_all(const struct units *u)
{
	for (unsigned i = 0; i < u->count; i++) {
		(void)printf("%s# %s/", i > 0 ? "\n" : "", u->directory);
		fm_nvme_put(u->unit[i].name);
		(void)printf("\n%s", u->unit[i].text);
	}
}

/* ---- files ---- */

static int open_directory(struct units *u)
{
	u->dir = open(u->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return u->dir < 0 ? fm_err_sys(&u->err, -errno, "%s", u->directory) : 0;
}

static void say_did(struct units *u, const char *did, const char *name)
{
	struct fm_json_writer *w;

	if (!u->is_json) {
		/* a unit's name is plain text */
		(void)printf("%s %s/%s\n", did, u->directory, name);
		return;
	}
	w = fm_rows_next(&u->rows);
	fm_jw_text(w, "unit", name);
	fm_jw_text(w, "did", did);
	fm_jw_object_end(w);
}

/*
 * Names a unit file that was written earlier and that no volume has any more. It would go on
 * mounting.
 */
static int say_left_over(void *ctx, const char *name)
{
	struct units *u = ctx;
	bool is_known = false;

	for (unsigned i = 0; i < u->count; i++)
		is_known |= strcmp(u->unit[i].name, name) == 0;
	if (!is_known)
		fm_say(VERB ": %s/%s was written earlier, and no volume of this configuration has "
			    "it: remove it if none needs it",
		       u->directory, name);
	return 0;
}

static int write_one(struct units *u, const struct fm_unit *unit)
{
	int there = fm_unit_file_look(u->dir, unit->name, unit->text, &u->err), ret;
	char path[PATH_MAX];

	if (there < 0)
		return there;
	if (there == 2) {
		say_did(u, "unchanged", unit->name);
		return 0;
	}
	ret = fm_path_join(u->directory, unit->name, path, &u->err);
	if (ret == 0)
		ret = fm_file_write(&(struct fm_file_write){.path = path,
							    .mode = 0644,
							    .may_replace = there == 1},
				    unit->text, &u->err);
	if (ret < 0)
		return ret;
	say_did(u, "wrote", unit->name);
	u->changed++;
	return 0;
}

static int write_all(struct units *u)
{
	int ret = 0;

	for (unsigned i = 0; i < u->count; i++) {
		ret = fm_unit_file_look(u->dir, u->unit[i].name, NULL, &u->err);
		if (ret < 0)
			return ret;
	}
	for (unsigned i = 0; ret >= 0 && i < u->count; i++)
		ret = write_one(u, &u->unit[i]);
	return ret < 0 ? ret : fm_unit_files_each(u->dir, say_left_over, u, &u->err);
}

static int remove_one(void *ctx, const char *name)
{
	struct units *u = ctx;

	if (unlinkat(u->dir, name, 0) < 0)
		return fm_err_sys(&u->err, -errno, "remove %s", name);
	say_did(u, "removed", name);
	u->changed++;
	return 0;
}

/* Says what a person has to do with the files. */
static void say_next(const struct units *u, bool was_removed)
{
	if (u->changed > 0)
		(void)printf("next: systemctl daemon-reload\n");
	if (was_removed || u->count == 0)
		return;
	(void)printf("at every boot: systemctl enable");
	for (unsigned i = 0; i < u->count; i++)
		(void)printf(" '%s'", u->unit[i].name);	/* a backslash is for the shell else */
	(void)putchar('\n');
}

static int do_remove(struct units *u)
{
	int ret = open_directory(u);

	if (ret == 0)
		ret = fm_unit_files_each(u->dir, remove_one, u, &u->err);
	return ret;
}

static int do_write(struct units *u, const char *config, bool is_stdout)
{
	struct fm_config *cfg;
	int ret = fm_config_load_alone(config, &cfg, &u->err);

	if (ret < 0)
		return ret;
	ret = make_all(u, cfg, is_stdout ? "# " : "");
	fm_config_free(cfg);
	if (ret < 0)
		return ret;
	if (is_stdout) {
		print_all(u);
		return 0;
	}
	ret = open_directory(u);
	return ret < 0 ? ret : write_all(u);
}

int fm_cmd_nvme_units(int argc, char **argv)
{
	struct units u = { .directory = DIRECTORY, .dir = -1 };
	const char *config = FM_CONFIG_DIR "/" FM_CONFIG_FILE;
	bool is_remove = false, is_stdout = false;
	struct fm_args args;
	int key, ret, status;

	fm_args_begin(&args, VERB, argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		if (key == OPT_CONFIG)
			config = args.value;
		else if (key == OPT_DIRECTORY)
			u.directory = args.value;
		is_remove |= key == OPT_REMOVE;
		is_stdout |= key == OPT_STDOUT;
		u.is_json |= key == OPT_JSON;
	}
	if (fm_args_end(&args, 0, 0) < 0)
		return args.status;
	if (is_remove && is_stdout)
		return fm_usage(&args, "--remove and --stdout do not go together");
	if (u.is_json && is_stdout)
		return fm_usage(&args, "--json and --stdout both want standard output");
	if (u.is_json)
		fm_rows_begin(&u.rows, "units");
	ret = is_remove ? do_remove(&u) : do_write(&u, config, is_stdout);
	status = ret < 0 ? fm_fail(VERB, &u.err) : FM_EXIT_DONE;
	if (u.is_json)
		fm_rows_end(&u.rows, status);
	else if (ret == 0 && !is_stdout)
		say_next(&u, is_remove);
	for (unsigned i = 0; i < u.count; i++)
		fm_unit_clear(&u.unit[i]);
	free(u.unit);
	if (u.dir >= 0)
		(void)close(u.dir);	/* only looked through */
	return fm_stdout_end(VERB, status);
}
