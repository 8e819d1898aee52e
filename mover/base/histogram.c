/* SPDX-License-Identifier: MIT */
/* histogram - see histogram.h. */
#include "mover/base/histogram.h"

#include "mover/base/env.h"

const struct fm_histogram_bound fm_histogram_bounds[FM_HISTOGRAM_BOUNDS] = {
	{FM_NS_PER_S / 100, "0.01"}, {FM_NS_PER_S / 10, "0.1"},	  {FM_NS_PER_S, "1.0"},
	{10 * FM_NS_PER_S, "10.0"},  {60 * FM_NS_PER_S, "60.0"},  {600 * FM_NS_PER_S, "600.0"},
	{3600 * FM_NS_PER_S, "3600.0"}, {21600 * FM_NS_PER_S, "21600.0"},
};

void fm_histogram_add(struct fm_histogram *h, uint64_t ns)
{
	unsigned i = 0;

	while (i < FM_HISTOGRAM_BOUNDS && ns > fm_histogram_bounds[i].ns)
		i++;
	h->count[i]++;
	h->sum_ns += ns;
}
