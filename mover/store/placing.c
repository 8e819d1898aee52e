/* SPDX-License-Identifier: MIT */
/*
 * placing - see placing.h.
 *
 * Happy path: no publication of the file that has the name is under way; file and directory are
 * synced; the name still leads to that file. Failure modes: one is under way: its end is waited
 * for, but not for long, since the disk that it waits for may never answer, and who asks holds a
 * worker. It is undone: there is no such name, the caller looks again.
 */
#include "mover/store/placing.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#include "mover/store/sys.h"

#define WAIT_S 1

static struct {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	struct fm_placing *first;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

void fm_placing_begin(struct fm_placing *p, int fd)
{
	struct stat st = { 0 };

	(void)fstat(fd, &st);	/* of an open file it does not fail; no file has inode 0 */
	*p = (struct fm_placing){ .dev = st.st_dev, .ino = st.st_ino };
	pthread_mutex_lock(&all.lock);
	p->next = all.first;
	all.first = p;
	pthread_mutex_unlock(&all.lock);
}

void fm_placing_end(struct fm_placing *p)
{
	struct fm_placing **at = &all.first;

	pthread_mutex_lock(&all.lock);
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	pthread_cond_broadcast(&all.ended);
	pthread_mutex_unlock(&all.lock);
}

/* The lock is held. */
static bool is_under_way(const struct stat *st, const struct fm_placing *own)
{
	for (const struct fm_placing *p = all.first; p; p = p->next)
		if (p != own && p->dev == st->st_dev && p->ino == st->st_ino)
			return true;
	return false;
}

/* Until no publication of that file is under way. 1: there was one. -EBUSY: there still is. */
static int wait_for(const struct stat *st, const struct fm_placing *own)
{
	struct timespec end;
	int ret = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += WAIT_S;
	pthread_mutex_lock(&all.lock);
	while (ret >= 0 && is_under_way(st, own))
		ret = pthread_cond_clockwait(&all.ended, &all.lock, CLOCK_MONOTONIC, &end) == 0
			      ? 1
			      : -EBUSY;
	pthread_mutex_unlock(&all.lock);
	return ret;
}

/* A file that may not be opened is synced with all others of its file system. */
static int sync_file(int dir, const char *name)
{
	int fd = fm_sys_open_beneath(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	int ret;

	if (fd == -EACCES || fd == -EPERM)
		return fm_sys_syncfs(dir);
	if (fd < 0)
		return fd;
	ret = fm_sys_fsync(fd);
	close(fd);
	return ret;
}

static int sync_all(int dir, const char *name)
{
	int ret = sync_file(dir, name);

	if (ret == 0)
		ret = fm_sys_fsync(dir);
	return ret == -EINVAL ? 0 : ret;	/* no such thing there */
}

static int look(int dir, const char *name, struct stat *st)
{
	int ret = fm_sys_fstatat(dir, name, st);

	return ret == 0 && !S_ISREG(st->st_mode) ? -ELOOP : ret;
}

int fm_placing_settle(int dir, const char *name, bool is_synced, const struct fm_placing *own)
{
	struct stat st, now;
	int ret = look(dir, name, &st);

	if (ret == 0)
		ret = wait_for(&st, own);
	if (ret > 0)
		return -ENOENT;
	if (ret == 0 && is_synced)
		ret = sync_all(dir, name);
	if (ret == 0)
		ret = look(dir, name, &now);
	if (ret == 0 && (st.st_dev != now.st_dev || st.st_ino != now.st_ino))
		ret = -ENOENT;
	return ret;
}
