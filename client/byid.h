/* SPDX-License-Identifier: MIT */
/* byid - what cancel and resume have in common: something done to each job that is named. */
#ifndef FM_CLIENT_BYID_H
#define FM_CLIENT_BYID_H

#include "client/ask.h"

/*
 * do_one() for each operand, going on after failures; with --json {"jobs": [{"job": .., "exit": n}, ..], "exit": n}.
 * Returns the exit status: 3 if only some failed.
 */
int fm_byid_each(const struct fm_args *args, bool is_json,
		 int (*do_one)(struct fmove *c, const char *job, void *ctx, struct fmove_error *why), void *ctx);

#endif
