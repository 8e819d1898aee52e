/* SPDX-License-Identifier: MIT */
/* descent - see descent.h. */
#include "mover/tree/descent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "mover/tree/tsys.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)
#define OPEN_MAX 16
#define LEVELS_FIRST 64
#define OWNER_MODE 0500		/* to read it, and to enter what is in it */

/* A directory on the way. */
struct level {
	ino_t ino;
	struct timespec changed;	/* its ctime: the place to read on is of what it was then */
	long cookie;			/* while it is closed: where to read on */
	mode_t closed_mode;		/* that it gets back, if is_closed */
	bool is_closed;
};

struct fm_descent {
	DIR *open[OPEN_MAX];		/* of the innermost ones: number n is in n % OPEN_MAX */
	struct level *levels;
	unsigned depth, cap;
	unsigned closed;		/* directories on the way that get their mode back */
};

static DIR **open_of(struct fm_descent *d, unsigned level)
{
	return &d->open[level % OPEN_MAX];
}

static int innermost(struct fm_descent *d)
{
	return dirfd(*open_of(d, d->depth - 1));
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* ---- opening ---- */

/* The owner may look into what he closed to himself, and nobody else. *l notes its mode. */
static int open_closed(int dir, const char *name, struct level *l)
{
	int at = fm_tsys_open_unmounted(dir, name, O_PATH | O_DIRECTORY), fd;
	struct stat st;
	int ret = at < 0 ? at : fm_tsys_fstat(at, &st);

	if (ret == 0 && st.st_uid != geteuid())
		ret = -EACCES;
	if (ret == 0)
		ret = fm_tsys_chmod_opened(at, (st.st_mode & 07777) | OWNER_MODE);
	if (ret == 0) {
		l->is_closed = true;
		l->closed_mode = st.st_mode & 07777;
		ret = fd = fm_tsys_open(at, ".", DIR_FLAGS, 0);
		if (fd < 0)
			(void)fm_tsys_chmod_opened(at, l->closed_mode);	/* we changed it */
	}
	if (at >= 0)
		(void)close(at);	/* only looked at */
	return ret;
}

static bool is_closed_to_owner(const struct stat *st)
{
	return geteuid() != 0 && st->st_uid == geteuid() &&
	       (st->st_mode & OWNER_MODE) != OWNER_MODE;
}

static int open_dir(int dir, const char *name, struct level *l)
{
	int fd = fm_tsys_open_unmounted(dir, name, DIR_FLAGS), ret;
	struct stat st;

	if (fd == -EACCES)
		return open_closed(dir, name, l);
	if (fd < 0)
		return fd;
	ret = fm_tsys_fstat(fd, &st);
	if (ret == 0 && !is_closed_to_owner(&st))
		return fd;
	(void)close(fd);	/* only read */
	return ret < 0 ? ret : open_closed(dir, name, l);
}

static void give_mode_back(struct fm_descent *d, const struct level *l, int fd)
{
	if (!l->is_closed)
		return;
	(void)fm_tsys_chmod(fd, l->closed_mode);	/* it is ours, and we changed it */
	d->closed--;
}

/* ---- down and up ---- */

static int more_levels(struct fm_descent *d)
{
	unsigned cap = d->cap ? d->cap * 2 : LEVELS_FIRST;
	struct level *levels;

	if (d->depth < d->cap)
		return 0;
	if (d->depth == FM_DESCENT_DEPTH_MAX)
		return -ELOOP;
	levels = FM_FAULT("descent.levels") ? NULL
					    : fm_budget_realloc(d->levels, cap * sizeof(*levels));
	if (!levels)
		return -ENOMEM;
	d->levels = levels;
	d->cap = cap;
	return 0;
}

/* The place of the next one is that of the outermost open one, which is closed for now. */
static int shelve(struct fm_descent *d)
{
	DIR **at = open_of(d, d->depth);
	struct level *l = &d->levels[d->depth - OPEN_MAX];

	l->cookie = telldir(*at);
	if (l->cookie < 0)
		return -errno;
	(void)closedir(*at);	/* only read */
	*at = NULL;
	return 0;
}

/* fd is taken over, also on error. */
static int push(struct fm_descent *d, int fd, struct level l)
{
	struct stat st;
	int ret = fm_tsys_fstat(fd, &st);

	d->closed += l.is_closed;
	if (ret == 0)
		ret = more_levels(d);
	if (ret == 0 && *open_of(d, d->depth))
		ret = shelve(d);
	if (ret == 0) {
		*open_of(d, d->depth) = FM_FAULT("descent.opendir") ? NULL : fdopendir(fd);
		ret = *open_of(d, d->depth) ? 0 : -ENOMEM;
	}
	if (ret < 0) {
		give_mode_back(d, &l, fd);
		(void)close(fd);	/* only read */
		return ret;
	}
	l.ino = st.st_ino;
	l.changed = st.st_ctim;
	d->levels[d->depth++] = l;
	return 0;
}

/*
 * Goes back to the entry where the walk left this directory. An error if the directory was changed
 * meanwhile.
 */
static int find_again(DIR *dir, const struct level *l)
{
	struct stat st;
	int ret = fm_tsys_fstat(dirfd(dir), &st);

	if (ret < 0)
		return ret;
	if (st.st_ino != l->ino || !is_same_time(&st.st_ctim, &l->changed))
		return -ESTALE;
	seekdir(dir, l->cookie);
	return 0;
}

/* The innermost one is open, below is what was just now. */
static int unshelve(struct fm_descent *d, int below)
{
	DIR **at = open_of(d, d->depth - 1);
	int fd;

	if (*at)
		return 0;
	fd = FM_FAULT("descent.up") ? (errno = EMFILE, -1)
				    : openat(below, "..", DIR_FLAGS | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*at = FM_FAULT("descent.opendir") ? NULL : fdopendir(fd);
	if (!*at) {
		(void)close(fd);	/* only read */
		return -ENOMEM;
	}
	return find_again(*at, &d->levels[d->depth - 1]);
}

/* Out of the innermost directory. After an error there is no way further up. */
static int pop(struct fm_descent *d)
{
	DIR *left = *open_of(d, d->depth - 1);
	int ret;

	*open_of(d, d->depth - 1) = NULL;
	d->depth--;
	ret = d->depth > 0 ? unshelve(d, dirfd(left)) : 0;
	give_mode_back(d, &d->levels[d->depth], dirfd(left));
	(void)closedir(left);	/* only read */
	return ret;
}

/* ---- from outside ---- */

int fm_descent_begin(int parent, const char *name, struct fm_descent **out)
{
	struct fm_descent *d = FM_FAULT("descent.alloc") ? NULL : fm_budget_alloc(sizeof(*d));
	struct level l = { .is_closed = false };
	int fd, ret;

	if (!d)
		return -ENOMEM;
	ret = fd = open_dir(parent, name, &l);
	if (fd >= 0)
		ret = push(d, fd, l);
	if (ret < 0) {
		fm_descent_end(d);
		return ret;
	}
	*out = d;
	return 0;
}

static int is_dir(int dir, const struct dirent *entry, bool *out)
{
	struct stat st;
	int ret;

	*out = entry->d_type == DT_DIR;
	if (entry->d_type != DT_UNKNOWN && !FM_FAULT("descent.unknown"))
		return 0;
	ret = fm_tsys_fstatat(dir, entry->d_name, &st);
	*out = ret == 0 && S_ISDIR(st.st_mode);
	return ret == -ENOENT ? 0 : ret;	/* it went */
}

int fm_descent_next(struct fm_descent *d, struct fm_descent_at *out)
{
	const struct dirent *entry;
	int ret;

	while (d->depth > 0) {
		errno = 0;
		entry = FM_FAULT("descent.readdir") ? (errno = EIO, NULL)
						    : readdir(*open_of(d, d->depth - 1));
		if (!entry) {
			ret = errno ? -errno : pop(d);
			if (ret < 0)
				return ret;
		} else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
			*out = (struct fm_descent_at){ .dir = innermost(d), .name = entry->d_name };
			ret = is_dir(out->dir, entry, &out->is_dir);
			return ret < 0 ? ret : 1;
		}
	}
	return 0;
}

int fm_descent_enter(struct fm_descent *d, const struct fm_descent_at *at)
{
	struct level l = { .is_closed = false };
	int fd = open_dir(at->dir, at->name, &l);

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	return fd < 0 ? fd : push(d, fd, l);
}

void fm_descent_end(struct fm_descent *d)
{
	if (!d)
		return;
	while (d->depth > 0 && d->closed > 0 && *open_of(d, d->depth - 1))
		(void)pop(d);	/* an error ends the way up */
	for (unsigned i = 0; i < OPEN_MAX; i++)
		if (d->open[i])
			(void)closedir(d->open[i]);	/* only read */
	fm_budget_free(d->levels);
	fm_budget_free(d);
}
