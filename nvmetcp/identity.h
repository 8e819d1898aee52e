/* SPDX-License-Identifier: MIT */
/*
 * identity - whether a namespace is the one that a volume names. Used when it is looked for and
 * again right before it is mounted. A pure function; any thread.
 */
#ifndef FM_NVMETCP_IDENTITY_H
#define FM_NVMETCP_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

struct fm_inv_namespace;
struct fm_volume;

#define FM_IDENTITY_WHY_MAX 320

enum fm_identity {
	FM_IDENTITY_SAME,
	/* the kernel has not filled in yet what is needed to tell */
	FM_IDENTITY_UNKNOWN,
	FM_IDENTITY_OTHER,
};

/* Whether the volume says which namespace it is; if not, it is the only one that there is. */
bool fm_identity_is_named(const struct fm_volume *volume);

/* Whether they are the same digits, with or without hyphens. */
bool fm_identity_is_same_nguid(const char *a, const char *b);

/*
 * Each of nsid, uuid and nguid that the volume names must be that of the namespace. Otherwise `why`
 * says in one line what was found and what was expected.
 */
enum fm_identity fm_identity_check(const struct fm_volume *volume,
				   const struct fm_inv_namespace *ns,
				   char why[static FM_IDENTITY_WHY_MAX]);

#endif
