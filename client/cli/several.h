/* SPDX-License-Identifier: MIT */
/*
 * several - one file or directory to several nodes at once: all of them get it, or none does.
 *
 * Each destination has a thread and a connection of its own. All puts are held until each of them
 * lacks nothing but its name; then all are committed. If one fails before that, the others are
 * cancelled.
 */
#ifndef FM_CLIENT_SEVERAL_H
#define FM_CLIENT_SEVERAL_H

#include "client/cli/name.h"

struct fm_transfer;

#define FM_SEVERAL_MAX 32	/* destinations: each is a transfer that begins at once */

/*
 * Put src, a regular file of ours or (with --recursive) a directory, or (own not NULL) a file in a
 * store of this node. An outcome for every target is added to t->outcomes. Returns the exit status
 * that this file would have by itself.
 */
int fm_several_put(struct fm_transfer *t, const char *src, const struct fm_name *own,
		   const struct fm_name *targets, unsigned count);

/* Nothing was tried: the same outcome for every target. err has an error. */
int fm_several_none(struct fm_transfer *t, const char *src, const struct fm_name *targets,
		    unsigned count, const struct fm_err *err);

#endif
