/* SPDX-License-Identifier: MIT */
/*
 * direct - bytes that go to the disk past the page cache.
 *
 * On some machines the page cache is the GPU's memory, and what is staged is more than it has. So
 * files of 16 MiB and more do not pass it. Smaller ones lie in memory one behind the other, and
 * most of them on no block's boundary: they do, and go from it when they are written (laid.c; of
 * 1 MiB and more), when all came (laid.h) or when their manifest was made from the disk (build.h).
 * Worker threads; waits for the disk.
 */
#ifndef FM_STAGE_DIRECT_H
#define FM_STAGE_DIRECT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes all of it. What does not begin on a block's boundary, in memory or in the file, what is
 * less than 64 KiB, the end that is no whole block, and all of it where the file system has no
 * direct I/O, go through the page cache. fd: nobody else uses it meanwhile. Not synced. 0 or
 * -errno.
 */
int fm_stage_write_direct(int fd, const uint8_t *buf, size_t len, uint64_t offset);

#endif
