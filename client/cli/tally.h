/* SPDX-License-Identifier: MIT */
/*
 * tally - how much is in a directory of a store, with all that is below it. The node is asked for
 * one directory after the other, so the result is what was there at some moment of each look.
 */
#ifndef FM_CLIENT_TALLY_H
#define FM_CLIENT_TALLY_H

#include <stdint.h>

struct fmove;
struct fmove_error;
struct fmove_name;

#define FM_TALLY_WAITING_MAX 65536	/* directories that are known and not yet looked through */

struct fm_tally {
	uint64_t files;			/* all that are no directories: links, too */
	uint64_t dirs;			/* without the one that is counted */
	uint64_t bytes;
};

/*
 * -E2BIG: more than FM_TALLY_WAITING_MAX directories wait. -ECANCELED (interrupt.h), -ENOMEM, or
 * what the node says. A directory that goes away meanwhile counts nothing.
 */
int fm_tally(struct fmove *c, const struct fmove_name *dir, struct fm_tally *out,
	     struct fmove_error *why);

#endif
