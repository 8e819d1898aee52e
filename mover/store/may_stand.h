/* SPDX-License-Identifier: MIT */
/*
 * may_stand - which file systems may never answer, by the will of somebody else or for want of a
 * server.
 */
#ifndef FM_STORE_MAY_STAND_H
#define FM_STORE_MAY_STAND_H

#include <stdbool.h>
#include <sys/statfs.h>

/*
 * Whether a read or write on a file system of this kind may wait for somebody's program or for
 * another machine (FUSE, NFS, and all that is not known). On the others only a disk is waited for,
 * and users make none of them.
 */
bool fm_fs_may_stand(const struct statfs *fs);

#endif
