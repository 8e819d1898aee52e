/* SPDX-License-Identifier: MIT */
/*
 * part - the file that a get writes, beside its final name until it is complete, and the journal
 * that says what of it is there: see mover/journal/partial.h. A get that was interrupted leaves
 * both, and the next one to the same name goes on.
 *
 * Made, filled and renamed with the caller's rights only. One at a time; fm_interrupt_start() comes
 * first.
 */
#ifndef FM_CLIENT_PART_H
#define FM_CLIENT_PART_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/journal/partial.h"

struct fm_err;

struct fm_part {
	/* fd: for reading and writing; journal: -1 if it cannot be gone on with */
	struct fm_partial file;
	char last[256];		/* the final name in that directory */
	char path[PATH_MAX];	/* of that directory */
	bool may_replace;
};

struct fm_part_attr {
	unsigned mode;
	int64_t mtime_ns;
	bool is_durable;	/* on disk before it is said to be there */
};

struct fm_part_opts {
	bool may_replace;
	bool is_kept;		/* the second Ctrl-C does not remove it */
	unsigned lock_wait_ms;	/* for one that is in use: its get may be just ending; 0: 3 s */
};

/*
 * path is what the caller typed, a directory in its place already resolved. -EEXIST unless
 * may_replace.
 */
int fm_part_open(const char *path, const struct fm_part_opts *opts, struct fm_part *out,
		 struct fm_err *err);

/* The directory that path gets its name in. A descriptor of the caller's, or an error with the next
 * step. */
int fm_part_open_dir(const char *path, struct fm_err *err);

/* -EEXIST: path, which is called last in dir, is a symbolic link; where it leads, and what to
 * do. */
int fm_part_refuse_link(int dir, const char *last, const char *path, const char *next,
			struct fm_err *err);

/* Whether fm_part_open() would refuse it for what is under its name; nothing is made. */
int fm_part_check(const char *path, bool may_replace, struct fm_err *err);

/*
 * All of it is there: mode, time, final name. Afterwards nothing of it is left but the final file;
 * after an error it is there for the next try, or nothing is.
 */
int fm_part_publish(struct fm_part *part, const struct fm_part_attr *attr, struct fm_err *err);

/* What an earlier try for path left behind goes away, unless somebody uses it. */
void fm_part_forget(const char *path);

/* Instead of publishing. */
void fm_part_discard(struct fm_part *part);

/* The same, but leave it for the next try; if that would find nothing, it is discarded: false. */
bool fm_part_leave(struct fm_part *part);

#endif
