/* SPDX-License-Identifier: MIT */
/*
 * unit_files - the files of units.h in a directory of systemd's. Only such as carry our mark are
 * replaced or removed; everything else that has such a name, a link too, is somebody else's. dir is
 * a descriptor of the directory. May block.
 */
#ifndef FM_CLIENT_UNIT_FILES_H
#define FM_CLIENT_UNIT_FILES_H

struct fm_err;

/* What stands there under that name: 0 nothing, 1 ours, 2 ours with this very text (may be NULL);
 * -EEXIST another's; others. */
int fm_unit_file_look(int dir, const char *name, const char *text, struct fm_err *err);

/*
 * Call each(ctx, name) for each mount unit there that is ours, in no order, until it returns other
 * than 0, which is returned. each() may remove it.
 */
int fm_unit_files_each(int dir, int (*each)(void *ctx, const char *name), void *ctx,
		       struct fm_err *err);

#endif
