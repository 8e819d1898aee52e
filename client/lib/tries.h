/* SPDX-License-Identifier: MIT */
/*
 * tries - what is tried again here, since the daemon does not: a directory of the caller's, which
 * is read or written in this process, what is asked about before it, and whatever the daemon did
 * when it went away. By the rules by which the daemon tries files again (mover/base/retry.h).
 *
 * Happy path: begin; while the try fails and again() says so: try.
 */
#ifndef FM_CLIENT_TRIES_H
#define FM_CLIENT_TRIES_H

#include "client/lib/fmove.h"
#include "mover/base/retry.h"

struct fm_tries {
	/* of this try: its timeout is what is left of the whole's */
	struct fmove_options opts;
	/* tries' own: */
	struct fm_retry retry;
	uint64_t deadline_ns;
	uint64_t begun_ns;		/* this try */
	unsigned forks;			/* fm_forks() at first */
};

void fm_tries_begin(struct fm_tries *t, const struct fmove_options *opts);

/*
 * Whether what failed with *err, having got as far as that says, is to be tried again, now: its
 * time has come. If not, *err says why: it cannot pass, or it was tried for long enough, or the
 * time is up, or opts.cancel_fd became readable, or this is a child of who tried. Meanwhile c has
 * no connection, which others may want.
 */
bool fm_tries_again(struct fm_tries *t, struct fmove *c, struct fmove_error *err);

#endif
