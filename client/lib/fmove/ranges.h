/* SPDX-License-Identifier: MIT */
/* fmove/ranges.h - parts of a file. See <fmove.h>. */
#ifndef FMOVE_RANGES_H
#define FMOVE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "files.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Bytes of a file. Stays as it is. */
struct fmove_range {
	uint64_t offset;
	uint64_t length;		/* or FMOVE_TO_END */
};

#define FMOVE_TO_END UINT64_MAX		/* up to the end of the file */
#define FMOVE_RANGES_MAX 1024u		/* of one fmove_get() */

/*
 * Receive ranges of name into fd, one after the other. They may overlap and have any order. Any
 * number goes into a pipe; at most FMOVE_RANGES_MAX (-E2BIG) into an empty regular file. So many
 * are one request. -EINVAL: one lies past the end. -ESTALE: the file changed between two requests.
 */
int fmove_get_ranges(struct fmove *c, int fd, const struct fmove_name *name,
		     const struct fmove_range *ranges, size_t count,
		     const struct fmove_options *opts, struct fmove_result *result,
		     struct fmove_error *err);

/*
 * Receive ranges of name into memory: range i into to[i], which has room for its length. Any
 * number. After an error the memory holds nothing to use.
 */
int fmove_read_ranges(struct fmove *c, const struct fmove_name *name,
		      const struct fmove_range *ranges, void *const *to, size_t count,
		      const struct fmove_options *opts, struct fmove_result *result,
		      struct fmove_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
