/* SPDX-License-Identifier: MIT */
/*
 * wanted - what a directory that was replaced still has that is somebody's: a transfer that began in it before, and goes on there until it
 * follows its path (fm_path_find_other()), or an older version of which something is nowhere else. Waits for the disk.
 */
#ifndef FM_STORE_WANTED_H
#define FM_STORE_WANTED_H

enum fm_wanted {
	FM_WANTED_NOTHING,
	FM_WANTED_KEPT,		/* .kept: stays as long as what is unfinished does */
	FM_WANTED_BUSY,		/* stays until the transfer is over */
};

/* In the directory of that name, as far as it can be read. */
enum fm_wanted fm_wanted_in(int parent, const char *name);

#endif
