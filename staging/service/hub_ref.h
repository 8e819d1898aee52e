/* SPDX-License-Identifier: MIT */
/*
 * hub_ref - the refs of a repository in a hub: refs/REVISION is a file with the commit.
 *
 * Each has its source beside it, in an extended attribute: that of the dataset for which it was
 * made. By it a node that asks for what nobody here asked for can move the refs of its own source,
 * and no other one. Where the file system keeps no such attributes a ref is nobody's, and stays.
 *
 * Worker, one at a time for a hub; waits for the disk. `repository` is the directory.
 */
#ifndef FM_STAGE_HUB_REF_H
#define FM_STAGE_HUB_REF_H

#include <stdbool.h>
#include <stddef.h>

#include "mover/base/hub_name.h"

struct fm_err;

/* What another node may make, so that what is on the disk stays bounded. */
#define FM_HUB_REFS_MAX 16	/* refs to one commit */
#define FM_HUB_REF_PARTS_MAX 8	/* parts of one, with slashes between them */

/*
 * False: there is no such ref. source: "" if it is not known; NULL: not
 * asked for.
 */
bool fm_hub_ref_look(int repository, const char *revision, char commit[FM_HUB_COMMIT_LEN + 1],
		     char *source, size_t max);

/* Whether a ref to the commit has a source that is not is_own(source, ctx). "": it is not known. */
bool fm_hub_ref_is_others(int repository, const char *commit,
			  bool (*is_own)(const char *source, const void *ctx), const void *ctx);

/*
 * Whether another node may make that ref, as far as its name goes and how many there are. -EEXIST:
 * a ref is in the way. -ENAMETOOLONG: too many parts. -EDQUOT: too many refs to that commit.
 */
int fm_hub_ref_check(int repository, const char *revision, const char *commit,
		     struct fm_err *err);

/*
 * Makes the ref, and for "pr/1" the directory pr. is_for_another: fm_hub_ref_check() let it; whose
 * it is stays if it leads there by now. Otherwise it takes the place of what is in its way: of
 * "pr/1" a ref "pr", of "pr" all that begin with "pr/".
 */
int fm_hub_ref_make(int repository, const char *revision, const char *commit, const char *source,
		    bool is_for_another);

/* Removes all that lead to the commit, and the directories that are empty then. */
void fm_hub_ref_drop(int repository, const char *commit);

#endif
