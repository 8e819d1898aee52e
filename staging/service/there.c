/* SPDX-License-Identifier: MIT */
/* there - see there.h. */
#include "staging/service/there.h"

#include <errno.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "staging/manifest.h"

#define CODE_MAX 4095
#define ONE_LEN (1 + 8)		/* what is said of a dataset */

_Static_assert(10 + FM_STAGE_THERE_MAX * sizeof(struct fm_cache_key) <= FM_WIRE_STAGE_MAX &&
		       14 + FM_STAGE_THERE_MAX * ONE_LEN <= FM_WIRE_STAGE_MAX,
	       "the largest question and its answer fit a message");

size_t fm_stage_question_encode(const struct fm_stage_question *q,
				uint8_t buf[static FM_WIRE_STAGE_MAX])
{
	struct fm_writer w = { buf, buf + FM_WIRE_STAGE_MAX, false };

	if (q->count == 0 || q->count > FM_STAGE_THERE_MAX)
		return 0;
	fm_put_le64(&w, q->id);
	fm_put_le16(&w, (uint16_t)q->count);
	for (unsigned i = 0; i < q->count; i++)
		fm_put_bytes(&w, q->key[i].bytes, sizeof(q->key[i].bytes));
	return (size_t)(w.at - buf);
}

int fm_stage_question_decode(const uint8_t *buf, size_t len, struct fm_stage_question *out)
{
	struct fm_reader r = { buf, buf + len, false };

	out->id = fm_get_le64(&r);
	out->count = fm_get_le16(&r);
	if (out->count == 0 || out->count > FM_STAGE_THERE_MAX)
		return -EBADMSG;
	for (unsigned i = 0; i < out->count; i++)
		fm_get_bytes(&r, out->key[i].bytes, sizeof(out->key[i].bytes));
	return r.failed || fm_reader_left(&r) > 0 ? -EBADMSG : 0;
}

static bool is_sound(const struct fm_stage_answer *a)
{
	if (a->code > 0 || a->code < -CODE_MAX || a->count > FM_STAGE_THERE_MAX ||
	    (a->code && a->count > 0))
		return false;
	for (unsigned i = 0; i < a->count; i++)
		if (a->at[i].state >= FM_STAGE_THERE_STATES || a->at[i].bytes > FM_STAGE_BYTES_MAX)
			return false;
	return true;
}

size_t fm_stage_answer_encode(const struct fm_stage_answer *a,
			      uint8_t buf[static FM_WIRE_STAGE_MAX])
{
	struct fm_writer w = { buf, buf + FM_WIRE_STAGE_MAX, false };

	if (!is_sound(a))
		return 0;
	fm_put_le64(&w, a->id);
	fm_put_le32(&w, (uint32_t)-a->code);
	fm_put_le16(&w, (uint16_t)a->count);
	for (unsigned i = 0; i < a->count; i++) {
		fm_put_u8(&w, a->at[i].state);
		fm_put_le64(&w, a->at[i].bytes);
	}
	return (size_t)(w.at - buf);
}

int fm_stage_answer_decode(const uint8_t *buf, size_t len, struct fm_stage_answer *out)
{
	struct fm_reader r = { buf, buf + len, false };
	uint32_t code;

	out->id = fm_get_le64(&r);
	code = fm_get_le32(&r);
	out->count = fm_get_le16(&r);
	if (code > CODE_MAX || out->count > FM_STAGE_THERE_MAX)
		return -EBADMSG;
	out->code = -(int)code;
	for (unsigned i = 0; i < out->count; i++) {
		out->at[i].state = fm_get_u8(&r);
		out->at[i].bytes = fm_get_le64(&r);
	}
	return r.failed || fm_reader_left(&r) > 0 || !is_sound(out) ? -EBADMSG : 0;
}
