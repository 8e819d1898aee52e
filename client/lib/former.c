/* SPDX-License-Identifier: MIT */
/* former - see former.h. */
#include "client/lib/former.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/tree/descent.h"
#include "mover/tree/stash.h"
#include "mover/tree/remove.h"
#include "mover/tree/tsys.h"
#include "mover/tree/wanted.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)
#define MARK ".fmove.former"
#define MARK_LEN 16	/* hex digits */
#define TRIES_MAX 16

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);	/* it exists */
	return (int64_t)now.tv_sec * (int64_t)FM_NS_PER_S + now.tv_nsec;
}

int64_t fm_former_until_ns(void)
{
	return now_ns() + (int64_t)FM_FORMER_KEEP_NS;
}

/* ---- a directory, name by name ---- */

typedef bool (*name_fn)(void *ctx, int dir, const char *name);

/* fn for each name, until it says false. */
static int each_name(int dir, name_fn fn, void *ctx)
{
	int fd = fm_tsys_open(dir, ".", DIR_FLAGS, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int ret;

	if (!d) {
		ret = fd < 0 ? fd : -errno;
		if (fd >= 0)
			(void)close(fd);	/* only read */
		return ret;
	}
	do {
		errno = 0;
		e = readdir(d);
		ret = e ? 0 : -errno;
	} while (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		       fn(ctx, dir, e->d_name)));
	(void)closedir(d);
	return ret;
}

static bool note_any(void *ctx, int dir, const char *name)
{
	(void)dir;
	(void)name;
	*(bool *)ctx = true;
	return false;
}

/* 1, 0, or why nobody can say. */
static int is_empty(int dir)
{
	bool has_any = false;
	int ret = each_name(dir, note_any, &has_any);

	return ret < 0 ? ret : !has_any;
}

/* Nobody but us can have put anything there. */
static bool is_private(const struct stat *st)
{
	return st->st_uid == geteuid() && (st->st_mode & 0077) == 0;
}

/* ---- putting one there ---- */

static int write_mark(int stash, uint64_t ino)
{
	int fd = fm_tsys_open(stash, MARK, O_WRONLY | O_CREAT | O_EXCL, 0600), ret, closed;
	char text[MARK_LEN + 1];

	if (fd < 0)
		return fd;
	(void)snprintf(text, sizeof(text), "%016" PRIx64, ino);
	ret = fm_tsys_write_all(fd, text, MARK_LEN, 0);
	closed = fm_tsys_close(fd);
	return ret < 0 ? ret : closed;
}

static void drop_stash(int parent, const char *name, int stash)
{
	(void)unlinkat(stash, MARK, 0);	/* what is left does no harm, and goes later */
	(void)unlinkat(parent, name, AT_REMOVEDIR);
	(void)close(stash);	/* only read */
}

/*
 * Open, with its mark. Others may write to the parent, and put something else under the name
 * between two calls: only an empty directory that nobody else may enter gets a mark.
 */
static int make_stash(int parent, uint64_t ino, char name[FM_STAGING_NAME_LEN + 1])
{
	struct stat st;
	int ret, fd;

	fm_staging_name(FM_STAGING_OLD, "", name);
	ret = fm_tsys_mkdir(parent, name);
	if (ret < 0)
		return ret;
	fd = fm_tsys_open(parent, name, DIR_FLAGS, 0);
	if (fd < 0)
		return fd;
	if (fm_tsys_fstat(fd, &st) < 0 || !is_private(&st) || is_empty(fd) != 1) {
		(void)close(fd);	/* only read */
		return -EPERM;
	}
	ret = write_mark(fd, ino);
	if (ret == 0)
		return fd;
	drop_stash(parent, name, fd);
	return ret;
}

int fm_former_keep(int dir, const char *from, uint64_t ino, const char *name, char stash[FM_STAGING_NAME_LEN + 1])
{
	const struct fm_stash_what what = { .dir = dir, .from = from, .ino = ino, .name = name };
	int ret = -EEXIST, fd;

	/* -ENOENT: somebody who clears up found the stash while nothing was in it. */
	for (int i = 0; i < TRIES_MAX && (ret == -EEXIST || ret == -ENOENT); i++) {
		ret = fd = make_stash(dir, ino, stash);
		if (fd < 0)
			continue;
		ret = fm_stash_move_in(&what, fd);
		if (ret == 0)
			(void)close(fd);	/* only read */
		else
			drop_stash(dir, stash, fd);
	}
	return ret;
}

/* ---- finding them ---- */

/* A stash, open. */
struct place {
	int parent;
	int stash;
	uint64_t ino;			/* of what is in it */
	bool has_mark;
	bool is_going;			/* who removed it died: a stash of the tree's sink (tree/stash.h) */
	int failed;			/* a name in it could not be looked at */
	struct fm_former is;
};

/* Whether it is something of another kind, or another's: nobody's fault, and none of ours. */
static bool is_none(int ret)
{
	return ret == -ENOENT || ret == -ENOTDIR || ret == -ELOOP || ret == -EXDEV || ret == -ENXIO ||
	       ret == -EACCES || ret == -EPERM;
}

/* 1: p->ino is what it says; 0: there is none; or why nobody can say. */
static int read_mark(struct place *p)
{
	char text[MARK_LEN + 1] = "";
	int fd = fm_tsys_open(p->stash, MARK, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0), ret;
	struct stat st;

	if (fd < 0)
		return is_none(fd) ? 0 : fd;
	ret = fm_tsys_fstat(fd, &st);
	if (ret == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
		ret = pread(fd, text, MARK_LEN, 0) < 0 ? -errno
						       : strspn(text, "0123456789abcdef") == MARK_LEN;
	(void)close(fd);	/* only read */
	p->has_mark = ret > 0;
	if (p->has_mark)
		p->ino = strtoull(text, NULL, 16);
	return ret;
}

static bool take_name(void *ctx, int dir, const char *name)
{
	struct place *p = ctx;
	struct stat st;
	int ret = fm_tsys_fstatat(dir, name, &st);

	p->failed = ret < 0 && ret != -ENOENT ? ret : p->failed;
	if (ret < 0 || !S_ISDIR(st.st_mode) || st.st_ino != p->ino)
		return true;
	(void)snprintf(p->is.name, sizeof(p->is.name), "%s", name);	/* a name has 255 bytes at most */
	return false;
}

/* As find(). */
static int look_into(struct place *p)
{
	struct stat st;
	int ret = fm_tsys_fstat(p->stash, &st);

	if (ret < 0)
		return ret;
	p->is.since_ns = (int64_t)st.st_ctim.tv_sec * (int64_t)FM_NS_PER_S + st.st_ctim.tv_nsec;
	if (!is_private(&st))
		return 0;
	ret = read_mark(p);
	if (ret <= 0)
		return ret < 0 ? ret : is_empty(p->stash);
	ret = each_name(p->stash, take_name, p);
	if (ret == 0 && !p->is.name[0])		/* what could not be looked at may be it */
		ret = p->failed;
	return ret < 0 ? ret : 1;
}

/* What a get, or a purge, that died was removing. As find(). */
static int look_for_going(struct place *p)
{
	int ret = fm_stash_look(p->parent, p->is.stash, p->is.name);

	p->is_going = ret > 0;
	return ret == -ENOENT ? 0 : ret;
}

/* 1: it is one, and p->stash the caller's; 0: it is not; or why nobody can say. */
static int find(int parent, const char *name, struct place *p)
{
	int ret;

	*p = (struct place){ .parent = parent };
	if (fm_staging_kind(name) != FM_STAGING_OLD)
		return 0;
	p->stash = fm_tsys_open_unmounted(parent, name, DIR_FLAGS);
	if (p->stash < 0)
		return is_none(p->stash) ? 0 : p->stash;
	memcpy(p->is.stash, name, strlen(name) + 1);	/* of that kind, so of that length */
	ret = look_into(p);
	if (ret == 0)
		ret = look_for_going(p);
	if (ret <= 0)
		(void)close(p->stash);	/* only read */
	return ret;
}

/* fn: false ends it. */
struct search {
	bool (*fn)(void *ctx, struct place *p);
	void *ctx;
	int failed;			/* one could not be looked at */
};

static bool meet(void *ctx, int dir, const char *name)
{
	struct search *s = ctx;
	bool goes_on = true;
	struct place p;
	int ret = find(dir, name, &p);

	if (ret < 0)
		s->failed = ret;
	if (ret > 0) {
		goes_on = s->fn(s->ctx, &p);
		(void)close(p.stash);	/* only read */
	}
	return goes_on;
}

static int each_former(int parent, bool (*fn)(void *ctx, struct place *p), void *ctx)
{
	struct search s = { .fn = fn, .ctx = ctx };
	int ret = each_name(parent, meet, &s);

	return ret < 0 ? ret : s.failed;
}

/* Of the files that have no other name; as far as it can be read. */
static uint64_t bytes_of(const struct place *p)
{
	struct fm_descent_at at;
	struct fm_descent *d;
	uint64_t bytes = 0;
	struct stat st;
	int ret;

	if (!p->is.name[0] || fm_descent_begin(p->stash, p->is.name, &d) < 0)
		return 0;
	do {
		ret = fm_descent_next(d, &at);
		if (ret > 0 && at.is_dir)
			ret = fm_descent_enter(d, &at) < 0 ? -1 : 1;
		else if (ret > 0 && fm_tsys_fstatat(at.dir, at.name, &st) == 0 && S_ISREG(st.st_mode) &&
			 st.st_nlink == 1)
			bytes += (uint64_t)st.st_blocks * 512;
	} while (ret > 0);
	fm_descent_end(d);
	return bytes;
}

/* As fm_wanted_in(). */
static int wanted_of(const struct place *p)
{
	return p->is.name[0] ? fm_wanted_in(p->stash, p->is.name) : FM_WANTED_NOTHING;
}

/* ---- removing them ---- */

/* What else somebody put into the stash stays, and the stash with it. */
static int remove_one(const struct place *p)
{
	int ret;

	if (p->is_going)
		return fm_stash_remove(p->parent, p->is.stash, NULL);
	ret = p->is.name[0] ? fm_tree_remove(p->stash, p->is.name, NULL) : 0;
	if (ret == 0 && p->has_mark)
		ret = fm_tsys_unlink(p->stash, MARK, 0);
	if (ret == 0)
		ret = fm_tsys_unlink(p->parent, p->is.stash, AT_REMOVEDIR);
	return ret == -ENOENT || ret == -ENOTEMPTY ? 0 : ret;	/* -ENOENT: somebody else did the same */
}

struct removal {
	uint64_t older_ns;
	bool is_dry;
	void (*each)(void *ctx, const struct fm_former *f);
	void *ctx;
	struct fm_err *err;		/* of the first that stays */
	unsigned stay;
};

static bool is_older(const struct place *p, uint64_t older_ns)
{
	int64_t at_ns = now_ns();

	if (FM_FAULT("former.old"))	/* its ctime nobody can set */
		return true;
	return older_ns == 0 || (at_ns > p->is.since_ns && (uint64_t)(at_ns - p->is.since_ns) >= older_ns);
}

/* wanted: as fm_wanted_in(); ret: of its removal. 0: it does not. */
static int why_it_stays(const struct place *p, int wanted, int ret, struct fm_err *err)
{
	if (wanted == -EXDEV)
		return fm_err_set(err, wanted, "\"%s\" stays: another file system is mounted in it; unmount it first", p->is.stash);
	if (wanted < 0)
		return fm_err_sys(err, wanted, "\"%s\" stays: look whether a transfer goes on in it", p->is.stash);
	if (wanted > 0)
		return fm_err_set(err, -EBUSY, "\"%s\" stays: " FM_STAGING_WANTED, p->is.stash);
	return ret < 0 ? fm_err_sys(err, ret, "remove \"%s\", which is kept aside", p->is.stash) : 0;
}

void fm_former_count_staying(struct fm_err *err, unsigned count)
{
	const struct fm_err first = *err;

	if (count > 1)
		(void)fm_err_set(err, first.code, "%s; %u more stay", first.text, count - 1);
}

static bool remove_old(void *ctx, struct place *p)
{
	struct removal *r = ctx;
	struct fm_err why = { .code = 0 };
	int wanted, ret;

	if (!is_older(p, r->older_ns))
		return true;
	p->is.bytes = r->each ? bytes_of(p) : 0;
	wanted = wanted_of(p);
	ret = wanted != FM_WANTED_NOTHING || r->is_dry ? 0 : remove_one(p);
	if (why_it_stays(p, wanted, ret, &why) < 0 && r->stay++ == 0)
		*r->err = why;
	else if (why.code == 0 && r->each && p->is.name[0])
		r->each(r->ctx, &p->is);
	return true;
}

int fm_former_remove(int parent, uint64_t older_ns, bool is_dry,
		     void (*each)(void *ctx, const struct fm_former *f), void *ctx, struct fm_err *err)
{
	struct removal r = { older_ns, is_dry, each, ctx, err, 0 };
	int ret = each_former(parent, remove_old, &r);

	if (ret < 0)
		return fm_err_sys(err, ret, "look through what is kept aside");
	fm_former_count_staying(err, r.stay);
	return r.stay > 0 ? err->code : 0;
}

/* ---- room ---- */

struct sum {
	uint64_t *count;
	uint64_t *bytes;
};

static bool add_up(void *ctx, struct place *p)
{
	const struct sum *s = ctx;

	*s->count += p->is.name[0] != '\0';
	*s->bytes += bytes_of(p);
	return true;
}

int fm_former_sum(int parent, uint64_t *count, uint64_t *bytes, struct fm_err *err)
{
	struct sum s = { .count = count, .bytes = bytes };
	int ret;

	*count = *bytes = 0;
	ret = each_former(parent, add_up, &s);
	return ret < 0 ? fm_err_sys(err, ret, "look through what is kept aside") : 0;
}

static bool add_bytes(void *ctx, struct place *p)
{
	*(uint64_t *)ctx += wanted_of(p) == FM_WANTED_NOTHING ? bytes_of(p) : 0;
	return true;
}

static bool take_oldest(void *ctx, struct place *p)
{
	struct fm_former *oldest = ctx;

	if (p->is.name[0] && (!oldest->stash[0] || p->is.since_ns < oldest->since_ns) &&
	    wanted_of(p) == FM_WANTED_NOTHING)
		*oldest = p->is;
	return true;
}

static bool remove_oldest(int parent)
{
	struct fm_former oldest = { .since_ns = 0 };
	struct place p;
	int ret;

	if (each_former(parent, take_oldest, &oldest) < 0 || !oldest.stash[0] ||
	    find(parent, oldest.stash, &p) <= 0)
		return false;
	ret = remove_one(&p);
	(void)close(p.stash);	/* only read */
	return ret == 0;
}

bool fm_former_make_room(int parent, uint64_t bytes)
{
	uint64_t kept = 0, is_free;

	if (each_former(parent, add_bytes, &kept) < 0 || fm_tsys_free_bytes(parent, &is_free) < 0 ||
	    (is_free < bytes && bytes - is_free > kept))
		return false;
	while (is_free < bytes)
		if (!remove_oldest(parent) || fm_tsys_free_bytes(parent, &is_free) < 0)
			return false;
	return true;
}

/* ---- where a path leads by now ---- */

void fm_former_note_path(int dir, char path[PATH_MAX])
{
	char name[64];
	ssize_t len;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", dir);
	len = readlink(name, path, PATH_MAX - 1);
	path[len > 0 ? len : 0] = '\0';
}

/* Whether one of its names is of what fmove puts aside. */
static bool is_aside(const char *path)
{
	char name[FM_STAGING_NAME_LEN + 1];

	while (*path) {
		size_t len = strcspn(path, "/");

		(void)snprintf(name, sizeof(name), "%.*s", (int)len, path);
		if (len < sizeof(name) && fm_staging_kind(name) != FM_STAGING_NONE)
			return true;
		path += len + (path[len] == '/');
	}
	return false;
}

int fm_former_find_other(const char *path, int held, int *fd, struct fm_err *err)
{
	char now[PATH_MAX];
	struct stat was, is;
	bool is_same;

	fm_former_note_path(held, now);
	if (!path[0] || !is_aside(now) || is_aside(path))
		return 0;
	*fd = open(path, DIR_FLAGS | O_CLOEXEC);
	if (*fd < 0)
		return fm_err_sys(err, -errno, "directory %s, of which another get put the version "
				  "that was there aside", path);
	is_same = fm_tsys_fstat(held, &was) < 0 || fm_tsys_fstat(*fd, &is) < 0 ||
		  (was.st_ino == is.st_ino && was.st_dev == is.st_dev);
	if (is_same)
		(void)close(*fd);	/* only read */
	return is_same ? 0 : 1;
}
