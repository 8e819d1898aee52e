/* SPDX-License-Identifier: MIT */
/*
 * check - whether what is on the disk is still the dataset that its manifest says: every name,
 * every byte.
 *
 * Permissions are not compared: a cache takes the right to write away from what it keeps. Worker
 * threads; waits for the disk.
 */
#ifndef FM_STAGE_CHECK_H
#define FM_STAGE_CHECK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fm_err;

enum fm_stage_found {
	FM_STAGE_MISSING,	/* it is not there */
	FM_STAGE_EXTRA,		/* it is in no manifest */
	/* of another kind, size, time, target, or no name of the same file */
	FM_STAGE_OTHER,
	FM_STAGE_DAMAGED,	/* the bytes of a chunk are others */
	FM_STAGE_UNREADABLE,	/* a chunk, or all of it, cannot be read */
};

struct fm_stage_finding {
	enum fm_stage_found found;
	const char *path;	/* terminated; good during the call */
	/* the damaged bytes of a file, to be fetched again; 0 for any other entry */
	uint64_t offset;
	uint64_t len;
	bool is_chunk;		/* one of a file that is else as wanted; then: */
	uint32_t crc;		/* that it should have */
};

struct fm_stage_check_opts {
	int root;			/* a directory, open for reading */
	const char *file;		/* as in struct fm_stage_build_opts */
	/* open for reading; that fm_stage_manifest_check() found good */
	int manifest;
	const atomic_bool *is_stopped;	/* NULL: never */
	_Atomic uint64_t *bytes_done;	/* NULL: nobody looks */
	void (*found)(void *ctx, const struct fm_stage_finding *f);
	void *ctx;
};

/*
 * 0: all was compared, and found() was told of what is not as it should be. Else it could not be: a
 * directory or the manifest cannot be read, -ENOMEM, -ECANCELED.
 */
int fm_stage_check(const struct fm_stage_check_opts *opts, struct fm_err *err);

#endif
