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

/* Takes N of --keep-last from the option. Returns 0, or an exit status. */
int fm_latest_take_keep(const struct fm_args *args, uint32_t *keep);

/* Without a link there is nothing to count by. Returns 0, or an exit status. */
int fm_latest_check(const struct fm_args *args, const char *latest, uint32_t keep);

/*
 * Leads the link to what has that name, which is published. keep: of what was published so the last
 * ones stay; 0: all do. rotated: what went then. is_group: it is a group, which may have been
 * committed before: -ESTALE if the link leads to what was published later.
 */
int fm_latest_lead(struct fmove *c, const struct fm_name *published, const char *latest,
		   uint32_t keep, bool is_group, struct fmove_rotated *rotated,
		   struct fmove_error *why);

/* Says what went and what stays, and the same as JSON. */
void fm_latest_say(const char *verb, const struct fmove_rotated *rotated);
void fm_latest_json(struct fm_json_writer *w, const struct fmove_rotated *rotated);

#endif
