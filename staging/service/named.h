/* SPDX-License-Identifier: MIT */
/*
 * named - which users and groups the rules of a node's store let read, asked by another node, and
 * the answer: the bodies of STAGE (mover/wire/wire.h), kinds WHO and NAMED. Little-endian; a string
 * is a 16-bit length and that many bytes, none of them NUL. What is decoded is hostile: all of it
 * is checked.
 *
 * WHO:   0 - string: store (of the node that is asked)
 * NAMED: 0 4 code (0, or an errno: nobody is named)   4 - string: store   - 2 count (0 ..
 *        FM_STAGE_NAMED_MAX; 0 with a code)   then so many times: 1 kind (enum fm_access_kind)
 *        - string: name (all: ""; else 1 .. FM_STAGE_NAMED_LEN bytes)
 *
 * They are names, since numbers mean other users elsewhere. -EAGAIN: the node does not know it now.
 */
#ifndef FM_STAGE_NAMED_H
#define FM_STAGE_NAMED_H

#include <stddef.h>
#include <stdint.h>

#include "mover/store/access.h"
#include "mover/wire/wire.h"

#define FM_STAGE_NAMED_MAX ((unsigned)FM_ACCESS_RULES_MAX)
#define FM_STAGE_NAMED_LEN 100		/* a longer one does not travel */

struct fm_stage_named {
	int code;			/* 0, or negative */
	char store[FM_WIRE_NAME_MAX + 1];
	unsigned count;
	struct {
		uint8_t kind;
		char name[FM_STAGE_NAMED_LEN + 1];
	} at[FM_STAGE_NAMED_MAX];
};

/* An fm_access_user: one more, of a struct fm_stage_named. */
void fm_stage_named_add(void *named, enum fm_access_kind kind, uint32_t id, const char *name);

/* How many bytes; 0: what no decoder takes. */
size_t fm_stage_who_encode(const char *store, uint8_t buf[static FM_WIRE_STAGE_MAX]);
size_t fm_stage_named_encode(const struct fm_stage_named *n, uint8_t buf[static FM_WIRE_STAGE_MAX]);

/* -EBADMSG */
int fm_stage_who_decode(const uint8_t *buf, size_t len, char store[static FM_WIRE_NAME_MAX + 1]);
int fm_stage_named_decode(const uint8_t *buf, size_t len, struct fm_stage_named *out);

#endif
