/* SPDX-License-Identifier: MIT */
/* RDMA ports: state, MTU, GIDs, PCIe, NUMA. links: fm_cli */
#include "tests/unit/doctor_scene.h"

static struct fm_facts *nodes[SCENE_NODES_MAX];

static struct fm_facts *spark(void)
{
	scene_spark_pair(nodes);
	fm_facts_free(nodes[1]);
	return nodes[0];
}

static void check(struct fm_facts *f)
{
	scene_check(fm_check_devices, &f, 1);
}

static void test_state(void)
{
	struct fm_facts *f = spark();

	text(&f->ports[1].state, "DOWN");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("port-down", FM_WARNING,
				     "roceP2p1s0f0, interface enP2p1s0f0np0: DOWN", "ip link set"));
	text(&f->ports[1].state, "INIT");
	text(&f->ports[1].link_layer, "InfiniBand");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("no-subnet-manager", FM_ERROR, "INIT", "opensm"));
	fm_facts_free(f);
}

/* Costs are those of the formula: 1024 of 1106 bytes against 4096 of 4178. */
static void test_mtu(void)
{
	struct fm_facts *f = spark();

	fm_fact_number(&f->interfaces[0].mtu, 1500);
	fm_fact_number(&f->ports[0].rdma_mtu, 1024);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("mtu-small", FM_WARNING,
				     "enp1s0f0np0: MTU 1500, so the RDMA MTU is 1024",
				     "mtu: 9000"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].means, "At most 185.2 of 200.0 Gb/s"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].means, "196.1"));
	fm_fact_number(&f->node.netplan, false);
	fm_fact_number(&f->node.network_manager, true);
	check(f);
	CU_ASSERT_TRUE(
		scene_is_only("mtu-small", FM_WARNING, "MTU 1500", "802-3-ethernet.mtu 9000"));
	fm_fact_number(&f->interfaces[0].mtu, 9000);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("rdma-mtu-behind", FM_WARNING,
				     "RDMA MTU 1024, its interface enp1s0f0np0 has MTU 9000",
				     "down && ip link"));
	fm_fact_number(&f->ports[0].rdma_mtu_max, 1024); /* it can do no more */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static void test_gid(void)
{
	struct fm_facts *f = spark();

	fm_fact_text(&f->gids[0].gid, FM_FACT_ADDRESS, "fe80::1");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("gid-missing", FM_ERROR,
				     "rocep1s0f0 port 1 has no GID for 10.0.0.1",
				     "ip link set dev enp1s0f0np0 down"));
	fm_fact_unknown(&f->gids[0].gid, "left out"); /* it may be that one */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_text(&f->gids[0].gid, FM_FACT_ADDRESS,
		     "0000:0000:0000:0000:0000:ffff:0a00:0001"); /* as sysfs writes it */
	text(&f->gids[0].type, "IB/RoCE v1");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("gid-v1-only", FM_WARNING,
				     "only a GID of RoCE v1 for 10.0.0.1", "0000:01:00.0"));
	fm_facts_free(f);
}

/* Four lanes for 200 Gb/s are a Spark's way, and two of them are enough. */
static void test_pcie(void)
{
	static const struct scene_port card = {
		"mlx5_0", "ens1np0", "0000:81:00.0", "p0", "mlx5_core", 1,   0, 200000,
		16000,	  8,	     32000,	     16,   9000,	4096
	};
	struct fm_facts *f = scene_node("n1");

	(void)scene_port(f, &card);
	scene_address(f, "ens1np0", "10.7.0.1", 30, "RoCE v2");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("pcie-narrow", FM_WARNING,
				     "PCIe 16.0 GT/s x8; the device can do 32.0 GT/s x16", "slot"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].means, "126 Gb/s, the port 200"));
	fm_fact_number(&f->ports[0].rate_mbps, 100000); /* narrower than it could be, and enough */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->ports[0].rate_mbps, 200000);
	fm_fact_number(&f->ports[0].pcie_lanes_max, 8); /* all that there is */
	fm_fact_number(&f->ports[0].pcie_mtps_max, 16000);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->ports[0].aer_nonfatal, 3);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("pcie-errors", FM_WARNING, "0 fatal and 3 other", "firmware"));
	fm_facts_free(f);
}

/*
 * A card for 16 lanes in a Spark's place: narrower than it could be, and with its sibling enough
 * for the cage.
 */
static void test_pcie_of_siblings(void)
{
	struct fm_facts *f = spark();

	for (unsigned i = 0; i < 2; i++)
		fm_fact_number(&f->ports[i].pcie_lanes_max, 16);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->ports[1].pcie_lanes, 2);
	check(f);
	CU_ASSERT_TRUE(scene_found.count == 2 && strcmp(scene_found.at[1].id, "pcie-narrow") == 0);
	fm_facts_free(f);
}

static void test_numa(void)
{
	struct fm_facts *f = spark();
	struct fm_facts_disk *d = fm_facts_add(f, f->disks, &f->disks_count);
	struct fm_facts_store *s = fm_facts_add(f, f->stores, &f->stores_count);

	fm_fact_number(&f->ports[0].numa, 0);
	fm_fact_text(&d->name, FM_FACT_NAME, "nvme0n1");
	fm_fact_number(&d->numa, 0);
	fm_fact_text(&s->disk, FM_FACT_NAME, "nvme0n1");
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&d->numa, 1);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("numa-far", FM_NOTE,
				     "rocep1s0f0 is at NUMA node 0, nvme0n1 with a store at node 1",
				     "slot"));
	fm_facts_free(f);
}

/* Goal: a bond of the kernel's over an RDMA port is told; a bridge, and the card's own, are not. */
static void test_lag(void)
{
	struct fm_facts *f = scene_spark("n1", false);
	struct fm_facts_interface *i = &f->interfaces[0];

	fm_fact_number(&i->has_master, true);
	fm_fact_text(&i->master, FM_FACT_NAME, "br0");
	fm_fact_unknown(&i->bond_mode, "no such file");
	scene_check(fm_check_devices, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_text(&i->master, FM_FACT_NAME, "bond0");
	text(&i->bond_mode, "802.3ad 4");
	scene_check(fm_check_devices, &f, 1);
	CU_ASSERT_TRUE(scene_is_only("lag-under-rdma", FM_WARNING,
				     "interface enp1s0f0np0: part of the bond bond0, mode 802.3ad",
				     "ip link set dev enp1s0f0np0 nomaster"));
	fm_fact_text(&f->ports[0].device, FM_FACT_NAME, "mlx5_bond_0");
	scene_check(fm_check_devices, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{ "a port with an address is down, or waits for a subnet manager", test_state },
	{ "a small MTU costs what the formula says; one that the device did not follow is told "
	  "apart",
	  test_mtu },
	{ "an address has no GID, or one of RoCE v1 only", test_gid },
	{ "a narrow PCIe link is a finding only where it is the limit and could be wider",
	  test_pcie },
	{ "the PCIe links of both functions of a cage count together", test_pcie_of_siblings },
	{ "a disk at another processor is a note", test_numa },
	{ "a bond over RDMA ports", test_lag },
};
FM_TEST_MAIN("doctor_devices", tests)
