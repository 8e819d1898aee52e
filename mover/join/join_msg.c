/* SPDX-License-Identifier: MIT */
/* join_msg - see join_msg.h. */
#include "mover/join/join_msg.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "mover/base/bytes.h"

#define MAGIC_JOIN UINT32_C(0x4e4a4d46)		/* "FMJN" */
#define MAGIC_JOINED UINT32_C(0x444a4d46)	/* "FMJD" */
#define VERSION 2
#define ERRNO_MAX 4095

#define ADDRS_BYTES (2 + FM_JOIN_ADDRS_MAX * (2 + 2 + 16))

_Static_assert(26 + 2 + FM_JOIN_NAME_MAX + 2 + FM_JOIN_ADDRESS_MAX + ADDRS_BYTES <= FM_JOIN_MSG_MAX,
	       "a JOIN fits");
_Static_assert(12 + 6 + FM_JOIN_NAME_MAX + FM_JOIN_ADDRESS_MAX + FM_JOIN_TEXT_MAX + ADDRS_BYTES <=
		       FM_JOIN_MSG_MAX,
	       "a JOINED fits");

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

static void put_addrs(struct fm_writer *w, const struct fm_join_addrs *addrs)
{
	assert(addrs->count <= FM_JOIN_ADDRS_MAX);
	fm_put_le16(w, (uint16_t)addrs->count);
	for (unsigned i = 0; i < addrs->count; i++) {
		fm_put_le16(w, addrs->addr[i].family);
		fm_put_le16(w, addrs->addr[i].port);
		fm_put_bytes(w, addrs->addr[i].ip, sizeof(addrs->addr[i].ip));
	}
}

static int get_addr(struct fm_reader *r, struct fm_join_addr *a)
{
	static const uint8_t none[12];
	uint16_t family = fm_get_le16(r);

	a->family = (uint8_t)family;
	a->port = fm_get_le16(r);
	fm_get_bytes(r, a->ip, sizeof(a->ip));
	if (r->failed)
		return -EBADMSG;
	if ((family != 4 && family != 6) || a->port == 0)
		return -ERANGE;
	return family == 4 && memcmp(a->ip + 4, none, sizeof(none)) != 0 ? -ERANGE : 0;
}

/* They end the message. */
static int get_addrs(struct fm_reader *r, struct fm_join_addrs *out)
{
	unsigned count = fm_get_le16(r);
	int ret = 0;

	if (r->failed)
		return -EBADMSG;
	if (count > FM_JOIN_ADDRS_MAX)
		return -ERANGE;
	out->count = count;
	for (unsigned i = 0; ret == 0 && i < count; i++)
		ret = get_addr(r, &out->addr[i]);
	if (ret < 0)
		return ret;
	return fm_reader_left(r) == 0 ? 0 : -EBADMSG;
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
	put_addrs(&w, &m->further);
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
	if (ret == 0)
		ret = get_addrs(&r, &m->further);
	if (ret < 0)
		return ret;
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
	put_addrs(&w, &m->further);
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
	if (ret == 0)
		ret = get_addrs(&r, &m->further);
	if (ret < 0)
		return ret;
	if (m->code && m->further.count)
		return -ERANGE;
	return m->code <= ERRNO_MAX && (m->code == 0) == (m->name[0] != '\0') ? 0 : -ERANGE;
}
