/* SPDX-License-Identifier: MIT */
/*
 * wanted - what a directory that was replaced still has that is somebody's: a transfer that began
 * in it before, and goes on there until it follows its path, or an older version of which something
 * is nowhere else. Waits for the disk.
 */
#ifndef FM_TREE_WANTED_H
#define FM_TREE_WANTED_H

enum fm_wanted {
	FM_WANTED_NOTHING,
	FM_WANTED_KEPT,		/* .kept: stays as long as what is unfinished does */
	FM_WANTED_BUSY,		/* stays until the transfer is over */
};

/*
 * In the directory of that name, all of it. An error: it could not be looked through (no
 * descriptors, no memory, a disk that fails, another user's, a mount), so nobody knows, and it must
 * stay.
 */
int fm_wanted_in(int parent, const char *name);

#endif
