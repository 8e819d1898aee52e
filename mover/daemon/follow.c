/* SPDX-License-Identifier: MIT */
/*
 * follow - the stores on volumes: each is there while fmove-nvmed has its volume mounted, and is
 * what that volume is just now (services/volume_store.h).
 *
 * A store keeps its directory open, and the volume cannot be unmounted as long as it is. So when
 * fmove-nvmed is about to unmount, the store goes; what still reads it keeps the volume until it
 * ends. While nothing can be read of fmove-nvmed, all stays as it is: without it nobody unmounts.
 *
 * Control loop only; directories are opened on a worker's thread.
 */
#include "mover/daemon/fmoved.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "mover/services/volume_store.h"

#define LOOK_NS (FM_NS_PER_S / 2)

struct fm_follow {
	struct fm_fmoved *fmoved;
	struct fm_timer timer;
	bool is_stopped;
	struct fm_err said;		/* why one could not be opened; code 0: nothing was said */
	unsigned next;			/* store of the configuration that is looked at first */
	/* One store at a time is opened: */
	struct fm_work work;
	bool is_busy;
	struct fm_config *cfg;		/* of which it is */
	const struct fm_config_store *of;
	struct fm_volume_store as;
	struct fm_store *store;		/* the worker's, while is_busy */
	struct fm_err err;
	int ret;
};

/* ---- on a worker's thread ---- */

static void open_run(struct fm_work *work)
{
	struct fm_follow *f = fm_container_of(work, struct fm_follow, work);

	f->ret = fm_fmoved_open_store(f->of, &f->as, &f->store, &f->err);
	if (f->ret == 0 && f->store->device != f->as.device) {
		f->ret = fm_err_set(&f->err, -ENODEV,
				    "%.200s:%u: store \"%s\": what fmoved sees at %.200s is not "
				    "the volume \"%s\"",
				    f->of->file, f->of->line, f->of->name, f->of->directory,
				    f->of->volume);
		f->store->ops->free(f->store);
	}
}

/* ---- on the loop ---- */

/* What fmove-nvmed says now; false: nothing can be read of it. */
static bool ask(struct fm_follow *f, struct fm_volume_said **said, unsigned *count)
{
	const struct fm_volumes_here *here = &f->fmoved->here.volumes.table;
	struct fm_err err;

	return here->read(here->ctx, said, count, &err) == 0;
}

/* Whether what was opened is still what is mounted: it was open by nobody until then. */
static bool is_still_so(struct fm_follow *f)
{
	struct fm_volume_said *said;
	struct fm_volume_store as;
	unsigned count;

	if (!ask(f, &said, &count))
		return false;
	fm_volume_store_of(said, count, f->of->volume, &as);
	free(said);
	return fm_volume_store_is(&as, f->store);
}

static void end_open(struct fm_follow *f)
{
	f->is_busy = false;
	fm_config_free(f->cfg);
	f->cfg = NULL;
}

/* It is tried again and again, and said once. */
static void say_error(struct fm_follow *f, const struct fm_err *err)
{
	if (strcmp(f->said.text, err->text) != 0)
		fm_log_error("%s", err->text);
	f->said = *err;
}

/*
 * What was opened of a configuration that is not in force any more is of no use, nor is what has
 * changed since it was decided to open it; that is opened again.
 */
static void open_done(struct fm_work *work)
{
	struct fm_follow *f = fm_container_of(work, struct fm_follow, work);
	bool is_wanted = f->cfg == f->fmoved->cfg && !f->is_stopped;
	struct fm_err err;

	if (f->ret < 0) {
		if (is_wanted)
			say_error(f, &f->err);
	} else if (!is_wanted || !is_still_so(f)) {
		f->store->ops->free(f->store);
	} else {
		fm_log_info("store \"%s\": volume %s is mounted%s%s%s%s", f->of->name,
			    f->of->volume, f->as.shared[0] ? ", sealed as " : "", f->as.shared,
			    f->as.written_by[0] ? ", and read-write at " : "", f->as.written_by);
		fm_err_clear(&f->said);
		if (fm_engine_set_store(f->fmoved->engine, f->store, &err) < 0)
			say_error(f, &err);
	}
	end_open(f);
}

static void open_as(struct fm_follow *f, const struct fm_config_store *of,
		    const struct fm_volume_store *as)
{
	f->is_busy = true;
	f->cfg = f->fmoved->cfg;
	fm_config_share(f->cfg);
	f->of = of;
	f->next = (unsigned)(of - f->cfg->stores) + 1;	/* one that cannot be opened lets others */
	f->as = *as;
	f->work = (struct fm_work){ .run = open_run, .done = open_done, .may_await = f };
	fm_worker_submit(f->fmoved->worker, &f->work, f->fmoved->loop);
}

/*
 * Whether a store may not stay until the next one is opened: its volume goes, or what it says of
 * its content is not so any more.
 */
static bool has_to_go(const struct fm_store *store, const struct fm_volume_store *as)
{
	return as->device == 0 || store->is_sealed || as->written_by[0];
}

static void follow(struct fm_follow *f, const struct fm_config_store *of,
		   const struct fm_volume_store *as)
{
	struct fm_engine *engine = f->fmoved->engine;
	struct fm_store_ref *ref = fm_engine_store_get(engine, of->name, strlen(of->name));
	bool is_as = ref && fm_volume_store_is(as, ref->store);
	bool is_over = ref && !is_as && has_to_go(ref->store, as);

	if (ref)
		fm_engine_store_put(ref);
	if (is_as)
		return;
	if (is_over) {
		fm_log_info("store \"%s\": volume %s is not mounted as it was, or is about to go",
			    of->name, of->volume);
		fm_engine_remove_store(engine, of->name);
	}
	if (as->device != 0 && !f->is_busy)
		open_as(f, of, as);
}

static const char *volume_of(void *ctx, const char *store, size_t len)
{
	const struct fm_follow *f = ctx;
	const struct fm_config *cfg = f->fmoved->cfg;

	for (unsigned i = 0; i < cfg->store_count; i++)
		if (cfg->stores[i].volume[0] && strlen(cfg->stores[i].name) == len &&
		    memcmp(cfg->stores[i].name, store, len) == 0)
			return cfg->stores[i].volume;
	return NULL;
}

static bool has_any(const struct fm_config *cfg)
{
	for (unsigned i = 0; i < cfg->store_count; i++)
		if (cfg->stores[i].volume[0])
			return true;
	return false;
}

static void look(struct fm_follow *f)
{
	const struct fm_config *cfg = f->fmoved->cfg;
	unsigned count, first = f->next;
	struct fm_volume_said *said;
	struct fm_volume_store as;

	if (!has_any(cfg) || !ask(f, &said, &count))
		return;
	for (unsigned n = 0; n < cfg->store_count; n++) {
		const struct fm_config_store *of = &cfg->stores[(first + n) % cfg->store_count];

		if (!of->volume[0])
			continue;
		fm_volume_store_of(said, count, of->volume, &as);
		follow(f, of, &as);
	}
	free(said);
}

static void timer_fire(struct fm_timer *timer)
{
	struct fm_follow *f = fm_container_of(timer, struct fm_follow, timer);

	look(f);
	fm_timer_set(f->fmoved->loop, timer, fm_loop_now(f->fmoved->loop) + LOOK_NS);
}

int fm_follow_new(struct fm_fmoved *fmoved, struct fm_follow **out, struct fm_err *err)
{
	struct fm_follow *f = calloc(1, sizeof(*f));

	if (!f)
		return fm_err_set(err, -ENOMEM, "out of memory");
	f->fmoved = fmoved;
	f->timer.fire = timer_fire;
	fm_engine_set_volumes(fmoved->engine, volume_of, f);
	fm_timer_set(fmoved->loop, &f->timer, fm_loop_now(fmoved->loop));
	*out = f;
	return 0;
}

void fm_follow_stop(struct fm_follow *f)
{
	if (!f)
		return;
	f->is_stopped = true;
	fm_timer_clear(f->fmoved->loop, &f->timer);
}

void fm_follow_free(struct fm_follow *f)
{
	if (!f)
		return;
	assert(f->is_stopped && !f->is_busy);
	free(f);
}
