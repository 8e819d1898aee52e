/* SPDX-License-Identifier: MIT */
/* find_msg - see find_msg.h. */
#include "mover/join/find_msg.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "mover/base/bytes.h"

#define MAGIC_FIND UINT32_C(0x51464d46)		/* "FMFQ" */
#define MAGIC_FOUND UINT32_C(0x41464d46)	/* "FMFA" */
#define VERSION 1
#define HEAD_LEN 16

_Static_assert(HEAD_LEN + 2 + 2 + FM_JOIN_NAME_MAX <= FM_FIND_LEN,
	       "no answer is larger than its question");

static void put_head(struct fm_writer *w, uint32_t magic,
		     const uint8_t nonce[static FM_FIND_NONCE_LEN])
{
	fm_put_le32(w, magic);
	fm_put_le16(w, VERSION);
	fm_put_le16(w, 0);
	fm_put_bytes(w, nonce, FM_FIND_NONCE_LEN);
}

static int get_head(struct fm_reader *r, uint32_t magic, uint8_t nonce[static FM_FIND_NONCE_LEN])
{
	bool is_ours = fm_get_le32(r) == magic;
	uint16_t version = fm_get_le16(r);
	uint16_t flags = fm_get_le16(r);

	fm_get_bytes(r, nonce, FM_FIND_NONCE_LEN);
	if (r->failed)
		return -EBADMSG;
	return is_ours && version == VERSION && flags == 0 ? 0 : -EPROTO;
}

void fm_find_encode(const uint8_t nonce[static FM_FIND_NONCE_LEN], uint8_t buf[static FM_FIND_LEN])
{
	struct fm_writer w = { .at = buf, .end = buf + FM_FIND_LEN };

	memset(buf, 0, FM_FIND_LEN);
	put_head(&w, MAGIC_FIND, nonce);
}

int fm_find_decode(const uint8_t *buf, size_t len, uint8_t nonce[static FM_FIND_NONCE_LEN])
{
	static const uint8_t none[FM_FIND_LEN - HEAD_LEN];
	struct fm_reader r = { .at = buf, .end = buf + len };
	int ret = len == FM_FIND_LEN ? get_head(&r, MAGIC_FIND, nonce) : -EBADMSG;

	if (ret < 0)
		return ret;
	return memcmp(buf + HEAD_LEN, none, sizeof(none)) == 0 ? 0 : -EPROTO;
}

size_t fm_find_found_encode(const struct fm_find_found *m, uint8_t buf[static FM_FIND_LEN])
{
	struct fm_writer w = { .at = buf, .end = buf + FM_FIND_LEN };
	size_t len = strlen(m->name);

	assert(len > 0 && len <= FM_JOIN_NAME_MAX);
	put_head(&w, MAGIC_FOUND, m->nonce);
	fm_put_le16(&w, m->port);
	fm_put_le16(&w, (uint16_t)len);
	fm_put_bytes(&w, m->name, len);
	assert(!w.failed);
	return (size_t)(w.at - buf);
}

int fm_find_found_decode(const uint8_t *buf, size_t len, struct fm_find_found *m)
{
	struct fm_reader r = { .at = buf, .end = buf + len };
	int ret = get_head(&r, MAGIC_FOUND, m->nonce);
	const uint8_t *name;
	size_t name_len;

	if (ret < 0)
		return ret;
	m->port = fm_get_le16(&r);
	name_len = fm_get_le16(&r);
	name = fm_get_span(&r, name_len);
	if (!name || fm_reader_left(&r) > 0)
		return -EBADMSG;
	if (name_len == 0 || name_len > FM_JOIN_NAME_MAX || memchr(name, '\0', name_len))
		return -ERANGE;
	memcpy(m->name, name, name_len);
	m->name[name_len] = '\0';
	return 0;
}
