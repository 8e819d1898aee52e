/* SPDX-License-Identifier: MIT */
/*
 * progress - the one line on a terminal that says how far a transfer is: bytes, share, rate, time
 * left, connections. Into a file: nothing.
 */
#ifndef FM_CLIENT_PROGRESS_H
#define FM_CLIENT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/fmove.h"

struct fm_progress {
	bool is_on;
	bool is_shown;		/* a line stands on the terminal */
	char label[128];	/* what is moved, fit to be shown */
	uint64_t bytes_before;	/* at the report before this one, for the rate */
	uint64_t at_ns;
	double rate;		/* bytes a second, smoothed */
};

/* For one transfer. Off if is_quiet, or if standard error is no terminal. */
void fm_progress_begin(struct fm_progress *p, const char *label, bool is_quiet);

/* struct fmove_options.progress, with a struct fm_progress as its ctx. */
void fm_progress_show(void *ctx, const struct fmove_progress *now);

/* Wipe the line. */
void fm_progress_end(struct fm_progress *p);

/* Columns of the terminal that standard error is. */
int fm_progress_width(void);

/* How many bytes of a text fit so many columns, of which the last stays free, since it makes some
 * terminals wrap; no half of a character. */
size_t fm_progress_fit(const char *text, int width);

/* Puts a text in the place of the line that stands there, cut to that terminal: a line that wraps
 * would stay when the next one comes. */
void fm_progress_put(const char *text);

/* The line itself, for a transfer at `rate`: the label has what the rest leaves of width. */
void fm_progress_line(const char *label, const struct fmove_progress *now, double rate, int width,
		      char *out, size_t cap);

#endif
