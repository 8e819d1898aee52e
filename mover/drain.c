/* SPDX-License-Identifier: MIT */
#include "mover/drain.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/lane.h"
#include "mover/link.h"
#include "mover/store/store.h"
#include "mover/xfer.h"

static struct fm_drain_place *place_of(struct fm_drain *d, uint64_t seq)
{
	return &d->place[seq % d->count];
}

/* At most an eighth of what this user may still have: with many pipes each goes slower, and the last ones begin too. */
static bool take_memory(struct fm_drain *d, struct fm_share_id who, uint64_t chunk_bytes)
{
	d->count = FM_DRAIN_CHUNKS_MAX;
	while (d->count > 1 && !fm_budget_may_waiting(who, 8 * d->count * chunk_bytes))
		d->count /= 2;
	return fm_budget_take_waiting(who, d->count * chunk_bytes, &d->held);
}

static void give_up_run(struct fm_task *task)
{
	struct fm_drain *d = fm_container_of(task, struct fm_drain, give_up);
	struct fm_file *file = d->x->o.file;

	if (d->is_in_flight && file->ops->cancel)
		file->ops->cancel(file, &d->lane->io, &d->io);
	fm_xfer_unref(d->x);
}

int fm_drain_init(struct fm_drain *d, struct fm_xfer *x, struct fm_share_id who, struct fm_err *err)
{
	uint32_t chunk_bytes = x->o.chunk_bytes;

	if (!take_memory(d, who, chunk_bytes))
		return fm_err_set(err, -EBUSY, "no memory left for another pipe of yours: run fewer at a time, or raise memory.total");
	d->memory = FM_FAULT("drain.memory") ? NULL : aligned_alloc(FM_STORE_BLOCK, (size_t)d->count * chunk_bytes);
	if (!d->memory) {
		fm_budget_give_waiting((uint64_t)d->count * chunk_bytes, &d->held);
		return fm_err_sys(err, -ENOMEM, "allocate room for what a stream does not take at once");
	}
	d->x = x;
	d->give_up.run = give_up_run;
	return 0;
}

void fm_drain_fini(struct fm_drain *d)
{
	if (!d->memory)
		return;
	assert(!d->is_in_flight && !d->give_up.is_posted);
	free(d->memory);
	fm_budget_give_waiting((uint64_t)d->count * d->x->o.chunk_bytes, &d->held);
}

void *fm_drain_place(const struct fm_drain *d, uint64_t seq)
{
	return d->memory + seq % d->count * d->x->o.chunk_bytes;
}

int fm_drain_accept(struct fm_drain *d, const struct fm_chunk *chunk)
{
	struct fm_drain_place *p = place_of(d, chunk->seq);

	if (chunk->seq >= d->to)
		return -ERANGE;
	if (d->is_over || chunk->seq < d->x->next_seq || p->state != FM_DRAIN_FREE)
		return -EPROTO;
	*p = (struct fm_drain_place){ .state = FM_DRAIN_COMING, .len = chunk->len, .offset = chunk->offset };
	return 0;
}

/* Whether the chunk that is to be written next is here, and belongs there. */
static bool has_next(struct fm_drain *d)
{
	const struct fm_drain_place *p = place_of(d, d->x->next_seq);

	if (p->state != FM_DRAIN_HERE || d->x->is_removed || d->x->err.code)
		return false;
	if (p->offset == d->x->next_offset)
		return true;
	fm_xfer_fail(d->x, -EPROTO, "the peer sent byte %llu where byte %llu was due", (unsigned long long)p->offset,
		     (unsigned long long)d->x->next_offset);
	return false;
}

bool fm_drain_filled(struct fm_drain *d, uint64_t seq, bool is_there, struct fm_lane *lane)
{
	struct fm_drain_place *p = place_of(d, seq);

	assert(p->state == FM_DRAIN_COMING);
	p->state = is_there ? FM_DRAIN_HERE : FM_DRAIN_FREE;
	if (d->is_writing || !has_next(d))
		return false;
	d->is_writing = true;
	d->lane = lane;
	return true;
}

static void fail_write(struct fm_drain *d, int64_t res)
{
	struct fm_file *file = d->x->o.file;
	int code = res < 0 ? (int)res : -EIO;
	struct fm_err why = { 0 };

	if (code == -ECANCELED)
		return;
	if (file->ops->why)
		file->ops->why(file, &why);
	if (why.code)
		fm_xfer_fail(d->x, why.code, "%s", why.text);
	fm_xfer_fail(d->x, code, "write %u bytes at byte %llu: %s", d->io.len, (unsigned long long)d->x->next_offset, fm_err_name(code));
}

static uint64_t could_go(const struct fm_drain *d)
{
	uint64_t to = d->x->next_seq + d->count;

	/* By halves, so that the source is not told of each chunk; it always has one, when all that it sent is written. */
	return to - d->to >= (d->count + 1) / 2 ? to : 0;
}

static void tell_control(struct fm_drain *d)
{
	if (!d->x->is_removed && (d->is_over ? fm_drain_is_empty(d) : could_go(d) > 0))
		fm_loop_post(d->x->o.control, &d->x->notify);
}

static void write_done(struct fm_io *io)
{
	struct fm_drain *d = fm_container_of(io, struct fm_drain, io);
	struct fm_xfer *x = d->x;
	struct fm_link *l = x->link;
	bool goes_on;

	d->is_in_flight = false;
	pthread_mutex_lock(&l->lock);
	if (io->res == (int64_t)io->len) {
		place_of(d, x->next_seq)->state = FM_DRAIN_FREE;
		x->next_seq++;
		x->next_offset += io->len;
	} else {
		fail_write(d, io->res);
	}
	goes_on = d->is_writing = has_next(d);
	tell_control(d);
	pthread_mutex_unlock(&l->lock);
	if (goes_on)	/* else another lane may have begun one by now */
		fm_drain_start(d);
	fm_xfer_unref(x);
	fm_link_unref(l);
}

void fm_drain_start(struct fm_drain *d)
{
	struct fm_xfer *x = d->x;
	struct fm_file *file = x->o.file;

	fm_xfer_ref(x);
	fm_link_ref(x->link);	/* the session may be gone when a pipe takes something */
	d->is_in_flight = true;
	d->io = (struct fm_io){ .done = write_done, .buf = fm_drain_place(d, x->next_seq), .len = d->place[x->next_seq % d->count].len,
				.offset = FM_IO_STREAM };
	file->ops->write(file, &d->lane->io, &d->io);
}

uint64_t fm_drain_open(struct fm_drain *d)
{
	uint64_t to = could_go(d);

	if (to > 0)
		d->to = to;
	return to;
}

bool fm_drain_is_empty(const struct fm_drain *d)
{
	for (unsigned i = 0; i < d->count; i++)
		if (d->place[i].state != FM_DRAIN_FREE)
			return false;
	return true;
}

int fm_drain_end(struct fm_drain *d)
{
	unsigned here = 0;

	d->is_over = true;
	while (here < d->count && place_of(d, d->x->next_seq + here)->state == FM_DRAIN_HERE)
		here++;
	for (; here < d->count; here++)
		if (place_of(d, d->x->next_seq + here)->state != FM_DRAIN_FREE)
			return -EPROTO;
	return 0;
}

void fm_drain_cancel(struct fm_drain *d)
{
	if (!d->is_writing)
		return;
	fm_xfer_ref(d->x);
	fm_loop_post(d->lane->io.loop, &d->give_up);
}
