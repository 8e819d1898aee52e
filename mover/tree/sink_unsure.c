/* SPDX-License-Identifier: MIT */
/*
 * sink_unsure - an old version of which nobody knows whether it is on the disk.
 *
 * An update says of what it finds the same, and of what it shares with the old version, that it is
 * on the disk, because a sync said so. One that failed says so once: the kernel takes what it could
 * not write for clean, and the sync of the next update succeeds. So the old version, which stays,
 * gets an extended attribute, and as long as it has that an update compares nothing with it and
 * shares nothing: all comes anew, and what only the old version has is copied. The attribute goes
 * with the directory that it is of, however that is called, and the version that replaces it is
 * another directory. That one gets it itself if it has the name already, and the sync of what it
 * took over at last fails.
 *
 * A file system without such attributes cannot keep that: who hears of the error is told what to
 * do.
 */
#include <errno.h>
#include <sys/xattr.h>

#include "mover/base/log.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

#define MARK "user.fmove.unsure"

int fm_sink_mark_unsure(const struct fm_sink *s, int dir)
{
	int ret = fm_tsys_set_xattr(dir, MARK, "1", 1);

	if (ret == 0)
		ret = fm_tsys_fsync(dir);
	if (ret < 0)
		fm_log_error("%s: a sync of it failed, and that cannot be written down: %s",
			     s->opts.path, fm_err_name(ret));
	return ret;
}

bool fm_sink_is_unsure(const struct fm_sink *s)
{
	return fgetxattr(s->old, MARK, NULL, 0) >= 0 || (errno != ENODATA && errno != EOPNOTSUPP);
}
