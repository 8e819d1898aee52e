/* SPDX-License-Identifier: MIT */
/* fail - fill in a struct fmove_error. */
#ifndef FM_CLIENT_FAIL_H
#define FM_CLIENT_FAIL_H

#include "client/lib/fmove.h"

/* Fills err, which may be NULL, and returns code. */
__attribute__((format(printf, 3, 4))) int fm_lib_fail(struct fmove_error *err, int code,
						      const char *fmt, ...);

/* It is about this. What name does not say is "". */
void fm_lib_about(struct fmove_error *err, const struct fmove_name *name);

/* -EBADF: a descriptor below zero, as of an open() that failed. */
int fm_lib_fail_fd(struct fmove_error *err);

/* -EPROTO: a list goes on where it was already, and so without end. */
int fm_lib_fail_again(struct fmove_error *err);

/* -ECONNRESET: it was begun by the process that this one was forked from. */
int fm_lib_fail_forked(struct fmove_error *err);

#endif
