/* SPDX-License-Identifier: MIT */
/* What the kernel lets the daemon have. links: fm_cli */
#include "tests/unit/doctor_scene.h"

static struct fm_facts *node_with(const char *process)
{
	struct fm_facts *f = scene_node("n1");
	struct fm_facts_process *p = fm_facts_add(f, f->processes, &f->processes_count);

	fm_fact_text(&p->name, FM_FACT_NAME, process);
	fm_fact_number(&p->pid, 77);
	fm_fact_number(&p->uid, 990);
	fm_fact_number(&p->memlock_bytes, FM_FACT_UNLIMITED);
	fm_fact_number(&p->ipc_lock, false);
	fm_fact_number(&p->files, 65536);
	fm_fact_number(&p->memory_max_bytes, FM_FACT_UNLIMITED);
	return f;
}

static void check(struct fm_facts *f)
{
	scene_check(fm_check_limits, &f, 1);
}

static void test_memlock(void)
{
	struct fm_facts *f = node_with("fmoved");

	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->processes[0].memlock_bytes, 8u << 20);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("memlock", FM_ERROR, "(process 77) may lock 8.39 MB of memory",
				     "LimitMEMLOCK=infinity"));
	fm_fact_number(&f->processes[0].ipc_lock, true); /* then the limit does not count */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static void test_control_group(void)
{
	struct fm_facts *f = node_with("fmoved");

	fm_fact_number(&f->processes[0].memory_max_bytes, 512u << 20);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->processes[0].memory_max_bytes, (512u << 20) - 1);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("memory-control-group", FM_ERROR, "memory.total is 537 MB",
				     "MemoryMax=infinity"));
	fm_facts_free(f);
}

static void test_files(void)
{
	struct fm_facts *f = node_with("fmoved");

	fm_fact_number(&f->processes[0].files, 1024);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("open-files", FM_WARNING, "1024 files", "LimitNOFILE=65536"));
	fm_fact_text(&f->processes[0].name, FM_FACT_NAME, "fmove-nvmed"); /* needs few */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static void test_machine_memory(void)
{
	struct fm_facts *f = scene_node("n1");

	fm_fact_number(&f->daemon.total_bytes, 64ull << 30);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->node.huge_pages_bytes, 8ull << 30);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("memory-machine", FM_WARNING,
				     "the machine has 137 GB, of which 8.59 GB are reserved",
				     "total ="));
	fm_facts_free(f);
}

static void test_io_uring(void)
{
	struct fm_facts *f = scene_node("n1");

	fm_fact_number(&f->node.io_uring_disabled, 1);
	check(f); /* the daemon says that it has it all the same */
	CU_ASSERT_EQUAL(scene_found.count, 0);
	text(&f->daemon.io, "threads");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("io-uring-off", FM_WARNING, "io_uring_disabled is 1",
				     "kernel.io_uring_disabled=0"));
	fm_facts_free(f);
}

static void test_oom(void)
{
	struct fm_facts *f = node_with("fmove-nvmed");

	text(&f->processes[0].oom_score_adj, "-500");
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	text(&f->processes[0].oom_score_adj, "200");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("oom-score", FM_WARNING, "(process 77) has oom_score_adj 200",
				     "OOMScoreAdjust=-500"));
	fm_fact_text(&f->processes[0].name, FM_FACT_NAME, "fmoved"); /* what it does begins again */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

/* Goal: the page cache is a finding only where a GPU has the same memory and little is free. */
static void test_page_cache(void)
{
	struct fm_facts *f = scene_node("n1");

	text(&f->node.gpu, "NVIDIA GB10");
	fm_fact_number(&f->node.free_bytes, 20ull << 30);
	fm_fact_number(&f->node.page_cache_bytes, 90ull << 30);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->node.free_bytes, 2ull << 30);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("page-cache-gpu", FM_WARNING,
				     "NVIDIA GB10 shares the memory of the machine: of 137 GB, "
				     "2.15 GB are free and 96.6 GB hold files",
				     "drop_caches"));
	fm_fact_number(&f->node.page_cache_bytes, 20ull << 30); /* programs have it */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->node.page_cache_bytes, 90ull << 30);
	text(&f->node.gpu, "Tesla V100-SXM2-32GB");
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

/* With the two drivers that choose speeds themselves it is the usual one. */
static void test_governor(void)
{
	struct fm_facts *f = scene_node("n1");

	text(&f->node.governor, "powersave");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("governor", FM_WARNING,
				     "powersave, of the driver cppc_cpufreq", "cpupower"));
	text(&f->node.governor_driver, "intel_pstate");
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{ "locked memory is less than the arena", test_memlock },
	{ "the control group has less than memory.total", test_control_group },
	{ "fmoved may open few files", test_files },
	{ "memory.total is more than half of what programs share", test_machine_memory },
	{ "io_uring is off", test_io_uring },
	{ "the supervisor is ended before others", test_oom },
	{ "the page cache has what a GPU needs", test_page_cache },
	{ "the processors stay at their lowest speed", test_governor },
};
FM_TEST_MAIN("doctor_limits", tests)
