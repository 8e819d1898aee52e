/* SPDX-License-Identifier: MIT */
/*
 * there - what a node asks another one of datasets, and the answer: the bodies of STAGE
 * (mover/wire/wire.h), kinds ASK and SAYS. Little-endian. What is decoded is hostile: all of it is
 * checked.
 *
 * ASK:  0 8 id   8 2 count (1 .. FM_STAGE_THERE_MAX)   10 - so many keys of 32 bytes: what the
 *       cache knows a dataset by, its source with its listing (staging/key.h). Who does not know
 *       these cannot ask.
 * SAYS: 0 8 id   8 4 code (0, or an errno: it tells nothing, and count is 0)   12 2 count   then
 *       for each key, in their order: 1 state (enum fm_stage_there)   8 bytes (of it, there)
 */
#ifndef FM_STAGE_THERE_H
#define FM_STAGE_THERE_H

#include <stddef.h>
#include <stdint.h>

#include "mover/wire/wire.h"
#include "staging/cache.h"

#define FM_STAGE_THERE_MAX 256u		/* datasets of one question */

enum fm_stage_there {
	FM_STAGE_ABSENT,
	FM_STAGE_PARTIAL,		/* nobody fetches it now */
	FM_STAGE_COMING,
	FM_STAGE_READY,
	FM_STAGE_THERE_STATES
};

struct fm_stage_question {
	uint64_t id;
	unsigned count;
	struct fm_cache_key key[FM_STAGE_THERE_MAX];
};

struct fm_stage_answer {
	uint64_t id;
	int code;			/* 0, or negative: why it tells nothing */
	unsigned count;
	struct {
		uint8_t state;
		uint64_t bytes;
	} at[FM_STAGE_THERE_MAX];
};

/* How many bytes; 0: what no decoder takes. */
size_t fm_stage_question_encode(const struct fm_stage_question *q,
				uint8_t buf[static FM_WIRE_STAGE_MAX]);
size_t fm_stage_answer_encode(const struct fm_stage_answer *a,
			      uint8_t buf[static FM_WIRE_STAGE_MAX]);

/* -EBADMSG */
int fm_stage_question_decode(const uint8_t *buf, size_t len, struct fm_stage_question *out);
int fm_stage_answer_decode(const uint8_t *buf, size_t len, struct fm_stage_answer *out);

#endif
