/* SPDX-License-Identifier: MIT */
/* file - the system calls of a journal (see base/call.h), with a fault point before each. */
#ifndef FM_JOURNAL_FILE_H
#define FM_JOURNAL_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "mover/base/call.h"
#include "mover/base/fault.h"

/* The bytes of a regular file; -EINVAL: it is none. */
static inline int fm_journal_file_size(int fd, uint64_t *size)
{
	struct stat st;
	int ret = FM_FAULT("journal.fstat") ? -EIO : fm_call(fstat(fd, &st));

	if (ret < 0)
		return ret;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*size = (uint64_t)st.st_size;
	return 0;
}

/* How many bytes there were, len at most: fewer only at the end of the file. */
static inline int64_t fm_journal_file_read(int fd, void *buf, size_t len, uint64_t offset)
{
	return FM_FAULT("journal.read") ? -EIO : fm_call_read_all(fd, buf, len, offset);
}

static inline int fm_journal_file_write(int fd, const void *buf, size_t len, uint64_t offset)
{
	int ret;

	if (!FM_FAULT("journal.write"))
		return fm_call_write_all(fd, buf, len, offset);
	/* as a full disk does it: a part is written first */
	ret = fm_call_write_all(fd, buf, len / 2, offset);
	return ret < 0 ? ret : -ENOSPC;
}

static inline int fm_journal_file_sync(int fd)
{
	return FM_FAULT("journal.sync") ? -EIO : fm_call_fdatasync(fd);
}

static inline int fm_journal_file_cut(int fd, uint64_t size)
{
	return FM_FAULT("journal.cut") ? -EIO : fm_call_ftruncate(fd, size);
}

#endif
