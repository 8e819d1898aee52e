/* SPDX-License-Identifier: MIT */
/* rows - see rows.h. */
#include "client/cli/rows.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "mover/base/json.h"

void fm_rows_begin(const char *key)
{
	(void)printf("{\"%s\":[", key);
}

void fm_rows_add(struct fm_json_writer *row, bool is_first)
{
	if (fm_jw_end(row) > 0)
		(void)printf("%s%s", is_first ? "" : ",\n", row->buf);
}

void fm_rows_end(struct fm_json_writer *more, int status)
{
	struct fm_json_writer none;
	char buf[64];

	if (!more) {
		more = &none;
		fm_jw_begin(more, buf, sizeof(buf));
	}
	fm_jw_u64(more, "exit", (uint64_t)status);
	(void)fm_jw_end(more);		/* the caller left room */
	(void)printf("],%s}\n", more->buf);
}
