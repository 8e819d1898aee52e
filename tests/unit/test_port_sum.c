/* SPDX-License-Identifier: MIT */
/* links: fm_node */
#include "tests/fm_test.h"

#include <stdio.h>
#include <string.h>

#include "mover/node/port_sum.h"

static struct fm_conn_info way(enum fm_kind kind, const char *port, const char *address)
{
	struct fm_conn_info info = {.kind = kind};

	(void)snprintf(info.local, sizeof(info.local), "%s", port);
	(void)snprintf(info.local_addr, sizeof(info.local_addr), "%s", address);
	return info;
}

/* Goal: connections of one kind through one port are one sum, whatever their addresses are; where
 * no port is known the address stands for it. */
static void test_by_port(void)
{
	struct fm_conn_info a = way(FM_KIND_RDMA, "mlx5_0", "10.0.0.1"),
			    b = way(FM_KIND_RDMA, "mlx5_0", "10.0.1.1"),
			    c = way(FM_KIND_TCP, "mlx5_0", "10.0.0.1"),
			    d = way(FM_KIND_TCP, "", "10.0.0.1");
	struct fm_port_sums sums = {.count = 0};

	CU_ASSERT_TRUE(fm_port_sums_add(&sums, &a, 5, 1));
	CU_ASSERT_TRUE(fm_port_sums_add(&sums, &b, 6, 0));
	CU_ASSERT_TRUE(fm_port_sums_add(&sums, &c, 7, 0));
	CU_ASSERT_TRUE(fm_port_sums_add(&sums, &d, 8, UINT64_MAX));
	CU_ASSERT_EQUAL_FATAL(sums.count, 3);
	CU_ASSERT_TRUE(sums.port[0].sent == 11 && sums.port[0].received == 1);
	CU_ASSERT_TRUE(sums.port[1].kind == FM_KIND_TCP && sums.port[1].sent == 7);
	CU_ASSERT_STRING_EQUAL(sums.port[2].port, "10.0.0.1");
	CU_ASSERT_EQUAL(sums.port[2].received, UINT64_MAX);
}

/* Goal: there is room for so many ports, and those that are there go on. */
static void test_full(void)
{
	struct fm_port_sums sums = {.count = 0};
	struct fm_conn_info info;
	char port[16];

	for (unsigned i = 0; i <= FM_PORT_SUMS_MAX; i++) {
		(void)snprintf(port, sizeof(port), "eth%u", i);
		info = way(FM_KIND_TCP, port, "10.0.0.1");
		CU_ASSERT_EQUAL(fm_port_sums_add(&sums, &info, 1, 1), i < FM_PORT_SUMS_MAX);
	}
	info = way(FM_KIND_TCP, "eth3", "10.0.0.1");
	CU_ASSERT_TRUE(fm_port_sums_add(&sums, &info, 1, 1));
	CU_ASSERT_EQUAL(sums.port[3].sent, 2);
}

static const struct fm_test tests[] = {
	{"by port", test_by_port},
	{"no more ports than there is room for", test_full},
};
FM_TEST_MAIN("port_sum", tests)
