/* SPDX-License-Identifier: MIT */
/*
 * admit - what joining means for the files: the token is checked and used up, the peer written
 * down. See mover/join/join.h.
 */
#ifndef FM_DAEMON_ADMIT_H
#define FM_DAEMON_ADMIT_H

#include "mover/join/join.h"

/* For struct fm_join_opts; ctx is the path of the configuration (const char *). */
int fm_admit(void *ctx, const struct fm_join_candidate *who, struct fm_err *err);
void fm_admit_retract(void *ctx, const struct fm_join_candidate *who);

#endif
