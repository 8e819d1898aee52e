/* SPDX-License-Identifier: MIT */
/* links: fm_services */
/*
 * test_job_lines - on whose lines of the log the beginning and the end of a transfer count.
 */
#include "tests/fm_test.h"

#include "mover/services/transfer/job.c"

static struct fm_jobs jobs;
static struct fm_engine engine;
static struct fm_peer peer = { .name = "n2" };
static struct fm_session session = { .engine = &engine, .peer = &peer };
static struct fm_job job;

/* An engine with a peer, and a job of this node for user 1000. */
static void setup(void)
{
	static const struct fm_service *const services[] = { &fm_transfer_service, NULL };
	const struct fm_loop_opts opts = { 0 };
	struct fm_err err;

	memset(&engine, 0, sizeof(engine));
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &engine.env.loop, &err), 0);
	engine.env.services = services;
	engine.service_count = 1;
	engine.service_state[0] = &jobs;
	fm_list_init(&engine.peers);
	fm_list_append(&engine.peers, &peer.at);
	job = (struct fm_job){ .engine = &engine, .is_ours = true, .name = "aaaaaaaa",
			       .who = { .uid = 1000 }, .session = &session };
}

static void teardown(void)
{
	fm_loop_free(engine.env.loop);
}

static const struct fm_log_limit *of_user(uid_t uid)
{
	return fm_log_of_user(&jobs.lines, uid, fm_engine_now(&engine));
}

static void test_user(void)
{
	setup();
	CU_ASSERT_PTR_EQUAL(log_limit(&job), of_user(1000));
	CU_ASSERT_PTR_NOT_EQUAL(log_limit(&job), of_user(1001));
	teardown();
}

/* The peer says for whom it is: it may say anybody's number, or each time another one. */
static void test_asked_by_peer(void)
{
	setup();
	(void)strcpy(job.asked_by, "n2");
	CU_ASSERT_PTR_EQUAL(log_limit(&job), &peer.job_lines);
	(void)strcpy(job.asked_by, "n3");	/* which is a peer no more */
	CU_ASSERT_PTR_EQUAL(log_limit(&job), &engine.lines);
	teardown();
}

static void test_of_peer(void)
{
	setup();
	job.is_ours = false;
	CU_ASSERT_PTR_EQUAL(log_limit(&job), &peer.job_lines);
	job.name[0] = '\0';
	CU_ASSERT_PTR_EQUAL(log_limit(&job), &peer.lines);
	teardown();
}

static const struct fm_test tests[] = {
	{ "what a user of this node moves counts on him", test_user },
	{ "what a peer asks this node to move counts on that peer, whoever it is for",
	  test_asked_by_peer },
	{ "and so does what a peer moves, apart from what has no name", test_of_peer },
};

FM_TEST_MAIN("job_lines", tests)
