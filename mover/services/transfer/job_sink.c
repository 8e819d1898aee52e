/* SPDX-License-Identifier: MIT */
/* job_sink - the end of a transfer that writes the bytes. See job.h. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/services/transfer/job.h"
#include "mover/store/held_file.h"
#include "mover/store/small_sink.h"

/* Wakes flows whose peer asked for slots before there was a transfer to give them for. */
static void wake_wanting(struct fm_session *s)
{
	if (!s->is_closed && atomic_load(&s->link->wants) > 0)
		fm_session_wake(s, UINT_MAX, UINT64_MAX);
}

/* Tells the source how many chunks may come, if the file may stand still. */
static void begin_window(struct fm_job *j)
{
	if (fm_job_is_beside(j) && j->x && j->state != FM_JOB_ENDED)
		fm_job_sink_progressed(j);
}

/*
 * Whether the file looks at what an earlier try left, and at the room, before the first chunk is
 * asked for. This matters for a get.
 */
static bool is_begun_first(const struct fm_job *j)
{
	const struct fm_file_ops *ops = j->file->ops;

	return j->is_tree || ((ops->begin || ops->make_room) && !j->engine->o.is_unchecked);
}

/* The ranges as GET has them. NULL: there are none. */
static const uint8_t *wire_ranges(const struct fm_job *j, uint8_t *out)
{
	for (unsigned i = 0; i < j->range_count; i++)
		fm_wire_set_range(
			out, i,
			(struct fm_wire_range){j->ranges[i].offset, j->ranges[i].len});
	return j->range_count > 0 ? out : NULL;
}

void fm_job_sink_start(struct fm_job *j)
{
	uint8_t ranges[FM_WIRE_GET_RANGES_MAX * FM_WIRE_RANGE_LEN];
	struct fm_wire_msg m = { .type = FM_WIRE_GET };
	struct fm_wire_get *g = &m.get;
	struct fm_err err = { 0 };

	if (fm_job_tell_only(j, g, &err) < 0) {
		fm_job_fail(j, &err);
		return;
	}
	j->is_durable = j->durability != FM_DURABILITY_MEMORY;
	fm_job_limit_chunk(j);
	/* It must be there before the first chunk, which may overtake FOUND but not READY. */
	if (!is_begun_first(j) && fm_job_make_xfer(j) < 0)
		return;
	g->flags |= (uint16_t)((is_begun_first(j) && !j->is_tree ? FM_WIRE_GET_RESUME : 0) |
			      (j->accepts_corrupt ? FM_WIRE_GET_ACCEPT_CORRUPT : 0) |
			      (j->is_ordered	     ? FM_WIRE_GET_ORDERED
			       : fm_job_is_beside(j) ? FM_WIRE_GET_WINDOW
						     : 0) |
			      (j->is_tree ? FM_WIRE_GET_TREE : 0) |
			      (j->is_verified ? FM_WIRE_GET_VERIFY : 0) |
			      (*j->name ? FM_WIRE_GET_JOB : 0) |
			      (j->want != FM_WANT_RDMA ? FM_WIRE_GET_TCP : 0) |
			      (j->want != FM_WANT_TCP ? FM_WIRE_GET_RDMA : 0));
	for (; j->tree.excludes && j->tree.excludes[g->count]; g->count++)
		g->exclude[g->count] = fm_wire_str(j->tree.excludes[g->count]);
	if (j->is_tree && j->file->tree->pack_max > 0 && j->chunk > j->file->tree->pack_max)
		j->chunk = j->file->tree->pack_max;
	g->xfer = j->id;
	g->chunk = j->chunk;
	g->rate_bytes = j->rate_bytes;
	g->uid = j->who.uid;
	g->gid = j->who.gid;
	g->store = fm_wire_str(j->store);
	g->path = (struct fm_wire_str){ j->path, j->path_len };
	g->ranges = wire_ranges(j, ranges);
	g->range_count = (uint16_t)j->range_count;
	memcpy(g->job, j->name, sizeof(g->job));
	j->is_far_end_told = false;
	wake_wanting(j->session);
	fm_session_send(j->session, &m);
	begin_window(j);
}

/* ---- what is there from an earlier try ---- */

/*
 * Whether room for the whole size is made. A file with holes needs less than its size, and nobody
 * has said how much.
 */
static bool is_room_asked(const struct fm_job *j, uint64_t size)
{
	return j->file->ops->make_room && !j->file->has_fixed_size && !j->work_attr.has_holes &&
	       size != FM_SIZE_UNKNOWN;
}

static int begin(struct fm_job *j)
{
	const struct fm_file_ops *ops = j->file->ops;
	struct fm_identity source;
	int ret = 0;

	fm_job_identity(j, &source);
	if (j->is_tree)
		source.size = j->tree.bytes;
	if (ops->begin)
		ret = ops->begin(j->file, &source, &j->have, &j->work_err);
	if (ret == 0 && is_room_asked(j, source.size))
		ret = ops->make_room(j->file, source.size, &j->work_err);
	return ret;
}

/* Adds to a note. more may be NULL. A note that is cut short is still of use. */
static void add_note(char *note, size_t cap, const char *more)
{
	size_t len = strlen(note);

	if (more)
		(void)snprintf(note + len, cap - len, "%s%s", len > 0 ? "; " : "", more);
}

/* Whether READY says that the sink has a window. A get has said it in GET. */
static bool says_window_in_ready(const struct fm_job *j)
{
	return fm_job_is_beside(j) && (j->parent || !j->is_ours);
}

/* Sends READY: what the sink has already, and what the caller should know. */
static void send_ready(struct fm_job *j)
{
	uint8_t have[FM_WIRE_RANGES_MAX * FM_WIRE_RANGE_LEN];
	struct fm_wire_msg m = { .type = FM_WIRE_READY };
	const struct fm_ranges *ranges = &j->have.ranges;
	bool is_blind = j->is_readback && !j->file->ops->read;
	char note[FM_WIRE_TEXT_MAX] = "";

	assert(ranges->count <= FM_WIRE_RANGES_MAX);	/* fm_xfer_set_have() saw to that */
	for (unsigned i = 0; i < ranges->count; i++)
		fm_wire_set_range(have, i,
				  (struct fm_wire_range){ranges->at[i].offset, ranges->at[i].len});
	m.ready.flags = (uint16_t)((j->is_durable ? FM_WIRE_READY_DURABLE : 0) |
				   fm_job_tree_ready_flags(j) |
				   (says_window_in_ready(j) ? FM_WIRE_READY_WINDOW : 0));
	m.ready.xfer = j->id;
	m.ready.chunk = j->chunk;
	m.ready.have_crc = j->have.crc;
	m.ready.count = (uint16_t)ranges->count;
	m.ready.have = ranges->count > 0 ? have : NULL;
	add_note(note, sizeof(note), j->file->note);
	add_note(note, sizeof(note), j->file->resume_note);
	if (is_blind)
		add_note(note, sizeof(note),
			 j->is_tree ? "small files are not read back: fmove verify does that"
				    : "not read back: this store cannot");
	m.ready.note = fm_wire_str(note);
	j->sink.note_said = j->file->note ? strlen(j->file->note) : 0;
	fm_session_send(j->session, &m);
}

static void begin_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	j->work_ret = begin(j);
}

/* Begins to receive: the sink can be written to from now on. */
static void go_ahead(struct fm_job *j)
{
	struct fm_session *s = j->session;

	if (fm_job_make_xfer(j) < 0)
		return;
	j->state = FM_JOB_COPYING;
	j->deadline_ns = 0;
	send_ready(j);
	begin_window(j);
	wake_wanting(s);
	fm_job_reread_kept(j);
}

/*
 * Whether there is no room for the rest of a file. What an earlier try left then stays for a try
 * that has room.
 */
static bool is_refused_for_room(const struct fm_job *j)
{
	bool has_no_room = j->work_ret == -ENOSPC || j->work_ret == -EDQUOT;

	return has_no_room && !j->is_tree && j->file->has_partial;
}

/* The sink knows what an earlier try left, and has room. The source is told, or the job ends. */
static void begin_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (is_refused_for_room(j)) {
		/* the caller hears it when it is known what stays */
		j->sink.has_begun = true;
		if (!fm_job_is_over(j))
			fm_job_end_kept(j, true, j->work_ret, j->work_err.text);
		return;
	}
	if (!fm_job_goes_on(j))
		return;
	if (!j->is_tree && j->file->resume_note)
		fm_job_set_note(j, j->file->resume_note, strlen(j->file->resume_note));
	/* Else nothing could tell the source later. */
	j->sink.has_begun = j->is_tree || j->attr.ino != 0 || j->attr.ctime_ns != 0;
	go_ahead(j);
}

/* Before anything comes: whoever asked has room for no more. */
static int check_size(const struct fm_job *j, uint64_t size, struct fm_err *err)
{
	if (j->size_max > 0 && size > j->size_max)
		return fm_err_set(err, -EFBIG,
				  "the file has %" PRIu64 " bytes, and there is room for %" PRIu64,
				  size, j->size_max);
	return j->file->ops->check_size ? j->file->ops->check_size(j->file, size, err) : 0;
}

void fm_job_on_found(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_found *m = &msg->found;
	struct fm_job *j = fm_job_find(s, m->xfer);
	struct fm_err err;

	if (!j)
		return;
	if (j->is_source || !j->is_ours || j->state != FM_JOB_OPENING || j->is_working) {
		fm_session_protocol_error(s, "FOUND out of turn");
		return;
	}
	if (check_size(j, m->size, &err) < 0) {
		fm_job_fail(j, &err);
		return;
	}
	j->attr.type = j->is_tree ? FM_NODE_DIR : FM_NODE_FILE;
	j->attr.size = j->is_tree ? FM_SIZE_UNKNOWN : m->size;
	j->tree.bytes = j->is_tree && m->size != FM_WIRE_SIZE_UNKNOWN ? m->size : 0;
	j->attr.mode = m->mode;
	j->attr.mtime_ns = m->mtime_ns;
	j->attr.has_holes = !(m->flags & FM_WIRE_FOUND_DENSE);
	j->attr.dev = m->dev;
	j->attr.ino = m->ino;
	j->attr.ctime_ns = m->ctime_ns;
	fm_job_set_note(j, m->note.at, m->note.len);
	if (is_begun_first(j)) {
		j->deadline_ns = fm_engine_now(j->engine);
		j->deadline_ns += j->is_tree ? FM_JOB_OPEN_TREE_NS : FM_JOB_OPEN_NS;
		fm_job_work(j, begin_run, begin_done);
		return;
	}
	fm_link_set_size(j->x, m->size);
	j->state = FM_JOB_COPYING;
	j->deadline_ns = 0;
}

/* ---- asked for by the peer ---- */

static void create_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_store *store = j->store_ref->store;

	fm_err_clear(&j->work_err);
	if (j->is_tree)
		j->work_ret = fm_job_tree_create(j);
	else
		j->work_ret = store->ops->create(store, j->path, &j->who, &j->sink.create, &j->file,
						 &j->work_err);
	if (j->work_ret < 0)
		j->file = NULL;
	else if (j->sink.create.is_resumable)
		j->work_ret = begin(j);
}

void fm_job_sink_created(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (!fm_job_goes_on(j))
		return;
	if (j->is_tree)
		fm_job_tree_listen(j);
	fm_job_limit_chunk(j);
	j->sink.has_begun = j->sink.create.is_resumable || j->is_tree;
	go_ahead(j);
}

static int put_tree(struct fm_job *j, const struct fm_wire_put *m)
{
	if (fm_job_set_peers_tree(j) < 0)
		return -EBUSY;
	j->attr.type = FM_NODE_DIR;
	j->tree.bytes = m->size == FM_WIRE_SIZE_UNKNOWN ? 0 : m->size;
	j->attr.size = j->sink.create.size = FM_SIZE_UNKNOWN;
	j->sink.create.is_resumable = false;	/* the tree is told its source when it is created */
	j->tree.is_update = m->flags & FM_WIRE_PUT_UPDATE;
	j->tree.is_delete = m->flags & FM_WIRE_PUT_DELETE;
	j->tree.has_checksums = m->flags & FM_WIRE_PUT_CHECKSUM;
	j->tree.is_dry = m->flags & FM_WIRE_PUT_DRY;
	if (m->flags & FM_WIRE_PUT_NAMES)
		j->tree.names.state = FM_NAMES_ASKED;
	return 0;
}

/*
 * Whether the file is small enough to be created only when all of it is there (small_sink.h). Not
 * where it is read back, since that needs a file.
 */
static bool is_created_late(struct fm_job *j)
{
	if (j->is_tree || j->is_readback)
		return false;
	j->file = fm_small_sink_new(j->store_ref->store, j->path, &j->who, &j->sink.create);
	return j->file != NULL;
}

/* Takes the group that the file or tree becomes a member of. */
static int set_group(struct fm_job *j, const struct fm_wire_put *m)
{
	const struct fm_store *store = j->store_ref->store;

	if (!store->ops->group) {
		fm_job_end(j, -EOPNOTSUPP, "store %s has no groups", store->name);
		return -EOPNOTSUPP;
	}
	j->has_group = true;
	memcpy(j->group, m->group, sizeof(j->group));
	j->sink.create.group = j->group;
	return 0;
}

void fm_job_on_put(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_put *m = &msg->put;
	struct fm_job *j;

	if (m->tree != 0) {
		fm_job_tree_put(s, m);
		return;
	}
	j = fm_job_new_for_peer(s, m->xfer, m->job, &m->store, &m->path, m->uid, m->gid, false);
	if (!j)
		return;
	j->attr = (struct fm_attr){ .type = FM_NODE_FILE,
				    .size = m->size,
				    .mode = m->mode,
				    .mtime_ns = m->mtime_ns,
				    .has_holes = !(m->flags & FM_WIRE_PUT_DENSE),
				    .dev = m->dev,
				    .ino = m->ino,
				    .ctime_ns = m->ctime_ns };
	j->is_readback = m->flags & FM_WIRE_PUT_READBACK;
	j->chunk = m->chunk < j->chunk ? m->chunk : j->chunk;
	j->sink.create = (struct fm_create){.size = m->size,
					    .is_dense = m->flags & FM_WIRE_PUT_DENSE,
					    .may_replace = m->flags & FM_WIRE_PUT_REPLACE,
					    .is_resumable = !s->engine->o.is_unchecked &&
							    m->size != FM_WIRE_SIZE_UNKNOWN &&
							    (m->ino != 0 || m->ctime_ns != 0)};
	if (m->durability == FM_WIRE_DURABLE_DEFAULT)
		j->is_durable = j->store_ref->store->is_durable;
	else
		j->is_durable = m->durability == FM_WIRE_DURABLE_DISK;
	j->sink.create.is_synced = j->is_durable;
	if (m->flags & FM_WIRE_PUT_GROUP && set_group(j, m) < 0)
		return;
	if (m->flags & FM_WIRE_PUT_TREE && put_tree(j, m) < 0)
		return;
	if (is_created_late(j))
		fm_job_sink_created(&j->work);
	else
		fm_job_work(j, create_run, fm_job_sink_created);
}

/* ---- everything came ---- */

static int check_whole(const struct fm_job *j, const struct fm_wire_finish *m,
		       const struct fm_whole *whole)
{
	if (j->attr.size != FM_SIZE_UNKNOWN && m->size != j->attr.size)
		return -EPROTO;
	if (whole->chunks != m->chunks || whole->data_bytes != m->data_bytes)
		return -EPROTO;
	if (j->is_ordered && m->size != m->data_bytes)
		return -EPROTO;
	if (!whole->is_gapless)
		return -EPROTO;
	return !j->engine->o.is_unchecked && whole->crc != m->crc ? -EBADMSG : 0;
}

/* Begins to empty a sink that may stand still: it takes all that has come. */
static void drain(struct fm_job *j)
{
	if (!fm_link_is_drained(j->x))
		return;
	j->state = FM_JOB_DRAINING;
	if (fm_link_remove(j->session->link, j->x))
		/* what still comes to memory of a caller is to go elsewhere */
		fm_session_wake(j->session, UINT_MAX, UINT64_MAX);
}

/* Tells the source how much more it may send. */
static void open_window(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_WINDOW };

	m.window.xfer = j->id;
	m.window.to = fm_link_open_window(j->x);
	if (m.window.to > 0)
		fm_session_send(j->session, &m);
}

void fm_job_sink_progressed(struct fm_job *j)
{
	if (j->state < FM_JOB_EMPTYING)
		open_window(j);
	else if (j->state == FM_JOB_EMPTYING)
		drain(j);
}

void fm_job_on_finish(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_finish *m = &msg->finish;
	struct fm_job *j = fm_job_find(s, m->xfer);
	struct fm_whole whole;
	int ret;

	if (!j)
		return;
	if (j->is_source || j->state != FM_JOB_COPYING || fm_job_subs(j) > 0 ||
	    fm_job_is_kept_unread(j)) {
		fm_session_protocol_error(s, "FINISH out of turn");
		return;
	}
	fm_link_end_sink(j->x, m->size, &whole);
	ret = whole.err.code ? whole.err.code : check_whole(j, m, &whole);
	if (whole.err.code)
		fm_job_end(j, ret, "%s", whole.err.text);
	else if (ret == -EBADMSG)
		fm_job_end(
			j, ret,
			"the whole file's CRC32C differs from the source's: nothing was published");
	else if (ret < 0)
		fm_job_end(j, ret, "the chunks that came are not the file that was sent: %s",
			   fm_err_name(ret));
	if (ret < 0)
		return;
	j->sink.finish = *m;
	j->sink.digest = whole.digest;
	if (m->flags & FM_WIRE_FINISH_CORRUPT && j->is_ours)
		fm_job_set_note(j, FM_JOB_CORRUPT_NOTE, strlen(FM_JOB_CORRUPT_NOTE));
	if (!j->is_tree) {
		j->attr.size = m->size;
		j->sink.digest.mtime_ns = j->attr.mtime_ns;
		j->attr.digest = j->engine->o.is_unchecked || m->flags & FM_WIRE_FINISH_CORRUPT
					 ? NULL
					 : &j->sink.digest;
		j->result.size = m->size;
		j->result.crc = m->crc;
	}
	j->state = FM_JOB_EMPTYING;
	drain(j);
}

/* ---- the journal ---- */

static void log_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	j->work_ret = j->file->ops->log(j->file, j->sink.log, j->sink.log_count, &j->work_err);
}

static void log_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_job_sink_logged(j);
}

void fm_job_sink_logged(struct fm_job *j)
{
	j->sink.logged_ns = fm_engine_now(j->engine);
	if (fm_job_goes_on(j) && j->state == FM_JOB_DRAINING && j->is_drained)
		fm_job_sink_drained(j);
}

static bool has_log(struct fm_job *j)
{
	if (!j->sink.log)
		j->sink.log = fm_budget_alloc(FM_XFER_LOG_MAX * sizeof(*j->sink.log));
	if (!j->sink.log)
		return false;	/* the next tick tries again */
	j->sink.log_count = fm_link_take_log(j->x, j->sink.log);
	return j->sink.log_count > 0;
}

/*
 * Logs what was written, once a second. A transfer that is over within a second costs no journal. A
 * tree's large files are logged with the tree.
 */
void fm_job_sink_tick(struct fm_job *j, uint64_t now_ns)
{
	if (j->state != FM_JOB_COPYING || !j->sink.has_begun || j->is_working || !j->x ||
	    !j->file->ops->log || j->parent || j->tree.is_dry)
		return;
	if (j->sink.logged_ns == 0)
		j->sink.logged_ns = now_ns;
	else if (now_ns < j->sink.logged_ns + FM_JOB_LOG_NS)
		return;
	else if (j->is_tree)
		fm_job_tree_log(j);
	else if (has_log(j))
		fm_job_work(j, log_run, log_done);
}

/* ---- the end ---- */

/*
 * Whether the path of its store leads elsewhere by now. Then it ends: what is published, or was
 * just now, lies where nobody looks for it, as beneath a file system that was mounted late. What
 * came is of no use to the next try, which goes to where the path leads then.
 */
static bool ends_left(struct fm_job *j)
{
	char text[FM_ERR_TEXT_MAX];

	if (!j->store_ref || !j->store_ref->is_left)
		return false;
	(void)snprintf(text, sizeof(text),
		       "store %s: its path leads to another directory than the one that this went "
		       "to; %s it again", j->store_ref->store->name, j->is_ours ? "get" : "put");
	fm_job_end_kept(j, false, -EAGAIN, text);
	return true;
}

static void publish_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	if (!j->tree.is_dry)
		j->work_ret = j->file->ops->publish(j->file, j->sink.finish.size, &j->attr,
						    j->is_durable, &j->work_err);
	/* which says what the run itself would be refused for */
	else if (j->file->ops->prepare)
		j->work_ret = j->file->ops->prepare(j->file, j->sink.finish.size, &j->attr,
						    j->is_durable, &j->work_err);
	else
		j->work_ret = 0;
}

/* Publishes a file that nobody needs afterwards, and closes it in the same call of the worker. */
static void publish_last_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	j->work_ret = j->sink.work_file->ops->publish(j->sink.work_file, j->sink.finish.size,
						      &j->attr, j->is_durable, &j->work_err);
	if (j->work_ret < 0)
		return;		/* what becomes of it is for the job's end to say */
	fm_file_close(j->sink.work_file);
	j->sink.work_file = NULL;
}

/* Fills DONE with what the tree has now, counted by the sink. */
static void say_count(struct fm_job *j, struct fm_wire_done *m)
{
	const struct fm_tree_count *c = &j->result.tree;

	fm_job_tree_count(j, &j->result.tree);
	j->result.tree.wanted_files = j->tree.wanted_files;
	j->result.tree.wanted_bytes = j->tree.wanted_bytes;
	j->result.size = c->bytes;
	if (c->is_reflinked)
		m->flags |= FM_WIRE_DONE_REFLINKED;
	m->files = c->files;
	m->dirs = c->dirs;
	m->links = c->links;
	m->hard_links = c->hard_links;
	m->bytes = c->bytes;
	m->reused_files = c->reused_files;
	m->reused_bytes = c->reused_bytes;
	m->resumed_files = c->resumed_files;
	m->resumed_bytes = c->resumed_bytes;
	m->damaged_files = c->damaged_files;
	m->damaged_bytes = c->damaged_bytes;
	m->added = c->added;
	m->replaced = c->replaced;
	m->removed = c->removed;
	m->kept = c->kept;
}

/*
 * Collects what became known after READY, for DONE. In a get the caller is at this end, so he is
 * told here.
 */
static void say_note(struct fm_job *j, char note[FM_WIRE_TEXT_MAX])
{
	const char *now = j->file->note ? j->file->note : "";

	note[0] = '\0';
	if (strlen(now) > j->sink.note_said)
		add_note(note, FM_WIRE_TEXT_MAX, now);
	add_note(note, FM_WIRE_TEXT_MAX, j->tree.names.note);
	if (j->is_ours) {
		fm_job_set_note(j, now, strlen(now));
		fm_job_set_note(j, note, strlen(note));
	}
}

static void send_done(struct fm_job *j, unsigned flags)
{
	struct fm_wire_msg m = { .type = FM_WIRE_DONE };
	char note[FM_WIRE_TEXT_MAX] = "";

	m.done.flags = (uint16_t)((j->is_durable ? FM_WIRE_DONE_DURABLE : 0) | flags);
	m.done.xfer = j->id;
	if (j->is_tree) {
		say_count(j, &m.done);
		say_note(j, note);
	}
	m.done.note = fm_wire_str(note);
	fm_session_send(j->session, &m);
}

static void publish_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	j->sink.is_published = j->work_ret == 0 && !j->tree.is_dry;
	if (fm_job_goes_on(j))
		fm_job_tell_names(j);
}

static void publish_last_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	j->file = j->sink.work_file;
	publish_done(work);
}

void fm_job_sink_told(struct fm_job *j)
{
	if (ends_left(j))
		return;
	send_done(j, 0);
	j->is_far_end_told = true;
	fm_job_end(j, 0, "done");
}

/*
 * Whether nobody needs the file after it is published. A tree has more to report, and a caller
 * looks at his own file.
 */
static bool is_last_use(const struct fm_job *j)
{
	return !j->is_tree && !j->parent && !j->is_ours && !j->tree.is_dry;
}

static void publish(struct fm_job *j)
{
	if (ends_left(j))
		return;
	j->state = FM_JOB_PUBLISHING;
	if (!is_last_use(j)) {
		fm_job_work(j, publish_run, publish_done);
		return;
	}
	j->sink.work_file = j->file;
	fm_job_work(j, publish_last_run, publish_last_done);
	j->file = NULL;
}

/* The time to commit, some of which this took, begins again with COMMIT. */
static void say_prepared(struct fm_job *j)
{
	j->state = FM_JOB_PREPARED;
	j->deadline_ns = 0;
	send_done(j, FM_WIRE_DONE_PREPARED);
}

static void prepare_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	j->work_ret = j->file->ops->prepare(j->file, j->sink.finish.size, &j->attr, j->is_durable,
					    &j->work_err);
}

static void prepare_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (!fm_job_goes_on(j) || ends_left(j))
		return;
	say_prepared(j);
}

void fm_job_on_commit(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_commit *m = &msg->commit;
	struct fm_job *j = fm_job_find(s, m->xfer);

	if (!j)
		return;		/* it crossed our ABORT */
	if (j->is_source || j->state != FM_JOB_PREPARED) {
		fm_session_protocol_error(s, "COMMIT out of turn");
		return;
	}
	j->deadline_ns = 0;
	publish(j);
}

void fm_job_sink_drained(struct fm_job *j)
{
	assert(j->state == FM_JOB_DRAINING);
	/* A chunk that came twice was being written once more when FINISH came. */
	if (j->x->err.code) {
		fm_job_end(j, j->x->err.code, "%s", j->x->err.text);
		return;
	}
	if (ends_left(j))
		return;
	if (!(j->sink.finish.flags & FM_WIRE_FINISH_HOLD) || j->tree.is_dry) {
		publish(j);
	} else if (j->file->ops->prepare) {
		j->state = FM_JOB_PUBLISHING;
		fm_job_work(j, prepare_run, prepare_done);
	} else {
		say_prepared(j);
	}
}
