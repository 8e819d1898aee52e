/* SPDX-License-Identifier: MIT */
/*
 * staging_names - the names that unfinished and replaced versions have beside a tree; see
 * staging.h.
 */
#ifndef FM_TREE_STAGING_NAMES_H
#define FM_TREE_STAGING_NAMES_H

#include "mover/journal/partial.h"

#define FM_STAGING_PREFIX FM_PARTIAL_PREFIX
#define FM_STAGING_NAME_LEN 28		/* without the NUL; .new and .old are one shorter */
#define FM_STAGING_FINAL_MAX 255	/* bytes of a final name */

/*
 * What may lie in a staging directory, and nothing else: by these names one is known whose lock a
 * power cut left without what it said.
 */
#define FM_STAGED_LOCK	   "lock"
#define FM_STAGED_JOURNAL  "journal"
#define FM_STAGED_DATA	   "data"
#define FM_STAGED_WAS	   "was."	/* and a number: the data of earlier tries */
#define FM_STAGED_SPOOL	   "spool"
#define FM_STAGED_MANIFEST "manifest"
#define FM_STAGED_CARRIED  "carried"	/* what a merge took over */
#define FM_STAGED_MADE	   "made"	/* one entry, on its way from there */
#define FM_STAGED_PROBE	   "Probe."	/* of how names are compared */

enum fm_staging_kind {
	FM_STAGING_NONE,	/* none of these names */
	FM_STAGING_TREE,
	FM_STAGING_NEW,
	FM_STAGING_OLD,
	FM_STAGING_KEPT,	/* a replaced version of which something is nowhere else */
};

enum fm_staging_kind fm_staging_kind(const char *name);

/* The name of that kind for a final name; for FM_STAGING_OLD and _KEPT a new one each time,
 * whatever `final` is. */
void fm_staging_name(enum fm_staging_kind kind, const char *final,
		     char out[FM_STAGING_NAME_LEN + 1]);

#endif
