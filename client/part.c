/* SPDX-License-Identifier: MIT */
/* part - see part.h. */
#include "client/part.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/interrupt.h"
#include "client/name.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

#define NAME_TRIES_MAX 16

static int dir_open(const char *path, int *out, struct fm_err *err)
{
	size_t len = (size_t)(fm_name_last(path) - path);
	char dir[FMOVE_PATH_MAX + 2];
	int fd;

	if (len >= sizeof(dir))
		return fm_err_set(err, -ENAMETOOLONG, "%.200s...: the path is too long", path);
	memcpy(dir, path, len);
	dir[len] = '\0';
	fd = open(len > 0 ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fm_err_sys(err, -errno, "directory %s", len > 0 ? dir : ".");
	*out = fd;
	return 0;
}

/* The final name must be free, or an ordinary file that may be replaced. */
static int target_check(const struct fm_part *p, const char *path, struct fm_err *err)
{
	struct stat st;

	if (fstatat(p->dir_fd, p->last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fm_err_sys(err, -errno, "%s", path);
	if (S_ISDIR(st.st_mode))
		return fm_err_set(err, -EISDIR, "%s is a directory", path);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return fm_err_set(err, -EINVAL, "%s is not a regular file; - is standard output",
				  path);
	if (!p->may_replace)
		return fm_err_set(err, -EEXIST, "%s exists; --force replaces it", path);
	return 0;
}

static int temp_open(struct fm_part *p, const char *path, struct fm_err *err)
{
	uint32_t number = 0;

	for (unsigned i = 0; i < NAME_TRIES_MAX; i++) {
		if (getrandom(&number, sizeof(number), 0) < 0)
			return fm_err_sys(err, -errno, "random number");
		/* fits */
		(void)snprintf(p->temp, sizeof(p->temp), ".fmove.%08" PRIx32 ".part", number);
		fm_interrupt_partial(p->dir_fd, p->temp);
		p->fd = openat(p->dir_fd, p->temp,
			       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (p->fd >= 0)
			return 0;
		fm_interrupt_partial(-1, NULL);
		if (errno != EEXIST)
			break;
	}
	return fm_err_sys(err, -errno, "make a file beside %s", path);
}

int fm_part_open(const char *path, bool may_replace, struct fm_part *out, struct fm_err *err)
{
	const char *last = fm_name_last(path);
	int ret;

	*out = (struct fm_part){ .fd = -1, .may_replace = may_replace };
	if (strlen(last) >= sizeof(out->last))
		return fm_err_set(err, -ENAMETOOLONG,
				  "the file name of %zu bytes is longer than %zu", strlen(last),
				  sizeof(out->last) - 1);
	(void)snprintf(out->last, sizeof(out->last), "%s", last);
	ret = dir_open(path, &out->dir_fd, err);
	if (ret < 0)
		return ret;
	ret = target_check(out, path, err);
	if (ret == 0)
		ret = temp_open(out, path, err);
	if (ret < 0)
		(void)close(out->dir_fd);	/* only read */
	return ret;
}

static int part_rename(const struct fm_part *p, struct fm_err *err)
{
	int ret;

	if (p->may_replace) {
		ret = renameat(p->dir_fd, p->temp, p->dir_fd, p->last);
	} else {
		ret = renameat2(p->dir_fd, p->temp, p->dir_fd, p->last, RENAME_NOREPLACE);
		/* a file system that cannot: a link never replaces */
		if (ret < 0 && (errno == EINVAL || errno == ENOSYS)) {
			ret = linkat(p->dir_fd, p->temp, p->dir_fd, p->last, 0);
			if (ret == 0)
				ret = unlinkat(p->dir_fd, p->temp, 0);
		}
	}
	if (ret < 0 && errno == EEXIST)
		return fm_err_set(err, -EEXIST, "%s appeared meanwhile; --force replaces it",
				  p->last);
	return ret < 0 ? fm_err_sys(err, -errno, "give it the name %s", p->last) : 0;
}

static int part_finish(const struct fm_part *p, const struct fm_part_attr *attr, struct fm_err *err)
{
	int64_t second = attr->mtime_ns / (int64_t)FM_NS_PER_S,
		rest = attr->mtime_ns % (int64_t)FM_NS_PER_S;
	struct timespec times[2] = { { 0, UTIME_OMIT } };

	if (rest < 0) {		/* before 1970 */
		second--;
		rest += (int64_t)FM_NS_PER_S;
	}
	times[1] = (struct timespec){ .tv_sec = second, .tv_nsec = rest };
	if (fchmod(p->fd, attr->mode & 0777) < 0 || futimens(p->fd, times) < 0)
		return fm_err_sys(err, -errno, "set mode and time of %s", p->last);
	if (attr->is_durable && fsync(p->fd) < 0)
		return fm_err_sys(err, -errno, "sync %s", p->last);
	return part_rename(p, err);
}

int fm_part_publish(struct fm_part *part, const struct fm_part_attr *attr, struct fm_err *err)
{
	int ret;

	ret = part_finish(part, attr, err);
	if (ret < 0) {
		fm_part_discard(part);
		return ret;
	}
	fm_interrupt_partial(-1, NULL);
	if (attr->is_durable && fsync(part->dir_fd) < 0)
		ret = fm_err_sys(err, -errno, "sync the directory of %s", part->last);
	if (close(part->fd) < 0 && ret == 0)
		ret = fm_err_sys(err, -errno, "close %s", part->last);
	(void)close(part->dir_fd);	/* only read */
	return ret;
}

void fm_part_discard(struct fm_part *part)
{
	assert(part->fd >= 0);
	/* the error that led here is the one to report */
	(void)unlinkat(part->dir_fd, part->temp, 0);
	fm_interrupt_partial(-1, NULL);
	(void)close(part->fd);				/* what is in it is dropped */
	(void)close(part->dir_fd);
}
