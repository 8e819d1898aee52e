/* SPDX-License-Identifier: MIT */
/*
 * walk - every name below a directory, in the canonical order of a manifest.
 *
 * It goes by descriptors: no link is followed, and nothing outside of the root is reached. Names
 * that only fmove makes (".fmove...") are not met. Special files are met, and never opened. The
 * names of each directory on the way are held, since they must be sorted. A directory in which
 * names came or went while it was walked is an error.
 *
 * One thread at a time. Waits for the disk.
 */
#ifndef FM_STAGE_WALK_H
#define FM_STAGE_WALK_H

#include <stddef.h>
#include <sys/stat.h>

struct fm_err;
struct fm_stage_walk;

#define FM_STAGE_NAMES_MAX (256u << 20)	/* bytes of names that are held */

struct fm_stage_met {
	int dir;		/* where name is; good until the next call, as are the texts */
	const char *name;
	const char *path;	/* below the root, terminated */
	size_t path_len;
	struct stat st;		/* of a link itself */
};

/*
 * root: a directory, open for reading; borrowed until the end. names_max: FM_STAGE_NAMES_MAX; a
 * test has less. -ENOMEM.
 */
int fm_stage_walk_new(int root, size_t names_max, struct fm_stage_walk **out);

/*
 * 1: the next name, a directory before what is in it. 0: there are no more. Or an error with a
 * text.
 */
int fm_stage_walk_next(struct fm_stage_walk *w, struct fm_stage_met *out, struct fm_err *err);
void fm_stage_walk_free(struct fm_stage_walk *w);	/* NULL is allowed */

#endif
