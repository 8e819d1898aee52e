/* SPDX-License-Identifier: MIT */
/* job_sink - the end of a transfer that writes the bytes. See job.h. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/job_priv.h"

/* Flows whose peer asked for slots when there was no transfer to give them for may give them now. */
static void wake_wanting(struct fm_session *s)
{
	if (!s->is_closed && atomic_load(&s->link->wants) > 0)
		fm_session_wake(s, UINT_MAX, UINT64_MAX);
}

void fm_job_sink_start(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_GET };
	struct fm_wire_get *g = &m.get;

	/* It must be there before the first chunk, which may overtake FOUND. */
	j->is_durable = j->durability != FM_DURABILITY_MEMORY;
	if (fm_job_make_xfer(j) < 0)
		return;
	g->flags = (uint16_t)((j->is_ordered ? FM_WIRE_GET_ORDERED : 0) | (j->want != FM_WANT_RDMA ? FM_WIRE_GET_TCP : 0) |
			      (j->want != FM_WANT_TCP ? FM_WIRE_GET_RDMA : 0));
	g->xfer = j->id;
	g->chunk = j->chunk;
	g->rate_bytes = j->rate_bytes;
	g->uid = j->who.uid;
	g->gid = j->who.gid;
	g->store = fm_wire_str(j->store);
	g->path = (struct fm_wire_str){ j->path, j->path_len };
	j->is_far_end_told = false;
	wake_wanting(j->session);
	fm_session_send(j->session, &m);
}

void fm_job_found(struct fm_session *s, const struct fm_wire_found *m)
{
	struct fm_job *j = fm_job_find(s, m->xfer);

	if (!j)
		return;
	if (j->is_source || !j->is_ours || j->state != FM_JOB_OPENING) {
		fm_session_protocol_error(s, "FOUND out of turn");
		return;
	}
	j->attr.type = FM_NODE_FILE;
	j->attr.size = m->size;
	j->attr.mode = m->mode;
	j->attr.mtime_ns = m->mtime_ns;
	j->attr.has_holes = !(m->flags & FM_WIRE_FOUND_DENSE);
	fm_job_set_note(j, m->note.at, m->note.len);
	pthread_mutex_lock(&s->link->lock);
	j->x->o.size = m->size;
	pthread_mutex_unlock(&s->link->lock);
	j->state = FM_JOB_COPYING;
	j->deadline_ns = 0;
}

/* ---- asked for by the peer ---- */

static void create_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_store *store = j->store_ref->store;

	fm_err_clear(&j->work_err);
	j->work_ret = store->ops->create(store, j->path, &j->who, &j->create, &j->file, &j->work_err);
	if (j->work_ret < 0)
		j->file = NULL;
}

static void create_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_wire_msg m = { .type = FM_WIRE_READY };
	struct fm_session *s = j->session;

	if (fm_job_is_over(j))
		return;
	if (j->work_ret < 0) {
		fm_job_end(j, j->work_ret, "%s", j->work_err.text);
		return;
	}
	if (fm_job_make_xfer(j) < 0)
		return;
	j->state = FM_JOB_COPYING;
	m.ready.flags = j->is_durable ? FM_WIRE_READY_DURABLE : 0;
	m.ready.xfer = j->id;
	m.ready.chunk = j->chunk;
	m.ready.note = fm_wire_str(j->file->note ? j->file->note : "");
	fm_session_send(s, &m);
	wake_wanting(s);
}

void fm_job_put(struct fm_session *s, const struct fm_wire_put *m)
{
	struct fm_job *j = fm_job_new_for_peer(s, m->xfer, &m->store, &m->path, m->uid, m->gid, false);

	if (!j)
		return;
	j->attr = (struct fm_attr){ .type = FM_NODE_FILE,
				    .size = m->size,
				    .mode = m->mode,
				    .mtime_ns = m->mtime_ns,
				    .has_holes = !(m->flags & FM_WIRE_PUT_DENSE) };
	j->chunk = m->chunk < j->chunk ? m->chunk : j->chunk;
	j->create = (struct fm_create){ .size = m->size,
					.is_dense = m->flags & FM_WIRE_PUT_DENSE,
					.may_replace = m->flags & FM_WIRE_PUT_REPLACE };
	if (m->durability == FM_WIRE_DURABLE_DEFAULT)
		j->is_durable = j->store_ref->store->is_durable;
	else
		j->is_durable = m->durability == FM_WIRE_DURABLE_DISK;
	fm_job_work(j, create_run, create_done);
}

/* ---- everything came ---- */

static int check_whole(struct fm_job *j, const struct fm_wire_finish *m)
{
	const struct fm_xfer *x = j->x;
	uint32_t crc = fm_xfer_crc(x, m->size);

	if (j->attr.size != FM_SIZE_UNKNOWN && m->size != j->attr.size)
		return -EPROTO;
	if (x->chunks != m->chunks || x->data_bytes != m->data_bytes)
		return -EPROTO;
	return !j->engine->o.is_unchecked && crc != m->crc ? -EBADMSG : 0;
}

void fm_job_finish(struct fm_session *s, const struct fm_wire_finish *m)
{
	struct fm_job *j = fm_job_find(s, m->xfer);
	struct fm_err err;
	int ret;

	if (!j)
		return;
	if (j->is_source || j->state != FM_JOB_COPYING) {
		fm_session_protocol_error(s, "FINISH out of turn");
		return;
	}
	pthread_mutex_lock(&s->link->lock);
	err = j->x->err;
	ret = err.code ? err.code : check_whole(j, m);
	pthread_mutex_unlock(&s->link->lock);
	if (err.code)
		fm_job_end(j, ret, "%s", err.text);
	else if (ret == -EBADMSG)
		fm_job_end(j, ret, "the whole file's CRC32C differs from the source's: nothing was published");
	else if (ret < 0)
		fm_job_end(j, ret, "the chunks that came are not the file that was sent: %s", fm_err_name(ret));
	if (ret < 0)
		return;
	j->finish = *m;
	j->attr.size = m->size;
	j->result.size = m->size;
	j->result.crc = m->crc;
	j->state = FM_JOB_DRAINING;
	fm_link_remove(s->link, j->x);
}

static void publish_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	j->work_ret = j->file->ops->publish(j->file, j->finish.size, &j->attr, j->is_durable, &j->work_err);
}

static void publish_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_wire_msg m = { .type = FM_WIRE_DONE };

	j->is_published = j->work_ret == 0;
	if (fm_job_is_over(j))
		return;
	if (j->work_ret < 0) {
		fm_job_end(j, j->work_ret, "%s", j->work_err.text);
		return;
	}
	m.done.flags = j->is_durable ? FM_WIRE_READY_DURABLE : 0;
	m.done.xfer = j->id;
	fm_session_send(j->session, &m);
	j->is_far_end_told = true;
	fm_job_end(j, 0, "done");
}

void fm_job_sink_drained(struct fm_job *j)
{
	assert(j->state == FM_JOB_DRAINING);
	/* A chunk that came twice was being written once more when FINISH came. */
	if (j->x->err.code) {
		fm_job_end(j, j->x->err.code, "%s", j->x->err.text);
		return;
	}
	j->state = FM_JOB_PUBLISHING;
	fm_job_work(j, publish_run, publish_done);
}
