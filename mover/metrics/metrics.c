/* SPDX-License-Identifier: MIT */
/*
 * metrics - see metrics.h.
 *
 * The samples of one metric are a list in the order in which they came, by their places in one
 * array. Labels are escaped when they are added, and end with a NUL in one text.
 */
#include "mover/metrics/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/histogram.h"
#include "mover/base/utf8.h"

#define NONE UINT32_MAX			/* no sample */

struct sample {
	uint32_t next;
	uint32_t labels;		/* where in the text; "": it has none */
	union {
		double value;
		struct fm_histogram histogram;
	};
};

struct list {
	uint32_t first, last;
};

struct fm_metrics {
	const struct fm_metric *table;
	unsigned count;
	unsigned left_out;
	uint32_t sample_count;
	uint32_t text_len;
	struct list *lists;		/* of each of the table */
	struct sample *samples;
	char *text;
};

struct fm_metrics *fm_metrics_new(const struct fm_metric *table, unsigned count)
{
	struct fm_metrics *m = FM_FAULT("metrics.new") ? NULL : calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->table = table;
	m->count = count;
	m->lists = calloc(count, sizeof(*m->lists));
	/* Pages that are never written to take no memory. */
	m->samples = malloc(FM_METRICS_SAMPLES_MAX * sizeof(*m->samples));
	m->text = malloc(FM_METRICS_LABELS_MAX);
	if (!m->lists || !m->samples || !m->text) {
		fm_metrics_free(m);
		return NULL;
	}
	fm_metrics_clear(m);
	return m;
}

void fm_metrics_free(struct fm_metrics *m)
{
	if (!m)
		return;
	free(m->lists);
	free(m->samples);
	free(m->text);
	free(m);
}

void fm_metrics_clear(struct fm_metrics *m)
{
	for (unsigned i = 0; i < m->count; i++)
		m->lists[i] = (struct list){NONE, NONE};
	m->left_out = m->sample_count = m->text_len = 0;
}

unsigned fm_metrics_left_out(const struct fm_metrics *m)
{
	return m->left_out;
}

/* ---- filling ---- */

/* What has no labels takes an end of a text, and a sample: so much of both is kept, one for each
 * of the table. */
static uint32_t kept(const struct fm_metrics *m, bool has_labels)
{
	return has_labels ? m->count : 0;
}

static bool put(struct fm_metrics *m, const char *bytes, size_t len)
{
	if (len > FM_METRICS_LABELS_MAX - m->text_len)
		return false;
	memcpy(m->text + m->text_len, bytes, len);
	m->text_len += (uint32_t)len;
	return true;
}

/* What is no UTF-8 becomes question marks, and what the format wants escaped is. */
static bool put_value(struct fm_metrics *m, const char *value)
{
	size_t left = strlen(value), len;
	bool fits = true;

	for (; left > 0 && fits; value += len, left -= len) {
		len = fm_utf8_len(value, left);
		if (len == 0) {
			len = 1;
			fits = put(m, "?", 1);
		} else if (*value == '\n') {
			fits = put(m, "\\n", 2);
		} else if (*value == '"' || *value == '\\') {
			fits = put(m, "\\", 1) && put(m, value, 1);
		} else {
			fits = put(m, value, len);
		}
	}
	return fits;
}

static bool put_labels(struct fm_metrics *m, const struct fm_metrics_label *labels)
{
	bool fits = true, is_first = true;

	for (; labels && labels->name && fits; labels++) {
		if (!labels->value)
			continue;
		fits = (is_first || put(m, ",", 1)) && put(m, labels->name, strlen(labels->name)) &&
		       put(m, "=\"", 2) && put_value(m, labels->value) && put(m, "\"", 1);
		is_first = false;
	}
	return fits && m->text_len + kept(m, labels) < FM_METRICS_LABELS_MAX && put(m, "", 1);
}

/* A new one at the end of the list; NULL: there is no room. */
static struct sample *add(struct fm_metrics *m, unsigned which,
			  const struct fm_metrics_label *labels)
{
	struct list *list = &m->lists[which];
	uint32_t at = m->sample_count, text = m->text_len;

	if (at + kept(m, labels) >= FM_METRICS_SAMPLES_MAX || !put_labels(m, labels)) {
		m->text_len = text;
		m->left_out++;
		return NULL;
	}
	m->sample_count++;
	m->samples[at].next = NONE;
	m->samples[at].labels = text;
	if (list->first == NONE)
		list->first = at;
	else
		m->samples[list->last].next = at;
	list->last = at;
	return &m->samples[at];
}

void fm_metrics_add(struct fm_metrics *m, unsigned which, double value,
		    const struct fm_metrics_label *labels)
{
	struct sample *s = add(m, which, labels);

	if (s)
		s->value = value;
}

void fm_metrics_add_histogram(struct fm_metrics *m, unsigned which, const struct fm_histogram *h,
			      const struct fm_metrics_label *labels)
{
	struct sample *s = add(m, which, labels);

	if (s)
		s->histogram = *h;
}

/* ---- what the client wants ---- */

#define OPENMETRICS "application/openmetrics-text"

/* The value of a parameter of one item of Accept, in thousandths: q, or a version. */
static unsigned parameter(const char *item, size_t len, const char *name, unsigned otherwise)
{
	size_t name_len = strlen(name);

	for (const char *at = memchr(item, ';', len), *end = item + len; at;
	     at = memchr(at, ';', (size_t)(end - at))) {
		at++;
		at += strspn(at, " \t");
		if (at >= end)
			break;
		if ((size_t)(end - at) > name_len && strncasecmp(at, name, name_len) == 0) {
			unsigned value = 0, scale = 100;

			for (at += name_len; at < end && *at >= '0' && *at <= '9'; at++)
				value = value < 1000 ? value * 10 + (unsigned)(*at - '0') : value;
			value *= 1000;
			for (at += at < end && *at == '.'; at < end && *at >= '0' && *at <= '9';
			     at++, scale /= 10)
				value += (unsigned)(*at - '0') * scale;
			return value;
		}
	}
	return otherwise;
}

static bool is_type(const char *item, size_t len, const char *type)
{
	size_t type_len = strlen(type);

	return len >= type_len && strncasecmp(item, type, type_len) == 0 &&
	       (len == type_len || strchr("; \t", item[type_len]));
}

enum fm_metrics_format fm_metrics_accepted(const char *accept)
{
	unsigned text = 0, open = 0;

	for (const char *item = accept ? accept : ""; *item;) {
		size_t len = strcspn(item, ","), blanks = strspn(item, " \t");
		const char *at = item + blanks;
		size_t rest = len > blanks ? len - blanks : 0;
		unsigned q = parameter(at, rest, "q=", 1000);

		if (is_type(at, rest, OPENMETRICS)) {
			if (parameter(at, rest, "version=", 1000) == 1000 && q > open)
				open = q;
		} else if (is_type(at, rest, "text/plain") && q > text) {
			text = q;
		}
		item += len + (item[len] == ',');
	}
	return open > 0 && open >= text ? FM_METRICS_OPENMETRICS : FM_METRICS_TEXT;
}

const char *fm_metrics_content_type(enum fm_metrics_format format)
{
	return format == FM_METRICS_OPENMETRICS ? OPENMETRICS "; version=1.0.0; charset=utf-8"
						: "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- writing ---- */

static void write_head(const struct fm_metric *metric, enum fm_metrics_format format, FILE *to)
{
	static const char *const types[] = {"gauge", "counter", "histogram"};
	bool has_total = metric->type == FM_METRIC_COUNTER && format == FM_METRICS_TEXT;
	const char *total = has_total ? "_total" : "";

	(void)fprintf(to, "# HELP %s%s %s\n# TYPE %s%s %s\n", metric->name, total, metric->help,
		      metric->name, total, types[metric->type]);
}

/* Integers are exact up to 2^53, as they are for who reads them. */
static void write_value(const char *name, const char *suffix, const char *labels, double value,
			FILE *to)
{
	(void)fprintf(to, "%s%s%s%s%s %.16g\n", name, suffix, *labels ? "{" : "", labels,
		      *labels ? "}" : "", value);
}

static void write_histogram(const char *name, const char *labels, const struct fm_histogram *h,
			    FILE *to)
{
	uint64_t count = 0;

	for (unsigned i = 0; i <= FM_HISTOGRAM_BOUNDS; i++) {
		const char *bound = i < FM_HISTOGRAM_BOUNDS ? fm_histogram_bounds[i].seconds
							    : "+Inf";

		count += h->count[i];
		(void)fprintf(to, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels,
			      *labels ? "," : "", bound, count);
	}
	write_value(name, "_sum", labels, (double)h->sum_ns / (double)FM_NS_PER_S, to);
	write_value(name, "_count", labels, (double)count, to);
}

void fm_metrics_write(const struct fm_metrics *m, enum fm_metrics_format format, FILE *to)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct fm_metric *metric = &m->table[i];

		write_head(metric, format, to);
		for (uint32_t at = m->lists[i].first; at != NONE; at = m->samples[at].next) {
			const struct sample *s = &m->samples[at];
			const char *labels = m->text + s->labels;

			if (metric->type == FM_METRIC_HISTOGRAM)
				write_histogram(metric->name, labels, &s->histogram, to);
			else
				write_value(metric->name,
					    metric->type == FM_METRIC_COUNTER ? "_total" : "",
					    labels, s->value, to);
		}
	}
	if (format == FM_METRICS_OPENMETRICS)
		(void)fputs("# EOF\n", to);
}
