/* SPDX-License-Identifier: MIT */
/* Two measurements side by side. links: fm_cli */
#include "client/bench/compare.h"

#include <errno.h>
#include <string.h>

#include "client/bench/validity.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"

static struct fm_bench *run(double rate, double scatter)
{
	struct fm_bench *b = fm_bench_new();
	struct fm_bench_path *p;

	CU_ASSERT_PTR_NOT_NULL_FATAL(b);
	b->wanted_s = 2;
	p = fm_bench_add(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2");
	for (int i = -1; i <= 1; i++)
		p->repeats[p->repeat_count++] =
			(struct fm_bench_repeat){(uint64_t)(2 * rate * (1 + i * scatter)), 2};
	(void)fm_bench_judge(b);
	return b;
}

static int compared(double a, double b, double scatter)
{
	struct fm_bench *x = run(a, scatter), *y = run(b, scatter);
	int is = fm_compare_rates(&x->paths[0], &y->paths[0]);

	CU_ASSERT_EQUAL(fm_compare_rates(&y->paths[0], &x->paths[0]), -is);
	fm_bench_free(x);
	fm_bench_free(y);
	return is;
}

static void test_more_than_noise(void)
{
	CU_ASSERT_EQUAL(compared(1e9, 2e9, 0.02), 1);
	CU_ASSERT_EQUAL(compared(1e9, 1.1e9, 0.02), 1);
	CU_ASSERT_EQUAL(compared(1e9, 1.03e9, 0.02), 0); /* the ranges overlap */
	CU_ASSERT_EQUAL(compared(1e9, 1e9, 0), 0);
	CU_ASSERT_EQUAL(compared(1e9, 2e9, 0.2), 0); /* neither is valid */
}

static void test_unlike(void)
{
	struct fm_bench *a = run(1e9, 0), *b = run(1e9, 0);
	struct fm_err err = {0};

	CU_ASSERT_EQUAL(fm_compare_check(a, b, &err), 0);
	b->is_thorough = true;
	CU_ASSERT_EQUAL(fm_compare_check(a, b, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "quick"));
	b->is_thorough = false;
	b->wanted_s = 3;
	CU_ASSERT_EQUAL(fm_compare_check(a, b, &err), -EINVAL);
	b->wanted_s = 2;
	strcpy(b->paths[0].only.device, "mlx5_0"); /* one device against all together */
	CU_ASSERT_EQUAL(fm_compare_check(a, b, &err), -EINVAL);
	strcpy(a->paths[0].only.device, "mlx5_1");
	CU_ASSERT_EQUAL(fm_compare_check(a, b, &err), -EINVAL);
	strcpy(a->paths[0].only.device, "mlx5_0");
	CU_ASSERT_EQUAL(fm_compare_check(a, b, &err), 0);
	a->paths[0].only.connections = 2;
	CU_ASSERT_EQUAL(fm_compare_check(a, b, &err), -EINVAL);
	a->paths[0].only = b->paths[0].only = (struct fm_bench_only){.connections = 0};
	b->paths[0].depth = 4;
	CU_ASSERT_EQUAL(fm_compare_check(a, b, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no path"));
	CU_ASSERT_PTR_NULL(fm_compare_find(b, &a->paths[0]));
	fm_bench_free(a);
	fm_bench_free(b);
}

static const struct fm_test tests[] = {
	{"only what is more than noise differs", test_more_than_noise},
	{"unlike runs are refused", test_unlike},
};
FM_TEST_MAIN("bench compare", tests)
