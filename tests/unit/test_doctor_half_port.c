/* SPDX-License-Identifier: MIT */
/* Functions of one cage that do not all carry something. links: fm_cli */
#include "tests/unit/doctor_scene.h"

/* A Spark with the first function of its cage in use. */
static struct fm_facts *half_spark(void)
{
	struct fm_facts *f = scene_spark("n1", false);

	scene_address(f, "enp1s0f0np0", "10.0.0.1", 30, "RoCE v2");
	return f;
}

static void check(struct fm_facts *f)
{
	scene_check(fm_check_half_port, &f, 1);
}

/*
 * What users measure as "RDMA and TCP are a draw". The mend has the second function's name, a
 * network of its own and the MTU.
 */
static void test_half_port(void)
{
	struct fm_facts *f = half_spark();

	check(f);
	CU_ASSERT_TRUE(scene_is_only("half-port", FM_WARNING,
				     "roceP2p1s0f0, interface enP2p1s0f0np0: no address",
				     "addresses: [ 10.0.128.1/30 ]"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].mend, "    enP2p1s0f0np0:"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].mend, "mtu: 9000"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].means, "126 Gb/s"));
	fm_facts_free(f);
}

/* The lines are of what manages the network of that node. */
static void test_managers(void)
{
	struct fm_facts *f = half_spark();

	fm_fact_number(&f->node.netplan, false);
	fm_fact_number(&f->node.network_manager, true);
	check(f);
	CU_ASSERT_TRUE(scene_is_only(
		"half-port", FM_WARNING, "no address",
		"nmcli connection add type ethernet con-name fmove-enP2p1s0f0np0 ifname "
		"enP2p1s0f0np0 ipv4.method manual "
		"ipv4.addresses 10.0.128.1/30 ipv6.method link-local 802-3-ethernet.mtu 9000"));
	fm_fact_number(&f->node.network_manager, false);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("half-port", FM_WARNING, "no address",
				     "ip address add 10.0.128.1/30 dev enP2p1s0f0np0"));
	fm_facts_free(f);
}

/*
 * A network that is taken is not proposed, not even if a route of another node's address is in it;
 * both ends come to the same one.
 */
static void test_network_is_free(void)
{
	struct fm_facts *f = half_spark(), *g = scene_spark("n2", false);
	struct fm_facts *nodes[2] = { f, g };

	scene_address(g, "enp1s0f0np0", "10.0.0.2", 30, "RoCE v2");
	scene_interface(f, "eno1", 1500);
	scene_address(f, "eno1", "10.0.128.77", 24, "");
	scene_check(fm_check_half_port, nodes, 2);
	CU_ASSERT_EQUAL_FATAL(scene_found.count, 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].mend, "10.0.64.1/30"));
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[1].mend, "10.0.64.2/30"));
	scene_free(nodes, 2);
}

/* fmove uses link-local addresses, others do not: a note, which changes no exit status. */
static void test_link_local(void)
{
	struct fm_facts *f = half_spark();

	scene_address(f, "enP2p1s0f0np0", "fe80::1", 64, "RoCE v2");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("half-port-for-others", FM_NOTE,
				     "only an IPv6 link-local address", "10.0.128.1/30"));
	fm_facts_free(f);
}

static void test_down(void)
{
	struct fm_facts *f = scene_spark("n1", false);

	scene_cable(f, 0, 0, 1);
	text(&f->ports[1].state, "DOWN");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("half-port-down", FM_WARNING,
				     "roceP2p1s0f0, interface enP2p1s0f0np0: DOWN",
				     "ip link set dev enP2p1s0f0np0 up"));
	fm_facts_free(f);
}

/* A cable is in, and neither function has an address. A cage without a cable is none. */
static void test_no_address(void)
{
	struct fm_facts *f = scene_spark("n1", false);

	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 2);
	CU_ASSERT_STRING_EQUAL(scene_found.at[0].id, "port-without-address");
	CU_ASSERT_PTR_NOT_NULL(strstr(scene_found.at[0].mend, "link-local: [ ipv6 ]"));
	fm_facts_free(f);
}

/* Addresses that were left out of anonymous facts are addresses. */
static void test_anonymous(void)
{
	struct fm_facts *f = half_spark();

	fm_facts_anonymize(f);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("half-port", FM_WARNING, "no address", "enP2p1s0f0np0"));
	fm_facts_free(f);
}

/*
 * A part of a bond has the bond's addresses; what cards of two ports have are no functions of one
 * port.
 */
static void test_not_half(void)
{
	struct fm_facts *f = half_spark();

	fm_fact_number(&f->interfaces[1].has_master, true);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);

	f = scene_connectx3("n1", 1);
	f->addresses_count--; /* its second port has a cable and no address: that is another finding
			       */
	check(f);
	CU_ASSERT_TRUE(scene_is_only("port-without-address", FM_WARNING, "enp3s0d1", "enp3s0d1"));
	f->addresses_count++;
	fm_facts_free(f);
}

/* NVIDIA's three-node example: both functions in one /24. */
static struct fm_facts *one_subnet(void)
{
	struct fm_facts *f = scene_spark("n1", false);

	scene_address(f, "enp1s0f0np0", "10.5.0.1", 24, "RoCE v2");
	scene_address(f, "enP2p1s0f0np0", "10.5.0.2", 24, "RoCE v2");
	return f;
}

static void test_one_subnet(void)
{
	struct fm_facts *f = one_subnet();

	check(f);
	CU_ASSERT_TRUE(scene_is_only("one-subnet", FM_WARNING, "arp_ignore is 0",
				     "sysctl -w net/ipv4/conf/enP2p1s0f0np0/arp_ignore=1"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(scene_found.at[0].mend, "ip rule add from 10.5.0.2 table 102"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(scene_found.at[0].mend,
		       "ip route add 10.5.0.0/24 dev enP2p1s0f0np0 src 10.5.0.2 table 102"));
	fm_facts_free(f);
}

/* With the policy that it needs it is none; each piece of it is missed. */
static void test_one_subnet_with_policy(void)
{
	struct fm_facts *f = one_subnet();

	fm_fact_number(&f->node.arp_ignore, 1);
	fm_fact_number(&f->node.arp_announce, 2);
	fm_fact_number(&f->node.rules, 2);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->node.rules, 1);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("one-subnet", FM_WARNING, "1 policy rules", "ip rule add"));
	fm_fact_number(&f->node.rules, 2);
	fm_fact_number(&f->node.rp_filter, 1);
	fm_fact_number(&f->interfaces[0].rp_filter, 0);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("one-subnet", FM_WARNING, "enp1s0f0np0: rp_filter is strict",
				     "rp_filter=2"));
	fm_fact_number(&f->node.rp_filter, 0);
	fm_fact_number(&f->node.arp_announce, 1);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("one-subnet", FM_WARNING, "arp_announce is below 2",
				     "arp_announce=2"));
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{ "one of two functions has no address: half the port", test_half_port },
	{ "the lines that mend it are of netplan, NetworkManager or ip", test_managers },
	{ "the network that is proposed is free, and the same at both ends", test_network_is_free },
	{ "a function with a link-local address alone is half the port for others",
	  test_link_local },
	{ "a function that is down while the other is up is half the port", test_down },
	{ "a port with a cable and no address is said", test_no_address },
	{ "anonymous facts are enough for it", test_anonymous },
	{ "a part of a bond and a port of its own are not half a port", test_not_half },
	{ "two functions in one subnet need a policy", test_one_subnet },
	{ "one subnet with its policy is no finding, and each piece of it is missed",
	  test_one_subnet_with_policy },
};
FM_TEST_MAIN("doctor_half_port", tests)
