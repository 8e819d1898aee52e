/* SPDX-License-Identifier: MIT */
/* test_metrics - the text that Prometheus reads, byte by byte; what is asked for and what fits.
 * links: fm_metrics */
#include "mover/metrics/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/histogram.h"
#include "tests/fm_test.h"

enum { UP, BYTES, SECONDS, EMPTY, COUNT };

static const struct fm_metric table[] = {
	[UP] = {"t_up", FM_METRIC_GAUGE, "Whether it is up."},
	[BYTES] = {"t_bytes", FM_METRIC_COUNTER, "Bytes moved."},
	[SECONDS] = {"t_seconds", FM_METRIC_HISTOGRAM, "How long it took."},
	[EMPTY] = {"t_empty", FM_METRIC_GAUGE, "There is none."},
};

static const struct fm_metrics_label peer[] = {{"peer", "n1"}, {NULL, NULL}};

static char *written(const struct fm_metrics *m, enum fm_metrics_format format)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	CU_ASSERT_PTR_NOT_NULL_FATAL(to);
	fm_metrics_write(m, format, to);
	CU_ASSERT_EQUAL(fclose(to), 0);
	return text;
}

static void check(const struct fm_metrics *m, enum fm_metrics_format format, const char *want)
{
	char *text = written(m, format);

	CU_ASSERT_STRING_EQUAL(text, want);
	free(text);
}

/* The samples of a metric stand together, in whichever order they came. */
static struct fm_metrics *sample_page(void)
{
	struct fm_metrics *m = fm_metrics_new(table, COUNT);
	struct fm_histogram h = {.sum_ns = 0};

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	fm_histogram_add(&h, FM_NS_PER_S / 100);	/* a bound is in its bucket */
	fm_histogram_add(&h, 2 * FM_NS_PER_S);
	fm_histogram_add(&h, 21601 * FM_NS_PER_S);
	fm_metrics_add(m, BYTES, 9007199254740992.0, peer);
	fm_metrics_add(m, UP, 1, NULL);
	fm_metrics_add_histogram(m, SECONDS, &h, peer);
	fm_metrics_add(m, BYTES, 0.5, NULL);
	return m;
}

#define BUCKETS                                                                                    \
	"t_seconds_bucket{peer=\"n1\",le=\"0.01\"} 1\n"                                            \
	"t_seconds_bucket{peer=\"n1\",le=\"0.1\"} 1\n"                                             \
	"t_seconds_bucket{peer=\"n1\",le=\"1.0\"} 1\n"                                             \
	"t_seconds_bucket{peer=\"n1\",le=\"10.0\"} 2\n"                                            \
	"t_seconds_bucket{peer=\"n1\",le=\"60.0\"} 2\n"                                            \
	"t_seconds_bucket{peer=\"n1\",le=\"600.0\"} 2\n"                                           \
	"t_seconds_bucket{peer=\"n1\",le=\"3600.0\"} 2\n"                                          \
	"t_seconds_bucket{peer=\"n1\",le=\"21600.0\"} 2\n"                                         \
	"t_seconds_bucket{peer=\"n1\",le=\"+Inf\"} 3\n"                                            \
	"t_seconds_sum{peer=\"n1\"} 21603.01\n"                                                    \
	"t_seconds_count{peer=\"n1\"} 3\n"

static void test_text(void)
{
	struct fm_metrics *m = sample_page();

	check(m, FM_METRICS_TEXT,
	      "# HELP t_up Whether it is up.\n# TYPE t_up gauge\nt_up 1\n"
	      "# HELP t_bytes_total Bytes moved.\n# TYPE t_bytes_total counter\n"
	      "t_bytes_total{peer=\"n1\"} 9007199254740992\nt_bytes_total 0.5\n"
	      "# HELP t_seconds How long it took.\n# TYPE t_seconds histogram\n" BUCKETS
	      "# HELP t_empty There is none.\n# TYPE t_empty gauge\n");
	fm_metrics_free(m);
}

static void test_openmetrics(void)
{
	struct fm_metrics *m = sample_page();

	check(m, FM_METRICS_OPENMETRICS,
	      "# HELP t_up Whether it is up.\n# TYPE t_up gauge\nt_up 1\n"
	      "# HELP t_bytes Bytes moved.\n# TYPE t_bytes counter\n"
	      "t_bytes_total{peer=\"n1\"} 9007199254740992\nt_bytes_total 0.5\n"
	      "# HELP t_seconds How long it took.\n# TYPE t_seconds histogram\n" BUCKETS
	      "# HELP t_empty There is none.\n# TYPE t_empty gauge\n# EOF\n");
	fm_metrics_free(m);
}

static void test_escapes(void)
{
	const struct fm_metrics_label labels[] = {
		{"a", "q\"b\\s\nn"}, {"none", NULL}, {"b", "\xc3\xa9 \xff\xc3"}, {NULL, NULL}};
	struct fm_metrics *m = fm_metrics_new(table, 1);

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	fm_metrics_add(m, UP, 0, labels);
	check(m, FM_METRICS_TEXT,
	      "# HELP t_up Whether it is up.\n# TYPE t_up gauge\n"
	      "t_up{a=\"q\\\"b\\\\s\\nn\",b=\"\xc3\xa9 ??\"} 0\n");
	fm_metrics_free(m);
}

/* What does not fit is counted, leaves nothing of it behind, and the next page begins anew. */
static void test_full(void)
{
	static char large[FM_METRICS_LABELS_MAX / 4];
	const struct fm_metrics_label labels[] = {{"a", large}, {NULL, NULL}};
	struct fm_metrics *m = fm_metrics_new(table, 1);

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	memset(large, 'x', sizeof(large) - 1);
	for (unsigned i = 0; i < 5; i++)
		fm_metrics_add(m, UP, i, labels);
	CU_ASSERT_EQUAL(fm_metrics_left_out(m), 2);
	for (unsigned i = 3; i < FM_METRICS_SAMPLES_MAX + 7; i++)
		fm_metrics_add(m, UP, i, NULL);
	CU_ASSERT_EQUAL(fm_metrics_left_out(m), 2 + 7);
	fm_metrics_clear(m);
	CU_ASSERT_EQUAL(fm_metrics_left_out(m), 0);
	fm_metrics_add(m, UP, 7, peer);
	check(m, FM_METRICS_TEXT,
	      "# HELP t_up Whether it is up.\n# TYPE t_up gauge\nt_up{peer=\"n1\"} 7\n");
	fm_metrics_free(m);
}

/* However many values with labels there are: each of the table without labels has its place. */
static void check_kept(const char *text_of_label, unsigned count)
{
	const struct fm_metrics_label labels[] = {{"a", text_of_label}, {NULL, NULL}};
	struct fm_metrics *m = fm_metrics_new(table, COUNT);
	unsigned left_out;

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	for (unsigned i = 0; i < count; i++)
		fm_metrics_add(m, BYTES, i, labels);
	left_out = fm_metrics_left_out(m);
	CU_ASSERT_TRUE(left_out > 0);
	for (unsigned i = 0; i < COUNT; i++)
		fm_metrics_add(m, i, 1, NULL);
	CU_ASSERT_EQUAL(fm_metrics_left_out(m), left_out);
	fm_metrics_free(m);
}

/* The samples are used up, then the bytes of labels to the last one. */
static void test_kept(void)
{
	static char label[FM_METRICS_LABELS_MAX / 4];

	check_kept("x", FM_METRICS_SAMPLES_MAX + 1);
	for (size_t len = sizeof(label) - 8; len < sizeof(label); len++) {
		memset(label, 'x', len);
		label[len] = '\0';
		check_kept(label, 5);
	}
}

static void test_accept(void)
{
	static const char *const text[] = {
		NULL, "", "*/*", "text/plain", ",,;", "application/openmetrics-text;q=0",
		"application/openmetrics-text;version=0.0.1",
		"application/openmetrics-text; q=0.5, text/plain;q=0.6",
		"application/openmetrics-textual", "application/openmetrics-text;version=2.0.0"};
	static const char *const open[] = {
		"application/openmetrics-text", "APPLICATION/OpenMetrics-Text; Version=1.0.0",
		"text/plain;q=0.5, application/openmetrics-text;version=1.0.0;q=0.5",
		/* Prometheus 2.42 */
		"application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
		"version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"};

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		CU_ASSERT_EQUAL(fm_metrics_accepted(text[i]), FM_METRICS_TEXT);
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		CU_ASSERT_EQUAL(fm_metrics_accepted(open[i]), FM_METRICS_OPENMETRICS);
}

static const struct fm_test tests[] = {
	{"text 0.0.4", test_text},
	{"OpenMetrics", test_openmetrics},
	{"labels from outside are escaped", test_escapes},
	{"what does not fit", test_full},
	{"what has no labels has a place", test_kept},
	{"what a client accepts", test_accept},
};
FM_TEST_MAIN("metrics", tests)
