/* SPDX-License-Identifier: MIT */
/* Addresses of RDMA ports. links: fm_cli */
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
	scene_check(fm_check_addresses, &f, 1);
}

/* NetworkManager marks what it added; what it manages and did not add, it may take. */
static void test_network_manager(void)
{
	struct fm_facts *f = spark();

	fm_fact_number(&f->node.netplan, false);
	fm_fact_number(&f->node.network_manager, true);
	for (unsigned i = 0; i < 2; i++) {
		fm_fact_number(&f->interfaces[i].nm_managed, true);
		fm_fact_number(&f->addresses[i].no_prefix_route, i == 0);
	}
	check(f);
	CU_ASSERT_TRUE(scene_is_only("address-may-go", FM_WARNING, "10.0.128.1/30 at enP2p1s0f0np0",
				     "ipv4.addresses 10.0.128.1/30"));
	fm_fact_text(&f->addresses[1].address, FM_FACT_ADDRESS, "fd00::7");
	fm_fact_number(&f->addresses[1].bits, 64);
	fm_fact_text(&f->routes[1].destination, FM_FACT_ADDRESS, "fd00::");
	fm_fact_number(&f->routes[1].bits, 64);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("address-may-go", FM_WARNING, "fd00::7/64 at enP2p1s0f0np0",
				     "ipv4.method disabled ipv6.method manual "
				     "ipv6.addresses fd00::7/64"));
	fm_fact_number(&f->interfaces[1].nm_managed, false);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

/* A default route by that interface leads to no cable's network. */
static void test_route(void)
{
	struct fm_facts *f = spark();

	fm_fact_text(&f->routes[1].destination, FM_FACT_ADDRESS, "0.0.0.0");
	fm_fact_number(&f->routes[1].bits, 0);
	check(f);
	CU_ASSERT_TRUE(
		scene_is_only("address-without-route", FM_WARNING, "10.0.128.1/30 at enP2p1s0f0np0",
			      "ip route add 10.0.128.0/30 dev enP2p1s0f0np0 src 10.0.128.1"));
	f->routes_count = FM_FACTS_ROUTES_MAX; /* some may have been left out */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	f->routes_count = 2;
	fm_fact_number(&f->addresses[1].bits, 32); /* has no network */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static void test_duplicate(void)
{
	struct fm_facts *f = spark();

	fm_fact_number(&f->addresses[0].duplicate, true);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("address-duplicate", FM_ERROR,
				     "10.0.0.1 at enp1s0f0np0: the kernel found it",
				     "10.0.0.1/30"));
	fm_fact_number(&f->addresses[0].duplicate, false);
	scene_interface(f, "eno1", 1500);
	scene_address(f, "eno1", "10.0.128.1", 30, "");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("address-duplicate", FM_ERROR,
				     "10.0.128.1 is at enP2p1s0f0np0 and at eno1", "dev eno1"));
	fm_facts_free(f);
}

static void rail(struct fm_facts *f, const char *remote)
{
	struct fm_facts_rail *r = fm_facts_add(f, f->rails, &f->rails_count);

	fm_fact_text(&r->remote, FM_FACT_ADDRESS, remote);
}

static void route(struct fm_facts *f, const char *destination, unsigned bits, const char *interface,
		  unsigned table)
{
	struct fm_facts_route *r = fm_facts_add(f, f->routes, &f->routes_count);

	fm_fact_text(&r->destination, FM_FACT_ADDRESS, destination);
	fm_fact_number(&r->bits, bits);
	fm_fact_text(&r->interface, FM_FACT_NAME, interface);
	fm_fact_number(&r->table, table);
	fm_fact_number(&r->metric, 0);
}

/* An overlay that has a longer prefix takes what is for the cable. */
static void test_leaves_elsewhere(void)
{
	struct fm_facts *f = spark();

	rail(f, "10.0.0.2");
	rail(f, "192.168.7.7"); /* of the LAN */
	rail(f, "fe80::2");
	route(f, "0.0.0.0", 0, "eno1", 254);
	route(f, "10.0.0.0", 8, "tailscale0", 254);
	route(f, "10.0.0.2", 32, "tailscale0", 52); /* of a table that a rule may never lead to */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	route(f, "10.0.0.2", 32, "tailscale0", 254);
	check(f);
	CU_ASSERT_TRUE(scene_is_only(
		"leaves-elsewhere", FM_WARNING,
		"10.0.0.2 is in the network of enp1s0f0np0, but a route to 10.0.0.2/32",
		"ip route add 10.0.0.2/32 dev enp1s0f0np0"));
	fm_facts_free(f);
}

/* Goal: only what is known not to arrive is a finding, with a line that shows it. */
static void test_black_hole(void)
{
	struct fm_facts *f = spark();
	struct fm_facts_rail *r;

	rail(f, "10.0.0.2");
	r = &f->rails[f->rails_count - 1];
	text(&r->peer, "n2");
	fm_fact_text(&r->local, FM_FACT_ADDRESS, "10.0.0.1");
	fm_fact_number(&r->packet_bytes, 9000);
	fm_fact_unknown(&r->packet_passes, "no answer");
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&r->packet_passes, true);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&r->packet_passes, false);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("mtu-black-hole", FM_ERROR,
				     "From 10.0.0.1 to 10.0.0.2 of n2 a packet of 9000 bytes",
				     "ping -M do -s 8972 10.0.0.2"));
	fm_fact_text(&r->remote, FM_FACT_ADDRESS, "fd00::2");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("mtu-black-hole", FM_ERROR, "", "-s 8952 fd00::2"));
	fm_fact_number(&r->packet_bytes, 3); /* of a file that lies */
	check(f);
	CU_ASSERT_TRUE(scene_is_only("mtu-black-hole", FM_ERROR, "", "# the same MTU"));
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{ "NetworkManager may take an address that it did not add", test_network_manager },
	{ "an address has no route to its network", test_route },
	{ "an address is there twice", test_duplicate },
	{ "what is for a cable leaves by another interface", test_leaves_elsewhere },
	{ "what is large does not arrive", test_black_hole },
};
FM_TEST_MAIN("doctor_addresses", tests)
