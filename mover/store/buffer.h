/* SPDX-License-Identifier: MIT */
/*
 * buffer - memory of a local caller that is mapped here too, and the files made of it.
 *
 * The caller passes a memory file (memfd_create) that can neither grow nor shrink. It is sealed
 * against new writers, too, after which nobody can take a page out of it, and mapped once. So what
 * is read or written there never faults, whatever the caller does, and needs no call to the kernel.
 * What the caller writes during a transfer damages that transfer alone: its chunks have a CRC of
 * the bytes that went.
 *
 * Reference-counted: a buffer that its caller has given back stays until the last file of it is
 * closed. Any thread, unless it says otherwise.
 */
#ifndef FM_STORE_BUFFER_H
#define FM_STORE_BUFFER_H

#include <stdint.h>

#include "mover/base/list.h"
#include "mover/base/share.h"

struct fm_attr;
struct fm_buffer;
struct fm_err;
struct fm_file;
struct fm_holder;

struct fm_buffer_opts {
	int fd;				/* stays the caller's */
	uint64_t bytes;			/* that it must have */
	/* Who has that descriptor, on whose worker this is called and the memory is unmapped; NULL:
	 * we do. */
	struct fm_holder *holder;
	uid_t uid;			/* whose it is */
};

/* -EINVAL, with a text: not a memory file as it should be. It has one reference. */
int fm_buffer_map(const struct fm_buffer_opts *opts, struct fm_buffer **out, struct fm_err *err);

/* The loop's thread: what it holds of a share is given back, there, when it is unmapped. */
void fm_buffer_charge(struct fm_buffer *buffer, const struct fm_share_held *held);

struct fm_buffer *fm_buffer_ref(struct fm_buffer *buffer);

/* NULL is allowed. */
void fm_buffer_unref(struct fm_buffer *buffer);

/* A part of it, as a source or as a sink of at most so many bytes. -EINVAL: it is not all inside;
 * -EROFS: the sink of a buffer that was sealed before it came, and so cannot be written to. */
int fm_buffer_source(struct fm_buffer *buffer, uint64_t offset, uint64_t len, struct fm_file **out,
		     struct fm_attr *attr, struct fm_err *err);
int fm_buffer_sink(struct fm_buffer *buffer, uint64_t offset, uint64_t len, struct fm_file **out,
		   struct fm_err *err);

uint64_t fm_buffer_bytes(const struct fm_buffer *buffer);

/* All of it, page-aligned. */
const char *fm_buffer_memory(const struct fm_buffer *buffer);

uid_t fm_buffer_uid(const struct fm_buffer *buffer);

/*
 * What others keep with a buffer as long as it is there, such as registrations with devices: a list
 * of theirs, under a lock of theirs. over() is called once by whoever lets go of it last: any
 * thread; nothing uses the memory any more, which is unmapped afterwards. Whoever sets that has a
 * reference; it is set to the same each time.
 */
struct fm_buffer_kept {
	struct fm_list list;
	void (*over)(struct fm_buffer_kept *kept);
	void *ctx;
};

struct fm_buffer_kept *fm_buffer_kept(struct fm_buffer *buffer);

#endif
