/* SPDX-License-Identifier: MIT */
/*
 * beside - see beside.h. Every place is one read or write at a time, run on the lane that began
 * it.
 */
#include "mover/data/beside.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/data/lane.h"
#include "mover/store/store.h"
#include "mover/data/xfer.h"

/*
 * At most an eighth of what this user may still have: with many of them each goes slower, and the
 * last ones begin too.
 */
static bool take_memory(struct fm_beside *b, unsigned most, struct fm_share_id who,
			uint64_t place_bytes)
{
	b->count = most;
	while (b->count > 1 && !fm_budget_may_waiting(who, 8 * b->count * place_bytes))
		b->count /= 2;
	return fm_budget_take_waiting(who, b->count * place_bytes, &b->held);
}

static uint64_t place_bytes(const struct fm_xfer *x)
{
	return (uint64_t)x->o.chunk_bytes * (x->o.is_read_back ? 2 : 1);
}

static void give_memory(struct fm_xfer *x)
{
	fm_budget_give_waiting(x->beside.count * place_bytes(x), &x->beside.held);
	x->beside.count = 0;
}

static void give_up_run(struct fm_task *task)
{
	struct fm_beside_place *p = fm_container_of(task, struct fm_beside_place, give_up);
	struct fm_file *file = p->x->o.file;

	if (p->is_in_flight && file->ops->cancel)
		file->ops->cancel(file, &p->lane->io, &p->io);
	fm_xfer_unref(p->x);
}

int fm_beside_init(struct fm_xfer *x, unsigned most, struct fm_share_id who, struct fm_err *err)
{
	struct fm_beside *b = &x->beside;

	assert(most > 0 && most <= FM_BESIDE_CHUNKS_MAX);
	if (!take_memory(b, most, who, place_bytes(x))) {
		b->count = 0;
		(void)fm_err_set(err, -EBUSY,
				 "no memory left for another transfer of yours that may have to "
				 "wait for its file (a pipe, a directory, a file of FUSE or of a "
				 "server): run fewer at a time, or raise memory.total");
		err->is_full = fm_budget_could_waiting(who, place_bytes(x));
		return -EBUSY;
	}
	b->memory = FM_FAULT("beside.memory") ? NULL :
		    aligned_alloc(FM_BLOCK, b->count * (size_t)place_bytes(x));
	if (!b->memory) {
		give_memory(x);
		return fm_err_sys(err, -ENOMEM, "allocate room for what waits for a file");
	}
	for (unsigned i = 0; i < b->count; i++)
		b->place[i] = (struct fm_beside_place){ .x = x, .give_up.run = give_up_run };
	return 0;
}

void fm_beside_fini(struct fm_xfer *x)
{
	struct fm_beside *b = &x->beside;

	for (unsigned i = 0; i < b->count; i++)
		assert(!b->place[i].is_in_flight && !b->place[i].give_up.is_posted);
	free(b->memory);
	if (b->count > 0)
		give_memory(x);
}

void *fm_beside_at(const struct fm_xfer *x, unsigned place)
{
	assert(place < x->beside.count);
	return x->beside.memory + (size_t)place * x->o.chunk_bytes;
}

static void io_done(struct fm_io *io)
{
	struct fm_beside_place *p = fm_container_of(io, struct fm_beside_place, io);

	p->is_in_flight = false;
	p->ended(p, io->res);
}

static void start(struct fm_beside_place *p, const struct fm_io *io, void *buf, bool is_read,
		  void (*ended)(struct fm_beside_place *place, int64_t res))
{
	struct fm_file *file = p->x->o.file;

	assert(!p->is_in_flight);
	p->is_in_flight = true;
	p->ended = ended;
	p->io = *io;
	p->io.done = io_done;
	p->io.buf = buf;
	(is_read ? file->ops->read : file->ops->write)(file, &p->lane->io, &p->io);
}

static unsigned index_of(const struct fm_beside_place *p)
{
	return (unsigned)(p - p->x->beside.place);
}

void fm_beside_start(struct fm_beside_place *p, const struct fm_io *io,
		     void (*ended)(struct fm_beside_place *place, int64_t res))
{
	start(p, io, fm_beside_at(p->x, index_of(p)), p->x->o.is_source, ended);
}

void *fm_beside_again_at(const struct fm_beside_place *p)
{
	const struct fm_beside *b = &p->x->beside;

	assert(p->x->o.is_read_back);
	return b->memory + (size_t)(b->count + index_of(p)) * p->x->o.chunk_bytes;
}

void fm_beside_read_back(struct fm_beside_place *p, const struct fm_io *io,
			 void (*ended)(struct fm_beside_place *place, int64_t res))
{
	fm_block_spoil(fm_beside_again_at(p), io->len);
	start(p, io, fm_beside_again_at(p), true, ended);
}

void fm_beside_cancel(struct fm_beside_place *p)
{
	fm_xfer_ref(p->x);
	fm_loop_post(p->lane->io.loop, &p->give_up);
}
