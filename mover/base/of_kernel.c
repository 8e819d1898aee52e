/* SPDX-License-Identifier: MIT */
/* of_kernel - see of_kernel.h. */
#include "mover/base/of_kernel.h"

#include <linux/magic.h>
#include <stddef.h>
#include <sys/vfs.h>

bool fm_is_of_kernel(int fd)
{
	static const unsigned long types[] = {
		PROC_SUPER_MAGIC,    SYSFS_MAGIC,    DEBUGFS_MAGIC,  TRACEFS_MAGIC,
		SECURITYFS_MAGIC,    SELINUX_MAGIC,  SMACK_MAGIC,    CGROUP_SUPER_MAGIC,
		CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,   EFIVARFS_MAGIC, NSFS_MAGIC,
		BINFMTFS_MAGIC,	     PSTOREFS_MAGIC,
	};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if ((unsigned long)fs.f_type == types[i])
			return true;
	return false;
}
