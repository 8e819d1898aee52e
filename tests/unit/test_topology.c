/* SPDX-License-Identifier: MIT */
/*
 * Which port reaches which, from facts; drawings of documents written by hand. links: fm_cli
 *
 * The documents are tests/fuzz/corpus/topology/NAME.json, what is drawn of them is
 * tests/unit/topology/NAME.{txt,dot,nccl}. After a change that is meant, FM_WRITE_GOLDEN=1 writes
 * these anew; look at them.
 */
#include "client/topology/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "tests/unit/doctor_scene.h"

#define DOCUMENTS FM_SOURCE_DIR "/tests/fuzz/corpus/topology/"
#define GOLDEN FM_SOURCE_DIR "/tests/unit/topology/"

static char first[1u << 20], second[1u << 20];

static struct fm_topology *load(const char *name)
{
	struct fm_topology *t = NULL;
	struct fm_err err = { 0 };
	char path[512];

	(void)snprintf(path, sizeof(path), DOCUMENTS "%s.json", name);
	CU_ASSERT_EQUAL(fm_topology_load(path, &t, &err), 0);
	if (!t)
		printf("%s\n", err.text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t);
	return t;
}

static struct fm_topology *make(struct fm_facts *const nodes[], unsigned count)
{
	struct fm_facts_set set = { .count = count };
	struct fm_topology *t = fm_topology_new();

	CU_ASSERT_PTR_NOT_NULL_FATAL(t);
	for (unsigned i = 0; i < count; i++)
		set.at[i] = nodes[i];
	fm_topology_make(&set, t);
	return t;
}

/* ---- drawings ---- */

static void compare(const char *name, const char *suffix,
		    void (*draw)(const struct fm_topology *t, FILE *out))
{
	struct fm_topology *t = load(name);
	char path[512], *drawn = NULL;
	size_t len = 0, had = 0;
	FILE *out = open_memstream(&drawn, &len), *file;

	CU_ASSERT_PTR_NOT_NULL_FATAL(out);
	draw(t, out);
	(void)fclose(out);
	(void)snprintf(path, sizeof(path), GOLDEN "%s.%s", name, suffix);
	file = fopen(path, getenv("FM_WRITE_GOLDEN") ? "w" : "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(file);
	if (getenv("FM_WRITE_GOLDEN"))
		CU_ASSERT_EQUAL_FATAL(fwrite(drawn, 1, len, file), len)
	else
		had = fread(first, 1, sizeof(first) - 1, file);
	(void)fclose(file);
	if (!getenv("FM_WRITE_GOLDEN")) {
		bool is_same = had == len && memcmp(first, drawn, len) == 0;

		CU_ASSERT_TRUE(is_same);
		if (!is_same)
			printf("%s is not what is drawn:\n%s", path, drawn);
	}
	free(drawn);
	free(t);
}

static void test_golden(void)
{
	static const char *const names[] = {"pair",   "triangle", "ring",
					    "switch", "mixture",  "alone"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		compare(names[i], "txt", fm_topology_draw);
		compare(names[i], "dot", fm_topology_dot);
		compare(names[i], "nccl", fm_topology_nccl);
	}
}

/* ---- the document ---- */

static void test_round_trip(void)
{
	static const char *const names[] = { "pair", "ring", "switch", "mixture" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct fm_topology *t = load(names[i]), *again = NULL;
		struct fm_err err = { 0 };
		int len = fm_topology_write(t, first, sizeof(first));

		CU_ASSERT_TRUE_FATAL(len > 0);
		CU_ASSERT_EQUAL_FATAL(fm_topology_parse(first, (size_t)len, &again, &err), 0);
		CU_ASSERT_TRUE(fm_topology_write(again, second, sizeof(second)) > 0);
		CU_ASSERT_STRING_EQUAL(first, second);
		free(again);
		free(t);
	}
}

#define HEAD "{\"fmove_topology\":1,\"node\":\"a\",\"nodes\":[{\"name\":\"a\"}]"

static void test_refused(void)
{
	static const struct {
		const char *text, *why;
		int code;
	} bad[] = {
		{"", "not a JSON", -EINVAL},
		{"{}", "not a topology", -EINVAL},
		{"{\"fmove_topology\":2}", "this fmove knows 1", -EOPNOTSUPP},
		{"{\"fmove_topology\":1,\"nodes\":[]}", "nodes: has none", -EINVAL},
		{"{\"fmove_topology\":1,\"nodes\":{}}", "nodes: not an array", -EINVAL},
		{"{\"fmove_topology\":1,\"node\":\"b\",\"nodes\":[{\"name\":\"a\"}]}",
		 "node: names none of the nodes", -EINVAL},
		{"{\"fmove_topology\":1,\"nodes\":[{\"name\":\"a\"},{\"name\":\"a\"}]}",
		 "one name twice", -EINVAL},
		{HEAD ",\"ports\":[{\"node\":\"b\",\"name\":\"p\"}]}", "node: names none", -EINVAL},
		{HEAD ",\"ports\":[{\"node\":\"a\",\"name\":7}]}", "name: not a text", -EINVAL},
		{HEAD ",\"ports\":[{\"node\":\"a\",\"name\":\"p\",\"rate_mbps\":-1}]}",
		 "rate_mbps: not a number", -EINVAL},
		{HEAD ",\"ports\":[{\"node\":\"a\",\"name\":\"p\",\"functions\":[{\"device\":"
		      "\"x;reboot\"}]}]}",
		 "device: not a name", -EINVAL},
		{HEAD ",\"links\":[{\"from\":{\"node\":\"a\",\"port\":\"p\"}}]}",
		 "from: names none of the ports", -EINVAL},
		{HEAD ",\"left_out\":true}", "left_out: not a number", -EINVAL},
	};
	struct fm_topology *t;
	struct fm_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fm_err_clear(&err);
		CU_ASSERT_EQUAL(fm_topology_parse(bad[i].text, strlen(bad[i].text), &t, &err),
				bad[i].code);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, bad[i].why));
		if (!strstr(err.text, bad[i].why))
			printf("%s: %s\n", bad[i].text, err.text);
	}
	fm_err_clear(&err);
	CU_ASSERT_EQUAL_FATAL(fm_topology_parse(HEAD "}", strlen(HEAD) + 1, &t, &err), 0);
	free(t);
}

/* ---- from facts ---- */

static void rail(struct fm_facts *f, const char *peer, const char *kind, const char *local,
		 const char *remote, bool is_up)
{
	struct fm_facts_rail *r = fm_facts_add(f, f->rails, &f->rails_count);

	text(&r->peer, peer);
	text(&r->kind, kind);
	fm_fact_text(&r->local, FM_FACT_ADDRESS, local);
	fm_fact_text(&r->remote, FM_FACT_ADDRESS, remote);
	fm_fact_number(&r->up, is_up);
}

static void session(struct fm_facts *f, const char *peer, const char *local, const char *remote,
		    unsigned us)
{
	struct fm_facts_session *s = fm_facts_add(f, f->sessions, &f->sessions_count);

	text(&s->peer, peer);
	fm_fact_number(&s->connected, true);
	fm_fact_text(&s->local, FM_FACT_ADDRESS, local);
	fm_fact_text(&s->remote, FM_FACT_ADDRESS, remote);
	fm_fact_number(&s->round_trip_us, us);
}

static const struct fm_topology_port *port(const struct fm_topology *t, unsigned i)
{
	return &t->ports[i];
}

/* Two functions of a cage are one port, and what both ends say of a rail is one rail. */
static void test_pair(void)
{
	struct fm_facts *nodes[2];
	struct fm_topology *t;
	const struct fm_topology_port *p;

	scene_spark_pair(nodes);
	rail(nodes[0], "n2", "rdma", "10.0.0.1", "10.0.0.2", true);
	rail(nodes[0], "n2", "rdma", "10.0.128.1", "10.0.128.2", true);
	rail(nodes[1], "n1", "rdma", "10.0.0.2", "10.0.0.1", true);
	rail(nodes[1], "n1", "rdma", "10.0.128.2", "10.0.128.1", false);
	rail(nodes[1], "n1", "tcp", "10.0.0.2", "10.0.0.1", true);
	session(nodes[0], "n2", "10.0.0.1", "10.0.0.2", 70);
	session(nodes[1], "n1", "10.0.0.2", "10.0.0.1", 60);
	t = make(nodes, 2);
	CU_ASSERT_TRUE(t->node_count == 2 && t->self == 0 && !t->nodes[0].why[0] &&
		       !t->nodes[1].why[0]);
	CU_ASSERT_EQUAL_FATAL(t->link_count, 1);
	CU_ASSERT_TRUE(t->links[0].rail_count == 3 && fm_link_is_up(&t->links[0]));
	CU_ASSERT_TRUE(t->links[0].rails[1].is_up);
	CU_ASSERT_TRUE(t->links[0].round_trip_us == 60 && !t->links[0].is_relayed);
	p = port(t, t->links[0].from);
	CU_ASSERT_STRING_EQUAL(p->name, "p0");
	CU_ASSERT_TRUE(p->rate_mbps == 200000 && p->function_count == 2 && fm_port_mtu(p) == 9000);
	CU_ASSERT_STRING_EQUAL(p->functions[1].device, "roceP2p1s0f0");
	CU_ASSERT_STRING_EQUAL(p->functions[1].address, "10.0.128.1");
	CU_ASSERT_EQUAL(p->functions[1].gid_index, 2);
	CU_ASSERT_STRING_EQUAL(port(t, t->links[0].to)->name, "p0");
	CU_ASSERT_EQUAL(port(t, t->links[0].to)->node, 1);
	free(t);
	scene_free(nodes, 2);
}

/* The third side of a triangle is known by the peers alone. */
static void test_triangle(void)
{
	unsigned segment[FM_TOPOLOGY_PORTS_MAX];
	struct fm_facts *nodes[3];
	struct fm_topology *t;

	scene_spark_ring(nodes, 3);
	rail(nodes[0], "n2", "rdma", "10.0.0.1", "10.0.0.2", true);
	rail(nodes[0], "n3", "rdma", "10.0.2.2", "10.0.2.1", true);
	rail(nodes[1], "n3", "rdma", "10.0.1.1", "10.0.1.2", true);
	t = make(nodes, 3);
	CU_ASSERT_TRUE(t->link_count == 3 && t->port_count == 6);
	fm_topology_segments(t, segment);
	for (unsigned i = 0; i < t->port_count; i++)
		CU_ASSERT_EQUAL(fm_segment_size(t, segment, segment[i]), 2);
	free(t);
	/* Of this node alone: the peers are there, their ports are called as their addresses. */
	t = make(nodes, 1);
	CU_ASSERT_TRUE(t->link_count == 2 && t->node_count == 3);
	CU_ASSERT_STRING_EQUAL(port(t, t->links[0].to)->name, "10.0.0.2");
	CU_ASSERT_STRING_EQUAL(t->nodes[1].why, "its facts are not known");
	CU_ASSERT_EQUAL(t->apart_count, 0);
	fm_topology_miss(t, "n2", "is not connected");
	CU_ASSERT_STRING_EQUAL(t->nodes[1].why, "is not connected");
	fm_topology_miss(t, "n9", "is no peer");
	CU_ASSERT_EQUAL(t->node_count, 4);
	free(t);
	/* A peer that is not connected is there, and apart. */
	session(nodes[2], "n4", "10.0.0.1", "10.0.0.9", 1);
	fm_fact_drop(&nodes[2]->sessions[0].local);
	fm_fact_number(&nodes[2]->sessions[0].connected, false);
	text(&nodes[2]->sessions[0].error, "no route");
	t = make(nodes, 3);
	CU_ASSERT_TRUE_FATAL(t->node_count == 4 && t->apart_count == 1);
	CU_ASSERT_TRUE(t->apart[0].node == 2 && t->apart[0].peer == 3);
	CU_ASSERT_STRING_EQUAL(t->apart[0].why, "no route");
	free(t);
	scene_free(nodes, 3);
}

/* The far corner of a ring of four is reached through whoever has the next hop. */
static void test_relay(void)
{
	struct fm_facts *nodes[4];
	struct fm_facts_route *r;
	struct fm_topology *t;

	scene_spark_ring(nodes, 4);
	r = fm_facts_add(nodes[0], nodes[0]->routes, &nodes[0]->routes_count);
	fm_fact_text(&r->destination, FM_FACT_ADDRESS, "10.0.1.0");
	fm_fact_number(&r->bits, 30);
	fm_fact_text(&r->interface, FM_FACT_NAME, "enp1s0f0np0");
	fm_fact_number(&r->table, 254);
	fm_fact_text(&r->gateway, FM_FACT_ADDRESS, "10.0.0.2");
	rail(nodes[0], "n2", "rdma", "10.0.0.1", "10.0.0.2", true);
	rail(nodes[0], "n3", "tcp", "10.0.0.1", "10.0.1.2", true);
	rail(nodes[2], "n1", "tcp", "10.0.1.2", "10.0.0.1", true);
	t = make(nodes, 4);
	CU_ASSERT_EQUAL_FATAL(t->link_count, 2);
	CU_ASSERT_TRUE(!t->links[0].is_relayed && t->links[1].is_relayed);
	CU_ASSERT_STRING_EQUAL(t->links[1].via, "n2");
	free(t);
	scene_free(nodes, 4);
}

/* A switch: each port reaches several. A port without RDMA is one, too. Storage leaves by its
 * route. */
static void test_switch(void)
{
	unsigned segment[FM_TOPOLOGY_PORTS_MAX];
	struct fm_facts_controller *c;
	struct fm_facts *nodes[3];
	struct fm_topology *t;

	for (unsigned i = 0; i < 3; i++) {
		static const char *const names[] = { "n1", "n2", "n3" };

		nodes[i] = scene_v100(names[i], i + 1);
	}
	rail(nodes[0], "n2", "rdma", "10.4.0.1", "10.4.0.2", true);
	rail(nodes[0], "n3", "rdma", "10.4.0.1", "10.4.0.3", true);
	rail(nodes[1], "n3", "rdma", "10.4.0.2", "10.4.0.3", true);
	rail(nodes[0], "n2", "tcp", "192.168.1.1", "192.168.1.2", true);
	c = fm_facts_add(nodes[0], nodes[0]->controllers, &nodes[0]->controllers_count);
	text(&c->transport, "tcp");
	text(&c->address, "traddr=10.4.0.9,trsvcid=4420,src_addr=10.4.0.1");
	c = fm_facts_add(nodes[0], nodes[0]->controllers, &nodes[0]->controllers_count);
	text(&c->transport, "pcie");
	t = make(nodes, 3);
	fm_topology_segments(t, segment);
	CU_ASSERT_EQUAL(fm_segment_size(t, segment, segment[t->links[0].from]), 3);
	CU_ASSERT_EQUAL(t->link_count, 4);
	CU_ASSERT_STRING_EQUAL(port(t, t->links[2].from)->name, "eno1");
	CU_ASSERT_EQUAL_FATAL(t->storage_count, 1);
	CU_ASSERT_STRING_EQUAL(t->storage[0].address, "10.4.0.9");
	CU_ASSERT_STRING_EQUAL(t->storage[0].port, "p0");
	free(t);
	scene_free(nodes, 3);
}

/* Ports of two cards with one cage's name each, and a card with two ports of one function. */
static void test_names(void)
{
	static const struct scene_port two[2] = {
		{ "mlx5_0", "ens1np0", "0000:3b:00.0", "p0", "mlx5_core", 1, 0, 100000, 8000, 16,
		  8000, 16, 9000, 4096 },
		{ "mlx5_1", "ens2np0", "0000:5e:00.0", "p0", "mlx5_core", 1, 1, 100000, 8000, 16,
		  8000, 16, 9000, 4096 },
	};
	struct fm_facts *nodes[1] = { scene_node("n1") };
	struct fm_topology *t;

	(void)scene_port(nodes[0], &two[0]);
	(void)scene_port(nodes[0], &two[1]);
	t = make(nodes, 1);
	CU_ASSERT_TRUE_FATAL(t->port_count == 2);
	CU_ASSERT_STRING_EQUAL(t->ports[0].name, "ens1np0");
	CU_ASSERT_STRING_EQUAL(t->ports[1].name, "ens2np0");
	free(t);
	scene_free(nodes, 1);
	nodes[0] = scene_connectx3("n1", 1);
	t = make(nodes, 1);
	CU_ASSERT_TRUE_FATAL(t->port_count == 2);
	CU_ASSERT_STRING_EQUAL(t->ports[1].name, "enp3s0d1");
	CU_ASSERT_EQUAL(t->ports[1].functions[0].port, 2);
	free(t);
	scene_free(nodes, 1);
}

/* What has no room is counted, and nothing is written beyond it. */
static void test_bounds(void)
{
	struct fm_facts *nodes[1] = { scene_node("n1") };
	struct fm_topology *t;
	char peer[32], address[32];

	for (unsigned i = 0; i < FM_FACTS_RAILS_MAX; i++) {
		(void)snprintf(peer, sizeof(peer), "peer%u", i % 300);
		(void)snprintf(address, sizeof(address), "10.7.%u.%u", i / 250, 1 + i % 250);
		rail(nodes[0], peer, "tcp", "10.8.0.1", address, true);
	}
	t = make(nodes, 1);
	CU_ASSERT_TRUE(t->node_count == FM_TOPOLOGY_NODES_MAX &&
		       t->port_count <= FM_TOPOLOGY_PORTS_MAX);
	CU_ASSERT_TRUE(t->left_out > 0);
	CU_ASSERT_TRUE(fm_topology_write(t, first, sizeof(first)) > 0);
	free(t);
	scene_free(nodes, 1);
}

static const struct fm_test tests[] = {
	{ "drawings of documents written by hand", test_golden },
	{ "a document is written, read and written again", test_round_trip },
	{ "what is no topology is refused with the reason", test_refused },
	{ "a pair: functions of a cage are one port, both ends one rail", test_pair },
	{ "a triangle: the far side is known by the peers", test_triangle },
	{ "a ring of four: who passes on is named", test_relay },
	{ "a switch, a LAN and storage", test_switch },
	{ "names of ports", test_names },
	{ "what has no room is counted", test_bounds },
};
FM_TEST_MAIN("topology", tests)
