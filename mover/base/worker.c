/* SPDX-License-Identifier: MIT */
/*
 * worker - threads for calls that block: one queue, one lock, taken three times for each piece of
 * work that takes milliseconds.
 */
#include "mover/base/worker.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"

#define WORKER_THREADS_MAX 64
#define TURNS_MAX 64u
#define STEPS 8u	/* worker.h's, of the threads */

struct turn {
	/* made of its name; two that have the same one share turns */
	uint64_t peer;
	uid_t user;
	uint64_t number;		/* 0: nobody's */
};

/* Of what may wait without end: the first three keep a thread for long. */
enum kind { KIND_CALLER, KIND_LISTS, KIND_COPIES, KIND_BRIEF, KINDS };

struct fm_worker {
	pthread_mutex_t lock;
	pthread_cond_t has_work;	/* or is_stopping */
	struct fm_list queue;
	bool is_shared;
	/* is_shared: threads, by whose work they do ... */
	struct fm_share busy;
	/* ... and those of what has may_await, by its kind, apart */
	struct fm_share awaiting[KINDS];
	struct fm_list running;		/* all that work */
	/* of users of peers, the last ones; who has most makes room */
	struct turn turns[TURNS_MAX];
	uint64_t turn;
	unsigned under_way;		/* in the queue, or with a thread */
	unsigned waiting;		/* in the queue */
	bool is_stopping;
	bool is_simulated;
	unsigned threads;
	pthread_t ids[WORKER_THREADS_MAX];
};

/* Under the lock, unless it is simulated. Whether it was still to be run, which it is not now. */
static bool take_off(struct fm_work *work)
{
	bool was_waiting = work->is_waiting;

	work->is_waiting = false;
	return was_waiting;
}

static void work_finish(struct fm_task *task)
{
	struct fm_work *work = fm_container_of(task, struct fm_work, task);

	work->done(work);
}

static void work_run(struct fm_work *work)
{
	fm_log_of_job(work->job);
	work->run(work);
	fm_log_of_job(NULL);
}

static void work_run_simulated(struct fm_task *task)
{
	struct fm_work *work = fm_container_of(task, struct fm_work, task);

	if (take_off(work))
		work_run(work);
	work->done(work);
}

static bool is_of_same_peer(const struct fm_work *a, const struct fm_work *b)
{
	return a->who.name && b->who.name && strcmp(a->who.name, b->who.name) == 0;
}

/* How many threads the user of that work has. */
static unsigned threads_of(const struct fm_worker *worker, const struct fm_work *work)
{
	unsigned n = 0;

	fm_list_each(at, next, &((struct fm_worker *)worker)->running) {
		const struct fm_work *other = fm_container_of(at, struct fm_work, link);

		n += other->user == work->user && is_of_same_peer(other, work);
	}
	return n;
}

static unsigned at_least_one(int64_t threads)
{
	return threads > 1 ? (unsigned)threads : 1;
}

/* So many threads may be with so many kinds of what may wait without end: 6, 8, 10, 12 of 16. */
static unsigned most_with(const struct fm_worker *worker, unsigned kinds)
{
	int64_t step = at_least_one(worker->threads / STEPS);

	return at_least_one(worker->threads - (KINDS + 2 - kinds) * step);
}

static bool has_same_owner(const struct fm_work *a, const struct fm_work *b)
{
	return a->who.name || b->who.name ? is_of_same_peer(a, b) : a->who.uid == b->who.uid;
}

/* Threads with what may wait for the same thing as some work. */
struct with_same {
	unsigned all, lasting, copies;
	unsigned owners;		/* of its owner */
	unsigned owners_alike;		/* ... and as long */
};

static struct with_same count_same(const struct fm_worker *worker, const struct fm_work *work)
{
	struct with_same n = { 0 };

	fm_list_each(at, next, &((struct fm_worker *)worker)->running) {
		const struct fm_work *other = fm_container_of(at, struct fm_work, link);
		bool is_owners = has_same_owner(other, work);

		if (other->may_await != work->may_await)
			continue;
		n.all++;
		n.lasting += other->length != FM_WORK_BRIEF;
		n.copies += other->length == FM_WORK_COPIES;
		n.owners += is_owners;
		n.owners_alike += is_owners && other->length == work->length;
	}
	return n;
}

/* Whether what that work may wait for without end has all the threads that it may have. */
static bool is_awaited_enough(const struct fm_worker *worker, const struct fm_work *work)
{
	unsigned quarter = at_least_one((worker->threads + 3) / 4);
	struct with_same n = count_same(worker, work);
	bool is_brief = work->length == FM_WORK_BRIEF;

	if (n.all > quarter || n.owners >= quarter)
		return true;
	if (n.owners_alike >= at_least_one(is_brief ? (int64_t)quarter - 1 : quarter / 2))
		return true;
	return (!is_brief && n.lasting >= quarter) ||
	       (work->length == FM_WORK_COPIES && n.copies >= at_least_one((int64_t)quarter - 1));
}

static enum kind kind_of(const struct fm_work *work)
{
	static const enum kind of_length[] = {
		[FM_WORK_BRIEF] = KIND_BRIEF,
		[FM_WORK_LISTS] = KIND_LISTS,
		[FM_WORK_COPIES] = KIND_COPIES,
	};

	return work->awaits_caller ? KIND_CALLER : of_length[work->length];
}

/* Of what may wait without end each kind has a share of its own: so it costs nobody the threads for
 * what else he asks for, and what takes long costs the brief calls none. */
static struct fm_share *share_of(struct fm_worker *worker, const struct fm_work *work)
{
	return work->may_await ? &worker->awaiting[kind_of(work)] : &worker->busy;
}

static uint64_t awaiting_now(const struct fm_worker *worker)
{
	uint64_t n = 0;

	for (unsigned k = 0; k < KINDS; k++)
		n += worker->awaiting[k].used;
	return n;
}

static uint64_t minus_or_zero(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What one that keeps a thread for long may have beside the two others of these. */
static uint64_t most_beside(const struct fm_worker *worker, uint64_t a, uint64_t b)
{
	uint64_t more = a > b ? a : b;

	return smaller(most_with(worker, 1), smaller(minus_or_zero(most_with(worker, 2), more),
						     minus_or_zero(most_with(worker, 3), a + b)));
}

/* So many threads may be with that kind while so many are with the others. */
static uint64_t most_of(const struct fm_worker *worker, unsigned kind)
{
	const struct fm_share *all = worker->awaiting;
	uint64_t idle = minus_or_zero(worker->threads, worker->busy.used);
	uint64_t rest = smaller(idle, most_with(worker, KINDS));

	rest = minus_or_zero(rest, awaiting_now(worker) - all[kind].used);
	return kind == KIND_BRIEF ? rest
				  : smaller(rest, most_beside(worker, all[(kind + 1) % 3].used,
							      all[(kind + 2) % 3].used));
}

static bool may_have_thread(struct fm_worker *worker, const struct fm_work *work)
{
	struct fm_share *share = share_of(worker, work);

	if (!fm_share_may(share, work->who, 1))
		return false;
	return !work->may_await || (share->used < most_of(worker, kind_of(work)) &&
				    !is_awaited_enough(worker, work));
}

/* Root's part stays, though there may be no thread for it. */
static void set_total(struct fm_share *share, uint64_t threads)
{
	uint64_t root = share->limits.root;

	fm_share_set_total(share, threads > root ? threads : root);
}

/* Each share is of the threads that the others have not got. Of the few of a kind, what root has of
 * its own part takes none from the others'. */
static void divide(struct fm_worker *worker)
{
	set_total(&worker->busy, minus_or_zero(worker->threads, awaiting_now(worker)));
	for (unsigned k = 0; k < KINDS; k++) {
		struct fm_share *share = &worker->awaiting[k];
		uint64_t roots = fm_share_of(share, fm_share_user(0));

		set_total(share, most_of(worker, k) + smaller(roots, share->limits.root));
	}
}

static uint64_t hash_of(const char *peer)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (const char *at = peer; *at; at++)
		hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	return hash;
}

/* Where the user of that work is, or NULL. */
static struct turn *find_turn(struct fm_worker *worker, const struct fm_work *work)
{
	uint64_t peer = hash_of(work->who.name);

	for (unsigned i = 0; i < TURNS_MAX; i++) {
		struct turn *t = &worker->turns[i];

		if (t->number > 0 && t->peer == peer && t->user == work->user)
			return t;
	}
	return NULL;
}

static unsigned turns_of(const struct fm_worker *worker, uint64_t peer)
{
	unsigned n = 0;

	for (unsigned i = 0; i < TURNS_MAX; i++)
		n += worker->turns[i].number > 0 && worker->turns[i].peer == peer;
	return n;
}

/* A place that is free, or the oldest of the peer that has most: so none has them all while others
 * want some. */
static struct turn *make_room(struct fm_worker *worker)
{
	struct turn *victim = NULL;
	unsigned most = 0;

	for (unsigned i = 0; i < TURNS_MAX; i++) {
		struct turn *t = &worker->turns[i];
		unsigned n = turns_of(worker, t->peer);

		if (t->number == 0)
			return t;
		if (!victim || n > most || (n == most && t->number < victim->number)) {
			victim = t;
			most = n;
		}
	}
	return victim;
}

static void note_turn(struct fm_worker *worker, const struct fm_work *work)
{
	struct turn *t = find_turn(worker, work);

	if (!t)
		t = make_room(worker);
	*t = (struct turn){
		.peer = hash_of(work->who.name), .user = work->user, .number = ++worker->turn};
}

/* When the user of that work had the last one; 0: not for long. */
static uint64_t last_turn(struct fm_worker *worker, const struct fm_work *work)
{
	const struct turn *t = find_turn(worker, work);

	return t ? t->number : 0;
}

/*
 * The same peer's work may come by: of that in the queue the first of who has the fewest threads,
 * and had no turn for longest.
 */
static struct fm_work *users_turn(struct fm_worker *worker, struct fm_work *first)
{
	struct fm_work *best = first;
	unsigned least;
	uint64_t turn;

	if (!first->who.name)
		return first;
	least = threads_of(worker, first);
	turn = last_turn(worker, first);
	for (struct fm_list *at = first->link.next; at != &worker->queue; at = at->next) {
		struct fm_work *work = fm_container_of(at, struct fm_work, link);
		uint64_t its_turn;
		unsigned n;

		if (least == 0 && turn == 0)
			break;
		if (work->user == best->user || !is_of_same_peer(work, first) ||
		    !may_have_thread(worker, work))
			continue;
		n = threads_of(worker, work);
		its_turn = last_turn(worker, work);
		if (n > least || (n == least && its_turn >= turn))
			continue;
		least = n;
		turn = its_turn;
		best = work;
	}
	note_turn(worker, best);
	return best;
}

/* The first in the queue whose owner may have one more thread; NULL: none now. */
static struct fm_work *worker_pick(struct fm_worker *worker)
{
	fm_list_each(at, next, &worker->queue) {
		struct fm_work *work = fm_container_of(at, struct fm_work, link);

		if (worker->is_shared && !may_have_thread(worker, work))
			continue;
		if (worker->is_shared)
			work = users_turn(worker, work);
		fm_list_del(&work->link);
		(void)take_off(work);
		worker->waiting--;
		if (worker->is_shared) {
			fm_share_force(share_of(worker, work), work->who, 1, &work->thread);
			divide(worker);
			fm_list_append(&worker->running, &work->link);
		}
		return work;
	}
	return NULL;
}

/* The next piece of work, waiting for it, or NULL: the queue is empty and the worker ends. */
static struct fm_work *worker_take(struct fm_worker *worker)
{
	struct fm_work *work;

	pthread_mutex_lock(&worker->lock);
	while (!(work = worker_pick(worker)) &&
	       !(worker->is_stopping && fm_list_is_empty(&worker->queue)))
		pthread_cond_wait(&worker->has_work, &worker->lock);
	pthread_mutex_unlock(&worker->lock);
	return work;
}

/* Its thread is free again; somebody whose share was used up may have it. */
static void worker_gave(struct fm_worker *worker, struct fm_work *work)
{
	if (!worker->is_shared)
		return;
	pthread_mutex_lock(&worker->lock);
	fm_share_give_all(&work->thread);
	divide(worker);
	fm_list_del(&work->link);
	if (worker->is_stopping || !fm_list_is_empty(&worker->queue))
		pthread_cond_broadcast(&worker->has_work);
	pthread_mutex_unlock(&worker->lock);
}

static void *worker_thread(void *arg)
{
	struct fm_worker *worker = arg;
	struct fm_work *work;

	while ((work = worker_take(worker))) {
		work_run(work);
		worker_gave(worker, work);
		work->task.run = work_finish;
		/* done() may have freed it when this returns */
		fm_loop_post(work->loop, &work->task);
		pthread_mutex_lock(&worker->lock);
		worker->under_way--;
		pthread_mutex_unlock(&worker->lock);
	}
	return NULL;
}

static void worker_join(struct fm_worker *worker)
{
	fm_worker_end(worker);
	for (; worker->threads > 0; worker->threads--)
		pthread_join(worker->ids[worker->threads - 1], NULL);
}

/* The threads take no signals: those are for the program's own threads, which know what to do with
 * them. */
static int worker_start(struct fm_worker *worker, unsigned threads)
{
	sigset_t all, saved;
	int ret = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	while (ret == 0 && worker->threads < threads) {
		pthread_t *id = &worker->ids[worker->threads];

		ret = FM_FAULT("worker.thread") ? EAGAIN
						: pthread_create(id, NULL, worker_thread, worker);
		if (ret == 0) {
			/* only for people who look at the process */
			(void)pthread_setname_np(*id, "fm-worker");
			worker->threads++;
		}
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return -ret;
}

static struct fm_worker *worker_alloc(void)
{
	struct fm_worker *worker = FM_FAULT("worker.alloc") ? NULL : calloc(1, sizeof(*worker));

	if (!worker)
		return NULL;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->has_work, NULL);
	fm_list_init(&worker->queue);
	fm_list_init(&worker->running);
	return worker;
}

int fm_worker_new_idle(struct fm_worker **out, struct fm_err *err)
{
	*out = worker_alloc();
	return *out ? 0 : fm_err_set(err, -ENOMEM, "allocate worker");
}

void fm_worker_serve(struct fm_worker *worker, unsigned threads)
{
	assert(!worker->is_simulated && worker->threads == 0 && threads <= WORKER_THREADS_MAX);
	(void)worker_start(worker, threads - 1);	/* this one is enough */
	(void)worker_thread(worker);
	worker_join(worker);
}

void fm_worker_end(struct fm_worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->is_stopping = true;
	pthread_cond_broadcast(&worker->has_work);
	pthread_mutex_unlock(&worker->lock);
}

int fm_worker_new(unsigned threads, struct fm_worker **out, struct fm_err *err)
{
	struct fm_worker *worker;
	int ret;

	assert(threads <= WORKER_THREADS_MAX && out);
	worker = worker_alloc();
	if (!worker)
		return fm_err_set(err, -ENOMEM, "allocate worker");
	worker->is_simulated = threads == 0;
	ret = worker_start(worker, threads);
	if (ret < 0) {
		fm_err_sys(err, ret, "start worker thread %u of %u", worker->threads + 1, threads);
		fm_worker_free(worker);
		return ret;
	}
	*out = worker;
	return 0;
}

static void share_init(struct fm_share *share, unsigned total, unsigned root)
{
	fm_share_init(share, &(struct fm_share_limits){"threads", total,
						       root < total ? root : total - 1, 0, 1});
}

void fm_worker_share(struct fm_worker *worker, unsigned root)
{
	if (worker->threads == 0)
		return;
	pthread_mutex_lock(&worker->lock);
	assert(!worker->is_shared && root < worker->threads);
	worker->is_shared = true;
	share_init(&worker->busy, worker->threads, root);
	for (unsigned k = 0; k < KINDS; k++)
		share_init(&worker->awaiting[k], most_with(worker, k == KIND_BRIEF ? KINDS : 1),
			   root / 2);
	pthread_mutex_unlock(&worker->lock);
}

void fm_worker_free(struct fm_worker *worker)
{
	if (!worker)
		return;
	worker_join(worker);
	assert(fm_list_is_empty(&worker->queue));
	pthread_cond_destroy(&worker->has_work);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

bool fm_worker_is_idle(struct fm_worker *worker)
{
	bool is;

	pthread_mutex_lock(&worker->lock);
	is = worker->under_way == 0;
	pthread_mutex_unlock(&worker->lock);
	return is;
}

void fm_worker_count(struct fm_worker *worker, struct fm_worker_count *out)
{
	pthread_mutex_lock(&worker->lock);
	out->threads = worker->threads;
	out->waiting = worker->waiting;
	out->running = worker->under_way - worker->waiting;
	pthread_mutex_unlock(&worker->lock);
}

bool fm_worker_is_simulated(const struct fm_worker *worker)
{
	return worker->is_simulated;
}

void fm_worker_submit(struct fm_worker *worker, struct fm_work *work, struct fm_loop *loop)
{
	assert(work->run && work->done && loop);
	work->loop = loop;
	work->is_waiting = true;
	if (worker->is_simulated) {
		work->task.run = work_run_simulated;
		fm_loop_post(loop, &work->task);
		return;
	}
	pthread_mutex_lock(&worker->lock);
	assert(!worker->is_stopping);
	fm_list_append(&worker->queue, &work->link);
	worker->under_way++;
	worker->waiting++;
	pthread_mutex_unlock(&worker->lock);
	pthread_cond_signal(&worker->has_work);		/* whoever wakes up finds the lock free */
}

bool fm_worker_cancel(struct fm_worker *worker, struct fm_work *work)
{
	bool was_waiting;

	if (worker->is_simulated)
		return take_off(work);	/* its task comes, and calls done() alone */
	pthread_mutex_lock(&worker->lock);
	was_waiting = take_off(work);
	if (was_waiting) {
		fm_list_del(&work->link);
		worker->waiting--;
		worker->under_way--;
		if (worker->is_stopping)	/* it may have been the last one */
			pthread_cond_broadcast(&worker->has_work);
	}
	pthread_mutex_unlock(&worker->lock);
	if (!was_waiting)
		return false;
	work->task.run = work_finish;
	fm_loop_post(work->loop, &work->task);
	return true;
}
