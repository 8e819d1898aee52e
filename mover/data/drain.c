/* SPDX-License-Identifier: MIT */
/*
 * drain - see drain.h. A place is filled by the flow that received its chunk, then written by a
 * lane.
 */
#include "mover/data/drain.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "mover/base/block.h"
#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/data/lane.h"
#include "mover/data/layout.h"
#include "mover/data/xfer.h"

static unsigned index_of(const struct fm_xfer *x, uint64_t seq)
{
	return (unsigned)(seq % x->beside.count);
}

static struct fm_drain_place *place_of(struct fm_xfer *x, uint64_t seq)
{
	return &x->drain.place[index_of(x, seq)];
}

void *fm_drain_place(const struct fm_xfer *x, uint64_t seq)
{
	return fm_beside_at(x, index_of(x, seq));
}

int fm_drain_accept(struct fm_xfer *x, const struct fm_chunk *chunk)
{
	struct fm_drain *d = &x->drain;
	struct fm_drain_place *p = place_of(x, chunk->seq);

	if (chunk->seq >= d->to)
		return -ERANGE;
	if (d->is_over || chunk->seq < x->next_seq)
		return -EPROTO;
	if (p->state == FM_DRAIN_COMING || FM_FAULT("drain.coming"))
		return -EAGAIN;
	if (p->state != FM_DRAIN_FREE)
		return -EPROTO;
	*p = (struct fm_drain_place){
		.state = FM_DRAIN_COMING, .seq = chunk->seq, .len = chunk->len, .crc = chunk->crc,
		.offset = chunk->offset
	};
	return 0;
}

/*
 * Whether the place is to be written now. The next chunk of a stream must begin where the last one
 * ended; otherwise the transfer fails.
 */
static bool is_due(struct fm_xfer *x, const struct fm_drain_place *p)
{
	if (p->state != FM_DRAIN_HERE || x->is_removed || x->err.code)
		return false;
	if (!x->layout->is_in_order || p->offset == x->next_offset)
		return true;
	fm_xfer_fail(x, -EPROTO, "the peer sent byte %llu where byte %llu was due",
		     (unsigned long long)p->offset, (unsigned long long)x->next_offset);
	return false;
}

/*
 * Marks the chunk with that number as being written on that lane, and returns its place. NULL: it
 * is not due yet.
 */
static struct fm_beside_place *begin(struct fm_xfer *x, uint64_t seq, struct fm_lane *lane)
{
	struct fm_drain_place *p = place_of(x, seq);

	if (!is_due(x, p))
		return NULL;
	p->state = FM_DRAIN_WRITING;
	x->beside.place[index_of(x, seq)].lane = lane;
	return &x->beside.place[index_of(x, seq)];
}

struct fm_beside_place *fm_drain_filled(struct fm_xfer *x, uint64_t seq, bool is_there,
					struct fm_lane *lane)
{
	struct fm_drain_place *p = place_of(x, seq);

	assert(p->state == FM_DRAIN_COMING);
	p->state = is_there ? FM_DRAIN_HERE : FM_DRAIN_FREE;
	return begin(x, x->layout->is_in_order ? x->next_seq : seq, lane);
}

static void fail_io(struct fm_xfer *x, const struct fm_drain_place *p, int64_t res)
{
	char what[48];

	(void)snprintf(what, sizeof(what), "%s %u bytes",
		       p->state == FM_DRAIN_READING ? "read back" : "write", p->len);	/* fits */
	fm_xfer_fail_io(x, res < 0 ? (int)res : -EIO, what, p->offset);
}

static uint64_t could_go(const struct fm_xfer *x)
{
	uint64_t to = x->next_seq + x->beside.count;

	/*
	 * The window moves by half of the places at a time, so that the source is not told of each
	 * chunk. When all that it sent is written, the window is always open.
	 */
	return to - x->drain.to >= (x->beside.count + 1) / 2 ? to : 0;
}

static void tell_control(struct fm_xfer *x)
{
	if (!x->is_removed && (x->drain.is_over ? fm_drain_is_empty(x) : could_go(x) > 0))
		fm_loop_post(x->o.control, &x->notify);
}

/* Frees the places of all chunks before the first one that is not written yet. */
static void make_room(struct fm_xfer *x)
{
	struct fm_drain_place *p;

	while ((p = place_of(x, x->next_seq))->state == FM_DRAIN_WRITTEN && p->seq == x->next_seq) {
		p->state = FM_DRAIN_FREE;
		x->next_seq++;
		x->next_offset = p->offset + p->len;
	}
}

static struct fm_chunk chunk_of(const struct fm_drain_place *p)
{
	return (struct fm_chunk){
		.seq = p->seq, .offset = p->offset, .len = p->len, .crc = p->crc
	};
}

static void count_written(struct fm_xfer *x, struct fm_drain_place *p)
{
	const struct fm_chunk c = chunk_of(p);

	p->state = FM_DRAIN_WRITTEN;
	fm_xfer_note_written(x, &c);
	make_room(x);
}

static struct fm_drain_place *drain_place(struct fm_beside_place *place)
{
	return &place->x->drain.place[place - place->x->beside.place];
}

int64_t fm_drain_look(struct fm_beside_place *place, int64_t res)
{
	/* this lane alone changes it now */
	const struct fm_drain_place *p = drain_place(place);

	if (p->state != FM_DRAIN_READING || res < (int64_t)p->len)
		return res;
	if (!FM_FAULT("store.readback") &&
	    fm_crc32c(0, fm_beside_again_at(place), p->len) == p->crc)
		return p->len;
	fm_lane_log_read_back(place->lane, p->len, p->offset);
	return -EBADMSG;
}

/* Something else was read back: it is written again, but not for ever. */
static void count_wrong(struct fm_xfer *x, struct fm_drain_place *p)
{
	x->corrupt_chunks++;
	if (++p->wrong == FM_XFER_CORRUPT_MAX)
		fm_xfer_fail(x, -EBADMSG,
			     "the disk gives back other bytes than were written to it: %u bytes at "
			     "byte %llu, %d times",
			     p->len, (unsigned long long)p->offset, FM_XFER_CORRUPT_MAX);
}

/* What is to be done next with a chunk whose write, or reading back, ended so. NULL: nothing. */
static struct fm_beside_place *go_on(struct fm_beside_place *place, int64_t res)
{
	struct fm_drain_place *p = drain_place(place);
	struct fm_xfer *x = place->x;

	if (res == (int64_t)p->len && p->state == FM_DRAIN_WRITING && x->o.is_read_back) {
		/* removed: fm_drain_cancel() is over, so nothing may be begun */
		p->state = x->is_removed ? FM_DRAIN_HERE : FM_DRAIN_READING;
		return x->is_removed ? NULL : place;
	}
	if (res == (int64_t)p->len) {
		count_written(x, p);
		return NULL;
	}
	if (res == -EBADMSG && p->state == FM_DRAIN_READING)
		count_wrong(x, p);
	else
		fail_io(x, p, res);
	p->state = FM_DRAIN_HERE;
	return begin(x, p->seq, place->lane);
}

struct fm_beside_place *fm_drain_ended(struct fm_beside_place *place, int64_t res)
{
	struct fm_xfer *x = place->x;
	struct fm_beside_place *next = go_on(place, res);

	if (!next && x->layout->is_in_order)
		next = begin(x, x->next_seq, place->lane);
	tell_control(x);
	return next;
}

void fm_drain_start(struct fm_beside_place *place,
		    void (*ended)(struct fm_beside_place *place, int64_t res))
{
	struct fm_xfer *x = place->x;
	const struct fm_drain_place *p = drain_place(place);
	const struct fm_chunk c = chunk_of(p);
	struct fm_io io = { .len = p->len, .offset = x->layout->at(&c) };

	if (p->state == FM_DRAIN_READING) {
		io.len = (uint32_t)fm_block_up(p->len);
		fm_beside_read_back(place, &io, ended);
		return;
	}
	fm_beside_start(place, &io, ended);
}

uint64_t fm_drain_open(struct fm_xfer *x)
{
	uint64_t to = could_go(x);

	if (to > 0)
		x->drain.to = to;
	return to;
}

bool fm_drain_is_empty(const struct fm_xfer *x)
{
	for (unsigned i = 0; i < x->beside.count; i++) {
		const struct fm_drain_place *p = &x->drain.place[i];

		if (p->state != FM_DRAIN_FREE && p->state != FM_DRAIN_WRITTEN)
			return false;
	}
	return true;
}

/* A number of what is made may be one that does not exist, so there are gaps. */
int fm_drain_end(struct fm_xfer *x)
{
	unsigned here = 0;

	x->drain.is_over = true;
	while (here < x->beside.count && place_of(x, x->next_seq + here)->state >= FM_DRAIN_HERE)
		here++;
	for (; here < x->beside.count; here++) {
		const struct fm_drain_place *p = place_of(x, x->next_seq + here);

		if (p->state == FM_DRAIN_COMING ||
		    (p->state != FM_DRAIN_FREE && !x->layout->is_made))
			return -EPROTO;
	}
	return 0;
}

void fm_drain_cancel(struct fm_xfer *x)
{
	for (unsigned i = 0; !x->o.is_source && i < x->beside.count; i++)
		if (x->drain.place[i].state == FM_DRAIN_WRITING ||
		    x->drain.place[i].state == FM_DRAIN_READING)
			fm_beside_cancel(&x->beside.place[i]);
}
