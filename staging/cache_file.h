/* SPDX-License-Identifier: MIT */
/*
 * cache_file - files and directories of a cache: state written so that a crash leaves the old or
 * the new one, names that are read, trees that are gone through. Waits for the disk.
 */
#ifndef FM_STAGING_CACHE_FILE_H
#define FM_STAGING_CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* What of a new file is on the disk before we say that it is written. */
enum fm_cache_sync {
	FM_CACHE_SYNC_NONE,    /* it outlives us; a power cut may leave not even the old one */
	FM_CACHE_SYNC_CONTENT, /* a power cut leaves the old one or the new one */
	FM_CACHE_SYNC_ALL,     /* it leaves the new one */
};

/*
 * A new file, which is renamed over the old one. After an error the old one is there, unless it was
 * the directory's sync that failed: then the new one may be.
 */
int fm_cache_file_write(int dir, const char *name, const void *bytes, size_t len,
			enum fm_cache_sync sync);

/* All of it, at most max bytes, in memory that fm_budget_free() frees. -EBADMSG: it is no file, or
 * longer. */
int fm_cache_file_read(int dir, const char *name, size_t max, uint8_t **out, size_t *len);

/* Whether it is an error of what the disk has of one thing, and says nothing of another. */
bool fm_cache_is_unreadable(int code);

/* Whether there is no room for it, or not for us. */
bool fm_cache_is_full(int code);

/* fn for each name, "." and ".." left out, until it returns something else than 0. */
int fm_cache_names(int dir, int (*fn)(void *ctx, const char *name), void *ctx);

/*
 * Callbacks of a walk through a tree. Each may be NULL. A result other than 0 ends the walk. Links
 * and devices are left out.
 */
struct fm_cache_visitor {
	int (*file)(void *ctx, int dir, const char *name, const struct stat *st);
	int (*dir)(void *ctx,
		   int fd); /* after what is in it was visited, but for its directories */
	void *ctx;
};

/*
 * A file or a directory with all that is in it, however long its paths are. No recursion, no link
 * is followed, nothing mounted is entered (-EXDEV).
 */
int fm_cache_walk(int root, const char *name, const struct fm_cache_visitor *visitor);

/* Whether the owner is us, and nobody else may write. */
bool fm_cache_is_ours(const struct stat *st);

#endif
