/* SPDX-License-Identifier: MIT */
/*
 * given_up - asks what may never answer: a daemon that stands still, a file system whose server is
 * dead.
 *
 * Another process asks, and is given up. Nothing ends one that waits in the kernel, so it is not
 * waited for; it has nothing but a pipe of ours. Only while this process has one thread.
 */
#ifndef FM_GIVEN_UP_H
#define FM_GIVEN_UP_H

#include <stddef.h>

#define FM_GIVEN_UP_S 15 /* what is this late on a busy machine is still an answer */

/*
 * ask(ctx, out, cap) puts an answer of at most cap bytes into out and returns its length, or a
 * negative errno; in the other process. The same of it here; -ETIMEDOUT: it was given up.
 */
int fm_ask_or_give_up(int (*ask)(void *ctx, char *out, size_t cap), void *ctx, char *out,
		      size_t cap);

#endif
