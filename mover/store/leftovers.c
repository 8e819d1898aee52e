/* SPDX-License-Identifier: MIT */
/* leftovers - see leftovers.h. */
#include "mover/store/leftovers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/journal/partial.h"
#include "mover/store/path.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"
#include "mover/tree/remove.h"
#include "mover/tree/unfinished.h"

struct search {
	struct fm_store_dir *dir;
	const char *after;
	bool is_dry;
	struct fm_space_page *out;
	struct fm_err failed;		/* the first of those that stay */
};

static void freed(void *ctx, int64_t bytes)
{
	fm_usage_sub(&((struct fm_store_dir *)ctx)->usage, bytes < 0 ? (uint64_t)-bytes : 0);
}

/*
 * Keeps the entry if it is among the first by path, in order. If the page is full, the last one
 * goes.
 */
static void keep_first(struct fm_space_page *out, const struct fm_aside *one)
{
	size_t at = out->count;

	while (at > 0 && strcmp(out->aside[at - 1].path, one->path) > 0)
		at--;
	if (out->count == FM_SPACE_ASIDE_MAX) {
		out->is_more = true;
		if (at == out->count)
			return;
		out->count--;
	}
	memmove(&out->aside[at + 1], &out->aside[at], (out->count - at) * sizeof(out->aside[0]));
	out->aside[at] = *one;
	out->count++;
}

static void note(struct search *s, const struct fm_unfinished *u, const char *path)
{
	struct fm_aside one = { .bytes = u->bytes, .since_ns = u->changed_ns };
	size_t len = strlen(path), room = sizeof(one.path) - len;

	memcpy(one.path, path, len + 1);
	if (u->name[0] && snprintf(one.path + len, room, "/%s", u->name) >= (int)room)
		one.path[len] = '\0';	/* too long: that is not told */
	if (s->is_dry)
		keep_first(s->out, &one);
	else
		s->out->aside[s->out->count++] = one;
}

/*
 * Opens a partial file that is ours by its owner, and that nobody uses, as its lock tells. With
 * is_dry the lock is only looked at.
 */
static int claim(const struct search *s, int dir, const char *name, struct stat *st)
{
	int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), ret;
	struct stat by_name;

	if (fd < 0)
		return -errno;
	ret = s->is_dry ? fm_partial_is_busy(dir, name) : fm_partial_lock(fd);
	if (ret == 0)
		ret = fm_sys_fstat(fd, st);
	if (ret == 0)
		ret = fm_sys_fstatat(dir, name, &by_name);
	if (ret == 0 && S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
	    st->st_ino == by_name.st_ino)
		return fd;
	close(fd);
	return -EPERM;
}

static int remove_claimed(const struct search *s, int dir, const char *name, const struct stat *st)
{
	int ret = fm_sys_unlinkat(dir, name, 0);

	if (ret == 0)
		freed(s->dir, -(int64_t)st->st_size);
	return ret;
}

/*
 * Removes a partial file that nobody can go on with: it came from a pipe, which has no journal.
 * -EPERM: it did not.
 */
static int remove_lost(const struct search *s, int dir, const char *name)
{
	char journal_name[FM_PARTIAL_NAME_MAX + 1];
	struct stat st;
	uint64_t hash;
	int file, ret;

	if (fm_partial_parse(name, &hash) != FM_PARTIAL_FILE)
		return -EPERM;
	fm_partial_name(hash, FM_PARTIAL_JOURNAL, journal_name);
	if (fm_sys_fstatat(dir, journal_name, &st) != -ENOENT)
		return -EPERM;
	file = claim(s, dir, name, &st);
	if (file < 0)
		return -EPERM;
	ret = s->is_dry ? 0 : remove_claimed(s, dir, name, &st);
	close(file);
	return ret;
}

static void take(struct search *s, const struct fm_walk_at *at, const char *path)
{
	const struct fm_tree_freed told = { .used = freed, .ctx = s->dir };
	struct fm_unfinished u;
	struct fm_err why;
	int ret = fm_unfinished_look(at->dir, at->name, at->is_dir, &u);

	/* A .kept is of a transfer that came to its end, and listed with what is kept aside. */
	if (ret == 0 || fm_staging_kind(at->name) == FM_STAGING_KEPT)
		return;
	if (ret < 0)
		ret = fm_err_sys(&why, ret, "look at what is unfinished");
	else
		ret = fm_unfinished_remove(at->dir, &u, s->is_dry, &told, &why);
	if (ret == -EPERM && remove_lost(s, at->dir, at->name) == 0)
		ret = 0;
	if (ret < 0) {
		if (s->failed.code == 0)
			s->failed = why;
		return;
	}
	if (!s->is_dry || strcmp(path, s->after) > 0)
		note(s, &u, path);
}

static int search(struct search *s, struct fm_walk *walk)
{
	char path[FM_PATH_LEN_MAX + 1];
	struct fm_walk_at at;
	int ret;

	while ((ret = fm_walk_next(walk, &at)) > 0 || fm_walk_goes_on(walk, ret)) {
		if (ret < 0 || at.is_leaving || !fm_path_is_reserved(at.name) ||
		    fm_walk_path(walk, &at, path, sizeof(path)) < 0)
			continue;
		if (!s->is_dry && s->out->count == FM_SPACE_ASIDE_MAX) {
			s->out->is_more = true;
			return 0;
		}
		if (at.is_dir)
			fm_walk_skip(walk);	/* what is in there is that transfer's */
		take(s, &at, path);
	}
	return ret;
}

int fm_leftovers_page(struct fm_store_dir *dir, const char *after, bool is_dry,
		      struct fm_space_page *out, struct fm_err *err)
{
	struct search s = { .dir = dir, .after = after, .is_dry = is_dry, .out = out };
	struct fm_walk *walk = fm_sys_alloc(sizeof(*walk));
	int fd, ret;

	out->count = 0;
	out->is_more = false;
	if (!walk)
		return fm_err_set(err, -ENOMEM, "look for what is unfinished: out of memory");
	ret = fd = fm_sys_open_beneath(dir->root, ".", O_RDONLY | O_DIRECTORY);
	if (fd >= 0)
		ret = fm_walk_start(walk, fd);
	if (ret >= 0)
		ret = search(&s, walk);
	if (fd >= 0)
		fm_walk_end(walk);
	free(walk);
	if (ret < 0)
		return fm_err_sys(err, ret, "look for what is unfinished");
	/* what failed is said by the page that has nothing else to say */
	out->is_more = (out->is_more || s.failed.code < 0) && out->count > 0;
	if (out->count == 0 && s.failed.code < 0)
		*err = s.failed;
	return out->count > 0 ? 0 : s.failed.code;
}
