/* SPDX-License-Identifier: MIT */
/* wire_facts - FACTS_ASK and FACTS: what a node says of itself, a document in pieces. */
#include <errno.h>

#include "mover/wire/codec.h"

#define FACTS_HEAD_LEN (4 + 8 + 4)
_Static_assert(FACTS_HEAD_LEN + 2 + FM_WIRE_TEXT_MAX + 2 + FM_WIRE_FACTS_MAX <= FM_WIRE_MSG_MAX,
	       "the largest FACTS fits a message");

static void put_ask(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->facts_ask.id);
}

static int get_ask(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->facts_ask.id = fm_get_le64(r);
	return 0;
}

const struct fm_wire_codec fm_wire_codec_facts_ask = {
	.name = "FACTS_ASK",
	.put = put_ask,
	.get = get_ask,
};

static void put_facts(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->facts.id);
	fm_put_le32(w, m->facts.code);
	fm_wire_put_str(w, &m->facts.text);
	fm_wire_put_str(w, &m->facts.piece);
}

static int get_facts(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->facts.id = fm_get_le64(r);
	m->facts.code = fm_get_le32(r);
	fm_wire_get_str(r, &m->facts.text);
	fm_wire_get_str(r, &m->facts.piece);
	return 0;
}

/* MORE without a piece would go on for ever. */
static int check_facts(const struct fm_wire_msg *m)
{
	const struct fm_wire_facts *f = &m->facts;

	if (f->code > FM_WIRE_CODE_MAX || (f->code != 0 && f->piece.len > 0) ||
	    !fm_wire_is_text(&f->text, FM_WIRE_TEXT_MAX) ||
	    !fm_wire_is_text(&f->piece, FM_WIRE_FACTS_MAX))
		return -ERANGE;
	return (f->flags & FM_WIRE_FACTS_MORE) && f->piece.len == 0 ? -EPROTO : 0;
}

const struct fm_wire_codec fm_wire_codec_facts = {
	.name = "FACTS",
	.flags = FM_WIRE_FACTS_MORE,
	.put = put_facts,
	.get = get_facts,
	.check = check_facts,
};
