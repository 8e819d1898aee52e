/* SPDX-License-Identifier: MIT */
/* invitation - makes an invitation and prints the line for the next node, or says it as JSON, for
 * `fmove init` and `fmove invite`. */
#ifndef FM_CLIENT_INVITATION_H
#define FM_CLIENT_INVITATION_H

#include "config/address.h"
#include "config/invite.h"

struct fm_err;
struct fm_json_writer;

struct fm_invitation {
	struct fm_addresses addresses;
	char token[FM_INVITE_TEXT_MAX];
};

/* dir: of the configuration. Without addresses: those of the configuration, or found. */
int fm_invitation_make(const char *dir, const struct fm_addresses *addresses,
		       struct fm_invitation *out, struct fm_err *err);

/* To standard output: "fmove join ADDRESS,ADDRESS TOKEN", one line; what it means to standard
 * error. fm_stdout_end() looks for errors. */
void fm_invitation_print(const struct fm_invitation *invitation);

/* "addresses", "token" and "valid_s" of an object. */
void fm_invitation_json(struct fm_json_writer *w, const struct fm_invitation *invitation);

#endif
