/* SPDX-License-Identifier: MIT */
/* whole_file - all of a document that a person names: a file, or a pipe that ends. Any thread. */
#ifndef FM_BASE_WHOLE_FILE_H
#define FM_BASE_WHOLE_FILE_H

#include <stddef.h>

struct fm_err;

/* *out is malloc()ed, of max bytes at most. -E2BIG: it is longer; -errno; -ENOMEM. */
int fm_whole_file(const char *path, size_t max, char **out, size_t *len, struct fm_err *err);

#endif
