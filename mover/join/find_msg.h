/* SPDX-License-Identifier: MIT */
/*
 * find_msg - the two messages by which a node without peers finds those that have invited somebody.
 * This header is their specification.
 *
 * They are UDP datagrams of IPv6 on one link. FIND goes to the group ff12::666d:6f76, port 7471, of
 * each port of the asking node; FOUND goes back to where a FIND came from. Both have a link-local
 * source and the hop limit 255, which no router leaves them: what lacks either is dropped. Nothing
 * is proved by them: who joins proves the other's key by the token.
 *
 * Integers are little-endian. Decoders take every byte for hostile: -EBADMSG (length), -EPROTO
 * (magic, version, flags, a byte that must be 0), -ERANGE (a value).
 *
 * FIND (96 bytes, so that no answer is larger)
 *   off len field
 *     0   4 magic     "FMFQ"
 *     4   2 version   1
 *     6   2 flags     0
 *     8   8 nonce     random, for this question
 *    16  80           0
 *
 * FOUND
 *     0   4 magic     "FMFA"
 *     4   2 version   1
 *     6   2 flags     0
 *     8   8 nonce     of the question
 *    16   2 port      where it takes connections at the address that this comes from; 0: it does
 *                     not
 *    18   - name      (16-bit length, 1 .. 63 bytes, none of them NUL) of the node
 */
#ifndef FM_FIND_MSG_H
#define FM_FIND_MSG_H

#include <stddef.h>
#include <stdint.h>

#include "mover/join/join_msg.h"

#define FM_FIND_LEN 96
#define FM_FIND_NONCE_LEN 8

struct fm_find_found {
	uint8_t nonce[FM_FIND_NONCE_LEN];
	uint16_t port;
	char name[FM_JOIN_NAME_MAX + 1];
};

void fm_find_encode(const uint8_t nonce[static FM_FIND_NONCE_LEN], uint8_t buf[static FM_FIND_LEN]);
int fm_find_decode(const uint8_t *buf, size_t len, uint8_t nonce[static FM_FIND_NONCE_LEN]);

/* The length. Values must be in range (asserted). */
size_t fm_find_found_encode(const struct fm_find_found *m, uint8_t buf[static FM_FIND_LEN]);
int fm_find_found_decode(const uint8_t *buf, size_t len, struct fm_find_found *m);

#endif
