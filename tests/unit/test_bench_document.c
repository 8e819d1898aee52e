/* SPDX-License-Identifier: MIT */
/* A measurement as a document and back. links: fm_cli */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/measure.h"
#include "client/bench/validity.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"

static char first[1 << 20], second[1 << 20];

static struct fm_bench *sample(void)
{
	struct fm_bench *b = fm_bench_new();
	struct fm_bench_path *p;

	CU_ASSERT_PTR_NOT_NULL_FATAL(b);
	strcpy(b->node, "n1");
	b->wanted_s = 2;
	b->began_ms = 5;
	p = fm_bench_add(b, FM_BENCH_DISK, FM_BENCH_READ, "/srv/\xff");
	p->depth = 16;
	p->block_bytes = 1 << 20;
	p->latency = (struct fm_bench_latency){9, 0.001, 0.002, 0.003, 0.004, 0.5};
	p->repeats[p->repeat_count++] = (struct fm_bench_repeat){4000000000, 2};
	p->here = (struct fm_bench_cpu){.is_known = true,
					.process_s = 1,
					.busiest = 0.5,
					.thread_s = 1.5,
					.core_softirq_s = 0.25};
	p = fm_bench_add(b, FM_BENCH_TCP, FM_BENCH_BOTH, "n2");
	p->connections = 4;
	p->tcp_bytes = 7;
	p->segments_sent = 100;
	p->segments_again = 3;
	p->segments_needless = 2;
	p->hardware = 24e9;
	strcpy(p->there.why, "it does not say");
	p->repeats[p->repeat_count++] = (struct fm_bench_repeat){4000000000, 0.5};
	p = fm_bench_add(b, FM_BENCH_RDMA, FM_BENCH_SEND, "n2");
	p->only = (struct fm_bench_only){"mlx5_0", "10.0.0.1", "10.0.0.2", 2};
	p->rails[p->rail_count++] =
		(struct fm_bench_rail){true, "mlx5_0", "10.0.0.1", "10.0.0.2", 0, 4000000000, 5};
	p->repeats[p->repeat_count++] = (struct fm_bench_repeat){4000000000, 2};
	(void)fm_bench_judge(b);
	return b;
}

static void test_roundtrip(void)
{
	struct fm_bench *b = sample(), *again;
	struct fm_err err = {0};
	char name[FM_BENCH_TEXT_MAX];
	int len = fm_bench_write(b, 3, first, sizeof(first));

	CU_ASSERT_TRUE_FATAL(len > 0);
	CU_ASSERT_EQUAL_FATAL(fm_bench_parse(first, (size_t)len, &again, &err), 0);
	CU_ASSERT_EQUAL(fm_bench_write(again, 3, second, sizeof(second)), len);
	CU_ASSERT_STRING_EQUAL(first, second);
	CU_ASSERT_STRING_EQUAL(again->paths[0].where, "/srv/\xff");
	CU_ASSERT_EQUAL(again->paths[1].invalid, FM_BENCH_TOO_SHORT);
	CU_ASSERT_EQUAL(again->paths[1].segments_again, 3);
	CU_ASSERT_EQUAL(again->paths[1].segments_needless, 2);
	CU_ASSERT_TRUE(again->paths[1].hardware > 23e9 && again->paths[0].hardware < 1);
	CU_ASSERT_TRUE(again->paths[0].here.thread_s > 1.4 &&
		       again->paths[0].here.core_softirq_s > 0.2);
	CU_ASSERT_PTR_NOT_NULL(strstr(first, "\"invalid\":[\"too short\"]"));
	CU_ASSERT_PTR_NOT_NULL(strstr(first, "\"median_bytes_per_s\":2000000000.000000000"));
	CU_ASSERT_PTR_NOT_NULL(strstr(first, "\"cpu_there\":{\"unknown\":\"it does not say\"}"));
	CU_ASSERT_STRING_EQUAL(fm_bench_path_name(&again->paths[1], name), "tcp both n2");
	CU_ASSERT_STRING_EQUAL(fm_bench_path_name(&again->paths[2], name),
			       "rdma send n2 over mlx5_0 10.0.0.1 - 10.0.0.2, 2 connections");
	CU_ASSERT_EQUAL_FATAL(again->paths[2].rail_count, 1);
	CU_ASSERT_EQUAL(again->paths[2].rails[0].sent, 4000000000);
	strcpy(again->paths[0].where, "/srv");
	CU_ASSERT_STRING_EQUAL(fm_bench_path_name(&again->paths[0], name),
			       "disk read /srv, 16 x 1 MiB");
	CU_ASSERT_EQUAL(fm_bench_write(b, 3, first, 100), -EMSGSIZE);
	fm_bench_free(again);
	fm_bench_free(b);
}

/* Goal: what a document claims of its own repeats is not believed. */
static void test_computed_anew(void)
{
	static const char text[] =
		"{\"fmove_bench\":1,\"label\":\"quick\",\"wanted_s\":2,\"paths\":[{\"kind\":"
		"\"tcp\","
		"\"op\":\"send\",\"where\":\"n2\",\"median_bytes_per_s\":9e9,\"invalid\":[],"
		"\"repeats\":[{\"bytes\":10,\"seconds\":1.5},{\"bytes\":30,\"seconds\":1.5}]}]}";
	struct fm_bench *b;
	struct fm_err err = {0};

	CU_ASSERT_EQUAL_FATAL(fm_bench_parse(text, strlen(text), &b, &err), 0);
	CU_ASSERT_EQUAL(b->paths[0].invalid, FM_BENCH_NOISY);
	CU_ASSERT_TRUE(b->paths[0].rates.median < 14);
	fm_bench_free(b);
}

static void test_refused(void)
{
#define HEAD	   "{\"fmove_bench\":1,\"label\":\"quick\","
#define PATH(rest) HEAD "\"paths\":[{\"kind\":\"tcp\",\"op\":\"send\"," rest "}]}"
	static const struct {
		const char *text;
		int code;
		const char *part;
	} cases[] = {
		{"", -EINVAL, ""},
		{"[]", -EINVAL, ""},
		{"{}", -EINVAL, "no measurement of fmove bench"},
		{"{\"fmove_facts\":1}", -EINVAL, "no measurement of fmove bench"},
		{"{\"fmove_bench\":3}", -EOPNOTSUPP, "of version 3, this fmove knows 2"},
		{"{\"fmove_bench\":0}", -EOPNOTSUPP, "of version 0, this fmove knows 2"},
		{"{\"fmove_bench\":1,\"paths\":[]}", -EINVAL, "label"},
		{HEAD "\"paths\":{}}", -EINVAL, "paths"},
		{HEAD "\"wanted_s\":-1,\"paths\":[]}", -EINVAL, "not the values"},
		{HEAD "\"paths\":[{\"kind\":\"carrier pigeon\",\"op\":\"send\"}]}", -EINVAL,
		 "paths[0]"},
		{PATH("\"repeats\":[{\"bytes\":-1,\"seconds\":1}]"), -EINVAL, "paths[0]"},
		{PATH("\"repeats\":[{\"bytes\":1,\"seconds\":1e300}]"), -EINVAL, "paths[0]"},
		{PATH("\"repeats\":3"), -EINVAL, "paths[0]"},
		{PATH("\"cpu_here\":{\"process_s\":1,\"busiest_core\":2}"), -EINVAL, "paths[0]"},
		{PATH("\"depth\":70000"), -EINVAL, "paths[0]"},
		{PATH("\"only\":{\"device\":3}"), -EINVAL, "paths[0]"},
		{PATH("\"only\":{\"connections\":-1}"), -EINVAL, "paths[0]"},
		{PATH("\"rails\":{}"), -EINVAL, "paths[0]"},
		{PATH("\"rails\":[{\"kind\":\"disk\"}]"), -EINVAL, "paths[0]"},
		{PATH("\"rails\":[{\"kind\":\"tcp\",\"sent_bytes\":-1}]"), -EINVAL, "paths[0]"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fm_bench *b = NULL;
		struct fm_err err = {0};

		CU_ASSERT_EQUAL(fm_bench_parse(cases[i].text, strlen(cases[i].text), &b, &err),
				cases[i].code);
		CU_ASSERT_PTR_NULL(b);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].part));
	}
}

/* Goal: more paths or repeats than there is room for are refused, not written beside it. */
static void test_bounded(void)
{
	char *text = malloc(1 << 20);
	struct fm_bench *b = NULL;
	struct fm_err err = {0};
	int len = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	len += sprintf(text + len, "%s", HEAD "\"paths\":[");
	for (unsigned i = 0; i <= FM_BENCH_PATHS_MAX; i++)
		len += sprintf(text + len, "%s{\"kind\":\"tcp\",\"op\":\"send\"}", i ? "," : "");
	(void)strcpy(text + len, "]}");
	CU_ASSERT_EQUAL(fm_bench_parse(text, strlen(text), &b, &err), -EINVAL);
	len = sprintf(text, "%s",
		      HEAD "\"paths\":[{\"kind\":\"tcp\",\"op\":\"send\",\"repeats\":[");
	for (unsigned i = 0; i <= FM_BENCH_REPEATS_MAX; i++)
		len += sprintf(text + len, "%s{}", i ? "," : "");
	(void)strcpy(text + len, "]}]}");
	CU_ASSERT_EQUAL(fm_bench_parse(text, strlen(text), &b, &err), -EINVAL);
	free(text);
}

static const struct fm_test tests[] = {
	{"what is written is read", test_roundtrip},
	{"what follows from repeats is computed anew", test_computed_anew},
	{"what is no measurement", test_refused},
	{"lists are bounded", test_bounded},
};
FM_TEST_MAIN("bench document", tests)
