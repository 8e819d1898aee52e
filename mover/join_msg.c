/* SPDX-License-Identifier: MIT */
/* join_msg - see join_msg.h. */
#include "mover/join_msg.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "mover/base/bytes.h"

#define MAGIC_JOIN UINT32_C(0x4e4a4d46)		/* "FMJN" */
#define MAGIC_JOINED UINT32_C(0x444a4d46)	/* "FMJD" */
#define VERSION 1
#define ERRNO_MAX 4095

_Static_assert(26 + 2 + FM_JOIN_NAME_MAX + 2 + FM_JOIN_ADDRESS_MAX <= FM_JOIN_MSG_MAX, "a JOIN fits");
_Static_assert(12 + 6 + FM_JOIN_NAME_MAX + FM_JOIN_ADDRESS_MAX + FM_JOIN_TEXT_MAX <= FM_JOIN_MSG_MAX, "a JOINED fits");

static void put_string(struct fm_writer *w, const char *text, size_t max)
{
	size_t len = strlen(text);

	assert(len <= max);
	fm_put_le16(w, (uint16_t)len);
	fm_put_bytes(w, text, len);
}

/* Into out, which has room for max and a terminator. */
static int get_string(struct fm_reader *r, char *out, size_t max)
{
	size_t len = fm_get_le16(r);
	const uint8_t *at = fm_get_span(r, len);

	if (!at)
		return -EBADMSG;
	if (len > max || memchr(at, '\0', len))
		return -ERANGE;
	memcpy(out, at, len);
	out[len] = '\0';
	return 0;
}

static void put_head(struct fm_writer *w, uint32_t magic)
{
	fm_put_le32(w, magic);
	fm_put_le16(w, VERSION);
	fm_put_le16(w, 0);
}

static int get_head(struct fm_reader *r, uint32_t magic)
{
	bool is_ours = fm_get_le32(r) == magic;
	uint16_t version = fm_get_le16(r);
	uint16_t flags = fm_get_le16(r);

	if (r->failed)
		return -EBADMSG;
	return is_ours && version == VERSION && flags == 0 ? 0 : -EPROTO;
}

size_t fm_join_request_encode(const struct fm_join_request *m, uint8_t buf[static FM_JOIN_MSG_MAX])
{
	struct fm_writer w = { .at = buf, .end = buf + FM_JOIN_MSG_MAX };

	assert(m->name[0]);
	put_head(&w, MAGIC_JOIN);
	fm_put_bytes(&w, m->secret, sizeof(m->secret));
	fm_put_le16(&w, m->port);
	put_string(&w, m->name, FM_JOIN_NAME_MAX);
	put_string(&w, m->address, FM_JOIN_ADDRESS_MAX);
	assert(!w.failed);
	return (size_t)(w.at - buf);
}

int fm_join_request_decode(const uint8_t *buf, size_t len, struct fm_join_request *m)
{
	struct fm_reader r = { .at = buf, .end = buf + len };
	int ret = get_head(&r, MAGIC_JOIN);

	if (ret < 0)
		return ret;
	fm_get_bytes(&r, m->secret, sizeof(m->secret));
	m->port = fm_get_le16(&r);
	if (r.failed)
		return -EBADMSG;
	ret = get_string(&r, m->name, FM_JOIN_NAME_MAX);
	if (ret == 0)
		ret = get_string(&r, m->address, FM_JOIN_ADDRESS_MAX);
	if (ret < 0)
		return ret;
	if (fm_reader_left(&r) != 0)
		return -EBADMSG;
	return m->name[0] ? 0 : -ERANGE;
}

size_t fm_join_answer_encode(const struct fm_join_answer *m, uint8_t buf[static FM_JOIN_MSG_MAX])
{
	struct fm_writer w = { .at = buf, .end = buf + FM_JOIN_MSG_MAX };

	assert(m->code <= ERRNO_MAX && (m->code == 0) == (m->name[0] != '\0'));
	put_head(&w, MAGIC_JOINED);
	fm_put_le32(&w, m->code);
	put_string(&w, m->name, FM_JOIN_NAME_MAX);
	put_string(&w, m->address, FM_JOIN_ADDRESS_MAX);
	put_string(&w, m->text, FM_JOIN_TEXT_MAX);
	assert(!w.failed);
	return (size_t)(w.at - buf);
}

int fm_join_answer_decode(const uint8_t *buf, size_t len, struct fm_join_answer *m)
{
	struct fm_reader r = { .at = buf, .end = buf + len };
	int ret = get_head(&r, MAGIC_JOINED);

	if (ret < 0)
		return ret;
	m->code = fm_get_le32(&r);
	if (r.failed)
		return -EBADMSG;
	ret = get_string(&r, m->name, FM_JOIN_NAME_MAX);
	if (ret == 0)
		ret = get_string(&r, m->address, FM_JOIN_ADDRESS_MAX);
	if (ret == 0)
		ret = get_string(&r, m->text, FM_JOIN_TEXT_MAX);
	if (ret < 0)
		return ret;
	if (fm_reader_left(&r) != 0)
		return -EBADMSG;
	return m->code <= ERRNO_MAX && (m->code == 0) == (m->name[0] != '\0') ? 0 : -ERANGE;
}
