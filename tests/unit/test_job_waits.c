/* SPDX-License-Identifier: MIT */
/* links: fm_services */
/* What a transfer's calls of the disk may wait for, and whose threads they take (worker.h). */
#include "tests/fm_test.h"

#include <pthread.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "mover/services/transfer/job.h"
#include "mover/store/store.h"
#include "mover/store/tree_file.h"

static struct fm_engine engine;
static unsigned ran;
static pthread_t ran_on;

static void work_run(struct fm_work *work)
{
	(void)work;
	ran_on = pthread_self();
}

static void work_done(struct fm_work *work)
{
	(void)work;
	ran++;
}

static void begin(void)
{
	const struct fm_loop_opts o = { .clock = &fm_clock_real };

	ran = 0;
	memset(&engine, 0, sizeof(engine));
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&o, &engine.env.loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(0, &engine.env.worker, NULL), 0);
}

static void end(void)
{
	fm_worker_free(engine.env.worker);
	fm_loop_free(engine.env.loop);
}

/* What a call of the job's may wait for, as its worker is told. */
static const void *awaited(struct fm_job *j)
{
	struct fm_work work = { .run = work_run, .done = work_done };
	unsigned before = ran;

	fm_job_submit(j, &work);
	while (ran == before)	/* on another thread, it may be */
		(void)fm_loop_step(engine.env.loop, 100 * FM_NS_PER_MS);
	return work.may_await;
}

/*
 * Goal: whatever is done in a store that may never answer is told to wait for it, whoever began the
 * job: a peer, or a user of this node; a large file of a tree, too. A caller's file is none of a
 * store.
 */
static void test_awaits_its_store(void)
{
	struct fm_store store = { .name = "s", .may_stand = true };
	struct fm_store_ref ref = { .store = &store };
	struct fm_job peers = { .engine = &engine, .store_ref = &ref, .peer_name = "n2" };
	struct fm_job ours = { .engine = &engine, .store_ref = &ref, .is_ours = true };
	struct fm_job large = { .engine = &engine, .parent = &peers };
	struct fm_job callers = { .engine = &engine, .is_ours = true };

	begin();
	CU_ASSERT_PTR_EQUAL(awaited(&peers), &store);
	CU_ASSERT_PTR_EQUAL(awaited(&ours), &store);
	CU_ASSERT_PTR_EQUAL(awaited(&large), &store);
	CU_ASSERT_PTR_NULL(awaited(&callers));
	large.state = FM_JOB_ENDED;	/* it is closed */
	CU_ASSERT_PTR_EQUAL(awaited(&large), &store);
	store.may_stand = false;
	CU_ASSERT_PTR_NULL(awaited(&peers));
	CU_ASSERT_PTR_NULL(awaited(&large));
	end();
}

/* ---- a tree ---- */

static void tree_close(struct fm_tree *t)
{
	(void)t;
}

static const struct fm_tree_ops tree_ops = { .close = tree_close };

/* Whether a call of the job's takes a thread of its tree's: the shared ones are this one. */
static bool is_on_trees(struct fm_job *j)
{
	(void)awaited(j);
	return !pthread_equal(ran_on, pthread_self());
}

/*
 * Goal: a large file that is over is closed by the threads of its tree while that goes on, which
 * keeps nobody else waiting, and by the shared ones when it has ended, since its own go with it.
 */
static void test_trees_close_their_own(void)
{
	struct fm_tree tree = { .ops = &tree_ops };
	const struct fm_tree_file_opts o = { .tree = &tree, .threads = 1 };
	struct fm_job parent = { .engine = &engine, .is_tree = true, .state = FM_JOB_COPYING,
				 .peer_name = "n2", .tree = { .is_listening = true } };
	struct fm_job large = { .engine = &engine, .parent = &parent, .state = FM_JOB_COPYING };

	begin();
	CU_ASSERT_EQUAL_FATAL(fm_tree_file_new(&o, &parent.file, NULL), 0);
	CU_ASSERT_TRUE(is_on_trees(&parent) && is_on_trees(&large));
	large.state = FM_JOB_ENDED;
	CU_ASSERT_TRUE(is_on_trees(&large));
	parent.state = FM_JOB_ENDED;
	CU_ASSERT_FALSE(is_on_trees(&large) || is_on_trees(&parent));
	parent.file->ops->close(parent.file);
	end();
}

static const struct fm_test tests[] = {
	{"what is done in a store that may never answer is told to wait for it",
	 test_awaits_its_store},
	{"a large file that is over is closed by its tree's threads", test_trees_close_their_own},
};
FM_TEST_MAIN("job_waits", tests)
