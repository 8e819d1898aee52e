/* SPDX-License-Identifier: MIT */
/*
 * all_names - files of several names, and whether all names of one were met: then what it has
 * goes with them.
 *
 * At most FM_ALL_NAMES_MAX files are remembered, and no more than the budget has room for; of one
 * more nobody says that it goes. Not thread-safe.
 */
#ifndef FM_STORE_ALL_NAMES_H
#define FM_STORE_ALL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define FM_ALL_NAMES_MAX 65536u

struct fm_all_names_file;

/* Zero-initialise. */
struct fm_all_names {
	struct fm_all_names_file *slots;	/* a hash table, half of it free at least */
	size_t cap;
	size_t count;
};

/* One more name of that file is met. True: it was the last. */
bool fm_all_names_meet(struct fm_all_names *n, const struct stat *st);

void fm_all_names_free(struct fm_all_names *n);

#endif
