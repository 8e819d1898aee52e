/* SPDX-License-Identifier: MIT */
/*
 * queue_measure - an update of a store's directory for which there is no room is refused before
 * its first byte.
 *
 * How much it brings only a dry run tells, which goes over the whole of both ends; so it is
 * spared where there is room for the whole. A put knows how large that is and asks the far store
 * for its room. A get learns it from the far end, and its own end refuses. Then: a dry run, and
 * after that the update itself, which says how much will come. It is refused if that has no room.
 * An end that may be unable to keep what only it has wants a dry run, too (tree/sink_foreign.c).
 *
 * Failure: a far end that does not say how much room it has is not asked again, and the update
 * begins as it is. A dry run that fails is the end of this try.
 */
#include "mover/queue/queue_priv.h"

#include <errno.h>

#include "mover/services/request.h"

#define ROOM_NS (10 * FM_NS_PER_S)

static bool is_update(const struct fm_queue_job *j)
{
	return j->o.is_tree && j->o.end == FM_QUEUE_STORE && j->o.job.is_update && !j->o.job.is_dry;
}

static void room_said(void *ctx, const struct fm_request_result *result)
{
	struct fm_queue_job *j = ctx;
	uint64_t room = UINT64_MAX;

	if (result->code == 0 && result->page)
		room = result->page->space.free;
	if (result->code == 0 && result->page)
		room -= result->page->space.promised < room ? result->page->space.promised : room;
	j->is_measuring = j->try->attr.size > room;
	fm_queue_room_said(j);
}

bool fm_queue_asks_room(struct fm_queue_job *j)
{
	const struct fm_request_opts o = { .verb = FM_VERB_FREE,
					   .node = j->o.job.node,
					   .store = j->o.job.store,
					   .path = "",
					   .after = "",
					   .who = j->o.job.who,
					   .timeout_ns = fm_queue_deadline_within(j, ROOM_NS) };
	struct fm_err err;

	if (!is_update(j) || !j->o.job.is_put || j->is_asked || j->try->attr.size == 0 ||
	    j->try->attr.size == FM_SIZE_UNKNOWN)
		return false;
	j->is_asked = true;
	return j->queue->c.needs->request(j->queue->c.engine, &o, room_said, j, &err) == 0;
}

/*
 * Whether a put was refused because its size was not announced. The far end says ENOSPC for that
 * too.
 */
static bool is_far_unmeasured(const struct fm_queue_job *j, const struct fm_job_result *result)
{
	return j->o.job.is_put && result->code == -ENOSPC;
}

bool fm_queue_measures(struct fm_queue_job *j, const struct fm_job_result *result)
{
	bool was_measuring = j->is_measuring;

	j->is_measuring = false;
	if (j->end_code || !is_update(j))
		return false;
	if (was_measuring && result->code == 0) {
		j->is_measured = true;
		j->will_come = result->tree.wanted_bytes;
		if (j->o.job.is_put && j->will_come == 0)
			j->will_come = 1;	/* 0 would be: not known */
		return true;
	}
	j->is_measuring = !was_measuring && !j->is_measured &&
			  (result->is_unmeasured || is_far_unmeasured(j, result));
	return j->is_measuring;
}
