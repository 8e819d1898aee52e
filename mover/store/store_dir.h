/* SPDX-License-Identifier: MIT */
/*
 * store_dir - what the files of a directory store share: store_file.c opens it, file_sink.c,
 * listing.c and removal.c work on it.
 *
 * It lives until it was freed and the last file opened from it is closed.
 */
#ifndef FM_STORE_STORE_DIR_H
#define FM_STORE_STORE_DIR_H

#include <stdatomic.h>
#include <stdbool.h>

#include "mover/store/aside.h"
#include "mover/store/group_count.h"
#include "mover/store/group_use.h"
#include "mover/store/path.h"
#include "mover/store/promise.h"
#include "mover/store/store.h"
#include "mover/store/usage.h"

struct fm_group_paths;

struct fm_store_dir {
	struct fm_store store;
	int root;
	atomic_uint users;		/* the owner and each open file */
	bool may_replace;
	bool is_buffered;
	bool is_hub;
	uint64_t partial_keep_ns;
	/* for what is in use by a transfer, which may be just ending */
	unsigned lock_wait_ms;
	atomic_uint waiting;		/* callers that may be waiting so */
	uint64_t old_keep_ns;
	uint64_t group_keep_ns;
	uint64_t sweep_ns;		/* that a sweep may take; its own: one runs at a time */
	enum fm_store_owner owner;
	bool is_for_group;
	struct fm_access *read;
	struct fm_access *write;
	struct fm_usage usage;
	struct fm_promises promises;
	struct fm_aside_index aside;
	struct fm_group_count groups;	/* that are open */
	_Atomic(struct fm_group_paths *) groups_found;	/* by who lists them; or NULL */
	pthread_mutex_t rotating;	/* held by who changes a record of a rotation */
	atomic_uint rotations;		/* that go on */
};

/* One more user; give it back with put. */
void fm_store_dir_get(struct fm_store_dir *dir);
void fm_store_dir_put(struct fm_store_dir *dir);

/*
 * A caller begins to wait for what a transfer uses. Returns for how long he may: a few wait, and
 * the rest has 0, since each keeps a worker that others need.
 */
unsigned fm_store_dir_begin_wait(struct fm_store_dir *dir);
void fm_store_dir_end_wait(struct fm_store_dir *dir);

/* Who owns what is made for this caller. */
struct fm_path_make fm_store_dir_make(const struct fm_store_dir *dir, const struct fm_who *who);

/*
 * The operations that have a file of their own. The path is checked, and the caller may do it.
 * member: what a sink holds a group with, or NULL; taken over, but not in failure.
 */
int fm_file_sink_new(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
		     const struct fm_create *how, struct fm_group_use *member,
		     struct fm_file **out, struct fm_err *err);
int fm_listing(struct fm_store_dir *dir, const char *path, const struct fm_list_opts *opts,
	       struct fm_entry *out, size_t *count, struct fm_err *err);
int fm_listing_partials(struct fm_store_dir *dir, const char *path, const struct fm_list_opts *opts,
			struct fm_entry *out, size_t *count, struct fm_err *err);
void fm_sweep(struct fm_store_dir *dir, const atomic_bool *is_over);
int fm_tree_store_source(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
			 const char *const *excludes, struct fm_file **out, struct fm_attr *attr,
			 struct fm_err *err);
int fm_tree_store_sink(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
		       const struct fm_create_tree *how, struct fm_group_use *member,
		       struct fm_file **out, struct fm_err *err);
int fm_removal(struct fm_store_dir *dir, const char *path, bool is_recursive, struct fm_err *err);
int fm_symlink(struct fm_store_dir *dir, const char *path, const char *target,
	       const struct fm_who *who, bool may_replace, struct fm_err *err);
/* Whether a link in the open directory may say that: it leads nowhere out of the store from there.
 * path: of the link, for the error. */
int fm_symlink_check(const struct fm_store_dir *sd, int dir, const char *path, const char *target,
		     struct fm_err *err);
int fm_move(struct fm_store_dir *dir, const char *path, const char *to, bool may_replace,
	    struct fm_err *err);

#endif
