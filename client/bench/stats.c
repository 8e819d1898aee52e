/* SPDX-License-Identifier: MIT */
/* stats - see stats.h. */
#include "client/bench/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rates ---- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

#define RATES_MAX 64u

static double deviation(const double *rate, size_t count, double mean)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (rate[i] - mean) * (rate[i] - mean);
	return count > 1 ? sqrt(sum / (double)(count - 1)) : 0;
}

void fm_bench_rates(const struct fm_bench_repeat *repeats, size_t count, struct fm_bench_rates *out)
{
	double rate[RATES_MAX], sum = 0;
	size_t n = 0;

	*out = (struct fm_bench_rates){0};
	for (size_t i = 0; i < count && n < RATES_MAX; i++)
		if (repeats[i].seconds >= FM_BENCH_SECONDS_MIN)
			rate[n++] = (double)repeats[i].bytes / repeats[i].seconds;
	if (n == 0)
		return;
	qsort(rate, n, sizeof(rate[0]), by_size);
	for (size_t i = 0; i < n; i++)
		sum += rate[i];
	out->min = rate[0];
	out->max = rate[n - 1];
	out->median = (rate[(n - 1) / 2] + rate[n / 2]) / 2;
	out->cv = sum > 0 ? deviation(rate, n, sum / (double)n) / (sum / (double)n) : 0;
}

/* ---- latencies ---- */

/* Values below 32 have a place each; above, the five bits behind the leading one say which. */
static size_t place_of(uint64_t ns)
{
	unsigned shift = 0;

	while (ns >> shift >= 2 * FM_HISTOGRAM_SUB)
		shift++;
	return shift * FM_HISTOGRAM_SUB + (size_t)(ns >> shift);
}

/* The greatest value of a place. */
static uint64_t value_of(size_t place)
{
	unsigned shift =
		place < 2 * FM_HISTOGRAM_SUB ? 0 : (unsigned)(place / FM_HISTOGRAM_SUB) - 1;
	uint64_t top = place - (size_t)shift * FM_HISTOGRAM_SUB;

	return ((top + 1) << shift) - 1;
}

void fm_histogram_add(struct fm_histogram *h, uint64_t ns)
{
	size_t place = place_of(ns);

	h->places[place < FM_HISTOGRAM_PLACES ? place : FM_HISTOGRAM_PLACES - 1]++;
	h->count++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

uint64_t fm_histogram_at(const struct fm_histogram *h, double share)
{
	double wanted = ceil(share * (double)h->count);
	uint64_t seen = 0;

	if (h->count == 0)
		return 0;
	for (size_t i = 0; i < FM_HISTOGRAM_PLACES; i++) {
		seen += h->places[i];
		if (seen > 0 && (double)seen >= wanted)
			return value_of(i) < h->max_ns ? value_of(i) : h->max_ns;
	}
	return h->max_ns;
}

void fm_histogram_latency(const struct fm_histogram *h, struct fm_bench_latency *out)
{
	*out = (struct fm_bench_latency){
		.count = h->count,
		.p50 = (double)fm_histogram_at(h, 0.5) / 1e9,
		.p90 = (double)fm_histogram_at(h, 0.9) / 1e9,
		.p99 = (double)fm_histogram_at(h, 0.99) / 1e9,
		.p999 = (double)fm_histogram_at(h, 0.999) / 1e9,
		.max = (double)h->max_ns / 1e9,
	};
}

/* ---- two at once ---- */

static double bytes_at(const struct fm_bench_sample *s, size_t count, uint64_t at_ns)
{
	size_t i = 0;
	double share;

	if (count == 0)
		return 0;
	while (i < count && s[i].at_ns <= at_ns)
		i++;
	if (i == 0 || i == count)
		return (double)s[i == 0 ? 0 : count - 1].bytes;
	share = (double)(at_ns - s[i - 1].at_ns) / (double)(s[i].at_ns - s[i - 1].at_ns);
	return (double)s[i - 1].bytes + share * ((double)s[i].bytes - (double)s[i - 1].bytes);
}

double fm_bench_moved(const struct fm_bench_sample *s, size_t count, uint64_t from_ns,
		      uint64_t to_ns)
{
	return to_ns > from_ns ? bytes_at(s, count, to_ns) - bytes_at(s, count, from_ns) : 0;
}

/* From the last sample before the first byte moves to the last one. */
static void busy(const struct fm_bench_sample *s, size_t count, uint64_t *from_ns, uint64_t *to_ns)
{
	size_t first = 0, last = count > 0 ? count - 1 : 0;

	while (first < last && s[first + 1].bytes == s[0].bytes)
		first++;
	while (last > first && s[last - 1].bytes == s[count - 1].bytes)
		last--;
	*from_ns = count > 0 ? s[first].at_ns : 0;
	*to_ns = count > 0 ? s[last].at_ns : 0;
}

struct fm_bench_repeat fm_bench_overlap(const struct fm_bench_sample *a, size_t a_count,
					const struct fm_bench_sample *b, size_t b_count)
{
	struct fm_bench_repeat sum = {0};
	uint64_t from_a, to_a, from_b, to_b, from, to;

	busy(a, a_count, &from_a, &to_a);
	busy(b, b_count, &from_b, &to_b);
	from = from_a > from_b ? from_a : from_b;
	to = to_a < to_b ? to_a : to_b;
	if (to <= from)
		return sum;
	sum.seconds = (double)(to - from) / 1e9;
	sum.bytes = (uint64_t)(fm_bench_moved(a, a_count, from, to) +
			       fm_bench_moved(b, b_count, from, to));
	return sum;
}
