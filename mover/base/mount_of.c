/* SPDX-License-Identifier: MIT */
/* mount_of - see mount_of.h. */
#include "mover/base/mount_of.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_octal(const char *at)
{
	return at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' &&
	       at[3] >= '0' && at[3] <= '7';
}

/*
 * How much of a path a mount point takes, which is written as in mountinfo (a blank is "\040") and
 * ends with a blank. 0: the path is not below it.
 */
static size_t taken(const char *point, const char *path)
{
	size_t len = 0;

	while (*point && *point != ' ') {
		char c = *point;

		if (is_octal(point)) {
			c = (char)((point[1] - '0') * 64 + (point[2] - '0') * 8 + point[3] - '0');
			point += 3;
		}
		if (path[len] != c)
			return 0;
		point++;
		len++;
	}
	if (len == 1)	/* "/" */
		return 1;
	return path[len] == '/' || path[len] == '\0' ? len : 0;
}

unsigned fm_mount_in(FILE *mounts, const char *path, size_t *out_len)
{
	size_t size = 0, most = 0, len;
	unsigned best = 0, id;
	char *line = NULL;
	int at;

	while (getline(&line, &size, mounts) >= 0) {
		at = 0;
		if (sscanf(line, "%u %*u %*s %*s %n", &id, &at) != 1 || at == 0)
			continue;
		len = taken(line + at, path);
		if (len > 0 && len >= most) {
			best = id;	/* of two at one place the last one is on top */
			most = len;
		}
	}
	free(line);
	*out_len = most;
	return best;
}

static unsigned look_up(const char *path, size_t *out_len)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	unsigned mount = mounts ? fm_mount_in(mounts, path, out_len) : 0;

	if (mounts)
		(void)fclose(mounts);	/* only read */
	return mount;
}

unsigned fm_mount_of(const char *path)
{
	size_t len;

	return look_up(path, &len);
}

size_t fm_mount_len(const char *path)
{
	size_t len = 0;

	(void)look_up(path, &len);
	return len;
}
