/* SPDX-License-Identifier: MIT */
/*
 * path - names below a store: which are allowed, and how they are opened without ever leaving it.
 *
 * A path is bytes without NUL; callers that receive bytes with a length refuse NUL before they make
 * a string of them. Symbolic links are followed as long as they stay beneath the root; the kernel
 * guards that (openat2), so renames meanwhile cannot lead out either. Any thread; nothing is kept.
 * Calls may block: worker threads only.
 */
#ifndef FM_STORE_PATH_H
#define FM_STORE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/show.h"
#include "mover/journal/partial.h"

struct fm_err;

/* Names that begin so are ours: they cannot be addressed and are not listed. */
#define FM_PATH_RESERVED FM_PARTIAL_PREFIX

/* Who owns the directories that are made on the way. */
struct fm_path_make {
	bool has_owner;			/* else they are the service's */
	bool is_for_group;		/* whatever the umask says */
	uid_t uid;
	gid_t gid;
};

/* The directory of a path's last component. */
struct fm_path_parent {
	int fd;				/* O_RDONLY | O_DIRECTORY; the receiver closes it */
	const char *name;		/* the last component: points into the path asked for */
};

bool fm_path_is_reserved(const char *name);

/* Make a directory, and give it to its owner (made_dir.h). -EEXIST, or another -errno. */
int fm_path_make_dir(int parent, const char *name, const struct fm_path_make *make);

/*
 * "" (the store itself) or components divided by single slashes. -EINVAL: absolute, empty
 * component, ".", "..", a reserved name. -ENAMETOOLONG.
 */
int fm_path_check(const char *path, struct fm_err *err);

/* A descriptor of a checked path; flags as for open(2). Errors as for fm_path_fail(). */
int fm_path_open(int root, const char *path, int flags, struct fm_err *err);

/*
 * The directory that holds the last component of a checked path that is not "". make: missing
 * directories are made; or NULL.
 */
int fm_path_open_parent(int root, const char *path, const struct fm_path_make *make,
			struct fm_path_parent *out, struct fm_err *err);

/*
 * Whether a path leads into another directory by now than `held`, since that was replaced, moved or
 * removed: 1, and *fd is that one, the receiver's. What is missing on the way is made. 0: it does
 * not, or nobody can tell. Errors as for fm_path_fail(): it leads nowhere.
 */
int fm_path_find_other(int root, const char *path, int held, const struct fm_path_make *make,
		       int *fd, struct fm_err *err);

/*
 * Make the name of the open directory `parent` of a path durable, and those of all directories that
 * it is in, up to the store's. Whoever made them: what another transfer, an earlier daemon or a
 * person made may not be on disk yet. What is in `parent` is left to the caller.
 */
int fm_path_sync_up(int root, int parent, const char *path, struct fm_err *err);

/*
 * Set err to 'VERB "PATH": why and what to do' from the errno of a system call. Returns the code
 * that leaves the store: EACCES becomes -EPERM, since -EACCES means the store's own rules. See
 * README.md for all of them.
 */
int fm_path_fail(struct fm_err *err, int code, const char *verb, const char *path);

/* The same of what could not be made in the file system of dir. */
int fm_path_fail_making(struct fm_err *err, int code, int dir, const char *verb, const char *path);

/*
 * Whether a directory may get that name: 0, nothing or a directory that may be replaced has it;
 * -EEXIST, with what can be done about it; -ENOTDIR. what: "a tree", in the messages.
 */
int fm_path_check_target(const struct fm_path_parent *parent, const char *path, bool may_replace,
			 const char *what, const char *advice, struct fm_err *err);

#endif
