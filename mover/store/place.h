/* SPDX-License-Identifier: MIT */
/*
 * place - a finished partial file gets its final name, in one step that readers cannot see half of
 * and that is undone if its own sync fails.
 */
#ifndef FM_STORE_PLACE_H
#define FM_STORE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct fm_err;
struct fm_placing;
struct fm_sync;

struct fm_place {
	int from;			/* where the partial name is, and the journal */
	int dir;			/* where the final name is; mostly the same */
	const char *temp;		/* the partial file's name */
	int fd;				/* and the file, which must have it; -1: not asked */
	const char *name;		/* the final name */
	const char *path;		/* for messages */
	/* NULL, or the name whose lock guards the partial one: removed once that is free */
	const char *journal;
	bool may_replace;
	/* the directory is on the disk when it returns 0, and what has the name already when
	 * it says -EEXIST; NULL: it does not wait for that */
	struct fm_sync *sync;
	/* NULL, or the publication that this is, begun and ended by the caller: placing.h */
	const struct fm_placing *placing;
};

/*
 * Whether the final name is free, or a regular file that may be replaced: 0, its size in *old_bytes
 * (0: free). -EEXIST: taken, or something that is never replaced (a link, a device ...). -EISDIR.
 * -EBUSY: somebody gives it this name just now, and may take it back. Or the error of a sync of
 * what has the name.
 */
int fm_place_check(const struct fm_place *place, uint64_t *old_bytes, struct fm_err *err);

/*
 * Give it the final name. *old_bytes: size of the file it replaced, 0 if none. -ESTALE: another
 * file has the partial one's name. -EEXIST, -EBUSY: as above. After an error the final name is as
 * it was, and what has the partial name still has it; but where a file system knows no
 * RENAME_EXCHANGE, a replaced file is gone even if the sync fails.
 */
int fm_place(const struct fm_place *place, uint64_t *old_bytes, struct fm_err *err);

#endif
