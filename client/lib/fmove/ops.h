/* SPDX-License-Identifier: MIT */
/* fmove/ops.h - calls that go on beside their caller. See <fmove.h>. */
#ifndef FMOVE_OPS_H
#define FMOVE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "connect.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * fmove_op_start() has call() run in a thread of the library. There it makes whatever calls it
 * wants with c, one after the other, and what they call back runs in that thread, too, which takes
 * no signals. What call() and ctx use must stay until the op is over. FMOVE_CALLS_MAX of a handle
 * run at the same time, and more wait for their turn.
 */
#define FMOVE_OPS_MAX 4096		/* of a handle; each has a descriptor */

struct fmove_op;

/* -EBUSY, -EMFILE, -EAGAIN, with is_full: there are too many, or too many threads. */
int fmove_op_start(struct fmove *c,
		   int (*call)(struct fmove *c, void *ctx, struct fmove_error *err), void *ctx,
		   struct fmove_op **out, struct fmove_error *err);

/* For poll(2): readable when it is over. The op's own: do not read or close it. */
int fmove_op_fd(const struct fmove_op *op);

/*
 * The call that it makes, and each that it would still make, ends with -ECANCELED: a transfer as if
 * its cancel_fd were readable, others as by fmove_set_cancel(). What has not begun does not. It is
 * not waited for.
 */
void fmove_op_cancel(struct fmove_op *op);

/* What call() returned, and its error. Waits until it is over. */
int fmove_op_result(struct fmove_op *op, struct fmove_error *err);

/* Cancels it and waits, if it is not over. NULL is allowed. */
void fmove_op_free(struct fmove_op *op);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
