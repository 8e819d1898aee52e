/* SPDX-License-Identifier: MIT */
/*
 * top_screen - a terminal to draw on: the one place that knows ncurses.
 *
 * One thread. The caller catches the signals that are to end it (interrupt.h) before
 * fm_top_screen_begin(), and calls fm_top_screen_end() on each way out. A window that changes its
 * size, and Ctrl-Z and its end, are dealt with here.
 */
#ifndef FM_CLIENT_TOP_SCREEN_H
#define FM_CLIENT_TOP_SCREEN_H

#include <stdbool.h>

#include "client/cli/top_frame.h"

struct fm_err;

enum fm_top_key {
	FM_TOP_KEY_NONE,  /* no further key was pressed */
	FM_TOP_KEY_OTHER, /* nothing of these, or another size: to be drawn again */
	FM_TOP_KEY_QUIT,
	FM_TOP_KEY_HELP,
	FM_TOP_KEY_SORT,
	FM_TOP_KEY_UP,
	FM_TOP_KEY_DOWN,
	FM_TOP_KEY_PAGE_UP,
	FM_TOP_KEY_PAGE_DOWN,
	FM_TOP_KEY_HOME,
	FM_TOP_KEY_SECTION /* + 0 for the first section, and so on */
};

/* -ENOTTY: standard input or output is no terminal, or one that cannot be drawn on; with a next
 * step. The terminal is ours until the end. */
int fm_top_screen_begin(struct fm_err *err);
void fm_top_screen_end(void);

/* A line of a picture, as fm_top_frame() hands them out; begin with clear, and end with show. */
void fm_top_screen_clear(int *width, int *height);
void fm_top_screen_line(void *ctx, int at, enum fm_top_style style, const char *text);
void fm_top_screen_show(void);

/* What was pressed; never waits. Standard input is readable when there is something, or its
 * terminal is gone. */
unsigned fm_top_screen_key(void);

#endif
