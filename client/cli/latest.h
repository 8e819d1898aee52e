/* SPDX-License-Identifier: MIT */
/*
 * latest - the symbolic link beside what was published that leads to the last of it: --latest of
 * put and group commit.
 *
 * It is led there when that is on the disk: who opens it finds the old target or the new one,
 * whoever is killed.
 */
#ifndef FM_CLIENT_LATEST_H
#define FM_CLIENT_LATEST_H

#include "client/cli/cmd.h"
#include "client/cli/name.h"
#include "client/lib/fmove.h"

/* Takes NAME from the option. Returns 0, or an exit status. */
int fm_latest_take(const struct fm_args *args, const char **latest);

/* Leads the link to what has that name, which is published. */
int fm_latest_lead(struct fmove *c, const struct fm_name *published, const char *latest,
		   struct fmove_error *why);

#endif
