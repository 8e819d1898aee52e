/* SPDX-License-Identifier: MIT */
/* former - see former.h. */
#include "client/lib/former.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/tree/descent.h"
#include "mover/tree/stash.h"
#include "mover/tree/tsys.h"
#include "mover/tree/wanted.h"

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);	/* it exists */
	return fm_time_ns(&now);
}

static int64_t ctime_of(const struct stat *st)
{
	return fm_time_ns(&st->st_ctim);
}

int64_t fm_former_until_ns(void)
{
	return now_ns() + (int64_t)FM_FORMER_KEEP_NS;
}

/* ---- finding them ---- */

struct place {
	int parent;
	struct fm_former is;
};

/*
 * Looks whether the name is that of a stash, and what it holds. 1: it is one; 0: it is not;
 * negative: nobody can say.
 */
static int find(int parent, const char *name, struct place *p)
{
	struct stat st;
	int ret;

	*p = (struct place){ .parent = parent };
	if (fm_staging_kind(name) != FM_STAGING_OLD)
		return 0;
	ret = fm_tsys_fstatat(parent, name, &st);
	if (ret == 0)
		ret = fm_stash_look(parent, name, p->is.name);
	if (ret <= 0)
		return ret == -ENOENT ? 0 : ret;
	p->is.since_ns = ctime_of(&st);
	memcpy(p->is.stash, name, strlen(name) + 1);	/* of that kind, so of that length */
	return 1;
}

/* fn: false ends it. */
struct search {
	bool (*fn)(void *ctx, struct place *p);
	void *ctx;
	int failed;			/* one could not be looked at */
};

static int meet(void *ctx, int dir, const char *name)
{
	struct search *s = ctx;
	struct place p;
	int ret = find(dir, name, &p);

	if (ret < 0)
		s->failed = ret;
	return ret > 0 && !s->fn(s->ctx, &p);
}

static int each_former(int parent, bool (*fn)(void *ctx, struct place *p), void *ctx)
{
	struct search s = { .fn = fn, .ctx = ctx };
	int ret = fm_tsys_each_name(parent, meet, &s);

	return ret < 0 ? ret : s.failed;
}

/*
 * The bytes that removing this directory would free: its files without another name, as far as it
 * can be read.
 */
static uint64_t bytes_of(const struct place *p)
{
	struct fm_descent_at at;
	struct fm_descent *d;
	uint64_t bytes = 0;
	struct stat st;
	int ret;

	if (!p->is.name[0] || fm_descent_begin(p->parent, p->is.stash, &d) < 0)
		return 0;
	do {
		ret = fm_descent_next(d, &at);
		if (ret > 0 && at.is_dir)
			ret = fm_descent_enter(d, &at) < 0 ? -1 : 1;
		else if (ret > 0 && fm_tsys_fstatat(at.dir, at.name, &st) == 0 &&
			 S_ISREG(st.st_mode) && st.st_nlink == 1)
			bytes += (uint64_t)st.st_blocks * 512;
	} while (ret > 0);
	fm_descent_end(d);
	return bytes;
}

/* As fm_stash_wanted(). */
static int wanted_of(const struct place *p)
{
	int wanted = fm_stash_wanted(p->parent, p->is.stash);

	return wanted == -ENOENT ? FM_WANTED_NOTHING : wanted;	/* it is gone */
}

/* ---- removing them ---- */

static bool is_older(int64_t since_ns, uint64_t older_ns)
{
	int64_t at_ns = now_ns();

	if (FM_FAULT("former.old"))	/* its ctime nobody can set */
		return true;
	return older_ns == 0 || (at_ns > since_ns && (uint64_t)(at_ns - since_ns) >= older_ns);
}

/*
 * Rule of fm_stash_rule: the stash may go if it is no younger than the one that was found, and
 * judged, under that name.
 */
static int nothing_if_as_old(const void *ctx, enum fm_staging_kind kind, const struct stat *stash)
{
	const struct fm_former *found = ctx;

	(void)kind;
	return ctime_of(stash) <= found->since_ns ? (int)FM_WANTED_NOTHING : -EAGAIN;
}

/*
 * Removes a stash. -EAGAIN: another one has that name now. Files that somebody else put into it
 * stay, and then so does the stash: that is success.
 */
static int remove_one(const struct place *p)
{
	const struct fm_stash_rule rule = { .at_most = nothing_if_as_old, .ctx = &p->is };
	int ret = fm_stash_remove_by(p->parent, p->is.stash, &rule, NULL);

	return ret == -ENOTEMPTY ? 0 : ret;
}

struct removal {
	uint64_t older_ns;
	bool is_dry;
	bool (*each)(void *ctx, const struct fm_former *f);
	void *ctx;
	struct fm_err *err;		/* of the first that stays */
	unsigned stay;
};

/*
 * Why a stash was not removed; 0: it was. wanted: the result of fm_stash_wanted(). ret: the result
 * of removing it.
 */
static int why_it_stays(const struct place *p, int wanted, int ret, struct fm_err *err)
{
	if (wanted == -EXDEV)
		return fm_err_set(
			err, wanted,
			"\"%s\" stays: another file system is mounted in it; unmount it first",
			p->is.stash);
	if (wanted < 0)
		return fm_err_sys(err, wanted,
				  "\"%s\" stays: look whether a transfer goes on in it",
				  p->is.stash);
	if (wanted > 0 || ret == -EBUSY)
		return fm_err_set(err, -EBUSY, "\"%s\" stays: " FM_STAGING_WANTED, p->is.stash);
	return ret < 0 ? fm_err_sys(err, ret, "remove \"%s\", which is kept aside", p->is.stash)
		       : 0;
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

	if (!is_older(p->is.since_ns, r->older_ns))
		return true;
	p->is.bytes = r->each ? bytes_of(p) : 0;
	wanted = wanted_of(p);
	ret = wanted != FM_WANTED_NOTHING || r->is_dry ? 0 : remove_one(p);
	if (ret == -EAGAIN)
		return true;
	if (why_it_stays(p, wanted, ret, &why) < 0 && r->stay++ == 0)
		*r->err = why;
	return !r->each || r->each(r->ctx, why.code == 0 && p->is.name[0] ? &p->is : NULL);
}

int fm_former_remove(int parent, uint64_t older_ns, bool is_dry,
		     bool (*each)(void *ctx, const struct fm_former *f), void *ctx,
		     struct fm_err *err)
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

/*
 * Those that may go, as one look found them. Of more than there is memory for, the older half is
 * remembered, and those are the oldest of all: the others take another look.
 */
#define AGED_MAX 1024u

struct aged {
	int64_t since_ns;
	char stash[FM_STAGING_NAME_LEN + 1];
};

struct crowd {
	struct aged one[AGED_MAX];
	size_t count;
	bool is_cut;
	uint64_t bytes;			/* of all */
};

static int by_age(const void *a, const void *b)
{
	const struct aged *x = a, *y = b;

	return (x->since_ns > y->since_ns) - (x->since_ns < y->since_ns);
}

static void cut(struct crowd *c)
{
	qsort(c->one, c->count, sizeof(c->one[0]), by_age);
	if (c->is_cut && c->count > AGED_MAX / 2)
		c->count = AGED_MAX / 2;
}

static bool add_aged(void *ctx, struct place *p)
{
	struct crowd *c = ctx;
	struct aged *a;

	if (!p->is.name[0] || wanted_of(p) != FM_WANTED_NOTHING)
		return true;
	if (c->count == AGED_MAX) {
		c->is_cut = true;
		cut(c);
	}
	a = &c->one[c->count++];
	a->since_ns = p->is.since_ns;
	memcpy(a->stash, p->is.stash, sizeof(a->stash));
	c->bytes += bytes_of(p);
	return true;
}

/* Whether any went: the oldest, until so many bytes are free. */
static bool remove_oldest(int parent, const struct crowd *c, uint64_t bytes, uint64_t *is_free)
{
	bool any = false;

	for (size_t i = 0; i < c->count && *is_free < bytes; i++) {
		struct place p = { .parent = parent, .is.since_ns = c->one[i].since_ns };

		memcpy(p.is.stash, c->one[i].stash, sizeof(p.is.stash));
		if (wanted_of(&p) != FM_WANTED_NOTHING || remove_one(&p) < 0)
			continue;
		any = true;
		if (fm_tsys_free_bytes(parent, is_free) < 0)
			return false;
	}
	return any;
}

/* One look, and what it finds. Whether it is worth another one, if that is not enough. */
static bool remove_some(int parent, struct crowd *c, uint64_t bytes, uint64_t *is_free)
{
	c->count = 0;
	c->bytes = 0;
	c->is_cut = false;
	if (each_former(parent, add_aged, c) < 0 || bytes - *is_free > c->bytes)
		return false;
	cut(c);
	return remove_oldest(parent, c, bytes, is_free) && c->is_cut;
}

bool fm_former_make_room(int parent, uint64_t bytes)
{
	struct crowd *c;
	uint64_t is_free;

	if (fm_tsys_free_bytes(parent, &is_free) < 0)
		return false;
	if (is_free >= bytes)
		return true;
	c = malloc(sizeof(*c));
	while (c && is_free < bytes && remove_some(parent, c, bytes, &is_free)) {
	}
	free(c);
	return is_free >= bytes;
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

/* Whether a component of the path is a name that fmove gives to what it keeps aside. */
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

/*
 * Opens a noted path. It had no symbolic link in it, and gets none from a get: one that is there
 * now was made by somebody who may rename, but not write, where it leads.
 */
static int open_noted(const char *path)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

	if (root < 0)
		return -errno;
	fd = fm_call_open_below(root, path[1] ? path + 1 : ".", O_RDONLY | O_DIRECTORY, 0,
				RESOLVE_NO_SYMLINKS);
	(void)close(root);
	return fd;
}

static int fail_noted(const char *path, int code, struct fm_err *err)
{
	if (code == -ELOOP)
		return fm_err_set(err, code,
				  "%s: a symbolic link is in this path by now, which was not there "
				  "when this began: what came is not put where that leads",
				  path);
	return fm_err_sys(err, code,
			  "directory %s, of which another get put the version that was there aside",
			  path);
}

int fm_former_find_other(const char *path, int held, int *fd, struct fm_err *err)
{
	char now[PATH_MAX];
	struct stat was, is;
	bool is_same;

	fm_former_note_path(held, now);
	if (path[0] != '/' || !is_aside(now) || is_aside(path))
		return 0;
	*fd = open_noted(path);
	if (*fd < 0)
		return fail_noted(path, *fd, err);
	is_same = fm_tsys_fstat(held, &was) < 0 || fm_tsys_fstat(*fd, &is) < 0 ||
		  (was.st_ino == is.st_ino && was.st_dev == is.st_dev);
	if (is_same)
		(void)close(*fd);	/* only read */
	return is_same ? 0 : 1;
}
