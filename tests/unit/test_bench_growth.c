/* SPDX-License-Identifier: MIT */
/* What grew between two looks at a machine. links: fm_cli */
#include "client/bench/growth.h"
#include "tests/fm_test.h"

static struct fm_facts *machine(void)
{
	struct fm_facts *f = fm_facts_new();

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	return f;
}

static void counter(struct fm_facts *f, const char *object, const char *name, uint64_t value)
{
	struct fm_facts_counter *c = fm_facts_add(f, f->counters, &f->counters_count);

	fm_fact_text(&c->object, FM_FACT_NAME, object);
	fm_fact_text(&c->name, FM_FACT_NAME, name);
	fm_fact_number(&c->value, value);
}

/* reconnects < 0: its kernel does not count them. */
static void controller(struct fm_facts *f, const char *name, const char *nqn, int reconnects)
{
	struct fm_facts_controller *c = fm_facts_add(f, f->controllers, &f->controllers_count);

	fm_fact_text(&c->name, FM_FACT_NAME, name);
	fm_fact_text(&c->subsystem, FM_FACT_TEXT, nqn);
	if (reconnects < 0)
		fm_fact_unknown(&c->reconnects, "No such file or directory");
	else
		fm_fact_number(&c->reconnects, (uint64_t)reconnects);
}

/* Goal: what grew, and what did not; nothing of what was set back, or was not there before. */
static void test_counters(void)
{
	struct fm_facts *before = machine(), *after = machine();
	struct fm_bench *b = fm_bench_new();

	counter(before, "mlx5_0:1", "packet_seq_err", 7);
	counter(before, "mlx5_0:1", "np_cnp_sent", 5);
	counter(before, "mlx5_1:1", "np_cnp_sent", 100);
	counter(after, "mlx5_1:1", "np_cnp_sent", 0);
	counter(after, "mlx5_0:1", "packet_seq_err", 10);
	counter(after, "mlx5_0:1", "np_cnp_sent", 5);
	counter(after, "eth0", "rx_crc_errors", 3);
	fm_bench_growth(b, before, after);
	CU_ASSERT_EQUAL_FATAL(b->counter_count, 2);
	CU_ASSERT_STRING_EQUAL(b->counters[0].object, "mlx5_0:1");
	CU_ASSERT_STRING_EQUAL(b->counters[0].name, "packet_seq_err");
	CU_ASSERT_EQUAL(b->counters[0].growth, 3);
	CU_ASSERT_STRING_EQUAL(b->counters[1].name, "np_cnp_sent");
	CU_ASSERT_EQUAL(b->counters[1].growth, 0);
	fm_bench_free(b);
	fm_facts_free(before);
	fm_facts_free(after);
}

/*
 * Goal:   reconnects of each controller that both looks found; none of one whose kernel does not
 *         count them, and none of another connection that has got its name.
 */
static void test_reconnects(void)
{
	struct fm_facts *before = machine(), *after = machine();
	struct fm_bench *b = fm_bench_new();

	controller(before, "nvme0", "nqn.a", 2);
	controller(before, "nvme1", "nqn.b", -1);
	controller(before, "nvme2", "nqn.c", 0);
	controller(after, "nvme0", "nqn.a", 6);
	controller(after, "nvme1", "nqn.b", -1);
	controller(after, "nvme2", "nqn.d", 9);
	controller(after, "nvme3", "nqn.c", 9);
	fm_bench_growth(b, before, after);
	CU_ASSERT_EQUAL_FATAL(b->counter_count, 1);
	CU_ASSERT_STRING_EQUAL(b->counters[0].object, "nvme0");
	CU_ASSERT_STRING_EQUAL(b->counters[0].name, "reconnects");
	CU_ASSERT_EQUAL(b->counters[0].growth, 4);
	fm_bench_free(b);
	fm_facts_free(before);
	fm_facts_free(after);
}

/* Goal: more than there is room for is left out. */
static void test_room(void)
{
	struct fm_facts *before = machine();
	struct fm_bench *b = fm_bench_new();
	char name[32];

	for (unsigned i = 0; i <= FM_BENCH_COUNTERS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "eth%u", i);
		counter(before, name, "rx_crc_errors", 1);
	}
	fm_bench_growth(b, before, before);
	CU_ASSERT_EQUAL(b->counter_count, FM_BENCH_COUNTERS_MAX);
	fm_bench_free(b);
	fm_facts_free(before);
}

static const struct fm_test tests[] = {
	{"counters that grew, and that were set back", test_counters},
	{"reconnects of NVMe controllers", test_reconnects},
	{"no more than there is room for", test_room},
};
FM_TEST_MAIN("bench_growth", tests)
