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

/*
 * Make the directory `name` in parent, owned by uid and gid. -EEXIST: the name is taken; -EPERM:
 * this needs CAP_CHOWN; or another -errno. After an error nothing was given away.
 */
int fm_made_dir(int parent, const char *name, uid_t uid, gid_t gid);

#endif
