/* SPDX-License-Identifier: MIT */
/*
 * targets - which directories and which device are meant: by their path, by the store or the volume
 * that the configuration has them for.
 */
#ifndef FM_BENCH_TARGETS_H
#define FM_BENCH_TARGETS_H

#include "client/bench/run.h"

struct fm_targets {
	const char *config; /* NULL: the usual one */
	const char *store, *volume;
	const char *paths[FM_RUN_DIRS_MAX];
	size_t path_count;
	bool wants_dirs; /* with neither path nor store: those of all stores */
	bool is_all;	 /* what cannot be found then is left out */
};

/*
 * Fill in dirs and device. -ENOENT: there is no such store or volume; -ENOTCONN: the volume is not
 * there; -errno of the configuration.
 */
int fm_targets_find(const struct fm_targets *targets, struct fm_run *run, struct fm_err *err);
void fm_targets_free(struct fm_run *run);

/*
 * What is mounted at a point, of a text of mountinfo (mover/base/mountinfo.h), len bytes; the last
 * one counts. -ENOTCONN: nothing, -ENAMETOOLONG.
 */
int fm_targets_device(const char *text, size_t len, const char *point, char *out, size_t cap);

#endif
