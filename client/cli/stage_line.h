/* SPDX-License-Identifier: MIT */
/*
 * stage_line - the one line on a terminal that says how far fmove stage is: bytes, rate, time left,
 * and of several nodes how many are ready and what the others do.
 */
#ifndef FM_CLIENT_STAGE_LINE_H
#define FM_CLIENT_STAGE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fmove_stage_node;

/* Zero-initialise. */
struct fm_stage_line {
	bool is_shown;			/* it stands on the terminal */
	bool is_begun;			/* there was a report ... */
	uint64_t first_bytes, first_ns;	/* ... and what it said */
	/* Of the nodes in this report: */
	unsigned nodes, ready;
	uint64_t bytes;			/* of all */
	uint64_t whole;			/* of one that is ready */
	char bad[256], others[256];	/* who is silent or has failed, and who comes */
};

struct fm_stage_report {
	const char *what, *phase;
	uint64_t bytes, size;		/* on this node; 0: not known */
	uint64_t now_ns;
};

/* Before the report that it belongs to. */
void fm_stage_line_node(struct fm_stage_line *l, const struct fmove_stage_node *n);

#define FM_STAGE_LINE_MAX 1536	/* nothing of a line is cut in such room */

/* The line, in at most width columns if the names are ASCII. The next report begins. */
void fm_stage_line_text(struct fm_stage_line *l, const struct fm_stage_report *r, int width,
			char *out, size_t cap);

/* The line as of now, where standard error is a terminal; r->now_ns is not looked at. */
void fm_stage_line_show(struct fm_stage_line *l, const struct fm_stage_report *r);

/* Wipe it. */
void fm_stage_line_clear(struct fm_stage_line *l);

#endif
