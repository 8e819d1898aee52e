/* SPDX-License-Identifier: MIT */
/*
 * stats - rates of repeats, latencies of operations, and what of two series overlaps in time. Pure
 * functions.
 */
#ifndef FM_BENCH_STATS_H
#define FM_BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

struct fm_bench_repeat {
	uint64_t bytes;
	double seconds;
};

/* Bytes a second, but for cv: the standard deviation as a share of the mean (n - 1; 0: of one). */
struct fm_bench_rates {
	double median, min, max, cv;
};

/* Repeats of less than a millisecond have no rate and do not count. All 0: none counts. */
#define FM_BENCH_SECONDS_MIN 0.001
void fm_bench_rates(const struct fm_bench_repeat *repeats, size_t count,
		    struct fm_bench_rates *out);

/* ---- latencies ---- */

/* Each power of two has 32 places: a value is at most 1/32 more than what is told of it. */
#define FM_HISTOGRAM_SUB    32u
#define FM_HISTOGRAM_PLACES (FM_HISTOGRAM_SUB * 60u)

struct fm_histogram {
	uint64_t count, max_ns;
	uint64_t places[FM_HISTOGRAM_PLACES];
};

/* Seconds. */
struct fm_bench_latency {
	uint64_t count;
	double p50, p90, p99, p999, max;
};

void fm_histogram_add(struct fm_histogram *h, uint64_t ns);

/* The least value that this share (0 .. 1) of all is not above, in ns; 0: there is none. */
uint64_t fm_histogram_at(const struct fm_histogram *h, double share);
void fm_histogram_latency(const struct fm_histogram *h, struct fm_bench_latency *out);

/* ---- two at once ---- */

/* How many bytes there were at a time; times do not go back. */
struct fm_bench_sample {
	uint64_t at_ns, bytes;
};

/* What a series moved between two times, interpolated. */
double fm_bench_moved(const struct fm_bench_sample *samples, size_t count, uint64_t from_ns,
		      uint64_t to_ns);

/*
 * The sum of what both moved while both moved anything. Its seconds are those of the overlap; 0:
 * there is none.
 */
struct fm_bench_repeat fm_bench_overlap(const struct fm_bench_sample *a, size_t a_count,
					const struct fm_bench_sample *b, size_t b_count);

#endif
