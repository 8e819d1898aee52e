/* SPDX-License-Identifier: MIT */
#include "mover/fill.h"

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

/* Whoever carries it finds it now. Nobody may, for the moment, or somebody else: then the control thread wakes all. */
static void tell(struct fm_fill *fill)
{
	struct fm_xfer *x = fill->x;

	if (x->bound_to == fill->who && x->o.kinds & 1u << fill->kind)
		fm_lane_wake(fill->lane);
	else if (!x->is_removed)
		fm_loop_post(x->o.control, &x->notify);
}

static void read_done(struct fm_io *io)
{
	struct fm_fill *fill = fm_container_of(io, struct fm_fill, io);
	struct fm_xfer *x = fill->x;
	struct fm_link *l = x->link;

	fill->is_in_flight = false;
	pthread_mutex_lock(&l->lock);
	fm_xfer_filled(x, io->res);
	tell(fill);
	pthread_mutex_unlock(&l->lock);
	fm_xfer_unref(x);
	fm_link_unref(l);
}

static void give_up_run(struct fm_task *task)
{
	struct fm_fill *fill = fm_container_of(task, struct fm_fill, give_up);
	struct fm_file *file = fill->x->o.file;

	if (fill->is_in_flight && file->ops->cancel)
		file->ops->cancel(file, &fill->lane->io, &fill->io);
	fm_xfer_unref(fill->x);
}

int fm_fill_init(struct fm_fill *fill, struct fm_xfer *x, struct fm_share_id who, struct fm_err *err)
{
	if (!fm_budget_take_waiting(who, x->o.chunk_bytes, &fill->held))
		return fm_err_set(err, -EBUSY, "no memory left for another pipe of yours: run fewer at a time, or raise memory.total");
	fill->memory = FM_FAULT("fill.memory") ? NULL : aligned_alloc(FM_STORE_BLOCK, x->o.chunk_bytes);
	if (!fill->memory) {
		fm_budget_give_waiting(x->o.chunk_bytes, &fill->held);
		return fm_err_sys(err, -ENOMEM, "allocate a chunk of the stream");
	}
	fill->x = x;
	fill->give_up.run = give_up_run;
	return 0;
}

void fm_fill_fini(struct fm_fill *fill)
{
	if (!fill->memory)
		return;
	assert(!fill->is_in_flight && !fill->give_up.is_posted);
	free(fill->memory);
	fm_budget_give_waiting(fill->x->o.chunk_bytes, &fill->held);
}

void fm_fill_start(struct fm_fill *fill)
{
	struct fm_file *file = fill->x->o.file;

	fm_link_ref(fill->x->link);	/* the session may be gone when a pipe gives something */
	fill->is_in_flight = true;
	fill->io = (struct fm_io){ .done = read_done, .buf = fill->memory, .len = fill->x->o.chunk_bytes, .offset = FM_IO_STREAM };
	file->ops->read(file, &fill->lane->io, &fill->io);
}

void fm_fill_cancel(struct fm_fill *fill)
{
	if (fill->state != FM_FILL_READING)
		return;
	fm_xfer_ref(fill->x);
	fm_loop_post(fill->lane->io.loop, &fill->give_up);
}
