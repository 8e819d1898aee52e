/* SPDX-License-Identifier: MIT */
/*
 * mounts - what is mounted where: /proc/self/mountinfo, read whole and taken apart. Any thread; a
 * table is its owner's.
 */
#ifndef FM_NVMETCP_MOUNTS_H
#define FM_NVMETCP_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct fm_err;

#define FM_MOUNTS_MAX 16384
#define FM_MOUNTS_BYTES_MAX (16u << 20)	/* as FM_MOUNTINFO_BYTES_MAX */

struct fm_mount {
	int id, parent;		/* of the mount, and of the one that it is mounted on */
	dev_t dev;
	/* of the file system, "/" unless it is a bind mount; escapes undone */
	char *root;
	char *point;		/* escapes undone */
	char *fs_type;
	char *source;		/* escapes undone; may be "" */
	/* of the mount, then a comma, then of the file system; as the kernel writes them */
	char *options;
	bool is_read_only;	/* either of them */
};

struct fm_mounts {
	/* as the kernel lists them; see fm_mounts_at() for what lies on top */
	struct fm_mount *mounts;
	size_t count;
	char *text;			/* what their strings point into */
};

/*
 * text is mountinfo's, len bytes; proc_pid_mountinfo(5). -EINVAL with the line's number, -E2BIG
 * beyond the limits above, -ENOMEM; *out is empty then.
 */
int fm_mounts_parse(const char *text, size_t len, struct fm_mounts *out, struct fm_err *err);

/*
 * root as in inventory.h: ROOT/proc/self/mountinfo. As it was at one moment: read again as long as
 * something was mounted or unmounted meanwhile, and -EAGAIN if that does not end.
 */
int fm_mounts_read(const char *root, struct fm_mounts *out, struct fm_err *err);

/* A zeroed one is allowed; it is zeroed again. */
void fm_mounts_free(struct fm_mounts *mounts);

/*
 * The mount that a user sees at this point (an absolute path without a slash at its end). It is
 * found from mount to mount along the path, as the kernel does it: the order of the table says
 * nothing once a mount was moved or covered. NULL: nothing is mounted there, or another mount hides
 * it.
 */
const struct fm_mount *fm_mounts_at(const struct fm_mounts *mounts, const char *point);

/*
 * The name of the device that it is made of by what it says ("nvme0n1p1" of "/dev/nvme0n1p1"), ""
 * if it says something else. Of FUSE any user says what he likes: "".
 */
const char *fm_mount_device(const struct fm_mount *m);

/*
 * Whether it is of that device. btrfs and its like have device numbers of their own: such a one is
 * known by what it says.
 */
bool fm_mount_is_of(const struct fm_mount *m, dev_t dev, const char *name);

/* The next one of this device after `after` (NULL: the first), or NULL. Hidden ones as well. */
const struct fm_mount *fm_mounts_of(const struct fm_mounts *mounts, dev_t dev,
				    const struct fm_mount *after);

#endif
