/* SPDX-License-Identifier: MIT */
/*
 * wire_xfer - the messages of a transfer: PUT, READY, GET, FOUND, FINISH, DONE, ABORT, NEED, KEPT,
 * NAMES, COMMIT.
 */
#include <errno.h>
#include <string.h>

#include "mover/wire/codec.h"
#include "mover/base/block.h"

/* enum fm_tree_change; the tree's header is not ours to include */
#define NAME_CHANGE_MAX 3

/* Where a file is: store, then path. The path may be empty: the store itself. */
static bool is_place(const struct fm_wire_str *store, const struct fm_wire_str *path)
{
	return fm_wire_is_name(store, 1, FM_WIRE_NAME_MAX) &&
	       fm_wire_is_text(path, FM_WIRE_PATH_MAX);
}

bool fm_wire_is_good_job(const char job[static FM_WIRE_JOB_LEN])
{
	for (unsigned i = 0; i < FM_WIRE_JOB_LEN; i++)
		if (!((job[i] >= 'a' && job[i] <= 'z') || (job[i] >= '2' && job[i] <= '7')))
			return false;
	return true;
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
	fm_put_le64(w, m->put.tree);
	fm_put_le64(w, m->put.dev);
	fm_put_le64(w, m->put.ino);
	fm_put_le64(w, (uint64_t)m->put.ctime_ns);
	fm_wire_put_str(w, &m->put.store);
	fm_wire_put_str(w, &m->put.path);
	if (m->put.flags & FM_WIRE_PUT_GROUP)
		fm_put_bytes(w, m->put.group, FM_WIRE_GROUP_LEN);
	if (m->put.flags & FM_WIRE_PUT_JOB)
		fm_put_bytes(w, m->put.job, FM_WIRE_JOB_LEN);
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
	m->put.tree = fm_get_le64(r);
	m->put.dev = fm_get_le64(r);
	m->put.ino = fm_get_le64(r);
	m->put.ctime_ns = (int64_t)fm_get_le64(r);
	fm_wire_get_str(r, &m->put.store);
	fm_wire_get_str(r, &m->put.path);
	memset(m->put.group, 0, FM_WIRE_GROUP_LEN);
	if (m->put.flags & FM_WIRE_PUT_GROUP)
		fm_get_bytes(r, m->put.group, FM_WIRE_GROUP_LEN);
	memset(m->put.job, 0, FM_WIRE_JOB_LEN);
	if (m->put.flags & FM_WIRE_PUT_JOB)
		fm_get_bytes(r, m->put.job, FM_WIRE_JOB_LEN);
	return ret;
}

static int check_put(const struct fm_wire_msg *m)
{
	const struct fm_wire_put *p = &m->put;

	if (p->size > FM_WIRE_SIZE_MAX && p->size != FM_WIRE_SIZE_UNKNOWN)
		return -ERANGE;
	if (!fm_wire_is_chunk(p->chunk) || p->mode > FM_WIRE_MODE_MAX ||
	    p->durability > FM_WIRE_DURABLE_MEMORY)
		return -ERANGE;
	if ((p->flags & FM_WIRE_PUT_TREE) && p->tree != 0)
		return -ERANGE;
	if ((p->flags & (FM_WIRE_PUT_GROUP | FM_WIRE_PUT_JOB)) && p->tree != 0)
		return -EPROTO;
	if ((p->flags & FM_WIRE_PUT_JOB) && !fm_wire_is_good_job(p->job))
		return -ERANGE;
	if (!(p->flags & FM_WIRE_PUT_TREE) &&
	    (p->flags & (FM_WIRE_PUT_UPDATE | FM_WIRE_PUT_CHECKSUM | FM_WIRE_PUT_DRY |
			 FM_WIRE_PUT_DELETE | FM_WIRE_PUT_NAMES)))
		return -EPROTO;
	if (p->tree != 0)
		return p->store.len == 0 && p->path.len > 0 && p->size != FM_WIRE_SIZE_UNKNOWN &&
				       fm_wire_is_text(&p->path, FM_WIRE_PATH_MAX) ?
			       0 :
			       -ERANGE;
	return is_place(&p->store, &p->path) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_put = {
	.name = "PUT",
	.flags = FM_WIRE_PUT_FLAGS,
	.put = put_put,
	.get = get_put,
	.check = check_put,
};

struct fm_wire_range fm_wire_range(const uint8_t *have, unsigned i)
{
	struct fm_reader r = {have + (size_t)i * FM_WIRE_RANGE_LEN,
			      have + (size_t)(i + 1) * FM_WIRE_RANGE_LEN, false};
	struct fm_wire_range range;

	range.offset = fm_get_le64(&r);
	range.len = fm_get_le64(&r);
	return range;
}

void fm_wire_set_range(uint8_t *have, unsigned i, struct fm_wire_range range)
{
	struct fm_writer w = {have + (size_t)i * FM_WIRE_RANGE_LEN,
			      have + (size_t)(i + 1) * FM_WIRE_RANGE_LEN, false};

	fm_put_le64(&w, range.offset);
	fm_put_le64(&w, range.len);
}

static void put_ready(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->ready.xfer);
	fm_put_le32(w, m->ready.chunk);
	fm_put_le32(w, m->ready.have_crc);
	fm_put_le16(w, m->ready.count);
	fm_wire_put_zeros(w, 2);
	if (m->ready.count > 0)
		fm_put_bytes(w, m->ready.have, (size_t)m->ready.count * FM_WIRE_RANGE_LEN);
	fm_wire_put_str(w, &m->ready.note);
}

static int get_ready(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->ready.xfer = fm_get_le64(r);
	m->ready.chunk = fm_get_le32(r);
	m->ready.have_crc = fm_get_le32(r);
	m->ready.count = fm_get_le16(r);
	if (m->ready.count > FM_WIRE_RANGES_MAX || fm_wire_get_zeros(r, 2) < 0)
		return -ERANGE;
	m->ready.have = m->ready.count > 0
				? fm_get_span(r, (size_t)m->ready.count * FM_WIRE_RANGE_LEN)
				: NULL;
	fm_wire_get_str(r, &m->ready.note);
	return 0;
}

/* Sorted, with something between them, and on whole blocks at their start. */
static bool are_ranges(const uint8_t *have, unsigned count)
{
	uint64_t end = 0;

	for (unsigned i = 0; i < count; i++) {
		struct fm_wire_range range = fm_wire_range(have, i);

		if (range.len == 0 || range.offset % FM_BLOCK != 0 ||
		    (i > 0 && range.offset <= end))
			return false;
		if (range.offset > FM_WIRE_SIZE_MAX || range.len > FM_WIRE_SIZE_MAX - range.offset)
			return false;
		end = range.offset + range.len;
	}
	return true;
}

static int check_ready(const struct fm_wire_msg *m)
{
	if (!fm_wire_is_chunk(m->ready.chunk) || !are_ranges(m->ready.have, m->ready.count))
		return -ERANGE;
	if (m->ready.count == 0 && m->ready.have_crc != 0)
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

static void put_only(struct fm_writer *w, const struct fm_wire_get *g)
{
	fm_put_u8(w, g->conns);
	fm_put_u8(w, g->way_count);
	for (unsigned i = 0; i < g->way_count; i++) {
		fm_put_u8(w, g->way[i].family);
		fm_put_bytes(w, g->way[i].source, sizeof(g->way[i].source));
		fm_put_bytes(w, g->way[i].sink, sizeof(g->way[i].sink));
	}
}

static int get_only(struct fm_reader *r, struct fm_wire_get *g)
{
	g->conns = fm_get_u8(r);
	g->way_count = fm_get_u8(r);
	if (g->way_count > FM_WIRE_WAYS_MAX)
		return -ERANGE;
	for (unsigned i = 0; i < g->way_count; i++) {
		g->way[i].family = fm_get_u8(r);
		fm_get_bytes(r, g->way[i].source, sizeof(g->way[i].source));
		fm_get_bytes(r, g->way[i].sink, sizeof(g->way[i].sink));
	}
	return 0;
}

static void put_get(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->get.xfer);
	fm_put_le32(w, m->get.chunk);
	fm_put_le64(w, m->get.rate_bytes);
	fm_put_le32(w, m->get.uid);
	fm_put_le32(w, m->get.gid);
	fm_put_le16(w, m->get.count);
	fm_put_le16(w, m->get.range_count);
	fm_wire_put_str(w, &m->get.store);
	fm_wire_put_str(w, &m->get.path);
	for (unsigned i = 0; i < m->get.count; i++)
		fm_wire_put_str(w, &m->get.exclude[i]);
	if (m->get.range_count > 0)
		fm_put_bytes(w, m->get.ranges, (size_t)m->get.range_count * FM_WIRE_RANGE_LEN);
	if (m->get.flags & FM_WIRE_GET_ONLY)
		put_only(w, &m->get);
	if (m->get.flags & FM_WIRE_GET_JOB)
		fm_put_bytes(w, m->get.job, FM_WIRE_JOB_LEN);
}

static int get_get(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->get.xfer = fm_get_le64(r);
	m->get.chunk = fm_get_le32(r);
	m->get.rate_bytes = fm_get_le64(r);
	m->get.uid = fm_get_le32(r);
	m->get.gid = fm_get_le32(r);
	m->get.count = fm_get_le16(r);
	m->get.range_count = fm_get_le16(r);
	if (m->get.count > FM_WIRE_EXCLUDES_MAX || m->get.range_count > FM_WIRE_GET_RANGES_MAX)
		return -ERANGE;
	fm_wire_get_str(r, &m->get.store);
	fm_wire_get_str(r, &m->get.path);
	for (unsigned i = 0; i < m->get.count; i++)
		fm_wire_get_str(r, &m->get.exclude[i]);
	m->get.ranges = m->get.range_count > 0
				? fm_get_span(r, (size_t)m->get.range_count * FM_WIRE_RANGE_LEN)
				: NULL;
	if (m->get.flags & FM_WIRE_GET_ONLY && get_only(r, &m->get) < 0)
		return -ERANGE;
	memset(m->get.job, 0, FM_WIRE_JOB_LEN);
	if (m->get.flags & FM_WIRE_GET_JOB)
		fm_get_bytes(r, m->get.job, FM_WIRE_JOB_LEN);
	return 0;
}

/* Whether each ends, and all together have no more bytes than a file may have. */
static bool are_parts(const uint8_t *ranges, unsigned count)
{
	uint64_t left = FM_WIRE_SIZE_MAX;

	for (unsigned i = 0; i < count; i++) {
		struct fm_wire_range range = fm_wire_range(ranges, i);

		if (range.offset > FM_WIRE_SIZE_MAX)
			return false;
		if (range.len == FM_WIRE_TO_END)
			continue;	/* where that is only the source knows */
		if (range.len > FM_WIRE_SIZE_MAX - range.offset || range.len > left)
			return false;
		left -= range.len;
	}
	return true;
}

/* For measuring: what is made up has neither ranges nor entries. */
static int check_only(const struct fm_wire_get *g)
{
	if (!(g->flags & FM_WIRE_GET_ONLY))
		return 0;
	if (g->flags & FM_WIRE_GET_TREE || g->range_count > 0 ||
	    (g->conns == 0 && g->way_count == 0))
		return -EPROTO;
	if (g->conns > FM_WIRE_ONLY_CONNS_MAX || g->way_count > FM_WIRE_WAYS_MAX)
		return -ERANGE;
	for (unsigned i = 0; i < g->way_count; i++)
		if (!fm_wire_is_address(g->way[i].family, g->way[i].source) ||
		    !fm_wire_is_address(g->way[i].family, g->way[i].sink))
			return -ERANGE;
	return 0;
}

static int check_get(const struct fm_wire_msg *m)
{
	const struct fm_wire_get *g = &m->get;

	if ((g->flags & (FM_WIRE_GET_TCP | FM_WIRE_GET_RDMA)) == 0)
		return -EPROTO;
	if (g->count > 0 && !(g->flags & FM_WIRE_GET_TREE))
		return -EPROTO;
	if (g->range_count > 0 && g->flags & FM_WIRE_GET_TREE)
		return -EPROTO;
	if (g->range_count == 0 && g->flags & FM_WIRE_GET_VERIFY)
		return -EPROTO;
	if (g->range_count > FM_WIRE_GET_RANGES_MAX || !fm_wire_is_chunk(g->chunk))
		return -ERANGE;
	for (unsigned i = 0; i < g->count; i++)
		if (g->exclude[i].len == 0 ||
		    !fm_wire_is_text(&g->exclude[i], FM_WIRE_EXCLUDE_LEN_MAX))
			return -ERANGE;
	if (!is_place(&g->store, &g->path) ||
	    (g->flags & FM_WIRE_GET_JOB && !fm_wire_is_good_job(g->job)))
		return -ERANGE;
	return are_parts(g->ranges, g->range_count) ? check_only(g) : -ERANGE;
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
	fm_put_le64(w, m->found.dev);
	fm_put_le64(w, m->found.ino);
	fm_put_le64(w, (uint64_t)m->found.ctime_ns);
	fm_wire_put_str(w, &m->found.note);
}

static int get_found(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->found.xfer = fm_get_le64(r);
	m->found.size = fm_get_le64(r);
	m->found.mode = fm_get_le32(r);
	m->found.mtime_ns = (int64_t)fm_get_le64(r);
	m->found.dev = fm_get_le64(r);
	m->found.ino = fm_get_le64(r);
	m->found.ctime_ns = (int64_t)fm_get_le64(r);
	fm_wire_get_str(r, &m->found.note);
	return 0;
}

static int check_found(const struct fm_wire_msg *m)
{
	const struct fm_wire_found *f = &m->found;

	if ((f->size > FM_WIRE_SIZE_MAX && f->size != FM_WIRE_SIZE_UNKNOWN) ||
	    f->mode > FM_WIRE_MODE_MAX)
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

/* A chunk has at least one byte; bytes without chunks were there before. */
static int check_finish(const struct fm_wire_msg *m)
{
	const struct fm_wire_finish *f = &m->finish;

	return f->size > FM_WIRE_SIZE_MAX || f->data_bytes > f->size || f->chunks > f->data_bytes
		       ? -ERANGE
		       : 0;
}

const struct fm_wire_codec fm_wire_codec_finish = {
	.name = "FINISH",
	.flags = FM_WIRE_FINISH_FLAGS,
	.put = put_finish,
	.get = get_finish,
	.check = check_finish,
};

static void put_done(struct fm_writer *w, const struct fm_wire_msg *m)
{
	const struct fm_wire_done *d = &m->done;

	fm_put_le64(w, d->xfer);
	fm_put_le64(w, d->files);
	fm_put_le64(w, d->dirs);
	fm_put_le64(w, d->links);
	fm_put_le64(w, d->hard_links);
	fm_put_le64(w, d->bytes);
	fm_put_le64(w, d->reused_files);
	fm_put_le64(w, d->reused_bytes);
	fm_put_le64(w, d->resumed_files);
	fm_put_le64(w, d->resumed_bytes);
	fm_put_le64(w, d->damaged_files);
	fm_put_le64(w, d->damaged_bytes);
	fm_put_le64(w, d->added);
	fm_put_le64(w, d->replaced);
	fm_put_le64(w, d->removed);
	fm_put_le64(w, d->kept);
	fm_wire_put_str(w, &d->note);
}

static int get_done(struct fm_reader *r, struct fm_wire_msg *m)
{
	struct fm_wire_done *d = &m->done;

	d->xfer = fm_get_le64(r);
	d->files = fm_get_le64(r);
	d->dirs = fm_get_le64(r);
	d->links = fm_get_le64(r);
	d->hard_links = fm_get_le64(r);
	d->bytes = fm_get_le64(r);
	d->reused_files = fm_get_le64(r);
	d->reused_bytes = fm_get_le64(r);
	d->resumed_files = fm_get_le64(r);
	d->resumed_bytes = fm_get_le64(r);
	d->damaged_files = fm_get_le64(r);
	d->damaged_bytes = fm_get_le64(r);
	d->added = fm_get_le64(r);
	d->replaced = fm_get_le64(r);
	d->removed = fm_get_le64(r);
	d->kept = fm_get_le64(r);
	fm_wire_get_str(r, &d->note);
	return 0;
}

static int check_done(const struct fm_wire_msg *m)
{
	return fm_wire_is_text(&m->done.note, FM_WIRE_TEXT_MAX) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_done = {
	.name = "DONE",
	.flags = FM_WIRE_DONE_FLAGS,
	.put = put_done,
	.get = get_done,
	.check = check_done,
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
	if (m->abort.flags & FM_WIRE_ABORT_FULL && m->abort.code != EBUSY)
		return -EPROTO;
	return fm_wire_is_text(&m->abort.text, FM_WIRE_TEXT_MAX) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_abort = {
	.name = "ABORT",
	.flags = FM_WIRE_ABORT_FLAGS,
	.put = put_abort,
	.get = get_abort,
	.check = check_abort,
};

static void put_need(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->need.xfer);
	fm_put_le64(w, m->need.seq);
	fm_put_le16(w, m->need.count);
	fm_wire_put_zeros(w, 2);
	fm_put_bytes(w, m->need.bits, (m->need.count + 7u) / 8);
}

static int get_need(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->need.xfer = fm_get_le64(r);
	m->need.seq = fm_get_le64(r);
	m->need.count = fm_get_le16(r);
	if (m->need.count > FM_WIRE_NEED_MAX || fm_wire_get_zeros(r, 2) < 0)
		return -ERANGE;
	for (unsigned i = 0; i < (m->need.count + 7u) / 8; i++)
		m->need.bits[i] = fm_get_u8(r);
	return 0;
}

static int check_need(const struct fm_wire_msg *m)
{
	unsigned count = m->need.count;

	if (count < 1 || count > FM_WIRE_NEED_MAX)
		return -ERANGE;
	return count % 8 != 0 && m->need.bits[count / 8] >> count % 8 != 0 ? -ERANGE : 0;
}

const struct fm_wire_codec fm_wire_codec_need = {
	.name = "NEED",
	.put = put_need,
	.get = get_need,
	.check = check_need,
};

static void put_kept(struct fm_writer *w, const struct fm_wire_msg *m)
{
	const struct fm_wire_kept *k = &m->kept;

	fm_put_le64(w, k->xfer);
	fm_put_le64(w, k->reread);
	fm_put_le64(w, k->damaged.offset);
	fm_put_le64(w, k->damaged.len);
	fm_put_le32(w, k->crc);
	fm_wire_put_zeros(w, 4);
}

static int get_kept(struct fm_reader *r, struct fm_wire_msg *m)
{
	struct fm_wire_kept *k = &m->kept;

	k->xfer = fm_get_le64(r);
	k->reread = fm_get_le64(r);
	k->damaged.offset = fm_get_le64(r);
	k->damaged.len = fm_get_le64(r);
	k->crc = fm_get_le32(r);
	return fm_wire_get_zeros(r, 4);
}

static int check_kept(const struct fm_wire_msg *m)
{
	const struct fm_wire_kept *k = &m->kept;

	if (k->reread > FM_WIRE_SIZE_MAX || k->damaged.len > k->reread)
		return -ERANGE;
	if (k->damaged.len == 0)
		return k->damaged.offset == 0 && k->crc == 0 ? 0 : -ERANGE;
	if (k->damaged.offset % FM_BLOCK != 0 ||
	    k->damaged.offset > FM_WIRE_SIZE_MAX - k->damaged.len)
		return -ERANGE;
	return 0;
}

const struct fm_wire_codec fm_wire_codec_kept = {
	.name = "KEPT",
	.flags = FM_WIRE_KEPT_FLAGS,
	.put = put_kept,
	.get = get_kept,
	.check = check_kept,
};

static void put_names(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->names.xfer);
	fm_put_le16(w, m->names.len);
	fm_wire_put_zeros(w, 2);
	fm_put_bytes(w, m->names.at, m->names.len);
}

static int get_names(struct fm_reader *r, struct fm_wire_msg *m)
{
	int ret;

	m->names.xfer = fm_get_le64(r);
	m->names.len = fm_get_le16(r);
	ret = fm_wire_get_zeros(r, 2);
	m->names.at = m->names.len > 0 ? fm_get_span(r, m->names.len) : NULL;
	return ret;
}

static int check_names(const struct fm_wire_msg *m)
{
	struct fm_reader r = { .at = m->names.at };
	struct fm_wire_str path;
	uint8_t change;

	if (m->names.len > FM_WIRE_NAMES_LEN)
		return -ERANGE;
	if (m->names.len == 0)
		return 0;
	r.end = r.at + m->names.len;
	while (fm_reader_left(&r) > 0) {
		change = fm_get_u8(&r);
		fm_wire_get_str(&r, &path);
		if (r.failed || change < 1 || change > NAME_CHANGE_MAX || path.len < 1 ||
		    !fm_wire_is_text(&path, FM_WIRE_PATH_MAX))
			return -ERANGE;
	}
	return 0;
}

const struct fm_wire_codec fm_wire_codec_names = {
	.name = "NAMES",
	.put = put_names,
	.get = get_names,
	.check = check_names,
};

static void put_commit(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->commit.xfer);
}

static int get_commit(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->commit.xfer = fm_get_le64(r);
	return 0;
}

const struct fm_wire_codec fm_wire_codec_commit = {
	.name = "COMMIT",
	.put = put_commit,
	.get = get_commit,
};

static void put_window(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->window.xfer);
	fm_put_le64(w, m->window.to);
}

static int get_window(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->window.xfer = fm_get_le64(r);
	m->window.to = fm_get_le64(r);
	return 0;
}

/* A chunk has at least one byte. */
static int check_window(const struct fm_wire_msg *m)
{
	return m->window.to == 0 || m->window.to > FM_WIRE_SIZE_MAX ? -ERANGE : 0;
}

const struct fm_wire_codec fm_wire_codec_window = {
	.name = "WINDOW",
	.put = put_window,
	.get = get_window,
	.check = check_window,
};
