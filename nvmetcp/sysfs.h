/* SPDX-License-Identifier: MIT */
/*
 * sysfs - reads and sets attributes of the kernel's objects below a directory of /sys. All lengths
 * are bounded.
 *
 * The directory stays open. So all reads through it are of one object, even if another object takes
 * its name meanwhile. An attribute that is missing, is going away or makes no sense is "not there".
 * Only faults of this process (no memory, no descriptors) or of all of /sys are errors. Some
 * attributes block; the caller must know which. Any thread.
 */
#ifndef FM_NVMETCP_SYSFS_H
#define FM_NVMETCP_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_err;

#define FM_SYSFS_TEXT_MAX 512		/* bytes of one attribute; a longer one is not there */
/* with the NUL, of what is listed; the kernel's DISK_NAME_LEN */
#define FM_SYSFS_NAME_MAX 32

struct fm_sysfs_dir {
	int fd;
	/* the first error of a read below it; reads after it find nothing */
	int error;
};

/* ROOT/sys; root "" or "/" is this machine. 0 or a negative errno with text. */
int fm_sysfs_root(const char *root, struct fm_sysfs_dir *out, struct fm_err *err);

/* -ENOENT: not there (any more). Others are errors. Symbolic links are followed: they are the
 * kernel's. */
int fm_sysfs_open(const struct fm_sysfs_dir *at, const char *path, struct fm_sysfs_dir *out);

void fm_sysfs_close(struct fm_sysfs_dir *dir);

/*
 * One line without the blanks at its end; control bytes become '?'. False, and "": not there,
 * empty, longer than size allows (half a name is a wrong name), or a kernel's "(efault)" and its
 * like.
 */
bool fm_sysfs_text(struct fm_sysfs_dir *dir, const char *attr, char *out, size_t size);

/*
 * Of the attribute `uevent`, what the kernel tells udev of the object: a line KEY=VALUE each. A
 * value that is missing, or longer than its size allows, is "".
 */
struct fm_sysfs_variable {
	const char *key;
	char *value;		/* where it goes */
	size_t size;
};

void fm_sysfs_variables(struct fm_sysfs_dir *dir, const struct fm_sysfs_variable *wanted,
			unsigned count);

/* A decimal number; false, and 0, if it is none or not there. */
bool fm_sysfs_u64(struct fm_sysfs_dir *dir, const char *attr, uint64_t *out);

/* In one write. 0 or a negative errno: -ENOENT: the kernel has no such attribute, or the object has
 * gone; -ENODEV: it is going. */
int fm_sysfs_write(const struct fm_sysfs_dir *at, const char *path, const char *value);

/* The last component of what the symbolic link `path` leads to: the object's own name. -ENOENT:
 * none, or too long. */
int fm_sysfs_target_name(const struct fm_sysfs_dir *at, const char *path,
			 char out[FM_SYSFS_NAME_MAX]);

struct fm_sysfs_names {
	char (*name)[FM_SYSFS_NAME_MAX];	/* sorted, nvme2 before nvme10 */
	unsigned count;
	bool is_cut;			/* there were more than max */
};

/*
 * Lists the names for which wanted() returns true, at most max. 0; -ENOENT: the directory has gone;
 * or an error.
 */
int fm_sysfs_list(const struct fm_sysfs_dir *dir, bool (*wanted)(const char *name), unsigned max,
		  struct fm_sysfs_names *out);

void fm_sysfs_names_free(struct fm_sysfs_names *names);

#endif
