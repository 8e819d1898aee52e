/* SPDX-License-Identifier: MIT */
/* upkeep - see upkeep.h. */
#include "mover/services/upkeep.h"

#include <stdatomic.h>

#include "mover/base/env.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"

#define SWEEP_NS (3600 * FM_NS_PER_S)
#define SWEEPS_MAX 8u		/* of the 16 threads there are ... */
#define SWEEPS_STANDING 4u	/* ... and of stores that may never answer */

struct sweep {
	struct fm_work work;
	struct fm_engine *engine;
	struct fm_store_ref *ref;	/* being swept; NULL: none */
	atomic_bool is_over;		/* it shall end */
};

struct upkeep {
	struct sweep sweeps[SWEEPS_MAX];
};

static struct upkeep *upkeep_of(const struct fm_engine *e)
{
	return fm_service_state(e, &fm_upkeep_service);
}

static void sweep_run(struct fm_work *work)
{
	struct sweep *sweep = fm_container_of(work, struct sweep, work);
	struct fm_store *s = sweep->ref->store;

	s->ops->sweep(s, &sweep->is_over);
}

static void sweep_done(struct fm_work *work)
{
	struct sweep *sweep = fm_container_of(work, struct sweep, work);
	struct fm_store_ref *ref = sweep->ref;

	sweep->ref = NULL;
	fm_engine_store_put(ref);
	fm_engine_check_stopped(sweep->engine);
}

static bool is_due(const struct fm_store_ref *ref, uint64_t now_ns)
{
	return ref->store->ops->sweep && (ref->swept_ns == 0 || now_ns >= ref->swept_ns + SWEEP_NS);
}

/* A place for a sweep of that store; NULL: its device is being swept, or there is none. */
static struct sweep *find_place(struct upkeep *u, const struct fm_store *store)
{
	struct sweep *place = NULL;
	unsigned standing = 0;

	for (unsigned i = 0; i < SWEEPS_MAX; i++) {
		struct sweep *sweep = &u->sweeps[i];

		if (!sweep->ref) {
			place = sweep;
			continue;
		}
		if (sweep->ref->store->device == store->device)
			return NULL;
		standing += sweep->ref->store->may_stand;
	}
	return store->may_stand && standing == SWEEPS_STANDING ? NULL : place;
}

static bool is_listed(const struct fm_engine *e, const struct fm_store_ref *ref)
{
	fm_list_each(at, next, &((struct fm_engine *)e)->stores)
		if (fm_container_of(at, struct fm_store_ref, at) == ref)
			return true;
	return false;
}

/*
 * A sweep of a store that was removed or replaced ends: it keeps the store's directory open, on a
 * volume that is about to be unmounted, and goes by times that a reload may have changed.
 */
static void end_those_gone(struct fm_engine *e)
{
	struct upkeep *u = upkeep_of(e);

	for (unsigned i = 0; i < SWEEPS_MAX; i++)
		if (u->sweeps[i].ref && !is_listed(e, u->sweeps[i].ref))
			atomic_store(&u->sweeps[i].is_over, true);
}

static void upkeep_tick(struct fm_engine *e, uint64_t now_ns)
{
	if (e->is_stopping)
		return;
	end_those_gone(e);
	fm_list_each(at, next, &e->stores) {
		struct fm_store_ref *ref = fm_container_of(at, struct fm_store_ref, at);
		struct sweep *sweep = is_due(ref, now_ns) ? find_place(upkeep_of(e), ref->store)
							  : NULL;

		if (!sweep)
			continue;
		ref->swept_ns = now_ns;
		ref->refs++;
		*sweep = (struct sweep){.work = {.run = sweep_run,
						 .done = sweep_done,
						 .may_await = fm_store_may_await(ref->store)},
					.engine = e,
					.ref = ref};
		fm_worker_submit(e->env.worker, &sweep->work, e->env.loop);
	}
}

/* Stops the sweeps. Those that are running end soon. */
static void upkeep_stop(struct fm_engine *e)
{
	struct upkeep *u = upkeep_of(e);

	for (unsigned i = 0; i < SWEEPS_MAX; i++)
		atomic_store(&u->sweeps[i].is_over, true);
}

static bool upkeep_is_idle(const struct fm_engine *e)
{
	const struct upkeep *u = upkeep_of(e);

	for (unsigned i = 0; i < SWEEPS_MAX; i++)
		if (u->sweeps[i].ref)
			return false;
	return true;
}

const struct fm_service fm_upkeep_service = {
	.name = "upkeep",
	.state_bytes = sizeof(struct upkeep),
	.tick = upkeep_tick,
	.stop = upkeep_stop,
	.is_idle = upkeep_is_idle,
};
