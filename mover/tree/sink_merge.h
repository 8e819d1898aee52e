/* SPDX-License-Identifier: MIT */
/*
 * sink_merge - what the two halves of a merge share: sink_merge.c walks the old version,
 * sink_carry.c takes a name of it over.
 */
#ifndef FM_TREE_SINK_MERGE_H
#define FM_TREE_SINK_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/err.h"
#include "mover/tree/scan.h"
#include "mover/tree/sink.h"

/* One walk. */
struct fm_merge {
	struct fm_sink_call *call;
	int old;		/* the root of what is walked */
	/* its path, not terminated, where it is not the root of the old version */
	const char *below;
	size_t below_len;
	bool is_late;		/* after the exchange */
	bool is_over;		/* all came, so the tree may be stopped already: the walk goes on */
	bool has_mount;		/* something is mounted in it: that is neither kept nor removed */
	bool has_saved;		/* a file that was taken over was saved again meanwhile */
	uint64_t placed_ns;	/* late: the new version has its name since then, at least */
	struct fm_err left;	/* of the first name that was left while others went on; 0: none */
	uint64_t met;		/* names, of a walk that only counts */
	bool is_durable;	/* that walk syncs what is mounted in it */
	dev_t synced;		/* the last of that */
	uint64_t carried;
	uint64_t since_ns;	/* what changed since is looked for */
};

/* The place of an entry in the old version and in the new one. */
struct fm_merge_at {
	const struct fm_scan_met *met;
	char path[FM_TREE_PATH_MAX + FM_SINK_NAME_MAX + 2];
	size_t len;
	size_t dir_len;		/* of the path of what it is in */
	const char *name;	/* the last component of it */
	int dir;		/* in the new tree; the call's */
};

/* ---- sink_foreign.c: in the survey of a merge ---- */

#define FM_FOREIGN_FILE "it is another user's, and may be neither linked nor read"
#define FM_FOREIGN_LINK "it is another user's, and may not be linked"
#define FM_FOREIGN_SPECIAL "it is a special file, and may not be linked"
#define FM_FOREIGN_WRITTEN "it may not be linked, and somebody writes to it just now"
#define FM_FOREIGN_DIR "it is another user's directory, which only root can make anew for him"

void fm_foreign_begin(struct fm_sink_foreign *f);
void fm_foreign_end(struct fm_sink_foreign *f);
void fm_foreign_free(struct fm_sink_foreign *f);

/* Whether one name could be kept; if not it is noted. */
int fm_foreign_look(struct fm_merge *w, const struct fm_merge_at *p);

/* -ENOSPC, and is_unmeasured: only a dry run can tell whether something is lost. */
int fm_foreign_ask(struct fm_sink *s, struct fm_err *err);

/* ---- */

/* Splits the path into its directory and its last component. */
void fm_merge_split(struct fm_merge_at *p);

int fm_merge_fail(const struct fm_merge *w, int ret, const char *verb, const struct fm_merge_at *p);

/* -EPERM: something is mounted there. */
int fm_merge_refuse_mount(struct fm_merge *w, const struct fm_merge_at *p);

/*
 * Into p->dir, where nothing has the name. 0 too if it went meanwhile. A directory is made empty;
 * fm_sink_finish_carried() gives it the rest.
 */
int fm_merge_carry(struct fm_merge *w, const struct fm_merge_at *p);

/*
 * After the exchange: refuses a directory of the new version that does not have the owner of the
 * old one.
 */
int fm_merge_check_owner(struct fm_merge *w, const struct fm_merge_at *p);

/*
 * After the exchange. A file that was taken over may have been saved again in the old version
 * meanwhile: the new version gets it as it is now. One that was written to in the new version, too,
 * stays as it is there: w->left says so, and it is no error.
 */
int fm_merge_take_saved(struct fm_merge *w);

#endif
