/* SPDX-License-Identifier: MIT */
/*
 * written - whether a file that is open has been written to since it was looked at.
 *
 * A write moves mtime and ctime, and whoever puts the mtime back moves the ctime. But a new name, one that goes, and a
 * rename move the ctime as well, all of which happen when a version that somebody reads is replaced (mover/store/place.c): the
 * number of names changes only once the old version is unlinked, and until then its name is a partial file's.
 */
#include "mover/journal/written.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/journal/partial.h"

#define NAME_TRIES 25
#define NAME_PAUSE_US 2000

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Whether its name is one of fmove's own, or was when it lost it: a version that gave way to another. */
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
	if (before->st_dev != now->st_dev || before->st_ino != now->st_ino || before->st_size != now->st_size ||
	    !is_same_time(&before->st_mtim, &now->st_mtim))
		return true;
	if (is_same_time(&before->st_ctim, &now->st_ctim) || before->st_nlink != now->st_nlink)
		return false;
	return !is_about_to_be_put_aside(fd);
}
