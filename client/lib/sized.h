/* SPDX-License-Identifier: MIT */
/*
 * sized - structs of the caller's that begin with their own size (fmove.h). Theirs is that of the
 * fmove.h which the program was compiled with, ours that of the library. They are copied in as we
 * know them when a call begins, and out as far as they reach when it has succeeded, so that all in
 * between has whole ones.
 */
#ifndef FM_CLIENT_SIZED_H
#define FM_CLIENT_SIZED_H

#include <stddef.h>

#include "client/lib/fmove.h"

/* Bytes that theirs may have beyond ours: of many releases. More is no size, but what was left in
 * memory that nobody initialised. */
#define FM_SIZED_BEYOND_MAX 4096u

/* Whether theirs says a size that it can have. name: of the struct, for the error. -EINVAL. */
int fm_sized_check(const void *theirs, size_t size, const char *name, struct fmove_error *err);

/*
 * Fills ours, of so many bytes, with theirs, or with zeros if that is NULL. Its struct_size is ours
 * then. -EINVAL; -E2BIG: theirs asks for something by fields that are not known here.
 */
int fm_sized_take(void *ours, size_t size, const void *theirs, const char *name,
		  struct fmove_error *err);

/* Fills theirs, which was checked: its struct_size stays, and what is not known here is zero. */
void fm_sized_give(void *theirs, const void *ours, size_t size);

/* ---- a transfer ---- */

/* What one was called with, and its result. It stays where it is: opts leads into it. */
struct fm_sized_call {
	struct fmove_options opts;
	struct fmove_tree_options tree;	/* that opts.tree leads to, unless that is NULL */
	struct fmove_only only;		/* opts.only, the same */
	struct fmove_result result;
};

/* Before anything is done. opts NULL: the defaults; result NULL: none is wanted. */
int fm_sized_call_begin(struct fm_sized_call *call, const struct fmove_options *opts,
			const struct fmove_result *result, struct fmove_error *err);

/* When it is over: returns ret, and tells the result if that is 0. */
int fm_sized_call_end(const struct fm_sized_call *call, int ret, struct fmove_result *result);

#endif
