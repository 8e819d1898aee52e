/* SPDX-License-Identifier: MIT */
/*
 * build - from a directory to what is said of it: the listing of what is in it, or its manifest,
 * for which every byte is read.
 *
 * Files are read without the page cache where the file system can do that; after their manifest was
 * made none of them is in it. A file that is written
 * to while it is read is an error; so is one that is not what the CRC32C kept with it says
 * (mover/tree/digest.h). Worker threads; waits for the disk.
 */
#ifndef FM_STAGE_BUILD_H
#define FM_STAGE_BUILD_H

#include <stdatomic.h>

#include "staging/manifest.h"

struct fm_err;

struct fm_stage_build_opts {
	int root;			/* a directory, open for reading */
	/* The dataset is this file in it, and nothing else that is there; NULL: all of it. */
	const char *file;
	/*
	 * The draft of its manifest (offered.h), from which files have their modes, since those
	 * that are shared with another version are read-only; NULL: they have them on the disk.
	 */
	const int *draft;
	const atomic_bool *is_stopped;	/* looked at for each chunk: -ECANCELED; NULL: never */
	_Atomic uint64_t *bytes_done;	/* grows as files are read; NULL: nobody looks */
	/*
	 * Set if what failed with -EIO was to read what is in the directory, and not the draft or
	 * the manifest; NULL: nobody looks.
	 */
	atomic_bool *is_unreadable;
};

/*
 * The totals of a dataset that is this file, of which nothing more is known, and the draft of its
 * manifest (offered.h) into fd, an empty file. -1: none.
 */
int fm_stage_list_file(const struct fm_stage_entry *file, int fd, struct fm_stage_totals *totals,
		       struct fm_err *err);

/* The manifest, into fd, an empty file. Not synced. */
int fm_stage_build(const struct fm_stage_build_opts *opts, int fd, uint8_t version[FM_SHA256_LEN],
		   struct fm_stage_totals *totals, struct fm_err *err);

#endif
