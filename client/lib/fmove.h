/* SPDX-License-Identifier: MIT */
/*
 * libfmove - ask the fmoved of this machine to move files between nodes. fmove-api(7) describes
 * what lies below. All of it is here; each of the headers below can be included alone.
 *
 * One struct fmove serves all threads of a program. Every call blocks until its answer, closes no
 * descriptor of the caller and prints nothing. Calls return 0 or a negative errno and then fill
 * *err (which may be NULL). Names are bytes: any but NUL.
 *
 * What changes the SOVERSION: the caller makes most of the structs, and they say no size of their
 * own, so a release in which one of them, or the value of an enumerator, is another than in the
 * release before has the next one. New functions and new enumerators at an end do not change it.
 * There is no release yet: it stays 0, and a program is compiled with the header of the very
 * library it uses.
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
