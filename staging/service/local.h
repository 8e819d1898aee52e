/* SPDX-License-Identifier: MIT */
/*
 * local - a directory or file of a store of this node, or a directory that a caller serves: listed,
 * and copied into the cache, without the network.
 *
 * The store's own end of a tree reads it, with the caller's rights, and what it says goes straight
 * into the other end: the listing (offered.h), or the dataset's directory. Large files are cloned
 * where the file system can do that, else read past the page cache. Worker; waits for the disk.
 */
#ifndef FM_STAGE_LOCAL_H
#define FM_STAGE_LOCAL_H

#include <stdatomic.h>

#include "mover/store/store.h"
#include "staging/manifest.h"
#include "staging/offered.h"

struct fm_served;

struct fm_stage_local {
	struct fm_store *store;		/* NULL: served */
	/* what a caller serves, for directories only; nothing it says is believed */
	struct fm_served *served;
	/* of that: what was listed; more is not taken. NULL: it is being listed */
	const struct fm_stage_totals *totals;
	const char *path;		/* in the store */
	struct fm_who who;
	const atomic_bool *is_stopped;	/* looked at for each pack: -ECANCELED */
	_Atomic uint64_t *bytes_done;	/* NULL: nobody looks */
	bool is_update;			/* the sink's tree is one: files are offered first */
	bool has_checksums;		/* the list: files are read, for the CRC32C of each */
};

/* Lists the source into o; fm_stage_offered_end() then has the result. */
int fm_stage_local_list(const struct fm_stage_local *l, struct fm_stage_offered *o,
			struct fm_err *err);

/*
 * All of it into sink, a new tree of a store, which is published. Sink: the caller's, also on
 * error; what came then is for the next try of the same listing, if the caller keeps it. -ESTALE: a
 * file was written to meanwhile.
 */
int fm_stage_local_copy(const struct fm_stage_local *l, const uint8_t listing[FM_SHA256_LEN],
			struct fm_file *sink, struct fm_err *err);

/*
 * A file: to `name` in `dir`, where a dataset comes (cache.h). It has that name when it is all
 * there, and is synced. -ESTALE as above.
 */
int fm_stage_local_copy_file(const struct fm_stage_local *l, int dir, const char *name,
			     struct fm_err *err);

/*
 * Returns a descriptor of the file's directory, which the caller closes, or an error. *name points
 * into l->path.
 */
int fm_stage_local_open_parent(const struct fm_stage_local *l, const char **name,
			       struct fm_err *err);

/*
 * Lists a file, as the dataset `name`, and writes the draft of its manifest (offered.h) into draft;
 * -1: none. -ESTALE: it is no file any more.
 */
int fm_stage_local_list_file(const struct fm_stage_local *l, const char *name, int draft,
			     struct fm_stage_totals *totals, struct fm_err *err);

/*
 * The CRC32C of a file, which is read without the page cache where the file system can do that, and
 * what it was meanwhile. -ESTALE as above.
 */
int fm_stage_local_crc(const struct fm_stage_local *l, struct fm_attr *attr, uint32_t *crc,
		       struct fm_err *err);

#endif
