/* SPDX-License-Identifier: MIT */
/*
 * report - a measurement for people, as a document, as CSV or as a page. On standard output;
 * fm_stdout_end() looks for errors.
 */
#ifndef FM_BENCH_REPORT_H
#define FM_BENCH_REPORT_H

#include "client/bench/measure.h"

enum fm_bench_form { FM_BENCH_TABLE, FM_BENCH_JSON, FM_BENCH_CSV, FM_BENCH_HTML };

/* -ENOMEM, -EMSGSIZE. */
int fm_bench_print(const struct fm_bench *bench, enum fm_bench_form form, int exit);

#endif
