/* SPDX-License-Identifier: MIT */
/*
 * unit_name - how systemd names what belongs to a path. Pure function; any thread.
 */
#ifndef FM_BASE_UNIT_NAME_H
#define FM_BASE_UNIT_NAME_H

#include <stddef.h>

/*
 * As `systemd-escape --path`: "/srv/my data" is "srv-my\\x20data". Its length; -EINVAL: it has a
 * ".." in it; -ENAMETOOLONG: it does not fit cap bytes.
 */
int fm_unit_escape_path(const char *path, char *out, size_t cap);

#endif
