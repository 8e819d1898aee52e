/* SPDX-License-Identifier: MIT */
/* links: fm_base */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/worker.h"
#include "tests/fm_test.h"

#define MANY 100

struct job {
	struct fm_work work;
	pthread_t run_on, done_on;
	unsigned runs, dones;
	unsigned order;		/* when run() was called, among all */
};

static struct fm_loop *loop;
static unsigned order_next;
static unsigned dones;

static void job_run(struct fm_work *work)
{
	struct job *job = fm_container_of(work, struct job, work);

	job->run_on = pthread_self();
	job->runs++;
	job->order = __atomic_fetch_add(&order_next, 1, __ATOMIC_RELAXED);
}

static void job_done(struct fm_work *work)
{
	struct job *job = fm_container_of(work, struct job, work);

	job->done_on = pthread_self();
	job->dones++;
	dones++;
}

static struct fm_worker *set_up(unsigned threads)
{
	struct fm_worker *worker = NULL;

	order_next = 0;
	dones = 0;
	if (fm_loop_new(&(struct fm_loop_opts){ .is_simulated = threads == 0 }, &loop, NULL) < 0 ||
	    fm_worker_new(threads, &worker, NULL) < 0)
		exit(1);
	return worker;
}

static void tear_down(struct fm_worker *worker)
{
	fm_worker_free(worker);
	fm_loop_free(loop);
}

static void wait_for(unsigned count)
{
	while (dones < count)
		fm_loop_step(loop, FM_NEVER);
}

static void test_where(void)
{
	struct fm_worker *worker = set_up(2);
	struct job job = { .work = { .run = job_run, .done = job_done } };

	fm_worker_submit(worker, &job.work, loop);
	wait_for(1);
	CU_ASSERT_FALSE(pthread_equal(job.run_on, pthread_self()));
	CU_ASSERT_TRUE(pthread_equal(job.done_on, pthread_self()));
	tear_down(worker);
}

static void test_order(void)
{
	struct fm_worker *worker = set_up(1);
	struct job jobs[MANY];

	for (unsigned i = 0; i < MANY; i++) {
		jobs[i] = (struct job){ .work = { .run = job_run, .done = job_done } };
		fm_worker_submit(worker, &jobs[i].work, loop);
	}
	wait_for(MANY);
	for (unsigned i = 0; i < MANY; i++) {
		CU_ASSERT_EQUAL(jobs[i].order, i);
		CU_ASSERT_EQUAL(jobs[i].runs, 1);
		CU_ASSERT_EQUAL(jobs[i].dones, 1);
	}
	tear_down(worker);
}

static pthread_barrier_t meeting;

static void meet_run(struct fm_work *work)
{
	(void)work;
	pthread_barrier_wait(&meeting);
}

static bool is_count(struct fm_worker *worker, unsigned waiting, unsigned running)
{
	struct fm_worker_count count;

	fm_worker_count(worker, &count);
	return count.threads == 3 && count.waiting == waiting && count.running == running;
}

static void await_count(struct fm_worker *worker, unsigned waiting, unsigned running)
{
	time_t until = time(NULL) + FM_TEST_HANG_S;

	while (!is_count(worker, waiting, running) && time(NULL) < until)
		sched_yield();
	CU_ASSERT_TRUE(is_count(worker, waiting, running));
}

/* Three calls that end only when a fourth thread has met them; two more wait until then. */
static void test_parallel(void)
{
	struct fm_worker *worker = set_up(3);
	struct job jobs[5];

	pthread_barrier_init(&meeting, NULL, 4);
	CU_ASSERT_TRUE(is_count(worker, 0, 0));
	for (int i = 0; i < 5; i++) {
		jobs[i] = (struct job){
			.work = { .run = i < 3 ? meet_run : job_run, .done = job_done } };
		fm_worker_submit(worker, &jobs[i].work, loop);
	}
	await_count(worker, 2, 3);
	pthread_barrier_wait(&meeting);
	wait_for(5);
	await_count(worker, 0, 0);
	tear_down(worker);
	pthread_barrier_destroy(&meeting);
	CU_PASS("they met");
}

static void test_free_finishes(void)
{
	struct fm_worker *worker = set_up(2);
	struct job jobs[MANY];

	for (unsigned i = 0; i < MANY; i++) {
		jobs[i] = (struct job){ .work = { .run = job_run, .done = job_done } };
		fm_worker_submit(worker, &jobs[i].work, loop);
	}
	fm_worker_free(worker);
	CU_ASSERT_EQUAL(dones, 0);
	for (unsigned i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL(jobs[i].runs, 1);
	fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(dones, MANY);
	fm_loop_free(loop);
}

struct chain {
	struct fm_work work;
	struct fm_worker *worker;
	unsigned left;
};

static void chain_run(struct fm_work *work)
{
	(void)work;
}

static void chain_done(struct fm_work *work)
{
	struct chain *chain = fm_container_of(work, struct chain, work);

	dones++;
	if (--chain->left > 0)
		fm_worker_submit(chain->worker, work, loop);
	else
		free(chain);
}

static void test_done_owns(void)
{
	struct fm_worker *worker = set_up(2);
	struct chain *chain = calloc(1, sizeof(*chain));

	CU_ASSERT_PTR_NOT_NULL_FATAL(chain);
	*chain = (struct chain){
		.work = {.run = chain_run, .done = chain_done}, .worker = worker, .left = 50};
	fm_worker_submit(worker, &chain->work, loop);
	wait_for(50);
	tear_down(worker);
	CU_ASSERT_EQUAL(dones, 50);
}

static void test_simulated(void)
{
	struct fm_worker *worker = set_up(0);
	struct job job = { .work = { .run = job_run, .done = job_done } };

	fm_worker_submit(worker, &job.work, loop);
	CU_ASSERT_EQUAL(job.runs, 0);
	CU_ASSERT_EQUAL(fm_loop_next_ns(loop), 0);
	CU_ASSERT_TRUE(fm_loop_step(loop, 0));
	CU_ASSERT_EQUAL(job.runs, 1);
	CU_ASSERT_EQUAL(job.dones, 1);
	CU_ASSERT_TRUE(pthread_equal(job.run_on, pthread_self()));
	tear_down(worker);
}

static void test_new_faults(void)
{
	unsigned n;
	int ret = -1;

	for (n = 1; ret < 0 && n < 100; n++) {
		struct fm_worker *worker = NULL;
		struct fm_err err = { 0 };

		fm_fault_arm(NULL, n);
		ret = fm_worker_new(4, &worker, &err);
		CU_ASSERT_EQUAL(ret < 0, fm_fault_fired());
		CU_ASSERT_EQUAL(ret, err.code);
		CU_ASSERT_EQUAL(ret < 0, err.text[0] != '\0' && !worker);
		fm_worker_free(worker);
	}
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(ret, 0);
	fm_worker_free(NULL);
}

/* ---- shares ---- */

struct waiting {
	struct fm_work work;
	sem_t *until;		/* NULL: it does not wait */
};

static void waiting_run(struct fm_work *work)
{
	struct waiting *w = fm_container_of(work, struct waiting, work);

	while (w->until && sem_wait(w->until) < 0)
		;	/* interrupted */
}

static void waiting_done(struct fm_work *work)
{
	(void)work;
	dones++;
}

static void submit_as(struct fm_worker *worker, struct waiting *w, struct fm_share_id who,
		      sem_t *until)
{
	*w = (struct waiting){.work = {.run = waiting_run, .done = waiting_done, .who = who},
			      .until = until};
	fm_worker_submit(worker, &w->work, loop);
}

/* Goal: whoever asks for more calls that hang than there are threads stops nobody but himself. */
static void test_threads_are_shared(void)
{
	static struct waiting hang[40], peer, other, root;
	struct fm_worker *worker = set_up(8);
	sem_t until;

	CU_ASSERT_EQUAL(sem_init(&until, 0, 0), 0);
	fm_worker_share(worker, 1);
	for (unsigned i = 0; i < 20; i++)
		submit_as(worker, &hang[i], fm_share_user(1000), &until);
	submit_as(worker, &peer, fm_share_name("n2"), NULL);
	wait_for(1);
	for (unsigned i = 20; i < 40; i++)
		submit_as(worker, &hang[i], fm_share_user(1001), &until);
	submit_as(worker, &other, fm_share_user(1002), NULL);
	wait_for(2);
	submit_as(worker, &root, fm_share_user(0), NULL);
	wait_for(3);
	for (unsigned i = 0; i < 40; i++)
		sem_post(&until);
	wait_for(43);
	tear_down(worker);
	sem_destroy(&until);
}

/*
 * So many stores, in each of which so many calls of each of these peers hang. A call of the first
 * of them that does not comes by, and one of root.
 */
static void check_comes_by(unsigned stores, unsigned peers, unsigned calls)
{
	static const char *const names[] = {"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8",
					    "n9", "n10", "n11", "n12", "n13", "n14"};
	static struct waiting hang[100], same, other;
	struct fm_worker *worker = set_up(16);
	sem_t until;

	CU_ASSERT_EQUAL(sem_init(&until, 0, 0), 0);
	fm_worker_share(worker, 2);
	for (unsigned i = 0; i < calls; i++) {
		hang[i].work = (struct fm_work){.run = waiting_run,
						.done = waiting_done,
						.who = fm_share_name(names[i % peers]),
						.may_await = &hang[i / peers % stores]};
		hang[i].until = &until;
		fm_worker_submit(worker, &hang[i].work, loop);
	}
	submit_as(worker, &same, fm_share_name("n1"), NULL);
	wait_for(1);
	submit_as(worker, &other, fm_share_user(0), NULL);
	wait_for(2);
	for (unsigned i = 0; i < calls; i++)
		sem_post(&until);
	wait_for(calls + 2);
	tear_down(worker);
	sem_destroy(&until);
}

/*
 * Goal: calls that hang in one store do not keep all threads that who asked may have: the other
 * calls of the same peer go on.
 */
static void test_what_hangs_has_a_part(void)
{
	check_comes_by(1, 1, 20);
}

/* Goal: nor do those that hang in several stores, whoever asked for how many of them. */
static void test_what_hangs_in_several(void)
{
	check_comes_by(2, 1, 20);
	check_comes_by(4, 1, 40);
	check_comes_by(4, 2, 40);
	check_comes_by(4, 14, 56);
}

/* ---- callers who hang ---- */

static void submit_awaiting(struct fm_worker *worker, struct waiting *w, uid_t uid,
			    const void *may_await, bool awaits_caller, sem_t *until)
{
	*w = (struct waiting){.work = {.run = waiting_run,
				       .done = waiting_done,
				       .who = fm_share_user(uid),
				       .may_await = may_await,
				       .awaits_caller = awaits_caller},
			      .until = until};
	fm_worker_submit(worker, &w->work, loop);
}

/*
 * Goal: callers who hang, however many users they are, leave threads for what may wait for a store
 * or the user database, whoever asks for that, and one for what root serves.
 */
static void test_callers_who_hang(void)
{
	static struct waiting hang[80], store, database, own, plain;
	struct fm_worker *worker = set_up(16);
	static char a_store, users;
	sem_t until;

	CU_ASSERT_EQUAL(sem_init(&until, 0, 0), 0);
	fm_worker_share(worker, 2);
	for (unsigned i = 0; i < 80; i++)
		submit_awaiting(worker, &hang[i], 1000 + i / 4, &hang[i / 4], true, &until);
	submit_awaiting(worker, &store, 1000, &a_store, false, NULL);
	submit_awaiting(worker, &database, 2000, &users, false, NULL);
	wait_for(2);
	submit_awaiting(worker, &own, 0, &own, true, NULL);
	submit_as(worker, &plain, fm_share_user(1000), NULL);
	wait_for(4);
	for (unsigned i = 0; i < 80; i++)
		sem_post(&until);
	wait_for(84);
	tear_down(worker);
	sem_destroy(&until);
}

/* ---- what takes long, and the rule that worker.h has for all that may wait ---- */

/* Works that hang until one sem is posted as often as there are works. */
struct crowd {
	struct fm_worker *worker;
	struct waiting work[400], probe;
	unsigned count, probes;
	sem_t until;
};

static struct crowd *crowd_new(void)
{
	static struct crowd c;

	c = (struct crowd){ .worker = set_up(16) };
	CU_ASSERT_EQUAL(sem_init(&c.until, 0, 0), 0);
	fm_worker_share(c.worker, 2);
	return &c;
}

static void crowd_free(struct crowd *c)
{
	for (unsigned i = 0; i < c->count; i++)
		sem_post(&c->until);
	wait_for(c->count + c->probes);
	tear_down(c->worker);
	sem_destroy(&c->until);
}

static void crowd_add(struct crowd *c, uid_t uid, const void *may_await, enum fm_work_length length)
{
	struct waiting *w = &c->work[c->count++];

	w->work = (struct fm_work){.run = waiting_run, .done = waiting_done,
				   .who = fm_share_user(uid), .may_await = may_await,
				   .length = length};
	w->until = &c->until;
	fm_worker_submit(c->worker, &w->work, loop);
}

/* How many have a thread: whoever asks for what always answers gets one behind all that may. */
static unsigned crowd_begun(struct crowd *c)
{
	struct fm_worker_count n;

	submit_as(c->worker, &c->probe, fm_share_user(5000), NULL);
	wait_for(++c->probes);
	fm_worker_count(c->worker, &n);
	return c->count - n.waiting;
}

/* Ten users ask for four each. */
static void ten_users(struct crowd *c, const void *may_await, enum fm_work_length length)
{
	for (unsigned i = 0; i < 40; i++)
		crowd_add(c, 1000 + i / 4, may_await, length);
}

static void one_user(struct crowd *c, uid_t uid, const void *may_await, enum fm_work_length length)
{
	for (unsigned i = 0; i < 5; i++)
		crowd_add(c, uid, may_await, length);
}

/*
 * Goal: copies from a store, which take hours though it answers, bar nobody else from it: listings
 * go by copies, root's as well, whoever was first, and brief calls by both.
 */
static void test_long_calls_of_one_store(void)
{
	struct crowd *c = crowd_new();
	static char store;

	crowd_add(c, 1000, &store, FM_WORK_COPIES);
	crowd_add(c, 1001, &store, FM_WORK_COPIES);
	one_user(c, 0, &store, FM_WORK_COPIES);
	CU_ASSERT_EQUAL(crowd_begun(c), 3);
	crowd_add(c, 1000, &store, FM_WORK_LISTS);
	CU_ASSERT_EQUAL(crowd_begun(c), 4);
	ten_users(c, &store, FM_WORK_LISTS);
	CU_ASSERT_EQUAL(crowd_begun(c), 4);
	ten_users(c, &store, FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 5);
	crowd_free(c);

	c = crowd_new();
	one_user(c, 0, &store, FM_WORK_COPIES);
	CU_ASSERT_EQUAL(crowd_begun(c), 2);
	ten_users(c, &store, FM_WORK_COPIES);
	CU_ASSERT_EQUAL(crowd_begun(c), 3);
	crowd_free(c);

	c = crowd_new();
	ten_users(c, &store, FM_WORK_LISTS);
	one_user(c, 0, &store, FM_WORK_LISTS);
	CU_ASSERT_EQUAL(crowd_begun(c), 4);
	one_user(c, 0, &store, FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 5);
	crowd_free(c);
}

/* Goal: whatever one owner asks of a store, others find a thread for it. */
static void test_one_owner_of_one_store(void)
{
	struct crowd *c = crowd_new();
	static char store;

	one_user(c, 1000, &store, FM_WORK_COPIES);
	CU_ASSERT_EQUAL(crowd_begun(c), 2);
	one_user(c, 1000, &store, FM_WORK_LISTS);
	CU_ASSERT_EQUAL(crowd_begun(c), 4);
	one_user(c, 1000, &store, FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 4);
	crowd_add(c, 1001, &store, FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 5);
	crowd_free(c);

	c = crowd_new();
	one_user(c, 1000, &store, FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 3);
	one_user(c, 1001, &store, FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 5);
	crowd_free(c);
}

/* Goal: as many copies as there may be, from several stores, leave a user and root a
 * listing each, and brief calls. */
static void test_copies_of_several_stores(void)
{
	struct crowd *c = crowd_new();
	static char store[3], other;

	for (unsigned i = 0; i < 5; i++)
		crowd_add(c, 1000 + i, &store[i % 3], FM_WORK_COPIES);
	CU_ASSERT_EQUAL(crowd_begun(c), 5);
	ten_users(c, &other, FM_WORK_COPIES);
	CU_ASSERT_EQUAL(crowd_begun(c), 5);
	one_user(c, 0, &store[2], FM_WORK_COPIES);
	CU_ASSERT_EQUAL(crowd_begun(c), 6);
	one_user(c, 0, &other, FM_WORK_LISTS);
	CU_ASSERT_EQUAL(crowd_begun(c), 7);
	crowd_add(c, 1007, &store[0], FM_WORK_LISTS);
	CU_ASSERT_EQUAL(crowd_begun(c), 8);
	ten_users(c, &other, FM_WORK_LISTS);
	CU_ASSERT_EQUAL(crowd_begun(c), 8);
	crowd_add(c, 1007, &store[0], FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 9);
	crowd_free(c);
}

/*
 * Goal: whatever hangs, of any length, in any number of stores: three quarters of the threads at
 * most are with it, root's among them, and half (8) with listings and copies.
 */
static void test_long_calls_of_several_stores(void)
{
	struct crowd *c = crowd_new();
	static char store[9];

	for (unsigned i = 0; i < 5; i++) {
		ten_users(c, &store[i], i % 2 ? FM_WORK_COPIES : FM_WORK_LISTS);
		crowd_add(c, 0, &store[i], FM_WORK_COPIES);
		crowd_add(c, 0, &store[i], FM_WORK_LISTS);
	}
	CU_ASSERT_EQUAL(crowd_begun(c), 8);
	crowd_add(c, 1000, &store[4], FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 9);
	for (unsigned i = 5; i < 9; i++) {
		one_user(c, 1000 + i, &store[i], FM_WORK_BRIEF);
		crowd_add(c, 0, &store[i], FM_WORK_BRIEF);
	}
	CU_ASSERT_EQUAL(crowd_begun(c), 12);
	crowd_free(c);
}

/*
 * Goal: callers who hang, listings and copies that do, root's among them, keep each other from
 * nothing, and leave a part for brief calls of stores that answer.
 */
static void test_long_calls_and_callers(void)
{
	struct crowd *c = crowd_new();
	static char store[4], hung[10];

	for (unsigned i = 0; i < 40; i++) {
		struct waiting *w = &c->work[c->count++];

		submit_awaiting(c->worker, w, i < 36 ? 2000 + i / 4 : 0, &hung[i / 4], true,
				&c->until);
	}
	CU_ASSERT_EQUAL(crowd_begun(c), 6);
	for (unsigned i = 0; i < 4; i++) {
		ten_users(c, &store[i], FM_WORK_COPIES);
		crowd_add(c, 0, &store[i], FM_WORK_COPIES);
	}
	CU_ASSERT_EQUAL(crowd_begun(c), 8);
	for (unsigned i = 0; i < 2; i++) {
		ten_users(c, &store[i], FM_WORK_LISTS);
		crowd_add(c, 0, &store[i], FM_WORK_LISTS);
	}
	CU_ASSERT_EQUAL(crowd_begun(c), 10);
	crowd_add(c, 1000, &store[0], FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 11);
	crowd_add(c, 0, &store[1], FM_WORK_BRIEF);
	CU_ASSERT_EQUAL(crowd_begun(c), 12);
	crowd_free(c);
}

/* ---- users of a peer ---- */

static unsigned order[16], ordered;
static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t begun;	/* posted when one of them begins */

struct ordered {
	struct waiting w;
	unsigned number;
};

static void ordered_run(struct fm_work *work)
{
	struct ordered *o = fm_container_of(work, struct ordered, w.work);

	pthread_mutex_lock(&order_lock);
	order[ordered++] = o->number;
	pthread_mutex_unlock(&order_lock);
	sem_post(&begun);
	waiting_run(work);
}

static void submit_of(struct fm_worker *worker, struct ordered *o, const char *peer, uid_t user,
		      sem_t *until)
{
	o->number = user;
	o->w = (struct waiting){.work = {.run = ordered_run,
					 .done = waiting_done,
					 .who = fm_share_name(peer),
					 .user = user},
				.until = until};
	fm_worker_submit(worker, &o->w.work, loop);
}

/* Waits until so many more of them have begun. */
static void wait_begun(unsigned count)
{
	while (count-- > 0)
		while (sem_wait(&begun) < 0)
			;	/* a signal */
}

/*
 * Goal: users of a peer whose calls hang keep no more threads than what hangs may have, though each
 * of them would be next among its users. Method: the threads that the peer may have for other calls
 * are taken until all is in the queue; what hangs comes behind what does not.
 */
static void test_what_hangs_takes_no_turns(void)
{
	static struct ordered block[7];
	static struct waiting same[16], hang[40];
	struct fm_worker *worker = set_up(16);
	sem_t gate, until;

	CU_ASSERT_EQUAL(sem_init(&gate, 0, 0) | sem_init(&until, 0, 0) | sem_init(&begun, 0, 0),
			0);
	ordered = 0;
	fm_worker_share(worker, 2);
	for (unsigned i = 0; i < 7; i++)
		submit_of(worker, &block[i], "n1", 0, &gate);
	wait_begun(7);
	for (unsigned i = 0; i < 16; i++) {
		same[i].work = (struct fm_work){.run = waiting_run, .done = waiting_done,
						  .who = fm_share_name("n1")};
		fm_worker_submit(worker, &same[i].work, loop);
	}
	for (unsigned i = 0; i < 40; i++) {
		hang[i].work = (struct fm_work){.run = waiting_run, .done = waiting_done,
						  .who = fm_share_name("n1"), .user = 1 + i,
						  .may_await = &hang[i % 5]};
		hang[i].until = &until;
		fm_worker_submit(worker, &hang[i].work, loop);
	}
	for (unsigned i = 0; i < 7; i++)
		sem_post(&gate);
	wait_for(7 + 16);
	for (unsigned i = 0; i < 40; i++)
		sem_post(&until);
	wait_for(7 + 16 + 40);
	tear_down(worker);
	sem_destroy(&gate);
	sem_destroy(&until);
	sem_destroy(&begun);
}

/*
 * Goal: a user of a peer who asks for much does not go before another of its users who comes later.
 * Method: two threads for it, both held by the first user; when one is free, the other user is
 * next, though the first has more in the queue.
 */
static void test_a_peers_users_take_turns(void)
{
	static struct ordered many[5], other;
	struct fm_worker *worker = set_up(4);
	sem_t until;

	CU_ASSERT_EQUAL(sem_init(&until, 0, 0), 0);
	CU_ASSERT_EQUAL(sem_init(&begun, 0, 0), 0);
	ordered = 0;
	fm_worker_share(worker, 0);
	for (unsigned i = 0; i < 5; i++)
		submit_of(worker, &many[i], "n1", 1, &until);
	wait_begun(2);
	submit_of(worker, &other, "n1", 2, &until);
	sem_post(&until);
	wait_begun(1);
	CU_ASSERT_EQUAL(order[2], 2);
	for (unsigned i = 1; i < 6; i++)
		sem_post(&until);
	wait_for(6);
	CU_ASSERT_EQUAL(ordered, 6);
	tear_down(worker);
	sem_destroy(&until);
	sem_destroy(&begun);
}

/*
 * Goal: with one thread for all of them no user waits until two others, who asked before him, have
 * nothing more. Method: all that is asked for is there before the first one ends.
 */
static void test_users_take_turns_on_one_thread(void)
{
	static struct ordered first[4], second[4], third;
	struct fm_worker *worker = set_up(2);
	unsigned at = 0;
	sem_t until;

	ordered = 0;
	CU_ASSERT_EQUAL(sem_init(&until, 0, 0), 0);
	CU_ASSERT_EQUAL(sem_init(&begun, 0, 0), 0);
	fm_worker_share(worker, 0);
	for (unsigned i = 0; i < 4; i++)
		submit_of(worker, &first[i], "n1", 1, &until);
	for (unsigned i = 0; i < 4; i++)
		submit_of(worker, &second[i], "n1", 2, &until);
	submit_of(worker, &third, "n1", 3, &until);
	for (unsigned i = 0; i < 9; i++)
		sem_post(&until);
	wait_for(9);
	while (at < 8 && order[at] != 3)
		at++;
	CU_ASSERT_TRUE(at <= 4);
	tear_down(worker);
	sem_destroy(&until);
	sem_destroy(&begun);
}

static void ended_one(struct fm_worker *worker, struct ordered *o, const char *peer, uid_t user)
{
	unsigned before = dones;

	submit_of(worker, o, peer, user, NULL);
	wait_for(before + 1);
	wait_begun(1);
}

/*
 * Goal: a peer with very many users does not make forgotten who of another peer's had his turn.
 * Method: users 1 and 2 of n1 have one each, then a hundred of n2's; with n1's thread held, 2 asks
 * before 1, whose turn it is.
 */
static void test_many_users_of_one_peer(void)
{
	static struct ordered one, first, second, holder;
	struct fm_worker *worker = set_up(2);
	unsigned before;
	sem_t until;

	CU_ASSERT_EQUAL(sem_init(&until, 0, 0), 0);
	CU_ASSERT_EQUAL(sem_init(&begun, 0, 0), 0);
	fm_worker_share(worker, 0);
	ordered = 0;
	ended_one(worker, &one, "n1", 1);
	ended_one(worker, &one, "n1", 2);
	for (unsigned i = 0; i < 100; i++) {
		ordered = 0;
		ended_one(worker, &one, "n2", 1000 + i);
	}
	ordered = 0;
	before = dones;
	submit_of(worker, &holder, "n1", 9, &until);
	wait_begun(1);
	submit_of(worker, &second, "n1", 2, NULL);
	submit_of(worker, &first, "n1", 1, NULL);
	sem_post(&until);
	wait_for(before + 3);
	CU_ASSERT_TRUE(order[0] == 9 && order[1] == 1 && order[2] == 2);
	tear_down(worker);
	sem_destroy(&until);
	sem_destroy(&begun);
}

/*
 * Goal: what no thread has yet can be taken back: it never runs, and is done at once, though the
 * thread that it waited for is held; what a thread has, or had, cannot. Method: one thread, held.
 */
static void test_cancel(void)
{
	static struct waiting held;
	struct job taken = {.work = {.run = job_run, .done = job_done}}, kept = taken;
	struct fm_worker *worker = set_up(1);
	struct fm_worker_count count;
	sem_t until;

	CU_ASSERT_EQUAL(sem_init(&until, 0, 0), 0);
	submit_as(worker, &held, fm_share_user(0), &until);
	do
		fm_worker_count(worker, &count);
	while (count.running == 0);
	fm_worker_submit(worker, &taken.work, loop);
	fm_worker_submit(worker, &kept.work, loop);
	CU_ASSERT_FALSE(fm_worker_cancel(worker, &held.work));
	CU_ASSERT_TRUE(fm_worker_cancel(worker, &taken.work));
	CU_ASSERT_FALSE(fm_worker_cancel(worker, &taken.work));
	wait_for(1);
	CU_ASSERT_TRUE(taken.runs == 0 && taken.dones == 1);
	fm_worker_count(worker, &count);
	CU_ASSERT_TRUE(count.waiting == 1 && count.running == 1);
	sem_post(&until);
	wait_for(3);
	CU_ASSERT_TRUE(kept.runs == 1 && kept.dones == 1 && taken.runs == 0);
	fm_worker_submit(worker, &taken.work, loop);
	wait_for(4);
	CU_ASSERT_EQUAL(taken.runs, 1);
	tear_down(worker);
	sem_destroy(&until);
}

/* Goal: the same of a simulated one. */
static void test_cancel_simulated(void)
{
	struct fm_worker *worker = set_up(0);
	struct job job = {.work = {.run = job_run, .done = job_done}};

	fm_worker_submit(worker, &job.work, loop);
	CU_ASSERT_TRUE(fm_worker_cancel(worker, &job.work));
	CU_ASSERT_FALSE(fm_worker_cancel(worker, &job.work));
	CU_ASSERT_EQUAL(job.dones, 0);
	wait_for(1);
	CU_ASSERT_TRUE(job.runs == 0 && job.dones == 1);
	tear_down(worker);
}

static const struct fm_test tests[] = {
	{"what no thread has yet can be taken back", test_cancel},
	{"a simulated worker gives back what has not run", test_cancel_simulated},
	{"many users of one peer make no other peer's forgotten", test_many_users_of_one_peer},
	{"users of one peer take turns on one thread", test_users_take_turns_on_one_thread},
	{"users of one peer take turns", test_a_peers_users_take_turns},
	{"threads are divided among those who ask", test_threads_are_shared},
	{"what hangs in one store has a part of the threads", test_what_hangs_has_a_part},
	{"what hangs in several stores is apart from what does not", test_what_hangs_in_several},
	{"what hangs takes no turns of what does not", test_what_hangs_takes_no_turns},
	{"copies from one store bar nobody from it", test_long_calls_of_one_store},
	{"one owner bars nobody from a store", test_one_owner_of_one_store},
	{"copies from several stores leave threads for listings", test_copies_of_several_stores},
	{"what hangs, long or brief, has three quarters of the threads",
	 test_long_calls_of_several_stores},
	{"callers and copies that hang leave threads for brief calls", test_long_calls_and_callers},
	{"callers who hang leave threads for stores", test_callers_who_hang},
	{"work runs on another thread and is done on the loop's", test_where},
	{"one thread takes work in the order submitted", test_order},
	{"as many calls block at once as there are threads", test_parallel},
	{"free finishes what was submitted and leaves its done() to the loop", test_free_finishes},
	{"done() may submit its work again, or free it", test_done_owns},
	{"a simulated worker runs on the loop, in a later pass", test_simulated},
	{"a worker that cannot be made leaves nothing behind", test_new_faults},
};
FM_TEST_MAIN("worker", tests)
