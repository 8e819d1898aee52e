/* SPDX-License-Identifier: MIT */
/*
 * transfer - what put and get have in common: their options, the connection, the progress line,
 * Ctrl-C.
 */
#ifndef FM_CLIENT_TRANSFER_H
#define FM_CLIENT_TRANSFER_H

#include "client/cli/cmd.h"
#include "client/cli/dir.h"
#include "client/lib/fmove.h"
#include "client/cli/name.h"
#include "client/cli/outcome.h"
#include "client/cli/progress.h"
#include "client/cli/range_args.h"
#include "client/cli/turn.h"

enum fm_transfer_key {
	FM_TRANSFER_TRANSPORT = 1,
	FM_TRANSFER_LIMIT,
	FM_TRANSFER_DURABILITY,
	FM_TRANSFER_FORCE,
	FM_TRANSFER_TIMEOUT,
	FM_TRANSFER_RETRY,
	FM_TRANSFER_PRIORITY,
	FM_TRANSFER_DETACH,
	FM_TRANSFER_QUIET,
	FM_TRANSFER_JSON,
	FM_TRANSFER_KEEP,
	FM_TRANSFER_VERIFY,
	FM_TRANSFER_CORRUPT,
	FM_TRANSFER_RANGE,
	FM_TRANSFER_RANGES_FROM,
	FM_TRANSFER_WHOLE_BLOCKS,
	FM_TRANSFER_GROUP,
	FM_TRANSFER_LATEST,
	FM_TRANSFER_KEEP_LAST
};

/* clang-format off */
#define FM_TRANSFER_OPTS \
	{ "transport", 0, FM_TRANSFER_TRANSPORT, "auto|rdma|tcp", \
	  "how the bytes travel (auto: RDMA where it works, else TCP)", "auto rdma tcp" }, \
	{ "durability", 0, FM_TRANSFER_DURABILITY, "disk|memory", \
	  "when it is done: on disk, or checked and written without a flush (as the store says, " \
	  "else disk)", "disk memory" }, \
	{ "force", 'f', FM_TRANSFER_FORCE, NULL, \
	  "replace a file that exists; with --update also by a directory, or the other way", \
	  NULL }, \
	{ "limit", 0, FM_TRANSFER_LIMIT, "RATE", \
	  "no faster than this, for example 500MB/s or 10Gbit/s", NULL }, \
	{ "timeout", 0, FM_TRANSFER_TIMEOUT, "TIME", \
	  "give up a file after this long, for example 30s or 5min", NULL }, \
	{ "retry", 0, FM_TRANSFER_RETRY, "TIME", \
	  "try again for so long when the peer or the network fails (0; with --detach without " \
	  "end)", NULL }, \
	{ "priority", 0, FM_TRANSFER_PRIORITY, "low|normal|high", \
	  "which of the transfers that wait for a place is next", "low normal high" }, \
	{ "detach", 0, FM_TRANSFER_DETACH, NULL, \
	  "do not wait for the end: print the job's id as soon as it is accepted", NULL }, \
	{ "keep-partial", 0, FM_TRANSFER_KEEP, NULL, \
	  "when cancelled, what has arrived stays, and the same command goes on from there", \
	  NULL }, \
	{ "accept-corrupt", 0, FM_TRANSFER_CORRUPT, NULL, \
	  "take what a store gives, also where it is not what was put there", NULL }, \
	FM_DIR_OPTS, \
	{ "quiet", 'q', FM_TRANSFER_QUIET, NULL, \
	  "no progress and no line at the end; errors are still said", NULL }, \
	{ "json", 0, FM_TRANSFER_JSON, NULL, "the result as one JSON object on standard output", \
	  NULL }
/* clang-format on */

struct fm_background;

struct fm_transfer {
	struct fmove *conn;
	struct fmove_options opts;
	struct fm_outcomes outcomes;
	struct fm_progress progress;
	struct fm_turn turn;
	struct fm_dir_args dir;
	struct fm_range_args ranges;		/* of what is received; none: all of it */
	const char *latest;			/* --latest; NULL: no link is led to what is put */
	uint32_t keep_last;			/* of what that link was led to; 0: all */
	bool is_detached;
	bool is_forced;				/* --force */
	/* this is the process that stays: background.h; else NULL */
	struct fm_background *background;
	char node[FM_NAME_PART_MAX + 1];	/* our own; "": not asked for yet */
};

void fm_transfer_init(struct fm_transfer *t, const char *verb);

/* All options and min .. max operands. -1: said and over, args->status. */
int fm_transfer_args(struct fm_transfer *t, struct fm_args *args, int min, int max);

/* The value of --timeout. Not 0: said, and the exit status. */
int fm_transfer_take_time(struct fm_args *args, uint64_t *ms);

/* Connect; from here on signals cancel. */
int fm_transfer_open(struct fm_transfer *t, struct fm_err *err);
void fm_transfer_close(struct fm_transfer *t);

/*
 * Whether text names something in a store of this node, which then is *out. What is of the form
 * NODE:STORE/PATH with our own name is; a file that is called so is written ./NODE:STORE/PATH.
 * Negative: the daemon could not be asked.
 */
int fm_transfer_is_own(struct fm_transfer *t, const char *text, struct fm_name *out,
		       struct fm_err *err);

/* Whether a file is looked at before it is moved, and what has its name at the target. */
bool fm_transfer_looks(const struct fm_transfer *t);

/*
 * Whether what name says, the source of a transfer, is to be moved as a directory: with -r, if it
 * is one. Without -r no directory is looked at; it is an error where files are, *entry then has the
 * file. Negative: one->err has it.
 */
int fm_transfer_is_tree(struct fm_transfer *t, const struct fm_name *name,
			struct fmove_entry *entry, struct fm_outcome *one);

/*
 * Where files are looked at: 1: this one is not moved (fm_dir_file()). path: whose last part it
 * gets in a directory, or NULL: it does not go into one by itself; *target is what it gets.
 * Negative: one->err has it.
 */
int fm_transfer_spares(struct fm_transfer *t, const char *path, const struct fmove_entry *file,
		       struct fm_name *target, struct fm_outcome *one);

/*
 * Moves a file or a directory between a store of this node and one of another; is_put: it is ours
 * that it comes from. Nothing of it is in our hands. Negative: one->err has it.
 */
int fm_transfer_stores(struct fm_transfer *t, bool is_put, const struct fm_name *from,
		       const struct fm_name *to, bool is_tree, struct fm_outcome *one);

/* With --latest: leads the link to what was put, under the name that it got. one has what went, or
 * an error. */
int fm_transfer_latest(struct fm_transfer *t, const struct fm_name *target, struct fm_outcome *one);

/* With --verbose: a file that was moved, or would be, is named. Before fm_outcomes_add(). */
void fm_transfer_name(struct fm_transfer *t, const struct fm_outcome *one);

/* What name says, asked for as often as --retry says. */
int fm_transfer_stat(struct fm_transfer *t, const struct fm_name *name, struct fmove_entry *out,
		     struct fmove_error *why);

/* 0: the name is there, be it of a link that leads nowhere. It tries as fm_transfer_stat() does. */
int fm_transfer_is_there(struct fm_transfer *t, const struct fm_name *name,
			 struct fmove_error *why);

/*
 * Whether what else is to be moved from or to that node would fare no better than what ended with
 * that exit status. A file that took longer than --timeout says nothing of the others if the node
 * answers when it is asked for name.
 */
bool fm_transfer_gives_up(struct fm_transfer *t, int status, const struct fm_name *name);

/* The outcome of what is not tried: code is of what ended before it, whose line says why. */
void fm_transfer_skip(struct fm_transfer *t, const char *source, const char *target, int code);

/*
 * Receive source as the file path, in the background if t->is_detached (cmd_get.c). one->err has an
 * error.
 */
int fm_transfer_get_file(struct fm_transfer *t, const struct fm_name *source, const char *path,
			 struct fm_outcome *one);

/*
 * What is sent or received next: opts.may_replace says what that may replace. A file with --force,
 * or where --update sends it; a directory as a whole with --replace, and of an update entries of
 * another kind with --force.
 */
void fm_transfer_set_kind(struct fm_transfer *t, bool is_tree);

/* Around each file. */
void fm_transfer_begin(struct fm_transfer *t, const char *label);
void fm_transfer_end(struct fm_transfer *t);

/*
 * From the library's error to ours; returns its code. A signal that came meanwhile is the reason of
 * any failure.
 */
int fm_transfer_error(struct fm_err *err, const struct fmove_error *from);

/* The same for a transfer of what label says: one has the error and what is kept. Returns its
 * code. */
int fm_transfer_fail(struct fm_outcome *one, const char *label, const struct fmove_error *why);

#endif
