/* SPDX-License-Identifier: MIT */
/* may_stand - see may_stand.h. */
#include "mover/store/may_stand.h"

#include <linux/magic.h>
#include <stddef.h>

/* Where linux/magic.h of the oldest system that we build on does not have them. */
#define BCACHEFS_MAGIC 0xca451a4eul
#define EXFAT_MAGIC 0x2011bab0ul
#define NTFS3_MAGIC 0x7366746eul
#define ZFS_MAGIC 0x2fc12fc1ul

bool fm_fs_may_stand(const struct statfs *fs)
{
	static const unsigned long answer[] = {
		EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,	BTRFS_SUPER_MAGIC,    F2FS_SUPER_MAGIC,
		BCACHEFS_MAGIC,	  ZFS_MAGIC,		TMPFS_MAGIC,	      RAMFS_MAGIC,
		HUGETLBFS_MAGIC,  MSDOS_SUPER_MAGIC,	EXFAT_MAGIC,	      NTFS3_MAGIC,
		ISOFS_SUPER_MAGIC, SQUASHFS_MAGIC,	EROFS_SUPER_MAGIC_V1,
	};

	for (size_t i = 0; i < sizeof(answer) / sizeof(answer[0]); i++)
		if ((unsigned long)fs->f_type == answer[i])
			return false;
	return true;
}
