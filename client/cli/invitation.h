/* SPDX-License-Identifier: MIT */
/* invitation - makes an invitation and prints the line for the next node, for `fmove init` and
 * `fmove invite`. */
#ifndef FM_CLIENT_INVITATION_H
#define FM_CLIENT_INVITATION_H

struct fm_err;

/*
 * To standard output: "fmove join ADDRESS TOKEN", one line; what it means to standard error. dir:
 * of the configuration.
 */
int fm_invitation_print(const char *dir, struct fm_err *err);

#endif
