/* SPDX-License-Identifier: MIT */
/*
 * exit_code - what an errno means to a script: the exit status of fmove, and "exit" in the errors of
 * the local API.
 *
 * The one place that decides it, for the daemon and for the client. Any thread.
 */
#ifndef FM_EXIT_CODE_H
#define FM_EXIT_CODE_H

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

/* "ENOENT" for an errno, positive or negative; never NULL. */
const char *fm_api_errno_name(int code);

/* The negative errno of a name; -EIO for one that is not known here. */
int fm_api_errno(const char *name);

#endif
