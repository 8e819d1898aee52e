/* SPDX-License-Identifier: MIT */
/*
 * disk - reads and writes a file for a while, so many blocks at once, through the project's ring.
 *
 * A closed loop: when a block is done the next one begins, and its latency is what it took. Each
 * page of a block has its place in the file written into it, beside what looks random; what is read
 * is compared with that, so a disk that gives back something else is found. One thread.
 */
#ifndef FM_BENCH_DISK_H
#define FM_BENCH_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/bench/stats.h"

struct fm_err;

#define FM_DISK_DEPTH_MAX 256u

struct fm_disk_opts {
	int fd;		      /* O_DIRECT, or a file system of memory in tests */
	uint64_t size;	      /* what of it is used; a multiple of block_bytes */
	uint32_t block_bytes; /* a multiple of 4096 */
	unsigned depth;
	bool is_foreign; /* what is read is not ours: it is not compared */
};

struct fm_disk;

int fm_disk_new(const struct fm_disk_opts *opts, struct fm_disk **out, struct fm_err *err);
void fm_disk_free(struct fm_disk *disk); /* NULL is allowed */

/* Write all of it once: what is measured must be there. -ECANCELED after a signal. */
int fm_disk_fill(struct fm_disk *disk, struct fm_err *err);

/*
 * Read or write for so long, from the start and around. *out: until the last block was done. The
 * latencies are added to h. -EBADMSG: what was read is not what was written.
 */
int fm_disk_run(struct fm_disk *disk, bool is_write, double seconds, struct fm_bench_repeat *out,
		struct fm_histogram *h, struct fm_err *err);

#endif
