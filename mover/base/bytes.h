/* SPDX-License-Identifier: MIT */
/*
 * bytes - little-endian cursors over a bounded buffer: how every wire message is written and read.
 *
 * Running past the end sets `failed` and yields zeros; a coder checks it once, at the end. Nothing
 * is written or read outside.
 */
#ifndef FM_BASE_BYTES_H
#define FM_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

static inline size_t fm_reader_left(const struct fm_reader *r)
{
	return (size_t)(r->end - r->at);
}

/* Whether len bytes fit. After a failure nothing does any more. */
static inline bool fm_put_fits(struct fm_writer *w, size_t len)
{
	w->failed = w->failed || (size_t)(w->end - w->at) < len;
	return !w->failed;
}

static inline void fm_put_bytes(struct fm_writer *w, const void *p, size_t len)
{
	/* memcpy() may not be given NULL, not even for 0 bytes */
	if (!fm_put_fits(w, len) || len == 0)
		return;
	memcpy(w->at, p, len);
	w->at += len;
}

/* A pointer into the buffer to the next len bytes, which are skipped, or NULL (and failed). */
static inline const uint8_t *fm_get_span(struct fm_reader *r, size_t len)
{
	const uint8_t *at = r->at;

	r->failed = r->failed || fm_reader_left(r) < len;
	if (r->failed)
		return NULL;
	r->at += len;
	return at;
}

static inline void fm_get_bytes(struct fm_reader *r, void *p, size_t len)
{
	const uint8_t *at = fm_get_span(r, len);

	if (len == 0)
		return;
	if (at)
		memcpy(p, at, len);
	else
		memset(p, 0, len);
}

/* In line: a message is a dozen of these, and a pack of small files many thousands. */

static inline void fm_put_u8(struct fm_writer *w, uint8_t v)
{
	fm_put_bytes(w, &v, sizeof(v));
}

static inline void fm_put_le16(struct fm_writer *w, uint16_t v)
{
	v = htole16(v);
	fm_put_bytes(w, &v, sizeof(v));
}

static inline void fm_put_le32(struct fm_writer *w, uint32_t v)
{
	v = htole32(v);
	fm_put_bytes(w, &v, sizeof(v));
}

static inline void fm_put_le64(struct fm_writer *w, uint64_t v)
{
	v = htole64(v);
	fm_put_bytes(w, &v, sizeof(v));
}

static inline uint8_t fm_get_u8(struct fm_reader *r)
{
	uint8_t v;

	fm_get_bytes(r, &v, sizeof(v));
	return v;
}

static inline uint16_t fm_get_le16(struct fm_reader *r)
{
	uint16_t v;

	fm_get_bytes(r, &v, sizeof(v));
	return le16toh(v);
}

static inline uint32_t fm_get_le32(struct fm_reader *r)
{
	uint32_t v;

	fm_get_bytes(r, &v, sizeof(v));
	return le32toh(v);
}

static inline uint64_t fm_get_le64(struct fm_reader *r)
{
	uint64_t v;

	fm_get_bytes(r, &v, sizeof(v));
	return le64toh(v);
}

#endif
