/* SPDX-License-Identifier: MIT */
/*
 * hub_ref - the refs of a repository in a hub: refs/REVISION is a file with the commit.
 *
 * Its mode says for whom it was made: 0644, a user of this node asked for it, whose number stands
 * beside it; 0444, only other nodes did, and it gives way to what a user here asks for. Both may be
 * read by all.
 *
 * Worker, one at a time for a hub; waits for the disk. `repository` is the directory.
 */
#ifndef FM_STAGE_HUB_REF_H
#define FM_STAGE_HUB_REF_H

#include <stdbool.h>

#include <sys/types.h>

struct fm_err;

/* What is made for another node, so that it stays bounded. */
#define FM_HUB_REFS_MAX 16	/* refs to one commit, whoever made them */
#define FM_HUB_REF_PARTS_MAX 8	/* parts of one, with slashes between them */

/*
 * What users of this node ask for: refs of one repository, in the hub of all without main and those
 * for other nodes, and of one user at most seven times what he leaves (56, then 7, then 1), so that
 * none takes all names from the others; in a user's own one, where nothing but he says what a
 * revision leads to, with as many parts as above. What holds them counts for no quota.
 */
#define FM_HUB_USERS_REFS_MAX 64

enum fm_hub_ref_for { FM_HUB_REF_FOR_USER, FM_HUB_REF_FOR_OWN, FM_HUB_REF_FOR_ANOTHER };

struct fm_hub_ref {
	const char *revision, *commit;
	enum fm_hub_ref_for whom;
	uid_t uid;			/* FM_HUB_REF_FOR_USER: whose it is if it is new */
};

/*
 * Whether that ref may be made, as far as its name goes. -EEXIST: "a" and "a/b" cannot both be
 * there; what was made for other nodes is in no user's way. -EDQUOT: for another node, too many
 * refs lead to that commit; for a user, too many are there, or of his. -ENAMETOOLONG: for another
 * node, and in a user's own hub, it has too many parts. Of one for another node: -EEXIST, it could
 * be in the way of main, of pr/N or of refs/pr/N.
 */
int fm_hub_ref_check(int repository, const struct fm_hub_ref *ref, struct fm_err *err);

/*
 * Makes the ref, and for "pr/1" the directory pr. gone: so many refs for other nodes were in its
 * way, and were removed. A negative errno.
 */
int fm_hub_ref_make(int repository, const struct fm_hub_ref *ref, unsigned *gone);

/* Removes all that lead to the commit, and the directories that are empty then. */
void fm_hub_ref_drop(int repository, const char *commit);

#endif
