/* SPDX-License-Identifier: MIT */
/*
 * libfmove - ask the fmoved of this machine to move files between nodes. fmove-api(7) describes
 * what lies below. All of it is here; each of the headers below can be included alone.
 *
 * One struct fmove serves all threads of a program. Every call blocks until its answer, closes no
 * descriptor of the caller and prints nothing. Calls return 0 or a negative errno and then fill
 * *err (which may be NULL). Names are bytes: any but NUL.
 *
 * A struct that may get more fields begins with struct_size. Who makes one says its size, be it for
 * what is asked or for what comes of it:
 *
 *	struct fmove_options opts = {.struct_size = sizeof(opts), .may_replace = true};
 *	struct fmove_result result = {.struct_size = sizeof(result)};
 *
 * So a program may be older or newer than the library. What it does not know is as if it were zero,
 * or is not written. What the library does not know must be zero, else -E2BIG; in what comes of the
 * call it is zero. A size that no such struct has, as 0: -EINVAL, and nothing was done. In what a
 * call tells by a function of the caller, struct_size is what the library has. These stay as they
 * are, and have none: struct fmove_error, fmove_name, fmove_range, fmove_part, fmove_group_members.
 *
 * What changes the SOVERSION: a release in which a field, or the value of an enumerator, is another
 * than in the release before. New functions, new enumerators at an end, and new fields behind all
 * that a struct had, its padding included, do not. There is no release yet: it stays 0.
 */
#ifndef FMOVE_H
#define FMOVE_H

#include "fmove/connect.h"
#include "fmove/files.h"
#include "fmove/ranges.h"
#include "fmove/memory.h"
#include "fmove/groups.h"
#include "fmove/jobs.h"
#include "fmove/ops.h"
#include "fmove/stage.h"
#include "fmove/status.h"
#include "fmove/stores.h"

#endif
