/* SPDX-License-Identifier: MIT */
/*
 * channel_msg - the messages of a channel (channel.h). This header is their specification.
 *
 * All integers are little-endian. A string is a 16-bit length and that many bytes. Every message
 * begins
 *
 *   off len field
 *     0   4 magic     "FCHN"
 *     4   2 version   FM_CHANNEL_VERSION
 *     6   2 op        enum fm_channel_op
 *     8   8 tag       of the call: the answer has that of its ask
 *
 * Ask, from 16:
 *   BEGIN         2 flags (FM_CHANNEL_OFFERING ..), identity
 *   FILL          8 seq, 4 len, 2 larges (how many would be taken), 2 needs, 2 acks, acks * 8 seq,
 *                 per need: 8 seq, 2 count, (count + 7) / 8 bits
 *   APPLY         4 len
 *   CREATE_LARGE  large
 *   SEAL_LARGE    large, 1 has_digest; if it is 1: 4 crc, 8 size, 8 mtime_ns, 1 blocks, blocks * 4
 *                 crc; beside it the file's descriptor
 *   WROTE_LARGE   8 size, 8 mtime_ns, 8 identity, 8 offset, 8 len, 4 crc, path (string)
 *   LOG           -
 *   PREPARE, PUBLISH   2 flags (FM_CHANNEL_DURABLE)
 *
 * Answer, from 16:
 *   8 ret (0, a negative errno; FILL: bytes), 2 flags (FM_CHANNEL_PARTIAL ..), 8 serial (a later
 * answer has a greater one), 13 * 8 count() in the order of struct fm_tree_count, text (string: of
 * the error), note (string), then FILL          2 count, per file: large; beside it as many
 * descriptors. An error (but -EAGAIN):
 *                 0
 *   APPLY         2 count, (count + 7) / 8 bits. An error: 0
 *   CREATE_LARGE  2 count, per piece of it that is there: 8 offset, 8 len, 4 crc; beside it the
 *                 descriptor. An error: 0, no descriptor
 *
 * identity: node (string), 8 dev, 8 ino, 8 size, 8 mtime_ns, 8 ctime_ns
 * large: 8 size, 4 mode, 8 mtime_ns, 1 has_holes, identity, path (string)
 *
 * Decoders treat every byte as hostile: -EBADMSG, or -EPROTONOSUPPORT for another version.
 */
#ifndef FM_TREE_CHANNEL_MSG_H
#define FM_TREE_CHANNEL_MSG_H

#include "mover/base/bytes.h"
#include "mover/tree/channel.h"
#include "mover/tree/digest.h"
#include "mover/tree/tree.h"

#define FM_CHANNEL_MAGIC UINT32_C(0x4e484346)
#define FM_CHANNEL_ASK_MAX 8192u	/* a path, or the acks and needs */
/* the pieces of a large file, or FM_CHANNEL_LARGES_MAX paths */
#define FM_CHANNEL_ANSWER_MAX 49152u
#define FM_CHANNEL_NOTE_MAX 255u

enum fm_channel_op {
	FM_CHANNEL_BEGIN = 1,
	FM_CHANNEL_FILL,
	FM_CHANNEL_APPLY,
	FM_CHANNEL_CREATE_LARGE,
	FM_CHANNEL_SEAL_LARGE,
	FM_CHANNEL_WROTE_LARGE,
	FM_CHANNEL_LOG,
	FM_CHANNEL_PREPARE,
	FM_CHANNEL_PUBLISH,
};

/* Flags of BEGIN's ask. */
#define FM_CHANNEL_OFFERING 1u
#define FM_CHANNEL_CHECKSUMS 2u
#define FM_CHANNEL_OWNERS 4u		/* of an answer too: send them */
#define FM_CHANNEL_DRY 8u
/* Of PREPARE's and PUBLISH's. */
#define FM_CHANNEL_DURABLE 16u
/* Of an answer. */
#define FM_CHANNEL_PARTIAL 32u		/* something of an earlier try is there */
#define FM_CHANNEL_REFLINKED 64u
#define FM_CHANNEL_MORE 128u		/* FILL: large files that had no room wait */
/* a sync failed: nothing of what was made counts any more */
#define FM_CHANNEL_LOST 256u

struct fm_channel_need {
	uint64_t seq;
	uint16_t count;			/* 1 .. FM_TREE_OFFERS_MAX */
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];	/* those behind count are 0 */
};

/* Which fields count, op says. Pointers of a decoded one point into the message. */
struct fm_channel_ask {
	enum fm_channel_op op;
	uint64_t tag;
	unsigned flags;
	struct fm_identity identity;
	uint64_t seq;
	uint32_t len;
	bool has_digest;
	struct fm_digest digest;
	uint16_t larges;
	uint16_t acks_count;
	uint16_t needs_count;
	uint64_t acks[FM_CHANNEL_ACKS_MAX];
	struct fm_channel_need needs[FM_CHANNEL_NEEDS_MAX];
	struct fm_journal_entry entry;
	struct fm_tree_large large;	/* without its descriptor */
};

struct fm_channel_answer {
	enum fm_channel_op op;
	uint64_t tag;
	int64_t ret;
	unsigned flags;
	uint64_t serial;
	struct fm_tree_count count;
	const char *text;
	size_t text_len;
	const char *note;
	size_t note_len;		/* FM_CHANNEL_NOTE_MAX at most */
	uint16_t larges_count;
	struct fm_tree_large *larges;	/* to encode */
	/* decoded: for fm_channel_get_large(), larges_count times */
	struct fm_reader larges_at;
	struct fm_channel_need need;	/* APPLY; its count may be 0 */
	struct fm_have have;		/* CREATE_LARGE; whoever decoded it frees it */
};

/* Into buf; returns the length. 0: values out of range, or more than fits. */
size_t fm_channel_put_ask(const struct fm_channel_ask *ask, uint8_t buf[static FM_CHANNEL_ASK_MAX]);
size_t fm_channel_put_answer(const struct fm_channel_answer *answer,
			     uint8_t buf[static FM_CHANNEL_ANSWER_MAX]);

int fm_channel_get_ask(const uint8_t *buf, size_t len, struct fm_channel_ask *out);

/* Also -ENOMEM. After an error nothing is to be freed. */
int fm_channel_get_answer(const uint8_t *buf, size_t len, struct fm_channel_answer *out);

/* Reads a large file of an answer that was decoded before, so it cannot fail. fd is -1. */
void fm_channel_get_large(struct fm_reader *r, struct fm_tree_large *out);

#endif
