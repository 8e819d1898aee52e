/* SPDX-License-Identifier: MIT */
/*
 * dataset_show - a dataset as people read it: in one line of a list, or with all that is known of
 * it. On standard output; fm_stdout_end() looks for errors.
 */
#ifndef FM_CLIENT_DATASET_SHOW_H
#define FM_CLIENT_DATASET_SHOW_H

#include <stdint.h>

#include "client/lib/fmove.h"

/* now_ms: Unix time, from which ages are told. */
void fm_dataset_line(const struct fmove_dataset *d, int64_t now_ms);

/* Some lines of at most 80 columns, as far as names and paths let them. */
void fm_dataset_whole(const struct fmove_dataset *d, int64_t now_ms);

#endif
