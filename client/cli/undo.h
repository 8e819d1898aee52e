/* SPDX-License-Identifier: MIT */
/*
 * undo - what a command has made so far, so that a failure leaves nothing of it behind.
 *
 * Only what was not there before is taken away again: a file that was written, a directory that is
 * still empty. It is what was made, wherever the names on the way lead by then.
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

/*
 * Make a directory and its parents, and remember those that were made here: one that somebody else
 * makes meanwhile is his. A new last one gets mode. *made is a descriptor of it (O_PATH), the
 * caller's to close, or -1 if it was there. -ENOTDIR: what is there is no directory.
 */
int fm_undo_dir_make(struct fm_undo *undo, const char *path, mode_t mode, int *made,
		     struct fm_err *err);

/*
 * Before the caller makes the file of that name in the directory dir, a descriptor of his own: room
 * to remember it. It is taken away again only when fm_undo_made() has said that it was made.
 * -ENOMEM, -EMFILE.
 */
int fm_undo_file(struct fm_undo *undo, int dir, const char *name, struct fm_err *err);

/*
 * The caller has made the file that he named last. If that is not in the directory, since the path
 * that he made it by led elsewhere meanwhile, nothing is taken away.
 */
void fm_undo_made(struct fm_undo *undo);

/* Take all of it away, the last first. */
void fm_undo_all(struct fm_undo *undo);

/* All went well: forget it. */
void fm_undo_forget(struct fm_undo *undo);

#endif
