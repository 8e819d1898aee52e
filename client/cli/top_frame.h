/* SPDX-License-Identifier: MIT */
/*
 * top_frame - the picture of fmove top as lines of text: a pure function of what was answered, of
 * the size of the terminal, and of what its user chose.
 */
#ifndef FM_CLIENT_TOP_FRAME_H
#define FM_CLIENT_TOP_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/top_rows.h"
#include "client/cli/top_table.h"

/* What is known of one section. */
struct fm_top_part {
	struct fm_top_table *table; /* of the last answer */
	uint64_t answered_ns;	    /* when it came, an error too; 0: none did */
	char error[256];	    /* the last answer was this; "": it was none */
	const char *absent;	    /* why there is nothing, as is its right; NULL: there may be */
};

struct fm_top_state {
	struct fm_top_node node;
	struct fm_top_part part[FM_TOP_SECTIONS];
	uint64_t since_ns; /* it is asked since then */
	uint64_t every_ns; /* it is asked so often */
};

#define FM_TOP_ALL FM_TOP_SECTIONS

struct fm_top_view {
	int width;
	int height;	  /* lines; 0: as many as there are */
	unsigned section; /* one only, or FM_TOP_ALL */
	size_t scroll;	  /* lines of the tables that are above the picture */
	bool is_by_rate;
	bool is_help;
};

enum fm_top_style { FM_TOP_PLAIN, FM_TOP_TITLE, FM_TOP_BAD };

/*
 * Hands each line to line(), at: from 0 on, below view->height. Returns how many lines the tables
 * have, of which view->height - FM_TOP_HEAD_LINES fit.
 */
#define FM_TOP_HEAD_LINES 2
size_t fm_top_frame(const struct fm_top_state *state, const struct fm_top_view *view,
		    uint64_t now_ns,
		    void (*line)(void *ctx, int at, enum fm_top_style style, const char *text),
		    void *ctx);

#endif
