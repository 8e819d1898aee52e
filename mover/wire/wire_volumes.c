/* SPDX-License-Identifier: MIT */
/*
 * wire_volumes - VOLUMES_ASK and VOLUMES: what a node says of the shared volumes that it has.
 */
#include <errno.h>

#include "mover/wire/codec.h"

#define VOLUMES_HEAD_LEN (4 + 8 + 4 + 2 + 2)
#define VOLUME_HEAD_LEN (1 + 3 + 8)
_Static_assert(VOLUMES_HEAD_LEN + 2 + FM_WIRE_TEXT_MAX +
			       FM_WIRE_VOLUMES_MAX *
				       (VOLUME_HEAD_LEN + 4 * 2 + 2 * FM_WIRE_NAME_MAX +
					FM_WIRE_SUBSYSTEM_MAX + FM_WIRE_WWID_MAX) <=
		       FM_WIRE_MSG_MAX,
	       "the largest VOLUMES fits a message");

static void put_ask(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->volumes_ask.id);
}

static int get_ask(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->volumes_ask.id = fm_get_le64(r);
	return 0;
}

const struct fm_wire_codec fm_wire_codec_volumes_ask = {
	.name = "VOLUMES_ASK",
	.put = put_ask,
	.get = get_ask,
};

static void put_volume(struct fm_writer *w, const struct fm_wire_volume *v)
{
	fm_put_u8(w, v->state);
	fm_wire_put_zeros(w, 3);
	fm_put_le64(w, v->epoch);
	fm_wire_put_str(w, &v->name);
	fm_wire_put_str(w, &v->subsystem);
	fm_wire_put_str(w, &v->wwid);
	fm_wire_put_str(w, &v->writer);
}

static int get_volume(struct fm_reader *r, struct fm_wire_volume *v)
{
	int ret;

	v->state = fm_get_u8(r);
	ret = fm_wire_get_zeros(r, 3);
	v->epoch = fm_get_le64(r);
	fm_wire_get_str(r, &v->name);
	fm_wire_get_str(r, &v->subsystem);
	fm_wire_get_str(r, &v->wwid);
	fm_wire_get_str(r, &v->writer);
	return ret;
}

static int check_volume(const struct fm_wire_volume *v)
{
	if ((v->state & ~FM_WIRE_VOLUME_STATES) ||
	    ((v->state & FM_WIRE_VOLUME_READ_WRITE) && !(v->state & FM_WIRE_VOLUME_MOUNTED)))
		return -ERANGE;
	if (v->epoch > FM_WIRE_SIZE_MAX)	/* as the signed numbers of JSON have it */
		return -ERANGE;
	if (v->subsystem.len == 0 || !fm_wire_is_text(&v->subsystem, FM_WIRE_SUBSYSTEM_MAX) ||
	    !fm_wire_is_text(&v->wwid, FM_WIRE_WWID_MAX))
		return -ERANGE;
	return fm_wire_is_name(&v->name, 1, FM_WIRE_NAME_MAX) &&
			       fm_wire_is_name(&v->writer, 0, FM_WIRE_NAME_MAX)
		       ? 0
		       : -ERANGE;
}

static void put_volumes(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->volumes.id);
	fm_put_le32(w, m->volumes.code);
	fm_put_le16(w, m->volumes.count);
	fm_wire_put_zeros(w, 2);
	fm_wire_put_str(w, &m->volumes.text);
	for (unsigned i = 0; i < m->volumes.count; i++)
		put_volume(w, &m->volumes.volume[i]);
}

static int get_volumes(struct fm_reader *r, struct fm_wire_msg *m)
{
	int ret;

	m->volumes.id = fm_get_le64(r);
	m->volumes.code = fm_get_le32(r);
	m->volumes.count = fm_get_le16(r);
	if (m->volumes.count > FM_WIRE_VOLUMES_MAX)
		return -ERANGE;
	ret = fm_wire_get_zeros(r, 2);
	fm_wire_get_str(r, &m->volumes.text);
	for (unsigned i = 0; i < m->volumes.count && ret == 0; i++)
		ret = get_volume(r, &m->volumes.volume[i]);
	return ret;
}

/* MORE without a volume would go on for ever. */
static int check_volumes(const struct fm_wire_msg *m)
{
	const struct fm_wire_volumes *v = &m->volumes;
	int ret = 0;

	if (v->code > FM_WIRE_CODE_MAX || (v->code != 0 && v->count != 0) ||
	    !fm_wire_is_text(&v->text, FM_WIRE_TEXT_MAX))
		return -ERANGE;
	if ((v->flags & FM_WIRE_VOLUMES_MORE) && v->count == 0)
		return -EPROTO;
	for (unsigned i = 0; i < v->count && ret == 0; i++)
		ret = check_volume(&v->volume[i]);
	return ret;
}

const struct fm_wire_codec fm_wire_codec_volumes = {
	.name = "VOLUMES",
	.flags = FM_WIRE_VOLUMES_MORE,
	.put = put_volumes,
	.get = get_volumes,
	.check = check_volumes,
};
