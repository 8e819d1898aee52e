/* SPDX-License-Identifier: MIT */
/* group_id - the ID of a group as it is said to put and to fmove group. */
#ifndef FM_CLIENT_GROUP_ID_H
#define FM_CLIENT_GROUP_ID_H

struct fm_args;

/*
 * Takes the ID that was said, else that of the environment; *id is NULL if there is neither. 0, or
 * an exit status (told) where it has not the form of one.
 */
int fm_group_take_id(struct fm_args *args, const char *said, const char **id);

#endif
