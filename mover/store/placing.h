/* SPDX-License-Identifier: MIT */
/*
 * placing - files that are being given their final names, and whether what has a name is there to
 * stay.
 *
 * A publication that waits for its directory to be on the disk can be seen already, and is undone
 * if that fails. Whoever is refused since the name is taken may be the same sender, who lost the
 * word of this very publication: he takes "exists" for "done" (mover/queue/queue_run.c). So it is
 * not said before it is true.
 *
 * Any thread. A publication of another daemon, or one that a crash left, is not known here: what
 * has the name is synced, then.
 */
#ifndef FM_STORE_PLACING_H
#define FM_STORE_PLACING_H

#include <stdbool.h>
#include <sys/types.h>

/* One publication; the caller's, from begin to end. */
struct fm_placing {
	struct fm_placing *next;
	dev_t dev;
	ino_t ino;
};

/* The file fd is about to get its name. */
void fm_placing_begin(struct fm_placing *p, int fd);

/* It has it, and nothing will take it away, or it has it no more. */
void fm_placing_end(struct fm_placing *p);

/*
 * Whether the file `name` in dir is there to stay, and, with is_synced, on the disk with its name;
 * the directories above dir are the caller's affair. own: NULL, or a publication that does not
 * count. 0: it is. -ENOENT: there is none, or another one by now: look again. -EBUSY: another
 * publication has given it the name, and still waits for the disk after a second. -ELOOP: it is no
 * file. Or the error of a sync. Waits for the disk.
 */
int fm_placing_settle(int dir, const char *name, bool is_synced, const struct fm_placing *own);

#endif
