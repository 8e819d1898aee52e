/* SPDX-License-Identifier: MIT */
/*
 * glob - the names in a store that a pattern matches, as a shell would expand it: * ? [ ] and \\, a
 * component at a time; a dot at the beginning of a name is matched by a dot only.
 *
 * The node is asked for directories and names, so the result is what was there at some moment of
 * each look.
 */
#ifndef FM_CLIENT_GLOB_H
#define FM_CLIENT_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/name.h"

#define FM_GLOB_MAX 16384		/* names that one pattern may match */

struct fm_glob {
	char **paths;			/* below the store */
	struct fmove_entry *entries;	/* what each of them was */
	size_t count;
};

/* Whether a path has a character that makes it a pattern. */
bool fm_glob_is_pattern(const char *path);

/*
 * In the order of their bytes, directory by directory; none is no error. -E2BIG: more than
 * FM_GLOB_MAX. -ECANCELED, -ENOMEM, or what the node says. After an error there are none.
 */
int fm_glob_match(struct fmove *c, const struct fm_name *pattern, struct fm_glob *out,
		  struct fmove_error *why);

/*
 * For a pattern that is no name that exists: `ret` and *why are what the look for such a name said.
 * As fm_glob_match(), but -ENOENT if nothing matches.
 */
int fm_glob_instead(struct fmove *c, const struct fm_name *pattern, int ret, struct fm_glob *out,
		    struct fmove_error *why);

void fm_glob_free(struct fm_glob *g);

#endif
