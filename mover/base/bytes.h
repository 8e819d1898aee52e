/* SPDX-License-Identifier: MIT */
/*
 * bytes - little-endian cursors over a bounded buffer: how every wire message is written and read.
 *
 * Running past the end sets `failed` and yields zeros; a coder checks it once, at the end. Nothing is written or read
 * outside.
 */
#ifndef FM_BASE_BYTES_H
#define FM_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_writer {
	uint8_t *at;
	uint8_t *end;
	bool failed;
};

struct fm_reader {
	const uint8_t *at;
	const uint8_t *end;
	bool failed;
};

void fm_put_u8(struct fm_writer *w, uint8_t v);
void fm_put_le16(struct fm_writer *w, uint16_t v);
void fm_put_le32(struct fm_writer *w, uint32_t v);
void fm_put_le64(struct fm_writer *w, uint64_t v);
void fm_put_bytes(struct fm_writer *w, const void *p, size_t len);

uint8_t fm_get_u8(struct fm_reader *r);
uint16_t fm_get_le16(struct fm_reader *r);
uint32_t fm_get_le32(struct fm_reader *r);
uint64_t fm_get_le64(struct fm_reader *r);
void fm_get_bytes(struct fm_reader *r, void *p, size_t len);

/* A pointer into the buffer to the next len bytes, which are skipped, or NULL (and failed). */
const uint8_t *fm_get_span(struct fm_reader *r, size_t len);

static inline size_t fm_reader_left(const struct fm_reader *r)
{
	return (size_t)(r->end - r->at);
}

#endif
