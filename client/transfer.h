/* SPDX-License-Identifier: MIT */
/*
 * transfer - what put and get have in common: their options, the connection, the progress line,
 * Ctrl-C.
 */
#ifndef FM_CLIENT_TRANSFER_H
#define FM_CLIENT_TRANSFER_H

#include "client/cmd.h"
#include "client/fmove.h"
#include "client/outcome.h"
#include "client/progress.h"

enum fm_transfer_key {
	FM_TRANSFER_TRANSPORT = 1,
	FM_TRANSFER_LIMIT,
	FM_TRANSFER_DURABILITY,
	FM_TRANSFER_FORCE,
	FM_TRANSFER_TIMEOUT,
	FM_TRANSFER_QUIET,
	FM_TRANSFER_JSON
};

#define FM_TRANSFER_OPTS                                                                           \
	{ "transport",                                                                             \
	  0,                                                                                       \
	  FM_TRANSFER_TRANSPORT,                                                                   \
	  "auto|rdma|tcp",                                                                         \
	  "how the bytes travel (auto: RDMA where it works, else TCP)",                            \
	  "auto rdma tcp" },                                                                       \
		{ "durability",                                                                    \
		  0,                                                                               \
		  FM_TRANSFER_DURABILITY,                                                          \
		  "disk|memory",                                                                   \
		  "when it is done: on disk, or checked and written without a flush (as the "      \
		  "store says, else disk)",                                                        \
		  "disk memory" },                                                                 \
		{ "force", 'f', FM_TRANSFER_FORCE, NULL, "replace a file that exists", NULL },     \
		{ "limit",                                                                         \
		  0,                                                                               \
		  FM_TRANSFER_LIMIT,                                                               \
		  "RATE",                                                                          \
		  "no faster than this, for example 500MB/s or 10Gbit/s",                          \
		  NULL },                                                                          \
		{ "timeout",                                                                       \
		  0,                                                                               \
		  FM_TRANSFER_TIMEOUT,                                                             \
		  "TIME",                                                                          \
		  "give up a file after this long, for example 30s or 5min",                       \
		  NULL },                                                                          \
		{ "quiet",                                                                         \
		  'q',                                                                             \
		  FM_TRANSFER_QUIET,                                                               \
		  NULL,                                                                            \
		  "no progress and no line at the end; errors are still said",                     \
		  NULL },                                                                          \
	{                                                                                          \
		"json", 0, FM_TRANSFER_JSON, NULL,                                                 \
			"the result as one JSON object on standard output", NULL                   \
	}

struct fm_transfer {
	struct fmove *conn;
	struct fmove_options opts;
	struct fm_outcomes outcomes;
	struct fm_progress progress;
};

void fm_transfer_init(struct fm_transfer *t, const char *verb);

/* All options and min .. max operands. -1: said and over, args->status. */
int fm_transfer_args(struct fm_transfer *t, struct fm_args *args, int min, int max);

/* Connect; from here on signals cancel. */
int fm_transfer_open(struct fm_transfer *t, struct fm_err *err);
void fm_transfer_close(struct fm_transfer *t);

/* Around each file. */
void fm_transfer_begin(struct fm_transfer *t, const char *label);
void fm_transfer_end(struct fm_transfer *t);

/*
 * From the library's error to ours; returns its code. A signal that came meanwhile is the reason of
 * any failure.
 */
int fm_transfer_error(struct fm_err *err, const struct fmove_error *from);

#endif
