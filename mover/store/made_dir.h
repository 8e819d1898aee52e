/* SPDX-License-Identifier: MIT */
/*
 * made_dir - a directory that is made for somebody else.
 *
 * Whoever may write to the directory around it can move it away and put another thing under its
 * name, between any two calls. So nothing is given away by its name: the directory is made in
 * another one that only this process's user may enter, opened there, given its name by a rename,
 * and given away by its descriptor.
 *
 * Any thread. May block.
 */
#ifndef FM_STORE_MADE_DIR_H
#define FM_STORE_MADE_DIR_H

#include <sys/types.h>

#include "mover/tree/staging_names.h"

/*
 * Make the directory `name` in parent, owned by uid and gid. -EEXIST: the name is taken; -EPERM:
 * this needs CAP_CHOWN; or another -errno. After an error nothing was given away.
 */
int fm_made_dir(int parent, const char *name, uid_t uid, gid_t gid);

/*
 * What is made in a private directory: a link or a directory; and a record, a file, whose name no
 * file of a user has, which a rotation (rotation.h) may take into one.
 */
#define FM_MADE_NAME "made"
#define FM_MADE_RECORD FM_STAGING_PREFIX "record"

/*
 * A directory in parent that only this process's user may enter, for what is made in it and gets
 * its name by a rename: its descriptor, and its name, for who removes it. A sweep removes what a
 * crash leaves.
 */
int fm_made_private(int parent, char name[FM_STAGING_NAME_LEN + 1]);

/*
 * Remove such a directory that nobody works in any more, with what was made in it. -EPERM: it is
 * none, or something else is in it, which stays: a file or a directory with something in it can
 * have come there by an exchange, and be somebody's.
 */
int fm_made_sweep(int parent, const char *name);

#endif
