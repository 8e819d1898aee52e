/* SPDX-License-Identifier: MIT */
/*
 * same - whether two directories, or files, of one listing have the same bytes, where nobody may
 * decide that by a CRC32C: who wants another one's job to read his bytes makes them so that theirs
 * is the same.
 */
#ifndef FM_STAGE_SAME_H
#define FM_STAGE_SAME_H

#include <stdatomic.h>

struct fm_err;

/*
 * Each file of a, against that of b; of a dataset that is one file, that one. Both directories are
 * borrowed. -EEXIST: a file differs, and err names it. is_stopped: looked at for each file:
 * -ECANCELED. Worker threads; waits for the disk.
 */
int fm_stage_same(int a, int b, const char *file, const atomic_bool *is_stopped,
		  struct fm_err *err);

#endif
