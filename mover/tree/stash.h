/* SPDX-License-Identifier: MIT */
/*
 * stash - what is kept aside, or goes, lies where only we can have put it.
 *
 * Who may write to a directory can give anything in it that he may rename one of our names. So
 * what we take away for its name lies in a *stash*: a directory .fmove.<16 hex>.old or .kept of
 * ours that nobody else may write to, with a mark, the empty file .fmove.held.<16 hex>, whose
 * digits are the inode of what is held, and that, under the name that it had. Its manifest lies
 * beside it. The mark of a .kept is .fmove.kept.<16 hex>: that something in it is nowhere else
 * stays known when somebody gives the stash another name.
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
#include <sys/stat.h>

#include "mover/tree/remove.h"
#include "mover/tree/staging_names.h"
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
 * Moves back what came into a stash by mistake: it is somebody else's. If its name is taken
 * meanwhile, it gets a name beside it that no sweep removes, because its owner could not move it
 * out of the stash.
 */
void fm_stash_put_back(int stash, const char *name, int dir, const char *from);

/*
 * What a stash holds, with that inode, gets its name again, and its manifest. If that is not
 * possible, it stays in the stash. -ESTALE: it holds something else; -EEXIST: the name is taken.
 */
int fm_stash_give_back(int parent, const char *stash, uint64_t ino);

/*
 * 1: that is one, and name, under which it holds something, or ""; 0: it is none, whatever it is
 * called; or why nobody can say (-ENOENT: it is gone).
 */
int fm_stash_look(int parent, const char *stash, char name[FM_STAGING_FINAL_MAX + 1]);

/* As fm_wanted_in(), of what it holds; a .kept is wanted as such. -EPERM: it is none. */
int fm_stash_wanted(int parent, const char *stash);

/*
 * Whether a stash may go, asked when it is open for that: who may write to its directory can give
 * its name to another one before, and between any two looks at a name.
 */
struct fm_stash_rule {
	/* How much of what it holds may be wanted (enum fm_wanted); an error: it stays. kind: OLD
	 * or KEPT. */
	int (*at_most)(const void *ctx, enum fm_staging_kind kind, const struct stat *stash);
	const void *ctx;
};

/*
 * Removes a stash and what it holds, if the rule above allows it. -EPERM: it is no stash. -EBUSY:
 * something in it is still wanted. -ENOTEMPTY: it is being filled just now, or has something else
 * in it. freed: as for fm_tree_remove().
 */
int fm_stash_remove_by(int parent, const char *stash, const struct fm_stash_rule *rule,
		       const struct fm_tree_freed *freed);

/* The same, if nothing in it is wanted. */
int fm_stash_remove_unwanted(int parent, const char *stash, const struct fm_tree_freed *freed);

/* The same, whatever is wanted, if it holds what has that inode (0: whatever), for who put it
 * there. -ESTALE: it does not. */
int fm_stash_remove(int parent, const char *stash, uint64_t ino, const struct fm_tree_freed *freed);

#endif
