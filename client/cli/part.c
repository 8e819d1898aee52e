/* SPDX-License-Identifier: MIT */
/* part - see part.h. */
#include "client/cli/part.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/former.h"
#include "client/cli/interrupt.h"
#include "client/cli/name.h"
#include "mover/base/call.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

#define NAME_TRIES_MAX 16
#define FOLLOWED_MAX 4		/* directories, one in the place of the other */
/* for the daemon to be through with a get that was killed just now */
#define LOCK_WAIT_MS 3000

int fm_part_open_dir(const char *path, struct fm_err *err)
{
	size_t len = (size_t)(fm_name_last(path) - path);
	char dir[FMOVE_PATH_MAX + 2];
	int fd;

	if (len >= sizeof(dir))
		return fm_err_set(err, -ENAMETOOLONG, "%.200s...: the path is too long", path);
	memcpy(dir, path, len);
	dir[len] = '\0';
	fd = open(len > 0 ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && len > 0)
		return fm_err_set(err, -ENOENT, "directory %s: %s; \"mkdir -p\" makes it", dir,
				  fm_err_name(-ENOENT));
	return fd < 0 ? fm_err_sys(err, -errno, "directory %s", len > 0 ? dir : ".") : fd;
}

int fm_part_refuse_link(int dir, const char *last, const char *path, const char *next,
			struct fm_err *err)
{
	char to[FMOVE_PATH_MAX + 1];
	ssize_t len = readlinkat(dir, last, to, sizeof(to) - 1);

	to[len > 0 ? len : 0] = '\0';
	return fm_err_set(err, -EEXIST, "%s is a symbolic link to %.300s; %s", path, to, next);
}

/* Checks the final name: it must be free, or a regular file that may be replaced. */
static int target_check(int dir, const char *last, const char *path, bool may_replace,
			struct fm_err *err)
{
	struct stat st;

	if (fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fm_err_sys(err, -errno, "%s", path);
	if (S_ISDIR(st.st_mode))
		return fm_err_set(err, -EISDIR, "%s is a directory", path);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return fm_err_set(err, -EINVAL, "%s is not a regular file; - is standard output",
				  path);
	if (!may_replace && S_ISLNK(st.st_mode))
		return fm_part_refuse_link(dir, last, path,
					   "--force replaces the link, not what it leads to", err);
	if (!may_replace)
		return fm_err_set(err, -EEXIST, "%s exists; --force replaces it", path);
	return 0;
}

int fm_part_check(const char *path, bool may_replace, struct fm_err *err)
{
	int ret, dir = fm_part_open_dir(path, err);

	if (dir < 0)
		return dir;
	ret = target_check(dir, fm_name_last(path), path, may_replace, err);
	(void)close(dir);	/* only read */
	return ret;
}

/*
 * Opens a part under a name that nobody can guess, because somebody else's file has the usual name.
 */
static int random_open(int dir, struct fm_partial *out)
{
	uint64_t number = 0;
	int ret = -EEXIST;

	for (unsigned i = 0; i < NAME_TRIES_MAX && ret == -EEXIST; i++) {
		if (getrandom(&number, sizeof(number), 0) < 0)
			return -errno;
		ret = fm_partial_open_random(dir, number, out);
	}
	return ret;
}

static int files_open(struct fm_part *p, const char *path, unsigned wait_ms, struct fm_err *err)
{
	struct fm_partial file;
	int ret = fm_partial_open(p->file.dir, p->last, wait_ms, &file);

	if (ret == -EAGAIN || ret == -EPERM || ret == -EACCES || ret == -ENOLCK ||
	    ret == -EOPNOTSUPP)
		ret = random_open(p->file.dir, &file);
	if (ret == -ENOSPC && fm_call_lacks_inodes(p->file.dir))
		return fm_err_set(err, ret,
				  "make a file beside %s: no inodes left on the file system, "
				  "though it has room; remove files there (df -i shows how many it "
				  "takes)",
				  path);
	if (ret < 0)
		return fm_err_sys(err, ret, "make a file beside %s", path);
	p->file = file;
	return 0;
}

int fm_part_open(const char *path, const struct fm_part_opts *opts, struct fm_part *out,
		 struct fm_err *err)
{
	const char *last = fm_name_last(path);
	int ret;

	*out = (struct fm_part){.file = {.fd = -1, .journal = -1},
				.may_replace = opts->may_replace};
	if (strlen(last) >= sizeof(out->last))
		return fm_err_set(err, -ENAMETOOLONG,
				  "the file name of %zu bytes is longer than %zu", strlen(last),
				  sizeof(out->last) - 1);
	(void)snprintf(out->last, sizeof(out->last), "%s", last);
	out->file.dir = fm_part_open_dir(path, err);
	if (out->file.dir < 0)
		return out->file.dir;
	fm_former_note_path(out->file.dir, out->path);
	ret = target_check(out->file.dir, out->last, path, out->may_replace, err);
	if (ret == 0)
		ret = files_open(out, path, opts->lock_wait_ms ? opts->lock_wait_ms : LOCK_WAIT_MS,
				 err);
	if (ret < 0)
		(void)close(out->file.dir);	/* only read */
	else if (!opts->is_kept)
		fm_interrupt_partial(out->file.dir, out->file.name, out->file.journal_name);
	return ret;
}

/* Whether that name in dir leads to this part. */
static bool is_ours(const struct fm_part *p, int dir, const char *name)
{
	struct stat by_name, by_fd;

	return fstatat(dir, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(p->file.fd, &by_fd) == 0 && by_name.st_ino == by_fd.st_ino &&
	       by_name.st_dev == by_fd.st_dev;
}

/* Renames the part from that name to its final name in dir. */
static int part_rename(const struct fm_part *p, const char *from, int dir, struct fm_err *err)
{
	int ret;

	if (p->may_replace) {
		ret = renameat(p->file.dir, from, dir, p->last);
	} else {
		ret = renameat2(p->file.dir, from, dir, p->last, RENAME_NOREPLACE);
		/* a file system that cannot: a link never replaces */
		if (ret < 0 && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
			ret = linkat(p->file.dir, from, dir, p->last, 0);
			if (ret == 0)
				ret = unlinkat(p->file.dir, from, 0);
		}
	}
	if (ret < 0 && errno == EEXIST && is_ours(p, dir, p->last))
		return 0;	/* an update took it over */
	if (ret < 0 && errno == EEXIST)
		return fm_err_set(err, -EEXIST, "%s appeared meanwhile; --force replaces it",
				  p->last);
	return ret < 0 ? fm_err_sys(err, -errno, "give it the name %s", p->last) : 0;
}

/*
 * The part is in another directory now. The journal in the old one is removed. The names of part
 * and journal are dropped: in the new directory they belong to another get, which may have begun
 * there.
 */
static void go_to(struct fm_part *p, int dir)
{
	if (p->file.journal_name[0])
		(void)unlinkat(p->file.dir, p->file.journal_name, 0);
	p->file.name[0] = p->file.journal_name[0] = '\0';
	fm_interrupt_partial(-1, NULL, NULL);
	(void)close(p->file.dir);	/* only read */
	p->file.dir = dir;
}

/*
 * Gives the part its final name. Another get may replace the directory meanwhile. So it looks
 * before and after: a version that comes later finds the file there.
 */
static int part_place(struct fm_part *p, struct fm_err *err)
{
	const char *from = p->file.name;
	int dir = -1, ret = fm_former_find_other(p->path, p->file.dir, &dir, err);

	for (int i = 0; ret >= 0 && i < FOLLOWED_MAX; i++) {
		int to = ret > 0 ? dir : p->file.dir, placed = part_rename(p, from, to, err);

		if (placed < 0 && ret > 0)
			(void)close(dir);	/* only read */
		if (placed < 0)
			return placed;
		if (ret > 0)
			go_to(p, dir);
		from = p->last;
		ret = fm_former_find_other(p->path, p->file.dir, &dir, err);
		if (ret == 0)
			return 0;
	}
	if (ret > 0)
		(void)close(dir);	/* only read */
	if (ret < 0)
		return ret;
	return fm_err_set(err, -ESTALE, "%s: its directory is replaced again and again; "
			  "run it again", p->last);
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
	if (fchmod(p->file.fd, attr->mode & 0777) < 0 || futimens(p->file.fd, times) < 0)
		return fm_err_sys(err, -errno, "set mode and time of %s", p->last);
	return 0;
}

static int part_sync(int fd)
{
	return FM_FAULT("part.sync") ? (errno = EIO, -1) : fsync(fd);
}

/* Closes the part, whatever its name is now. */
static int part_close(struct fm_part *part, struct fm_err *err)
{
	int ret;

	fm_interrupt_partial(-1, NULL, NULL);
	ret = close(part->file.fd) < 0 ? fm_err_sys(err, -errno, "close %s", part->last) : 0;
	part->file.fd = -1;
	fm_partial_close(&part->file);
	(void)close(part->file.dir);	/* only read */
	return ret;
}

int fm_part_publish(struct fm_part *part, const struct fm_part_attr *attr, struct fm_err *err)
{
	int ret, closed;

	ret = part_finish(part, attr, err);
	if (ret == 0 && attr->is_durable && part_sync(part->file.fd) < 0) {
		ret = fm_err_sys(err, -errno, "sync %s", part->last);
		/* what is on the disk is unknown, and the next sync would say that all is */
		fm_part_discard(part);
		return ret;
	}
	if (ret == 0 && !is_ours(part, part->file.dir, part->file.name)) {
		ret = fm_err_set(err, -ESTALE,
				 "somebody removed %s, under which %s came, or gave another file "
				 "that name; run it again",
				 part->file.name, part->last);
		fm_part_discard(part);
		return ret;
	}
	if (ret == 0)
		ret = part_place(part, err);
	if (ret < 0) {
		(void)fm_part_leave(part);
		return ret;
	}
	if (part->file.journal_name[0])
		/* alone it does no harm */
		(void)unlinkat(part->file.dir, part->file.journal_name, 0);
	if (attr->is_durable && fsync(part->file.dir) < 0)
		ret = fm_err_sys(err, -errno, "sync the directory of %s", part->last);
	closed = part_close(part, ret == 0 ? err : NULL);
	return ret < 0 ? ret : closed;
}

void fm_part_forget(const char *path)
{
	const char *last = fm_name_last(path);
	struct fm_partial file;
	struct fm_err err;
	int dir = strlen(last) < sizeof(((struct fm_part *)0)->last) ? fm_part_open_dir(path, &err)
								     : -ENAMETOOLONG;

	if (dir < 0)
		return;
	if (fm_partial_open(dir, last, LOCK_WAIT_MS, &file) == 0) {
		(void)fm_partial_remove(&file);		/* nobody waits for it */
		fm_partial_close(&file);
	}
	(void)close(dir);	/* only read */
}

void fm_part_discard(struct fm_part *part)
{
	assert(part->file.fd >= 0);
	(void)fm_partial_remove(&part->file);	/* the error that led here is the one to report */
	(void)part_close(part, NULL);		/* what is in it is dropped */
}

bool fm_part_leave(struct fm_part *part)
{
	assert(part->file.fd >= 0);
	/* Somebody may have removed it. Its mode may be the final one already, which the next try
	 * could not write to. */
	if (!fm_partial_is_journaled(&part->file) ||
	    !is_ours(part, part->file.dir, part->file.name) || fchmod(part->file.fd, 0600) < 0) {
		fm_part_discard(part);
		return false;
	}
	(void)part_close(part, NULL);		/* the journal says what of it counts */
	return true;
}
