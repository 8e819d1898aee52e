/* SPDX-License-Identifier: MIT */
/*
 * rows - the JSON of a command that prints one object as it finds one, of which there may be any
 * number:
 *
 *   {"KEY":[ROW,
 *   ROW],"exit":0}
 *
 * On standard output; fm_stdout_end() looks for errors.
 */
#ifndef FM_CLIENT_ROWS_H
#define FM_CLIENT_ROWS_H

#include <stdbool.h>

struct fm_json_writer;

void fm_rows_begin(const char *key);

/* Ends row and prints it. One that did not fit its buffer is left out. */
void fm_rows_add(struct fm_json_writer *row, bool is_first);

/* more: members that stand before "exit", with room for that; NULL: none. */
void fm_rows_end(struct fm_json_writer *more, int status);

#endif
