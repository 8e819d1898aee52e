/* SPDX-License-Identifier: MIT */
/*
 * written - whether a file that is open has been written to since it was looked at.
 *
 * A write moves mtime and ctime, and whoever puts the mtime back moves the ctime. But a new name,
 * one that goes, and a rename move the ctime as well, all of which happen when a version that
 * somebody reads is replaced (mover/store/place.c): the number of names changes only once the old
 * version is unlinked, and until then its name is a partial file's.
 *
 * A store through a shared mapping moves them when its page can be written to no more and the store
 * faults: that is so for each page after it was written back. A page that was dirty before the file
 * was looked at takes further stores without a trace. Times move in ticks of some milliseconds
 * (kernels from 6.13 on do better): a ctime that is the present tick's says nothing of what comes
 * later in it.
 *
 * One long write(2) moves them once, at its beginning, and goes on for seconds in a file that looks
 * as if nobody wrote to it. It holds the inode's lock meanwhile, which reads of tmpfs and through
 * the page cache do not take, and a search for data does: so that is what waits for it.
 */
#include "mover/journal/written.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/journal/partial.h"

#define NAME_TRIES 25
#define NAME_PAUSE_US 2000
#define LOOKS_MAX 32
#define LOOK_PAUSE_US 1000	/* with the looks: longer than a tick, at most 10 ms */
/* of the clock: what is farther ahead is no present tick, the clock was set back */
#define AHEAD_MAX_NS (100 * FM_NS_PER_MS)

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int look(int fd, struct stat *out)
{
	if (FM_FAULT("written.fstat"))
		return -EIO;
	return fstat(fd, out) < 0 ? -errno : 0;
}

static int64_t ns_of(const struct timespec *t)
{
	return (int64_t)((uint64_t)t->tv_sec * FM_NS_PER_S + (uint64_t)t->tv_nsec);
}

/* Whether what is written now gives it another time than this one. The file system's times are the
 * coarse clock's. */
static bool is_past(const struct timespec *t)
{
	struct timespec now;
	int64_t ahead;

	if (clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0)
		return true;	/* no such clock: as good as can be */
	ahead = ns_of(t) - ns_of(&now);
	return ahead < 0 || ahead > (int64_t)AHEAD_MAX_NS;
}

static int write_back(int fd)
{
	const unsigned all =
		SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

	return FM_FAULT("written.sync") ? -EIO : fm_call_write_back(fd, 0, 0, all);
}

/*
 * Waits for a write(2) that is under way. The search begins within the file, since one behind its
 * end is answered without the lock by btrfs; and at its first byte, where most files have data, so
 * that the position stays as it is. What cannot be searched has no such lock.
 */
static void wait_for_write(int fd)
{
	if (lseek(fd, 0, SEEK_DATA) > 0)
		(void)lseek(fd, 0, SEEK_SET);	/* cannot fail: it was searched */
}

/* An overlay asks the file system that has the file. */
bool fm_write_holds_lock(const struct statfs *fs)
{
	const unsigned long type = (unsigned long)fs->f_type;

	return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC ||
	       type == TMPFS_MAGIC || type == OVERLAYFS_SUPER_MAGIC;
}

int fm_look_before_read(int fd, bool waits, uint64_t cached_max, struct stat *out)
{
	struct stat before;
	bool is_same = false, is_settled = false;
	int ret = look(fd, out);

	for (unsigned i = 0; ret == 0 && i < LOOKS_MAX && !is_settled; i++) {
		bool was_past = is_past(&out->st_ctim);

		before = *out;
		if (!was_past)
			(void)usleep(LOOK_PAUSE_US);
		if (waits)
			wait_for_write(fd);
		ret = (uint64_t)out->st_size <= cached_max ? write_back(fd) : 0;
		if (ret == 0)
			ret = look(fd, out);
		/* What was stored before the writing back is covered by it; what came behind it
		 * moved the ctime. */
		is_same = is_same_time(&before.st_ctim, &out->st_ctim);
		is_settled = was_past && is_same;
	}
	if (ret < 0)
		return ret;
	return is_same ? 0 : -ESTALE;
}

/* Whether its name is one of fmove's own, or was when it lost it: a version that gave way to
 * another. */
static bool is_put_aside(int fd)
{
	char link[64], path[PATH_MAX];
	const char *slash;
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	if (len < 0)
		return false;
	path[len] = '\0';
	slash = strrchr(path, '/');
	return slash && strncmp(slash + 1, FM_PARTIAL_PREFIX, strlen(FM_PARTIAL_PREFIX)) == 0;
}

/* A rename moves the ctime before it moves the name, and a journal may come between. */
static bool is_about_to_be_put_aside(int fd)
{
	for (unsigned i = 0; i < NAME_TRIES; i++) {
		if (is_put_aside(fd))
			return true;
		(void)usleep(NAME_PAUSE_US);
	}
	return false;
}

bool fm_is_written(int fd, const struct stat *before, const struct stat *now)
{
	if (before->st_dev != now->st_dev || before->st_ino != now->st_ino ||
	    before->st_size != now->st_size || !is_same_time(&before->st_mtim, &now->st_mtim))
		return true;
	if (is_same_time(&before->st_ctim, &now->st_ctim) || before->st_nlink != now->st_nlink)
		return false;
	return !is_about_to_be_put_aside(fd);
}
