/* SPDX-License-Identifier: MIT */
/*
 * wire_xfer - the messages of a transfer: PUT, READY, GET, FOUND, FINISH, DONE, ABORT.
 */
#include <errno.h>

#include "mover/wire/codec.h"

/* Where a file is: store, then path. The path may be empty: the store itself. */
static bool is_place(const struct fm_wire_str *store, const struct fm_wire_str *path)
{
	return fm_wire_is_name(store, 1, FM_WIRE_NAME_MAX) && fm_wire_is_text(path, FM_WIRE_PATH_MAX);
}

static void put_put(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->put.xfer);
	fm_put_le64(w, m->put.size);
	fm_put_le32(w, m->put.chunk);
	fm_put_le32(w, m->put.mode);
	fm_put_le64(w, (uint64_t)m->put.mtime_ns);
	fm_put_le32(w, m->put.uid);
	fm_put_le32(w, m->put.gid);
	fm_put_u8(w, m->put.durability);
	fm_wire_put_zeros(w, 3);
	fm_wire_put_str(w, &m->put.store);
	fm_wire_put_str(w, &m->put.path);
}

static int get_put(struct fm_reader *r, struct fm_wire_msg *m)
{
	int ret;

	m->put.xfer = fm_get_le64(r);
	m->put.size = fm_get_le64(r);
	m->put.chunk = fm_get_le32(r);
	m->put.mode = fm_get_le32(r);
	m->put.mtime_ns = (int64_t)fm_get_le64(r);
	m->put.uid = fm_get_le32(r);
	m->put.gid = fm_get_le32(r);
	m->put.durability = fm_get_u8(r);
	ret = fm_wire_get_zeros(r, 3);
	fm_wire_get_str(r, &m->put.store);
	fm_wire_get_str(r, &m->put.path);
	return ret;
}

static int check_put(const struct fm_wire_msg *m)
{
	const struct fm_wire_put *p = &m->put;

	if (p->size > FM_WIRE_SIZE_MAX && p->size != FM_WIRE_SIZE_UNKNOWN)
		return -ERANGE;
	if (!fm_wire_is_chunk(p->chunk) || p->mode > FM_WIRE_MODE_MAX || p->durability > FM_WIRE_DURABLE_MEMORY)
		return -ERANGE;
	return is_place(&p->store, &p->path) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_put = {
	.name = "PUT",
	.flags = FM_WIRE_PUT_FLAGS,
	.put = put_put,
	.get = get_put,
	.check = check_put,
};

static void put_ready(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->ready.xfer);
	fm_put_le32(w, m->ready.chunk);
	fm_wire_put_str(w, &m->ready.note);
}

static int get_ready(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->ready.xfer = fm_get_le64(r);
	m->ready.chunk = fm_get_le32(r);
	fm_wire_get_str(r, &m->ready.note);
	return 0;
}

static int check_ready(const struct fm_wire_msg *m)
{
	if (!fm_wire_is_chunk(m->ready.chunk))
		return -ERANGE;
	return fm_wire_is_text(&m->ready.note, FM_WIRE_TEXT_MAX) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_ready = {
	.name = "READY",
	.flags = FM_WIRE_READY_FLAGS,
	.put = put_ready,
	.get = get_ready,
	.check = check_ready,
};

static void put_get(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->get.xfer);
	fm_put_le32(w, m->get.chunk);
	fm_put_le64(w, m->get.rate_bytes);
	fm_put_le32(w, m->get.uid);
	fm_put_le32(w, m->get.gid);
	fm_wire_put_str(w, &m->get.store);
	fm_wire_put_str(w, &m->get.path);
}

static int get_get(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->get.xfer = fm_get_le64(r);
	m->get.chunk = fm_get_le32(r);
	m->get.rate_bytes = fm_get_le64(r);
	m->get.uid = fm_get_le32(r);
	m->get.gid = fm_get_le32(r);
	fm_wire_get_str(r, &m->get.store);
	fm_wire_get_str(r, &m->get.path);
	return 0;
}

static int check_get(const struct fm_wire_msg *m)
{
	const struct fm_wire_get *g = &m->get;

	if ((g->flags & (FM_WIRE_GET_TCP | FM_WIRE_GET_RDMA)) == 0)
		return -EPROTO;
	if (!fm_wire_is_chunk(g->chunk))
		return -ERANGE;
	return is_place(&g->store, &g->path) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_get = {
	.name = "GET",
	.flags = FM_WIRE_GET_FLAGS,
	.put = put_get,
	.get = get_get,
	.check = check_get,
};

static void put_found(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->found.xfer);
	fm_put_le64(w, m->found.size);
	fm_put_le32(w, m->found.mode);
	fm_put_le64(w, (uint64_t)m->found.mtime_ns);
	fm_wire_put_str(w, &m->found.note);
}

static int get_found(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->found.xfer = fm_get_le64(r);
	m->found.size = fm_get_le64(r);
	m->found.mode = fm_get_le32(r);
	m->found.mtime_ns = (int64_t)fm_get_le64(r);
	fm_wire_get_str(r, &m->found.note);
	return 0;
}

static int check_found(const struct fm_wire_msg *m)
{
	const struct fm_wire_found *f = &m->found;

	if (f->size > FM_WIRE_SIZE_MAX || f->mode > FM_WIRE_MODE_MAX)
		return -ERANGE;
	return fm_wire_is_text(&f->note, FM_WIRE_TEXT_MAX) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_found = {
	.name = "FOUND",
	.flags = FM_WIRE_FOUND_FLAGS,
	.put = put_found,
	.get = get_found,
	.check = check_found,
};

static void put_finish(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->finish.xfer);
	fm_put_le64(w, m->finish.size);
	fm_put_le64(w, m->finish.data_bytes);
	fm_put_le64(w, m->finish.chunks);
	fm_put_le32(w, m->finish.crc);
	fm_wire_put_zeros(w, 4);
}

static int get_finish(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->finish.xfer = fm_get_le64(r);
	m->finish.size = fm_get_le64(r);
	m->finish.data_bytes = fm_get_le64(r);
	m->finish.chunks = fm_get_le64(r);
	m->finish.crc = fm_get_le32(r);
	return fm_wire_get_zeros(r, 4);
}

/* A chunk has at least one byte, and bytes come in chunks. */
static int check_finish(const struct fm_wire_msg *m)
{
	const struct fm_wire_finish *f = &m->finish;

	if (f->size > FM_WIRE_SIZE_MAX || f->data_bytes > f->size || f->chunks > f->data_bytes)
		return -ERANGE;
	return f->data_bytes > 0 && f->chunks == 0 ? -ERANGE : 0;
}

const struct fm_wire_codec fm_wire_codec_finish = {
	.name = "FINISH",
	.put = put_finish,
	.get = get_finish,
	.check = check_finish,
};

static void put_done(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->done.xfer);
}

static int get_done(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->done.xfer = fm_get_le64(r);
	return 0;
}

const struct fm_wire_codec fm_wire_codec_done = {
	.name = "DONE",
	.flags = FM_WIRE_READY_FLAGS,
	.put = put_done,
	.get = get_done,
};

static void put_abort(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->abort.xfer);
	fm_put_le32(w, m->abort.code);
	fm_wire_put_str(w, &m->abort.text);
}

static int get_abort(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->abort.xfer = fm_get_le64(r);
	m->abort.code = fm_get_le32(r);
	fm_wire_get_str(r, &m->abort.text);
	return 0;
}

static int check_abort(const struct fm_wire_msg *m)
{
	if (m->abort.code < 1 || m->abort.code > FM_WIRE_CODE_MAX)
		return -ERANGE;
	return fm_wire_is_text(&m->abort.text, FM_WIRE_TEXT_MAX) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_abort = {
	.name = "ABORT",
	.put = put_abort,
	.get = get_abort,
	.check = check_abort,
};
