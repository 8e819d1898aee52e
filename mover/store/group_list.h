/* SPDX-License-Identifier: MIT */
/* group_list - the groups of a store that are open (group.h). Workers. */
#ifndef FM_STORE_GROUP_LIST_H
#define FM_STORE_GROUP_LIST_H

#include "mover/store/store.h"

struct fm_err;
struct fm_store_dir;

/* The first of them behind the path `after`, in order. It walks over the whole store. */
int fm_group_list(struct fm_store_dir *dir, const char *after, struct fm_group_page *out,
		  struct fm_err *err);

#endif
