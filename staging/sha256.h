/* SPDX-License-Identifier: MIT */
/*
 * sha256 - SHA-256 over bytes that come piece by piece, by OpenSSL. This and blob.c are the files
 * of staging that know that library.
 */
#ifndef FM_STAGE_SHA256_H
#define FM_STAGE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define FM_SHA256_LEN 32u
#define FM_SHA256_HEX (2u * FM_SHA256_LEN)

struct fm_sha256;

struct fm_sha256 *fm_sha256_new(void);	/* NULL: no memory */
void fm_sha256_add(struct fm_sha256 *s, const void *bytes, size_t len);
void fm_sha256_end(struct fm_sha256 *s, uint8_t out[FM_SHA256_LEN]);	/* nothing is added then */
void fm_sha256_free(struct fm_sha256 *s);	/* NULL is allowed */

/* As lower-case digits, terminated. */
void fm_sha256_hex(const uint8_t sum[FM_SHA256_LEN], char out[FM_SHA256_HEX + 1]);

#endif
