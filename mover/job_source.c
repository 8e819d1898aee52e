/* SPDX-License-Identifier: MIT */
/* job_source - the end of a transfer that has the bytes. See job.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/job_priv.h"

/*
 * TCP copies through the CPU: a chunk should stay in its caches from the read to the socket, and from the socket to
 * the write.
 */
#define TCP_CHUNK_MAX (256u << 10)
#define CHUNKS_OF(size, chunk) ((size) == FM_SIZE_UNKNOWN ? UINT64_MAX : (size) / (chunk) + 1)

void fm_job_source_start(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_PUT };
	struct fm_wire_put *p = &m.put;

	p->flags = (uint16_t)((j->may_replace ? FM_WIRE_PUT_REPLACE : 0) | (j->attr.has_holes ? 0 : FM_WIRE_PUT_DENSE));
	p->xfer = j->id;
	p->size = j->attr.size;
	p->chunk = j->chunk;
	p->mode = j->attr.mode & 0777;
	p->mtime_ns = j->attr.mtime_ns;
	p->uid = j->who.uid;
	p->gid = j->who.gid;
	p->durability = (uint8_t)j->durability;
	p->store = fm_wire_str(j->store);
	p->path = (struct fm_wire_str){ j->path, j->path_len };
	j->is_far_end_told = false;
	fm_session_send(j->session, &m);
}

void fm_job_source_copy(struct fm_job *j)
{
	j->state = FM_JOB_COPYING;
	j->deadline_ns = 0;
	if (fm_job_kinds(j) == 1u << FM_KIND_TCP && j->chunk > TCP_CHUNK_MAX)
		j->chunk = TCP_CHUNK_MAX;
	if (fm_job_make_xfer(j) < 0)
		return;
	fm_session_wake(j->session, j->x->o.kinds, CHUNKS_OF(j->attr.size, j->chunk));
	/* An empty file has no chunk that could tell. */
	if (j->attr.size == 0)
		fm_job_source_progressed(j);
}

void fm_job_ready(struct fm_session *s, const struct fm_wire_ready *m)
{
	struct fm_job *j = fm_job_find(s, m->xfer);

	if (!j)
		return;		/* it crossed our ABORT */
	if (!j->is_source || !j->is_ours || j->state != FM_JOB_OPENING || m->chunk > j->chunk) {
		fm_session_protocol_error(s, "READY out of turn");
		return;
	}
	j->is_durable = m->flags & FM_WIRE_READY_DURABLE;
	j->chunk = m->chunk;
	fm_job_set_note(j, m->note.at, m->note.len);
	fm_job_source_copy(j);
}

/* ---- asked for by the peer ---- */

static void open_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_store *store = j->store_ref->store;

	fm_err_clear(&j->work_err);
	j->work_ret = store->ops->open_source(store, j->path, &j->who, &j->file, &j->attr, &j->work_err);
	if (j->work_ret < 0)
		j->file = NULL;
}

static void open_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_wire_msg m = { .type = FM_WIRE_FOUND };

	if (fm_job_is_over(j))
		return;
	if (j->work_ret < 0) {
		fm_job_end(j, j->work_ret, "%s", j->work_err.text);
		return;
	}
	m.found.flags = (uint16_t)(j->attr.has_holes ? 0 : FM_WIRE_FOUND_DENSE);
	m.found.xfer = j->id;
	m.found.size = j->attr.size;
	m.found.mode = j->attr.mode & 0777;
	m.found.mtime_ns = j->attr.mtime_ns;
	m.found.note = fm_wire_str(j->file->note ? j->file->note : "");
	fm_session_send(j->session, &m);
	if (j->state != FM_JOB_ENDED)
		fm_job_source_copy(j);
}

void fm_job_get(struct fm_session *s, const struct fm_wire_get *m)
{
	struct fm_job *j = fm_job_new_for_peer(s, m->xfer, &m->store, &m->path, m->uid, m->gid, true);

	if (!j)
		return;
	j->chunk = m->chunk < j->chunk ? m->chunk : j->chunk;
	j->rate_bytes = m->rate_bytes;
	j->is_ordered = m->flags & FM_WIRE_GET_ORDERED;
	if (!(m->flags & FM_WIRE_GET_RDMA))
		j->want = FM_WANT_TCP;
	else if (!(m->flags & FM_WIRE_GET_TCP))
		j->want = FM_WANT_RDMA;
	fm_job_work(j, open_run, open_done);
}

/* ---- all chunks are there ---- */

static void send_finish(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_FINISH };
	struct fm_wire_finish *f = &m.finish;
	const struct fm_xfer *x = j->x;

	f->xfer = j->id;
	pthread_mutex_lock(&j->session->link->lock);
	f->size = j->attr.size == FM_SIZE_UNKNOWN ? x->next_offset : j->attr.size;
	f->data_bytes = x->data_bytes;
	f->chunks = x->chunks;
	f->crc = j->engine->o.is_unchecked ? 0 : fm_xfer_crc(x, f->size);
	pthread_mutex_unlock(&j->session->link->lock);
	j->result.size = f->size;
	j->result.crc = f->crc;
	j->attr.size = f->size;
	j->state = FM_JOB_FINISHING;
	fm_session_send(j->session, &m);
}

static void check_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	j->work_ret = j->file->ops->check_unchanged(j->file, &j->work_err);
}

static void check_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (fm_job_is_over(j))
		return;
	if (j->work_ret < 0)
		fm_job_end(j, j->work_ret, "%s", j->work_err.text);
	else
		send_finish(j);
}

void fm_job_source_progressed(struct fm_job *j)
{
	bool is_sent;

	if (j->state != FM_JOB_COPYING)
		return;
	pthread_mutex_lock(&j->session->link->lock);
	is_sent = fm_xfer_is_sent(j->x);
	pthread_mutex_unlock(&j->session->link->lock);
	if (!is_sent) {
		fm_session_wake(j->session, j->x->o.kinds, UINT64_MAX);
		return;
	}
	j->state = FM_JOB_CHECKING;
	j->deadline_ns = 0;
	if (j->file->ops->check_unchanged)
		fm_job_work(j, check_run, check_done);
	else
		send_finish(j);
}

void fm_job_peer_done(struct fm_session *s, const struct fm_wire_done *m)
{
	struct fm_job *j = fm_job_find(s, m->xfer);

	if (!j)
		return;
	if (j->state != FM_JOB_FINISHING) {
		fm_session_protocol_error(s, "DONE before FINISH");
		return;
	}
	j->is_durable = m->flags & FM_WIRE_READY_DURABLE;
	j->is_far_end_told = true;
	fm_job_end(j, 0, "done");
}
