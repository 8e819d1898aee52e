/* SPDX-License-Identifier: MIT */
/* lanes - see lanes.h. */
#include "mover/daemon/lanes.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/ring.h"

#define RING_DEPTH 128
#define STACK_BYTES (1u << 20)	/* lanes do not recurse */

enum lane_state { LANE_STARTING, LANE_RUNS, LANE_FAILED };

struct lane {
	struct fm_lanes *lanes;
	unsigned number;
	pthread_t thread;
	bool has_thread;
	enum lane_state state;		/* under lanes->lock */
	struct fm_err err;		/* when FAILED */
	struct fm_loop *loop;
	struct fm_ring *ring;
	struct fm_task ping;
	atomic_bool has_answered;
};

struct fm_lanes {
	struct fm_lanes_opts opts;
	struct fm_arena arena;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct lane lane[FM_LANES_MAX];
};

static int lane_open(struct lane *lane)
{
	const struct fm_lanes_opts *o = &lane->lanes->opts;
	struct fm_loop_opts loop_opts = { .spin_ns = o->spin_ns };
	struct fm_ring_opts ring_opts = {
		.depth = RING_DEPTH,
		.memory = lane->lanes->arena.memory,
		.memory_len = lane->lanes->arena.len,
		.is_threads_only = o->is_threads_only,
	};
	int ret = fm_loop_new(&loop_opts, &lane->loop, &lane->err);

	if (ret < 0)
		return ret;
	ret = fm_ring_new(lane->loop, &ring_opts, &lane->ring, &lane->err);
	if (ret < 0)
		return ret;
	if (o->is_uring_only && strncmp(fm_ring_kind(lane->ring), "io_uring", 8) != 0)
		return fm_err_set(&lane->err, -EOPNOTSUPP,
				  "mover.io is \"io_uring\", but there are only %s; say \"auto\"",
				  fm_ring_kind(lane->ring));
	return 0;
}

static void lane_close(struct lane *lane)
{
	fm_ring_free(lane->ring);
	fm_loop_free(lane->loop);
	lane->ring = NULL;
	lane->loop = NULL;
}

static void lane_say(struct lane *lane, enum lane_state state)
{
	pthread_mutex_lock(&lane->lanes->lock);
	lane->state = state;
	pthread_cond_signal(&lane->lanes->changed);
	pthread_mutex_unlock(&lane->lanes->lock);
}

static void *lane_main(void *arg)
{
	struct lane *lane = arg;

	if (lane_open(lane) < 0) {
		lane_close(lane);
		lane_say(lane, LANE_FAILED);
		return NULL;
	}
	lane_say(lane, LANE_RUNS);
	fm_loop_run(lane->loop);
	while (fm_loop_step(lane->loop, 0))
		;	/* a last ping, perhaps: nothing may be posted to a loop that is freed */
	return NULL;
}

static int lane_spawn(struct lane *lane, struct fm_err *err)
{
	char name[16];		/* what the kernel keeps of it */
	pthread_attr_t attr;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	ret = FM_FAULT("lane.thread") ? EAGAIN
				      : pthread_create(&lane->thread, &attr, lane_main, lane);
	pthread_attr_destroy(&attr);
	if (ret != 0)
		return fm_err_sys(err, -ret, "start lane %u", lane->number);
	lane->has_thread = true;
	snprintf(name, sizeof(name), "lane-%u", lane->number);
	pthread_setname_np(lane->thread, name);
	return 0;
}

static int lane_wait(struct lane *lane, struct fm_err *err)
{
	struct fm_lanes *lanes = lane->lanes;

	pthread_mutex_lock(&lanes->lock);
	while (lane->state == LANE_STARTING)
		pthread_cond_wait(&lanes->changed, &lanes->lock);
	pthread_mutex_unlock(&lanes->lock);
	if (lane->state == LANE_RUNS)
		return 0;
	if (err)
		*err = lane->err;
	return fm_err_wrap(err, "lane %u", lane->number);
}

static void ping_run(struct fm_task *task)
{
	struct lane *lane = fm_container_of(task, struct lane, ping);

	atomic_store(&lane->has_answered, true);
}

int fm_lanes_new(const struct fm_lanes_opts *opts, struct fm_lanes **out, struct fm_err *err)
{
	struct fm_lanes *lanes = calloc(1, sizeof(*lanes));
	int ret = 0;

	assert(opts->count >= 1 && opts->count <= FM_LANES_MAX);
	if (!lanes)
		return fm_err_set(err, -ENOMEM, "out of memory");
	lanes->opts = *opts;
	lanes->arena = *opts->arena;
	pthread_mutex_init(&lanes->lock, NULL);
	pthread_cond_init(&lanes->changed, NULL);
	for (unsigned i = 0; ret == 0 && i < opts->count; i++) {
		struct lane *lane = &lanes->lane[i];

		lane->lanes = lanes;
		lane->number = i;
		lane->ping.run = ping_run;
		atomic_init(&lane->has_answered, true);
		ret = lane_spawn(lane, err);
	}
	for (unsigned i = 0; ret == 0 && i < opts->count; i++)
		ret = lane_wait(&lanes->lane[i], err);
	if (ret < 0) {
		fm_lanes_free(lanes);
		return ret;
	}
	*out = lanes;
	return 0;
}

void fm_lanes_stop(struct fm_lanes *lanes)
{
	for (unsigned i = 0; i < lanes->opts.count; i++) {
		struct lane *lane = &lanes->lane[i];

		if (!lane->has_thread)
			continue;
		if (lane_wait(lane, NULL) == 0 && lane->state == LANE_RUNS)
			fm_loop_stop(lane->loop);
		pthread_join(lane->thread, NULL);
		lane->has_thread = false;
	}
}

void fm_lanes_free(struct fm_lanes *lanes)
{
	if (!lanes)
		return;
	fm_lanes_stop(lanes);
	for (unsigned i = 0; i < lanes->opts.count; i++)
		lane_close(&lanes->lane[i]);
	pthread_cond_destroy(&lanes->changed);
	pthread_mutex_destroy(&lanes->lock);
	free(lanes);
}

struct fm_loop *fm_lanes_loop(const struct fm_lanes *lanes, unsigned i)
{
	return lanes->lane[i].loop;
}

struct fm_ring *fm_lanes_ring(const struct fm_lanes *lanes, unsigned i)
{
	return lanes->lane[i].ring;
}

bool fm_lanes_are_alive(struct fm_lanes *lanes)
{
	bool is_alive = true;

	for (unsigned i = 0; i < lanes->opts.count; i++)
		is_alive &= atomic_load(&lanes->lane[i].has_answered);
	for (unsigned i = 0; is_alive && i < lanes->opts.count; i++) {
		atomic_store(&lanes->lane[i].has_answered, false);
		fm_loop_post(lanes->lane[i].loop, &lanes->lane[i].ping);
	}
	return is_alive;
}
