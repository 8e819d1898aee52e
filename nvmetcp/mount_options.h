/* SPDX-License-Identifier: MIT */
/*
 * mount_options - mount(8)'s comma-separated words as mount(2) wants them: flags of the kernel, and
 * the rest for the file system. A pure function; any thread.
 */
#ifndef FM_NVMETCP_MOUNT_OPTIONS_H
#define FM_NVMETCP_MOUNT_OPTIONS_H

struct fm_err;

#define FM_MOUNT_DATA_MAX 4096		/* bytes; the kernel takes one page */

struct fm_mount_options {
	unsigned long flags;		/* MS_... */
	char data[FM_MOUNT_DATA_MAX];	/* "" if there is nothing for the file system */
};

/*
 * A word that contradicts an earlier one wins ("ro,rw" is "rw"). Words that only mount(8), fstab or
 * systemd understand (defaults, nofail, _netdev, x-...) are left out. -EINVAL: a word that must not
 * be here (remount, bind, loop, offset, an empty one, a control character); -E2BIG.
 */
int fm_mount_options_parse(const char *text, struct fm_mount_options *out, struct fm_err *err);

#endif
