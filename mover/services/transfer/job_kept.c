/* SPDX-License-Identifier: MIT */
/*
 * job_kept - what is there from an earlier try is read again before it is taken for what its
 * journal says. See job.h.
 *
 * Sink, happy path: READY is out -> while the rest comes, a worker reads piece after piece, a slice
 * at a time -> each is what the journal says -> KEPT (LAST): the source may end it. A piece is
 * something else, or cannot be read: it counts no more, and KEPT says which, so that the source
 * sends it. Source: what KEPT names is sent; nothing is finished before the last KEPT.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/show.h"
#include "mover/services/transfer/job.h"

#define SLICE_BYTES (16u << 20)		/* that a worker reads at once: others wait for it too */
#define SAY_NS FM_NS_PER_S

_Static_assert(SLICE_BYTES % FM_DIGEST_BLOCK_MIN == 0, "a slice ends where a block does");

struct fm_kept {
	struct fm_job *job;
	size_t next;			/* the piece at hand */
	uint64_t at;			/* in it: what was read so far */
	uint32_t part;			/* of that, contributions, xored */
	uint32_t block[FM_DIGEST_BLOCKS_MAX];	/* the same by blocks */
	uint64_t reread;		/* of all pieces */
	uint64_t said_ns;
	struct fm_work work;
	uint64_t offset;		/* the slice that the worker has ... */
	uint64_t len;
	uint32_t slice_part;		/* ... and what came of it */
	int ret;
};

/* ---- sink ---- */

static void say(struct fm_job *j, const struct fm_written *damaged, bool is_last)
{
	struct fm_wire_msg m = { .type = FM_WIRE_KEPT };

	m.kept.flags = is_last ? FM_WIRE_KEPT_LAST : 0;
	m.kept.xfer = j->id;
	m.kept.reread = j->sink.kept->reread;
	if (damaged) {
		m.kept.damaged = (struct fm_wire_range){ damaged->offset, damaged->len };
		m.kept.crc = damaged->crc;
	}
	j->sink.kept->said_ns = fm_engine_now(j->engine);
	fm_link_reread(j->x, m.kept.reread, is_last);
	fm_session_send(j->session, &m);
}

static void reread_run(struct fm_work *work)
{
	struct fm_kept *k = fm_container_of(work, struct fm_kept, work);
	struct fm_job *j = k->job;

	k->ret = j->file->ops->reread(j->file, k->offset, k->len, &k->slice_part);
}

static void reread_done(struct fm_work *work);

/* Reads the next slice of the piece. A slice lies in one block of the digest. */
static void read_on(struct fm_job *j)
{
	struct fm_kept *k = j->sink.kept;
	const struct fm_written *piece = &j->have.pieces[k->next];
	uint64_t block_bytes = fm_digest_block_bytes(j->attr.size), left = piece->len - k->at, room;

	k->offset = piece->offset + k->at;
	room = block_bytes - k->offset % block_bytes;
	k->len = left < room ? left : room;
	k->len = k->len < SLICE_BYTES ? k->len : SLICE_BYTES;
	k->work = (struct fm_work){ .run = reread_run, .done = reread_done };
	j->sink.is_rereading = true;
	fm_job_submit(j, &k->work);
}

/* Takes back a piece that an earlier try left and that is damaged: it will be sent again. */
static int drop(struct fm_job *j, const struct fm_written *piece)
{
	struct fm_path_shown shown;
	int ret = fm_link_take_back(j->x, piece);

	if (ret < 0) {
		fm_job_end(
			j, ret,
			"what is there of an earlier try is damaged, and cannot be sent again: %s",
			fm_err_name(ret));
		return ret;
	}
	fm_session_log(j->session, FM_LOG_WARN,
		       "%s: what an earlier try left is not what it was: %llu bytes at byte %llu; "
		       "they are sent again",
		       fm_path_show(j->path, &shown), (unsigned long long)piece->len,
		       (unsigned long long)piece->offset);
	return 0;
}

/* Ends the reading of a piece. If it is not good, the source is told, and sends it again. */
static void judge(struct fm_job *j, bool is_good)
{
	struct fm_kept *k = j->sink.kept;
	const struct fm_written *piece = &j->have.pieces[k->next++];
	bool is_last = k->next == j->have.count;

	k->reread += piece->len - k->at;	/* what was given up unread */
	if (is_good)
		fm_link_count_kept(j->x, piece, k->block);
	else if (drop(j, piece) < 0)
		return;
	if (!is_good || is_last)
		say(j, is_good ? NULL : piece, is_last);
	k->at = 0;
	k->part = 0;
	memset(k->block, 0, sizeof(k->block));
}

static void reread_done(struct fm_work *work)
{
	struct fm_kept *k = fm_container_of(work, struct fm_kept, work);
	struct fm_job *j = k->job;
	const struct fm_written *piece = &j->have.pieces[k->next];

	j->sink.is_rereading = false;
	if (j->state == FM_JOB_ENDED) {
		fm_job_clean(j);
		return;
	}
	if (k->ret == -ENOMEM) {
		fm_job_end(j, k->ret, "no memory to read again what is there of an earlier try");
		return;
	}
	if (k->ret == 0) {
		k->at += k->len;
		k->reread += k->len;
		k->part ^= k->slice_part;
		k->block[k->offset / fm_digest_block_bytes(j->attr.size)] ^= k->slice_part;
	}
	if (k->ret < 0 || k->at == piece->len)
		judge(j, k->ret == 0 && k->part == piece->crc);
	else if (fm_engine_now(j->engine) >= k->said_ns + SAY_NS)
		say(j, NULL, false);	/* that it goes on */
	if (j->state != FM_JOB_ENDED && k->next < j->have.count)
		read_on(j);
}

bool fm_job_is_kept_unread(const struct fm_job *j)
{
	return j->sink.kept && j->sink.kept->next < j->have.count;
}

void fm_job_reread_kept(struct fm_job *j)
{
	if (j->state == FM_JOB_ENDED || j->have.count == 0)
		return;
	assert(!j->sink.kept && j->file->ops->reread);
	j->sink.kept = FM_FAULT("job.kept") ? NULL : fm_budget_alloc(sizeof(*j->sink.kept));
	if (!j->sink.kept) {
		fm_job_end(j, -ENOMEM, "out of memory");
		return;
	}
	j->sink.kept->job = j;
	j->sink.kept->said_ns = fm_engine_now(j->engine);
	read_on(j);
}

/* ---- source ---- */

void fm_job_on_kept(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_kept *m = &msg->kept;
	const struct fm_written damaged = {
		.offset = m->damaged.offset, .len = m->damaged.len, .crc = m->crc};
	struct fm_job *j = fm_job_find(s, m->xfer);
	int ret = -EPROTO;

	if (!j)
		return;		/* it crossed our ABORT */
	if (j->is_source && j->state == FM_JOB_COPYING && j->x)
		ret = fm_link_take_kept(j->x, m->reread, m->flags & FM_WIRE_KEPT_LAST, &damaged);
	if (ret == -EPROTO)
		fm_session_protocol_error(s, "KEPT out of turn");
	else if (ret < 0)
		fm_job_end(j, ret, "out of memory");
	else
		fm_job_source_progressed(j);
}
