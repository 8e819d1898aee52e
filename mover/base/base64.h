/* SPDX-License-Identifier: MIT */
/*
 * base64 - RFC 4648 text of small binary values: keys in the standard alphabet with padding, tokens
 * in the URL one without.
 *
 * Decoding is strict: one value has exactly one text, so a key or token cannot be written in two
 * ways.
 */
#ifndef FM_BASE_BASE64_H
#define FM_BASE_BASE64_H

#include <stddef.h>
#include <stdint.h>

enum fm_base64 { FM_BASE64, FM_BASE64_URL };

/* Room for the text of len bytes, with the terminator. */
#define FM_BASE64_ROOM(len) (((len) + 2) / 3 * 4 + 1)

void fm_base64_encode(enum fm_base64 kind, const uint8_t *in, size_t len, char *out);

/* Exactly len bytes, or -EINVAL. */
int fm_base64_decode(enum fm_base64 kind, const char *text, uint8_t *out, size_t len);

#endif
