/* SPDX-License-Identifier: MIT */
/*
 * invite - tokens that let one new node join, once, for a quarter of an hour.
 *
 * A token is a secret of 128 bits and the inviting node's public key: 64 characters of base64url.
 * Whoever makes it prints it and forgets it; the configuration's directory keeps a file invites/ID
 * with the SHA-256 of the secret and the time it ends, so that reading the directory does not let
 * anybody join. That time is the machine's since its start: setting the clock opens nothing again,
 * and a restart of the machine ends it. The daemon that is asked checks, then uses it up by
 * removing the file. May block.
 */
#ifndef FM_CONFIG_INVITE_H
#define FM_CONFIG_INVITE_H

#include <stdint.h>

#include "config/config.h"

struct fm_err;

#define FM_INVITE_SECRET_LEN 16
#define FM_INVITE_TEXT_MAX 65		/* of a token, with the terminator */
#define FM_INVITE_VALID_S 900
#define FM_INVITES_MAX 16		/* open at once */

struct fm_invite {
	uint8_t secret[FM_INVITE_SECRET_LEN];
	uint8_t key[FM_CONFIG_KEY_LEN];
};

void fm_invite_print(const struct fm_invite *invite, char text[static FM_INVITE_TEXT_MAX]);

/* -EINVAL: no token. */
int fm_invite_parse(const char *text, struct fm_invite *invite);

/*
 * Make one for the node whose configuration is in dir and whose public key is in invite->key.
 * -ENOSPC: too many are open.
 */
int fm_invite_new(const char *dir, struct fm_invite *invite, struct fm_err *err);

/* Whether the secret would let a node join: 0, -ENOENT (wrong, or used already), -ETIME (too
 * late). */
int fm_invite_check(const char *dir, const uint8_t secret[static FM_INVITE_SECRET_LEN],
		    struct fm_err *err);

/* For how long an invitation is still open, of the one that is open longest: seconds, 0: none is;
 * or a negative errno. */
int fm_invite_left(const char *dir, struct fm_err *err);

/* Use it up: the same, and of several who try at once one succeeds. */
int fm_invite_use(const char *dir, const uint8_t secret[static FM_INVITE_SECRET_LEN],
		  struct fm_err *err);

#endif
