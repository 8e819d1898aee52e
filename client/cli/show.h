/* SPDX-License-Identifier: MIT */
/*
 * show - names, sizes and times as people read them. Any thread.
 */
#ifndef FM_CLIENT_SHOW_H
#define FM_CLIENT_SHOW_H

#include <stddef.h>
#include <stdint.h>

#define FM_SHOW_MAX 32		/* any number with its unit */

/*
 * Bytes as one line: what is not plain (base/plain.h) becomes \n, \t, \xNN. Cut to cap.
 * Returns out.
 */
char *fm_show(const char *text, size_t len, char *out, size_t cap);

/* "1.07 GB", "512 B": decimal units, three digits. Returns out. */
char *fm_show_bytes(uint64_t bytes, char out[static FM_SHOW_MAX]);

/* "1.31 GB/s" */
char *fm_show_rate(double bytes_per_s, char out[static FM_SHOW_MAX]);

/*
 * "1.07 GB of 10.0 GB used", and ", 20.0 MB of it still to come" if something is: of what a cache
 * may take. Returns out.
 */
#define FM_SHOW_FILL_MAX (3 * FM_SHOW_MAX + 48)
char *fm_show_fill(uint64_t used, uint64_t size, uint64_t promised,
		   char out[static FM_SHOW_FILL_MAX]);

/* "0:07", "1:02:03" */
char *fm_show_time(uint64_t seconds, char out[static FM_SHOW_MAX]);

/* "2025-01-31 12:34:56", here, of Unix time; "" for 0. Returns out. */
char *fm_show_date(int64_t ms, char out[static FM_SHOW_MAX]);

/* "directory", "directories" */
const char *fm_show_directories(uint64_t n);

/* "1,073,741,824" */
char *fm_show_count(uint64_t n, char out[static FM_SHOW_MAX]);

#endif
