/* SPDX-License-Identifier: MIT */
/* lane - see lane.h. */
#include "mover/data/lane.h"

#include <assert.h>

#include "mover/base/env.h"

static void pump(struct fm_lane *lane)
{
	fm_list_each(at, next, &lane->users) {
		struct fm_lane_user *user = fm_container_of(at, struct fm_lane_user, at);

		user->step(user);
	}
}

static void pump_run(struct fm_task *task)
{
	pump(fm_container_of(task, struct fm_lane, pump));
}

static void tick_fire(struct fm_timer *timer)
{
	pump(fm_container_of(timer, struct fm_lane, tick));
}

void fm_lane_init(struct fm_lane *lane, unsigned index, struct fm_loop *loop, struct fm_ring *ring)
{
	*lane = (struct fm_lane){
		.io = {.loop = loop, .ring = ring, .done = &lane->done, .index = index},
		.index = index};
	fm_done_list_init(&lane->done, loop);
	fm_list_init(&lane->users);
	lane->pump.run = pump_run;
	lane->tick.fire = tick_fire;
}

void fm_lane_join(struct fm_lane *lane, struct fm_lane_user *user)
{
	fm_list_append(&lane->users, &user->at);
}

void fm_lane_leave(struct fm_lane *lane, struct fm_lane_user *user)
{
	fm_list_del(&user->at);
	if (fm_list_is_empty(&lane->users))
		fm_timer_clear(lane->io.loop, &lane->tick);
}

void fm_lane_fini(struct fm_lane *lane)
{
	assert(fm_list_is_empty(&lane->users) && !fm_timer_is_set(&lane->tick));
}

void fm_lane_wake(struct fm_lane *lane)
{
	fm_loop_post(lane->io.loop, &lane->pump);
}

void fm_lane_wake_at(struct fm_lane *lane, uint64_t at_ns)
{
	if (at_ns != FM_NEVER && (!fm_timer_is_set(&lane->tick) || at_ns < lane->tick.at_ns))
		fm_timer_set(lane->io.loop, &lane->tick, at_ns);
}

void fm_lane_log_read_back(struct fm_lane *lane, uint32_t len, uint64_t offset)
{
	fm_log_some(&lane->lines, fm_loop_now(lane->io.loop), FM_LOG_WARN,
		    "the disk gave back other bytes than were written to it: %u bytes at byte %llu "
		    "of a transfer; they are written again",
		    len, (unsigned long long)offset);
}
