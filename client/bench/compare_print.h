/* SPDX-License-Identifier: MIT */
/* compare_print - fmove bench compare: files of measurements, loaded, compared and printed. */
#ifndef FM_BENCH_COMPARE_PRINT_H
#define FM_BENCH_COMPARE_PRINT_H

#include <stdbool.h>
#include <stddef.h>

struct fm_err;

#define FM_COMPARE_MAX 16u

/*
 * Load and print, as a table or as a page. Its status: 0; 3: something that is compared is not
 * valid. Or -errno.
 */
int fm_compare_print(char *const *files, size_t count, bool is_page, struct fm_err *err);

#endif
