/* SPDX-License-Identifier: MIT */
/* fmove/memory.h - put from memory, and receive into it. See <fmove.h>. */
#ifndef FMOVE_MEMORY_H
#define FMOVE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "files.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Pages that the daemon maps, too: what is put from them goes from there to the wire, and what is
 * received into them comes there from it, without a copy in between (direct_bytes of struct
 * fmove_result). Over RDMA what is received is copied once; so is what is put at first, while the
 * daemon registers them with the device, and beyond what it may lock. They are huge where the
 * machine has huge pages to spare. The daemon's memory.buffers (fmove.conf(5)) is a limit: -EBUSY.
 */
struct fmove_buffer;

/* Stays as it is. */
struct fmove_part {
	struct fmove_buffer *buffer;
	size_t offset;
	size_t length;
};

/* Filled with zeros. A connection to the daemon belongs to it. Several threads may use one. */
int fmove_buffer_alloc(struct fmove *c, size_t bytes, struct fmove_buffer **out,
		       struct fmove_error *err);

/* Where it is, page-aligned. */
void *fmove_buffer_memory(const struct fmove_buffer *b);

/* No call uses it. What its process left behind of it is of no harm. NULL is allowed. */
void fmove_buffer_free(struct fmove_buffer *b);

/*
 * Put a part of a buffer, and get into one, at most so many bytes (-EFBIG); result->bytes says how
 * many came. What came is checked where it lies, so there may be anything until the call has
 * succeeded: damaged bytes, too, that come again. Nothing comes there after it. Who changes what is
 * being put or received damages that: a put of which a chunk is another one when it has to go again
 * is -ESTALE, and chunks that are damaged on their way a few times are -EBADMSG.
 */
int fmove_put_buffer(struct fmove *c, const struct fmove_part *from, const struct fmove_name *name,
		     const struct fmove_options *opts, struct fmove_result *result,
		     struct fmove_error *err);
int fmove_get_buffer(struct fmove *c, const struct fmove_part *to, const struct fmove_name *name,
		     const struct fmove_options *opts, struct fmove_result *result,
		     struct fmove_error *err);

/*
 * With retry_ms a put whose answer was lost is tried again, and finds what it had published itself:
 * -EEXIST does not say whose it is then, since memory has no time by which a file would be known
 * again. With may_replace it is put once more.
 */

/* The same with any memory: it is copied first, from what came afterwards. */
int fmove_put_memory(struct fmove *c, const void *from, size_t length,
		     const struct fmove_name *name, const struct fmove_options *opts,
		     struct fmove_result *result, struct fmove_error *err);
int fmove_get_memory(struct fmove *c, void *to, size_t length, const struct fmove_name *name,
		     const struct fmove_options *opts, struct fmove_result *result,
		     struct fmove_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
