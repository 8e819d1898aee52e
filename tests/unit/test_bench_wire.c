/* SPDX-License-Identifier: MIT */
/* What a transfer must have been to count. links: fm_cli */
#include "client/bench/wire.h"

#include <errno.h>

#include "mover/base/err.h"
#include "tests/fm_test.h"

/* Goal: what another transport carried is no number of this one, however small it is. */
static void test_carried(void)
{
	const uint64_t sizes[] = {FM_WIRE_SMALL, 1u << 20};
	struct fm_err err = {0};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t n = sizes[i];
		const struct fmove_result rdma = {.bytes = n, .rdma_bytes = n, .transport = "rdma"};
		const struct fmove_result tcp = {
			.bytes = n, .tcp_bytes = n, .transport = "tcp", .why = "no device"};
		const struct fmove_result mixed = {.bytes = n, .rdma_bytes = n - 1, .tcp_bytes = 1};

		CU_ASSERT_EQUAL(fm_wire_check(&rdma, FMOVE_RDMA, n, &err), 0);
		CU_ASSERT_EQUAL(fm_wire_check(&tcp, FMOVE_TCP, n, &err), 0);
		CU_ASSERT_EQUAL(fm_wire_check(&mixed, FMOVE_AUTO, n, &err), 0);
		CU_ASSERT_EQUAL(fm_wire_check(&rdma, FMOVE_TCP, n, &err), -EPROTONOSUPPORT);
		CU_ASSERT_EQUAL(fm_wire_check(&mixed, FMOVE_RDMA, n, &err), -EPROTONOSUPPORT);
		CU_ASSERT_EQUAL(fm_wire_check(&mixed, FMOVE_TCP, n, &err), -EPROTONOSUPPORT);
		CU_ASSERT_EQUAL(fm_wire_check(&tcp, FMOVE_RDMA, n, &err), -EPROTONOSUPPORT);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "by tcp: no device"));
	}
}

/* Goal: a peer that gives less, or more, than it was asked for makes no number. */
static void test_length(void)
{
	const struct fmove_result r = {.bytes = 1, .tcp_bytes = 1};
	struct fm_err err = {0};

	CU_ASSERT_EQUAL(fm_wire_check(&r, FMOVE_TCP, 1u << 20, &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1 bytes, not 1048576"));
	CU_ASSERT_EQUAL(fm_wire_check(&r, FMOVE_AUTO, 0, &err), -EPROTO);
	CU_ASSERT_EQUAL(fm_wire_check(&r, FMOVE_AUTO, 1, &err), 0);
}

/* Goal: no transfer may hang for ever, and a slow one of a long repeat has its time. */
static void test_limit(void)
{
	CU_ASSERT_TRUE(fm_wire_limit_ms(0) >= 1000);
	CU_ASSERT_TRUE(fm_wire_limit_ms(10) >= 4 * 10000);
	CU_ASSERT_TRUE(fm_wire_limit_ms(10) < 600000);
}

static const struct fm_test tests[] = {
	{"what another transport carried does not count", test_carried},
	{"a transfer has an end", test_limit},
	{"so many bytes as were asked for", test_length},
};
FM_TEST_MAIN("bench_wire", tests)
