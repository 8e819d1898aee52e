/* SPDX-License-Identifier: MIT */
/*
 * dir - put -r and get -r: directories with all that is in them, and what their options mean for a
 * file.
 */
#ifndef FM_CLIENT_DIR_H
#define FM_CLIENT_DIR_H

#include <stdbool.h>
#include <sys/stat.h>

#include "client/cli/cmd.h"
#include "client/lib/fmove.h"

struct fm_err;
struct fm_name;
struct fm_outcome;
struct fm_transfer;

/* Keys of options, above those of client/cli/transfer.h. */
enum fm_dir_key {
	FM_DIR_RECURSIVE = 100,
	FM_DIR_EXCLUDE,
	FM_DIR_DRY_RUN,
	FM_DIR_UPDATE,
	FM_DIR_CHECKSUM,
	FM_DIR_DELETE,
	FM_DIR_REPLACE,
	FM_DIR_VERBOSE,
	FM_DIR_COPY_LINKS
};

/* clang-format off */
#define FM_DIR_OPTS \
	{ "recursive", 'r', FM_DIR_RECURSIVE, NULL, "directories too, with all that is in them", \
	  NULL }, \
	{ "exclude", 0, FM_DIR_EXCLUDE, "PATTERN", \
	  "with -r: leave out names (with a / in it: paths below the directory) that match; may " \
	  "be said several times", NULL }, \
	{ "dry-run", 'n', FM_DIR_DRY_RUN, NULL, \
	  "say what would be sent, replaced and removed, change nothing", NULL }, \
	{ "update", 0, FM_DIR_UPDATE, NULL, \
	  "with -r: send only what differs in size or time, and merge it into the directory that " \
	  "is there", NULL }, \
	{ "checksum", 0, FM_DIR_CHECKSUM, NULL, "with -r: as --update, but compare the content", \
	  NULL }, \
	{ "delete", 0, FM_DIR_DELETE, NULL, "with --update: remove what the source has not", \
	  NULL }, \
	{ "replace", 0, FM_DIR_REPLACE, NULL, \
	  "with -r: replace a directory that exists, with all that is in it", NULL }, \
	{ "verbose", 'v', FM_DIR_VERBOSE, NULL, "name what is added, replaced and removed", NULL }
/* of put only */
#define FM_DIR_PUT_OPT \
	{ "copy-links", 'L', FM_DIR_COPY_LINKS, NULL, \
	  "with -r: send what symbolic links lead to, not the links", NULL }
/* clang-format on */

struct fm_dir_args {
	bool is_recursive;
	bool replaces;			/* --replace */
	bool is_verbose;
	struct fmove_tree_options tree;	/* its excludes are set last */
	unsigned count;
	const char *excludes[FMOVE_EXCLUDES_MAX + 1];
};

/* One of the options above, its value in args->value. 0, or an exit status (said). */
int fm_dir_option(struct fm_dir_args *dir, struct fm_args *args, int key);

/* Whether they fit together. 0, or an exit status (said). */
int fm_dir_check(struct fm_dir_args *dir, struct fm_args *args);

/* As many descriptors as there may be: a directory deep down is held open with all those above
 * it. */
void fm_dir_allow_descriptors(void);

/*
 * Refuses a directory without -r, with the line that would move it, as far as it fits. -EISDIR.
 */
int fm_dir_refuse(const struct fm_transfer *t, const char *source, struct fm_outcome *one);

/*
 * A directory of the caller's that is left to the background is tried once: nobody would hear of
 * its tries, since the job would have failed with the first. -EINVAL: --retry was asked for.
 */
int fm_dir_check_background(const struct fm_transfer *t, struct fm_err *err);

/*
 * Send the directory that fd is open on; label is what the user called it, and with t->is_detached
 * its path, fd not being looked at: it goes in the background. one->err has an error.
 */
int fm_dir_put(struct fm_transfer *t, int fd, const char *label, const struct fm_name *target,
	       struct fm_outcome *one);

/* Whether what is to be received is a directory. one->err has an error. */
int fm_dir_is_source(struct fm_transfer *t, const struct fm_name *source, struct fmove_entry *entry,
		     struct fm_outcome *one);

/*
 * Receive a directory as dst; with a slash at its end, or if it is "." or "..", into it under its
 * own name. The target's path is in path then, FM_DIR_DST_MAX bytes. In the background if
 * t->is_detached.
 */
#define FM_DIR_DST_MAX (2 * FMOVE_PATH_MAX + 2)
int fm_dir_get(struct fm_transfer *t, const struct fm_name *source, const char *dst,
	       char path[static FM_DIR_DST_MAX], struct fm_outcome *one);

/*
 * A file beside directories: 1: there is nothing to do (it is the same, or this is a dry run), and
 * the outcome says so. 0: it is to be moved. there: what has its name at the target, or NULL.
 */
int fm_dir_file(const struct fm_dir_args *dir, const struct fmove_entry *file,
		const struct fmove_entry *there, struct fm_outcome *one);

/* With --verbose: what changes in the directory that is moved next is named as one's. */
void fm_dir_name(struct fm_transfer *t, const struct fm_outcome *one);

/* A directory was moved, or would be: what the options make of its result. */
void fm_dir_outcome(const struct fm_dir_args *dir, struct fm_outcome *one);

/* What fstat() says, as an entry. */
struct fmove_entry fm_dir_entry(const struct stat *st);

#endif
