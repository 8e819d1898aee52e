/* SPDX-License-Identifier: MIT */
/*
 * staging - the names beside a tree's final name, and who may touch what is under them.
 *
 *   .fmove.<16 hex>.tree   an unfinished transfer: lock, journal, spool, data/ (the tree being
 *                          made), was.<n>/ (what earlier tries made). The digits are a hash of the
 *                          final name, so that the next try finds it; the journal tells the whole
 *                          name.
 *   .fmove.<16 hex>.new    the finished tree between prepare and publish; for a moment after it,
 *                          the version replaced. The same digits.
 *   .fmove.<16 hex>.old    holds a version that was replaced, or anything that is being removed
 *                          (stash.h). Random digits. Its ctime says since when.
 *   .fmove.<16 hex>.kept   holds a version that was replaced, of which something may be nowhere
 *                          else. Random digits.
 *
 * Whoever works in one of the first two holds a lock (F_OFD_SETLK) on the file `lock` in the .tree
 * directory; it ends with the process. Others may write to the directory around them: a .tree is
 * used if it is ours alone, and empty or made for this (its lock says so), and nothing is removed
 * for its name.
 */
#ifndef FM_TREE_STAGING_H
#define FM_TREE_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/journal/journal.h"
#include "mover/tree/remove.h"
#include "mover/tree/staging_names.h"

struct fm_err;

/* Why a version that was replaced is not removed. */
#define FM_STAGING_WANTED                                                                          \
	"a transfer goes on in it, or something lies in it that is nowhere else "                  \
	"(.fmove.HASH.kept)"

/*
 * Whether fmove gives such names: to unfinished trees and files, to replaced versions, and to
 * manifests.
 */
bool fm_staging_is_ours(const char *name);

/*
 * Make the .tree directory in parent if need be, and lock it. Both descriptors are the caller's,
 * the lock for fm_staging_unlock(); after an error they are as they were. -EBUSY: somebody else
 * holds it. -EPERM: it is another user's, who could change what is in it, or no staging directory
 * at all, but something that was given the name of one.
 */
int fm_staging_lock(int parent, const char *tree_name, int *dir_fd, int *lock_fd);

/* Give up the lock, also one of which a child that was forked has a copy, and close it. */
void fm_staging_unlock(int lock_fd);

/*
 * What the lock file says:
 * - data_ino: the inode of data/, which tells a finished .new from a replaced version.
 *   0: there is none yet, or all is over.
 * - old_ino: the inode of the version that is replaced. 0: none yet.
 * - is_merging: entries that only the old version has are taken over.
 * - begun_ns: when data/ was made, by the clock of the file system. 0: not known.
 * fm_staging_read() answers -EBADMSG if the file says nothing.
 */
struct fm_staging_state {
	uint64_t data_ino;
	uint64_t old_ino;
	uint64_t begun_ns;
	bool is_merging;
};

int fm_staging_write(int lock_fd, const struct fm_staging_state *state);
int fm_staging_read(int lock_fd, struct fm_staging_state *state);

/*
 * Remove the whole .tree or .new that fd refers to: it goes into a stash first, so that it is gone
 * from its name at once. The holder of a .tree's lock does it with this. -ESTALE: something else
 * has that name, and keeps it. first: called when it has its name no more, for what is removed
 * otherwise; NULL: nothing is.
 */
int fm_staging_remove_opened(int parent, const char *name, int fd,
			     const struct fm_tree_freed *freed, void (*first)(void *ctx),
			     void *ctx);

/* ---- for a store's sweep and for lists of partial transfers ---- */

struct fm_staging_age {
	/* Whether a .tree or .new is old enough to go; journal: that of a .tree, NULL: there is
	 * none. */
	bool (*is_old)(const void *ctx, const struct stat *made, const struct stat *journal);
	/* Of a stash, as in struct fm_stash_rule (tree/stash.h). */
	int (*at_most)(const void *ctx, enum fm_staging_kind kind, const struct stat *stash);
	const void *ctx;
};

/*
 * Remove one of those names unless a transfer works in it (-EBUSY), or it is not old enough: asked
 * under the lock, since a transfer may have gone on with it, and ended, just before that was taken
 * (-EAGAIN); of what was locked, since others may exchange names. What a .new holds that a transfer
 * replaced before it died is put aside instead (-EAGAIN, too). -EPERM: it is none of ours, whatever
 * it is called. Of a stash as fm_stash_remove_by(). freed as for fm_tree_remove().
 */
int fm_staging_sweep(int parent, const char *name, const struct fm_staging_age *age,
		     const struct fm_tree_freed *freed);

/*
 * As fm_staging_kind(). Of what a transfer replaced before it died, and is a .new: FM_STAGING_OLD;
 * after a merge FM_STAGING_KEPT, since nobody has looked through it for what was saved in it
 * meanwhile.
 */
enum fm_staging_kind fm_staging_kind_at(int parent, const char *name);

/* The same, or why nobody can say. */
int fm_staging_look(int parent, const char *name, enum fm_staging_kind *kind);

/* Whether a transfer, whoever's, works in a .tree: 1, 0 (also: there is none), or why nobody can
 * say. */
int fm_staging_is_busy(int parent, const char *name);

struct fm_staging_info {
	bool is_busy;			/* a transfer works in it now */
	uint64_t data_ino;		/* what may have the name .new; 0: nothing yet, or: */
	bool is_lost;			/* nobody can say, as after a power cut */
	bool has_journal;		/* the rest is known */
	struct fm_journal_opts journal;	/* its source; its name: the tree's final name */
	uint64_t bytes_there;
};

/* Of a .tree. -ENOENT: it went, or is none. */
int fm_staging_peek(int parent, const char *name, struct fm_staging_info *out);

#endif
