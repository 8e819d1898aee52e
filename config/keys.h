/* SPDX-License-Identifier: MIT */
/*
 * keys - a node's Ed25519 key pair on disk: made once, never overwritten, readable by its owner
 * only.
 *
 * The file is PEM (PKCS #8); the public half is written as base64 of its 32 bytes (value.h).
 * OpenSSL stays behind this file.
 */
#ifndef FM_CONFIG_KEYS_H
#define FM_CONFIG_KEYS_H

#include <stdint.h>

#include "config/value.h"

struct fm_err;

/* Make a new key in a file that must not exist (-EEXIST); mode 0400. A failure leaves no file. */
int fm_key_generate(const char *file, uint8_t public_key[static FM_VALUE_KEY_LEN],
		    struct fm_err *err);

/* The public half of a key file. -EACCES when others may read or change it, -EINVAL when it is no
 * such key. */
int fm_key_read(const char *file, uint8_t public_key[static FM_VALUE_KEY_LEN], struct fm_err *err);

#endif
