/* SPDX-License-Identifier: MIT */
/*
 * bytes - little-endian cursors over a bounded buffer.
 */
#include "mover/base/bytes.h"

#include <string.h>

/* The next len bytes, or NULL. After a failure nothing is handed out any more, even if it would fit. */
static uint8_t *writer_take(struct fm_writer *w, size_t len)
{
	uint8_t *at = w->at;

	if (w->failed || (size_t)(w->end - w->at) < len) {
		w->failed = true;
		return NULL;
	}
	w->at += len;
	return at;
}

static void put_le(struct fm_writer *w, uint64_t v, size_t len)
{
	uint8_t *at = writer_take(w, len);

	for (size_t i = 0; at && i < len; i++)
		at[i] = (uint8_t)(v >> (8 * i));
}

void fm_put_u8(struct fm_writer *w, uint8_t v)
{
	put_le(w, v, 1);
}

void fm_put_le16(struct fm_writer *w, uint16_t v)
{
	put_le(w, v, 2);
}

void fm_put_le32(struct fm_writer *w, uint32_t v)
{
	put_le(w, v, 4);
}

void fm_put_le64(struct fm_writer *w, uint64_t v)
{
	put_le(w, v, 8);
}

void fm_put_bytes(struct fm_writer *w, const void *p, size_t len)
{
	uint8_t *at = writer_take(w, len);

	if (at && len > 0)	/* memcpy() may not be given NULL, not even for 0 bytes */
		memcpy(at, p, len);
}

const uint8_t *fm_get_span(struct fm_reader *r, size_t len)
{
	const uint8_t *at = r->at;

	if (r->failed || fm_reader_left(r) < len) {
		r->failed = true;
		return NULL;
	}
	r->at += len;
	return at;
}

static uint64_t get_le(struct fm_reader *r, size_t len)
{
	const uint8_t *at = fm_get_span(r, len);
	uint64_t v = 0;

	for (size_t i = 0; at && i < len; i++)
		v |= (uint64_t)at[i] << (8 * i);
	return v;
}

uint8_t fm_get_u8(struct fm_reader *r)
{
	return (uint8_t)get_le(r, 1);
}

uint16_t fm_get_le16(struct fm_reader *r)
{
	return (uint16_t)get_le(r, 2);
}

uint32_t fm_get_le32(struct fm_reader *r)
{
	return (uint32_t)get_le(r, 4);
}

uint64_t fm_get_le64(struct fm_reader *r)
{
	return get_le(r, 8);
}

void fm_get_bytes(struct fm_reader *r, void *p, size_t len)
{
	const uint8_t *at = fm_get_span(r, len);

	if (len == 0)
		return;
	if (at)
		memcpy(p, at, len);
	else
		memset(p, 0, len);
}
