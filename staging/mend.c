/* SPDX-License-Identifier: MIT */
/* mend - see mend.h. */
#include "staging/mend.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "staging/chunk.h"

static int open_file(int root, const char *path, int flags)
{
	return FM_FAULT("mend.open") ? -EMFILE
				     : fm_call_open_below(root, path, flags | O_NOFOLLOW, 0,
							  RESOLVE_NO_SYMLINKS);
}

static int write_chunk(int fd, const uint8_t *buf, const struct fm_stage_bad *bad)
{
	return FM_FAULT("mend.write") ? -EIO : fm_call_write_all(fd, buf, bad->len, bad->offset);
}

/*
 * Writes the chunk and sets the old modification time again, also after an error: the time of the
 * file was right.
 */
static int write_in_time(int fd, const struct stat *st, const uint8_t *buf,
			 const struct fm_stage_bad *bad)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	int ret = write_chunk(fd, buf, bad);
	int set = FM_FAULT("mend.time") ? -EIO : fm_call(futimens(fd, times));

	if (ret == 0)
		ret = set;
	if (ret == 0)
		ret = FM_FAULT("mend.sync") ? -EIO : fm_call(fsync(fd));
	return ret;
}

/*
 * Makes a sealed file writable and writes to it. It is opened a second time by its path. That is
 * the same file, because only the service may change names below root.
 */
static int write_sealed(int fd, int root, const char *path, const uint8_t *buf,
			const struct fm_stage_bad *bad)
{
	struct stat st;
	int ret = FM_FAULT("mend.stat") ? -EIO : fm_call(fstat(fd, &st)), to;

	if (ret == 0 && (!S_ISREG(st.st_mode) || bad->offset + bad->len > (uint64_t)st.st_size))
		ret = -ESTALE;
	if (ret == 0)
		ret = FM_FAULT("mend.chmod") ? -EIO
					     : fm_call(fchmod(fd, (st.st_mode & 07777U) | S_IWUSR));
	if (ret < 0)
		return ret;
	to = open_file(root, path, O_WRONLY);
	ret = fm_call(fchmod(fd, st.st_mode & 07777U));
	if (to < 0)
		return to;
	if (ret == 0)
		ret = write_in_time(to, &st, buf, bad);
	(void)close(to);	/* it is synced */
	return ret;
}

static int write_below(int root, const char *path, const uint8_t *buf,
		       const struct fm_stage_bad *bad)
{
	int fd = open_file(root, path, O_RDONLY), ret;

	if (fd < 0)
		return fd;
	ret = write_sealed(fd, root, path, buf, bad);
	(void)close(fd);	/* nothing was written through it */
	return ret;
}

int fm_stage_mend(int root, const char *path, int from, uint64_t from_at,
		  const struct fm_stage_bad *bad)
{
	uint8_t *buf = FM_FAULT("mend.alloc") ? NULL : fm_stage_chunk_buf_new();
	int64_t n;
	int ret;

	if (!buf)
		return -ENOMEM;
	n = FM_FAULT("mend.read") ? -EIO : fm_call_read_all(from, buf, bad->len, from_at);
	if (n < 0)
		ret = (int)n;
	else if (n != bad->len || fm_crc32c(0, buf, bad->len) != bad->crc)
		ret = -EBADMSG;
	else
		ret = write_below(root, path, buf, bad);
	fm_stage_chunk_buf_free(buf);
	return ret;
}
