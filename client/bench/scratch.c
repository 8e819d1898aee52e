/* SPDX-License-Identifier: MIT */
/* scratch - see scratch.h. */
#include "client/bench/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "client/cli/show.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

#define RAMFS 0x858458f6

bool fm_scratch_is_direct(int fd)
{
	struct statfs fs;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) < 0)
		return false;
	/* newer kernels take O_DIRECT on tmpfs, which is memory all the same */
	return fstatfs(fd, &fs) < 0 || (fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS);
}

static int look_for_room(int dir, const char *name, uint64_t size, struct fm_err *err)
{
	char is[FM_SHOW_MAX], needed[FM_SHOW_MAX], left[FM_SHOW_MAX];
	struct statvfs fs;
	uint64_t there, leave;

	if (fstatvfs(dir, &fs) < 0)
		return fm_err_sys(err, -errno, "%s", name);
	there = (uint64_t)fs.f_bavail * fs.f_frsize;
	leave = (uint64_t)fs.f_blocks * fs.f_frsize / FM_SCRATCH_LEFT_PARTS;
	leave = leave < FM_SCRATCH_LEFT_MIN ? FM_SCRATCH_LEFT_MIN : leave;
	if (there >= leave && there - leave >= size)
		return 0;
	return fm_err_set(err, -ENOSPC, "%s: %s are free; a file of %s must leave %s", name,
			  fm_show_bytes(there, is), fm_show_bytes(size, needed),
			  fm_show_bytes(leave, left));
}

/*
 * A name that nobody has, and away again. NFS keeps another one until the file is closed, whoever
 * closes it.
 */
static int open_named(struct fm_scratch *s)
{
	char name[64];
	uint64_t number;
	int fd, ret;

	fm_random_real.fill(fm_random_real.ctx, &number, sizeof(number));
	(void)snprintf(name, sizeof(name), FM_SCRATCH_NAME "%016llx", (unsigned long long)number);
	fd = openat(s->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (unlinkat(s->dir, name, 0) == 0)
		return fd;
	ret = -errno;
	(void)close(fd); /* nothing was written */
	return ret;
}

static int open_file(struct fm_scratch *s, bool has_names)
{
	int fd = has_names ? -1 : openat(s->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (has_names || errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
		return open_named(s);
	return -errno;
}

int fm_scratch_open(const char *dir, uint64_t size, bool has_names, struct fm_scratch *s,
		    struct fm_err *err)
{
	int ret;

	*s = (struct fm_scratch){.fd = -1, .size = size};
	s->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return fm_err_sys(err, -errno, "%s", dir);
	ret = look_for_room(s->dir, dir, size, err);
	if (ret == 0) {
		ret = open_file(s, has_names);
		s->fd = ret < 0 ? -1 : ret;
		if (ret < 0)
			(void)fm_err_sys(err, ret, "%s: make a file to measure with", dir);
	}
	if (ret < 0) {
		fm_scratch_close(s);
		return ret;
	}
	s->is_cached = !fm_scratch_is_direct(s->fd);
	return 0;
}

/* Nobody is left to be told of an error: the file has no name. */
void fm_scratch_close(struct fm_scratch *s)
{
	if (s->fd >= 0)
		(void)close(s->fd);
	if (s->dir >= 0)
		(void)close(s->dir);
	s->fd = s->dir = -1;
}
