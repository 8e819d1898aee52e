/* SPDX-License-Identifier: MIT */
/* top_table - see top_table.h. */
#include "client/cli/top_table.h"

#include <langinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NAME_MIN 8 /* columns */

struct column {
	const char *title;
	int width;
	int rank;     /* 1: stays the longest */
	bool is_word; /* on the left side of its column */
};

static const struct {
	const char *title;
	struct column columns[FM_TOP_CELLS];
} layouts[FM_TOP_SECTIONS] = {
	[FM_TOP_RAILS] = {"RAILS",
			  {{"STATE", 6, 3, true},
			   {"OUT", 9, 1, false},
			   {"IN", 9, 2, false},
			   {"LINK", 9, 5, false},
			   {"CONNS", 5, 4, false}}},
	[FM_TOP_TRANSFERS] = {"TRANSFERS",
			      {{"STATE", 10, 4, true},
			       {"DONE", 5, 2, false},
			       {"MOVED", 7, 3, false},
			       {"RATE", 9, 1, false},
			       {"LEFT", 8, 5, false}}},
	[FM_TOP_WAITING] = {"WAITING",
			    {{"JOB", 8, 2, true},
			     {"STATE", 7, 1, true},
			     {"MOVED", 7, 4, false},
			     {"SIZE", 7, 3, false},
			     {NULL, 0, 0, false}}},
	[FM_TOP_STORES] = {"STORES",
			   {{"FREE", 7, 1, false},
			    {"USED", 7, 2, false},
			    {"OF", 7, 3, false},
			    {"PROMISED", 8, 4, false},
			    {NULL, 0, 0, false}}},
	[FM_TOP_VOLUMES] = {"VOLUMES",
			    {{"STATE", 10, 1, true},
			     {"PATHS", 5, 2, false},
			     {"SIZE", 7, 4, false},
			     {"MOUNTED", 10, 3, true},
			     {NULL, 0, 0, false}}},
	[FM_TOP_CACHE] = {"CACHE",
			  {{"STATE", 8, 1, true},
			   {"SIZE", 7, 2, false},
			   {"HELD", 4, 3, false},
			   {"PINNED", 6, 4, false},
			   {NULL, 0, 0, false}}},
};

const char *fm_top_title(enum fm_top_section section)
{
	return layouts[section].title;
}

/* ---- rows ---- */

void fm_top_clear(struct fm_top_table *table)
{
	table->count = 0;
	table->more = 0;
}

struct fm_top_row *fm_top_add(struct fm_top_table *table)
{
	struct fm_top_row *row;

	if (table->count == FM_TOP_ROWS_MAX) {
		table->more++;
		return NULL;
	}
	row = &table->rows[table->count++];
	*row = (struct fm_top_row){.rate = 0};
	return row;
}

/* By rate; then by place, which keeps the order of those that are as fast. */
static int compare(const void *a, const void *b)
{
	const struct fm_top_row *const *x = a, *const *y = b;

	if ((*x)->rate != (*y)->rate)
		return (*x)->rate > (*y)->rate ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

void fm_top_order(const struct fm_top_table *table, bool is_by_rate,
		  const struct fm_top_row *order[static FM_TOP_ROWS_MAX])
{
	for (size_t i = 0; i < table->count; i++)
		order[i] = &table->rows[i];
	if (is_by_rate)
		qsort(order, table->count, sizeof(order[0]), compare);
}

/* ---- characters and columns ---- */

/*
 * The character at text: its bytes into out, those written in *len and the columns that they take
 * in *width. Returns the bytes of text. A byte that is none here becomes \xNN.
 */
static size_t next(const char *text, bool is_utf8, char out[static 8], size_t *len, int *width)
{
	size_t took = 0;
	mbstate_t state = {0};
	wchar_t c = 0;

	if ((uint8_t)*text < 0x80 || is_utf8)
		took = mbrtowc(&c, text, strlen(text), &state);
	*width = took > 0 && took <= 4 ? wcwidth(c) : -1;
	if (*width < 0) {
		*len = (size_t)snprintf(out, 8, "\\x%02x", (unsigned)(uint8_t)*text);
		*width = (int)*len;
		return 1;
	}
	memcpy(out, text, took);
	*len = took;
	return took;
}

/* Writes as much of text as takes no more than width columns, which *used is then. Returns the rest
 * of the text. */
static const char *write_fitting(const char *text, int width, char *out, size_t *len, int *used)
{
	const bool is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;

	*len = 0;
	*used = 0;
	while (*text) {
		size_t took, n;
		char one[8];
		int columns;

		took = next(text, is_utf8, one, &n, &columns);
		/* What takes no column goes on top of the one before: any number of them would
		 * overflow the room. */
		if (*used + columns > width || *len + n > 4 * (size_t)width)
			break;
		memcpy(out + *len, one, n);
		*len += n;
		*used += columns;
		text += took;
	}
	return text;
}

size_t fm_top_fit(const char *text, int width, bool is_right, char *out)
{
	size_t len, blanks;
	int used;

	if (width <= 0) {
		out[0] = '\0';
		return 0;
	}
	if (*write_fitting(text, width, out, &len, &used)) {
		(void)write_fitting(text, width - 1, out, &len, &used);
		out[len++] = '~';
		used++;
	}
	blanks = (size_t)(width - used);
	if (len + blanks > 4 * (size_t)width) /* characters without columns took their room */
		blanks = 4 * (size_t)width - len;
	if (is_right)
		memmove(out + blanks, out, len);
	memset(is_right ? out : out + len, ' ', blanks);
	out[len + blanks] = '\0';
	return len + blanks;
}

/* ---- lines ---- */

static int clamp(int width)
{
	if (width < FM_TOP_WIDTH_MIN)
		return FM_TOP_WIDTH_MIN;
	return width < FM_TOP_WIDTH_MAX ? width : FM_TOP_WIDTH_MAX;
}

/* The last rank that has room in width columns, beside a short name; and what the name has then. */
static int last_rank(const struct column *columns, int width, int *name_width)
{
	int rank = 0;

	*name_width = width;
	for (int wanted = 1; wanted <= FM_TOP_CELLS; wanted++)
		for (int i = 0; i < FM_TOP_CELLS; i++)
			if (columns[i].rank == wanted && rank == wanted - 1 &&
			    *name_width - columns[i].width - 1 >= NAME_MIN) {
				*name_width -= columns[i].width + 1;
				rank = wanted;
			}
	return rank;
}

static void compose(const struct column *columns, const char *name,
		    const char *const cells[static FM_TOP_CELLS], int width, char *out)
{
	int name_width, rank = last_rank(columns, width, &name_width);

	out += fm_top_fit(name, name_width, false, out);
	for (int i = 0; i < FM_TOP_CELLS; i++) {
		if (columns[i].rank == 0 || columns[i].rank > rank)
			continue;
		*out++ = ' ';
		out += fm_top_fit(cells[i], columns[i].width, !columns[i].is_word, out);
	}
}

void fm_top_head_line(enum fm_top_section section, int width, char out[static FM_TOP_LINE_MAX])
{
	const struct column *columns = layouts[section].columns;
	const char *cells[FM_TOP_CELLS];

	for (int i = 0; i < FM_TOP_CELLS; i++)
		cells[i] = columns[i].title;
	compose(columns, layouts[section].title, cells, clamp(width), out);
}

void fm_top_row_line(enum fm_top_section section, const struct fm_top_row *row, int width,
		     char out[static FM_TOP_LINE_MAX])
{
	char text[sizeof(row->name) + sizeof(row->note) + 2];
	const char *cells[FM_TOP_CELLS];

	if (row->note[0]) {
		(void)snprintf(text, sizeof(text), "%s  %s", row->name, row->note); /* fits */
		(void)fm_top_fit(text, clamp(width), false, out);
		return;
	}
	for (int i = 0; i < FM_TOP_CELLS; i++)
		cells[i] = row->cell[i];
	compose(layouts[section].columns, row->name, cells, clamp(width), out);
}
