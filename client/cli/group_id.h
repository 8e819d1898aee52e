/* SPDX-License-Identifier: MIT */
/* group_id - the ID of a group as it is said to put and to fmove group. */
#ifndef FM_CLIENT_GROUP_ID_H
#define FM_CLIENT_GROUP_ID_H

#include <stdbool.h>

bool fm_group_is_id(const char *text);

/* FMOVE_GROUP, or NULL. */
const char *fm_group_env(void);

#endif
