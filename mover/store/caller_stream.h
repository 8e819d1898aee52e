/* SPDX-License-Identifier: MIT */
/*
 * caller_stream - a pipe, socket, terminal or half-read file that a caller handed over: bytes in
 * order, one operation at a time.
 */
#ifndef FM_STORE_CALLER_STREAM_H
#define FM_STORE_CALLER_STREAM_H

#include <stdbool.h>

struct fm_err;
struct fm_file;

/* fd is taken over, also on error. note: NULL or static. */
int fm_caller_stream_new(int fd, bool is_sink, const char *note, struct fm_file **out,
			 struct fm_err *err);

#endif
