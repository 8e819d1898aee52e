/* SPDX-License-Identifier: MIT */
/*
 * snapshot - a small source that was read when it was opened: its bytes as they were then, in
 * memory of ours.
 *
 * Nothing is left of the file. No descriptor has to be closed, nothing has to be looked at again,
 * and what is sent a second time is what was sent the first time. So all that a small file needs
 * where its descriptor is, is one piece of work.
 */
#ifndef FM_STORE_SNAPSHOT_H
#define FM_STORE_SNAPSHOT_H

#include <stdint.h>

struct fm_err;
struct fm_file;

#define FM_SNAPSHOT_MAX (64u << 10) /* copying that much costs less than to wake one thread */

/*
 * Worker. *file was just opened from fd, has `size` bytes, 1 to FM_SNAPSHOT_MAX, and no holes. It
 * is read, looked at again, closed and replaced. Without memory it is left as it is. On error it is
 * closed.
 */
int fm_snapshot_take(int fd, uint64_t size, struct fm_file **file, struct fm_err *err);

#endif
