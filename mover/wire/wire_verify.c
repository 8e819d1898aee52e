/* SPDX-License-Identifier: MIT */
/*
 * wire_verify - VERIFY and VERIFIED: what is stored is read again and compared with the digests
 * kept.
 */
#include <errno.h>

#include "mover/wire/codec.h"

static void put_verify(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->verify.id);
	fm_put_le32(w, m->verify.uid);
	fm_put_le32(w, m->verify.gid);
	fm_wire_put_str(w, &m->verify.store);
	fm_wire_put_str(w, &m->verify.path);
}

static int get_verify(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->verify.id = fm_get_le64(r);
	m->verify.uid = fm_get_le32(r);
	m->verify.gid = fm_get_le32(r);
	fm_wire_get_str(r, &m->verify.store);
	fm_wire_get_str(r, &m->verify.path);
	return 0;
}

static int check_verify(const struct fm_wire_msg *m)
{
	return fm_wire_is_name(&m->verify.store, 1, FM_WIRE_NAME_MAX) &&
			       fm_wire_is_text(&m->verify.path, FM_WIRE_PATH_MAX)
		       ? 0
		       : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_verify = {
	.name = "VERIFY",
	.put = put_verify,
	.get = get_verify,
	.check = check_verify,
};

static void put_verified(struct fm_writer *w, const struct fm_wire_msg *m)
{
	const struct fm_wire_verified *v = &m->verified;

	fm_put_le64(w, v->id);
	fm_put_le32(w, v->code);
	fm_put_le16(w, v->count);
	fm_wire_put_zeros(w, 2);
	fm_put_le64(w, v->files);
	fm_put_le64(w, v->bytes);
	fm_put_le64(w, v->corrupt);
	fm_put_le64(w, v->unreadable);
	fm_put_le64(w, v->changed);
	fm_put_le64(w, v->missing);
	fm_put_le64(w, v->swapped);
	fm_put_le64(w, v->without);
	fm_put_le64(w, v->unlisted);
	fm_wire_put_str(w, &v->text);
	for (unsigned i = 0; i < v->count; i++) {
		fm_put_u8(w, v->finding[i].kind);
		fm_wire_put_zeros(w, 3);
		fm_put_le64(w, v->finding[i].offset);
		fm_put_le64(w, v->finding[i].length);
		fm_wire_put_str(w, &v->finding[i].path);
	}
}

static int get_verified(struct fm_reader *r, struct fm_wire_msg *m)
{
	struct fm_wire_verified *v = &m->verified;
	int ret;

	v->id = fm_get_le64(r);
	v->code = fm_get_le32(r);
	v->count = fm_get_le16(r);
	if (v->count > FM_WIRE_FINDINGS_MAX)
		return -ERANGE;
	ret = fm_wire_get_zeros(r, 2);
	v->files = fm_get_le64(r);
	v->bytes = fm_get_le64(r);
	v->corrupt = fm_get_le64(r);
	v->unreadable = fm_get_le64(r);
	v->changed = fm_get_le64(r);
	v->missing = fm_get_le64(r);
	v->swapped = fm_get_le64(r);
	v->without = fm_get_le64(r);
	v->unlisted = fm_get_le64(r);
	fm_wire_get_str(r, &v->text);
	for (unsigned i = 0; i < v->count && ret == 0; i++) {
		v->finding[i].kind = fm_get_u8(r);
		ret = fm_wire_get_zeros(r, 3);
		v->finding[i].offset = fm_get_le64(r);
		v->finding[i].length = fm_get_le64(r);
		fm_wire_get_str(r, &v->finding[i].path);
	}
	return ret;
}

static int check_verified(const struct fm_wire_msg *m)
{
	const struct fm_wire_verified *v = &m->verified;

	if (v->code > FM_WIRE_CODE_MAX || !fm_wire_is_text(&v->text, FM_WIRE_TEXT_MAX))
		return -ERANGE;
	if ((v->flags & FM_WIRE_VERIFIED_FULL) && v->code != EBUSY)
		return -EPROTO;
	for (unsigned i = 0; i < v->count; i++) {
		if (v->finding[i].kind < FM_WIRE_CORRUPT || v->finding[i].kind > FM_WIRE_SWAPPED)
			return -ERANGE;
		if (!fm_wire_is_text(&v->finding[i].path, FM_WIRE_PATH_MAX))
			return -ERANGE;
	}
	return 0;
}

const struct fm_wire_codec fm_wire_codec_verified = {
	.name = "VERIFIED",
	.flags = FM_WIRE_VERIFIED_FLAGS,
	.put = put_verified,
	.get = get_verified,
	.check = check_verified,
};
