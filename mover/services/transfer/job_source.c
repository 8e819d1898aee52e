/* SPDX-License-Identifier: MIT */
/* job_source - the end of a transfer that has the bytes. See job.h. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/show.h"
#include "mover/data/layout.h"
#include "mover/services/transfer/job.h"
#include "mover/store/ranged_file.h"
#include "mover/tree/digest.h"

_Static_assert(FM_GROUP_ID_LEN == FM_WIRE_GROUP_LEN, "an ID is sent as it is");

/*
 * TCP copies through the CPU: a chunk should stay in its caches from the read to the socket, and
 * from the socket to the write.
 */
#define TCP_CHUNK_MAX (256u << 10)
_Static_assert(FM_WIRE_GET_RANGES_MAX <= FM_RANGED_MAX && FM_JOB_RANGES_MAX <= FM_RANGED_MAX,
	       "what may be asked for can be read");
_Static_assert(FM_WIRE_TO_END == FM_RANGE_TO_END, "a length up to the end is the same everywhere");

#define CHUNKS_OF(size, chunk) ((size) == FM_SIZE_UNKNOWN ? UINT64_MAX : (size) / (chunk) + 1)

void fm_job_identity(const struct fm_job *j, struct fm_identity *out)
{
	*out = (struct fm_identity){ .uid = j->who.uid,
				     .dev = j->work_attr.dev,
				     .ino = j->work_attr.ino,
				     .size = j->work_attr.size,
				     .mtime_ns = j->work_attr.mtime_ns,
				     .ctime_ns = j->work_attr.ctime_ns };
	(void)snprintf(out->node, sizeof(out->node), "%s",
		       j->is_source ? j->engine->name : j->peer_name);
}

static uint16_t put_flags(const struct fm_job *j)
{
	unsigned flags = (j->source.may_replace ? FM_WIRE_PUT_REPLACE : 0) |
			 (j->is_readback ? FM_WIRE_PUT_READBACK : 0) |
			 (j->has_group ? FM_WIRE_PUT_GROUP : 0) |
			 (*j->name ? FM_WIRE_PUT_JOB : 0);

	if (!j->is_tree)
		return (uint16_t)(flags | (j->attr.has_holes ? 0 : FM_WIRE_PUT_DENSE));
	return (uint16_t)(flags | FM_WIRE_PUT_TREE | (j->tree.is_update ? FM_WIRE_PUT_UPDATE : 0) |
			  (j->tree.is_delete ? FM_WIRE_PUT_DELETE : 0) |
			  (j->tree.has_checksums ? FM_WIRE_PUT_CHECKSUM : 0) |
			  (j->tree.is_dry ? FM_WIRE_PUT_DRY : 0) |
			  (j->tree.names.state != FM_NAMES_UNASKED ? FM_WIRE_PUT_NAMES : 0));
}

/*
 * The size that is announced. For a tree it is the least that its files take, since more is not
 * known.
 */
static uint64_t size_said(const struct fm_job *j)
{
	return j->is_tree && j->tree.bytes > 0 ? j->tree.bytes : j->attr.size;
}

void fm_job_source_start(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_PUT };
	struct fm_wire_put *p = &m.put;

	p->flags = put_flags(j);
	p->xfer = j->id;
	p->size = size_said(j);
	p->chunk = j->chunk;
	p->mode = j->is_tree ? 0 : j->attr.mode & 0777;
	p->mtime_ns = j->is_tree ? 0 : j->attr.mtime_ns;
	p->uid = j->who.uid;
	p->gid = j->who.gid;
	p->durability = (uint8_t)j->durability;
	p->tree = j->parent ? j->parent->id : 0;
	p->dev = j->attr.dev;
	p->ino = j->attr.ino;
	p->ctime_ns = j->is_tree ? 0 : j->attr.ctime_ns;
	p->store = fm_wire_str(j->parent ? "" : j->store);
	p->path = (struct fm_wire_str){ j->path, j->path_len };
	memcpy(p->group, j->group, sizeof(p->group));
	memcpy(p->job, j->name, sizeof(p->job));
	j->is_far_end_told = false;
	fm_session_send(j->session, &m);
}

void fm_job_source_copy(struct fm_job *j)
{
	j->state = FM_JOB_COPYING;
	j->deadline_ns = 0;
	if (fm_job_kinds(j) == 1u << FM_KIND_TCP && j->chunk > TCP_CHUNK_MAX)
		j->chunk = TCP_CHUNK_MAX;
	fm_job_limit_chunk(j);
	if (fm_job_make_xfer(j) < 0)
		return;
	/* Those that may carry it may be of any lane. */
	fm_session_wake(j->session, j->x->o.kinds,
			fm_only_is_any(&j->only) ? CHUNKS_OF(j->attr.size, j->chunk) : UINT64_MAX);
	/* Where there is no chunk to send, none can tell. */
	if (fm_ranges_bytes(&j->have.ranges) == j->attr.size)
		fm_job_source_progressed(j);
}

/*
 * Takes the ranges that the sink has from an earlier try. Their order was checked when they were
 * decoded.
 */
static int take_have(struct fm_job *j, const struct fm_wire_ready *m)
{
	int ret = 0;

	for (unsigned i = 0; i < m->count && ret == 0; i++) {
		struct fm_wire_range r = fm_wire_range(m->have, i);

		ret = fm_ranges_add(&j->have.ranges, r.offset, r.len, FM_WIRE_RANGES_MAX);
	}
	j->have.crc = m->have_crc;
	return ret;
}

/*
 * Whether READY is expected now, with these values. The sink of a get does not know how large our
 * chunks may be.
 */
static bool may_be_ready(const struct fm_job *j, const struct fm_wire_ready *m)
{
	if (!j->is_source || j->state != FM_JOB_OPENING || j->is_working)
		return false;
	if (!j->source.awaits_ready && (!(j->is_ours || j->parent) || m->chunk > j->chunk))
		return false;
	if (m->count > 0 && !fm_layout_of(j->file)->has_places)
		return false;
	return j->is_tree || !(m->flags & ~(FM_WIRE_READY_DURABLE | FM_WIRE_READY_WINDOW));
}

void fm_job_on_ready(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_ready *m = &msg->ready;
	struct fm_job *j = fm_job_find(s, m->xfer);

	if (!j)
		return;		/* it crossed our ABORT */
	if (!may_be_ready(j, m)) {
		fm_session_protocol_error(s, "READY out of turn");
		return;
	}
	if (take_have(j, m) < 0) {
		fm_job_end(j, -ENOMEM, "out of memory");
		return;
	}
	j->is_durable = m->flags & FM_WIRE_READY_DURABLE;
	j->source.is_windowed |= (m->flags & FM_WIRE_READY_WINDOW) != 0;
	j->chunk = m->chunk < j->chunk ? m->chunk : j->chunk;
	fm_job_set_note(j, m->note.at, m->note.len);
	if (j->is_tree)
		fm_job_tree_ready(j, m);
	else
		fm_job_source_copy(j);
}

/* ---- asked for by the peer ---- */

/* Opens ranges of a file. Only a store that has descriptors has ranges. */
static int open_ranges(struct fm_job *j)
{
	struct fm_store *store = j->store_ref->store;
	struct fm_path_shown shown;
	int fd;

	if (!store->ops->open_fd)
		return fm_err_set(&j->work_err, -EOPNOTSUPP, "store %s gives whole files only",
				  store->name);
	fd = store->ops->open_fd(store, j->path, &j->who, &j->work_err);
	if (fd < 0)
		return fd;
	fd = fm_ranged_file_new(fd, j->ranges, j->range_count, j->is_verified, &j->file,
				&j->work_attr, &j->work_err);
	if (fd < 0)
		fm_err_wrap(&j->work_err, "store %s: read \"%s\"", store->name,
			    fm_path_show(j->path, &shown));
	return fd;
}

static void open_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_store *store = j->store_ref->store;

	fm_err_clear(&j->work_err);
	if (j->is_tree)
		j->work_ret = fm_job_tree_open(j);
	else if (j->range_count > 0)
		j->work_ret = open_ranges(j);
	else
		j->work_ret = store->ops->open_source(store, j->path, &j->who, &j->file,
						      &j->work_attr, &j->work_err);
	if (j->work_ret < 0)
		j->file = NULL;
}

static void open_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_wire_msg m = { .type = FM_WIRE_FOUND };

	if (!fm_job_goes_on(j))
		return;
	j->attr = j->work_attr;
	if (j->is_tree)
		fm_job_tree_listen(j);
	m.found.flags = (uint16_t)(j->attr.has_holes ? 0 : FM_WIRE_FOUND_DENSE);
	m.found.xfer = j->id;
	m.found.size = size_said(j);
	m.found.mode = j->attr.mode & 0777;
	m.found.mtime_ns = j->attr.mtime_ns;
	m.found.dev = j->attr.dev;
	m.found.ino = j->attr.ino;
	m.found.ctime_ns = j->attr.ctime_ns;
	m.found.note = fm_wire_str(j->file->note ? j->file->note : "");
	fm_session_send(j->session, &m);
	if (j->state == FM_JOB_ENDED)
		return;
	if (j->source.awaits_ready)
		j->deadline_ns = fm_engine_now(j->engine) +
				 (j->is_tree ? FM_JOB_OPEN_TREE_NS : FM_JOB_OPEN_NS);
	else
		fm_job_source_copy(j);
}

static int get_tree(struct fm_job *j, const struct fm_wire_get *m)
{
	struct fm_err err = { 0 };
	int ret;

	if (fm_job_set_peers_tree(j) < 0)
		return -EBUSY;
	ret = fm_job_set_excludes(j, m->exclude, m->count, &err);
	if (ret < 0)
		fm_job_fail(j, &err);
	return ret;
}

static int get_ranges(struct fm_job *j, const struct fm_wire_get *m)
{
	struct fm_err err = { 0 };

	if (fm_job_make_ranges(j, m->range_count, &err) < 0) {
		fm_job_fail(j, &err);
		return err.code;
	}
	for (unsigned i = 0; i < m->range_count; i++) {
		struct fm_wire_range r = fm_wire_range(m->ranges, i);

		j->ranges[i] = (struct fm_range){r.offset, r.len};
	}
	j->is_verified = m->flags & FM_WIRE_GET_VERIFY;
	return 0;
}

void fm_job_on_get(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_get *m = &msg->get;
	struct fm_job *j =
		fm_job_new_for_peer(s, m->xfer, m->job, &m->store, &m->path, m->uid, m->gid, true);

	if (!j)
		return;
	j->attr.size = FM_SIZE_UNKNOWN;		/* until it is open */
	j->chunk = m->chunk < j->chunk ? m->chunk : j->chunk;
	j->rate_bytes = m->rate_bytes;
	j->is_ordered = m->flags & FM_WIRE_GET_ORDERED;
	j->source.is_windowed = m->flags & (FM_WIRE_GET_ORDERED | FM_WIRE_GET_WINDOW);
	j->accepts_corrupt = m->flags & FM_WIRE_GET_ACCEPT_CORRUPT;
	j->source.awaits_ready = m->flags & (FM_WIRE_GET_RESUME | FM_WIRE_GET_TREE);
	if (!(m->flags & FM_WIRE_GET_RDMA))
		j->want = FM_WANT_TCP;
	else if (!(m->flags & FM_WIRE_GET_TCP))
		j->want = FM_WANT_RDMA;
	fm_job_take_only(j, m);
	if (m->flags & FM_WIRE_GET_TREE && get_tree(j, m) < 0)
		return;
	if (m->range_count > 0 && get_ranges(j, m) < 0)
		return;
	fm_job_work(j, open_run, open_done);
}

void fm_job_on_window(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_window *m = &msg->window;
	struct fm_job *j = fm_job_find(s, m->xfer);

	if (!j)
		return;		/* it crossed our ABORT */
	if (!j->is_source || !j->source.is_windowed || m->to <= j->source.window) {
		fm_session_protocol_error(s, "WINDOW out of turn");
		return;
	}
	j->source.window = m->to;
	if (!j->x)
		return;
	fm_link_set_window(j->x, m->to);
	fm_session_wake(s, j->x->o.kinds, UINT64_MAX);
}

/* ---- all chunks are there ---- */

/*
 * Ends the job. The error names the path only to a peer, since our own callers see it anyway.
 */
static void refuse_source(struct fm_job *j, const char *why)
{
	struct fm_path_shown shown;

	if (j->is_ours || j->parent)
		fm_job_end(j, -EBADMSG, "the source%s", why);
	else
		fm_job_end(j, -EBADMSG, "\"%s\"%s", fm_path_show(j->path, &shown), why);
}

#define REFUSED ": nothing is published; --accept-corrupt takes it as it is"

/* What was read differs from the digest that was kept with the file: says the first difference. */
static void end_corrupt(struct fm_job *j, const struct fm_digest *sent)
{
	uint64_t offset, length;
	char why[FM_ERR_TEXT_MAX];

	fm_digest_difference(j->file->kept, sent, &offset, &length);
	(void)snprintf(why, sizeof(why),
		       " is corrupt from byte %llu on, somewhere in %llu bytes (CRC32C %08" PRIx32
		       ", %08" PRIx32 " when it was put there)" REFUSED,
		       (unsigned long long)offset, (unsigned long long)length, sent->crc,
		       j->file->kept->crc);
	refuse_source(j, why);
}

/* The same of the blocks that the ranges cover. */
static bool are_ranges_as_kept(struct fm_job *j)
{
	struct fm_path_shown shown;
	uint64_t offset, length;

	if (j->engine->o.is_unchecked || !fm_ranged_file_damage(j->file, &offset, &length))
		return true;
	j->source.is_corrupt = true;
	if (!j->accepts_corrupt)
		fm_job_end(j, -EBADMSG,
			   "\"%s\" is corrupt from byte %llu on, somewhere in %llu bytes that the "
			   "ranges touch: nothing is published; --accept-corrupt takes it as it is",
			   fm_path_show(j->path, &shown), (unsigned long long)offset,
			   (unsigned long long)length);
	return j->accepts_corrupt;
}

/*
 * Whether what was read has the digest that was kept with the file, or the caller accepts a
 * difference. If not, the job has ended. With a damaged digest nothing is known to have it.
 */
static bool is_as_kept(struct fm_job *j, const struct fm_digest *sent)
{
	if (j->is_tree)
		j->source.is_corrupt |= atomic_load(&j->file->tree->has_corrupt);
	if (j->range_count > 0 && !j->file->kept)
		return are_ranges_as_kept(j);
	if (!j->file->kept || j->engine->o.is_unchecked)
		return true;
	if (!j->file->kept->is_damaged && sent->crc == j->file->kept->crc)
		return true;
	j->source.is_corrupt = true;
	if (j->parent)
		j->parent->source.is_corrupt = true;
	if (j->accepts_corrupt)
		return true;
	if (j->file->kept->is_damaged)
		refuse_source(j, ": " FM_DIGEST_DAMAGED REFUSED);
	else
		end_corrupt(j, sent);
	return false;
}

static void send_finish(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_FINISH };
	struct fm_wire_finish *f = &m.finish;
	struct fm_whole whole;

	fm_link_sent_whole(j->x, &whole);
	if (!is_as_kept(j, &whole.digest))
		return;
	if (j->source.is_corrupt && j->is_ours)
		fm_job_set_note(j, FM_JOB_CORRUPT_NOTE, strlen(FM_JOB_CORRUPT_NOTE));
	f->flags = (uint16_t)((j->source.is_held ? FM_WIRE_FINISH_HOLD : 0) |
			      (j->source.is_corrupt ? FM_WIRE_FINISH_CORRUPT : 0));
	f->xfer = j->id;
	f->size = whole.size;
	f->data_bytes = whole.data_bytes;
	f->chunks = whole.chunks;
	f->crc = j->engine->o.is_unchecked ? 0 : whole.crc;
	if (!j->is_tree) {
		j->result.size = f->size;
		j->result.crc = f->crc;
		j->attr.size = f->size;
	}
	j->state = FM_JOB_FINISHING;
	fm_session_send(j->session, &m);
}

static void check_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	j->work_ret = j->range_count > 0 ? fm_ranged_file_check(j->file, &j->work_err) : 0;
	if (j->work_ret == 0)
		j->work_ret = j->file->ops->check_unchanged(j->file, &j->work_err);
}

static void check_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (!fm_job_goes_on(j))
		return;
	if (j->work_ret > 0)	/* blocks are left to be read again: others have their turn first */
		fm_job_work(j, check_run, check_done);
	else
		send_finish(j);
}

void fm_job_source_progressed(struct fm_job *j)
{
	if (j->state != FM_JOB_COPYING)
		return;
	if (!fm_link_is_sent(j->x)) {
		fm_session_wake(j->session, j->x->o.kinds, UINT64_MAX);
		return;
	}
	if (j->is_tree && (fm_job_tree_has_large(j) || j->state != FM_JOB_COPYING))
		return;
	j->state = FM_JOB_CHECKING;
	j->deadline_ns = 0;
	if (j->file->ops->check_unchanged)
		fm_job_work(j, check_run, check_done);
	else
		send_finish(j);
}

/*
 * Takes the far end's counts of what it made. How many of the offered files it wanted is known
 * here.
 */
static void take_count(struct fm_job *j, const struct fm_wire_done *m)
{
	struct fm_tree_count ours;

	fm_job_tree_count(j, &ours);
	j->result.size = m->bytes;
	j->result.tree = (struct fm_tree_count){.files = m->files,
						.dirs = m->dirs,
						.links = m->links,
						.hard_links = m->hard_links,
						.bytes = m->bytes,
						.reused_files = m->reused_files,
						.reused_bytes = m->reused_bytes,
						.resumed_files = m->resumed_files,
						.resumed_bytes = m->resumed_bytes,
						.damaged_files = m->damaged_files,
						.damaged_bytes = m->damaged_bytes,
						.added = m->added,
						.replaced = m->replaced,
						.removed = m->removed,
						.kept = m->kept,
						.wanted_files = ours.wanted_files,
						.wanted_bytes = ours.wanted_bytes,
						.is_reflinked = m->flags & FM_WIRE_DONE_REFLINKED};
}

/* What was sent, in a number: see struct fm_job_events. */
static uint64_t sent_of(struct fm_job *j)
{
	const struct fm_identity file = {.dev = j->result.crc, .size = j->result.size};
	struct fm_tree_count ours;

	if (!j->is_tree)
		return j->engine->o.is_unchecked ? 0 : fm_identity_hash(&file);
	fm_job_tree_count(j, &ours);
	return ours.seen;
}

void fm_job_on_done(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_done *m = &msg->done;
	struct fm_job *j = fm_job_find(s, m->xfer);

	if (!j)
		return;
	if (j->state != FM_JOB_FINISHING ||
	    (m->flags & FM_WIRE_DONE_PREPARED && !j->source.is_held)) {
		fm_session_protocol_error(s, "DONE out of turn");
		return;
	}
	fm_job_set_note(j, m->note.at, m->note.len);
	if (m->flags & FM_WIRE_DONE_PREPARED) {
		j->state = FM_JOB_PREPARED;
		j->deadline_ns = 0;
		j->events.prepared(j->ctx, sent_of(j));
		return;
	}
	if (j->is_tree) {
		const char *note = __atomic_load_n(&j->file->tree->note, __ATOMIC_ACQUIRE);

		take_count(j, m);
		if (note)
			fm_job_set_note(j, note, strlen(note));
	}
	j->is_durable = m->flags & FM_WIRE_DONE_DURABLE;
	j->is_far_end_told = true;
	fm_job_end(j, 0, "done");
}

void fm_job_commit(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_COMMIT };

	if (j->state != FM_JOB_PREPARED)
		return;		/* it ended meanwhile: done() is on its way */
	m.commit.xfer = j->id;
	j->source.is_held = false;
	j->state = FM_JOB_FINISHING;
	fm_session_send(j->session, &m);
}
