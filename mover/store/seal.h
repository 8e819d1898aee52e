/* SPDX-License-Identifier: MIT */
/*
 * seal - the last things done to a written file before it is shown: size, data to disk, mode,
 * owner, time, metadata to disk.
 */
#ifndef FM_STORE_SEAL_H
#define FM_STORE_SEAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_attr;
struct fm_err;
struct fm_sync;

struct fm_seal {
	uint64_t size;
	/* mode and mtime; the CRC, which is kept with the file if it is not foreign */
	const struct fm_attr *attr;
	/* data and metadata are on the disk when it returns 0; NULL: it does not wait for that */
	struct fm_sync *sync;
	bool has_owner;			/* give it to uid and gid */
	bool is_for_group;		/* the group may read it if its owner may */
	uid_t uid;
	gid_t gid;
	/* may be another user's: mode and time are left if they may not be set */
	bool is_foreign;
};

/*
 * 0, 1 (is_foreign: mode or time could not be set), or an error of the system call that failed.
 * Worker thread: it waits for the disk.
 */
int fm_seal(int fd, const struct fm_seal *seal, struct fm_err *err);

#endif
