/* SPDX-License-Identifier: MIT */
/* Both ends of a cable. links: fm_cli */
#include "tests/unit/doctor_scene.h"

static struct fm_facts *nodes[SCENE_NODES_MAX];

static void check(unsigned count)
{
	scene_check(fm_check_pairs, nodes, count);
}

/* The finding is at the end that has less. */
static void test_mtu(void)
{
	scene_spark_pair(nodes);
	fm_fact_number(&nodes[1]->interfaces[1].mtu, 1500);
	check(2);
	CU_ASSERT_TRUE(scene_is_only(
		"mtu-differs", FM_ERROR,
		"MTU 9000 at enP2p1s0f0np0 of n1, MTU 1500 at enP2p1s0f0np0 of n2", "mtu: 9000"));
	CU_ASSERT_PTR_EQUAL(scene_found.at[0].node, nodes[1]);
	check(1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	scene_free(nodes, 2);
}

static void test_twice(void)
{
	scene_spark_pair(nodes);
	fm_fact_text(&nodes[1]->addresses[0].address, FM_FACT_ADDRESS, "10.0.0.1");
	check(2);
	CU_ASSERT_PTR_NOT_NULL(scene_finding("address-twice"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].read,
				      "10.0.0.1 is at enp1s0f0np0 of n1 and at enp1s0f0np0 of n2"));
	scene_free(nodes, 2);

	/* Link-local addresses and those of bridges are there at every node. */
	scene_spark_pair(nodes);
	for (unsigned i = 0; i < 2; i++) {
		scene_address(nodes[i], "enp1s0f0np0", "fe80::1", 64, "RoCE v2");
		(void)scene_interface(nodes[i], "docker0", 1500);
		scene_address(nodes[i], "docker0", "172.17.0.1", 16, "");
	}
	check(2);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	scene_free(nodes, 2);
}

static void test_prefix(void)
{
	scene_spark_pair(nodes);
	fm_fact_number(&nodes[1]->addresses[0].bits, 24);
	check(2);
	CU_ASSERT_PTR_NOT_NULL(scene_finding("prefix-differs"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(scene_found.at[0].read,
		       "10.0.0.1/30 at enp1s0f0np0 of n1, 10.0.0.2/24 at enp1s0f0np0 of n2"));
	scene_free(nodes, 2);
}

/* RoCE v1 is right between two ConnectX-3, and does not meet what speaks v2. */
static void test_roce(void)
{
	nodes[0] = scene_connectx3("n1", 1);
	nodes[1] = scene_v100("n2", 2);
	scene_address(nodes[1], "ens1f0np0", "10.3.0.2", 24, "RoCE v2");
	check(2);
	CU_ASSERT_TRUE(scene_is_only("roce-version", FM_ERROR,
				     "mlx4_0 of n1 speaks RoCE v1 only; mlx5_0 of n2",
				     "cma_roce_mode -d mlx5_0 -p 1 -m 1"));
	CU_ASSERT_PTR_EQUAL(scene_found.at[0].node, nodes[1]);
	text(&nodes[1]->ports[0].roce_mode, "IB/RoCE v1");
	check(2);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	scene_free(nodes, 2);
}

/*
 * Complaint of many: the address of the second function was given at one end only. The other end
 * finds its own half alone.
 */
static void test_half_link(void)
{
	scene_spark_pair(nodes);
	fm_fact_text(&nodes[1]->addresses[1].address, FM_FACT_ADDRESS, "10.77.0.2");
	check(2);
	CU_ASSERT_EQUAL(scene_found.count, 2);
	CU_ASSERT_PTR_NOT_NULL_FATAL(scene_finding("half-link"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(scene_found.at[0].read,
		       "roceP2p1s0f0 of n1 has 10.0.128.1/30, and no other node has"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(scene_found.at[0].read,
		       "rocep1s0f0, the other function of the same port, reaches n2"));
	scene_free(nodes, 2);
}

/*
 * A triangle and a ring of which one node's facts are missing: cables that lead to it are no
 * finding.
 */
static void test_missing_node(void)
{
	for (unsigned count = 3; count <= 4; count++) {
		scene_spark_ring(nodes, count);
		check(count - 1);
		CU_ASSERT_PTR_NULL(scene_finding(""));
		CU_ASSERT_EQUAL(scene_found.count, 0);
		scene_free(nodes, count);
	}
}

static const struct fm_test tests[] = {
	{ "the MTU differs at the two ends", test_mtu },
	{ "an address is at two nodes; one that every node has is none", test_twice },
	{ "the prefix differs at the two ends", test_prefix },
	{ "RoCE v1 meets v2", test_roce },
	{ "the second function leads nowhere, the first to a node", test_half_link },
	{ "cables to a node whose facts are missing are no finding", test_missing_node },
};
FM_TEST_MAIN("doctor_pairs", tests)
