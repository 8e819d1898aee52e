/* SPDX-License-Identifier: MIT */
/* df - the table of what stores have room for, as df and status print it. */
#ifndef FM_CLIENT_DF_H
#define FM_CLIENT_DF_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/rows.h"
#include "client/cli/name.h"
#include "client/lib/fmove.h"

struct fm_df {
	bool is_json; /* as rows that the caller began */
	struct fm_rows rows;
	size_t count;			/* printed so far */

	/* What is unfinished is summed up, too: over a connection of its own, while the other tells
	 * the stores. NULL: it is not. */
	struct fmove *unfinished;
	const char *node;		/* whose stores they are; NULL: ours */
	struct fmove_error failed;	/* code 0: it did not */
};

/* The operand "", "NODE", "NODE:" or "NODE:STORE". */
int fm_df_name(const char *text, struct fm_name *out, struct fm_err *err);

/* One line, or object; ctx: a struct fm_df. false: standard output cannot be written. */
bool fm_df_print(void *ctx, const struct fmove_space *space);

/* The same of a directory of the caller's: what gets left in it. The exit status. */
int fm_df_dir(const char *path, bool is_json);

#endif
