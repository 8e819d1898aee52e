/* SPDX-License-Identifier: MIT */
/*
 * hub - what one revision of a repository is in a hub cache of Hugging Face: a directory with
 * models--ORG--NAME/{blobs,refs,snapshots} in it.
 *
 * The links of snapshots/COMMIT lead to files in the repository's blobs, or (the newer layout) over
 * a link there to the cache's own blobs: out of the repository, but never out of the cache. A view
 * is the names below the cache's root that this revision needs: the snapshot, the blobs that it
 * leads to, the list of what it should have (trees/COMMIT.json) if there is one. Of the refs
 * nothing: they are another revision's tomorrow.
 *
 * Everything in the cache is hostile. No symbolic link is followed but those of a snapshot, and
 * these only after a look at where they lead. Worker; waits for the disk.
 */
#ifndef FM_STORE_HUB_H
#define FM_STORE_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/hub_name.h"
#include "mover/store/store.h"

struct fm_store_dir;
struct fm_hub_view;

#define FM_HUB_NAMES_MAX (1u << 20)	/* of one revision */
#define FM_HUB_DEPTH_MAX 32		/* directories in one another in a snapshot */

/* The commit that a ref names: a file below root, reached over no link. -EBADMSG: none. */
int fm_hub_ref_read(int root, const char *path, char commit[FM_HUB_COMMIT_LEN + 1]);

/*
 * The commit of a revision, by refs. -ENOENT: no such repository or revision. -EBADMSG: a ref that
 * is no commit.
 */
int fm_hub_commit(int root, const struct fm_hub_name *name, char commit[FM_HUB_COMMIT_LEN + 1],
		  struct fm_err *err);

/*
 * -ENOENT: it is not there. -EBADMSG: it is not whole: a download is not through, a link leads
 * nowhere. -EXDEV: a link leads out of the cache. -E2BIG: too many names, or too deep. -ENOMEM: the
 * budget has no room for the names.
 */
int fm_hub_view(int root, const char *dir, const char *commit, struct fm_hub_view **out,
		struct fm_err *err);
void fm_hub_view_free(struct fm_hub_view *v);	/* NULL is allowed */

/* Whether a path below the root is one of them: a file, a link, or a directory on the way. */
bool fm_hub_view_has(const struct fm_hub_view *v, const char *path);

uint64_t fm_hub_view_bytes(const struct fm_hub_view *v);	/* of its files */

/* The repository's own names of blobs, one after the other, and NULL: DIR/blobs/HASH. */
const char *fm_hub_view_blob(const struct fm_hub_view *v, size_t *at);

/* ---- of a store: the path is KIND--ORG--NAME@REVISION ---- */

/* A directory with one entry, the commit. */
int fm_hub_list(struct fm_store_dir *dir, const struct fm_hub_name *name,
		const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
		struct fm_err *err);

int fm_hub_stat(struct fm_store_dir *dir, const struct fm_hub_name *name, struct fm_attr *attr,
		struct fm_err *err);

/* The view as a tree. */
int fm_hub_tree(struct fm_store_dir *dir, const struct fm_hub_name *name, const struct fm_who *who,
		const char *const *excludes, struct fm_file **out, struct fm_attr *attr,
		struct fm_err *err);

#endif
