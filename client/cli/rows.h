/* SPDX-License-Identifier: MIT */
/*
 * rows - the JSON of a command that prints one object as it finds one, of which there may be any
 * number:
 *
 *   {"KEY":[ROW,
 *   ROW],"exit":0}
 *
 * and "error" behind "exit", if one was said.
 *
 * On standard output; fm_stdout_end() looks for errors.
 */
#ifndef FM_CLIENT_ROWS_H
#define FM_CLIENT_ROWS_H

#include "mover/base/json.h"

struct fm_rows {
	struct fm_json_writer w;
	bool are_over;
};

void fm_rows_begin(struct fm_rows *rows, const char *key);

/* A row, which is an object that the caller ends. */
struct fm_json_writer *fm_rows_next(struct fm_rows *rows);

/* No row any more: what the caller writes now stands before "exit". */
struct fm_json_writer *fm_rows_over(struct fm_rows *rows);

/* Behind what was said of an error, if there is one. */
void fm_rows_end(struct fm_rows *rows, int status);

#endif
