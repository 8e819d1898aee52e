/* SPDX-License-Identifier: MIT */
/* invitation - makes an invitation and prints the line for the next node, for `fmove init` and
 * `fmove invite`. */
#ifndef FM_CLIENT_INVITATION_H
#define FM_CLIENT_INVITATION_H

struct fm_addresses;
struct fm_err;

/*
 * To standard output: "fmove join ADDRESS,ADDRESS TOKEN", one line; what it means to standard
 * error. dir: of the configuration. Without addresses: those of the configuration, or found.
 */
int fm_invitation_print(const char *dir, const struct fm_addresses *addresses, struct fm_err *err);

#endif
