/* SPDX-License-Identifier: MIT */
/* group_list - the groups of a store that are open (group.h). Workers. */
#ifndef FM_STORE_GROUP_LIST_H
#define FM_STORE_GROUP_LIST_H

#include "mover/store/store.h"

struct fm_err;
struct fm_store_dir;

#define FM_GROUP_PATHS_MAX 4096	/* of one walk */

/*
 * The first of them behind the path `after`, in order. The first page, `after` "", walks over the
 * whole store; the walk is kept for those that follow within a minute, which tell what is still
 * open of it.
 */
int fm_group_list(struct fm_store_dir *dir, const char *after, struct fm_group_page *out,
		  struct fm_err *err);

/* Gives back what is kept. */
void fm_group_list_end(struct fm_store_dir *dir);

#endif
