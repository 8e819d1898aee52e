/* SPDX-License-Identifier: MIT */
/* codec - the table of messages, and what all of them have: type, flags, strings, zeros. See wire.h
 * and codec.h. */
#include "mover/wire/wire.h"

#include <errno.h>
#include <string.h>

#include "mover/wire/codec.h"

static const struct fm_wire_codec *const codecs[] = {
	[FM_WIRE_HELLO] = &fm_wire_codec_hello,
	[FM_WIRE_ADDRS] = &fm_wire_codec_addrs,
	[FM_WIRE_TOKENS_WANT] = &fm_wire_codec_tokens_want,
	[FM_WIRE_TOKENS] = &fm_wire_codec_tokens,
	[FM_WIRE_PING] = &fm_wire_codec_ping,
	[FM_WIRE_PONG] = &fm_wire_codec_pong,
	[FM_WIRE_PUT] = &fm_wire_codec_put,
	[FM_WIRE_READY] = &fm_wire_codec_ready,
	[FM_WIRE_GET] = &fm_wire_codec_get,
	[FM_WIRE_FOUND] = &fm_wire_codec_found,
	[FM_WIRE_FINISH] = &fm_wire_codec_finish,
	[FM_WIRE_DONE] = &fm_wire_codec_done,
	[FM_WIRE_ABORT] = &fm_wire_codec_abort,
	[FM_WIRE_REQUEST] = &fm_wire_codec_request,
	[FM_WIRE_REPLY] = &fm_wire_codec_reply,
	[FM_WIRE_BYE] = &fm_wire_codec_bye,
	[FM_WIRE_NEED] = &fm_wire_codec_need,
	[FM_WIRE_COMMIT] = &fm_wire_codec_commit,
	[FM_WIRE_VERIFY] = &fm_wire_codec_verify,
	[FM_WIRE_VERIFIED] = &fm_wire_codec_verified,
	[FM_WIRE_VOLUMES_ASK] = &fm_wire_codec_volumes_ask,
	[FM_WIRE_VOLUMES] = &fm_wire_codec_volumes,
	[FM_WIRE_KEPT] = &fm_wire_codec_kept,
	[FM_WIRE_SPACE] = &fm_wire_codec_space,
	[FM_WIRE_RECEIVED] = &fm_wire_codec_received,
	[FM_WIRE_RESUME] = &fm_wire_codec_resume,
	[FM_WIRE_WINDOW] = &fm_wire_codec_window,
	[FM_WIRE_NAMES] = &fm_wire_codec_names,
	[FM_WIRE_FACTS_ASK] = &fm_wire_codec_facts_ask,
	[FM_WIRE_FACTS] = &fm_wire_codec_facts,
	[FM_WIRE_STAGE] = &fm_wire_codec_stage,
	[FM_WIRE_GROUPS] = &fm_wire_codec_groups,
};

#define CODECS (sizeof(codecs) / sizeof(codecs[0]))

static const struct fm_wire_codec *codec_of(unsigned type)
{
	return type < CODECS ? codecs[type] : NULL;
}

/* Where a message of this type keeps its flags; NULL: it has none. */
static uint16_t *flags_of(struct fm_wire_msg *m)
{
	switch (m->type) {
	case FM_WIRE_PUT:
		return &m->put.flags;
	case FM_WIRE_READY:
		return &m->ready.flags;
	case FM_WIRE_GET:
		return &m->get.flags;
	case FM_WIRE_FOUND:
		return &m->found.flags;
	case FM_WIRE_FINISH:
		return &m->finish.flags;
	case FM_WIRE_DONE:
		return &m->done.flags;
	case FM_WIRE_ABORT:
		return &m->abort.flags;
	case FM_WIRE_REQUEST:
		return &m->request.flags;
	case FM_WIRE_REPLY:
		return &m->reply.flags;
	case FM_WIRE_SPACE:
		return &m->space.flags;
	case FM_WIRE_GROUPS:
		return &m->groups.flags;
	case FM_WIRE_VERIFIED:
		return &m->verified.flags;
	case FM_WIRE_VOLUMES:
		return &m->volumes.flags;
	case FM_WIRE_FACTS:
		return &m->facts.flags;
	case FM_WIRE_KEPT:
		return &m->kept.flags;
	default:
		return NULL;
	}
}

size_t fm_wire_encode(const struct fm_wire_msg *msg, uint8_t buf[static FM_WIRE_MSG_MAX])
{
	const struct fm_wire_codec *codec = codec_of(msg->type);
	const uint16_t *flags = flags_of((struct fm_wire_msg *)msg);	/* only read */
	struct fm_writer w = { buf, buf + FM_WIRE_MSG_MAX, false };

	if (!codec || (flags && (*flags & ~codec->flags) != 0) ||
	    (codec->check && codec->check(msg) < 0))
		return 0;
	fm_put_le16(&w, (uint16_t)msg->type);
	fm_put_le16(&w, flags ? *flags : 0);
	codec->put(&w, msg);
	return w.failed ? 0 : (size_t)(w.at - buf);
}

int fm_wire_decode(const uint8_t *buf, size_t len, struct fm_wire_msg *msg)
{
	struct fm_reader r = { buf, buf + len, false };
	uint16_t type = fm_get_le16(&r);
	uint16_t flags = fm_get_le16(&r);
	const struct fm_wire_codec *codec = codec_of(type);
	uint16_t *flags_at;
	int ret;

	if (r.failed || len > FM_WIRE_MSG_MAX)
		return -EBADMSG;
	if (!codec || (flags & ~codec->flags) != 0)
		return -EPROTO;
	msg->type = (enum fm_wire_type)type;
	flags_at = flags_of(msg);
	if (flags_at)
		*flags_at = flags;
	ret = codec->get(&r, msg);
	if (r.failed)
		return -EBADMSG;
	if (ret < 0)
		return ret;
	if (fm_reader_left(&r) > 0 && !codec->is_extensible)
		return -EBADMSG;
	return codec->check ? codec->check(msg) : 0;
}

const char *fm_wire_type_name(unsigned type)
{
	const struct fm_wire_codec *codec = codec_of(type);

	return codec ? codec->name : "?";
}

struct fm_wire_str fm_wire_str(const char *text)
{
	return (struct fm_wire_str){ text, strlen(text) };
}

bool fm_wire_is_good_name(const char *at, size_t len)
{
	return fm_wire_is_name(&(struct fm_wire_str){ at, len }, 1, FM_WIRE_NAME_MAX);
}

bool fm_wire_is_good_path(const char *at, size_t len)
{
	return fm_wire_is_text(&(struct fm_wire_str){ at, len }, FM_WIRE_PATH_MAX);
}

void fm_wire_put_str(struct fm_writer *w, const struct fm_wire_str *s)
{
	if (s->len > UINT16_MAX)
		w->failed = true;
	fm_put_le16(w, (uint16_t)s->len);
	fm_put_bytes(w, s->at, s->len);
}

void fm_wire_get_str(struct fm_reader *r, struct fm_wire_str *s)
{
	size_t len = fm_get_le16(r);

	s->at = (const char *)fm_get_span(r, len);
	s->len = s->at ? len : 0;
}

void fm_wire_put_zeros(struct fm_writer *w, size_t len)
{
	while (len-- > 0)
		fm_put_u8(w, 0);
}

int fm_wire_get_zeros(struct fm_reader *r, size_t len)
{
	uint8_t seen = 0;

	while (len-- > 0)
		seen |= fm_get_u8(r);
	return seen ? -ERANGE : 0;
}

bool fm_wire_is_text(const struct fm_wire_str *s, size_t max)
{
	return s->len <= max && (s->len == 0 || !memchr(s->at, '\0', s->len));
}

bool fm_wire_is_name(const struct fm_wire_str *s, size_t min, size_t max)
{
	return s->len >= min && fm_wire_is_text(s, max) &&
	       (s->len == 0 || !memchr(s->at, '/', s->len));
}

bool fm_wire_is_address(uint8_t family, const uint8_t address[static 16])
{
	static const uint8_t zeros[12];

	return family == 6 || (family == 4 && memcmp(address + 4, zeros, sizeof(zeros)) == 0);
}

bool fm_wire_is_chunk(uint32_t chunk)
{
	return chunk >= FM_WIRE_CHUNK_MIN && chunk <= FM_WIRE_CHUNK_MAX &&
	       (chunk & (chunk - 1)) == 0;
}
