/* SPDX-License-Identifier: MIT */
/*
 * worker - a few threads for calls that block (open, fsync, rename, stat), so that no loop ever
 * does.
 *
 * run() is called on a worker's thread, then done() on the loop given with it. Work is taken in
 * order, several at once. The struct belongs to the caller and must stay until done(). The queue
 * has no limit of its own: callers bound what they start (jobs, requests). Threads may be divided
 * among those whose work it is: then what one asked for keeps no more of them than share.h says,
 * however long it takes, and what others asked for goes by. Of the threads that a peer has, its
 * users get even parts: the next one is for who has the fewest, and of those for who had none for
 * longest.
 *
 * Threads that are divided have a rule for what may wait without end, such as a store whose server
 * is away or the user database. It knows no difference between what hangs and what is just slow,
 * and holds whosoever asks, root as well. The numbers are for 16 threads; of others the same parts,
 * and one at least:
 *
 *   - 12 at most are with what may wait without end. Three kinds of it keep a thread for long: what
 *     callers of this node serve, who have only to hang; listings; and copies. One kind has 6 at
 *     most, two together 8, all three 10; so each finds two, whatever the others do, and so do
 *     brief calls. The three kinds and the brief calls are divided by themselves, as share.h says,
 *     each with one thread for root.
 *   - 5 at most are with the same thing; of these 4 with listings and copies, and 3 with copies. So
 *     where all is well brief calls go by listings, and listings by copies. One owner has 4 of the
 *     5 at most: 3 brief calls, 2 listings, 2 copies.
 */
#ifndef FM_BASE_WORKER_H
#define FM_BASE_WORKER_H

#include <stdbool.h>

#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"

struct fm_worker;
struct fm_err;

/* How long run() takes, though what it may wait for answers at once. */
enum fm_work_length {
	FM_WORK_BRIEF,
	FM_WORK_LISTS,			/* it looks at all that is in a tree */
	FM_WORK_COPIES,			/* it reads all of it: hours */
};

struct fm_work {
	void (*run)(struct fm_work *work);
	void (*done)(struct fm_work *work);
	/* whose it is: root's or our own, if it is left alone; its name stays until done() */
	struct fm_share_id who;
	uid_t user;			/* of a peer's: which of its users */
	/* the job that it is for, whose lines those are that run() says (log.h), and whose name
	 * stays until done(); NULL: none */
	const char *job;
	/* what it may wait for without end (a store, may_stand.h): the same of all that do; NULL:
	 * nothing is, and the rule above is not about it */
	const void *may_await;
	bool awaits_caller;		/* that is what a caller of this node serves */
	enum fm_work_length length;
	/* The worker's: */
	struct fm_share_held thread;
	struct fm_task task;
	struct fm_loop *loop;
	struct fm_list link;
	bool is_waiting;		/* run() is still to come */
};

/* threads: 1 .. 64; 0: a simulated worker, where run() is called on the loop itself, in a later
 * pass. */
int fm_worker_new(unsigned threads, struct fm_worker **out, struct fm_err *err);

/* Divide the threads: so many are for root and for us. Before anything is submitted. */
void fm_worker_share(struct fm_worker *worker, unsigned root);

/* Finishes what was submitted first (their done() is posted, not run). NULL is allowed. */
void fm_worker_free(struct fm_worker *worker);

/*
 * One whose threads come later, from the process that calls fm_worker_serve() (apart.h): it does
 * the work with so many threads, its own included (or with fewer, if the system gives no more), and
 * returns behind the last one after fm_worker_end(), from when on nothing is submitted. Freed then.
 */
int fm_worker_new_idle(struct fm_worker **out, struct fm_err *err);
void fm_worker_serve(struct fm_worker *worker, unsigned threads);
void fm_worker_end(struct fm_worker *worker);

/* Whether run() has returned for all that was submitted. done() may still be to come. */
bool fm_worker_is_idle(struct fm_worker *worker);

struct fm_worker_count {
	unsigned threads;
	unsigned waiting;		/* submitted, and no thread has it yet */
	unsigned running;		/* with a thread */
};

/* As of now. Any thread; waits for nobody. */
void fm_worker_count(struct fm_worker *worker, struct fm_worker_count *out);

/* Whether it was made with 0 threads: whoever makes another one beside it does the same. */
bool fm_worker_is_simulated(const struct fm_worker *worker);

/* Any thread. The worker must stay until this returns, even if done() has run by then. */
void fm_worker_submit(struct fm_worker *worker, struct fm_work *work, struct fm_loop *loop);

/*
 * Take work back that no thread has yet: run() is not called, and done() comes without waiting for
 * a thread. False: a thread has it, or had it, and nothing changes. Any thread, from submit until
 * done().
 */
bool fm_worker_cancel(struct fm_worker *worker, struct fm_work *work);

#endif
