/* SPDX-License-Identifier: MIT */
/*
 * page - one measurement, or several side by side, as one HTML page with plots, on standard output.
 *
 * It is whole by itself: the plots are SVG within it, and nothing is loaded or run. All that came
 * from a machine or a document is escaped. The documents themselves stand at its end.
 */
#ifndef FM_BENCH_PAGE_H
#define FM_BENCH_PAGE_H

#include <stddef.h>

#include "client/bench/measure.h"

/* names: of the measurements. exit: for their documents. -ENOMEM, -EMSGSIZE. */
int fm_page_print(const char *const *names, const struct fm_bench *const *all, size_t count,
		  int exit);

#endif
