/* SPDX-License-Identifier: MIT */
/* wanted - see wanted.h. */
#include "mover/tree/wanted.h"

#include <errno.h>

#include "mover/tree/descent.h"
#include "mover/tree/staging.h"

static int look_at_dir(const struct fm_descent_at *at, enum fm_staging_kind *kind)
{
	int ret = fm_staging_look(at->dir, at->name, kind);

	if (ret == 0 && *kind == FM_STAGING_TREE)
		ret = fm_staging_is_busy(at->dir, at->name);
	if (ret < 0)
		return ret;
	if (ret > 0)
		return FM_WANTED_BUSY;
	return *kind == FM_STAGING_KEPT ? FM_WANTED_KEPT : FM_WANTED_NOTHING;
}

static int look_at_file(const struct fm_descent_at *at)
{
	int ret = 0;

	if (fm_partial_parse(at->name, NULL) != FM_PARTIAL_NONE)
		ret = fm_partial_is_busy(at->dir, at->name);
	return ret > 0 ? FM_WANTED_BUSY : ret;
}

/*
 * Looks at the name of an entry before the entry is opened: a directory that cannot be entered must
 * be found too.
 */
static int look_at(struct fm_descent *d, const struct fm_descent_at *at)
{
	enum fm_staging_kind kind;
	int wanted, ret;

	if (!at->is_dir)
		return look_at_file(at);
	wanted = look_at_dir(at, &kind);
	if (wanted < 0 || kind == FM_STAGING_TREE)	/* what is in that came so far */
		return wanted;
	ret = fm_descent_enter(d, at);
	return ret < 0 ? ret : wanted;
}

static int look_through(struct fm_descent *d)
{
	int ret, found, most = FM_WANTED_NOTHING;
	struct fm_descent_at at;

	while ((ret = fm_descent_next(d, &at)) > 0) {
		found = look_at(d, &at);
		if (found < 0 || found == FM_WANTED_BUSY)
			return found;
		most = found > most ? found : most;
	}
	return ret < 0 ? ret : most;
}

int fm_wanted_in(int parent, const char *name)
{
	struct fm_descent *d;
	int ret = fm_descent_begin(parent, name, &d);

	if (ret == -ENOENT || ret == -ENOTDIR || ret == -ELOOP)
		return FM_WANTED_NOTHING;	/* there is no such directory */
	if (ret < 0)
		return ret;
	ret = look_through(d);
	fm_descent_end(d);
	return ret == -EAGAIN || ret == -ENOENT ? -ESTALE : ret;	/* it is moved just now */
}
