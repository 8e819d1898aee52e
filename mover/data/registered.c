/* SPDX-License-Identifier: MIT */
/* registered - see registered.h. */
#include "mover/data/registered.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/store/buffer.h"
#include "mover/store/store.h"
#include "mover/transport/transport.h"

/* What was refused may have room a while later, when other buffers are gone. */
#define AGAIN_NS (10 * FM_NS_PER_S)
/* A buffer is registered once for each peer and device: one of so many on average. */
#define TIMES 4

struct fm_registered {
	pthread_mutex_t lock;		/* of all below, and of what hangs at buffers and places */
	struct fm_loop *loop;
	struct fm_worker *worker;
	bool is_stopped;		/* the worker is not ours any more */
	struct fm_list places;
	struct fm_share share;		/* the control thread's */
	struct fm_log_limit lines;	/* the control thread's */
};

/* What the connections of one session on one device send from. */
struct fm_registered_place {
	struct fm_list at;		/* all->places */
	struct fm_registered *all;
	struct fm_lender *lender;	/* a reference */
	unsigned users;			/* connections */
	unsigned refs;			/* registrations; and one for as long as there are users */
	struct fm_list list;		/* registration.place_at */
};

enum reg_state {
	REG_COMING,			/* the control thread or the worker has it */
	REG_THERE,
	REG_REFUSED,
};

struct registration {
	struct fm_list buffer_at, place_at;
	struct fm_registered *all;
	struct fm_registered_place *place;	/* a reference */
	struct fm_buffer *buffer;	/* REG_COMING: a reference */
	enum reg_state state;
	bool is_over;			/* REG_COMING: nobody wants it any more */
	bool is_submitted;		/* REG_COMING: the worker was given it */
	uint64_t again_ns;		/* REG_REFUSED: not before */
	struct fm_region region;
	struct fm_task task;
	struct fm_work work;
	struct fm_share_held held;	/* the control thread's */
	int ret;			/* of the worker, if it is done there */
	struct fm_err err;
};

uint64_t fm_registered_bytes_max(uint64_t lockable, uint64_t buffer_bytes)
{
	uint64_t half = lockable / 2;

	return half / TIMES >= buffer_bytes ? TIMES * buffer_bytes : half;
}

int fm_registered_new(const struct fm_registered_opts *o, struct fm_registered **out,
		      struct fm_err *err)
{
	const struct fm_share_limits limits = {"bytes of buffers that are registered with devices",
					       o->bytes_max, o->bytes_max / 8, 0, 7};
	struct fm_registered *all = FM_FAULT("registered.new") ? NULL : calloc(1, sizeof(*all));

	if (!all)
		return fm_err_sys(err, -ENOMEM, "allocate the list of registered buffers");
	pthread_mutex_init(&all->lock, NULL);
	all->loop = o->loop;
	all->worker = o->worker;
	fm_list_init(&all->places);
	fm_share_init(&all->share, &limits);
	*out = all;
	return 0;
}

void fm_registered_stop(struct fm_registered *all)
{
	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	all->is_stopped = true;
	pthread_mutex_unlock(&all->lock);
}

void fm_registered_free(struct fm_registered *all)
{
	if (!all)
		return;
	assert(fm_list_is_empty(&all->places) && all->share.used == 0);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

/* ---- the end of one ---- */

/* Without the lock: the device may have something to do. */
static void place_unref(struct fm_registered_place *place)
{
	struct fm_registered *all = place->all;
	bool is_last;

	pthread_mutex_lock(&all->lock);
	is_last = --place->refs == 0;
	pthread_mutex_unlock(&all->lock);
	if (!is_last)
		return;
	place->lender->ops->put(place->lender);
	free(place);
}

static void end_run(struct fm_work *work)
{
	struct registration *reg = fm_container_of(work, struct registration, work);

	reg->place->lender->ops->take_back(reg->place->lender, &reg->region);
	place_unref(reg->place);
	reg->place = NULL;
}

static void end_done(struct fm_work *work)
{
	struct registration *reg = fm_container_of(work, struct registration, work);

	fm_share_give_all(&reg->held);
	free(reg);
}

static void end_task(struct fm_task *task)
{
	struct registration *reg = fm_container_of(task, struct registration, task);

	end_run(&reg->work);
	end_done(&reg->work);
}

/*
 * Under the lock. What was large takes long, so the worker does it, as work of ours and nobody's:
 * it waits for no work of that user. Once the worker ends nobody is served who could wait.
 */
static void give_back(struct registration *reg)
{
	struct fm_registered *all = reg->all;

	if (all->is_stopped) {
		reg->task.run = end_task;
		fm_loop_post(all->loop, &reg->task);
		return;
	}
	reg->work = (struct fm_work){.run = end_run, .done = end_done};
	fm_worker_submit(all->worker, &reg->work, all->loop);
}

/* Under the lock. What a thread has sees that by itself; what waits for one does not wait on: that
 * user's threads may hang. */
static void end(struct registration *reg)
{
	fm_list_del(&reg->buffer_at);
	fm_list_del(&reg->place_at);
	if (reg->state == REG_COMING) {
		reg->is_over = true;
		if (reg->is_submitted && !reg->all->is_stopped)
			(void)fm_worker_cancel(reg->all->worker, &reg->work);
		return;
	}
	if (reg->state == REG_REFUSED) {
		assert(reg->place->refs > 1);
		reg->place->refs--;
		free(reg);
		return;
	}
	give_back(reg);
}

static void buffer_over(struct fm_buffer_kept *kept)
{
	struct fm_registered *all = kept->ctx;

	pthread_mutex_lock(&all->lock);
	fm_list_each (at, next, &kept->list)
		end(fm_container_of(at, struct registration, buffer_at));
	pthread_mutex_unlock(&all->lock);
}

/* ---- a new one ---- */

static void make_run(struct fm_work *work)
{
	struct registration *reg = fm_container_of(work, struct registration, work);
	struct fm_lender *lender = reg->place->lender;

	reg->ret = lender->ops->lend(lender, fm_buffer_memory(reg->buffer),
				     fm_buffer_bytes(reg->buffer), &reg->region, &reg->err);
}

static void tell_refused(struct registration *reg, uint64_t now_ns)
{
	const struct fm_lender *lender = reg->place->lender;

	fm_log_some(&reg->all->lines, now_ns, FM_LOG_WARN,
		    "a buffer of %llu bytes of uid %u is copied before it is sent over %s: %s",
		    (unsigned long long)fm_buffer_bytes(reg->buffer),
		    (unsigned)fm_buffer_uid(reg->buffer), lender->ops->name(lender), reg->err.text);
}

/* The control thread: it came, or was refused. Once it is over nobody else sees it; if not, it is
 * theirs as soon as the lock is free. */
static void settle(struct registration *reg)
{
	struct fm_buffer *buffer = reg->buffer;
	struct fm_registered *all = reg->all;
	uint64_t now_ns = fm_loop_now(all->loop);
	bool is_there = reg->ret == 0, is_over;

	if (!is_there)
		fm_share_give_all(&reg->held);
	if (!is_there && reg->ret != -ECANCELED)
		tell_refused(reg, now_ns);
	pthread_mutex_lock(&all->lock);
	reg->buffer = NULL;
	reg->again_ns = now_ns + AGAIN_NS;
	reg->state = is_there ? REG_THERE : REG_REFUSED;
	is_over = reg->is_over;
	if (is_over && is_there)
		give_back(reg);
	pthread_mutex_unlock(&all->lock);
	if (is_over && !is_there) {
		place_unref(reg->place);
		end_done(&reg->work);
	}
	fm_buffer_unref(buffer);
}

static void make_done(struct fm_work *work)
{
	settle(fm_container_of(work, struct registration, work));
}

/* The share's words are for who asked; these are for the log. */
static int count(struct registration *reg, struct fm_share_id who)
{
	struct fm_share *share = &reg->all->share;
	int ret = fm_share_take(share, who, fm_buffer_bytes(reg->buffer), &reg->held, &reg->err);

	if (ret != -EBUSY)
		return ret;
	return fm_err_set(&reg->err, ret,
			  "too much is registered with devices (%llu bytes may be, and of these he "
			  "has his share)",
			  (unsigned long long)share->limits.total);
}

/* Under the lock. */
static bool is_wanted(const struct registration *reg)
{
	return !reg->is_over && !reg->all->is_stopped;
}

/* Under the lock, so that its end finds it with the worker, or keeps it from there. */
static bool submit(struct registration *reg, struct fm_share_id who)
{
	struct fm_registered *all = reg->all;

	reg->ret = -ECANCELED; /* should it never run */
	if (!is_wanted(reg))
		return false;
	reg->work = (struct fm_work){.run = make_run, .done = make_done, .who = who};
	reg->is_submitted = true;
	fm_worker_submit(all->worker, &reg->work, all->loop);
	return true;
}

static void ask_run(struct fm_task *task)
{
	struct registration *reg = fm_container_of(task, struct registration, task);
	struct fm_share_id who = fm_share_user(fm_buffer_uid(reg->buffer));
	struct fm_registered *all = reg->all;
	bool is_with_worker = false;

	pthread_mutex_lock(&all->lock);
	reg->ret = is_wanted(reg) ? 0 : -ECANCELED;
	pthread_mutex_unlock(&all->lock);
	if (reg->ret == 0)
		reg->ret = count(reg, who);
	if (reg->ret == 0) {
		pthread_mutex_lock(&all->lock);
		is_with_worker = submit(reg, who);
		pthread_mutex_unlock(&all->lock);
	}
	if (!is_with_worker)
		settle(reg);
}

/* Under the lock. */
static void ask(struct registration *reg, struct fm_buffer *buffer)
{
	reg->state = REG_COMING;
	reg->is_submitted = false;
	reg->task.run = ask_run;
	reg->buffer = fm_buffer_ref(buffer);
	fm_loop_post(reg->all->loop, &reg->task);
}

/* Under the lock. No memory: not now. */
static struct registration *registration_new(struct fm_registered_place *place,
					     struct fm_buffer *buffer)
{
	struct fm_buffer_kept *kept = fm_buffer_kept(buffer);
	struct registration *reg = FM_FAULT("registered.one") ? NULL : calloc(1, sizeof(*reg));

	if (!reg)
		return NULL;
	reg->all = place->all;
	reg->place = place;
	place->refs++;
	kept->over = buffer_over;
	kept->ctx = place->all;
	fm_list_append(&kept->list, &reg->buffer_at);
	fm_list_append(&place->list, &reg->place_at);
	return reg;
}

static struct registration *find(const struct fm_registered_place *place, struct fm_buffer *buffer)
{
	fm_list_each (at, next, &fm_buffer_kept(buffer)->list) {
		struct registration *reg = fm_container_of(at, struct registration, buffer_at);

		if (reg->place == place)
			return reg;
	}
	return NULL;
}

const struct fm_region *fm_registered_find(struct fm_registered_place *place,
					   const struct fm_file *file, uint64_t now_ns)
{
	const struct fm_region *region = NULL;
	struct registration *reg;
	bool is_new;

	if (!place || !file->buffer)
		return NULL;
	pthread_mutex_lock(&place->all->lock);
	reg = find(place, file->buffer);
	is_new = !reg;
	if (is_new)
		reg = registration_new(place, file->buffer);
	if (reg && reg->state == REG_THERE)
		region = &reg->region;
	else if (reg && (is_new || (reg->state == REG_REFUSED && now_ns >= reg->again_ns)))
		ask(reg, file->buffer);
	pthread_mutex_unlock(&place->all->lock);
	return region;
}

/* ---- connections ---- */

/* Under the lock. */
static struct fm_registered_place *find_place(struct fm_registered *all,
					      const struct fm_lender *lender)
{
	fm_list_each (at, next, &all->places) {
		struct fm_registered_place *place =
			fm_container_of(at, struct fm_registered_place, at);

		if (place->lender == lender)
			return place;
	}
	return NULL;
}

/* Under the lock. lender: a reference that is taken over, but not if there is no memory. */
static struct fm_registered_place *place_new(struct fm_registered *all, struct fm_lender *lender)
{
	struct fm_registered_place *place =
		FM_FAULT("registered.place") ? NULL : calloc(1, sizeof(*place));

	if (!place)
		return NULL;
	place->all = all;
	place->lender = lender;
	place->refs = 1;
	fm_list_init(&place->list);
	fm_list_append(&all->places, &place->at);
	return place;
}

struct fm_registered_place *fm_registered_join(struct fm_registered *all, struct fm_conn *conn)
{
	struct fm_registered_place *place;
	struct fm_lender *lender;
	bool is_taken = false;

	if (!all || !conn->ops->lender)
		return NULL;
	lender = conn->ops->lender(conn);
	pthread_mutex_lock(&all->lock);
	place = find_place(all, lender);
	if (!place) {
		place = place_new(all, lender);
		is_taken = place;
	}
	if (place)
		place->users++;
	pthread_mutex_unlock(&all->lock);
	if (!is_taken)
		lender->ops->put(lender);
	return place;
}

void fm_registered_leave(struct fm_registered_place *place)
{
	bool is_last;

	if (!place)
		return;
	pthread_mutex_lock(&place->all->lock);
	is_last = --place->users == 0;
	if (is_last) {
		/* A connection that comes now begins anew. */
		fm_list_del(&place->at);
		fm_list_each (at, next, &place->list)
			end(fm_container_of(at, struct registration, place_at));
	}
	pthread_mutex_unlock(&place->all->lock);
	if (is_last)
		place_unref(place);
}
