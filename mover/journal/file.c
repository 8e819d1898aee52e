/* SPDX-License-Identifier: MIT */
/*
 * file - the system calls of a journal.
 */
#include "mover/journal/file.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "mover/base/fault.h"

int fm_journal_file_size(int fd, uint64_t *size)
{
	struct stat st;

	if (FM_FAULT("journal.fstat"))
		return -EIO;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*size = (uint64_t)st.st_size;
	return 0;
}

int64_t fm_journal_file_read(int fd, void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	if (FM_FAULT("journal.read"))
		return -EIO;
	while (done < len) {
		ssize_t got = pread(fd, (char *)buf + done, len - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (int64_t)done;
}

int fm_journal_file_write(int fd, const void *buf, size_t len, uint64_t offset)
{
	bool is_full = FM_FAULT("journal.write");	/* as a full disk does it: a part is written first */
	size_t done = 0;

	if (is_full)
		len /= 2;
	while (done < len) {
		ssize_t put = pwrite(fd, (const char *)buf + done, len - done, (off_t)(offset + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		done += (size_t)put;
	}
	return is_full ? -ENOSPC : 0;
}

int fm_journal_file_sync(int fd)
{
	int ret;

	if (FM_FAULT("journal.sync"))
		return -EIO;
	do {
		ret = fdatasync(fd) < 0 ? -errno : 0;
	} while (ret == -EINTR);
	return ret;
}

int fm_journal_file_cut(int fd, uint64_t size)
{
	int ret;

	if (FM_FAULT("journal.cut"))
		return -EIO;
	do {
		ret = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
	} while (ret == -EINTR);
	return ret;
}
