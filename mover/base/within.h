/* SPDX-License-Identifier: MIT */
/*
 * within - a call that may never return, and is waited for so long only. For a start, which has no
 * loop yet that could go on meanwhile.
 */
#ifndef FM_BASE_WITHIN_H
#define FM_BASE_WITHIN_H

#include <stdint.h>

/*
 * Calls run(arg) on a thread of its own, and waits for its end, max_ns at most: 0. -ETIMEDOUT: it
 * has not returned; the thread is left to itself, and arg is its own for good. -ENOMEM: it was not
 * called, there is no memory for it, or no thread.
 */
int fm_within(void (*run)(void *arg), void *arg, uint64_t max_ns);

#endif
