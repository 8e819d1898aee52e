/* SPDX-License-Identifier: MIT */
/* unit_name - see unit_name.h. */
#include "mover/base/unit_name.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* At most cap bytes with the terminator; len may have passed it already. */
static void put(char *out, size_t cap, size_t *len, const char *bytes, size_t count)
{
	if (*len + count < cap)
		memcpy(out + *len, bytes, count);
	*len += count;
}

/* One part of a path: what a unit's name cannot hold, and the '-' that stands for '/', as \xNN; so
 * a leading dot. */
static void put_part(char *out, size_t cap, size_t *len, const char *part, size_t count)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.";

	if (*len > 0)
		put(out, cap, len, "-", 1);
	for (size_t i = 0; i < count; i++) {
		char hex[5];

		if (strchr(plain, part[i]) && !(part[i] == '.' && *len == 0)) {
			put(out, cap, len, &part[i], 1);
			continue;
		}
		/* fits */
		(void)snprintf(hex, sizeof(hex), "\\x%02x", (unsigned)(unsigned char)part[i]);
		put(out, cap, len, hex, 4);
	}
}

int fm_unit_escape_path(const char *path, char *out, size_t cap)
{
	size_t len = 0;

	for (const char *at = path; *at;) {
		size_t count = strcspn(at, "/");

		if (count == 2 && memcmp(at, "..", 2) == 0)
			return -EINVAL;
		if (count > 0 && !(count == 1 && at[0] == '.'))
			put_part(out, cap, &len, at, count);
		at += count + (at[count] == '/');
	}
	if (len == 0)
		put(out, cap, &len, "-", 1);
	if (len >= cap)
		return -ENAMETOOLONG;
	out[len] = '\0';
	return (int)len;
}
