/* SPDX-License-Identifier: MIT */
/*
 * limits - whether this process may lock the memory that it is going to use, and what to do if not.
 *
 * Locked memory is charged by each lane's io_uring (fixed buffers) and once more by RDMA
 * (registration). What does not fit is done without: plain buffers, TCP.
 */
#ifndef FM_DAEMON_LIMITS_H
#define FM_DAEMON_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Raise the limit as far as we may. If that is not enough for need_bytes, log the limit, the need
 * and the lines that mend it. Returns what may be locked beside that; UINT64_MAX: there is no
 * limit.
 */
uint64_t fm_limits_memlock(uint64_t need_bytes, const char *unit_user);

/* As many descriptors as we may have: jobs and trees hold files open, and nothing here uses
 * select(). */
void fm_limits_files(void);

#endif
