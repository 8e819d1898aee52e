/* SPDX-License-Identifier: MIT */
/*
 * follow - how the configuration's stores are opened: each as soon as its file system answers, and
 * those on volumes while fmove-nvmed has them mounted.
 *
 * A start waits for the stores that are on no volume, but not for one whose file system does not
 * answer, or fails as that of a server that is away: that one is silent (struct fm_store), and is
 * tried again. What cannot be opened for another reason is a mistake, which ends the start.
 *
 * A store on a volume is what that volume is just now (services/volume_store.h).
 * A store keeps its directory open, and the volume cannot be unmounted as long as it is. So when
 * fmove-nvmed is about to unmount, the store goes; what still reads it keeps the volume until it
 * ends. While nothing can be read of fmove-nvmed, all stays as it is: without it nobody unmounts.
 *
 * A store on no volume is what its path leads to. When that is another directory than the one that
 * is open, since a file system was mounted there after the start or the directory was made anew, it
 * is opened anew: what had begun goes on in the former one, as on a volume that changes. When
 * something was unmounted, what is open stays: beneath a mount point nobody wants his files.
 *
 * Each store is opened by itself, on a thread of its own: one whose file system does not answer
 * keeps that thread, and no store that is elsewhere. What is on one mount is opened one after the
 * other until that mount has answered, then MOUNT_THREADS at once: so a mount that hangs costs one
 * thread, however many stores are on it, and no number of such mounts keeps another store waiting.
 * Those whose rules name users or groups are opened beside the others: a user database that hangs
 * keeps them alone.
 *
 * Control loop only, but for that.
 */
#include "mover/daemon/fmoved.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/mount_of.h"
#include "mover/node/node.h"
#include "mover/services/volume_store.h"

#define LOOK_NS (FM_NS_PER_S / 2)
/* For so long a start waits for all of its stores together. */
#define PATIENCE_NS (3 * FM_NS_PER_S)
#define MOUNT_THREADS 4u
/* A store is looked at once in so many looks. */
#define LOOKS_APART 10u
/* Those that hang since an earlier configuration, and those of this one. */
#define OPENINGS_MAX (2u * FM_STORES_MAX)

struct fm_follow {
	struct fm_fmoved *fmoved;
	struct fm_timer timer;
	bool is_filled;			/* what the start has opened is the engine's */
	bool is_stopped;
	/* why one could not be opened, by its place in the configuration; code 0: nothing said */
	struct fm_err said[FM_STORES_MAX];
	struct fm_log_limit changes;	/* of what a file system fails with, to and fro */
	struct fm_list openings;	/* one for a name, directory and device at most */
	unsigned count;			/* of them, OPENINGS_MAX at most */
	unsigned looks;			/* so far; may begin anew */
};

/* What a store has open. */
struct place {
	dev_t device;			/* 0: nothing, or it is not open */
	ino_t inode;
	size_t mount_len;
};

/* A store that is being opened. */
struct opening {
	struct fm_list at;
	struct fm_follow *follow;
	struct fm_task task;		/* from the thread to the loop */
	pthread_t thread;		/* from is_begun until is_done */
	struct fm_config *cfg;		/* of which it is */
	const struct fm_config_store *of;
	struct fm_volume_store as;
	struct place was;		/* device > 0: to be opened only if it is elsewhere now */
	unsigned mount;			/* 0: not known */
	bool is_of_users;		/* its rules need the user database, which may hang */
	bool has_answered;		/* what is on its mount, just now */
	bool is_begun;
	bool is_done;			/* it waits for fm_follow_fill() */
	struct fm_store *store;		/* the thread's, until it is done; NULL: not opened */
	bool is_unmounted;		/* what it was on */
	struct fm_err err;
	int ret;
};

/* ---- on a thread of its own ---- */

/* Whether the path leads to another directory than it did, and to no former one beneath a mount. */
static bool leads_elsewhere(struct opening *o)
{
	const char *path = o->of->directory;
	struct stat st;

	if (stat(path, &st) < 0 || (st.st_dev == o->was.device && st.st_ino == o->was.inode))
		return false;
	o->is_unmounted = fm_mount_len(path) < o->was.mount_len;
	return !o->is_unmounted;
}

static void open_it(struct opening *o)
{
	bool is_on_volume = o->of->volume[0];

	o->ret = fm_fmoved_open_store(o->of, is_on_volume ? &o->as : NULL, &o->store, &o->err);
	if (o->ret == 0 && is_on_volume && o->store->device != o->as.device) {
		o->ret = fm_err_set(&o->err, -ENODEV,
				    "%.200s:%u: store \"%s\": what fmoved sees at %.200s is not "
				    "the volume \"%s\"",
				    o->of->file, o->of->line, o->of->name, o->of->directory,
				    o->of->volume);
		o->store->ops->free(o->store);
	}
}

static void *open_run(void *arg)
{
	struct opening *o = arg;

	if (o->was.device == 0 || leads_elsewhere(o))
		open_it(o);
	fm_loop_post(o->follow->fmoved->loop, &o->task);
	return NULL;
}

/* ---- on the loop ---- */

/* What fmove-nvmed says now; false: nothing can be read of it. */
static bool ask(struct fm_follow *f, struct fm_volume_said **said, unsigned *count)
{
	const struct fm_volumes_here *here = &f->fmoved->here.volumes.table;
	struct fm_err err;

	return here->read(here->ctx, said, count, &err) == 0;
}

static const struct fm_store *silent_of(struct fm_follow *f, const struct fm_config_store *of)
{
	const struct fm_store_ref *ref =
		fm_engine_store_silent(f->fmoved->engine, of->name, strlen(of->name));

	return ref ? ref->store : NULL;
}

/* What is mounted of its volume now; false: nothing can be read of fmove-nvmed. */
static bool ask_again(const struct opening *o, struct fm_volume_store *as)
{
	struct fm_volume_said *said;
	unsigned count;

	if (!ask(o->follow, &said, &count))
		return false;
	fm_volume_store_of(said, count, o->of->volume, as);
	free(said);
	return true;
}

static struct place place_of(struct fm_follow *f, const struct fm_config_store *of)
{
	struct fm_store_ref *ref =
		fm_engine_store_get(f->fmoved->engine, of->name, strlen(of->name));
	struct place is = { 0 };

	if (ref) {
		is = (struct place){ref->store->device, ref->store->inode, ref->store->mount_len};
		fm_engine_store_put(ref);
	}
	return is;
}

static bool is_open_as_it_was(const struct opening *o)
{
	struct place is = place_of(o->follow, o->of);

	return is.device == o->was.device && is.inode == o->was.inode;
}

/* Whether what was opened is still what is mounted: it was open by nobody until then. */
static bool is_still_so(const struct opening *o)
{
	struct fm_volume_store as;

	if (o->was.device > 0)
		return is_open_as_it_was(o);
	if (!o->of->volume[0])
		return silent_of(o->follow, o->of) != NULL;
	return ask_again(o, &as) && fm_volume_store_is(&as, o->store);
}

static void end_open(struct opening *o)
{
	o->follow->count--;
	fm_list_del(&o->at);
	fm_config_free(o->cfg);
	free(o);
}

/* What was said of its store, whose configuration is in force. */
static struct fm_err *said_of(const struct opening *o)
{
	return &o->follow->said[o->of - o->cfg->stores];
}

/* It is tried again and again, and said once for each store. */
static void say_error(const struct opening *o, const struct fm_err *err)
{
	struct fm_err *said = said_of(o);

	if (strcmp(said->text, err->text) != 0)
		fm_log_error("%s", err->text);
	*said = *err;
}

/* code: what its file system fails with; 0: it does not answer. */
static int set_silent(struct fm_follow *f, const struct fm_config_store *of, int code,
		      struct fm_err *err)
{
	struct fm_store *store;
	int ret = fm_fmoved_silent_store(of, code, &store, err);

	return ret < 0 ? ret : fm_engine_set_store(f->fmoved->engine, store, err);
}

/* Whether what was tried is still what fmove-nvmed has mounted: else it failed for that. */
static bool is_still_there(const struct opening *o)
{
	struct fm_volume_store as;

	return ask_again(o, &as) && as.device == o->as.device;
}

/* Whether its store, on no volume, does not say yet that it cannot be opened, and why. */
static bool is_to_be_told(const struct opening *o)
{
	const struct fm_store *silent = silent_of(o->follow, o->of);

	return silent ? silent->silent_code != o->ret : o->was.device > 0 && is_still_so(o);
}

/*
 * The next look tries it again. Of a store on no volume it is told by the store what is wrong, also
 * of one that is open: what is put there would be where its path does not lead any more.
 */
static void could_not_open(struct opening *o)
{
	struct fm_err err;

	if (o->of->volume[0]) {
		if (is_still_there(o))
			say_error(o, &o->err);
	} else if (is_to_be_told(o)) {
		fm_log_some(&o->follow->changes, fm_loop_now(o->follow->fmoved->loop),
			    FM_LOG_ERROR, "%s", o->err.text);
		fm_engine_leave_store(o->follow->fmoved->engine, o->of->name);
		if (set_silent(o->follow, o->of, o->ret, &err) < 0)
			fm_log_error("%s", err.text);
	}
}

/* What a look found that leaves the store as it is. */
static void say_looked(const struct opening *o)
{
	struct fm_err err;

	if (!o->is_unmounted) {
		fm_err_clear(said_of(o));
		return;
	}
	(void)fm_err_set(&err, -ENODEV,
			 "store \"%s\": what was mounted at %s, or above it, is not mounted any "
			 "more; what fmoved has open of it is served until it is mounted again, or "
			 "fmoved is restarted", o->of->name, o->of->directory);
	say_error(o, &err);
}

static void say_opened(const struct opening *o)
{
	if (o->was.device > 0)
		fm_log_warn("store \"%s\": %s is another directory than the one that was open%s; "
			    "it is served from now on, and what was going to the former one is "
			    "to be put again", o->of->name, o->of->directory,
			    o->store->device != o->was.device ? ", on another file system" : "");
	else if (o->of->volume[0])
		fm_log_info("store \"%s\": volume %s is mounted%s%s%s%s", o->of->name,
			    o->of->volume, o->as.shared[0] ? ", sealed as " : "", o->as.shared,
			    o->as.written_by[0] ? ", and read-write at " : "", o->as.written_by);
	else
		fm_log_info("store \"%s\": the file system of %s%s answers now", o->of->name,
			    o->of->directory, fm_fmoved_or_users(o->is_of_users));
}

/*
 * What was opened of a configuration that is not in force any more is of no use, nor is what has
 * changed since it was decided to open it; that is opened again.
 */
static void take(struct opening *o)
{
	struct fm_follow *f = o->follow;
	bool is_wanted = o->cfg == f->fmoved->cfg && !f->is_stopped;
	struct fm_err err;

	if (o->ret < 0) {
		if (is_wanted)
			could_not_open(o);
	} else if (!o->store) {
		if (is_wanted)
			say_looked(o);
	} else if (!is_wanted || !is_still_so(o)) {
		o->store->ops->free(o->store);
	} else {
		say_opened(o);
		fm_err_clear(said_of(o));
		if (o->was.device > 0)
			fm_engine_leave_store(f->fmoved->engine, o->of->name);
		if (fm_engine_set_store(f->fmoved->engine, o->store, &err) < 0)
			say_error(o, &err);
	}
	end_open(o);
}

/* Whether both may wait for the same servers. */
static bool is_beside(const struct opening *a, const struct opening *b)
{
	return a->mount > 0 && a->mount == b->mount && a->as.device == b->as.device &&
	       a->is_of_users == b->is_of_users;
}

static bool may_begin(const struct opening *o)
{
	unsigned n = 0;

	fm_list_each (at, next, &o->follow->openings) {
		const struct opening *other = fm_container_of(at, struct opening, at);

		n += other->is_begun && !other->is_done && is_beside(o, other);
	}
	return n < (o->has_answered ? MOUNT_THREADS : 1);
}

/* The thread takes no signals: those are for the loop. */
static int begin(struct opening *o)
{
	sigset_t all, saved;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	ret = pthread_create(&o->thread, NULL, open_run, o);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	o->is_begun = ret == 0;
	if (ret == 0)	/* only for people who look at the process */
		(void)pthread_setname_np(o->thread, "fm-open");
	return -ret;
}

/* Those for which there is no thread are tried again at the next look. */
static void begin_waiting(struct fm_follow *f)
{
	fm_list_each (at, next, &f->openings) {
		struct opening *o = fm_container_of(at, struct opening, at);

		if (!o->is_begun && may_begin(o) && begin(o) < 0)
			end_open(o);
	}
}

static void open_done(struct fm_task *task)
{
	struct opening *o = fm_container_of(task, struct opening, task);
	struct fm_follow *f = o->follow;

	(void)pthread_join(o->thread, NULL);	/* it is at its end */
	o->is_done = true;
	fm_list_each (at, next, &f->openings) {
		struct opening *other = fm_container_of(at, struct opening, at);

		other->has_answered |= is_beside(o, other);
	}
	if (f->is_filled || f->is_stopped)
		take(o);
	begin_waiting(f);
}

/*
 * Also one of an earlier configuration: what hangs is not begun again. Of another device it is: a
 * volume that was mounted anew may answer.
 */
static bool is_being_opened(const struct fm_follow *f, const struct fm_config_store *of,
			    dev_t device)
{
	fm_list_each (at, next, &f->openings) {
		const struct opening *o = fm_container_of(at, struct opening, at);

		if (strcmp(o->of->name, of->name) == 0 && o->as.device == device &&
		    strcmp(o->of->directory, of->directory) == 0)
			return true;
	}
	return false;
}

/*
 * as: of its volume; NULL: it is on none. was: only if its path leads elsewhere now; NULL: it is
 * not open. Without memory, or with too many that hang, it is tried again at the next look.
 */
static void open_as(struct fm_follow *f, const struct fm_config_store *of,
		    const struct fm_volume_store *as, const struct place *was)
{
	struct opening *o;

	if (is_being_opened(f, of, as ? as->device : 0) || f->count == OPENINGS_MAX)
		return;
	o = calloc(1, sizeof(*o));
	if (!o)
		return;
	o->follow = f;
	o->cfg = f->fmoved->cfg;
	fm_config_share(o->cfg);
	o->of = of;
	if (as)
		o->as = *as;
	if (was)
		o->was = *was;
	o->task.run = open_done;
	o->mount = fm_mount_of(of->directory);
	o->is_of_users = fm_fmoved_asks_users(of);
	fm_list_append(&f->openings, &o->at);
	f->count++;
	if (may_begin(o) && begin(o) < 0)
		end_open(o);
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
	if (as->device != 0)
		open_as(f, of, as, NULL);
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

static bool is_open(struct fm_follow *f, const struct fm_config_store *of)
{
	struct fm_store_ref *ref =
		fm_engine_store_get(f->fmoved->engine, of->name, strlen(of->name));

	if (ref)
		fm_engine_store_put(ref);
	return ref != NULL;
}

/* What nothing can be read of may be any volume. */
static bool is_away(void *ctx, const char *id)
{
	struct fm_follow *f = ctx;
	const struct fm_config *cfg = f->fmoved->cfg;
	struct fm_volume_said *said = NULL;
	unsigned count = 0;
	bool is = false;

	if (!ask(f, &said, &count))
		count = 0;
	for (unsigned i = 0; i < cfg->store_count && !is; i++) {
		const struct fm_config_store *of = &cfg->stores[i];

		is = of->volume[0] && !is_open(f, of) &&
		     fm_volume_store_may_be(said, count, of->volume, id);
	}
	free(said);
	return is;
}

static bool has_any(const struct fm_config *cfg)
{
	for (unsigned i = 0; i < cfg->store_count; i++)
		if (cfg->stores[i].volume[0])
			return true;
	return false;
}

static void look_at_volumes(struct fm_follow *f)
{
	const struct fm_config *cfg = f->fmoved->cfg;
	unsigned count;
	struct fm_volume_said *said;
	struct fm_volume_store as;

	if (!has_any(cfg) || !ask(f, &said, &count))
		return;
	for (unsigned n = 0; n < cfg->store_count; n++) {
		const struct fm_config_store *of = &cfg->stores[n];

		if (!of->volume[0])
			continue;
		fm_volume_store_of(said, count, of->volume, &as);
		follow(f, of, &as);
	}
	free(said);
}

static void look_at_silent(struct fm_follow *f)
{
	const struct fm_config *cfg = f->fmoved->cfg;

	for (unsigned i = 0; i < cfg->store_count; i++)
		if (!cfg->stores[i].volume[0] && silent_of(f, &cfg->stores[i]))
			open_as(f, &cfg->stores[i], NULL, NULL);
}

static void look_whether_moved(struct fm_follow *f, const struct fm_config_store *of)
{
	struct place was = of->volume[0] ? (struct place){ 0 } : place_of(f, of);

	if (was.device > 0)
		open_as(f, of, NULL, &was);
}

void fm_follow_look(struct fm_follow *f)
{
	for (unsigned i = 0; i < f->fmoved->cfg->store_count; i++)
		look_whether_moved(f, &f->fmoved->cfg->stores[i]);
}

/* A part of them at each look, so that many stores are not many threads at once. */
static void look_at_open(struct fm_follow *f)
{
	const struct fm_config *cfg = f->fmoved->cfg;

	for (unsigned i = f->looks++ % LOOKS_APART; i < cfg->store_count; i += LOOKS_APART)
		look_whether_moved(f, &cfg->stores[i]);
}

static void timer_fire(struct fm_timer *timer)
{
	struct fm_follow *f = fm_container_of(timer, struct fm_follow, timer);

	look_at_silent(f);
	look_at_open(f);
	look_at_volumes(f);
	fm_reload_sockets(f->fmoved->reload);
	fm_timer_set(f->fmoved->loop, timer, fm_loop_now(f->fmoved->loop) + LOOK_NS);
}

/* ---- the start ---- */

unsigned fm_follow_awaits(const struct fm_follow *f)
{
	unsigned n = 0;

	fm_list_each (at, next, &((struct fm_follow *)f)->openings)
		n += fm_container_of(at, struct opening, at)->is_begun &&
		     !fm_container_of(at, struct opening, at)->is_done;
	return n;
}

static struct opening *opening_of(struct fm_follow *f, const struct fm_config_store *of)
{
	fm_list_each (at, next, &f->openings) {
		struct opening *o = fm_container_of(at, struct opening, at);

		if (o->of == of)
			return o;
	}
	return NULL;
}

/* Nothing else is on the loop yet. */
static void await_stores(struct fm_follow *f)
{
	struct fm_loop *loop = f->fmoved->loop;
	const struct fm_clock *clock = &fm_clock_real;
	uint64_t by_ns = clock->now_ns(clock->ctx) + PATIENCE_NS, now_ns;

	while (fm_follow_awaits(f) > 0 && (now_ns = clock->now_ns(clock->ctx)) < by_ns)
		(void)fm_loop_step(loop, by_ns - now_ns);
}

int fm_follow_new(struct fm_fmoved *fmoved, struct fm_follow **out, struct fm_err *err)
{
	struct fm_follow *f = calloc(1, sizeof(*f));
	struct fm_config *cfg = fmoved->cfg;

	if (!f)
		return fm_err_set(err, -ENOMEM, "out of memory");
	f->fmoved = fmoved;
	fm_list_init(&f->openings);
	f->timer.fire = timer_fire;
	*out = f;
	for (unsigned i = 0; i < cfg->store_count; i++)
		if (!cfg->stores[i].volume[0])
			open_as(f, &cfg->stores[i], NULL, NULL);
	await_stores(f);
	return 0;
}

/* What a server that is away makes of a look at a directory, and no mistake in a configuration. */
static bool is_of_server(int code)
{
	return code == -ENOTCONN || code == -ESTALE || code == -EIO || code == -ETIMEDOUT ||
	       code == -EHOSTDOWN || code == -EHOSTUNREACH || code == -ECONNABORTED;
}

static int fill_later(struct fm_follow *f, const struct fm_config_store *of, struct fm_err *err)
{
	fm_log_warn("%s:%u: store \"%s\": no memory to open it now; it is tried again", of->file,
		    of->line, of->name);
	return set_silent(f, of, -ENOMEM, err);
}

static int fill_silent(struct fm_follow *f, const struct fm_config_store *of, struct fm_err *err)
{
	fm_log_warn("%s:%u: store \"%s\": the file system of %s%s does not answer; the store is "
		    "there when it does", of->file, of->line, of->name, of->directory,
		    fm_fmoved_or_users(fm_fmoved_asks_users(of)));
	return set_silent(f, of, 0, err);
}

static int fill_failing(struct fm_follow *f, const struct fm_config_store *of,
			const struct fm_err *why, struct fm_err *err)
{
	fm_log_error("%s; the store is there when its file system answers", why->text);
	return set_silent(f, of, why->code, err);
}

/* What did not begin for want of memory, or of a thread, is begun by the first look. */
static int fill_one(struct fm_follow *f, const struct fm_config_store *of, struct fm_err *err)
{
	struct opening *o = opening_of(f, of);
	struct fm_store *store;
	struct fm_err why;
	int ret;

	if (!o)
		return fill_later(f, of, err);
	if (!o->is_done)	/* or one that is on the same mount */
		return fill_silent(f, of, err);
	store = o->store;
	ret = o->ret;
	why = o->err;
	end_open(o);
	if (ret == 0)
		return fm_engine_set_store(f->fmoved->engine, store, err);
	if (is_of_server(ret))
		return fill_failing(f, of, &why, err);
	*err = why;
	return ret;
}

int fm_follow_fill(struct fm_follow *f, struct fm_err *err)
{
	const struct fm_config *cfg = f->fmoved->cfg;
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < cfg->store_count; i++)
		if (!cfg->stores[i].volume[0])
			ret = fill_one(f, &cfg->stores[i], err);
	f->is_filled = ret == 0;
	return ret;
}

void fm_follow_start(struct fm_follow *f)
{
	fm_engine_set_volumes(f->fmoved->engine, volume_of, is_away, f);
	fm_timer_set(f->fmoved->loop, &f->timer, fm_loop_now(f->fmoved->loop));
}

void fm_follow_stop(struct fm_follow *f)
{
	if (!f)
		return;
	f->is_stopped = true;
	fm_timer_clear(f->fmoved->loop, &f->timer);
	fm_list_each (at, next, &f->openings) {
		struct opening *o = fm_container_of(at, struct opening, at);

		if (!o->is_begun)
			end_open(o);
	}
}

void fm_follow_free(struct fm_follow *f)
{
	if (!f)
		return;
	assert(f->is_stopped && fm_follow_awaits(f) == 0);
	fm_list_each (at, next, &f->openings) {		/* of half a start */
		struct opening *o = fm_container_of(at, struct opening, at);

		if (o->ret == 0 && o->store)
			o->store->ops->free(o->store);
		end_open(o);
	}
	free(f);
}
