/* SPDX-License-Identifier: MIT */
/* upkeep - see upkeep.h. */
#include "mover/services/upkeep.h"

#include <stdatomic.h>

#include "mover/base/env.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"

#define SWEEP_NS (3600 * FM_NS_PER_S)

struct upkeep {
	struct fm_work work;
	struct fm_engine *engine;
	struct fm_store_ref *ref;	/* being swept; NULL: none */
	atomic_bool is_over;
};

static struct upkeep *upkeep_of(const struct fm_engine *e)
{
	return fm_service_state(e, &fm_upkeep_service);
}

static void sweep_run(struct fm_work *work)
{
	struct upkeep *u = fm_container_of(work, struct upkeep, work);
	struct fm_store *s = u->ref->store;

	s->ops->sweep(s, &u->is_over);
}

static void sweep_done(struct fm_work *work)
{
	struct upkeep *u = fm_container_of(work, struct upkeep, work);
	struct fm_store_ref *ref = u->ref;

	u->ref = NULL;
	fm_engine_store_put(ref);
	fm_engine_check_stopped(u->engine);
}

static bool is_due(const struct fm_store_ref *ref, uint64_t now_ns)
{
	return ref->store->ops->sweep && (ref->swept_ns == 0 || now_ns >= ref->swept_ns + SWEEP_NS);
}

static void upkeep_tick(struct fm_engine *e, uint64_t now_ns)
{
	struct upkeep *u = upkeep_of(e);

	if (u->ref || e->is_stopping)
		return;
	fm_list_each(at, next, &e->stores) {
		struct fm_store_ref *ref = fm_container_of(at, struct fm_store_ref, at);

		if (!is_due(ref, now_ns))
			continue;
		ref->swept_ns = now_ns;
		ref->refs++;
		u->ref = ref;
		u->engine = e;
		u->work.run = sweep_run;
		u->work.done = sweep_done;
		fm_worker_submit(e->env.worker, &u->work, e->env.loop);
		return;
	}
}

/* Stops the sweeps. One that is running ends soon. */
static void upkeep_stop(struct fm_engine *e)
{
	atomic_store(&upkeep_of(e)->is_over, true);
}

static bool upkeep_is_idle(const struct fm_engine *e)
{
	return !upkeep_of(e)->ref;
}

const struct fm_service fm_upkeep_service = {
	.name = "upkeep",
	.state_bytes = sizeof(struct upkeep),
	.tick = upkeep_tick,
	.stop = upkeep_stop,
	.is_idle = upkeep_is_idle,
};
