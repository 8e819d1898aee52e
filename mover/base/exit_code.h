/* SPDX-License-Identifier: MIT */
/*
 * exit_code - what an errno means to whoever has to go on: the exit status of fmove and "exit" in
 * the errors of the local API, whether the same may succeed later, and whether what came of a file
 * is of use to the next try.
 *
 * The one place that decides it, for the daemon and for the client. Any thread.
 */
#ifndef FM_EXIT_CODE_H
#define FM_EXIT_CODE_H

#include <stdbool.h>

enum fm_exit {
	FM_EXIT_DONE = 0,
	FM_EXIT_FAILED = 1,
	FM_EXIT_USAGE = 2,
	FM_EXIT_PARTLY = 3,		/* some of several sources */
	FM_EXIT_UNREACHABLE = 4,	/* a daemon or a peer, or it took too long */
	FM_EXIT_CORRUPT = 5,
	FM_EXIT_REFUSED = 6,		/* permission, key, a rule of the store */
	FM_EXIT_CANCELLED = 130,
};

/* For an errno, positive or negative; 0 is FM_EXIT_DONE. */
enum fm_exit fm_api_exit(int code);

/* Whether the same may succeed later, although nobody mends anything. */
bool fm_errno_may_pass(int code);

/*
 * Whether the next try could go on with what came. Not if it is damaged or of a source that is
 * another one now, nor if the name was taken meanwhile; and a disk that is full is not kept full.
 */
bool fm_errno_keeps_partial(int code);

/* "ENOENT" for an errno, positive or negative; never NULL. */
const char *fm_api_errno_name(int code);

/* The negative errno of a name; -EIO for one that is not known here. */
int fm_api_errno(const char *name);

#endif
