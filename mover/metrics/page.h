/* SPDX-License-Identifier: MIT */
/* page - a snapshot as what a client gets. Any thread, one at a time. */
#ifndef FM_METRICS_PAGE_H
#define FM_METRICS_PAGE_H

#include "mover/metrics/metrics.h"

/*
 * Adds what every process has (first: where those rows begin in the table) and writes it all, in
 * the form that the header Accept asks for. *body is malloc()ed. -ENOMEM.
 */
int fm_page_make(struct fm_metrics *m, unsigned first, const char *accept, char **body, size_t *len,
		 const char **type);

#endif
