/* SPDX-License-Identifier: MIT */
/* range_args - the ranges that a command line asks for: --range, --ranges-from. */
#ifndef FM_CLIENT_RANGE_ARGS_H
#define FM_CLIENT_RANGE_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/fmove.h"

struct fm_err;

#define FM_RANGE_ARGS_MAX (1u << 20)	/* of one command */

/* Zero-initialised there are none. */
struct fm_range_args {
	struct fmove_range *at;
	size_t count;
	size_t cap;
};

/* Adds "OFF:LEN[,OFF:LEN...]"; without LEN a range goes up to the end. */
int fm_range_args_add(struct fm_range_args *r, const char *text, struct fm_err *err);

/* Adds those of a file, "OFF LEN" a line; "-" is standard input. */
int fm_range_args_read(struct fm_range_args *r, const char *path, struct fm_err *err);

void fm_range_args_free(struct fm_range_args *r);

#endif
