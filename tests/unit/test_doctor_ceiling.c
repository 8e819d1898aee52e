/* SPDX-License-Identifier: MIT */
/* What a port can carry, and which part is the least. links: fm_cli */
#include "client/doctor/ceiling.h"

#include <math.h>

#include "tests/unit/doctor_scene.h"

static struct fm_ceiling found[FM_CEILINGS_MAX];

static size_t ceilings(struct fm_facts *f)
{
	return fm_ceilings(&(const struct fm_facts_set){ .at = { f }, .count = 1 }, found);
}

static bool is_near(double mbps, double wanted)
{
	return fabs(mbps - wanted) < 0.01 * wanted;
}

/* 24.51 GB/s for 200G at 4096; a function of a Spark 126 Gb/s, 106 with packets of 128 bytes. */
static void test_spark(void)
{
	struct fm_facts *nodes[2];

	scene_spark_pair(nodes);
	CU_ASSERT_EQUAL_FATAL(ceilings(nodes[0]), 1);
	CU_ASSERT_TRUE(found[0].functions == 2 && found[0].functions_used == 2);
	CU_ASSERT_TRUE(is_near(found[0].port_mbps, 8 * 24510));
	CU_ASSERT_TRUE(is_near(found[0].pcie_mbps, 252061));
	CU_ASSERT_STRING_EQUAL(found[0].least, "port");
	nodes[0]->addresses_count = 1;
	CU_ASSERT_EQUAL_FATAL(ceilings(nodes[0]), 1);
	CU_ASSERT_TRUE(found[0].functions_used == 1 && is_near(found[0].least_mbps, 126030));
	CU_ASSERT_STRING_EQUAL(found[0].least, "PCIe");
	fm_fact_number(&nodes[0]->ports[0].mps, 128);
	CU_ASSERT_EQUAL_FATAL(ceilings(nodes[0]), 1);
	CU_ASSERT_TRUE(is_near(found[0].least_mbps, 106131));
	nodes[0]->addresses_count = 2;
	scene_free(nodes, 2);
}

/* Both functions say 200: one port. A card with two ports of one function: two. */
static void test_ports(void)
{
	struct fm_facts *nodes[3];

	scene_spark_ring(nodes, 3);
	CU_ASSERT_EQUAL(ceilings(nodes[0]), 2);
	scene_free(nodes, 3);
	nodes[0] = scene_connectx3("n1", 1);
	CU_ASSERT_EQUAL(ceilings(nodes[0]), 2);
	CU_ASSERT_TRUE(is_near(found[0].pcie_mbps, 63015));
	scene_free(nodes, 1);
}

/* The slowest disk with a store; a disk without one does not count. */
static void test_disk(void)
{
	struct fm_facts *f = scene_v100("n1", 1);

	for (unsigned i = 0; i < 2; i++) {
		struct fm_facts_disk *d = fm_facts_add(f, f->disks, &f->disks_count);

		fm_fact_text(&d->name, FM_FACT_NAME, i == 0 ? "nvme0n1" : "nvme1n1");
		fm_fact_number(&d->pcie_mtps, i == 0 ? 8000 : 2500);
		fm_fact_number(&d->pcie_lanes, 4);
	}
	fm_fact_text(&((struct fm_facts_store *)fm_facts_add(f, f->stores, &f->stores_count))->disk,
		     FM_FACT_NAME, "nvme0n1");
	CU_ASSERT_EQUAL_FATAL(ceilings(f), 1);
	CU_ASSERT_STRING_EQUAL(found[0].least, "disk");
	CU_ASSERT_TRUE(is_near(found[0].least_mbps, 31508));
	fm_fact_text(&((struct fm_facts_store *)fm_facts_add(f, f->stores, &f->stores_count))->disk,
		     FM_FACT_NAME, "nvme1n1");
	CU_ASSERT_EQUAL_FATAL(ceilings(f), 1);
	CU_ASSERT_TRUE(is_near(found[0].least_mbps, 8000)); /* 8b/10b */
	fm_facts_free(f);
}

/* Nothing stands in for what is unknown. */
static void test_unknown(void)
{
	struct fm_facts *f = scene_rxe("n1", 1);

	fm_fact_unknown(&f->ports[0].rdma_mtu, "no access");
	CU_ASSERT_EQUAL_FATAL(ceilings(f), 1);
	CU_ASSERT_PTR_NULL(found[0].least);
	CU_ASSERT_TRUE(found[0].port_mbps == 0 && found[0].pcie_mbps == 0 &&
		       found[0].disk_mbps == 0);
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{ "a Spark's port: the wire with both functions, PCIe with one", test_spark },
	{ "functions of one cage are one port, ports of one card are two", test_ports },
	{ "the slowest disk with a store counts", test_disk },
	{ "what is unknown is not counted", test_unknown },
};
FM_TEST_MAIN("doctor_ceiling", tests)
