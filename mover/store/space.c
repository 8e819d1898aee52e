/* SPDX-License-Identifier: MIT */
/*
 * space - room on a file system.
 */
#include "mover/store/space.h"

#include <errno.h>
#include <sys/stat.h>

#include "mover/base/block.h"
#include "mover/base/err.h"
#include "mover/store/fileio.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

int fm_space_check(int fd, uint64_t size, struct fm_err *err)
{
	struct statfs fs;
	uint64_t block, blocks_wanted;
	int ret = fm_sys_fstatfs(fd, &fs);

	if (ret < 0)
		return fm_err_sys(err, ret, "ask for the free space");
	block = (uint64_t)(fs.f_frsize > 0 ? fs.f_frsize : fs.f_bsize);
	if (fs.f_blocks == 0 || block == 0)	/* no limit, or it does not tell */
		return 0;
	blocks_wanted = size / block + (size % block != 0);
	if (blocks_wanted <= fs.f_bavail)
		return 0;
	return fm_err_set(err, -ENOSPC,
			  "no space: %llu bytes are needed, %llu are free; make room there",
			  (unsigned long long)size, (unsigned long long)(fs.f_bavail * block));
}

int fm_space_missing(int fd, uint64_t size, uint64_t *bytes, struct fm_err *err)
{
	struct stat st;
	int ret = fm_sys_fstat(fd, &st);
	uint64_t there = ret == 0 ? (uint64_t)st.st_blocks * 512 : 0;

	*bytes = there < size ? size - there : 0;
	return ret < 0 ? fm_err_sys(err, ret, "look at the partial file") : 0;
}

int fm_space_reserve(int fd, uint64_t size, struct fm_err *err)
{
	uint64_t len = fm_block_up(size);
	struct statfs fs;
	int ret = fm_sys_fstatfs(fd, &fs);

	if (ret < 0)
		return fm_err_sys(err, ret, "ask for the kind of file system");
	if (size == 0 || len > FM_SIZE_LIMIT || fm_fileio_is_memory(&fs))
		return 0;
	ret = fm_sys_fallocate(fd, 0, len);
	if (ret == -ENOSPC || ret == -EDQUOT || ret == -EFBIG || ret == -EIO)
		return fm_err_sys(err, ret, "reserve %llu bytes", (unsigned long long)size);
	return 0;	/* not supported there: the writes will find room or not */
}
