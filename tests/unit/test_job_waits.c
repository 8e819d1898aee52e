/* SPDX-License-Identifier: MIT */
/* links: fm_services */
/* What a transfer's calls of the disk may wait for, and whose threads they take (worker.h). */
#include "tests/fm_test.h"

#include <string.h>

#include "mover/base/env.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "mover/services/transfer/job.h"
#include "mover/store/store.h"

static struct fm_engine engine;
static unsigned ran;

static void work_run(struct fm_work *work)
{
	(void)work;
	ran++;
}

static void work_done(struct fm_work *work)
{
	(void)work;
}

static void begin(void)
{
	const struct fm_loop_opts o = { .clock = &fm_clock_real, .is_simulated = true };

	ran = 0;
	memset(&engine, 0, sizeof(engine));
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&o, &engine.env.loop, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_worker_new(0, &engine.env.worker, NULL), 0);
}

static void spin(void)
{
	while (fm_loop_step(engine.env.loop, 0))
		;
}

static void end(void)
{
	spin();
	fm_worker_free(engine.env.worker);
	fm_loop_free(engine.env.loop);
}

/* What a call of the job's may wait for, as its worker is told. */
static const void *awaited(struct fm_job *j)
{
	struct fm_work work = { .run = work_run, .done = work_done };
	unsigned before = ran;

	fm_job_submit(j, &work);
	spin();
	CU_ASSERT_EQUAL(ran, before + 1);
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

static const struct fm_test tests[] = {
	{"what is done in a store that may never answer is told to wait for it",
	 test_awaits_its_store},
};
FM_TEST_MAIN("job_waits", tests)
