/* SPDX-License-Identifier: MIT */
/* links: fm_services */
/* test_job_refused - that the rules of a store refuse a transfer, as both nodes know it. */
#include "mover/node/session.h"
#include "tests/fm_test.h"

static unsigned told;		/* the code that the other node was told */

static void note_code(struct fm_session *s, const struct fm_wire_msg *m)
{
	(void)s;
	told = m->abort.code;
}

#define fm_session_send note_code
#include "mover/services/transfer/job.c"

static struct fm_jobs jobs;
static struct fm_engine engine;
static struct fm_peer peer = { .name = "n2" };
static struct fm_session session = { .engine = &engine, .peer = &peer, .name = "n2" };
static struct fm_job job;

/* An engine with a job that is being opened. */
static void setup(bool is_ours)
{
	static const struct fm_service *const services[] = { &fm_transfer_service, NULL };
	const struct fm_loop_opts opts = { 0 };
	struct fm_err err;

	memset(&engine, 0, sizeof(engine));
	memset(&jobs, 0, sizeof(jobs));
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &engine.env.loop, &err), 0);
	engine.env.services = services;
	engine.service_count = 1;
	engine.service_state[0] = &jobs;
	fm_list_init(&engine.peers);
	fm_list_append(&engine.peers, &peer.at);
	fm_list_init(&jobs.list);
	/* the loop tells nobody, and a worker that has it keeps it from being freed */
	job = (struct fm_job){ .engine = &engine, .session = &session, .id = 7,
			       .is_ours = is_ours, .state = FM_JOB_OPENING,
			       .report_task.is_posted = true, .is_working = true };
	fm_list_init(&job.tree.subs);
	fm_list_append(&jobs.list, &job.at);
	told = 0;
}

static void teardown(void)
{
	fm_loop_free(engine.env.loop);
}

static void test_ours(void)
{
	struct fm_wire_msg m = { .type = FM_WIRE_ABORT };
	struct fm_err lost;

	m.abort = (struct fm_wire_abort){ .xfer = 7, .code = EACCES, .text = fm_wire_str("no") };
	setup(true);
	on_abort(&session, &m);
	CU_ASSERT_EQUAL(job.result.code, -EACCES);
	CU_ASSERT_TRUE(job.result.err.is_rule);
	teardown();

	setup(true);
	(void)fm_err_set(&lost, -EACCES, "n2: this node's key is not known there");
	transfer_session_lost(&session, &lost);
	CU_ASSERT_EQUAL(job.result.code, -EACCES);
	CU_ASSERT_FALSE(job.result.err.is_rule);
	teardown();
}

static void test_peers(void)
{
	struct fm_err err;

	setup(false);
	(void)fm_err_rule(&err, "peer n2 may not read here");
	fm_job_fail(&job, &err);
	CU_ASSERT_EQUAL(told, EACCES);
	teardown();
	fm_job_refuse(&session, 7, &err);
	CU_ASSERT_EQUAL(told, EACCES);

	setup(false);
	(void)fm_err_sys(&err, -EACCES, "open \"models--a--b\"");
	fm_job_fail(&job, &err);
	CU_ASSERT_EQUAL(told, EPERM);
	teardown();
	fm_job_refuse(&session, 7, &err);
	CU_ASSERT_EQUAL(told, EPERM);
}

static const struct fm_test tests[] = {
	{ "a node that says no is told from one that does not talk", test_ours },
	{ "that its rules refuse is told of a store's rules alone", test_peers },
};

FM_TEST_MAIN("job_refused", tests)
