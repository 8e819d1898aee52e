/* SPDX-License-Identifier: MIT */
/*
 * place - a finished partial file gets its final name, in one step that readers cannot see half of
 * and that is undone if its own sync fails, or its path leads elsewhere by then.
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
	int fd;				/* and the file, which must have it */
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

/* What happened to the names. */
enum fm_placed_how {
	FM_PLACED_MOVED,	/* final: new; temp: none */
	FM_PLACED_LINKED,	/* final and temp: new */
	FM_PLACED_EXCHANGED,	/* final: new; temp: old */
	FM_PLACED_OVER,		/* final: new; old: gone */
};

struct fm_placed {
	enum fm_placed_how how;
	uint64_t old_bytes;	/* size of the file that is replaced; 0: none is */
};

/*
 * Whether the final name is free, or a regular file that may be replaced: 0, its size in *old_bytes
 * (0: free). -EEXIST: taken, or something that is never replaced (a link, a device ...). -EISDIR.
 * -EBUSY: somebody gives it this name just now, and may take it back. Or the error of a sync of
 * what has the name.
 */
int fm_place_check(const struct fm_place *place, uint64_t *old_bytes, struct fm_err *err);

/*
 * Give it the final name; fm_place_end() or fm_place_undo() follows. The replaced file has the
 * partial name until then. -ESTALE: another file has the partial one's name. -EEXIST, -EBUSY: as
 * above. After an error the final name is as it was, and what has the partial name still has it;
 * but where a file system knows no RENAME_EXCHANGE, a replaced file is gone even if the sync fails.
 */
int fm_place(const struct fm_place *place, struct fm_placed *out, struct fm_err *err);

/* It keeps the name: the replaced file goes, and so does the journal. */
void fm_place_end(const struct fm_place *place, const struct fm_placed *placed);

/*
 * It lies in a directory that its path does not lead to: the names as they were before, on the disk
 * if they are synced; where a file system knows no RENAME_EXCHANGE, a replaced file is gone.
 * -ESTALE: something else has the final name by now, which stays. May wait a second for another
 * publication to that name.
 */
int fm_place_undo(const struct fm_place *place, const struct fm_placed *placed, struct fm_err *err);

#endif
