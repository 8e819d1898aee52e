/* SPDX-License-Identifier: MIT */
/*
 * of_kernel - files that the kernel makes up, as in /proc and /sys.
 *
 * What they say, and what writing to them does, may depend on who reads and writes, not on who
 * opened them. So a daemon does neither with a descriptor that it was passed.
 */
#ifndef FM_BASE_OF_KERNEL_H
#define FM_BASE_OF_KERNEL_H

#include <stdbool.h>

/* Whether fd is one. False also if nobody can say. */
bool fm_is_of_kernel(int fd);

#endif
