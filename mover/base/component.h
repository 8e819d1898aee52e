/* SPDX-License-Identifier: MIT */
/*
 * component - whether a name is one component of a path: what openat2(2) with RESOLVE_BENEATH is
 * for opening, this is for the calls that cannot be told so (mkdirat(2), renameat2(2), linkat(2)
 * ...). Such a name, with no link followed, never leads out of its directory.
 */
#ifndef FM_BASE_COMPONENT_H
#define FM_BASE_COMPONENT_H

#include <stdbool.h>
#include <string.h>

static inline bool fm_is_component(const char *name)
{
	return name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strchr(name, '/');
}

#endif
