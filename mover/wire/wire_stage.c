/* SPDX-License-Identifier: MIT */
/* wire_stage - STAGE: what nodes that stage one dataset together say to each other. */
#include <errno.h>

#include "mover/wire/codec.h"

#define STAGE_HEAD_LEN (4 + FM_WIRE_STAGE_RUN_LEN + 1 + 1)
_Static_assert(STAGE_HEAD_LEN + 2 + FM_WIRE_STAGE_MAX <= FM_WIRE_MSG_MAX,
	       "the largest STAGE fits a message");

static void put_stage(struct fm_writer *w, const struct fm_wire_msg *m)
{
	const struct fm_wire_str body = { (const char *)m->stage.body, m->stage.len };

	fm_put_bytes(w, m->stage.run, sizeof(m->stage.run));
	fm_put_u8(w, m->stage.kind);
	fm_put_u8(w, 0);
	fm_wire_put_str(w, &body);
}

static int get_stage(struct fm_reader *r, struct fm_wire_msg *m)
{
	struct fm_wire_str body;
	int ret;

	fm_get_bytes(r, m->stage.run, sizeof(m->stage.run));
	m->stage.kind = fm_get_u8(r);
	ret = fm_wire_get_zeros(r, 1);
	fm_wire_get_str(r, &body);
	m->stage.body = (const uint8_t *)body.at;
	m->stage.len = body.len;
	return ret;
}

static int check_stage(const struct fm_wire_msg *m)
{
	bool is_known = m->stage.kind >= FM_WIRE_STAGE_ABOUT &&
			m->stage.kind <= FM_WIRE_STAGE_NAMED;

	return is_known && m->stage.len <= FM_WIRE_STAGE_MAX ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_stage = {
	.name = "STAGE",
	.put = put_stage,
	.get = get_stage,
	.check = check_stage,
};
