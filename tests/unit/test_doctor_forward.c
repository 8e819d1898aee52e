/* SPDX-License-Identifier: MIT */
/* A node that drops what it forwards for two others. links: fm_cli */
#include "tests/unit/doctor_scene.h"

static struct fm_facts *nodes[SCENE_NODES_MAX];

static void check(void)
{
	scene_check(fm_check_forward, nodes, 4);
}

/* A ring of four: n1 reaches n3 through n2, and has no session with it. */
static void begin(void)
{
	struct fm_facts_route *r;
	struct fm_facts_session *s;

	scene_spark_ring(nodes, 4);
	r = fm_facts_add(nodes[0], nodes[0]->routes, &nodes[0]->routes_count);
	fm_fact_text(&r->destination, FM_FACT_ADDRESS, "10.0.1.0");
	fm_fact_number(&r->bits, 30);
	fm_fact_text(&r->gateway, FM_FACT_ADDRESS, "10.0.0.2");
	s = fm_facts_add(nodes[0], nodes[0]->sessions, &nodes[0]->sessions_count);
	text(&s->peer, "n3");
	fm_fact_number(&s->connected, false);
	fm_fact_number(&nodes[1]->node.forwards, true);
	text(&nodes[1]->node.forward_policy, "drop");
}

static void test_dropped(void)
{
	begin();
	check();
	CU_ASSERT_TRUE(scene_is_only("forward-dropped", FM_WARNING,
				     "n1 has a route to 10.0.1.0/30 by this node and no session "
				     "with n3",
				     "iptables -I FORWARD -d 10.0.1.0/30 -j ACCEPT"));
	CU_ASSERT_PTR_EQUAL(scene_found.at[0].node, nodes[1]);
	scene_free(nodes, 4);
}

/* A policy by itself, and one that is not known, are none. */
static void test_none(void)
{
	for (unsigned i = 0; i < 5; i++) {
		begin();
		if (i == 0)
			fm_fact_number(&nodes[0]->sessions[0].connected, true);
		else if (i == 1)
			fm_fact_number(&nodes[1]->node.forwards, false);
		else if (i == 2)
			text(&nodes[1]->node.forward_policy, "accept");
		else if (i == 3)
			fm_fact_unknown(&nodes[1]->node.forward_policy, "root alone");
		else
			fm_fact_drop(&nodes[0]->routes[nodes[0]->routes_count - 1].gateway);
		check();
		CU_ASSERT_EQUAL(scene_found.count, 0);
		scene_free(nodes, 4);
	}
}

static const struct fm_test tests[] = {
	{"what n2 drops keeps n1 from n3", test_dropped},
	{"a policy alone, another, one that is not known", test_none},
};
FM_TEST_MAIN("doctor_forward", tests)
