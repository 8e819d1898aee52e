/* SPDX-License-Identifier: MIT */
/*
 * join_msg - the two messages by which a new node joins one that invited it. This header is their
 * specification.
 *
 * They travel on a connection of the protocol "fmove-join/1" (transport/net.h): TLS with the
 * inviting node's key pinned by the token, and the new node's key proved. Integers are
 * little-endian; a string is a 16-bit length and that many bytes, none of them NUL. Decoders take
 * every byte for hostile: -EBADMSG (length), -EPROTO (magic, version, flags), -ERANGE (a value).
 *
 * JOIN (new node -> inviting node, the first and only one)
 *   off len field
 *     0   4 magic     "FMJN"
 *     4   2 version   2
 *     6   2 flags     0
 *     8  16 secret    of the token
 *    24   2 port      where the new node listens; 0: it cannot be dialled
 *    26   - name      (string, 1 .. 63 bytes) of the new node
 *     -   - address   (string, at most 299 bytes) "HOST:PORT"; empty: the address it came from, and
 *                     port
 *     -   - further   (addresses) where else it is dialled, over other cables
 *
 * JOINED (inviting node -> new node, then the connection is closed)
 *     0   4 magic     "FMJD"
 *     4   2 version   2
 *     6   2 flags     0
 *     8   4 code      0, or a positive errno: then name and address are empty
 *    12   - name      (string) of the inviting node
 *     -   - address   (string) where to dial it; empty: as it was dialled
 *     -   - text      (string, at most 511 bytes) why not, when code is not 0
 *     -   - further   (addresses) as above; none when code is not 0
 *
 * Addresses are a 16-bit count, 15 at most, and for each
 *     0   2 family    4 or 6
 *     2   2 port      not 0
 *     4  16 address   of IPv4 the first 4 bytes, the others 0
 */
#ifndef FM_JOIN_MSG_H
#define FM_JOIN_MSG_H

#include <stddef.h>
#include <stdint.h>

#define FM_JOIN_MSG_MAX 2048		/* bytes of either message */
#define FM_JOIN_SECRET_LEN 16
#define FM_JOIN_NAME_MAX 63
#define FM_JOIN_ADDRESS_MAX 299
#define FM_JOIN_TEXT_MAX 511
#define FM_JOIN_ADDRS_MAX 15		/* beside the first */

struct fm_join_addr {
	uint8_t family;			/* 4 or 6 */
	uint16_t port;
	uint8_t ip[16];
};

struct fm_join_addrs {
	unsigned count;
	struct fm_join_addr addr[FM_JOIN_ADDRS_MAX];
};

struct fm_join_request {
	uint8_t secret[FM_JOIN_SECRET_LEN];
	uint16_t port;
	char name[FM_JOIN_NAME_MAX + 1];
	char address[FM_JOIN_ADDRESS_MAX + 1];
	struct fm_join_addrs further;
};

struct fm_join_answer {
	uint32_t code;
	char name[FM_JOIN_NAME_MAX + 1];
	char address[FM_JOIN_ADDRESS_MAX + 1];
	char text[FM_JOIN_TEXT_MAX + 1];
	struct fm_join_addrs further;
};

/* The length. Values must be in range (asserted). */
size_t fm_join_request_encode(const struct fm_join_request *m, uint8_t buf[static FM_JOIN_MSG_MAX]);
size_t fm_join_answer_encode(const struct fm_join_answer *m, uint8_t buf[static FM_JOIN_MSG_MAX]);

int fm_join_request_decode(const uint8_t *buf, size_t len, struct fm_join_request *m);
int fm_join_answer_decode(const uint8_t *buf, size_t len, struct fm_join_answer *m);

#endif
