/* SPDX-License-Identifier: MIT */
/*
 * sync - the syncs of one sink, the first failure of which counts for ever.
 *
 * The kernel says once that bytes could not be written, and takes them for written from then on:
 * the same sync succeeds the next time. So what a failed sync covered is unknown, and whoever asks
 * again hears the same error.
 */
#ifndef FM_STORE_SYNC_H
#define FM_STORE_SYNC_H

#include <stdatomic.h>

struct fm_sync {
	atomic_int error;	/* of the first that failed; 0: none did */
};

/* 0, or an error: that of the first sync of this sink that failed. */
int fm_sync_data(struct fm_sync *s, int fd);
int fm_sync_file(struct fm_sync *s, int fd);
/* Of a directory. A file system that has no such thing says so, which is no failure. */
int fm_sync_dir(struct fm_sync *s, int fd);

/* One was made elsewhere and ended with ret: returns that, or the error of one before. */
int fm_sync_note(struct fm_sync *s, int ret);

/* 0, or why nothing of the sink may be kept. */
int fm_sync_error(const struct fm_sync *s);

#endif
