/* SPDX-License-Identifier: MIT */
/* targets - see targets.h. */
#include "client/bench/targets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/facts/collect.h"
#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/mountinfo.h"

#define DEVICE_MAX 4096u

static int add_dir(struct fm_run *run, const char *dir, struct fm_err *err)
{
	for (size_t i = 0; i < run->dir_count; i++)
		if (strcmp(run->dirs[i], dir) == 0)
			return 0;
	if (run->dir_count == FM_RUN_DIRS_MAX)
		return fm_err_set(err, -E2BIG, "more than %u directories", FM_RUN_DIRS_MAX);
	run->dirs[run->dir_count] = strdup(dir);
	if (!run->dirs[run->dir_count])
		return fm_err_set(err, -ENOMEM, "no memory");
	run->dir_count++;
	return 0;
}

/* ---- stores ---- */

static int add_store(struct fm_run *run, const struct fm_config *cfg, const char *name,
		     struct fm_err *err)
{
	for (unsigned i = 0; i < cfg->store_count; i++) {
		if (strcmp(cfg->stores[i].name, name) != 0)
			continue;
		if (cfg->stores[i].directory[0] != '/')
			return fm_err_set(err, -EINVAL, "store %s: it has no directory", name);
		return add_dir(run, cfg->stores[i].directory, err);
	}
	return fm_err_set(err, -ENOENT,
			  "store %s: this node has none of that name; fmove df lists those it has",
			  name);
}

static int add_stores(struct fm_run *run, const struct fm_config *cfg, struct fm_err *err)
{
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < cfg->store_count; i++)
		if (cfg->stores[i].directory[0] == '/')
			ret = add_dir(run, cfg->stores[i].directory, err);
	return ret;
}

/* ---- volumes ---- */

int fm_targets_device(const char *text, size_t len, const char *point, char *out, size_t cap)
{
	const char *at = text, *end = text + len;
	struct fm_mountinfo_more more;
	struct fm_mountinfo mount;
	char is[DEVICE_MAX];
	int ret = -ENOTCONN;

	while (fm_mountinfo_next(&at, end, &mount)) {
		if (!fm_mountinfo_string(mount.point, is, sizeof(is)) || strcmp(is, point) != 0 ||
		    !fm_mountinfo_more(&mount, &more) || more.source.len == 0)
			continue;
		ret = fm_mountinfo_string(more.source, out, cap) ? 0 : -ENAMETOOLONG;
	}
	return ret;
}

static int find_device(struct fm_run *run, const struct fm_config_volume *v, struct fm_err *err)
{
	char device[DEVICE_MAX], *mounts;
	size_t len;
	int ret;

	if (!v->mount_point[0])
		return fm_err_set(err, -EINVAL, "volume %s: it has no mount point; give --path DIR",
				  v->name);
	ret = fm_mountinfo_read(FM_MOUNTINFO, &mounts, &len);
	if (ret < 0) {
		free(mounts);
		return fm_err_sys(err, ret, "read " FM_MOUNTINFO);
	}
	ret = fm_targets_device(mounts, len, v->mount_point, device, sizeof(device));
	free(mounts);
	if (ret == -ENOTCONN)
		return fm_err_set(err, ret,
				  "volume %s: not mounted at %s; \"fmove nvme up %s\" does that",
				  v->name, v->mount_point, v->name);
	if (ret == 0 && device[0] != '/')
		return fm_err_set(err, -EINVAL, "volume %s: %s is no device", v->name, device);
	run->device = ret == 0 ? strdup(device) : NULL;
	return run->device ? 0 : fm_err_sys(err, ret ? ret : -ENOMEM, "volume %s", v->name);
}

static int find_volume(struct fm_run *run, const struct fm_config *cfg, const char *name,
		       struct fm_err *err)
{
	for (unsigned i = 0; i < cfg->volume_count; i++)
		if (strcmp(cfg->volumes[i].name, name) == 0)
			return find_device(run, &cfg->volumes[i], err);
	return fm_err_set(err, -ENOENT,
			  "volume %s: the configuration has none of that name; fmove nvme status "
			  "lists those it has",
			  name);
}

/* ---- all of it ---- */

static int find_in(const struct fm_targets *t, const struct fm_config *cfg, struct fm_run *run,
		   struct fm_err *err)
{
	int ret = 0;

	if (t->store)
		ret = add_store(run, cfg, t->store, err);
	else if (t->wants_dirs && t->path_count == 0)
		ret = add_stores(run, cfg, err);
	/* a directory on it was given: that is measured, and nothing is read that is not ours */
	if (ret == 0 && t->volume && t->path_count == 0)
		ret = find_volume(run, cfg, t->volume, err);
	return ret;
}

int fm_targets_find(const struct fm_targets *t, struct fm_run *run, struct fm_err *err)
{
	bool is_asked = t->store || t->volume || (t->wants_dirs && t->path_count == 0);
	struct fm_config *cfg = NULL;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < t->path_count; i++)
		ret = add_dir(run, t->paths[i], err);
	if (ret < 0 || !is_asked)
		return ret;
	ret = fm_config_load_alone(t->config ? t->config : FM_COLLECT_CONFIG, &cfg, err);
	if (ret < 0 && t->is_all && !t->store && !t->volume)
		return 0;
	if (ret < 0)
		return fm_err_wrap(err, "give --path DIR, or --config FILE if it is another one");
	ret = find_in(t, cfg, run, err);
	fm_config_free(cfg);
	return ret;
}

void fm_targets_free(struct fm_run *run)
{
	for (size_t i = 0; i < run->dir_count; i++)
		free(run->dirs[i]);
	free(run->device);
}
