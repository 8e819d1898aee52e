/* SPDX-License-Identifier: MIT */
/* rows - see rows.h. */
#include "client/cli/rows.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/cli/cmd.h"

void fm_rows_begin(struct fm_rows *rows, const char *key)
{
	rows->are_over = false;
	fm_jw_stream(&rows->w, stdout);
	fm_jw_object(&rows->w, NULL);
	fm_jw_array(&rows->w, key);
}

struct fm_json_writer *fm_rows_next(struct fm_rows *rows)
{
	fm_jw_line(&rows->w);
	fm_jw_object(&rows->w, NULL);
	return &rows->w;
}

struct fm_json_writer *fm_rows_over(struct fm_rows *rows)
{
	fm_jw_array_end(&rows->w);
	rows->are_over = true;
	return &rows->w;
}

void fm_rows_end(struct fm_rows *rows, int status)
{
	if (!rows->are_over)
		(void)fm_rows_over(rows);
	fm_jw_u64(&rows->w, "exit", (uint64_t)status);
	if (status != FM_EXIT_DONE)
		fm_said_json(&rows->w);
	fm_jw_object_end(&rows->w);
	(void)printf("\n");
}
