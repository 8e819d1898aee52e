/* SPDX-License-Identifier: MIT */
/*
 * metrics - a snapshot of what a daemon counts, and the text that Prometheus reads: its text format
 * 0.0.4, or OpenMetrics 1.0.
 *
 * Who fills a snapshot only copies numbers and short texts, in any order; who writes it sorts them
 * by metric. So the filling can be done where the numbers are, and the writing elsewhere. One
 * thread at a time. It is bounded: what does not fit is counted. Values without labels, such as
 * that count, have a place kept for each of the table.
 */
#ifndef FM_METRICS_H
#define FM_METRICS_H

#include <stdio.h>

struct fm_histogram;

#define FM_METRICS_SAMPLES_MAX 16384u
#define FM_METRICS_LABELS_MAX (2u << 20)	/* bytes of all labels together */

enum fm_metric_type { FM_METRIC_GAUGE, FM_METRIC_COUNTER, FM_METRIC_HISTOGRAM };

struct fm_metric {
	const char *name;		/* of a counter: without the _total that it is read with */
	enum fm_metric_type type;
	const char *help;		/* a sentence, without backslashes, quotes and newlines */
};

struct fm_metrics_label {
	const char *name;
	const char *value;		/* any bytes; NULL: the label is left out */
};

struct fm_metrics;

/* table: outlives it. NULL: no memory. */
struct fm_metrics *fm_metrics_new(const struct fm_metric *table, unsigned count);
void fm_metrics_free(struct fm_metrics *m);	/* NULL is allowed */

void fm_metrics_clear(struct fm_metrics *m);

/*
 * One value of table[which]; labels end with a name that is NULL, and are copied. NULL: none. The
 * same labels twice make a page that nobody reads: that is the caller's to see to.
 */
void fm_metrics_add(struct fm_metrics *m, unsigned which, double value,
		    const struct fm_metrics_label *labels);
void fm_metrics_add_histogram(struct fm_metrics *m, unsigned which, const struct fm_histogram *h,
			      const struct fm_metrics_label *labels);

/* How many did not fit since it was cleared. */
unsigned fm_metrics_left_out(const struct fm_metrics *m);

enum fm_metrics_format { FM_METRICS_TEXT, FM_METRICS_OPENMETRICS };

/* What a client that says so in its header Accept wants (NULL: says nothing), and how the answer is
 * called. */
enum fm_metrics_format fm_metrics_accepted(const char *accept);
const char *fm_metrics_content_type(enum fm_metrics_format format);

/* Every metric of the table, those without a value too. Errors are the stream's. */
void fm_metrics_write(const struct fm_metrics *m, enum fm_metrics_format format, FILE *to);

#endif
