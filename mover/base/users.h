/* SPDX-License-Identifier: MIT */
/*
 * users - the user database, for any thread: getpwnam() and its like have one answer for all
 * threads, and what looks at a configuration beside a reload asks, too. Each call may block.
 */
#ifndef FM_BASE_USERS_H
#define FM_BASE_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_err;

/* False, here and below: it has none of that name or number, or could not be asked. */
bool fm_users_find(const char *name, uid_t *uid, gid_t *gid);
bool fm_users_find_group(const char *name, gid_t *gid);

/*
 * The same for a start, which has no loop yet that could go on meanwhile: 0. -ENOENT: false above;
 * -ETIMEDOUT: it has not answered within max_ns; -ENOMEM.
 */
int fm_users_find_group_within(const char *name, uint64_t max_ns, gid_t *gid);
/* The group of a socket, by the option of the configuration that names it: the error names both. */
int fm_users_find_socket_group(const char *option, const char *name, uint64_t max_ns, gid_t *gid,
			       struct fm_err *err);
int fm_users_name_within(uid_t uid, uint64_t max_ns, char *name, size_t len);

/* The name (len bytes with its end; cut if it is longer) and the primary group of a user. */
bool fm_users_name(uid_t uid, char *name, size_t len, gid_t *gid);

#endif
