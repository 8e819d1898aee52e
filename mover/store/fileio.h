/* SPDX-License-Identifier: MIT */
/*
 * fileio - reads and writes of one regular file, in the way that suits its file system:
 *
 *   direct     O_DIRECT through the lane's ring. Odd lengths (the tail of a file) are moved as
 *              whole blocks: the buffer goes on to the end of the last one.
 *   buffered   through the ring and the page cache, where there is no O_DIRECT. A note says why.
 *   at once    tmpfs and ramfs: pread(2) and pwrite(2) on the lane itself, since a copy within
 *              memory is cheaper than handing it to one of io_uring's threads, which is what would
 *              happen there. The kernel lets one write to a file at a time, and whoever waits
 *              there spins. So two lanes may: one writes, and the next begins as it ends. With
 *              sixteen, the rate was the same, for three times the CPU; with one, a fifth less.
 *   mapped     a large file of tmpfs that will have no holes is written to by all lanes side by
 *              side (mapped.h). Where that is refused, at once.
 *
 * Set up by one thread; then any number of lanes at once, never at the same offset. It does not own
 * the descriptor.
 */
#ifndef FM_STORE_FILEIO_H
#define FM_STORE_FILEIO_H

#include <semaphore.h>
#include <stdbool.h>
#include <sys/statfs.h>

#include "mover/base/ring.h"

struct fm_err;
struct fm_lane_io;
struct fm_mapped;

struct fm_fileio {
	int fd;
	int flags;			/* that its description had before */
	bool has_other_flags;		/* now */
	bool is_direct;
	bool is_memory;			/* at once */
	bool may_stand;			/* may_stand.h */
	bool has_write_lock;		/* journal/written.h */
	sem_t turns;			/* of who writes at once */
	struct fm_mapped *mapped;	/* NULL: it is not */
};

/* Whether a file system of this kind lives in memory. */
bool fm_fileio_is_memory(const struct statfs *fs);

/*
 * Choose the way for an open regular file and set its flags (O_NONBLOCK is cleared, O_DIRECT set or
 * not). *note: NULL, or why it is buffered. is_sink: the file is empty, may be written to and
 * truncated again to try.
 */
int fm_fileio_init(struct fm_fileio *io, int fd, bool is_sink, bool is_buffered, const char **note,
		   struct fm_err *err);

/* Before the first write to a sink: it will have that size, and no holes. */
void fm_fileio_expect(struct fm_fileio *io, uint64_t size);

/*
 * Nothing is written any more: before the file is published, since a mapping that is left would
 * keep its owner from sealing it, and before its descriptor is closed. Twice is allowed.
 */
void fm_fileio_end(struct fm_fileio *io);

/* The description is a caller's, too: its flags become what they were. Nothing can be done if
 * not. */
void fm_fileio_put_flags_back(const struct fm_fileio *io);

/* As in struct fm_file_ops. */
void fm_fileio_read(struct fm_fileio *file, const struct fm_lane_io *lane, struct fm_io *io);
void fm_fileio_write(struct fm_fileio *file, const struct fm_lane_io *lane, struct fm_io *io);
int fm_fileio_write_now(struct fm_fileio *file, void *buf, uint32_t len);

#endif
