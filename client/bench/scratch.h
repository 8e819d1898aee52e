/* SPDX-License-Identifier: MIT */
/*
 * scratch - a file of our own to measure with, which is gone when we are, however we end.
 *
 * It has no name at all, or, where a file system cannot do that, loses it before anything is
 * written. So a crash leaves at most an empty file .fmove-bench.RANDOM. Nothing is ever written,
 * and nothing removed, that was there before.
 */
#ifndef FM_BENCH_SCRATCH_H
#define FM_BENCH_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>

struct fm_err;

#define FM_SCRATCH_NAME	      ".fmove-bench."
#define FM_SCRATCH_LEFT_PARTS 20u		   /* a part of the disk is left free */
#define FM_SCRATCH_LEFT_MIN   (UINT64_C(64) << 20) /* and this at least */

struct fm_scratch {
	int fd; /* O_DIRECT, unless is_cached */
	uint64_t size;
	bool is_cached; /* memory answers: no O_DIRECT here, or a file system of memory */
	int dir; /* fm_scratch's own */
};

/*
 * Of `size` bytes, in a directory that exists; has_names: as if files without a name were not to be
 * had (for tests). -ENOSPC: too little would be left. -errno; *out needs no close then.
 */
int fm_scratch_open(const char *dir, uint64_t size, bool has_names, struct fm_scratch *out,
		    struct fm_err *err);
void fm_scratch_close(struct fm_scratch *scratch);

/* Whether a descriptor takes O_DIRECT, and its file system is not one of memory; O_DIRECT is set
 * then. */
bool fm_scratch_is_direct(int fd);

#endif
