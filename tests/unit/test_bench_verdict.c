/* SPDX-License-Identifier: MIT */
/* What is valid, and which stage limits: on measurements written by hand. links: fm_cli */
#include "client/bench/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bench/tcp_watch.h"
#include "client/bench/validity.h"
#include "mover/base/err.h"
#include "mover/facts/facts.h"
#include "tests/fm_test.h"

#define GB 1e9

static void repeat(struct fm_bench_path *p, double rate, double seconds)
{
	p->repeats[p->repeat_count++] =
		(struct fm_bench_repeat){(uint64_t)(rate * seconds), seconds};
}

/* Three of 2 s around a rate. */
static struct fm_bench_path *path(struct fm_bench *b, enum fm_bench_kind kind, enum fm_bench_op op,
				  const char *where, double rate, double scatter)
{
	struct fm_bench_path *p = fm_bench_add(b, kind, op, where);

	repeat(p, rate * (1 - scatter), 2);
	repeat(p, rate, 2);
	repeat(p, rate * (1 + scatter), 2);
	p->here.is_known = true;
	return p;
}

static struct fm_bench *quick(void)
{
	struct fm_bench *b = fm_bench_new();

	CU_ASSERT_PTR_NOT_NULL_FATAL(b);
	b->wanted_s = 2;
	strcpy(b->node, "n1");
	return b;
}

/* ---- validity ---- */

static void test_valid(void)
{
	struct fm_bench *b = quick();

	(void)path(b, FM_BENCH_DISK, FM_BENCH_READ, "/s", GB, 0.01);
	CU_ASSERT_EQUAL(fm_bench_judge(b), 0);
	CU_ASSERT_EQUAL(b->paths[0].invalid, 0);
	CU_ASSERT_TRUE(b->paths[0].rates.median > 0.99 * GB);
	fm_bench_free(b);
}

static void test_not_valid(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *p;

	(void)path(b, FM_BENCH_DISK, FM_BENCH_READ, "/s", GB, 0.2);
	path(b, FM_BENCH_DISK, FM_BENCH_READ, "/s", GB, 0)->repeats[1].seconds = 0.9;
	path(b, FM_BENCH_DISK, FM_BENCH_READ, "/s", GB, 0)->is_cached = true;
	path(b, FM_BENCH_DISK, FM_BENCH_READ, "/s", GB, 0)->is_throttled = true;
	(void)fm_bench_add(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2");
	p = path(b, FM_BENCH_DISK, FM_BENCH_READ, "/s", GB, 0);
	p->repeats[0].bytes = 0;
	CU_ASSERT_EQUAL(fm_bench_judge(b), 3);
	CU_ASSERT_EQUAL(b->paths[0].invalid, FM_BENCH_NOISY);
	CU_ASSERT_TRUE(b->paths[1].invalid & FM_BENCH_TOO_SHORT);
	CU_ASSERT_EQUAL(b->paths[2].invalid, FM_BENCH_CACHED);
	CU_ASSERT_EQUAL(b->paths[3].invalid, FM_BENCH_THROTTLED);
	CU_ASSERT_EQUAL(b->paths[4].invalid, FM_BENCH_FAILED);
	CU_ASSERT_TRUE(b->paths[5].invalid & FM_BENCH_TOO_SHORT);
	fm_bench_free(b);
}

/* ---- which stage limits ---- */

static struct fm_bench_stage stage(const char *name, double rate, double scatter, double hardware)
{
	struct fm_bench_stage s = {
		.hardware = hardware,
		.rates = {rate, rate * (1 - scatter), rate * (1 + scatter), scatter}};

	strcpy(s.name, name);
	return s;
}

static int judge(const struct fm_bench_stage *s, size_t n, double rate, char *out)
{
	const struct fm_bench_rates e = {rate, rate * 0.99, rate * 1.01, 0.01};

	return fm_bench_verdict(s, n, &e, out);
}

static void test_planted_limits(void)
{
	char text[FM_BENCH_TEXT_MAX];
	struct fm_bench_stage s[] = {stage("n1's disk read", 5 * GB, 0.02, 0),
				     stage("the wire", 23 * GB, 0.02, 24 * GB),
				     stage("n2's disk write", 2.2 * GB, 0.02, 0)};

	CU_ASSERT_EQUAL(judge(s, 3, 2.1 * GB, text), 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "limited by n2's disk write: 2.10 GB/s of 2.20 GB/s"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "the wire is 9 % used"));
	s[1] = stage("the wire", 1 * GB, 0.02, 24 * GB);
	CU_ASSERT_EQUAL(judge(s, 3, 0.99 * GB, text), 1);
	s[0] = stage("n1's disk read", 0.5 * GB, 0.02, 0);
	CU_ASSERT_EQUAL(judge(s, 3, 0.49 * GB, text), 0);
}

/* Goal: two stages that are alike, and a way slower than all of it, are told as that. */
static void test_beyond_the_noise(void)
{
	char text[FM_BENCH_TEXT_MAX];
	struct fm_bench_stage s[] = {stage("disk", 2 * GB, 0.04, 0),
				     stage("wire", 2.1 * GB, 0.04, 0)};

	CU_ASSERT_EQUAL(judge(s, 2, 1.95 * GB, text), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "alike within the noise"));
	s[1] = stage("wire", 4 * GB, 0.04, 0);
	CU_ASSERT_EQUAL(judge(s, 2, 1.95 * GB, text), 0);
	CU_ASSERT_EQUAL(judge(s, 2, 1 * GB, text), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "slower than each stage alone"));
	s[1] = stage("wire", 0.225 * GB, 0.4, 0); /* it was disturbed: more goes over it */
	CU_ASSERT_EQUAL(judge(s, 2, 0.6 * GB, text), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "faster than the slowest stage was alone"));
	CU_ASSERT_EQUAL(judge(s, 0, 1 * GB, text), -1);
	CU_ASSERT_STRING_EQUAL(text, "");
}

/* ---- a whole run ---- */

static void test_runs(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *p;

	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "nothing that is valid"));
	(void)path(b, FM_BENCH_DISK, FM_BENCH_READ, "/d", 2.2 * GB, 0.01);
	(void)path(b, FM_BENCH_DISK, FM_BENCH_WRITE, "/d", 1 * GB, 0.01);
	(void)path(b, FM_BENCH_DISK, FM_BENCH_READ, "/other", 1 * GB, 0.01);
	(void)fm_bench_judge(b);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "/d reads 2.20 GB/s and writes 1.00 GB/s"));
	p = path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", 4 * GB, 0.01);
	(void)fm_bench_judge(b);
	fm_bench_conclude(b, 20 * GB);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "20 % of what the ports allow"));
	fm_bench_conclude(b, 4.1 * GB);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by the port"));
	p = path(b, FM_BENCH_PUT, FM_BENCH_SEND, "n2", 2.1 * GB, 0.01);
	strcpy(p->from, "/d");
	(void)fm_bench_judge(b);
	fm_bench_conclude(b, 21 * GB);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by n1's disk read at /d: 2.10 GB/s of"));
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "the wire to n2 is 10 % used"));
	strcpy(p->from, "/nowhere");
	fm_bench_conclude(b, 20 * GB);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "not each stage was measured"));
	fm_bench_free(b);
}

static void lossy(struct fm_bench_path *p, unsigned again, unsigned needless)
{
	p->tcp_bytes = 6 * (uint64_t)GB;
	p->segments_sent = 1000000;
	p->segments_again = again;
	p->segments_needless = needless;
}

/* Goal: transfers of a few bytes, one after the other, are looked at for their time. Their rate is
 * never what a run ends with, whatever else is valid. */
static void test_latency_is_no_rate(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *p = path(b, FM_BENCH_PUT, FM_BENCH_SEND, "n2", GB, 0.3);

	p->here = (struct fm_bench_cpu){.is_known = true,
					.watched_s = 6,
					.process_s = 5.9,
					.allowed = 1,
					.allowed_busy_s = 6};
	path(b, FM_BENCH_PUT, FM_BENCH_SEND, "n2", GB / 1000, 0.01)->latency.count = 500;
	(void)fm_bench_judge(b);
	CU_ASSERT_EQUAL(b->paths[0].invalid, FM_BENCH_NOISY);
	CU_ASSERT_EQUAL(b->paths[1].invalid, 0);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by one processor, 98 % busy"));
	b->paths[0].here.is_known = false;
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "nothing that is valid"));
	b->paths[1].invalid = FM_BENCH_NOISY;
	lossy(&b->paths[1], 100, 0);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "nothing that is valid"));
	fm_bench_free(b);
}

/* Over six seconds; what the verdict is of a path that noise makes unnamed otherwise. */
static const struct {
	struct fm_bench_cpu cpu;
	const char *said; /* NULL: no processor is named */
} processor_rows[] = {
	{{.process_s = 5.9, .allowed = 1, .allowed_busy_s = 6}, "one processor, 98 % busy"},
	/* others have half of the one, and we would fill it */
	{{.process_s = 3, .allowed = 1, .allowed_busy_s = 5.7, .wait_s = 4},
	 "one processor, 95 % busy"},
	/* ticks were lost: the process alone had more than the processor was busy */
	{{.process_s = 5.6, .allowed = 1, .allowed_busy_s = 2.5, .wait_s = 5},
	 "one processor, 93 % busy"},
	{{.process_s = 5.2, .allowed = 1, .allowed_busy_s = 2.5, .wait_s = 5}, NULL},
	/* it waited behind others, and slept as well: something else may be what it slept for */
	{{.process_s = 3, .allowed = 1, .allowed_busy_s = 5.7, .wait_s = 2}, NULL},
	{{.process_s = 0.1, .allowed = 1, .allowed_busy_s = 6, .wait_s = 3}, NULL},
	{{.process_s = 3, .allowed = 1, .allowed_busy_s = 4, .wait_s = 9}, NULL},
	/* a quota of one on a machine that is idle otherwise */
	{{.process_s = 5.9, .allowed = 1, .allowed_busy_s = 0.4}, "one processor, 98 % busy"},
	{{.process_s = 6, .allowed = 2, .allowed_busy_s = 5.8, .wait_s = 6},
	 "the 2 processors that n2 may use, 97 % busy"},
	{{.process_s = 6, .allowed = 2, .allowed_busy_s = 5.8, .wait_s = 3}, NULL},
	{{.process_s = 6, .allowed = 2, .allowed_busy_s = 3.5, .wait_s = 9}, NULL},
	/* a spinner has one of many, and we as much in little pieces; one thread has it */
	{{.process_s = 6, .allowed = 8, .allowed_busy_s = 1, .busiest = 1, .thread_s = 3}, NULL},
	{{.process_s = 6, .allowed = 8, .allowed_busy_s = 1, .busiest = 1, .thread_s = 5.8},
	 "one processor: a thread of n2 wants one 97 % of the time"},
	/* the card's interrupts all come to one */
	{{.process_s = 1, .allowed = 8, .allowed_busy_s = 1, .core_softirq_s = 5.9},
	 "one processor: one of n2 is 98 % busy with interrupts"},
	{{.process_s = 1, .allowed = 8, .allowed_busy_s = 1, .core_softirq_s = 5}, NULL},
};

/* Goal: processors limit an end that wanted them all the time. One that slept a part of it was
 * held up by something else, too, and nothing is named. */
static void test_processors(void)
{
	for (size_t i = 0; i < sizeof(processor_rows) / sizeof(processor_rows[0]); i++) {
		struct fm_bench *b = quick();
		struct fm_bench_path *p = path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", GB, 0.3);
		const char *said = processor_rows[i].said;

		p->there = processor_rows[i].cpu;
		p->there.is_known = true;
		p->there.watched_s = 6;
		(void)fm_bench_judge(b);
		fm_bench_conclude(b, 0);
		if (said) {
			CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, said));
		} else {
			CU_ASSERT_PTR_NULL(strstr(b->verdict, "limited by"));
		}
		fm_bench_free(b);
	}
}

/* Goal: processors that are full of something else are told, but not as the limit. */
static void test_perhaps_processors(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *p = path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", GB, 0.01);

	(void)fm_bench_judge(b);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NULL(strstr(b->verdict, "may be the cause"));
	p->there = (struct fm_bench_cpu){.is_known = true,
					 .watched_s = 6,
					 .process_s = 6,
					 .allowed = 2,
					 .allowed_busy_s = 5.8,
					 .wait_s = 3};
	fm_bench_conclude(b, 20 * GB);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "no limit shows; processors are full, and what "
						  "else runs there may be the cause"));
	CU_ASSERT_PTR_NULL(strstr(b->verdict, "limited by"));
	fm_bench_free(b);
}

/* Goal: loss is named, whatever it does to the rates; the little that a full wire has is not, nor
 * what was late and not lost. */
static void test_loss(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *p = path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", GB, 0.3);

	lossy(p, 10000, 100);
	CU_ASSERT_EQUAL(fm_bench_judge(b), 3);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by loss on the wire to n2: 1.0 %"));
	lossy(p, 1000, 0);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "nothing that is valid"));
	lossy(p, 10000, 9000);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "nothing that is valid"));
	lossy(p, 10000, 20000); /* of segments that were sent before it was looked */
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "nothing that is valid"));
	fm_bench_free(b);
}

/* Goal: an end without processors loses segments itself, so it is what is named; what is lost
 * beside it is told. An end that slept is no cause of it. */
static void test_processors_before_loss(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *p = path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", GB, 0.01);

	lossy(p, 10000, 100);
	p->there = (struct fm_bench_cpu){
		.is_known = true, .watched_s = 6, .process_s = 5.9, .allowed = 1};
	(void)fm_bench_judge(b);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by one processor, 98 % busy"));
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "1.0 % of the segments were lost, too"));
	p->there.process_s = 3;
	p->there.wait_s = 2;
	p->there.allowed_busy_s = 6;
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by loss on the wire to n2"));
	fm_bench_free(b);
}

/* Goal: a wire that is slow for want of processors is not called the limit; a full port is. */
static void test_put_and_processors(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *wire, *p;

	(void)path(b, FM_BENCH_DISK, FM_BENCH_READ, "/d", 7 * GB, 0.01);
	(void)path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", 4 * GB, 0.01);
	p = path(b, FM_BENCH_PUT, FM_BENCH_SEND, "n2", 3.9 * GB, 0.01);
	strcpy(p->from, "/d");
	wire = &b->paths[1];
	(void)fm_bench_judge(b);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by the wire to n2"));
	wire->here.watched_s = wire->here.process_s = 6;
	wire->here.allowed = 1;
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by one processor"));
	fm_bench_conclude(b, 4.1 * GB);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by the wire to n2"));
	p->here = wire->here; /* and all together may be slower than each alone */
	for (unsigned i = 0; i < p->repeat_count; i++)
		p->repeats[i].bytes /= 2;
	(void)fm_bench_judge(b);
	fm_bench_conclude(b, 40 * GB);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by one processor"));
	fm_bench_free(b);
}

/* Goal: what others do to a stage that is far from the limit does not hide the limit. */
static void test_noisy_stage(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *wire = path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", 2 * GB, 0.3), *p;

	(void)path(b, FM_BENCH_DISK, FM_BENCH_READ, "/d", GB / 10, 0.01);
	p = path(b, FM_BENCH_PUT, FM_BENCH_SEND, "n2", GB / 10, 0.01);
	strcpy(p->from, "/d");
	(void)fm_bench_judge(b);
	CU_ASSERT_EQUAL(wire->invalid, FM_BENCH_NOISY);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by n1's disk read at /d"));
	p->repeats[0].bytes = (uint64_t)(1.7 * GB / 10); /* the put itself, too */
	(void)fm_bench_judge(b);
	CU_ASSERT_EQUAL(p->invalid, FM_BENCH_NOISY);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "limited by n1's disk read at /d"));
	wire->is_cached = true; /* any other doubt does */
	(void)fm_bench_judge(b);
	fm_bench_conclude(b, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, "not each stage was measured"));
	fm_bench_free(b);
}

static struct fm_bench_path *alone(struct fm_bench *b, const char *device, double rate)
{
	struct fm_bench_path *p = path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", rate, 0.01);

	strcpy(p->only.device, device);
	return p;
}

static void rail_fact(struct fm_facts *f, const char *device, unsigned mbps)
{
	struct fm_facts_rail *r = fm_facts_add(f, f->rails, &f->rails_count);

	fm_fact_text(&r->device, FM_FACT_NAME, device);
	fm_fact_number(&r->speed_mbps, mbps);
}

static bool verdict_says(struct fm_bench *b, const char *text)
{
	(void)fm_bench_judge(b);
	fm_bench_conclude(b, 0);
	return strstr(b->verdict, text) != NULL;
}

/* Goal: of several wires the slow one is named, but one that is as slow as its port says is not;
 * nor is one connection slower than many. */
static void test_slow_rail(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *slow, *connection;

	(void)path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", 5 * GB, 0.01);
	(void)alone(b, "w0", 4 * GB);
	slow = alone(b, "w1", 1 * GB);
	(void)alone(b, "w2", 4.1 * GB);
	connection = path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", GB / 10, 0.01);
	connection->only.connections = 1;
	CU_ASSERT_TRUE(verdict_says(b, "tcp send n2: limited by w1, which carries 1.00 GB/s alone "
				       "where w0 carries 4.00 GB/s: 5.00 GB/s"));
	b->paths[0].repeats[0].bytes *= 2; /* what all carry together may be noisy */
	CU_ASSERT_TRUE(verdict_says(b, "limited by w1, which"));
	b->facts = fm_facts_new();
	rail_fact(b->facts, "w0", 40000);
	rail_fact(b->facts, "w1", 10000);
	CU_ASSERT_TRUE(verdict_says(b, "limited by w1, which")); /* the speed of w2 is unknown */
	rail_fact(b->facts, "w2", 40000);
	CU_ASSERT_FALSE(verdict_says(b, "limited by"));
	fm_fact_number(&b->facts->rails[1].speed_mbps, 40000);
	CU_ASSERT_TRUE(verdict_says(b, "limited by w1, which"));
	slow->repeats[2].bytes = (uint64_t)(7.9 * GB); /* beyond the noise only */
	CU_ASSERT_FALSE(verdict_says(b, "limited by"));
	fm_bench_free(b);
}

/* Goal: one that was slow at its own turn only, and not beside the others, limits nothing. */
static void test_slow_at_its_turn(void)
{
	struct fm_bench *b = quick();

	(void)path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", 11.5 * GB, 0.01);
	(void)alone(b, "w0", 4 * GB);
	(void)alone(b, "w1", 1 * GB);
	(void)alone(b, "w2", 4.1 * GB);
	CU_ASSERT_FALSE(verdict_says(b, "limited by"));
	fm_bench_free(b);
}

/* Goal: a put that the wire limits says which of the wires is slow; by rails, if a device has
 * several of them. */
static void test_slow_rail_of_put(void)
{
	struct fm_bench *b = quick();
	struct fm_bench_path *p;

	(void)path(b, FM_BENCH_DISK, FM_BENCH_READ, "/d", 9 * GB, 0.01);
	(void)path(b, FM_BENCH_TCP, FM_BENCH_SEND, "n2", 5 * GB, 0.01);
	p = alone(b, "", 4 * GB);
	strcpy(p->only.local, "10.0.0.1");
	p = alone(b, "", 1 * GB);
	strcpy(p->only.local, "10.0.1.1");
	p = path(b, FM_BENCH_PUT, FM_BENCH_SEND, "n2", 4.9 * GB, 0.01);
	strcpy(p->from, "/d");
	CU_ASSERT_TRUE(verdict_says(b, "limited by the wire to n2: 4.90 GB/s"));
	CU_ASSERT_TRUE(verdict_says(b, "; slow is 10.0.1.1, which carries 1.00 GB/s alone where "
				       "10.0.0.1 carries 4.00 GB/s"));
	fm_bench_free(b);
}

/* Goal: the sentence is about what was planted when these were measured (tests/soak/limits.sh). */
static void test_recorded(void)
{
	static const struct {
		const char *name, *said;
	} rows[] = {{"slow_disk", "limited by n1's disk read at /srv/s"},
		    {"slow_wire", "limited by the wire to n2: "},
		    {"loss", "limited by loss on the wire to n2: "},
		    {"one_processor", "limited by one processor"},
		    /* nothing planted: what else ran had both, and n1 slept a part of the time */
		    {"beside_load", "nothing that is valid was measured"}};
	char file[512];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fm_err err = {0};
		struct fm_bench *b;

		(void)snprintf(file, sizeof(file), FM_SOURCE_DIR "/tests/unit/bench_runs/%s.json",
			       rows[i].name);
		CU_ASSERT_EQUAL_FATAL(fm_bench_load(file, &b, &err), 0);
		fm_bench_conclude(b, 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(b->verdict, rows[i].said));
		fm_bench_free(b);
	}
}

/* ---- segments ---- */

static void test_segments(void)
{
	static const char snmp[] = "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
				   "Tcp: RtoAlgorithm OutSegs RetransSegs InErrs\nTcp: 1 500 7 0\n"
				   "Udp: InDatagrams\nUdp: 3\n";
	static const char ext[] = "TcpExt: TCPDSACKRecv TCPDSACKRecvSegs A\nTcpExt: 2 3 4\n";
	struct fm_tcp_watch w;

	CU_ASSERT_TRUE(fm_tcp_watch_parse(snmp, ext, &w));
	CU_ASSERT_EQUAL(w.sent, 500);
	CU_ASSERT_EQUAL(w.again, 7);
	CU_ASSERT_EQUAL(w.needless, 3);
	CU_ASSERT_FALSE(fm_tcp_watch_parse(snmp, "", &w));
	CU_ASSERT_FALSE(fm_tcp_watch_parse("", ext, &w));
	CU_ASSERT_FALSE(fm_tcp_watch_parse("Tcp: OutSegs RetransSegs\n", ext, &w));
	CU_ASSERT_FALSE(fm_tcp_watch_parse("Tcp: A OutSegs B\nTcp: 1 2 3\n", ext, &w));
	CU_ASSERT_FALSE(fm_tcp_watch_parse("Tcp: A OutSegs RetransSegs\nTcp: 1 2\n", ext, &w));
	CU_ASSERT_FALSE(w.is_known);
}

static const struct fm_test tests[] = {
	{"what is valid", test_valid},
	{"what is not, and why", test_not_valid},
	{"the planted limit is named", test_planted_limits},
	{"only beyond the noise", test_beyond_the_noise},
	{"of a whole run", test_runs},
	{"processors that have nothing left are named", test_processors},
	{"processors that may be the cause", test_perhaps_processors},
	{"loss is named", test_loss},
	{"full processors before loss", test_processors_before_loss},
	{"full processors and no slow wire", test_put_and_processors},
	{"a noisy stage is no limit", test_noisy_stage},
	{"the rate of small transfers in turn is none", test_latency_is_no_rate},
	{"of several wires the slow one is named", test_slow_rail},
	{"a wire that was slow at its turn only", test_slow_at_its_turn},
	{"a put says which wire is slow", test_slow_rail_of_put},
	{"of recorded runs", test_recorded},
	{"segments sent again", test_segments},
};
FM_TEST_MAIN("bench verdict", tests)
