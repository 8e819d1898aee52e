/* SPDX-License-Identifier: MIT */
#include "mover/store/wanted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/journal/partial.h"
#include "mover/store/path.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"
#include "mover/tree/staging.h"

static enum fm_wanted look_at_dir(const struct fm_walk_at *at)
{
	enum fm_staging_kind kind = fm_staging_kind_at(at->dir, at->name);
	struct fm_staging_info info;

	if (kind == FM_STAGING_KEPT)
		return FM_WANTED_KEPT;
	if (kind == FM_STAGING_TREE && fm_staging_peek(at->dir, at->name, &info) == 0 && info.is_busy)
		return FM_WANTED_BUSY;
	return FM_WANTED_NOTHING;
}

static enum fm_wanted look_at(const struct fm_walk_at *at)
{
	if (at->is_dir)
		return look_at_dir(at);
	if (fm_partial_parse(at->name, NULL) != FM_PARTIAL_NONE && fm_partial_is_busy(at->dir, at->name))
		return FM_WANTED_BUSY;
	return FM_WANTED_NOTHING;
}

static enum fm_wanted look_through(struct fm_walk *walk)
{
	enum fm_wanted found, most = FM_WANTED_NOTHING;
	struct fm_walk_at at;
	int ret = 1;

	while (most != FM_WANTED_BUSY && (ret > 0 || ret == -EACCES || ret == -EPERM)) {
		ret = fm_walk_next(walk, &at);
		if (ret <= 0 || at.is_leaving || !fm_path_is_reserved(at.name))
			continue;
		found = look_at(&at);
		most = found > most ? found : most;
		if (at.is_dir && fm_staging_kind(at.name) == FM_STAGING_TREE)
			fm_walk_skip(walk);	/* what came so far */
	}
	return most;
}

enum fm_wanted fm_wanted_in(int parent, const char *name)
{
	enum fm_wanted wanted = FM_WANTED_NOTHING;
	struct fm_walk *walk = fm_sys_alloc(sizeof(*walk));
	int fd;

	if (!walk)
		return FM_WANTED_BUSY;	/* nobody knows: it is looked at again */
	fd = fm_sys_open_beneath(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (fd >= 0 && fm_walk_start(walk, fd) == 0)
		wanted = look_through(walk);
	if (fd >= 0)
		fm_walk_end(walk);
	free(walk);
	return wanted;
}
