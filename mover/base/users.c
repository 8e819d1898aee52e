/* SPDX-License-Identifier: MIT */
/* users - see users.h. */
#include "mover/base/users.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

#define LEAST_LEN (1u << 12)
#define MOST_LEN  (1u << 24)	/* a group may have many members */

/* A buffer of four times the length. False: no memory, or it is large enough for anything. */
static bool more(char **buf, size_t *len)
{
	free(*buf);
	*len *= 4;
	*buf = *len <= MOST_LEN ? malloc(*len) : NULL;
	return *buf;
}

bool fm_users_find(const char *name, uid_t *uid, gid_t *gid)
{
	struct passwd entry, *found = NULL;
	char *buf = NULL;
	size_t len = LEAST_LEN;
	int ret = ERANGE;

	while (ret == ERANGE && more(&buf, &len))
		ret = getpwnam_r(name, &entry, buf, len, &found);
	if (ret == 0 && found) {
		*uid = found->pw_uid;
		*gid = found->pw_gid;
	}
	free(buf);
	return ret == 0 && found;
}

bool fm_users_find_group(const char *name, gid_t *gid)
{
	struct group entry, *found = NULL;
	char *buf = NULL;
	size_t len = LEAST_LEN;
	int ret = ERANGE;

	while (ret == ERANGE && more(&buf, &len))
		ret = getgrnam_r(name, &entry, buf, len, &found);
	if (ret == 0 && found)
		*gid = found->gr_gid;
	free(buf);
	return ret == 0 && found;
}

bool fm_users_name(uid_t uid, char *name, size_t name_len, gid_t *gid)
{
	struct passwd entry, *found = NULL;
	char *buf = NULL;
	size_t len = LEAST_LEN;
	int ret = ERANGE;

	while (ret == ERANGE && more(&buf, &len))
		ret = getpwuid_r(uid, &entry, buf, len, &found);
	if (ret == 0 && found) {
		(void)snprintf(name, name_len, "%s", found->pw_name);
		*gid = found->pw_gid;
	}
	free(buf);
	return ret == 0 && found;
}
