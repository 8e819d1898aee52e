/* SPDX-License-Identifier: MIT */
/*
 * top_table - what fmove top shows of one kind of things, and a line of it in a given width.
 *
 * Names come as fm_show() (show.h) made them: nothing in them moves a cursor. What the locale has
 * no character for becomes \xNN. A table may be large: it is no variable of a function. Any thread,
 * each its own table.
 */
#ifndef FM_CLIENT_TOP_TABLE_H
#define FM_CLIENT_TOP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fm_top_section {
	FM_TOP_RAILS,
	FM_TOP_TRANSFERS,
	FM_TOP_WAITING,
	FM_TOP_STORES,
	FM_TOP_VOLUMES,
	FM_TOP_CACHE,
	FM_TOP_SECTIONS
};

#define FM_TOP_ROWS_MAX	 256u
#define FM_TOP_CELLS	 5 /* beside the name */
#define FM_TOP_WIDTH_MIN 10
#define FM_TOP_WIDTH_MAX 500 /* columns; wider terminals have the rest empty */
#define FM_TOP_LINE_MAX	 (4 * FM_TOP_WIDTH_MAX + 1) /* bytes, with the terminator */

struct fm_top_row {
	char name[512];
	char cell[FM_TOP_CELLS][24];
	char note[256]; /* stands there instead of the cells; "": the cells do */
	bool is_bad;
	uint64_t bytes; /* of a transfer: so far */
	double rate;	/* bytes per second, to sort by */
};

struct fm_top_table {
	size_t count;
	size_t more; /* that found no room */
	struct fm_top_row rows[FM_TOP_ROWS_MAX];
};

const char *fm_top_title(enum fm_top_section section);

/* No rows. */
void fm_top_clear(struct fm_top_table *table);

/* A row more, empty; NULL: it is full, and that is counted. */
struct fm_top_row *fm_top_add(struct fm_top_table *table);

/* The rows as they stand; or by rate, the highest first, and those that are as fast as they stand.
 */
void fm_top_order(const struct fm_top_table *table, bool is_by_rate,
		  const struct fm_top_row *order[static FM_TOP_ROWS_MAX]);

/*
 * Text in exactly width columns, blanks behind it, or before it if it is_right. What is too long
 * ends with a ~. Returns the bytes, without the terminator; out has room for 4 * width + 1.
 */
size_t fm_top_fit(const char *text, int width, bool is_right, char *out);

/* The title of the section with those of its columns, and a row below it, in width columns. Columns
 * for which there is no room are left out, the least wanted first; the name never is. */
void fm_top_head_line(enum fm_top_section section, int width, char out[static FM_TOP_LINE_MAX]);
void fm_top_row_line(enum fm_top_section section, const struct fm_top_row *row, int width,
		     char out[static FM_TOP_LINE_MAX]);

#endif
