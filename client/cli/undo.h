/* SPDX-License-Identifier: MIT */
/*
 * undo - what a command has made so far, so that a failure leaves nothing of it behind.
 *
 * Only what was not there before is taken away again: a file that was written, a directory that is
 * still empty.
 */
#ifndef FM_CLIENT_UNDO_H
#define FM_CLIENT_UNDO_H

#include <sys/types.h>

struct fm_err;
struct fm_undo_step;

/* Zeroed: nothing was made yet. */
struct fm_undo {
	struct fm_undo_step *last;
};

/* fm_dir_make(), and remember it and those of its parents that it makes. */
int fm_undo_dir_make(struct fm_undo *undo, const char *path, mode_t mode, struct fm_err *err);

/* This file is made, or going to be, by the caller. -ENOMEM: it cannot be remembered. */
int fm_undo_file(struct fm_undo *undo, const char *path, struct fm_err *err);

/* Take all of it away, the last first. */
void fm_undo_all(struct fm_undo *undo);

/* All went well: forget it. */
void fm_undo_forget(struct fm_undo *undo);

#endif
