/* SPDX-License-Identifier: MIT */
/* dirway - which directory a path leads to, over which mounts; whether it led elsewhere. */
#ifndef FM_BASE_DIRWAY_H
#define FM_BASE_DIRWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_err;

/* Where a path leads. All 0: nowhere, or it is not known. */
struct fm_dirway {
	dev_t device;
	ino_t inode;
	/* the mount that it is on, also when what is bound there is renamed: another number than
	 * that of any other mount, also if that comes to have the ID of one that is gone; but one
	 * of the same file system at the same point may. 0: not known */
	uint64_t mount;
	/* its ID, of a directory that was open; no other mount has it before all have closed that.
	 * 0: not known */
	unsigned mount_id;
	unsigned depth;		/* so many mounts lead there, this one and the top one included */
};

/* Of a directory that is open. -errno; that its mount is not found is no error. */
int fm_dirway_of(int fd, struct fm_dirway *out);

/*
 * Of a path, links in it followed. May hang as its file system does. -errno, with *out all 0.
 */
int fm_dirway_at(const char *path, struct fm_dirway *out);

/* The mount alone, as the spelling of an absolute path tells: no file system is asked. */
void fm_dirway_spelled(const char *path, struct fm_dirway *out);

/* Whether it is the same directory; not of two that are not known. */
bool fm_dirway_is_same(const struct fm_dirway *a, const struct fm_dirway *b);

/* Whether that mount, or one above it, was unmounted. False if it is not known. */
bool fm_dirway_is_unmounted(const struct fm_dirway *was);

/* Whether what the path leads to now is what lay beneath a mount that is no more. */
bool fm_dirway_is_beneath(const struct fm_dirway *now, const struct fm_dirway *was);

/*
 * Whether something was mounted on the way there since, and nobody but root or this process's user
 * can have had a part in where the path leads: no link is on the way, each directory above the last
 * one is theirs, and no other may rename in it. May hang as the path's file system does.
 */
bool fm_dirway_is_mounted_over(const char *path, const struct fm_dirway *now,
			       const struct fm_dirway *was);

/* What both are made of, with a text of mountinfo.h: mount and depth of the mount of that ID. */
void fm_dirway_mount_in(const char *text, size_t len, unsigned id, struct fm_dirway *out);
bool fm_dirway_lists(const char *text, size_t len, uint64_t mount);

#endif
