/* SPDX-License-Identifier: MIT */
/* Which connections are measured alone, and the proof that they carried it. links: fm_cli */
#include "client/bench/rails.h"

#include <errno.h>
#include <string.h>

#include "client/bench/verdict.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "tests/fm_test.h"

static const struct fm_bench_rail a0 = {true, "mlx5_0", "10.0.0.1", "10.0.0.2", 4, 100, 10};
static const struct fm_bench_rail a1 = {true, "mlx5_0", "10.0.2.1", "10.0.2.2", 4, 0, 0};
static const struct fm_bench_rail b0 = {true, "mlx5_1", "10.0.1.1", "10.0.1.2", 4, 200, 20};
static const struct fm_bench_rail t0 = {false, "eth0", "10.0.0.1", "10.0.0.2", 5, 300, 30};

static struct fm_rails rails_of(const struct fm_bench_rail *first,
				const struct fm_bench_rail *second,
				const struct fm_bench_rail *third)
{
	const struct fm_bench_rail *all[] = {first, second, third};
	struct fm_rails r = {.count = 0};

	for (size_t i = 0; i < 3; i++)
		if (all[i])
			r.at[r.count++] = *all[i];
	return r;
}

/* "mlx5_0 | 10.0.0.1-10.0.0.2 | x2 | " of what is measured alone. */
static const char *singles(const struct fm_rails *rails, bool is_rdma)
{
	static struct fm_bench_only only[FM_RAILS_SINGLES_MAX];
	static char text[1024];
	size_t count = fm_rails_singles(rails, is_rdma, only), len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		const struct fm_bench_only *o = &only[i];

		if (o->device[0])
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s ", o->device);
		if (o->local[0])
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s-%s ", o->local,
						o->remote);
		if (o->connections)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "x%u ",
						o->connections);
	}
	return text;
}

/* Goal: what is the same as all together is not measured twice, nor a rail that is its device. */
static void test_singles(void)
{
	struct fm_rails one = rails_of(&a0, NULL, NULL), two = rails_of(&a0, &b0, &t0);
	struct fm_rails three = rails_of(&a0, &a1, &b0), same = rails_of(&a0, &a1, NULL);
	struct fm_rails unnamed = rails_of(&a0, &b0, NULL);

	CU_ASSERT_STRING_EQUAL(singles(&one, true), "");
	CU_ASSERT_STRING_EQUAL(singles(&two, true), "mlx5_0 mlx5_1 ");
	CU_ASSERT_STRING_EQUAL(singles(&two, false), "x1 x2 x4 ");
	CU_ASSERT_STRING_EQUAL(singles(&three, true),
			       "mlx5_0 mlx5_1 10.0.0.1-10.0.0.2 10.0.2.1-10.0.2.2 "
			       "10.0.1.1-10.0.1.2 ");
	CU_ASSERT_STRING_EQUAL(singles(&same, true), "10.0.0.1-10.0.0.2 10.0.2.1-10.0.2.2 ");
	unnamed.at[0].device[0] = unnamed.at[1].device[0] = '\0';
	CU_ASSERT_STRING_EQUAL(singles(&unnamed, true), "10.0.0.1-10.0.0.2 10.0.1.1-10.0.1.2 ");
	one.at[0].is_rdma = false;
	one.at[0].connections = 1;
	CU_ASSERT_STRING_EQUAL(singles(&one, false), "");
}

/* Goal: however many there are, there is room. */
static void test_many(void)
{
	struct fm_bench_only only[FM_RAILS_SINGLES_MAX];
	struct fm_rails all = {.count = FM_BENCH_RAILS_MAX};

	for (unsigned i = 0; i < all.count; i++) {
		all.at[i] = t0;
		all.at[i].connections = 1000;
		(void)sprintf(all.at[i].device, "eth%u", i / 2);
		(void)sprintf(all.at[i].local, "10.0.%u.1", i);
	}
	CU_ASSERT_EQUAL(fm_rails_singles(&all, false, only), FM_RAILS_SINGLES_MAX);
}

static void test_pick(void)
{
	const struct fm_rails all = rails_of(&t0, &a0, &b0);
	const struct {
		struct fm_rails_wanted wanted;
		bool is_rdma;
		int code;
		const char *is; /* the device, the local address, or a part of the error */
	} rows[] = {
		{{.device = "mlx5_1"}, true, 0, "mlx5_1"},
		{{.device = "mlx5_1", .connections = 2}, true, 0, "mlx5_1"},
		{{.device = "mlx5"}, true, -ENOENT, "over mlx5; there are mlx5_0, mlx5_1"},
		{{.device = "mlx5_0"}, false, -ENOENT, "there are eth0"},
		{{.rail = "2"}, true, 0, "10.0.1.1"},
		{{.rail = "10.0.1.2"}, true, 0, "10.0.1.1"},
		{{.rail = "10.0.0.1"}, true, 0, "10.0.0.1"},
		{{.rail = "3"}, true, -ENOENT, "2: 10.0.1.1 - 10.0.1.2"},
		{{.rail = "0"}, true, -ENOENT, "no rail is 0"},
		{{.rail = ""}, true, -ENOENT, "no rail is ;"},
		{{.connections = 3}, false, 0, ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fm_bench_only only;
		struct fm_err err = {0};

		CU_ASSERT_EQUAL(fm_rails_pick(&all, rows[i].is_rdma, &rows[i].wanted, &only, &err),
				rows[i].code);
		if (rows[i].code < 0) {
			CU_ASSERT_PTR_NOT_NULL(strstr(err.text, rows[i].is));
			continue;
		}
		CU_ASSERT_STRING_EQUAL(only.device[0] ? only.device : only.local, rows[i].is);
		CU_ASSERT_EQUAL(only.connections, rows[i].wanted.connections);
	}
}

/* Goal: an address of two rails names neither, and nothing is there is told as that. */
static void test_pick_none(void)
{
	struct fm_rails two = rails_of(&a0, &b0, NULL), none = {.count = 0};
	const struct fm_rails_wanted wanted = {.rail = "10.0.0.1"};
	struct fm_bench_only only;
	struct fm_err err = {0};

	strcpy(two.at[1].local, "10.0.0.1");
	CU_ASSERT_EQUAL(fm_rails_pick(&two, true, &wanted, &only, &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "more than one rail is 10.0.0.1"));
	CU_ASSERT_EQUAL(fm_rails_pick(&none, true, &wanted, &only, &err), -EHOSTUNREACH);
	CU_ASSERT_EQUAL(fm_rails_pick(&two, false, &wanted, &only, &err), -EHOSTUNREACH);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no rail of tcp is up"));
}

/* Goal: a row counts only if what was named carried all of it and nothing else carried any. */
static void test_prove(void)
{
	struct fm_rails before = rails_of(&a0, &b0, &t0), after = before;
	struct fm_bench_path p = {.kind = FM_BENCH_RDMA, .op = FM_BENCH_SEND, .rdma_bytes = 1000};
	struct fm_err err = {0};

	strcpy(p.only.device, "mlx5_1");
	after.at[1].sent += 1000;
	after.at[2].received += 7; /* a question to the peer */
	fm_rails_growth(&before, &after, &p);
	CU_ASSERT_EQUAL(p.rail_count, 2);
	CU_ASSERT_EQUAL(p.rails[0].sent, 1000);
	CU_ASSERT_EQUAL(p.rails[1].received, 7);
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), 0);

	p.rdma_bytes = 1001;
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1000 of 1001 bytes"));
	p.rdma_bytes = 1000;

	after.at[2].sent += 1; /* over TCP from the same addresses */
	fm_rails_growth(&before, &after, &p);
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1 bytes went over eth0 10.0.0.1 - 10.0.0.2"));
	after.at[2].sent -= 1;

	after.at[0].sent += 1; /* over the other device */
	fm_rails_growth(&before, &after, &p);
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), -EPROTO);
	after.at[0].sent -= 1;

	after.at[1].sent = 900; /* it was made anew */
	fm_rails_growth(&before, &after, &p);
	CU_ASSERT_EQUAL(p.rails[0].sent, 900 - 200);
	after.at[1].sent = 150;
	fm_rails_growth(&before, &after, &p);
	CU_ASSERT_EQUAL(p.rails[0].sent, 150);
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), -EPROTO);
}

/* Goal: of what came, the same is proved by what was received; a peer's account of its processors
 * may have come over any rail, and no byte more. */
static void test_prove_received(void)
{
	struct fm_rails before = rails_of(&a0, &b0, &t0), after = before;
	struct fm_bench_path p = {.kind = FM_BENCH_RDMA,
				  .op = FM_BENCH_RECEIVE,
				  .rdma_bytes = 1000,
				  .asked_bytes = 7};
	struct fm_err err = {0};

	strcpy(p.only.device, "mlx5_1");
	after.at[0].sent += 5000; /* says nothing of what came */
	after.at[1].received += 1000;
	after.at[0].received += 3;
	after.at[2].received += 4;
	fm_rails_growth(&before, &after, &p);
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), 0);
	after.at[2].received += 1;
	fm_rails_growth(&before, &after, &p);
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "5 bytes came over eth0 10.0.0.1 - 10.0.0.2"));
	after.at[2].received -= 1;

	after.at[1].received -= 1;
	fm_rails_growth(&before, &after, &p);
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "999 of 1000 bytes"));
	after.at[1].received += 1;

	fm_rails_growth(&before, &after, &p);
	p.only.connections = 2;
	p.connections = 2;
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), 0);
	p.connections = 3;
	CU_ASSERT_EQUAL(fm_rails_prove(&p, &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "3 connections carried it, not 2"));
}

/* Goal: rails that are down count for nothing; what is sealed in two ways is one rail. */
static void test_of_status(void)
{
	static const char text[] =
		"{\"peers\":[{\"name\":\"n3\",\"rails\":[{\"kind\":\"tcp\",\"up\":true}]},"
		"{\"name\":\"n2\",\"rails\":["
		"{\"kind\":\"tcp\",\"device\":\"w1\",\"local\":\"a\",\"remote\":\"b\",\"up\":true,"
		"\"connections\":2,\"sent_bytes\":5,\"received_bytes\":6},"
		"{\"kind\":\"tcp\",\"device\":\"w2\",\"local\":\"c\",\"remote\":\"d\","
		"\"up\":false},"
		"{\"kind\":\"tcp\",\"device\":\"w1\",\"local\":\"a\",\"remote\":\"b\",\"up\":true,"
		"\"connections\":1,\"sent_bytes\":10,\"received_bytes\":20}]}]}";
	struct fm_json *json = NULL;
	struct fm_rails r;
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_json_parse(text, strlen(text), &json, &err), 0);
	fm_rails_of(json, "n2", &r);
	CU_ASSERT_EQUAL_FATAL(r.count, 1);
	CU_ASSERT_EQUAL(r.at[0].connections, 3);
	CU_ASSERT_EQUAL(r.at[0].sent, 15);
	CU_ASSERT_EQUAL(r.at[0].received, 26);
	fm_rails_of(json, "n9", &r);
	CU_ASSERT_EQUAL(r.count, 0);
	fm_json_free(json);
}

static void add_sent(struct fm_bench *b, uint64_t bytes, const char *device, unsigned connections)
{
	struct fm_bench_path *p = fm_bench_add(b, FM_BENCH_RDMA, FM_BENCH_SEND, "n2");

	p->repeats[p->repeat_count++] = (struct fm_bench_repeat){bytes, 2};
	p->rates.median = p->rates.min = p->rates.max = (double)bytes / 2;
	(void)snprintf(p->only.device, sizeof(p->only.device), "%s", device);
	p->only.connections = connections;
}

/* Goal: a part of a wire is not the wire, however fast or busy it is. */
static void test_no_stage(void)
{
	struct fm_bench *b = fm_bench_new();

	CU_ASSERT_PTR_NOT_NULL_FATAL(b);
	add_sent(b, 9000000000, "mlx5_0", 0);
	add_sent(b, 9000000000, "", 1);
	fm_bench_conclude(b, 4.5e9);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "only a part was measured"));
	add_sent(b, 8000000000, "", 0);
	fm_bench_conclude(b, 1e10);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "4.00 GB/s"));
	CU_ASSERT_PTR_NULL(strstr(b->verdict, "mlx5_0"));
	fm_bench_free(b);
}

static const struct fm_test tests[] = {
	{"what is measured alone", test_singles},
	{"many of them", test_many},
	{"what is asked for is found", test_pick},
	{"what is not there is told", test_pick_none},
	{"the counters prove it", test_prove},
	{"and of what is received", test_prove_received},
	{"of a status those that are up", test_of_status},
	{"a part is no stage", test_no_stage},
};
FM_TEST_MAIN("bench_rails", tests)
