/* SPDX-License-Identifier: MIT */
/*
 * What of RDMA can be tested without a device: that its absence is said clearly, and what the two
 * ends tell each other. The rest is proven in the lab (tests/lab/rdma_transport.c).
 * links: fm_transport
 */
#include "mover/transport/rdma.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "mover/transport/rdma_hello.h"
#include "mover/transport/rdma_priv.h"
#include "tests/fm_test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct fm_domain {
	struct fm_rdma_domain *rdma;
};

struct fm_rdma_domain *fm_domain_rdma(struct fm_domain *domain)
{
	return domain->rdma;
}

/*
 * Goal:   on a machine without RDMA, or without the right to use it, the error is one line that
 *         says which.
 * Method: this machine, if it is one; else there is nothing to see here.
 */
static void test_no_device(void)
{
	struct fm_loop_opts opts = { 0 };
	struct fm_rdma *rdma = NULL;
	struct fm_loop *loop = NULL;
	struct fm_err err = { 0 };
	const char *why;

	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &loop, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_rdma_new(loop, 7471, 0, &rdma, &err), 0);
	why = fm_rdma_why_not(rdma);
	if (!why) {
		printf("this machine has a device ... ");
	} else {
		CU_ASSERT_PTR_NULL(strchr(why, '\n'));
		CU_ASSERT_TRUE(strstr(why, "RDMA") || strstr(why, "/dev/infiniband"));
		if (access("/sys/class/infiniband", F_OK) < 0)
			CU_ASSERT_STRING_EQUAL(why,
					       "no RDMA device (nothing in /sys/class/infiniband)");
	}
	fm_rdma_free(rdma);
	fm_loop_free(loop);
}

static const uint8_t golden_request[RDMA_REQUEST_LEN] = {
	'F', 'M', 'D', 'R', 1, 5, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
};

static const uint8_t golden_refusal[RDMA_ANSWER_LEN] = { 'F', 'M', 'D', 'R', 1, 0, 4, 0 };

static void test_golden(void)
{
	struct rdma_hello hello = { .mtu = IBV_MTU_4096 }, back;
	uint8_t request[RDMA_REQUEST_LEN], refusal[RDMA_ANSWER_LEN], padded[56] = { 0 };
	struct rdma_answer answer;

	for (unsigned i = 0; i < FM_TOKEN_LEN; i++)
		hello.token[i] = (uint8_t)i;
	fm_rdma_request_encode(request, &hello);
	CU_ASSERT_EQUAL(memcmp(request, golden_request, sizeof(request)), 0);
	memcpy(padded, request, sizeof(request));
	CU_ASSERT_EQUAL(fm_rdma_request_decode(padded, sizeof(padded), &back), RDMA_REFUSAL_NONE);
	CU_ASSERT_EQUAL(back.mtu, IBV_MTU_4096);
	CU_ASSERT_EQUAL(memcmp(back.token, hello.token, FM_TOKEN_LEN), 0);

	fm_rdma_answer_encode(refusal, 0, RDMA_REFUSAL_BUSY);
	CU_ASSERT_EQUAL(memcmp(refusal, golden_refusal, sizeof(refusal)), 0);
	CU_ASSERT_EQUAL(fm_rdma_answer_decode(refusal, sizeof(refusal), &answer), 0);
	CU_ASSERT_EQUAL(answer.reason, RDMA_REFUSAL_BUSY);
	CU_ASSERT_EQUAL(answer.version, RDMA_HELLO_VERSION);
}

/* Goal: nothing but a whole request of our version, with values in range, is understood. */
static void test_malformed_requests(void)
{
	static const struct {
		unsigned at;
		uint8_t value;
		enum rdma_refusal refusal;
	} cases[] = {
		{0, 'f', RDMA_REFUSAL_GARBAGE}, {3, 0, RDMA_REFUSAL_GARBAGE},
		{4, 0, RDMA_REFUSAL_VERSION},	{4, 2, RDMA_REFUSAL_VERSION},
		{5, 0, RDMA_REFUSAL_GARBAGE},	{5, 6, RDMA_REFUSAL_GARBAGE},
		{6, 1, RDMA_REFUSAL_GARBAGE},	{7, 128, RDMA_REFUSAL_GARBAGE},
	};
	uint8_t request[RDMA_REQUEST_LEN];
	struct rdma_hello hello;

	for (size_t len = 0; len < RDMA_REQUEST_LEN; len++)
		CU_ASSERT_EQUAL(fm_rdma_request_decode(golden_request, len, &hello),
				RDMA_REFUSAL_GARBAGE);
	for (size_t i = 0; i < COUNT(cases); i++) {
		memcpy(request, golden_request, sizeof(request));
		request[cases[i].at] = cases[i].value;
		CU_ASSERT_EQUAL(fm_rdma_request_decode(request, sizeof(request), &hello),
				cases[i].refusal);
	}
}

/* Goal: an acceptance is refused unless everything in it fits; a refusal may come from another
 * version. */
static void test_malformed_answers(void)
{
	uint8_t buf[RDMA_ANSWER_LEN];
	struct rdma_answer answer;

	fm_rdma_answer_encode(buf, IBV_MTU_1024, RDMA_REFUSAL_NONE);
	CU_ASSERT_EQUAL(fm_rdma_answer_decode(buf, sizeof(buf), &answer), 0);
	CU_ASSERT_EQUAL(answer.mtu, IBV_MTU_1024);
	for (size_t len = 0; len < sizeof(buf); len++)
		CU_ASSERT_EQUAL(fm_rdma_answer_decode(buf, len, &answer), -EPROTO);
	buf[5] = 0;
	CU_ASSERT_EQUAL(fm_rdma_answer_decode(buf, sizeof(buf), &answer), -EPROTO);
	buf[5] = 6;
	CU_ASSERT_EQUAL(fm_rdma_answer_decode(buf, sizeof(buf), &answer), -EPROTO);
	buf[5] = IBV_MTU_1024;
	buf[4] = 2;
	CU_ASSERT_EQUAL(fm_rdma_answer_decode(buf, sizeof(buf), &answer), -EPROTO);
	buf[6] = RDMA_REFUSAL_VERSION;
	CU_ASSERT_EQUAL(fm_rdma_answer_decode(buf, sizeof(buf), &answer), 0);
	CU_ASSERT_EQUAL(answer.version, 2);
	buf[0] = 0;
	CU_ASSERT_EQUAL(fm_rdma_answer_decode(buf, sizeof(buf), &answer), -EPROTO);
}

/*
 * Goal:   whoever has most of the connections that are being accepted gives up the oldest for
 *         anybody who has fewer, and for nobody who has as many.
 * Method: of three sessions, one has five, one two, one none. What is dialled, what has failed and
 *         what is not of a session yet does not count.
 */
static void test_crowd(void)
{
	static struct fm_rdma_domain crowd, few, none;
	struct fm_rdma_domain *const of[] = { &few, &crowd, &crowd, &few,  &crowd,
					      NULL, &crowd, &crowd, &none, &none };
	static struct rdma_conn c[COUNT(of)];
	static struct fm_rdma rdma;

	fm_list_init(&rdma.half);
	CU_ASSERT_PTR_NULL(fm_rdma_find_crowd(&rdma, &none));
	for (size_t i = 0; i < COUNT(of); i++) {
		c[i].domain = of[i];
		c[i].is_failed = i == 8;
		c[i].is_dialled = i == 9;
		fm_list_append(&rdma.half, &c[i].half);
	}
	CU_ASSERT_EQUAL(fm_rdma_accepting(&rdma, NULL), 7);
	CU_ASSERT_EQUAL(fm_rdma_accepting(&rdma, &crowd), 5);
	CU_ASSERT_EQUAL(fm_rdma_accepting(&rdma, &none), 0);
	CU_ASSERT_PTR_EQUAL(fm_rdma_find_crowd(&rdma, &none), &c[1]);
	CU_ASSERT_PTR_EQUAL(fm_rdma_find_crowd(&rdma, &few), &c[1]);
	CU_ASSERT_PTR_NULL(fm_rdma_find_crowd(&rdma, &crowd));
	c[1].is_failed = c[2].is_failed = c[4].is_failed = true;
	CU_ASSERT_PTR_EQUAL(fm_rdma_find_crowd(&rdma, &none), &c[0]);
	CU_ASSERT_PTR_NULL(fm_rdma_find_crowd(&rdma, &few));
}

static const struct fm_test tests[] = {
	{ "who has most of the places gives up the oldest for who has fewer", test_crowd },
	{ "without a device the error is one clear line", test_no_device },
	{ "request and refusal have the bytes they are documented to have", test_golden },
	{ "a malformed request is refused for its reason", test_malformed_requests },
	{ "a malformed answer is not taken for an acceptance", test_malformed_answers },
};
FM_TEST_MAIN("rdma", tests)
