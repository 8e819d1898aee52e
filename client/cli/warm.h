/* SPDX-License-Identifier: MIT */
/*
 * warm - what is staged is read into the page cache, by us, if it fits into what is free.
 */
#ifndef FM_CLIENT_WARM_H
#define FM_CLIENT_WARM_H

#include <stdbool.h>
#include <stdint.h>

struct fm_err;

/* Where the kernel says what is free; NULL: where it does. */
struct fm_warm_places {
	const char *meminfo;		/* /proc/meminfo */
	const char *cgroup;		/* /proc/self/cgroup */
	const char *cgroups;		/* /sys/fs/cgroup */
};

/*
 * How much the page cache may take: what is available, of this machine and of each control group
 * that we are in, less a margin for others. 0: not known.
 */
uint64_t fm_warm_room(const struct fm_warm_places *where);

struct fm_warm_opts {
	const char *path;		/* a directory or a file, absolute */
	bool follows_links;		/* a hub's snapshot, whose files are links; else none is */
	void (*progress)(void *ctx, uint64_t bytes, uint64_t size);	/* NULL: nobody looks */
	void *ctx;
};

struct fm_warmed {
	uint64_t bytes;			/* of the files */
	uint64_t room;
	bool fits;			/* if not, nothing was read */
};

/* -ECANCELED: fm_is_interrupted(). Else what cannot be read ends it. */
int fm_warm(const struct fm_warm_opts *o, struct fm_warmed *out, struct fm_err *err);

#endif
