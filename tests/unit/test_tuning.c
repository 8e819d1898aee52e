/* SPDX-License-Identifier: MIT */
/* What is chosen for which machine: a table of machines, and what must hold for all of them.
 * links: fm_node */
#include "tests/fm_test.h"

#include <string.h>

#include "mover/node/engine.h"
#include "mover/data/flow.h"
#include "mover/node/tuning.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
#define BUDGET (208 * MIB)	/* of the default memory.total and arena */
#define CONN (384 * KIB)	/* of it for a connection */

/* What is there, what is set (0: nothing), what must come out. */
static const struct machine {
	const char *name;
	unsigned cores, rails, peers;
	uint64_t arena;
	struct fm_tuning set, want;
} machines[] = {
	/* The default arena. */
	{"1 processor", 1, 1, 1, 256 * MIB, {0}, {2, 2, 4, MIB, 8 * MIB}},
	{"2 processors, 4 GiB", 2, 1, 1, 256 * MIB, {0}, {2, 2, 4, MIB, 8 * MIB}},
	{"2 processors, no peer, rails not known",
	 2,
	 0,
	 0,
	 256 * MIB,
	 {0},
	 {2, 2, 4, MIB, 8 * MIB}},
	{"2 processors, 2 rails", 2, 2, 1, 256 * MIB, {0}, {2, 2, 4, MIB, 8 * MIB}},
	{"4 processors", 4, 1, 1, 256 * MIB, {0}, {4, 4, 4, MIB, 8 * MIB}},
	{"8 processors", 8, 1, 1, 256 * MIB, {0}, {8, 8, 4, MIB, 8 * MIB}},
	{"16 processors", 16, 1, 1, 256 * MIB, {0}, {16, 16, 8, MIB, 4 * MIB}},
	{"20 processors, 2 rails", 20, 2, 1, 256 * MIB, {0}, {16, 8, 8, MIB, 4 * MIB}},
	{"32 processors", 32, 1, 1, 256 * MIB, {0}, {16, 16, 8, MIB, 4 * MIB}},
	{"32 processors, 2 rails", 32, 2, 1, 256 * MIB, {0}, {16, 8, 8, MIB, 4 * MIB}},
	{"32 processors, 8 rails", 32, 8, 1, 256 * MIB, {0}, {16, 2, 4, MIB, 4 * MIB}},
	{"256 processors", 256, 1, 1, 256 * MIB, {0}, {16, 16, 8, MIB, 4 * MIB}},
	/* Other arenas. */
	{"32 processors, 1 GiB", 32, 1, 1, GIB, {0}, {16, 16, 4, MIB, 8 * MIB}},
	{"32 processors, 4 rails, 1 GiB", 32, 4, 1, GIB, {0}, {16, 4, 4, MIB, 8 * MIB}},
	{"32 processors, 64 MiB", 32, 1, 1, 64 * MIB, {0}, {16, 8, 8, MIB, 4 * MIB}},
	{"2 processors, 16 MiB", 2, 1, 1, 16 * MIB, {0}, {2, 2, 4, 512 * KIB, 2 * MIB}},
	{"2 processors, the smallest arena", 2, 1, 1, MIB, {0}, {2, 2, 4, 32 * KIB, 128 * KIB}},
	/* Many peers. */
	{"32 processors, 4 peers", 32, 1, 4, 256 * MIB, {0}, {16, 16, 8, MIB, 4 * MIB}},
	{"32 processors, 9 peers", 32, 1, 9, 256 * MIB, {0}, {16, 7, 4, MIB, 8 * MIB}},
	{"32 processors, 2 rails, 2 peers", 32, 2, 2, 256 * MIB, {0}, {16, 8, 8, MIB, 4 * MIB}},
	{"32 processors, 200 peers", 32, 1, 200, 256 * MIB, {0}, {16, 2, 4, MIB, 8 * MIB}},
	/* A setting wins by itself; the others follow it. */
	{"lanes", 2, 1, 1, 256 * MIB, {.lanes = 16}, {16, 16, 8, MIB, 4 * MIB}},
	{"one lane", 32, 1, 1, 256 * MIB, {.lanes = 1}, {1, 2, 2, MIB, 8 * MIB}},
	{"connections", 32, 1, 1, 256 * MIB, {.tcp_conns = 1}, {16, 1, 4, MIB, 8 * MIB}},
	{"more connections", 2, 4, 9, 256 * MIB, {.tcp_conns = 16}, {2, 16, 4, MIB, 4 * MIB}},
	{"queue pairs", 32, 1, 1, 256 * MIB, {.rdma_conns = 1}, {16, 16, 1, MIB, 4 * MIB}},
	{"slab", 32, 1, 1, 256 * MIB, {.slab_bytes = 16 * MIB}, {16, 8, 2, MIB, 16 * MIB}},
	{"small slab", 2, 1, 1, 32 * MIB, {.slab_bytes = MIB}, {2, 2, 4, 256 * KIB, MIB}},
	{"large slab", 2, 1, 1, 4 * GIB, {.slab_bytes = GIB}, {2, 2, 2, 16 * MIB, GIB}},
	{"odd slab", 2, 1, 1, 68 * MIB, {.slab_bytes = 68 * KIB}, {2, 2, 4, 4 * KIB, 68 * KIB}},
	{"chunk", 2, 1, 1, 256 * MIB, {.chunk_bytes = 64 * KIB}, {2, 2, 4, 64 * KIB, 4 * MIB}},
	{"large chunk",
	 2,
	 1,
	 1,
	 256 * MIB,
	 {.chunk_bytes = 64 * MIB},
	 {2, 2, 2, 64 * MIB, 128 * MIB}},
	{"small chunk",
	 32,
	 1,
	 1,
	 256 * MIB,
	 {.chunk_bytes = 4 * KIB},
	 {16, 16, 8, 4 * KIB, 256 * KIB}},
	{"all", 2, 1, 1, 64 * MIB, {3, 5, 7, 128 * KIB, 2 * MIB}, {3, 5, 7, 128 * KIB, 2 * MIB}},
};

static void choose(const struct fm_machine *m, const struct fm_tuning *set, struct fm_tuning *out,
		   char text[FM_TUNING_TEXT_MAX])
{
	struct fm_tuning_why why;

	*out = *set;
	fm_tuning_choose(m, out, &why);
	fm_tuning_print(m, out, &why, text);
}

static struct fm_machine of(const struct machine *m)
{
	return (struct fm_machine){.cores = {m->cores, m->cores, FM_CORES_ALL},
				   .rails = m->rails,
				   .peers = m->peers,
				   .arena_bytes = m->arena,
				   .budget_bytes = BUDGET};
}

static void test_table(void)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		const struct fm_tuning *want = &machines[i].want;
		struct fm_machine m = of(&machines[i]);
		char text[FM_TUNING_TEXT_MAX];
		struct fm_tuning t;
		bool is_right;

		choose(&m, &machines[i].set, &t, text);
		is_right = t.lanes == want->lanes && t.tcp_conns == want->tcp_conns &&
			   t.rdma_conns == want->rdma_conns && t.chunk_bytes == want->chunk_bytes &&
			   t.slab_bytes == want->slab_bytes;
		CU_ASSERT_TRUE(is_right);
		/* A second peer finds slabs for all its connections: nothing has to be taken back
		 * from the first. */
		if (m.arena_bytes >= 256 * MIB && m.rails <= 2 &&
		    memcmp(&machines[i].set, &(struct fm_tuning){0}, sizeof(t)) == 0)
			CU_ASSERT_TRUE(m.arena_bytes / 2 / t.slab_bytes >=
				       2 * t.tcp_conns * m.rails);
		if (!is_right)
			printf("\n%s: %s\n", machines[i].name, text);
	}
}

/* What the engine asks for, and what the rules promise of memory. */
static void check(const struct fm_machine *m, const struct fm_tuning *set)
{
	char text[FM_TUNING_TEXT_MAX];
	struct fm_tuning t;
	unsigned slabs;

	choose(m, set, &t, text);
	slabs = (unsigned)(m->arena_bytes / t.slab_bytes);
	CU_ASSERT_TRUE(t.lanes >= 1 && t.lanes <= FM_LANES_MAX);
	CU_ASSERT_TRUE(t.tcp_conns >= 1 && t.tcp_conns <= 16);
	CU_ASSERT_TRUE(t.rdma_conns >= 1 && t.rdma_conns <= 8);
	CU_ASSERT_TRUE(t.chunk_bytes >= 4096 && (t.chunk_bytes & (t.chunk_bytes - 1)) == 0);
	CU_ASSERT_EQUAL(t.slab_bytes % t.chunk_bytes, 0);
	CU_ASSERT_TRUE(t.slab_bytes / t.chunk_bytes >= 1 &&
		       t.slab_bytes / t.chunk_bytes <= FM_FLOW_SLOTS_MAX);
	CU_ASSERT_TRUE(slabs >= 2);
	/* More connections than always only where each has a slab for either direction. */
	CU_ASSERT_TRUE(set->tcp_conns || t.tcp_conns == 2 || slabs / 2 >= t.tcp_conns * m->rails);
	CU_ASSERT_TRUE(set->rdma_conns || t.rdma_conns == 2 ||
		       slabs / 2 >= t.rdma_conns * m->rails);
	CU_ASSERT_TRUE(set->tcp_conns || t.tcp_conns == 2 ||
		       t.tcp_conns * m->rails * m->peers * CONN <= m->budget_bytes / 8);
	CU_ASSERT_TRUE(strlen(text) + 1 < FM_TUNING_TEXT_MAX && !strchr(text, '\n'));
}

static void test_all_machines(void)
{
	static const unsigned cores[] = { 1, 2, 3, 4, 6, 8, 12, 16, 20, 32, 64, 1024 };
	static const uint64_t chunks[] = { 0, 4 * KIB, 256 * KIB, MIB, 8 * MIB };
	static const uint64_t slabs[] = { 0, 64 * KIB, MIB, 16 * MIB };

	for (uint64_t arena = MIB; arena <= 64 * GIB; arena = arena * 2 + 192 * KIB)
		for (size_t c = 0; c < sizeof(cores) / sizeof(cores[0]); c++)
			for (unsigned rails = 1; rails <= 8; rails++)
				for (size_t k = 0; k < 5 * 4 * 3; k++) {
					struct fm_tuning set = {
						.chunk_bytes = (uint32_t)chunks[k % 5],
						.slab_bytes = (uint32_t)slabs[k / 5 % 4]};
					struct fm_machine m = {{cores[c], cores[c], FM_CORES_ALL},
							       arena,
							       BUDGET,
							       rails,
							       1 + 10 * (unsigned)(k / 20)};
					uint64_t least = set.slab_bytes > set.chunk_bytes
								 ? set.slab_bytes
								 : set.chunk_bytes;

					/* What fm_config_check() refuses. */
					if (arena < 2 * least ||
					    (set.slab_bytes && set.slab_bytes < set.chunk_bytes))
						continue;
					if (set.chunk_bytes &&
					    set.slab_bytes > FM_FLOW_SLOTS_MAX * set.chunk_bytes)
						continue;
					check(&m, &set);
				}
}

static void test_text(void)
{
	struct fm_machine m = {.cores = {32, 2, FM_CORES_AFFINITY},
			       .arena_bytes = 256 * MIB,
			       .budget_bytes = BUDGET,
			       .rails = 1,
			       .peers = 1};
	struct fm_tuning t;
	char text[FM_TUNING_TEXT_MAX];

	choose(&m, &(struct fm_tuning){ 0 }, &t, text);
	CU_ASSERT_STRING_EQUAL(text, "2 lanes (2 of 32 processors, by affinity); a rail at most 2 "
				     "TCP connections (the least) and 4 queue pairs "
				     "(32MiB of slabs); slabs of 8MiB (the most), chunks of 1MiB "
				     "(the most)");
	m.cores = (struct fm_cores){ 32, 32, FM_CORES_ALL };
	choose(&m, &(struct fm_tuning){ .lanes = 1, .chunk_bytes = 64 * KIB }, &t, text);
	CU_ASSERT_STRING_EQUAL(text, "1 lane (set); a rail at most 2 TCP connections (the least) "
				     "and 2 queue pairs (the least); slabs of 4MiB "
				     "(the most), chunks of 64KiB (set)");
	choose(&m, &(struct fm_tuning){ 0 }, &t, text);
	CU_ASSERT_STRING_EQUAL(text, "16 lanes (32 processors); a rail at most 16 TCP connections "
				     "(one a lane) and 8 queue pairs (32MiB of slabs); "
				     "slabs of 4MiB (four chunks), chunks of 1MiB (the most)");
}

static void test_links(void)
{
	static const struct { unsigned most; uint32_t mbps; unsigned want;
	} cases[] = {
		{16, 0, 16},	{16, 1, 4},	{16, 1000, 4},	  {16, 10000, 4},
		{16, 25000, 5}, {16, 40000, 8}, {16, 100000, 16}, {16, UINT32_MAX, 16},
		{8, 100000, 8}, {4, 100000, 4}, {1, 1000, 1},	  {2, 100000, 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CU_ASSERT_EQUAL(fm_tuning_link_conns(cases[i].most, cases[i].mbps), cases[i].want);
}

static void test_rails(void)
{
	static const struct {
		unsigned want;
		struct { const char *name; uint32_t mbps; } port[4];
	} cases[] = {
		{1, {{NULL, 0}}},
		{1, {{"eth0", 1000}}},
		{1, {{"eth0", 0}, {"eth1", 0}}},	   /* nobody knows */
		{1, {{"eth0", 100000}, {"eth0", 100000}}}, /* IPv4 and IPv6 */
		{2, {{"eth0", 100000}, {"eth1", 100000}, {"eth2", 1000}, {"docker0", 10000}}},
		{3, {{"eth0", 25000}, {"eth1", 100000}, {"eth2", 24999}, {"eth3", 40000}}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fm_addr addr[4] = { 0 };
		size_t count = 0;

		for (; count < 4 && cases[i].port[count].name; count++) {
			(void)snprintf(addr[count].name, sizeof(addr[count].name), "%s",
				       cases[i].port[count].name);
			addr[count].speed_mbps = cases[i].port[count].mbps;
		}
		CU_ASSERT_EQUAL(fm_tuning_rails(addr, count), cases[i].want);
	}
}

static const struct fm_test tests[] = {
	{ "each machine of the table gets its numbers", test_table },
	{ "on every machine the numbers fit each other and the arena", test_all_machines },
	{ "one line says what was chosen and why", test_text },
	{ "a slow link has few connections", test_links },
	{ "rails are ports, but for those that are much slower", test_rails },
};
FM_TEST_MAIN("tuning", tests)
