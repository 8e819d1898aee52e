/* SPDX-License-Identifier: MIT */
/* pin - see pin.h. */
#include "mover/data/pin.h"

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

struct fm_pins {
	pthread_mutex_t lock;		/* of all below, and of what hangs at buffers and places */
	struct fm_loop *loop;
	struct fm_worker *worker;
	bool is_stopped;		/* the worker is not ours any more */
	struct fm_list places;
	struct fm_share share;		/* the control thread's */
	struct fm_log_limit lines;	/* the control thread's */
};

/* What the connections of one session on one device send from. */
struct fm_pin_place {
	struct fm_list at;		/* pins->places */
	struct fm_pins *pins;
	struct fm_lender *lender;	/* a reference */
	unsigned users;			/* connections */
	unsigned refs;			/* pins; and one for as long as there are users */
	struct fm_list list;		/* pin.place_at */
};

enum pin_state {
	PIN_COMING,			/* the control thread or the worker has it */
	PIN_THERE,
	PIN_REFUSED,
};

struct pin {
	struct fm_list buffer_at, place_at;
	struct fm_pins *pins;
	struct fm_pin_place *place;	/* a reference */
	struct fm_buffer *buffer;	/* PIN_COMING: a reference */
	enum pin_state state;
	bool is_over;			/* PIN_COMING: nobody wants it any more */
	bool is_submitted;		/* PIN_COMING: the worker was given it */
	uint64_t again_ns;		/* PIN_REFUSED: not before */
	struct fm_region region;
	struct fm_task task;
	struct fm_work work;
	struct fm_share_held held;	/* the control thread's */
	int ret;			/* of the worker, if it is done there */
	struct fm_err err;
};

uint64_t fm_pins_bytes_max(uint64_t lockable, uint64_t buffer_bytes)
{
	uint64_t half = lockable / 2;

	return half / TIMES >= buffer_bytes ? TIMES * buffer_bytes : half;
}

int fm_pins_new(const struct fm_pins_opts *o, struct fm_pins **out, struct fm_err *err)
{
	const struct fm_share_limits limits = {"bytes of buffers that are registered with devices",
					       o->bytes_max, o->bytes_max / 8, 0, 7};
	struct fm_pins *p = FM_FAULT("pins.new") ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return fm_err_sys(err, -ENOMEM, "allocate the list of registered buffers");
	pthread_mutex_init(&p->lock, NULL);
	p->loop = o->loop;
	p->worker = o->worker;
	fm_list_init(&p->places);
	fm_share_init(&p->share, &limits);
	*out = p;
	return 0;
}

void fm_pins_stop(struct fm_pins *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->is_stopped = true;
	pthread_mutex_unlock(&p->lock);
}

void fm_pins_free(struct fm_pins *p)
{
	if (!p)
		return;
	assert(fm_list_is_empty(&p->places) && p->share.used == 0);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* ---- the end of one ---- */

/* Without the lock: the device may have something to do. */
static void place_unref(struct fm_pin_place *place)
{
	struct fm_pins *p = place->pins;
	bool is_last;

	pthread_mutex_lock(&p->lock);
	is_last = --place->refs == 0;
	pthread_mutex_unlock(&p->lock);
	if (!is_last)
		return;
	place->lender->ops->put(place->lender);
	free(place);
}

static void end_run(struct fm_work *work)
{
	struct pin *pin = fm_container_of(work, struct pin, work);

	pin->place->lender->ops->take_back(pin->place->lender, &pin->region);
	place_unref(pin->place);
	pin->place = NULL;
}

static void end_done(struct fm_work *work)
{
	struct pin *pin = fm_container_of(work, struct pin, work);

	fm_share_give_all(&pin->held);
	free(pin);
}

static void end_task(struct fm_task *task)
{
	struct pin *pin = fm_container_of(task, struct pin, task);

	end_run(&pin->work);
	end_done(&pin->work);
}

/*
 * Under the lock. What was large takes long, so the worker does it, as work of ours and nobody's:
 * it waits for no work of that user. Once the worker ends nobody is served who could wait.
 */
static void give_back(struct pin *pin)
{
	struct fm_pins *p = pin->pins;

	if (p->is_stopped) {
		pin->task.run = end_task;
		fm_loop_post(p->loop, &pin->task);
		return;
	}
	pin->work = (struct fm_work){.run = end_run, .done = end_done};
	fm_worker_submit(p->worker, &pin->work, p->loop);
}

/* Under the lock. What a thread has sees that by itself; what waits for one does not wait on: that
 * user's threads may hang. */
static void end(struct pin *pin)
{
	fm_list_del(&pin->buffer_at);
	fm_list_del(&pin->place_at);
	if (pin->state == PIN_COMING) {
		pin->is_over = true;
		if (pin->is_submitted && !pin->pins->is_stopped)
			(void)fm_worker_cancel(pin->pins->worker, &pin->work);
		return;
	}
	if (pin->state == PIN_REFUSED) {
		assert(pin->place->refs > 1);
		pin->place->refs--;
		free(pin);
		return;
	}
	give_back(pin);
}

static void buffer_over(struct fm_buffer_kept *kept)
{
	struct fm_pins *p = kept->ctx;

	pthread_mutex_lock(&p->lock);
	fm_list_each(at, next, &kept->list)
		end(fm_container_of(at, struct pin, buffer_at));
	pthread_mutex_unlock(&p->lock);
}

/* ---- a new one ---- */

static void make_run(struct fm_work *work)
{
	struct pin *pin = fm_container_of(work, struct pin, work);
	struct fm_lender *lender = pin->place->lender;

	pin->ret = lender->ops->lend(lender, fm_buffer_memory(pin->buffer),
				     fm_buffer_bytes(pin->buffer), &pin->region, &pin->err);
}

static void tell_refused(struct pin *pin, uint64_t now_ns)
{
	const struct fm_lender *lender = pin->place->lender;

	fm_log_some(&pin->pins->lines, now_ns, FM_LOG_WARN,
		    "a buffer of %llu bytes of uid %u is copied before it is sent over %s: %s",
		    (unsigned long long)fm_buffer_bytes(pin->buffer),
		    (unsigned)fm_buffer_uid(pin->buffer), lender->ops->name(lender), pin->err.text);
}

/* The control thread: it came, or was refused. Once it is over nobody else sees it; if not, it is
 * theirs as soon as the lock is free. */
static void settle(struct pin *pin)
{
	struct fm_buffer *buffer = pin->buffer;
	struct fm_pins *p = pin->pins;
	uint64_t now_ns = fm_loop_now(p->loop);
	bool is_there = pin->ret == 0, is_over;

	if (!is_there)
		fm_share_give_all(&pin->held);
	if (!is_there && pin->ret != -ECANCELED)
		tell_refused(pin, now_ns);
	pthread_mutex_lock(&p->lock);
	pin->buffer = NULL;
	pin->again_ns = now_ns + AGAIN_NS;
	pin->state = is_there ? PIN_THERE : PIN_REFUSED;
	is_over = pin->is_over;
	if (is_over && is_there)
		give_back(pin);
	pthread_mutex_unlock(&p->lock);
	if (is_over && !is_there) {
		place_unref(pin->place);
		end_done(&pin->work);
	}
	fm_buffer_unref(buffer);
}

static void make_done(struct fm_work *work)
{
	settle(fm_container_of(work, struct pin, work));
}

/* The share's words are for who asked; these are for the log. */
static int count(struct pin *pin, struct fm_share_id who)
{
	struct fm_share *share = &pin->pins->share;
	int ret = fm_share_take(share, who, fm_buffer_bytes(pin->buffer), &pin->held, &pin->err);

	if (ret != -EBUSY)
		return ret;
	return fm_err_set(&pin->err, ret,
			  "too much is registered with devices (%llu bytes may be, and of these he "
			  "has his share)",
			  (unsigned long long)share->limits.total);
}

/* Under the lock. */
static bool is_wanted(const struct pin *pin)
{
	return !pin->is_over && !pin->pins->is_stopped;
}

/* Under the lock, so that its end finds it with the worker, or keeps it from there. */
static bool submit(struct pin *pin, struct fm_share_id who)
{
	struct fm_pins *p = pin->pins;

	pin->ret = -ECANCELED;		/* should it never run */
	if (!is_wanted(pin))
		return false;
	pin->work = (struct fm_work){.run = make_run, .done = make_done, .who = who};
	pin->is_submitted = true;
	fm_worker_submit(p->worker, &pin->work, p->loop);
	return true;
}

static void ask_run(struct fm_task *task)
{
	struct pin *pin = fm_container_of(task, struct pin, task);
	struct fm_share_id who = fm_share_user(fm_buffer_uid(pin->buffer));
	struct fm_pins *p = pin->pins;
	bool is_with_worker = false;

	pthread_mutex_lock(&p->lock);
	pin->ret = is_wanted(pin) ? 0 : -ECANCELED;
	pthread_mutex_unlock(&p->lock);
	if (pin->ret == 0)
		pin->ret = count(pin, who);
	if (pin->ret == 0) {
		pthread_mutex_lock(&p->lock);
		is_with_worker = submit(pin, who);
		pthread_mutex_unlock(&p->lock);
	}
	if (!is_with_worker)
		settle(pin);
}

/* Under the lock. */
static void ask(struct pin *pin, struct fm_buffer *buffer)
{
	pin->state = PIN_COMING;
	pin->is_submitted = false;
	pin->task.run = ask_run;
	pin->buffer = fm_buffer_ref(buffer);
	fm_loop_post(pin->pins->loop, &pin->task);
}

/* Under the lock. No memory: not now. */
static struct pin *pin_new(struct fm_pin_place *place, struct fm_buffer *buffer)
{
	struct fm_buffer_kept *kept = fm_buffer_kept(buffer);
	struct pin *pin = FM_FAULT("pin.new") ? NULL : calloc(1, sizeof(*pin));

	if (!pin)
		return NULL;
	pin->pins = place->pins;
	pin->place = place;
	place->refs++;
	kept->over = buffer_over;
	kept->ctx = place->pins;
	fm_list_append(&kept->list, &pin->buffer_at);
	fm_list_append(&place->list, &pin->place_at);
	return pin;
}

static struct pin *find(const struct fm_pin_place *place, struct fm_buffer *buffer)
{
	fm_list_each(at, next, &fm_buffer_kept(buffer)->list) {
		struct pin *pin = fm_container_of(at, struct pin, buffer_at);

		if (pin->place == place)
			return pin;
	}
	return NULL;
}

const struct fm_region *fm_pin_find(struct fm_pin_place *place, const struct fm_file *file,
				    uint64_t now_ns)
{
	const struct fm_region *region = NULL;
	struct pin *pin;
	bool is_new;

	if (!place || !file->buffer)
		return NULL;
	pthread_mutex_lock(&place->pins->lock);
	pin = find(place, file->buffer);
	is_new = !pin;
	if (is_new)
		pin = pin_new(place, file->buffer);
	if (pin && pin->state == PIN_THERE)
		region = &pin->region;
	else if (pin && (is_new || (pin->state == PIN_REFUSED && now_ns >= pin->again_ns)))
		ask(pin, file->buffer);
	pthread_mutex_unlock(&place->pins->lock);
	return region;
}

/* ---- connections ---- */

/* Under the lock. */
static struct fm_pin_place *find_place(struct fm_pins *p, const struct fm_lender *lender)
{
	fm_list_each(at, next, &p->places) {
		struct fm_pin_place *place = fm_container_of(at, struct fm_pin_place, at);

		if (place->lender == lender)
			return place;
	}
	return NULL;
}

/* Under the lock. lender: a reference that is taken over, but not if there is no memory. */
static struct fm_pin_place *place_new(struct fm_pins *p, struct fm_lender *lender)
{
	struct fm_pin_place *place = FM_FAULT("pin.place") ? NULL : calloc(1, sizeof(*place));

	if (!place)
		return NULL;
	place->pins = p;
	place->lender = lender;
	place->refs = 1;
	fm_list_init(&place->list);
	fm_list_append(&p->places, &place->at);
	return place;
}

struct fm_pin_place *fm_pins_join(struct fm_pins *p, struct fm_conn *conn)
{
	struct fm_pin_place *place;
	struct fm_lender *lender;
	bool is_taken = false;

	if (!p || !conn->ops->lender)
		return NULL;
	lender = conn->ops->lender(conn);
	pthread_mutex_lock(&p->lock);
	place = find_place(p, lender);
	if (!place) {
		place = place_new(p, lender);
		is_taken = place;
	}
	if (place)
		place->users++;
	pthread_mutex_unlock(&p->lock);
	if (!is_taken)
		lender->ops->put(lender);
	return place;
}

void fm_pins_leave(struct fm_pin_place *place)
{
	bool is_last;

	if (!place)
		return;
	pthread_mutex_lock(&place->pins->lock);
	is_last = --place->users == 0;
	if (is_last) {
		/* A connection that comes now begins anew. */
		fm_list_del(&place->at);
		fm_list_each(at, next, &place->list)
			end(fm_container_of(at, struct pin, place_at));
	}
	pthread_mutex_unlock(&place->pins->lock);
	if (is_last)
		place_unref(place);
}
