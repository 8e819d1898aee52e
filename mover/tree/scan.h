/* SPDX-License-Identifier: MIT */
/*
 * scan - every name of a directory tree, depth first, in the order in which the file system lists
 * them, but by inode where many are at hand.
 *
 * Links are not followed; mount points are crossed. What is held is the way from the root to the
 * current directory, one buffer of names for each on it, whatever the number of names; of the way
 * only the last FM_SCAN_OPEN_MAX directories are open. One thread at a time; the directories that
 * were handed out may be used by any.
 */
#ifndef FM_TREE_SCAN_H
#define FM_TREE_SCAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "mover/tree/exclude.h"
#include "mover/tree/tree.h"

struct fm_err;
struct fm_scan;

#define FM_SCAN_OPEN_MAX 64

/* A directory, for all who still need it: counted; the last one that puts it back closes it. */
struct fm_scan_dir {
	atomic_uint refs;
	int fd;
	size_t path_len;
	char path[];		/* below the root, terminated; "" is the root */
};

struct fm_scan_dir *fm_scan_dir_get(struct fm_scan_dir *dir);
void fm_scan_dir_put(struct fm_scan_dir *dir);	/* NULL is allowed */

/* fd is taken over, also on error. NULL: no memory. */
struct fm_scan_dir *fm_scan_dir_new(int fd, const char *path, size_t path_len);

struct fm_scan_opts {
	struct fm_scan_dir *root;		/* a reference is taken */
	const struct fm_exclude *exclude;	/* outlives the scan */
	bool (*skips)(const char *name);	/* names that are not met; NULL: none */
	/* paths below the root that are, with what is below them; NULL: all */
	bool (*wants)(void *ctx, const char *path);
	void *wants_ctx;
	/* what a symbolic link leads to is met in its place */
	bool follows_links;
	/*
	 * Not of a source, but of the version that a sink has under the final name: special files
	 * are met too, a directory that went is not, and the texts of errors say what to do there.
	 */
	bool is_target;
};

struct fm_scan_met {
	/* it is in, or, of a directory, itself; the scan's, valid until the next call */
	struct fm_scan_dir *dir;
	/* terminated; of a directory ""; valid until the next call */
	const char *name;
	size_t name_len;
	unsigned char type;		/* DT_DIR, DT_REG, DT_LNK; is_target: any */
};

/* NULL: no memory. */
struct fm_scan *fm_scan_new(const struct fm_scan_opts *opts);

/*
 * 1: the next name (a directory comes before what is in it, the root first). 0: there are no more.
 * Or an error with a text: what cannot be read, is special, too deep or too long. After an error
 * there is only that error.
 */
int fm_scan_next(struct fm_scan *s, struct fm_scan_met *out, struct fm_err *err);

/* Whether a name of a source was left out because no far end takes it: it begins with
 * FM_STAGING_PREFIX, and skips() did not know it. */
bool fm_scan_has_left_out(const struct fm_scan *s);

void fm_scan_free(struct fm_scan *s);	/* NULL is allowed */

#endif
