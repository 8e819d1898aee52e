/* SPDX-License-Identifier: MIT */
/*
 * fill - see fill.h. A place is read by a lane, then copied into a slot by the flow that claims
 * it.
 */
#include "mover/data/fill.h"

#include "mover/base/block.h"
#include "mover/data/beside.h"
#include "mover/data/lane.h"
#include "mover/data/layout.h"
#include "mover/data/xfer.h"

/*
 * A chunk is ready to be sent. The flow that carries the transfer is woken. If none does, or any
 * may, the control thread wakes all lanes.
 */
static void tell(struct fm_xfer *x, unsigned place)
{
	const struct fm_fill *fill = &x->fill[place];

	if (fill->who && x->bound_to == fill->who && x->o.kinds & 1u << fill->kind)
		fm_lane_wake(x->beside.place[place].lane);
	else if (!x->is_removed)
		fm_loop_post(x->o.control, &x->notify);
}

void fm_fill_ended(struct fm_beside_place *place, int64_t res)
{
	struct fm_xfer *x = place->x;
	unsigned at = (unsigned)(place - x->beside.place);

	fm_xfer_filled(x, at, res);
	tell(x, at);
}

bool fm_fill_is_reading(const struct fm_xfer *x)
{
	for (unsigned i = 0; i < x->beside.count; i++)
		if (x->fill[i].state == FM_FILL_READING)
			return true;
	return false;
}

void fm_fill_start(struct fm_beside_place *place,
		   void (*ended)(struct fm_beside_place *place, int64_t res))
{
	struct fm_xfer *x = place->x;
	const struct fm_chunk *c = &x->filling[place - x->beside.place];
	/* A direct read wants whole blocks; what is behind the end is not read. */
	const struct fm_io io = { .len = (uint32_t)fm_block_up(c->len),
				  .offset = x->layout->at(c) };

	fm_beside_start(place, &io, ended);
}

void fm_fill_cancel(struct fm_xfer *x)
{
	for (unsigned i = 0; x->o.is_source && i < x->beside.count; i++)
		if (x->fill[i].state == FM_FILL_READING)
			fm_beside_cancel(&x->beside.place[i]);
}
