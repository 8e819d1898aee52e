/* SPDX-License-Identifier: MIT */
/* keep - see keep.h. */
#include "staging/service/keep.h"

#include <errno.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "staging/service/wire_text.h"

#define CODE_MAX 4095

const char *const fm_stage_verb_names[FM_STAGE_VERB_LAST + 1] = {
	[FM_STAGE_HOLD] = "hold",   [FM_STAGE_RELEASE] = "release", [FM_STAGE_PIN] = "pin",
	[FM_STAGE_UNPIN] = "unpin", [FM_STAGE_UNSTAGE] = "unstage", [FM_STAGE_SHOW] = "showing",
	[FM_STAGE_LET] = "access",
};

_Static_assert(FM_CACHE_NAME_MAX <= FM_STAGE_KEEP_NAME_MAX, "a dataset's name fits");

/* No id, or one as a job's that an order may be logged under. */
static bool is_job(const struct fm_stage_keep *k)
{
	static const char none[FM_WIRE_JOB_LEN];

	if (memcmp(k->job, none, sizeof(none)) == 0)
		return true;
	return k->verb != FM_STAGE_RELEASE && fm_wire_is_good_job(k->job);
}

/* Whether the dataset is named as the verb wants it. */
static bool names_as_it_must(const struct fm_stage_keep *k)
{
	static const struct fm_cache_key none;
	bool has_key = memcmp(&k->key, &none, sizeof(none)) != 0, has_name = k->name[0];

	if (k->verb != FM_STAGE_SHOW && strlen(k->name) > FM_CACHE_NAME_MAX)
		return false;
	switch (k->verb) {
	case FM_STAGE_SHOW:
		return k->hold <= UINT32_MAX && has_key && fm_hub_is_revision(k->name);
	case FM_STAGE_HOLD:
		return k->hold != 0 && has_key && !has_name;
	case FM_STAGE_RELEASE:
		return k->hold != 0 && !has_key && !has_name;
	case FM_STAGE_PIN:
		return k->hold == 0 && has_key != has_name;
	case FM_STAGE_LET:
		return k->hold == 0 && has_key && !has_name;
	case FM_STAGE_UNPIN:
	case FM_STAGE_UNSTAGE:
		return k->hold == 0 && !has_key && has_name;
	}
	return false;
}

size_t fm_stage_keep_encode(const struct fm_stage_keep *k, uint8_t buf[static FM_WIRE_STAGE_MAX])
{
	struct fm_writer w = { buf, buf + FM_WIRE_STAGE_MAX, false };

	if (!is_job(k) || !names_as_it_must(k))
		return 0;
	fm_put_le64(&w, k->id);
	fm_put_u8(&w, (uint8_t)k->verb);
	fm_put_le32(&w, k->uid);
	fm_put_le64(&w, k->hold);
	fm_put_bytes(&w, k->key.bytes, sizeof(k->key.bytes));
	fm_put_bytes(&w, k->job, FM_WIRE_JOB_LEN);
	fm_stage_put_text(&w, k->name);
	return (size_t)(w.at - buf);
}

int fm_stage_keep_decode(const uint8_t *buf, size_t len, struct fm_stage_keep *out)
{
	struct fm_reader r = { buf, buf + len, false };

	out->id = fm_get_le64(&r);
	out->verb = (enum fm_stage_verb)fm_get_u8(&r);
	out->uid = fm_get_le32(&r);
	out->hold = fm_get_le64(&r);
	fm_get_bytes(&r, out->key.bytes, sizeof(out->key.bytes));
	fm_get_bytes(&r, out->job, FM_WIRE_JOB_LEN);
	out->job[FM_WIRE_JOB_LEN] = '\0';
	fm_stage_get_text(&r, out->name, sizeof(out->name));
	return r.failed || fm_reader_left(&r) > 0 || !is_job(out) || !names_as_it_must(out)
		       ? -EBADMSG
		       : 0;
}

size_t fm_stage_kept_encode(const struct fm_stage_kept *k, uint8_t buf[static FM_WIRE_STAGE_MAX])
{
	struct fm_writer w = { buf, buf + FM_WIRE_STAGE_MAX, false };

	if (k->code > 0 || k->code < -CODE_MAX)
		return 0;
	fm_put_le64(&w, k->id);
	fm_put_le32(&w, (uint32_t)-k->code);
	fm_stage_put_text(&w, k->text);
	return (size_t)(w.at - buf);
}

int fm_stage_kept_decode(const uint8_t *buf, size_t len, struct fm_stage_kept *out)
{
	struct fm_reader r = { buf, buf + len, false };
	uint32_t code;

	out->id = fm_get_le64(&r);
	code = fm_get_le32(&r);
	fm_stage_get_text(&r, out->text, sizeof(out->text));
	if (r.failed || fm_reader_left(&r) > 0 || code > CODE_MAX)
		return -EBADMSG;
	out->code = -(int)code;
	return 0;
}
