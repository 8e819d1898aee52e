/* SPDX-License-Identifier: MIT */
/*
 * stash - what is kept aside, or goes, lies where only we can have put it.
 *
 * Who may write to a directory can give anything in it that he may rename one of our names. So
 * what we take away for its name lies in a *stash*: a directory .fmove.<16 hex>.old or .kept of
 * ours that nobody else may write to, with a mark, the empty file .fmove.held.<16 hex>, whose
 * digits are the inode of what is held, and that, under the name that it had. Its manifest lies
 * beside it.
 *
 * Nothing of a stash goes but what its mark names. The mark is a name and not the content of a
 * file: the disk has names in the order in which they were given, also after a power cut, but
 * content only when it was synced.
 *
 * Gets of an earlier version wrote the digits into a mark .fmove.former: these are known as well.
 *
 * A directory with such a name that is no stash is of an earlier version, or of somebody else:
 * nothing removes it. An empty one is of a process that died on its way, and goes.
 */
#ifndef FM_TREE_STASH_H
#define FM_TREE_STASH_H

#include <stdint.h>

#include "mover/tree/staging.h"
#include "mover/tree/wanted.h"

struct fm_stash_what {
	int dir;		/* where it is, */
	const char *from;	/* under which name, */
	uint64_t ino;		/* and which one it is */
	const char *name;	/* under which it is held */
};

/*
 * It goes into a new stash in `parent`, of the kind FM_STAGING_OLD or _KEPT, whose name is told.
 * -ESTALE: something else has its name, and keeps it.
 */
int fm_stash_keep(const struct fm_stash_what *what, int parent, enum fm_staging_kind kind,
		   char stash[FM_STAGING_NAME_LEN + 1]);

/*
 * It goes into that directory of ours, whoever has its name by then. -ESTALE as above; of another
 * error nothing has moved.
 */
int fm_stash_move_in(const struct fm_stash_what *what, int stash);

/*
 * What came into a stash from that name, and is somebody else's, goes back. If the name is taken
 * by now it goes beside it, under one that nothing removes: its owner could not move it out.
 */
void fm_stash_put_back(int stash, const char *name, int dir, const char *from);

/*
 * 1: that is one, and name, under which it holds something, or ""; 0: it is none, whatever it is
 * called; or why nobody can say (-ENOENT: it is gone).
 */
int fm_stash_look(int parent, const char *stash, char name[FM_STAGING_FINAL_MAX + 1]);

/*
 * What it holds goes, and the stash. -EPERM: it is none. -EBUSY: somebody fills it just now, or
 * has put something else there. freed as for fm_tree_remove().
 */
int fm_stash_remove(int parent, const char *stash, const struct fm_tree_freed *freed);

/*
 * The same, unless something in it is wanted by more than that: -EBUSY, too. It is looked for in the
 * directory that goes: who may write to parent can give that name to another stash meanwhile.
 */
int fm_stash_remove_unwanted(int parent, const char *stash, enum fm_wanted at_most, const struct fm_tree_freed *freed);

#endif
