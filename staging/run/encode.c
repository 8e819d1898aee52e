/* SPDX-License-Identifier: MIT */
/* encode - see encode.h. */
#include "staging/run/encode.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/bytes.h"

static bool has_state(const struct fm_run_msg *m)
{
	return m->type == FM_RUN_JOIN || m->type == FM_RUN_PULSE;
}

static bool is_set(const struct fm_run_page *p, unsigned i)
{
	return p->bits[i / 8] >> (i % 8) & 1;
}

/* ---- put ---- */

static void put_state(struct fm_writer *w, const struct fm_run_state *st)
{
	fm_put_u8(w, st->place);
	fm_put_u8(w, st->can_read);
	fm_put_u8(w, st->uploads);
	fm_put_le32(w, (uint32_t)st->code);
	fm_put_le32(w, st->order);
	fm_put_le32(w, st->have_count);
	fm_put_le64(w, st->up);
	fm_put_le64(w, st->wanted);
	fm_put_u8(w, st->lease_count);
	for (unsigned i = 0; i < st->lease_count; i++) {
		fm_put_le32(w, st->lease[i].extent);
		fm_put_u8(w, st->lease[i].is_revoked);
	}
	fm_put_u8(w, st->coming_count);
	for (unsigned i = 0; i < st->coming_count; i++) {
		fm_put_le32(w, st->coming[i].extent);
		fm_put_u8(w, st->coming[i].from);
	}
}

static void put_page(struct fm_writer *w, const struct fm_run_page *p)
{
	fm_put_le32(w, p->first);
	fm_put_u8(w, p->is_last);
	fm_put_bytes(w, p->bits, sizeof(p->bits));
	for (unsigned i = 0; i < FM_RUN_PAGE; i++)
		if (is_set(p, i))
			fm_put_le32(w, p->crc[i]);
}

size_t fm_run_encode(const struct fm_run_msg *msg, uint8_t buf[static FM_RUN_BYTES_MAX])
{
	struct fm_writer w = {buf, buf + FM_RUN_BYTES_MAX, false};

	fm_put_u8(&w, msg->type);
	fm_put_u8(&w, msg->from);
	fm_put_u8(&w, msg->to);
	fm_put_u8(&w, msg->hops);
	fm_put_u8(&w, msg->node);
	fm_put_u8(&w, msg->slot);
	fm_put_u8(&w, msg->shape);
	fm_put_u8(&w, 0);
	fm_put_le32(&w, (uint32_t)msg->code);
	fm_put_le32(&w, msg->join);
	fm_put_le32(&w, msg->order);
	fm_put_le32(&w, msg->extent);
	fm_put_le32(&w, msg->crc);
	fm_put_le32(&w, msg->number);
	fm_put_le64(&w, msg->nodes);
	if (has_state(msg))
		put_state(&w, &msg->state);
	else if (msg->type == FM_RUN_PAGE_OF)
		put_page(&w, &msg->page);
	assert(!w.failed);	/* FM_RUN_BYTES_MAX */
	return (size_t)(w.at - buf);
}

/* ---- get ---- */

static bool get_bool(struct fm_reader *r)
{
	uint8_t v = fm_get_u8(r);

	r->failed = r->failed || v > 1;
	return v == 1;
}

static uint8_t get_up_to(struct fm_reader *r, unsigned max)
{
	uint8_t v = fm_get_u8(r);

	r->failed = r->failed || v > max;
	return r->failed ? 0 : v;
}

static void get_state(struct fm_reader *r, struct fm_run_state *st)
{
	st->place = get_up_to(r, FM_RUN_PLACES - 1);
	st->can_read = get_bool(r);
	st->uploads = get_up_to(r, FM_RUN_UPLOADS_MAX);
	r->failed = r->failed || st->uploads == 0;
	st->code = (int32_t)fm_get_le32(r);
	st->order = fm_get_le32(r);
	st->have_count = fm_get_le32(r);
	st->up = fm_get_le64(r);
	st->wanted = fm_get_le64(r);
	st->lease_count = get_up_to(r, FM_RUN_LEASES);
	for (unsigned i = 0; i < st->lease_count; i++) {
		st->lease[i].extent = fm_get_le32(r);
		st->lease[i].is_revoked = get_bool(r);
	}
	st->coming_count = get_up_to(r, FM_RUN_SLOTS);
	for (unsigned i = 0; i < st->coming_count; i++) {
		st->coming[i].extent = fm_get_le32(r);
		st->coming[i].from = fm_get_u8(r);
	}
}

static void get_page(struct fm_reader *r, struct fm_run_page *p)
{
	p->first = fm_get_le32(r);
	p->is_last = get_bool(r);
	fm_get_bytes(r, p->bits, sizeof(p->bits));
	r->failed = r->failed || p->first % FM_RUN_PAGE != 0;
	for (unsigned i = 0; i < FM_RUN_PAGE; i++)
		if (is_set(p, i))
			p->crc[i] = fm_get_le32(r);
}

int fm_run_decode(const uint8_t *buf, size_t len, struct fm_run_msg *msg)
{
	struct fm_reader r = {buf, buf + len, false};

	memset(msg, 0, sizeof(*msg));
	msg->type = get_up_to(&r, FM_RUN_MSG_TYPES - 1);
	msg->from = get_up_to(&r, FM_RUN_NODES_MAX - 1);
	msg->to = get_up_to(&r, FM_RUN_NODES_MAX - 1);
	msg->hops = get_up_to(&r, 1);
	msg->node = fm_get_u8(&r);
	msg->slot = get_up_to(&r, FM_RUN_SLOTS - 1);
	msg->shape = fm_get_u8(&r);
	(void)get_up_to(&r, 0);
	msg->code = (int32_t)fm_get_le32(&r);
	msg->join = fm_get_le32(&r);
	msg->order = fm_get_le32(&r);
	msg->extent = fm_get_le32(&r);
	msg->crc = fm_get_le32(&r);
	msg->number = fm_get_le32(&r);
	msg->nodes = fm_get_le64(&r);
	if (has_state(msg))
		get_state(&r, &msg->state);
	else if (msg->type == FM_RUN_PAGE_OF)
		get_page(&r, &msg->page);
	return r.failed || fm_reader_left(&r) > 0 ? -EBADMSG : 0;
}
