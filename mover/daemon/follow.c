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
 * is open, nothing goes to the former one any more, where nobody would look for it: the store is
 * silent at once, and who still writes to it is refused (fm_engine_leave_store_but()). It is opened
 * anew by itself only where a file system was mounted on the way since, and nobody but root and we
 * can have led the path elsewhere: who may rename a directory must not choose what is served of it.
 * It also comes back when its path leads to the same directory again. All else is for a reload; but
 * not what lies beneath a mount that is no more: there nobody wants his files, and the store waits
 * for that mount, or for a restart.
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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mover/base/dirway.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/mount_of.h"
#include "mover/base/mountinfo.h"
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

/* Where a path leads by its spelling. All 0: not known. */
struct spelled {
	unsigned mount;		/* its ID */
	size_t point_len;	/* so many bytes of the path are its mount point */
	uint64_t sum;		/* of which directory of which file system it is, by its name */
};

struct fm_follow {
	struct fm_fmoved *fmoved;
	struct fm_timer timer;
	bool is_filled;			/* what the start has opened is the engine's */
	bool is_stopped;
	/* why one could not be opened, by its place in the configuration; code 0: nothing said */
	struct fm_err said[FM_STORES_MAX];
	struct fm_log_limit changes;	/* of what a file system fails with, to and fro */
	/* a reload asks for what is there now, and no look has heard so yet */
	bool is_asked_for[FM_STORES_MAX];
	struct fm_list openings;	/* one for a name, directory and device at most */
	unsigned count;			/* of them, OPENINGS_MAX at most */
	unsigned looks;			/* so far; may begin anew */
	/* of the stores of the configuration in force, as it was opened, or a look found it last */
	struct place {
		struct fm_dirway is;	/* which directory */
		struct spelled at;	/* place_of() its path */
	} places[FM_STORES_MAX];
};

/* What a look at a store, or an opening, found of its path. */
enum found { AS_IT_WAS, MOVED, UNMOUNTED };

/* A store that is being opened, or one that is open and looked at. */
struct opening {
	struct fm_list at;
	struct fm_follow *follow;
	struct fm_task task;		/* from the thread to the loop */
	pthread_t thread;		/* from is_begun until is_done */
	struct fm_config *cfg;		/* of which it is */
	struct fm_config *started;	/* that of the start */
	const struct fm_config_store *of;
	struct fm_volume_store as;
	struct fm_dirway was;		/* where it was last; all 0: it was never open */
	bool is_look;			/* it is open: whether its path leads there */
	bool is_asked_for;		/* a reload asks for what is there now */
	unsigned mount;			/* 0: not known */
	bool is_of_users;		/* its rules need the user database, which may hang */
	bool has_answered;		/* what is on its mount, just now */
	bool is_begun;
	bool is_done;			/* it waits for fm_follow_fill() */
	struct fm_store *store;		/* the thread's, until it is done; NULL: not opened */
	bool is_kept_apart;		/* it leads to what this node keeps for itself */
	enum found found;		/* but AS_IT_WAS: it was not opened */
	/* of what was opened, or of a look that found it as it was; else all 0 */
	struct spelled place;
	struct fm_err err;
	int ret;
};

/* ---- on a thread of its own ---- */

/* Whether an error says that there is no such directory, and not that it cannot be looked at. */
static bool leads_nowhere(int ret)
{
	return ret == -ENOENT || ret == -ENOTDIR || ret == -ELOOP;
}

static uint64_t sum_of(const char *text)
{
	uint64_t sum = 0xcbf29ce484222325;	/* FNV-1a */

	for (const char *at = text; *at; at++)
		sum = (sum ^ (unsigned char)*at) * 0x100000001b3;
	return sum ? sum : 1;
}

/* By the kernel's table of mounts at one moment: it asks no file system, so it may not hang. */
static struct spelled place_of(const char *path)
{
	char text[FM_MOUNT_PLACE_MAX], *table = NULL;
	struct spelled at = { 0 };
	size_t len;
	int ret = fm_mountinfo_read(FM_MOUNTINFO, &table, &len);

	if ((ret == 0 || ret == -EAGAIN) &&
	    fm_mount_place_in(table, len, path, text, sizeof(text))) {
		at.mount = fm_mount_in(table, len, path, &at.point_len);
		at.sum = sum_of(text);
	}
	free(table);
	return at;
}

static bool is_on_same(const struct spelled *a, const struct spelled *b)
{
	return a->mount > 0 && a->mount == b->mount && a->point_len == b->point_len;
}

/* The place of its path was that; it counts if it is so still. */
static void keep_place(struct opening *o, const struct spelled *was)
{
	struct spelled now = place_of(o->of->directory);

	if (is_on_same(was, &now) && was->sum == now.sum)
		o->place = now;
}

/* A look may have something mounted there (automount): only a place that stays counts. */
static void look(struct opening *o)
{
	struct spelled place = place_of(o->of->directory);
	struct fm_dirway now = { 0 };
	int ret = FM_FAULT("follow.look") ? -EIO : fm_dirway_at(o->of->directory, &now);

	if (fm_dirway_is_same(&now, &o->was))
		keep_place(o, &place);
	if ((ret < 0 && !leads_nowhere(ret)) || fm_dirway_is_same(&now, &o->was))
		return;
	o->found = fm_dirway_is_unmounted(&o->was) ? UNMOUNTED : MOVED;
}

/* Whether a store that was open somewhere, or waits for a mount, may be opened where its path leads
 * now. */
static enum found find(const struct opening *o, const struct fm_dirway *now)
{
	if (fm_dirway_is_same(now, &o->was))
		return AS_IT_WAS;
	if (fm_dirway_is_beneath(now, &o->was))
		return UNMOUNTED;
	if (o->was.device == 0 || o->is_asked_for ||
	    (now->device > 0 && fm_dirway_is_mounted_over(o->of->directory, now, &o->was)))
		return AS_IT_WAS;
	return MOVED;
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

static int check_opened(struct opening *o, const struct fm_dirway *now)
{
	int ret;

	if (o->store->way.device > 0 && !fm_dirway_is_same(now, &o->store->way))
		return fm_err_set(&o->err, -EAGAIN, "store \"%s\": what %s leads to has changed",
				  o->of->name, o->of->directory);
	ret = fm_fmoved_check_apart(o->cfg, o->started, o->of, o->store, &o->err);
	o->is_kept_apart = ret == -EPERM;
	return ret;
}

static int find_way(const char *directory, struct fm_dirway *now)
{
	if (strcmp(directory, "null:") == 0)
		return 0;
	return FM_FAULT("follow.way") ? -EIO : fm_dirway_at(directory, now);
}

/* One on no volume, which lies where its path leads; as long as it may. */
static void open_there(struct opening *o)
{
	struct spelled place = place_of(o->of->directory);
	struct fm_dirway now = { 0 };
	int ret = find_way(o->of->directory, &now);

	if (ret == 0 || leads_nowhere(ret))
		o->found = find(o, &now);
	if (o->found != AS_IT_WAS)
		return;
	open_it(o);
	if (o->ret < 0)
		return;
	o->ret = check_opened(o, &now);
	if (o->ret < 0)
		o->store->ops->free(o->store);
	else
		keep_place(o, &place);
}

static void *open_run(void *arg)
{
	struct opening *o = arg;

	if (o->is_look)
		look(o);
	else if (o->of->volume[0])
		open_it(o);
	else
		open_there(o);
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

/* What is mounted of a volume now; false: nothing can be read of fmove-nvmed. */
static bool is_said(struct fm_follow *f, const char *volume, struct fm_volume_store *as)
{
	struct fm_volume_said *said;
	unsigned count;

	if (!ask(f, &said, &count))
		return false;
	fm_volume_store_of(said, count, volume, as);
	free(said);
	return true;
}

/* Where a store is that is open; all 0: it is not, or is in no directory. */
static struct fm_dirway way_of(struct fm_follow *f, const struct fm_config_store *of)
{
	struct fm_store_ref *ref =
		fm_engine_store_get(f->fmoved->engine, of->name, strlen(of->name));
	struct fm_dirway is = { 0 };

	if (ref) {
		is = ref->store->way;
		fm_engine_store_put(ref);
	}
	return is;
}

static bool is_open_as_it_was(const struct opening *o)
{
	struct fm_dirway is = way_of(o->follow, o->of);

	return fm_dirway_is_same(&is, &o->was);
}

/* Whether what was opened is still what is mounted: it was open by nobody until then. */
static bool is_still_so(const struct opening *o)
{
	struct fm_volume_store as;

	if (!o->of->volume[0])
		return silent_of(o->follow, o->of) != NULL;
	return is_said(o->follow, o->of->volume, &as) && fm_volume_store_is(&as, o->store);
}

static void end_open(struct opening *o)
{
	o->follow->count--;
	fm_list_del(&o->at);
	fm_config_free(o->cfg);
	fm_config_free(o->started);
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

/* code: what its file system fails with; 0: it does not answer. was: where it was last. */
static int set_silent(struct fm_follow *f, const struct fm_config_store *of, int code,
		      const struct fm_dirway *was, const char *why, struct fm_err *err)
{
	struct fm_store *store;
	int ret = fm_fmoved_silent_store(of, code, &store, err);

	if (ret < 0)
		return ret;
	store->way = *was;
	(void)snprintf(store->silent_why, sizeof(store->silent_why), "%s", why);
	return fm_engine_set_store(f->fmoved->engine, store, err);
}

/* For a start, and for a reload: what it waits for is not beneath what is mounted there now. */
static int set_waiting(struct fm_follow *f, const struct fm_config_store *of, int code,
		       struct fm_err *err)
{
	struct fm_dirway was;

	fm_dirway_spelled(of->directory, &was);
	return set_silent(f, of, code, &was, "", err);
}

static const char kept_apart[] =
	"its path leads to what this node keeps for itself; when that is mended: systemctl reload "
	"fmoved";

static const char moved[] =
	"its path leads to another directory than the one that was open, or to none; systemctl "
	"reload fmoved serves what is there now";

static const char unmounted[] =
	"what was mounted at its path, or above it, is not mounted any more; it is served when "
	"that is mounted again; a restart of fmoved serves what is there now";

static const char *why_of(enum found found)
{
	return found == UNMOUNTED ? unmounted : moved;
}

/* Nothing goes any more to where its path does not lead. */
static void fall_silent(struct fm_follow *f, const struct fm_config_store *of, enum found found,
			const struct fm_dirway *was)
{
	struct fm_err err;

	fm_log_some(&f->changes, fm_loop_now(f->fmoved->loop), FM_LOG_WARN,
		    "store \"%s\" at %s: %s", of->name, of->directory, why_of(found));
	fm_engine_leave_store_but(f->fmoved->engine, of->name, NULL);
	if (set_silent(f, of, -EAGAIN, was, why_of(found), &err) < 0)
		fm_log_error("%s", err.text);
}

/* Whether what was tried is still what fmove-nvmed has mounted: else it failed for that. */
static bool is_still_there(const struct opening *o)
{
	struct fm_volume_store as;

	return is_said(o->follow, o->of->volume, &as) && as.device == o->as.device;
}

/* The next look tries it again. Of a store on no volume it is told by the store what is wrong. */
static void could_not_open(struct opening *o)
{
	const struct fm_store *silent = silent_of(o->follow, o->of);
	struct fm_err err;

	if (o->of->volume[0]) {
		if (is_still_there(o))
			say_error(o, &o->err);
	} else if (silent && silent->silent_code != o->ret) {
		struct fm_dirway was = silent->way;

		fm_log_some(&o->follow->changes, fm_loop_now(o->follow->fmoved->loop),
			    FM_LOG_ERROR, "%s", o->err.text);
		if (set_silent(o->follow, o->of, o->ret, &was, o->is_kept_apart ? kept_apart : "",
			       &err) < 0)
			fm_log_error("%s", err.text);
	}
}

/* It may not be opened where its path leads; of one that does not say so yet this is told. */
static void may_not_open(const struct opening *o)
{
	const struct fm_store *silent = silent_of(o->follow, o->of);
	struct fm_dirway was;

	if (!silent || strcmp(silent->silent_why, why_of(o->found)) == 0 ||
	    (o->found == MOVED && strcmp(silent->silent_why, kept_apart) == 0))
		return;
	was = silent->way;
	fall_silent(o->follow, o->of, o->found, &was);
}

static void say_opened(const struct opening *o)
{
	if (o->of->volume[0])
		fm_log_info("store \"%s\": volume %s is mounted%s%s%s%s", o->of->name,
			    o->of->volume, o->as.shared[0] ? ", sealed as " : "", o->as.shared,
			    o->as.written_by[0] ? ", and read-write at " : "", o->as.written_by);
	else if (o->was.device > 0 && fm_dirway_is_same(&o->was, &o->store->way))
		fm_log_info("store \"%s\": %s leads to the directory again that was open; it is "
			    "served", o->of->name, o->of->directory);
	else if (o->was.device > 0)
		fm_log_warn("store \"%s\": what is at %s now is served%s; what was going to the "
			    "directory that was open is to be put again", o->of->name,
			    o->of->directory, o->store->way.device != o->was.device ?
			    ", which is on another file system" : "");
	else
		fm_log_info("store \"%s\": the file system of %s%s answers now", o->of->name,
			    o->of->directory, fm_fmoved_or_users(o->is_of_users));
}

static void open_as(struct fm_follow *f, const struct fm_config_store *of,
		    const struct fm_volume_store *as);

/* It is opened anew at once, where that is for us to do. */
static void leave(struct fm_follow *f, const struct fm_config_store *of, enum found found,
		  const struct fm_dirway *was, bool is_asked_for)
{
	struct fm_store_ref *ref;

	fall_silent(f, of, found, was);
	ref = fm_engine_store_rules(f->fmoved->engine, of->name, strlen(of->name));
	if (!ref)
		return;
	ref->store->is_asked_for = is_asked_for;
	fm_engine_store_put(ref);
	open_as(f, of, NULL);
}

/* of: of the configuration in force. is: which directory it is. */
static void note_place(struct fm_follow *f, const struct fm_config_store *of,
		       const struct fm_dirway *is, const struct spelled *at)
{
	f->places[of - f->fmoved->cfg->stores] = (struct place){ .is = *is, .at = *at };
}

static void looked(struct opening *o)
{
	struct fm_follow *f = o->follow;

	if (!is_open_as_it_was(o))
		return;
	if (o->found != AS_IT_WAS)
		leave(f, o->of, o->found, &o->was, o->is_asked_for);
	else if (o->place.sum)
		note_place(f, o->of, &o->was, &o->place);
}

/*
 * What began in another directory before ends: while the store was silent, or on a volume that was
 * not mounted, nobody knew where it would be.
 */
static void take_opened(struct opening *o)
{
	struct fm_err err;

	fm_engine_leave_store_but(o->follow->fmoved->engine, o->of->name, &o->store->way);
	note_place(o->follow, o->of, &o->store->way, &o->place);
	say_opened(o);
	fm_err_clear(said_of(o));
	if (fm_engine_set_store(o->follow->fmoved->engine, o->store, &err) < 0)
		say_error(o, &err);
}

/*
 * What was opened of a configuration that is not in force any more is of no use, nor is what has
 * changed since it was decided to open it; that is opened again.
 */
static void take(struct opening *o)
{
	struct fm_follow *f = o->follow;
	bool is_wanted = o->cfg == f->fmoved->cfg && !f->is_stopped;

	if (o->ret == 0 && o->store && (!is_wanted || !is_still_so(o)))
		o->store->ops->free(o->store);
	else if (is_wanted && o->is_look)
		looked(o);
	else if (is_wanted && o->found != AS_IT_WAS)
		may_not_open(o);
	else if (is_wanted && o->ret < 0)
		could_not_open(o);
	else if (is_wanted)
		take_opened(o);
	end_open(o);
}

/*
 * Whether both may wait for the same servers. A look goes by what its store is on, which is not
 * what the spelling of its path says where that leads over a link; and it keeps no opening waiting.
 */
static bool is_beside(const struct opening *a, const struct opening *b)
{
	if (a->is_look || b->is_look)
		return a->is_look && b->is_look && a->was.device == b->was.device;
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
 * volume that was mounted anew may answer. A look that hangs keeps its store from no opening.
 */
static struct opening *being_opened(const struct fm_follow *f, const struct fm_config_store *of,
				    dev_t device, bool is_look)
{
	fm_list_each (at, next, &((struct fm_follow *)f)->openings) {
		struct opening *o = fm_container_of(at, struct opening, at);

		if (strcmp(o->of->name, of->name) == 0 && o->as.device == device &&
		    o->is_look == is_look && strcmp(o->of->directory, of->directory) == 0)
			return o;
	}
	return NULL;
}

/* Without memory, or with too many that hang, NULL: it is tried again at the next look. */
static struct opening *opening_new(struct fm_follow *f, const struct fm_config_store *of)
{
	struct opening *o = f->count == OPENINGS_MAX ? NULL : calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->follow = f;
	o->cfg = f->fmoved->cfg;
	fm_config_share(o->cfg);
	o->started = f->fmoved->started;
	fm_config_share(o->started);
	o->of = of;
	o->task.run = open_done;
	fm_list_append(&f->openings, &o->at);
	f->count++;
	return o;
}

/* Where a silent store was last. A reload's word for it counts once. */
static void take_silent(struct opening *o)
{
	struct fm_store_ref *ref = NULL;

	if (o->follow->is_filled)	/* else there is no engine's store yet */
		ref = fm_engine_store_rules(o->follow->fmoved->engine, o->of->name,
					    strlen(o->of->name));
	if (!ref) {
		fm_dirway_spelled(o->of->directory, &o->was);
		return;
	}
	o->was = ref->store->way;
	o->is_asked_for = ref->store->is_asked_for;
	ref->store->is_asked_for = false;
	fm_engine_store_put(ref);
}

/* as: of its volume; NULL: it is on none, and not open. */
static void open_as(struct fm_follow *f, const struct fm_config_store *of,
		    const struct fm_volume_store *as)
{
	struct opening *o;

	if (being_opened(f, of, as ? as->device : 0, false))
		return;
	o = opening_new(f, of);
	if (!o)
		return;
	if (as)
		o->as = *as;
	else
		take_silent(o);
	o->mount = fm_mount_of(of->directory);
	o->is_of_users = fm_fmoved_asks_users(of);
	if (may_begin(o) && begin(o) < 0)
		end_open(o);
}

/*
 * Of one that is open at was: whether its path leads there. False: this is to be asked again. What
 * a look of an earlier configuration finds does not count.
 */
static bool look_at(struct fm_follow *f, const struct fm_config_store *of,
		    const struct fm_dirway *was, bool is_asked_for)
{
	struct opening *o = being_opened(f, of, 0, true);

	if (o) {
		o->is_asked_for |= is_asked_for;	/* the loop's alone, of a look */
		return o->cfg == f->fmoved->cfg;
	}
	o = opening_new(f, of);
	if (!o)
		return false;
	o->is_look = true;
	o->was = *was;
	o->is_asked_for = is_asked_for;
	if (!may_begin(o) || begin(o) == 0)
		return true;
	end_open(o);
	return false;
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
			open_as(f, &cfg->stores[i], NULL);
}

/*
 * Whether something was mounted or unmounted where a store was found: known without a look, which
 * may hang, or fail, by just that, or wait for one that does. Nothing was while the path leads to
 * the mount that the store has open, at the same point of it: what is bound there may be renamed.
 */
static bool has_other_place(const struct fm_follow *f, const struct fm_config_store *of,
			    const struct fm_dirway *was)
{
	const struct place *place = &f->places[of - f->fmoved->cfg->stores];
	struct spelled now;

	if (!place->at.sum || !fm_dirway_is_same(&place->is, was))
		return false;
	now = place_of(of->directory);
	if (now.mount == was->mount_id && is_on_same(&now, &place->at))
		return false;
	return now.sum && now.sum != place->at.sum;
}

static void look_whether_moved(struct fm_follow *f, const struct fm_config_store *of,
			       bool is_asked_for)
{
	struct fm_dirway was = of->volume[0] ? (struct fm_dirway){ 0 } : way_of(f, of);
	bool *waits = &f->is_asked_for[of - f->fmoved->cfg->stores];

	if (was.device == 0)
		return;
	is_asked_for |= *waits;
	*waits = false;
	if (has_other_place(f, of, &was)) {
		f->places[of - f->fmoved->cfg->stores].at = (struct spelled){ 0 };
		leave(f, of, fm_dirway_is_unmounted(&was) ? UNMOUNTED : MOVED, &was, is_asked_for);
	} else if (!look_at(f, of, &was, is_asked_for)) {
		*waits = is_asked_for;
	}
}

void fm_follow_look(struct fm_follow *f)
{
	/* those of another configuration */
	memset(f->places, 0, sizeof(f->places));
	memset(f->is_asked_for, 0, sizeof(f->is_asked_for));
	for (unsigned i = 0; i < f->fmoved->cfg->store_count; i++) {
		const struct fm_config_store *of = &f->fmoved->cfg->stores[i];
		struct fm_store_ref *ref = fm_engine_store_rules(f->fmoved->engine, of->name,
								 strlen(of->name));

		if (ref && ref->store->is_silent)
			ref->store->is_asked_for = true;
		if (ref)
			fm_engine_store_put(ref);
		look_whether_moved(f, of, true);
	}
}

/* A part of them at each look, so that many stores are not many threads at once. */
static void look_at_open(struct fm_follow *f)
{
	const struct fm_config *cfg = f->fmoved->cfg;

	for (unsigned i = f->looks++ % LOOKS_APART; i < cfg->store_count; i += LOOKS_APART)
		look_whether_moved(f, &cfg->stores[i], false);
}

/* ---- what a reload has opened ---- */

/* The store in the configuration that is in force; NULL: there it is not. */
static const struct fm_config_store *entry_of(const struct fm_config *cfg, const char *name)
{
	for (unsigned i = 0; i < cfg->store_count; i++)
		if (strcmp(cfg->stores[i].name, name) == 0)
			return &cfg->stores[i];
	return NULL;
}

/* Where a store was last, open or silent; all 0: it is not there, or is in no directory. */
static struct fm_dirway last_way_of(struct fm_follow *f, const char *name)
{
	struct fm_store_ref *ref = fm_engine_store_rules(f->fmoved->engine, name, strlen(name));
	struct fm_dirway was = { 0 };

	if (ref) {
		was = ref->store->way;
		fm_engine_store_put(ref);
	}
	return was;
}

/* One that does not answer yet, as the reload has it: the path that it had may lead over a link. */
static void wait_for(struct fm_store *store, const char *path, const struct fm_dirway *was)
{
	fm_dirway_spelled(path, &store->way);
	if (was && was->depth > store->way.depth)
		store->way = (struct fm_dirway){.mount = was->mount, .depth = was->depth};
}

/*
 * What was going to another directory than that of the store ends: nobody looks for it there. It
 * may have begun before an earlier reload, whose store is silent, or was removed since. Where one
 * at the same path does not say yet which directory it is, that is seen when it is opened.
 */
int fm_follow_take(struct fm_follow *f, const struct fm_config_store *of, struct fm_store *store,
		   struct fm_err *err)
{
	struct fm_engine *engine = f->fmoved->engine;
	const struct fm_config_store *former = entry_of(f->fmoved->cfg, of->name);
	struct fm_dirway was = former ? last_way_of(f, of->name) : (struct fm_dirway){ 0 };
	bool is_at_path = former && strcmp(former->directory, of->directory) == 0;
	bool waits = is_at_path && !former->volume[0];	/* it does for the mount that it was on */

	if (waits && !store->is_silent && fm_dirway_is_beneath(&store->way, &was)) {
		store->ops->free(store);
		fall_silent(f, of, UNMOUNTED, &was);
		return 0;
	}
	if (!store->is_silent)
		fm_engine_leave_store_but(engine, of->name, &store->way);
	else if (!is_at_path)
		fm_engine_leave_store_but(engine, of->name, NULL);
	if (store->is_silent)
		wait_for(store, of->directory, waits ? &was : NULL);
	return fm_engine_set_store(engine, store, err);
}

/* Whether a store that was there is on its volume there. */
static bool is_there(struct fm_follow *f, const struct fm_config_store *of,
		     const struct fm_config_store *former, const struct fm_dirway *was)
{
	struct fm_volume_store as;

	if (strcmp(former->directory, of->directory) != 0)
		return false;
	return strcmp(former->volume, of->volume) == 0 ||
	       (was->device > 0 && is_said(f, of->volume, &as) && as.device == was->device);
}

void fm_follow_drop(struct fm_follow *f, const struct fm_config_store *of)
{
	const struct fm_config_store *former = entry_of(f->fmoved->cfg, of->name);
	struct fm_dirway was = last_way_of(f, of->name);

	if (!former || !is_there(f, of, former, &was))
		fm_engine_leave_store_but(f->fmoved->engine, of->name, NULL);
	fm_engine_remove_store(f->fmoved->engine, of->name);
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
			open_as(f, &cfg->stores[i], NULL);
	await_stores(f);
	return 0;
}

/* What a server that is away makes of a look at a directory, or a mount that just comes, and no
 * mistake in a configuration. */
static bool is_of_server(int code)
{
	return code == -EAGAIN || code == -ENOTCONN || code == -ESTALE || code == -EIO ||
	       code == -ETIMEDOUT || code == -EHOSTDOWN || code == -EHOSTUNREACH ||
	       code == -ECONNABORTED;
}

static int fill_later(struct fm_follow *f, const struct fm_config_store *of, struct fm_err *err)
{
	fm_log_warn("%s:%u: store \"%s\": no memory to open it now; it is tried again", of->file,
		    of->line, of->name);
	return set_waiting(f, of, -ENOMEM, err);
}

static int fill_silent(struct fm_follow *f, const struct fm_config_store *of, struct fm_err *err)
{
	fm_log_warn("%s:%u: store \"%s\": the file system of %s%s does not answer; the store is "
		    "there when it does", of->file, of->line, of->name, of->directory,
		    fm_fmoved_or_users(fm_fmoved_asks_users(of)));
	return set_waiting(f, of, 0, err);
}

static int fill_failing(struct fm_follow *f, const struct fm_config_store *of,
			const struct fm_err *why, struct fm_err *err)
{
	fm_log_error("%s; the store is there when its file system answers", why->text);
	return set_waiting(f, of, why->code, err);
}

/* What it was to be opened on was unmounted just now. The looks take it from here. */
static int fill_left(struct opening *o, struct fm_err *err)
{
	struct fm_follow *f = o->follow;
	const struct fm_config_store *of = o->of;	/* of the configuration in force */
	struct fm_dirway was = o->was;
	const char *why = why_of(o->found);

	end_open(o);
	fm_log_warn("%s:%u: store \"%s\" at %s: %s", of->file, of->line, of->name, of->directory,
		    why);
	return set_silent(f, of, -EAGAIN, &was, why, err);
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
	if (o->found != AS_IT_WAS)
		return fill_left(o, err);
	store = o->store;
	ret = o->ret;
	why = o->err;
	if (ret == 0)
		note_place(f, of, &store->way, &o->place);
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
