/* SPDX-License-Identifier: MIT */
/*
 * former - what a get replaced in a directory of the caller's is kept for a while, as a store
 * keeps what a put replaced.
 *
 * It lies beside what took its place, in a stash (tree/stash.h). No daemon looks after it: a later
 * get into the same directory removes what has been kept for long enough, one for which there is no
 * room the oldest, and `fmove purge DIR` all of it.
 *
 * A process that dies on the way leaves the version where it was (.new, which the next get of
 * that name takes from there if the lock file says that it is the one), or a stash without one,
 * which goes like any other.
 */
#ifndef FM_CLIENT_FORMER_H
#define FM_CLIENT_FORMER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "mover/tree/staging.h"

struct fm_err;

/* what stores.old_keep is if nobody says it */
#define FM_FORMER_KEEP_NS UINT64_C(600000000000)

struct fm_former {
	char stash[FM_STAGING_NAME_LEN + 1];
	char name[256];			/* that it had; "": it is not there (any more) */
	int64_t since_ns;		/* since 1970 */
	uint64_t bytes;			/* that go with it: files that have no other name */
};

/* Until when what is put there now is kept; since 1970. */
int64_t fm_former_until_ns(void);

/*
 * Remove those in parent that were put there older_ns ago or earlier. each: told of each that
 * went, and asked with NULL behind one of which there is nothing to tell, as it stays; returns
 * false to end it; NULL: nobody asks. is_dry: told of each, and none goes. 0, or,
 * after all that can go went, the error of the first that could not, and how many more there are.
 */
int fm_former_remove(int parent, uint64_t older_ns, bool is_dry,
		     bool (*each)(void *ctx, const struct fm_former *f), void *ctx,
		     struct fm_err *err);

/* *err is of the first of so many that stay: it says how many more. */
void fm_former_count_staying(struct fm_err *err, unsigned count);

/* How many lie in parent, and how much goes with all of them; what still has a name elsewhere does
 * not count. */
int fm_former_sum(int parent, uint64_t *count, uint64_t *bytes, struct fm_err *err);

/*
 * The oldest go, until so many bytes are free there, unless all of them would be too little.
 * Whether so many are.
 */
bool fm_former_make_room(int parent, uint64_t bytes);

/*
 * The directory that a get puts something into can be in a version that another get replaces
 * meanwhile. Its path is noted when the first one begins ("": nobody can tell).
 */
void fm_former_note_path(int dir, char path[PATH_MAX]);

/*
 * Whether `held` has been put aside by a get, or is below something that was, and its noted path
 * leads elsewhere: 1, and *fd is that, the receiver's. 0: it was not; whoever else moved a
 * directory meant what is in it, too. An error: it leads nowhere, or through a symbolic link now
 * (-ELOOP), which anybody may have made who can rename there.
 */
int fm_former_find_other(const char *path, int held, int *fd, struct fm_err *err);

#endif
