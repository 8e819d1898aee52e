/* SPDX-License-Identifier: MIT */
/*
 * part - the file that a get writes: ".fmove.XXXXXX.part" beside its final name until it is
 * complete.
 *
 * Made, filled and renamed with the caller's rights only. One at a time; fm_interrupt_start() comes
 * first.
 */
#ifndef FM_CLIENT_PART_H
#define FM_CLIENT_PART_H

#include <stdbool.h>
#include <stdint.h>

struct fm_err;

#define FM_PART_NAME_MAX 32

struct fm_part {
	int fd;			/* empty, for reading and writing */
	int dir_fd;
	char temp[FM_PART_NAME_MAX];
	char last[256];		/* the final name in that directory */
	bool may_replace;
};

struct fm_part_attr {
	unsigned mode;
	int64_t mtime_ns;
	bool is_durable;	/* on disk before it is said to be there */
};

/*
 * path is what the caller typed, a directory in its place already resolved. -EEXIST unless
 * may_replace.
 */
int fm_part_open(const char *path, bool may_replace, struct fm_part *out, struct fm_err *err);

/*
 * All of it is there: mode, time, final name. Afterwards, also after an error, nothing of it is
 * left but the final file.
 */
int fm_part_publish(struct fm_part *part, const struct fm_part_attr *attr, struct fm_err *err);

/* Instead of publishing. */
void fm_part_discard(struct fm_part *part);

#endif
